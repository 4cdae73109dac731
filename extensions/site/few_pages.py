"""Read and write few pages in one process: another one begins too slowly.

Sphinx shares even one page out, and copies all that it knows to each process
and back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata

# Four pages to read and six to write took a sixth longer in two processes.
FEW = 12


def are_few(number: int) -> bool:
    """Whether a number of pages is read or written sooner in one process."""
    return number < FEW


def read_here(app: Sphinx, env: BuildEnvironment, names: list[str]) -> None:
    """Let Sphinx read few pages in this process."""
    if are_few(len(names)):
        app.parallel = 1


def setup(app: Sphinx) -> ExtensionMetadata:
    """Go on, once all pages are read, with as many processes as before."""
    processes = app.parallel

    def go_on(app: Sphinx, env: BuildEnvironment) -> None:
        app.parallel = processes

    app.connect("env-before-read-docs", read_here)
    app.connect("env-updated", go_on)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
