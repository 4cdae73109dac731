"""The sentences that nothing proves or cites: a page for each chapter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from extensions.files.prose import unproven_page
from extensions.site.builder import SiteBuilder
from extensions.site.chapters import chapter_name
from extensions.site.summaries import context

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

LEAD = (
    "The sentences of this chapter that no test and no primary source"
    " stands behind."
)


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each list whose sentences have changed."""
    builder = app.builder
    if not isinstance(builder, SiteBuilder):
        return
    prose = builder.ledger.prose
    for name in sorted(set(map(unproven_page, prose)) & builder.written):
        chapter = chapter_name(builder.env, name.rpartition("/")[2])
        title = f"What is not proven: {chapter.lower()}"
        own = {
            page: sentences
            for page, sentences in prose.items()
            if unproven_page(page) == name
        }
        about = {"title": title, "lead": LEAD}
        values = context(builder.ledger, builder, name) | about
        body = builder.templates.render(
            "unproven_page.html", values | {"prose": own}
        )
        yield name, about | {"body": body}, "page.html"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the pages."""
    app.connect("html-collect-pages", pages)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
