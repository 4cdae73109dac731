"""An inverted index: the sections in which each word occurs.

The build makes it, because a browser would take longer to make it than to load
it. Both stem words with Sphinx's stemmers: *freezing* and *freeze* are one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from sphinx.search.en import SearchEnglish

from extensions.web.stop_words import BEFORE_NAMES, STOP_WORDS

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Field(NamedTuple):
    """What is looked up in a text."""

    length: int
    """How many words it has."""
    times: dict[str, int]
    """How often each term stands in it."""


@cache
def _stemmer() -> Callable[[str], str]:
    """Return Sphinx's stemmer of English words, with a cache."""
    return cache(SearchEnglish({}).stem)


def _terms_of(words: Iterable[str]) -> list[str]:
    """Return the terms of some words; ``searching.js`` does the same."""
    found = []
    for word in words:
        lower = word.lower()
        is_number = re.fullmatch(r"[\d_]+", lower)  # 2d is none
        if len(lower) < 2 or is_number or lower in STOP_WORDS:
            continue
        # A name of code stays as it is written.
        is_name = re.search(r"[_\d]", lower)
        found.append(lower if is_name else _stemmer()(lower))
    return found


def words_and_parts(text: str) -> list[str]:
    """Return the words of a text, and the parts of names written together.

    CrossEntropyLoss and cross_entropy are found by their parts as well.
    """
    found = []
    for word in _WORD.findall(text):
        parts = _PART.findall(word) if word.isascii() else []
        found += [word, *parts] if len(parts) > 1 else [word]
    return found


def stemmed(text: str) -> str:
    """Return the terms of a name, joined by spaces; *torch* if it is alone."""
    words = _WORD.findall(text)
    own = [word for word in words if word.lower() not in BEFORE_NAMES]
    return " ".join(_terms_of(own) or _terms_of(words))


def field_of(text: str) -> Field:
    """Return the terms of a text, counted."""
    words = words_and_parts(text)
    return Field(len(set(words)), dict(Counter(_terms_of(words))))


class Terms:
    """The terms of some documents, each a list of fields."""

    def __init__(self) -> None:
        self.places: defaultdict[str, defaultdict[int, list[int]]]
        self.places = defaultdict(lambda: defaultdict(list))
        self.count = 0

    def add(self, *fields: Field) -> list[int]:
        """Take in a document; return how many words each field has."""
        for at, field in enumerate(fields):
            for term, times in field.times.items():
                self.places[term][at] += [self.count] * times
        self.count += 1
        return [field.length for field in fields]

    def written(self) -> str:
        """Return all as one text, in the order of the terms.

        ``batch:0,2,2;5`` says that the first field of documents 0, 2 and 4
        holds the term, and the second one of document 5: each number is the
        step from the one before, in digits and letters.
        """
        return " ".join(
            f"{term}:{_fields_written(self.places[term])}"
            for term in sorted(self.places)
        )


def _fields_written(fields: dict[int, list[int]]) -> str:
    """Return where a term stands; fields at the end that lack it are left."""
    return ";".join(steps(fields.get(at, [])) for at in range(max(fields) + 1))


def steps(places: list[int]) -> str:
    """Return growing numbers by the steps between them."""
    pairs = pairwise([0, *places])
    return ",".join(base_36(last - first) for first, last in pairs)


def base_36(number: int) -> str:
    """Return a number in digits and letters."""
    more, last = divmod(number, 36)
    return (base_36(more) if more else "") + _DIGITS[last]
