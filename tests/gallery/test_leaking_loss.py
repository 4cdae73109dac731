"""The claims of gallery/leaking_loss.py."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from extensions.files.failures import edits

LOSS, DETACH, ITEM = (
    "total += loss",
    "total += loss.detach()",
    "total += loss.item()",
)
BASE = ("setup", "nodes", "outputs", "measure")
LAST = 256 * 4  # bytes of what the last layer gives out
EACH = 256 * 128 * 4 + LAST  # and the ReLU


def after(snippet, *cells):
    """Run these cells behind the first ones, and return their variables."""
    return snippet.only(*BASE, *cells).after(cells[-1])


def growth(counts):
    """Return by how much each count exceeds the one before it."""
    return [b - a for a, b in pairwise(counts)]


def counts_right(run):
    """Check what all numbers rest on: the counts of nodes and of bytes."""
    x = torch.ones(3, requires_grad=True)
    assert [run.count_nodes(each) for each in (1.0, x, x + 1, 2 * x + x)] == [
        0,
        0,
        2,
        3,
    ]
    run.outputs.clear()
    kept = run.model(run.readings)
    assert run.count_bytes() == EACH
    del kept
    assert run.count_bytes() == 0
    kept = run.model(run.readings).detach()
    assert run.count_bytes() == LAST == kept.nbytes


def test_the_sum_keeps_nodes_of_every_step(snippet):
    run = after(snippet, "train")
    _, nodes, _ = run.trained[LOSS]

    assert len(set(growth(nodes))) == 1
    assert 0 < nodes[0] < nodes[1]
    assert len(nodes) == 30
    counts_right(run)


def test_the_sum_keeps_nodes_of_every_step__but_not_detached(snippet, fails):
    edited = snippet.edit("lambda loss: loss,", "lambda loss: loss.detach(),")
    fails(test_the_sum_keeps_nodes_of_every_step, edited)


def test_the_sum_keeps_nodes_of_every_step__but_not_the_same(snippet, fails):
    edited = snippet.edit(
        "lambda loss: loss,", "lambda loss: loss * 1 if loss < 9 else loss,"
    )
    fails(test_the_sum_keeps_nodes_of_every_step, edited)


def test_the_sum_keeps_no_activation_after_backward(snippet):
    run = after(snippet, "train")
    _, nodes, sizes = run.trained[LOSS]

    assert set(sizes) == {0}
    assert nodes[0] > 0
    counts_right(run)


@edits(
    ("loss.backward()", "loss.backward(retain_graph=True)"),
    ("        if learn:\n", "        if learn and steps < 30:\n"),
)
def test_the_sum_keeps_no_activation_after_backward__but_not(
    snippet, fails, old, new
):
    fails(
        test_the_sum_keeps_no_activation_after_backward, snippet.edit(old, new)
    )


def test_a_number_keeps_no_node(snippet):
    run = after(snippet, "train", "evaluate")

    for found in (run.trained, run.evaluated):
        assert set(found[ITEM][1]) == {0}
        assert set(found[DETACH][1]) == {0}


CUTS = ("loss.item(),", "loss.detach(),")


@pytest.mark.parametrize("cut", CUTS)
def test_a_number_keeps_no_node__but_the_tensor_does(snippet, cut, fails):
    edited = snippet.edit(f"lambda loss: {cut}", "lambda loss: loss * 1,")
    fails(test_a_number_keeps_no_node, edited)


def test_the_sum_keeps_the_activations_of_every_evaluation(snippet):
    run = after(snippet, "train", "evaluate")
    _, _, sizes = run.evaluated[LOSS]

    assert growth([0, *sizes]) == [EACH] * 30
    counts_right(run)


@edits(
    ("lambda loss: loss,", "lambda loss: loss.detach(),"),
    ("way, learn=False) for", "way, learn=True) for"),
    ("nn.ReLU()", "nn.Identity()"),
)
def test_the_sum_keeps_the_activations_of_every_evaluation__but_not(
    snippet, fails, old, new
):
    fails(
        test_the_sum_keeps_the_activations_of_every_evaluation,
        snippet.edit(old, new),
    )


def test_a_number_keeps_no_activation(snippet):
    run = after(snippet, "train", "evaluate")

    for found in (run.trained, run.evaluated):
        assert set(found[ITEM][2]) == {0}
        assert set(found[DETACH][2]) == {0}
    counts_right(run)


@pytest.mark.parametrize("cut", CUTS)
def test_a_number_keeps_no_activation__but_the_tensor_does(
    snippet, cut, fails
):
    edited = snippet.edit(f"lambda loss: {cut}", "lambda loss: loss * 1,")
    fails(test_a_number_keeps_no_activation, edited)


def test_the_three_totals_are_equal(snippet):
    run = after(snippet, "train", "evaluate")
    totals = [total for total, _, _ in run.evaluated.values()]
    with torch.no_grad():
        errors = (run.model(run.readings) - run.temperatures).square()

    assert len(totals) == 3
    for total in totals:
        assert total == pytest.approx(30 * errors.mean().item(), rel=1e-5)


@pytest.mark.parametrize("cut", CUTS)
def test_the_three_totals_are_equal__but_not_if_one_is_scaled(
    snippet, fails, cut
):
    scaled = f"lambda loss: {cut[:-1]} * 1.001,"
    edited = snippet.edit(f"lambda loss: {cut}", scaled)
    fails(test_the_three_totals_are_equal, edited)


def test_under_no_grad_even_the_tensor_keeps_nothing(snippet):
    run = after(snippet, "train", "no-grad")
    _, nodes, sizes = run.careful

    assert nodes == [0] * 30
    assert sizes == [0] * 30
    counts_right(run)
    with torch.no_grad():
        _, nodes, sizes = run.measure(lambda loss: loss, learn=False, steps=3)
    assert (nodes, sizes) == ([0] * 3, [0] * 3)


def test_under_no_grad_even_the_tensor_keeps_nothing__but_not_without_it(
    snippet, fails
):
    edited = snippet.edit(
        "with torch.no_grad():\n    careful",
        "with torch.enable_grad():\n    careful",
    )
    fails(test_under_no_grad_even_the_tensor_keeps_nothing, edited)


def test_what_the_sum_keeps_dies_with_it(snippet):
    run = after(snippet, "train", "free")

    assert run.sizes[-1] == 30 * EACH
    assert run.left == run.count_bytes() == 0
    assert len(run.outputs) == 30 * 3


@edits(
    ("returned", "return torch.as_tensor(total).item(), n", "return total, n"),
    ("a second name", "        del loss\n", "        model.kept = [loss]\n"),
)
def test_what_the_sum_keeps_dies_with_it__but_not(snippet, fails, old, new):
    if new == "return total, n":
        snippet = snippet.edit("_, _, sizes = m", "total, _, sizes = m")
    fails(test_what_the_sum_keeps_dies_with_it, snippet.edit(old, new))


OWN = ("train", "own", "own-measured")


def test_an_attribute_of_ctx_survives_backward(snippet):
    run = after(snippet, *OWN)

    assert growth([0, *run.squared_sizes]) == [LAST] * 30
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run.Square.apply, x)
    assert [type(layer) for layer in run.model] == [
        nn.Linear,
        nn.ReLU,
        nn.Linear,
    ]


def test_an_attribute_of_ctx_survives_backward__but_not_saved(snippet, fails):
    edited = snippet.edit("ctx.x = x", "ctx.save_for_backward(x)").edit(
        "return 2 * ctx.x * slope",
        "[x] = ctx.saved_tensors\n        return 2 * x * slope",
    )
    fails(test_an_attribute_of_ctx_survives_backward, edited)


ANSWER = ("train", "evaluate", "judge", "choose")


def test_two_ways_keep_nothing_in_both_loops(snippet):
    run = after(snippet, *ANSWER)

    assert run.safe == [DETACH, ITEM]
    nothing = ([0] * 30, [0] * 30)
    for name in (DETACH, ITEM):
        assert run.trained[name][1:] == run.evaluated[name][1:] == nothing
    assert run.answers["training", LOSS] == "7 nodes a step"
    filled = f"{EACH} bytes a step, so 1 GiB holds {2**30 // EACH} steps"
    assert run.answers["evaluation", LOSS] == filled
    judge = run.judge
    assert judge([5, 5, 5], [9, 9, 9]) == judge([0] * 3, [0] * 3) == "nothing"
    assert judge([1, 4, 7], [9, 9, 9]) == "3 nodes a step"
    assert judge([1, 4, 7], [0, 2**20, 2**21]) == (
        "1048576 bytes a step, so 1 GiB holds 1024 steps"
    )


@edits(
    ("lambda loss: loss,", "lambda loss: loss.detach(),"),
    ("lambda loss: loss.item(),", "lambda loss: loss * 1,"),
    ("lambda loss: loss.detach(),", "lambda loss: loss * 1,"),
)
def test_two_ways_keep_nothing_in_both_loops__but_not(
    snippet, fails, old, new
):
    fails(test_two_ways_keep_nothing_in_both_loops, snippet.edit(old, new))
