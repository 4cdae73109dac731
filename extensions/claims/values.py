"""Values in words: what the cases of a test have in one place.

Code stands in backticks; of much code, a reader is told how much.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*(e[+-]?\d+)?|inf|nan)")
TYPES = r"b?float\d+|u?int\d+|complex\d+|bool"
_SEQUENCE = re.compile(r"\([-+\d., e]*\)|\[[-+\d., e]*\]")
_TRUTH = re.compile(r"True|False|None|\(.*\)|\[.*\]")
_ENDS_ALIKE = re.compile(r"(?P<number>\d+) (?P<word>[a-z ]+)")
_BEGINS_ALIKE = re.compile(r"(?P<word>[a-z]+) (?P<number>\d+)")
# Arguments of tests that are nouns by themselves.
_NOUNS = (
    "batch, count, day, depth, epoch, factor, length, number, rate, row,"
    " sample, scale, seed, shape, size, step, value, width, worker"
)
# What no sentence holds.
_CODE = re.compile(r"[_.:()\[\]{}=*/<>%\"]|\b[a-z]+\d+\b|^(bool|int)$")
_OPTION = re.compile(r"\{'(?P<name>\w+)': (?P<value>[^,]*)\}")
_CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)'>")
_IN_A_ROW = 4  # numbers that are told as a range
_LONGEST_CODES = 60  # letters of pieces of code that stand in a row


def in_words(argument: str, values: Sequence[str], before: str) -> list[str]:
    """Return the values of an argument as a reader is told of them.

    A number says only with the name of its argument what it is, unless the
    words before it hold that name.
    """
    if all(NUMBER.fullmatch(each) for each in values):
        return _behind(_name(argument, before, len(values)), _range(values))
    if all(_TRUTH.fullmatch(each) for each in values):
        return _literals(argument, values, before)
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
        return [f"`{each.lstrip('_')}`" for each in values]
    return not_too_long([as_words(each) for each in values])


def _literals(argument: str, values: Sequence[str], before: str) -> list[str]:
    """Return values that are written as Python does."""
    name = _name(argument, before, len(values))
    if all(_SEQUENCE.fullmatch(each) for each in values):
        if len("".join(values)) > _LONGEST_CODES:
            return [_counted(len(values), argument)]
        return _behind(name, [f"`{each}`" for each in values])
    if not argument:
        return not_too_long([as_words(each) for each in values])
    if len("".join(values)) > _LONGEST_CODES:
        return [_counted(len(values), argument)]
    if {*values} == {"True", "False"}:
        first, second = values
        return [f"`{argument}={first}`", f"`{second}`"]
    return [f"`{argument}={each}`" for each in values]


def _counted(number: int, argument: str) -> str:
    """Return how many values an argument has."""
    noun = noun_of(argument)
    return (
        f"{number} {_plural(noun)}"
        if noun
        else (f"{number} values of `{argument}`")
    )


def not_too_long(said: list[str]) -> list[str]:
    """Return some values; of long pieces of code, their number and one."""
    is_code = all(each.startswith("`") for each in said)
    if not is_code or len("".join(said)) <= _LONGEST_CODES:
        return said
    if all(re.fullmatch(rf"`({TYPES})`", each) for each in said):
        return said
    shortest = min(said, key=len)
    return [f"{len(said)} snippets, such as {shortest}"]


def _name(argument: str, before: str, number: int) -> str:
    """Return what stands before the values of an argument."""
    stem = argument.removesuffix("s")
    if not argument or re.search(rf"\b{re.escape(stem)}s?\b", before):
        return ""
    noun = noun_of(argument)
    if not noun:
        return f"`{argument}`"
    return noun if number == 1 else _plural(noun)


def noun_of(argument: str) -> str:
    """Return an argument as a noun; "" for one that is none."""
    stem = argument.removesuffix("s")
    return stem if re.search(rf"\b{re.escape(stem)}\b", _NOUNS) else ""


def _plural(noun: str) -> str:
    """Return the plural of a noun of ours."""
    return f"{noun}es" if noun.endswith("tch") else f"{noun}s"


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


def is_plain(value: str) -> bool:
    """Whether a value needs the name of its argument to say something."""
    patterns = (NUMBER, _SEQUENCE, _TRUTH)
    return any(each.fullmatch(value) for each in patterns)


def as_words(value: str) -> str:
    """Return a value as words, or as code; one option as it is given."""
    value = re.sub(_CLASS, r"\1", value)
    value = re.sub(rf"\btorch\.({TYPES})\b", r"\1", value)
    if value == "{}":
        return "no options"
    if option := _OPTION.fullmatch(value):
        value = f"{option['name']}={option['value']}"
    if re.fullmatch(r"[\w ,-]* [\w ,-]*", value) and "_" not in value:
        return with_types(value)
    is_code = _CODE.search(value) or NUMBER.fullmatch(value)
    return f"`{value}`" if is_code and "`" not in value else value


def with_types(words: str) -> str:
    """Return some words with the types of numbers in them as code."""
    return re.sub(rf"\b({TYPES})\b", r"`\1`", words)


def listed(values: Sequence[str], word: str = "and") -> str:
    """Return some values as a person lists them."""
    *first, last = values
    if not first:
        return last
    # Between words that hold commas, no comma tells where a value ends.
    is_plain = not any("," in re.sub("`.*?`", "", each) for each in values)
    return f"{(', ' if is_plain else '; ').join(first)} {word} {last}"
