"""Programs of the guide that several tests look at, and so run once.

For tests that change nothing in what they get. Imports neither Sphinx nor
torch.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

from extensions.programs.snippet import Snippet


def after(snippet: Snippet, *names: str) -> SimpleNamespace:
    """Run some cells of a snippet without the others, once for all tests.

    Programs that differ only in their other cells share one run.
    """
    return _after(snippet.only(*names), names[-1])


@cache
def _after(program: Snippet, last: str) -> SimpleNamespace:
    """Run a program to the end of a cell, once."""
    return program.after(last)
