"""The ledger: each claim with its test, its counter-examples, its results.

Joins pages, tests and evidence by name. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from extensions.files.evidence import Run
from extensions.files.outcomes import VERDICTS, Outcome, outcome
from extensions.files.pages import Claim, read_page
from extensions.files.problem import Problem
from extensions.files.reading import python_of
from extensions.files.topics import Topic, topics


@dataclass(frozen=True)
class Test:
    """A test function, found without importing its module."""

    name: str
    line: int
    docstring: str


@dataclass(frozen=True)
class Entry:
    """One claim of the ledger."""

    topic: Topic
    claim: Claim
    test: Test | None
    counters: tuple[Test, ...]
    outcomes: tuple[Outcome, ...]
    """One for each run."""

    @property
    def anchor(self) -> str:
        """The name of the claim's row, unique in the whole site."""
        return f"{self.topic.name.replace('/', '-')}-{self.claim.name}"

    @property
    def verdict(self) -> str:
        """What all runs say together."""
        words = {outcome.word for outcome in self.outcomes}
        found = [each for each in VERDICTS if each in words]
        return found[0] if found else "missing"


@dataclass(frozen=True)
class Ledger:
    """Every claim of the guide, with what each run said of it."""

    runs: tuple[Run, ...]
    entries: tuple[Entry, ...]

    def of(self, name: str) -> tuple[Entry, ...]:
        """Return the entries of the topic with a name."""
        return self.by_topic.get(name, ())

    @cached_property
    def by_topic(self) -> dict[str, tuple[Entry, ...]]:
        """The entries of each topic, in the order of its page."""
        groups = groupby(self.entries, key=lambda each: each.topic.name)
        return {name: tuple(entries) for name, entries in groups}

    @cached_property
    def tested(self) -> list[Topic]:
        """The topics whose claims have a module of tests."""
        found = {entry.topic for entry in self.entries}
        return sorted(topic for topic in found if topic.tests.exists())

    def tally(self) -> Counter[str]:
        """Return how many claims have each verdict."""
        return Counter(entry.verdict for entry in self.entries)


def tree_of(path: Path) -> ast.Module:
    """Return what a file says, or nothing where it is missing or broken."""
    try:
        return python_of(path)
    except Problem:  # a rule reports it
        return ast.Module([], [])


def tests_in(module: Path) -> dict[str, Test]:
    """Return the tests of a module by name, in file order."""
    return {
        node.name: Test(node.name, node.lineno, ast.get_docstring(node) or "")
        for node in tree_of(module).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_of(claim: str) -> str:
    """Return the name of the test that keeps a claim true."""
    return f"test_{claim.replace('-', '_')}"


def read_ledger(root: Path, runs: list[Run]) -> Ledger:
    """Join the pages, the tests and some runs of the house at a folder."""
    entries = []
    for topic in topics(root):
        tests = tests_in(topic.tests)
        for claim in read_page(topic.page).claims:
            name = test_of(claim.name)
            test = tests.get(name)
            counters = tuple(
                each
                for each in tests.values()
                if each.name.startswith(f"{name}__")
            )
            behind = [each.name for each in (test, *counters)] if test else []
            outcomes = tuple(outcome(run, topic, behind) for run in runs)
            entries.append(Entry(topic, claim, test, counters, outcomes))
    return Ledger(tuple(runs), tuple(entries))
