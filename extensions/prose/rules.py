"""Rules of prose: front matter, sections, sentences, citations and synonyms.

Each primary source stands in one list, so that a new address is reviewed. What
people type stays short, so that the search gets better by what pages say.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, tables_of, text_of, toml_of
from extensions.core.markdown import line_of, parse, title_of
from extensions.core.syntax import (
    KEYS,
    READ_FIRST,
    SEARCH,
    front_matter_of,
)
from extensions.core.topics import topics
from extensions.prose.sentences import sentences_of


def fronts_name_pages(root: Path) -> Iterator[Problem]:
    """Yield front matter that says what nobody reads, or names no page."""
    for path in sorted(root.glob("docs/**/*.md")):
        for key, (value, line) in front_matter_of(path).items():
            if key not in KEYS:
                message = f"unknown front matter {key!r}: there are {KEYS}"
                yield Problem(path, line, message)
            elif key == READ_FIRST and title_of(root, value) is None:
                yield Problem(path, line, f"{key} names no page: {value!r}")


_SYNONYMS = "docs/synonyms.toml"
_PHRASES = 8  # of a page


def read_synonyms(root: Path) -> dict[str, str]:
    """Return the words of pages by what people type; none without a list."""
    path = root / _SYNONYMS
    found = toml_of(path) if path.exists() else {}
    for typed, meant in found.items():
        if not isinstance(meant, str):
            raise Problem(path, 1, f"no words for {typed!r}: {meant!r}")
    return found


def phrases_add_words(root: Path) -> Iterator[Problem]:
    """Yield lists that are too long, or that say what the page says."""
    for path in sorted(root.glob("docs/**/*.md")):
        value, line = front_matter_of(path).get(SEARCH, ("", 0))
        phrases = re.split(", *", value) if value else []
        if len(phrases) > _PHRASES:
            message = f"has {len(phrases)} phrases: {_PHRASES} are enough"
            yield Problem(path, line, f"{SEARCH} {message}")
        has = _words_of(text_of(path).replace(value, "", 1))
        for phrase in phrases:
            if _words_of(phrase) <= has:
                message = f"says {phrase!r}, whose words stand there already"
                yield Problem(path, line, f"{SEARCH} {message}")
            has |= _words_of(phrase)


def _words_of(text: str) -> set[str]:
    return {*re.findall(r"\w+", text.lower())}


# The sections that pages have, in their order. Others may stand between them.
_SECTIONS = (
    "Do this",
    "How it works",
    "What goes wrong",
    "Where it ends",
    "In short",
    "Try it",
    "Read on",
)
_REQUIRED = ("Do this", "Read on")


def pages_have_their_sections(root: Path) -> Iterator[Problem]:
    """Yield where the sections of a page are not those of the others.

    Pages with errors have a section for each kind of them instead.
    """
    for topic in topics(root):
        has_own = topic.is_recipe or topic.chapter == "fix"
        if not has_own and topic.page.exists():
            yield from _wrong_sections(topic.page, text_of(topic.page))


@cached_by_content
def _wrong_sections(path: Path, text: str) -> list[Problem]:
    tokens = [*pairwise(parse(text))]
    sections = {
        words.content: line_of(opening, 1)
        for opening, words in tokens
        if opening.type == "heading_open" and opening.tag == "h2"
    }
    if not sections:  # a page that has just begun
        return []
    wrong = [
        Problem(path, 1, f"no section {name!r}")
        for name in _REQUIRED
        if name not in sections
    ]
    known = [name for name in sections if name in _SECTIONS]
    for first, later in pairwise(known):
        if _SECTIONS.index(first) > _SECTIONS.index(later):
            message = f"{later!r} has to come before {first!r}"
            wrong.append(Problem(path, sections[later], message))
    below = (after.type for each, after in tokens if each.tag == "h1")
    if "paragraph_open" not in below:
        message = "no sentence below the title that says what it is good for"
        wrong.append(Problem(path, 1, message))
    return wrong


def sentences_stand_alone(root: Path) -> Iterator[Problem]:
    """Yield lines of pages on which a second sentence stands."""
    message = "two sentences on one line: give each its own"
    for path in sorted(root.glob("docs/**/*.md")):
        for sentence in sentences_of(path):
            if sentence.holds_two:
                yield Problem(path, sentence.line, message)


_SOURCES = "docs/evidence/primary_sources.toml"
_SECTION = re.compile(r'^section = "(.*)"$', re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A documentation, or a tree of code at a tag."""

    name: str
    prefix: str
    """How all its addresses begin."""
    pages: list[str]
    """How those go on that may be cited."""
    line: int


def read_sources(root: Path) -> list[Source]:
    """Return the primary sources of the project at a folder."""
    path = root / _SOURCES
    found = []
    for line, table in tables_of(path, "source") if path.exists() else []:
        try:
            found.append(Source(**table, line=line))
        except TypeError as error:
            message = "a source has a name, a prefix and pages"
            raise Problem(path, line, message) from error
    return found


def citations_are_primary(root: Path) -> Iterator[Problem]:
    """Yield cited links that are not listed, and sources that nobody cites.

    A correction names the page of a source as its section, which cites it.
    """
    listed = {
        f"{source.prefix}{page}": (source, page)
        for source in read_sources(root)
        for page in source.pages
    }
    cited = set()
    for path in sorted(root.glob("docs/**/*.md")):
        for sentence in sentences_of(path):
            for address in sentence.cited:
                cited.add(address)
                if address not in listed:
                    message = f"cites what {_SOURCES} does not list: {address}"
                    yield Problem(path, sentence.line, message)
    files = root.glob("docs/evidence/corrections/**/*.toml")
    corrected = {
        section
        for each in files
        for section in _SECTION.findall(text_of(each))
    }
    for address, (source, page) in listed.items():
        if address not in cited and page not in corrected:
            message = f"no page cites {address}"
            yield Problem(root / _SOURCES, source.line, message)
