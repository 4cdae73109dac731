"""An entry of the ledger: a claim with what is behind it, and what that says.

Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from extensions.claims.claim import Claim
from extensions.claims.wording import caption, words_of
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
    also_in_full: tuple[str, ...]
    """The same lines, in which each list names all its values."""

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

    def caption_of(self, test: Test) -> str:
        """Return in words when a counter-example or a limit fails.

        What somebody wrote into its docstring reads better than its name.
        """
        if test.docstring:
            return " ".join(test.docstring.split())
        words = words_of(test, self.claim.text)
        failures = self.failures_of(test.name)
        return caption(words, failures) if failures else words

    @property
    def tried_on(self) -> tuple[str, ...]:
        """In words, on what the claim was tried, a line for each test."""
        return (f"for {self.on}", *self.also) if self.on else self.also

    @property
    def tried_on_in_full(self) -> tuple[str, ...]:
        """The same, in which each list names all its values."""
        return tuple(self.in_full.get(each, each) for each in self.tried_on)

    @property
    def in_full(self) -> dict[str, str]:
        """The whole of each line that tells a list in few words."""
        lines = zip(self.also, self.also_in_full, strict=True)
        return {short: whole for short, whole in lines if short != whole}

    @cached_property
    def breaks(self) -> tuple[str, ...]:
        """In words, what makes the claim false."""
        return tuple(map(self.caption_of, self.counter_examples))

    @cached_property
    def ends(self) -> tuple[str, ...]:
        """In words, where the claim ends."""
        return tuple(
            self.caption_of(each).removeprefix("ends ") for each in self.limits
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
