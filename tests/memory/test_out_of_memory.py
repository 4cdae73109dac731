"""The claims of docs/memory/out_of_memory.md."""

import copy
import weakref
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from torch import optim
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

MODEL = ("imports", "block", "recompute", "step", "days")
COUNTED = (*MODEL, "history", "two-steps")


@cache
def _counted(program):
    names = program.after("two-steps").peak.__globals__
    names["two_steps"] = cache(names["two_steps"])
    return names


def counted(snippet, *cells):
    """Run cells behind those that count, where each way is counted once."""
    names = {**_counted(snippet.only(*COUNTED))}
    for cell in cells:
        exec(compile(snippet.cell(cell).source, cell, "exec"), names)
    return SimpleNamespace(**names)


def gradients(model):
    return [each.grad for each in model.parameters()]


def equal(one, other):
    return all(a.equal(b) for a, b in zip(one, other, strict=True))


# Do this


def forwards(model):
    """Count how often each block runs its forward pass."""
    calls = [0] * len(model.blocks)

    def counts(place):
        def count(*_):
            calls[place] += 1

        return count

    for place, block in enumerate(model.blocks):
        block.layers[0].register_forward_hook(counts(place))
    return calls


def one_pass(run, size, seed, dtype, recompute, auto=None, **options):
    """Return the loss and the gradients of one pass, and the calls."""
    torch.manual_seed(seed)
    model = run.Forecast(recompute=recompute, **options).to(dtype)
    inputs, targets = (
        torch.randn(size, options.get("width", 128), dtype=dtype),
        torch.randn(size, 1, dtype=dtype),
    )
    calls = forwards(model)
    kind = auto or torch.bfloat16
    with torch.autocast("cpu", kind, enabled=auto is not None):
        loss = F.mse_loss(model(inputs), targets)
    loss.backward()
    # what comes next is drawn from the same place of the generator, too
    return [loss, *gradients(model), torch.rand(3)], calls


def test_recomputed_gradients_are_equal(
    snippet, size=512, seed=0, dtype=torch.float32, **options
):
    run = after(snippet, *MODEL)
    kept, once = one_pass(run, size, seed, dtype, False, **options)
    found, twice = one_pass(run, size, seed, dtype, True, **options)
    other, _ = one_pass(run, size, seed + 1, dtype, True, **options)

    assert equal(kept, found)
    assert not equal(kept[:-1], other[:-1])
    assert all(each.any() for each in kept)
    assert once != twice


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_recomputed_gradients_are_equal__also_in(snippet, dtype):
    test_recomputed_gradients_are_equal(snippet, 64, dtype=dtype)


@pytest.mark.parametrize("auto", [torch.bfloat16, torch.float16], ids=str)
def test_recomputed_gradients_are_equal__also_under_autocast(snippet, auto):
    test_recomputed_gradients_are_equal(snippet, 64, auto=auto)


@pytest.mark.parametrize(
    ("size", "width"),
    [(1, 16), (7, 3), (33, 64)],
    ids=["1 sample", "7 samples", "33 samples"],
)
def test_recomputed_gradients_are_equal__also_for(snippet, size, width):
    options = {"width": width, "blocks": 3}
    test_recomputed_gradients_are_equal(snippet, size, 1, **options)


def test_recomputed_gradients_are_equal__but_not_with_other_random_numbers(
    snippet, fails
):
    """With `preserve_rng_state=False`, dropout draws other numbers the second
    time, and the gradients differ.
    """
    edited = snippet.edit(
        "block, x, use_reentrant=False)",
        "block, x, use_reentrant=False, preserve_rng_state=False)",
    )
    fails(test_recomputed_gradients_are_equal, edited)


@edits(
    (
        "of another input",
        "checkpoint(block, x, use_reentrant=F",
        "checkpoint(block, 2 * x, use_reentrant=F",
    ),
    ("without dropout", "x = block(x)", "x = block.eval()(x)"),
)
def test_recomputed_gradients_are_equal__but_not(snippet, fails, old, new):
    """Here the two ways do not compute the same: one doubles its input, or
    leaves out dropout.
    """
    fails(test_recomputed_gradients_are_equal, snippet.edit(old, new))


def test_each_block_runs_twice(snippet, blocks=8, parts=1, frozen=0):
    run = after(snippet, *MODEL)
    for recompute in (False, True):
        options = {"blocks": blocks, "recompute": recompute}
        model, optimizer, inputs, targets = run.fresh(**options)
        for block in model.blocks[:frozen]:
            block.requires_grad_(False)
        calls = forwards(model)
        run.step(model, optimizer, inputs, targets, parts)
        learn = [(1 + recompute) * parts] * (blocks - frozen)
        assert calls[frozen:] == learn


@pytest.mark.parametrize(
    ("blocks", "parts", "frozen"),
    [(1, 1, 0), (3, 2, 0), (3, 4, 1)],
    ids=["one block", "two parts", "four parts with a frozen block"],
)
def test_each_block_runs_twice__also_for(snippet, blocks, parts, frozen):
    test_each_block_runs_twice(snippet, blocks, parts, frozen)


@edits(
    ("if self.recompute:", "if False:"),
    ("if self.recompute:", "if self.recompute and block is self.blocks[0]:"),
    ("x, use_reentrant=F", "block(x), use_reentrant=F"),
)
def test_each_block_runs_twice__but_not(snippet, fails, old, new):
    """Without recomputing, a block runs once; the other edits recompute only
    the first block, or call each once more.
    """
    fails(test_each_block_runs_twice, snippet.edit(old, new))


def test_parts_leave_the_same_gradients(snippet, size=512, seed=0):
    run = after(snippet, *MODEL)
    found = {}
    for parts in {1, 2, 3, 5, min(size, 64)}:
        torch.manual_seed(seed)
        options = {"blocks": 2, "width": 8, "recompute": parts > 2}
        model = run.Forecast(**options).double().eval()
        inputs = torch.randn(size, 8, dtype=torch.float64)
        targets = torch.randn(size, 1, dtype=torch.float64)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        before = copy.deepcopy(model)
        for each in model.parameters():
            each.grad = torch.ones_like(each)  # of an earlier step
        run.step(model, optimizer, inputs, targets, parts)
        found[parts] = gradients(model)
    F.mse_loss(before(inputs), targets).backward()
    whole = gradients(before)
    assert all(each.abs().max() > 1e-6 for each in whole)
    for some in found.values():
        for one, other in zip(whole, some, strict=True):
            assert torch.allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [5, 7, 65])
def test_parts_leave_the_same_gradients__also_for(snippet, size):
    test_parts_leave_the_same_gradients(snippet, size, 1)


@edits(
    (
        "not divided",
        "(loss * len(some) / len(inputs)).backward()",
        "loss.backward()",
    ),
    (
        "on top of earlier gradients",
        "optimizer.zero_grad()\n    kind",
        "kind",
    ),
    (
        "the last part alone",
        "        with torch.auto",
        "        optimizer.zero_grad()\n        with torch.auto",
    ),
    ("a part twice", "in pairs:", "in [next(pairs), *pairs][-1:] * parts:"),
)
def test_parts_leave_the_same_gradients__but_not(snippet, fails, old, new):
    """Not divided, the parts add up to too much; the other edits keep older
    gradients, or leave out parts.
    """
    fails(test_parts_leave_the_same_gradients, snippet.edit(old, new))


def test_parts_leave_the_same_gradients__but_not_by_their_number(
    snippet, fails
):
    """Divided by the number of parts, a smaller part counts as much as a
    larger one.
    """
    edited = snippet.edit("len(some) / len(inputs)", "1 / parts")
    fails(test_parts_leave_the_same_gradients, edited, 7)


# How it works


def state_bytes(optimizer):
    """Return the bytes of all that an optimizer keeps."""
    states = [state.values() for state in optimizer.state.values()]
    return sum(value.nbytes for state in states for value in state)


def test_the_second_step_stands_on_the_state(
    snippet, kind=optim.AdamW, **options
):
    run = counted(snippet)
    day = run.fresh(kind, **options)
    assert state_bytes(day[1]) == 0
    one = max(held for _, held in run.history(lambda: run.step(*day)))
    two = run.peak(kind=kind, **options)

    assert state_bytes(day[1]) > 0
    assert two - one == state_bytes(day[1])
    assert kind is not optim.AdamW or two == run.peak(**options)


@pytest.mark.parametrize(
    "options",
    [{"recompute": True}, {"blocks": 3}, {"kind": optim.Adam}],
    ids=["recomputed blocks", "three blocks", "Adam"],
)
def test_the_second_step_stands_on_the_state__also_with(snippet, options):
    test_the_second_step_stands_on_the_state(snippet, **options)


def test_the_second_step_stands_on_the_state__ends_for_sgd(snippet, fails):
    """For plain SGD: it makes no state."""
    fails(test_the_second_step_stands_on_the_state, snippet, optim.SGD)


@edits(
    ("for _ in range(2)])", "for _ in range(1)])"),
    ("optimizer.zero_grad()", "optimizer.state.clear()"),
    ("optimizer.step()", "optimizer.zero_grad()"),
)
def test_the_second_step_stands_on_the_state__but_not(
    snippet, fails, old, new
):
    """With one step, there is no second peak; the other edits empty the state,
    or never make it.
    """
    fails(test_the_second_step_stands_on_the_state, snippet.edit(old, new))


def counts_the_bytes(run):
    """Check what the curves and the table rest on."""

    def work():
        kept = torch.ones(1000)
        torch.ones(5000)
        return kept, torch.ones(2000)

    kept = []
    held = [now for _, now in run.history(lambda: kept.append(work()))]
    assert (max(held), held[-1]) == (4 * 6000, 4 * 3000)


def with_samples(snippet, samples):
    """Train on so many samples."""
    for width in (128, 1):
        old, new = f"randn(512, {width})", f"randn({samples}, {width})"
        snippet = snippet.edit(old, new)
    return snippet


def test_the_hill_ends_at_the_optimizer(snippet, samples=512, blocks=8):
    snippet = with_samples(snippet, samples)
    run = counted(snippet, "hill")
    counts_the_bytes(run)
    curve = run.curves["as it is"]
    if blocks != 8:
        curve = run.two_steps(blocks=blocks)
    names, held = zip(*curve, strict=True)
    backward = [name.startswith("autograd::engine") for name in names]
    optimizer = [name.startswith("Optimizer.step") for name in names]
    first, end = backward.index(True), optimizer.index(True)
    highest = max(held[:end])

    assert first < end
    assert held[first] > 0.9 * highest
    assert held[end] < 0.1 * highest


@pytest.mark.parametrize(
    ("samples", "blocks"),
    [(512, 16), (1024, 8)],
    ids=["16 blocks", "1,024 samples"],
)
def test_the_hill_ends_at_the_optimizer__also_with(snippet, samples, blocks):
    test_the_hill_ends_at_the_optimizer(snippet, samples, blocks)


def test_the_hill_ends_at_the_optimizer__ends_with_few_samples(snippet, fails):
    """With 8 samples: gradients outweigh activations, so the peak comes later
    in `backward`.
    """
    fails(test_the_hill_ends_at_the_optimizer, snippet, 8)


def test_the_hill_ends_at_the_optimizer__ends_with_a_single_block(
    snippet, fails
):
    """With a single block: the peak comes later in `backward`."""
    fails(test_the_hill_ends_at_the_optimizer, snippet, 512, 1)


@edits(
    (
        "without activations",
        "x = block(x)",
        "with torch.no_grad():\n                    x = block(x)",
    ),
    (
        "recomputed",
        '"as it is": two_steps()',
        '"as it is": two_steps(recompute=True)',
    ),
    (
        "what is kept",
        "        (loss * len",
        "        model.kept = loss\n        (loss * len",
    ),
)
def test_the_hill_ends_at_the_optimizer__but_not(snippet, fails, old, new):
    """Without activations, with recomputing, or if the graph is retained, the
    peak is at another place.
    """
    if "kept" in new:
        snippet = snippet.edit(
            "inputs)).backward()", "inputs)).backward(retain_graph=True)"
        )
    fails(test_the_hill_ends_at_the_optimizer, snippet.edit(old, new))


class Kept:
    """A tensor that is kept for backward, until it is let go."""

    def __init__(self, tensor):
        self.tensor = tensor


def kept_in_a_step(run, model, optimizer, *batch):
    """Return how many tensors each block, the head and the loss keep.

    First when the forward pass ends, then when the gradient of the output of
    the head arrives, of the last block, and so on, and at the end.
    """
    layers = [*model.blocks, model.head]
    kept, counts, place = [[] for _ in [*layers, "loss"]], [], [0]

    def keep(tensor):
        each = Kept(tensor)
        kept[place[0]].append(weakref.ref(each))
        return each

    def count(*_):
        counts.append([sum(each() is not None for each in s) for s in kept])

    def goes_on(layer, inputs, output):
        place[0] += 1
        output.register_hook(count)

    for layer in layers:
        layer.register_forward_hook(goes_on)
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(keep, lambda each: each.tensor):
        run.step(model, optimizer, *batch)
    count()
    return [[len(each) for each in kept], *counts]


def test_a_block_lets_go_in_backward(snippet, blocks=8, samples=512):
    run = after(snippet, *MODEL)
    model, optimizer, *batch = run.fresh(blocks=blocks)
    some = [each[:samples] for each in batch]
    kept, *counts = kept_in_a_step(run, model, optimizer, *some)

    assert min(kept) > 0
    assert len(counts) == blocks + 2
    for gone, found in enumerate(counts, 1):
        assert found == kept[:-gone] + [0] * gone


@pytest.mark.parametrize(
    ("blocks", "samples"), [(1, 512), (3, 1)], ids=["one block", "one sample"]
)
def test_a_block_lets_go_in_backward__also_for(snippet, blocks, samples):
    test_a_block_lets_go_in_backward(snippet, blocks, samples)


def test_a_block_lets_go_in_backward__also_in_parts(snippet):
    run = after(snippet, *MODEL)
    kept = []

    def keep(tensor):
        each = Kept(tensor)
        kept.append(weakref.ref(each))
        return each

    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(keep, lambda each: each.tensor):
        model, optimizer, *batch = run.fresh()
        alive = []
        optimizer.register_step_pre_hook(
            lambda *_: alive.extend(each() for each in kept)
        )
        run.step(model, optimizer, *batch, parts=4)
    assert len(alive) == len(kept) >= 4 * 9
    assert alive == [None] * len(kept)


@edits(
    ("inputs)).backward()", "inputs)).backward(retain_graph=True)"),
    (
        "in blocks of sums alone",
        "x + self.layers(x)",
        "x + self.layers[0].bias",
    ),
)
def test_a_block_lets_go_in_backward__but_not(snippet, fails, old, new):
    """With `retain_graph=True`, no block lets go; and a block that only adds
    keeps nothing at all.
    """
    fails(test_a_block_lets_go_in_backward, snippet.edit(old, new))


REMEDIES = ["4 parts", "bfloat16", "recomputed", "SGD"]


def test_each_remedy_lowers_the_peak(snippet):
    run = counted(snippet, "hill", "remedies")
    counts_the_bytes(run)
    peaks = run.peaks
    both = peaks["4 parts, recomputed"]

    assert all(peaks[name] < 0.9 * peaks["as it is"] for name in REMEDIES)
    assert all(both < 0.9 * peaks[name] for name in REMEDIES)
    for name, curve in run.curves.items():
        assert max(held for _, held in curve) == peaks[name]
    assert peaks["4 parts"] == run.peak(parts=4)
    assert peaks["bfloat16"] == run.peak(dtype=torch.bfloat16)
    assert both == run.peak(parts=4, recompute=True)


@edits(
    ("peak(parts=4),", "peak(),"),
    ("peak(dtype=torch.bfloat16),", "peak(),"),
    ("peak(recompute=True),", "peak(),"),
    ("peak(kind=torch.optim.SGD)", "peak(kind=torch.optim.Adam)"),
    ("peak(parts=4, recompute=True),", "peak(parts=4),"),
    ("peak(parts=4, recompute=True),", "peak(recompute=True),"),
    ("in pairs:", "in [(inputs, targets)]:"),
)
def test_each_remedy_lowers_the_peak__but_not(snippet, fails, old, new):
    """Leave a remedy out, and the peak is as high as without it; Adam in place
    of SGD is no remedy.
    """
    fails(test_each_remedy_lowers_the_peak, snippet.edit(old, new))


def test_the_shares_do_not_multiply(snippet):
    run = counted(snippet, "remedies")
    names = "as it is", "4 parts", "recomputed", "4 parts, recomputed"
    whole, parts, again, both = (run.peaks[name] for name in names)

    assert both / whole > (parts / whole) * (again / whole)

    floors = set()
    for parts, options in ((1, {}), (4, {"recompute": True})):
        model, *day = run.fresh(**options)
        run.step(model, *day, parts)
        kept = sum(each.nbytes for each in gradients(model))
        floors.add(kept + state_bytes(day[0]))
    assert len(floors) == 1


def test_the_shares_do_not_multiply__but_not_with_sgd(snippet, fails):
    """With SGD where blocks are recomputed, the state does not stay as large
    as it was: there is none.
    """
    old = "parts=4, recompute=True),"
    edited = snippet.edit(old, f"{old[:-2]}, kind=torch.optim.SGD),")
    fails(test_the_shares_do_not_multiply, edited)


def test_few_samples_need_another_optimizer(snippet, samples=8):
    run = counted(with_samples(snippet, samples))
    whole = run.peak()

    assert whole == max(held for _, held in run.two_steps())
    assert run.peak(kind=optim.SGD) < whole / 2
    assert run.peak(parts=4) > 0.99 * whole
    assert run.peak(dtype=torch.bfloat16) > 0.99 * whole
    assert run.peak(recompute=True) > 0.99 * whole


def test_few_samples_need_another_optimizer__but_not_with_large_activations(
    snippet, fails
):
    """If each block works on 64 copies of its input, activations take more
    than the state.
    """
    edited = snippet.edit(
        "return x + self.layers(x)\n",
        "return x + self.layers(x.repeat(64, 1))[: len(x)]\n",
    )
    fails(test_few_samples_need_another_optimizer, edited)


def test_few_samples_need_another_optimizer__also_of_32(snippet):
    test_few_samples_need_another_optimizer(snippet, 32)


def test_few_samples_need_another_optimizer__ends_for_many(snippet, fails):
    """With 256 samples: SGD lowers the peak by only a quarter."""
    fails(test_few_samples_need_another_optimizer, snippet, 256)


def test_bfloat16_can_raise_the_peak(snippet):
    run = counted(snippet, "remedies")
    peaks, both = run.peaks, {"parts": 4, "recompute": True}

    assert 1 < peaks["all three"] / peaks["4 parts, recomputed"] < 1.1
    assert peaks["all three"] == run.peak(**both, dtype=torch.bfloat16)
    assert peaks["4 parts, recomputed"] == run.peak(**both)


@edits(
    ("recompute=True, dtype=torch.bfloat16", "recompute=True"),
    ("recompute=True, dtype=torch.bfloat16", "dtype=torch.bfloat16"),
)
def test_bfloat16_can_raise_the_peak__but_not(snippet, fails, old, new):
    """Without `bfloat16`, the peak is the same; without recomputing, it rises
    by more than a tenth.
    """
    fails(test_bfloat16_can_raise_the_peak, snippet.edit(old, new))


# Read the error

READ = ("imports", "gigabytes", "read", "judge", "example")
SIZES = {"asked": 0.25, "device": 8, "free": 91 / 1024, "tensors": 7.21}
SIZES["unused"] = 113.25 / 1024
OTHER = """CUDA out of memory. Tried to allocate 20.00 KiB. GPU 1 has a total
 capacity of 512.00 MiB of which 0 bytes is free. Process 17 has 3.00 MiB
 memory in use. Including non-PyTorch memory, this process has 8.00 GiB memory
 in use. Of the allocated memory 12.50 MiB is allocated by PyTorch, with
 6.00 MiB allocated in private pools (e.g., CUDA Graphs), and 512 bytes is
 reserved by PyTorch but unallocated. If reserved but unallocated memory is
 large try setting PYTORCH_ALLOC_CONF=expandable_segments:True"""
OTHERS = {"asked": 20 / 2**20, "device": 0.5, "free": 0}
OTHERS |= {"tensors": 12.5 / 1024, "unused": 512 / 2**30}
PHRASES = ("Tried to allocate", "total capacity", "is free")
PHRASES += ("is allocated by", "but unallocated")


def test_gigabytes_reads_the_text(snippet):
    run = after(snippet, "imports", "gigabytes", "read")
    shown = snippet.cell("example").source.split('"""')[1]
    line = " ".join(OTHER.split())
    texts = {shown: SIZES, line: OTHERS, line.replace(" ", "\n"): OTHERS}
    texts[line.replace("capacity", "capacty")] = OTHERS  # as torch 2.1 wrote
    texts[line.replace(" ", "\n      ")] = OTHERS
    limit = "GiB is free. 4.00 GiB allowed; Of"  # of a memory fraction
    texts[" ".join(shown.split()).replace("MiB is free. Of", limit)] = (
        SIZES | {"free": 91}
    )

    for text, sizes in texts.items():
        with no_error():
            found = run.gigabytes(text)
        assert found == pytest.approx(sizes)
        assert list(found) == list(sizes)
        line = " ".join(text.split()).replace("capacty", "capacity")
        for name, phrase in zip(sizes, PHRASES, strict=True):
            with pytest.raises(ValueError, match=rf"say what is {name}$"):
                run.gigabytes(line.replace(phrase, ""))
    for words in (
        "CUDA out of memory. Tried to allocate 2.00 GB on private pool.",
        "you tried to allocate 4096 bytes.",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"
        " `cublasCreate(handle)`",
        "CUDA error: out of memory",
        "",
    ):
        with pytest.raises(ValueError, match=r"say what is asked$"):
            run.gigabytes(words)


@edits(
    ('"KiB": 2**10', '"KiB": 1000'),
    ('"MiB": 2**20', '"MiB": 10**6'),
    ('"GiB": 2**30', '"GiB": 10**9'),
    ('"bytes": 1,', '"bytes": 8,'),
    ("/ 2**30", "/ 10**9"),
    ('"free": f"of which', '"free": f"with'),
    ('" ".join(text.split())', "text"),
    ("is {name}", "there is"),
)
def test_gigabytes_reads_the_text__but_not(snippet, fails, old, new):
    """With 1,000 bytes to a KiB, or other wrong units, sizes are wrong; the
    other edits miss one, or do not name it.
    """
    fails(test_gigabytes_reads_the_text, snippet.edit(old, new))


# asked, device, free, tensors, unused, and what follows from them
VERDICTS = (
    (5, 8, 1, 6, 0.5, "huge"),
    (4, 8, 1, 6, 0.5, "fill the device"),
    (5, 8, 0, 1, 0, "huge"),
    (4.125, 8, 1, 6, 0.5, "huge"),
    (1, 8, 0.5, 4.25, 0.5, "something else holds 2.8 GiB"),
    (1, 8, 0.5, 5, 0.5, "fill the device"),  # 2 of 8 are a quarter
    (1, 8, 0.5, 3, 2, "something else holds 2.5 GiB"),
    (1, 8, 3, 1, 1, "something else holds 3.0 GiB"),
    (1, 8, 0.5, 5, 2, "fragmented"),
    (1, 8, 1.5, 4, 1.25, "fragmented"),
    (1, 8, 0.5, 6, 1, "fragmented"),
    (2, 8, 1.5, 4, 1.25, "fragmented"),  # neither by itself
    (1, 8, 0.5, 6.5, 0.5, "fill the device"),
    (0.0625, 8, 0, 7.5, 0.125, "fill the device"),  # under a fiftieth
    (0.0625, 8, 0.0625, 7.5, 0.0625, "fill the device"),
    (0.0625, 8, 0, 7.5, 0.1875, "fragmented"),
    (0.0625, 8, 0.125, 7.5, 0.125, "fragmented"),
    (1, 8, 1.5, 6, 0.5, "is free"),
    (1, 8, 1, 6, 0, "fill the device"),
    (1, 8, 1.5, 5.5, 1, "is free"),
    (0.0625, 8, 0.125, 7.5, 0, "fill the device"),
    (0.0625, 8, 0.1875, 7.5, 0, "is free"),
    (1, 6, 0, 8, 0.5, "fill the device"),  # more than the device has
)
WORDS = ("huge", "something else", "fragmented", "is free", "fill the device")
# of threads in which people ask for help
REAL = (
    (22 / 1024, 23.65, 0.0108, 22.9, 194.87 / 1024, "fill the device"),
    (2.16, 79.1, 1.63, 68.16, 3.49, "fragmented"),
    (3.15, 39.56, 6.8, 31.66, 4.11, "fragmented"),
    (10, 24, 9, 6, 8.5, "fragmented"),
    (0.75, 83.05, 0.137, 21.92, 0.779, "something else holds 60.2 GiB"),
    (20 / 1024, 79.19, 78.67, 4 / 1024, 16 / 1024, "is free"),
    (30.29, 10.74, 3.69, 6.1, 0.387, "huge"),
    (18.56, 47.37, 17.6, 25.54, 1.52, "fragmented"),
)


def text_of(size):
    """Write an error text with these sizes."""
    return (
        f"Tried to allocate {size['asked']} GiB. GPU 0 has a total capacity of"
        f" {size['device']} GiB of which {size['free']} GiB is free. Of the"
        f" allocated memory {size['tensors']} GiB is allocated by PyTorch, and"
        f" {size['unused']} GiB is reserved by PyTorch but unallocated."
    )


def test_judge_compares_the_sizes(snippet, verdicts=VERDICTS):
    judge = after(snippet, *READ).judge

    for *sizes, verdict in verdicts:
        found = judge(text_of(dict(zip(SIZES, sizes, strict=True))))
        assert verdict in found, sizes
        assert sum(word in found for word in WORDS) == 1


def test_judge_compares_the_sizes__also_in_threads(snippet):
    test_judge_compares_the_sizes(snippet, REAL)


@pytest.mark.parametrize(
    "times", [0.25, 32], ids=["a quarter as large", "32 times as large"]
)
def test_judge_compares_the_sizes__also_on_a_device(snippet, times):
    scaled = [
        (*(size * times for size in sizes), verdict.partition(" holds")[0])
        for *sizes, verdict in VERDICTS
    ]
    test_judge_compares_the_sizes(snippet, scaled)


@edits(
    ("asked > device / 2:", "asked > device:"),
    ("asked > device / 2:", "asked >= device / 2:"),
    ("other > device / 4:", "other > device / 2:"),
    ("other > device / 4:", "other > tensors:"),
    ("device - free - tensors", "device - tensors"),
    ("max(asked, device / 50)", "asked"),
    ("max(asked, device / 50)", "device / 50"),
    ("free > needed >= unused:", "free > needed:"),
    ("free > needed >= unused:", "free >= needed >= unused:"),
    ("one at a time", "free + unused > needed", "max(free, unused) > needed"),
    ("free + unused > needed", "free + unused >= needed"),
)
def test_judge_compares_the_sizes__but_not(snippet, fails, old, new):
    """Ignore what was asked for, or shift a bound or a sum, and some texts get
    another answer.
    """
    fails(test_judge_compares_the_sizes, snippet.edit(old, new))


@pytest.mark.cuda
def test_the_text_of_cuda_is_read(snippet):
    run = after(snippet, *READ, "on-cuda")

    found = run.gigabytes(run.cuda_text)
    assert found["asked"] == 2**50 * 4 / 2**30
    total = torch.cuda.get_device_properties(0).total_memory / 2**30
    assert found["device"] == pytest.approx(total, rel=0.01)


@pytest.mark.cuda
def test_the_text_of_cuda_is_read__but_not_of_another_size(snippet, fails):
    """Here only half as much is asked for."""
    edited = snippet.edit("torch.empty(2**50,", "torch.empty(2**49,")
    fails(test_the_text_of_cuda_is_read, edited)


# What goes wrong


def test_without_a_graph_depth_is_free(snippet):
    run = after(snippet, *COUNTED, "no-graph")
    counts_the_bytes(run)

    assert set(run.forward_peaks) == {"enable_grad", "no_grad"}
    four, eight, sixteen = run.forward_peaks["no_grad"]
    assert four == eight == sixteen > 0
    assert run.forward_peak(40, torch.no_grad) == four
    four, eight, sixteen = run.forward_peaks["enable_grad"]
    assert sixteen - eight == 2 * (eight - four) > 0


@edits(
    (
        "torch.enable_grad, torch.no_grad",
        "torch.enable_grad, torch.enable_grad",
    ),
    ("torch.enable_grad, torch.no_grad", "torch.no_grad, torch.no_grad"),
    ("with stop():", "with torch.enable_grad():"),
    ("with stop():", "with torch.no_grad():"),
)
def test_without_a_graph_depth_is_free__but_not(snippet, fails, old, new):
    """With a graph in both runs, depth costs memory in both; without one, it
    costs none in either.
    """
    fails(test_without_a_graph_depth_is_free, snippet.edit(old, new))


SAID = "None of the inputs have requires_grad=True. Gradients will be None"


def test_reentrant_blocks_learn_nothing(snippet, inputs=""):
    if inputs:
        snippet = snippet.edit("x = readings\n", f"x = {inputs}\n")
    run = after(snippet, *MODEL, "reentrant")

    # one for each block, all of which ran
    assert [str(each.message) for each in run.caught] == [SAID] * 8
    blocks = run.model.blocks.parameters()
    assert all(each.grad is None for each in blocks)
    assert all(each.grad is not None for each in run.model.head.parameters())


@pytest.mark.parametrize("inputs", ["readings[:1]", "torch.rand(512, 128)"])
def test_reentrant_blocks_learn_nothing__also_on(snippet, inputs):
    test_reentrant_blocks_learn_nothing(
        snippet.edit(
            "temperatures).backward", "temperatures[: len(x)]).backward"
        ),
        inputs,
    )


def test_reentrant_blocks_learn_nothing__but_not_the_other_form(
    snippet, fails
):
    """With `use_reentrant=False`, the blocks get gradients, and there is no
    warning.
    """
    edited = snippet.edit("use_reentrant=True", "use_reentrant=False")
    fails(test_reentrant_blocks_learn_nothing, edited)


def test_reentrant_blocks_learn_nothing__ends_for_inputs_with_gradients(
    snippet, fails
):
    """If the inputs require gradients: there is no warning, and the blocks
    learn.
    """
    inputs = "readings.clone().requires_grad_()"
    fails(test_reentrant_blocks_learn_nothing, snippet, inputs)


def test_recomputed_batchnorm_counts_twice(snippet, kind="1d", shape=()):
    snippet = snippet.edit("nn.BatchNorm1d", f"nn.BatchNorm{kind}")
    if shape:
        changed = f"checkpoint(norm, readings.reshape({shape}), "
        snippet = snippet.edit("checkpoint(norm, readings, ", changed)
    run = after(snippet, *MODEL, "batch-norm")
    assert run.norm.num_batches_tracked == 2

    plain = getattr(torch.nn, f"BatchNorm{kind}")(128)
    for _ in range(2):
        plain(run.readings.reshape(shape or (512, 128)))
    assert plain.running_mean.allclose(run.norm.running_mean)
    assert plain.running_var.allclose(run.norm.running_var)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("1d", (64, 128, 8)), ("2d", (8, 128, 8, 8)), ("3d", (8, 128, 4, 4, 4))],
    ids=["sequences", "images", "volumes"],
)
def test_recomputed_batchnorm_counts_twice__also_of(snippet, kind, shape):
    test_recomputed_batchnorm_counts_twice(snippet, kind, shape)


@edits(
    (
        "kept",
        "checkpoint(norm, readings, use_reentrant=False)",
        "norm(readings)",
    ),
    (
        "in evaluation",
        "norm = nn.BatchNorm1d(128)",
        "norm = nn.BatchNorm1d(128).eval()",
    ),
    ("without backward", "False).mean().backward()", "False).mean()"),
    (
        "recomputed in vain",
        "norm = nn.BatchNorm1d(128)",
        "norm = nn.BatchNorm1d(128, momentum=0.0)",
    ),
)
def test_recomputed_batchnorm_counts_twice__but_not(snippet, fails, old, new):
    """Without `checkpoint` or `backward`, it counts once, in evaluation never;
    with `momentum=0.0`, the statistics stay.
    """
    fails(test_recomputed_batchnorm_counts_twice, snippet.edit(old, new))


WRONG = (*MODEL, "failing", "one-pass", "retry-wrong", "compared")


def test_a_failed_backward_leaves_gradients(snippet):
    run = after(snippet, *WRONG)
    full = [len(each._backward_hooks) for each in run.model.blocks]
    assert full == [0, 0, 0, 1, 0, 0, 0, 0]
    ratios = [a / b for a, b in zip(run.retried, run.rights, strict=True)]

    assert ratios[:3] == pytest.approx([1, 1, 1], rel=1e-4)
    assert ratios[4:] == pytest.approx([2, 2, 2, 2], rel=1e-4)
    model, _, *batch = run.fresh()
    model.blocks[3].register_full_backward_hook(run.Full())
    with pytest.raises(torch.OutOfMemoryError):
        run.one_pass(model, *batch)
    before, behind = model.blocks[:3], model.blocks[4:]
    assert all(each.grad is None for each in before.parameters())
    assert all(each.grad is not None for each in behind.parameters())
    once = [each.grad.clone() for each in behind.parameters()]
    run.one_pass(model, *batch)
    assert equal([2 * each for each in once], gradients(behind))
    assert all(each.grad is not None for each in before.parameters())


@edits(
    (
        "emptied",
        "        one_pass(model, inp",
        "        model.zero_grad()\n        one_pass(model, inp",
    ),
    (
        "a third try",
        "for _ in range(2):\n    try",
        "for _ in range(3):\n    try",
    ),
    (
        "one block before",
        "blocks[3].register_full_backward_hook(Full())\nfor _",
        "blocks[2].register_full_backward_hook(Full())\nfor _",
    ),
    (
        "in the last block",
        "blocks[3].register_full_backward_hook(Full())\nfor _",
        "blocks[7].register_full_backward_hook(Full())\nfor _",
    ),
)
def test_a_failed_backward_leaves_gradients__but_not(snippet, fails, old, new):
    """After `zero_grad()`, nothing is doubled; a third try, or an error in
    another block, gives other numbers.
    """
    fails(test_a_failed_backward_leaves_gradients, snippet.edit(old, new))


RIGHT = (*MODEL, "failing", "retry-right")


def test_step_can_be_tried_again(snippet, place=3, parts=1, fails_at=1):
    with no_error():
        run = after(snippet, *RIGHT)
    assert (run.parts, run.failed) == (2, False)
    for kind in (optim.SGD, optim.AdamW):
        found = []
        for fails_first in (True, False):
            model, optimizer, *batch = run.fresh(kind)
            full = run.Full()
            full.calls = 1 - fails_at
            model.blocks[place].register_full_backward_hook(full)
            if fails_first:
                with pytest.raises(torch.OutOfMemoryError):
                    run.step(model, optimizer, *batch, parts)
            full.calls = 1
            torch.manual_seed(2)
            run.step(model, optimizer, *batch, parts=2)
            found.append(gradients(model))
        assert equal(*found)


@pytest.mark.parametrize(
    ("place", "parts", "fails_at"),
    [(1, 1, 1), (7, 1, 1), (3, 4, 3)],
    ids=["block 1", "block 7", "the third of four parts"],
)
def test_step_can_be_tried_again__also_in(snippet, place, parts, fails_at):
    test_step_can_be_tried_again(snippet, place, parts, fails_at)


@pytest.mark.parametrize("times", [2, 4], ids="{} failures".format)
def test_step_can_be_tried_again__also_after(snippet, times):
    run = after(snippet, *RIGHT)
    found = []
    for failures in (times, 0):
        model, optimizer, *batch = run.fresh()
        for _ in range(failures):
            full = run.Full()
            handle = model.blocks[3].register_full_backward_hook(full)
            with pytest.raises(torch.OutOfMemoryError):
                run.step(model, optimizer, *batch)
            handle.remove()
        torch.manual_seed(2)
        run.step(model, optimizer, *batch, parts=2)
        found.append(gradients(model))
        assert all(each.any() for each in found[-1])
    assert equal(*found)


@edits(
    ("without a reset", "    optimizer.zero_grad()\n", ""),
    ("a reset that keeps", "optimizer.zero_grad()", "model.head.zero_grad()"),
    ("no second try", "for parts in (1, 2):", "for parts in (1,):"),
    ("the whole again", "for parts in (1, 2):", "for parts in (1, 1):"),
)
def test_step_can_be_tried_again__but_not(snippet, fails, old, new):
    """Without a second try, there is no step; tried whole again, it is not in
    two parts; without the reset, gradients stay.
    """
    fails(test_step_can_be_tried_again, snippet.edit(old, new))


def test_a_failed_try_leaves_more(snippet, before=0, mode="train"):
    run = after(snippet, *MODEL, "failing")
    model, optimizer, *batch = run.fresh()
    norm = torch.nn.BatchNorm1d(128)
    model.blocks[before].layers.append(norm)
    getattr(model, mode)()
    model.blocks[3].register_full_backward_hook(run.Full())
    state = torch.get_rng_state()
    with pytest.raises(torch.OutOfMemoryError):
        run.step(model, optimizer, *batch)

    assert norm.num_batches_tracked == 1
    assert norm.running_mean.any()
    assert not torch.get_rng_state().equal(state)


@pytest.mark.parametrize("block", [3, 7])
def test_a_failed_try_leaves_more__also_in_blocks(snippet, block):
    test_a_failed_try_leaves_more(snippet, block)


def test_a_failed_try_leaves_more__ends_in_evaluation(snippet, fails):
    """In evaluation mode: BatchNorm counts no batches."""
    fails(test_a_failed_try_leaves_more, snippet, 0, "eval")


def test_a_failed_try_leaves_more__but_not_without_dropout(snippet, fails):
    """Without dropout, no random numbers are drawn, so the generator is where
    it was.
    """
    edited = snippet.edit("nn.Dropout(0.1)", "nn.Identity()")
    fails(test_a_failed_try_leaves_more, edited)


def test_half_a_state_is_a_keyerror(snippet, place=0, average=2):
    run = after(snippet, *MODEL)
    model, optimizer, *batch = run.fresh()
    zeros, calls = torch.zeros_like, []

    def full(*args, **options):
        calls.append(1)
        # each parameter gets its first average, then its second
        if len(calls) == 2 * place + average:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return zeros(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "zeros_like", full)
        with pytest.raises(torch.OutOfMemoryError):
            run.step(model, optimizer, *batch)
    missing = {1: "exp_avg", 2: "exp_avg_sq"}[average]
    for _ in range(2):
        with pytest.raises(KeyError, match=rf"^'{missing}'$"):
            run.step(model, optimizer, *batch)


@pytest.mark.parametrize("parameter", [0, 1, 17])
def test_half_a_state_is_a_keyerror__also_before_both_averages_of_parameters(
    snippet, parameter
):
    test_half_a_state_is_a_keyerror(snippet, parameter, 1)


@edits(
    (
        "of another optimizer",
        "=torch.optim.AdamW, **",
        "=torch.optim.RMSprop, **",
    ),
    (
        "with a new state",
        "    optimizer.zero_grad()\n",
        "    optimizer.zero_grad()\n    optimizer.state.clear()\n",
    ),
)
def test_half_a_state_is_a_keyerror__but_not(snippet, fails, old, new):
    """RMSprop's error names another average, `square_avg`; after
    `state.clear()`, a step makes a new state.
    """
    fails(test_half_a_state_is_a_keyerror, snippet.edit(old, new), 0, 1)
