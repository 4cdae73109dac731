"""A forked command that is stuck is given to a new Python."""

import sys
import time

from tests.helpers import forks


def test_a_stuck_command_is_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr(forks, "PATIENCE", 0.1)
    monkeypatch.setattr(forks.subprocess, "Popen", forks.ForkedPython)
    monkeypatch.setattr(forks, "_run_file", lambda *_: time.sleep(600))
    (tmp_path / "end.py").write_text("print('said')\nraise SystemExit(3)\n")

    with forks.ForkedPython([sys.executable, "end.py"], cwd=tmp_path) as run:
        assert run.communicate(timeout=60) == ("said\n", None)
        assert run.returncode == 3
