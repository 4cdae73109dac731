"""Corrections: what the sources say, what holds, and the claim that shows it.

Each topic that corrects a source has a TOML file, so that a new topic edits
no list: ``docs/evidence/corrections/<topic>.toml``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.files import Problem, tables_of, text_of
from extensions.core.topics import Topic

_FOLDER = "docs/evidence/corrections"
_KEYS = ["claim", "holds", "said", "section", "source"]
_KEY = re.compile(r"\s*(\w+)\s*=")


@dataclass(frozen=True)
class Correction:
    """One statement of a source, and what is true instead."""

    topic: Topic
    lines: dict[str, int]
    """Where each key stands, or else where the correction begins."""
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

    @property
    def part(self) -> str:
        """The section as a reader is told of it; of a page, its last name."""
        page, end, anchor = self.section.partition(".html")
        if not end:
            return self.section
        return anchor.removeprefix("#") or page.rpartition("/")[2]


def correction_files(root: Path) -> list[Path]:
    """Return the files of corrections, one for each topic that has some."""
    return sorted((root / _FOLDER).rglob("*.toml"))


def corrections_in(root: Path, path: Path) -> list[Correction]:
    """Return the corrections of one topic."""
    name = path.relative_to(root / _FOLDER).with_suffix("").as_posix()
    return [
        Correction(Topic(root, name), lines, **row)
        for lines, row in _rows_with_lines(path, text_of(path))
    ]


@cached_by_content
def _rows_with_lines(
    path: Path, text: str
) -> list[tuple[dict[str, int], dict[str, str]]]:
    """Return the corrections in a file, each with the lines of its keys."""
    lines = text.splitlines()
    found = []
    for first, row in tables_of(path, "correction"):
        if sorted(row) != _KEYS:
            message = f"a correction has {sorted(row)}, not {_KEYS}"
            raise Problem(path, first, message)
        if wrong := [key for key in _KEYS if not isinstance(row[key], str)]:
            message = f"a correction needs text as its {', '.join(wrong)}"
            raise Problem(path, first, message)
        behind = [*enumerate(lines[first - 1 :], first)]
        at = {
            key: next(
                (at for at, each in behind if _sets_key(each, key)), first
            )
            for key in _KEYS
        }
        found.append((at, row))
    return found


def _sets_key(line: str, key: str) -> bool:
    """Whether a line sets a key."""
    match = _KEY.match(line)
    return match is not None and match[1] == key


def read_corrections(root: Path) -> list[Correction]:
    """Return the corrections of all topics."""
    return [
        row
        for path in correction_files(root)
        for row in corrections_in(root, path)
    ]
