"""What the tests of this project load.

The tests of claims need torch, pytest and NumPy; those whose program imports
more, such as scikit-learn, are skipped where it is missing. The tests of the
site are left out where Sphinx is not installed; those in a browser have an
environment of their own, which ``nox -s browser`` uses.
"""

import multiprocessing
import sys
from copy import deepcopy
from functools import cache
from importlib.util import find_spec

import pytest

pytest.register_assert_rewrite("tests.helpers")

HAS_SPHINX = find_spec("sphinx") is not None
OF_SITE = ["pytester", "sphinx.testing.fixtures"] if HAS_SPHINX else []

pytest_plugins = [
    "extensions.evidence.pytest_fixtures",
    "extensions.evidence.pytest_plugin",
    *OF_SITE,
]
OF_SITE_ONLY = [] if HAS_SPHINX else ["extensions", "test_house.py"]
collect_ignore = ["browser", *OF_SITE_ONLY]


def pytest_report_header():
    """Say what a run leaves out."""
    if HAS_SPHINX:
        return None
    return "Sphinx is not installed: the tests of the site are left out"


@cache
def _read_once(load, **options):
    return load(**options)


@pytest.fixture(autouse=True)
def _digits_are_read_once(monkeypatch):
    """Give each program a copy: to parse their file takes longer than most."""
    if datasets := sys.modules.get("sklearn.datasets"):
        load = datasets.load_digits

        def copied(**options):
            return deepcopy(_read_once(load, **options))

        monkeypatch.setattr(datasets, "load_digits", copied)


@pytest.fixture
def no_process_is_left():
    """End what a failed or interrupted test left."""
    yield
    for process in multiprocessing.active_children():
        process.kill()
        process.join()
