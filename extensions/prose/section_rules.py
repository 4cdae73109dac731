"""Rules of sections: how a page begins and ends, and what comes when."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.markdown import line_of, parse
from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.core.topics import topics

# The sections that pages have, in their order. Others may stand between them.
_SECTIONS = (
    "Do this",
    "How it works",
    "What goes wrong",
    "Where it ends",
    "In short",
    "Try it",
    "Next",
)
_REQUIRED = {"Do this", "Next"}


def pages_have_their_sections(root: Path) -> Iterator[Problem]:
    """Yield where the sections of a page are not those of the others."""
    for topic in topics(root):
        if not topic.is_recipe and topic.page.exists():
            yield from _wrong_in(topic.page, text_of(topic.page))


@cached_by_content
def _wrong_in(path: Path, text: str) -> list[Problem]:
    """Return what is wrong with the sections of a page, if it has any."""
    sections = _sections(text)
    known = [name for name in sections if name in _SECTIONS]
    wrong = [
        Problem(path, 1, f"no section {name!r}")
        for name in _SECTIONS
        if name in _REQUIRED.difference(sections) and sections
    ]
    wrong += [
        Problem(
            path, sections[later], f"{later!r} has to come before {first!r}"
        )
        for first, later in pairwise(known)
        if _SECTIONS.index(first) > _SECTIONS.index(later)
    ]
    if sections and not _opens_with_words(text):
        message = "no sentence below the title that says what it is good for"
        wrong.append(Problem(path, 1, message))
    return wrong


def _sections(text: str) -> dict[str, int]:
    """Return the headings of the sections of a page, with their lines."""
    return {
        words.content: line_of(opening, 1)
        for opening, words in pairwise(parse(text))
        if opening.type == "heading_open" and opening.tag == "h2"
    }


def _opens_with_words(text: str) -> bool:
    """Whether a paragraph follows the title of a page."""
    followers = (
        following.type
        for token, following in pairwise(parse(text))
        if token.type == "heading_close"
    )
    return next(followers, "") == "paragraph_open"
