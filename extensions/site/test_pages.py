"""The source of each module of tests, as a page of the site.

A claim links to the line of its test, so a reader sees the proof itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sphinx.highlighting import PygmentsBridge

from extensions.site.state import ledger_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.util.typing import ExtensionMetadata

    from extensions.files.ledger import Entry, Test
    from extensions.files.topics import Topic


def docname_of(topic: Topic) -> str:
    """Return the name of the page that shows a topic's tests."""
    return f"evidence/tests/{topic.name}"


def uri_of(
    builder: Builder, docname: str, entry: Entry, test: Test | None = None
) -> str:
    """Return the address of a test of a claim, as seen from a page."""
    page = builder.get_relative_uri(docname, docname_of(entry.topic))
    test = test or entry.test
    return f"{page}#line-{test.line}" if test else page


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each module of tests that stands behind claims."""
    if app.builder.name != "html":
        return
    bridge = PygmentsBridge("html", app.config.pygments_style)
    topics = {entry.topic for entry in ledger_of(app.env).entries}
    for topic in sorted(topic for topic in topics if topic.tests.exists()):
        name = docname_of(topic)
        code = bridge.highlight_block(
            topic.tests.read_text(encoding="utf-8"),
            "python",
            linespans="line",
            location=name,
        )
        module = topic.tests.relative_to(topic.root).as_posix()
        body = app.builder.templates.render(
            "tests.html",
            {
                "module": module,
                "page": app.builder.get_relative_uri(name, topic.name),
                "code": code,
            },
        )
        yield name, {"title": module, "body": body}, "page.html"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the pages."""
    app.connect("html-collect-pages", pages)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
