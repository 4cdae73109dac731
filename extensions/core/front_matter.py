"""Front matter: what a page says of itself before its title."""

from __future__ import annotations

import re
from pathlib import Path

from extensions.core.problem import Problem
from extensions.core.reading import text_of

READ_FIRST = "read_first"
# What people call the subject of the page, where it uses other words.
SEARCH = "search"
# What else are names of the page: its "headings", if each is an entry.
NAMED_BY = "named_by"
HEADINGS = "headings"
# "hide-toc" is Furo's.
KEYS = (READ_FIRST, SEARCH, NAMED_BY, "hide-toc")
_LINE = re.compile(r"(?P<key>[\w-]+): (?P<value>\S.*)")


def front_matter_of(path: Path) -> dict[str, tuple[str, int]]:
    """Return what stands between two lines of dashes, each with its line."""
    lines = text_of(path).splitlines()
    if not lines or lines[0] != "---":
        return {}
    found: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines[1:], 2):
        if line == "---":
            return found
        match = _LINE.fullmatch(line)
        if match is None:
            raise Problem(path, number, f"no 'key: value': {line!r}")
        found[match["key"]] = match["value"], number
    raise Problem(path, 1, "front matter without an end: a line of dashes")
