"""What each page depends on besides its own files, kept on the environment.

A page is read again once what it depends on has changed: all of a kind, or
the parts of it that the page shows. Sphinx's ``note_dependency`` knows files
alone, and takes a folder for a missing one. A feature adds a function to
:data:`KINDS`, and its directives call :func:`depend_on`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.build.reasons import log_reasons
from extensions.core.fingerprint import digest

if TYPE_CHECKING:
    from collections.abc import Set

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

ALL = ""  # the part that is the whole
_Dependency = tuple[str, str]  # a kind, and the name of a part
# What a page can depend on, by kind: a text for each part, which is another
# once that part has changed.
KINDS: dict[str, Callable[[Sphinx], Mapping[str, str]]] = {}


class Dependencies:
    """What pages depend on: now, and, page by page, when each was read."""

    def __init__(self) -> None:
        self.now: dict[_Dependency, str] = {}
        self.when_read: dict[str, dict[_Dependency, str]] = {}

    def by_kind(self, name: str) -> dict[str, str]:
        """Return by kind what a page depended on when it was read."""
        found: dict[str, str] = {}
        for (kind, part), then in sorted(self.when_read.get(name, {}).items()):
            found[kind] = f"{found.get(kind, '')}{part} {then}\n"
        return found


def root_of(env: BuildEnvironment) -> Path:
    """Return the folder of the project: its pages are in docs/."""
    return Path(env.srcdir).parent


def dependencies_of(env: BuildEnvironment) -> Dependencies:
    """Return what the pages of a site depend on."""
    if not hasattr(env, "page_dependencies"):
        env.page_dependencies = Dependencies()  # type: ignore[attr-defined]
    found: Dependencies = env.page_dependencies  # type: ignore[attr-defined]
    return found


def depend_on(env: BuildEnvironment, kind: str, part: str = ALL) -> None:
    """Note that the page being read depends on something, there or missing.

    Raises ``KeyError`` for a kind that no module has added.
    """
    if kind not in KINDS:
        raise KeyError(kind)
    known, dependency = dependencies_of(env), (kind, part)
    then = known.now.get(dependency, "")
    known.when_read.setdefault(env.docname, {})[dependency] = then


def _pages(app: Sphinx) -> dict[str, str]:
    """Return what says whether a page has come or gone."""
    return {ALL: " ".join(sorted(app.env.found_docs))}


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page that is gone, or about to be read."""
    dependencies_of(env).when_read.pop(docname, None)


def _merge(
    app: Sphinx,
    env: BuildEnvironment,
    docnames: Set[str],
    other: BuildEnvironment,
) -> None:
    """Take over what another process has noted of the pages that it read."""
    read = dependencies_of(other).when_read
    names = docnames & read.keys()
    dependencies_of(env).when_read.update({name: read[name] for name in names})


def _outdated(
    app: Sphinx,
    env: BuildEnvironment,
    added: Set[str],
    changed: Set[str],
    removed: Set[str],
) -> list[str]:
    """Return the pages that depended on something else."""
    known = dependencies_of(env)
    known.now = {
        (kind, part): digest(text)
        for kind, of in KINDS.items()
        for part, text in of(app).items()
    }
    reasons = {
        name: why
        for name, then in known.when_read.items()
        if (why := _changed(known.now, then))
    }
    log_reasons("to be read", reasons)
    return [*reasons]


def _changed(
    now: Mapping[tuple[str, str], str], then: Mapping[tuple[str, str], str]
) -> list[str]:
    """Return what a page depended on that is no longer what it was."""
    return [
        f"{kind} of {part}" if part else kind
        for (kind, part), was in then.items()
        if now.get((kind, part), "") != was
    ]


def setup_dependencies(app: Sphinx) -> None:
    """Add the handlers."""
    KINDS["pages"] = _pages
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("env-get-outdated", _outdated)
