"""The claims and cells of a page, and the code that it should not hold.

A page is Markdown, where a claim is ``[words]{#its-name .claim}``. A recipe is
a script, where a claim is a paragraph of comments behind ``# .. _its-name:``.
Reads files as text, without Sphinx, so that rules and ledger see one truth.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it.token import Token

from extensions.core.cache import cached_by_content
from extensions.core.files import text_of
from extensions.core.markdown import (
    Body,
    Directive,
    body_of,
    directive_of,
    has_class,
    line_of,
    parse,
)
from extensions.core.syntax import Kind, exercise_of

_RECIPE_CLAIM = re.compile(
    r"^# \.\. _(?P<name>.*):\n#\n(?P<text>(?:# .*\n)+)", re.MULTILINE
)


@dataclass(frozen=True)
class Claim:
    """Words that a test keeps true."""

    name: str
    text: str
    """The words as Markdown."""
    line: int = field(repr=False)  # no page shows it

    @property
    def sentence(self) -> str:
        """The words as they begin a sentence; no code gets a capital."""
        return self.text[:1].upper() + self.text[1:]


@dataclass(frozen=True)
class NamedItem:
    """Something that a page refers to by name, such as a cell."""

    name: str
    line: int


@dataclass
class Page:
    """What one page, or one recipe, holds."""

    path: Path
    claims: list[Claim] = field(default_factory=list)
    cells: list[NamedItem] = field(default_factory=list)
    code: list[int] = field(default_factory=list)
    """Lines at which code stands on the page itself."""
    recapped: list[NamedItem] = field(default_factory=list)
    """Claims that the page repeats."""


def read_page(path: Path) -> Page:
    """Return what the page at a path holds; a script is a recipe."""
    text = text_of(path) if path.exists() else ""
    return _parsed_page(path, text)


@cached_by_content
def _parsed_page(path: Path, text: str) -> Page:
    page = Page(path)
    if path.suffix == ".py":
        _add_recipe(page, text)
    else:
        _add_markdown(page, text, 1)
    return page


def _add_recipe(page: Page, text: str) -> None:
    for match in _RECIPE_CLAIM.finditer(text):
        words = match["text"].replace("\n# ", " ").removeprefix("# ").strip()
        line = text.count("\n", 0, match.start("text")) + 1
        page.claims.append(
            Claim(match["name"], words.replace("``", "`"), line)
        )


def _add_markdown(page: Page, text: str, first: int) -> None:
    for token in parse(text):
        line = line_of(token, first)
        if token.type == "inline":
            page.claims += _claims_in(token, line)
        elif directive := directive_of(token, line):
            _add_directive(page, directive)
        elif token.type in {"code_block", "fence", "colon_fence"}:
            page.code.append(line)


def _claims_in(paragraph: Token, line: int) -> Iterator[Claim]:
    words: list[str] = []
    name, begun = None, line
    for token in paragraph.children or []:
        if token.type == "span_open" and has_class(token, "claim"):
            name, begun = str(token.attrs.get("id", "")), line
            words = []
        elif token.type == "span_close" and name is not None:
            yield Claim(name, "".join(words), begun)
            name = None
        elif token.type in {"softbreak", "hardbreak"}:
            words.append(" ")
            line += 1
        elif token.type == "code_inline":
            words.append(f"`{token.content}`")
        else:
            words.append(token.content)


def _add_directive(page: Page, directive: Directive) -> None:
    def items(names: list[str] | tuple[str, ...]) -> list[NamedItem]:
        return [NamedItem(name, directive.line) for name in names]

    if directive.name == "cell" and "from" not in directive.options:
        page.cells += items([directive.argument])
    elif directive.name == "recap":
        page.recapped += items(directive.argument.split())
    elif (
        directive.name == "exercise"
        # The directive itself reports an unclear one.
        and (exercise := exercise_of(directive.argument))
        and exercise.kind is not Kind.REPAIR
    ):
        page.cells += items(exercise.names)
    body = body_of(directive.name)
    if body is Body.CODE:
        page.code.append(directive.line)
    elif body is not Body.DATA:
        _add_markdown(page, directive.body, directive.first)
