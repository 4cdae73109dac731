"""The sign of each verdict, and what it says, wherever a claim is shown."""

from __future__ import annotations

from dataclasses import dataclass

from extensions.claims.entry import SIMULATED


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
        "Not run yet: no run had the device that it needs",
        "needs a GPU",
        "need a GPU",
        "follows what no test has shown yet, because it needs a GPU",
    ),
    "failed": Sign(
        "✗", "The test fails", "fails", "fail", "follows what a test refutes"
    ),
}
_UNKNOWN = Sign("?", "No run of its test counts", "", "", "")


def sign_of(verdict: str) -> Sign:
    """Return the sign of a verdict; of any other, that no run counts."""
    return SIGNS.get(verdict, _UNKNOWN)
