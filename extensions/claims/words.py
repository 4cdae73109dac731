"""What a panel says of the tests behind a claim, in their own words.

A counter-example or a limit says in its docstring under what the claim is
false. A variation says with its name and those of its cases, as pytest gives
them, on what it holds as well: "also with: 3 rows, 4 rows".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extensions.evidence.parsed_tests import Failure, Test

# Names that a function of Python cannot have in its own.
_PROPER = (
    "Adam AdamW BatchNorm BCE CPU CUDA Dropout GPU GRU HDF5 LayerNorm Linear"
    " LMDB LSTM NumPy PyTorch ReLU RNN SGD TFRecord"
)
_NAMES = {each.lower(): each for each in _PROPER.split()}
# A value that is no words, but code.
_CODE = re.compile(r"(?![a-z]+ [a-z]).*([_()\[\]{}=*<>]|\.[A-Za-z])")
_LONGEST_VALUE = 80  # letters that somebody would read
_LONGEST_LINE = 100  # letters that a panel does not fold


def caption(test: Test) -> str:
    """Return under what a claim is false, or where it ends."""
    return " ".join(test.docstring.split()) or _name_of(test)


def scope(test: Test, cases: Iterable[str]) -> str:
    """Return on what a claim holds as well, given the cases of a variation."""
    name = _name_of(test)
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


def _name_of(test: Test) -> str:
    """Return what the name of a test says behind that of the claim's test."""
    return " ".join(_NAMES.get(each, each) for each in test.words.split())


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
        if len(value) > _LONGEST_VALUE:
            value = f"{value[:_LONGEST_VALUE]}…"
        yield (
            f"`{value}`" if _CODE.match(value) and "`" not in value else value
        )


def folded(line: str) -> tuple[str, str]:
    """Return of a long line the values that are always shown, and the rest."""
    cut = line.rfind(", ", 0, _LONGEST_LINE)
    if cut < 0 or len(line) <= _LONGEST_LINE:
        return line, ""
    return line[:cut], line[cut + 2 :]


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
