"""What people type: words that a page lists, and synonyms for all pages.

The lists stay short, so that the search gets better by what pages say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from extensions.core.problem import Problem
from extensions.core.reading import text_of, toml_of
from extensions.core.syntax import SEARCH, front_matter_of

_SYNONYMS = "docs/synonyms.toml"
_PHRASES = 8  # of a page
_WORDS = 2500  # of all pages
_WORD = re.compile(r"\w+")


def read_synonyms(root: Path) -> dict[str, str]:
    """Return the words of pages by what people type; none without a list."""
    path = root / _SYNONYMS
    found = toml_of(path) if path.exists() else {}
    for typed, meant in found.items():
        if not isinstance(meant, str) or not _WORD.search(typed + meant):
            raise Problem(path, 1, f"no words for {typed!r}: {meant!r}")
    return found


def phrases_add_words(root: Path) -> Iterator[Problem]:
    """Yield lists that are too long, or that say what the page says."""
    words = 0
    for path in sorted(root.glob("docs/**/*.md")):
        value, line = front_matter_of(path).get(SEARCH, ("", 0))
        if not value:
            continue
        words += len(value.split())
        for said in _faults_of(value, text_of(path).replace(value, "", 1)):
            yield Problem(path, line, f"{SEARCH} {said}")
        if words > _WORDS:
            said = f"has word {words} of all pages, which have {_WORDS}"
            yield Problem(path, line, f"{SEARCH} {said}: remove some")


def _faults_of(value: str, page: str) -> Iterator[str]:
    """Yield what is wrong with the phrases of a page."""
    phrases = [phrase.strip() for phrase in value.split(",")]
    if not all(phrases):
        yield f"has a comma too many: {value!r}"
    if len(phrases) > _PHRASES:
        yield f"has {len(phrases)} phrases: {_PHRASES} are enough"
    has = {word.lower() for word in _WORD.findall(page)}
    for phrase in filter(None, phrases):
        if has.issuperset(map(str.lower, _WORD.findall(phrase))):
            yield f"says {phrase!r}, whose words stand there already"
        has.update(map(str.lower, _WORD.findall(phrase)))
