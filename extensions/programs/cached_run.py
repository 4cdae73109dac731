"""Programs of the guide that several tests look at, and so run once.

For tests that change nothing in what they get. Imports neither Sphinx nor
torch.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

from extensions.programs.snippet import Snippet


@cache
def after(snippet: Snippet, *names: str) -> SimpleNamespace:
    """Run some cells of a snippet without the others, once for all tests."""
    return snippet.only(*names).after(names[-1])
