"""What changed between versions of torch, and what sources get wrong.

Everything comes from the ledger. An item has the date of the result that shows
it, so two builds of one commit say the same. Needs neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from extensions.claims.corrections import Correction
from extensions.claims.entry import Entry
from extensions.claims.ledger import Ledger
from extensions.claims.ledger_rows import UNDECIDED


@dataclass(frozen=True)
class DatedOutcome:
    """What the runs on one version of torch say of a claim."""

    torch: str
    word: str
    date: str


@dataclass(frozen=True)
class OutcomeChange:
    """A claim whose outcome differs between two versions of torch."""

    entry: Entry
    before: DatedOutcome
    after: DatedOutcome


def _outcomes_by_version(ledger: Ledger, entry: Entry) -> list[DatedOutcome]:
    """Return the outcome of a claim on each version, oldest first.

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
    """Yield each change of a claim's outcome from one version to the next."""
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
