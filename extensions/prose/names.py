"""Names that lead somewhere: those of torch, and the terms of the glossary.

A list gives the address of each name of torch, so that no build asks the
network for it; what a program imports says what a short name means. Imports
neither Sphinx nor torch.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, text_of, toml_of
from extensions.core.markdown import directive_of, line_of, parse

_GLOSSARY = "docs/glossary.md"
_TERM = re.compile(r"^\S.*$", re.MULTILINE)


def terms_of(root: Path) -> tuple[str, ...]:
    """Return the terms that the glossary defines."""
    path = root / _GLOSSARY
    return _terms_in(path, text_of(path)) if path.exists() else ()


@cached_by_content
def _terms_in(path: Path, text: str) -> tuple[str, ...]:
    found = (directive_of(token, line_of(token, 1)) for token in parse(text))
    return tuple(
        term
        for directive in found
        if directive and directive.name == "glossary"
        for term in _TERM.findall(directive.body)
    )


def definitions_in(body: str) -> str:
    """Return the body of a glossary without its terms, line by line."""
    return _TERM.sub("", body)


def forms_of(terms: tuple[str, ...]) -> dict[str, str]:
    """Return the terms by what one and several are called, in small letters.

    The longest come first.
    """
    found: dict[str, str] = {}
    for term in terms:
        several = f"{term}s"
        for ending, many in (("is", "es"), ("ch", "ches")):
            if term.endswith(ending):
                several = term.removesuffix(ending) + many
        found |= {term.lower(): term, several.lower(): term}
    return {form: found[form] for form in sorted(found, key=len, reverse=True)}


def pattern_of(forms: Mapping[str, str]) -> re.Pattern[str]:
    """Return what finds the terms in some words."""
    words = "|".join(map(re.escape, forms)) or "(?!)"
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE)


TORCH_NAMES = "docs/torch_names.toml"


@dataclass(frozen=True)
class TorchNames:
    """What the list holds."""

    base: str
    """How all addresses begin."""
    pages: Mapping[str, str]
    """By whole name: how the address of its place in the API goes on."""
    short: dict[str, str]
    """By word: the whole name that it stands for."""
    unlinked: tuple[str, ...]
    """Names that lead nowhere."""

    def known(self, name: str) -> str | None:
        """Return the listed name that a chain of parts begins with.

        ``torch.float32.itemsize`` begins with ``torch.float32``; but of
        ``torch.cuda.nothing`` the list only knows the module.
        """
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            found = ".".join(parts[:end])
            if found in self.pages or found in self.unlinked:
                place = self.pages.get(found, "")
                is_module = place.endswith(f"#module-{found}")
                return None if is_module and end < len(parts) else found
        return None

    def member(self, name: str) -> str | None:
        """Return what ``owner.member`` stands for, whatever the owner is.

        Unless the list names the owner too, it must be the member of a class:
        ``rows.stack`` may be anything.
        """
        if name in self.short:
            return self.short[name]
        found = self.short.get(name.rpartition(".")[2], "")
        of_class = found.split(".")[-2:-1]
        return found if "".join(of_class)[:1].isupper() else None


def read_names(root: Path) -> TorchNames:
    """Return the list; without the file, it is empty."""
    path = root / TORCH_NAMES
    if not path.exists():
        return TorchNames("", {}, {}, ())
    return _names_in(path, text_of(path))


@cached_by_content
def _names_in(path: Path, text: str) -> TorchNames:
    content = toml_of(path)
    base, pages = content.get("base"), content.get("pages")
    if not isinstance(base, str) or not isinstance(pages, dict):
        raise Problem(path, 1, "write base, an address, and a table [pages]")
    short = content.get("short", {})
    for word, name in short.items():
        if name not in pages:
            raise Problem(path, 1, f"{word}: [pages] has no {name}")
    return TorchNames(base, pages, short, tuple(content.get("unlinked", [])))


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
        missing = (
            0 if self.is_member else self.name.count(".") - name.count(".")
        )
        return self.ends[max(-1 - missing, -len(self.ends))]


def _tree_of(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError:  # no Python
        return ast.Module([], [])


@cache  # a page with cells of others asks for each of their programs
def imports_of(code: str) -> dict[str, str]:
    """Return what each name that some code imports stands for."""
    found: dict[str, str] = {}
    for node in ast.walk(_tree_of(code)):
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
    for node in ast.walk(_tree_of(code)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def uses_in(code: str, imports: Mapping[str, str]) -> list[Use]:
    """Return the names of torch in some code, in their order."""
    lines = code.splitlines(keepends=True)

    def place(line: int, column: int) -> int:  # which Python counts in bytes
        before = lines[line - 1].encode()[:column].decode()
        return sum(map(len, lines[: line - 1])) + len(before)

    found = []
    for root, *rest in _chains(_tree_of(code)):
        ends = tuple(
            place(node.end_lineno or 0, node.end_col_offset or 0)
            for node in (root, *rest)
        )
        owner = root.id if isinstance(root, ast.Name) else ""
        if whole := imports.get(owner, ""):
            if whole.partition(".")[0] == "torch":
                name = ".".join([whole, *(each.attr for each in rest)])
                start = place(root.lineno, root.col_offset)
                found.append(Use(name, start, ends))
            continue  # else of another library
        for each, end in zip(rest, ends[1:], strict=True):
            name = f"{owner}.{each.attr}"
            found.append(Use(name, end - len(each.attr), (end,), True))
            owner = ""
    return sorted(found, key=lambda use: use.start)


_Chain = tuple[ast.expr, *tuple[ast.Attribute, ...]]


def _chains(node: ast.AST) -> Iterator[_Chain]:
    # Each root with the attributes that follow it, but for strings: of code
    # inside of one, older Pythons do not know the place.
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
