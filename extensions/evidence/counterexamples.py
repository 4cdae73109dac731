"""Counter-examples: what they edit, and whether the test of a claim fails.

A counter-example hands the test of its claim an edited program, or another
input that the words of the claim cover, and expects an assertion to fail. What
is told of that failure stands in ``failures``, and decides nothing. Imports
neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from types import FunctionType, TracebackType
from typing import NamedTuple

import pytest

from extensions.core.files import Problem
from extensions.programs.snippet import Snippet

# What fails a test: an assertion, or an error or a warning that did not come.
FAILURES = (AssertionError, pytest.fail.Exception)
_NAMED = 3  # a name, an old passage, a new one


class Failure(NamedTuple):
    """What failed as a counter-example or a limit expects."""

    test: FunctionType
    inputs: tuple[object, ...]
    error: BaseException
    printed: list[dict[str, str]]
    """What each cell printed, run by run."""


# Where the fixture ``fails`` leaves a failure for the plugin to tell of.
SEEN = pytest.StashKey[Failure]()


@contextmanager
def no_error() -> Iterator[None]:
    """Fail the test if a program raises what its claim says it does not."""
    __tracebackhide__ = True
    try:
        yield
    except Problem:
        raise
    except Exception as error:
        pytest.fail(f"{type(error).__name__}: {error}")


def edits(*cases: tuple[str, ...]) -> pytest.MarkDecorator:
    """Run a counter-example with each of several edits.

    Each is an old passage and a new one, behind a name where they do not say
    by themselves what is wrong.
    """
    names = [case[0] if len(case) == _NAMED else None for case in cases]
    pairs = [case[-2:] for case in cases]
    return pytest.mark.parametrize(("old", "new"), pairs, ids=names)


def failure_of(test: FunctionType, *inputs: object) -> BaseException:
    """Return how the test of a claim fails on inputs that make it false.

    Raises
    ------
    AssertionError
        If the test passes.
    Problem
        If not the test fails but the program by itself.
    """
    __tracebackhide__ = True
    try:
        test(*inputs)
    except FAILURES as failure:
        for each in inputs:
            if isinstance(each, Snippet):
                _blame_the_test(failure.__traceback__, each.path)
        return failure
    message = (
        f"{test.__name__} passes: the words are still true; change what makes"
        " them false, or name it as a variation, __also_..."
    )
    raise AssertionError(message)


def _blame_the_test(trace: TracebackType | None, program: Path) -> None:
    """Raise an error if it was the program that failed, not its test."""
    __tracebackhide__ = True
    for frame, line in walk_tb(trace):
        if frame.f_code.co_filename == str(program):
            message = "the edited program fails by itself, before its test"
            raise Problem(program, line, message)
