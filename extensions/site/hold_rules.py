"""Hold the rules of the house at every build, and read its ledger.

Each broken rule is a warning at its file and line. The first rules were held
before any program ran (``check_files``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.files.evidence import runs, unreadable_runs
from extensions.files.ledger import read_ledger
from extensions.files.problem import Problem
from extensions.files.remembered import uncollected
from extensions.rules import LATER_RULES
from extensions.rules.of_pages import evidence_stands
from extensions.site.builder import SiteBuilder
from extensions.site.page_basis import folders_of, root_of
from extensions.site.report import report

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def hold(app: Sphinx) -> None:
    """Report what breaks a rule; give the builder its ledger."""
    root, folders = root_of(app.env), folders_of(app.env)
    with uncollected():  # it stays until the build ends
        ledger = read_ledger(root, runs(folders))
    unreadable = unreadable_runs(folders)
    held = (problem for rule in LATER_RULES for problem in rule(root))
    broken = [*unreadable, *held]
    if any(run.is_own for run in ledger.runs):
        broken += evidence_stands(ledger)
    elif not unreadable:
        message = "no run of the tests: run them first"
        broken.append(Problem(folders[0], 1, message))
    for problem in broken:
        report(problem)
    if isinstance(app.builder, SiteBuilder):
        app.builder.ledger = ledger


def setup(app: Sphinx) -> ExtensionMetadata:
    """Hold the rules once the programs have run and all is written."""
    app.connect("builder-inited", hold, priority=800)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
