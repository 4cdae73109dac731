"""Pages: titles, addresses, and the order in which they are read.

A chapter's index asks what its readers ask, and answers each question in one
line that ends in a link to the page behind it. The index of the recipes, which
stand in the order of their names, is written by sphinx-gallery, and no page.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import python_in, text_of
from extensions.core.markdown import (
    directive_of,
    line_of,
    parse,
    parse_line,
)
from extensions.core.topics import topics

# What sphinx-gallery calls the text above a list of programs.
HEADER = "GALLERY_HEADER.rst"


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
    """Return the title that the text of a page, header or recipe has."""
    if path.suffix == ".md":
        for token, following in pairwise(parse(text)):
            if token.type == "heading_open":
                return following.content
        return None
    if path.suffix == ".py":
        text = ast.get_docstring(python_in(path, text)) or ""
    return text.partition("\n")[0]


_RULE = re.compile(
    r"^  (?P<rule>.+): \[[^\]]*\]\((?P<page>[\w/.]+)\.md(#[\w-]+)?\)\.$",
    re.MULTILINE,
)
# A line of a toctree: a page, perhaps behind a title.
_ENTRY = re.compile(r"^(?:.*<)?([^<>\n]*[^<>\s])>?[ \t]*$", re.MULTILINE)
_RECIPES = "gallery/index"


@dataclass(frozen=True)
class Chapter:
    """A chapter of the site."""

    name: str
    title: str
    pages: tuple[str, ...]
    """The names of its pages, in the order of its index."""
    rules: tuple[tuple[str, str], ...]
    """By name of a page: the line that answers a question, as Markdown."""


@dataclass(frozen=True)
class _Toctree:
    """A table of contents on a page."""

    line: int
    """The line at which it begins, counted from 1."""
    entries: tuple[str, ...]
    """What it lists, as it stands there."""


def chapters(root: Path) -> Iterator[Chapter]:
    """Yield the chapters that there are, in their order on the site."""
    for index in listed_in(root, "index"):
        if index.endswith("/index") and (pages := listed_in(root, index)):
            rules = (
                (name_of(match["page"], index), match["rule"])
                for match in _RULE.finditer(_contents(root, index))
            )
            yield Chapter(
                index.removesuffix("/index"),
                words_of_title(root, index),
                tuple(pages),
                tuple(rules),
            )


def _contents(root: Path, name: str) -> str:
    """Return the text of a page; "" if there is none."""
    page = root / "docs" / f"{name}.md"
    return text_of(page) if page.exists() else ""


def listed_in(root: Path, name: str) -> list[str]:
    """Return the names of the pages that the contents of a page list."""
    if name == _RECIPES:
        return [topic.name for topic in topics(root) if topic.is_recipe]
    return [
        name_of(entry, name)
        for toctree in toctrees_of(root, name)
        for entry in toctree.entries
    ]


def toctrees_of(root: Path, name: str) -> list[_Toctree]:
    """Return the tables of contents of a page."""
    text = _contents(root, name)
    if "toctree" not in text:  # as in most: to parse a page takes long
        return []
    tokens = parse(text)
    found = (directive_of(token, line_of(token, 1)) for token in tokens)
    return [
        _Toctree(
            directive.line,
            tuple(_ENTRY.findall(directive.body)),
        )
        for directive in found
        if directive and directive.name == "toctree"
    ]


def words_of_title(root: Path, name: str) -> str:
    """Return the title of a page, without its markup."""
    tokens = parse_line(title_of(root, name) or "")
    return "".join(token.content for token in tokens)
