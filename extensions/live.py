"""Build and test at every save: ``python -m extensions.live``.

sphinx-autobuild builds the site at once and serves it. Beside it, the tests
of the topics that a save has touched run; their results are one of the things
that sphinx-autobuild watches, so that they show as soon as they stand. All
arguments are sphinx-autobuild's. Ctrl-C ends everything.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress

from watchfiles import PythonFilter, watch

from extensions.core.topics import ROOT
from extensions.evidence.junit import EVIDENCE

_PYTHON = [sys.executable, "-m"]
TESTS = [*_PYTHON, "extensions.evidence.test_claims"]
# What the tests rest on; a page changes no result.
_TESTED = ["snippets", "gallery", "tests", "extensions"]
_SHOWN = [*_TESTED, "measurements", "evidence", str(EVIDENCE.parents[1])]
# What the build writes, and what no page shows.
_IGNORED = ["docs/code", "docs/gallery", "tests/extensions"]
# Compiled modules, locks, unfinished files, what editors leave.
PASSING = rf"^{re.escape(ROOT.resolve().as_posix())}/(.*/)?(__pycache__|\.)|~$"


def server(arguments: list[str]) -> list[str]:
    """Return what builds and serves the site."""
    return [
        *_PYTHON,
        "sphinx_autobuild",
        *(f"--watch={name}" for name in _SHOWN),
        *(f"--ignore={name}" for name in _IGNORED),
        f"--re-ignore={PASSING}",
        *arguments,
    ]


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End some processes and all that they have started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, how)
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own, to be ended as a whole."""
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True)


def preview(arguments: list[str]) -> int:
    """Build and test until somebody ends it, or until the server does."""
    (ROOT / EVIDENCE).parent.mkdir(parents=True, exist_ok=True)
    running = {"server": _start(server(arguments)), "tests": _start(TESTS)}
    wanted = False
    try:
        for changes in watch(
            *(ROOT / name for name in _TESTED),
            watch_filter=PythonFilter(),
            rust_timeout=500,  # how long a save may wait for tests to end
            yield_on_timeout=True,
        ):
            if running["server"].poll() is not None:
                break
            wanted = wanted or bool(changes)
            if wanted and running["tests"].poll() is not None:
                running["tests"] = _start(TESTS)
                wanted = False
    except KeyboardInterrupt:
        return 0
    finally:
        _end([*running.values()])
    return running["server"].returncode


def main() -> int:
    """Build and test until Ctrl-C, or until the terminal is closed."""
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.default_int_handler)
    return preview(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
