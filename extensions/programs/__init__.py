"""Programs: the code behind the pages, cut into named cells.

A *snippet* (behind a page) or a *recipe* (a page of its own) is a Python file
with ``# %% name`` above each cell. Each runs in a process of its own, through
sphinx-gallery, which writes its outputs beside a *stamp*: what the program ran
with. Pages show cells with ``{cell}``; tests run a program up to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.programs.cached_run import after
from extensions.programs.snippet import Cell, Snippet

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["Cell", "Snippet", "after"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.build.metadata import METADATA
    from extensions.programs import (
        sphinx_cell,
        sphinx_image_sizes,
        sphinx_recipe_cards,
        sphinx_recipe_result,
        sphinx_runner,
        sphinx_tables,
    )

    sphinx_runner.setup_runner(app)
    sphinx_image_sizes.setup_image_sizes(app)
    sphinx_tables.setup_tables(app)
    sphinx_recipe_cards.setup_recipe_cards(app)
    sphinx_recipe_result.setup_recipe_result(app)
    sphinx_cell.setup_cell(app)
    return METADATA
