"""The claims of docs/memory/running_loss.md."""

import contextlib
import copy
import gc
import math
import weakref
from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import compiled

KEPT = ("digits", "by-hand", "kept", "ways")
LAYERS = "nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)"


def after(snippet, *cells):
    """Run these cells alone, and return their variables."""
    names = list(snippet.cells())
    return snippet.only(*cells).after(max(cells, key=names.index))


def grown(run, step, read="loss", steps=(10, 20)):
    """Return how many nodes and bytes the second number of steps adds."""
    few, many = (run.kept(partial(step, run.ways[read]), n) for n in steps)
    return many[0] - few[0], many[1] - few[1]


# Do this


def small(dtype=torch.float32):
    """Return a model of four numbers, and its optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    model.to(dtype)
    return model, torch.optim.SGD(model.parameters(), lr=0.5)


def batches_of(size, dtype=torch.float32, ignored=0, samples=150):
    """Return samples of four numbers in batches, some labels ignored."""
    torch.manual_seed(1)
    labels = torch.arange(samples) % 3
    inputs = torch.randn(samples, 4) + 2 * F.one_hot(labels, 4)
    labels[:ignored] = -100
    pairs = inputs.to(dtype).split(size), labels.split(size)
    return list(zip(*pairs, strict=True))


class Reads(TorchDispatchMode):
    """Count the numbers that go from a tensor to Python."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def ran(snippet, cell, loader, model, optimizer):
    """Run a loop of the page on another model, and return its variables."""
    variables = {"F": F, "model": model, "optimizer": optimizer}
    variables["loader"] = loader
    with no_error(), Reads() as reads:
        exec(compiled(snippet.cells()[cell], snippet.path), variables)
    return variables, reads.count


def test_train_gives_the_mean(
    snippet,
    cell="add-up",
    size=64,
    dtype=torch.float32,
    weight=None,
    ignored=0,
    rel=1e-5,
):
    loader = batches_of(size, dtype, ignored)
    model, optimizer = small(dtype)
    variables, _ = ran(snippet, cell, loader, model, optimizer)

    by_hand, optimizer = small(dtype)
    losses, weights = [], []
    for inputs, labels in loader:
        optimizer.zero_grad()
        scores = by_hand(inputs)
        each = F.cross_entropy(scores, labels, weight, reduction="none")
        counts = (labels >= 0).to(dtype)
        if weight is not None:
            counts = weight[labels.clamp(min=0)] * counts
        (each.sum() / counts.sum()).backward()
        optimizer.step()
        losses += each.tolist()
        weights += counts.tolist()
    found = float(variables["total"]) / variables["count"]
    assert found == pytest.approx(math.fsum(losses) / sum(weights), rel=rel)
    pairs = zip(model.parameters(), by_hand.parameters(), strict=True)
    assert all(a.allclose(b, atol=1e-2 * rel**0.5) for a, b in pairs)
    assert getattr(variables["total"], "grad_fn", None) is None


@pytest.mark.parametrize("size", [1, 7, 149, 1000])
@pytest.mark.parametrize("cell", ["add-up", "on-the-device"])
def test_train_gives_the_mean__also_in_batches_of(snippet, cell, size):
    test_train_gives_the_mean(snippet, cell, size)


@pytest.mark.parametrize("cell", ["add-up", "on-the-device"])
@pytest.mark.parametrize(
    ("dtype", "rel"), [(torch.float64, 1e-6), (torch.bfloat16, 1e-2)], ids=str
)
def test_train_gives_the_mean__also_in(snippet, cell, dtype, rel):
    test_train_gives_the_mean(snippet, cell, 64, dtype, rel=rel)


def test_train_gives_the_mean__also_of_the_digits(snippet):
    run = after(snippet, "digits")
    torch.manual_seed(3)
    shuffled = [(images, labels) for images, labels in run.loader]
    model, optimizer = run.model, run.optimizer
    start = copy.deepcopy(model)
    variables, _ = ran(snippet, "add-up", shuffled, model, optimizer)
    first, labels = shuffled[0]
    alone = F.cross_entropy(start(first), labels).item()
    start_again = torch.optim.Adam(start.parameters(), lr=0.01)
    one, _ = ran(snippet, "add-up", shuffled[:1], start, start_again)
    assert one["total"] / one["count"] == pytest.approx(alone)
    assert (variables["count"], type(variables["total"])) == (1797, float)


def test_train_gives_the_mean__also_read_once(snippet):
    loader = batches_of(20)
    reads = [
        ran(snippet, cell, loader, *small())[1]
        for cell in ("add-up", "on-the-device")
    ]
    assert reads == [len(loader), 1]


@pytest.mark.parametrize("cell", ["add-up", "on-the-device"])
def test_train_gives_the_mean__also_raising_without_a_batch(snippet, cell):
    for batches in [], iter(()), DataLoader([], 64):
        with pytest.raises(pytest.fail.Exception, match="by zero"):
            ran(snippet, cell, batches, *small())


def test_train_gives_the_mean__also_as_a_class_to_build(snippet):
    run = after(snippet, "digits", "mean")
    mean = run.Mean()
    weight = torch.tensor(2.0, requires_grad=True)
    with Reads() as reads:
        for _ in range(1000):
            mean.add(weight.square().bfloat16(), 64)
        assert reads.count == 0
    mean.add(9.0, 64_000)
    assert mean.total.grad_fn is None
    assert type(mean.read()) is float
    assert mean.read() == pytest.approx(6.5)


def weighted(snippet):
    """Give the classes weights in the loss of the loop."""
    return snippet.edit(
        "loss = F.cross_entropy(model(images), labels)\n    loss.backward()\n"
        "    optimizer.step()\n    total += loss.item() *",
        "weight = model[0].weight.new_tensor([1, 2, 5])\n"
        "    loss = F.cross_entropy(model(images), labels, weight)\n"
        "    loss.backward()\n    optimizer.step()\n"
        "    total += loss.item() *",
    )


WEIGHTED = ("add-up", 64, torch.float32, torch.tensor([1.0, 2, 5]))
A_NUMBER = "len(labels)  # a number, not a tensor\n    count += len(labels)"


def test_train_gives_the_mean__ends_with_class_weights(snippet, fails):
    """With class weights, multiply by the sum of `weight[labels]`."""
    fails(test_train_gives_the_mean, weighted(snippet), *WEIGHTED)


def test_train_gives_the_mean__also_weighted_as_told(snippet):
    each = "weight[labels].sum().item()"
    cured = weighted(snippet).edit(
        A_NUMBER, A_NUMBER.replace("len(labels)", each)
    )
    test_train_gives_the_mean(cured, *WEIGHTED)


def test_train_gives_the_mean__ends_with_ignored_labels(snippet, fails):
    """With ignored labels, multiply by the number of labels that count."""
    options = ("add-up", 64, torch.float32, None, 40)
    fails(test_train_gives_the_mean, snippet, *options)


ADDED = "total += loss.item() * len(labels)  # a number"


@edits(
    ("no weights", ADDED, "total += loss.item()"),
    ("the last batch alone", ADDED, ADDED.replace("+=", "=")),
    (
        "the loss after the step",
        ADDED,
        ADDED.replace("loss", "F.cross_entropy(model(images), labels)"),
    ),
)
def test_train_gives_the_mean__but_not_with(snippet, fails, old, new):
    """Without the sizes, the mean is far too small; `=` forgets the batches
    before; after its step, the loss of a batch is smaller.
    """
    fails(test_train_gives_the_mean, snippet.edit(old, new))


def counts_what_is_kept(run):
    """Check what the numbers of nodes and bytes rest on."""
    x = torch.ones(3, requires_grad=True)
    # four sums, three additions, and x itself; nothing is saved
    assert run.kept(x.sum, 4) == (4 + 3 + 1, 0)
    # sin saves its input, of 12 bytes, which all four share
    assert run.kept(lambda: x.sin().sum(), 4) == (4 * 2 + 3 + 1, 12)
    # exp saves its output
    assert run.kept(lambda: x.exp().sum(), 4) == (4 * 2 + 3 + 1, 4 * 12)
    assert run.kept(lambda: x.exp().sum().item(), 4) == (0, 0)
    assert list(run.saved) == []


def test_detach_and_item_keep_none(snippet, backward=True):
    run = after(snippet, *KEPT, "validation")
    counts_what_is_kept(run)

    step = run.trained if backward else run.validated
    for name in ("loss.detach()", "loss.item()"):
        for steps in (1, 2, 30):
            assert run.kept(partial(step, run.ways[name]), steps) == (0, 0)
    weight = torch.tensor(2.0, requires_grad=True)
    for name, kind in (
        ("loss.detach()", torch.Tensor),
        ("loss.item()", float),
    ):
        found = run.ways[name](weight.square())
        assert type(found) is kind
        assert found == 4


def test_detach_and_item_keep_none__also_without_backward(snippet):
    test_detach_and_item_keep_none(snippet, backward=False)


@edits(
    ("lambda loss: loss.detach()", "lambda loss: loss * 1"),
    ("lambda loss: loss.item()", "lambda loss: loss"),
)
def test_detach_and_item_keep_none__but_not_left_out(snippet, fails, old, new):
    """With the loss itself in the sum, or the loss times 1, nodes stay."""
    fails(test_detach_and_item_keep_none, snippet.edit(old, new))


# How it works


def square(weight, constant):
    """Return the loss of the page."""
    return (weight + constant).square()


def deep(weight, constant):
    """Return a loss of more operations."""
    return ((constant + weight).square() + weight).square().square()


def forked(weight, constant):
    """Return a loss with two ways to the same node."""
    error = weight + constant
    return error.square() + (error + error).square()


def constants(weight, constant):
    """Return a loss that adds two constants first."""
    return (weight + (constant + constant)).square()


def nodes_of(value):
    """Return the nodes behind a value, PyTorch's or ours."""
    ours = hasattr(value, "node")
    found, waiting = {}, [value.node if ours else value.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or torch.is_tensor(node) or id(node) in found:
            continue
        found[id(node)] = node
        waiting += node if ours else [each for each, _ in node.next_functions]
    return list(found.values())


class Box:
    """Hold what a node has saved, as long as the node does."""

    def __init__(self, tensor):
        self.tensor = tensor.detach()


def sums(run, ours, start, program, steps, mode):
    """Add up losses; return the sum, its nodes, what they save, and more."""
    boxes = weakref.WeakSet()

    def pack(tensor):
        box = Box(tensor)
        boxes.add(box)
        return box

    number, minus = start.clone(), start - 3
    if ours:
        weight, constant = run.Value(number, node=[]), run.Value(minus)
        total = run.Value(torch.zeros_like(start))
    else:
        weight, constant = number.requires_grad_(), minus
        total = torch.zeros_like(start)
    mark = weakref.ref(number)
    context = (
        torch.no_grad() if mode == "no_grad" else contextlib.nullcontext()
    )
    with (
        no_error(),
        context,
        saved_tensors_hooks(pack, lambda box: box.tensor),
    ):
        for _ in range(steps):
            loss = program(weight, constant)
            for _ in range(
                {"backward": 1, "gradients": 1, "twice": 2}.get(mode, 0)
            ):
                options = () if ours else (torch.ones_like(loss),)
                loss.backward(*options)
            total += loss
    nodes = nodes_of(total)
    held = [box.tensor for box in boxes]
    if ours:
        held = [
            each for node in nodes for each in node if torch.is_tensor(each)
        ]
    gradient = getattr(weight, "grad", None) is not None
    del weight, number, loss
    seen = [len(nodes), sorted(each.tolist() for each in held)]
    if mode == "gradients":
        seen = [gradient]
    if mode == "the weight":
        gc.collect()
        seen = [mark() is not None]
    return total.data if ours else total.detach(), seen


def test_these_lines_keep_what_pytorch_keeps(
    snippet, program=square, start=None, modes=("none", "backward")
):
    run = after(snippet, "digits", "by-hand")
    start = torch.tensor(1.0) if start is None else start
    for mode in modes:
        for steps in (1, 2, 40):
            options = (start, program, steps, mode)
            ours, seen = sums(run, True, *options)
            theirs, expected = sums(run, False, *options)
            assert seen == expected
            assert ours.equal(theirs)
            assert ours.dtype == theirs.dtype
    if start.numel() == 1:
        value = run.Value(start, node=[]).square().item()
        assert type(value) is float
        assert value == start.square().item()


@pytest.mark.parametrize("program", [deep, forked], ids=["deep", "forked"])
def test_these_lines_keep_what_pytorch_keeps__also_for_a_loss_that_is(
    snippet, program
):
    test_these_lines_keep_what_pytorch_keeps(snippet, program)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((2, 3), torch.float32),
        ((0,), torch.float32),
        ((1, 1), torch.float64),
        ((5,), torch.bfloat16),
    ],
    ids=str,
)
def test_these_lines_keep_what_pytorch_keeps__also_of(snippet, shape, dtype):
    torch.manual_seed(0)
    start = torch.randn(shape, dtype=dtype)
    test_these_lines_keep_what_pytorch_keeps(snippet, square, start)


def test_these_lines_keep_what_pytorch_keeps__also_as_compared(snippet):
    run = after(snippet, *KEPT, "compare")
    counts_what_is_kept(run)
    for backward in (False, True):
        for item in (False, True):
            options = (backward, item)
            ours, theirs = (
                run.kept(partial(run.one_step, each, *options))
                for each in (run.ours, run.theirs)
            )
            size = 0 if backward else 20 * 4
            assert ours == theirs == ((0, 0) if item else (60, size))


@pytest.mark.parametrize(
    "mode", ["gradients", "twice", "the weight", "no_grad"]
)
def test_these_lines_keep_what_pytorch_keeps__ends_for(snippet, mode, fails):
    """PyTorch's `backward()` computes gradients and raises an error the second
    time, its node of the weight holds the weight, and under `no_grad()` it
    makes no nodes.
    """
    options = (square, torch.tensor(1.0), (mode,))
    fails(test_these_lines_keep_what_pytorch_keeps, snippet, *options)


def test_these_lines_keep_what_pytorch_keeps__ends_for_constants(
    snippet, fails
):
    """Two constants add up to a constant without a node in PyTorch, and to a
    value with one here.
    """
    fails(test_these_lines_keep_what_pytorch_keeps, snippet, constants)


@edits(
    ("line 2", "[self.node, other.node])  # 2", "[other.node])  # 2"),
    ("line 3", "[self.node, self.data])  # 3", "[self.node])  # 3"),
    ("line 4", "return self.data.item()  # 4", "return self  # 4"),
    (
        "line 5",
        "node[:] = [each for each in node if ",
        "[each for each in node if ",
    ),
)
def test_these_lines_keep_what_pytorch_keeps__but_not(
    snippet, fails, old, new
):
    """Without the old total's node in line 2, only the last loss keeps its
    nodes; without line 3, nothing is saved; without line 4, the number is a
    value with a node; without line 5, `backward()` frees nothing.
    """
    fails(test_these_lines_keep_what_pytorch_keeps, snippet.edit(old, new))


def test_the_sum_keeps_nodes(snippet, steps=(10, 20), step="trained"):
    run = after(snippet, *KEPT, "validation")
    counts_what_is_kept(run)

    added = steps[1] - steps[0]
    assert grown(run, getattr(run, step), "loss", steps)[0] == 8 * added
    total = 0.0
    for _ in range(7):
        total += run.trained(run.ways["loss"])
    # and the four nodes of the parameters, which all steps share
    assert len(nodes_of(total)) == 8 * 7 + 4


@pytest.mark.parametrize("steps", [(1, 2), (3, 50)])
def test_the_sum_keeps_nodes__also_after(snippet, steps):
    test_the_sum_keeps_nodes(snippet, steps)


def test_the_sum_keeps_nodes__also_without_backward(snippet):
    test_the_sum_keeps_nodes(snippet, step="validated")


def test_the_sum_keeps_nodes__also_as_an_average(snippet):
    run = after(snippet, *KEPT, "average")
    # two products and an addition where the sum has an addition
    assert run.smoothed[0] == 20 * 7 + 4 + 19 * 3
    assert run.smoothed[0] == 201


@edits(
    ('"loss": lambda loss: loss,', '"loss": lambda loss: loss.detach(),'),
    (LAYERS, "nn.Linear(64, 32), nn.Linear(32, 10)"),
)
def test_the_sum_keeps_nodes__but_not(snippet, fails, old, new):
    """Without `Tanh`, it is seven nodes a step; with `loss.detach()`, none."""
    fails(test_the_sum_keeps_nodes, snippet.edit(old, new))


SQUARE = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.x * gradient


class Squares(nn.Module):
    def forward(self, x):
        return Square.apply(x)


torch.manual_seed(0)
data ="""


def layered(snippet, layers):
    """Give the page's network these layers."""
    snippet = snippet.edit("torch.manual_seed(0)\ndata =", SQUARE)
    return snippet.edit(LAYERS, layers)


def test_backward_frees_the_activations(snippet, layers=LAYERS):
    run = after(layered(snippet, layers), *KEPT, "validation")
    counts_what_is_kept(run)
    outputs = []

    def note(layer, inputs, output):
        if isinstance(output, torch.Tensor):  # attention gives a tuple
            outputs.append(StorageWeakRef(output.untyped_storage()))

    for layer in run.model.modules():
        layer.register_forward_hook(note)
    total = sum(run.trained(run.ways["loss"]) for _ in range(3))
    assert len(nodes_of(total)) > 3 * 3
    assert outputs
    assert [each for each in outputs if not each.expired()] == []

    assert run.kept(partial(run.trained, run.ways["loss"]))[1] == 0
    assert run.kept(partial(run.validated, run.ways["loss"]))[1] > 0
    before = copy.deepcopy(run.model.state_dict())
    run.trained(run.ways["loss"])
    now = run.model.state_dict()
    moved = [name for name in before if not now[name].equal(before[name])]
    assert set(dict(run.model.named_parameters())) <= set(moved)


@pytest.mark.parametrize(
    "layers",
    [
        "nn.Linear(64, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 10)",
        "nn.Linear(64, 16), nn.ReLU(True), nn.Dropout(), nn.Linear(16, 10)",
        "nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 2, 3), nn.MaxPool2d(2),"
        " nn.Flatten(), nn.Linear(18, 10)",
        "nn.Unflatten(1, (8, 8)), nn.Linear(8, 8), nn.LayerNorm(8),"
        " nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),"
        " nn.Flatten(), nn.Linear(64, 10)",
    ],
    ids=[
        "BatchNorm and GELU",
        "ReLU in place and dropout",
        "a convolution",
        "a transformer",
    ],
)
def test_backward_frees_the_activations__also_of(snippet, layers):
    test_backward_frees_the_activations(snippet, layers)


def test_backward_frees_the_activations__ends_for_attributes_of_ctx(
    snippet, fails
):
    """What a `Function` of your own keeps as `ctx.x` stays with its node."""
    layers = "nn.Linear(64, 32), Squares(), nn.Linear(32, 10)"
    fails(test_backward_frees_the_activations, snippet, layers)


def test_backward_frees_the_activations__also_with_saved_tensors(snippet):
    edited = layered(snippet, LAYERS).edit(
        "ctx.x = x", "ctx.save_for_backward(x)"
    )
    edited = edited.edit(
        "return 2 * ctx.x * gradient",
        "[x] = ctx.saved_tensors\n        return 2 * x * gradient",
    )
    run = after(edited, *KEPT)
    sizes = []
    for function in (run.Square.apply, torch.square):
        x = torch.ones(3, requires_grad=True)
        sizes.append(run.kept(lambda: backward_of(function(x).sum()))[1])  # noqa: B023
    assert sizes == [0, 0]


def backward_of(loss):
    """Call `backward()`, and return the loss."""
    loss.backward()
    return loss


TRAINED = "loss.backward()\n    optimizer.step()\n    return read(loss)"


@edits(
    ("without backward()", TRAINED, "return read(loss)"),
    (
        "with retain_graph=True",
        TRAINED,
        TRAINED.replace("()", "(retain_graph=True)", 1),
    ),
    (
        "computed after it",
        TRAINED,
        TRAINED.replace(
            "read(loss)", "read(loss + model(images).exp().sum())"
        ),
    ),
)
def test_backward_frees_the_activations__but_not(snippet, fails, old, new):
    """Without `backward()`, or with `retain_graph=True`, the tensors stay; so
    do those that are computed after it.
    """
    fails(test_backward_frees_the_activations, snippet.edit(old, new))


@pytest.mark.cuda
def test_nodes_lie_beside_the_gpu(snippet, device="cuda"):
    edited = snippet.edit(
        "TensorDataset(pixels, torch.tensor(data.target))",
        f'TensorDataset(pixels.to("{device}"),'
        f' torch.tensor(data.target).to("{device}"))',
    )
    edited = edited.edit(f"({LAYERS})", f'({LAYERS}).to("{device}")')
    run = after(edited, *KEPT)
    gc.collect()  # or what another test left goes while this one counts
    total, held, nodes = 0.0, [], []
    for _ in range(30):
        total = total + run.trained(run.ways["loss"])
        held.append(torch.cuda.memory_allocated())
        nodes.append(len(nodes_of(total)))

    assert total.device.type == device
    assert held[0] > 0
    assert len(set(held[10:])) == 1
    assert nodes[-1] - nodes[10] == 19 * 8


@pytest.mark.cuda
@edits(
    (
        "with retain_graph=True",
        TRAINED,
        TRAINED.replace("()", "(retain_graph=True)", 1),
    ),
    ("with detach()", TRAINED, TRAINED.replace("read(loss)", "loss.detach()")),
)
def test_nodes_lie_beside_the_gpu__but_not(snippet, fails, old, new):
    """With `retain_graph=True`, `backward()` does not free the graph; with
    `loss.detach()`, no nodes are kept.
    """
    fails(test_nodes_lie_beside_the_gpu, snippet.edit(old, new))


# What goes wrong


def test_without_backward_they_stay(snippet, size=64):
    edited = snippet.edit("batch_size=64, sh", f"batch_size={size}, sh")
    run = after(edited, *KEPT, "validation")
    counts_what_is_kept(run)

    # the images, the outputs of Tanh and of log_softmax, the labels, and a sum
    each = size * (64 + 32 + 10) * 4 + size * 8 + 4
    for steps in (1, 10, 20):
        found = run.kept(partial(run.validated, run.ways["loss"]), steps)
        assert found == (8 * steps + 3, steps * each)
    if size == 64:
        assert each == 27_652
    outputs = []
    run.model[1].register_forward_hook(
        lambda *each: outputs.append(StorageWeakRef(each[2].untyped_storage()))
    )
    total = sum(run.validated(run.ways["loss"]) for _ in range(5))
    alive = [not each.expired() for each in outputs]
    assert alive == [True] * 5
    del total
    alive = [not each.expired() for each in outputs]
    assert alive == [False] * 5


@pytest.mark.parametrize("size", [1, 77])
def test_without_backward_they_stay__also_in_batches_of(snippet, size):
    test_without_backward_they_stay(snippet, size)


VALIDATED = "return read(F.cross_entropy(model(images), labels))"


@edits(
    (
        "with its own backward()",
        VALIDATED,
        "loss = F.cross_entropy(model(images), labels)\n"
        "    if loss.requires_grad:\n        loss.backward()\n"
        "    return read(loss)",
    ),
    (
        "detached scores",
        VALIDATED,
        "return read(F.cross_entropy(model(images).detach(), labels))",
    ),
)
def test_without_backward_they_stay__but_not(snippet, fails, old, new):
    """After `backward()`, or with `detach()`, none of it stays."""
    fails(test_without_backward_they_stay, snippet.edit(old, new))


def test_without_a_graph_nothing_stays(snippet, mode=torch.no_grad):
    run = after(snippet, *KEPT, "validation")

    assert run.without_graph == (0, 0)
    step = partial(run.validated, run.ways["loss"])
    with mode():
        for steps in (1, 50):
            assert run.kept(step, steps) == (0, 0)
    assert run.kept(step, 1)[0] > 0


def test_without_a_graph_nothing_stays__also_in_inference_mode(snippet):
    test_without_a_graph_nothing_stays(snippet, torch.inference_mode)


@edits(
    ("torch.no_grad():\n    without_", "torch.enable_grad():\n    without_")
)
def test_without_a_graph_nothing_stays__but_not_with_one(
    snippet, fails, old, new
):
    """With `enable_grad()`, the sum keeps nodes and tensors again."""
    fails(test_without_a_graph_nothing_stays, snippet.edit(old, new))


def test_a_list_keeps_them_too(snippet):
    run = after(snippet, *KEPT, "list")

    assert len(run.outputs) == 29
    assert run.size == 1797 * 10 * 4
    # of a step: two layers, their transposed weights, and the Tanh
    nodes = {node for each in run.outputs for node in nodes_of(each)}
    assert len(nodes) == len(run.nodes) == 29 * 5 + 4
    assert list(run.saved) == []
    storages = [StorageWeakRef(x.untyped_storage()) for x in run.outputs]
    assert [each for each in storages if each.expired()] == []
    run.outputs.clear()
    alive = [not each.expired() for each in storages]
    assert alive == [False] * 28 + [True]  # the name `scores` keeps the last


def test_a_list_keeps_them_too__also_a_count_keeps_nothing(snippet):
    run = after(snippet, "digits")
    images, labels = next(iter(run.loader))
    scores = run.model(images)
    assert scores.requires_grad
    count = (scores.argmax(dim=1) == labels).sum()
    assert count.grad_fn is None
    assert type(count.item()) is int


def test_a_list_keeps_them_too__but_not_detached(snippet, fails):
    """Detached, the outputs stay, but no nodes."""
    old, new = "outputs.append(scores)", "outputs.append(scores.detach())"
    fails(test_a_list_keeps_them_too, snippet.edit(old, new))


def test_a_list_keeps_them_too__but_not_averaged(snippet, fails):
    """Here the list keeps a node more for each step, but no outputs."""
    old, new = "outputs.append(scores)", "outputs.append(scores.mean())"
    fails(test_a_list_keeps_them_too, snippet.edit(old, new))


def test_retained_graphs_stay(snippet):
    run = after(snippet, *KEPT, "validation", "retained")
    counts_what_is_kept(run)

    for steps in (1, 10, 20):
        found, expected = (
            run.kept(partial(step, run.ways["loss"]), steps)
            for step in (run.retained, run.validated)
        )
        assert found == expected == (8 * steps + 3, 27_652 * steps)
    assert all(each.grad is not None for each in run.model.parameters())


def test_retained_graphs_stay__also_needless_for_two_losses(snippet):
    run = after(snippet, *KEPT)
    images, labels = run.pixels, run.digits[:][1]

    def gradients(separate):
        run.model.zero_grad()
        scores = run.model(images)
        losses = F.cross_entropy(scores, labels), scores.square().mean()
        if separate:
            losses[0].backward(retain_graph=True)
            losses[1].backward()
        else:
            sum(losses).backward()
        return [each.grad.clone() for each in run.model.parameters()]

    for one, other in zip(gradients(True), gradients(False), strict=True):
        assert one.allclose(other, atol=1e-6)


@edits(
    ("loss.backward(retain_graph=True)", "loss.backward()"),
    (
        "(retain_graph=True)\n    return read(loss)",
        "(retain_graph=True)\n    return loss.detach()",
    ),
)
def test_retained_graphs_stay__but_not(snippet, fails, old, new):
    """Without `retain_graph=True`, `backward()` frees the tensors; with
    `loss.detach()`, the sum keeps nothing.
    """
    fails(test_retained_graphs_stay, snippet.edit(old, new))


def test_means_of_means_are_off(snippet):
    mislabeled = snippet.edit(  # so that the last five digits stand out
        "torch.tensor(data.target))",
        "torch.tensor(data.target).add(torch.arange(1797) > 1791) % 10)",
    )
    run = after(mislabeled, "digits", "add-up", "means")
    with torch.no_grad():
        each = [
            F.cross_entropy(run.model(x), y, reduction="none").double()
            for x, y in run.batches
        ]
    sizes = [len(losses) for losses in each]
    assert run.sizes == sizes == [896, 896, 5]

    found = sum(run.losses) / len(run.losses)
    weights = [torch.full((n,), 1 / (len(sizes) * n)).double() for n in sizes]
    by_hand = (torch.cat(each) * torch.cat(weights)).sum().item()
    assert found == pytest.approx(by_hand, rel=1e-5)
    assert sum(weights[0]) == pytest.approx(sum(weights[-1]).item())
    mean = torch.cat(each).mean().item()
    assert found > 1.5 * mean
    assert run.total / sum(sizes) == pytest.approx(mean, rel=1e-5)
    assert run.whole == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("kind", [F.l1_loss, F.huber_loss, F.mse_loss])
def test_means_of_means_are_off__also_for_losses_of_all_kinds(kind):
    torch.manual_seed(0)
    outputs, targets = torch.randn(2, 100, 3)
    means, total, summed = [], 0.0, 0.0
    pairs = zip(outputs.split(37), targets.split(37), strict=True)
    for some, goals in pairs:
        means.append(kind(some, goals).item())
        total += means[-1] * len(some)
        summed += kind(some, goals, reduction="sum").item()
    whole = kind(outputs, targets).item()
    assert total / 100 == pytest.approx(whole)
    assert summed / 100 == pytest.approx(3 * whole)
    assert sum(means) / 3 != pytest.approx(whole, rel=1e-3)


@edits(
    ("batch_size=896", "batch_size=599"),
    ("batch_size=896", "batch_size=900"),
    ("batch_size=896", "batch_size=896, drop_last=True"),
)
def test_means_of_means_are_off__but_not(snippet, fails, old, new):
    """Batches of 599 are all equal; in batches of 900, the last has 897;
    `drop_last=True` drops the five digits.
    """
    fails(test_means_of_means_are_off, snippet.edit(old, new))


WORDS = "[[0, 1, 2, 3], [4, 0, 1, -100], [-100] * 4]"


def test_ignored_targets_do_not_count(snippet, words=WORDS, weights=None):
    run = after(snippet.edit(WORDS, words), "digits", "ignored")
    scores, labels = run.scores.flatten(0, 1), run.words.flatten()
    kept = labels != -100
    chosen = scores.double().log_softmax(1)[kept, labels[kept]]
    each = torch.ones(5).double() if weights is None else weights
    mean = (-chosen * each[labels[kept]]).sum() / each[labels[kept]].sum()

    assert run.count == int(kept.sum())
    assert run.total / run.count == pytest.approx(mean.item(), rel=1e-5)
    for size in (1, 4, 100):
        empty = torch.full((size,), -100)
        loss = F.cross_entropy(torch.randn(size, 5), empty).item()
        assert math.isnan(loss)
        assert math.isnan(1.0 + 0 * loss)


@pytest.mark.parametrize(
    "words",
    [
        "[[0, 1, 2, 3], [4, 0, 1, 2], [3, 4, 0, 1]]",
        "[[-100, -100, -100, 0], [1, 2, 3, 4], [0, -100, 4, -100]]",
        "[[-100] * 4, [-100] * 4, [2, -100, -100, -100]]",
    ],
    ids=["no ignored word", "ignored words in each batch", "a single target"],
)
def test_ignored_targets_do_not_count__also_with(snippet, words):
    test_ignored_targets_do_not_count(snippet, words)


def test_ignored_targets_do_not_count__ends_with_class_weights(snippet, fails):
    """With a weight for each class, multiply a batch by the sum of the weights
    of its targets.
    """
    old = "F.cross_entropy(score, word)"
    edited = snippet.edit(old, f"{old[:-1]}, torch.arange(1.0, 6.0))")
    weights = torch.arange(1.0, 6.0, dtype=torch.float64)
    fails(test_ignored_targets_do_not_count, edited, WORDS, weights)


@edits(
    ("every word counts", ".item() * counted", ".item() * 4"),
    ("no weights", ".item() * counted", ".item()"),
    ("empty batches stay", "    if counted:\n", "    if True:\n"),
)
def test_ignored_targets_do_not_count__but_not_if(snippet, fails, old, new):
    """Multiplied by all four words, ignored ones count too; the other edits
    leave out the weights, or let `nan` in.
    """
    fails(test_ignored_targets_do_not_count, snippet.edit(old, new))


def test_tensor_sums_drift(snippet):
    run = after(snippet, "digits", "sums")

    assert run.dtype == run.total.dtype == torch.float32
    assert round(run.total.item(), 2) == 1999.66
    total = torch.tensor(0.0, dtype=torch.bfloat16)
    for step in range(20_000):
        total += 0.1
        if step == 1_000:
            assert total.item() == 32
    assert total.item() == 32
    above = torch.tensor(torch.inf, dtype=torch.bfloat16)
    assert total.nextafter(above).item() == 32.25
    added = sum([0.1] * 20_000)
    assert added == pytest.approx(2000, rel=1e-9)


@edits(
    ("(torch.bfloat16, torch.float32)", "(torch.bfloat16, torch.float64)"),
    ("range(20_000)", "range(2_000)"),
)
def test_tensor_sums_drift__but_not(snippet, fails, old, new):
    """In `float64`, the sum is 1999.9999999993; 2,000 of them make 200."""
    fails(test_tensor_sums_drift, snippet.edit(old, new))


def test_tensor_sums_drift__also_as_printed(snippet):
    lines = snippet.edit("torch.bfloat16, torch.float32", "torch.bfloat16,")
    run = after(lines, "digits", "sums")
    assert run.total.item() == 32


WAITING = {"item", "print", "if", "cpu", "nonzero"}


@pytest.mark.cuda
def test_reading_waits(snippet):
    run = after(snippet, "digits", "acts")

    assert set(run.waited) == WAITING | {"detach", "add"}
    assert {name for name, has in run.waited.items() if has} == WAITING
    values = {name: act() for name, act in run.acts.items()}
    assert (values["item"], values["if"]) == (1, False)
    assert values["cpu"].device.type == "cpu"
    assert values["print"] == str(run.loss)
    assert values["add"].item() == 50


@pytest.mark.cuda
@edits(
    ("detach reads", "lambda: loss.detach(),", "lambda: loss.tolist(),"),
    ("float() * 50", "float().item() * 50"),
    ("lambda: loss.item()", "lambda: loss * 1"),
    ("lambda: str(loss)", 'lambda: "loss"'),
    ("lambda: bool(loss > 2)", "lambda: loss > 2"),
    ("lambda: loss.cpu()", "lambda: loss.cuda()"),
    ("lambda: loss.nonzero()", "lambda: loss != 0"),
)
def test_reading_waits__but_not(snippet, fails, old, new):
    """Here `detach` or `add` also reads the number, or one of the five no
    longer does.
    """
    fails(test_reading_waits, snippet.edit(old, new))
