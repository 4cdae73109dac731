"""Run calls in forks of this process, with all that it has imported."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

_CORES = os.cpu_count() or 1
_MEMORY = 4 << 30  # bytes for each copy: a loop without end may fill it


def silent_calls(
    calls: Sequence[Callable[[], str | None]],
    limit: float,
    tell: Callable[[int], None] = lambda index: None,
) -> list[bool]:
    """Return which calls end within some seconds, and return nothing.

    Each of these is told by its place as soon as it ends.
    """
    waiting = list(enumerate(calls))[::-1]
    running: dict[int, int] = {}
    silent = [False] * len(calls)
    try:
        while waiting or running:
            while waiting and len(running) < _CORES:
                index, call = waiting.pop()
                running[_fork(call, limit)] = index
            process, status = os.wait()
            _kill(process)
            if process in running:
                index = running.pop(process)
                silent[index] = status == 0
                if silent[index]:
                    tell(index)
    finally:
        for process in running:
            _kill(process)
    return silent


def _fork(call: Callable[[], str | None], limit: float) -> int:
    """Make a call in a copy of this process; return the number of that.

    The system ends it in time, whatever it does, and whoever has ended us.
    """
    if process := os.fork():
        return process
    status = 1
    try:
        os.setsid()
        signal.setitimer(signal.ITIMER_REAL, limit)
        for name, value in (
            (resource.RLIMIT_CPU, int(limit) + 1),  # of what it starts, too
            (resource.RLIMIT_DATA, _MEMORY),
        ):
            resource.setrlimit(name, (value, resource.getrlimit(name)[1]))
        status = 1 if call() else 0
    finally:
        os._exit(status)


def _kill(process: int) -> None:
    """End a copy of this process, and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
