"""How a counter-example fails: on what, and what its claim's test then says.

A counter-example hands the test of its claim an edited program, or another
input that the words of the claim cover, and expects an assertion to fail.
Imports neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path
from textwrap import dedent
from traceback import extract_tb, walk_tb
from types import FunctionType, TracebackType

import pytest

from extensions.core.files import Problem, text_of
from extensions.evidence.explanations import explained
from extensions.programs.snippet import Snippet

# What fails a test: an assertion, or an error or a warning that did not come.
FAILURES = (AssertionError, pytest.fail.Exception)
# What says something to a reader who sees it as an input.
PLAIN = (bool, bytes, float, int, list, str, tuple, type(None))
_NAMED = 3  # a name, an old passage, a new one


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


def failure_of(test: FunctionType, *inputs: object) -> str:
    """Return what the test of a claim says of inputs that make it false.

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
        where = _statement(failure.__traceback__, test.__code__.co_filename)
        said = explained(str(failure), failure.__traceback__)
        return f"{where}\n{said}"
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


def _statement(trace: TracebackType | None, module: str) -> str:
    """Return the last statement of a module that an error came through."""
    frames = [each for each in extract_tb(trace) if each.filename == module]
    last = frames[-1]
    lines = text_of(Path(module)).splitlines()
    first = last.lineno or 1
    return dedent("\n".join(lines[first - 1 : last.end_lineno or first]))


def _changes(snippet: Snippet) -> tuple[list[str], int]:
    """Return an edit as lines with ``-`` and ``+``, and where it begins.

    Cells that the test leaves out, with ``only``, are no part of the edit.
    """
    whole = Snippet.read(snippet.path)
    kept = _sizes(whole).keys() - _left_out(whole, snippet)
    old, new = whole.only(*kept).text.splitlines(), snippet.text.splitlines()
    lines, first = [], 0
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            lines += [f"-{line}" for line in old[a:b] if line.strip()]
            lines += [f"+{line}" for line in new[c:d] if line.strip()]
            first = first or a + 1
    return lines, first


def _sizes(snippet: Snippet) -> dict[str, int]:
    """Return how many lines each cell has."""
    cells = [*snippet.cells().values()]
    ends = [cell.line for cell in cells[1:]]
    ends.append(len(snippet.text.splitlines()) + 1)
    return {
        cell.name: end - cell.line
        for cell, end in zip(cells, ends, strict=True)
    }


def _left_out(whole: Snippet, snippet: Snippet) -> set[str]:
    """Return the cells that are empty, but have the lines that they had."""
    sizes, cells = _sizes(snippet), snippet.cells()
    return {
        name
        for name, size in _sizes(whole).items()
        if sizes.get(name) == size and not cells[name].source.strip()
    }


def properties_of_inputs(inputs: tuple[object, ...]) -> list[tuple[str, str]]:
    """Return what is to be recorded: the edit, its cell, other inputs."""
    found = []
    for each in inputs:
        if isinstance(each, Snippet):
            lines, first = _changes(each)
            if not lines:
                continue
            cells = Snippet.read(each.path).cells().values()
            before = [cell.name for cell in cells if cell.line <= first]
            found.append(("edit", "\n".join(lines)))
            found += [("cell edited", name) for name in before[-1:]]
        elif isinstance(each, PLAIN) or type(each).__module__ == "torch":
            found.append(("input", f"{each!r}"))
    return found
