"""A module of tests in parts: which of them are behind which claim.

Behind a claim stand its test, the tests whose names go on behind that one, and
whatever of the module these name. What stands behind the same claims in a row,
such as the imports, is one part; a test is one of its own. Imports no test.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path

from extensions.core.files import python_in
from extensions.evidence.parsed_tests import Test, tests_of


@dataclass(frozen=True)
class ProofPart:
    """Some lines of a module that stand together."""

    first: int
    last: int
    """Lines, counted from 1."""
    test: Test | None
    """The test that it is, if it is one."""
    behind: tuple[str, ...]
    """The tests of the claims that it stands behind, that of a test's own
    claim first; none for all of them."""


def proof_parts(path: Path, text: str) -> list[ProofPart]:
    """Return the parts of a module, in their order."""
    body = python_in(path, text).body
    tests = tests_of(path, text)
    defined: dict[str, list[int]] = {}
    for place, node in enumerate(body):
        for name in _defined(node):
            defined.setdefault(name, []).append(place)
    behind: list[set[str]] = [set() for _ in body]
    for test in tests.values():
        todo = [*defined[test.name]]
        while todo:
            place = todo.pop()
            if test.of not in behind[place]:
                behind[place].add(test.of)
                names = _named(body[place]) & defined.keys()
                todo += [each for name in names for each in defined[name]]
    lines, last = text.splitlines(), 0
    found: list[ProofPart] = []
    for node, claims in zip(body, behind, strict=True):
        end = node.end_lineno or node.lineno
        while not lines[last].strip():  # a comment belongs to what follows
            last += 1
        own = tests.get(str(getattr(node, "name", "")))
        first = {own.of} if own else set()
        of = (*first, *sorted(claims - first))
        part = ProofPart(last + 1, end, own, of)
        if found and replace(found[-1], first=part.first, last=end) == part:
            part = replace(found.pop(), last=end)
        found.append(part)
        last = end
    return found


def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return set()  # they are shown with every claim
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _named(node: ast.stmt) -> set[str]:
    """Return what a statement names; a fixture is named by an argument."""
    return {
        each.id if isinstance(each, ast.Name) else each.arg
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.arg)
    }
