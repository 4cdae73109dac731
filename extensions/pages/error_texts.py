"""``{error-texts}``: the output of every cell that caught an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

from extensions.build.addresses import address
from extensions.build.dependencies import depend_on, root_of
from extensions.build.details import Details
from extensions.build.title_dependency import title_shown
from extensions.core.topics import Topic
from extensions.pages.by_chapter import ByChapterDirective
from extensions.programs.error_texts import caught_in

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

    from extensions.core.reading_order import Chapter
    from extensions.programs.snippet import Cell


def _link_to_cell(
    env: BuildEnvironment, topic: Topic, cell: Cell
) -> nodes.Node:
    """Return a paragraph with a link to a cell."""
    uri = address(env, topic, f"cell-{cell.name}")
    words = f"{title_shown(env, topic.name)}: {cell.name}"
    reference = nodes.reference("", words, internal=True, refuri=uri)
    return nodes.paragraph("", "", reference)


class _ErrorTextsDirective(ByChapterDirective):
    """List the output of all cells that caught an error, page by page."""

    def of(self, chapter: Chapter) -> list[nodes.Node]:
        """Return collapsed details for each page."""
        found: list[nodes.Node] = []
        for name in chapter.pages:
            topic = Topic(root_of(self.env), name)
            if not topic.snippet.exists():
                continue
            depend_on(self.env, "programs", name)
            fold = Details(summary=title_shown(self.env, name))
            for cell, text in caught_in(topic):
                fold += nodes.literal_block(text, text, language="none")
                fold += _link_to_cell(self.env, topic, cell)
            if fold.children:
                found.append(fold)
        return found


def setup_error_texts(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("error-texts", _ErrorTextsDirective)
