"""What the tests of this chapter share: they start processes."""

import pytest


@pytest.fixture(autouse=True)
def ends_processes(no_process_is_left):
    """Leave no process behind."""
