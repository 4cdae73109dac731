"""Remember from build to build what was found in the files of the house.

So a build in which nothing has changed parses none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.remembered import keep, recall
from extensions.files.stamps import our_code, surroundings

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def place(app: Sphinx) -> Path:
    """Return where it is kept."""
    return Path(app.doctreedir, "remembered.pickle")


def code() -> str:
    """Return what says by which code something was found."""
    return our_code() + surroundings()


def start(app: Sphinx) -> None:
    """Recall what the last build has found."""
    recall(place(app), code())


def end(app: Sphinx, error: Exception | None) -> None:
    """Keep what this build has asked for."""
    keep(place(app), code())


def setup(app: Sphinx) -> ExtensionMetadata:
    """Recall before the files are checked."""
    app.connect("builder-inited", start, priority=100)
    app.connect("build-finished", end)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
