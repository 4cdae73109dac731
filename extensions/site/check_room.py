"""Refuse a build for which there is no room, before it leaves half a site."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.problem import Problem

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

MEGABYTE = 1_000_000
NEEDED = 64 * MEGABYTE  # twice what the whole site takes, and a little more


def check(app: Sphinx) -> None:
    """Stop where the outputs of programs, or the pages, could not be put."""
    galleries = app.config.sphinx_gallery_conf["gallery_dirs"]
    written = [Path(app.srcdir, name) for name in galleries]
    for folder in (*written, Path(app.outdir), Path(app.doctreedir)):
        there = next(
            each for each in (folder, *folder.parents) if each.exists()
        )
        if not there.is_dir():
            raise Problem(there, 1, "not a folder, and the build needs one")
        if not os.access(there, os.W_OK):
            raise Problem(there, 1, "cannot be written: it is read-only")
        free = shutil.disk_usage(there).free
        if free < NEEDED:
            message = (
                f"no room: {free // MEGABYTE} MB are free,"
                f" and a build may need {NEEDED // MEGABYTE}"
            )
            raise Problem(there, 1, message)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Check before sphinx-gallery runs the programs, which it does at 500."""
    app.connect("builder-inited", check, priority=250)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
