"""What was found in files, kept from build to build.

Most of a build in which nothing has changed would parse what it has parsed
before. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import TypeVar, cast

from extensions.core.problem import Problem
from extensions.core.reading import bytes_of
from extensions.core.writing import write

Key = tuple[str, str, str]
C = TypeVar("C", str, bytes)
T = TypeVar("T")

# By what was looked for, the path, and the hash of what stands there.
kept: dict[Key, object] = {}
asked: set[Key] = set()
recalled: set[Key] = set()


def remembered(find: Callable[[Path, C], T]) -> Callable[[Path, C], T]:
    """Return a function that looks once at what stands in a file.

    It finds what depends on that and on the path alone, or raises a
    :class:`~extensions.core.problem.Problem`, which is kept as well. Nobody
    may change what it returns.
    """
    what = f"{find.__module__}.{find.__qualname__}"

    @wraps(find)
    def found(path: Path, content: C) -> T:
        data = content.encode() if isinstance(content, str) else content
        key = what, str(path), sha256(data).hexdigest()
        asked.add(key)
        if key not in kept:
            try:
                kept[key] = find(path, content)
            except Problem as problem:
                kept[key] = problem
        if isinstance(kept[key], Problem):
            raise cast(Problem, kept[key])
        return cast(T, kept[key])

    return found


def recall(path: Path, code: str) -> None:
    """Add what a file has kept for the same code, given as its hash."""
    asked.clear()
    recalled.clear()
    with uncollected(), suppress(Problem, EOFError, pickle.UnpicklingError):
        made_by, found = pickle.loads(bytes_of(path))
        if made_by == code:
            kept.update(found)
            recalled.update(found)


@contextmanager
def uncollected() -> Iterator[None]:
    """Let the garbage collector look at nothing that is made meanwhile.

    What is recalled stays for good. To go through its hundred thousands of
    objects again and again takes a fifth of a build with nothing changed.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def keep(path: Path, code: str) -> None:
    """Write what was asked for since the last recall, if that is other."""
    if asked != recalled:
        found = {key: kept[key] for key in sorted(asked)}
        write(path, pickle.dumps((code, found)))
