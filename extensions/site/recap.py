"""``{recap}``: claims of the page once more, to remember."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from extensions.files.pages import read_page
from extensions.files.topics import Topic
from extensions.site.page_basis import root_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


class RecapDirective(SphinxDirective):
    """Repeat the named claims as a list; each leads to its place."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        page = read_page(Topic(root_of(self.env), self.env.docname).page)
        claims = {claim.name: claim.sentence for claim in page.claims}
        items = nodes.bullet_list(classes=["recap"])
        for name in self.arguments[0].split():
            if name not in claims:
                continue  # a rule reports it
            words = nodes.paragraph()
            lines = StringList([claims[name]], page.path.as_posix())
            self.state.nested_parse(lines, 0, words)
            link = nodes.reference(
                "", "", *words[0].children, internal=True, refid=name
            )
            link["classes"].append("recalled")
            items += nodes.list_item("", nodes.paragraph("", "", link))
        return [items] if items.children else []


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directive."""
    app.add_directive("recap", RecapDirective)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
