"""``{search-box}``: the search on the page itself, large, besides the sidebar.

The argument stands in the box until somebody types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.site.nodes import HtmlNode, add_html_node

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class _SearchBox(HtmlNode):
    """A placeholder for the box."""


class _SearchBoxDirective(SphinxDirective):
    """Show a box that searches the site."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Leave a place for the box."""
        return [_SearchBox(hint=self.arguments[0])]


def _render_boxes(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the boxes of a page."""
    for place in doctree.findall(_SearchBox):
        values = {"hint": place["hint"]}
        place["html"] = app.builder.templates.render("search_box.html", values)


def setup_search_box(app: Sphinx) -> None:
    """Add the directive."""
    add_html_node(app, _SearchBox)
    app.add_directive("search-box", _SearchBoxDirective)
    app.connect("doctree-resolved", _render_boxes)
