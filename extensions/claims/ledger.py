"""The ledger: each claim with its test, its counter-examples, its results.

Joins pages, tests and evidence by name, and gives each claim a verdict.
Imports neither Sphinx nor torch.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from extensions.claims.page import Claim, read_page
from extensions.claims.words import SIMULATED, caption, cases_in_words, scope
from extensions.core.fingerprint import digest
from extensions.core.topics import Topic, topics
from extensions.evidence.dependencies import Dependencies
from extensions.evidence.junit import Run
from extensions.evidence.outcomes import (
    DECIDED,
    NOT_ASKED,
    Outcome,
    module_of,
    outcome,
    results_of,
)
from extensions.evidence.parsed_tests import (
    Failure,
    Test,
    failures,
    parameters_of,
    test_of,
    tests_in,
)
from extensions.evidence.sources import Code
from extensions.prose.sentences import Sentence, prose_of

# The page of the claims of which the runs do not all say the same.
CHANGED_PAGE = "evidence/changed"
# Outcomes that leave open whether a claim holds on a version of torch.
_UNDECIDED = {"missing", "not run", "skipped", "stale", NOT_ASKED}


@dataclass(frozen=True)
class Entry:
    """A claim of the ledger, with what is behind it and what that says."""

    topic: Topic
    claim: Claim
    test: Test | None
    counter_examples: tuple[Test, ...]
    variations: tuple[Test, ...]
    limits: tuple[Test, ...]
    outcomes: tuple[Outcome, ...]
    """One for each run."""
    own: Outcome | None
    """That of this build's run, if there is one."""
    elsewhere: tuple[Outcome, ...]
    """Those of recorded runs on a torch that the guide is written for."""
    failures: tuple[Failure, ...]
    """How its test fails on counter-examples and at limits, as this build's
    run has recorded it."""
    cases: int
    """On how many cases the claim held in this build's run."""
    on: str
    """In words, on which cases of its own test it held; empty for one."""
    also: tuple[str, ...]
    """In words, on what it held besides, a line for each variation."""

    @property
    def anchor(self) -> str:
        """The name of the claim's row, unique in the whole site."""
        return f"{self.topic.name.replace('/', '-')}-{self.claim.name}"

    @property
    def row_page(self) -> str:
        """The name of the page on which its row stands."""
        return f"evidence/claims/{self.topic.chapter}"

    def failures_of(self, counter: str) -> list[Failure]:
        """Return how a counter-example fails, on each of its cases.

        A case in which the program prints something else stands first.
        """
        found = [each for each in self.failures if each.test == counter]
        return sorted(found, key=lambda each: not each.prints)

    @property
    def surprises(self) -> list[tuple[Test, str]]:
        """The counter-examples with their captions, what prints first."""
        return sorted(
            zip(self.counter_examples, self.breaks, strict=True),
            key=lambda pair: (
                not any(each.prints for each in self.failures_of(pair[0].name))
            ),
        )

    @property
    def tried_on(self) -> tuple[str, ...]:
        """In words, on what the claim was tried, a line for each test."""
        return (f"for: {self.on}", *self.also) if self.on else self.also

    @property
    def breaks(self) -> tuple[str, ...]:
        """In words, what makes the claim false."""
        return tuple(map(caption, self.counter_examples))

    @property
    def ends(self) -> tuple[str, ...]:
        """In words, where the claim ends."""
        return tuple(map(caption, self.limits))

    @property
    def verdict(self) -> str:
        """What this build's run says, or others where it could not run.

        A test that passes on a device that it simulates proves less.
        """
        own = self.own.word if self.own else "missing"
        said = {each.word for each in self.elsewhere} & DECIDED
        if own == "not run" and said:
            own = "failed" if "failed" in said else "passed"
        is_simulated = self.test and self.test.simulates
        return SIMULATED if own == "passed" and is_simulated else own

    @property
    def needs(self) -> tuple[str, ...]:
        """What lacked, in words, if no run that decides could test it."""
        return self.own.needs if self.own and self.verdict == "not run" else ()

    @property
    def has_changed(self) -> bool:
        """Whether its outcome differs between runs that decide it."""
        return len({each.word for each in self.outcomes} - _UNDECIDED) > 1


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
    def by_page(self) -> dict[str, list[Entry]]:
        """The entries of each page of the ledger, in their order."""
        groups = groupby(self.entries, key=lambda each: each.row_page)
        changed = [each for each in self.entries if each.has_changed]
        return {name: [*those] for name, those in groups} | {
            CHANGED_PAGE: changed
        }

    def state_of(self, entries: Iterable[Entry]) -> str:
        """Return what is another once pages say another thing of claims."""
        facts = [run.facts for run in self.runs]
        return f"{[self._hashes[each.anchor] for each in entries]} {facts}"

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return {
            each.anchor: digest(repr(each).replace(str(each.topic.root), ""))
            for each in self.entries
        }

    def columns_of(self, entries: Iterable[Entry]) -> list[int]:
        """Return the places of the runs that were asked of some claims.

        Runs of a part of the claims stand last: most of their cells are empty.
        """
        asked = {
            place
            for entry in entries
            for place, each in enumerate(entry.outcomes)
            if each.word != NOT_ASKED
        }
        return sorted(asked, key=lambda at: (self.runs[at].is_part, at))

    def kinds(self, name: str = "") -> Counter[str]:
        """Return how many sentences of a page, or of all, are of each kind."""
        pages = [self.prose[name]] if name else self.prose.values()
        return Counter(each.kind for page in pages for each in page)

    @property
    def by_run(self) -> list[tuple[Run, Counter[str], list[str]]]:
        """For each run, of how many claims it says what, and its devices."""
        found = []
        for place, run in enumerate(self.runs):
            outcomes = [each.outcomes[place] for each in self.entries]
            devices = {name for each in outcomes for name in each.devices}
            words = Counter(each.word for each in outcomes)
            found.append((run, words, sorted(devices)))
        return found


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
            entries.append(_entry_of(topic, claim, those, runs, now))
    return Ledger(tuple(runs), tuple(entries), prose_of(root))


def _entry_of(
    topic: Topic,
    claim: Claim,
    behind: list[Test],
    runs: list[Run],
    now: dict[str, str],
) -> Entry:
    name, module = test_of(claim.name), module_of(topic)
    depends = {each.name: now[each.name] for each in behind}
    counter_examples = tuple(each for each in behind if each.is_counter)
    limits = tuple(each for each in behind if each.is_limit)
    ends = (*counter_examples, *limits)
    holds = [each for each in behind if each not in ends]
    variations = tuple(each for each in holds if each.is_variation)
    names = [each.name for each in ends]
    outcomes = [outcome(run, module, depends, names) for run in runs]
    by_run = list(zip(runs, outcomes, strict=True))
    own = [run for run in runs if run.is_own]

    def cases_of(test: str) -> list[str]:
        return [
            parameters_of(result)
            for run in own
            for result in results_of(run, module, test)
        ]

    return Entry(
        topic=topic,
        claim=claim,
        test=next((each for each in behind if each.name == name), None),
        counter_examples=counter_examples,
        variations=variations,
        limits=limits,
        outcomes=tuple(outcomes),
        own=next((each for run, each in by_run if run.is_own), None),
        elsewhere=tuple(
            each for run, each in by_run if run.decides and not run.is_own
        ),
        failures=tuple(
            failure
            for run in own
            for each in ends
            for failure in failures(run, module, each, now[each.name])
        ),
        cases=sum(len(cases_of(each.name)) for each in holds),
        on=cases_in_words(cases_of(name)),
        also=tuple(scope(each, cases_of(each.name)) for each in variations),
    )


@dataclass(frozen=True)
class Repair:
    """The answer of an exercise that asks for a repair: an edit of a test."""

    change: str
    after: str
    """What the program then prints, if that is something else."""
    sentence: str
    """The claim that is no longer true."""


def repairs_of(entries: Iterable[Entry]) -> dict[str, Repair]:
    """Return the edits of counter-examples by the names of their tests."""
    return {
        test.name: Repair(
            failure.edit or failure.given,
            failure.after,
            f"{entry.claim.sentence}.",
        )
        for entry in entries
        for test in entry.counter_examples
        for failure in entry.failures_of(test.name)[:1]
    }
