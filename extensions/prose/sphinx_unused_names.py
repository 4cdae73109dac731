"""Which listed names of torch stand on which page; each is to stand on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.build.dependencies import ALL, KINDS, root_of
from extensions.build.warnings import report
from extensions.core.problem import Problem
from extensions.prose.torch_names import LIST, read_names

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_USED = "torch_names"  # in the metadata, which Sphinx purges and merges


def _names_now(app: Sphinx) -> dict[str, str]:
    """Return what says whether the list has changed."""
    return {ALL: f"{read_names(root_of(app.env))}"}


def used_on(env: BuildEnvironment, name: str) -> set[str]:
    """Return the listed names that a page has; they grow as it is read."""
    found: set[str] = env.metadata[name].setdefault(_USED, set())
    return found


def _report_unused(app: Sphinx, env: BuildEnvironment) -> None:
    """Report the names of the list that no page has any more."""
    root = root_of(env)
    names = read_names(root)
    used = set().union(*(used_on(env, name) for name in env.found_docs))
    for name in sorted({*names.pages, *names.unlinked} - used):
        message = f"{name} stands on no page: take it out"
        report(Problem(root / LIST, names.lines[name], message))


def setup_unused_names(app: Sphinx) -> None:
    """Add the handlers."""
    KINDS["torch names"] = _names_now
    app.connect("env-check-consistency", _report_unused)
