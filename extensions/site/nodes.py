"""Nodes of ours, and where in a page a node stands."""

import re
from html import escape

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator


def is_within(
    node: nodes.Node | None, kinds: tuple[type, ...], name: str = ""
) -> bool:
    """Whether a node is, or stands in, one of some kinds or of a class."""
    while node is not None:
        if isinstance(node, kinds):
            return True
        if isinstance(node, nodes.container) and name in node["classes"]:
            return True
        node = node.parent
    return False


def paragraph_of(node: nodes.Element) -> nodes.Element:
    """Return the paragraph in which some words stand."""
    while isinstance(node, nodes.Inline) and node.parent:
        node = node.parent
    return node


class HtmlNode(nodes.Inline, nodes.Element):
    """Some HTML, in its attribute ``html``.

    A feature whose HTML is known only once all pages are read derives a node
    of its own, which it finds and fills in at ``doctree-resolved``.
    """


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


def open_element(translator: HTML5Translator, node: HtmlElement) -> None:
    """Open it."""
    translator.body.append(
        translator.starttag(node, node["tag"], "", **node["attributes"])
    )


def close_element(translator: HTML5Translator, node: HtmlElement) -> None:
    """Close it, if it can hold something."""
    if node["tag"] != "input":
        translator.body.append(f"</{node['tag']}>")


def write_html(translator: HTML5Translator, node: HtmlNode) -> None:
    """Write it as it is, as Sphinx does for each kind of such a node."""
    translator.body.append(node["html"])
    raise nodes.SkipNode


class Details(nodes.General, nodes.Element):
    """Some nodes behind a summary, which is Markdown of words and code."""


def open_details(translator: HTML5Translator, node: Details) -> None:
    """Open the element of the browser itself."""
    translator.body.append(translator.starttag(node, "details"))
    translator.body.append(f"<summary>{words(node['summary'])}</summary>\n")


def close_details(translator: HTML5Translator, node: Details) -> None:
    """Close it."""
    translator.body.append("</details>\n")


_CLASS = "page-head"


def put_below_opening(doctree: nodes.document, node: nodes.Element) -> None:
    """Put a node below the first paragraph of a page, if it has one."""
    # Above the first section stands the front matter, in paragraphs as well.
    whole = next(doctree.findall(nodes.section), doctree)
    if opening := next(whole.findall(nodes.paragraph), None):
        opening.parent.insert(opening.parent.index(opening) + 1, node)


def put_head(doctree: nodes.document, parts: list[nodes.Node]) -> None:
    """Put a line below the first paragraph of a page, with its first parts."""
    put_below_opening(doctree, html_element("p", *parts, class_=_CLASS))


def head_of(doctree: nodes.document) -> HtmlElement | None:
    """Return the line of a page, if it has one."""
    found = doctree.findall(HtmlElement)
    return next(
        (e for e in found if e["attributes"].get("class") == _CLASS), None
    )


def words(text: str) -> str:
    """Return some words as HTML."""
    return re.sub(r"`(.+?)`", r"<code>\1</code>", escape(text))
