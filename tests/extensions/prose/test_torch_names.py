"""The names of torch: the list, and what stands in code."""

from importlib import import_module
from itertools import accumulate
from pkgutil import resolve_name

import pytest

from extensions.core.files import Problem
from extensions.core.topics import ROOT
from extensions.prose.lists import read_names
from extensions.prose.torch_uses import USUAL, bound_in, imports_of, uses_in

LIST = """base = "https://example.org/"
unlinked = ["torch.inf"]

[pages]
"torch.cuda" = "cuda.html#module-torch.cuda"
"torch.float32" = "types.html#float"
"torch.Tensor.item" = "item.html"
"torch.stack" = "stack.html"
"torch.optim.Optimizer.step" = "step.html"

[short]
item = "torch.Tensor.item"
stack = "torch.stack"
"optimizer.step" = "torch.optim.Optimizer.step"
"""


@pytest.fixture
def listed(tmp_path):
    path = tmp_path / "docs/torch_names.toml"
    path.parent.mkdir()
    path.write_text(LIST)
    return path


def is_there(name):
    """Whether the torch that is installed has a name.

    A part of torch that needs another package, such as TensorBoard, is there
    even if that package is not.
    """
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return any(map(needs_another, accumulate(name.split("."), join)))
    return True


def join(module, name):
    """Return the name of a part of a module."""
    return f"{module}.{name}"


def needs_another(module):
    """Whether a module of torch asks for a package that is missing."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        return not error.name.startswith("torch")
    return False


def test_each_name_is_in_the_torch_that_is_installed():
    pages = read_names(ROOT).pages

    assert "torch.float32" in pages
    assert [name for name in pages if not is_there(name)] == []
    assert not is_there("torch.nothing")


def test_a_name_is_the_longest_that_is_listed(listed):
    names = read_names(listed.parents[1])

    assert names.known("torch.float32.itemsize") == "torch.float32"
    assert names.known("torch.cuda") == "torch.cuda"
    assert names.known("torch.cuda.nothing") is None
    assert names.known("torch.inf") == "torch.inf"
    assert names.address("torch.stack") == "https://example.org/stack.html"


def test_a_member_is_that_of_a_class_or_of_an_owner_that_is_named(listed):
    names = read_names(listed.parents[1])

    assert names.member("loss.item") == "torch.Tensor.item"
    assert names.member("optimizer.step") == "torch.optim.Optimizer.step"
    assert names.member("schedule.step") is None
    assert names.member("rows.stack") is None


def test_without_a_list_nothing_is_known(tmp_path):
    assert read_names(tmp_path).known("torch.float32") is None


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("base =", "root =", 1, "write base"),
        ("[pages]", "[page]", 1, "write base"),
        (
            'item = "torch.Tensor.item"',
            'item = "torch.lost"',
            12,
            r"item: \[pages\] has no torch.lost",
        ),
    ],
)
def test_a_broken_list_says_where(listed, old, new, line, said):
    listed.write_text(LIST.replace(old, new))

    with pytest.raises(Problem, match=said) as caught:
        read_names(listed.parents[1])
    assert caught.value.line == line


CODE = '''import numpy as np
from torch import nn as layers
import torch.nn.functional as F


def train(rate):
    """Grüße."""; layer = layers.Linear(2, 1)
    loss = F.mse_loss(layer(np.ones(2)), rate).item()
    print(f"{layers.Tanh}")
'''


def test_imports_say_what_a_name_in_code_is():
    imports = imports_of(CODE)
    uses = uses_in(CODE, imports)

    assert imports == {
        "np": "numpy",
        "layers": "torch.nn",
        "F": "torch.nn.functional",
    }
    assert [(each.name, each.is_member) for each in uses] == [
        ("torch.nn.Linear", False),
        ("torch.nn.functional.mse_loss", False),
        (".item", True),
    ]
    words = [CODE[each.start : each.ends[-1]] for each in uses]
    assert words == ["layers.Linear", "F.mse_loss", "item"]


def test_what_ends_behind_a_listed_name_is_no_part_of_it():
    [use] = uses_in("torch.float32.itemsize", USUAL)

    assert use.end_of("torch.float32") == len("torch.float32")
    assert use.end_of("torch.float32.itemsize") == len(use.name)


def test_code_says_which_names_have_a_meaning_of_their_own():
    assert bound_in(CODE) == {"train", "rate", "layer", "loss"}
    assert bound_in("no code") == set()
