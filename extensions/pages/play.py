"""``{play}``: a piece to play with, which answers as PyTorch does.

What it computes stands in a script of its own, which a test compares with
PyTorch. Its template shows what comes of the numbers that it begins with: that
is what there is on paper, and where no script runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.build.html_node import HtmlNode, add_html_node
from extensions.build.page_context import PageContext, on_page_context
from extensions.core.pieces import EXAMPLES

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class _Piece(HtmlNode):
    """A place for a piece."""


class _PlayDirective(SphinxDirective):
    """Let the reader try what the argument names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Leave a place for the piece."""
        name = self.arguments[0]
        if name not in EXAMPLES:
            known = ", ".join(sorted(EXAMPLES))
            raise self.error(f"no piece is called {name!r}: there is {known}")
        return [_Piece(piece=name)]


def _render_pieces(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Render the pieces of a page."""
    render = app.builder.templates.render
    for place in doctree.findall(_Piece):
        piece = place["piece"]
        place["html"] = render(f"play/{piece}.html", {"piece": piece})


def _add_scripts(page: PageContext) -> None:
    """Load the style and the scripts of the pieces that a page holds."""
    places = page.doctree.findall(_Piece) if page.doctree else ()
    for name in sorted({place["piece"] for place in places}):
        page.app.add_css_file("play.css")
        page.app.add_js_file("play.js", loading_method="defer")
        page.app.add_js_file(f"play-{name}.js", loading_method="defer")


def setup_play(app: Sphinx) -> None:
    """Add the directive."""
    add_html_node(app, _Piece)
    app.add_directive("play", _PlayDirective)
    app.connect("doctree-resolved", _render_pieces)
    on_page_context(app, _add_scripts)
