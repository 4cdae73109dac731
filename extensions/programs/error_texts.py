"""Error texts: what cells print of the errors that they catch.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from textwrap import dedent

from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.core.topics import Topic
from extensions.programs.outputs import outputs_in
from extensions.programs.snippet import Cell

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
