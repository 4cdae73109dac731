"""Keep the cache of :mod:`extensions.core.cache` beside the doctrees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extensions.core.cache import load, save
from extensions.core.environment import installed, our_code

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config


def _code() -> str:
    return our_code() + installed()


def _start(app: Sphinx, config: Config) -> None:
    load(Path(app.doctreedir), _code())


def _end(app: Sphinx, error: Exception | None) -> None:
    save(Path(app.doctreedir), _code())


def setup_cache_file(app: Sphinx) -> None:
    """Load the cache before any file is parsed."""
    app.connect("config-inited", _start)
    app.connect("build-finished", _end)
