"""``{broadcasting}``: two shapes to try, which fit or not as in PyTorch.

What comes of them is computed by ``broadcasting.js``, which a test compares
with PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.core.markdown import BROADCASTING
from extensions.site.layout import PageContext, on_page_context
from extensions.site.nodes import HtmlNode, add_html_node, words

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_FIELD = """<label>Shape of <code>{}</code> <input name="{}" value="{}"\
 autocapitalize="off" spellcheck="false"></label>"""
_BUTTON = (
    """<button type="button" data-a="{}" data-b="{}">{} and {}</button>"""
)
_EXAMPLES = [
    ("(3,)", "(3, 4)"),
    ("(64, 1)", "(64,)"),
    ("(3, 1)", "(1, 4)"),
    ("()", "(2, 0)"),
]


class _Broadcasting(HtmlNode):
    """A form for two shapes, and what comes of them."""


class _BroadcastingDirective(SphinxDirective):
    """Let the reader try two shapes."""

    def run(self) -> list[nodes.Node]:
        """Return the form, with an example where the script answers."""
        fields = [("a", "a", "8, 8"), ("b", "b", "1797, 1, 8")]
        typed = "\n".join(_FIELD.format(*field) for field in fields)
        tried = "\n".join(_BUTTON.format(*(x + x)) for x in _EXAMPLES)
        html = f"""<div class="broadcasting">
<p><strong>Shapes that broadcast</strong></p>
<form autocomplete="off">
{typed}
<p>Or try {tried}</p>
</form>
<div role="status"><p>{words(BROADCASTING)}</p></div>
<table></table>
</div>
"""
        return [_Broadcasting(html=html)]


def _load(page: PageContext) -> None:
    """Load the script and the style on a page with such a form."""
    if page.doctree and next(page.doctree.findall(_Broadcasting), None):
        page.app.add_css_file("broadcasting.css")
        page.app.add_js_file("broadcasting.js", loading_method="defer")


def setup_broadcasting(app: Sphinx) -> None:
    """Add the directive."""
    add_html_node(app, _Broadcasting)
    app.add_directive("broadcasting", _BroadcastingDirective)
    on_page_context(app, _load)
