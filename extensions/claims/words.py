"""What is said of a claim: the sign of its verdict, and the tests behind it.

A counter-example or a limit says in its docstring under what the claim is
false. A variation says with its name and those of its cases, as pytest gives
them, on what it holds as well: "also with: 3 rows, 4 rows".
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from extensions.evidence.parsed_tests import Failure, Test

# The verdict on a claim whose test passes on a device that it simulates.
SIMULATED = "simulated"

# Around the answer of an exercise, on a page and in its notebook.
NO_ANSWER = "No run of the tests has recorded the answer."
PRINTS = "Now the program prints:"
NO_LONGER_TRUE = "With this change, the program no longer shows:"

# Names that a function of Python cannot have in its own.
_PROPER = (
    "Adam AdamW BatchNorm BCE CPU CUDA Dropout GPU GRU HDF5 LayerNorm Linear"
    " LMDB LSTM NumPy PyTorch ReLU RNN SGD TFRecord"
)
_NAMES = {each.lower(): each for each in _PROPER.split()}
# A value that is no words, but code.
_CODE = re.compile(r"(?![a-z]+ [a-z]).*([_()\[\]{}=*<>]|\.[A-Za-z])")


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


def caption(test: Test) -> str:
    """Return under what a claim is false, or where it ends."""
    return " ".join(test.docstring.split())


def scope(test: Test, cases: Iterable[str]) -> str:
    """Return on what a claim holds as well, given the cases of a variation."""
    name = " ".join(_NAMES.get(each, each) for each in test.words.split())
    return ": ".join(each for each in (name, _said_of(cases, name)) if each)


def cases_in_words(cases: list[str]) -> str:
    """Return on which cases the test of a claim itself ran, if it has some."""
    return _said_of(cases) if len(cases) > 1 else ""


def case_in_words(failure: Failure) -> str:
    """Return the name of a case; "" where that only repeats its edit."""
    lines = [
        line
        for line in failure.parameters.splitlines()
        if line.partition("=")[2].rpartition("-")[2] not in failure.edit
    ]
    return _said_of(["\n".join(lines)])


def _said_of(cases: Iterable[str], before: str = "") -> str:
    """Return the values that cases have in each place, behind some words."""
    places: dict[str, list[str]] = {}
    for case in cases:
        for line in case.splitlines():
            arguments, _, value = line.partition("=")
            values = places.setdefault(arguments, [])
            if value not in values:
                values.append(value)
    parts = [_listed(*each, before) for each in places.items()]
    return "; ".join(each for each in parts if each)


def _listed(arguments: str, values: list[str], before: str) -> str:
    """Return some values; what holds no word, behind its arguments."""
    said = [*_told(arguments, values)]
    is_bare = not any(
        re.search("[A-Za-z]", each) and each not in {"True", "False", "None"}
        for each in values
    )
    if is_bare and said and arguments not in before:
        said[0] = f"{arguments.replace(',', '-')} {said[0]}"
    return ", ".join(said)


def _told(arguments: str, values: list[str]) -> Iterator[str]:
    """Yield the values that pytest has not only counted, with code as such."""
    counted = re.compile(rf"(^|-)({arguments.replace(',', '|')})\d+($|-)")
    for value in values:
        if not value or (arguments and counted.search(value)):
            continue
        is_code = _CODE.match(value) and "`" not in value
        yield f"`{value}`" if is_code else value


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
