"""What programs draw, in light and in dark, and the tables of pandas.

sphinx-gallery calls :func:`scrape` behind each block of code. The dark figure
is the light one with its neutral colours swapped, and a lighter blue. A figure
with ``num="timings"`` shows how long its run took, which differs at every
build: the page says so, and shows what was recorded in evidence/.
"""

import re
from itertools import product
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.images import get_image_size

from extensions.core.topics import Topic
from extensions.site.dependencies import root_of
from extensions.site.nodes import html_element, put_below_opening

_THEMES = {"light": "", "dark": "_dark"}  # what ends the name of a picture
# What an artist may be coloured by. Not every artist has each of them.
_PROPERTIES = "color edgecolor facecolor markeredgecolor markerfacecolor"
# On a dark ground, words in this blue would be hard to read: 3.6 to 1.
_LIGHTER = {"#0072b2": "#3390cf"}
_IMAGE = """
.. image:: /{path}
   :alt: {alt}
   :class: only-{theme}
   :loading: lazy
"""
_TIMINGS = "timings"
_RECORDED = """
The program draws a picture here that differs at every run.
This page shows what was recorded instead; run the program for your picture.

.. measured::
"""
# In the label of an axis: what is drawn along it was timed.
_TIME = re.compile(r"\b(time|[mnµ]?s|(milli)?seconds?)\b")


def swapped(color: Any) -> Any:
    """Return a colour with black for white, and a hue light enough to read.

    The ends are not pure, which is what Furo's pages are like too.
    """
    from matplotlib.colors import to_hex, to_rgb, to_rgba

    red, green, blue, alpha = to_rgba(color)
    if not red == green == blue:
        return *to_rgb(_LIGHTER.get(to_hex(color), color)), alpha
    light = 0.93 - 0.86 * red
    return light, light, light, alpha


def _swap_neutrals(figure: Any) -> None:
    from matplotlib.colors import to_rgba_array

    artists = figure.findobj()
    for name in ("_bbox_patch", "arrow_patch"):  # of texts
        parts = (getattr(each, name, None) for each in [*artists])
        artists += filter(None, parts)
    for artist, name in product(artists, _PROPERTIES.split()):
        if get := getattr(artist, f"get_{name}", None):
            colors = [swapped(each) for each in to_rgba_array(get())]
            if colors:
                value = colors[0] if len(colors) == 1 else colors
                getattr(artist, f"set_{name}")(value)


def scrape(
    block: tuple[str, str, int],
    block_vars: dict[str, Any],
    gallery_conf: dict[str, Any],
) -> str:
    """Save the open figures and return the reStructuredText that shows them.

    An untitled figure is an error: its title is its text alternative. So is a
    time that is drawn outside the figure of timings.
    """
    import matplotlib.pyplot as plt

    rst = ""
    place = f"{block_vars['src_file']}:{block[2]}"
    for figure in map(plt.figure, plt.get_fignums()):
        if figure.get_label() == _TIMINGS:
            rst += _RECORDED
            continue
        titles = [figure.get_suptitle(), *(a.get_title() for a in figure.axes)]
        alt = ". ".join(" ".join(each.split()) for each in titles if each)
        if not alt:
            raise ValueError(f"{place}: an untitled figure")
        for axes in figure.axes:
            if _TIME.search(f"{axes.get_xlabel()} {axes.get_ylabel()}"):
                message = f'a figure of times without num="{_TIMINGS}"'
                raise ValueError(f"{place}: {message}")
        path = Path(next(block_vars["image_path_iterator"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        # Laid out and cut once: to draw takes longer than many a program.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        margin = plt.rcParams["savefig.pad_inches"]
        area = figure.get_tightbbox().padded(margin)
        for theme, end in _THEMES.items():
            if theme == "dark":
                _swap_neutrals(figure)
            drawn = path.with_name(f"{path.stem}{end}.svg")
            # So it is the same at every build.
            with plt.rc_context({"svg.hashsalt": drawn.name}):
                figure.savefig(
                    drawn,
                    transparent=True,
                    bbox_inches=area,
                    metadata={"Creator": None, "Date": None},
                )
            source = drawn.relative_to(gallery_conf["src_dir"]).as_posix()
            rst += _IMAGE.format(path=source, alt=alt, theme=theme)
    plt.close("all")
    return rst


def list_recipes(app: Sphinx, docname: str, content: list[str]) -> None:
    """Show cards of our own in the place of sphinx-gallery's.

    It says what a recipe shows only to a mouse that rests on its picture, in
    an attribute that HTML does not have, and has one picture for both themes.
    """
    if docname == "gallery/index":
        head, _, cards = content[0].partition("\n.. raw:: html\n")
        _, toctree, entries = cards.partition(".. toctree::")
        names = re.findall(r"/(gallery/\w+)", entries)
        recipes = "".join(f"   {name}\n" for name in names)
        content[0] = f"{head}\n.. recipes::\n\n{recipes}\n{toctree}{entries}"


def recipe_card(
    recipe: Topic, link: nodes.Node, intro: nodes.Node
) -> nodes.container:
    """Return the name of a recipe, what it shows, and its first picture."""
    name = nodes.paragraph("", "", link)
    about = nodes.paragraph("", "", intro)
    card = nodes.container("", name, about, classes=["recipe-card"])
    images = recipe.output.parent / "images"
    for theme, end in _THEMES.items():
        path = images / f"sphx_glr_{recipe.output.stem}_001{end}.svg"
        if path.exists():
            card += nodes.image(
                uri=f"/{path.relative_to(recipe.root / 'docs').as_posix()}",
                alt="",  # the name of the recipe says it
                loading="lazy",
                classes=[f"only-{theme}"],
            )
    return card


class RecipeResult(SphinxTransform):
    """Show the first picture of a recipe at its head as well.

    A recipe draws at its end, but whoever opens its page sees what for.
    """

    default_priority = 390  # above the line of a page with its files

    def apply(self) -> None:
        """Put the picture of each theme below the first paragraph."""
        topic = Topic(root_of(self.env), self.env.docname)
        if not (topic.is_recipe and topic.snippet.exists()):
            return
        first = [
            image.deepcopy()
            for image, theme in zip(
                self.document.findall(nodes.image), _THEMES, strict=False
            )
            if f"only-{theme}" in image["classes"]
        ]
        if first:
            label = html_element("p", nodes.Text("What comes of it:"))
            shown = nodes.container("", label, *first, classes=["result"])
            put_below_opening(self.document, shown)


def plain_tables(app: Sphinx, doctree: nodes.document) -> None:
    """Take from the tables of pandas what HTML does not allow.

    That is a style of its own with each, and an empty header above the names
    of the rows, which is read aloud as one.
    """
    table = '<table border="1" class="dataframe">'
    for raw in doctree.findall(nodes.raw):
        html = raw.astext()
        if table in html:
            for old, new in (
                (table, '<table class="dataframe">'),
                ('<tr style="text-align: right;">', "<tr>"),
                ("<th></th>", "<td></td>"),
            ):
                html = html.replace(old, new)
            html = re.sub(r"(?s)<style scoped>.*?</style>\n?", "", html)
            raw[:] = [nodes.Text(html)]


def measure_images(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give each picture of a page the width and the height of its file.

    Or what stands below one moves when it is loaded, and with it the place
    that an address leads to.
    """
    for image in doctree.findall(nodes.image):
        size = get_image_size(Path(app.srcdir, image["uri"]))
        if size and not {"width", "height"} & {*image.attributes}:
            image["width"], image["height"] = map(str, size)
