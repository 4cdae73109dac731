"""``{error-texts}``: every error text that a program has printed, to filter.

Each leads to the cell that printed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

from extensions.build.addresses import cell_address
from extensions.build.dependencies import depend_on, root_of
from extensions.build.html_node import HtmlElement, html_element
from extensions.core.topics import Topic
from extensions.pages.errors import entry_filter
from extensions.pages.lists import ByChapterDirective
from extensions.programs.error_texts import said_in

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from extensions.core.reading_order import Chapter
    from extensions.programs.snippet import Cell


class _ErrorTextsDirective(ByChapterDirective):
    """List the texts of all errors that were caught, page by page."""

    def run(self) -> list[nodes.Node]:
        """Return the lists of all chapters, below a filter."""
        found = super().run()
        count = sum(len(list(part.findall(nodes.literal))) for part in found)
        label = "Paste your error, or some of its words"
        return [entry_filter(label, "error texts", count, {}), *found]

    def of(self, chapter: Chapter) -> list[nodes.Node]:
        """Return for each page its title, and a list of its texts."""
        found: list[nodes.Node] = []
        for name in chapter.pages:
            topic = Topic(root_of(self.env), name)
            if not topic.snippet.exists():
                continue
            depend_on(self.env, "programs", name)
            if texts := dict(said_in(topic)):
                items = [self.item(topic, *each) for each in texts.items()]
                title = nodes.paragraph("", "", self.page(name))
                listed = html_element("ul", *items)
                group = html_element(
                    "div", title, listed, class_="entry-group"
                )
                found.append(group)
        return found

    def item(self, topic: Topic, text: str, cell: Cell) -> HtmlElement:
        """Return a text as a link to the cell that printed it."""
        uri = cell_address(self.env, topic, cell.name)
        words = nodes.literal("", text)
        link = nodes.reference("", "", words, internal=True, refuri=uri)
        return html_element("li", link)


def setup_error_texts(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("error-texts", _ErrorTextsDirective)
