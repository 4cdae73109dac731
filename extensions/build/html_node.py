"""A node that holds HTML, such as what a template has made of some values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


class HtmlNode(nodes.Inline, nodes.Element):
    """Some HTML, in its attribute ``html``.

    A feature whose HTML is known only once all pages are read derives a node
    of its own, which it finds and fills in at ``doctree-resolved``.
    """


def add_html_node(app: Sphinx, kind: type[HtmlNode]) -> None:
    """Let Sphinx write the HTML of a kind of node as it is."""
    app.add_node(kind, html=(_write, None))


def _write(translator: HTML5Translator, node: HtmlNode) -> None:
    translator.body.append(node["html"])
    raise nodes.SkipNode
