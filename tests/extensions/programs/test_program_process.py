"""A program in a process of its own."""

import multiprocessing
import signal
import subprocess
import sys

import pytest

from extensions.core.topics import ROOT, Topic
from extensions.programs import program_process

ENDINGS = {
    "with nothing said": (
        -signal.SIGALRM,
        [],
        "was ended after 8 s: the program went on",
    ),
    "with all said": (
        -signal.SIGALRM,
        [[]],
        "was ended after 8 s: a thread that it left went on",
    ),
    "where there is no alarm": (
        124,
        [],
        "was ended after 8 s: the program went on",
    ),
    "by a signal": (-11, [], "was ended by SIGSEGV"),
    "by itself": (0, [], "ends its own process, without a word"),
}


@pytest.mark.parametrize(
    ("exitcode", "answers", "message"), ENDINGS.values(), ids=ENDINGS
)
def test_how_a_process_ended_is_said(tmp_path, exitcode, answers, message):
    topic = Topic(tmp_path, "part/one")

    said = program_process._wrong_with(topic, exitcode, 8, answers)

    assert said == [(1, message)]


def test_a_process_ends_in_time_where_there_is_no_alarm():
    code = (
        "import signal, time; del signal.alarm, signal.SIGALRM;"
        "from extensions.programs.program_process import end_after;"
        "end_after(1); time.sleep(60)"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)

    assert done.returncode == 124


def test_programs_run_where_processes_are_no_forks(
    unbuilt, build, monkeypatch
):
    monkeypatch.setattr(
        multiprocessing, "get_all_start_methods", lambda: ["spawn"]
    )
    assert program_process.method() == "spawn"

    build()

    assert "one counted" in Topic(unbuilt, "part/one").output.read_text()
