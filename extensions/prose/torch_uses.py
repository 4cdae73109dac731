"""Names of torch in code: which, where they stand, and links in their places.

What a program imports says what a short name means. Imports neither Sphinx nor
torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import pairwise

# As everyone imports them, and as prose writes them.
USUAL = {
    "torch": "torch",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "optim": "torch.optim",
}


@dataclass(frozen=True)
class Use:
    """A name of torch in some code."""

    name: str
    """The whole name; of a member of an unknown object, ``owner.member``,
    where the owner may have no name."""
    start: int
    """Where the first part begins, in characters from the first."""
    ends: tuple[int, ...]
    """Where the root ends, and each part behind it."""
    is_member: bool = False
    """Whether the code does not tell what the owner is."""

    def end_of(self, name: str) -> int:
        """Return where a name ends that this one is, or begins with."""
        missing = self.name.count(".") - name.count(".")
        return self.ends[max(-1 - missing, -len(self.ends))]


def _tree_of(code: str) -> ast.Module | None:
    """Return the syntax tree of some code; none if it is not Python."""
    try:
        return ast.parse(code)
    except SyntaxError:
        return None


@cache  # a page with cells of others asks for each of their programs
def imports_of(code: str) -> dict[str, str]:
    """Return what each name that some code imports stands for."""
    found: dict[str, str] = {}
    for node in ast.walk(_tree_of(code) or ast.Module([], [])):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                found[each.asname or top] = each.name if each.asname else top
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                found[each.asname or each.name] = f"{node.module}.{each.name}"
    return found


def bound_in(code: str) -> set[str]:
    """Return the names that some code gives a meaning of its own."""
    found: set[str] = set()
    for node in ast.walk(_tree_of(code) or ast.Module([], [])):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def uses_in(code: str, imports: dict[str, str]) -> list[Use]:
    """Return the names of torch in some code, in their order."""
    starts = [0]
    for line in code.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = code.splitlines()

    def place(line: int, column: int) -> int:
        before = lines[line - 1].encode()[:column].decode()
        return starts[line - 1] + len(before)

    found = []
    for chain in _chains(_tree_of(code) or ast.Module([], [])):
        root, *rest = chain
        ends = tuple(
            place(node.end_lineno or 0, node.end_col_offset or 0)
            for node in chain
        )
        before = ""
        if isinstance(root, ast.Name):
            before = root.id
            whole = imports.get(root.id, "")
            parts = [whole or root.id, *(each.attr for each in rest)]
            if whole.partition(".")[0] == "torch":
                start = place(root.lineno, root.col_offset)
                found.append(Use(".".join(parts), start, ends))
                continue
            if whole:
                continue  # of another library
        for each, end in zip(rest, ends[1:], strict=True):
            name = f"{before}.{each.attr}"
            found.append(Use(name, end - len(each.attr), (end,), True))
            before = ""
    return sorted(found, key=lambda use: use.start)


_Chain = tuple[ast.expr, *tuple[ast.Attribute, ...]]


def _chains(node: ast.AST) -> Iterator[_Chain]:
    """Yield each root with the attributes that follow it, but for strings.

    Of code inside of a string, older Pythons do not know the place.
    """
    attributes: list[ast.Attribute] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node)
        node = node.value
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.Name) or attributes:
        assert isinstance(node, ast.expr)
        yield (node, *attributes)
    for child in ast.iter_child_nodes(node):
        yield from _chains(child)


Link = tuple[int, int, str]
"""Where the words of a link begin and end in some code, and its address."""

# Pygments writes each token as a span, or bare. What else is a tag stands
# around tokens, such as that of a line which is emphasized.
_TOKEN = re.compile(
    r"(?P<open><span[^>]*>(?=[^<]+</span>))?(?P<text>[^<]+)"
    r"(?P<close>(?(open)</span>))|<[^>]*>"
)
_CHARACTER = re.compile(r"&[^;]+;|.", re.DOTALL)


def linked(html: str, links: list[Link]) -> str:
    """Return the HTML of some code with links; they follow one another."""
    addresses = {start: uri for start, _, uri in links}
    ends = {end for _, end, _ in links}
    found: list[str] = []
    place = 0
    for run in _TOKEN.finditer(html):
        if run["text"] is None:
            found.append(run[0])
            continue
        characters = _CHARACTER.findall(run["text"])
        until = place + len(characters)
        inside = {at for at in [*addresses, *ends] if place < at < until}
        for first, last in pairwise(sorted({place, until, *inside})):
            text = "".join(characters[first - place : last - place])
            if first in addresses:
                uri = escape(addresses[first])
                found.append(
                    f'<a class="api reference external" href="{uri}">'
                )
            found += [run["open"] or "", text, run["close"]]
            if last in ends:
                found.append("</a>")
        place = until
    return "".join(found)
