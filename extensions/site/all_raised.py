"""``{all-raised}``: what every cell printed that caught an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

from extensions.files.raised import caught_in
from extensions.files.topics import Topic
from extensions.site.by_chapter import ByChapter
from extensions.site.fold import Fold
from extensions.site.page_basis import rest_on, root_of
from extensions.site.recap import address
from extensions.site.titles_shown import title_shown

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata

    from extensions.files.reading_order import Chapter
    from extensions.files.snippets import Cell


def link_to(env: BuildEnvironment, topic: Topic, cell: Cell) -> nodes.Node:
    """Return a line that leads to a cell on its page."""
    uri = address(env, topic, f"cell-{cell.name}")
    words = f"{title_shown(env, topic.name)}: {cell.name}"
    reference = nodes.reference("", words, internal=True, refuri=uri)
    return nodes.paragraph("", "", reference)


class AllRaisedDirective(ByChapter):
    """List what all cells printed that caught an error, page by page."""

    def of(self, chapter: Chapter) -> list[nodes.Node]:
        """Return a fold for each page."""
        found: list[nodes.Node] = []
        for name in chapter.pages:
            topic = Topic(root_of(self.env), name)
            if not topic.snippet.exists():
                continue
            rest_on(self.env, "programs", name)
            fold = Fold(summary=title_shown(self.env, name))
            for cell, text in caught_in(topic):
                fold += nodes.literal_block(text, text, language="none")
                fold += link_to(self.env, topic, cell)
            if fold.children:
                found.append(fold)
        return found


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directive."""
    app.add_directive("all-raised", AllRaisedDirective)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
