"""The rows of the ledger: a page for each chapter, and one of what changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from extensions.files.ledger import Entry
from extensions.files.ledger_rows import CHANGED, columns, rows_by_page
from extensions.site.builder import SiteBuilder
from extensions.site.chapters import chapter_name
from extensions.site.summaries import context

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def topic_of(entry: Entry) -> str:
    """Return the name of the page of a claim."""
    return entry.topic.name


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each page whose rows have changed."""
    builder = app.builder
    if not isinstance(builder, SiteBuilder):
        return
    for name, entries in rows_by_page(builder.ledger).items():
        if name not in builder.written:
            continue
        chapter = chapter_name(builder.env, name.rpartition("/")[2])
        title = f"The ledger: {chapter.lower()}"
        lead = "Each claim of this chapter, with what each run says of it."
        if name == CHANGED:
            title = "What changed between versions"
            lead = "The claims of which the runs do not all say the same."
        values = context(builder.ledger, builder, name) | {
            "entries": entries,
            "topics": [
                (topic, columns(builder.ledger, rows), rows)
                for topic, those in groupby(entries, key=topic_of)
                for rows in [list(those)]
            ],
            "heading": title,
            "lead": lead,
        }
        body = builder.templates.render("ledger_page.html", values)
        about = {"title": title, "lead": lead, "body": body}
        yield name, about, "page.html"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the pages."""
    app.connect("html-collect-pages", pages)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
