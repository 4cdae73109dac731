"""Programs: the code behind the pages, cut into named cells.

A *snippet* (behind a page) or a *recipe* (a page of its own) is a Python file
with ``# %% name`` above each cell. Each runs in a process of its own, through
sphinx-gallery, which writes its outputs beside a *stamp*: what the program ran
with. Pages show cells with ``{cell}``; tests run a program up to one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.programs import sphinx_cell, sphinx_figures, sphinx_run
    from extensions.site.metadata import METADATA

    app.setup_extension("sphinx_gallery.gen_gallery")
    # Before sphinx-gallery fills in what conf.py leaves open.
    conf = app.config.sphinx_gallery_conf
    settings = json.dumps(conf, sort_keys=True, default=repr)
    sphinx_run.import_once(Path(app.srcdir).parent, settings)
    app.add_config_value("program_seconds", 60, "", int)
    app.connect(
        "builder-inited",
        lambda app: sphinx_run.run_stale(app, settings),
        priority=400,  # before sphinx-gallery lists them
    )
    app.add_directive("cell", sphinx_cell.CellDirective)
    app.connect("source-read", sphinx_figures.list_recipes)
    app.connect("doctree-read", sphinx_figures.plain_tables)
    app.add_transform(sphinx_figures.RecipeResult)
    # Once a page is to be written, so that nothing on it moves later.
    app.connect("doctree-resolved", sphinx_figures.measure_images)
    return METADATA
