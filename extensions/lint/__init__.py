"""Rules of the project, held by the tests and at every build.

Each rule is a function that yields a :class:`Problem` for each place where it
is broken. The packages bring their rules; here they are put in order.

A file that cannot be read ends a build before any program runs, in a line that
names it, and the site of the last build stays as it is. What breaks another
rule is reported, at its file and line.
"""

import ast
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.typing import ExtensionMetadata

from extensions.claims import rules as claim_rules
from extensions.claims import sphinx_summaries
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, python_in, text_of
from extensions.core.markdown import chapters, toctrees_of
from extensions.core.syntax import front_matter_of
from extensions.core.topics import HEADER, measured_topics, topics
from extensions.evidence import rules as test_rules
from extensions.evidence.junit import unreadable_runs
from extensions.evidence.parsed_tests import tests_of
from extensions.evidence.sphinx_runs import folders_of
from extensions.measurements.sphinx_measured import (
    read_recordings,
    workload_of,
)
from extensions.programs import outputs as program_rules
from extensions.programs.snippet import Snippet
from extensions.prose import rules as prose_rules
from extensions.prose.names import read_names
from extensions.site.dependencies import root_of
from extensions.site.errors import report, stop
from extensions.site.metadata import METADATA

_TITLE = re.compile(r"\S.*\n([=~-])\1*(\n|$)")


def files_are_whole(root: Path) -> Iterator[Problem]:
    """Yield what is wrong with files that cannot be read."""
    every = topics(root)
    programs = [topic.snippet for topic in every]
    modules = [topic.tests for topic in every if topic.tests.exists()]
    corrections = sphinx_summaries.correction_files(root)
    # sphinx-gallery passes over a folder without one.
    headers = {path.with_name(HEADER) for path in programs}
    headers |= {root / "snippets" / HEADER} if programs else set()
    recordings = "evidence/*/measurements.json"
    files: tuple[tuple[Callable[[Any], object], Iterable[object]], ...] = (
        (lambda p: _check_program(p, text_of(p)), programs),
        (lambda p: tests_of(p, text_of(p)), modules),
        (text_of, sorted(headers)),
        (front_matter_of, sorted(root.glob("docs/**/*.md"))),
        (workload_of, measured_topics(root)),
        (read_recordings, sorted(root.glob(recordings))),
        (read_recordings, sorted(root.glob(f"build/{recordings}"))),
        (partial(sphinx_summaries.corrections_in, root), corrections),
        (prose_rules.read_sources, [root]),
        (prose_rules.read_synonyms, [root]),
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
                line, _ = toctrees_of(root, index)[0]
                yield Problem(root / "docs" / f"{index}.md", line, message)


# Without this no program can run and no page can be built.
FIRST_RULES = (files_are_whole,)
# These hold once every file can be read.
LATER_RULES = (
    claim_rules.pages_show_their_cells,
    claim_rules.pages_hold_no_code,
    claim_rules.pages_mirror_snippets,
    claim_rules.claims_and_tests_pair_off,
    test_rules.tests_mirror_topics,
    test_rules.tests_import_what_is_everywhere,
    test_rules.counter_examples_are_honest,
    prose_rules.fronts_name_pages,
    prose_rules.phrases_add_words,
    indexes_answer,
    prose_rules.pages_have_their_sections,
    prose_rules.sentences_stand_alone,
    prose_rules.citations_are_primary,
    program_rules.snippets_stand_alone,
    program_rules.outputs_do_not_vary,
    sphinx_summaries.corrections_stand,
)
RULES = FIRST_RULES + LATER_RULES


def problems_of(
    root: Path, rules: Iterable[Callable[[Path], Iterator[Problem]]]
) -> Iterator[Problem]:
    """Yield what breaks some rules in the project at a folder."""
    for rule in rules:
        # At a file that cannot be read: one of the first rules reports it.
        with suppress(Problem):
            yield from rule(root)


def _hold_first_rules(app: Sphinx, config: Config) -> None:
    if broken := [*problems_of(Path(app.srcdir).parent, FIRST_RULES)]:
        stop(broken)


def _hold_later_rules(app: Sphinx) -> None:
    root, folders = root_of(app.env), folders_of(app.env)
    ledger, unreadable = ledger_of(app), unreadable_runs(folders)
    broken = [*unreadable, *problems_of(root, LATER_RULES)]
    if ledger.own_run:
        broken += claim_rules.evidence_stands(ledger)
        broken += claim_rules.failures_show_values(ledger)
    elif not unreadable:
        message = "no run of the tests: run them first"
        broken.append(Problem(folders[0], 1, message))
    for problem in broken:
        report(problem)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Hold the rules at every build: the later ones once pages are known."""
    app.connect("config-inited", _hold_first_rules)
    app.connect("builder-inited", _hold_later_rules)
    return METADATA
