"""Cases: what the names of tests say with those of their parameters.

A case that pytest has counted, as ``old0``, says nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from extensions.evidence.case_names import NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from extensions.evidence.parsed_tests import Failure

# The name of a case, but not one that pytest has counted.
_NUMBERED = r"(?:.*-)?(?!b?float|complex|u?int)[a-z_]+\d+(?:-.*)?"
_SAYS = re.compile(rf"(?!{_NUMBERED}$){NAME}{{1,60}}")
_MOST = 4  # cases that are named
# What a name ends in whose cases say the rest, if they say anything.
_ENDS = (
    r"(after|as|at|because|before|between|by|for|from|if|in|of|on|over|than"
    r"|through|to|under|while|with|without)"
)
_OPEN = re.compile(rf"^but not$|\b{_ENDS}$")
_NOTHING = re.compile(rf"but not( {_ENDS})?")  # without a case
_CODE = re.compile(r"[_.:()\[\]{}=']")  # no word holds these


def name_with_cases(words: str, cases: Iterable[str]) -> str:
    """Return what the name of a test says, with the cases that say more."""
    said = [case for case in cases if _SAYS.fullmatch(case)]
    more = ", ".join(said[:_MOST]) + (" and more" if len(said) > _MOST else "")
    return f"{words} {more}".strip()


def name_with_all_cases(words: str, cases: list[str]) -> str:
    """Return what a name says with its cases, or with their number."""
    said = name_with_cases(words, cases)
    return f"{said} {others(len(cases))}" if _OPEN.search(said) else said


def others(number: int) -> str:
    """Return how many cases there are that say nothing."""
    return f"{number} others" if number > 1 else "another"


def summary_of_cases(failures: Sequence[Failure]) -> tuple[str, str, int]:
    """Return what tells of the first case: words, code, how many more."""
    first, number = failures[0], len(failures)
    words, is_needed = first.words, bool(_OPEN.search(first.words))
    case = _case_in_words(first.case, first.edit, is_needed=is_needed)
    if _CODE.search(case):
        return words, case, number - 1
    said = f"{words} {case}".strip()
    if _NOTHING.fullmatch(said):
        return f"{said} {others(number)}", "", 0
    return said, "", number - 1


def _case_in_words(case: str, edit: str, *, is_needed: bool) -> str:
    """Return what a case says, of an edit what comes, and that if needed."""
    if not _SAYS.fullmatch(case) or not _is_balanced(case):
        return ""
    parts = case.split("-")
    for at in range(1, len(parts)):
        old, new = "-".join(parts[:at]), "-".join(parts[at:])
        if new and old in edit and new in edit:
            case = new
            break
    return case if is_needed or case not in edit else ""


def _is_balanced(code: str) -> bool:
    """Whether a piece of code closes as many brackets as it opens."""
    return all(code.count(a) == code.count(b) for a, b in ("()", "[]", "{}"))


def change_in_words(failure: Failure) -> str:
    """Return what an edit does: it adds lines, leaves some out, or both."""
    lines = failure.edit.splitlines()
    these = "this line" if len(lines) == 1 else "these lines"
    signs = {line[:1] for line in lines}
    if signs == {"-"}:
        return f"Without {these}"
    if signs == {"+"}:
        return f"With {these} added"
    return "With this change" if lines else ""
