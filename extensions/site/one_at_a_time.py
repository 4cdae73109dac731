"""Let one build at a time work on the site, and the others wait.

Two builds would write the same outputs, doctrees and pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from sphinx.util import logging

from extensions.files.problem import Problem
from extensions.site.one_line import stop

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.util.typing import ExtensionMetadata

logger = logging.getLogger(__name__)


def wait(app: Sphinx, config: Config) -> None:
    """Wait for other builds; the system ends the lock with the process."""
    path = Path(app.srcdir).parent / "build" / "site.lock"
    lock = FileLock(path, is_singleton=True)
    try:
        path.parent.mkdir(exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            logger.info("another build is at work: waiting until it ends")
            lock.acquire()
    except OSError as error:
        stop([Problem(path, 1, f"cannot be written: {error.strerror}")])
    app.connect("build-finished", lambda *_: lock.release(), priority=999)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Wait before the environment is read."""
    app.connect("config-inited", wait, priority=0)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
