"""Rules of corrections: each names a claim that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from extensions.files.corrections import lists_of, read_file
from extensions.files.pages import read_page
from extensions.files.problem import Problem


def corrections_name_claims(root: Path) -> Iterator[Problem]:
    """Yield corrections that name no claim of their topic."""
    for path in lists_of(root):
        for row in read_file(root, path):
            claims = {each.name for each in read_page(row.topic.page).claims}
            if row.claim not in claims:
                message = f"{row.topic.name} has no claim {row.claim!r}"
                yield Problem(path, row.line, message)
