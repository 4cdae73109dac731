"""The ledger of a build, for pages to show and for programs to read."""

import json
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from sphinx.application import Sphinx
from sphinx.builders import Builder

from extensions.claims.ledger import Entry, Ledger, read_ledger
from extensions.claims.words import case_in_words, change_in_words, mark_of
from extensions.core.cache import gc_paused
from extensions.evidence.parsed_tests import Test
from extensions.evidence.sphinx_runs import runs_of
from extensions.site.dependencies import builder_of, root_of
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
