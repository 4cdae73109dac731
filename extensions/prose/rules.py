"""Rules of prose: front matter, the order of sections, and citations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, text_of
from extensions.core.markdown import line_of, parse, title_of
from extensions.core.syntax import (
    HEADINGS,
    KEYS,
    NAMED_BY,
    READ_FIRST,
    front_matter_of,
)
from extensions.core.topics import topics
from extensions.prose.lists import SOURCES, read_sources, source_of
from extensions.prose.sentences import sentences_of, split_up

_SECTION = re.compile(r'^section = "(.*)"$', re.MULTILINE)


def fronts_name_pages(root: Path) -> Iterator[Problem]:
    """Yield front matter that says what nobody reads, or names no page."""
    for path in sorted(root.glob("docs/**/*.md")):
        for key, (value, line) in front_matter_of(path).items():
            if key not in KEYS:
                message = f"unknown front matter {key!r}: there are {KEYS}"
                yield Problem(path, line, message)
            elif key == READ_FIRST and title_of(root, value) is None:
                yield Problem(path, line, f"{key} names no page: {value!r}")
            elif key == NAMED_BY and value != HEADINGS:
                message = f"{key} has to be {HEADINGS!r}, not {value!r}"
                yield Problem(path, line, message)


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


def sentences_stand_alone(root: Path) -> Iterator[Problem]:
    """Yield lines of pages on which a second sentence stands."""
    for path in sorted(root.glob("docs/**/*.md")):
        yield from _doubled(path, text_of(path))


@cached_by_content
def _doubled(path: Path, text: str) -> list[Problem]:
    """Return the lines of a page on which a second sentence stands."""
    message = "two sentences on one line: give each its own"
    return [
        Problem(path, sentence.line, message)
        for sentence in split_up(path, text)
        if sentence.holds_two
    ]


def _corrected(root: Path) -> set[str]:
    """Return the sections that corrections name; their page cites them."""
    files = root.glob("docs/evidence/corrections/**/*.toml")
    return {
        found for path in files for found in _SECTION.findall(text_of(path))
    }


def citations_are_primary(root: Path) -> Iterator[Problem]:
    """Yield cited links that are no primary source, or are not listed."""
    sources = read_sources(root)
    cited = set()
    for path in sorted(root.glob("docs/**/*.md")):
        for sentence in sentences_of(path):
            for part in sentence.parts:
                address = part.address
                if not address or address in cited:
                    continue
                source = source_of(address, sources)
                if source is None:
                    message = (
                        f"cites no primary source of {SOURCES}: {address}"
                    )
                elif address.removeprefix(source.prefix) in source.pages:
                    cited.add(address)
                    continue
                else:
                    message = f"cites what {SOURCES} does not list: {address}"
                yield Problem(path, sentence.line, message)
    corrected = _corrected(root)
    for source in sources:
        for page in source.pages:
            address = f"{source.prefix}{page}"
            if address not in cited and page not in corrected:
                message = f"no page cites {address}"
                yield Problem(root / SOURCES, source.line, message)
