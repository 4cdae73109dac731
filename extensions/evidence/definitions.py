"""What a module of Python defines: it is read, and never run.

Each name of a module stands for *parts*: the statements that define or change
it. A part knows what it names in turn, so that a reader can follow it. Neither
comments, layout, docstrings and annotations count, nor an import of ours, of
which only what it leads to does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.fingerprint import digest
from extensions.core.reading import python_in

OURS = {"extensions", "tests"}
_DISPLAYS = ast.Dict | ast.DictComp | ast.List | ast.ListComp | ast.Set
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")
_RUNNERS = {"after", "cell", "only"}  # of a program: they take names of cells


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


@dataclass(frozen=True, eq=False)
class Part:
    """A statement of a module: what it is, and what it names."""

    path: Path
    code: str
    names: frozenset[str] = frozenset()
    """What it may mean by a name, its arguments included."""
    words: frozenset[str] = frozenset()
    """The strings in it: those that name cells or fixtures are among them."""
    imports: tuple[Import, ...] = ()
    """What it imports of ours inside."""
    is_fixture: bool = False
    is_autouse: bool = False
    runs_any_cell: bool = False
    """Whether it may run cells that it does not name."""


@dataclass(frozen=True)
class Module:
    """What a file defines, imports and reads."""

    parts: dict[str, tuple[Part, ...]] = field(default_factory=dict)
    effects: list[Part] = field(default_factory=list)
    """Statements of which nobody can tell whom they serve."""
    imports: dict[str, tuple[Import, ...]] = field(default_factory=dict)
    """What is imported of ours outside of functions, by name."""
    everywhere: frozenset[Import] = frozenset()
    """What is imported of ours, in functions as well.

    All but ``setup``, which Sphinx calls and no test.
    """
    libraries: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    """The environment variables that it may read."""


@cached_by_content
def definitions(path: Path, text: str) -> Module:
    """Return what a module defines."""
    tree = python_in(path, text)
    imports = {each for _, each in _bound(_run(tree))}
    ours = {each for each in imports if each.is_ours}
    libraries = {each.module[0] for each in imports - ours}
    found = Module(
        everywhere=frozenset(ours),
        libraries=frozenset(libraries | _libraries(text, tree)),
        variables=_variables(text, tree),
    )
    lists: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, _DISPLAYS):
            lists |= _named(node.targets, set()) or set()
    for node in tree.body:
        _add(path, found, node, lists)
    return found


def _add(path: Path, module: Module, node: ast.stmt, lists: set[str]) -> None:
    """Add a statement to what a module defines."""
    inside = [node, *statements(node, into=False)]
    for name, each in _bound(inside):
        if each.is_ours:
            known = module.imports.get(name, ())
            module.imports[name] = (*known, each)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            part = Part(path, digest(".".join(each.module), each.name))
            module.parts[name] = (*module.parts.get(name, ()), part)
    if _does_nothing(node):
        return
    names = _served(node, lists)
    part = _part_of(path, node)
    if names is None:
        module.effects.append(part)
        names = {
            name for each in inside for name in _served(each, lists) or ()
        }
    for name in names:
        module.parts[name] = (*module.parts.get(name, ()), part)


def statements(node: ast.AST, into: bool = True) -> Iterator[ast.stmt]:
    """Yield each statement below a node, in functions as well or not.

    No expression holds a statement.
    """
    if not into and isinstance(node, ast.FunctionDef | ast.ClassDef):
        return
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, name, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from statements(each, into)


def _run(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that may run without Sphinx and a type checker."""
    for node in tree.body:
        if getattr(node, "name", "") != "setup" and not _does_nothing(node):
            yield from statements(node)
        yield node


def _bound(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, Import]]:
    """Yield each name that some imports bind, and what it stands for."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = tuple(alias.name.split("."))
                yield alias.asname or module[0], Import(module)
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                found = Import(module, alias.name, node.level)
                yield alias.asname or alias.name, found


def _does_nothing(node: ast.stmt) -> bool:
    """Whether a statement only imports, explains, or is for a checker."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.Import | ast.ImportFrom)


def _served(node: ast.stmt, lists: set[str]) -> set[str] | None:
    """Return the names that a statement defines or changes.

    None, if it may do more than that.
    """
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name, *_names_of_fixture(node)}
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
        return {name for name, _ in _bound([node])}
    if isinstance(node, ast.Assign):
        return _named(node.targets, lists)
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return _named([node.target], lists)
    if isinstance(node, ast.Expr):
        called = getattr(node.value, "func", None)
        owner = getattr(called, "value", None)  # of a list, as in x.append(y)
        name = owner.id if isinstance(owner, ast.Name) else ""
        return {name} if name in lists else None
    if isinstance(node, ast.If | ast.Try):
        found = [_served(each, lists) for each in statements(node, into=False)]
        if None not in found:
            return {name for each in found for name in each or ()}
    return None


def _named(targets: list[ast.expr], lists: set[str]) -> set[str] | None:
    """Return the names that are assigned to; None, if it is not to names."""
    found: set[str] = set()
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            names = _named(target.elts, lists)
        elif isinstance(target, ast.Name):
            names = {target.id}
        elif isinstance(target, ast.Subscript):
            names = _named([target.value], lists)
            names = names if names and names <= lists else None
        else:
            names = None
        if names is None:
            return None
        found |= names
    return found


def _fixture(node: ast.AST) -> ast.expr | None:
    """Return the decorator that makes a function a fixture."""
    if not isinstance(node, ast.FunctionDef):
        return None
    for each in node.decorator_list:
        called = each.func if isinstance(each, ast.Call) else each
        if ast.unparse(called).endswith("fixture"):
            return each
    return None


def _options(decorator: ast.expr | None) -> dict[str, object]:
    """Return the options of a fixture that are literals."""
    return {
        each.arg or "": getattr(each.value, "value", True)
        for each in getattr(decorator, "keywords", ())
    }


def _names_of_fixture(node: ast.stmt) -> set[str]:
    """Return the other name of a fixture, if it has one."""
    name = _options(_fixture(node)).get("name")
    return {name} if isinstance(name, str) else set()


def _part_of(path: Path, node: ast.stmt) -> Part:
    """Return what counts of a statement."""
    decorator = _fixture(node)
    inside = [each for _, each in _bound(statements(node)) if each.is_ours]
    node = _Stripped().visit(node)
    names, words, any_cell = set(), set(), False
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            names.add(each.id)
        elif isinstance(each, ast.arg):
            names.add(each.arg)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            words.add(each.value)
        elif isinstance(each, ast.Call):
            any_cell = any_cell or not _names_its_cells(each)
    return Part(
        path,
        digest(dumped(node)),
        frozenset(names),
        frozenset(words),
        tuple(inside),
        decorator is not None,
        bool(_options(decorator).get("autouse")),
        any_cell,
    )


class _Stripped(ast.NodeTransformer):
    """Takes out what does not count."""

    def visit_Import(self, node: ast.stmt) -> ast.stmt | None:
        """Leave out an import of ours."""
        ours = any(each.is_ours for _, each in _bound([node]))
        return None if ours else node

    visit_ImportFrom = visit_Import

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Leave out a docstring."""
        if isinstance(node.value, ast.Constant):
            return None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Leave out an annotation."""
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave out what a function says that it returns."""
        node.returns = None
        return self.generic_visit(node)


def dumped(node: object) -> str:
    """Return some syntax as text, the same on each version of Python.

    ``ast.dump`` writes empty fields, of which newer versions have more.
    """
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={dumped(value)}"
            for name, value in ast.iter_fields(node)
            if value not in (None, [])
        ]
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(map(dumped, node))}]"
    return repr(node)


def _names_its_cells(call: ast.Call) -> bool:
    """Whether a call takes no cells, or takes them by names that are told."""
    what = call.func
    name = what.attr if isinstance(what, ast.Attribute) else ""
    if name == "cells":
        return False
    made = ast.JoinedStr | ast.BinOp | ast.Call
    return name not in _RUNNERS or not any(
        isinstance(each, made) for each in call.args
    )


def _libraries(text: str, tree: ast.Module) -> set[str]:
    """Return for the lack of what a module may skip its tests."""
    return {
        each.value
        for node in tree.body
        if "importorskip" in text and "importorskip" in ast.unparse(node)
        for each in ast.walk(node)
        if isinstance(each, ast.Constant)
        and isinstance(each.value, str)
        and each.value.isidentifier()
    }


def _variables(text: str, tree: ast.Module) -> frozenset[str]:
    """Return the environment variables that a module may read."""
    if "environ" not in text and "getenv" not in text:
        return frozenset()
    return frozenset(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _VARIABLE.fullmatch(node.value)
    )
