"""Put all scripts into one zip, and all notebooks into another.

Both lie in ``docs/code/``, where a page can offer them with ``{download}``.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.build.warnings import report
from extensions.core.problem import Problem
from extensions.core.reading import bytes_of
from extensions.core.topics import topics
from extensions.core.writing import write

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ARCHIVES = {"scripts.zip": ".py", "notebooks.zip": ".ipynb"}
# The earliest that a zip can say: a real one would change at every build.
WHEN = (1980, 1, 1, 0, 0, 0)


def zipped(programs: dict[str, Path]) -> bytes:
    """Return a zip that holds files by name, in their order."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, program in programs.items():
            entry = zipfile.ZipInfo(name, WHEN)
            archive.writestr(entry, bytes_of(program), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def put(app: Sphinx) -> None:
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
    """Write once the notebooks are woven, which happens at 600."""
    app.connect("builder-inited", put)
