"""Which listed names of torch stand on which page; each is to stand on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.files.problem import Problem
from extensions.files.torch_names import LIST, read_names
from extensions.site.page_basis import KINDS, root_of
from extensions.site.report import report

if TYPE_CHECKING:
    from collections.abc import Set

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata


def listed(app: Sphinx) -> str:
    """Return what says whether the list has changed."""
    return f"{read_names(root_of(app.env))}"


def used_in(env: BuildEnvironment) -> dict[str, set[str]]:
    """Return the listed names that each page of a site has."""
    if not hasattr(env, "house_torch_names"):
        env.house_torch_names = {}  # type: ignore[attr-defined]
    used: dict[str, set[str]] = env.house_torch_names  # type: ignore[attr-defined]
    return used


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Report the names of the list that no page has any more."""
    root = root_of(env)
    names = read_names(root)
    used = set().union(*used_in(env).values())
    for name in sorted({*names.pages, *names.unlinked} - used):
        message = f"{name} stands on no page: take it out"
        report(Problem(root / LIST, names.lines[name], message))


def purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget the names of a page that is gone, or about to be read."""
    used_in(env).pop(docname, None)


def merge(
    app: Sphinx,
    env: BuildEnvironment,
    docnames: Set[str],
    other: BuildEnvironment,
) -> None:
    """Take over what another process has noted of the pages that it read."""
    read = used_in(other)
    names = docnames & read.keys()
    used_in(env).update({name: read[name] for name in names})


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the handlers."""
    KINDS["torch names"] = listed
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-check-consistency", check)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
