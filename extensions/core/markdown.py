"""The one parser of pages: Markdown as MyST reads it, and its directives.

Rules, ledger and notebooks all read a page through this, so that they see
what the site shows. At the end are tokens that no page holds: what an export
puts in the place of others. Imports no Sphinx.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from extensions.core.syntax import EXTENSIONS

_OPENING = re.compile(r"\{(?P<name>[\w:-]+)\}\s*(?P<argument>.*)")
_OPTION = re.compile(r"\s*:(?!::)")
_OPTION_LINE = re.compile(r"\s*:?(?P<name>[\w-]+):[ \t]*(?P<value>.*)")
_PARSER = create_md_parser(
    MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML
)


@dataclass(frozen=True)
class Directive:
    """What stands between two fences, of backticks or of colons."""

    name: str
    argument: str
    """What stands behind the name, on the line of the fence."""
    body: str
    """What stands below its options."""
    line: int
    """The line of the fence, counted from 1."""
    first: int
    """The line at which the body begins."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The value of each of its options; "" for a flag."""


@cache  # rules, ledger and notebooks read the same pages
def parse(text: str) -> list[Token]:
    """Return the tokens of some Markdown."""
    return _PARSER.parse(text)


def parse_line(text: str) -> list[Token]:
    """Return the tokens of some words, which are no list and no heading."""
    [inline] = _PARSER.parseInline(text)
    return inline.children or []


def line_of(token: Token, first: int) -> int:
    """Return the line of a token in a text whose first line has a number."""
    return first + (token.map[0] if token.map else 0)


def has_class(token: Token, name: str) -> bool:
    """Whether a span, or a link, has a class."""
    return name in str(token.attrs.get("class", "")).split()


def directive_of(token: Token, line: int) -> Directive | None:
    """Return the directive that a token at a line is, if it is one."""
    if token.type not in {"fence", "colon_fence"}:
        return None
    opening = _OPENING.match(token.info.strip())
    if opening is None:
        return None
    lines = token.content.splitlines(keepends=True)
    skipped = _options_in(lines)
    return Directive(
        opening["name"],
        opening["argument"].strip(),
        "".join(lines[skipped:]),
        line,
        line + 1 + skipped,
        {
            found["name"]: found["value"]
            for each in lines[:skipped]
            if (found := _OPTION_LINE.match(each))
        },
    )


def _options_in(lines: list[str]) -> int:
    """Return how many lines at the top of a directive are its options."""
    if not lines or not lines[0].startswith("---"):
        return len(list(takewhile(_OPTION.match, lines)))
    ends = (
        number
        for number, line in enumerate(lines[1:], 2)
        if line.startswith("---")
    )
    return next(ends, len(lines))
