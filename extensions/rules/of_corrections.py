"""Rules of corrections: each names a claim that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from extensions.files.corrections import FOLDER, read_file
from extensions.files.pages import read_page
from extensions.files.problem import Problem


def corrections_name_claims(root: Path) -> Iterator[Problem]:
    """Yield corrections that name no claim of their topic."""
    for path in sorted((root / FOLDER).rglob("*.toml")):
        try:
            rows = read_file(root, path)
        except Problem as problem:
            yield problem
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for row in rows:
            claims = {each.name for each in read_page(row.topic.page).claims}
            if row.claim not in claims:
                line = lines.index(f'claim = "{row.claim}"') + 1
                message = f"{row.topic.name} has no claim {row.claim!r}"
                yield Problem(path, line, message)
