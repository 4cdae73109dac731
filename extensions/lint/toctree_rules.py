"""Rules of toctrees: each page is listed, and a question leads to it.

Sphinx says only that a page is in no toctree; these name the line to add.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from extensions.core.problem import Problem
from extensions.core.reading_order import (
    Chapter,
    chapters,
    name_of,
    toctrees_of,
)

_HOME = "index"


def pages_are_listed(root: Path) -> Iterator[Problem]:
    """Yield the line at which a page is to be added to a toctree."""
    names = _pages(root)
    listed = {
        name_of(entry, name)
        for name in names
        for toctree in toctrees_of(root, name)
        for entry in toctree.entries
    }
    for name in names:
        if name != _HOME and not any(fnmatch(name, each) for each in listed):
            yield _missing(root, name)


def indexes_answer(root: Path) -> Iterator[Problem]:
    """Yield pages to which no question of their chapter's index leads.

    An index without questions, such as that of a course, needs none.
    """
    for chapter in chapters(root):
        answered = {name for name, _ in chapter.rules}
        for name in chapter.pages if answered else ():
            if name not in answered:
                yield _unanswered(root, chapter, name)


def _pages(root: Path) -> list[str]:
    """Return the names of all pages that are written by hand."""
    docs = root / "docs"
    found = (page.relative_to(docs) for page in docs.glob("**/*.md"))
    return sorted(
        page.with_suffix("").as_posix()
        for page in found
        if not page.parts[0].startswith("_")
    )


def _index_of(root: Path, name: str) -> str:
    """Return the page that should list another: the nearest index."""
    folder = posixpath.dirname(name)
    index = posixpath.join(folder, _HOME)
    if index == name or not (root / "docs" / f"{index}.md").exists():
        return _index_of(root, folder) if folder else _HOME
    return index


def _missing(root: Path, name: str) -> Problem:
    """Return where a page is to be added."""
    index = _index_of(root, name)
    page = root / "docs" / f"{index}.md"
    entry = posixpath.relpath(name, posixpath.dirname(index) or ".")
    for toctree in toctrees_of(root, index):
        return Problem(page, toctree.line, f"add {entry} to this toctree")
    return Problem(page, 1, f"no toctree: add one that lists {entry}")


def _unanswered(root: Path, chapter: Chapter, name: str) -> Problem:
    """Return where a question with its answer is to be added."""
    index = f"{chapter.name}/{_HOME}"
    page = root / "docs" / f"{index}.md"
    entry = posixpath.relpath(name, chapter.name)
    line = toctrees_of(root, index)[0].line
    message = (
        f"no question leads to {entry}: add one above this toctree,"
        f" '- A question?', and its answer, '  A rule: [Title]({entry}.md).'"
    )
    return Problem(page, line, message)
