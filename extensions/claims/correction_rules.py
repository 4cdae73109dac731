"""Rules of corrections: each names a claim that shows it, and its source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from extensions.claims.corrections import lists_of, read_file
from extensions.claims.page import read_page
from extensions.core.problem import Problem
from extensions.prose.source_texts import LIST, read_texts


def corrections_name_claims(root: Path) -> Iterator[Problem]:
    """Yield corrections that name no claim of their topic."""
    for path in lists_of(root):
        for row in read_file(root, path):
            claims = {each.name for each in read_page(row.topic.page).claims}
            if row.claim not in claims:
                message = f"{row.topic.name} has no claim {row.claim!r}"
                yield Problem(path, row.lines["claim"], message)


def corrections_name_sections(root: Path) -> Iterator[Problem]:
    """Yield corrections that name no source, or no section of it."""
    listed = read_texts(root / LIST) if (root / LIST).exists() else []
    sections = {each.title: each.sections for each in listed}
    for path in lists_of(root):
        for row in read_file(root, path):
            if row.source not in sections:
                message = f"{LIST.name} has no source {row.source!r}"
                yield Problem(path, row.lines["source"], message)
            elif row.section not in sections[row.source]:
                message = f"{row.source!r} has no section {row.section!r}"
                yield Problem(path, row.lines["section"], message)
