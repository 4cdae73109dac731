"""The ledger: each claim with its test, its counter-examples, its results.

Joins pages, tests and evidence by name. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from extensions.claims.claim import Claim
from extensions.claims.entry import Entry
from extensions.claims.page import read_page
from extensions.claims.words import cases_in_words, scope
from extensions.core.fingerprint import digest
from extensions.core.topics import Topic, topics
from extensions.evidence.dependencies import Dependencies
from extensions.evidence.junit import Run
from extensions.evidence.outcomes import (
    module_of,
    outcome,
    results_of,
)
from extensions.evidence.parsed_tests import (
    Test,
    failures,
    parameters_of,
    test_of,
    tests_in,
)
from extensions.evidence.walk import Code
from extensions.prose.sentences import Sentence, prose_of


@dataclass(frozen=True)
class Ledger:
    """Every claim of the guide, with what each run said of it."""

    runs: tuple[Run, ...]
    entries: tuple[Entry, ...]
    prose: dict[str, tuple[Sentence, ...]]
    """The sentences of each page, by its name."""

    @property
    def own_run(self) -> Run | None:
        """This build's run, if there is one."""
        return next((run for run in self.runs if run.is_own), None)

    def of(self, name: str) -> tuple[Entry, ...]:
        """Return the entries of the topic with a name."""
        return self.by_topic.get(name, ())

    @cached_property
    def by_topic(self) -> dict[str, tuple[Entry, ...]]:
        """The entries of each topic, in the order of its page."""
        groups = groupby(self.entries, key=lambda each: each.topic.name)
        return {name: tuple(entries) for name, entries in groups}

    @cached_property
    def rows(self) -> dict[str, str]:
        """A hash of what is said of each claim, by the name of its row."""
        return {
            each.anchor: digest(repr(each).replace(str(each.topic.root), ""))
            for each in self.entries
        }

    @cached_property
    def lists(self) -> dict[str, str]:
        """A hash of the sentences of each page, by its name."""
        return {name: digest(repr(each)) for name, each in self.prose.items()}

    @cached_property
    def tested(self) -> list[Topic]:
        """The topics whose claims have a module of tests."""
        found = {entry.topic for entry in self.entries}
        return sorted(topic for topic in found if topic.tests.exists())

    def kinds(self, name: str = "") -> Counter[str]:
        """Return how many sentences of a page, or of all, are of each kind."""
        pages = [self.prose[name]] if name else self.prose.values()
        return Counter(each.kind for page in pages for each in page)

    @cached_property
    def said_by_run(self) -> list[tuple[Run, Counter[str]]]:
        """For each run, of how many claims it says what."""
        return [
            (run, Counter(each.outcomes[place].word for each in self.entries))
            for place, run in enumerate(self.runs)
        ]

    @cached_property
    def devices_by_run(self) -> list[tuple[Run, list[str]]]:
        """For each run, the names of the devices that it had."""
        return [
            (run, sorted({*self.devices(place)}))
            for place, run in enumerate(self.runs)
        ]

    def devices(self, place: int) -> Iterator[str]:
        """Yield the devices on which a run has looked at claims."""
        for entry in self.entries:
            yield from entry.outcomes[place].devices

    def cited(self) -> Iterator[tuple[str, Sentence, str]]:
        """Yield each page with a sentence that is cited, and an address."""
        for page, sentences in self.prose.items():
            for sentence in sentences:
                for address in sentence.cited:
                    yield page, sentence, address

    def tally(self) -> Counter[str]:
        """Return how many claims have each verdict."""
        return Counter(entry.verdict for entry in self.entries)

    def recorded(self) -> int:
        """Return of how many claims this build took recorded results."""
        return sum(
            bool(each.own and each.own.recorded) for each in self.entries
        )

    def needs(self) -> Counter[str]:
        """Return how many claims no run could test, by what they need."""
        found = [" and ".join(entry.needs) for entry in self.entries]
        return Counter(each for each in found if each)


def read_ledger(root: Path, runs: list[Run]) -> Ledger:
    """Join the pages, the tests and some runs of the project at a folder."""
    entries, code = [], Code(root)
    for topic in topics(root):
        tests, depends = tests_in(topic.tests), Dependencies(topic, code)
        now = {name: depends.of(name) for name in tests}
        behind: dict[str, list[Test]] = {}
        for test in tests.values():
            behind.setdefault(test.of, []).append(test)
        for claim in read_page(topic.page).claims:
            name = test_of(claim.name)
            those = behind[name] if name in tests else []
            entries.append(entry_of(topic, claim, those, runs, now))
    return Ledger(tuple(runs), tuple(entries), prose_of(root))


def entry_of(
    topic: Topic,
    claim: Claim,
    behind: list[Test],
    runs: list[Run],
    now: dict[str, str],
) -> Entry:
    """Return a claim with what is behind it, given what tests depend on."""
    name, module = test_of(claim.name), module_of(topic)
    depends = {each.name: now[each.name] for each in behind}
    counter_examples = tuple(each for each in behind if each.is_counter)
    limits = tuple(each for each in behind if each.is_limit)
    ends = (*counter_examples, *limits)
    holds = [each for each in behind if each not in ends]
    variations = tuple(each for each in holds if each.is_variation)
    own = [run for run in runs if run.is_own]
    names = [each.name for each in ends]
    outcomes = [outcome(run, module, depends, names) for run in runs]
    return Entry(
        topic,
        claim,
        next((each for each in behind if each.name == name), None),
        counter_examples,
        variations,
        limits,
        tuple(outcomes),
        outcomes[runs.index(own[0])] if own else None,
        tuple(
            each
            for run, each in zip(runs, outcomes, strict=True)
            if run.decides and not run.is_own
        ),
        tuple(
            failure
            for run in own
            for each in ends
            for failure in failures(run, module, each, now[each.name])
        ),
        sum(
            len(results_of(run, module, each.name))
            for run in own
            for each in holds
        ),
        cases_in_words(_cases_of(own, module, name)),
        tuple(
            scope(each, _cases_of(own, module, each.name))
            for each in variations
        ),
    )


def _cases_of(own: list[Run], module: str, test: str) -> list[str]:
    """Return the cases of a test in the run of this build."""
    return [
        parameters_of(result)
        for run in own
        for result in results_of(run, module, test)
    ]
