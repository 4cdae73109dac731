"""Names of values: what a case is called that hands one to its test.

pytest asks this module for the names, so each result of this build depends on
it; none depends on what puts the names into words.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import FunctionType

from extensions.core.files import python_of

NAME = r"[\w ,.:()\[\]{}='+-]"  # of no address, which each process has anew
_SHORT = re.compile(rf"{NAME}{{1,40}}")


def name_of_value(value: object) -> str | None:
    """Return what names a value that a case hands to its test.

    None, for what pytest names well, and for what has no short name that is
    the same in each process.
    """
    if isinstance(value, str | bytes | complex | float | int | set | None):
        return None
    if isinstance(value, FunctionType) and value.__name__ == "<lambda>":
        name = _returned(value)
    elif hasattr(value, "__name__"):
        return None
    elif isinstance(value, dict) and all(isinstance(k, str) for k in value):
        name = ", ".join(f"{key}={each!r}" for key, each in value.items())
    else:
        name = repr(value).removeprefix("torch.")
    return name if _SHORT.fullmatch(name) else None


def _returned(function: FunctionType) -> str:
    """Return what a lambda returns; "" for one that shares its line."""
    code = function.__code__
    found = [
        ast.unparse(node.body)
        for node in ast.walk(python_of(Path(code.co_filename)))
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    return found[0] if len(found) == 1 else ""
