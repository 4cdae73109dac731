"""Cases: what the names of tests say with those of their parameters.

A case that pytest has counted, as ``old0``, says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# The name of a case, but not one that pytest has counted.
NUMBERED = r"(?:.*-)?(?!b?float|complex|u?int)[a-z_]+\d+(?:-.*)?"
SAYS = re.compile(rf"(?!{NUMBERED}$)[\w ,.()=+-]{{1,60}}")
MOST = 4  # cases that are named
# What a name ends in whose cases say the rest, if they say anything.
OPEN = re.compile(
    r"^but not$|\b(after|as|at|because|before|between|by|for|from|if|in|of|on"
    r"|over|than|through|to|under|while|with|without)$"
)
CODE = re.compile(r"[_.()=\[\]]")  # no word holds these


def words_with(words: str, cases: Iterable[str]) -> str:
    """Return what the name of a test says, with the cases that say more."""
    said = [case for case in cases if SAYS.fullmatch(case)]
    more = ", ".join(said[:MOST]) + (" and more" if len(said) > MOST else "")
    return f"{words} {more}".strip()


def closed(words: str, cases: list[str]) -> str:
    """Return what a name says with its cases, or with their number."""
    said = words_with(words, cases)
    return f"{said} {others(len(cases))}" if OPEN.search(said) else said


def others(number: int) -> str:
    """Return how many cases there are that say nothing."""
    return f"{number} others" if number > 1 else "another"


def told(
    words: str, case: str, edit: str, number: int
) -> tuple[str, str, int]:
    """Return what tells of one of some cases: words, code, how many more."""
    case = said_by(case, edit, is_needed=bool(OPEN.search(words)))
    if CODE.search(case):
        return words, case, number - 1
    said = f"{words} {case}".strip()
    if OPEN.search(said):
        return f"{said} {others(number)}", "", 0
    return said, "", number - 1


def said_by(case: str, edit: str, *, is_needed: bool) -> str:
    """Return what a case says, of an edit what comes, and that if needed."""
    if not SAYS.fullmatch(case) or case.count("(") != case.count(")"):
        return ""
    parts = case.split("-")
    for at in range(1, len(parts)):
        old, new = "-".join(parts[:at]), "-".join(parts[at:])
        if new and old in edit and new in edit:
            case = new
            break
    return case if is_needed or case not in edit else ""
