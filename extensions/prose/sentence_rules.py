"""Rules of sentences: one on a line, and each citation of a primary source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.prose.pages import sentences_of, split_up
from extensions.prose.primary_sources import LIST, read_sources, source_of


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
                    message = f"cites no primary source of {LIST}: {address}"
                elif address.removeprefix(source.prefix) in source.pages:
                    cited.add(address)
                    continue
                else:
                    message = f"cites what {LIST} does not list: {address}"
                yield Problem(path, sentence.line, message)
    for source in sources:
        for page in source.pages:
            if f"{source.prefix}{page}" not in cited:
                message = f"no page cites {source.prefix}{page}"
                yield Problem(root / LIST, source.line, message)
