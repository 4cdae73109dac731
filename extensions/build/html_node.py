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


_VOID = {"input"}  # elements that hold nothing, and are not closed


class HtmlElement(nodes.General, nodes.TextElement):
    """An element of HTML around its children: ``tag`` and ``attributes``."""


def html_element(
    tag: str, *children: nodes.Node, **attributes: str
) -> HtmlElement:
    """Return an element with some children.

    Attributes that Python has no names for end in an underscore: ``class_``.
    """
    named = {name.rstrip("_"): value for name, value in attributes.items()}
    return HtmlElement("", "", *children, tag=tag, attributes=named)


def add_html_node(app: Sphinx, kind: type[HtmlNode]) -> None:
    """Let Sphinx write the HTML of a kind of node as it is."""
    app.add_node(kind, html=(_write, None))


def setup_html_element(app: Sphinx) -> None:
    """Add the node."""
    app.add_node(HtmlElement, html=(_open, _close))


def _open(translator: HTML5Translator, node: HtmlElement) -> None:
    translator.body.append(
        translator.starttag(node, node["tag"], "", **node["attributes"])
    )


def _close(translator: HTML5Translator, node: HtmlElement) -> None:
    if node["tag"] not in _VOID:
        translator.body.append(f"</{node['tag']}>")


def _write(translator: HTML5Translator, node: HtmlNode) -> None:
    translator.body.append(node["html"])
    raise nodes.SkipNode
