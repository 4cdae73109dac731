"""How far the claims of a chapter reach, to be read in a row.

A page for each chapter says of each claim what it was tried on, where it ends
and what breaks it, in the words of its panel.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sphinx.util import logging

from extensions.build.builder import builder_of
from extensions.build.chapters import chapter_name
from extensions.build.page_fingerprints import PAGE_PARTS
from extensions.claims.ledger_rows import ledger_page, scope_page
from extensions.claims.scope_report import scope_report
from extensions.claims.sphinx_breadcrumbs import LEDGER, crumbs
from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.sphinx_summaries import template_values
from extensions.claims.wording import telling

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from extensions.claims.entry import Entry

logger = logging.getLogger(__name__)

_LEAD = (
    "What each claim of this chapter was tried on, where it ends, and what"
    " breaks it."
)


def _topic_name(entry: Entry) -> str:
    """Return the name of the page of a claim."""
    return entry.topic.name


def _scopes_now(app: Sphinx) -> dict[str, str]:
    """Return what each page shows."""
    found: dict[str, str] = {}
    for entry in ledger_of(app).entries:
        shown = (
            entry.claim.text,
            entry.tried_on_in_full,
            entry.ends,
            entry.breaks,
        )
        page = scope_page(entry)
        found[page] = f"{found.get(page, '')}{entry.anchor} {shown}\n"
    return found


def _scope_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each page whose claims or scopes have changed."""
    builder, ledger = builder_of(app), ledger_of(app)
    for name, those in groupby(ledger.entries, key=scope_page):
        entries = list(those)
        if name not in builder.written:
            continue
        chapter = chapter_name(builder.env, entries[0].topic.chapter)
        title = f"How far the claims reach: {chapter.lower()}"
        row = builder.get_relative_uri(name, ledger_page(entries[0]))
        about = {"title": title, "lead": _LEAD}
        values = template_values(ledger, builder, name)
        values["title_of"] = values["title"]
        values["telling"] = telling
        values |= about
        values["above"] = [*crumbs(builder, name, LEDGER), (chapter, row)]
        values["topics"] = [
            (topic, list(rows))
            for topic, rows in groupby(entries, _topic_name)
        ]
        body = builder.templates.render("scope_page.html", values)
        yield name, about | {"body": body}, "page.html"


def _report(app: Sphinx) -> None:
    """Say how long the lines are; with ``-v``, what is wrong with some."""
    for number, line in enumerate(scope_report(ledger_of(app))):
        log = logger.verbose if number else logger.info
        log(line)


def setup_scope_pages(app: Sphinx) -> None:
    """Add the pages."""
    PAGE_PARTS["how far its claims reach"] = _scopes_now
    app.connect("builder-inited", _report)
    app.connect("html-collect-pages", _scope_pages)
