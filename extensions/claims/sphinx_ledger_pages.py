"""The pages of the ledger and of the tests, which no document stands behind.

The ledger has a page of rows for each chapter, and one of what changed between
versions. A claim links to the line of its test, on a page of the module's
source, so that a reader sees the proof itself.
"""

from collections.abc import Iterator
from itertools import groupby
from types import SimpleNamespace
from typing import Any

from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment.adapters.toctree import global_toctree_for_doc

from extensions.claims.ledger import CHANGED_PAGE, Entry
from extensions.claims.sphinx_ledger import ledger_of, page_values
from extensions.core.files import python_in, text_of
from extensions.evidence.parsed_tests import Test, test_of, tests_of
from extensions.site.dependencies import builder_of, is_to_be_written
from extensions.site.layout import PageContext, chapter_name

_LEDGER = "evidence/claims"
# How the names of the pages begin.
_BELOW = (CHANGED_PAGE, f"{_LEDGER}/", "evidence/tests/")
# As Sphinx asks for it: name, values, template.
_Page = tuple[str, dict[str, Any], str]


def tests_by_page(app: Sphinx) -> dict[str, str]:
    """Return what each page of tests shows: their source, and the claims."""
    found = {}
    for entries in _tested(app):
        topic = entries[0].topic
        sentences = [each.claim.sentence for each in entries]
        found[topic.tests_page] = f"{sentences} {text_of(topic.tests)}"
    return found


def ledger_pages(app: Sphinx) -> Iterator[_Page]:
    """Yield each page of the ledger whose rows have changed."""
    builder, ledger = builder_of(app), ledger_of(app)
    for name, entries in ledger.by_page.items():
        if not is_to_be_written(app, name):
            continue
        chapter = chapter_name(builder.env, name.rpartition("/")[2])
        heading = f"The ledger: {chapter.lower()}"
        lead = "Each claim of this chapter, with what each run says of it."
        if name == CHANGED_PAGE:
            heading = "What changed between versions"
            lead = "The claims of which the runs do not all say the same."
        topics = [
            (topic, ledger.columns_of(rows), rows)
            for topic, those in groupby(entries, lambda e: e.topic.name)
            for rows in [list(those)]
        ]
        values = {"entries": entries, "topics": topics, "runs": ledger.runs}
        values |= {"heading": heading, "lead": lead}
        yield _rendered(builder, name, "ledger_page.html", values)


def test_pages(app: Sphinx) -> Iterator[_Page]:
    """Yield the page of each module of tests that has changed."""
    builder = builder_of(app)
    for entries in _tested(app):
        topic = entries[0].topic
        if not is_to_be_written(app, topic.tests_page):
            continue
        behind, shared = _source_of(entries)
        values = {
            "heading": f"Tests: {builder.env.titles[topic.name].astext()}",
            "topic": topic,
            "module": topic.tests.relative_to(topic.root).as_posix(),
            "proofs": [
                (entry.claim, behind.get(test_of(entry.claim.name), []))
                for entry in entries
            ],
            "shared": shared,
            "highlight": builder.highlighter.highlight_block,
        }
        yield _rendered(builder, topic.tests_page, "tests.html", values)


def _tested(app: Sphinx) -> list[tuple[Entry, ...]]:
    """Return the claims of each topic that has a module of tests."""
    found = ledger_of(app).by_topic.values()
    return [entries for entries in found if entries[0].topic.tests.exists()]


def _source_of(
    entries: tuple[Entry, ...],
) -> tuple[dict[str, list[tuple[Test, str]]], str]:
    """Return the tests behind each claim with their source, and the rest.

    By the name of the test of the claim. A comment belongs to what follows it.
    """
    path = entries[0].topic.tests
    text = text_of(path)
    tests, lines = tests_of(path, text), text.splitlines()
    behind: dict[str, list[tuple[Test, str]]] = {}
    shared: list[str] = []
    last = 0
    for node in python_in(path, text).body:
        end = node.end_lineno or node.lineno
        source = lines[last:end]
        last = end
        test = tests.get(getattr(node, "name", ""))
        if test:
            code = "\n".join(source).strip("\n")
            behind.setdefault(test.of, []).append((test, code))
        else:
            shared += source
    return behind, "\n".join(shared).strip("\n")


def _rendered(
    builder: StandaloneHTMLBuilder,
    name: str,
    template: str,
    values: dict[str, Any],
) -> _Page:
    values |= page_values(builder, name)
    body = builder.templates.render(template, values)
    return name, {"title": values["heading"], "body": body}, "page.html"


def navigate(page: PageContext) -> None:
    """Mark the entry that leads to a page, and open its chapter alone.

    The whole navigation would be most of the page, and of the time to write
    it.
    """
    if not page.name.startswith(_BELOW):
        return
    builder = builder_of(page.app)
    # A builder as Sphinx asks it, whose addresses fit this page.
    seen: Any = SimpleNamespace(
        get_relative_uri=lambda _, to: builder.get_relative_uri(page.name, to)
    )

    def toctree(**how: Any) -> str:
        how |= {"collapse": True, "tags": builder.tags}
        tree = global_toctree_for_doc(builder.env, _LEDGER, seen, **how)
        return builder.render_partial(tree)["fragment"]

    page.values["toctree"] = toctree
