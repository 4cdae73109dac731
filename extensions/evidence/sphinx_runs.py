"""The runs of the tests that a site shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.evidence.junit import Run, runs
from extensions.site.dependencies import root_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def folders_of(env: BuildEnvironment) -> list[Path]:
    """Return the folders of runs, that of the build's own run first."""
    return [root_of(env) / name for name in env.config.evidence_folders]


def runs_of(env: BuildEnvironment) -> list[Run]:
    """Return the runs that the site shows, this build's run first."""
    return runs(folders_of(env))


def setup_runs(app: Sphinx) -> None:
    """Add the value that names the folders."""
    app.add_config_value("evidence_folders", [], "env", list)
