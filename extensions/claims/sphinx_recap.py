"""``{recap}``: the claims of a page to remember, as a list.

A claim of the page is named by its id, one of another page with the name of
that page in front: ``autograd/detach#a-cut-does-not-stop-the-optimizer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from extensions.claims.sphinx_panels import claim_link
from extensions.core.topics import Topic
from extensions.site.dependencies import root_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class _RecapDirective(SphinxDirective):
    """Repeat the named claims as a list; each leads to its place."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        items = nodes.bullet_list(classes=["recap"])
        for each in self.arguments[0].split():
            page, _, name = each.rpartition("#")
            topic = Topic(root_of(self.env), page or self.env.docname)
            link = claim_link(self, topic, name)
            if link is None:
                continue  # a rule reports it
            said = nodes.paragraph("", "", link)
            if page:
                said += self.title(page)
            items += nodes.list_item("", said)
        return [items] if items.children else []

    def title(self, page: str) -> list[nodes.Node]:
        """Return the title of another page, as a link."""
        link = nodes.paragraph()
        lines = StringList([f"{{doc}}`/{page}`"], self.env.docname)
        self.state.nested_parse(lines, 0, link)
        return [nodes.Text(" "), *link[0].children]


def setup_recap(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("recap", _RecapDirective)
