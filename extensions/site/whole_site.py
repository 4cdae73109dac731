"""Write every page anew if the last build was cut short.

Sphinx goes by the time of a page, and would take half of one for whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.writing import remove, write

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

MARKER = ".unfinished"
# Sphinx writes all pages if it finds that this differs from its own.
OTHER_BUILD = """\
# Sphinx build info version 1
# The build was cut short.
config: none
tags: none
"""


def begin(app: Sphinx) -> None:
    """Mark the site as unfinished; outdate the pages if it was already."""
    if app.builder.name != "html":
        return
    marker = Path(app.outdir, MARKER)
    if marker.exists():
        write(marker.with_name(".buildinfo"), OTHER_BUILD)
    write(marker, "")


def finish(app: Sphinx, error: Exception | None) -> None:
    """Take the mark away at the end of a build that came so far."""
    if not error:
        remove(Path(app.outdir, MARKER))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Mark the site once it is known that the build can begin."""
    app.connect("builder-inited", begin, priority=400)
    app.connect("build-finished", finish, priority=900)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
