"""Turn what MyST adds between paragraphs into Markdown that all readers know.

One table says how a directive is woven; what it does not name is a problem at
its line, which a rule reports, and is left out: nothing raw is ever published.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from markdown_it.token import Token
from mdformat.renderer import DEFAULT_RENDERERS

from extensions.claims.page import read_page
from extensions.core.markdown import (
    Directive,
    directive_of,
    kind_of,
    line_of,
    parse,
    parse_line,
)
from extensions.core.markdown_tokens import bold, linked, paragraph, words
from extensions.core.titles import address_of
from extensions.core.topics import Topic
from extensions.notebooks import markdown_tables
from extensions.notebooks.roles import Wording

# What a page says to Sphinx alone.
UNSEEN = {
    "front_matter",
    "myst_block_break",
    "myst_line_comment",
    "myst_target",
}
SHOWN = DEFAULT_RENDERERS.keys() | markdown_tables.RENDERERS


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
    """Mark where a cell stands; one of another page has no place here."""
    if "from" in directive.options:
        return wording.report(directive.line, "{cell} with :from:")
    meta = {"line": directive.line}
    return [Token("cell", "", 0, content=directive.argument, meta=meta)]


def measured(wording: Wording, directive: Directive) -> list[Token]:
    """Say where the numbers are."""
    return the_page(wording, "shows what was measured.")


def the_page(wording: Wording, says: str) -> list[Token]:
    """Return a paragraph that leads to the page itself."""
    address = address_of(wording.topic.name, wording.base)
    page = linked([words("The page")], address)
    return paragraph([*page, words(f" {says}")])


def recap(wording: Wording, directive: Directive) -> list[Token]:
    """Repeat the claims that the page says to remember."""
    text = ""
    for each in directive.argument.split():
        page, _, name = each.rpartition("#")
        topic = Topic(wording.topic.root, page) if page else wording.topic
        for claim in read_page(topic.page).claims:
            text += f"- {claim.sentence}\n" if claim.name == name else ""
    return plain(wording, text, directive.line)


def exercise(wording: Wording, directive: Directive) -> list[Token]:
    """Ask, and say where the answer is, which a run of the tests gives."""
    question = plain(wording, directive.body, directive.first)
    return [*question, *the_page(wording, "has a hint and an answer.")]


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
    "exercise": exercise,
    "measured": measured,
    "recap": recap,
    "admonition": partial(titled, "Note"),
    "dropdown": partial(titled, "More"),
    **{kind: partial(named, kind.capitalize()) for kind in KINDS},
}
