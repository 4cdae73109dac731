"""``{ledger}``, ``{tally}``, ``{corrections}``: what all claims say together.

The ledger is written a second time as ``claims.json``, for programs.
"""

from __future__ import annotations

import json
import re
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.files.corrections import read_corrections
from extensions.files.writing import write
from extensions.site.state import SHOWS_ALL, ledger_of, root_of
from extensions.site.test_pages import uri_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.util.typing import ExtensionMetadata
    from sphinx.writers.html5 import HTML5Translator

    from extensions.files.ledger import Ledger

# Raised when a program that reads the file would have to change.
SCHEMA_VERSION = 1


class Summary(nodes.General, nodes.Element):
    """Stands where a template will show the ledger."""


class SummaryDirective(SphinxDirective):
    """Show the ledger through the template of the directive's name."""

    def run(self) -> list[nodes.Node]:
        """Leave a place that is filled when the ledger is whole."""
        self.env.metadata[self.env.docname][SHOWS_ALL] = "yes"
        return [Summary(template=f"{self.name}.html")]


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the templates of a page."""
    if app.builder.format != "html":
        return
    ledger = ledger_of(app.env)
    for place in doctree.findall(Summary):
        place["html"] = app.builder.templates.render(
            place["template"], context(ledger, app.builder, docname)
        )


def context(ledger: Ledger, builder: Builder, docname: str) -> dict[str, Any]:
    """Return what the templates may use."""

    def link(entry: Any, test: Any = None) -> str:
        return uri_of(builder, docname, entry, test)

    def page(name: str) -> str:
        return builder.get_relative_uri(docname, name)

    chapters = groupby(ledger.entries, key=lambda each: each.topic.chapter)
    return {
        "runs": ledger.runs,
        "corrections": read_corrections(root_of(builder.env)),
        "chapters": [(name, list(entries)) for name, entries in chapters],
        "claims": len(ledger.entries),
        "counters": sum(len(each.counters) for each in ledger.entries),
        "tally": ledger.tally(),
        "words": words,
        "link": link,
        "page": page,
    }


def words(text: str) -> str:
    """Return a claim's words as HTML."""
    return re.sub(r"`(.+?)`", r"<code>\1</code>", escape(text))


def as_json(ledger: Ledger, builder: Builder) -> dict[str, Any]:
    """Return the ledger in the shape that ``claims.schema.json`` describes."""
    return {
        "schema": SCHEMA_VERSION,
        "runs": [run.facts for run in ledger.runs],
        "claims": [
            {
                "id": entry.claim.name,
                "topic": entry.topic.name,
                "sentence": entry.claim.text,
                "url": builder.get_target_uri(entry.topic.name)
                + f"#{entry.claim.name}",
                "test": entry.test.name if entry.test else None,
                "counter_examples": [each.name for each in entry.counters],
                "verdict": entry.verdict,
                "outcomes": list(entry.outcomes),
            }
            for entry in ledger.entries
        ],
    }


def write_json(app: Sphinx, error: Exception | None) -> None:
    """Write ``claims.json`` beside the pages."""
    if error or app.builder.name != "html":
        return
    content = as_json(ledger_of(app.env), app.builder)
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    write(Path(app.outdir, "claims.json"), text)


def visit(translator: HTML5Translator, node: Summary) -> None:
    """Write what the template gave."""
    translator.body.append(node["html"])
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directives and the file."""
    app.add_node(Summary, html=(visit, None))
    app.add_directive("ledger", SummaryDirective)
    app.add_directive("tally", SummaryDirective)
    app.add_directive("corrections", SummaryDirective)
    app.connect("doctree-resolved", fill)
    app.connect("build-finished", write_json)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
