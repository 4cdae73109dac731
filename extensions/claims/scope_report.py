"""How well the scopes of claims read: what of that a program can measure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from extensions.claims.ledger import Ledger
from extensions.claims.wording import UNNAMED, shown_and_hidden


def scope_report(ledger: Ledger) -> Iterator[str]:
    """Yield a summary, and then each line whose cases have no name."""
    lines = [
        (f"{entry.topic.name}#{entry.claim.name}", line)
        for entry in ledger.entries
        for line in (*entry.tried_on, *entry.ends, *entry.breaks)
    ]
    if not lines:
        return
    folded = sum(bool(shown_and_hidden(line)[1]) for _, line in lines)
    unnamed = [each for each in lines if UNNAMED.search(each[1])]
    middle = median(len(line) for _, line in lines)
    yield (
        f"scopes of claims: {len(lines)} lines of {middle:.0f} letters in the"
        f" middle; {folded} are folded, {len(unnamed)} name no case"
    )
    for name, line in unnamed:
        yield f"names no case: {name}: {line}"
