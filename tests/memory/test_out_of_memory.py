"""The claims of docs/memory/out_of_memory.md."""

from functools import cache, partial
from types import SimpleNamespace

import pytest
import torch
from torch import optim
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

MODEL = ("blocks", "recompute", "step", "count")


@cache
def _counted(program):
    names = program.after("count").peak.__globals__
    names["two_steps"] = cache(names["two_steps"])
    return names


def counted(snippet, *cells):
    """Run cells behind those that count, where each way is counted once."""
    names = {**_counted(snippet.only(*MODEL))}
    for cell in cells:
        exec(compile(snippet.cell(cell).source, cell, "exec"), names)
    return SimpleNamespace(**names)


def gradients(model):
    return [each.grad for each in model.parameters()]


def equal(one, other):
    return all(a.equal(b) for a, b in zip(one, other, strict=True))


# Do this


def one_pass(
    run, size, seed, dtype, recompute, auto=None, frozen=0, **options
):
    """Return the loss and the gradients of one pass, and which blocks ran."""
    torch.manual_seed(seed)
    model = run.Forecast(recompute=recompute, **options).to(dtype)
    model.blocks[:frozen].requires_grad_(False)
    inputs, targets = (
        torch.randn(size, options.get("width", 128), dtype=dtype),
        torch.randn(size, 1, dtype=dtype),
    )
    ran = []
    for block in model.blocks:
        block.register_forward_pre_hook(lambda block, _: ran.append(block))
    kind = auto or torch.bfloat16
    with torch.autocast("cpu", kind, enabled=auto is not None):
        loss = F.mse_loss(model(inputs), targets)
    loss.backward()
    # what comes next is drawn from the same place of the generator, too
    learned = [each for each in gradients(model) if each is not None]
    counts = [ran.count(each) for each in model.blocks]
    return [loss, *learned, torch.rand(3)], counts


def test_recomputed_gradients_are_equal(
    snippet, size=512, seed=0, dtype=torch.float32, frozen=0, **options
):
    run = after(snippet, *MODEL)
    options |= {"frozen": frozen}
    kept, once = one_pass(run, size, seed, dtype, False, **options)
    found, twice = one_pass(run, size, seed, dtype, True, **options)
    other, _ = one_pass(run, size, seed + 1, dtype, True, **options)

    assert equal(kept, found)
    assert not equal(kept[:-1], other[:-1])
    assert all(each.any() for each in kept)
    assert once == [1] * len(once)
    assert twice == [2] * len(once)


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (1, {"width": 16, "blocks": 3}),
        (7, {"width": 3, "dtype": torch.float64}),
        (64, {"dtype": torch.bfloat16}),
        (64, {"auto": torch.bfloat16}),
        (64, {"auto": torch.float16}),
    ],
    ids=["1 sample", "float64", "bfloat16", "autocast", "autocast to float16"],
)
def test_recomputed_gradients_are_equal__also_for(snippet, size, options):
    test_recomputed_gradients_are_equal(snippet, size, **options)


@edits(
    (
        "with other random numbers",
        "x = checkpoint(block, x, use_reentrant=F",
        "x = checkpoint(block, x, preserve_rng_state=False, use_reentrant=F",
    ),
    (
        "of another input",
        "x = checkpoint(block, x, use_reentrant=F",
        "x = checkpoint(block, 2 * x, use_reentrant=F",
    ),
    ("without dropout", "x = block(x)", "x = block.eval()(x)"),
    ("once", "if self.recompute:", "if False:"),
)
def test_recomputed_gradients_are_equal__but_not(snippet, fails, old, new):
    """With `preserve_rng_state=False`, dropout draws other numbers the second
    time; with the other edits, a way doubles its input, leaves out dropout,
    or runs each block once.
    """
    fails(test_recomputed_gradients_are_equal, snippet.edit(old, new))


def test_recomputed_gradients_are_equal__ends_for_another_generator(
    snippet, fails
):
    """If a block draws from its own generator: only the default one is set
    back, so the second run draws other numbers.
    """
    edited = snippet.edit(
        "x + self.layers(x)",
        "x + self.layers(x) * torch.rand(x.shape, generator=self.own)",
    ).edit("*inside)", "*inside)\n        self.own = torch.Generator()")
    fails(test_recomputed_gradients_are_equal, edited)


def test_recomputed_gradients_are_equal__ends_for_frozen_blocks(
    snippet, fails
):
    """For frozen first blocks: `backward` does not need them, so each runs
    once.
    """
    inputs = 64, 0, torch.float32, 2
    fails(test_recomputed_gradients_are_equal, snippet, *inputs)


def test_the_parts_add_up(snippet, parts=3, samples=512, train=False):
    run, found = after(snippet, *MODEL), []
    for count in (1, parts):
        model, optimizer, *batch = run.fresh()
        batch = [each[:samples] for each in batch]
        run.step(model.train(train), optimizer, *batch, parts=count)
        found.append(torch.cat([each.ravel() for each in gradients(model)]))
    whole, added = found

    assert whole.any()
    assert (whole - added).abs().max() < 1e-5 * whole.abs().max()


@pytest.mark.parametrize(("parts", "samples"), [(512, 512), (7, 5), (2, 1)])
def test_the_parts_add_up__also_for(snippet, parts, samples):
    test_the_parts_add_up(snippet, parts, samples)


@edits(
    (" * len(some) / len(inputs)", ""),
    ("loss * len(some) / len(inputs)", "loss / parts"),
)
def test_the_parts_add_up__but_not(snippet, fails, old, new):
    """Without a weight for each part, the gradients are three times as large;
    with equal weights, the last part, which is smaller, counts too much.
    """
    fails(test_the_parts_add_up, snippet.edit(old, new))


@pytest.mark.parametrize("layer", ["nn.Dropout(0.2)", "nn.BatchNorm1d(width)"])
def test_the_parts_add_up__ends_with(snippet, fails, layer):
    """With dropout or BatchNorm in training mode: each part draws other
    numbers, or has a mean of its own.
    """
    edited = snippet.edit("nn.Dropout(0.1)", layer)
    fails(test_the_parts_add_up, edited, 3, 512, True)


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


def test_the_second_step_stands_on_the_state__ends_with_few_samples(
    snippet, fails
):
    """With 128 samples: the first step peaks in the optimizer, with part of
    the state.
    """
    fails(test_the_second_step_stands_on_the_state, sized(snippet, 128))


def test_the_second_step_stands_on_the_state__ends_for_a_late_zero_grad(
    snippet, fails
):
    """If `zero_grad()` stands right before `backward()`: the old gradients
    are still there in the second forward pass.
    """
    start, zero = "        (loss * len", "    optimizer.zero_grad()\n"
    edited = snippet.edit(zero, "").edit(start, f"    {zero}{start}")
    fails(test_the_second_step_stands_on_the_state, edited)


@edits(
    ("for _ in range(2)])", "for _ in range(1)])"),
    (
        "optimizer.zero_grad()",
        "optimizer.zero_grad(), optimizer.state.clear()",
    ),
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


def sized(snippet, samples=512, blocks=8):
    """Train on so many samples, with so many blocks."""
    for width in (128, 1):
        old, new = f"randn(512, {width})", f"randn({samples}, {width})"
        snippet = snippet.edit(old, new)
    return snippet.edit("blocks=8, width", f"blocks={blocks}, width")


def test_the_hill_ends_at_the_optimizer(snippet):
    run = counted(snippet, "hill")
    counts_the_bytes(run)
    names, held = zip(*run.curves["as it is"], strict=True)
    backward = [name.startswith("autograd::engine") for name in names]
    optimizer = [name.startswith("Optimizer.step") for name in names]
    first, end = backward.index(True), optimizer.index(True)
    highest = max(held[:end])

    assert first <= held.index(highest) < end
    assert held[first] > 0.9 * highest
    assert held[end] < 0.1 * highest


@pytest.mark.parametrize(("samples", "blocks"), [(512, 16), (1024, 8)])
def test_the_hill_ends_at_the_optimizer__also_with(snippet, samples, blocks):
    test_the_hill_ends_at_the_optimizer(sized(snippet, samples, blocks))


def test_the_hill_ends_at_the_optimizer__ends_with_few_samples(snippet, fails):
    """With 8 samples: gradients outweigh activations, so the peak comes later
    in `backward`.
    """
    fails(test_the_hill_ends_at_the_optimizer, sized(snippet, 8))


def test_the_hill_ends_at_the_optimizer__ends_with_a_large_vocabulary(
    snippet, fails
):
    """If the last layers outweigh the blocks, as with a large vocabulary:
    `backward` peaks at twice what it begins with.
    """
    large = "nn.Linear(width, 4096), nn.LogSoftmax(1), nn.Linear(4096, 1)"
    edited = snippet.edit("nn.Linear(width, 1)", f"nn.Sequential({large})")
    fails(test_the_hill_ends_at_the_optimizer, edited)


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
        "x = block(x)",
        "x = block(x)\n"
        "                block.register_buffer('output', x.detach())",
    ),
)
def test_the_hill_ends_at_the_optimizer__but_not(snippet, fails, old, new):
    """Without activations or with recomputing, the peak is at another place;
    if the model keeps its blocks' outputs, these are not gone.
    """
    fails(test_the_hill_ends_at_the_optimizer, snippet.edit(old, new))


def test_few_samples_need_another_optimizer(snippet, samples=8):
    run = counted(sized(snippet, samples), "remedies")
    whole, sgd = run.peaks.pop("as it is"), run.peaks.pop("SGD")

    assert whole == max(held for _, held in run.two_steps())
    assert sgd < whole / 2
    assert {n: p for n, p in run.peaks.items() if p <= 0.99 * whole} == {}


@edits(
    (
        "with large activations",
        "return x + self.layers(x)\n",
        "return x + self.layers(x.repeat(64, 1))[: len(x)]\n",
    ),
    (
        "with parts and SGD",
        "peak(parts=4),",
        "peak(parts=4, kind=torch.optim.SGD),",
    ),
)
def test_few_samples_need_another_optimizer__but_not(snippet, fails, old, new):
    """If each block works on 64 copies of its input, activations take more
    than the state; and with SGD, parts are another row that saves.
    """
    fails(test_few_samples_need_another_optimizer, snippet.edit(old, new))


def test_few_samples_need_another_optimizer__also_of_32(snippet):
    test_few_samples_need_another_optimizer(snippet, 32)


def test_few_samples_need_another_optimizer__ends_for_many(snippet, fails):
    """With 256 samples: SGD lowers the peak by only a quarter."""
    fails(test_few_samples_need_another_optimizer, snippet, 256)


def through(run, way, batch, auto):
    """Send a batch through the blocks, and learn.

    Return the bytes kept for backward; and the loss, the gradients, and the
    random numbers that come next.
    """
    model = run.fresh(width=batch.shape[1])[0].to(batch.dtype)
    outputs = [batch]

    def forward():
        with torch.autocast("cpu", torch.bfloat16, enabled=auto):
            for block in model.blocks:
                outputs.append(way(block, outputs.pop()))

    held = run.history(forward)[-1][1]
    loss = model.head(*outputs).square().mean()
    loss.backward()
    learned = [torch.ones(0) if g is None else g for g in gradients(model)]
    return held, [loss, *learned, torch.rand(3)]


def test_these_lines_are_a_checkpoint(
    snippet, size=64, dtype=torch.float32, needs=True, auto=False
):
    run = after(snippet, *MODEL, "by-hand")
    batch = torch.randn(size, 8, dtype=dtype, requires_grad=needs)
    ways = (
        run.Checkpoint.apply,
        partial(checkpoint, use_reentrant=False),
        lambda block, x: block(x),
    )
    found = [through(run, way, batch, auto) for way in ways]
    (held, ours), (real_held, real), (_, plain) = found

    assert equal(ours, real)
    assert equal(ours, plain)
    assert all(each.any() for each in ours)
    assert held == real_held


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(1, torch.float32), (7, torch.float64), (512, torch.bfloat16)],
)
def test_these_lines_are_a_checkpoint__also_for(snippet, size, dtype):
    test_these_lines_are_a_checkpoint(snippet, size, dtype)


@edits(
    ("if more is kept", "backward(x)", "backward(x, x + 1)"),
    (
        "with other random numbers",
        "torch.set_rng_state(ctx.random)",
        "torch.rand(1)",
    ),
    ("twice as large", "y.backward(gradient)", "y.backward(2 * gradient)"),
    ("cut off", "return None, x.grad", "return None, None"),
)
def test_these_lines_are_a_checkpoint__but_not(snippet, fails, old, new):
    """Without line 5, dropout draws other numbers; the other edits keep more,
    or pass on other gradients.
    """
    fails(test_these_lines_are_a_checkpoint, snippet.edit(old, new))


def test_these_lines_are_a_checkpoint__ends_for_a_batch(snippet, fails):
    """If the input requires no gradients, as a batch: the blocks get none."""
    inputs = 64, torch.float32, False
    fails(test_these_lines_are_a_checkpoint, snippet, *inputs)


def test_these_lines_are_a_checkpoint__ends_under_autocast(snippet, fails):
    """Under `autocast`: line 6 runs after it has ended, in `float32`."""
    inputs = 64, torch.float32, True, True
    fails(test_these_lines_are_a_checkpoint, snippet, *inputs)


# What goes wrong


def test_without_a_graph_depth_is_free(snippet, deep=40):
    run = after(snippet, *MODEL, "no-graph")
    counts_the_bytes(run)

    assert set(run.forward_peaks) == {"enable_grad", "no_grad"}
    four, eight, sixteen = run.forward_peaks["no_grad"]
    assert four == eight == sixteen > 0
    assert run.forward_peak(deep, torch.no_grad) == four
    four, eight, sixteen = run.forward_peaks["enable_grad"]
    assert sixteen - eight == 2 * (eight - four) > 0


@edits(
    ("with stop():", "with torch.enable_grad():"),
    ("with stop():", "with torch.no_grad():"),
)
def test_without_a_graph_depth_is_free__but_not(snippet, fails, old, new):
    """With a graph in both runs, depth costs memory in both; without one, it
    costs none in either.
    """
    fails(test_without_a_graph_depth_is_free, snippet.edit(old, new))


def test_without_a_graph_depth_is_free__ends_at_one_block(snippet, fails):
    """With a single block: it needs less, since its input is the batch."""
    fails(test_without_a_graph_depth_is_free, snippet, 1)


def test_without_a_graph_depth_is_free__ends_under_autocast(snippet, fails):
    """Under `autocast`: it keeps a 16-bit copy of each weight."""
    auto = "torch.autocast('cpu', torch.bfloat16, cache_enabled=True)"
    edited = snippet.edit("with stop():", f"with stop(), {auto}:")
    fails(test_without_a_graph_depth_is_free, edited)


SAID = "None of the inputs have requires_grad=True. Gradients will be None"


def test_reentrant_blocks_learn_nothing(snippet):
    with no_error():
        run = after(snippet, *MODEL, "reentrant")

    assert gradients(run.model.blocks) == [None] * 16
    assert None not in gradients(run.model.head)
    # one for each block, all of which ran
    assert [str(each.message) for each in run.caught] == [SAID] * 8


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
    inputs = "x = readings.clone().requires_grad_()\n"
    edited = snippet.edit("x = readings\n", inputs)
    fails(test_reentrant_blocks_learn_nothing, edited)


def test_reentrant_blocks_learn_nothing__ends_if_nothing_learns(
    snippet, fails
):
    """If the head is in a checkpoint, too: `backward` raises an error."""
    old = (
        "in model.blocks:\n        x = checkpoint(block, x, use_reentrant=True"
    )
    new = old.replace("model.blocks", "[*model.blocks, model.head]")
    edited = snippet.edit(old, new).edit("model.head(x), temp", "x, temp")
    fails(test_reentrant_blocks_learn_nothing, edited)


def test_recomputed_batchnorm_counts_twice(snippet, shape=(512, 128)):
    run = after(snippet, *MODEL, "batch-norm")
    assert run.norm.num_batches_tracked == 2

    plain = type(run.norm)(128)
    for _ in range(2):
        plain(run.readings.reshape(shape))
    assert plain.running_mean.allclose(run.norm.running_mean)
    assert plain.running_var.allclose(run.norm.running_var)


@pytest.mark.parametrize("shape", [(64, 128, 8), (8, 128, 8, 8)])
def test_recomputed_batchnorm_counts_twice__also_of(snippet, shape):
    edited = snippet.edit("norm, readings", f"norm, readings.reshape({shape})")
    kind = f"nn.BatchNorm{len(shape) - 2}d"
    edited = edited.edit("nn.BatchNorm1d", kind)
    test_recomputed_batchnorm_counts_twice(edited, shape)


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
