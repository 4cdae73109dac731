"""Remember from build to build what was found in the files of the house.

So a build in which nothing has changed parses none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.core.cache import keep, recall
from extensions.core.environment import installed, our_code

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config


def place(app: Sphinx) -> Path:
    """Return where it is kept."""
    return Path(app.doctreedir, "remembered.pickle")


def code() -> str:
    """Return what says by which code something was found."""
    return our_code() + installed()


def start(app: Sphinx, config: Config) -> None:
    """Recall what the last build has found."""
    recall(place(app), code())


def end(app: Sphinx, error: Exception | None) -> None:
    """Keep what this build has asked for."""
    keep(place(app), code())


def setup_cache_file(app: Sphinx) -> None:
    """Recall before the files are checked."""
    app.connect("config-inited", start)
    app.connect("build-finished", end)
