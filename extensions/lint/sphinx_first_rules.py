"""Stop before any program runs, if a file of the project cannot be read.

What is broken is named in a line for each file, and the site of the last
build stays as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.build.errors import stop
from extensions.core.problem import Problem
from extensions.lint.rules import FIRST_RULES

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config


def _check(app: Sphinx, config: Config) -> None:
    """Stop at a file that cannot be read."""
    root = Path(app.srcdir).parent
    broken = [problem for rule in FIRST_RULES for problem in rule(root)]
    for name in config.evidence_folders:
        folder = root / name
        if folder.exists() and not folder.is_dir():
            message = "evidence_folders in conf.py names it: it is no folder"
            broken.append(Problem(folder, 1, message))
    if broken:
        stop(broken)


def setup_first_rules(app: Sphinx) -> None:
    """Check before the builder begins, and so before any program runs."""
    app.connect("config-inited", _check)
