"""In which sections each word stands: the index, ready when it is loaded.

A browser that made it from the texts would take longer than it takes to load.
Words are cut to their stems by what Sphinx has for it, once for the build and
once for the browser: *freezing* and *freeze* are one word.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import pairwise

from extensions.files.empty_words import EMPTY

WORD = re.compile(r"\w+")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
Stem = Callable[[str], str]


def terms_of(words: Iterable[str], stem: Stem) -> list[str]:
    """Return what is looked up for some words; ``searching.js`` does alike."""
    found = []
    for word in words:
        lower = word.lower()
        if len(lower) < 2 or lower[0].isdigit() or lower in EMPTY:
            continue
        # A name of code stays as it is written.
        is_name = re.search(r"[_\d]", lower)
        found.append(lower if is_name else stem(lower))
    return found


def parted(text: str) -> list[str]:
    """Return the words of a text, and the parts of names written together.

    CrossEntropyLoss and cross_entropy are found by their parts as well.
    """
    found = []
    for word in WORD.findall(text):
        parts = PART.findall(word) if word.isascii() else []
        found += [word, *parts] if len(parts) > 1 else [word]
    return found


class Terms:
    """The terms of some documents, each a list of texts, one for a field."""

    def __init__(self, stem: Stem) -> None:
        self.terms = partial(terms_of, stem=cache(stem))
        self.places: defaultdict[str, defaultdict[int, list[int]]]
        self.places = defaultdict(lambda: defaultdict(list))
        self.count = 0

    def meaning(self, text: str) -> str:
        """Return a text by what is looked up for it."""
        return " ".join(self.terms(WORD.findall(text)))

    def add(self, *fields: str) -> list[int]:
        """Take in a document; return how many words each field has."""
        lengths = []
        for field, text in enumerate(fields):
            words = parted(text)
            lengths.append(len(set(words)))
            for term, times in Counter(self.terms(words)).items():
                self.places[term][field] += [self.count] * times
        self.count += 1
        return lengths

    def written(self) -> str:
        """Return all as one text, in the order of the terms.

        ``batch:0,2,2;5`` says that the first field of documents 0, 2 and 4
        holds the term, and the second one of document 5: each number is the
        step from the one before, in digits and letters.
        """
        return " ".join(
            f"{term}:{fields_written(self.places[term])}"
            for term in sorted(self.places)
        )


def fields_written(fields: dict[int, list[int]]) -> str:
    """Return where a term stands; fields at the end that lack it are left."""
    return ";".join(steps(fields.get(at, [])) for at in range(max(fields) + 1))


def steps(places: list[int]) -> str:
    """Return growing numbers by the steps between them."""
    pairs = pairwise([0, *places])
    return ",".join(base_36(last - first) for first, last in pairs)


def base_36(number: int) -> str:
    """Return a number in digits and letters."""
    more, last = divmod(number, 36)
    return (base_36(more) if more else "") + DIGITS[last]
