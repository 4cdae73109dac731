"""The claims of docs/training/mixed_precision.md."""

import contextlib
import math
import warnings
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import printed
from tests.helpers import worlds

FULL, BRAIN, HALF = torch.float32, torch.bfloat16, torch.float16
ADAM = partial(torch.optim.Adam, lr=0.01)
SGD = partial(torch.optim.SGD, lr=0.1)


def after(snippet, *names):
    """Run the cell of the digits and these, and no others."""
    return snippet.only("digits", *names).after(names[-1])


def vector(model):
    """Return the weights of a model."""
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def said(snippet, name):
    """Return the lines that a cell prints."""
    after(snippet, name)
    return printed[-1][name].splitlines()


# Do this


def in_brain(snippet):
    """Let the loop compute in `bfloat16`."""
    old = "dtype = torch.float16  # or torch.bfloat16"
    return snippet.edit(old, "dtype = torch.bfloat16")


def in_full(snippet):
    """Let the loop compute in `float32`."""
    old, new = "with torch.autocast(device, dtype=dtype):", "if True:"
    return in_brain(snippet).edit(old, new)


def accuracy(snippet):
    """Return the accuracy after an epoch."""
    return snippet.after("predict").accuracy


def test_it_learns_like_float32(snippet):
    full = accuracy(in_full(snippet))
    assert full > 0.85
    for each in (snippet, in_brain(snippet)):
        with no_error():
            assert accuracy(each) == pytest.approx(full, abs=0.03)


@edits(
    (
        "another seed",
        "manual_seed(0)\n    return",
        "manual_seed(1)\n    return",
    ),
    ("SGD", "Adam(model.parameters(), lr=0.01)", "SGD(model.parameters(), 1)"),
    ("AdamW", "optim.Adam(model", "optim.AdamW(model"),
)
def test_it_learns_like_float32__also_with(snippet, old, new):
    test_it_learns_like_float32(snippet.edit(old, new))


def test_it_learns_like_float32__ends_for_large_inputs(snippet, fails):
    """Inputs above 65,504 are inf in `float16`, and no step is taken."""
    edited = snippet.edit("/ 16 - 0.3", "* 10_000")
    fails(test_it_learns_like_float32, edited)


@edits(
    ("without a step", "backward()\n    scaler.step(optimizer)", "backward()"),
    (
        "with far too large a scale",
        "GradScaler(device, enabled",
        "GradScaler(device, 2.0**127, enabled",
    ),
)
def test_it_learns_like_float32__but_not(snippet, old, new, fails):
    """Without `step`, nothing is learned; from a scale of 2¹²⁷, each step of
    an epoch is skipped.
    """
    fails(test_it_learns_like_float32, snippet.edit(old, new))


def test_weights_stay_in_32_bits(snippet):
    for edited in (snippet, in_brain(snippet)):
        run = edited.after("mixed")
        found = {p.dtype for p in run.model.parameters()}
        found |= {p.grad.dtype for p in run.model.parameters()}
        for state in run.optimizer.state.values():
            assert {"exp_avg", "exp_avg_sq"} <= set(state)
            found |= {each.dtype for each in state.values()}
        assert found == {FULL}


@edits(
    (
        "with dropout",
        "linear(64, 32), nn.ReLU()",
        "linear(64, 32), nn.Dropout()",
    ),
    (
        "with BatchNorm",
        "linear(64, 32), nn.ReLU()",
        "linear(64, 32), nn.BatchNorm1d(32)",
    ),
    ("with AdamW", "optim.Adam(model", "optim.AdamW(model"),
)
def test_weights_stay_in_32_bits__also(snippet, old, new):
    test_weights_stay_in_32_bits(snippet.edit(old, new))


def test_weights_stay_in_32_bits__but_not_if_converted(snippet, fails):
    """After `to(torch.bfloat16)`, the weights are in 16 bits, and all that is
    made from them.
    """
    new = "model = new_model().to(device, torch.bfloat16)"
    edited = snippet.edit("model = new_model().to(device)", new)
    fails(test_weights_stay_in_32_bits, edited)


# How it works


def mlp(linear):
    """Return the model of the page."""
    return nn.Sequential(linear(64, 32), nn.ReLU(), linear(32, 10))


class Residual(nn.Module):
    """Layers around which the inputs are added."""

    def __init__(self, linear):
        super().__init__()
        self.inner = nn.Sequential(linear(64, 64), nn.GELU(), linear(64, 64))
        self.head = linear(64, 10)

    def forward(self, inputs):
        """Return the scores."""
        return self.head(inputs + self.inner(inputs))


class TwiceUsed(nn.Module):
    """A layer that is used twice."""

    def __init__(self, linear):
        super().__init__()
        self.shared, self.head = linear(64, 64), linear(64, 10)

    def forward(self, inputs):
        """Return the scores."""
        return self.head(self.shared(self.shared(inputs).tanh()).relu())


def ours(run, model, optimizers, scale):
    """Yield what the sixteen lines make of each batch."""
    scaler = run.Scaler()
    scaler.scale = scale
    batch = yield
    while True:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]).float(), batch[1])
        for optimizer in optimizers:
            held = [p for g in optimizer.param_groups for p in g["params"]]
            scaler.step(loss, optimizer, held)
        batch = yield loss.item(), scaler.scale


def theirs(model, optimizers, world):
    """Yield what autocast and GradScaler make of each batch."""
    scaler = torch.amp.GradScaler("cpu", world.scale, **world.options)
    batch = yield
    while True:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=world.dtype):
            loss = F.cross_entropy(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        batch = yield loss.item(), scaler.get_scale()


def bits(values):
    """Return numbers as bits, so that nan equals nan."""
    numbers = torch.cat([v.detach().flatten() for v in values])
    return numbers.nan_to_num(nan=7e7).tolist()


def batches_of(run, rows, steps):
    """Yield batches of the digits."""
    images, labels = run.digits[:]
    for step in range(steps):
        picked = torch.arange(step * rows, (step + 1) * rows) % len(labels)
        yield images[picked], labels[picked]


WORLD = {
    "make": mlp,
    "kind": ADAM,
    "scale": 2.0**20,
    "rows": 20,
    "steps": 60,
    "dtype": HALF,
    "wide": FULL,
    "options": {},
    "change": lambda model: model,
    "divide": lambda parameters: [list(parameters)],
    "around": contextlib.nullcontext,
}


def test_sixteen_lines_are_mixed_precision(snippet, given=None):
    run = after(snippet, "by-hand", "compare")
    assert run.unequal == 0
    assert run.our_scaler.scale == run.their_scaler.get_scale()
    lines = snippet.cells()["by-hand"].source.splitlines()
    assert sum(bool(line.strip()) for line in lines) == 16

    world = SimpleNamespace(**WORLD | (given or {}))
    models = []
    for linear in (run.Linear, nn.Linear):
        torch.manual_seed(1)
        models.append(world.change(world.make(linear)).to(world.wide))
    optimizers = [
        [world.kind(part) for part in world.divide(model.parameters())]
        for model in models
    ]
    mine = ours(run, models[0], optimizers[0], world.scale)
    real = theirs(models[1], optimizers[1], world)
    next(mine), next(real)
    with world.around(), no_error():
        for images, labels in batches_of(run, world.rows, world.steps):
            batch = images.to(world.wide), labels
            told = [str(side.send(batch)) for side in (mine, real)]
            assert told[0] == told[1]
            one, other = ([*model.parameters()] for model in models)
            assert bits(one) == bits(other)
            grads = [[p.grad for p in each] for each in (one, other)]
            assert bits(grads[0]) == bits(grads[1])


@pytest.mark.parametrize(
    "make",
    [Residual, lambda linear: linear(64, 10)],
    ids=["a residual connection", "a single layer"],
)
@pytest.mark.parametrize(
    "kind",
    [SGD, partial(SGD, momentum=0.9), torch.optim.AdamW],
    ids=["SGD", "momentum", "AdamW"],
)
def test_sixteen_lines_are_mixed_precision__also_with(snippet, make, kind):
    world = {"make": make, "kind": kind}
    test_sixteen_lines_are_mixed_precision(snippet, world)


@pytest.mark.parametrize("rows", [1, 300])
def test_sixteen_lines_are_mixed_precision__also_in_batches_of(snippet, rows):
    world = {"rows": rows, "steps": 20}
    test_sixteen_lines_are_mixed_precision(snippet, world)


@pytest.mark.parametrize("scale", [1.0, 2.0**16, 2.0**120])
def test_sixteen_lines_are_mixed_precision__also_from_a_scale_of(
    snippet, scale
):
    test_sixteen_lines_are_mixed_precision(snippet, {"scale": scale})


def test_sixteen_lines_are_mixed_precision__also_in_bfloat16(snippet):
    line = "F.linear(x.half(), self.weight.half(), self.bias.half())"
    edited = snippet.edit(line, line.replace("half", "bfloat16")).edit(
        'autocast("cpu", dtype=torch.float16):\n        their',
        'autocast("cpu", dtype=torch.bfloat16):\n        their',
    )
    test_sixteen_lines_are_mixed_precision(edited, {"dtype": BRAIN})


@pytest.mark.parametrize(
    ("option", "old", "new"),
    [
        ("growth_interval=3", "good == 2000", "good == 3"),
        ("backoff_factor=0.25", "scale / 2, 0", "scale / 4, 0"),
        ("growth_factor=4.0", "scale * 2, 0", "scale * 4, 0"),
    ],
)
def test_sixteen_lines_are_mixed_precision__also_with_an(
    snippet, option, old, new
):
    edited = snippet.edit(old, new).edit("2.0**20)", f"2.0**20, {option})")
    name, value = option.split("=")
    options = {name: (int if name.endswith("val") else float)(value)}
    test_sixteen_lines_are_mixed_precision(edited, {"options": options})


def test_sixteen_lines_are_mixed_precision__also_for_2010_steps(snippet):
    world = {"make": lambda linear: linear(64, 10), "scale": 2.0**10}
    world |= {"rows": 2, "steps": 2_010, "kind": partial(SGD, lr=0.001)}
    test_sixteen_lines_are_mixed_precision(snippet, world)


def test_sixteen_lines_are_mixed_precision__ends_for_float64(snippet, fails):
    """Autocast leaves `float64` as it is; ours rounds it."""
    world = {"wide": torch.float64}
    fails(test_sixteen_lines_are_mixed_precision, snippet, world)


def test_sixteen_lines_are_mixed_precision__ends_around_several_steps(
    snippet, fails
):
    """Autocast keeps the copies of a block for its next step; ours makes new
    ones.
    """
    around = partial(torch.autocast, "cpu", dtype=HALF)
    world = {"around": around, "scale": 1.0}
    fails(test_sixteen_lines_are_mixed_precision, snippet, world)


def test_sixteen_lines_are_mixed_precision__ends_for_a_layer_used_twice(
    snippet, fails
):
    """Autocast copies a weight once, and adds up its gradients in 16 bits;
    ours makes two copies, and adds up in `float32`.
    """
    world = {"make": TwiceUsed}
    fails(test_sixteen_lines_are_mixed_precision, snippet, world)


def convolution(linear):
    """Return a model with a convolution between two linear layers."""
    layers = [linear(64, 32), nn.Unflatten(1, (1, 32)), nn.Conv1d(1, 1, 3)]
    return nn.Sequential(*layers, nn.Flatten(), linear(30, 10))


def test_sixteen_lines_are_mixed_precision__ends_with_a_convolution(
    snippet, fails
):
    """Autocast has a rule for convolutions as well; ours has none, and the
    layer raises an error.
    """
    world = {"make": convolution}
    fails(test_sixteen_lines_are_mixed_precision, snippet, world)


def test_sixteen_lines_are_mixed_precision__ends_without_a_bias(
    snippet, fails
):
    """Autocast takes a layer without a bias; ours raises an error."""
    world = {"make": lambda linear: linear(64, 10, bias=False)}
    fails(test_sixteen_lines_are_mixed_precision, snippet, world)


def freeze(model):
    """Freeze the first layer."""
    model[0].requires_grad_(False)
    return model


def test_sixteen_lines_are_mixed_precision__ends_for_a_frozen_layer(
    snippet, fails
):
    """`GradScaler` passes over a parameter without a gradient; ours raises an
    error.
    """
    world = {"change": freeze}
    fails(test_sixteen_lines_are_mixed_precision, snippet, world)


def test_sixteen_lines_are_mixed_precision__ends_with_two_optimizers(
    snippet, fails
):
    """One `GradScaler` serves two optimizers; ours raises an error."""
    world = {"divide": lambda each: ([next(each)], [*each])}
    fails(test_sixteen_lines_are_mixed_precision, snippet, world)


@edits(
    ("1 without copies of the weights", "self.weight.half()", "self.weight"),
    (
        "1 in float32",
        "return F.linear(x.half(), self.weight.half(), self.bias.half())",
        "return F.linear(x, self.weight, self.bias)",
    ),
    ("2", "(loss * self.scale).backward()", "loss.backward()"),
    ("3", "p.grad /= self.scale", "p.grad /= 1"),
    (
        "4 unasked",
        "if all(p.grad.isfinite().all() for p in parameters):",
        "if True:",
    ),
    ("5", "self.scale / 2, 0", "self.scale / 4, 0"),
    ("6", "self.good == 2000", "self.good == 20"),
    ("5 without the scale", "self.scale / 2, 0", "self.scale, 0"),
    (
        "the loss in 16 bits",
        "ours(images).float(), labels)",
        "ours(images), labels)",
    ),
)
def test_sixteen_lines_are_mixed_precision__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each numbered line counts, and so does `float()` in the loss."""
    edited = snippet.edit(old, new)
    if "weight.half" in old and "F.linear" not in old:
        edited = edited.edit("self.bias.half())", "self.bias)")
        edited = edited.edit("F.linear(x.half(),", "F.linear(x,")
    fails(test_sixteen_lines_are_mixed_precision, edited)


def test_float16_ends_early(snippet, narrow=HALF):
    wide = said(snippet, "ranges")
    assert wide[2].startswith("torch.float16   from 6.0e-08 to 6.6e+04,")
    for value, expected in (
        (65_504, 65_504),
        (65_520, math.inf),
        (-70_000, -math.inf),
        (2**-24, 2**-24),
        (2**-25, 0),
        (-(2**-26), 0),
    ):
        exact = torch.tensor(value, dtype=torch.float64)
        for each in (exact.to(narrow), exact.float().to(narrow)):
            assert each.item() == expected


def test_float16_ends_early__also_where_bfloat16_goes_on(snippet):
    found = [line.split(" comes ")[1] for line in said(snippet, "ranges")]
    assert found == ["1.0000001", "1.0078125", "1.0009766"]
    for value in (1e38, -70_000, 2**-25, 1e-38):
        stored = torch.tensor(value).bfloat16().item()
        assert stored == pytest.approx(value, rel=0.01)


def test_float16_ends_early__ends_for_bfloat16(snippet, fails):
    """`bfloat16` goes on to about `3.4e38`, and down to about `9e-41`."""
    fails(test_float16_ends_early, snippet, BRAIN)


def test_float16_ends_early__but_not_at_smallest_normal(snippet, fails):
    """`smallest_normal` is not the smallest: below it, numbers have fewer
    digits.
    """
    edited = snippet.edit("info.smallest_normal * info.eps", "info.tiny")
    fails(test_float16_ends_early, edited)


def results(snippet):
    """Return the types that the operations of the page give."""
    run = after(snippet, "operations")
    return {name: each.dtype for name, each in run.results.items()}


PRODUCTS = [f"{each}, of float32" for each in ("linear", "matmul", "conv1d")]


def test_products_are_in_16_bits(snippet):
    found = results(snippet)
    assert [found[name] for name in PRODUCTS] == [HALF] * 3


def test_products_are_in_16_bits__also_in_the_other_rows(snippet):
    found = list(results(snippet).values())
    assert found[3:] == [FULL, FULL, HALF, HALF, HALF, FULL, FULL]


X = torch.rand(1, 1, 4, 4, 4)
SHAPES = {
    "conv2d": lambda: F.conv2d(X[0], X[0]),
    "conv3d": lambda: F.conv3d(X, X),
    "conv_transpose2d": lambda: F.conv_transpose2d(X[0, 0][:, None], X[0]),
    "batches": lambda: X @ X,
    "two vectors": lambda: X[0, 0, 0, 0] @ X[0, 0, 0, 0],
    "a bias": lambda: F.linear(X, X[0, 0, 0], X[0, 0, 0, 0]),
}


@pytest.mark.parametrize("dtype", [BRAIN, HALF])
@worlds.each("product", SHAPES)
def test_products_are_in_16_bits__also_with(product, dtype):
    with torch.autocast("cpu", dtype=dtype):
        assert product().dtype == dtype


@pytest.mark.cuda
def test_products_are_in_16_bits__also_on_cuda(snippet):
    cell = 'x = torch.rand(4, 4)\nwith torch.autocast("cpu"'
    new = 'x = torch.rand(4, 4).cuda()\nwith torch.autocast("cuda"'
    found = list(results(snippet.edit(cell, new)).values())
    assert found == [HALF] * 3 + [FULL] * 2 + [HALF] + [FULL] * 4


def test_products_are_in_16_bits__ends_for_float64(snippet, fails):
    """Products of `float64` stay in `float64`."""
    edited = snippet.edit(
        "x = torch.rand(4, 4)", "x = torch.rand(4, 4).double()"
    )
    fails(test_products_are_in_16_bits, edited)


@edits(
    (
        "outside",
        '4)\nwith torch.autocast("cpu", dtype=torch.float16):',
        "4)\nif True:",
    ),
    ("linear", "F.linear(x, x),", "F.linear(x, x).float(),"),
    ("matmul", "x @ x,", "(x[:, :, None] * x).sum(dim=1),"),
    ("conv1d", "F.conv1d(x[None], x[:, :, None])", "F.avg_pool1d(x[None], 2)"),
)
def test_products_are_in_16_bits__but_not(snippet, old, new, fails):
    """Outside of the block, products stay in `float32`, and so do products of
    single numbers, and means.
    """
    fails(test_products_are_in_16_bits, snippet.edit(old, new))


def test_backward_uses_the_forward_types(snippet, dtypes=(HALF, BRAIN)):
    run = after(snippet, "blur")
    for dtype in dtypes:
        _, gradient = run.learn_to_blur(dtype, dtype == HALF, 1)
        assert gradient.dtype == dtype


@pytest.mark.parametrize("dtype", [BRAIN, HALF])
def test_backward_uses_the_forward_types__also_between_layers(dtype):
    found = []
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    with torch.autocast("cpu", dtype=dtype):
        hidden = first(torch.randn(4, 8))
        loss = second(hidden.relu()).square().mean()
    hidden.register_hook(lambda gradient: found.append(gradient.dtype))
    loss.backward()
    assert found == [dtype]
    assert first.weight.grad.dtype == FULL


def test_backward_uses_the_forward_types__but_not_without(snippet, fails):
    """With autocast off, the outputs are in `float32`, and so are their
    gradients.
    """
    edited = snippet.edit("enabled=mixed", "enabled=False")
    fails(test_backward_uses_the_forward_types, edited)


def test_float16_stands_still_without_a_scaler(snippet, dtype=HALF):
    run = after(snippet, "blur")
    with warnings.catch_warnings(), no_error():
        warnings.simplefilter("error")
        without, gradient = run.learn_to_blur(dtype, False)
        scaled, kept = run.learn_to_blur(dtype, True)
    assert gradient.count_nonzero() == 0
    assert kept.count_nonzero() > 0.9 * kept.numel()
    assert without**0.5 > 5 * scaled**0.5


def test_float16_stands_still_without_a_scaler__also_from_another_seed(
    snippet,
):
    old = "torch.manual_seed(0)\n    model = nn.Conv2d"
    edited = snippet.edit(old, old.replace("0", "1", 1))
    test_float16_stands_still_without_a_scaler(edited)


def test_float16_stands_still_without_a_scaler__also_by_the_numbers(snippet):
    run = after(snippet, "blur")
    assert run.blurred.numel() == 115_008
    gradient = torch.tensor(2 * 0.001 / 115_008)
    assert gradient.item() == pytest.approx(1.7e-8, rel=0.03)
    assert gradient.half() == 0
    assert (65_536 * gradient).half().item() == pytest.approx(
        0.00114, rel=0.01
    )


def test_float16_stands_still_without_a_scaler__ends_in_bfloat16(
    snippet, fails
):
    """In `bfloat16`, the gradients are not 0."""
    fails(test_float16_stands_still_without_a_scaler, snippet, BRAIN)


def test_float16_stands_still_without_a_scaler__ends_for_the_classifier(
    snippet, fails
):
    """The classifier of the page learns without a scaler too."""
    found = accuracy(
        snippet.edit(
            "enabled=dtype == torch.float16)\nmodel", "enabled=False)\nmodel"
        )
    )
    assert found == pytest.approx(accuracy(snippet), abs=0.03)
    edited = snippet.edit("steps=200", "steps=5")
    fails(test_float16_stands_still_without_a_scaler, edited)


@edits(
    (
        "with a loss times 65,536",
        "F.mse_loss(outputs, blurred)",
        "65_536 * F.mse_loss(outputs, blurred)",
    ),
    ("after a few steps", "steps=200", "steps=20"),
)
def test_float16_stands_still_without_a_scaler__but_not(
    snippet, old, new, fails
):
    """Early in the training, or with a loss that is multiplied by hand, the
    gradients don't underflow.
    """
    fails(test_float16_stands_still_without_a_scaler, snippet.edit(old, new))


# What goes wrong


def steps_of(slopes, kind=SGD, enabled=True):
    """Return two weights after steps with such gradients, and the scaler."""
    weights = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = kind(weights)
    scaler = torch.amp.GradScaler("cpu", enabled=enabled)
    for pair in slopes:
        optimizer.zero_grad()
        terms = zip(pair, weights, strict=True)
        scaler.scale(sum((s * w).sum() for s, w in terms)).backward()
        scaler.step(optimizer)
        scaler.update()
    return torch.stack(weights).tolist(), scaler.get_scale()


def test_an_infinite_gradient_skips_the_step(snippet, enabled=True):
    life = after(snippet, "life").life
    assert life == [(0.9, 65536), (0.9, 32768), (0.8, 32768), (0.7, 65536)]

    weights, scale = steps_of([(1.0, math.inf)], enabled=enabled)
    assert weights == [[1.0, 1.0]] * 2
    assert scale == 32_768


SLOPES = {
    "a gradient that overflows": (1.0, 1e36),
    "nan": (math.nan, 1.0),
    "minus infinity": (0.0, -math.inf),
}
KINDS = {
    "SGD": SGD,
    "AdamW": torch.optim.AdamW,
    "fused SGD": partial(SGD, fused=True),
}


@worlds.each("slopes", SLOPES)
@worlds.each("kind", KINDS)
def test_an_infinite_gradient_skips_the_step__also_for(slopes, kind):
    assert steps_of([slopes], kind) == ([[1.0, 1.0]] * 2, 32_768)


def test_an_infinite_gradient_skips_the_step__ends_if_it_is_disabled(
    snippet, fails
):
    """With `enabled=False`, the weights become inf or nan."""
    fails(test_an_infinite_gradient_skips_the_step, snippet, False)


@edits(
    (
        "by the optimizer",
        "scaler.step(sgd)\n    scaler.update()\n    life",
        "sgd.step()\n    life",
    ),
    ("if it fits", "(1.0, 1e36, 1.0, 1.0)", "(1.0, 1e30, 1.0, 1.0)"),
)
def test_an_infinite_gradient_skips_the_step__but_not(
    snippet, old, new, fails
):
    """`optimizer.step()` doesn't look for inf; and 10³⁰ times 65,536 is still
    finite, so the step is taken.
    """
    edited = snippet.edit(old, new)
    if "1e30" not in new:
        edited = edited.edit(
            "scaler.scale(gradient * weight).backward()\n    sgd.",
            "(gradient * weight).backward()\n    sgd.",
        )
    fails(test_an_infinite_gradient_skips_the_step, edited)


FUSED = partial(SGD, momentum=0.9, fused=True)


@pytest.fixture
def marked_memory():
    """Fill uninitialized memory with nan, so that a test can tell it."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("marked_memory")
def test_a_skipped_step_spoils_fused_momentum(
    kind=FUSED, slopes=((1.0, math.inf), (1.0, 1.0))
):
    """No cell shows it, since that memory holds other numbers each time."""
    weights, _ = steps_of(slopes, kind)
    assert str(weights) == "[[nan, nan], [nan, nan]]"


@pytest.mark.usefixtures("marked_memory")
@pytest.mark.parametrize(
    "kind",
    [
        partial(SGD, momentum=0.9),
        partial(SGD, fused=True),
        partial(torch.optim.AdamW, fused=True),
    ],
    ids=["one that is not fused", "no momentum", "AdamW"],
)
def test_a_skipped_step_spoils_fused_momentum__but_not_with(kind, fails):
    """SGD that is not fused, or has no momentum, goes on as it should, and so
    does a fused AdamW.
    """
    fails(test_a_skipped_step_spoils_fused_momentum, kind)


@pytest.mark.usefixtures("marked_memory")
def test_a_skipped_step_spoils_fused_momentum__ends_after_a_step(fails):
    """If the first step is taken, a later skipped step leaves the momentum as
    it was.
    """
    slopes = (1.0, 1.0), (1.0, math.inf), (1.0, 1.0)
    fails(test_a_skipped_step_spoils_fused_momentum, FUSED, slopes)


def test_a_block_keeps_old_copies(snippet):
    run = after(snippet, "whole-loop")
    assert len(run.stale_losses) == 4
    assert len(set(run.stale_losses)) == 1
    still = vector(run.stale) == vector(run.new_model())
    assert still.sum().item() == 0


@edits(
    (
        "float16",
        "dtype=torch.bfloat16):\n    for",
        "dtype=torch.float16):\n    for",
    ),
    ("AdamW", "SGD(stale.parameters(), lr=0.1)", "AdamW(stale.parameters())"),
    (
        "another loss",
        "F.cross_entropy(stale(images), labels)",
        "stale(images).square().mean()",
    ),
)
def test_a_block_keeps_old_copies__also_with(snippet, old, new):
    test_a_block_keeps_old_copies(snippet.edit(old, new))


def test_a_block_keeps_old_copies__ends_with_batchnorm(snippet, fails):
    """The weights of BatchNorm are used as they are, without a copy, so the
    loss changes.
    """
    edited = snippet.edit("64, 32), nn.ReLU()", "64, 32), nn.BatchNorm1d(32)")
    fails(test_a_block_keeps_old_copies, edited)


def test_a_block_keeps_old_copies__but_not_without_the_cache(snippet, fails):
    """With `cache_enabled=False`, each pass converts the weights anew, and
    the loss falls.
    """
    old = "dtype=torch.bfloat16):\n    for"
    new = "dtype=torch.bfloat16, cache_enabled=False):\n    for"
    fails(test_a_block_keeps_old_copies, snippet.edit(old, new))


def test_a_block_keeps_old_copies__but_not_around_the_forward(snippet, fails):
    """With autocast around the forward pass only, each pass converts the
    weights anew, and the loss falls.
    """
    block = 'with torch.autocast("cpu", dtype=torch.bfloat16):'
    line = "stale_loss = F.cross_entropy(stale(images), labels)\n"
    edited = snippet.edit(f"{block}\n    for", "if True:\n    for")
    edited = edited.edit(line, f"{block}\n            {line}")
    fails(test_a_block_keeps_old_copies, edited)


def test_a_block_keeps_old_copies__but_not_if_none_moves(snippet, fails):
    """Without `step`, no weight moves."""
    edited = snippet.edit("        stale_sgd.step()\n", "")
    fails(test_a_block_keeps_old_copies, edited)


def test_small_updates_vanish(snippet, dtype=BRAIN):
    run = after(snippet, "half-weights")
    assert run.large.sum() > 1000
    assert (run.after != run.before)[run.large].sum().item() == 0

    torch.manual_seed(0)
    model = run.new_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0001)
    before = vector(model).clone()
    for images, labels in run.train_loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    moved = vector(model) != before
    assert moved[before.abs() > 0.06].float().mean() > 0.95


@pytest.mark.parametrize("change", [0.0001, -0.0001])
def test_small_updates_vanish__also_for_every_large_number(change):
    bits = torch.arange(2**15).to(torch.int16).view(BRAIN)
    sizes = bits[bits.isfinite() & (bits.float() > 0.06)]
    for weights in (sizes, -sizes):
        assert torch.equal(weights + change, weights)


@edits(
    ("a large rate", "lr=0.0001)", "lr=0.01)"),
    ("small weights", "before.abs() > 0.06", "before.abs() < 0.03"),
    ("float32", "to(torch.bfloat16)\nadamw", "to(torch.float32)\nadamw"),
)
def test_small_updates_vanish__but_not_with(snippet, old, new, fails):
    """At a rate of 0.01, `bfloat16` weights move as well, and so do weights
    near 0, or in `float32`.
    """
    edited = snippet.edit(old, new)
    if "float32" in new:
        edited = edited.edit("halved(images.bfloat16())", "halved(images)")
    fails(test_small_updates_vanish, edited)


def test_large_outputs_overflow(snippet):
    fits = after(snippet, "overflow").fits
    (loss, scale), (scaled, grown), (wide, _) = fits.values()
    assert not math.isfinite(loss)
    assert scale < 2.0**-100
    # What is told of the cures: thousands, and bfloat16.
    assert scaled**0.5 < 5
    assert grown >= 1
    assert wide**0.5 < 5_000


@pytest.mark.parametrize("start", [101_300.0, -70_000.0, 1e6])
def test_large_outputs_overflow__also_from_a_bias_of(start):
    line = nn.Linear(1, 1)
    nn.init.constant_(line.bias, start)
    weights = vector(line).clone()
    scaler, optimizer = torch.amp.GradScaler("cpu"), SGD(line.parameters())
    for step in range(20):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=HALF):
            loss = F.mse_loss(line(torch.rand(8, 1)), torch.zeros(8, 1))
        assert not math.isfinite(loss.item())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 2.0 ** (15 - step)
    assert vector(line).equal(weights)


@edits(
    (
        "in float32",
        "dtype=dtype):\n            loss = F.mse_loss(line(",
        "enabled=False):\n            loss = F.mse_loss(line(",
    ),
    ("of cheap apartments", "300_000 * sizes", "300 * sizes"),
)
def test_large_outputs_overflow__but_not(snippet, old, new, fails):
    """In `float32`, and for prices below 65,504, the outputs stay finite."""
    fails(test_large_outputs_overflow, snippet.edit(old, new))


def clipped_move(run, limit, rate, kind, unscales):
    """Return how far a clipped step goes, with a scaler or without one."""
    model, (images, labels) = run.new_model(), run.train_set[:50]
    before = vector(model).clone()
    optimizer = kind(model.parameters(), lr=rate)
    scaler = torch.amp.GradScaler("cpu", enabled=unscales)
    scaler.scale(F.cross_entropy(model(images), labels)).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), limit)
    scaler.step(optimizer)
    return (vector(model) - before).norm().item()


def test_clip_after_unscale(snippet):
    run = after(snippet, "clipped")
    scaled, unscaled = run.moves
    plain = clipped_move(run, 0.1, 0.1, torch.optim.SGD, False)
    assert unscaled == pytest.approx(plain, rel=0.01)
    assert unscaled == pytest.approx(0.01, rel=0.01)
    # What is left is below the digits of some weights.
    assert 0 < scaled < 2 * 0.01 / 65_536


@pytest.mark.parametrize("limit", [0.01, 0.2, 10.0])
@pytest.mark.parametrize("rate", [0.01, 1.0])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_clip_after_unscale__also_with(snippet, limit, rate, kind):
    run = after(snippet, "clipped")
    plain, scaled = (
        clipped_move(run, limit, rate, kind, each) for each in (False, True)
    )
    assert scaled == pytest.approx(plain, rel=1e-3)


@edits(
    ("unscaled", "if unscales:", "if True:"),
    ("never", "if unscales:", "if False:"),
    (
        "a scale of 1",
        'GradScaler("cpu")\n    with',
        'GradScaler("cpu", 1.0)\n    with',
    ),
)
def test_clip_after_unscale__but_not(snippet, old, new, fails):
    """What makes the step tiny is the missing `unscale_`, and the scale."""
    fails(test_clip_after_unscale, snippet.edit(old, new))


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_clip_after_unscale__ends_with(snippet, kind, fails):
    """Adam and AdamW divide by the size of the gradient, so without `unscale_`
    the weights still move.
    """
    sgd = "torch.optim.SGD(clipped.parameters(), lr=0.1)"
    adam = f"torch.optim.{kind}(clipped.parameters())"
    edited = snippet.edit(sgd, adam)
    scaled, unscaled = after(edited, "clipped").moves
    assert scaled > unscaled / 3
    fails(test_clip_after_unscale, edited)


def test_half_gradients_are_refused(snippet, fused=False):
    text = "Attempting to unscale FP16 gradients."
    assert said(snippet, "refused") == [text]
    for name in ("unscale_", "step"):
        layer, scaler = nn.Linear(4, 1).half(), torch.amp.GradScaler("cpu")
        optimizer = SGD(layer.parameters(), fused=fused)
        scaler.scale(layer(torch.ones(2, 4).half()).float().mean()).backward()
        assert layer.weight.grad.dtype == HALF
        with pytest.raises(ValueError, match=text):
            getattr(scaler, name)(optimizer)


def test_half_gradients_are_refused__ends_in_step_of_a_fused_optimizer(
    snippet, fails
):
    """With a fused optimizer, `step` raises no error."""
    fails(test_half_gradients_are_refused, snippet, True)


@edits(
    ("float32", "new_model().half()", "new_model()"),
    ("bfloat16", "new_model().half()", "new_model().bfloat16()"),
)
def test_half_gradients_are_refused__but_not_of(snippet, old, new, fails):
    """Gradients in `float32`, and in `bfloat16`, are divided."""
    edited = snippet.edit(old, new).edit(
        "halved(images.half())", "halved(images.to(halved[0].weight.dtype))"
    )
    fails(test_half_gradients_are_refused, edited)
