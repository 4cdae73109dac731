"""Draw each figure of a snippet twice: for light pages and for dark ones.

sphinx-gallery calls :func:`scrape` behind each block of code. The dark figure
is the light one with its neutral colours swapped; other colours stay. A figure
with ``num="timings"`` shows how long its run took, which differs at every
build: the page says so, and shows what was recorded in evidence/.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

# What an artist may be coloured by. Not every artist has each of them.
_PROPERTIES = (
    "color",
    "edgecolor",
    "facecolor",
    "markeredgecolor",
    "markerfacecolor",
)
_IMAGE = """
.. image:: /{path}
   :alt: {alt}
   :class: only-{theme}
   :loading: lazy
"""


def swapped(color: Any) -> Any:
    """Return a colour with black for white, and a hue unchanged.

    The ends are not pure, which is what Furo's pages are like too.
    """
    from matplotlib.colors import to_rgba

    red, green, blue, alpha = to_rgba(color)
    if not red == green == blue:
        return color
    light = 0.93 - 0.86 * red
    return light, light, light, alpha


def _swap_neutrals(artist: Artist) -> None:
    """Swap the neutral colours of one artist, in place."""
    from matplotlib.colors import to_rgba_array

    for name in _PROPERTIES:
        get = getattr(artist, f"get_{name}", None)
        if get is None:
            continue
        colors = [swapped(each) for each in to_rgba_array(get())]
        if colors:
            value = colors[0] if len(colors) == 1 else colors
            getattr(artist, f"set_{name}")(value)


def _artists(figure: Figure) -> Iterator[Artist]:
    """Yield what a figure draws, boxes and arrows of its texts included."""
    for artist in figure.findobj():
        yield artist
        for part in ("_bbox_patch", "arrow_patch"):
            if (patch := getattr(artist, part, None)) is not None:
                yield patch


def title_of(figure: Figure) -> str:
    """Return the titles of a figure: what a reader who cannot see it hears."""
    titles = [figure.get_suptitle(), *(ax.get_title() for ax in figure.axes)]
    return ". ".join(" ".join(each.split()) for each in titles if each)


def _save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG that is the same at every build."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": path.name}):
        figure.savefig(
            path,
            transparent=True,
            bbox_inches="tight",
            metadata={"Creator": None, "Date": None},
        )


def save_twice(figure: Figure, path: Path) -> dict[str, Path]:
    """Write a figure, then the same for dark pages; return both by theme.

    Leaves the figure with its colours swapped.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    dark = path.with_name(f"{path.stem}_dark{path.suffix}")
    _save(figure, path)
    for artist in _artists(figure):
        _swap_neutrals(artist)
    _save(figure, dark)
    return {"light": path, "dark": dark}


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
    for number in plt.get_fignums():
        figure = plt.figure(number)
        if figure.get_label() == TIMINGS:
            rst += RECORDED
            continue
        alt = title_of(figure)
        if not alt:
            raise ValueError(f"{place}: an untitled figure")
        if shows_a_time(figure):
            message = f'a figure of times without num="{TIMINGS}"'
            raise ValueError(f"{place}: {message}")
        light = Path(next(block_vars["image_path_iterator"]))
        light = light.with_suffix(".svg")
        for theme, path in save_twice(figure, light).items():
            source = path.relative_to(gallery_conf["src_dir"]).as_posix()
            rst += _IMAGE.format(path=source, alt=alt, theme=theme)
    plt.close("all")
    return rst


TIMINGS = "timings"
RECORDED = """
The program draws a picture here that differs at every run.
This page shows what was recorded instead; run the program for your picture.

.. measured::
"""
# In the label of an axis: what is drawn along it was timed.
_TIME = re.compile(r"\b(time|[mnµ]?s|(milli)?seconds?)\b")


def shows_a_time(figure: Figure) -> bool:
    """Whether a time is drawn along an axis of a figure."""
    labels = [
        label
        for ax in figure.axes
        for label in (ax.get_xlabel(), ax.get_ylabel())
    ]
    return any(_TIME.search(label) for label in labels)
