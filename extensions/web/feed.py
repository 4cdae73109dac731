"""What changed, for feed readers: ``feed.json``, and ``feed.xml`` in Atom.

Each page links to both in its head; they hold the same items. URLs are
absolute, as a feed needs them, and are left out where the site does not know
its own. Ours, because the libraries make feeds of posts that somebody wrote;
here the ledger says what changed, and little is left to write.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from extensions.build.dependencies import root_of
from extensions.build.page_context import PageContext, on_page_context
from extensions.build.site_files import SITE_FILES
from extensions.claims.changelog import (
    OutcomeChange,
    changes_between_versions,
    corrections_with_claims,
)
from extensions.claims.corrections import Correction, read_corrections
from extensions.claims.sphinx_ledger import ledger_of
from extensions.web.atom import as_atom

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from extensions.claims.entry import Entry

_JSON_NAME = "feed.json"
_ATOM_NAME = "feed.xml"
_VERSION = "https://jsonfeed.org/version/1.1"
# To be raised by whatever change would break a program that reads our part.
_SCHEMA_VERSION = 1
_TYPES = {
    _JSON_NAME: "application/feed+json",
    _ATOM_NAME: "application/atom+xml",
}
_LINK = '<link rel="alternate" type="{}" title="What changed" href="{}">'


def _start_of_day(date: str) -> str:
    """Return the start of a day in the format of the feed."""
    return f"{date}T00:00:00Z"


def _day_of(item: dict[str, Any]) -> str:
    """Return the day of an item, by which items are sorted."""
    return str(item.get("date_published", item.get("date_modified")))


def _change_item(change: OutcomeChange) -> dict[str, Any]:
    """Return the item of a claim whose outcome a version of torch changed."""
    before, after, claim = change.before, change.after, change.entry.claim
    why = change.entry.test.since[1:] if change.entry.test else ()
    said = f" Before: {why[0]}." if why else ""
    return {
        "id": f"{change.entry.topic.name}#{claim.name}@{after.torch}",
        "title": f"torch {after.torch}: {after.word} ({before.word} with"
        f" {before.torch})",
        "content_text": f"{claim.text}.{said}",
        "date_published": _start_of_day(after.date),
        "tags": ["change"],
        "_proven_pytorch": {
            "before": {"torch": before.torch, "word": before.word},
            "after": {"torch": after.torch, "word": after.word},
        },
    }


def _correction_item(row: Correction, entry: Entry) -> dict[str, Any]:
    """Return the item of a correction."""
    said = f"{row.source}, {row.part}: {row.said}"
    date = entry.own.date if entry.own else ""
    return {
        "id": f"{row.topic.name}#{row.claim} corrects {said}",
        "title": f"{row.source}, {row.part}: corrected",
        "content_text": f"It says: {row.said}\n\nWhat holds: {row.holds}",
        "date_modified": _start_of_day(date),
        "tags": ["correction"],
        "_proven_pytorch": {"verdict": entry.verdict},
    }


def _as_json(app: Sphinx) -> dict[str, Any]:
    """Return the feed, in the shape of ``feed.schema.json``."""
    base, ledger = str(app.config.html_baseurl), ledger_of(app)

    def addressed(item: dict[str, Any], entry: Entry) -> dict[str, Any]:
        page = app.builder.get_target_uri(entry.topic.name)
        url = f"{base.rstrip('/')}/{page}#{entry.claim.name}"
        return item | ({"url": url} if base else {})

    rows = read_corrections(root_of(app.env))
    items = [
        *(
            (_change_item(each), each.entry)
            for each in changes_between_versions(ledger)
        ),
        *(
            (_correction_item(row, entry), entry)
            for row, entry in corrections_with_claims(ledger, rows)
        ),
    ]
    found = [addressed(*item) for item in items]
    found.sort(key=lambda item: str(item["id"]))
    found.sort(key=_day_of, reverse=True)
    home = {
        "home_page_url": base,
        "feed_url": f"{base.rstrip('/')}/{_JSON_NAME}",
    }
    return {
        "version": _VERSION,
        "title": f"{app.config.project}: what changed",
        "description": "Claims that a version of torch made true or false,"
        " and what the sources say wrongly.",
        "language": app.config.language,
        **(home if base else {}),
        "_proven_pytorch": {"schema": _SCHEMA_VERSION},
        "items": found,
    }


def _add_links(page: PageContext) -> None:
    """Add links to the feeds to the head of each page."""
    for name, kind in _TYPES.items():
        address = page.values["pathto"](name, 1)
        page.add_to_head(_LINK.format(kind, address))


def _feed_json(app: Sphinx) -> str:
    """Return the feed as it stands beside the pages."""
    return json.dumps(_as_json(app), ensure_ascii=False, indent=1) + "\n"


def _feed_atom(app: Sphinx) -> str:
    """Return the feed for programs that read Atom."""
    return as_atom(_as_json(app), str(app.config.author), _ATOM_NAME)


def setup_feed(app: Sphinx) -> None:
    """Add the feeds, and their addresses to each page."""
    SITE_FILES[_JSON_NAME] = _feed_json
    SITE_FILES[_ATOM_NAME] = _feed_atom
    on_page_context(app, _add_links)
