"""The primary sources: what a page may cite where no test of ours can tell.

Each stands in one file of the project, so that a new address is reviewed, and
no build asks the network for it. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from extensions.core.problem import Problem
from extensions.core.reading import tables_of

LIST = Path("docs/evidence/primary_sources.toml")
_FIELDS = {"name": str, "prefix": str, "pages": list}
# An address as it is written into a page: whole, and without a query.
_ADDRESS = re.compile(r"https://[a-z0-9.-]+(/[\w.~%+-]*)+(#[\w.~%:+-]+)?")


@dataclass(frozen=True)
class Source:
    """A documentation, or a tree of code at a tag."""

    name: str
    prefix: str
    """How all its addresses begin."""
    pages: tuple[str, ...]
    """How those go on that may be cited."""
    line: int


def read_sources(root: Path) -> list[Source]:
    """Return the primary sources of the project at a folder."""
    path = root / LIST
    if not path.exists():
        return []
    found = []
    for line, table in tables_of(path, "source"):
        for name, kind in _FIELDS.items():
            if not isinstance(table.get(name), kind):
                message = f"a source has no {name}, or not as {kind.__name__}"
                raise Problem(path, line, message)
        if not table["prefix"].endswith("/"):
            raise Problem(path, line, "a prefix ends with a slash")
        for page in table["pages"]:
            if not _ADDRESS.fullmatch(f"{table['prefix']}{page}"):
                message = f"no whole address: {table['prefix']}{page}"
                raise Problem(path, line, message)
        pages = tuple(table["pages"])
        found.append(Source(table["name"], table["prefix"], pages, line))
    return found


def source_of(address: str, sources: list[Source]) -> Source | None:
    """Return the source that an address belongs to."""
    for source in sources:
        if address.startswith(source.prefix):
            return source
    return None
