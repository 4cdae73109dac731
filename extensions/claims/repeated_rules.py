"""Rules of what a page shows again: its claims, and its counter-examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from extensions.claims.page import read_page
from extensions.core.problem import Problem
from extensions.core.topics import Topic, topics
from extensions.evidence.parsed_tests import test_of, tests_in


def recaps_name_claims(root: Path) -> Iterator[Problem]:
    """Yield recaps of claims that neither the page nor the named one makes."""
    for path in sorted(root.glob("docs/**/*.md")):
        for each in read_page(path).recalled:
            page, _, name = each.name.rpartition("#")
            behind = read_page(Topic(root, page).page if page else path)
            if name not in {claim.name for claim in behind.claims}:
                of = page or "this page"
                message = f"a recap of no claim of {of}: {name!r}"
                yield Problem(path, each.line, message)


def exercises_name_counter_examples(root: Path) -> Iterator[Problem]:
    """Yield exercises that no counter-example of the page answers."""
    behind = {topic.page: topic.tests for topic in topics(root)}
    for path in sorted(root.glob("docs/**/*.md")):
        exercises = read_page(path).exercises
        tests = tests_in(behind[path]) if path in behind else {}
        known = {each.name for each in tests.values() if each.is_counter}
        for each in exercises:
            if test_of(each.name) not in known:
                message = f"an exercise of no counter-example: {each.name!r}"
                yield Problem(path, each.line, message)
