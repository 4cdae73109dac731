"""The claims of docs/models/tied_weights.md."""

import pytest
from torch import nn


def test_a_tied_weight_counts_once(snippet, listed=nn.Module.parameters):
    tied, wrapped = snippet.after("tie").model, snippet.after("wrap").model

    assert len(list(listed(tied))) == 1
    assert len(list(listed(wrapped))) == 2


@pytest.mark.parametrize("count", [2, 10], ids="{} decoders".format)
def test_a_tied_weight_counts_once__also_with(count):
    embedding = nn.Embedding(100, 8)
    model = nn.Sequential(embedding)
    for _ in range(count):
        model.append(nn.Linear(8, 100, bias=False))
        model[-1].weight = embedding.weight

    assert len(list(model.parameters())) == 1


def test_a_tied_weight_counts_once__but_not_wrapped(snippet, fails):
    """A new `nn.Parameter` of the same numbers is another weight."""
    old = "= embedding.weight"
    edited = snippet.edit(old, "= nn.Parameter(embedding.weight)")
    fails(test_a_tied_weight_counts_once, edited)


def test_a_tied_weight_counts_once__ends_in_a_state_dict(snippet, fails):
    """A `state_dict` holds a tied weight under each of its names."""
    listed = nn.Module.state_dict
    fails(test_a_tied_weight_counts_once, snippet, listed)
