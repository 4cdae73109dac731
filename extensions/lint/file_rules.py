"""Rules of files, toctrees and directives.

Each file can be read, as what it should be: the other rules take that for
granted. Each page is listed in a toctree, and a question leads to it: Sphinx
says only that a page is in no toctree, these name the line to add. A page uses
only directives and roles that have a meaning.
"""

from __future__ import annotations

import ast
import codecs
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from extensions.claims.corrections import correction_files, corrections_in
from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, bytes_of, python_in, text_of
from extensions.core.markdown import (
    Chapter,
    chapters,
    name_of,
    toctrees_of,
)
from extensions.core.syntax import front_matter_of
from extensions.core.topics import HEADER, measured_topics, topics
from extensions.evidence.parsed_tests import tests_of
from extensions.measurements.sphinx_measured import (
    read_recordings,
    workload_of,
)
from extensions.programs.snippet import Snippet
from extensions.prose.lists import read_sources, read_synonyms

_TITLE = re.compile(r"\S.*\n([=~-])\1*(\n|$)")


def _unreadable(
    read: Callable[[Any], object], those: Iterable[object]
) -> Iterator[Problem]:
    """Yield what is wrong with those that cannot be read."""
    for each in those:
        try:
            read(each)
        except Problem as problem:
            yield problem


def _read_program(path: Path) -> None:
    """Read a program as sphinx-gallery and the pages will."""
    if bytes_of(path).startswith(codecs.BOM_UTF8):
        message = "begins with a byte order mark: save it as UTF-8 without one"
        raise Problem(path, 1, message)
    _check_program(path, text_of(path))


@cached_by_content
def _check_program(path: Path, text: str) -> None:
    """Raise what is wrong with the text of a program."""
    title = ast.get_docstring(python_in(path, text)) or ""
    if not _TITLE.match(title):
        raise Problem(path, 1, "no docstring that opens with a title")
    Snippet(path, text).cells()


def programs_are_whole(root: Path) -> Iterator[Problem]:
    """Yield programs that cannot be run, or not cell by cell."""
    programs = [topic.snippet for topic in topics(root)]
    yield from _unreadable(_read_program, programs)


def folders_have_headers(root: Path) -> Iterator[Problem]:
    """Yield folders of programs that sphinx-gallery would pass over."""
    folders = {topic.snippet.parent for topic in topics(root)}
    folders |= {root / "snippets"} if folders else set()
    for folder in sorted(folders):
        if (folder / HEADER).exists():
            yield from _unreadable(text_of, [folder / HEADER])
        else:
            message = f"missing gallery header: {HEADER} gives the title"
            yield Problem(folder / HEADER, 1, message)


def tests_are_python(root: Path) -> Iterator[Problem]:
    """Yield tests of topics that do not parse."""

    def read(path: Path) -> None:
        tests_of(path, text_of(path))

    modules = [topic.tests for topic in topics(root)]
    yield from _unreadable(read, [each for each in modules if each.exists()])


def pages_are_text(root: Path) -> Iterator[Problem]:
    """Yield pages that Sphinx could not read, or whose head is broken."""
    pages = sorted(root.glob("docs/**/*.md"))
    yield from _unreadable(front_matter_of, pages)


def workloads_are_said(root: Path) -> Iterator[Problem]:
    """Yield measurements that do not parse, or do not say what they do."""
    yield from _unreadable(workload_of, measured_topics(root))


def recordings_are_whole(root: Path) -> Iterator[Problem]:
    """Yield recorded measurements of which a part is missing."""
    paths = sorted(root.glob("evidence/*/measurements.json"))
    paths += sorted(root.glob("build/evidence/*/measurements.json"))
    yield from _unreadable(read_recordings, paths)


def corrections_are_whole(root: Path) -> Iterator[Problem]:
    """Yield lists of corrections that are broken."""

    def read(path: Path) -> None:
        corrections_in(root, path)

    yield from _unreadable(read, correction_files(root))


def sources_are_whole(root: Path) -> Iterator[Problem]:
    """Yield what is wrong with the list of primary sources."""
    yield from _unreadable(read_sources, [root])


def synonyms_are_whole(root: Path) -> Iterator[Problem]:
    """Yield what is wrong with the list of synonyms."""
    yield from _unreadable(read_synonyms, [root])


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
