"""Where in a page a node stands."""

from __future__ import annotations

from docutils import nodes


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
