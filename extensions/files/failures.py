"""How a counter-example fails: the edit, and what the claim's test then says.

A counter-example hands the test of its claim an edited snippet, or another
input that the claim's words cover, and expects an assertion to fail. Imports
neither Sphinx nor torch.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from traceback import walk_tb
from types import TracebackType

import pytest

from extensions.files.problem import Problem
from extensions.files.reading import text_of
from extensions.files.snippets import Snippet

# What fails a test: an assertion, or an error or a warning that did not come.
FAILURES = (AssertionError, pytest.fail.Exception)
LONGEST = 600  # letters of a message that a reader is shown


def failure_of(test: Callable[..., object], *inputs: object) -> str:
    """Return what the test of a claim says of inputs that make it false.

    Raises
    ------
    AssertionError
        If the test passes.
    """
    try:
        test(*inputs)
    except FAILURES as failure:
        for each in inputs:
            if isinstance(each, Snippet):
                blame_the_test(failure.__traceback__, each.path)
        return shortened(str(failure))
    raise AssertionError(f"{test.__name__} passes: the words are still true")


def blame_the_test(traceback: TracebackType | None, program: Path) -> None:
    """Raise an error if it was the program that failed, not its test."""
    for frame, line in walk_tb(traceback):
        if frame.f_code.co_filename == str(program):
            message = "the edited program fails by itself, before its test"
            raise Problem(program, line, message)


def shortened(message: str) -> str:
    """Return the head of a message, without what differs at every run."""
    head, _, _ = message.strip().partition("\n\n")
    return head if len(head) <= LONGEST else f"{head[:LONGEST]} …"


def changes(snippet: Snippet) -> tuple[list[str], int]:
    """Return an edit as lines with ``-`` and ``+``, and where it begins."""
    old, new = text_of(snippet.path).splitlines(), snippet.text.splitlines()
    lines, first = [], 0
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            lines += [f"-{line}" for line in old[a:b] if line.strip()]
            lines += [f"+{line}" for line in new[c:d] if line.strip()]
            first = first or a + 1
    return lines, first


def properties_of_inputs(inputs: tuple[object, ...]) -> list[tuple[str, str]]:
    """Return what is to be recorded: the edit, its cell, other inputs."""
    found = []
    for each in inputs:
        if isinstance(each, Snippet):
            lines, first = changes(each)
            if not lines:
                continue
            cells = Snippet.read(each.path).cells().values()
            before = [cell.name for cell in cells if cell.line <= first]
            found.append(("edit", "\n".join(lines)))
            found += [("edited", name) for name in before[-1:]]
        else:
            found.append(("input", f"{each!r}"))
    return found
