"""The marks of tests, read in their module and not imported."""

from __future__ import annotations

import ast


def marks_in(body: list[ast.stmt]) -> dict[str, list[ast.expr]]:
    """Return the marks of each function of a module, with those of all.

    A mark may have a name in the module, and then stands for what it names.
    """
    named = {
        target.id: node.value
        for node in body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    shared = elements(named.get("pytestmark"))
    return {
        node.name: [
            named.get(each.id, each) if isinstance(each, ast.Name) else each
            for each in [*node.decorator_list, *shared]
        ]
        for node in body
        if isinstance(node, ast.FunctionDef)
    }


def elements(marks: ast.expr | None) -> list[ast.expr]:
    """Return the marks of a module: one, a list of them, or none."""
    if marks is None:
        return []
    return marks.elts if isinstance(marks, ast.List) else [marks]


def arguments(marks: list[ast.expr], name: str) -> tuple[str, ...]:
    """Return what the first of some marks that has a name says."""
    for each in marks:
        if isinstance(each, ast.Call) and ast.unparse(each.func) == name:
            return tuple(ast.literal_eval(arg) for arg in each.args)
    return ()
