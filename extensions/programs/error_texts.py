"""Error texts: what cells print of the errors that they catch.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from textwrap import dedent

from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.core.topics import Topic
from extensions.programs.outputs import outputs_in
from extensions.programs.snippet import Cell, Snippet

_ERROR = re.compile(r"\b[A-Z]\w*(Error|Exception)\b")
_WORDS = re.compile(r"([A-Za-z][\w'-]*[^\w.]+){3}[A-Za-z]")  # four in a row
_MARKUP = (".. ", ":")  # how lines begin that say how an output is shown


def printed(topic: Topic) -> dict[int, str]:
    """Return what the cells of a topic printed when its page was built.

    By the line at which the code of each begins.
    """
    return {
        line: _plain(output)
        for line, output in outputs_in(text_of(topic.output)).items()
    }


def _plain(output: str) -> str:
    """Return the text of an output without the markup around it."""
    lines = [
        line
        for line in output.splitlines()
        if not line.strip().startswith(_MARKUP)
    ]
    return dedent("\n".join(lines)).strip("\n")


def lines_that_say(topic: Topic, cell: Cell, words: str) -> str:
    """Return what a cell printed from the line with some words on.

    It ends before the next empty line.

    Raises
    ------
    Problem
        If no line has these words.
    """
    for block in printed(topic).get(cell.code_line, "").split("\n\n"):
        lines = block.splitlines()
        for place, line in enumerate(lines):
            if words in line:
                return "\n".join(lines[place:])
    message = f"cell {cell.name!r} prints no line with {words!r}"
    raise Problem(topic.snippet, cell.line, message)


def said_in(topic: Topic) -> Iterator[tuple[str, Cell]]:
    """Yield each error text of a topic, with the cell that printed it.

    An error says in words what is wrong; what a cell prints besides, such as
    numbers and shapes, has none.
    """
    for cell, output in _caught_in(topic):
        for line in output.splitlines():
            is_at_the_margin = line == line.lstrip()
            if _ERROR.search(line) or (
                is_at_the_margin and _WORDS.search(line)
            ):
                yield line.strip(), cell


def _caught_in(topic: Topic) -> Iterator[tuple[Cell, str]]:
    """Yield each cell that catches an error, with all that it printed.

    A cell also catches if it calls a function of its program that does.
    """
    functions: set[str] = set()
    outputs = printed(topic)
    for cell in Snippet.read(topic.snippet).cells().values():
        catching = False
        for node in ast.parse(cell.code).body:
            if not _catches(node, functions):
                continue
            if isinstance(node, ast.FunctionDef):
                functions.add(node.name)
            else:
                catching = True
        if catching and (output := outputs.get(cell.code_line)):
            yield cell, output


def _catches(tree: ast.AST, functions: set[str]) -> bool:
    """Whether some code handles an error, or calls a function that does."""
    return any(
        isinstance(node, ast.ExceptHandler)
        or (isinstance(node, ast.Name) and node.id in functions)
        for node in ast.walk(tree)
    )
