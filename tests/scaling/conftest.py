"""What the tests of this chapter share: they start processes."""

import gc
import subprocess

import pytest

from tests.helpers.forks import ForkedPython, forks_can_train


@pytest.fixture(autouse=True)
def ends_processes(no_process_is_left):
    """Leave no process behind."""


@pytest.fixture(autouse=True)
def children_share_memory():
    """Keep the garbage collector of a child from touching all that it shares.

    The child would copy each page that it touches.
    """
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def forked_python(monkeypatch):
    """Fork the commands of a program, where forks can train."""
    if forks_can_train():
        monkeypatch.setattr(subprocess, "Popen", ForkedPython)
