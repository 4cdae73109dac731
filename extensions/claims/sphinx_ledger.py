"""The ledger of a build, read once the programs have run."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from extensions.claims.ledger import Ledger, read_ledger
from extensions.claims.words import mark_of
from extensions.core.cache import gc_paused
from extensions.evidence.sphinx_runs import runs_of
from extensions.site.dependencies import PAGE_PARTS, builder_of, root_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# By build. Not on Sphinx's environment, which every build reads and writes
# as a whole: the ledger is quickly made again from the files behind it.
_LEDGERS: WeakKeyDictionary[Sphinx, Ledger] = WeakKeyDictionary()


def ledger_of(app: Sphinx) -> Ledger:
    """Return the ledger of a build."""
    return _LEDGERS[app]


def _read(app: Sphinx) -> None:
    """Make the ledger of the current pages and tests, and of all runs."""
    root, found = root_of(app.env), runs_of(app.env)
    with gc_paused():  # it stays until the build ends
        _LEDGERS[app] = read_ledger(root, found)


def _give_marks(app: Sphinx) -> None:
    """Let all templates show the mark of what a run says."""
    builder_of(app).templates.environment.globals["mark"] = mark_of


def _results_by_page(app: Sphinx) -> dict[str, str]:
    """Return what each page shows of the results of its claims."""
    ledger = ledger_of(app)
    runs = " ".join(run.title for run in ledger.runs)
    return {
        name: " ".join([runs, *(ledger.rows[each.anchor] for each in entries)])
        for name, entries in ledger.by_topic.items()
    }


def setup_ledger(app: Sphinx) -> None:
    """Read it before the rules ask for it, and before pages show it."""
    PAGE_PARTS["results of its claims"] = _results_by_page
    app.connect("builder-inited", _read)
    app.connect("builder-inited", _give_marks)
