"""The claims of docs/memory/measuring.md."""

import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since
from extensions.programs.snippet import after

without_cuda = pytest.mark.skipif(
    torch.cuda.is_available(), reason="a CUDA device is here"
)
without_accelerator = pytest.mark.skipif(
    torch.accelerator.is_available(), reason="an accelerator is here"
)
gauges_of_accelerators = api_since("2.9", "torch.accelerator.memory_allocated")

COUNTED = ("imports", "history", "train", "bytes-of", "kinds")
LEDGER = (*COUNTED, "predict", "watched", "count")


# Do this


def works(sizes, dtype, keep=None):
    """Return a call that frees its first tensor before it makes the others.

    What it returns lives on until the call of the call has ended.
    """

    def work():
        gone = torch.ones(sizes[0], dtype=dtype)
        del gone
        kept = [torch.ones(size, dtype=dtype) for size in sizes[1:]]
        if keep is not None:
            keep.extend(kept)

    return work


@without_accelerator
def test_the_peak_counts_what_is_freed(
    snippet, sizes=(5000, 1000, 2000), dtype=torch.float32, threads=1, older=0
):
    run = after(snippet, "imports", "history", "peak")
    call = works(sizes, dtype)
    old = []
    run.history(lambda: old.append(torch.ones(older)))

    def within():
        old.clear()
        if threads == 1:
            return call()
        other = threading.Thread(target=call)
        other.start()
        return other.join()

    most = max(sizes[0], sum(sizes[1:])) * dtype.itemsize
    assert run.peak(within if older or threads > 1 else call) == most


@without_accelerator
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


@without_accelerator
def test_the_peak_counts_what_is_freed__also_of_what_stays(snippet):
    run = after(snippet, "imports", "history", "peak")
    kept = []
    assert run.peak(works((10, 20, 30), torch.float32, kept)) == 4 * 50


def pretend(monkeypatch):
    """Have an accelerator in name, and return what it holds."""
    held = {"now": 100, "highest": 1000}
    there = torch.accelerator
    monkeypatch.setattr(there, "is_available", lambda: True)
    monkeypatch.setattr(
        there,
        "reset_peak_memory_stats",
        lambda: held.update(highest=held["now"]),
    )
    monkeypatch.setattr(there, "memory_allocated", lambda: held["now"])
    monkeypatch.setattr(there, "max_memory_allocated", lambda: held["highest"])
    return held


@without_accelerator
@edits(
    ("return max(history(call))", "return history(call)[-1]"),
    ("return max(history(call))", "return sum(history(call))"),
)
def test_the_peak_counts_what_is_freed__but_not(snippet, fails, old, new):
    """The last reading is what is left at the end, not the most; the sum of
    all readings is too high.
    """
    fails(test_the_peak_counts_what_is_freed, snippet.edit(old, new))


@without_accelerator
@pytest.mark.parametrize(
    ("threads", "older"), [(2, 0), (1, 1000)], ids=["threads", "older ones"]
)
def test_the_peak_counts_what_is_freed__ends_with(
    snippet, fails, threads, older
):
    """With tensors of another thread, which are not counted; with older ones,
    whose end lowers the count.
    """
    inputs = (9, 1, 1), torch.float32, threads, older
    fails(test_the_peak_counts_what_is_freed, snippet, *inputs)


@pytest.mark.simulates("an accelerator")
@gauges_of_accelerators
def test_the_peak_is_of_the_device(snippet, monkeypatch):
    run = after(snippet, "imports", "history", "peak")
    held = pretend(monkeypatch)
    assert held["highest"] > held["now"]
    run.peak(lambda: None)
    assert held["highest"] == held["now"]

    for size in (1, 1000):
        assert run.peak(lambda size=size: torch.ones(size)) == 0
        on_the_cpu = run.history(lambda size=size: torch.ones(size))
        assert max(on_the_cpu) == 4 * size


def test_the_peak_is_of_the_device__also_of_what_is_freed(
    snippet, monkeypatch
):
    run = after(snippet, "imports", "history", "peak")
    held = pretend(monkeypatch)

    def take(size):
        held["now"] += size
        held["highest"] = max(held["highest"], held["now"])

    def work():
        take(50)
        take(-50)
        take(20)

    assert run.peak(work) == 50
    assert held["now"] == 120


@edits(
    ("without asking for one", "if not torch.acc", "if torch.acc"),
    ("    torch.accelerator.reset_peak_memory_stats()\n", ""),
)
def test_the_peak_is_of_the_device__but_not(
    snippet, fails, monkeypatch, old, new
):
    """With the condition reversed, the CPU is measured; without the reset, an
    older peak counts.
    """
    fails(test_the_peak_is_of_the_device, snippet.edit(old, new), monkeypatch)


# How it works


def kept_by(call, *inputs):
    """Return what a call returns, and where what it keeps for backward is."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: kept.append(tensor.data_ptr()), lambda place: place
    ):
        return call(*inputs), kept


def test_each_layer_keeps_some(snippet, frozen=(), loss=F.mse_loss):
    run = after(snippet, *COUNTED)
    for batch in (1, 32, 99):
        model, _, stations, towns, _ = run.train(1, batch)
        layers = [each for each in model if not isinstance(each, nn.Dropout)]
        for layer in frozen:
            layers[layer].requires_grad_(False)
        hidden, first = kept_by(layers[0], stations)
        rectified, relu = kept_by(model[1:-1], hidden)
        outputs, second = kept_by(layers[2], rectified)
        _, last = kept_by(loss, outputs, towns)

        tensors = {"stations": stations, "hidden": hidden}
        tensors |= {"rectified": rectified, "outputs": outputs}
        names = {each.data_ptr(): name for name, each in tensors.items()}
        first, relu, second, last = (
            [names.get(place, "another") for place in kept]
            for kept in (first, relu, second, last)
        )
        assert "stations" in first
        assert relu == ["rectified"]
        assert "rectified" in second
        assert "outputs" in last
        assert len(layers) == 3
    run = after(snippet, *LEDGER)
    batch = {each.data_ptr() for each in run.kinds["batch"]}
    results = {each.data_ptr(): each for each in run.saved if each.ndim == 2}
    shapes = [each.shape for at, each in results.items() if at not in batch]
    assert shapes.count((32, 10)) == shapes.count((32, 200)) == 1


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


OTHERS = ("parameters", "gradients", "optimizer's state")
BALANCED = (*OTHERS, "batch", "activations")


def test_the_ledger_balances(snippet):
    run = after(snippet, *LEDGER)

    assert set(run.predicted) == set(run.counted) == {*BALANCED, "loss"}
    for name in BALANCED:
        assert run.counted[name] == run.predicted[name] > 0


def test_the_ledger_balances__also_with_a_frozen_layer(snippet):
    """A parameter without a gradient is counted, and its gradient is not."""
    run = after(snippet, *COUNTED)
    model, *others = run.train(1)
    model[0].requires_grad_(False)
    model.zero_grad()
    F.mse_loss(model(others[1]), others[2]).backward()
    kinds = run.kinds_of(model, *others)

    assert run.bytes_of(kinds["parameters"]) == 4 * 22_210
    assert run.bytes_of(kinds["gradients"]) == 4 * (200 * 10 + 10)


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
        "half of the parameters",
        "AdamW(model.parameters())",
        "AdamW(model[0].parameters())",
    ),
    (
        "every other day",
        "stations = torch.randn(batch, 100, device=device)",
        "stations = torch.randn(2 * batch, 100, device=device)[::2]",
    ),
    (
        "a gradient in a larger storage",
        "        optimizer.step()\n",
        "        optimizer.step()\n"
        "        weight = model[0].weight\n"
        "        weight.grad = weight.grad.repeat(2, 1)[:200]\n",
    ),
)
def test_the_ledger_balances__but_not(snippet, fails, old, new):
    """Without a bias, there are fewer parameters than predicted; the other
    edits change the state, the batch or the gradients.
    """
    fails(test_the_ledger_balances, snippet.edit(old, new))


def test_the_ledger_balances__but_not_with_gelu(snippet, fails):
    """With GELU, the activations take 52,480 bytes, not the predicted
    26,880.
    """
    edited = snippet.edit("nn.ReLU()", "nn.GELU()")
    fails(test_the_ledger_balances, edited)


def test_activations_grow_with_the_batch(snippet):
    small = after(snippet, *LEDGER).counted
    for batch in (1, 64, 99):
        edited = snippet.edit(
            "batch, numbers = 32", f"batch, numbers = {batch}"
        )
        large = after(edited, *LEDGER)
        assert all(
            large.counted[each] == large.predicted[each] for each in BALANCED
        )
        assert {each: large.counted[each] for each in OTHERS} == {
            each: small[each] for each in OTHERS
        }
        for each in ("batch", "activations"):
            assert 32 * large.counted[each] == batch * small[each]


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
    run = after(snippet, *LEDGER, "curve")
    before, *between, end = run.curve

    assert before == end == 0
    assert max(between) > 4 * 4 * run.numbers
    for steps, batch in ((1, 1), (3, 320)):
        held = run.history(lambda s=steps, b=batch: run.train(s, b))
        assert held[0] == held[-1] == 0
        assert max(held) > 4 * 4 * run.numbers


def test_a_difference_misses_the_peak__but_not_what_stays(snippet, fails):
    """Here a list keeps what `train` returns, so the second reading is 370,736
    bytes, not 0.
    """
    edited = snippet.edit(
        "history(lambda: train(steps=2))",
        "history(lambda: seen.append(train(steps=2)))",
    )
    fails(test_a_difference_misses_the_peak, edited)


def test_the_peak_is_above_the_ledger(snippet):
    run = after(snippet, "peak", "ask", *LEDGER, "curve")
    batches = (1, 32, 320, 3200)
    ledgers = [
        run.predicted
        | {
            "batch": 4 * batch * (100 + 10),
            "activations": 4 * batch * (200 + 10),
            "loss": 4 * batch * 10,
        }
        for batch in batches
    ]
    assert sum(ledgers[1].values()) == sum(run.counted.values())
    states = run.train(2)[1].state.values()
    assert [each["step"].item() for each in states] == [2] * 4
    for batch, ledger in zip(batches, ledgers, strict=True):
        held = run.history(lambda batch=batch: run.train(2, batch))
        assert max(held) > sum(ledger.values())
        assert batch != 32 or held == run.curve
    if not torch.accelerator.is_available():
        assert run.most == max(run.curve)
        assert torch.device(run.device).type == "cpu"


@edits(
    (
        "of one loss",
        "F.mse_loss(model(stations), towns)\n        loss.",
        "F.mse_loss(model(stations[:1]), towns[:1])\n        loss.",
    ),
    (
        "of a frozen model",
        "AdamW(model.parameters())",
        "AdamW(model[2].parameters())",
    ),
)
def test_the_peak_is_above_the_ledger__but_not(snippet, fails, old, new):
    """With a loss of one day, or only the last layer in the optimizer, the
    step holds less than the ledger lists.
    """
    fails(test_the_peak_is_above_the_ledger, snippet.edit(old, new))


SHAPES = ("imports", "history", "train", "shapes")


def peaks(run, shape, *steps):
    return [max(run.history(lambda n=n: shape(n))) for n in steps]


def test_a_plateau_stays(snippet):
    run = after(snippet, *SHAPES)
    one, two, nine = peaks(run, run.plateau, 1, 2, 9)

    assert one == two == nine > 0
    run.model.zero_grad()
    run.plateau(2)
    assert all(each.grad.any() for each in run.model.parameters())


def test_a_plateau_stays__but_not_of_what_is_kept(snippet, fails):
    """Here each step keeps its outputs in a list, so further steps raise the
    peak.
    """
    edited = snippet.edit(
        "    for _ in range(steps):\n"
        "        F.mse_loss(model(stations), towns).backward()",
        "    kept = []\n    for _ in range(steps):\n"
        "        kept.append(model(stations))",
    )
    fails(test_a_plateau_stays, edited)


def test_a_staircase_rises(snippet):
    run = after(snippet, *SHAPES)
    steps = (1, 2, 3, 4, 10, 40)
    found = peaks(run, run.staircase, *steps)
    each = found[1] - found[0]

    assert each > 0
    assert found == [found[0] + (n - 1) * each for n in steps]


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
)
def test_a_staircase_rises__but_not(snippet, fails, old, new):
    """With `.item()`, no graph is kept, so nothing adds up; with larger and
    larger batches, the steps get higher.
    """
    fails(test_a_staircase_rises, snippet.edit(old, new))


def test_a_spike_is_one_batch(snippet):
    run = after(snippet, *SHAPES)
    sizes = []
    hook = run.model.register_forward_hook(
        lambda *args: sizes.append(len(args[2]))
    )
    (high,) = peaks(run, run.spike, 8)
    eight, sizes[:] = list(sizes), []
    for steps in (2, 12, 20):
        run.spike(steps)
        assert [size > 32 for size in sizes].count(True) == 1
        sizes.clear()
    hook.remove()

    def even():
        for _ in range(8):
            some, goal = run.stations.repeat(1, 1), run.towns.repeat(1, 1)
            F.mse_loss(run.model(some), goal).backward()

    assert eight.count(32) == 7
    assert max(eight) > 32
    assert 0 < max(run.history(even)) < high / 2


@edits(
    ("days = 5 if", "days = 2 if"),
    ("number == steps // 2", "number >= steps // 2"),
    ("number == steps // 2", "number == steps"),
)
def test_a_spike_is_one_batch__but_not(snippet, fails, old, new):
    """If the long batch is only twice as long, the peak falls by less than
    half; the other edits make several, or none.
    """
    fails(test_a_spike_is_one_batch, snippet.edit(old, new))


@pytest.mark.cuda
def test_a_snapshot_names_the_lines(snippet):
    run = after(snippet, "imports", "train", "snapshot", "snapshot-read")
    lines = snippet.text.splitlines()
    sizes = dict.fromkeys((".to(device)", "optimizer.step()"), 0)
    for line, size in run.taken.items():
        for name in sizes:
            if lines[line - 1].endswith(name):
                sizes[name] += size
    numbers = 100 * 200 + 200 + 200 * 10 + 10

    assert set(run.snapshot) >= {"segments", "device_traces"}
    assert sizes[".to(device)"] >= 4 * numbers
    assert sizes["optimizer.step()"] >= 8 * numbers


@pytest.mark.cuda
@edits(
    (
        "what is not recorded",
        '_record_memory_history(stacks="python")',
        "_record_memory_history(enabled=None)",
    ),
    (
        "a state that was never made",
        "        optimizer.step()\n",
        "",
    ),
)
def test_a_snapshot_names_the_lines__but_not_of(snippet, fails, old, new):
    """With `enabled=None`, nothing is recorded; without `optimizer.step()`, no
    state is made.
    """
    fails(test_a_snapshot_names_the_lines, snippet.edit(old, new))


# What goes wrong

NO_DEVICE = ("imports", "gauges", "without-cuda")


def answer(run, name):
    """Return what a gauge said, by the end of its name."""
    (found,) = [each for each in run.answers if each.endswith(name)]
    return run.answers[found]


@without_cuda
@gauges_of_accelerators
def test_without_cuda_the_gauge_shows_zero(snippet):
    """No program gives this machine a device that holds tensors."""
    with no_error():
        run = after(snippet, *NO_DEVICE)

    assert run.on_the_cpu.nbytes == 4_000_000
    assert answer(run, "cuda.memory.memory_allocated") == 0
    assert answer(run, "cuda.memory.memory_reserved") == 0


@without_cuda
@gauges_of_accelerators
def test_without_cuda_the_summary_fails(snippet):
    """No program gives this machine a device to sum up."""
    error = answer(after(snippet, *NO_DEVICE), "memory_summary")

    assert type(error) is KeyError
    assert error.args == ("allocated_bytes.all.current",)


@without_cuda
@without_accelerator
@gauges_of_accelerators
def test_without_cuda_the_reset_fails(snippet):
    """No program gives this machine a peak to reset."""
    run = after(snippet, *NO_DEVICE)
    built = torch.backends.cuda.is_built()
    found = type(answer(run, "reset_peak_memory_stats"))
    assert found is (RuntimeError if built else AttributeError)
    others = ("_snapshot", "accelerator.memory.memory_allocated")
    found = [type(answer(run, name)) for name in others]
    assert found == ([dict, int] if built else [AttributeError, RuntimeError])


STORED = ("imports", "bytes-of", "storages")


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


def test_expand_takes_no_room(snippet):
    run = after(snippet, *STORED)

    assert run.means.shape == run.year.shape
    assert run.means.nbytes == run.year.nbytes
    assert run.bytes_of([run.mean, run.means]) == run.mean.nbytes
    for size in (1, 5):
        one = torch.zeros(size, dtype=torch.int16)
        many = one.expand(1000, size)
        assert many.nbytes == 1000 * one.nbytes
        assert run.bytes_of([one, many]) == one.nbytes


@edits(
    ("mean.expand(365, 100)", "mean.expand(365, 100).contiguous()"),
    ("mean.expand(365, 100)", "mean.repeat(365, 1)"),
)
def test_expand_takes_no_room__but_its_copy_does(snippet, fails, old, new):
    """`contiguous` and `repeat` copy the row 365 times, into 146,000 bytes."""
    fails(test_expand_takes_no_room, snippet.edit(old, new))


LOST = ("imports", "bytes-of", "losses")


def test_a_loss_holds_its_errors(snippet, reduction="mean", weight=None):
    run = after(snippet, *LOST)
    squares, detached = run.losses["mse_loss"], run.losses["detached"]
    assert squares.requires_grad
    assert not detached.requires_grad
    assert squares.numel() == detached.numel() == 1
    assert run.bytes_of([squares]) == 4 * 32 * 10
    assert run.bytes_of([detached]) == 4 * 32 * 10
    assert run.bytes_of([squares, detached]) == 4 * 32 * 10
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        ours = torch.randn(7, 3, dtype=dtype, requires_grad=True)
        goal = torch.zeros(7, 3, dtype=dtype)
        options = {"reduction": reduction, "weight": weight}
        found = F.mse_loss(ours, goal, **options)
        assert found.numel() == 1
        assert run.bytes_of([found]) == ours.nbytes
        assert run.bytes_of([found, found.detach()]) == ours.nbytes


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
    ("squares.detach()", "squares.detach().clone()"),
    ("F.mse_loss(outputs, towns)", "(outputs - towns).square().mean()"),
)
def test_a_loss_holds_its_errors__but_not(snippet, fails, old, new):
    """A clone takes a storage for its one number alone, and so does a mean
    that you write out yourself.
    """
    fails(test_a_loss_holds_its_errors, snippet.edit(old, new))


def test_a_cloned_loss_is_one_number(snippet):
    run = after(snippet, *LOST)
    for name in ("cloned", "l1_loss"):
        assert run.bytes_of([run.losses[name]]) == 4
    ours, goal = torch.randn(7, 3, dtype=torch.float64), torch.zeros(7, 3)
    found = [
        F.l1_loss(ours, goal),
        F.huber_loss(ours, goal.double()),
        F.l1_loss(ours, goal, reduction="sum"),
        F.huber_loss(ours, goal.double(), reduction="sum"),
        F.mse_loss(ours, goal).clone(),
    ]
    assert [run.bytes_of([each]) for each in found] == [8] * 5


@edits(
    ("squares.clone()", "squares"),
    ("squares.clone()", "squares.expand(1)"),
)
def test_a_cloned_loss_is_one_number__but_not(snippet, fails, old, new):
    """Without `clone`, or as a view made by `expand`, the number is still in
    the large storage.
    """
    fails(test_a_cloned_loss_is_one_number, snippet.edit(old, new))


FREED = ("imports", "read", "cuda-freed")


@pytest.mark.cuda
def test_the_driver_sees_more(snippet):
    """No program makes it false: CUDA's own context is always there."""
    run = after(snippet, *FREED)

    assert len(run.readings) == 4
    for allocated, reserved, driver in run.readings.values():
        assert driver > reserved >= allocated


def test_the_driver_sees_more__also_by_its_own_words(snippet, monkeypatch):
    """On any machine: what a driver calls free is not counted."""
    run = after(snippet, "imports", "read")
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 10)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 20)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (70, 100))

    assert run.read() == (10, 20, 30)


@pytest.mark.cuda
def test_freed_memory_stays_reserved(snippet):
    run = after(snippet, *FREED)
    allocated, reserved, _ = zip(*run.readings.values(), strict=True)
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


@pytest.mark.cuda
def test_cuda_knows_its_peak(snippet):
    cells = ("imports", "history", "peak", "train", "cuda-peak")
    run = snippet.only(*cells).after("cuda-peak")
    last = torch.cuda.max_memory_allocated()

    assert run.stale == run.earlier > last
    assert last > torch.cuda.memory_allocated()
    assert run.peak(lambda: torch.ones(2**20, device="cuda")) == 4 * 2**20


@pytest.mark.cuda
@edits(
    ("    torch.cuda.reset_peak_memory_stats()\n", ""),
    (
        "    stale = torch.cuda.max_memory_allocated()\n",
        "    stale = torch.cuda.memory_allocated()\n",
    ),
)
def test_cuda_knows_its_peak__but_not(snippet, fails, old, new):
    """Without the reset, the earlier peak still counts; and `memory_allocated`
    reads the present, not the highest point.
    """
    fails(test_cuda_knows_its_peak, snippet.edit(old, new))


# Where it ends


def test_history_sees_its_own_tensors(
    snippet, array=np.ones, threads=2, within=False
):
    history = after(snippet, "imports", "history").history
    assert history(lambda: None) == [0]
    old = []

    def make():
        old.append(torch.ones(1000))

    if within:
        history(make)
    else:
        make()

    def work():
        old.clear()
        array(1000)
        if threads == 1:
            return torch.ones(1000)
        other = threading.Thread(target=torch.ones, args=(1000,))
        other.start()
        return other.join()

    assert history(work) == [0]


def test_history_sees_its_own_tensors__but_not_if_what_python_holds_counts(
    snippet, fails
):
    """If `history` adds up what Python allocates, it sees the array."""
    edited = snippet.edit(
        "with profile(activities=[ProfilerActivity.CPU], "
        "profile_memory=True) as p:\n"
        "        call()\n",
        "import tracemalloc\n"
        "\n"
        "    tracemalloc.start()\n"
        "    with profile(activities=[ProfilerActivity.CPU], "
        "profile_memory=True) as p:\n"
        "        call()\n"
        "    most = tracemalloc.get_traced_memory()[1]\n"
        "    tracemalloc.stop()\n",
    )
    edited = edited.edit(
        "initial=0))",
        "initial=most))",
    )
    fails(test_history_sees_its_own_tensors, edited)


@pytest.mark.parametrize(
    "inputs",
    [(torch.ones,), (np.ones, 1), (np.ones, 2, True)],
    ids=["a tensor", "one thread", "within another history"],
)
def test_history_sees_its_own_tensors__ends_for(snippet, fails, inputs):
    """For a tensor of its own thread, or the end of one that was made in an
    earlier `history`: it sees them.
    """
    fails(test_history_sees_its_own_tensors, snippet, *inputs)


@pytest.mark.cuda
def test_cuda_blocks_are_512_bytes(snippet):
    run = after(snippet, "imports", "cuda-blocks")

    assert run.after_one == 512
    assert run.after_both == 512 + 1024


@pytest.mark.cuda
def test_cuda_blocks_are_512_bytes__but_one_holds_128(snippet, fails):
    """128 such numbers take 512 bytes, which is one block."""
    edited = snippet.edit("torch.ones(129,", "torch.ones(128,")
    fails(test_cuda_blocks_are_512_bytes, edited)


@pytest.mark.cuda
def test_the_ledger_balances_on_cuda(snippet):
    run = after(snippet, *COUNTED, "cuda-ledger")

    assert sum(run.rounded) == run.cuda_counted > 4 * 4 * 22_210


@pytest.mark.cuda
@edits(
    ("rounded = [-(-size // 512) * 512 for", "rounded = [size for"),
    (
        "    base = torch.cuda.memory_allocated()\n    kept =",
        "    base = torch.cuda.memory_allocated()\n"
        "    more = torch.ones(1, device='cuda')\n    kept =",
    ),
)
def test_the_ledger_balances_on_cuda__but_not(snippet, fails, old, new):
    """Here sizes are not rounded up to 512 bytes, or one more tensor is made
    after the first reading.
    """
    fails(test_the_ledger_balances_on_cuda, snippet.edit(old, new))
