"""Rules of notebooks: whatever a page shows, its notebook shows, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from extensions.files.problem import Problem
from extensions.files.topics import topics
from extensions.files.weaving import weave


def notebooks_show_their_pages(root: Path) -> Iterator[Problem]:
    """Yield where a page shows what no notebook can."""
    for topic in topics(root):
        if not topic.is_recipe and topic.page.exists():
            yield from weave(topic, "").problems
