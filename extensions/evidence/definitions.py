"""What a module of Python defines: it is read, and never run.

Each name of a module stands for *parts*: the statements that define or change
it. A part knows what it names in turn, so that a reader can follow it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import python_in
from extensions.core.fingerprint import digest
from extensions.evidence.imports import Import, bound, statements
from extensions.evidence.parts import Part, names_of_fixture, part_of

_DISPLAYS = ast.Dict | ast.DictComp | ast.List | ast.ListComp | ast.Set
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")


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
    imports = {each for _, each in bound(_run(tree))}
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
    for name, each in bound(inside):
        if each.is_ours:
            known = module.imports.get(name, ())
            module.imports[name] = (*known, each)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            part = Part(path, digest(".".join(each.module), each.name))
            module.parts[name] = (*module.parts.get(name, ()), part)
    if _does_nothing(node):
        return
    names = _served(node, lists)
    part = part_of(path, node)
    if names is None:
        module.effects.append(part)
        names = {
            name for each in inside for name in _served(each, lists) or ()
        }
    for name in names:
        module.parts[name] = (*module.parts.get(name, ()), part)


def _run(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that may run without Sphinx and a type checker."""
    for node in tree.body:
        if getattr(node, "name", "") != "setup" and not _does_nothing(node):
            yield from statements(node)
        yield node


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
        return {node.name, *names_of_fixture(node)}
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
        return {name for name, _ in bound([node])}
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
