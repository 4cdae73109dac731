"""Write a file whole or not at all, and leave it alone if nothing changed."""

from __future__ import annotations

import os
from pathlib import Path

from extensions.core.files import Problem


def write(path: Path, content: str | bytes) -> bool:
    """Put the content at a path; return whether it was not there before.

    Text is written as UTF-8. The content first goes into a file beside the
    path, so that whoever reads the path finds the old or the new one, never a
    part, and a disk that is full loses nothing.
    """
    data = content.encode() if isinstance(content, str) else content
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.is_file() and path.read_bytes() == data:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(data)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}"
        raise Problem(path, 1, message) from error
    return True


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        message = f"cannot be removed: {error.strerror or error}"
        raise Problem(path, 1, message) from error
