"""The claims of gallery/leaking_loss.py."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits
from tests.helpers.recipes import (
    MODEL,
    check_arguments,
    check_named,
    check_refused,
    given,
    no_line,
    written,
)

pytest.importorskip("tqdm", reason="tqdm is not installed")
pytestmark = pytest.mark.usefixtures("nothing_stays")

LOSS, DETACH, ITEM = (
    "total += loss",
    "total += loss.detach()",
    "total += loss.item()",
)
FIRST = ("settings", "options", "build", "one-line", "yours")
BASE = (*FIRST, "nodes", "outputs", "measure")
ARGUMENTS = {
    "MODEL": (["--model", "my_model.py"], "my_model.py"),
    "BATCH": (["--batch", "7"], 7),
    "STEPS": (["--steps", "9"], 9),
}
# What a claim leaves open: the samples of a step, and the steps.
OTHERS = ({"BATCH": 1, "STEPS": 2}, {"BATCH": 7, "STEPS": 50})
others = pytest.mark.parametrize("settings", OTHERS)


def after(snippet, *cells):
    """Run these cells behind the first ones, and return their variables."""
    return snippet.only(*BASE, *cells).after(cells[-1])


def last(run):
    """Return the bytes of what the last layer gives out in a step."""
    return run.BATCH * 4


def each(run):
    """Return the bytes of what the ReLU and the last layer give out."""
    return run.BATCH * 128 * 4 + last(run)


def growth(counts):
    """Return by how much each count exceeds the one before it."""
    return [b - a for a, b in pairwise(counts)]


def counts_right(run):
    """Check what all numbers rest on: the counts of nodes and of bytes."""
    x = torch.ones(3, requires_grad=True)
    numbers = (1.0, x, x + 1, 2 * x + x)
    assert [run.count_nodes(number) for number in numbers] == [0, 0, 2, 3]
    run.outputs.clear()
    kept = run.model(run.inputs)
    assert run.count_bytes() == each(run)
    assert [not place.expired() for place in run.outputs] == [0, 1, 1]
    del kept
    assert run.count_bytes() == 0
    kept = run.model(run.inputs).detach()
    assert run.count_bytes() == last(run) == kept.nbytes


# -- Settings ----------------------------------------------------------------


def test_each_argument_sets_its_constant(snippet):
    check_arguments(snippet, ARGUMENTS)


@edits(
    ("default=BATCH", "default=9"),
    ("MODEL, BATCH, STEPS = options", "MODEL, STEPS, BATCH = options"),
    ('if "__file__" in globals():', "if True:"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_a_number_out_of_bounds_is_refused(snippet):
    check_refused(snippet, [["--batch", "0"], ["--steps", "1"]])


@edits(
    ("options.batch < 1", "options.batch < 0"),
    ("options.steps < 2", "options.steps < 1"),
    ('"--batch is at least 1, and', '"the batch is at least 1, and'),
)
def test_a_number_out_of_bounds_is_refused__but_not_with(
    snippet, old, new, fails
):
    fails(test_a_number_out_of_bounds_is_refused, snippet.edit(old, new))


# -- A reader's model --------------------------------------------------------


def test_a_model_of_yours_is_counted(snippet, tmp_path):
    path = written(tmp_path, MODEL.replace("nn.Tanh()", "nn.Flatten()"))
    with no_line():
        edited = given(snippet, MODEL=path, BATCH=8, STEPS=3)
        run = after(edited, *ANSWER)

    assert run.build.__globals__.get("calls") == ["build", *[(8, 2)] * 18]
    assert run.targets.tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    # The output of the first layer, which the second flattens, is kept by the
    # third.
    _, _, sizes = run.evaluated[LOSS]
    assert growth(sizes)[-1] >= 8 * 5 * 4
    assert growth(sizes)[-1] <= 8 * (5 + 2) * 4
    before = sum(each.abs().sum() for each in run.model.parameters())
    run.measure(run.ways[LOSS], learn=True)
    after_it = sum(each.abs().sum() for each in run.model.parameters())
    assert before != after_it


@edits(
    ("    if MODEL:\n", "    if False:\n"),
    ("loss_of(model(inputs), targets)", "model(inputs).square().mean()"),
    ("DataLoader(data, BATCH)", "DataLoader(data, BATCH, shuffle=True)"),
    (
        "outputs[StorageWeakRef(storage)] =",
        "outputs[StorageWeakRef(storage), layer] =",
    ),
)
def test_a_model_of_yours_is_counted__but_not_with(
    snippet, tmp_path, old, new, fails
):
    fails(test_a_model_of_yours_is_counted, snippet.edit(old, new), tmp_path)


def test_a_file_that_fails_is_named(snippet, tmp_path):
    def start(path):
        given(snippet, MODEL=path).after("yours")

    check_named(start, tmp_path)


@edits(
    ('(f"{path}: {type', '(f"{type'),
    ('.rpartition("\\n")[2]', ""),
    ("sys.tracebacklimit = 0", "sys.tracebacklimit = 9"),
)
def test_a_file_that_fails_is_named__but_not_with(
    snippet, tmp_path, old, new, fails
):
    fails(test_a_file_that_fails_is_named, snippet.edit(old, new), tmp_path)


# -- What is kept ------------------------------------------------------------


def test_the_sum_keeps_nodes_of_every_step(snippet):
    run = after(snippet, "train")
    _, nodes, _ = run.trained[LOSS]

    assert len(set(growth(nodes))) == 1
    assert 0 < nodes[0] < nodes[1]
    assert len(nodes) == run.STEPS
    counts_right(run)


@others
def test_the_sum_keeps_nodes_of_every_step__also_with(snippet, settings):
    test_the_sum_keeps_nodes_of_every_step(given(snippet, **settings))


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


@others
def test_the_sum_keeps_no_activation_after_backward__also_with(
    snippet, settings
):
    test_the_sum_keeps_no_activation_after_backward(given(snippet, **settings))


@edits(
    ("loss.backward()", "loss.backward(retain_graph=True)"),
    ("        if learn:\n", "        if learn and STEPS < 30:\n"),
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


@others
def test_a_number_keeps_no_node__also_with(snippet, settings):
    test_a_number_keeps_no_node(given(snippet, **settings))


CUTS = ("loss.item(),", "loss.detach(),")


@pytest.mark.parametrize("cut", CUTS)
def test_a_number_keeps_no_node__but_the_tensor_does(snippet, cut, fails):
    edited = snippet.edit(f"lambda loss: {cut}", "lambda loss: loss * 1,")
    fails(test_a_number_keeps_no_node, edited)


def test_the_sum_keeps_the_activations_of_every_evaluation(snippet):
    run = after(snippet, "train", "evaluate")
    _, _, sizes = run.evaluated[LOSS]

    assert growth([0, *sizes]) == [each(run)] * run.STEPS
    counts_right(run)


@others
def test_the_sum_keeps_the_activations_of_every_evaluation__also_with(
    snippet, settings
):
    test_the_sum_keeps_the_activations_of_every_evaluation(
        given(snippet, **settings)
    )


@edits(
    ("lambda loss: loss,", "lambda loss: loss.detach(),"),
    ("way, learn=False) for", "way, learn=True) for"),
    ("nn.ReLU()", "nn.GELU()"),
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


@others
def test_a_number_keeps_no_activation__also_with(snippet, settings):
    test_a_number_keeps_no_activation(given(snippet, **settings))


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
        errors = (run.model(run.inputs) - run.targets).square()

    assert len(totals) == 3
    for total in totals:
        expected = run.STEPS * errors.mean().item()
        assert total == pytest.approx(expected, rel=1e-5)


@others
def test_the_three_totals_are_equal__also_with(snippet, settings):
    test_the_three_totals_are_equal(given(snippet, **settings))


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

    assert nodes == sizes == [0] * run.STEPS
    counts_right(run)


@others
def test_under_no_grad_even_the_tensor_keeps_nothing__also_with(
    snippet, settings
):
    test_under_no_grad_even_the_tensor_keeps_nothing(
        given(snippet, **settings)
    )


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

    assert run.sizes[-1] == run.STEPS * each(run)
    assert run.left == run.count_bytes() == 0
    assert len(run.outputs) == run.STEPS * 3


@others
def test_what_the_sum_keeps_dies_with_it__also_with(snippet, settings):
    test_what_the_sum_keeps_dies_with_it(given(snippet, **settings))


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

    assert growth([0, *run.squared_sizes]) == [last(run)] * run.STEPS
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run.Square.apply, x)
    assert [type(layer) for layer in run.model] == [
        nn.Linear,
        nn.ReLU,
        nn.Linear,
    ]


@others
def test_an_attribute_of_ctx_survives_backward__also_with(snippet, settings):
    test_an_attribute_of_ctx_survives_backward(given(snippet, **settings))


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
    nothing = ([0] * run.STEPS, [0] * run.STEPS)
    for name in (DETACH, ITEM):
        assert run.trained[name][1:] == run.evaluated[name][1:] == nothing
    assert run.answers["training", LOSS] == "7 nodes a step"
    size = each(run)
    filled = f"{size} bytes a step, so 1 GiB holds {2**30 // size} steps"
    assert run.answers["evaluation", LOSS] == filled
    judge = run.judge
    assert judge([5, 5, 5], [9, 9, 9]) == judge([0] * 3, [0] * 3) == "nothing"
    assert judge([1, 4, 7], [9, 9, 9]) == "3 nodes a step"
    assert judge([1, 4, 7], [0, 2**20, 2**21]) == (
        "1048576 bytes a step, so 1 GiB holds 1024 steps"
    )


@others
def test_two_ways_keep_nothing_in_both_loops__also_with(snippet, settings):
    test_two_ways_keep_nothing_in_both_loops(given(snippet, **settings))


@edits(
    ("lambda loss: loss,", "lambda loss: loss.detach(),"),
    ("lambda loss: loss.item(),", "lambda loss: loss * 1,"),
    ("lambda loss: loss.detach(),", "lambda loss: loss * 1,"),
)
def test_two_ways_keep_nothing_in_both_loops__but_not(
    snippet, fails, old, new
):
    fails(test_two_ways_keep_nothing_in_both_loops, snippet.edit(old, new))


KEEPING = """

class Keeping(nn.Tanh):
    kept = []

    def forward(self, inputs):
        self.kept.append(super().forward(inputs))
        return self.kept[-1]


class UntilBackward(Keeping):
    def forward(self, inputs):
        outputs = super().forward(inputs)
        outputs.register_hook(lambda slope: self.kept.clear())
        return outputs


class Named(Keeping):
    def forward(self, inputs):
        return {"output": super().forward(inputs)}


class Unnamed(nn.Module):
    def forward(self, outputs):
        return outputs["output"] * 1
"""


def test_the_conclusion_may_be_not_here(snippet, tmp_path, capsys):
    for layers, safe in (
        ("nn.Tanh()", [DETACH, ITEM]),
        ("Keeping()", []),
        ("nn.Sequential(Keeping())", []),
        ("UntilBackward()", []),
        ("Named(), Unnamed()", []),
    ):
        text = MODEL.replace("nn.Tanh()", layers) + KEEPING
        capsys.readouterr()
        path = written(tmp_path, text)
        run = after(given(snippet, MODEL=path, STEPS=3), *ANSWER)
        assert run.safe == safe
        assert ("Not here: " in capsys.readouterr().out) is (not safe)


@edits(
    ("if safe:", "if True:"),
    ("if safe:", "if False:"),
    ('"nothing" for loop in loops', '"nothing" for loop in ["evaluation"]'),
)
def test_the_conclusion_may_be_not_here__but_not_with(
    snippet, tmp_path, capsys, old, new, fails
):
    edited = snippet.edit(old, new)
    if "evaluation" in new:  # as if a model that keeps nothing kept its loss
        edited = edited.edit("lambda loss: loss.item(),", "torch.neg,")
    fails(test_the_conclusion_may_be_not_here, edited, tmp_path, capsys)
