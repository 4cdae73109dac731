"""Weave a page: prose in Markdown that every notebook shows, and the cells.

What MyST adds becomes plain Markdown by one table of directives, in
``blocks.py``, and one of roles, in ``wording.py``. A recipe is woven as the
page that it would be.
"""

from __future__ import annotations

from dataclasses import dataclass

from markdown_it.token import Token
from mdformat.renderer import MDRenderer

from extensions.claims.page import Shown
from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.core.topics import Topic
from extensions.notebooks import markdown_tables
from extensions.notebooks.directives import plain
from extensions.notebooks.recipe_prose import as_page
from extensions.notebooks.roles import Wording
from extensions.programs.snippet import Cell


@dataclass(frozen=True)
class Woven:
    """A page as a notebook shows it."""

    pieces: list[str | Shown]
    """Markdown, and the cells between it."""
    problems: list[Problem]


def weave(topic: Topic, base: str) -> Woven:
    """Return the page of a topic; ``base`` is the site's address or ""."""
    wording = Wording(topic, base)
    text = text_of(topic.page)
    if topic.is_recipe:
        text = as_page(topic.page, text)
    tokens = plain(wording, text, 1)
    pieces: list[str | Shown] = []
    prose: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.nesting
        if token.type != "cell":
            prose.append(token)
        elif depth:
            line = token.meta["line"]
            wording.report(line, "a cell inside a list or a quotation")
        else:
            pieces += [rendered(prose)] if prose else []
            pieces.append(Shown(token.content, token.meta["line"]))
            prose = []
    pieces += [rendered(prose)] if prose else []
    return Woven(pieces, wording.problems)


def code_of(cell: Cell) -> str:
    """Return the code of a cell without what stands on the page as prose."""
    return cell.source if cell.is_wrong else cell.code


def rendered(tokens: list[Token]) -> str:
    """Return the Markdown of some tokens."""
    options = {"parser_extension": [markdown_tables]}
    return MDRenderer().render(tokens, options, {}).strip("\n")
