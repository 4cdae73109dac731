"""Run pytest on some tests, and say how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from extensions.core.files import Problem

IN_PARALLEL = ["--numprocesses=auto", "--dist=worksteal"]
# How a command ends if all was tested; a crash ends it with 1.
SOME_FAILED = 3
# How pytest ends where it did not test what it should.
ENDS = {
    2: "was interrupted",
    3: "met an error of its own",
    4: "was called in a wrong way",
    5: "found no tests",
}


def run_pytest(root: Path, arguments: list[str], xml: Path) -> int:
    """Run pytest, which writes its results into a file; return its status."""
    if find_spec("pytest") is None:
        raise Problem(root, 1, "pytest is not installed: nothing was tested")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--continue-on-collection-errors",
        f"--junitxml={xml}",
        *arguments,
    ]
    # Whoever calls this may have options of pytest in the environment, which
    # could leave tests out.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
    }
    done = subprocess.run(command, cwd=root, env=environment, check=False)
    return done.returncode


def end(status: int) -> str:
    """Return how pytest ended where it did not test what it should."""
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return ENDS.get(status, f"ended with {status}")
