"""Notebooks: each page as a file that a reader can run or read elsewhere.

A page is exported as a notebook and as Markdown, with its program cell by
cell. Directives and roles, which only this site knows, become what
:mod:`extensions.core.markdown` says of each.
"""

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from extensions.notebooks import sphinx_offer
from extensions.site.metadata import METADATA


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write the files once the programs have run, and offer them."""
    app.add_config_value("notebooks_repository", "", "env", str)
    app.connect("builder-inited", sphinx_offer.write_files)
    app.add_transform(sphinx_offer.OfferFiles)
    return METADATA
