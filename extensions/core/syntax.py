"""The syntax of pages besides CommonMark, as every reader of a page sees it:
what MyST reads, the front matter, and the argument of ``{exercise}``.

Imports no parser, so that conf.py can be read before anything is installed.
"""

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from extensions.core.files import Problem, text_of

EXTENSIONS = {"attrs_inline", "colon_fence"}  # of MyST

READ_FIRST = "read_first"
# What people call the subject of the page, where it uses other words.
SEARCH = "search"
# "hide-toc" is Furo's.
KEYS = (READ_FIRST, SEARCH, "hide-toc")
_LINE = re.compile(r"(?P<key>[\w-]+): (?P<value>\S.*)")


def front_matter_of(path: Path) -> dict[str, tuple[str, int]]:
    """Return what stands between two lines of dashes, each with its line."""
    lines = text_of(path).splitlines()
    if not lines or lines[0] != "---":
        return {}
    found: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines[1:], 2):
        if line == "---":
            return found
        match = _LINE.fullmatch(line)
        if match is None:
            raise Problem(path, number, f"no 'key: value': {line!r}")
        found[match["key"]] = match["value"], number
    raise Problem(path, 1, "front matter without an end: a line of dashes")


class Kind(Enum):
    """What an exercise asks for; by which names follows behind it."""

    PREDICT = "predict"
    """What does this cell print? The answer is its output."""
    REPAIR = "repair"
    """A program is wrong on the page; the answer is the edit that mends it,
    a counter-example, named as a claim is."""
    BUILD = "build"
    """Write something; the answer is one cell, and the next one checks
    whatever the reader has written in its place."""


# How many names follow a kind.
_NAMES = {Kind.PREDICT: 1, Kind.REPAIR: 1, Kind.BUILD: 2}


@dataclass(frozen=True)
class Exercise:
    """One exercise of a page."""

    kind: Kind
    names: tuple[str, ...]


def exercise_of(argument: str) -> Exercise | None:
    """Return the exercise that an argument asks for; none if it is unclear."""
    word, *names = argument.split() or [""]
    if word not in {kind.value for kind in Kind}:
        return None
    kind = Kind(word)
    if len(names) != _NAMES[kind]:
        return None
    return Exercise(kind, tuple(names))
