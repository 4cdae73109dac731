"""Run what the site offers: ``python -m extensions.notebooks.run_downloads``.

Every script and every notebook of the two archives runs alone in an empty
folder, and must leave it empty.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from extensions.core.command_line import in_one_line
from extensions.core.problem import Problem
from extensions.core.reading import bytes_of
from extensions.core.topics import ROOT
from extensions.notebooks.archives import ARCHIVES

_LIMIT = 120  # seconds


def _command(program: Path) -> list[str]:
    """Return what runs a script, or a notebook."""
    if program.suffix == ".py":
        return [sys.executable, str(program)]
    runner = (
        "import sys, nbformat, nbclient;"
        " notebook = nbformat.read(sys.argv[1], as_version=4);"
        f" nbclient.NotebookClient(notebook, timeout={_LIMIT}).execute()"
    )
    return [sys.executable, "-W", "ignore", "-c", runner, str(program)]


def run(program: Path, limit: int = _LIMIT) -> str:
    """Run a program in an empty folder; return what went wrong, or ''."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                _command(program),
                cwd=folder,
                # One thread each: as many programs as cores run at once.
                env=os.environ | {"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"had not ended after {limit} seconds"
        if done.returncode:
            return done.stderr[-2000:]
        left = sorted(path.name for path in Path(folder).iterdir())
    return f"leaves behind: {', '.join(left)}" if left else ""


def unpack(path: Path, folder: str) -> None:
    """Put what an archive holds into a folder."""
    content = io.BytesIO(bytes_of(path))
    try:
        with zipfile.ZipFile(content) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as error:
        message = f"not a whole archive ({error}): build the site again"
        raise Problem(path, 1, message) from error


def main() -> None:
    """Run all of them, as many at once as there are cores."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ARCHIVES:
            unpack(ROOT / "docs/code" / name, folder)
        programs = sorted(Path(folder).glob("*/**/*.*"))
        programs += sorted(Path(folder).glob("*.*"))

        def report(program: Path) -> bool:
            start = time.perf_counter()
            wrong = run(program)
            took = time.perf_counter() - start
            title = program.relative_to(folder).as_posix()
            verdict = "failed" if wrong else "ran"
            print(f"{verdict:6} {took:5.1f} s  {title}\n{wrong}".rstrip())
            return not wrong

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            failed = sum(not good for good in pool.map(report, programs))
    print(f"{len(programs)} programs, {failed} failed")
    if failed or not programs:
        sys.exit(1)


if __name__ == "__main__":
    in_one_line(main)
