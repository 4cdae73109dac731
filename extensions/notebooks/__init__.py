"""Notebooks: each page as a file that a reader can run or read elsewhere.

A page is exported as a notebook and as Markdown, with its program cell by
cell. Directives and roles, which only this site knows, become what
:mod:`extensions.core.directives` says of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.notebooks.archives import ARCHIVES, zipped

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["ARCHIVES", "setup", "zipped"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.build.metadata import METADATA
    from extensions.notebooks import (
        sphinx_archives,
        sphinx_downloads,
        sphinx_markdown,
        sphinx_notebooks,
    )

    sphinx_notebooks.setup_notebooks(app)
    sphinx_archives.setup_archives(app)
    sphinx_downloads.setup_downloads(app)
    sphinx_markdown.setup_markdown(app)
    return METADATA
