"""What every test may use.

The tests of claims need torch, pytest and NumPy alone; the tests of the site
are left out where Sphinx is not installed.
"""

import datetime
import faulthandler
import gc
import platform
import socket
import sys
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from unittest.mock import patch

import numpy
import pytest
import torch
from _pytest.junitxml import xml_key

from extensions.core.problem import Problem
from extensions.core.topics import ROOT, topic_of_tests
from extensions.evidence.case_names import name_of_value
from extensions.evidence.counterexamples import (
    failure_of,
    properties_of_inputs,
)
from extensions.evidence.module_dependencies import (
    bases,
    classname,
    evidence_modules,
)
from extensions.evidence.result_dependencies import RESTS, Rests
from extensions.evidence.versions import expect
from extensions.programs.fresh_torch import reset_torch
from extensions.programs.snippet import Snippet, ran

# The other cores have work of their own, other tests or the build, and threads
# that wait for each other then wait for minutes.
torch.set_num_threads(1)

TODAY = datetime.datetime.now(datetime.UTC).date().isoformat()

# The kinds of devices that queue seeds, where they are there, and where.
QUEUES = {"cuda": "random", "xpu": "random", "mtia": ""}

HAS_SPHINX = find_spec("sphinx") is not None

pytest_plugins = ["pytester", "sphinx.testing.fixtures"] if HAS_SPHINX else []
collect_ignore = [] if HAS_SPHINX else ["extensions", "test_house.py"]


def pytest_report_header():
    """Say what a run leaves out."""
    if HAS_SPHINX:
        return None
    return "Sphinx is not installed: the tests of the site are left out"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Let one process have a CUDA device, whose memory some tests count."""
    return 1 if torch.cuda.is_available() else None


def pytest_make_parametrize_id(val):
    """Name a case by what it hands over, which the panels of claims show."""
    return name_of_value(val)


@cache
def rests_in(module):
    """Return what the tests of a module rest on."""
    return Rests(topic_of_tests(ROOT, module))


def pytest_collection_modifyitems(items):
    """Note when and on what each result rests; skip what has no device."""
    collected = {item.path for item in items}
    modules = collected.intersection(evidence_modules(ROOT))
    found = bases(ROOT, modules)
    for item in items:
        if item.path in modules:
            item.user_properties += [
                ("basis", found[classname(ROOT, item.path)]),
                ("date", TODAY),
            ]
            if rests := rests_in(item.path).of(item.originalname):
                item.user_properties.append((RESTS, rests))
        expect(item, torch.__version__)
        if item.get_closest_marker("cuda"):
            item.user_properties.append(("needs", "cuda"))
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_sessionstart(session):
    """Write into the JUnit XML on what machine the tests run.

    Not through ``record_testsuite_property``, which pytest-xdist loses.
    """
    xml = session.config.stash.get(xml_key, None)
    if xml is None:
        return
    xml.add_global_property("torch", torch.__version__)
    xml.add_global_property("python", platform.python_version())
    xml.add_global_property("numpy", numpy.__version__)
    xml.add_global_property("machine", platform.machine())
    xml.add_global_property("system", platform.system())
    xml.add_global_property("date", TODAY)


@pytest.fixture(autouse=True, scope="session")
def _no_queue():
    """Let torch queue no seed for devices that are not there.

    With each it formats and keeps the stack of the call.
    """
    with ExitStack() as stack:
        for name, place in QUEUES.items():
            kind = getattr(torch, name, None)
            queues = getattr(kind, place, None) if place else kind
            if hasattr(queues, "_lazy_call") and not kind.is_available():
                stack.enter_context(patch.object(queues, "_lazy_call"))
        yield


@pytest.fixture(autouse=True)
def _fresh_torch():
    reset_torch({}, "")


@pytest.fixture(autouse=True)
def _cells(request):
    """Let no result rest on a cell that its test does not seem to run."""
    ran.clear()
    yield
    rests = rests_in(request.path)
    if unnamed := ran & rests.cells.keys() - rests.may_run(
        request.node.originalname
    ):
        message = f"runs cells that it does not name: {sorted(unnamed)}"
        raise Problem(request.path, 1, message)


def allocations():
    """Return how often something asked a CUDA device for memory so far."""
    if not torch.cuda.is_available():
        return 0
    return torch.cuda.memory_stats().get("allocation.all.allocated", 0)


@pytest.fixture(autouse=True)
def _device(request):
    """Note on which device the test ran: what a machine has says nothing."""
    before = allocations()
    yield
    touched = allocations() != before
    device = torch.cuda.get_device_name() if touched else "CPU"
    request.node.user_properties.append(("device", device))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """Refuse to look up a host: no snippet needs one."""

    def refuse(host, *args, **kwargs):
        message = f"a snippet asked for the network: {host}"
        raise OSError(message)

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def collected():
    """Collect at the end of a module what its libraries leave open.

    Or the collector comes by in the middle of another module's test, which
    then fails for a file that it never opened.
    """
    yield
    gc.collect()


@pytest.fixture(scope="module")
def uncollected():
    """Let no worker collect, and so end, what the main process left over."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


@pytest.fixture
def frozen():
    """Let each collection look only at what a test has made.

    All that torch and pytest hold takes a fifth of a second each time.
    """
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def seeded():
    """Let what one test draws not depend on those before."""
    torch.manual_seed(0)


@pytest.fixture
def crash_in_silence():
    """Do not fill the log with a crash that a page shows."""
    faulthandler.disable()
    yield
    faulthandler.enable(sys.__stderr__)


@pytest.fixture
def snippet(request):
    """The snippet, or the recipe, that mirrors the test module."""
    return Snippet.read(topic_of_tests(ROOT, request.path).snippet)


@pytest.fixture
def fails(request):
    """Expect the test of a claim to fail, and note on what, and with what.

    ``fails(test_it_holds, snippet.edit(old, new))`` is a counter-example; so
    is ``fails(test_it_holds, snippet, another_input)``.
    """

    def fails(test, *inputs):
        said = failure_of(test, *inputs)
        request.node.user_properties += [
            *properties_of_inputs(inputs),
            ("said", said),
        ]

    return fails
