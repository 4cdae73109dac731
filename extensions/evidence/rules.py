"""Rules of tests: where they stand, and what a counter-example must do."""

import sys
from collections.abc import Iterator
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, python_in, text_of
from extensions.core.topics import topic_of_tests, topics
from extensions.evidence.parsed_tests import (
    ALSO,
    BUT,
    ENDS,
    EXPECTS_FAILURE,
    tests_in,
)
from extensions.evidence.sources import imports_in

# What is installed wherever tests of claims run.
_EVERYWHERE = {*sys.stdlib_module_names, "numpy", "pytest", "torch"}


def tests_mirror_topics(root: Path) -> Iterator[Problem]:
    """Yield test modules in a chapter's folder that mirror no topic."""
    chapters = {topic.chapter for topic in topics(root)}
    for path in sorted(root.glob("tests/*/**/test_*.py")):
        topic = topic_of_tests(root, path)
        if topic.chapter in chapters and not topic.snippet.exists():
            snippet = topic.snippet.relative_to(root)
            yield Problem(path, 1, f"mirrors no snippet {snippet}")


def tests_import_what_is_everywhere(root: Path) -> Iterator[Problem]:
    """Yield imports for which a whole module of tests would be lost.

    A program may import more: where that is missing, the tests of the cells
    that need it are skipped, and their claims say what they need.
    """
    for topic in topics(root):
        if not topic.tests.exists():
            continue
        for line, name in _imported(topic.tests, text_of(topic.tests)):
            if name not in _EVERYWHERE:
                message = (
                    f"imports {name}, without which none of these tests runs:"
                    " use it through the program, or import it in a test,"
                    " with pytest.importorskip"
                )
                yield Problem(topic.tests, line, message)


@cached_by_content
def _imported(path: Path, text: str) -> list[tuple[int, str]]:
    return [
        (line, each.module[0])
        for line, _, each in imports_in(python_in(path, text).body)
        if not each.is_ours
    ]


def counter_examples_are_honest(root: Path) -> Iterator[Problem]:
    """Yield tests that are not what their names say.

    A counter-example expects the test of its claim to fail, once, and so does
    a limit; no other test expects a failure.
    """
    for topic in topics(root):
        for test in tests_in(topic.tests).values():
            expects = test.is_counter or test.is_limit
            if not test.kind:
                message = (
                    f"{test.name} does not say what it is: behind {test.of}__"
                    f" write {ALSO}, {BUT} or {ENDS}"
                )
            elif expects and test.falsifies != (test.of,):
                message = (
                    f"{test.name} does not show that {test.of} fails: write"
                    f" {EXPECTS_FAILURE}({test.of}, ...) once; or, if the"
                    f" claim holds there, name it {test.of}__{ALSO}..."
                )
            elif test.falsifies and not expects:
                message = (
                    f"{test.name} expects a failure, as only a"
                    f" counter-example or a limit does: name it"
                    f" {test.of}__{BUT}... or {test.of}__{ENDS}..."
                )
            else:
                continue
            yield Problem(topic.tests, test.line, message)
