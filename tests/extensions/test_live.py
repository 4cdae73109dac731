"""The live, with stand-ins for the server and for the tests."""

import os
import re
import sys
import time
from pathlib import Path

import pytest

from extensions import live
from extensions.core.topics import ROOT

SERVER = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path("pids").write_text(str(child.pid))
time.sleep(60)
"""
TESTS = """
import pathlib, time
with open("tested", "a") as file:
    file.write("x")
while not pathlib.Path("go").exists():
    time.sleep(0.05)
with open("ended", "a") as file:
    file.write("x")
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Preview an empty folder while some saves happen, then press Ctrl-C."""
    monkeypatch.setattr(live, "ROOT", tmp_path)
    monkeypatch.setattr(live, "TESTS", [sys.executable, "-c", TESTS])

    def run(saves, server=SERVER):
        def watch(*paths, **options):
            yield from saves()
            raise KeyboardInterrupt

        command = [sys.executable, "-c", server]
        monkeypatch.setattr(live, "server", lambda arguments: command)
        monkeypatch.setattr(live, "watch", watch)
        return live.preview([])

    return run


def wait_for(condition):
    """Wait until something is so, and not for ever."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_alive(pid):
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    # Dead, and nobody has asked for its status yet.
    return not status.exists() or " Z " not in status.read_text()


def test_ctrl_c_ends_the_server_and_all_that_it_started(run, tmp_path):
    pids = tmp_path / "pids"

    def saves():
        wait_for(lambda: pids.exists() and pids.read_text())
        yield set()

    assert run(saves) == 0
    wait_for(lambda: not is_alive(int(pids.read_text())))


def test_saves_during_the_tests_are_tested_once_more(run, tmp_path):
    tested, ended = tmp_path / "tested", tmp_path / "ended"
    ended.touch()

    def saves():
        wait_for(lambda: tested.exists() and tested.read_text())
        yield {"a save"}
        yield {"another save"}
        assert tested.read_text() == "x"
        (tmp_path / "go").touch()
        while len(ended.read_text()) < 2:
            time.sleep(0.05)
            yield set()
        for _ in range(5):
            time.sleep(0.05)
            yield set()

    run(saves)
    assert tested.read_text() == "xx"


def test_a_server_that_ends_ends_the_preview(run):
    def saves():
        while True:
            time.sleep(0.1)
            yield set()

    assert run(saves, "raise SystemExit(3)") == 3


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("build/evidence/this-build/.tests.xml.lock", True),
        ("build/evidence/this-build/.tests.xml.12.part", True),
        ("tests/part/__pycache__/test_one.cpython-311.pyc", True),
        ("docs/.index.md.swp", True),
        ("docs/index.md~", True),
        ("build/evidence/this-build/tests.xml", False),
        ("docs/index.md", False),
    ],
)
def test_what_passes_by_starts_no_build(name, passes):
    assert bool(re.search(live.PASSING, f"{ROOT}/{name}")) is passes


def test_the_server_watches_the_results_and_not_what_it_writes():
    command = live.server(["docs", "build/html"])

    assert "--watch=build/evidence" in command
    assert "--ignore=docs/code" in command
    assert command[-2:] == ["docs", "build/html"]
