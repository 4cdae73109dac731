"""What tests need whose programs train in forked processes."""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch

# From Python 3.12 on; a thread may be left from the tests of another module.
THREADS_MAY_BE_LEFT = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)

PATIENCE = 60  # seconds until a forked command counts as stuck
_Popen = subprocess.Popen  # which tests replace


def _backward():
    torch.ones(1, requires_grad=True).backward()


def forks_can_train():
    """Try it where there is a GPU: its threads for autograd don't survive."""
    if not torch.accelerator.is_available():
        return True
    fork = multiprocessing.get_context("fork").Process(target=_backward)
    fork.start()
    fork.join()
    return not fork.exitcode


def skip_if_forks_cannot_train():
    """Skip a test that could only fail."""
    if not forks_can_train():
        pytest.skip(
            "where there is a GPU, a process that has run backward()"
            " cannot fork others that train; run this module by itself"
        )


def import_once(*names):
    """Import what each forked process would import for itself, slowly."""
    for name in names:
        # Another version of torch may lack it, or warn of what it imports.
        with suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module(name)


def _run_file(*arguments):
    """Run a file with its arguments, as Python would."""
    names = [*arguments]
    while names[0].startswith("-"):
        del names[0]
    sys.argv = names
    sys.path.insert(0, os.path.dirname(names[0]))  # noqa: PTH120
    runpy.run_path(names[0], run_name="__main__")


def _launch(config, entrypoint):
    """Let torchrun fork its processes: a new Python imports torch again."""
    launcher = import_module("torch.distributed.launcher.api")
    return launcher.elastic_launch(
        replace(config, start_method="fork"), _run_file
    )


def _run_command(command, folder, stdout, stderr):
    """Do what Python does with a command."""
    os.setpgid(0, 0)  # so that it can be ended with its processes
    os.chdir(folder)
    os.dup2(stdout, 1)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    if stderr == subprocess.DEVNULL:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = os.fdopen(2, "w", closefd=False)
    warnings.resetwarnings()  # as without pytest, which makes them errors
    _, *arguments = command
    if arguments[:2] == ["-m", "torch.distributed.run"]:
        torchrun = import_module("torch.distributed.run")
        with patch("torch.distributed.run.elastic_launch", _launch):
            torchrun.main(arguments[2:])
    else:
        _run_file(*arguments)


class ForkedPython:
    """A `subprocess.Popen` for commands of Python that forks this process.

    A new Python would import torch: ``torchrun`` three times for two
    processes, which takes longer than most modules of tests.
    """

    def __init__(self, command, *, cwd, stderr=None, **_):
        """Start the command; keep what it writes to its standard output."""
        self._start = {"args": command, "cwd": cwd, "stderr": stderr}
        self._again = None
        self._said, name = tempfile.mkstemp()
        Path(name).unlink()
        context = multiprocessing.get_context("fork")
        inputs = command, cwd, self._said, stderr
        self._process = context.Process(target=_run_command, args=inputs)
        self._process.start()
        with suppress(OSError):  # here as well, whichever comes first
            os.setpgid(self._process.pid, self._process.pid)

    @property
    def returncode(self):
        """How the command has ended, or None while it runs."""
        return (self._again or self._process).exitcode

    def communicate(self, timeout):
        """Wait for the end; return what the command has said.

        What is forked beside threads may wait forever for a lock that one of
        them held: it is then ended, and a new Python does what it was to do.
        """
        self._process.join(min(timeout, PATIENCE))
        if self.returncode is None and timeout > PATIENCE:
            self.terminate()
            self._process.join()
            return self._run_again(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self), timeout)
        os.lseek(self._said, 0, os.SEEK_SET)
        with os.fdopen(self._said, closefd=False) as said:
            return said.read(), None

    def _run_again(self, timeout):
        new = _Popen(**self._start, stdout=subprocess.PIPE, text=True)
        said, _ = new.communicate(timeout=timeout)
        self._again = SimpleNamespace(exitcode=new.returncode)
        return said, None

    def terminate(self):
        """End the command and whatever it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self):
        """Return the command that runs."""
        return self

    def __exit__(self, *_):
        """Wait until it is over."""
        self._process.join()
        os.close(self._said)
