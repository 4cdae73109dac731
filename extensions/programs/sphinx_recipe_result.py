"""What comes of a recipe, below its first words.

A recipe draws at its end: whoever opens its page sees first what for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms import SphinxTransform

from extensions.build.dependencies import root_of
from extensions.build.nodes import html_element, put_below_opening
from extensions.core.topics import Topic

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_THEMES = ("only-light", "only-dark")


class _RecipeResult(SphinxTransform):
    """Show the first picture of a recipe at its head as well."""

    default_priority = 390  # above the line of a page with its files

    def apply(self) -> None:
        """Put the picture of each theme below the first paragraph."""
        topic = Topic(root_of(self.env), self.env.docname)
        if not (topic.is_recipe and topic.snippet.exists()):
            return
        drawn = list(self.document.findall(nodes.image))
        first = [
            each.deepcopy()
            for each, theme in zip(drawn, _THEMES, strict=False)
            if theme in each["classes"]
        ]
        if first:
            label = html_element("p", nodes.Text("What comes of it:"))
            shown = nodes.container("", label, *first, classes=["result"])
            put_below_opening(self.document, shown)


def setup_recipe_result(app: Sphinx) -> None:
    """Add the transform."""
    app.add_transform(_RecipeResult)
