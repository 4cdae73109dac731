"""Let one build at a time work on the site, and the others wait.

Two builds would write the same outputs, doctrees and pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from sphinx.util import logging

from extensions.build.errors import stop
from extensions.core.problem import Problem

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

_logger = logging.getLogger(__name__)

# Those that this process holds; the system ends them with it.
_held: list[FileLock] = []


def _wait(app: Sphinx, config: Config) -> None:
    """Wait for other builds, before the environment is read."""
    path = Path(app.srcdir).parent / "build" / "site.lock"
    lock = FileLock(path, is_singleton=True)
    try:
        path.parent.mkdir(exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            _logger.info("another build is at work: waiting until it ends")
            lock.acquire()
    except OSError as error:
        stop([Problem(path, 1, f"cannot be written: {error.strerror}")])
    _held.append(lock)


def release() -> None:
    """Let another build begin."""
    while _held:
        _held.pop().release()


def _release_after(app: Sphinx, error: Exception | None) -> None:
    """Let another build begin if this one has failed."""
    if error:
        release()


def setup_lock(app: Sphinx) -> None:
    """Wait before anything is read."""
    app.connect("config-inited", _wait)
    app.connect("build-finished", _release_after)
