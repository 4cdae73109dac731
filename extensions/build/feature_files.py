"""The templates, styles and scripts of a feature, which stand beside its code.

What belongs to the site as a whole, such as its colours, stands in ``docs/``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def add_templates(app: Sphinx, package: str) -> None:
    """Let Sphinx find the templates beside the ``__init__.py`` of a package.

    Those of the site itself come first.
    """
    config = app.config
    config.templates_path = [
        *config.templates_path,
        _beside(app, package, "templates"),
    ]


def add_static(app: Sphinx, package: str) -> None:
    """Let Sphinx copy the styles and scripts of a package into ``_static``."""
    config = app.config
    config.html_static_path = [
        *config.html_static_path,
        _beside(app, package, "static"),
    ]


def _beside(app: Sphinx, package: str, name: str) -> str:
    # As conf.py would name it: the hash that Sphinx takes of all settings
    # must not differ from one clone to the next.
    return os.path.relpath(Path(package).with_name(name), app.confdir)
