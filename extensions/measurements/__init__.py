"""Measurements: what a tip buys in time and memory, before and after.

A file of ``measurements/`` sets up *cases*; ``measure`` times them in turns
and records them for a machine. Pages show the numbers, and words computed from
them; nobody types either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.measurements.results import (
    Recording,
    Workload,
    recordings_of,
    workload_of,
)

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = [
    "Recording",
    "Workload",
    "recordings_of",
    "workload_of",
]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.build.feature_files import add_templates
    from extensions.build.metadata import METADATA
    from extensions.measurements import (
        sphinx_json,
        sphinx_measured,
        sphinx_ranking,
    )

    add_templates(app, __file__)
    sphinx_measured.setup_measured(app)
    sphinx_ranking.setup_ranking(app)
    sphinx_json.setup_measurements_json(app)
    return METADATA
