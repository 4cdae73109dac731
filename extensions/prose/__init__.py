"""Prose: the sentences of the pages, and what each of them stands on.

A sentence is *proven* (it holds a claim), *cited* (it links to a primary
source), or neither, and the site lists those. Names of torch link to their API
and terms to the glossary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.prose.lists import read_sources
from extensions.prose.sentences import Sentence, prose_of, sentences_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["Sentence", "prose_of", "read_sources", "sentences_of"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from docutils import nodes
    from sphinx.writers.html5 import HTML5Translator

    from extensions.prose import sphinx_links
    from extensions.site.dependencies import KINDS
    from extensions.site.metadata import METADATA

    KINDS["torch names"] = sphinx_links.names_now
    app.add_transform(sphinx_links.LinkNames)
    app.add_node(
        nodes.literal_block,
        override=True,
        html=(
            sphinx_links.visit_code,
            HTML5Translator.depart_literal_block,
        ),
    )
    KINDS["terms"] = sphinx_links.terms_now
    app.add_transform(sphinx_links.LinkTerms)
    return METADATA
