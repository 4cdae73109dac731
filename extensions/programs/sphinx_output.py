"""What a cell of a program gave, read back for the pages that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList

from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.programs.outputs import outputs_in
from extensions.programs.snippet import Cell, Snippet

if TYPE_CHECKING:
    from sphinx.util.docutils import SphinxDirective

    from extensions.core.topics import Topic


def cell_and_output(
    directive: SphinxDirective, topic: Topic, name: str
) -> tuple[Cell, str]:
    """Return a cell of a topic's program, and what it gave, as reST."""
    directive.env.note_dependency(str(topic.snippet))
    directive.env.note_dependency(str(topic.output))
    try:
        cell = Snippet.read(topic.snippet).cell(name)
        page = text_of(topic.output)
        return cell, outputs_in(page)[cell.code_line].strip()
    except Problem as error:
        raise directive.error(str(error)) from error
    except KeyError as error:
        message = f"cell {name!r} begins with no code: {topic.snippet}"
        raise directive.error(message) from error


def output_shown(
    directive: SphinxDirective, topic: Topic, output: str
) -> nodes.container:
    """Return what a cell gave, as a part of the page being read."""
    shown = nodes.container("", classes=["cell-output"])
    rst = ["```````{eval-rst}", *output.splitlines(), "```````"]
    lines = StringList(rst, str(topic.output))
    directive.state.nested_parse(lines, 0, shown)
    # What MyST parses as reST stays bound to a document of its own, which
    # would take the whole environment along into the doctree of the page.
    for node in shown.findall():
        node.document = directive.state.document
    return shown
