"""The order in which the site is read: its chapters, and the pages of each.

A chapter's index asks what its readers ask, and answers each question in one
line that ends in a link to the page behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from extensions.files.markdown import directive_of, line_of, parse
from extensions.files.reading import text_of
from extensions.files.titles import name_of, title_of

RULE = re.compile(
    r"^  (?P<rule>.+): \[[^\]]*\]\((?P<page>[\w/.]+)\.md(#[\w-]+)?\)\.$",
    re.MULTILINE,
)


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
    """Yield the chapters that are pages, in their order on the site."""
    for index in listed_in(root, "index"):
        page = root / "docs" / f"{index}.md"
        if index.endswith("/index") and page.exists():
            rules = (
                (name_of(match["page"], index), match["rule"])
                for match in RULE.finditer(text_of(page))
            )
            yield Chapter(
                index.removesuffix("/index"),
                words_of_title(root, index),
                tuple(listed_in(root, index)),
                tuple(rules),
            )


def listed_in(root: Path, name: str) -> list[str]:
    """Return the names of the pages that the contents of a page list."""
    tokens = parse(text_of(root / "docs" / f"{name}.md"))
    found = (directive_of(token, line_of(token, 1)) for token in tokens)
    return [
        name_of(line.strip(), name)
        for directive in found
        if directive and directive.name == "toctree"
        for line in directive.body.splitlines()
        if line.strip()
    ]


def words_of_title(root: Path, name: str) -> str:
    """Return the title of a page, without its markup."""
    return "".join(token.content for token in title_of(root, name) or [])
