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
    from extensions.measurements import sphinx_measured
    from extensions.site.dependencies import KINDS
    from extensions.site.layout import add_templates
    from extensions.site.metadata import METADATA

    KINDS["recordings"] = sphinx_measured.recordings_now
    add_templates(app, __file__)
    app.connect("doctree-resolved", sphinx_measured.render)
    app.add_directive("measured", sphinx_measured.MeasuredDirective)
    app.add_directive("measurements", sphinx_measured.MeasuredDirective)
    return METADATA
