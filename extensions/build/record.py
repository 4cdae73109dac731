"""The record of a site: what it was written from, and what then stood there.

It is kept beside the doctrees, one for each folder that is written.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extensions.core.fingerprint import Fingerprint
from extensions.core.problem import Problem
from extensions.core.reading import json_of
from extensions.core.writing import write

_Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Record:
    """What the pages of a site were written from; empty before the first."""

    shared: Fingerprint = field(default_factory=Fingerprint)
    """What every page was written from."""
    pages: Mapping[str, Fingerprint] = field(default_factory=dict)
    """By page: what it was written from besides."""
    files: _Sizes = field(default_factory=dict)
    """The size of each file of the site, once all was written."""
    doctrees: _Sizes = field(default_factory=dict)
    """The size of each doctree, once all was written."""

    @classmethod
    def read(cls, path: Path) -> Record:
        """Return what a file holds; nothing if it is missing or damaged."""
        kept: dict[str, Any] = {}
        with contextlib.suppress(Problem, TypeError, ValueError):
            kept = dict(json_of(path))
        pages = dict(kept.get("pages", {}))
        return cls(
            Fingerprint.read(kept.get("shared")),
            {name: Fingerprint.read(each) for name, each in pages.items()},
            dict(kept.get("files", {})),
            dict(kept.get("doctrees", {})),
        )

    def write(self, path: Path) -> None:
        """Write it into a file."""
        kept = {
            "shared": self.shared.parts,
            "pages": {
                name: page.parts for name, page in sorted(self.pages.items())
            },
            "files": self.files,
            "doctrees": self.doctrees,
        }
        write(path, json.dumps(kept, indent=0) + "\n")


def sizes(
    folder: Path, pattern: str, but_below: Path | None = None
) -> dict[str, int]:
    """Return the size of each file below a folder, by its path."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob(pattern))
        if path.is_file() and but_below not in path.parents
    }
