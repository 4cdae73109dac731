"""What every part of a build depends on: what is installed, and our code."""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache
from pathlib import Path

from extensions.core.reading import bytes_of
from extensions.core.topics import ROOT


@cache
def installed() -> str:
    """Return a hash of Python's version and of all that is installed."""
    # A name and a version each, as pip writes them; to read them out of the
    # files below takes forty times as long.
    parts = {path.name for at in sys.path for path in Path(at).glob("*-info")}
    lines = [platform.python_version(), *sorted(parts)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@cache
def our_code(*packages: str) -> str:
    """Return a hash of our packages, of those named or of all."""
    found = hashlib.sha256()
    for folder in packages or ("",):
        for path in sorted((ROOT / "extensions" / folder).rglob("*.py")):
            found.update(bytes_of(path))
    return found.hexdigest()
