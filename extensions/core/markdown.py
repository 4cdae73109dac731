"""Pages as text: Markdown as MyST reads it, its directives, titles, chapters.

Rules, ledger and notebooks all read a page through this, so that they see
what the site shows. Imports no Sphinx.

A chapter's index asks what its readers ask, and answers each question in one
line that ends in a link to the page behind it. The index of the recipes, which
stand in the order of their names, is written by sphinx-gallery, and no page.
"""

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from extensions.core.cache import cached_by_content
from extensions.core.files import python_in, text_of
from extensions.core.syntax import EXTENSIONS
from extensions.core.topics import HEADER, topics

_PARSER = create_md_parser(
    MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML
)


@cache  # rules, ledger and notebooks read the same pages
def parse(text: str) -> list[Token]:
    """Return the tokens of some Markdown."""
    return _PARSER.parse(text)


def line_of(token: Token, first: int) -> int:
    """Return the line of a token in a text whose first line has a number."""
    return first + (token.map[0] if token.map else 0)


def has_class(token: Token, name: str) -> bool:
    """Whether a span, or a link, has a class."""
    return name in str(token.attrs.get("class", "")).split()


_OPENING = re.compile(r"\{(?P<name>[\w:-]+)\}\s*(?P<argument>.*)")
_OPTION = re.compile(r"\s*:(?P<name>[\w-]+):[ \t]*(?P<value>.*)")


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


def directive_of(token: Token, line: int) -> Directive | None:
    """Return the directive that a token at a line is, if it is one."""
    opening = _OPENING.match(token.info.strip())
    if token.type not in {"fence", "colon_fence"} or not opening:
        return None
    lines = token.content.splitlines(keepends=True)
    options = list(takewhile(bool, map(_OPTION.match, lines)))
    return Directive(
        opening["name"],
        opening["argument"].strip(),
        "".join(lines[len(options) :]),
        line,
        line + 1 + len(options),
        {each["name"]: each["value"] for each in options if each},
    )


class Body(Enum):
    """What stands between the fences of a directive."""

    PROSE = auto()  # its sentences and its claims are those of the page
    TERMS = auto()  # terms, each with its definition, which is prose
    CODE = auto()  # code that nobody has run, which no page may hold
    DATA = auto()  # names, addresses, or the source of a drawing


@dataclass(frozen=True)
class Meaning:
    """What one directive means to whoever reads without Sphinx."""

    body: Body = Body.DATA
    export: str = ""
    """What downloads show in its place, as Markdown: ``{title}`` stands for
    its argument, ``{body}`` for its body, ``{page}`` for a link to the page.
    With nothing, a page that has downloads cannot use it."""


TABLE = "extensions/core/markdown.py"
# What there is instead of two shapes to try, where no script runs.
BROADCASTING = (
    "For example, `(8, 8)` and `(1797, 1, 8)` give `(1797, 8, 8)`: the first"
    " is stretched along a new dimension of 1797, and the second along its"
    " dimension of 1."
)
_CODE = "code code-block code-cell eval-rst literalinclude parsed-literal"
_BOXES = "caution danger hint important note tip warning"

# Those not here have a body of prose, or none, and no download. What downloads
# show of cells, errors, exercises and repeated claims, their export knows.
DIRECTIVES: dict[str, Meaning] = {
    "admonition": Meaning(Body.PROSE, "**{title}**\n\n{body}"),
    "broadcasting": Meaning(
        Body.DATA, f"{BROADCASTING}\n\n{{page}} lets you try others."
    ),
    "csv-table": Meaning(),
    "fold": Meaning(Body.PROSE, "**{title}**\n\n{body}"),
    "glossary": Meaning(Body.TERMS),
    "measured": Meaning(Body.DATA, "{page} shows what was measured."),
    "recipes": Meaning(),
    "sourcecode": Meaning(Body.CODE),
    "toctree": Meaning(),
    **dict.fromkeys(_CODE.split(), Meaning(Body.CODE)),
    **{
        each: Meaning(Body.PROSE, f"**{each.capitalize()}**\n\n{{body}}")
        for each in _BOXES.split()
    },
}


def body_of(name: str) -> Body:
    """Return what the body of a directive is."""
    return DIRECTIVES[name].body if name in DIRECTIVES else Body.PROSE


_RULE = re.compile(
    r"^  (?P<rule>.+): \[[^\]]*\]\((?P<page>[\w/.]+)\.md(#[\w-]+)?\)\.$",
    re.MULTILINE,
)
# A line of a toctree: a page, perhaps behind a title.
_ENTRY = re.compile(r"^(?:.*<)?([^<>\n]*[^<>\s])>?[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Chapter:
    """A chapter of the site."""

    name: str
    title: str
    pages: tuple[str, ...]
    """The names of its pages, in the order of its index."""
    rules: tuple[tuple[str, str], ...]
    """By name of a page: the line that answers a question, as Markdown."""


def chapters(root: Path) -> Iterator[Chapter]:
    """Yield the chapters that there are, in their order on the site."""
    for index in _listed_in(root, "index"):
        if index.endswith("/index") and (pages := _listed_in(root, index)):
            rules = (
                (name_of(match["page"], index), match["rule"])
                for match in _RULE.finditer(_text_of_page(root, index))
            )
            yield Chapter(
                index.removesuffix("/index"),
                words_of_title(root, index),
                tuple(pages),
                tuple(rules),
            )


def _text_of_page(root: Path, name: str) -> str:
    page = root / "docs" / f"{name}.md"
    return text_of(page) if page.exists() else ""


def _listed_in(root: Path, name: str) -> list[str]:
    if name == "gallery/index":
        return [topic.name for topic in topics(root) if topic.is_recipe]
    return [
        name_of(entry, name)
        for _, entries in toctrees_of(root, name)
        for entry in entries
    ]


def toctrees_of(root: Path, name: str) -> list[tuple[int, list[str]]]:
    """Return what each table of contents of a page lists, with its line."""
    text = _text_of_page(root, name)
    if "toctree" not in text:  # as in most: to parse a page takes long
        return []
    found = (directive_of(each, line_of(each, 1)) for each in parse(text))
    return [
        (each.line, _ENTRY.findall(each.body))
        for each in found
        if each and each.name == "toctree"
    ]


def name_of(target: str, beside: str) -> str:
    """Return the name of the page that a page means by a target."""
    if target.startswith("/"):
        return target[1:]
    folder = posixpath.dirname(beside)
    return posixpath.normpath(posixpath.join(folder, target))


def address_of(name: str, base: str) -> str:
    """Return where a page stands; "" if the site's address is not known."""
    return f"{base.rstrip('/')}/{name}.html" if base else ""


def title_of(root: Path, name: str) -> str | None:
    """Return the title of a page as Markdown; none where no page is."""
    page = root / "docs" / f"{name}.md"
    if name == "gallery/index":
        page = root / "gallery" / HEADER
    elif name.startswith("gallery/"):
        page = root / f"{name}.py"
    return _title_in(page, text_of(page)) if page.is_file() else None


@cached_by_content
def _title_in(path: Path, text: str) -> str | None:
    if path.suffix == ".md":
        for token, following in pairwise(parse(text)):
            if token.type == "heading_open":
                return following.content
        return None
    if path.suffix == ".py":
        text = ast.get_docstring(python_in(path, text)) or ""
    return text.partition("\n")[0]


def words_of_title(root: Path, name: str) -> str:
    """Return the title of a page, without its markup."""
    [inline] = _PARSER.parseInline(title_of(root, name) or "")
    return "".join(token.content for token in inline.children or [])
