"""Programs: the code behind the pages, cut into named cells.

A *snippet* (behind a page) or a *recipe* (a page of its own) is a Python file
with ``# %% name`` above each cell. Each runs in a process of its own, through
sphinx-gallery, which writes its outputs beside a *stamp*: what the program ran
with. Pages show cells with ``{cell}``; tests run a program up to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.build.metadata import METADATA
    from extensions.programs import sphinx_cell, sphinx_recipes, sphinx_runner

    sphinx_runner.setup_runner(app)
    # Once a page is to be written, so that nothing on it moves later.
    app.connect("doctree-resolved", sphinx_recipes.measure_images)
    app.add_transform(sphinx_recipes.PlainTables)
    app.add_transform(sphinx_recipes.RecipeCards)
    app.add_transform(sphinx_recipes.RecipeResult)
    app.add_directive("cell", sphinx_cell.CellDirective)
    return METADATA
