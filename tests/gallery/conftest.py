"""What the tests of recipes use by name."""

import sys

import pytest


@pytest.fixture
def nothing_stays():
    """Forget the folders and the modules of a reader that a test has added."""
    modules, path = dict(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    vars(sys).pop("tracebacklimit", None)
    for name in set(sys.modules) - set(modules):
        if name.startswith("my_"):
            del sys.modules[name]
