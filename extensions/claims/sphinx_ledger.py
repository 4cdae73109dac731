"""The ledger of a build: for pages to show, for programs, and its own pages.

It has a page of rows for each chapter, and one of what changed between
versions. A claim links to the line of its test, on a page of the module's
source, so that a reader sees the proof itself. No document stands behind
these pages.
"""

import json
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any
from weakref import WeakKeyDictionary

from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.builders.html import StandaloneHTMLBuilder

from extensions.claims.ledger import CHANGED_PAGE, Entry, Ledger, read_ledger
from extensions.claims.words import case_in_words, change_in_words, mark_of
from extensions.core.cache import gc_paused
from extensions.core.files import python_in, text_of
from extensions.evidence.parsed_tests import Test, test_of, tests_of
from extensions.evidence.sphinx_runs import runs_of
from extensions.site.dependencies import (
    builder_of,
    is_to_be_written,
    root_of,
)
from extensions.site.layout import chapter_name
from extensions.site.nodes import words

# By build. Not on Sphinx's environment, which every build reads and writes
# as a whole: the ledger is quickly made again from the files behind it.
_LEDGERS: WeakKeyDictionary[Sphinx, Ledger] = WeakKeyDictionary()
# To be raised by whatever change would break a program that reads the file.
_SCHEMA_VERSION = 8


def ledger_of(app: Sphinx) -> Ledger:
    """Return the ledger of a build."""
    return _LEDGERS[app]


def read(app: Sphinx) -> None:
    """Make the ledger of the current pages and tests, and of all runs."""
    with gc_paused():  # it stays until the build ends
        _LEDGERS[app] = read_ledger(root_of(app.env), runs_of(app.env))
    builder_of(app).templates.environment.globals.update(
        mark=mark_of,
        words=words,
        change_in_words=change_in_words,
        case_in_words=case_in_words,
    )


def results_by_page(app: Sphinx) -> dict[str, str]:
    """Return what pages, and those of the ledger, show of results."""
    ledger = ledger_of(app)
    pages = {**ledger.by_topic, **ledger.by_page}
    return {name: ledger.state_of(those) for name, those in pages.items()}


def page_values(builder: Builder, docname: str) -> dict[str, Any]:
    """Return the functions with which a template links to other pages."""
    return {
        "page": partial(builder.get_relative_uri, docname),
        "title": lambda name: builder.env.titles[name].astext(),
        "link": partial(link_to_test, builder, docname),
    }


def link_to_test(
    builder: Builder, docname: str, entry: Entry, test: Test | None = None
) -> str:
    """Return the address of a test of a claim, as seen from a page."""
    page = builder.get_relative_uri(docname, entry.topic.tests_page)
    test = test or entry.test
    return f"{page}#line-{test.line}" if test else page


def claims_json(app: Sphinx) -> str:
    """Return the ledger in the shape that ``claims.schema.json`` describes."""
    ledger = ledger_of(app)
    content = {
        "schema": _SCHEMA_VERSION,
        "runs": [run.facts for run in ledger.runs],
        "claims": [_as_json(entry, app.builder) for entry in ledger.entries],
    }
    # On one line: with an indent, the slow encoder in Python would write it.
    return json.dumps(content, ensure_ascii=False) + "\n"


def _as_json(entry: Entry, builder: Builder) -> dict[str, Any]:
    page, test = entry.topic.name, entry.test
    return {
        "id": entry.claim.name,
        "topic": page,
        "sentence": entry.claim.text,
        "url": f"{builder.get_target_uri(page)}#{entry.claim.name}",
        "test": test.name if test else None,
        # A mark names a version, and what was so before.
        "true_since": test.since[0] if test and test.since else None,
        "api_since": test.api[0] if test and test.api else None,
        "counter_examples": [each.name for each in entry.counter_examples],
        "variations": [each.name for each in entry.variations],
        "limits": [each.name for each in entry.limits],
        "cases": entry.cases,
        "tried_on": entry.tried_on,
        "breaks": entry.breaks,
        "ends": entry.ends,
        "verdict": entry.verdict,
        "outcomes": [
            {"word": each.word, "devices": each.devices, "date": each.date}
            for each in entry.outcomes
        ],
    }


def unproven_txt(app: Sphinx) -> str:
    """Return a line for each sentence that is neither proven nor cited."""
    return "".join(
        f"{page}: {sentence.text}\n"
        for page, sentences in ledger_of(app).prose.items()
        for sentence in sentences
        if sentence.kind == "neither"
    )


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
