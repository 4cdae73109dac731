"""``{recipes}``: some recipes, with their pictures and first sentences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.build.addresses import address
from extensions.build.chapters import title_shown
from extensions.build.dependencies import depend_on, root_of
from extensions.build.html_node import HtmlNode, add_html_node
from extensions.build.inline_code import words
from extensions.core.topics import Topic
from extensions.pages.page_summary import show_summaries, summary_of
from extensions.programs.sphinx_recipe_cards import pictures, recipe_card

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class _Summary(HtmlNode):
    """A placeholder for the first sentence of a recipe."""


class _RecipesDirective(SphinxDirective):
    """Show the named recipes, in their order."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a card for each recipe."""
        self.assert_has_content()
        names = [line.strip() for line in self.content if line.strip()]
        for name in names:
            if not Topic(root_of(self.env), name).is_recipe:
                raise self.error(f"no recipe: {name!r}")
        depend_on(self.env, "pages")
        show_summaries(self.env, names)
        cards = [self.card(Topic(root_of(self.env), name)) for name in names]
        return [nodes.container("", *cards, classes=["recipe-cards"])]

    def card(self, recipe: Topic) -> nodes.container:
        """Return the picture of a recipe above its title and its words."""
        uri = address(self.env, recipe, "").rstrip("#")
        title = title_shown(self.env, recipe.name)
        link = nodes.reference("", title, internal=True, refuri=uri)
        folder, _, stem = recipe.name.rpartition("/")
        thumbnail = f"/{folder}/images/thumb/sphx_glr_{stem}_thumb.svg"
        drawn = pictures(Path(self.env.srcdir), nodes.image(uri=thumbnail))
        depend_on(self.env, "programs", recipe.name)
        return recipe_card(drawn, link, _Summary(name=recipe.name))


def _fill_in(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put the first sentence of each recipe into its place."""
    for place in doctree.findall(_Summary):
        place["html"] = words(summary_of(app.env, place["name"]).text)


def setup_recipe_list(app: Sphinx) -> None:
    """Add the directive."""
    add_html_node(app, _Summary)
    app.add_directive("recipes", _RecipesDirective)
    app.connect("doctree-resolved", _fill_in)
