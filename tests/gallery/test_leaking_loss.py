"""The claims of gallery/leaking_loss.py."""

from itertools import pairwise

import pytest
import torch

LOSS, DETACH, ITEM = (
    "total += loss",
    "total += loss.detach()",
    "total += loss.item()",
)


def growth(counts):
    """Return by how much each count exceeds the one before it."""
    return [b - a for a, b in pairwise(counts)]


def test_the_sum_keeps_nodes_of_every_step(snippet):
    _, nodes, _ = snippet.after("train").trained[LOSS]

    [each_step] = set(growth(nodes))
    assert each_step > 0


def test_the_sum_keeps_nodes_of_every_step__but_not_detached(snippet, fails):
    edited = snippet.edit("lambda loss: loss,", "lambda loss: loss.detach(),")
    fails(test_the_sum_keeps_nodes_of_every_step, edited)


def test_the_sum_keeps_no_activation_after_backward(snippet):
    _, _, sizes = snippet.after("train").trained[LOSS]

    assert set(sizes) == {0}


def test_the_sum_keeps_no_activation_after_backward__but_if_retained(
    snippet, fails
):
    edited = snippet.edit("backward()", "backward(retain_graph=True)")
    fails(test_the_sum_keeps_no_activation_after_backward, edited)


def test_a_number_keeps_no_node(snippet):
    trained = snippet.after("train").trained

    assert set(trained[ITEM][1]) == {0}
    assert set(trained[DETACH][1]) == {0}


@pytest.mark.parametrize("cut", ["loss.item(),", "loss.detach(),"])
def test_a_number_keeps_no_node__but_the_tensor_does(snippet, cut, fails):
    edited = snippet.edit(f"lambda loss: {cut}", "lambda loss: loss * 1,")
    fails(test_a_number_keeps_no_node, edited)


def test_the_sum_keeps_the_activations_of_every_evaluation(snippet):
    run = snippet.after("evaluate")
    _, _, sizes = run.evaluated[LOSS]
    hidden = 256 * 128 * 4  # of the ReLU, float32
    output = 256 * 1 * 4  # of the last layer

    assert growth([0, *sizes]) == [hidden + output] * 30


def test_the_sum_keeps_the_activations_of_every_evaluation__but_not_cut(
    snippet, fails
):
    edited = snippet.edit("lambda loss: loss,", "lambda loss: loss.detach(),")
    fails(test_the_sum_keeps_the_activations_of_every_evaluation, edited)


def test_a_number_keeps_no_activation(snippet):
    evaluated = snippet.after("evaluate").evaluated

    assert set(evaluated[ITEM][2]) == {0}
    assert set(evaluated[DETACH][2]) == {0}


@pytest.mark.parametrize("cut", ["loss.item(),", "loss.detach(),"])
def test_a_number_keeps_no_activation__but_the_tensor_does(
    snippet, cut, fails
):
    edited = snippet.edit(f"lambda loss: {cut}", "lambda loss: loss * 1,")
    fails(test_a_number_keeps_no_activation, edited)


def test_the_three_totals_are_equal(snippet):
    totals = [
        total for total, _, _ in snippet.after("evaluate").evaluated.values()
    ]

    for total in totals:
        torch.testing.assert_close(
            float(total), float(totals[0]), rtol=1e-5, atol=0
        )


def test_the_three_totals_are_equal__but_not_if_one_is_scaled(snippet, fails):
    edited = snippet.edit("loss.item(),", "loss.item() * 1.001,")
    fails(test_the_three_totals_are_equal, edited)


def test_under_no_grad_even_the_tensor_keeps_nothing(snippet):
    _, nodes, sizes = snippet.after("no-grad").careful

    assert set(nodes) == {0}
    assert set(sizes) == {0}


def test_under_no_grad_even_the_tensor_keeps_nothing__but_not_without_it(
    snippet, fails
):
    edited = snippet.edit(
        "with torch.no_grad():\n    careful",
        "with torch.enable_grad():\n    careful",
    )
    fails(test_under_no_grad_even_the_tensor_keeps_nothing, edited)


def test_what_the_sum_keeps_dies_with_it(snippet):
    run = snippet.after("evaluate")

    assert run.evaluated[LOSS][2][-1] > 0
    assert run.count_bytes() == 0


def test_what_the_sum_keeps_dies_with_it__but_not_if_returned(snippet, fails):
    edited = snippet.edit(
        "return torch.as_tensor(total).item(), n", "return total, n"
    )
    fails(test_what_the_sum_keeps_dies_with_it, edited)


def test_the_mean_of_batch_means_is_not_the_mean(snippet):
    run = snippet.after("mean")

    assert abs(run.mean_of_means - run.whole) > 0.01 * run.whole


def test_the_mean_of_batch_means_is_not_the_mean__but_is_of_equal_sizes(
    snippet, fails
):
    edited = snippet.edit(
        "inputs.split(120), targets.split(120)",
        "inputs.split(64), targets.split(64)",
    )
    fails(test_the_mean_of_batch_means_is_not_the_mean, edited)


def test_weighting_by_size_gives_the_mean(snippet):
    run = snippet.after("mean")

    assert run.mean == pytest.approx(run.whole, rel=1e-5)


def test_weighting_by_size_gives_the_mean__but_without_it_does_not(
    snippet, fails
):
    edited = snippet.edit("len(x) * loss for", "loss * 256 / 3 for")
    fails(test_weighting_by_size_gives_the_mean, edited)
