"""Names of torch in code and in their list, and terms in some words."""

from contextlib import suppress
from pkgutil import resolve_name

import pytest

from extensions.core.files import Problem
from extensions.core.topics import ROOT
from extensions.prose.names import (
    forms_of,
    linked,
    pattern_of,
    read_names,
    terms_of,
)


def test_terms_are_found_whole_one_or_several_the_longest_first(tmp_path):
    assert not pattern_of(forms_of(terms_of(tmp_path))).search("leaf")
    terms = ("step", "step size", "Leaf", "axis", "batch")
    forms = forms_of(terms)
    words = "Leafs, a step size, step-wise, a stepping step, axes, batches."

    found = pattern_of(forms).findall(words)

    assert found == ["Leafs", "step size", "step", "axes", "batches"]
    meant = [forms[each.lower()] for each in found]
    assert meant == ["Leaf", "step size", "step", "axis", "batch"]


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


# What of torch needs a package that is not installed.
WITH_ANOTHER = "torch.utils.tensorboard"


def is_there(name):
    """Whether the torch that is installed has a name."""
    with suppress(ImportError, AttributeError):
        resolve_name(name)
        return True
    return name.startswith(WITH_ANOTHER)


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


def test_a_link_inside_of_an_emphasized_line_ends_inside_of_it():
    line = '<span class="hll">a<span class="o">.</span>b()\n</span>c'

    assert linked(line, [(2, 3, "b")]) == (
        '<span class="hll">a<span class="o">.</span>'
        '<a class="api reference external" href="b">b</a>()\n</span>c'
    )
