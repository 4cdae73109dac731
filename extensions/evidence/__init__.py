"""Evidence: what runs of the tests said, and whether it still counts.

pytest writes a JUnit file for each run: that of this build, and recorded ones
of other machines and versions of torch. Each result carries a *fingerprint* of
what its test depends on, so that a change makes stale what it may change. None
of it but ``sphinx_*`` knows Sphinx; on a machine with a GPU, torch, pytest
and NumPy are enough, and scikit-learn for the claims about real digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.evidence.dependencies import Dependencies
from extensions.evidence.fingerprints import fingerprints
from extensions.evidence.junit import Result, Run, runs

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["Dependencies", "Result", "Run", "fingerprints", "runs"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.evidence import sphinx_recorded_outputs, sphinx_runs
    from extensions.site.metadata import METADATA

    sphinx_runs.setup_runs(app)
    sphinx_recorded_outputs.setup_recorded_outputs(app)
    return METADATA
