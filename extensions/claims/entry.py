"""An entry of the ledger: a claim with what is behind it, and what that says.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from extensions.claims.page import Claim
from extensions.claims.words import caption
from extensions.core.topics import Topic
from extensions.evidence.outcomes import DECIDED, Outcome
from extensions.evidence.parsed_tests import Failure, Test

# The verdict on a claim whose test passes on a device that it simulates.
SIMULATED = "simulated"


def _line(start: str, parts: tuple[str, ...]) -> list[str]:
    """Return some parts of a scope as a line, if there are any."""
    return [f"{start} {in_a_row(parts)}"] if parts else []


def in_a_row(parts: tuple[str, ...]) -> str:
    """Return some parts of a scope, phrases or sentences, in one line."""
    return "; ".join(each.removesuffix(".") for each in parts)


@dataclass(frozen=True)
class Entry:
    """One claim of the ledger."""

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

    @cached_property
    def breaks(self) -> tuple[str, ...]:
        """In words, what makes the claim false."""
        return tuple(map(caption, self.counter_examples))

    @cached_property
    def ends(self) -> tuple[str, ...]:
        """In words, where the claim ends."""
        return tuple(
            caption(each).removeprefix("ends ") for each in self.limits
        )

    @property
    def reach(self) -> list[str]:
        """How far the claim reaches, a line for each part that there is."""
        tried = _line("Tried on the program of its page,", self.tried_on)
        return [*tried, *_line("Ends:", self.ends)]

    @property
    def scope(self) -> list[str]:
        """How far the claim reaches, and what breaks it."""
        return [*self.reach, *_line("Breaks:", self.breaks)]

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
    def deciding(self) -> tuple[Outcome, ...]:
        """Of this build's run, or of others where it could not run."""
        if self.own and self.own.word != "not run":
            return (self.own,)
        return self.elsewhere
