"""Run a program again if a build was cut short behind it.

sphinx-gallery notes the hash of a program once it has run, and writes page
and notebook only then. Between the two a disk may be full, or a power cut: the
next build would find the hash, and take old outputs for those of the program.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.topics import topics
from extensions.files.writing import remove

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def is_behind(path: Path, other: Path) -> bool:
    """Whether a file is lost, or older than another."""
    if not path.exists():
        return True
    return path.stat().st_mtime_ns < other.stat().st_mtime_ns


def forget(app: Sphinx) -> None:
    """Remove the hash of each program whose outputs are not those of it."""
    for topic in topics(Path(app.srcdir).parent):
        noted = topic.output.with_suffix(".py.md5")
        written = [topic.output, topic.output.with_suffix(".ipynb")]
        if noted.exists() and any(is_behind(each, noted) for each in written):
            # The outputs as well: sphinx-gallery leaves alone what is alike.
            for path in (noted, *written):
                remove(path)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Forget before sphinx-gallery runs the programs, which it does at 500."""
    app.connect("builder-inited", forget, priority=300)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
