"""Rules of files, and of the indexes of chapters.

Each file can be read, as what it should be: the other rules take that for
granted. A question leads to each page that the index of its chapter lists.
"""

import ast
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from extensions.claims.sphinx_summaries import (
    correction_files,
    corrections_in,
)
from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, python_in, text_of
from extensions.core.markdown import chapters, toctrees_of
from extensions.core.syntax import front_matter_of
from extensions.core.topics import HEADER, measured_topics, topics
from extensions.evidence.parsed_tests import tests_of
from extensions.measurements.sphinx_measured import (
    read_recordings,
    workload_of,
)
from extensions.programs.snippet import Snippet
from extensions.prose.names import read_names
from extensions.prose.rules import read_sources, read_synonyms

_TITLE = re.compile(r"\S.*\n([=~-])\1*(\n|$)")


def files_are_whole(root: Path) -> Iterator[Problem]:
    """Yield what is wrong with files that cannot be read."""
    every = topics(root)
    programs = [topic.snippet for topic in every]
    modules = [topic.tests for topic in every if topic.tests.exists()]
    recordings = "evidence/*/measurements.json"
    files: tuple[tuple[Callable[[Any], object], Iterable[object]], ...] = (
        (lambda p: _check_program(p, text_of(p)), programs),
        (lambda p: tests_of(p, text_of(p)), modules),
        (front_matter_of, sorted(root.glob("docs/**/*.md"))),
        (workload_of, measured_topics(root)),
        (read_recordings, sorted(root.glob(recordings))),
        (read_recordings, sorted(root.glob(f"build/{recordings}"))),
        (partial(corrections_in, root), correction_files(root)),
        (read_sources, [root]),
        (read_synonyms, [root]),
        (read_names, [root]),
    )
    for read, those in files:
        for each in those:
            try:
                read(each)
            except Problem as problem:
                yield problem


@cached_by_content
def _check_program(path: Path, text: str) -> None:
    title = ast.get_docstring(python_in(path, text)) or ""
    if not _TITLE.match(title):
        raise Problem(path, 1, "no docstring that opens with a title")
    Snippet(path, text).cells()


def folders_have_headers(root: Path) -> Iterator[Problem]:
    """Yield folders of programs that sphinx-gallery would pass over."""
    folders = {topic.snippet.parent for topic in topics(root)}
    folders |= {root / "snippets"} if folders else set()
    for header in sorted(folder / HEADER for folder in folders):
        try:
            text_of(header)
        except Problem as problem:
            yield problem


def indexes_answer(root: Path) -> Iterator[Problem]:
    """Yield pages to which no question of their chapter's index leads.

    An index without questions, such as that of a course, needs none.
    """
    for chapter in chapters(root):
        answered = {name for name, _ in chapter.rules}
        for name in chapter.pages if answered else ():
            if name not in answered:
                index = f"{chapter.name}/index"
                entry = posixpath.relpath(name, chapter.name)
                message = (
                    f"no question leads to {entry}: add one above this"
                    " toctree, '- A question?', and its answer,"
                    f" '  A rule: [Title]({entry}.md).'"
                )
                line = toctrees_of(root, index)[0].line
                yield Problem(root / "docs" / f"{index}.md", line, message)
