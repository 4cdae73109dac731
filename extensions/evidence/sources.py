"""What files of Python say, read and never run: statements and imports.

Only what counts is kept of a file: no comment on a line of its own, no blank
line, no docstring, nothing that only a type checker sees, and not ``setup``,
which Sphinx calls and no test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, python_in, text_of
from extensions.core.fingerprint import digest
from extensions.core.topics import OURS

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")
_DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# What a program is asked for by the name of a cell.
_BY_CELL = {"after", "cell", "only"}
# What pytest calls by these names for each test of a module.
_CALLED = {
    "pytestmark",
    "setup_function",
    "setup_module",
    "teardown_function",
    "teardown_module",
}


@dataclass(frozen=True)
class Import:
    """A module of ours, or a name of one, as an import asks for it."""

    module: tuple[str, ...]
    name: str = ""
    level: int = 0
    """How many folders up a relative import begins."""

    @property
    def is_ours(self) -> bool:
        """Whether it leads to a file of this project."""
        return self.level > 0 or self.module[0] in OURS


@dataclass
class Statement:
    """A statement of a module, outside of any function."""

    code: str = ""
    """A hash of its text."""
    defines: set[str] = field(default_factory=set)
    is_for_all: bool = False
    """Whether nobody can tell whom it serves, or it serves each test."""
    names: set[str] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)
    """Those that name cells or fixtures are among them."""
    runs_any_cell: bool = False
    """Whether it may run cells that it does not name."""

    @property
    def mentions(self) -> set[str]:
        """What may be the names of other statements, or of fixtures."""
        return self.names | self.strings


@dataclass
class Source:
    """What a file says."""

    statements: list[Statement] = field(default_factory=list)
    imports: set[Import] = field(default_factory=set)
    """What it imports of ours, in functions as well."""
    libraries: set[str] = field(default_factory=set)
    """What else it imports, or skips its tests for the lack of."""
    variables: set[str] = field(default_factory=set)
    """The environment variables that it may read."""
    plugins: set[str] = field(default_factory=set)
    """The plugins of pytest that it asks for."""

    @property
    def code(self) -> str:
        """One hash of all that counts."""
        return digest(*(each.code for each in self.statements))


def imports_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str, Import]]:
    """Yield of each import its line, the name that it binds, and the rest."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = tuple(alias.name.split("."))
                bound = alias.asname or module[0]
                yield node.lineno, bound, Import(module)
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                found = Import(module, alias.name, node.level)
                yield node.lineno, alias.asname or alias.name, found


@cached_by_content
def source_of(path: Path, text: str) -> Source:
    """Return what the text of a file says.

    Raises
    ------
    Problem
        If it is no Python.
    """
    tree, lines, found = python_in(path, text), text.splitlines(), Source()
    reads_variables = "environ" in text or "getenv" in text
    for node in tree.body:
        if not _counts(node):
            continue
        statement, nodes = Statement(), list(_inside(node))
        statement.code = digest(_text(lines, node, nodes))
        statement.defines, statement.is_for_all = _defined_by(node)
        for each in nodes:
            if isinstance(each, ast.Name):
                statement.names.add(each.id)
            elif isinstance(each, ast.Attribute):
                statement.names.add(each.attr)
            elif isinstance(each, ast.arg):
                statement.names.add(each.arg)
            elif isinstance(each, ast.alias):  # which it may rename
                statement.names.add(each.name)
            elif isinstance(each, ast.Constant):
                if isinstance(each.value, str):
                    statement.strings.add(each.value)
            elif isinstance(each, ast.Call) and _runs_any_cell(each):
                statement.runs_any_cell = True
        found.statements.append(statement)
        for _, _, asked in imports_in(nodes):
            if asked.is_ours:
                found.imports.add(asked)
            else:
                found.libraries.add(asked.module[0])
        if "importorskip" in statement.names:
            found.libraries |= {
                name for name in statement.strings if name.isidentifier()
            }
        if reads_variables:
            found.variables |= {
                name for name in statement.strings if _VARIABLE.fullmatch(name)
            }
        if "pytest_plugins" in statement.defines:
            found.plugins |= statement.strings
    return found


def _counts(node: ast.stmt) -> bool:
    """Whether a statement does anything when a test is run."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.If):
        return ast.unparse(node.test) != "TYPE_CHECKING"
    return getattr(node, "name", "") != "setup"


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it."""
    yield node
    for each in ast.iter_child_nodes(node):
        yield from _inside(each)


def _text(lines: list[str], node: ast.stmt, nodes: list[ast.AST]) -> str:
    """Return the lines of a statement that count."""
    strings, left_out = set(), set()
    for each in nodes:
        if isinstance(each, ast.Constant | ast.JoinedStr):
            strings |= {*range(each.lineno, each.end_lineno or 0)}
        if isinstance(each, _DEFINITION) and ast.get_docstring(each):
            said = each.body[0]
            last = said.end_lineno or said.lineno
            around = lines[said.lineno - 1].strip()[:1] + lines[last - 1][-1:]
            if {*around} <= {"'", '"', "r"}:  # and nothing else stands there
                left_out |= {*range(said.lineno, last + 1)}
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return "\n".join(
        lines[number - 1]
        for number in range(first, (node.end_lineno or first) + 1)
        if number not in left_out
        # What looks like a comment inside a string is none.
        if number - 1 in strings or _is_code(lines[number - 1])
    )


def _is_code(line: str) -> bool:
    return not line.isspace() and line.strip()[:1] not in {"", "#"}


def _defined_by(node: ast.stmt) -> tuple[set[str], bool]:
    """Return the names that a statement defines, and if it serves all."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        # One that fails lets no test of the module run.
        return {name for _, name, _ in imports_in([node])}, True
    if isinstance(node, _DEFINITION):
        return {node.name}, node.name in _CALLED or _is_for_all(node)
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    else:
        targets = []
    inside = [each for target in targets for each in _inside(target)]
    names = {each.id for each in inside if isinstance(each, ast.Name)}
    # Whoever changes an element, or an attribute, may change another's.
    plain = ast.Name | ast.Tuple | ast.List | ast.Store
    is_plain = all(isinstance(each, plain) for each in inside)
    return names, not (names and is_plain) or bool(names & _CALLED)


def _is_for_all(node: ast.AST) -> bool:
    """Whether a fixture serves tests that do not name the function."""
    return any(
        keyword.arg not in {"params", "ids", "scope"}
        for each in getattr(node, "decorator_list", [])
        if isinstance(each, ast.Call)
        and ast.unparse(each.func).endswith("fixture")
        for keyword in each.keywords
    )


def _runs_any_cell(call: ast.Call) -> bool:
    """Whether a call takes cells of a program that nobody can name."""
    what = call.func
    name = what.attr if isinstance(what, ast.Attribute) else ""
    made = ast.JoinedStr | ast.BinOp | ast.Call
    return name == "cells" or (
        name in _BY_CELL and any(isinstance(each, made) for each in call.args)
    )


class Code:
    """The files of a project, each read once."""

    def __init__(self, root: Path) -> None:
        """Read nothing yet."""
        self.root = root
        self._sources: dict[Path, Source] = {}
        self._files: dict[tuple[str, ...], Path | None] = {}

    def source(self, path: Path) -> Source:
        """Return what a file says."""
        if path not in self._sources:
            self._sources[path] = source_of(path, text_of(path))
        return self._sources[path]

    def behind(self, path: Path, but: str = "") -> set[Path]:
        """Return a file with all of ours that it imports, or asks pytest for.

        That is but for one plugin. A file that cannot be read imports
        nothing: a rule reports it.
        """
        found: set[Path] = set()
        todo = [path]
        while todo:
            if (path := todo.pop()) in found:
                continue
            found.add(path)
            try:
                source = self.source(path)
            except Problem:
                continue
            folders = path.relative_to(self.root).parts
            for each in source.imports:
                above = folders[: -each.level] if each.level else ()
                todo += self._imported((*above, *each.module, each.name))
            for name in source.plugins - {but}:
                todo += self._imported(tuple(name.split(".")))
        return found

    def _imported(self, module: tuple[str, ...]) -> Iterator[Path]:
        """Yield what an import runs: packages, and perhaps a module."""
        for end in range(1, len(module) + 1):
            if (name := module[:end]) not in self._files:
                place = self.root.joinpath(*name)
                places = (place.with_suffix(".py"), place / "__init__.py")
                there = [each for each in places if each.is_file()]
                self._files[name] = there[0] if there else None
            if file := self._files[name]:
                yield file
