"""The rows of the ledger: a page for each chapter, and one of what changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from extensions.claims.ledger import (
    CHANGED_PAGE,
    Entry,
    columns_of,
    rows_by_page,
)
from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.sphinx_navigation import ABOVE, crumbs
from extensions.claims.sphinx_summaries import template_values
from extensions.site.dependencies import (
    PAGE_PARTS,
    builder_of,
    is_to_be_written,
)
from extensions.site.layout import chapter_name

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _topic_name(entry: Entry) -> str:
    """Return the name of the page of a claim."""
    return entry.topic.name


def _rows_now(app: Sphinx) -> dict[str, str]:
    """Return what each page of the ledger shows."""
    ledger = ledger_of(app)
    facts = repr([run.facts for run in ledger.runs])
    return {
        name: " ".join([*(ledger.rows[e.anchor] for e in entries), facts])
        for name, entries in rows_by_page(ledger).items()
    }


def _ledger_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each page whose rows have changed."""
    builder, ledger = builder_of(app), ledger_of(app)
    for name, entries in rows_by_page(ledger).items():
        if not is_to_be_written(app, name):
            continue
        chapter = chapter_name(builder.env, name.rpartition("/")[2])
        title = f"The ledger: {chapter.lower()}"
        lead = "Each claim of this chapter, with what each run says of it."
        if name == CHANGED_PAGE:
            title = "What changed between versions"
            lead = "The claims of which the runs do not all say the same."
        values = template_values(ledger, builder, name) | {
            "entries": entries,
            "topics": [
                (topic, columns_of(ledger, rows), rows)
                for topic, those in groupby(entries, key=_topic_name)
                for rows in [list(those)]
            ],
            "heading": title,
            "above": crumbs(builder, name, ABOVE),
            "here": title.removeprefix("The ledger: ").capitalize(),
            "lead": lead,
        }
        body = builder.templates.render("ledger_page.html", values)
        yield name, {"title": title, "body": body}, "page.html"


def setup_ledger_pages(app: Sphinx) -> None:
    """Add the pages."""
    PAGE_PARTS["rows of the ledger"] = _rows_now
    app.connect("html-collect-pages", _ledger_pages)
