"""Export a page: its prose as plain Markdown, and the cells between it.

The text of the page stays as it was written, but for what only this site
knows: claims, roles, links and directives. A recipe is taken from
reStructuredText to what a page would say before.

It is read as text, and not from Sphinx's doctree, which also holds what the
site adds for its readers: links to the API, signs, panels, curly quotation
marks. What the text holds and no notebook can show is reported at its line and
left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from extensions.claims.ledger import (
    NO_ANSWER,
    NO_LONGER_TRUE,
    PRINTS,
    Repair,
)
from extensions.claims.page import RECIPE_TIMINGS, read_page
from extensions.core.files import python_in, text_of
from extensions.core.markdown import (
    DIRECTIVES,
    TABLE,
    Body,
    Directive,
    Meaning,
    directive_of,
    line_of,
    parse,
)
from extensions.core.syntax import Exercise, Kind, exercise_of
from extensions.core.topics import Topic
from extensions.evidence.parsed_tests import test_of
from extensions.notebooks.inline import Inline, from_rst
from extensions.programs.outputs import fold_title
from extensions.programs.snippet import Cell, Snippet

# What a page says to Sphinx alone.
_UNSEEN = {
    "front_matter",
    "myst_block_break",
    "myst_line_comment",
    "myst_target",
}


@dataclass(frozen=True)
class ExportedCell:
    """Where a page shows a cell of its program."""

    cell: Cell | None
    """None where the reader writes code."""
    fold: str = ""
    """The words that it folds behind, or ""."""
    asks: bool = False
    """Whether the reader is to say what it gives."""


_Pieces = list[str | ExportedCell]


@dataclass(frozen=True)
class ExportedPage:
    """A page as its notebook and its Markdown show it."""

    words: Inline
    """Whose page it is, and what no notebook can show of it."""
    pieces: _Pieces
    """Markdown, and the cells between it."""


def export_page(
    topic: Topic,
    base: str,
    verdicts: Mapping[str, str] | None = None,
    repairs: Mapping[str, Repair] | None = None,
) -> ExportedPage:
    """Return the page of a topic; ``base`` is the site's address or "".

    Claims are followed by the signs of their verdicts, given by their names,
    and exercises by repairs, given by the names of their tests.
    """
    cells = Snippet.read(topic.snippet).cells()
    export = _Export(topic, base, verdicts or {}, repairs or {}, cells)
    text = text_of(topic.page)
    pieces = export.recipe(text) if topic.is_recipe else export.blocks(text, 1)
    return ExportedPage(export, _joined(pieces))


def code_of(cell: Cell) -> str:
    """Return the code of a cell without what stands on the page as prose."""
    return cell.source if cell.is_wrong else cell.code


def fenced(text: str, language: str = "") -> str:
    """Return some lines as a block of code."""
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


@dataclass
class _Export(Inline):
    """The blocks of one page."""

    repairs: Mapping[str, Repair]
    cells: Mapping[str, Cell]

    def recipe(self, text: str) -> _Pieces:
        """Return a recipe as the page that it would be: all of its cells."""
        module = python_in(self.topic.page, text)
        opening = ast.get_docstring(module, clean=False) or ""
        pieces = self.blocks(from_rst(opening), 1)
        for cell in self.cells.values():
            prose = re.sub("^# ?", "", cell.prose, flags=re.MULTILINE)
            pieces += self.blocks(from_rst(prose), cell.line + 1)
            if cell.code:
                pieces.append(ExportedCell(cell))
            if RECIPE_TIMINGS.search(cell.code):
                pieces += self.blocks("```{measured}\n```", cell.line)
        return pieces

    def blocks(self, text: str, first: int) -> _Pieces:
        """Return some Markdown, whose first line has a number."""
        lines = text.splitlines()
        pieces: _Pieces = []
        at = 0
        for token in parse(text):
            directive = directive_of(token, line_of(token, first))
            if token.map and (directive or token.type in _UNSEEN):
                start, end = token.map
                pieces.append(self.prose(lines[at:start], first + at))
                at = end
                if directive and token.level:
                    what = f"{{{directive.name}}} inside a list or a quotation"
                    self.report(directive.line, what)
                elif directive:
                    pieces += self.directive(directive)
        return [*pieces, self.prose(lines[at:], first + at)]

    def directive(self, directive: Directive) -> _Pieces:
        """Return what stands in the place of a directive."""
        argument, line = directive.argument, directive.line
        if directive.name == "cell" and "from" not in directive.options:
            # A rule reports an unknown name.
            cell = self.cells.get(argument)
            fold = cell and fold_title(cell, directive.options)
            return [ExportedCell(cell, fold or "")] if cell else []
        if directive.name == "exercise":
            return self.exercise(directive)
        if directive.name == "recap":
            return [self.recap(directive)]
        meaning = DIRECTIVES.get(directive.name, Meaning())
        if not meaning.export:
            return [self.report(line, f"{{{directive.name}}}: see {TABLE}")]
        shown = meaning.export.format(
            title=self.plain(argument, line),
            page=self.link("The page"),
            body="{body}",
        )
        if meaning.body is Body.DATA:
            return [shown.replace("{body}", directive.body.rstrip())]
        text, first = directive.body, directive.first
        if argument and "{title}" not in meaning.export:
            text, first = f"{argument}\n{text}", first - 1
        before, _, after = shown.partition("{body}")
        return [before.strip(), *self.blocks(text, first), after.strip()]

    def recap(self, directive: Directive) -> str:
        """Return the claims that the page says to remember, as a list."""
        lines = []
        for each in directive.argument.split():
            page, _, name = each.rpartition("#")
            topic = Topic(self.topic.root, page) if page else self.topic
            for claim in read_page(topic.page).claims:
                if claim.name == name:
                    lines.append(f"- {claim.sentence}")
        return self.prose(lines, directive.line)

    def exercise(self, directive: Directive) -> _Pieces:
        """Return the question; its hint and its answer are folded."""
        exercise = exercise_of(directive.argument)
        if exercise is None:
            return []  # the directive reports it
        pieces: _Pieces = [f"**{exercise.kind.value.capitalize()}**"]
        pieces += self.blocks(directive.body, directive.first)
        if hint := directive.options.get("hint"):
            pieces.append(_folded("Hint", self.plain(hint, directive.line)))
        match exercise:
            case Exercise(Kind.PREDICT, (name,)):
                pieces.append(ExportedCell(self.cells.get(name), asks=True))
                pieces.append("Run the cell: it gives the answer.")
            case Exercise(Kind.BUILD, (name, check)):
                pieces.append(ExportedCell(None))
                pieces.append(ExportedCell(self.cells.get(check), asks=True))
                if solution := self.cells.get(name):
                    answer = fenced(solution.code, "python")
                    pieces.append(_folded("Answer", answer))
            case Exercise(Kind.REPAIR, (name,)):
                repair = self.repairs.get(test_of(name))
                answer = self.repair(repair, directive.line)
                pieces.append(_folded("Answer", answer))
        return pieces

    def repair(self, repair: Repair | None, line: int) -> str:
        """Return an edit, and what is no longer true with it."""
        if repair is None:
            return NO_ANSWER
        parts = [fenced(repair.change, "diff")]
        if repair.after:
            parts += [PRINTS, fenced(repair.after, "text")]
        parts += [NO_LONGER_TRUE, f"> {self.plain(repair.sentence, line)}"]
        return "\n\n".join(parts)


def _folded(title: str, said: str) -> str:
    """Return what opens in a notebook as well."""
    return f"<details><summary>{title}</summary>\n\n{said}\n\n</details>"


def _joined(pieces: _Pieces) -> _Pieces:
    """Return the pieces with one text between two cells."""
    found: _Pieces = []
    for piece in [each for each in pieces if each]:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] = f"{found[-1]}\n\n{piece}"
        else:
            found.append(piece)
    return found
