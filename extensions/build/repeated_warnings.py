"""Say a warning again in each build, until what it warns of is mended.

Sphinx warns of a page while it reads or writes it, and of a page that has not
changed it does neither: a build with a dead link would fail, and the next one
succeed with the same page. So pages with a warning are remembered, read and
written again.
"""

from __future__ import annotations

import contextlib
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.logging import get_node_location, is_suppressed_warning

from extensions.core.problem import Problem
from extensions.core.reading import json_of
from extensions.core.writing import remove, write

if TYPE_CHECKING:
    from collections.abc import Set

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_ALL = "*"  # in place of a page: a warning that names none


class _Listener(logging.Handler):
    """Notes of which pages a build warns."""

    def __init__(self, app: Sphinx) -> None:
        super().__init__(logging.WARNING)
        self.app = app
        self.pages: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Note the page of one warning."""
        kind, subkind = (getattr(record, k, "") for k in ("type", "subtype"))
        suppressed = self.app.config.suppress_warnings
        if not is_suppressed_warning(kind, subkind, suppressed):
            self.pages.add(self.page_of(getattr(record, "location", None)))

    def page_of(self, place: object) -> str:
        """Return the page of a place, in any form that Sphinx knows."""
        if isinstance(place, nodes.Node):
            place = get_node_location(place)
        if isinstance(place, tuple):
            place = place[0]
        known, path = self.app.env.found_docs, str(place).partition(":")[0]
        names = (path, self.app.env.path2doc(path))
        return next((name for name in names if name in known), _ALL)


def warned_before(app: Sphinx) -> set[str]:
    """Return the pages of which the last build has warned."""
    found: set[str] = set()
    with contextlib.suppress(Problem, TypeError):  # none, or damaged
        found = {*json_of(_file_of(app))}
    return {*app.env.found_docs} if _ALL in found else found


def _file_of(app: Sphinx) -> Path:
    return Path(app.doctreedir, "warned.json")


def _again(app: Sphinx, env: BuildEnvironment, *_: Set[str]) -> list[str]:
    return sorted(warned_before(app) & env.found_docs)


def setup_repeated_warnings(app: Sphinx) -> None:
    """Listen from the first page that is read to the end of the build."""
    listener = _Listener(app)
    logger = logging.getLogger("sphinx")

    def listen(*_: object) -> None:
        logger.addHandler(listener)

    def note(*_: object) -> None:
        write(_file_of(app), json.dumps(sorted(listener.pages)) + "\n")

    def end(app: Sphinx, error: Exception | None) -> None:
        logger.removeHandler(listener)
        if listener.pages:
            note()
        elif not error:
            remove(_file_of(app))

    app.connect("env-get-outdated", _again)
    app.connect("env-before-read-docs", listen)
    # Written now, too: the next build does not read these pages if this one
    # is ended before it has written all.
    app.connect("env-updated", note)
    app.connect("build-finished", end)
