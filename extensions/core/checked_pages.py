"""Which pages have changed since all were checked: their notebooks, and so on.

``evidence/checked_pages.json`` holds a hash of each page and its program, of
the time when a browser last opened it and its notebook last ran. The checks of
a change look at the others alone; ``nox -s release`` looks at all, and then
``python -m extensions.core.checked_pages`` notes them. Imports neither Sphinx
nor torch.
"""

from __future__ import annotations

import json
from pathlib import Path

from extensions.core.files import Problem, json_of, text_of, write
from extensions.core.fingerprint import digest
from extensions.core.topics import ROOT, Topic, topics

CHECKED = Path("evidence/checked_pages.json")
_WRITTEN = ("code/", "gallery/")  # by the build


def _pages(root: Path) -> dict[str, str]:
    """Return a hash of each page with its program, by the page's name."""
    docs = root / "docs"
    names = {
        path.relative_to(docs).with_suffix("").as_posix()
        for path in docs.glob("**/*.md")
    }
    names = {each for each in names if not each.startswith(_WRITTEN)}
    names |= {topic.name for topic in topics(root)}
    found = {}
    for name in sorted(names):
        topic = Topic(root, name)
        files = [topic.page, topic.snippet]
        texts = [text_of(each) for each in files if each.is_file()]
        found[name] = digest(*texts)
    return found


def changed_pages(root: Path) -> set[str]:
    """Return the names of the pages that have changed, new ones among them."""
    checked: object = {}
    if (root / CHECKED).exists():
        checked = json_of(root / CHECKED)
    if not isinstance(checked, dict):
        raise Problem(root / CHECKED, 1, "holds no hashes of pages")
    now = _pages(root)
    return {name for name in now if checked.get(name) != now[name]}


def note(root: Path) -> None:
    """Note that all pages have been checked as they are."""
    write(root / CHECKED, json.dumps(_pages(root), indent=1) + "\n")


if __name__ == "__main__":
    note(ROOT)
