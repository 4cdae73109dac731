"""End a command that meets a problem in one line: which file, and what."""

from __future__ import annotations

import sys
from collections.abc import Callable

from extensions.core.files import Problem

_STATUS = 2  # as for wrong arguments: 1 is what a command has found out


def in_one_line(main: Callable[[], None]) -> None:
    """Run a command; a problem is what it prints last."""
    try:
        main()
    except Problem as problem:
        print(problem, file=sys.stderr)
        sys.exit(_STATUS)
