"""Prose: the sentences of the pages, and what each of them stands on.

A sentence is *proven* (it holds a claim), *cited* (it links to a primary
source), or neither, and the site lists those. Names of torch link to their API
and terms to the glossary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.prose.pages import prose_of, sentences_of
from extensions.prose.primary_sources import read_sources
from extensions.prose.sentences import Sentence

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["Sentence", "prose_of", "read_sources", "sentences_of"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.build.metadata import METADATA
    from extensions.prose import sphinx_api_links, sphinx_glossary

    sphinx_api_links.setup_api_links(app)
    sphinx_glossary.setup_glossary(app)
    return METADATA
