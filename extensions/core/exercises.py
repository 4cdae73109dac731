"""What an exercise asks for, and by which names: the argument of
``{exercise}``, as every reader of a page sees it.

``predict CELL``
    What does this cell print? The answer is its output.
``repair COUNTER-EXAMPLE``
    A program is wrong on the page; the answer is the edit that mends it, named
    as a claim is.
``build SOLUTION CHECK``
    Write something; the answer is one cell, and the next one checks whatever
    the reader has written in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a reader does."""

    PREDICT = "predict"
    REPAIR = "repair"
    BUILD = "build"


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
