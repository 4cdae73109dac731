"""What sphinx-gallery and pandas write, as the site shows it.

sphinx-gallery says what a recipe shows only to a mouse that rests on its
picture, in an attribute that HTML does not have, and shows one picture in both
themes. A recipe draws at its end, but whoever opens its page sees first what
for. pandas writes a style of its own with each table, and an empty header
above the names of the rows, which is read aloud as one.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util.images import get_image_size

from extensions.build.dependencies import root_of
from extensions.build.nodes import html_element, put_below_opening
from extensions.core.files import bytes_of
from extensions.core.topics import Topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sphinx.application import Sphinx

_OPENING = re.compile(r'<div class="sphx-glr-thumbcontainer" tooltip="(.*)">')


class RecipeCards(SphinxTransform):
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


_THEMES = ("only-light", "only-dark")


class RecipeResult(SphinxTransform):
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


_TABLE = '<table border="1" class="dataframe">'
_STYLE = re.compile(r"<style scoped>.*?</style>\n?", re.DOTALL)


def plain(html: str) -> str:
    """Return a table of pandas without what HTML does not allow."""
    for old, new in (
        (_TABLE, '<table class="dataframe">'),
        ('<tr style="text-align: right;">', "<tr>"),
        ("<th></th>", "<td></td>"),
    ):
        html = html.replace(old, new)
    return _STYLE.sub("", html)


class PlainTables(SphinxTransform):
    """Make plain what pandas has written, on pages and in recipes."""

    default_priority = 400

    def apply(self) -> None:
        """Write each table anew."""
        for raw in self.document.findall(nodes.raw):
            if _TABLE in raw.astext():
                raw[:] = [nodes.Text(plain(raw.astext()))]


def measure_images(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give each picture of a page the width and the height of its file."""
    for image in doctree.findall(nodes.image):
        if "width" in image or "height" in image:
            continue
        size = get_image_size(Path(app.srcdir, image["uri"]))
        if size is not None:
            image["width"], image["height"] = map(str, size)
