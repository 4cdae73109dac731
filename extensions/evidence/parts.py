"""Parts: the statements of a module, without what does not count of them.

Comments, layout, docstrings and annotations do not, nor does an import of
ours, of which only what it leads to counts.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from extensions.core.fingerprint import digest
from extensions.evidence.imports import Import, bound, statements

_RUNNERS = {
    "after",
    "cell",
    "only",
}  # of a program: they take names of cells


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


def part_of(path: Path, node: ast.stmt) -> Part:
    """Return what counts of a statement."""
    decorator = _fixture(node)
    inside = [each for _, each in bound(statements(node)) if each.is_ours]
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


def names_of_fixture(node: ast.stmt) -> set[str]:
    """Return the other name of a fixture, if it has one."""
    name = _options(_fixture(node)).get("name")
    return {name} if isinstance(name, str) else set()


class _Stripped(ast.NodeTransformer):
    """Takes out what does not count."""

    def visit_Import(self, node: ast.stmt) -> ast.stmt | None:
        """Leave out an import of ours."""
        ours = any(each.is_ours for _, each in bound([node]))
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
