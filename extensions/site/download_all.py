"""Put all scripts into one zip, and all notebooks into another.

Both lie in ``docs/code/``, where a page can offer them with ``{download}``.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.problem import Problem
from extensions.files.reading import bytes_of
from extensions.files.topics import topics
from extensions.files.writing import write
from extensions.site.report import report

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

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


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write once the notebooks are woven, which happens at 600."""
    app.connect("builder-inited", put, priority=700)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
