"""What changed: claims from torch to torch, and what sources say wrongly.

All of it is read off the ledger, dates too: the day of an item is that of the
result that shows it, so that two builds of one commit say the same. Imports
neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from extensions.claims.corrections import Correction
from extensions.claims.ledger import Entry, Ledger
from extensions.claims.ledger_rows import UNDECIDED


@dataclass(frozen=True)
class DatedOutcome:
    """What a claim was with one version of torch."""

    torch: str
    word: str
    date: str


@dataclass(frozen=True)
class OutcomeChange:
    """A claim of which two versions of torch say different things."""

    entry: Entry
    before: DatedOutcome
    after: DatedOutcome


def _outcomes_by_version(ledger: Ledger, entry: Entry) -> list[DatedOutcome]:
    """Return what each version says of a claim, from the oldest on.

    Of runs with one version, this build's own counts, else the first that
    says something.
    """
    found: dict[tuple[int, ...], DatedOutcome] = {}
    for run, outcome in zip(ledger.runs, entry.outcomes, strict=True):
        if outcome.word not in UNDECIDED:
            date = outcome.date or run.facts["date"]
            seen = DatedOutcome(run.release, outcome.word, date)
            found.setdefault(run.version, seen)
    return [found[version] for version in sorted(found)]


def changes_between_versions(ledger: Ledger) -> Iterator[OutcomeChange]:
    """Yield each claim with each version that says another thing of it."""
    for entry in ledger.entries:
        seen = _outcomes_by_version(ledger, entry)
        for before, after in pairwise(seen):
            if before.word != after.word:
                yield OutcomeChange(entry, before, after)


def corrections_with_claims(
    ledger: Ledger, corrections: list[Correction]
) -> Iterator[tuple[Correction, Entry]]:
    """Yield each correction with the claim that shows it, if it was tested."""
    for row in corrections:
        for entry in ledger.of(row.topic.name):
            if entry.claim.name == row.claim and entry.own and entry.own.date:
                yield row, entry
