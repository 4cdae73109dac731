"""Imports: what a statement of Python imports, and under which name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from extensions.core.topics import OURS


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


def bound(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, Import]]:
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
