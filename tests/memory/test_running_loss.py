"""The claims of docs/memory/running_loss.md."""

import copy
import gc
import math
import weakref
from collections import Counter

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

from extensions.evidence.counterexamples import edits, no_error

DAYS = ("imports", "days")
TRAIN = (*DAYS, "train")
MEAN = ("imports", "running-mean")
LOGGED = (*TRAIN, "running-mean", "train-logged")
KEPT = (*DAYS, "behind", "three-steps", "kept", "training")
WAYS = (*KEPT, "ways")
LOSS = "total += loss"
LAYERS = 200 * (16 + 1) * 4  # bytes of what Tanh and the last layer give out


def after(snippet, *cells):
    """Run these cells alone, and return their variables."""
    names = list(snippet.cells())
    return snippet.only(*cells).after(max(cells, key=names.index))


def growth(pair):
    """Return what ten steps more have added: nodes, and bytes."""
    ten, twenty = pair
    return tuple(twenty[name] - ten[name] for name in ("nodes", "bytes"))


# Do this


def losses_of(model, optimizer, loader):
    """Train by hand, and return the losses and the sizes of the batches."""
    losses, sizes = [], []
    for inputs, targets in loader:
        optimizer.zero_grad()
        errors = (model(inputs) - targets).square()
        errors.mean().backward()
        optimizer.step()
        losses.append(errors.double().mean().item())
        sizes.append(len(inputs))
    return losses, sizes


def mean_over_samples(losses, sizes):
    """Return the mean over all samples of the losses of batches."""
    pairs = zip(losses, sizes, strict=True)
    return math.fsum(a * b for a, b in pairs) / sum(sizes)


def test_train_gives_the_mean(
    snippet, size=64, device="cpu", rel=1e-5, drop_last=False
):
    run = after(snippet, *TRAIN)
    loader = DataLoader(run.days, batch_size=size, drop_last=drop_last)
    by_hand, optimizer = run.fresh()
    batches = losses_of(by_hand, optimizer, loader)
    model, optimizer = run.fresh(device)

    with no_error():
        found = run.train(model, loader, optimizer, device)
    assert type(found) is float
    assert found == pytest.approx(mean_over_samples(*batches), rel=rel)
    pairs = zip(model.parameters(), by_hand.parameters(), strict=True)
    assert all(a.cpu().allclose(b, atol=rel) for a, b in pairs)


@pytest.mark.parametrize("size", [7, 199, 1000])
def test_train_gives_the_mean__also_in_batches_of(snippet, size):
    test_train_gives_the_mean(snippet, size)


def test_train_gives_the_mean__also_if_samples_are_dropped(snippet):
    test_train_gives_the_mean(snippet, drop_last=True)


@pytest.mark.parametrize("shape", [(1, 2, 4), (8, 1, 1), (2, 2, 2)], ids=str)
def test_train_gives_the_mean__also_of_pictures(snippet, shape):
    run = after(snippet, *TRAIN)
    days = TensorDataset(run.readings.reshape(200, *shape), run.temperatures)
    loader = DataLoader(days, batch_size=64)
    flat = nn.Sequential(nn.Flatten(), *run.fresh()[0])
    model, same = copy.deepcopy(flat), copy.deepcopy(flat)
    optimizers = [
        torch.optim.SGD(each.parameters(), lr=0.05) for each in (model, same)
    ]
    found = run.train(model, loader, optimizers[0], "cpu")
    batches = losses_of(same, optimizers[1], loader)
    assert found == pytest.approx(mean_over_samples(*batches), rel=1e-5)


@pytest.mark.cuda
def test_train_gives_the_mean__also_on_cuda(snippet):
    test_train_gives_the_mean(snippet, device="cuda", rel=1e-4)


def test_train_gives_the_mean__also_of_what_it_moves(snippet):
    run = after(snippet, *LOGGED)
    assert next(run.fresh("meta")[0].parameters()).is_meta
    for loop in (run.train, run.train_logged):
        model, optimizer = run.fresh()
        # "to" takes a dtype as it takes a device, and needs no second one
        found = loop(model.double(), run.loader, optimizer, torch.float64)
        expected = run.train(*parts(run.fresh(), run.loader))
        assert found == pytest.approx(expected, rel=1e-5)


ADDED = "total += loss.item() * len(inputs)"
STEP = """        optimizer.step()
        total"""
LATER = """        optimizer.step()
        loss = F.mse_loss(model(inputs), targets)
        total"""


@edits(
    (f"{ADDED}\n        samples", "total += loss.item()\n        samples"),
    (f"{ADDED}\n        samples", "total = loss.item()\n        samples"),
    ("samples += len(inputs)\n    return", "samples += 1\n    return"),
    ("return total / samples", "return loss.item()"),
    ("return total / samples", "return total / len(loader)"),
    ("the loss after the step", STEP, LATER),
)
def test_train_gives_the_mean__but_not(snippet, fails, old, new):
    """Without the factor `len(inputs)`, the mean is far too small; the other
    edits add up or divide something else.
    """
    fails(test_train_gives_the_mean, snippet.edit(old, new))


def test_the_running_mean_agrees(
    snippet,
    dtype=torch.float32,
    steps=250,
    read_every=100,
    device="cpu",
    largest=1e6,
):
    run = after(snippet, *MEAN)
    torch.manual_seed(0)
    largest = min(largest, torch.finfo(dtype).max)
    wide = torch.float64  # or a large one is inf from the start
    spread = torch.logspace(-6, math.log10(largest), steps, dtype=wide)
    spread = spread.to(device, dtype)
    constant = torch.full((steps,), 0.1, dtype=dtype, device=device)
    for losses in (spread, spread.flip(0), constant, 1e6 * constant.double()):
        sizes = torch.randint(1, 512, (steps,)).tolist()
        mean = run.RunningMean()
        pairs = list(zip(losses, sizes, strict=True))
        for step, (loss, size) in enumerate(pairs, 1):
            mean.add(loss, size)
            if step % read_every == 0:
                exact = mean_over_samples(losses[:step].tolist(), sizes[:step])
                assert mean.read() == pytest.approx(exact, rel=1e-5)
        exact = mean_over_samples(losses.tolist(), sizes)
        for _ in range(2):  # reading changes nothing
            assert mean.read() == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "read_every", [1, 100], ids=["each step", "100 steps"]
)
def test_the_running_mean_agrees__also_if_it_is_read_after(
    snippet, dtype, read_every
):
    test_the_running_mean_agrees(snippet, dtype, read_every=read_every)


@pytest.mark.parametrize("lost", [math.nan, math.inf, -math.inf])
def test_the_running_mean_agrees__also_with_a_loss_of(snippet, lost):
    mean = after(snippet, *MEAN).RunningMean()
    for loss in (1.0, lost, 2.0):
        mean.add(torch.tensor(loss), 3)
    for _ in range(2):
        assert mean.read() == pytest.approx(lost, nan_ok=True)


def test_the_running_mean_agrees__ends_beyond_float32(snippet, fails):
    """For losses too large for `float32`, such as `1e300`: the sum is
    `inf`.
    """
    beyond = torch.float64, 250, 100, "cpu", 1e300
    fails(test_the_running_mean_agrees, snippet, *beyond)


def test_the_running_mean_agrees__ends_if_it_is_read_too_seldom(
    snippet, fails
):
    """If you read it only after 20,000 steps: the mean is off in its fifth
    digit.
    """
    seldom = torch.float32, 20_000, 10**6
    fails(test_the_running_mean_agrees, snippet, *seldom)


def test_the_running_mean_agrees__also_in_64_bits(snippet):
    test_the_running_mean_agrees(snippet, torch.float64)


@pytest.mark.parametrize("steps", [1, 500])
def test_the_running_mean_agrees__also_after_steps(snippet, steps):
    test_the_running_mean_agrees(snippet, steps=steps)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_running_mean_agrees__also_on_cuda(snippet, dtype):
    test_the_running_mean_agrees(snippet, dtype, device="cuda")


def test_the_running_mean_agrees__also_in_a_long_run(snippet):
    mean = after(snippet, *MEAN).RunningMean()
    loss = torch.tensor(0.1)
    for _ in range(2000):
        mean.add(loss, 64)
        found = mean.read()
    assert type(found) is float
    assert found == pytest.approx(0.1, rel=1e-5)


def test_the_running_mean_agrees__also_with_a_graph(snippet):
    run = after(snippet, *LOGGED)
    for every in (1, 2, 3, 4, 100):
        expected = run.train(*parts(run.fresh(), run.loader))
        found = run.train_logged(*parts(run.fresh(), run.loader), every)
        assert found == pytest.approx(expected, rel=1e-5)


def test_the_running_mean_agrees__also_in_a_second_epoch(snippet):
    run = after(snippet, *LOGGED, "use")
    model, optimizer = run.fresh()
    for _ in range(2):
        batches = losses_of(model, optimizer, run.loader)

    assert run.loss == pytest.approx(mean_over_samples(*batches), rel=1e-3)
    assert run.loss == pytest.approx(5.39, abs=0.01)
    assert next(run.model.parameters()).device.type == run.device.type
    assert (run.device.type == "cpu") != torch.accelerator.is_available()


def parts(fresh, loader, device="cpu"):
    """Return what both loops take."""
    model, optimizer = fresh
    return model, loader, optimizer, device


@edits(
    ("loss.detach().float() * samples", "loss.detach().float()"),
    ("self.recent = 0.0\n        return", "return"),
    ("self.total += float", "self.total = float"),
    ("self.samples += samples", "self.samples += 1"),
)
def test_the_running_mean_agrees__but_not(snippet, fails, old, new):
    """Without the factor `samples`, the mean is too small; the other edits add
    a sum twice, drop one, or count batches.
    """
    fails(test_the_running_mean_agrees, snippet.edit(old, new))


def test_the_running_mean_agrees__but_not_added_in_16_bits(snippet, fails):
    """Without `float()`, losses in `bfloat16` are added up in 16 bits, and the
    mean is off in its third digit.
    """
    edited = snippet.edit("loss.detach().float()", "loss.detach()")
    fails(test_the_running_mean_agrees, edited, torch.bfloat16)


class Reads(TorchDispatchMode):
    """Count the numbers that go from a tensor to Python."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def reads_of(run, loop, loader, *options):
    """Return how often a loop reads, under an optimizer that does not."""
    model, _ = run.fresh()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Reads() as reads:
        loop(model, loader, optimizer, "cpu", *options)
    return reads.count


def test_a_log_reads_seldom(snippet):
    run = after(snippet, *LOGGED)
    for size in (20, 64):
        loader = list(DataLoader(run.days, batch_size=size))
        steps = len(loader)
        assert reads_of(run, run.train, loader) == steps
        for every in (1, 3, 100):
            found = reads_of(run, run.train_logged, loader, every)
            assert found == math.ceil(steps / every)
    single = list(DataLoader(run.days, batch_size=1))
    assert reads_of(run, run.train_logged, single) == 200 / 100


@edits(
    (f"{ADDED}\n        samples", "total += len(inputs)\n        samples"),
    ("loss.detach().float() * samples", "loss.item() * samples"),
    ("if step % every == 0:", "if step % every >= 0:"),
    ("self.samples += samples", "self.samples += samples * bool(loss >= 0)"),
    ("return mean.read()", "return mean.total / mean.samples"),
)
def test_a_log_reads_seldom__but_not(snippet, fails, old, new):
    """Without `item()`, `train` reads nothing; the other edits read in more
    steps, or leave out the last read.
    """
    fails(test_a_log_reads_seldom, snippet.edit(old, new))


# How it works


def test_the_sum_keeps_nodes(snippet, steps=(10, 20)):
    run = after(snippet, *WAYS)
    one, other = (run.kept(run.ways[LOSS], n)["nodes"] for n in steps)

    assert other - one == 7 * (steps[1] - steps[0])
    assert growth(run.rows[LOSS])[0] == 70


@pytest.mark.parametrize("steps", [(1, 2), (3, 50)])
def test_the_sum_keeps_nodes__also_after(snippet, steps):
    test_the_sum_keeps_nodes(snippet, steps)


def test_the_sum_keeps_nodes__also_without_backward(snippet):
    run = after(snippet, *KEPT, "validation", "with-graph")

    assert growth(run.validated)[0] == 70


@edits(
    ("training(lambda loss: loss),", "training(lambda loss: loss.detach()),"),
    ("layers = nn.Linear(8, 16), nn.Tanh(),", "layers = nn.Linear(8, 16),"),
)
def test_the_sum_keeps_nodes__but_not(snippet, fails, old, new):
    """Without `Tanh`, it is six nodes a step; with `loss.detach()`, none."""
    fails(test_the_sum_keeps_nodes, snippet.edit(old, new))


def test_each_step_adds_a_column(snippet):
    run = after(snippet, *DAYS, "behind", "three-steps", "place")
    batches = list(run.loader)[:3]
    losses, _ = losses_of(*run.fresh(), batches)
    column = ["MseLoss", "Addmm", "Tanh", "Addmm"]

    assert run.total.item() == pytest.approx(sum(losses), rel=1e-5)
    # and the two weights and biases, which all steps share
    assert len(run.behind([run.total])) == 3 * 7 + 4
    drawn = list(run.place(run.total.grad_fn))
    for step in (1, 2, 3):
        assert ("Add", (step, 0), (step + 1, 0)) in drawn
        for y, name in enumerate(column):
            assert (name, (step, -y - 1), (step, -y)) in drawn
    assert len(drawn) == 3 * 5
    names = [node.name() for node in run.behind([run.total])]
    assert Counter(name.rpartition("::")[2] for name in names) == {
        "AddBackward0": 3,
        "MseLossBackward0": 3,
        "AddmmBackward0": 3 * 2,
        "TanhBackward0": 3,
        "TBackward0": 3 * 2,
        "AccumulateGrad": 4,
    }


@edits(
    (
        "one node less",
        "layers = nn.Linear(8, 16), nn.Tanh(),",
        "layers = nn.Linear(8, 16),",
    ),
    (
        "no sum",
        "    total += loss\n\nprint(total",
        "    total = loss\n\nprint(total",
    ),
    (
        "a third weight",
        "layers = nn.Linear(8, 16), nn.Tanh(),",
        "layers = nn.Linear(8, 8), nn.Linear(8, 16), nn.Tanh(),",
    ),
)
def test_each_step_adds_a_column__but_not(snippet, fails, old, new):
    """Without `Tanh`, a step adds six nodes, with a third layer nine; without
    the sum, only one column is left.
    """
    fails(test_each_step_adds_a_column, snippet.edit(old, new))


NUMBERS = ("total += loss.detach()", "total += loss.item()")


def test_detach_and_item_keep_none(snippet):
    run = after(snippet, *WAYS)
    counts_what_is_kept(run)

    for name in NUMBERS:
        for steps in (1, 2, 50):
            nothing = {"nodes": 0, "bytes": 0}
            assert run.kept(run.ways[name], steps) == nothing
        assert run.rows[name] == (nothing, nothing)


@edits(
    ("lambda loss: loss.detach()),", "lambda loss: loss),"),
    ("lambda loss: loss.item()),", "lambda loss: loss * 1),"),
)
def test_detach_and_item_keep_none__but_not_left_out(snippet, fails, old, new):
    """With the loss itself in the sum, or the loss times 1, the nodes stay."""
    fails(test_detach_and_item_keep_none, snippet.edit(old, new))


def test_detach_and_item_keep_none__also_in_a_running_mean(snippet):
    run = after(snippet, *KEPT, "running-mean", "ways")
    mean = run.RunningMean()
    for _ in range(3):
        run.training(lambda loss: mean.add(loss, 200))
        assert run.behind([mean.recent]) == set()
        assert not mean.recent.requires_grad


def trains(run, step):
    """Check that a step uses the gradients of its own loss alone."""
    before = copy.deepcopy(run.model)
    loss = F.mse_loss(before(run.readings), run.temperatures)
    slopes = torch.autograd.grad(loss, list(before.parameters()))
    step()
    pairs = zip(slopes, run.model.parameters(), strict=True)
    assert all(slope.allclose(each.grad) for slope, each in pairs)
    pairs = zip(before.parameters(), run.model.parameters(), strict=True)
    assert not any(old.equal(new) for old, new in pairs)


def counts_what_is_kept(run):
    """Check what the numbers of nodes and bytes rest on."""
    x = torch.ones(3, requires_grad=True)
    outputs = []

    def step():
        outputs.append(run.model(run.readings).detach())
        return x.sum()

    found = run.kept(step, 4)
    # four sums, four additions, and x itself; all that the layers gave out
    assert found == {"nodes": 4 + 4 + 1, "bytes": 4 * 200 * 4}
    outputs.clear()
    found = run.kept(lambda: run.model(run.readings).square().sum(), 4)
    assert found["bytes"] == 4 * LAYERS  # held by the graph alone
    assert all(not layer._forward_hooks for layer in run.model)


def test_backward_frees_the_activations(snippet):
    run = after(snippet, *WAYS)
    counts_what_is_kept(run)

    ten, twenty = run.rows[LOSS]
    assert ten["nodes"] > 0
    assert ten["bytes"] == twenty["bytes"] == 0
    trains(run, run.ways[LOSS])


@edits(
    ("loss.backward(**options)", "loss.sum()"),
    ("loss.backward(**options)", "loss.backward(retain_graph=True)"),
    (
        "return keep(loss)",
        "return keep(loss + 0 * model(readings).tanh().sum())",
    ),
)
def test_backward_frees_the_activations__but_not(snippet, fails, old, new):
    """Without `backward`, or with `retain_graph=True`, the outputs stay; so do
    those that are computed after it.
    """
    fails(test_backward_frees_the_activations, snippet.edit(old, new))


LAYERED = [
    "nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 1)",
    "nn.Linear(8, 16), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(16, 1)",
    "nn.Linear(8, 8), nn.Unflatten(1, (2, 4)), nn.Conv1d(2, 3, 3),"
    " nn.MaxPool1d(2), nn.Flatten(), nn.Linear(3, 1)",
    "nn.Linear(8, 8), nn.Unflatten(1, (1, 8)),"
    " nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Flatten(),"
    " nn.Linear(8, 1)",
]


@pytest.mark.parametrize(
    "layers",
    LAYERED,
    ids=[
        "BatchNorm and GELU",
        "ReLU in place and dropout",
        "a convolution",
        "a transformer",
    ],
)
def test_backward_frees_the_activations__also_of(snippet, layers):
    old = "nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)"
    run = after(snippet.edit(old, layers), *WAYS, "validation", "with-graph")
    inner = []

    def note(layer, inputs, output):
        if isinstance(output, torch.Tensor):  # attention gives a tuple
            inner.append(StorageWeakRef(output.untyped_storage()))

    for layer in run.model.modules():
        layer.register_forward_hook(note)
    total = sum(run.training(lambda loss: loss) for _ in range(3))
    assert total.requires_grad
    assert inner
    assert all(storage.expired() for storage in inner)

    ten, twenty = run.rows[LOSS]
    assert ten["nodes"] > 0
    assert ten["bytes"] == twenty["bytes"] == 0
    assert growth(run.validated)[1] > 0


@pytest.mark.cuda
def test_nodes_lie_beside_the_gpu(snippet):
    edited = snippet.edit("randn(200, 8)", 'randn(200, 8, device="cuda")')
    edited = edited.edit("fresh()\ntotal", 'fresh("cuda")\ntotal')
    run = after(edited, *KEPT)
    gc.collect()  # or what another test left goes while this one counts
    total, held, nodes = 0.0, [], []
    for _ in range(30):
        total = total + run.training(lambda loss: loss)
        held.append(torch.cuda.memory_allocated())
        nodes.append(len(run.behind([total])))

    assert total.is_cuda
    assert held[0] > 0
    assert len(set(held[10:])) == 1
    assert nodes[-1] - nodes[10] == 19 * 7


@pytest.mark.cuda
@edits(
    ("loss.backward(**options)", "loss.backward(retain_graph=True)"),
    ("return keep(loss)", "return keep(loss.detach())"),
)
def test_nodes_lie_beside_the_gpu__but_not(snippet, fails, old, new):
    """With `retain_graph=True`, `backward` does not free the graph; with
    `loss.detach()`, no nodes are kept.
    """
    fails(test_nodes_lie_beside_the_gpu, snippet.edit(old, new))


WAITING = {"item", "print", "if", "cpu", "nonzero"}


@pytest.mark.cuda
def test_reading_waits(snippet):
    run = after(snippet, *MEAN, "acts", "waits")

    assert set(run.waited) == WAITING | {"detach", "add"}
    assert {name for name, has in run.waited.items() if has} == WAITING
    values = {name: act() for name, act in run.acts.items()}
    assert (values["item"], values["if"]) == (1, False)
    assert values["cpu"].device.type == "cpu"
    assert values["print"] == str(run.loss)


@pytest.mark.cuda
@edits(
    (
        "detach reads",
        "lambda: loss.detach()",
        "lambda: loss.detach().tolist()",
    ),
    ("float() * samples", "float().item() * samples"),
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


@pytest.mark.cuda
def test_the_mode_names_what_waits(snippet):
    run = after(snippet, *MEAN, "acts", "waits", "find-waits")

    assert set(run.warned) == WAITING | {"detach", "add"}
    assert {name for name, has in run.warned.items() if has} == WAITING
    assert torch.cuda.get_sync_debug_mode() == 0


@pytest.mark.cuda
@edits(
    ('sync_debug_mode("warn")', 'sync_debug_mode("default")'),
    ("float() * samples", "float().item() * samples"),
    ("lambda: loss.item()", "lambda: loss * 1"),
    ("lambda: loss.cpu()", "lambda: loss.cuda()"),
)
def test_the_mode_names_what_waits__but_not(snippet, fails, old, new):
    """With `"default"`, the mode is off; the other edits let `add` read the
    number, or `item` or `cpu` not read it.
    """
    fails(test_the_mode_names_what_waits, snippet.edit(old, new))


# What goes wrong


def test_without_backward_they_stay(snippet, count=200):
    run = after(snippet, *KEPT, "validation", "with-graph")
    counts_what_is_kept(run) if count == 200 else None

    ten, twenty = run.validated
    each = count * (16 + 1) * 4
    assert (ten["bytes"], twenty["bytes"]) == (10 * each, 20 * each)
    assert growth(run.validated)[0] > 0


@pytest.mark.parametrize("count", [1, 77])
def test_without_backward_they_stay__also_with_days(snippet, count):
    edited = snippet.edit("torch.randn(200, 8)", f"torch.randn({count}, 8)")
    test_without_backward_they_stay(
        edited.edit("list(loader)[:3]", "list(loader)"), count
    )


@edits(
    (
        "with its own backward",
        "return F.mse_loss(model(readings), temperatures)\n",
        "loss = F.mse_loss(model(readings), temperatures)\n"
        "    loss.backward()\n    return loss\n",
    ),
    ("nn.Tanh(), nn.Linear(16, 1)", "nn.Identity(), nn.Linear(16, 1)"),
    (
        "return F.mse_loss(model(readings), temperatures)",
        "return F.mse_loss(model(readings).detach(), temperatures)",
    ),
)
def test_without_backward_they_stay__but_not(snippet, fails, old, new):
    """After `backward`, or with `detach()`, none of it stays; without `Tanh`,
    the first layer's output stays, too.
    """
    fails(test_without_backward_they_stay, snippet.edit(old, new))


def test_without_a_graph_nothing_stays(snippet):
    run = after(snippet, *KEPT, "validation", "without-graph")
    nothing = {"nodes": 0, "bytes": 0}

    assert run.without_graph == (nothing, nothing)
    with torch.no_grad():
        assert run.kept(run.validation, 50) == nothing
    assert run.kept(run.validation, 1) != nothing


def test_without_a_graph_nothing_stays__but_not_with_one(snippet, fails):
    """With `enable_grad()`, the sum keeps nodes and outputs again."""
    edited = snippet.edit(
        "torch.no_grad():\n    without_", "torch.enable_grad():\n    without_"
    )
    fails(test_without_a_graph_nothing_stays, edited)


OUTPUTS = 200 * 4  # bytes of the outputs of a step


def test_a_list_keeps_them_too(snippet):
    run = after(snippet, *KEPT, "collect", "list")
    counts_what_is_kept(run)
    trains(run, lambda: run.collect(lambda outputs: outputs))

    ten, twenty = run.listed
    assert (ten["bytes"], twenty["bytes"]) == (10 * OUTPUTS, 20 * OUTPUTS)
    # of a step: two layers, their transposed weights, and the Tanh
    assert growth(run.listed)[0] == 10 * 5


@edits(
    ("lambda out: [out]", "lambda out: [out.detach()]"),
    ("lambda out: [out]", "lambda out: [out.mean()]"),
    ("lambda out: [out]", "lambda out: [out.tolist()]"),
)
def test_a_list_keeps_them_too__but_not(snippet, fails, old, new):
    """With `detach()`, the list keeps no nodes; with `mean()`, no outputs;
    with `tolist()`, neither.
    """
    fails(test_a_list_keeps_them_too, snippet.edit(old, new))


def test_a_count_keeps_nothing(snippet):
    run = after(snippet, *KEPT, "collect", "count")
    nothing = {"nodes": 0, "bytes": 0}

    assert run.counted == [nothing, nothing]
    taken = {int(each["step"]) for each in run.optimizer.state.values()}
    assert taken == {3 + 10 + 20}
    assert run.kept(lambda: run.collect(run.hits), 3) == nothing
    trains(run, lambda: run.collect(run.hits))
    counts_what_is_kept(run)
    model = nn.Linear(8, 3)
    outputs = model(run.readings)
    assert outputs.requires_grad
    goals = torch.zeros(200, dtype=torch.int64)
    for found in (
        outputs.argmax(1) == goals,
        outputs > 0,
        outputs[:, 0] <= outputs[:, 1],
        outputs.isclose(outputs),
        outputs != 1,
    ):
        assert found.sum().grad_fn is None
    near = run.temperatures + torch.linspace(-1.995, 1.995, 200)[:, None]
    assert 98 <= run.hits(near).item() <= 102


@edits(
    (
        "((outputs - temperatures).abs() < 1).sum()",
        "(outputs - temperatures).abs().sum()",
    ),
    (
        "((outputs - temperatures).abs() < 1).sum()",
        "((outputs - temperatures).abs() < 1).mul(outputs).sum()",
    ),
)
def test_a_count_keeps_nothing__but_not_a_sum(snippet, fails, old, new):
    """A sum of errors, or of the outputs that hit, has a graph, so it keeps
    nodes.
    """
    fails(test_a_count_keeps_nothing, snippet.edit(old, new))


def test_retained_graphs_stay(snippet):
    run = after(snippet, *KEPT, "validation", "with-graph", "retained")
    counts_what_is_kept(run)

    assert run.retained == list(run.validated)
    assert growth(run.retained) == (70, 10 * LAYERS)
    taken = {int(each["step"]) for each in run.optimizer.state.values()}
    assert taken == {3 + 10 + 20}


@edits(
    ('"retain_graph": True', '"retain_graph": False'),
    ("loss, **again)", "loss.detach(), **again)"),
)
def test_retained_graphs_stay__but_not(snippet, fails, old, new):
    """Without `retain_graph=True`, `backward` frees the outputs; with
    `loss.detach()`, the sum keeps nothing.
    """
    fails(test_retained_graphs_stay, snippet.edit(old, new))


SQUARED = (*KEPT, "square", "squared")


def test_attributes_of_ctx_stay(snippet):
    run = after(snippet, *SQUARED)
    counts_what_is_kept(run)

    assert [each["bytes"] for each in run.own] == [10 * OUTPUTS, 20 * OUTPUTS]
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run.Square.apply, x)


def test_attributes_of_ctx_stay__but_not_saved(snippet, fails):
    """What you keep with `ctx.save_for_backward` is freed by `backward`."""
    edited = snippet.edit("ctx.x = x", "ctx.save_for_backward(x)").edit(
        "return 2 * ctx.x * slope",
        "[x] = ctx.saved_tensors\n        return 2 * x * slope",
    )
    fails(test_attributes_of_ctx_stay, edited)


def test_attributes_of_ctx_stay__but_not_taken_back(snippet, fails):
    """Here `backward` sets `ctx.x` to `None` after its use, so nothing
    stays.
    """
    edited = snippet.edit(
        "return 2 * ctx.x * slope",
        "x, ctx.x = ctx.x, None\n        return 2 * x * slope",
    )
    fails(test_attributes_of_ctx_stay, edited)


def test_detach_shares_its_number(snippet):
    run = after(snippet, "imports", "alias")

    assert (run.loss.item(), run.total.item()) == (5, 5)
    assert run.loss.data_ptr() == run.total.data_ptr()
    weight = torch.tensor(1.0, requires_grad=True)
    loss = weight * 2
    total = loss.detach()
    total += 3
    assert loss.item() == 5


@edits(
    ("total = loss.detach()\n", "total = loss.detach().clone()\n"),
    ("total += 3", "total = total + 3"),
    ("total = loss.detach()\n", "total = 0.0 + loss.detach()\n"),
)
def test_detach_shares_its_number__but_not(snippet, fails, old, new):
    """A clone, or a sum that makes a new tensor, has memory of its own, so the
    loss stays 2.
    """
    fails(test_detach_shares_its_number, snippet.edit(old, new))


SHARES = (*KEPT, "shares")


def errors_of(run):
    """Return the error of each day, and the sizes of the batches."""
    with torch.no_grad():
        found = (run.model(run.readings) - run.temperatures).square()
    return found.double().flatten(), [len(x) for x, _ in run.loader]


def test_means_of_means_are_off(snippet):
    run = after(snippet, *SHARES)
    errors, sizes = errors_of(run)

    assert sizes == [64, 64, 64, 8]
    weights = torch.cat([torch.full((n,), 1 / (4 * n)) for n in sizes])
    assert weights[-1] / weights[0] == 8
    by_hand = (errors * weights).sum().item()
    assert run.mean_of_means == pytest.approx(by_hand, rel=1e-5)
    assert run.mean_of_means != pytest.approx(run.whole, rel=0.01)


@edits(
    ("batch_size=64", "batch_size=50"),
    ("batch_size=64", "batch_size=96"),
    ("batch_size=64", "batch_size=64, drop_last=True"),
)
def test_means_of_means_are_off__but_not(snippet, fails, old, new):
    """Batches of 50 are all equal; after 96, each of 8 days counts twelve
    times as much; `drop_last=True` drops the 8 days.
    """
    old, new = f"DataLoader(days, {old})", f"DataLoader(days, {new})"
    fails(test_means_of_means_are_off, snippet.edit(old, new))


def test_weighted_means_are_right(snippet, size=64):
    edited = snippet.edit(
        "DataLoader(days, batch_size=64)",
        f"DataLoader(days, batch_size={size})",
    )
    run = after(edited, *SHARES)
    errors, sizes = errors_of(run)

    assert run.sizes == sizes
    assert run.weighted == sum(run.products) / 200
    assert run.weighted == pytest.approx(errors.mean().item(), rel=1e-5)
    assert run.whole == pytest.approx(errors.mean().item(), rel=1e-5)


@pytest.mark.parametrize("size", [1, 150, 199])
def test_weighted_means_are_right__also_in_batches_of(snippet, size):
    test_weighted_means_are_right(snippet, size)


@pytest.mark.parametrize("kind", [F.l1_loss, F.huber_loss])
def test_weighted_means_are_right__also_for(kind, seeded):
    outputs, targets = torch.randn(2, 100, 3)
    pairs = zip(outputs.split(37), targets.split(37), strict=True)
    found = [(kind(a, b).item(), len(a)) for a, b in pairs]
    whole = kind(outputs, targets).item()
    assert mean_over_samples(*zip(*found, strict=True)) == pytest.approx(whole)


@edits(
    ("products = [n * loss for", "products = [50 * loss for"),
    ("sum(products) / sum(sizes)", "sum(products) / len(sizes)"),
    (
        "summed losses",
        "F.mse_loss(model(x), y).item() for",
        'F.mse_loss(model(x), y, reduction="sum").item() for',
    ),
)
def test_weighted_means_are_right__but_not(snippet, fails, old, new):
    """Weighted alike, divided by the number of batches, or with summed losses,
    it is another number.
    """
    fails(test_weighted_means_are_right, snippet.edit(old, new))


def test_summed_losses_need_no_weight(snippet, kind=F.mse_loss, size=64):
    run = after(snippet, *MEAN)
    torch.manual_seed(0)
    outputs, targets = torch.randn(2, 200, 3)
    mean, total, samples = run.RunningMean(), 0.0, 0
    pairs = zip(outputs.split(size), targets.split(size), strict=True)
    for some, goals in pairs:
        loss = kind(some, goals, reduction="sum")
        mean.add(loss / len(some), len(some))
        total += loss.item()
        samples += len(some)

    each = kind(outputs, targets, reduction="none").double().sum(1)
    assert total / samples == pytest.approx(each.mean().item())
    assert mean.read() == pytest.approx(each.mean().item())


@pytest.mark.parametrize("kind", [F.l1_loss, F.huber_loss])
@pytest.mark.parametrize("size", [1, 7])
def test_summed_losses_need_no_weight__also_for(snippet, kind, size):
    test_summed_losses_need_no_weight(snippet, kind, size)


def mean_loss(outputs, targets, reduction):
    """Return the mean where the sum is asked for."""
    reduction = {"sum": "mean"}.get(reduction, reduction)
    return F.mse_loss(outputs, targets, reduction=reduction)


def test_summed_losses_need_no_weight__ends_for_means(snippet, fails):
    """For losses that are means of their batches: added up as they are, the
    result is far too small.
    """
    fails(test_summed_losses_need_no_weight, snippet, mean_loss)


def test_summed_losses_need_no_weight__but_not_as_they_are(snippet, fails):
    """Here `add` has no factor `samples`, so the divided losses add up to far
    too little.
    """
    edited = snippet.edit("loss.detach().float() * samples", "loss.detach()")
    fails(test_summed_losses_need_no_weight, edited)


IGNORED = (*MEAN, "ignored")


def test_ignored_targets_do_not_count(snippet, goals="", weights=None):
    if goals:
        old = "[[0, 1, 2, 3], [4, 0, 1, -100], [-100] * 4]"
        snippet = snippet.edit(old, goals)
    torch.manual_seed(0)
    run = after(snippet, *IGNORED)
    scores, goals = run.scores.flatten(0, 1), run.goals.flatten()
    kept = goals != -100
    chosen = scores.double().log_softmax(1)[kept, goals[kept]]
    each = torch.ones(5).double() if weights is None else weights
    mean = (-chosen * each[goals[kept]]).sum() / each[goals[kept]].sum()

    assert run.words == int(kept.sum())
    assert run.mean_of_words == pytest.approx(mean.item(), rel=1e-5)


def test_ignored_targets_do_not_count__ends_with_class_weights(snippet, fails):
    """With a weight for each class: weight a batch by the sum of the weights
    of its targets instead.
    """
    old = "F.cross_entropy(score, goal)"
    edited = snippet.edit(old, f"{old[:-1]}, torch.arange(1.0, 6.0))")
    weights = torch.arange(1.0, 6.0, dtype=torch.float64)
    fails(test_ignored_targets_do_not_count, edited, "", weights)


@pytest.mark.parametrize(
    "goals",
    [
        "[[0, 1, 2, 3], [4, 0, 1, 2], [3, 4, 0, 1]]",
        "[[-100, -100, -100, 0], [1, 2, 3, 4], [0, -100, 4, -100]]",
        "[[-100] * 4, [-100] * 4, [2, -100, -100, -100]]",
    ],
    ids=["no ignored word", "ignored words in each batch", "a single target"],
)
def test_ignored_targets_do_not_count__also_with(snippet, goals):
    test_ignored_targets_do_not_count(snippet, goals)


@edits(
    ("every word counts", ".item() * counted", ".item() * 4"),
    ("none is weighed", ".item() * counted", ".item()"),
    (
        "empty batches stay",
        "if counted := (goal != -100).sum().item():",
        "if True:\n        counted = (goal != -100).sum().item()",
    ),
    ("other targets", "(goal != -100)", "(goal > 0)"),
)
def test_ignored_targets_do_not_count__but_not_if(snippet, fails, old, new):
    """Weighted by all four words, ignored ones count too; the other edits
    leave out weights or targets, or let `nan` in.
    """
    fails(test_ignored_targets_do_not_count, snippet.edit(old, new))


def test_a_batch_of_none_is_nan(snippet, size=4, value=-100):
    torch.manual_seed(0)
    run = after(snippet, *IGNORED)
    empty = [
        F.cross_entropy(score, goal).item()
        for score, goal in zip(run.scores, run.goals, strict=True)
        if (goal == -100).all()
    ]

    assert len(empty) == 1
    assert math.isnan(empty[0])
    assert math.isnan(1.0 + 0 * empty[0])
    mean = run.RunningMean()
    mean.add(torch.tensor(1.0), 4)
    mean.add(F.cross_entropy(run.scores[2], torch.full((4,), -100)), 0)
    assert math.isnan(mean.read())
    scores, goals = torch.randn(size, 5), torch.full((size,), value)
    assert math.isnan(F.cross_entropy(scores, goals))
    other = F.cross_entropy(scores, goals + 107, ignore_index=7)
    assert math.isnan(other)


@pytest.mark.parametrize("size", [1, 100])
def test_a_batch_of_none_is_nan__also_of(snippet, size):
    test_a_batch_of_none_is_nan(snippet, size)


@edits(("[-100] * 4", "[-100] * 3 + [0]"))
def test_a_batch_of_none_is_nan__but_not_with_one_target(
    snippet, fails, old, new
):
    """With one target that counts, the loss is a number."""
    fails(test_a_batch_of_none_is_nan, snippet.edit(old, new))


def test_a_batch_of_none_is_nan__but_not_for_a_sum_without_it(snippet, fails):
    """With `nan_to_num()`, the sum takes 0 in place of `nan`."""
    old, new = ".float() * samples", ".float().nan_to_num() * samples"
    fails(test_a_batch_of_none_is_nan, snippet.edit(old, new))


def test_no_batch_no_mean(snippet):
    run = after(snippet, *TRAIN, "running-mean", "train-logged", "empty")

    assert len(run.none) == 0
    assert "division by zero" in vars(run).get("refused", "")
    for loop in (run.train, run.train_logged):
        with pytest.raises(ZeroDivisionError, match="division by zero"):
            loop(run.model, run.none, run.optimizer, "cpu")
    with pytest.raises(ZeroDivisionError):
        run.RunningMean().read()


@edits(
    (
        "a mean of nothing",
        "return total / samples",
        "return total / max(samples, 1)",
    ),
    (
        "return self.total / self.samples",
        "return self.total / (self.samples or 1)",
    ),
)
def test_no_batch_no_mean__but_not(snippet, fails, old, new):
    """With a divisor of at least 1, the mean of nothing is 0, and nothing is
    raised.
    """
    fails(test_no_batch_no_mean, snippet.edit(old, new))


def test_no_batch_no_mean__but_not_with_the_last_batch(snippet, fails):
    """Without `drop_last=True`, the 200 days make a batch."""
    edited = snippet.edit(
        "none = DataLoader(days, batch_size=256, drop_last=True)",
        "none = DataLoader(days, batch_size=256)",
    )
    fails(test_no_batch_no_mean, edited)


def test_the_length_of_the_dataset_misleads(snippet):
    run = after(snippet, *TRAIN, "empty", "by-length")
    assert [len(inputs) for inputs, _ in run.dropping] == [150]
    model = run.model
    with torch.no_grad():
        errors = (model(run.readings) - run.temperatures).square().flatten()
    for size in (3, 64, 150, 199, 256):
        loader = DataLoader(run.days, batch_size=size, drop_last=True)
        seen = size * len(loader)
        found = run.by_length(model, loader)
        if not seen:
            assert found == 0.0
            continue
        mean = errors[:seen].mean().item()
        assert found == pytest.approx(mean * seen / 200, rel=1e-4)
        assert found < mean


@edits(
    ("/ len(loader.dataset)", "/ (len(loader) * loader.batch_size or 1)"),
    (
        "/ len(loader.dataset)",
        "/ (len(loader.dataset) if len(loader) else float('nan'))",
    ),
)
def test_the_length_of_the_dataset_misleads__but_not(snippet, fails, old, new):
    """Divided by the samples in its batches, the mean is right; the other edit
    returns `nan` for no batch.
    """
    fails(test_the_length_of_the_dataset_misleads, snippet.edit(old, new))


SUMS = ("imports", "sums")


def test_tensor_sums_drift(snippet):
    sums = after(snippet, *SUMS).sums

    assert sums["float32"].dtype == torch.float32
    assert round(sums["float32"].item(), 2) == 1999.66
    assert sums["bfloat16"].dtype == torch.bfloat16
    assert sums["bfloat16"].item() == 32
    assert (sums["bfloat16"] + 0.1).item() == 32


@edits(
    ("dtype=torch.bfloat16", "dtype=torch.float64"),
    ('"float32": torch.tensor(0.0)', '"float32": torch.tensor(0.0).double()'),
)
def test_tensor_sums_drift__but_not(snippet, fails, old, new):
    """In `float64`, such a sum is 1999.9999999993."""
    fails(test_tensor_sums_drift, snippet.edit(old, new))


def test_python_sums_hold(snippet):
    found = after(snippet, *SUMS).sums["Python"]

    assert type(found) is float
    assert found == pytest.approx(2000, rel=1e-9)


@edits(
    ('"Python": 0.0', '"Python": torch.tensor(0.0)'),
    ('"Python": 0.0', '"Python": torch.tensor(0.0).bfloat16()'),
)
def test_python_sums_hold__but_not(snippet, fails, old, new):
    """A tensor in its place gives 1999.66 in `float32`, and 32 in
    `bfloat16`.
    """
    fails(test_python_sums_hold, snippet.edit(old, new))


# Where it ends


def test_the_end_of_the_sum_frees_all(snippet, other_names=0):
    run = after(snippet, *KEPT, "validation")
    storages, nodes = [], []
    total = 0.0

    def note(layer, inputs, output):
        storages.append(StorageWeakRef(output.untyped_storage()))
        mark = Mark()
        output.grad_fn.metadata["mark"] = mark
        nodes.append(weakref.ref(mark))

    for layer in list(run.model)[1:]:
        layer.register_forward_hook(note)
    for _ in range(5):
        total = total + run.validation()
    others = [total] * other_names
    assert all(not storage.expired() for storage in storages)
    assert all(node() is not None for node in nodes)
    assert len(storages) == len(nodes) == 10
    del total
    assert all(storage.expired() for storage in storages)
    assert all(node() is None for node in nodes)
    assert not others


@pytest.mark.parametrize("step", ["training", "squared"])
def test_the_end_of_the_sum_frees_all__also_after_backward(snippet, step):
    gc.disable()
    run = after(snippet, *SQUARED)
    steps = {
        "training": lambda: run.training(lambda loss: loss),
        "squared": run.squared,
    }
    nodes, total = [], 0.0
    for _ in range(5):
        total = total + steps[step]()
        for node in run.behind([total]):
            if node.next_functions:  # not the parameters themselves
                node.metadata["mark"] = mark = Mark()
                nodes.append(weakref.ref(mark))
    del mark, node
    alive = [each for each in nodes if each() is not None]
    assert len(alive) == len(run.behind([total])) - 4
    del total
    try:
        assert [each for each in nodes if each() is not None] == []
    finally:
        gc.enable()


class Mark:
    """Lives as long as the node that it is hung on."""


@pytest.mark.parametrize("kept", ["graph = [loss]", "graph = loss.grad_fn"])
def test_the_end_of_the_sum_frees_all__but_not_with_another_name(
    snippet, fails, kept
):
    """Here `graph` still holds the last loss, or its node, and with it what
    that step kept.
    """
    new = (
        "    global graph\n    loss = F.mse_loss(model(readings),"
        f" temperatures)\n    {kept}\n    return loss\n"
    )
    old = "    return F.mse_loss(model(readings), temperatures)\n"
    fails(test_the_end_of_the_sum_frees_all, snippet.edit(old, new))


def kept_parameters(layers, inputs, read):
    """Return which parameters a sum of losses keeps without the model."""
    model = layers()
    total = 0.0
    for _ in range(3):
        loss = model(inputs).square().mean()
        loss.backward()
        total += read(loss)
    alive = {
        name: weakref.ref(each) for name, each in model.named_parameters()
    }
    del model, loss
    gc.collect()
    kept = {name for name, each in alive.items() if each() is not None}
    assert total >= 0  # it is alive until here
    return kept


def linear_and_norm():
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


@pytest.mark.usefixtures("frozen")
def test_the_sum_keeps_the_parameters(snippet, model=linear_and_norm):
    run = after(snippet, "imports", "after-the-model")

    assert run.outlives_the_model(run.reads["loss"])
    assert not run.outlives_the_model(run.reads["loss.item()"])
    learning = {
        name for name, each in model().named_parameters() if each.requires_grad
    }
    inputs = torch.ones(5, 4)
    inputs[0] = 0
    read = run.reads["loss"]
    assert kept_parameters(model, inputs, read) == learning
    for number in (run.reads["loss.item()"], torch.Tensor.detach):
        assert not kept_parameters(model, inputs, number)


@pytest.mark.usefixtures("frozen")
def test_the_sum_keeps_the_parameters__also_the_bias(snippet):
    edited = snippet.edit("ref(model.weight)", "ref(model.bias)")
    test_the_sum_keeps_the_parameters(edited)


def tied():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    return nn.Sequential(first, second)


def frozen_in_part():
    model = linear_and_norm()
    model[0].requires_grad_(False)
    return model


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(
    "model", [tied, frozen_in_part], ids=["tied weights", "a frozen layer"]
)
def test_the_sum_keeps_the_parameters__also_with(snippet, model):
    test_the_sum_keeps_the_parameters(snippet, model)


@edits(
    ("lambda each: each,", "lambda each: each.detach(),"),
    ("lambda each: each.item()", "lambda each: each"),
)
def test_the_sum_keeps_the_parameters__but_not_of_numbers(
    snippet, fails, old, new
):
    """With `detach()`, the sum lets the parameters go; without `item()`, the
    other sum keeps them, too.
    """
    fails(test_the_sum_keeps_the_parameters, snippet.edit(old, new))
