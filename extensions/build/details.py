"""Details: what a summary opens, and what is open when printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

from extensions.build.inline_code import words

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


class Details(nodes.General, nodes.Element):
    """Some nodes behind a summary, which is Markdown of words and code."""


def _visit(translator: HTML5Translator, node: Details) -> None:
    """Open the element of the browser itself."""
    translator.body.append(translator.starttag(node, "details"))
    translator.body.append(f"<summary>{words(node['summary'])}</summary>\n")


def _depart(translator: HTML5Translator, node: Details) -> None:
    """Close it."""
    translator.body.append("</details>\n")


def setup_details(app: Sphinx) -> None:
    """Add the node."""
    app.add_node(Details, html=(_visit, _depart))
