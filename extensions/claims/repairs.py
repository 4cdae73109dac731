"""The answers of exercises that ask for a repair: edits that tests have made.

A page shows them, and so do its notebook and its Markdown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from extensions.claims.ledger import Entry

NO_ANSWER = "No run of the tests has recorded the answer."
PRINTS = "Now the program prints:"
NO_LONGER_TRUE = "With this change, this is no longer true:"


@dataclass(frozen=True)
class Repair:
    """An edit, and what is another with it."""

    change: str
    after: str
    """What the program then prints, if that is something else."""
    sentence: str
    """The claim that is no longer true."""


def repairs_of(entries: Iterable[Entry]) -> dict[str, Repair]:
    """Return the edits of counter-examples by the names of their tests."""
    found = {}
    for entry in entries:
        for test in entry.counter_examples:
            for failure in entry.failures_of(test.name)[:1]:
                change = failure.edit or failure.given
                sentence = f"{entry.claim.sentence}."
                found[test.name] = Repair(change, failure.after, sentence)
    return found
