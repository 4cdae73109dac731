"""Prose: the sentences of the pages, and what each of them stands on.

A sentence is *proven* (it holds a claim), *cited* (it links to a primary
source), or neither, and the site lists those. Names of torch link to their API
and terms to the glossary.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

from extensions.prose import names, sphinx_links
from extensions.site.dependencies import ALL, KINDS, root_of
from extensions.site.metadata import METADATA


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the links to the API and to the glossary."""
    # What says whether a name or a term has come, gone or moved.
    KINDS["torch names"] = lambda app: {
        ALL: f"{names.read_names(root_of(app.env))}"
    }
    KINDS["terms"] = lambda app: {ALL: f"{names.terms_of(root_of(app.env))}"}
    app.add_transform(sphinx_links.LinkNames)
    app.add_transform(sphinx_links.LinkTerms)
    app.add_node(
        nodes.literal_block,
        override=True,
        html=(sphinx_links.visit_code, HTML5Translator.depart_literal_block),
    )
    return METADATA
