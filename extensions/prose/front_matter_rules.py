"""Rules of front matter: what a page says before its title."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from extensions.core.front_matter import (
    KEYS,
    READ_FIRST,
    SEARCH,
    front_matter_of,
)
from extensions.core.problem import Problem
from extensions.core.titles import title_of


def fronts_name_pages(root: Path) -> Iterator[Problem]:
    """Yield front matter that says what nobody reads, or names no page."""
    for path in sorted(root.glob("docs/**/*.md")):
        for key, (value, line) in front_matter_of(path).items():
            if key not in KEYS:
                message = f"unknown front matter {key!r}: there are {KEYS}"
                yield Problem(path, line, message)
            elif key == READ_FIRST and title_of(root, value) is None:
                yield Problem(path, line, f"{key} names no page: {value!r}")
            elif key == SEARCH:
                for said in _faults_of_words(value):
                    yield Problem(path, line, f"{key} {said}")


def _faults_of_words(value: str) -> Iterator[str]:
    """Yield what is wrong with words that are divided by commas."""
    words = [word.strip().lower() for word in value.split(",")]
    if not all(words):
        yield f"has a comma too many: {value!r}"
    for word in sorted({word for word in words if words.count(word) > 1}):
        yield f"says {word!r} twice"
