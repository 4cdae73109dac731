"""Cases in words: on which values a test ran, grouped by its arguments.

pytest runs a test on each combination of its parameters, and names it as one:
``float32-3``, ``float32-5``. A reader is told ``float32; sizes 3 and 5``.
Code stands in backticks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*(e[+-]?\d+)?|inf|nan)")
_SEQUENCE = re.compile(r"\([-+\d., e]*\)|\[[-+\d., e]*\]")
_TRUTH = re.compile(r"True|False|None|\(.*\)|\[.*\]")
_ENDS_ALIKE = re.compile(r"(?P<number>\d+) (?P<word>[a-z ]+)")
_BEGINS_ALIKE = re.compile(r"(?P<word>[a-z]+) (?P<number>\d+)")
# Arguments of tests that are nouns by themselves.
_NOUNS = (
    "batch, count, day, depth, epoch, factor, length, number, rate, row,"
    " sample, scale, seed, shape, size, step, value, width, worker"
)
_TYPES = r"b?float\d+|u?int\d+|complex\d+|bool"
# What no sentence holds.
_CODE = re.compile(r"[_.:()\[\]{}=*/<>%\"]|\b[a-z]+\d+\b|^(bool|int)$")
_OPTION = re.compile(r"\{'(?P<name>\w+)': (?P<value>[^,]*)\}")
_TOKEN = re.compile(r"\S*[A-Z]\S{28,}")  # what pytest makes of a long value
_BETWEEN = re.compile(r"(?<=[^-])(?<!\de)-")  # the values of a case
_LONGEST = 80  # letters of a value that somebody would read
_IN_A_ROW = 4  # numbers that are told as a range


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
        _NUMBER.fullmatch(each) or re.fullmatch(_TYPES, each)
        for each in column.values
    )


def named(column: Column, before: str) -> list[str]:
    """Return the values of a column as a reader is told of them.

    A number says only with the name of its argument what it is, unless the
    words before it hold that name.
    """
    values = column.said
    if len(column.arguments) > 1:
        return [_combination(column.arguments, each) for each in values]
    [argument] = column.arguments
    if all(_NUMBER.fullmatch(each) for each in values):
        return _behind(_name(argument, before, len(values)), _range(values))
    if all(_SEQUENCE.fullmatch(each) for each in values):
        codes = [f"`{each}`" for each in values]
        return _behind(_name(argument, before, len(values)), codes)
    if all(_TRUTH.fullmatch(each) for each in values) and argument:
        return [f"`{argument}={each}`" for each in values]
    for pattern in (_ENDS_ALIKE, _BEGINS_ALIKE):
        found = [pattern.fullmatch(each) for each in values]
        numbers = [each["number"] for each in found if each]
        words = {each["word"] for each in found if each}
        if len(numbers) == len(values) > 1 and len(words) == 1:
            word = words.pop()
            if pattern is _BEGINS_ALIKE:
                return _behind(_plural(word), _range(numbers))
            *first, last = _range(numbers)
            return [*first, f"{last} {word}"]
    is_code = any("_" in each for each in values)
    if is_code and not any(" " in each for each in values):
        return [f"`{each}`" for each in values]
    return [as_words(each) for each in values]


def _name(argument: str, before: str, number: int) -> str:
    """Return what stands before the values of an argument."""
    stem = argument.removesuffix("s")
    if not argument or re.search(rf"\b{re.escape(stem)}s?\b", before):
        return ""
    if not re.search(rf"\b{re.escape(stem)}\b", _NOUNS):
        return f"`{argument}`"
    return stem if number == 1 else _plural(stem)


def _plural(noun: str) -> str:
    """Return the plural of a noun of ours."""
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def _behind(name: str, values: Sequence[str]) -> list[str]:
    """Return some values, the first behind the name of them all."""
    return [f"{name} {values[0]}".strip(), *values[1:]]


def _range(values: Sequence[str]) -> list[str]:
    """Return some numbers, or their ends where they are all in a row."""
    if len(values) >= _IN_A_ROW and all(each.isdecimal() for each in values):
        numbers = sorted(map(int, values))
        if numbers == [*range(numbers[0], numbers[-1] + 1)]:
            return [f"{numbers[0]} to {numbers[-1]}"]
    return [*values]


def _combination(arguments: Sequence[str], value: str) -> str:
    """Return the values that several arguments have in one case."""
    parts = _BETWEEN.split(value)
    if len(parts) != len(arguments):
        return as_words(value)
    if tuple(arguments) == ("old", "new"):  # an edit
        return f"`{parts[1].strip()}`"
    pairs = zip(arguments, parts, strict=True)
    return f"`{', '.join(f'{name}={each}' for name, each in pairs)}`"


def as_words(value: str) -> str:
    """Return a value as words, or as code; one option as it is given."""
    if option := _OPTION.fullmatch(value):
        value = f"{option['name']}={option['value']}"
    if re.fullmatch(r"[\w ,-]* [\w ,-]*", value) and "_" not in value:
        return with_types(value)
    is_code = _CODE.search(value) or _NUMBER.fullmatch(value)
    return f"`{value}`" if is_code and "`" not in value else value


def with_types(words: str) -> str:
    """Return some words with the types of numbers in them as code."""
    return re.sub(rf"\b({_TYPES})\b", r"`\1`", words)


def listed(values: Sequence[str], word: str = "and") -> str:
    """Return some values as a person lists them."""
    *first, last = values
    if not first:
        return last
    # Between words that hold commas, no comma tells where a value ends.
    is_plain = not any("," in re.sub("`.*?`", "", each) for each in values)
    return f"{(', ' if is_plain else '; ').join(first)} {word} {last}"


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
