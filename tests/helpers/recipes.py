"""What tests of recipes do that have settings and take arguments."""

import io
import sys
from contextlib import contextmanager, redirect_stderr
from unittest.mock import patch

import pytest
import torch

from extensions.evidence.counterexamples import no_error

OPTIONS = "import argparse\n"

# A file of a reader with a model, pairs of an input and a target, and a loss;
# a file beside it says how many pairs there are.
PAIRS = "COUNT = 21\n"
MODEL = """
import my_pairs
import torch
from torch import nn
from torch.nn import functional as F


def build():
    calls.append("build")
    data = [(torch.rand(3), number % 2) for number in range(my_pairs.COUNT)]
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    return model, data, loss_of


def loss_of(outputs, labels):
    calls.append(tuple(outputs.shape))
    return F.cross_entropy(outputs, labels)


calls = []
"""

# The same with a lazy layer, with dicts as inputs, and with dicts as targets.
LAZY = MODEL.replace("nn.Linear(3, 5)", "nn.LazyLinear(5)")
DICT = "({'x': torch.rand(3)}, number % 2)"
NO_TENSORS = {
    "my_dict.py": MODEL.replace("(torch.rand(3), number % 2)", DICT),
    "my_dicts.py": MODEL.replace(", number % 2)", ", {'y': number % 2})"),
}

# Files without a function build() that returns; the last one is not there.
BROKEN = {
    "my_nothing.py": "",
    "my_mistake.py": "def build(: return [1]",
    "my_error.py": "def build(*_): raise RuntimeError('no\\ndisk\\n')",
    "my_none.py": None,
}


def given(snippet, **constants):
    """Return a program with other constants."""
    lines = "".join(f"{key} = {value!r}\n" for key, value in constants.items())
    return snippet.edit(OPTIONS, f"{OPTIONS}{lines}")


def as_script(snippet):
    """Return a program as started as a script, and not in a notebook."""
    return snippet.edit(OPTIONS, f"{OPTIONS}__file__ = 1\n")


def constants(snippet, names):
    """Return constants as a program sets them before it looks at arguments."""
    found = vars(snippet.after("settings"))
    return {name: found[name] for name in names}


def told(program, words, names):
    """Return constants of a program that is started with some arguments."""
    with patch("sys.argv", ["recipe.py", *words]), no_error():
        try:
            found = vars(program.after("options"))
        except SystemExit as stop:
            raise ValueError(f"refused: {words}") from stop
    return {name: found[name] for name in names}


def check_arguments(snippet, arguments):
    """Check that each argument sets its constant in a script, and no other.

    They are by name of their constant: what to write, and what it then is.
    """
    script, expected = as_script(snippet), constants(snippet, arguments)
    assert told(script, [], arguments) == expected
    for name, (words, value) in arguments.items():
        assert expected[name] != value
        changed = expected | {name: value}
        assert told(script, words, arguments) == changed
        assert told(snippet, words, arguments) == expected


def check_refused(snippet, cases):
    """Check that a script ends in one line that names an argument's bounds.

    Each case is what to write; its first word is the argument.
    """
    for words in cases:
        said = io.StringIO()
        with (
            patch("sys.argv", ["recipe.py", *words]),
            redirect_stderr(said),
            pytest.raises(SystemExit) as caught,
        ):
            as_script(snippet).after("options")
        assert caught.value.code == 2
        line = said.getvalue().splitlines()[-1]
        assert line.startswith("recipe.py: error: ")
        assert words[0] in line


def written(folder, text=MODEL, name="my_model.py"):
    """Write a file of a reader; return its path, as a text."""
    (folder / "my_pairs.py").write_text(PAIRS, encoding="utf-8")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@contextmanager
def no_line():
    """Fail the test if a program ends, be it in one line without a traceback.

    Without the traceback, nobody could say what the test then says.
    """
    with no_error():
        try:
            yield
        finally:
            vars(sys).pop("tracebacklimit", None)


def check_named(start, folder, files=BROKEN):
    """Check that a program names each file that fails, in one line.

    ``start`` runs it with the path of one of them.
    """
    for name, text in files.items():
        path = str(folder / name)
        if text is not None:
            written(folder, text, name)
        with pytest.raises(Exception, match=r"\S") as caught:
            start(path)
        assert vars(sys).pop("tracebacklimit", None) == 0
        said = str(caught.value)
        assert said.startswith(f"{path}: ")
        assert "\n" not in said
        assert said.rpartition(": ")[2]
        assert text != "" or "has no " in said  # rather than a KeyError


def same(one, other):
    """Return whether two nests of tensors, numbers and texts are equal."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same(one[key], other[key]) for key in one
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other
