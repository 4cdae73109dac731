"""The source of each module of tests, as a page of the site.

A claim links to the line of its test, so a reader sees the proof itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from extensions.files.reading import text_of
from extensions.site.builder import SiteBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.util.typing import ExtensionMetadata

    from extensions.files.ledger import Entry
    from extensions.files.proofs import Test


LISTS = ("evidence/tests/", "evidence/claims/", "evidence/unproven/")


def uri_of(
    builder: Builder, docname: str, entry: Entry, test: Test | None = None
) -> str:
    """Return the address of a test of a claim, as seen from a page."""
    page = builder.get_relative_uri(docname, entry.topic.tests_page)
    test = test or entry.test
    return f"{page}#line-{test.line}" if test else page


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each module of tests that has changed."""
    builder = app.builder
    if not isinstance(builder, SiteBuilder):
        return
    for topic in builder.ledger.tested:
        name = topic.tests_page
        if name not in builder.written:
            continue
        code = builder.highlighter.highlight_block(
            text_of(topic.tests), "python", linespans="line"
        )
        module = topic.tests.relative_to(topic.root).as_posix()
        said = builder.env.titles[topic.name].astext()
        body = builder.templates.render(
            "tests.html",
            {
                "module": module,
                "page": builder.get_relative_uri(name, topic.name),
                "said": said,
                "code": code,
            },
        )
        lead = f"These tests keep the claims of {said} true."
        about = {"title": module, "lead": lead, "body": body}
        yield name, about, "page.html"


def shorten(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: object,
) -> None:
    """Show the chapters alone beside a page of tests: it stands in none.

    The whole navigation would be most of the page, and of its cost.
    """
    if pagename.startswith(LISTS):
        toctree = context["toctree"]
        context["toctree"] = lambda **how: toctree(**how | {"collapse": True})


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the pages."""
    app.connect("html-collect-pages", pages)
    app.connect("html-page-context", shorten, priority=400)  # before Furo's
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
