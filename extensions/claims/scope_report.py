"""How well the scopes of claims read: what of that a program can measure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from extensions.claims.ledger import Ledger
from extensions.claims.wording import (
    UNNAMED,
    scope_shown_and_hidden,
    shown_and_hidden,
)


def scope_report(ledger: Ledger) -> Iterator[str]:
    """Yield a summary, and then each line that is folded or names no case."""
    named = [
        (f"{entry.topic.name}#{entry.claim.name}", entry)
        for entry in ledger.entries
    ]
    tried = [(name, line) for name, each in named for line in each.tried_on]
    others = [
        (name, line)
        for name, each in named
        for line in (*each.ends, *each.breaks)
    ]
    lines = tried + others
    if not lines:
        return
    folded = [each for each in tried if scope_shown_and_hidden(each[1])[1]]
    folded += [each for each in others if shown_and_hidden(each[1])[1]]
    unnamed = [each for each in lines if UNNAMED.search(each[1])]
    middle = median(len(line) for _, line in lines)
    yield (
        f"scopes of claims: {len(lines)} lines of {middle:.0f} letters in the"
        f" middle; {len(folded)} are folded, {len(unnamed)} name no case"
    )
    for what, found in (("names no case", unnamed), ("is folded", folded)):
        for name, line in found:
            yield f"{what}: {name}: {line}"
