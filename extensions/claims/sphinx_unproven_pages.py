"""The sentences that are neither proven nor cited: a page for each chapter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from extensions.build.chapters import chapter_name
from extensions.build.dependencies import (
    PAGE_PARTS,
    builder_of,
    is_to_be_written,
)
from extensions.claims.sphinx_breadcrumbs import UNPROVEN, crumbs
from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.sphinx_summaries import template_values
from extensions.prose.pages import unproven_page

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_LEAD = (
    "The sentences of this chapter that no test and no primary source"
    " stands behind."
)


def _sentences_by_page(app: Sphinx) -> dict[str, str]:
    """Return the sentences that each page lists."""
    found: dict[str, str] = {}
    for name, sentences in ledger_of(app).lists.items():
        page = unproven_page(name)
        title = app.env.titles[name].astext()
        found[page] = f"{found.get(page, '')}{name} {title} {sentences}\n"
    return found


def _unproven_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each page whose sentences have changed."""
    builder, ledger = builder_of(app), ledger_of(app)
    prose = ledger.prose
    for name in sorted(set(map(unproven_page, prose))):
        if not is_to_be_written(app, name):
            continue
        chapter = chapter_name(builder.env, name.rpartition("/")[2])
        title = f"What is not proven: {chapter.lower()}"
        own = {
            page: sentences
            for page, sentences in prose.items()
            if unproven_page(page) == name
        }
        about = {"title": title, "lead": _LEAD}
        values = template_values(ledger, builder, name)
        values |= about | {"title_of": values["title"]}
        values["above"] = crumbs(builder, name, UNPROVEN)
        values["here"] = chapter
        body = builder.templates.render(
            "unproven_page.html", values | {"prose": own}
        )
        yield name, about | {"body": body}, "page.html"


def setup_unproven_pages(app: Sphinx) -> None:
    """Add the pages."""
    PAGE_PARTS["sentences that nothing proves"] = _sentences_by_page
    app.connect("html-collect-pages", _unproven_pages)
