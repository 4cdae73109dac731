"""Names of cases: what pytest calls the values that one hands to its test."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import FunctionType

import pytest

from extensions.core.reading import python_of

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
