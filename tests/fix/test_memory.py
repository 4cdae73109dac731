"""The claims of docs/fix/memory.md."""

import pytest
import torch
from torch.nn import functional as F

from extensions.evidence.counterexamples import no_error


def test_one_shape_keeps_the_errors_small(snippet):
    with no_error():
        errors = snippet.after("by-mistake").errors

    assert errors.shape == (10_000_000,)


@pytest.mark.parametrize("count", [2, 64, 1000], ids="{} samples".format)
def test_one_shape_keeps_the_errors_small__also_with(count):
    predictions, targets = torch.zeros(count, 1), torch.zeros(count)

    assert (predictions - targets).shape == (count, count)
    assert (predictions - targets[:, None]).shape == (count, 1)
    assert F.l1_loss(
        predictions.squeeze(1), targets, reduction="none"
    ).shape == (count,)


def test_one_shape_keeps_the_errors_small__but_not_crossed(snippet, fails):
    """A column minus a row has an error for each pair of samples."""
    edited = snippet.edit("predictions.squeeze(1) - ", "predictions - ")
    fails(test_one_shape_keeps_the_errors_small, edited)
