"""Measurements: what a tip buys in time and memory, before and after.

A file of ``measurements/`` sets up *cases*; ``measure`` times them in turns
and records them for a machine. Pages show the numbers, which nobody types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the directives."""
    from extensions.measurements.sphinx_measured import setup_measured
    from extensions.site.metadata import METADATA

    setup_measured(app)
    return METADATA
