"""Hold the rules at a build: the first before any program runs.

A file that cannot be read ends the build in a line that names it, and the site
of the last build stays as it is. What breaks another rule is reported, at its
file and line.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.build.dependencies import root_of
from extensions.build.errors import report, stop
from extensions.claims.rules import evidence_stands, failures_show_values
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.problem import Problem
from extensions.evidence.junit import unreadable_runs
from extensions.evidence.sphinx_runs import folders_of
from extensions.lint import FIRST_RULES, LATER_RULES

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config


def hold_first_rules(app: Sphinx, config: Config) -> None:
    """Stop at files that cannot be read."""
    root = Path(app.srcdir).parent
    broken = [problem for rule in FIRST_RULES for problem in rule(root)]
    if broken:
        stop(broken)


def hold_later_rules(app: Sphinx) -> None:
    """Warn of what breaks a rule, once the ledger is read."""
    root, folders = root_of(app.env), folders_of(app.env)
    ledger, unreadable = ledger_of(app), unreadable_runs(folders)
    held = (problem for rule in LATER_RULES for problem in rule(root))
    broken = [*unreadable, *held]
    if ledger.own_run:
        broken += [*evidence_stands(ledger), *failures_show_values(ledger)]
    elif not unreadable:
        message = "no run of the tests: run them first"
        broken.append(Problem(folders[0], 1, message))
    for problem in broken:
        report(problem)
