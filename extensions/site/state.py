"""Hold the rules of the house during a build, and keep its ledger.

Each broken rule is a warning at its file and line. The ledger lives on the
environment; a page is read again when what the ledger says of it has changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

from extensions.files.evidence import Run, runs, unreadable_runs
from extensions.files.ledger import Ledger, read_ledger
from extensions.files.problem import Problem
from extensions.rules import RULES
from extensions.rules.of_pages import evidence_stands

if TYPE_CHECKING:
    from collections.abc import Set

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata

logger = logging.getLogger(__name__)

# Set by a directive on its page: the page shows more than its own claims.
SHOWS_ALL = "shows-the-whole-ledger"


def report(problem: Problem) -> None:
    """Warn of a broken rule, at its place."""
    place = f"{problem.path}:{problem.line}"
    logger.warning(problem.message, location=place, type="house")


def root_of(env: BuildEnvironment) -> Path:
    """Return the folder in which the house stands: pages are in its docs/."""
    return Path(env.srcdir).parent


def runs_of(env: BuildEnvironment) -> list[Run]:
    """Return the runs that the site rests on, this build's run first."""
    return runs(evidence_of(env))


def evidence_of(env: BuildEnvironment) -> list[Path]:
    """Return the folders of runs, this build's first."""
    return [root_of(env) / name for name in env.config.house_evidence]


def ledger_of(env: BuildEnvironment) -> Ledger:
    """Return the ledger of the build."""
    return getattr(env, "house_ledger", Ledger((), ()))


def update(
    app: Sphinx,
    env: BuildEnvironment,
    added: Set[str],
    changed: Set[str],
    removed: Set[str],
) -> list[str]:
    """Hold the rules, renew the ledger, return the pages that it outdates."""
    root = root_of(env)
    old, new = ledger_of(env), read_ledger(root, runs_of(env))
    unreadable = unreadable_runs(evidence_of(env))
    broken = unreadable + [each for rule in RULES for each in rule(root)]
    if new.runs:
        broken += evidence_stands(new)
    elif not unreadable:
        folder = root / env.config.house_evidence[0]
        broken.append(
            Problem(folder, 1, "no run of the tests: run them first")
        )
    for problem in broken:
        report(problem)
    env.house_ledger = new  # type: ignore[attr-defined]
    if old == new:
        return []
    return [
        name
        for name in env.found_docs
        if old.of(name) != new.of(name) or SHOWS_ALL in env.metadata[name]
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the values and the handler."""
    app.add_config_value("house_evidence", [], "env", list)
    app.connect("env-get-outdated", update)
    return {
        "version": "1",
        "env_version": 2,  # raise when the ledger changes shape
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
