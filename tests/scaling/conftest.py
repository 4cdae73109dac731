"""What the tests of this chapter share: they start processes."""

import gc

import pytest


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
