"""Put all scripts into one zip, and all notebooks into another.

Both lie in ``docs/code/``, where a page can offer them with ``{download}``.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.topics import topics

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

ARCHIVES = {"scripts.zip": ".py", "notebooks.zip": ".ipynb"}
# The earliest that a zip can say: a real one would change at every build.
WHEN = (1980, 1, 1, 0, 0, 0)


def write(app: Sphinx) -> None:
    """Write both archives from what the build has made of each topic."""
    for name, suffix in ARCHIVES.items():
        path = Path(app.srcdir, "code", name)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for topic in topics(Path(app.srcdir).parent):
                program = topic.output.with_suffix(suffix)
                if program.exists():
                    entry = zipfile.ZipInfo(f"{topic.name}{suffix}", WHEN)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(entry, program.read_bytes())


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write once the notebooks are woven, which happens at 600."""
    app.connect("builder-inited", write, priority=700)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
