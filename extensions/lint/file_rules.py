"""Rules of files: each can be read, as what it should be.

They hold before the other rules, which take for granted what these say.
"""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from extensions.claims.corrections import correction_files, corrections_in
from extensions.core.cache import cached_by_content
from extensions.core.problem import Problem
from extensions.core.reading import bytes_of, python_in, text_of
from extensions.core.reading_order import HEADER
from extensions.core.syntax import front_matter_of
from extensions.core.topics import measured_topics, topics
from extensions.evidence.parsed_tests import tests_of
from extensions.measurements.results import read_recordings, workload_of
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
