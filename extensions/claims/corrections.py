"""Corrections: what the sources say, what holds, and the claim that shows it.

Each topic that corrects a source has a TOML file, so that a new topic edits
no list: ``docs/evidence/corrections/<topic>.toml``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from extensions.claims.page import read_page
from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, tables_of, text_of
from extensions.core.topics import Topic
from extensions.prose.rules import read_sources

_FOLDER = "docs/evidence/corrections"
_KEYS = ["claim", "holds", "said", "section", "source"]
# A heading for each text that the guide reorganizes, a row for each section.
_TEXTS = "docs/evidence/sources.md"
_ROW = re.compile(r'^"(.+?)", "\{doc\}', re.MULTILINE)


@dataclass(frozen=True)
class Correction:
    """One statement of a source, and what is true instead."""

    topic: Topic
    line: int
    source: str
    section: str
    """The part of the source, as the list of the sources names it.

    Of a primary source, a page: ``generated/torch.nn.LSTM.html``.
    """
    said: str
    holds: str
    claim: str

    @property
    def name(self) -> str:
        """The claim that it rests on, with its page."""
        return f"{self.topic.name}#{self.claim}"


def correction_files(root: Path) -> list[Path]:
    """Return the files of corrections, one for each topic that has some."""
    return sorted((root / _FOLDER).rglob("*.toml"))


def corrections_in(root: Path, path: Path) -> list[Correction]:
    """Return the corrections of one topic.

    Raises ``Problem`` for one that lacks a key, or has another.
    """
    name = path.relative_to(root / _FOLDER).with_suffix("").as_posix()
    return [
        Correction(Topic(root, name), line, **row)
        for line, row in _rows_in(path, text_of(path))
    ]


@cached_by_content
def _rows_in(path: Path, _text: str) -> list[tuple[int, dict[str, str]]]:
    rows = tables_of(path, "correction")
    for line, row in rows:
        if sorted(row) != _KEYS:
            message = f"a correction has {sorted(row)}, not {_KEYS}"
            raise Problem(path, line, message)
        if wrong := [key for key in _KEYS if not isinstance(row[key], str)]:
            message = f"a correction needs text as its {', '.join(wrong)}"
            raise Problem(path, line, message)
    return rows


def read_corrections(root: Path) -> list[Correction]:
    """Return the corrections of all topics."""
    return [
        row
        for path in correction_files(root)
        for row in corrections_in(root, path)
    ]


def corrections_stand(root: Path) -> Iterator[Problem]:
    """Yield corrections of no listed section, or that no claim shows.

    A source is one of the texts, or a primary one, whose sections are pages.
    """
    sections = {each.name: {*each.pages} for each in read_sources(root)}
    texts = root / _TEXTS
    for each in text_of(texts).split("\n## ")[1:] if texts.exists() else ():
        sections[each.partition("\n")[0]] = {*_ROW.findall(each)}
    for path in correction_files(root):
        for row in corrections_in(root, path):
            claims = {each.name for each in read_page(row.topic.page).claims}
            if row.claim not in claims:
                message = f"{row.topic.name} has no claim {row.claim!r}"
                yield Problem(path, row.line, message)
            if row.source not in sections:
                message = f"{_TEXTS} has no source {row.source!r}"
                yield Problem(path, row.line, message)
            elif row.section not in sections[row.source]:
                message = f"{row.source!r} has no section {row.section!r}"
                yield Problem(path, row.line, message)
