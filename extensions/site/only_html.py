"""Refuse to build anything but HTML: the marks and tables are HTML alone.

``linkcheck`` and ``dummy`` write no page, so they may run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.problem import Problem

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

BUILDERS = {"html", "linkcheck", "dummy"}


def refuse(app: Sphinx) -> None:
    """Stop another builder before any program is run."""
    if app.builder.name not in BUILDERS:
        message = (
            f"the house cannot be built as {app.builder.name}:"
            " build html, with -b html or without -b"
        )
        raise Problem(Path(app.confdir, "conf.py"), 1, message)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Refuse before sphinx-gallery runs the programs, which it does at 500."""
    app.connect("builder-inited", refuse, priority=100)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
