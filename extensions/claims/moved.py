"""What moved: the old addresses of claims and pages, and the new ones.

They stand in ``docs/moved.toml``. Imports no Sphinx.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from extensions.claims.page import read_page
from extensions.core.problem import Problem
from extensions.core.reading import text_of, toml_of
from extensions.core.topics import Topic

_FILE = "docs/moved.toml"
_PAGE = r"\w+(?:/\w+)*"
_FORMS = {
    "claims": (re.compile(rf"{_PAGE}#[a-z0-9]+(?:-[a-z0-9]+)*"), "page#claim"),
    "pages": (re.compile(_PAGE), "chapter/page"),
}


@dataclass(frozen=True)
class Moved:
    """The new address of each old one: ``page#claim``, or ``page``."""

    path: Path
    claims: dict[str, str]
    pages: dict[str, str]

    def formerly(self, name: str) -> tuple[str, ...]:
        """Return the old addresses that lead to a claim, ``page#claim``."""
        page, _, claim = name.partition("#")
        renamed = [old for old, new in self.claims.items() if new == name]
        behind = [
            f"{old}#{claim}" for old, new in self.pages.items() if new == page
        ]
        return (
            *renamed,
            *(each for each in behind if each not in self.claims),
        )

    def line_of(self, old: str) -> int:
        """Return the line of an old address."""
        return _line_of(self.path, old)


def read_moved(root: Path) -> Moved:
    """Return what moved; raise the first entry that is malformed."""
    path = root / _FILE
    tables = toml_of(path) if path.exists() else {}
    for name, table in tables.items():
        if name not in _FORMS or not isinstance(table, dict):
            message = f"{name!r} is neither of the tables [claims] and [pages]"
            raise Problem(path, _line_of(path, name), message)
        pattern, form = _FORMS[name]
        for old, new in table.items():
            said = new if isinstance(new, str) else ""
            if not (pattern.fullmatch(old) and pattern.fullmatch(said)):
                message = f'not of the form "{form}" = "{form}": {old!r}'
                raise Problem(path, _line_of(path, old), message)
    return Moved(path, tables.get("claims", {}), tables.get("pages", {}))


def _line_of(path: Path, key: str) -> int:
    """Return the line that sets a key, or opens a table."""
    place = re.compile(rf"""[ \t]*\[*["']?{re.escape(key)}["']?\s*[]=.]""")
    lines = enumerate(text_of(path).splitlines(), 1)
    return next((at for at, each in lines if place.match(each)), 1)


def moves_lead_somewhere(root: Path) -> Iterator[Problem]:
    """Yield old addresses that still exist, or that lead nowhere."""
    moved = read_moved(root)
    for old, new in (moved.claims | moved.pages).items():
        page = new.partition("#")[0]
        if exists(root, old):
            message = f"{old} still exists: it has not moved"
        elif new in moved.claims or page in moved.pages:
            message = f"{new} has moved as well: name its newest address"
        elif not exists(root, new):
            message = f"{old} moved to {new}, which does not exist"
        elif old in moved.claims and not _has_page(moved, root, old):
            page = old.partition("#")[0]
            message = f"page {page} is gone: say in [pages] where it moved"
        else:
            continue
        yield Problem(moved.path, moved.line_of(old), message)


def exists(root: Path, name: str) -> bool:
    """Whether there is a page, or a claim on its page."""
    page, _, claim = name.partition("#")
    path = Topic(root, page).page
    claims = {each.name for each in read_page(path).claims} if claim else {""}
    return path.exists() and claim in claims


def _has_page(moved: Moved, root: Path, old: str) -> bool:
    """Whether there is a page at the address of a claim that moved."""
    page = old.partition("#")[0]
    return page in moved.pages or exists(root, page)
