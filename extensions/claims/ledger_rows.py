"""On which page each row of the ledger stands."""

from __future__ import annotations

from extensions.claims.ledger import Entry, Ledger
from extensions.evidence.outcomes import NOT_ASKED

_FOLDER = "evidence/claims"
CHANGED_PAGE = "evidence/changed"
# Outcomes that leave open whether a claim holds on a version of torch.
_UNDECIDED = {"missing", "not run", "skipped", "stale", NOT_ASKED}


def ledger_page(entry: Entry) -> str:
    """Return the name of the page on which the row of a claim stands."""
    return f"{_FOLDER}/{entry.topic.chapter}"


def rows_by_page(ledger: Ledger) -> dict[str, list[Entry]]:
    """Return the claims of each page, in their order."""
    found: dict[str, list[Entry]] = {}
    for entry in ledger.entries:
        found.setdefault(ledger_page(entry), []).append(entry)
    found[CHANGED_PAGE] = [
        each for each in ledger.entries if _has_changed(each)
    ]
    return found


def _has_changed(entry: Entry) -> bool:
    """Whether the outcome of a claim differs between runs."""
    words = {outcome.word for outcome in entry.outcomes}
    return len(words - _UNDECIDED) > 1


def columns_of(ledger: Ledger, entries: list[Entry]) -> list[int]:
    """Return the places of the runs that were asked of some of the claims.

    Those that were asked of few stand last, since most of their cells are
    empty.
    """
    asked = [
        place
        for place, _ in enumerate(ledger.runs)
        if any(each.outcomes[place].word != NOT_ASKED for each in entries)
    ]
    return sorted(asked, key=lambda place: ledger.runs[place].is_part)
