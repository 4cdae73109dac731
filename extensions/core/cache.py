"""A cache of what was found in files, kept from build to build.

Most of a build in which nothing has changed would parse what it has parsed
before. The cache goes by content: whoever reads a file hands over what stands
in it, so no entry can be stale.
"""

import gc
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TypeVar, cast

from extensions.core.files import Problem, bytes_of, remove, write
from extensions.core.fingerprint import digest

C = TypeVar("C", str, bytes)
T = TypeVar("T")

# By what was looked for, the path, and a hash of the content.
_entries: dict[tuple[str, str, str], object] = {}
_used: set[tuple[str, str, str]] = set()
_loaded: set[tuple[str, str, str]] = set()


def cached_by_content(
    find: Callable[[Path, C], T],
) -> Callable[[Path, C], T]:
    """Return a function that parses the content of a file only once.

    It has to depend on the content and the path alone. A
    :class:`~extensions.core.files.Problem` that it raises is cached as well.
    Nobody may change what it returns.
    """
    what = f"{find.__module__}.{find.__qualname__}"

    @wraps(find)
    def cached(path: Path, content: C) -> T:
        key = what, str(path), digest(content)
        _used.add(key)
        if key not in _entries:
            try:
                _entries[key] = find(path, content)
            except Problem as problem:
                _entries[key] = problem
        if isinstance(_entries[key], Problem):
            raise cast(Problem, _entries[key])
        return cast(T, _entries[key])

    return cached


def load(folder: Path, code: str) -> None:
    """Add what the same code has saved in a folder, given a hash of the code.

    What other code has saved is never opened: its classes may have been
    renamed since. A damaged file is as good as none.
    """
    _used.clear()
    _loaded.clear()
    path = _path(folder, code)
    with gc_paused(), suppress(Exception):
        found = pickle.loads(bytes_of(path))
        _entries.update(found)
        _loaded.update(found)


def save(folder: Path, code: str) -> None:
    """Save what was used since the last load, if that is not what it found.

    What other code has saved is removed.
    """
    if _used != _loaded:
        found = {key: _entries[key] for key in sorted(_used)}
        write(_path(folder, code), pickle.dumps(found))
    for path in folder.glob("cache-*.pickle"):
        if path != _path(folder, code):
            remove(path)


def _path(folder: Path, code: str) -> Path:
    return folder / f"cache-{digest(code)}.pickle"


@contextmanager
def gc_paused() -> Iterator[None]:
    """Let the garbage collector look at nothing that is made meanwhile.

    What is loaded stays for good. To go through its hundred thousands of
    objects again and again takes a fifth of a build with nothing changed.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
