"""Render the blocks of a page without what MyST adds between paragraphs.

Each directive becomes what the table of :mod:`extensions.core.directives` says
of it. What no download can show is reported at its line and left out: nothing
raw is ever published.
"""

from __future__ import annotations

import contextlib

from markdown_it.token import Token
from mdformat.renderer import DEFAULT_RENDERERS

from extensions.claims.page import read_page
from extensions.claims.repairs import (
    NO_ANSWER,
    NO_LONGER_TRUE,
    PRINTS,
    Repair,
)
from extensions.core.directives import (
    DIRECTIVES,
    TABLE,
    Body,
    BoxExport,
    CellExport,
    ClaimsExport,
    ExerciseExport,
    ListingExport,
    Meaning,
    RemarkExport,
)
from extensions.core.markdown import (
    Directive,
    bold,
    directive_of,
    kind_of,
    line_of,
    linked,
    paragraph,
    parse,
    parse_line,
    words,
)
from extensions.core.problem import Problem
from extensions.core.reading_order import address_of
from extensions.core.syntax import Exercise, Kind, exercise_of
from extensions.core.topics import Topic
from extensions.evidence.parsed_tests import test_of
from extensions.notebooks import markdown_tables
from extensions.notebooks.inline_renderer import InlineRenderer
from extensions.programs.outputs import fold_title
from extensions.programs.snippet import Snippet

# What a page says to Sphinx alone.
_UNSEEN = {
    "front_matter",
    "myst_block_break",
    "myst_line_comment",
}
_SHOWN = DEFAULT_RENDERERS.keys() | markdown_tables.RENDERERS


def plain_blocks(inline: InlineRenderer, text: str, first: int) -> list[Token]:
    """Return the tokens of some Markdown without what MyST adds."""
    found: list[Token] = []
    for token in parse(text):
        line = line_of(token, first)
        kind = kind_of(token)
        if directive := directive_of(token, line):
            found += _directive(inline, directive)
        elif token.type == "inline":
            children = inline.plain(token.children or [], line)
            children += inline.sign_of_block()
            found.append(token.copy(children=children))
        elif token.type == "myst_target":
            inline.claim = token.content
        elif kind in _SHOWN:
            found.append(token)
        elif kind not in _UNSEEN and token.nesting >= 0:
            inline.report(line, kind.replace("_", " "))
    return found


def _directive(inline: InlineRenderer, directive: Directive) -> list[Token]:
    """Return what stands in the place of a directive."""
    meaning = DIRECTIVES.get(directive.name, Meaning())
    match meaning.export:
        case CellExport():
            return _cell(inline, directive)
        case ClaimsExport():
            return _claims(inline, directive)
        case BoxExport(title, has_own_title=True):
            return _titled_box(inline, directive, title)
        case BoxExport(title):
            return _box(inline, directive, title)
        case ExerciseExport():
            return _exercise(inline, directive)
        case ListingExport(language):
            return [_listing(directive, language)]
        case RemarkExport(says, example):
            text, first = directive.body, directive.first
            if meaning.body is Body.DATA:
                text, first = example, first - 1
            before = plain_blocks(inline, text, first)
            return [*before, *_the_page(inline, says)]
    what = f"{{{directive.name}}}: see {TABLE}"
    return inline.report(directive.line, what)


def _cell(inline: InlineRenderer, directive: Directive) -> list[Token]:
    """Mark where a cell stands; one of another page has no place here."""
    if "from" in directive.options:
        return inline.report(directive.line, "{cell} with :from:")
    fold = ""
    if not inline.topic.is_recipe:  # whose page folds nothing
        with contextlib.suppress(Problem):  # a rule reports an unknown name
            cell = Snippet.read(inline.topic.snippet).cell(directive.argument)
            fold = fold_title(cell, directive.options)
    meta = {"line": directive.line, "fold": fold}
    return [Token("cell", "", 0, content=directive.argument, meta=meta)]


def _exercise(inline: InlineRenderer, directive: Directive) -> list[Token]:
    """Ask the question; the hint and the answer are folded."""
    exercise = exercise_of(directive.argument)
    if exercise is None:
        return []  # the directive reports it
    title = words(exercise.kind.value.capitalize())
    found = [*paragraph(bold([title]))]
    found += plain_blocks(inline, directive.body, directive.first)
    found += _hint(inline, directive)
    meta = {"line": directive.line}
    match exercise:
        case Exercise(Kind.PREDICT, (cell,)):
            meta |= {"asks": True}
            found.append(Token("cell", "", 0, content=cell, meta=meta))
        case Exercise(Kind.BUILD, (_, check)):
            found.append(Token("own code", "", 0, meta=meta))
            meta |= {"asks": True}
            found.append(Token("cell", "", 0, content=check, meta=meta))
    return [*found, *_answer(inline, exercise, directive.line)]


def _answer(
    inline: InlineRenderer, exercise: Exercise, line: int
) -> list[Token]:
    """Return the answer; to predict, that is what the cell gives."""
    name = exercise.names[0]
    match exercise.kind:
        case Kind.PREDICT:
            return paragraph([words("Run the cell: it gives the answer.")])
        case Kind.REPAIR:
            repair = inline.repairs.get(test_of(name))
            said = _repair(inline, repair, line)
        case Kind.BUILD:
            cell = Snippet.read(inline.topic.snippet).cells().get(name)
            said = [_code(cell.code, "python", line)] if cell else []
    return _folded("Answer", said)


def _repair(
    inline: InlineRenderer, repair: Repair | None, line: int
) -> list[Token]:
    """Return an edit, and what is no longer true with it."""
    if repair is None:
        return paragraph([words(NO_ANSWER)])
    found = [_code(repair.change, "diff", line)]
    if repair.after:
        found += paragraph([words(PRINTS)])
        found.append(_code(repair.after, "text", line))
    found += paragraph([words(NO_LONGER_TRUE)])
    return [*found, *plain_blocks(inline, f"> {repair.sentence}", line)]


def _folded(title: str, said: list[Token]) -> list[Token]:
    """Return what opens in a notebook as well."""
    opening = f"<details><summary>{title}</summary>\n"
    return [_html(opening), *said, _html("</details>\n")]


def _hint(inline: InlineRenderer, directive: Directive) -> list[Token]:
    """Return the hint of an exercise, if it has one."""
    hint = parse_line(directive.options.get("hint", ""))
    if not hint:
        return []
    return _folded("Hint", paragraph(inline.plain(hint, directive.line)))


def _html(content: str) -> Token:
    """Return HTML that stands by itself."""
    return Token("html_block", "", 0, content=content, block=True)


def _claims(inline: InlineRenderer, directive: Directive) -> list[Token]:
    """Repeat the claims that the page says to remember."""
    text = ""
    for each in directive.argument.split():
        page, _, name = each.rpartition("#")
        topic = Topic(inline.topic.root, page) if page else inline.topic
        for claim in read_page(topic.page).claims:
            text += f"- {claim.sentence}\n" if claim.name == name else ""
    return plain_blocks(inline, text, directive.line)


def _the_page(inline: InlineRenderer, says: str) -> list[Token]:
    """Return a paragraph that leads to the page itself."""
    address = address_of(inline.topic.name, inline.base)
    page = linked([words("The page")], address)
    return paragraph([*page, words(f" {says}")])


def _box(
    inline: InlineRenderer, directive: Directive, title: str
) -> list[Token]:
    """Return a box that is called by its kind; its text may begin at once."""
    text, first = directive.body, directive.first
    if directive.argument:
        text, first = f"{directive.argument}\n{text}", first - 1
    content = plain_blocks(inline, text, first)
    return [*paragraph(bold([words(title)])), *content]


def _titled_box(
    inline: InlineRenderer, directive: Directive, default: str
) -> list[Token]:
    """Return a box with the title in its argument, or else the default."""
    line = directive.line
    title = inline.plain(parse_line(directive.argument or default), line)
    content = plain_blocks(inline, directive.body, directive.first)
    return [*paragraph(bold(title)), *content]


def _listing(directive: Directive, language: str) -> Token:
    """Return the body as a block of a language."""
    return _code(directive.body, language, directive.line)


def _code(code: str, language: str, line: int) -> Token:
    """Return some code of a language as a block."""
    return Token(
        "fence",
        "code",
        0,
        markup="```",
        info=language,
        content=f"{code.rstrip()}\n",
        block=True,
        map=[line, line],
    )
