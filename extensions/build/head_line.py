"""The line at the head of a page, into which several features write."""

from __future__ import annotations

from docutils import nodes

from extensions.build.html_node import HtmlElement, html_element

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
