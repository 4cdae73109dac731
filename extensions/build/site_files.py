"""Files that belong to the whole site, such as ``claims.json``.

A feature adds a function that returns what such a file holds; the builder
writes all of them once the pages are written.
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


def write_site_files(app: Sphinx) -> None:
    """Write each file beside the pages."""
    for name, text_of in SITE_FILES.items():
        write(Path(app.outdir, name), text_of(app))
