"""Corrections: what the sources say, what holds, and the claim that shows it.

Each topic that corrects a source has a TOML file, so that a new topic edits
no list: ``docs/evidence/corrections/<topic>.toml``.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from extensions.files.problem import Problem
from extensions.files.topics import Topic

FOLDER = "docs/evidence/corrections"
KEYS = {"source", "said", "holds", "claim"}


@dataclass(frozen=True)
class Correction:
    """One statement of a source, and what is true instead."""

    topic: Topic
    source: str
    said: str
    holds: str
    claim: str


def read_file(root: Path, path: Path) -> list[Correction]:
    """Return the corrections of one topic."""
    name = path.relative_to(root / FOLDER).with_suffix("").as_posix()
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["correction"]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise Problem(path, 1, f"no list of corrections: {error}") from error
    for row in rows:
        if row.keys() != KEYS:
            message = f"a correction has {sorted(row)}, not {sorted(KEYS)}"
            raise Problem(path, 1, message)
    return [Correction(Topic(root, name), **row) for row in rows]


def read_corrections(root: Path) -> list[Correction]:
    """Return the corrections of all topics, without files that are broken."""
    found = []
    for path in sorted((root / FOLDER).rglob("*.toml")):
        try:
            found += read_file(root, path)
        except Problem:  # a rule reports it
            continue
    return found
