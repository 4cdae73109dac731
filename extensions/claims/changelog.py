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
from extensions.claims.ledger_rows import SILENT


@dataclass(frozen=True)
class Seen:
    """What a claim was with one version of torch."""

    torch: str
    word: str
    date: str


@dataclass(frozen=True)
class Change:
    """A claim of which two versions of torch say different things."""

    entry: Entry
    before: Seen
    after: Seen


def seen_of(ledger: Ledger, entry: Entry) -> list[Seen]:
    """Return what each version says of a claim, from the oldest on.

    Of runs with one version, this build's own counts, else the first that
    says something.
    """
    found: dict[tuple[int, ...], Seen] = {}
    for run, outcome in zip(ledger.runs, entry.outcomes, strict=True):
        if outcome.word not in SILENT:
            date = outcome.date or run.facts["date"]
            seen = Seen(run.release, outcome.word, date)
            found.setdefault(run.version, seen)
    return [found[version] for version in sorted(found)]


def changes(ledger: Ledger) -> Iterator[Change]:
    """Yield each claim with each version that says another thing of it."""
    for entry in ledger.entries:
        seen = seen_of(ledger, entry)
        for before, after in pairwise(seen):
            if before.word != after.word:
                yield Change(entry, before, after)


def shown(
    ledger: Ledger, corrections: list[Correction]
) -> Iterator[tuple[Correction, Entry]]:
    """Yield each correction with the claim that shows it, if it was tested."""
    for row in corrections:
        for entry in ledger.of(row.topic.name):
            if entry.claim.name == row.claim and entry.own and entry.own.date:
                yield row, entry
