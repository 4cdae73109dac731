"""Cases in words: on which values a test ran, grouped by its arguments.

pytest runs a test on each combination of its parameters, and names it as one:
``float32-3``, ``float32-5``. A reader is told ``float32; sizes 3 and 5``.
Code stands in backticks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from extensions.claims.values import (
    NUMBER,
    TYPES,
    as_words,
    in_words,
    is_plain,
    listed,
    not_too_long,
    noun_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TOKEN = re.compile(r"\S*[A-Z]\S{28,}")  # what pytest makes of a long value
_BETWEEN = re.compile(r"(?<=[^-])(?<!\de)-(?!>)")  # the values of a case
_LONGEST = 80  # letters of a value that somebody would read
_FEW = 2  # pairs that are told one by one


@dataclass(frozen=True)
class Column:
    """What the cases of a test have in one place."""

    arguments: tuple[str, ...]
    values: tuple[str, ...]
    """Each once, in their order."""

    @property
    def said(self) -> list[str]:
        """The values that say something to a reader."""
        return [each for each in self.values if self._says(each)]

    def _says(self, value: str) -> bool:
        """Whether a value has a name, and pytest has not only counted it."""
        if not value or "\\n" in value or len(value) > _LONGEST:
            return False
        counted = "|".join(map(re.escape, self.arguments)) or "[a-z_]+"
        return not (
            re.search(rf"(^|-)({counted})\d+($|-)", value)
            or _TOKEN.fullmatch(value)
        )


def columns_of(cases: Iterable[str]) -> list[Column]:
    """Return what some cases have in each place.

    A case is a line for each place: the names of arguments, ``=``, a value.
    """
    places: dict[tuple[str, ...], list[str]] = {}
    for case in cases:
        for line in case.splitlines():
            names, _, value = line.partition("=")
            values = places.setdefault(tuple(names.split(",")), [])
            if value not in values:
                values.append(value)
    found = [Column(names, tuple(each)) for names, each in places.items()]
    return sorted(found, key=_is_about_numbers)


def _is_about_numbers(column: Column) -> bool:
    """Whether the values are numbers or types of numbers, which come last."""
    return all(
        NUMBER.fullmatch(each) or re.fullmatch(TYPES, each)
        for each in column.values
    )


def named(column: Column, before: str) -> list[str]:
    """Return the values of a column as a reader is told of them."""
    values = column.said
    if len(column.arguments) > 1:
        return _combinations(column.arguments, values, before)
    [argument] = column.arguments
    return in_words(argument, values, before)


def _combinations(
    arguments: Sequence[str], values: Sequence[str], before: str
) -> list[str]:
    """Return the values that several arguments have together.

    One of them names the cases if it tells them apart by a word; else they
    are counted where they are more than a few.
    """
    cases = [_BETWEEN.split(each) for each in values]
    if any(len(each) != len(arguments) for each in cases):
        return not_too_long([as_words(each) for each in values])
    if tuple(arguments) == ("old", "new"):
        said = [_edit(*each) for each in cases]
        return sorted(said, key=lambda each: each.startswith("without"))
    columns = list(zip(*cases, strict=True))
    for argument, column in zip(arguments, columns, strict=True):
        tells = len({*column}) == len(column) > 1
        if tells and not any(map(is_plain, column)):
            return in_words(argument, column, before)
    if len(cases) <= _FEW:
        return [f"`{_call(arguments, each)}`" for each in cases]
    kind = "pairs" if len(arguments) == _FEW else "combinations"
    if all(re.fullmatch(TYPES, each) for case in cases for each in case):
        return [f"{len(cases)} {kind} of types"]
    nouns = [noun_of(each) or f"`{each}`" for each in arguments]
    return [f"{len(cases)} {kind} of {listed(nouns)}"]


def _call(arguments: Sequence[str], case: Sequence[str]) -> str:
    """Return the values of a case as a call hands them over."""
    pairs = zip(arguments, case, strict=True)
    return ", ".join(f"{name}={value}" for name, value in pairs)


def _edit(old: str, new: str) -> str:
    """Return what comes with an edit, or else what goes."""
    if new.strip():
        return f"`{new.strip()}`"
    return f"without `{old.strip().rstrip(',')}`"


def without(case: str, edit: str) -> str:
    """Return a case in which an edit is named by the passage that comes."""
    lines = []
    for line in case.splitlines():
        names, _, value = line.partition("=")
        parts = value.split("-")
        for at in range(1, len(parts)):
            old, new = "-".join(parts[:at]), "-".join(parts[at:])
            if new and edit and old in edit and new in edit:
                names, value = "", new if _is_balanced(new) else ""
                break
        lines.append(f"{names}={value}")
    return "\n".join(lines)


def _is_balanced(code: str) -> bool:
    """Whether a piece of code closes as many brackets as it opens."""
    pairs = (("(", ")"), ("[", "]"), ("{", "}"))
    return all(code.count(a) == code.count(b) for a, b in pairs)
