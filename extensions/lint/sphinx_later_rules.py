"""Report what breaks a rule of the project, at its file and line.

The first rules were held before any program ran (``sphinx_first_rules``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.build.dependencies import root_of
from extensions.build.errors import report
from extensions.claims.rules import evidence_stands, failures_show_values
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.problem import Problem
from extensions.evidence.junit import unreadable_runs
from extensions.evidence.sphinx_runs import folders_of
from extensions.lint.rules import LATER_RULES

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _hold(app: Sphinx) -> None:
    """Report what breaks a rule, as a warning of the build."""
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


def setup_later_rules(app: Sphinx) -> None:
    """Hold the rules once the programs have run and the ledger is read."""
    app.connect("builder-inited", _hold)
