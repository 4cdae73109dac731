"""A program that prints errors, and how tests run programs and read errors."""

import pytest

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
