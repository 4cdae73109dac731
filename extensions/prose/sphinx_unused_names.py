"""Which names of torch stand on which page; each listed one has to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.build.dependencies import ALL, KINDS, root_of
from extensions.build.warnings import report
from extensions.core.problem import Problem
from extensions.prose.sphinx_inventory import INVENTORY, read_inventory
from extensions.prose.torch_names import LIST, read_names

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_USED = "torch_names"  # in the metadata, which Sphinx purges and merges


def _names_now(app: Sphinx) -> dict[str, str]:
    """Return what says whether a name has come, gone or moved."""
    root = root_of(app.env)
    return {ALL: f"{read_inventory(root)} {read_names(root)}"}


def used_on(env: BuildEnvironment, name: str) -> set[str]:
    """Return the listed names that a page has; they grow as it is read."""
    found: set[str] = env.metadata[name].setdefault(_USED, set())
    return found


def _report_unused(app: Sphinx, env: BuildEnvironment) -> None:
    """Report names of the list that no page has, or that need no entry."""
    root = root_of(env)
    names = read_names(root)
    used = set().union(*(used_on(env, name) for name in env.found_docs))
    inventory = read_inventory(root)
    for name in sorted({*names.pages, *names.unlinked}):
        if name not in used:
            message = f"{name} stands on no page: take it out"
        elif name in inventory and name in names.pages:
            message = f"{INVENTORY} has {name} as well: take it out"
        else:
            continue
        report(Problem(root / LIST, names.lines[name], message))


def setup_unused_names(app: Sphinx) -> None:
    """Add the handlers."""
    KINDS["torch names"] = _names_now
    app.connect("env-check-consistency", _report_unused)
