"""Rule of directives and roles: a page uses only those that have a meaning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from extensions.core.cache import cached_by_content
from extensions.core.directives import TABLE, unknown_in
from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.core.topics import topics


def directives_have_a_meaning(root: Path) -> Iterator[Problem]:
    """Yield directives and roles that readers without Sphinx do not know.

    Where a page has a program, the export of its notebook reports them.
    """
    exported = {topic.page for topic in topics(root)}
    for path in sorted(root.glob("docs/**/*.md")):
        if path not in exported:
            yield from _unknown(path, text_of(path))


@cached_by_content
def _unknown(path: Path, text: str) -> list[Problem]:
    """Return what the text of a page uses, and no table names."""
    return [
        Problem(path, line, f"nothing says what {name} means: see {TABLE}")
        for line, name in unknown_in(text, 1)
    ]
