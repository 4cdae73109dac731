"""The source of each module of tests, as a page of the site.

A claim links to the line of its test, so a reader sees the proof itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from extensions.build.builder import builder_of
from extensions.build.page_context import PageContext, on_page_context
from extensions.build.page_fingerprints import PAGE_PARTS
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.reading import bytes_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.builders import Builder

    from extensions.claims.entry import Entry
    from extensions.evidence.parsed_tests import Test


_GENERATED = ("evidence/tests/", "evidence/claims/", "evidence/unproven/")


def link_to_test(
    builder: Builder, docname: str, entry: Entry, test: Test | None = None
) -> str:
    """Return the address of a test of a claim, as seen from a page."""
    page = builder.get_relative_uri(docname, entry.topic.tests_page)
    test = test or entry.test
    return f"{page}#line-{test.line}" if test else page


def _test_sources(app: Sphinx) -> dict[str, bytes]:
    """Return the source that each page of tests shows."""
    tested = ledger_of(app).tested
    return {each.tests_page: bytes_of(each.tests) for each in tested}


def _test_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page of each module of tests that has changed."""
    builder = builder_of(app)
    for topic in ledger_of(app).tested:
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


def _shorten_navigation(page: PageContext) -> None:
    """Show only the chapters in the navigation of a generated page.

    The page belongs to no chapter, and the whole navigation would be most of
    its size and of the time to write it.
    """
    if page.name.startswith(_GENERATED):
        toctree = page.values["toctree"]
        page.values["toctree"] = lambda **how: toctree(
            **how | {"collapse": True}
        )


def setup_test_pages(app: Sphinx) -> None:
    """Add the pages."""
    PAGE_PARTS["the tests"] = _test_sources
    app.connect("html-collect-pages", _test_pages)
    on_page_context(app, _shorten_navigation)  # before Furo's
