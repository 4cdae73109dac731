"""Weave a page: prose in Markdown that every notebook shows, and the cells.

What MyST adds becomes plain Markdown by one table of directives, here, and
one of roles, in ``wording.py``. What stands in neither is a problem at its
line, which a rule reports, and is left out: nothing raw is ever published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from markdown_it.token import Token
from mdformat.renderer import DEFAULT_RENDERERS, MDRenderer

from extensions.files import markdown_tables
from extensions.files.markdown import (
    Directive,
    directive_of,
    kind_of,
    line_of,
    parse,
    parse_line,
)
from extensions.files.pages import Shown
from extensions.files.problem import Problem
from extensions.files.reading import text_of
from extensions.files.titles import address_of
from extensions.files.tokens import bold, linked, paragraph, words
from extensions.files.topics import Topic
from extensions.files.wording import Wording

# What a page says to Sphinx alone.
UNSEEN = {
    "front_matter",
    "myst_block_break",
    "myst_line_comment",
    "myst_target",
}
SHOWN = DEFAULT_RENDERERS.keys() | markdown_tables.RENDERERS


@dataclass(frozen=True)
class Woven:
    """A page as a notebook shows it."""

    pieces: list[str | Shown]
    """Markdown, and the cells between it."""
    problems: list[Problem]


def weave(topic: Topic, base: str) -> Woven:
    """Return the page of a topic; ``base`` is the site's address or ""."""
    wording = Wording(topic, base)
    tokens = plain(wording, text_of(topic.page), 1)
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


def rendered(tokens: list[Token]) -> str:
    """Return the Markdown of some tokens."""
    options = {"parser_extension": [markdown_tables]}
    return MDRenderer().render(tokens, options, {}).strip("\n")


def plain(wording: Wording, text: str, first: int) -> list[Token]:
    """Return the tokens of some Markdown without what MyST adds."""
    found: list[Token] = []
    for token in parse(text):
        line = line_of(token, first)
        kind = kind_of(token)
        if directive := directive_of(token, line):
            if directive.name in DIRECTIVES:
                found += DIRECTIVES[directive.name](wording, directive)
            else:
                wording.report(line, f"{{{directive.name}}}")
        elif token.type == "inline":
            children = wording.plain(token.children or [], line)
            found.append(token.copy(children=children))
        elif kind in SHOWN:
            found.append(token)
        elif kind not in UNSEEN and token.nesting >= 0:
            wording.report(line, kind.replace("_", " "))
    return found


def cell(wording: Wording, directive: Directive) -> list[Token]:
    """Mark where a cell stands, whatever its options say."""
    meta = {"line": directive.line}
    return [Token("cell", "", 0, content=directive.argument, meta=meta)]


def measured(wording: Wording, directive: Directive) -> list[Token]:
    """Say where the numbers are."""
    address = address_of(wording.topic.name, wording.base)
    page = linked([words("The page")], address)
    return paragraph([*page, words(" shows what was measured.")])


def named(name: str, wording: Wording, directive: Directive) -> list[Token]:
    """Return a box that is called by its kind; its text may begin at once."""
    text, first = directive.body, directive.first
    if directive.argument:
        text, first = f"{directive.argument}\n{text}", first - 1
    title = paragraph(bold([words(name)]))
    return [*title, *plain(wording, text, first)]


def titled(name: str, wording: Wording, directive: Directive) -> list[Token]:
    """Return a box that has a title of its own, or else is called a name."""
    line = directive.line
    title = wording.plain(parse_line(directive.argument or name), line)
    content = plain(wording, directive.body, directive.first)
    return [*paragraph(bold(title)), *content]


KINDS = ("caution", "danger", "hint", "important", "note", "tip", "warning")

# How a directive is woven; one that is not here is a problem at its line.
DIRECTIVES: dict[str, Callable[[Wording, Directive], list[Token]]] = {
    "cell": cell,
    "measured": measured,
    "admonition": partial(titled, "Note"),
    "dropdown": partial(titled, "More"),
    **{kind: partial(named, kind.capitalize()) for kind in KINDS},
}
