"""The source of each module of tests, as a page of the site.

A claim links to the line of its test, so a reader sees the proof itself, and
the tests lead back to their claims.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from extensions.claims.proof_parts import ProofPart, proof_parts
from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.sphinx_navigation import ABOVE, crumbs
from extensions.core.files import text_of
from extensions.core.fingerprint import digest
from extensions.evidence.parsed_tests import test_of
from extensions.site.dependencies import (
    PAGE_PARTS,
    builder_of,
    is_to_be_written,
)
from extensions.site.layout import PageContext, on_page_context
from extensions.site.nodes import words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.builders.html import StandaloneHTMLBuilder

    from extensions.claims.ledger import Entry
    from extensions.claims.page import Claim
    from extensions.evidence.parsed_tests import Test


_TESTS = "evidence/tests/"


def link_to_test(
    builder: Builder, docname: str, entry: Entry, test: Test | None = None
) -> str:
    """Return the address of a test of a claim, as seen from a page."""
    page = builder.get_relative_uri(docname, entry.topic.tests_page)
    test = test or entry.test
    return f"{page}#line-{test.line}" if test else page


def _test_sources(app: Sphinx) -> dict[str, str]:
    """Return what each page of tests shows: their source, and the claims."""
    ledger = ledger_of(app)
    return {
        topic.tests_page: "\n".join(
            [
                digest(text_of(topic.tests)),
                *(each.claim.sentence for each in ledger.of(topic.name)),
            ]
        )
        for topic in ledger.tested
    }


def _test_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page of each module of tests that has changed."""
    builder, ledger = builder_of(app), ledger_of(app)
    for topic in ledger.tested:
        name = topic.tests_page
        if not is_to_be_written(app, name):
            continue
        said = builder.env.titles[topic.name].astext()
        title = f"Tests: {said}"
        claims: dict[str, list[Claim]] = {}
        for entry in ledger.of(topic.name):
            claims.setdefault(test_of(entry.claim.name), []).append(
                entry.claim
            )
        body = builder.templates.render(
            "tests.html",
            {
                "above": crumbs(builder, name, (*ABOVE, topic.name)),
                "title": title,
                "module": topic.tests.relative_to(topic.root).as_posix(),
                "page": builder.get_relative_uri(name, topic.name),
                "said": said,
                "claims": defaultdict(list, claims),
                "parts": _highlighted(builder, topic.tests),
                "words": words,
            },
        )
        yield name, {"title": title, "body": body}, "page.html"


def _highlighted(
    builder: StandaloneHTMLBuilder, module: Path
) -> Iterator[tuple[ProofPart, str]]:
    """Yield each part of a module with its code, highlighted."""
    text = text_of(module)
    lines = text.splitlines()
    for part in proof_parts(module, text):
        code = "\n".join(lines[part.first - 1 : part.last])
        yield part, builder.highlighter.highlight_block(code, "python")


def _add_script(page: PageContext) -> None:
    """Load the script on the pages of tests alone."""
    if page.name.startswith(_TESTS):
        page.app.add_js_file("tests.js", loading_method="defer")


def setup_test_pages(app: Sphinx) -> None:
    """Add the pages."""
    PAGE_PARTS["the tests"] = _test_sources
    app.connect("html-collect-pages", _test_pages)
    on_page_context(app, _add_script)
