"""A quiet sign behind each claim, which opens on what keeps it true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

from extensions.site.builder import ledger_of
from extensions.site.test_pages import uri_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata
    from sphinx.writers.html5 import HTML5Translator

LEDGER = "evidence/claims"


class Mark(nodes.Inline, nodes.Element):
    """The sign, with the HTML of what it opens."""


def add_marks(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put a sign behind each claim of a page."""
    if app.builder.format != "html":
        return
    ledger = ledger_of(app.builder)
    entries = {each.claim.name: each for each in ledger.of(docname)}
    for node in [
        *doctree.findall(nodes.inline),
        *doctree.findall(nodes.paragraph),
    ]:
        names = entries.keys() & set(node["ids"])
        if not names:
            continue
        entry = entries[names.pop()]
        html = app.builder.templates.render(
            "mark.html",
            {
                "entry": entry,
                "runs": list(zip(ledger.runs, entry.outcomes, strict=True)),
                "row": app.builder.get_relative_uri(docname, LEDGER),
                "test": uri_of(app.builder, docname, entry),
            },
        )
        node["classes"].append("claim")
        mark = Mark(html=html.strip())
        if isinstance(node, nodes.paragraph):
            node += mark
        else:
            node.parent.insert(node.parent.index(node) + 1, mark)


def visit(translator: HTML5Translator, node: Mark) -> None:
    """Write the sign."""
    translator.body.append(node["html"])
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the sign."""
    app.add_node(Mark, html=(visit, None))
    app.connect("doctree-resolved", add_marks)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
