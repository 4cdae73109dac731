"""Which pages have changed since all were checked: their notebooks, and so on.

``evidence/checked_pages.json`` holds a hash of each page and its program, of
the time when a browser last opened it and its notebook last ran. The checks of
a change look at the others alone; ``nox -s release`` looks at all, and then
``python -m tools.checked_pages`` notes them.
"""

from __future__ import annotations

import json
from pathlib import Path

from extensions.core.files import json_of, text_of, write
from extensions.core.fingerprint import digest
from extensions.core.topics import ROOT, Topic, topics

CHECKED = Path("evidence/checked_pages.json")
_WRITTEN = ("code/", "gallery/")  # by the build


def _pages(root: Path) -> dict[str, str]:
    """Return a hash of each page with its program, by the page's name."""
    docs = root / "docs"
    paths = (path.relative_to(docs) for path in docs.glob("**/*.md"))
    pages = {path.with_suffix("").as_posix() for path in paths}
    names = {each for each in pages if not each.startswith(_WRITTEN)}
    found = {}
    for name in sorted(names | {topic.name for topic in topics(root)}):
        topic = Topic(root, name)
        files = filter(Path.is_file, (topic.page, topic.snippet))
        found[name] = digest(*map(text_of, files))
    return found


def changed_pages(root: Path) -> set[str]:
    """Return the names of the pages that have changed, new ones among them."""
    checked = json_of(root / CHECKED)
    return {
        name for name, now in _pages(root).items() if checked.get(name) != now
    }


def note(root: Path) -> None:
    """Note that all pages have been checked as they are."""
    write(root / CHECKED, json.dumps(_pages(root), indent=1) + "\n")


if __name__ == "__main__":
    note(ROOT)
