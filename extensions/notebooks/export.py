"""Export a page: prose in Markdown that every notebook shows, and the cells.

It is read as text, and not from Sphinx's doctree, which also holds what the
site adds for its readers: links to the API, signs, panels, folds, curly
quotation marks. Each would have to be known here to be left out, and one that
is not would slip into every notebook. What the text holds and no notebook can
show is reported at its line instead. A recipe is exported as the page that it
would be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markdown_it.token import Token
from mdformat.renderer import MDRenderer

from extensions.claims.repairs import Repair
from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.core.topics import Topic
from extensions.notebooks import markdown_tables
from extensions.notebooks.block_renderer import plain_blocks
from extensions.notebooks.inline_renderer import (
    NO_REPAIRS,
    NO_VERDICTS,
    InlineRenderer,
)
from extensions.notebooks.recipe_page import as_page
from extensions.programs.snippet import Cell


@dataclass(frozen=True)
class ExportedCell:
    """Where a page shows a cell of its program."""

    name: str
    line: int
    fold: str = ""
    """The words that it folds behind, or ""."""
    asks: bool = False
    """Whether the reader is to say what it gives."""


@dataclass(frozen=True)
class OwnCode:
    """Where a reader writes code."""


@dataclass(frozen=True)
class ExportedPage:
    """A page as its notebook and its Markdown show it."""

    pieces: list[str | ExportedCell | OwnCode]
    """Markdown, and the cells between it."""
    problems: list[Problem]


def export_page(
    topic: Topic,
    base: str,
    verdicts: Mapping[str, str] = NO_VERDICTS,
    repairs: Mapping[str, Repair] = NO_REPAIRS,
) -> ExportedPage:
    """Return the page of a topic; ``base`` is the site's address or "".

    Claims are followed by the signs of their verdicts, given by their names,
    and exercises by repairs, given by the names of their tests.
    """
    inline = InlineRenderer(topic, base, verdicts, repairs)
    text = text_of(topic.page)
    if topic.is_recipe:
        text = as_page(topic.page, text)
    tokens = plain_blocks(inline, text, 1)
    pieces: list[str | ExportedCell | OwnCode] = []
    prose: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.nesting
        if token.type not in {"cell", "own code"}:
            prose.append(token)
        elif depth:
            line = token.meta["line"]
            inline.report(line, "a cell inside a list or a quotation")
        else:
            pieces += [_rendered(prose)] if prose else []
            is_cell = token.type == "cell"
            pieces.append(
                ExportedCell(token.content, **token.meta)
                if is_cell
                else OwnCode()
            )
            prose = []
    pieces += [_rendered(prose)] if prose else []
    return ExportedPage(pieces, inline.problems)


def code_of(cell: Cell) -> str:
    """Return the code of a cell without what stands on the page as prose."""
    return cell.source if cell.is_wrong else cell.code


def _rendered(tokens: list[Token]) -> str:
    """Return the Markdown of some tokens."""
    options = {"parser_extension": [markdown_tables]}
    return MDRenderer().render(tokens, options, {}).strip("\n")
