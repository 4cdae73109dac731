"""Error texts: what cells print of the errors that they catch.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from textwrap import dedent

from extensions.files.outputs import outputs_in
from extensions.files.problem import Problem
from extensions.files.reading import text_of
from extensions.files.snippets import Cell, Snippet
from extensions.files.topics import Topic

MARKUP = (".. ", ":")  # how lines begin that say how an output is shown


def printed(topic: Topic, name: str) -> str:
    """Return what a cell of a topic printed when its page was built.

    Raises
    ------
    Problem
        If there is no such cell.
    """
    cell = Snippet.read(topic.snippet).cell(name)
    output = outputs_in(text_of(topic.output)).get(cell.code_line, "")
    lines = [
        line
        for line in output.splitlines()
        if not line.strip().startswith(MARKUP)
    ]
    return dedent("\n".join(lines)).strip("\n")


def lines_that_say(topic: Topic, name: str, words: str) -> str:
    """Return what a cell printed from the line with some words on.

    It ends before the next empty line.

    Raises
    ------
    Problem
        If no line has these words.
    """
    for block in printed(topic, name).split("\n\n"):
        lines = block.splitlines()
        for place, line in enumerate(lines):
            if words in line:
                return "\n".join(lines[place:])
    cell = Snippet.read(topic.snippet).cell(name)
    message = f"cell {name!r} prints no line with {words!r}"
    raise Problem(topic.snippet, cell.line, message)


def caught_in(topic: Topic) -> Iterator[tuple[Cell, str]]:
    """Yield each cell that catches an error, with all that it printed.

    A cell also catches if it calls a function of its program that does.
    """
    functions: set[str] = set()
    for cell in Snippet.read(topic.snippet).cells().values():
        catching = False
        for node in ast.parse(cell.code).body:
            if catches(node, functions) and isinstance(node, ast.FunctionDef):
                functions.add(node.name)
            elif catches(node, functions):
                catching = True
        if catching and (output := printed(topic, cell.name)):
            yield cell, output


def catches(tree: ast.AST, functions: set[str]) -> bool:
    """Whether some code handles an error, or calls a function that does."""
    return any(
        isinstance(node, ast.ExceptHandler)
        or (isinstance(node, ast.Name) and node.id in functions)
        for node in ast.walk(tree)
    )
