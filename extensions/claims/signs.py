"""The sign of each verdict, and what it says, wherever a claim is shown."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from extensions.claims.ledger import SIMULATED


@dataclass(frozen=True)
class Sign:
    """What stands behind the words of a claim."""

    mark: str
    tip: str
    """What it means for one claim."""
    one: str
    """What a page says of one statement that has it,"""
    many: str
    """and of more."""
    legend: str
    """What a notebook says of all that have it."""


SIGNS = {
    "passed": Sign(
        "✓",
        "Tested: see what would make this false",
        "statement tested",
        "statements tested",
        "follows what a test has shown",
    ),
    SIMULATED: Sign(
        "◐",
        "Tested on a device that the test only simulates",
        "on a simulated device",
        "on a simulated device",
        "follows what a test has shown on a device that it simulates",
    ),
    "not run": Sign(
        "○",
        "Not run yet: no run had what it needs",
        "not run yet",
        "not run yet",
        "follows what no test has shown yet: no run had what it needs",
    ),
    "failed": Sign(
        "✗", "The test fails", "fails", "fail", "follows what a test refutes"
    ),
}
_UNKNOWN = Sign("?", "No run of its test counts", "", "", "")


# What else a run can say of a claim, which is no verdict.
_MARKS = {
    "not there yet": SIGNS["not run"].mark,
    "false then": SIGNS[SIMULATED].mark,
}


def mark_of(word: str) -> str:
    """Return the mark of a verdict, or of what a run says of a claim."""
    return _MARKS.get(word, sign_of(word).mark)


def sign_of(verdict: str, needs: Collection[str] = ()) -> Sign:
    """Return the sign of a verdict; of any other, that no run counts.

    That of a claim which did not run says what it needs.
    """
    sign = SIGNS.get(verdict, _UNKNOWN)
    if not needs:
        return sign
    said = " and ".join(needs)
    return replace(
        sign,
        tip=f"Not run: needs {said}",
        one=f"needs {said}",
        many=f"need {said}",
    )
