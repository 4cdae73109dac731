"""The scripts and notebooks that the site offers, run as readers run them.

Each runs alone in an empty folder, with one thread, and leaves it empty.
"""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.browser.conftest import ROOT
from tools.checked_pages import changed_pages

LIMIT = 120  # seconds
# What programs gave elsewhere that need a library which is not installed.
RECORDED = ROOT / "evidence/programs"
RUN_NOTEBOOK = f"""
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout={LIMIT}).execute()
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the notebooks of changed pages; or all, and all scripts."""
    is_all = metafunc.config.getoption("all")
    changed = changed_pages(ROOT)
    found = []
    for path in sorted((ROOT / "docs/code").glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                stem, _, kind = name.rpartition(".")
                if (RECORDED / f"{stem}.json").exists():  # cannot run here
                    continue
                if is_all or (kind == "ipynb" and stem in changed):
                    found.append((path, name))
    metafunc.parametrize(("archive", "name"), found, ids=lambda each: each)


def test_a_download_runs_alone(archive: Path, name: str, tmp_path: Path):
    with zipfile.ZipFile(archive) as kept:
        program = kept.extract(name, tmp_path)
    folder = tmp_path / "empty"
    folder.mkdir()
    runner = (
        [] if name.endswith(".py") else ["-W", "ignore", "-c", RUN_NOTEBOOK]
    )
    done = subprocess.run(
        [os.environ["PYTHON_WITH_TORCH"], *runner, program],
        cwd=folder,
        env=os.environ | {"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert [path.name for path in folder.iterdir()] == []
