"""How mdformat writes a table, which it leaves to its extensions."""

from __future__ import annotations

from collections.abc import Mapping

from mdformat.renderer import RenderContext, RenderTreeNode
from mdformat.renderer.typing import Render


def _cell(node: RenderTreeNode, context: RenderContext) -> str:
    """Return the text of a cell on one line."""
    text = "".join(child.render(context) for child in node.children)
    return text.replace("\n", " ").replace("|", "\\|")


def _row(node: RenderTreeNode, context: RenderContext) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(each.render(context) for each in node.children)} |"


def _rows(node: RenderTreeNode, context: RenderContext) -> str:
    """Return the lines of a table, or of a part of it."""
    return "\n".join(each.render(context) for each in node.children)


def _head(node: RenderTreeNode, context: RenderContext) -> str:
    """Return the head of a table, with the line that makes it one."""
    styles = [
        str(each.attrs.get("style")) for each in node.children[0].children
    ]
    rules = [_RULES[each.removeprefix("text-align:")] for each in styles]
    return f"{_rows(node, context)}\n| {' | '.join(rules)} |"


_RULES = {"None": "---", "left": ":--", "center": ":-:", "right": "--:"}
RENDERERS: Mapping[str, Render] = {
    "table": _rows,
    "thead": _head,
    "tbody": _rows,
    "tr": _row,
    "th": _cell,
    "td": _cell,
}
