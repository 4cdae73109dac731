"""A program that prints errors, and how tests run programs and read errors."""

from functools import cache

import pytest
import torch

from extensions.programs.snippet import (
    Variables,
    _noted,
    compiled,
    fresh_start,
    printed,
    ran,
)

PROGRAM = """
# %% ask
def ask(call):
    try:
        call()
    except ValueError as error:
        print("said:", error)


# %% fails
print("first")
ask(lambda: int("x"))

# %% works
print("no error")

# %% handles
try:
    [][1]
except IndexError as error:
    print(type(error).__name__, error)
"""


def after(snippet, *cells):
    """Run these cells alone, and return the variables after the last."""
    return snippet.only(*cells).after(cells[-1])


def resumed(snippet, *steps):
    """Run these cells alone, each step once behind the same steps.

    So programs that differ only in later cells share what comes before, in
    which these must change nothing. A step is a cell, or a tuple of cells of
    which a later one changes what an earlier one made, or is used by it.
    """
    known = snippet.cells()
    names = [(each,) if isinstance(each, str) else each for each in steps]
    cells = tuple(tuple(known[name] for name in each) for each in names)
    variables, outputs, _ = _resumed(snippet.path, cells)
    printed.append(outputs)
    return Variables(**variables)


@cache
def _resumed(path, steps):
    """Return the variables, what was printed, and the state of the seed."""
    *before, cells = steps
    variables, outputs = {"__name__": "__main__"}, {}
    if before:
        variables, outputs, state = _resumed(path, tuple(before))
        torch.set_rng_state(state)
    variables = {**variables}
    printed.append({})
    for cell in cells:
        ran.add(cell.name)
        with fresh_start(), _noted(cell.name):
            exec(compiled(cell, path), variables)
    outputs = {**outputs, **printed.pop()}
    return variables, outputs, torch.get_rng_state()


def raised_in(snippet, name):
    """Return the error that a cell catches and prints, or nothing."""
    cell = snippet.cell(name)
    source = cell.source.replace("    print(error)", "    caught = error")
    run = snippet.edit(cell.source, source).after(name)
    return getattr(run, "caught", None)


def error_of(call, *inputs):
    """Return the text of the RuntimeError that a call raises: empty if none.

    Any other error passes through.
    """
    try:
        call(*inputs)
    except RuntimeError as error:
        return str(error)
    return ""


def raised_by(call):
    """Return the text of the RuntimeError that a call has to raise."""
    with pytest.raises(RuntimeError) as met:
        call()
    return str(met.value)
