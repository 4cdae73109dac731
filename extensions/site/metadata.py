"""What depends on which code of ours this is: whether Sphinx reads all pages
again, and whether :mod:`extensions.core.cache` takes what was kept.
"""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.typing import ExtensionMetadata

from extensions.core.cache import load, save
from extensions.core.environment import installed, our_code

# Sphinx reads all pages again after an upgrade of an extension.
METADATA: ExtensionMetadata = {
    "version": "1",
    "env_version": int(our_code()[:8], 16),
    "parallel_read_safe": True,
    "parallel_write_safe": True,
}


def _code() -> str:
    return our_code() + installed()


def load_cache(app: Sphinx, config: Config) -> None:
    """Load the cache, before any file is parsed."""
    load(Path(app.doctreedir), _code())


def save_cache(app: Sphinx, error: Exception | None) -> None:
    """Keep the cache beside the doctrees."""
    save(Path(app.doctreedir), _code())
