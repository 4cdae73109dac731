"""The claims of docs/memory/measuring.md."""

import threading

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits
from extensions.programs.snippet import after

without_cuda = pytest.mark.skipif(
    torch.cuda.is_available(), reason="a CUDA device is here"
)

CELLS = ("train", "history")
LEDGER = (*CELLS, "by-hand", "count")


# Do this


def test_the_peak_counts_what_is_freed(
    snippet,
    sizes=(5000, 1000, 2000),
    dtype=torch.float32,
    make=torch.ones,
    around=lambda call: call(),
):
    kept = []

    def call():
        gone = make(sizes[0], dtype=dtype)
        del gone
        kept.extend(make(size, dtype=dtype) for size in sizes[1:])

    held = after(snippet, *CELLS).history(lambda: around(call))
    assert max(held) == max(sizes[0], sum(sizes[1:])) * dtype.itemsize


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [
        ((1000, 2000, 3000), torch.float64),
        ((9000, 5000, 8000), torch.float64),
        ((1, 1), torch.uint8),
        ((0,), torch.bfloat16),
    ],
    ids=["the later ones", "large ones", "one byte", "nothing"],
)
def test_the_peak_counts_what_is_freed__also_for(snippet, sizes, dtype):
    test_the_peak_counts_what_is_freed(snippet, sizes, dtype)


@edits(
    ("list(itertools.accumulate(sizes, initial=0))", "[sum(sizes)]"),
    ("accumulate(sizes, initial", "accumulate(map(abs, sizes), initial"),
)
def test_the_peak_counts_what_is_freed__but_not(snippet, fails, old, new):
    """The last reading is what is left at the end, not the most; and what is
    freed has to be subtracted.
    """
    fails(test_the_peak_counts_what_is_freed, snippet.edit(old, new))


def from_numpy(size, **_):
    """Make a tensor that shares its memory with an array."""
    return torch.from_numpy(np.ones(size))


def in_a_thread(call):
    """Run the call in another thread."""
    other = threading.Thread(target=call)
    other.start()
    other.join()


@pytest.mark.parametrize(
    "inputs",
    [(from_numpy,), (torch.ones, in_a_thread)],
    ids=["arrays", "a thread"],
)
def test_the_peak_counts_what_is_freed__ends_with(snippet, fails, inputs):
    """With tensors of NumPy arrays, or of another thread: they are not
    counted.
    """
    inputs = (5, 1, 2), torch.float64, *inputs
    fails(test_the_peak_counts_what_is_freed, snippet, *inputs)


def test_the_peak_counts_what_is_freed__ends_for_older_ones(snippet, fails):
    """If a tensor of an earlier `history` ends in the call: its bytes are
    subtracted.
    """
    old = []
    after(snippet, *CELLS).history(lambda: old.append(torch.ones(1000)))

    def around(call):
        old.clear()
        call()

    inputs = (5, 1, 2), torch.float32, torch.ones, around
    fails(test_the_peak_counts_what_is_freed, snippet, *inputs)


# How it works


def kept_by(call, *inputs):
    """Return what a call returns, and where what it keeps for backward is."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: kept.append(tensor.data_ptr()), lambda place: place
    ):
        return call(*inputs), kept


def test_each_layer_keeps_some(snippet, frozen=(), loss=F.mse_loss):
    run = after(snippet, "train")
    for batch in (1, 32, 99):
        model, _, stations, towns, _ = run.train(1, batch)
        for layer in frozen:
            model[layer].requires_grad_(False)
        hidden, first = kept_by(model[0], stations)
        rectified, relu = kept_by(model[1:-1], hidden)
        outputs, second = kept_by(model[-1], rectified)
        _, last = kept_by(loss, outputs, towns)

        assert stations.data_ptr() in first
        assert hidden.data_ptr() not in first
        assert relu == [rectified.data_ptr()]
        assert rectified.data_ptr() in second
        assert outputs.data_ptr() not in second
        assert outputs.data_ptr() in last


@edits(
    ("of another function", "nn.ReLU()", "nn.GELU()"),
    ("with a dropout between", "nn.ReLU(),", "nn.ReLU(), nn.Dropout(0.5),"),
)
def test_each_layer_keeps_some__but_not(snippet, fails, old, new):
    """GELU keeps its input, not its result; and a dropout in between keeps
    something of its own.
    """
    fails(test_each_layer_keeps_some, snippet.edit(old, new))


@pytest.mark.parametrize("layer", [0, 2])
def test_each_layer_keeps_some__ends_if_frozen(snippet, fails, layer):
    """If a `Linear` is frozen: it does not keep its input, because its weight
    needs no gradient.
    """
    fails(test_each_layer_keeps_some, snippet, (layer,))


def test_each_layer_keeps_some__ends_for_a_plain_difference(snippet, fails):
    """For the mean of plain differences: it keeps no outputs, because its
    gradient does not depend on them.
    """

    def difference(outputs, towns):
        return (outputs - towns).mean()

    fails(test_each_layer_keeps_some, snippet, (), difference)


OTHERS = ("parameters", "gradients", "AdamW's state")
BALANCED = (*OTHERS, "batch", "activations")


def test_the_ledger_balances(snippet):
    run = after(snippet, *LEDGER)

    assert list(run.predicted) == [*BALANCED, "loss"]
    for name in BALANCED:
        assert run.counted[name] == run.predicted[name] > 0


@edits(
    (
        "without a bias",
        "nn.Linear(100, 200), nn.R",
        "nn.Linear(100, 200, bias=False), nn.R",
    ),
    (
        "one more average",
        "AdamW(model.parameters())",
        "AdamW(model.parameters(), amsgrad=True)",
    ),
    (
        "a column more",
        "stations = torch.randn(batch, 100, device=device)",
        "stations = torch.randn(batch, 101, device=device)[:, 1:]",
    ),
    (
        "a gradient in a larger storage",
        "        optimizer.step()\n",
        "        optimizer.step()\n"
        "        weight = model[0].weight\n"
        "        weight.grad = weight.grad.repeat(2, 1)[:200]\n",
    ),
    ("with GELU", "nn.ReLU()", "nn.GELU()"),
)
def test_the_ledger_balances__but_not(snippet, fails, old, new):
    """With GELU, the activations take 52,480 bytes, not 26,880; the other
    edits change the parameters, the state, the batch or the gradients.
    """
    fails(test_the_ledger_balances, snippet.edit(old, new))


def test_activations_grow_with_the_batch(snippet):
    run = after(snippet, *LEDGER)
    small = run.counted
    for batch in (1, 64, 99):
        large = run.count(batch)
        for each in OTHERS:
            assert large[each] == small[each] > 0
        for each in ("batch", "activations"):
            assert 32 * large[each] == batch * small[each] > 0


@edits(
    (
        "of pairs",
        "loss = F.mse_loss(model(stations), towns)",
        "loss = F.mse_loss(model(stations) @ towns.T, towns @ towns.T)",
    ),
    (
        "of a wider model",
        "layers = nn.Linear(100, 200), nn.ReLU(), nn.Linear(200, 10)",
        "width = 168 + batch\n"
        "    layers = nn.Linear(100, width), nn.ReLU(), nn.Linear(width, 10)",
    ),
    (
        "of one size",
        "stations = torch.randn(batch, 100, device=device)",
        "stations = torch.randn(99, 100, device=device)[:batch]",
    ),
)
def test_activations_grow_with_the_batch__but_not(snippet, fails, old, new):
    """A loss over all pairs grows faster than the batch; the other edits make
    the model grow, or the batch's storage stay.
    """
    fails(test_activations_grow_with_the_batch, snippet.edit(old, new))


def test_a_difference_misses_the_peak(snippet):
    run = after(snippet, *CELLS, "on-the-cpu")
    curves = [run.curve]
    for steps, batch in ((1, 1), (3, 320)):
        curves.append(run.history(lambda s=steps, b=batch: run.train(s, b)))

    for curve in curves:
        assert curve[0] == curve[-1] == 0
        assert max(curve) > 4 * 4 * 22_210


def test_a_difference_misses_the_peak__but_not_what_stays(snippet, fails):
    """Here a list keeps what `train` returns, so the second reading is 370,736
    bytes, not 0.
    """
    old = "history(lambda: train(steps=2))"
    new = "history(lambda kept=[]: kept.append(train(steps=2)))"
    edited = snippet.edit(old, f"{new}\nkept = history.__defaults__")
    fails(test_a_difference_misses_the_peak, edited)


def test_a_staircase_rises(snippet):
    run = after(snippet, *CELLS, "shapes")
    counts = (2, 3, 4, 10, 40)
    found = {
        name: [run.peak(shape, steps) for steps in counts]
        for name, shape in run.shapes.items()
    }
    first, second, *_ = stairs = found.pop("staircase")

    assert second > first
    assert stairs == [first + (n - 2) * (second - first) for n in counts]
    assert {name: set(peaks) for name, peaks in found.items()} == {
        "plateau": {found["plateau"][0]},
        "spike": {found["spike"][0]},
    }


@edits(
    (
        "of floats",
        "losses.append(F.mse_loss(model(stations), towns))",
        "losses.append(F.mse_loss(model(stations), towns).item())",
    ),
    (
        "of more and more",
        "losses.append(F.mse_loss(model(stations), towns))",
        "losses.append(model(stations.repeat(len(losses) + 1, 1)))",
    ),
    ("with days that grow", "5 if number == steps // 2 else 1", "1 + number"),
)
def test_a_staircase_rises__but_not(snippet, fails, old, new):
    """With `.item()`, no graph is kept, so nothing adds up; with larger and
    larger batches, the stairs get higher, or the spike does.
    """
    fails(test_a_staircase_rises, snippet.edit(old, new))


# What goes wrong


@without_cuda
def test_without_cuda_the_gauge_shows_zero(snippet):
    """No program gives this machine a device that holds tensors."""
    run = after(snippet, "train", "always-zero")

    assert run.on_the_cpu.nbytes == 4_000_000
    assert run.gauges == (0, 0)


@without_cuda
def test_without_cuda_the_summary_fails(snippet):
    """No program gives this machine a device to sum up."""
    error = after(snippet, "train", "without-cuda").no_summary

    assert error.args == ("allocated_bytes.all.current",)


STORED = (*LEDGER, "storages")


def test_a_row_holds_the_table(snippet):
    run = after(snippet, *STORED)
    tables = {"year": (run.year, run.today)}
    for dtype in (torch.uint8, torch.float64):
        table = torch.zeros(7, 3, dtype=dtype)
        tables |= {dtype: (table, table[-1])}

    assert run.today.equal(run.year[0])
    assert run.today.shape == (100,)
    assert run.today.storage_offset() == 0
    for table, row in tables.values():
        assert row.nbytes == table.nbytes // len(table)
        assert run.bytes_of([table]) == table.nbytes
        assert run.bytes_of([row]) == table.nbytes
        assert run.bytes_of([table, row]) == table.nbytes
    assert run.means.shape == run.year.shape
    assert run.bytes_of([run.mean, run.means]) == run.mean.nbytes


@edits(
    ("mean.expand(365, 100)", "mean.expand(365, 100).contiguous()"),
    ("mean.expand(365, 100)", "mean.repeat(365, 1)"),
)
def test_a_row_holds_the_table__but_copies_take_room(snippet, fails, old, new):
    """`contiguous` and `repeat` copy the row 365 times, into 146,000 bytes."""
    fails(test_a_row_holds_the_table, snippet.edit(old, new))


def test_a_row_holds_the_table__but_a_clone_does_not(snippet, fails):
    """A clone has a storage of its own: 400 bytes, not the 146,000 of the
    table.
    """
    edited = snippet.edit("today = year[0]", "today = year[0].clone()")
    fails(test_a_row_holds_the_table, edited)


def test_a_row_holds_the_table__ends_for_a_list_of_indices(snippet, fails):
    """With a list of indices, as in `year[[0]]`: that copies the row."""
    edited = snippet.edit("today = year[0]", "today = year[[0]][0]")
    fails(test_a_row_holds_the_table, edited)


LOST = (*LEDGER, "losses")


def test_a_loss_holds_its_errors(snippet, reduction="mean", weight=None):
    run = after(snippet, *LOST)
    squares, detached = run.losses["mse_loss"], run.losses["detached"]
    assert squares.requires_grad
    assert not detached.requires_grad
    assert squares.numel() == detached.numel() == 1
    assert run.bytes_of([squares]) == 4 * 32 * 10
    assert run.bytes_of([detached]) == 4 * 32 * 10
    assert run.bytes_of([squares, detached]) == 4 * 32 * 10
    assert run.bytes_of([run.losses["cloned"]]) == 4
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        ours = torch.randn(7, 3, dtype=dtype, requires_grad=True)
        goal = torch.zeros(7, 3, dtype=dtype)
        options = {"reduction": reduction, "weight": weight}
        found = F.mse_loss(ours, goal, **options)
        assert found.numel() == 1
        assert run.bytes_of([found]) == ours.nbytes
        assert run.bytes_of([found, found.detach()]) == ours.nbytes
        assert run.bytes_of([found.clone()]) == dtype.itemsize


def test_a_loss_holds_its_errors__also_with_a_sum(snippet):
    test_a_loss_holds_its_errors(snippet, "sum")


def test_a_loss_holds_its_errors__ends_one_by_one(snippet, fails):
    """With `reduction="none"`: the loss is not one number, but one for each
    error.
    """
    fails(test_a_loss_holds_its_errors, snippet, "none")


def test_a_loss_holds_its_errors__ends_with_weights(snippet, fails):
    """With a `weight`: `mse_loss` returns its number in a storage of 4
    bytes.
    """
    weight = torch.ones(7, 3)
    fails(test_a_loss_holds_its_errors, snippet, "mean", weight)


@edits(
    ('"detached": squares.detach()', '"detached": squares.detach().clone()'),
    ("squares.detach().clone()", "squares.detach().expand(1)"),
    ("F.mse_loss(outputs, towns)", "(outputs - towns).square().mean()"),
)
def test_a_loss_holds_its_errors__but_not(snippet, fails, old, new):
    """A clone takes a storage for its one number, a view doesn't; a mean that
    you write out yourself never had a larger one.
    """
    fails(test_a_loss_holds_its_errors, snippet.edit(old, new))


def test_a_loss_holds_its_errors__ends_for_l1_loss(snippet, fails):
    """For `l1_loss` and `huber_loss`: they return a number of 4 bytes."""
    edited = snippet.edit("F.mse_loss(outputs, t", "F.huber_loss(outputs, t")
    fails(test_a_loss_holds_its_errors, edited)


@pytest.mark.cuda
def test_freed_memory_stays_reserved(snippet):
    run = after(snippet, "train", "cuda-freed")
    allocated, reserved = zip(*run.readings.values(), strict=True)
    before, held, freed, emptied = allocated

    assert before == freed == emptied == held - 2**28
    before, held, freed, emptied = reserved
    assert held - 2**28 >= before == emptied
    assert freed == held


@pytest.mark.cuda
@edits(
    ("    del large\n", "    del large\n    torch.cuda.empty_cache()\n"),
    ("    del large\n", ""),
)
def test_freed_memory_stays_reserved__but_not(snippet, fails, old, new):
    """Here `empty_cache` runs right after `del`, or `large` is not deleted at
    all.
    """
    fails(test_freed_memory_stays_reserved, snippet.edit(old, new))


# Where it ends


@pytest.mark.cuda
def test_cuda_blocks_are_512_bytes(snippet):
    run = after(snippet, "train", "cuda-blocks")

    assert run.after_one == 512
    assert run.after_both == 512 + 1024


@pytest.mark.cuda
def test_cuda_blocks_are_512_bytes__but_one_holds_128(snippet, fails):
    """128 such numbers take 512 bytes, which is one block."""
    edited = snippet.edit("torch.ones(129,", "torch.ones(128,")
    fails(test_cuda_blocks_are_512_bytes, edited)
