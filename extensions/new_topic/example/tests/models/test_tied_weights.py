"""The claims of docs/models/tied_weights.md."""

import pytest
from torch import nn


def weights(model):
    """Return the parameters that are no biases."""
    return [each for each in model.parameters() if each.dim() == 2]


def test_a_tied_weight_counts_once(snippet):
    model = snippet.after("do-this").model

    assert len(weights(model)) == 1


@pytest.mark.parametrize("count", [3, 10], ids="{} layers".format)
def test_a_tied_weight_counts_once__also_in(count):
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(count)])
    for layer in model:
        layer.weight = model[0].weight

    assert len(weights(model)) == 1


def test_a_tied_weight_counts_once__but_not_a_copy(snippet, fails):
    old = "= model[0].weight"
    edited = snippet.edit(old, "= nn.Parameter(model[0].weight.clone())")
    fails(test_a_tied_weight_counts_once, edited)
