"""What the tests of claims run with: fixtures, and a torch as at a prompt.

Each recorded result depends on this module, so what only reports on a run
stands in ``pytest_plugin``.
"""

from __future__ import annotations

import faulthandler
import gc
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import FunctionType
from unittest.mock import patch

import pytest
import torch

from extensions.core.topics import ROOT, topic_of_tests
from extensions.evidence.counterexamples import (
    failure_of,
    properties_of_inputs,
)
from extensions.evidence.printed import properties_of_outputs
from extensions.programs.snippet import Snippet, printed, reset_torch

# The other cores have work of their own, other tests or the build, and threads
# that wait for each other then wait for minutes.
torch.set_num_threads(1)

# The kinds of devices that queue seeds, where they are there, and where.
_QUEUES = {"cuda": "random", "xpu": "random", "mtia": ""}


@pytest.fixture(autouse=True, scope="session")
def _no_queue() -> Iterator[None]:
    """Let torch queue no seed for devices that are not there.

    With each it formats and keeps the stack of the call.
    """
    with ExitStack() as stack:
        for name, place in _QUEUES.items():
            kind = getattr(torch, name, None)
            queues = getattr(kind, place, None) if place else kind
            if (
                kind is not None
                and hasattr(queues, "_lazy_call")
                and not kind.is_available()
            ):
                stack.enter_context(patch.object(queues, "_lazy_call"))
        yield


@pytest.fixture(autouse=True)
def _fresh_torch() -> None:
    reset_torch({}, "")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to look up a host: no snippet needs one."""

    def refuse(host: str, *args: object, **kwargs: object) -> None:
        message = f"a snippet asked for the network: {host}"
        raise OSError(message)

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def collected() -> Iterator[None]:
    """Collect at the end of a module what its libraries leave open.

    Or the collector comes by in the middle of another module's test, which
    then fails for a file that it never opened.
    """
    yield
    gc.collect()


@pytest.fixture(scope="module")
def uncollected() -> Iterator[None]:
    """Let no worker collect, and so end, what the main process left over."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


@pytest.fixture
def frozen() -> Iterator[None]:
    """Let each collection look only at what a test has made.

    All that torch and pytest hold takes a fifth of a second each time.
    """
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def seeded() -> None:
    """Let what one test draws not depend on those before."""
    torch.manual_seed(0)


@pytest.fixture
def crash_in_silence() -> Iterator[None]:
    """Do not fill the log with a crash that a page shows."""
    faulthandler.disable()
    yield
    if sys.__stderr__:
        faulthandler.enable(sys.__stderr__)


@pytest.fixture
def snippet(request: pytest.FixtureRequest) -> Snippet:
    """The snippet, or the recipe, that mirrors the test module."""
    return Snippet.read(topic_of_tests(ROOT, request.path).snippet)


@pytest.fixture
def fails(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Expect the test of a claim to fail, and note on what, and with what.

    ``fails(test_it_holds, snippet.edit(old, new))`` is a counter-example; so
    is ``fails(test_it_holds, snippet, another_input)``.
    """

    def fails(test: FunctionType, *inputs: object) -> None:
        __tracebackhide__ = True
        printed.clear()
        said = failure_of(test, *inputs)
        request.node.user_properties += [
            *properties_of_inputs(inputs),
            ("said", said),
            *properties_of_outputs(test, inputs, [*printed]),
        ]

    return fails
