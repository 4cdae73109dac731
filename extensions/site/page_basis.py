"""What each page rests on besides its own files, kept on the environment.

A page that rests on something is read again once that has changed: on all of
a kind, or on the parts of it that the page shows. Sphinx's ``note_dependency``
knows files alone, and takes a folder for a missing one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.evidence import Run, runs
from extensions.files.stamps import our_code
from extensions.files.topics import sha256

if TYPE_CHECKING:
    from collections.abc import Set

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata


def root_of(env: BuildEnvironment) -> Path:
    """Return the folder in which the house stands: pages are in its docs/."""
    return Path(env.srcdir).parent


def folders_of(env: BuildEnvironment) -> list[Path]:
    """Return the folders of runs, that of the build's own run first."""
    return [root_of(env) / name for name in env.config.house_evidence]


def runs_of(env: BuildEnvironment) -> list[Run]:
    """Return the runs that the site rests on, this build's run first."""
    return runs(folders_of(env))


def recordings_in(env: BuildEnvironment) -> list[Path]:
    """Return the files of measurements, in the order of their folders."""
    return [
        path
        for folder in folders_of(env)
        for path in sorted(folder.glob("*/measurements.json"))
    ]


def recordings(app: Sphinx) -> dict[str, str]:
    """Return what says whether something was measured anew."""
    found = [f"{path} {sha256(path)}" for path in recordings_in(app.env)]
    return {ALL: "\n".join(found)}


def pages(app: Sphinx) -> dict[str, str]:
    """Return what says whether a page has come or gone."""
    return {ALL: " ".join(sorted(app.env.found_docs))}


ALL = ""  # the part that is the whole
Basis = tuple[str, str]  # a kind, and the name of a part
# What a page can rest on, by kind: a text for each part, which is another once
# that part has changed. Other modules add to it.
KINDS: dict[str, Callable[[Sphinx], Mapping[str, str]]] = {
    "recordings": recordings,
    "pages": pages,
}


class Rests:
    """On what pages rest: now, and, page by page, when each was read."""

    def __init__(self) -> None:
        self.now: dict[Basis, str] = {}
        self.then: dict[str, dict[Basis, str]] = {}


def rests_of(env: BuildEnvironment) -> Rests:
    """Return on what the pages of a site rest."""
    if not hasattr(env, "house_rests"):
        env.house_rests = Rests()  # type: ignore[attr-defined]
    rests: Rests = env.house_rests  # type: ignore[attr-defined]
    return rests


def rest_on(env: BuildEnvironment, kind: str, part: str = ALL) -> None:
    """Note that the page being read rests on something, there or missing.

    Raises ``KeyError`` for a kind that no module has added.
    """
    if kind not in KINDS:
        raise KeyError(kind)
    rests, basis = rests_of(env), (kind, part)
    rests.then.setdefault(env.docname, {})[basis] = rests.now.get(basis, "")


def purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page that is gone, or about to be read."""
    rests_of(env).then.pop(docname, None)


def merge(
    app: Sphinx,
    env: BuildEnvironment,
    docnames: Set[str],
    other: BuildEnvironment,
) -> None:
    """Take over what another process has noted of the pages that it read."""
    read = rests_of(other).then
    names = docnames & read.keys()
    rests_of(env).then.update({name: read[name] for name in names})


def outdated(
    app: Sphinx,
    env: BuildEnvironment,
    added: Set[str],
    changed: Set[str],
    removed: Set[str],
) -> list[str]:
    """Return the pages that rested on something else."""
    rests = rests_of(env)
    rests.now = {
        (kind, part): hashlib.sha256(text.encode()).hexdigest()
        for kind, of in KINDS.items()
        for part, text in of(app).items()
    }
    return [
        name
        for name, then in rests.then.items()
        if any(rests.now.get(basis, "") != was for basis, was in then.items())
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the value and the handlers."""
    app.add_config_value("house_evidence", [], "env", list)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-get-outdated", outdated)
    return {
        "version": "1",
        "env_version": int(our_code()[:8], 16),  # new code reads all anew
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
