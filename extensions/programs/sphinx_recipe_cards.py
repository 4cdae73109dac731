"""The list of recipes: a picture of each, its name, and what it shows.

sphinx-gallery says what a recipe shows only to a mouse that rests on its
picture, in an attribute that HTML does not have, and shows one picture in both
themes.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms import SphinxTransform

from extensions.core.reading import bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sphinx.application import Sphinx

_OPENING = re.compile(r'<div class="sphx-glr-thumbcontainer" tooltip="(.*)">')


class _RecipeCards(SphinxTransform):
    """Make a card of each thumbnail."""

    default_priority = 400  # before Sphinx collects the pictures

    def apply(self) -> None:
        """Put a card in the place of what opens, fills and closes it."""
        for opening in list(self.document.findall(nodes.raw)):
            said = _OPENING.search(opening.astext())
            if said is None:
                continue
            place = opening.parent.index(opening)
            filling = opening.parent[place + 1]
            [image] = filling.findall(nodes.image)
            [link] = filling.findall(nodes.paragraph)
            intro = html.unescape(said[1])
            drawn = pictures(Path(self.env.srcdir), image)
            [name] = link.children
            card = recipe_card(drawn, name, nodes.Text(intro))
            opening.parent[place : place + 3] = [card]


def recipe_card(
    drawn: Iterable[nodes.image], link: nodes.Node, intro: nodes.Node
) -> nodes.container:
    """Return the name of a recipe, what it shows, and its picture."""
    name = nodes.paragraph("", "", link)
    about = nodes.paragraph("", "", intro)
    return nodes.container("", name, about, *drawn, classes=["recipe-card"])


def pictures(source: Path, image: nodes.image) -> Iterator[nodes.image]:
    """Yield a picture for each theme, where there are two.

    What is given is the thumbnail that sphinx-gallery made of the first.
    """
    image["alt"] = ""  # the name of the recipe says it
    image["loading"] = "lazy"
    thumbnail = source / image["uri"].lstrip("/")
    stem = thumbnail.stem.removesuffix("_thumb")
    drawn = bytes_of(thumbnail)
    for light in sorted(thumbnail.parent.parent.glob(f"{stem}_*.svg")):
        dark = light.with_stem(f"{light.stem}_dark")
        if dark.exists() and bytes_of(light) == drawn:
            for path, theme in ((light, "light"), (dark, "dark")):
                copy = image.copy()
                copy["uri"] = f"/{path.relative_to(source).as_posix()}"
                copy["classes"] = [f"only-{theme}"]
                yield copy
            return
    yield image


def setup_recipe_cards(app: Sphinx) -> None:
    """Add the transform."""
    app.add_transform(_RecipeCards)
