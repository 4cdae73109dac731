"""``{ledger}``, ``{tally}`` and others: all claims, all sentences together."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.files.corrections import Correction, read_corrections
from extensions.files.sources import read_sources, source_of
from extensions.site.builder import ledger_of
from extensions.site.page_basis import KINDS, rest_on, root_of
from extensions.site.test_pages import uri_of
from extensions.site.words import words

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata
    from sphinx.writers.html5 import HTML5Translator

    from extensions.files.ledger import Ledger


class Summary(nodes.General, nodes.Element):
    """Stands where a template will show the ledger."""


def whole_ledger(app: Sphinx) -> str:
    """Return all that a summary of the ledger shows."""
    ledger = ledger_of(app.builder)
    return f"{ledger.entries} {ledger.prose} {[r.facts for r in ledger.runs]}"


def all_corrections(app: Sphinx) -> str:
    """Return all that the table of corrections shows."""
    return f"{read_corrections(root_of(app.env))}"


class SummaryDirective(SphinxDirective):
    """Show the ledger through the template of the directive's name."""

    def run(self) -> list[nodes.Node]:
        """Leave a place that is filled when the ledger is whole."""
        rest_on(self.env, "ledger")
        if self.name == "corrections":
            rest_on(self.env, "corrections")
        return [Summary(template=f"{self.name}.html")]


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the templates of a page."""
    if app.builder.format != "html":
        return
    ledger = ledger_of(app.builder)
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

    groups = groupby(ledger.entries, key=lambda each: each.topic.chapter)
    chapters = {name: list(entries) for name, entries in groups}
    read = partial(reading_place, builder.env)
    return {
        "runs": ledger.runs,
        "corrections": [
            {"row": row, "verdict": verdict_of(ledger, row)}
            for row in read_corrections(root_of(builder.env))
        ],
        "chapters": [
            (name, chapters[name]) for name in sorted(chapters, key=read)
        ],
        "chapter_name": partial(chapter_name, builder.env),
        "said_by_run": [
            (
                run,
                Counter(each.outcomes[place].word for each in ledger.entries),
            )
            for place, run in enumerate(ledger.runs)
        ],
        "claims": len(ledger.entries),
        "counters": sum(len(each.counters) for each in ledger.entries),
        "tally": ledger.tally(),
        "kinds": ledger.kinds,
        "prose": ledger.prose,
        "sources": read_sources(root_of(builder.env)),
        "source_of": source_of,
        "words": words,
        "link": link,
        "page": page,
    }


def reading_place(env: BuildEnvironment, chapter: str) -> int:
    """Return where a chapter stands on the site; elsewhere, at the end."""
    pages = env.toctree_includes.get(env.config.root_doc, [])
    name = f"{chapter}/index"
    return pages.index(name) if name in pages else len(pages)


def chapter_name(env: BuildEnvironment, chapter: str) -> str:
    """Return what the site calls a chapter."""
    title = env.titles.get(f"{chapter}/index")
    return title.astext() if title else chapter.capitalize()


def verdict_of(ledger: Ledger, row: Correction) -> str:
    """Return the result of the claim that a correction rests on."""
    found = ledger.of(row.topic.name)
    own = [each.verdict for each in found if each.claim.name == row.claim]
    return own[0] if own else "missing"


def visit(translator: HTML5Translator, node: Summary) -> None:
    """Write what the template gave."""
    translator.body.append(node["html"])
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directives."""
    KINDS["ledger"] = whole_ledger
    KINDS["corrections"] = all_corrections
    app.add_node(Summary, html=(visit, None))
    app.add_directive("ledger", SummaryDirective)
    app.add_directive("tally", SummaryDirective)
    app.add_directive("corrections", SummaryDirective)
    app.add_directive("cited", SummaryDirective)
    app.add_directive("unproven", SummaryDirective)
    app.connect("doctree-resolved", fill)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
