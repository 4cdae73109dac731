"""Say how large each picture is, so that nothing moves once it is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.images import get_image_size

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _measure(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give each picture of a page the width and the height of its file."""
    for image in doctree.findall(nodes.image):
        if "width" in image or "height" in image:
            continue
        size = get_image_size(Path(app.srcdir, image["uri"]))
        if size is not None:
            image["width"], image["height"] = map(str, size)


def setup_image_sizes(app: Sphinx) -> None:
    """Measure what a page shows when it is written."""
    app.connect("doctree-resolved", _measure)
