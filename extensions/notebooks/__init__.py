"""Notebooks: each page as a file that a reader can run or read elsewhere.

A page is exported as a notebook and as Markdown, with its program cell by
cell. Directives and roles, which only this site knows, become what
:mod:`extensions.core.markdown` says of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["setup"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the files that pages offer."""
    from extensions.notebooks.sphinx_offer import setup_offer
    from extensions.site.metadata import METADATA

    setup_offer(app)
    return METADATA
