"""Put all scripts into one zip, and all notebooks into another.

Both lie in ``docs/code/``, where a page can offer them with ``{download}``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.build.errors import report
from extensions.core.problem import Problem
from extensions.core.topics import topics
from extensions.core.writing import write
from extensions.notebooks.archives import ARCHIVES, zipped

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def write_archives(app: Sphinx) -> None:
    """Write each zip from what the build has made of the programs."""
    found = topics(Path(app.srcdir).parent)
    archives = {
        Path(app.srcdir, "code", name): {
            f"{topic.name}{suffix}": topic.output.with_suffix(suffix)
            for topic in found
        }
        for name, suffix in ARCHIVES.items()
    }
    for path, programs in archives.items():
        try:
            write(path, zipped(programs))
        except Problem as problem:
            report(problem)


def setup_archives(app: Sphinx) -> None:
    """Write once the notebooks are written."""
    app.connect("builder-inited", write_archives)
