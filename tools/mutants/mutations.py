"""Mutations: one change of meaning each, of a program cut into cells.

Ours, because what is kept does not serve: cosmic-ray can neither drop a call
or a keyword nor try many mutants in one warm process, and mutmut leaves code
outside of functions alone. A statement, or an expression in the head of a
compound one, is written anew by ``ast``: all other lines stay where they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

from extensions.core.files import python_in
from extensions.programs.snippet import Cell, Snippet
from tools.mutants.node_changes import MEANINGLESS_KEYWORDS, Node, changes


@dataclass(frozen=True)
class Mutation:
    """A program with one change of meaning."""

    cell: str
    line: int
    """Where what is written anew begins, counted from 1."""
    kind: str
    old: str
    """The lines that are written anew, joined to one."""
    new: str
    text: str
    """The whole program, changed."""

    def __str__(self) -> str:
        """Return what is changed, in one line."""
        return f"{self.kind}: {self.old} -> {self.new}"


def mutations(snippet: Snippet) -> list[Mutation]:
    """Return the mutations of a program that parse, in file order."""
    tree = python_in(snippet.path, snippet.text)
    cells = snippet.cells().values()
    names = _imported_names(tree)
    found, meanings = [], {ast.dump(tree)}
    for whole, holder, node in _nodes_tests_can_notice(tree):
        for kind, old, new in changes(node, holder, names):
            passage = whole or old
            before = [each for each in cells if each.line < passage.lineno]
            if not before or _is_left_out(before[-1], kind, passage):
                continue
            code = ast.unparse(deepcopy(passage, {id(old): new}))
            text = _with_passage_replaced(snippet.text, passage, code)
            try:
                meaning = ast.dump(ast.parse(text))
            except SyntaxError:
                continue
            if meaning not in meanings:
                meanings.add(meaning)
                first, last = passage.lineno, passage.end_lineno
                old_lines = _on_one_line(snippet.text, first, last)
                new_lines = _on_one_line(text, first, last)
                cell = before[-1].name
                found.append(
                    Mutation(cell, first, kind, old_lines, new_lines, text)
                )
    return sorted(found, key=lambda each: each.line)


def _imported_names(tree: ast.Module) -> set[str]:
    """Return the names that a program imports."""
    return {
        (each.asname or each.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
    }


def _nodes_tests_can_notice(
    holder: ast.AST, whole: Node | None = None
) -> Iterator[tuple[Node | None, ast.AST, ast.AST]]:
    """Yield each node that is not only to be read, and the one that holds it.

    Before them what is written anew if they change: a simple statement, or an
    expression in the head of a compound one.
    """
    for node in ast.iter_child_nodes(holder):
        if _means_nothing_to_tests(node):
            continue
        part = whole
        if part is None and isinstance(node, ast.expr | ast.stmt):
            compound = isinstance(node, ast.stmt) and hasattr(node, "body")
            part = None if compound else node
        yield part, holder, node
        yield from _nodes_tests_can_notice(node, part)


def _means_nothing_to_tests(node: ast.AST) -> bool:
    """Whether a node prints, imports, or says what matters to no claim."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.arg():
            return True
        case ast.Call(func=ast.Name(id="print")):
            return True
        case ast.keyword(arg=name):
            return name in MEANINGLESS_KEYWORDS
        case ast.List(elts=parts) | ast.Tuple(elts=parts) if parts:
            # Examples, such as the numbers that a tensor is made of.
            parts = [getattr(each, "operand", each) for each in parts]
            return all(
                isinstance(each, ast.Constant) or _means_nothing_to_tests(each)
                for each in parts
            )
        case ast.Expr(value=value):
            return isinstance(value, ast.Constant) or _means_nothing_to_tests(
                value
            )
        case ast.For() | ast.If() | ast.With():
            body = [*node.body, *getattr(node, "orelse", [])]
            return all(map(_means_nothing_to_tests, body))
    return False


def _is_left_out(cell: Cell, kind: str, passage: Node) -> bool:
    """Whether a change is left out: the tests do not run its cell everywhere.

    Or it deletes the one seed of the cell, and no claim should rest on that.
    """
    code = ast.unparse(passage)
    seed = "seed(" in code and kind == "delete statement"
    lone = not passage.col_offset and cell.source.count(code) < 2
    return cell.is_display or cell.is_cuda or (seed and lone)


def _with_passage_replaced(text: str, passage: Node, code: str) -> str:
    """Return a program with other code in a passage, and as many lines."""
    lines = text.encode().split(b"\n")  # ast counts columns in bytes
    first, last = passage.lineno - 1, passage.end_lineno or passage.lineno
    head = lines[first][: passage.col_offset]
    tail = lines[last - 1][passage.end_col_offset :]
    blank = [b""] * (last - first - 1)
    lines[first:last] = [head + code.encode() + tail, *blank]
    return b"\n".join(lines).decode()


def _on_one_line(text: str, first: int, last: int | None) -> str:
    """Return some lines of a program as one."""
    return " ".join(" ".join(text.split("\n")[first - 1 : last]).split())
