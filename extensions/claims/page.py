"""The claims and cells of a page, and the code that it should not hold.

A page is Markdown, where a claim is ``[words]{#its-name .claim}``. A recipe is
a script, where a claim is a paragraph of comments behind ``# .. _its-name:``.
Reads files as text, without Sphinx, so that rules and ledger see one truth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from extensions.claims.page import Claim, claims_in
from extensions.core.cache import cached_by_content
from extensions.core.files import text_of
from extensions.core.markdown import (
    Body,
    Directive,
    body_of,
    directive_of,
    line_of,
    parse,
)
from extensions.core.syntax import Kind, exercise_of

_RECIPE_CLAIM = re.compile(
    r"^# \.\. _(?P<name>.*):\n#\n(?P<text>(?:# .*\n)+)", re.MULTILINE
)
# A recipe shows its recorded measurements after its figure of timings.
RECIPE_TIMINGS = re.compile(r'\bnum="timings"')


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
    measured: list[int] = field(default_factory=list)
    """Lines at which the page shows what was measured."""
    recapped: list[NamedItem] = field(default_factory=list)
    """Claims that the page repeats."""
    exercises: list[NamedItem] = field(default_factory=list)
    """Counter-examples that the page asks for to repair a program, named as
    claims are."""


def read_page(path: Path) -> Page:
    """Return what the page at a path holds; a script is a recipe."""
    text = text_of(path) if path.exists() else ""
    return _parsed_page(path, text)


@cached_by_content
def _parsed_page(path: Path, text: str) -> Page:
    """Return the contents of a page."""
    page = Page(path)
    if path.suffix == ".py":
        _add_recipe(page, text)
    else:
        _add_markdown(page, text, 1)
    return page


def _add_recipe(page: Page, text: str) -> None:
    """Add the contents of a script, whose cells are all shown."""
    for match in RECIPE_TIMINGS.finditer(text):
        page.measured.append(text.count("\n", 0, match.start()) + 1)
    for match in _RECIPE_CLAIM.finditer(text):
        words = match["text"].replace("\n# ", " ").removeprefix("# ").strip()
        line = text.count("\n", 0, match.start("text")) + 1
        page.claims.append(
            Claim(match["name"], words.replace("``", "`"), line)
        )


def _add_markdown(page: Page, text: str, first: int) -> None:
    """Add the contents of some Markdown that begins at line ``first``."""
    for token in parse(text):
        line = line_of(token, first)
        if token.type == "inline":
            page.claims += claims_in(token, line)
        elif directive := directive_of(token, line):
            _add_directive(page, directive)
        elif token.type in {"code_block", "fence", "colon_fence"}:
            page.code.append(line)


def _add_exercise(page: Page, directive: Directive) -> None:
    """Add what an exercise refers to; the directive reports an unclear one."""
    if exercise := exercise_of(directive.argument):
        items = [NamedItem(each, directive.line) for each in exercise.names]
        is_repair = exercise.kind is Kind.REPAIR
        (page.exercises if is_repair else page.cells).extend(items)


def _add_directive(page: Page, directive: Directive) -> None:
    """Add what a directive refers to, or the contents of its body."""
    if directive.name == "cell" and "from" not in directive.options:
        page.cells.append(NamedItem(directive.argument, directive.line))
    elif directive.name == "measured":
        page.measured.append(directive.line)
    elif directive.name == "recap":
        names = directive.argument.split()
        page.recapped += [NamedItem(name, directive.line) for name in names]
    elif directive.name == "exercise":
        _add_exercise(page, directive)
    body = body_of(directive.name)
    if body is Body.CODE:
        page.code.append(directive.line)
    elif body is not Body.DATA:
        _add_markdown(page, directive.body, directive.first)
