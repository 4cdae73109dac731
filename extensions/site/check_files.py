"""Stop before any program runs, if the house cannot be read as a whole.

What is broken is named in a line for each file, and the site of the last
build stays as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.problem import Problem
from extensions.rules import FIRST_RULES
from extensions.site.one_line import stop

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def check(app: Sphinx) -> None:
    """Stop at what no reader of the house could read."""
    root = Path(app.srcdir).parent
    broken = [problem for rule in FIRST_RULES for problem in rule(root)]
    for name in app.config.house_evidence:
        folder = root / name
        if folder.exists() and not folder.is_dir():
            message = "house_evidence in conf.py names it: it is no folder"
            broken.append(Problem(folder, 1, message))
    if broken:
        stop(broken)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Check before sphinx-gallery runs the programs, which it does at 500."""
    app.connect("builder-inited", check, priority=200)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
