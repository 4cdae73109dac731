"""The archives that the site offers: all scripts, and all notebooks."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from extensions.core.reading import bytes_of

# By the name of an archive: the suffix of what it holds.
ARCHIVES = {"scripts.zip": ".py", "notebooks.zip": ".ipynb"}
# The earliest that a zip can say: a real one would change at every build.
_DATE = (1980, 1, 1, 0, 0, 0)


def zipped(programs: dict[str, Path]) -> bytes:
    """Return a zip that holds files by name, in their order."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, program in programs.items():
            entry = zipfile.ZipInfo(name, _DATE)
            archive.writestr(entry, bytes_of(program), zipfile.ZIP_DEFLATED)
    return content.getvalue()
