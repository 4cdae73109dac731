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
BASE = (*FIRST, "nodes", "made", "measure")
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
    return snippet.only(*BASE, *cells).after((*BASE, *cells)[-1])


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
    run.forward.allocated.clear()
    with run.forward:
        kept = run.model(run.inputs)
    places = run.forward.allocated
    assert run.forward.count_bytes() == each(run)
    assert [not place.expired() for place in places] == [0, 1, 1]
    del kept
    assert run.forward.count_bytes() == 0
    with run.forward:
        kept = run.model(run.inputs).detach()
    assert run.forward.count_bytes() == last(run) == kept.nbytes


# What a reader may build: each is a model, the shape of an input, and a loss.
BUILDS = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(9, 500))
        self.v = nn.Parameter(torch.randn(500, 1))

    def forward(self, x):
        return F.gelu(x @ self.w) @ self.v


class Recurrent(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(9, 30)

    def forward(self, x):
        return self.layer(x).relu_().view(-1, 10, 3).transpose(1, 2)


class Into(nn.Linear):
    def forward(self, x):
        if not hasattr(self, "place"):
            self.place = torch.empty_like(x)
        return super().forward(torch.mul(x, 2, out=self.place))


class Gaps(nn.Linear):
    def forward(self, x):
        wide = torch.empty_strided(x.shape, (40, 1))
        return super().forward(wide.copy_(x))


def build():
    model, shape = {}
    data = [(torch.randn(shape), torch.zeros(())) for _ in range(40)]
    return model, data, lambda outputs, _: outputs.square().mean()
"""
YOURS = {
    "an LSTM": "Recurrent(9, 32, 2, batch_first=True), (7, 9)",
    "a transformer": (
        "nn.TransformerEncoderLayer(8, 2, batch_first=True), (5, 8)"
    ),
    "functions": "Functional(), (9,)",
    "weight_norm": "weight_norm(nn.Linear(9, 40)), (9,)",
    "BatchNorm and dropout": (
        "nn.Sequential(nn.Linear(9, 40), nn.BatchNorm1d(40), nn.Dropout()), "
        "(9,)"
    ),
    "a convolution": "nn.Conv2d(3, 8, 3), (3, 20, 20)",
    "a lazy layer": "nn.Sequential(nn.LazyLinear(40), nn.GELU()), (9,)",
    "an operation in place": "InPlace(), (9,)",
    "a result in a place of its own": "Into(9, 30), (9,)",
    "rows with gaps": "Gaps(9, 30), (9,)",
    "a sum of one step": "nn.Linear(9, 1), (9,)",
}
yours = pytest.mark.parametrize("yours", YOURS.values(), ids=YOURS)


def built(snippet, tmp_path, model, **constants):
    """Return the program with a model of a reader."""
    path = written(tmp_path, BUILDS.replace("{}", model))
    return given(snippet, MODEL=path, **({"BATCH": 8, "STEPS": 4} | constants))


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
    """With `default=9`, `BATCH` changes without its argument; the other edits
    swap values, or read arguments in a notebook.
    """
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
    """With `< 0`, a batch of 0 is accepted; other edits accept a single step,
    or do not name the argument.
    """
    fails(test_a_number_out_of_bounds_is_refused, snippet.edit(old, new))


# -- A reader's model --------------------------------------------------------


def test_a_model_of_yours_is_counted(snippet, tmp_path):
    path = written(tmp_path, MODEL.replace("nn.Tanh()", "nn.Flatten()"))
    with no_line():
        edited = given(snippet, MODEL=path, BATCH=8, STEPS=3)
        run = after(edited, *ANSWER)

    assert run.build.__globals__.get("calls") == ["build", *[(8, 2)] * 18]
    assert run.targets.tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    assert torch.equal(run.inputs[7], run.data[7][0])
    assert [type(layer) for layer in run.model] == [
        nn.Linear,
        nn.Flatten,
        nn.Linear,
    ]
    # The output of the first layer, which the second flattens, is kept by the
    # third, and log-probabilities by the loss.
    _, _, sizes = run.evaluated[LOSS]
    assert 8 * (5 + 2) * 4 <= growth(sizes)[-1] < 8 * (5 + 2 + 1) * 4
    before = sum(each.abs().sum() for each in run.model.parameters())
    run.measure(run.ways[LOSS], learn=True)
    after_it = sum(each.abs().sum() for each in run.model.parameters())
    assert before != after_it


@edits(
    ("    if MODEL:\n", "    if False:\n"),
    ("loss_of(model(inputs), targets)", "model(inputs).square().mean()"),
    ("DataLoader(data, BATCH)", "DataLoader(data, BATCH, shuffle=True)"),
    ("self.allocated[piece] = size", "self.allocated[piece] = 2 * size"),
)
def test_a_model_of_yours_is_counted__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """With `if False:`, your file is never read; the other edits ignore its
    loss, shuffle its samples, or double the bytes.
    """
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
    """Without `{path}`, the line does not name the file; the other edits show
    more lines.
    """
    fails(test_a_file_that_fails_is_named, snippet.edit(old, new), tmp_path)


# -- What is kept ------------------------------------------------------------


def test_each_node_counts_once(snippet, depth=3):
    run = after(snippet)
    joined = torch.ones(3, requires_grad=True)
    for _ in range(depth):
        joined = joined + joined

    assert run.count_nodes(joined) == depth + 1
    for _ in range(depth):
        joined = joined + torch.ones(3, requires_grad=True)
    assert run.count_nodes(joined) == 3 * depth + 1


@pytest.mark.parametrize("depth", [1, 100], ids="{} additions".format)
def test_each_node_counts_once__also_after(snippet, depth):
    test_each_node_counts_once(snippet, depth)


def test_each_node_counts_once__but_not_in_a_list(snippet, fails):
    """Without the check, a node is counted again on each path that leads to
    it.
    """
    edited = snippet.edit("found = set()", "found = []").edit(
        "found.add(node)", "found.append(node)"
    )
    edited = edited.edit("is not None and node not in found", "is not None")
    fails(test_each_node_counts_once, edited)


def lost(run, steps=5):
    """Return the bytes of some steps that the allocator does not get back."""
    total = 0.0
    with torch.profiler.profile(profile_memory=True) as profiler:
        for _ in range(steps):
            total += run.loss_of(run.model(run.inputs), run.targets)
    events = profiler.key_averages()
    everything = sum(event.self_cpu_memory_usage for event in events)
    return everything - total.nbytes


def test_the_bytes_are_those_of_the_allocator(snippet):
    run = after(snippet)
    run.model(run.inputs)  # a lazy layer makes its weights
    _, _, sizes = run.measure(lambda loss: loss, learn=False)

    assert lost(run, steps=5) == 5 * growth(sizes)[-1]
    assert growth(sizes)[-1] > 0
    assert len(set(growth([0, *sizes]))) == 1


@yours
def test_the_bytes_are_those_of_the_allocator__also_with(
    snippet, tmp_path, yours
):
    edited = built(snippet, tmp_path, yours)
    test_the_bytes_are_those_of_the_allocator(edited)


@edits(
    ("piece.nbytes() for", "piece.nbytes() // 2 for"),
    ("if piece not in given:", "if piece not in given and size > 2048:"),
    (
        "        with forward:\n            loss",
        "        if True:\n            loss",
    ),
)
def test_the_bytes_are_those_of_the_allocator__but_not(
    snippet, old, new, fails
):
    """With `// 2`, half of the bytes are missing; the other edits leave out
    small tensors, or all of them.
    """
    fails(test_the_bytes_are_those_of_the_allocator, snippet.edit(old, new))


def test_the_bytes_are_those_of_the_allocator__ends_for_sparse_tensors(
    snippet, tmp_path, fails
):
    """For sparse tensors: their bytes are not counted."""
    sparse = built(snippet, tmp_path, "Weighted(), (9,)")
    path = tmp_path / "my_model.py"
    path.write_text(path.read_text() + SPARSE)
    fails(test_the_bytes_are_those_of_the_allocator, sparse)


SPARSE = """

class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 9))

    def forward(self, x):
        return (x.to_sparse() * self.w).to_dense()
"""


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


@yours
def test_the_sum_keeps_nodes_of_every_step__also_in(snippet, tmp_path, yours):
    run = after(built(snippet, tmp_path, yours), "train")
    _, nodes, _ = run.trained[LOSS]
    assert min(growth([0, *nodes])) > 1


def test_the_sum_keeps_nodes_of_every_step__but_not_detached(snippet, fails):
    """With `loss.detach()`, the sum has no graph to keep."""
    edited = snippet.edit("lambda loss: loss,", "lambda loss: loss.detach(),")
    fails(test_the_sum_keeps_nodes_of_every_step, edited)


def test_the_sum_keeps_nodes_of_every_step__but_not_the_same(snippet, fails):
    """If only some steps multiply the loss by 1, they add more nodes than the
    others.
    """
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


@yours
def test_the_sum_keeps_no_activation_after_backward__also_in(
    snippet, tmp_path, yours
):
    run = after(built(snippet, tmp_path, yours), "train")
    _, _, sizes = run.trained[LOSS]
    assert set(growth(sizes)) == {0}


def test_the_sum_keeps_no_activation_after_backward__ends_for_ctx_x(
    snippet, fails
):
    """For a custom function that assigns its input to `ctx.x`: `backward` does
    not free it.
    """
    first, own, squares = (
        snippet.cells()[name].source
        for name in ("yours", "own", "own-measured")
    )
    squares = squares.partition("if not MODEL")[0]
    line = "model = nn.Sequential(model, Squares())\n"
    edited = snippet.edit(first, f"{first}\n{own}\n{squares}\n{line}")
    fails(test_the_sum_keeps_no_activation_after_backward, edited)


@edits(
    ("loss.backward()", "loss.backward(retain_graph=True)"),
    ("        if learn:\n", "        if learn and STEPS < 30:\n"),
)
def test_the_sum_keeps_no_activation_after_backward__but_not(
    snippet, fails, old, new
):
    """With `retain_graph=True`, or without a call of `backward`, nothing frees
    the activations.
    """
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
    """`loss * 1` is a tensor with a graph, and the sum keeps its nodes."""
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
    """Detached losses keep nothing, nor does a loop with `backward`; and
    `GELU` keeps more than the two outputs.
    """
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


@yours
def test_a_number_keeps_no_activation__also_in(snippet, tmp_path, yours):
    run = after(built(snippet, tmp_path, yours), "train", "evaluate")
    for found in (run.trained, run.evaluated):
        for way in (ITEM, DETACH):
            assert set(growth(found[way][2])) == {0}
            assert set(found[way][1]) == {0}


@pytest.mark.parametrize("cut", CUTS)
def test_a_number_keeps_no_activation__but_the_tensor_does(
    snippet, cut, fails
):
    """`loss * 1` is a tensor with a graph, so the activations stay."""
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


def test_the_three_totals_are_equal__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`: sums are rounded too coarsely to agree to five digits."""
    small = (
        "readings, temperatures = readings.bfloat16(), temperatures.bfloat16()"
    )
    line = "    data = TensorDataset("
    edited = snippet.edit(line, f"    {small}\n{line}").edit(
        "nn.Linear(128, 1))", "nn.Linear(128, 1)).bfloat16()"
    )
    assert len({kind.dtype for kind in after(edited).data.tensors}) == 1
    fails(test_the_three_totals_are_equal, edited)


@pytest.mark.parametrize("cut", CUTS)
def test_the_three_totals_are_equal__but_not_if_one_is_scaled(
    snippet, fails, cut
):
    """Multiplied by 1.001, one total differs in the fourth digit."""
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


@yours
def test_under_no_grad_even_the_tensor_keeps_nothing__also_in(
    snippet, tmp_path, yours
):
    run = after(built(snippet, tmp_path, yours), "train", "no-grad")
    assert set(run.careful[1]) == set(run.careful[2]) == {0}


def test_under_no_grad_even_the_tensor_keeps_nothing__but_not_without_it(
    snippet, fails
):
    """With `torch.enable_grad()` instead, the sum keeps nodes and activations
    of every step.
    """
    edited = snippet.edit(
        "with torch.no_grad():\n    careful",
        "with torch.enable_grad():\n    careful",
    )
    fails(test_under_no_grad_even_the_tensor_keeps_nothing, edited)


def test_what_the_sum_keeps_dies_with_it(snippet):
    run = after(snippet, "train", "free")

    assert run.sizes[-1] == run.STEPS * each(run)
    assert run.left == run.forward.count_bytes() == 0
    assert len(run.forward.allocated) == run.STEPS * 4


@others
def test_what_the_sum_keeps_dies_with_it__also_with(snippet, settings):
    test_what_the_sum_keeps_dies_with_it(given(snippet, **settings))


def test_what_the_sum_keeps_dies_with_it__also_that_it_stays_as_long(
    snippet,
):
    edited = snippet.edit("_, _, sizes = measure", "total, _, sizes = measure")
    edited = edited.edit("torch.as_tensor(total).item(), n", "total, n")
    run = after(edited, "train", "free")
    assert run.left == run.sizes[-1] > 0


@edits(
    ("returned", "return torch.as_tensor(total).item(), n", "return total, n"),
    ("a second name", "        del loss\n", "        model.kept = [loss]\n"),
)
def test_what_the_sum_keeps_dies_with_it__but_not(snippet, fails, old, new):
    """If the function returns it, the sum lives on; and a loss stored in the
    model lives on by itself.
    """
    if new == "return total, n":
        snippet = snippet.edit("_, _, sizes = m", "total, _, sizes = m")
    fails(test_what_the_sum_keeps_dies_with_it, snippet.edit(old, new))


OWN = ("train", "own", "own-measured")


def test_an_attribute_of_ctx_survives_backward(snippet):
    run = after(snippet, *OWN)

    assert growth([0, *run.squared_sizes]) == [last(run)] * run.STEPS
    output = torch.ones(5, requires_grad=True) * 2
    squared = run.Square.apply(output)
    squared.sum().backward()
    assert squared.grad_fn.x.data_ptr() == output.data_ptr()
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
    """With `ctx.save_for_backward()`, `backward` frees the output."""
    edited = snippet.edit("ctx.x = x", "ctx.save_for_backward(x)").edit(
        "return 2 * ctx.x * gradient",
        "[x] = ctx.saved_tensors\n        return 2 * x * gradient",
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
    judge = run.judge
    assert judge([5, 5, 5], [9, 9, 9]) == judge([0] * 3, [0] * 3) == "nothing"
    assert judge([1, 4, 7], [9, 9, 9]) == "3 nodes a step"


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
    """If the first way detaches as well, three keep nothing; with `loss * 1`,
    only one does.
    """
    fails(test_two_ways_keep_nothing_in_both_loops, snippet.edit(old, new))


def test_the_answer_says_when_a_gibibyte_is_full(snippet):
    run = after(snippet, *ANSWER)

    size = each(run)
    assert f"{size} bytes a step: 1 GiB" in run.answers["evaluation", LOSS]
    for sizes, size, steps in (
        ([0, 2**20, 2**21], 2**20, 1024),
        ([2**30, 2**30 + 1024], 1024, 2**20),
        ([0, 2**10, 2**10], 512, 2**21),
        ([5, 5, 7], 1, 2**30),
    ):
        said = f"{size} bytes a step: 1 GiB is full after {steps} steps"
        assert run.judge([0] * len(sizes), sizes) == said
    assert "bytes" not in run.judge([1, 4, 7], [9, 9, 9])
    assert "bytes" not in run.judge([1, 4, 7], [9, 9, 3])
    less = run.judge([0] * 9, [0] * 8 + [1])  # than a byte a step
    assert less.endswith(f"after {8 * 2**30} steps")


@edits(
    ("2**30 / each", "2**20 / each"),
    ("(sizes[-1] - sizes[0]) / steps", "sizes[-1] / steps"),
    ("(sizes[-1] - sizes[0]) / steps", "(sizes[-1] - sizes[0]) // steps or 9"),
    ("steps = len(sizes) - 1", "steps = len(sizes)"),
)
def test_the_answer_says_when_a_gibibyte_is_full__but_not_with(
    snippet, old, new, fails
):
    """With `2**20`, it says when a mebibyte is full; the other edits miscount
    the bytes of a step.
    """
    edited = snippet.edit(old, new)
    fails(test_the_answer_says_when_a_gibibyte_is_full, edited)


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
    """With `if True:`, it never says "Not here", and with `if False:`, always;
    the last edit looks at one loop only.
    """
    edited = snippet.edit(old, new)
    if "evaluation" in new:  # as if a model that keeps nothing kept its loss
        edited = edited.edit("lambda loss: loss.item(),", "torch.neg,")
    fails(test_the_conclusion_may_be_not_here, edited, tmp_path, capsys)
