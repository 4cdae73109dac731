"""Files that belong to the whole site, such as ``claims.json``.

A feature adds a function that returns what such a file holds; all of them are
written once the pages are written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.core.writing import write

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# By name: what returns its text.
SITE_FILES: dict[str, Callable[[Sphinx], str]] = {}


def _write(app: Sphinx, error: Exception | None) -> None:
    """Write each file beside the pages."""
    if error:
        return
    for name, text_of in SITE_FILES.items():
        write(Path(app.outdir, name), text_of(app))


def setup_site_files(app: Sphinx) -> None:
    """Add the handler."""
    app.connect("build-finished", _write)
