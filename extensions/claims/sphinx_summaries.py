"""``{ledger}``, ``{tally}`` and others: summaries of claims and sentences.

``{corrected}`` shows some corrections, chosen by the claims that show them,
such as ``training/zero_grad#between-nothing-is-learned``.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.build.dependencies import ALL, KINDS, depend_on, root_of
from extensions.build.nodes import HtmlNode, add_html_node, words
from extensions.build.site import chapter_name, reading_place
from extensions.claims.corrections import Correction, read_corrections
from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.sphinx_test_pages import link_to_test
from extensions.prose.rules import (
    Source,
    read_sources,
    source_of,
)

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder

    from extensions.claims.ledger import Ledger


class Summary(HtmlNode):
    """A placeholder for an overview of the ledger.

    The text that the search should find is its attribute ``searched``.
    """


# What each summary depends on; corrections depend on the claims they name.
_DEPENDENCIES = {
    "ledger": ("claims",),
    "numbers": ("claims", "corrections"),
    "tally": ("claims", "sentences"),
    "corrections": ("titles",),
    "cited": ("cited", "titles"),
    "unproven": ("sentences", "titles"),
}


def _claims_now(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of each claim's row, and of all of them."""
    ledger = ledger_of(app)
    facts = [run.facts for run in ledger.runs]
    found = {
        f"{each.topic.name}#{each.claim.name}": ledger.rows[each.anchor]
        for each in ledger.entries
    }
    return found | {ALL: f"{ledger.rows} {facts}"}


def _sentences_now(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of all sentences."""
    return {ALL: f"{ledger_of(app).lists}"}


def _cited_now(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of all cited sentences and their sources."""
    root, ledger = root_of(app.env), ledger_of(app)
    return {ALL: f"{[*ledger.cited()]} {read_sources(root)}"}


def _corrections_now(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of all corrections."""
    return {ALL: f"{read_corrections(root_of(app.env))}"}


class _SummaryDirective(SphinxDirective):
    """Show the ledger through the template of the directive's name."""

    def run(self) -> list[nodes.Node]:
        """Return a placeholder, which is filled in when all pages are read."""
        for kind in _DEPENDENCIES[self.name]:
            depend_on(self.env, kind)
        place = Summary(template=f"{self.name}.html")
        if self.name == "corrections":
            depend_on(self.env, "corrections")
            rows = read_corrections(root_of(self.env))
            for row in rows:
                depend_on(self.env, "claims", row.name)
            place["searched"] = " ".join(
                f"{row.said} {row.holds}" for row in rows
            )
        return [place]


class _CorrectedDirective(SphinxDirective):
    """Show the corrections that rest on the named claims, in their order."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return a placeholder, which is filled in when all pages are read."""
        depend_on(self.env, "corrections")
        rows = read_corrections(root_of(self.env))
        known = {row.name for row in rows}
        only = self.arguments[0].split()
        for name in only:
            if name not in known:
                raise self.error(f"no correction rests on {name}")
            depend_on(self.env, "claims", name)
            depend_on(self.env, "titles", name.partition("#")[0])
        return [Summary(template="corrected.html", only=only)]


def _render_summaries(
    app: Sphinx, doctree: nodes.document, docname: str
) -> None:
    """Render the templates of a page."""
    ledger = ledger_of(app)
    for place in doctree.findall(Summary):
        values = template_values(ledger, app.builder, docname)
        place["html"] = app.builder.templates.render(
            place["template"], values | {"only": place.get("only")}
        )


def template_values(
    ledger: Ledger, builder: Builder, docname: str
) -> dict[str, Any]:
    """Return the values and functions that the templates use."""

    def link(entry: Any, test: Any = None) -> str:
        return link_to_test(builder, docname, entry, test)

    def page(name: str) -> str:
        return builder.get_relative_uri(docname, name)

    def title(name: str) -> str:
        return builder.env.titles[name].astext()

    groups = groupby(ledger.entries, key=lambda each: each.topic.chapter)
    chapters = {name: list(entries) for name, entries in groups}
    read = partial(reading_place, builder.env)
    sources = read_sources(root_of(builder.env))
    return {
        "runs": ledger.runs,
        "corrections": [
            {
                "row": row,
                "address": _address_of(row, sources),
                "verdict": _verdict_of(ledger, row),
            }
            for row in read_corrections(root_of(builder.env))
        ],
        "chapters": [
            (name, chapters[name]) for name in sorted(chapters, key=read)
        ],
        "chapter_name": partial(chapter_name, builder.env),
        "said_by_run": ledger.said_by_run,
        "devices_by_run": ledger.devices_by_run,
        "claims": len(ledger.entries),
        "counter_examples": sum(
            len(each.counter_examples) for each in ledger.entries
        ),
        "tally": ledger.tally(),
        "needs": ledger.needs(),
        "recorded": ledger.recorded(),
        "kinds": ledger.kinds,
        "prose": ledger.prose,
        "cited": ledger.cited,
        "sources": sources,
        "source_of": source_of,
        "words": words,
        "title": title,
        "link": link,
        "page": page,
    }


def _address_of(row: Correction, sources: list[Source]) -> str:
    """Return the address of what a correction corrects, if it has one."""
    own = [each.prefix for each in sources if each.name == row.source]
    return f"{own[0]}{row.section}" if own else ""


def _verdict_of(ledger: Ledger, row: Correction) -> str:
    """Return the verdict of the claim that a correction relies on."""
    found = ledger.of(row.topic.name)
    own = [each.verdict for each in found if each.claim.name == row.claim]
    return own[0] if own else "missing"


def setup_summaries(app: Sphinx) -> None:
    """Add the directives."""
    KINDS["claims"] = _claims_now
    KINDS["sentences"] = _sentences_now
    KINDS["cited"] = _cited_now
    KINDS["corrections"] = _corrections_now
    add_html_node(app, Summary)
    for name in _DEPENDENCIES:
        app.add_directive(name, _SummaryDirective)
    app.add_directive("corrected", _CorrectedDirective)
    app.connect("doctree-resolved", _render_summaries)
