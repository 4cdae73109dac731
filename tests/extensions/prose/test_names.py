"""Names of torch in code and in their list, and terms in some words."""

from importlib import import_module
from itertools import accumulate
from pkgutil import resolve_name

import pytest

from extensions.core.files import Problem
from extensions.core.topics import ROOT
from extensions.prose.names import (
    USUAL,
    bound_in,
    forms_of,
    imports_of,
    linked,
    pattern_of,
    read_names,
    terms_of,
    uses_in,
)


def test_terms_are_found_whole_one_or_several_the_longest_first(tmp_path):
    assert not pattern_of(forms_of(terms_of(tmp_path))).search("leaf")
    terms = ("step", "step size", "Leaf", "axis", "batch")
    forms = forms_of(terms)
    words = "Leafs, a step size, step-wise, a stepping step, axes, batches."

    found = pattern_of(forms).findall(words)

    assert found == ["Leafs", "step size", "step", "axes", "batches"]
    assert [forms[each.lower()] for each in found] == [
        "Leaf",
        "step size",
        "step",
        "axis",
        "batch",
    ]


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
    """A list of some names."""
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
        modules = accumulate(name.split("."), "{}.{}".format)
        return any(map(needs_another, modules))
    return True


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


def test_a_member_is_that_of_a_class_or_of_an_owner_that_is_named(listed):
    names = read_names(listed.parents[1])

    assert names.member("loss.item") == "torch.Tensor.item"
    assert names.member("optimizer.step") == "torch.optim.Optimizer.step"
    assert names.member("schedule.step") is None
    assert names.member("rows.stack") is None


@pytest.mark.parametrize("lost", ["base =", "[pages]", '"torch.stack" ='])
def test_a_broken_list_is_a_problem(listed, lost):
    listed.write_text(LIST.replace(lost, lost.replace("a", "o")))

    with pytest.raises(Problem, match=r"write base|has no torch\.stack"):
        read_names(listed.parents[1])


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


def test_a_token_is_cut_where_a_link_begins_or_ends():
    html = (
        '<pre><span></span><span class="kd">@torch</span>'
        '<span class="o">.</span><span class="n">no_grad</span>() &lt; x</pre>'
    )

    assert linked(html, []) == html
    assert linked(html, [(1, 14, "a?b&c"), (19, 20, "d")]) == (
        '<pre><span></span><span class="kd">@</span>'
        '<a class="api reference external" href="a?b&amp;c">'
        '<span class="kd">torch</span><span class="o">.</span>'
        '<span class="n">no_grad</span></a>() &lt; '
        '<a class="api reference external" href="d">x</a></pre>'
    )


def test_a_link_inside_of_an_emphasized_line_ends_inside_of_it():
    line = '<span class="hll">a<span class="o">.</span>b()\n</span>c'

    assert linked(line, [(2, 3, "b")]) == (
        '<span class="hll">a<span class="o">.</span>'
        '<a class="api reference external" href="b">b</a>()\n</span>c'
    )
