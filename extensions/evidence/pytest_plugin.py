"""What pytest notes of each result of a claim, and what it leaves out.

``tests/conftest.py`` loads this plugin, which brings the fixtures along. It
writes into the JUnit XML on what a run was made, and of each result what it
depends on, its device and its day. Needs torch, pytest and NumPy alone: what
programs import besides is noted where it lacks, and their tests are skipped.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections import Counter
from collections.abc import Iterator
from functools import cache
from inspect import signature
from pathlib import Path

import numpy
import pytest
import torch
from _pytest.junitxml import xml_key

from extensions.core.cache import load
from extensions.core.environment import our_code
from extensions.core.files import Problem
from extensions.core.topics import ROOT, topic_of_tests
from extensions.evidence.case_names import name_of_value
from extensions.evidence.dependencies import (
    CASES,
    DEPENDS_ON,
    Dependencies,
)
from extensions.evidence.junit import EVIDENCE
from extensions.evidence.lacking import (
    lacking_by_cell,
    note_what_lacks,
    skip_without,
)
from extensions.evidence.modules import evidence_modules
from extensions.evidence.outcomes import NEEDS
from extensions.evidence.printed import keep_printed
from extensions.evidence.surroundings import OF_CI
from extensions.evidence.versions import expect
from extensions.evidence.walk import Code
from extensions.programs.snippet import printed, ran

pytest_plugins = ["extensions.evidence.pytest_fixtures"]

_CODE = Code(ROOT)
_TODAY = datetime.datetime.now(datetime.UTC).date().isoformat()


def pytest_configure() -> None:
    """Let what a failed assertion says be the same on CI as elsewhere.

    On CI, pytest compares all of two lists, letter by letter, which takes
    hours for long ones. Counter-examples fail on purpose, thousands of times.
    """
    for name in OF_CI:
        os.environ.pop(name, None)
    # What the caller has parsed, no process has to parse again.
    load(ROOT / EVIDENCE.parent, our_code("core", "evidence", "programs"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Let one process have a CUDA device, whose memory some tests count."""
    return 1 if torch.cuda.is_available() else None


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a case by what it hands over, which the panels of claims show."""
    return name_of_value(val)


def parameters_of(item: pytest.Function) -> str:
    """Return what a case is made of: a line for each parametrization.

    It holds the names of the arguments, and what pytest calls their values.
    """
    marks = [*item.iter_markers("parametrize")]
    names = getattr(item, "callspec", None) and item.callspec._idlist
    if not names or len(names) != len(marks):
        return ""
    lines = []
    for mark, name in zip(marks, names, strict=True):
        arguments = mark.args[0] if mark.args else mark.kwargs["argnames"]
        if not isinstance(arguments, str):
            arguments = ",".join(arguments)
        lines.append(f"{arguments.replace(' ', '')}={name}")
    return "\n".join(lines)


@cache
def _dependencies(module: Path) -> Dependencies:
    return Dependencies(topic_of_tests(ROOT, module), _CODE)


def _lacking(item: pytest.Function) -> set[str]:
    """Return the libraries that the cells of a test import and that lack."""
    program = topic_of_tests(ROOT, item.path).snippet
    lacking = lacking_by_cell(program)
    if not any(lacking.values()):
        return set()
    cells = _dependencies(item.path).may_run(item.originalname)
    return set().union(*(lacking.get(name, set()) for name in cells))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Note when and on what each result is made; skip what cannot run.

    First of all, since an option of pytest may deselect some of the items.
    """
    modules = {*evidence_modules(ROOT)}
    cases = Counter((item.path, item.originalname) for item in items)
    for item in items:
        if item.path in modules:
            name = item.originalname
            item.user_properties += [
                ("date", _TODAY),
                (CASES, str(cases[item.path, name])),
            ]
            if parameters := parameters_of(item):
                item.user_properties.append(("parameters", parameters))
            if found := _dependencies(item.path).of(name):
                item.user_properties.append((DEPENDS_ON, found))
                skip_without(item, _lacking(item))
        expect(item, torch.__version__)
        if item.get_closest_marker("cuda"):
            item.user_properties.append((NEEDS, "cuda"))
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_sessionstart(session: pytest.Session) -> None:
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
    xml.add_global_property("date", _TODAY)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin to note which cells a test runs."""
    ran.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> None:
    """Note for the lack of what a test skipped itself."""
    note_what_lacks(item, call)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Iterator[None]:
    """Keep what the program of a page prints in a test that needs no more."""
    printed.clear()
    yield
    asked = [
        name
        for name, each in signature(item.function).parameters.items()
        if each.default is each.empty
    ]
    if asked == ["snippet"]:
        keep_printed(item.function, item.funcargs["snippet"])


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Function) -> None:
    """Let no result depend on a cell that its test does not seem to run."""
    found = _dependencies(item.path)
    unnamed = ran & found.cells.keys() - found.may_run(item.originalname)
    if unnamed:
        message = f"runs cells that it does not name: {sorted(unnamed)}"
        raise Problem(item.path, 1, message)


def allocations() -> int:
    """Return how often something asked a CUDA device for memory so far."""
    if not torch.cuda.is_available():
        return 0
    stats = torch.cuda.memory_stats()
    return int(stats.get("allocation.all.allocated", 0))


@pytest.fixture(autouse=True)
def _device(request: pytest.FixtureRequest) -> Iterator[None]:
    """Note on which device the test ran: what a machine has says nothing."""
    before = allocations()
    yield
    touched = allocations() != before
    device = torch.cuda.get_device_name() if touched else "CPU"
    request.node.user_properties.append(("device", device))
