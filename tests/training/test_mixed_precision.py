"""The claims of docs/training/mixed_precision.md."""

import copy
import math
import warnings
from functools import cache, partial
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import true_since
from tests.helpers.programs import after

FULL, BRAIN, HALF = torch.float32, torch.bfloat16, torch.float16
STEP = ("radar", "best-dtype", "accumulate", "train-step")
TRAIN = (*STEP, "train")
SLOPES = (*TRAIN, "slopes")
RESULTS = ("radar", "operations", "results")
LIFE = ("radar", "live", "life")


@cache
def trained(snippet, dtype, scaled, seed=0):
    """Return the losses of a training, run once for all claims on it."""
    return after(snippet, *TRAIN).train(dtype, scaled, seed=seed)[0]


def vector(model):
    return nn.utils.parameters_to_vector(model.parameters()).detach()


# Do this


@pytest.mark.simulates("a GPU")
def test_the_dtype_follows_the_device(snippet):
    run = after(snippet, *STEP[:2])

    def old(including_emulation=True):
        return including_emulation

    assert run.best_dtype(torch.device("cpu")) == BRAIN
    for answer, dtype in ((lambda **_: True, BRAIN), (old, HALF)):
        with patch("torch.cuda.is_bf16_supported", answer):
            assert run.best_dtype(torch.device("mps")) == HALF
            assert run.best_dtype(torch.device("cuda")) == dtype
            assert run.best_dtype(torch.device("cuda", 0)) == dtype
            assert run.best_dtype(torch.device("cuda", 1)) == dtype


@edits(
    ("imitated", "including_emulation=False", ""),
    ("no other type", "return torch.bfloat16", "return torch.float16"),
    ("one for all", "if on_cuda and torch", "if torch"),
    ("float16 for the CPU", "get_autocast_dtype(device", "float16 or (device"),
    (
        "float32 for the rest",
        "return torch.get_autocast_dtype(device.type)",
        "return torch.float32",
    ),
)
def test_the_dtype_follows_the_device__but_not_with(snippet, old, new, fails):
    """Without `including_emulation=False`, a GPU that only emulates `bfloat16`
    gets it too; the others return a wrong type for some device.
    """
    fails(test_the_dtype_follows_the_device, snippet.edit(old, new))


def plain_step(run, model, loss_of, optimizer, max_norm, samples=4):
    optimizer.zero_grad()
    loss = loss_of(model(run.radar[:samples]), run.rain[:samples])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss


def test_parts_make_one_step(
    snippet,
    loss_of=F.mse_loss,
    kind=torch.optim.SGD,
    cases=(((3, 1), 0.1), ((1, 2, 1), 100.0), ((2, 1), 1.0)),
    given_as=list,
    end_of_model=nn.Identity,
    scaled=False,
):
    run = after(snippet, *STEP)

    for split, max_norm in cases:
        scaler = torch.amp.GradScaler("cpu", enabled=scaled)
        models = [
            nn.Sequential(run.new_model(), end_of_model()) for _ in range(2)
        ]
        one, other = (kind(m.parameters(), lr=0.1) for m in models)
        for _ in range(2):
            samples = sum(split)
            pairs = (
                each[:samples].split(split) for each in (run.radar, run.rain)
            )
            parts = given_as(zip(*pairs, strict=True))
            loss, _ = run.train_step(
                models[0], parts, loss_of, one, scaler, FULL, max_norm
            )
            whole = plain_step(
                run, models[1], loss_of, other, max_norm, samples
            )
            assert loss.item() == pytest.approx(whole.item(), rel=1e-5)
            assert not loss.requires_grad
            torch.testing.assert_close(
                vector(models[0]), vector(models[1]), rtol=1e-4, atol=1e-6
            )
            models[0].load_state_dict(models[1].state_dict())


def test_parts_make_one_step__also_with_a_scaler(snippet):
    test_parts_make_one_step(snippet, scaled=True)


@pytest.mark.parametrize("loss_of", [F.l1_loss, F.smooth_l1_loss])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_parts_make_one_step__also_with(snippet, loss_of, kind):
    test_parts_make_one_step(snippet, loss_of, kind)


def test_parts_make_one_step__also_in_one_part(snippet):
    cases = ((4,), 0.1), ((1, 1, 1, 1), 100.0)
    test_parts_make_one_step(snippet, cases=cases)


def test_parts_make_one_step__also_from_an_iterator(snippet):
    test_parts_make_one_step(snippet, given_as=iter)


@edits(
    ("for four samples", "/ total", "/ 4"),
    ("halves", "* len(targets) / total", "/ len(parts)"),
    ("undivided", "loss * len(targets) / total", "loss * 1"),
    (
        "not clipped",
        "nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n"
        "    scaler.step(optimizer)\n    scale =",
        "scaler.step(optimizer)\n    scale =",
    ),
    (
        "gradients kept",
        "model.train()\n    optimizer.zero_grad()",
        "model.train()",
    ),
    (
        "in 16 bits",
        "= dtype is not torch.float32\n    total",
        "= True\n    total",
    ),
)
def test_parts_make_one_step__but_not_if(snippet, old, new, fails):
    """Divided by 4, a batch of three days counts too little; the others weigh,
    clip or clear wrongly, or use 16 bits.
    """
    edited = snippet.edit(old, new)
    if new.startswith("= True"):
        edited = edited.edit(
            "device.type, dtype=dtype, enabled=mixed):\n            loss",
            "device.type, enabled=mixed):\n            loss",
        )
    fails(test_parts_make_one_step, edited)


@pytest.mark.parametrize(
    "end_of_model",
    [
        lambda: nn.LayerNorm(64),
        lambda: nn.Linear(64, 64).requires_grad_(False),
    ],
    ids=["LayerNorm", "a frozen layer"],
)
def test_parts_make_one_step__also_for_a_model_with(snippet, end_of_model):
    test_parts_make_one_step(snippet, end_of_model=end_of_model)


def test_parts_make_one_step__ends_with_batchnorm(snippet, fails):
    """With BatchNorm: it normalizes each part by itself."""
    given = F.mse_loss, torch.optim.SGD, (((3, 1), 0.1),), list
    end = nn.Sequential(nn.BatchNorm2d(1), nn.Softplus())
    new = "radar = torch.arange(4).view(4, 1, 1, 1) * torch.randn("
    edited = snippet.edit("radar = torch.randn(", new)
    fails(test_parts_make_one_step, edited, *given, lambda: copy.deepcopy(end))


def test_parts_make_one_step__also_of_days_that_differ(snippet):
    new = "radar = torch.arange(4).view(4, 1, 1, 1) * torch.randn("
    test_parts_make_one_step(snippet.edit("radar = torch.randn(", new))


def of_rainy_places(outputs, targets):
    """Return the mean over the places that count."""
    counts = targets > 0.003
    return (outputs - targets)[counts].square().mean()


def test_parts_make_one_step__ends_if_the_loss_leaves_out_some_targets(
    snippet, fails
):
    """If the loss leaves out some targets: parts are still weighed by all of
    their samples.
    """
    fails(test_parts_make_one_step, snippet, of_rainy_places)


def total(outputs, targets):
    return F.mse_loss(outputs, targets, reduction="sum")


def test_parts_make_one_step__ends_for_a_sum(snippet, fails):
    """If the loss is a sum: the losses of the parts have to be added, not
    averaged.
    """
    fails(test_parts_make_one_step, snippet, total)


def test_it_learns_on_the_cpu(snippet, seed=0):
    for dtype, scaled in ((BRAIN, False), (HALF, True)):
        assert dtypes_of_outputs(snippet, dtype) == {dtype}
        _, _, scaler = after(snippet, *TRAIN).train(dtype, scaled, steps=1)
        assert scaler.is_enabled() == scaled
        losses = trained(snippet, dtype, scaled, seed)
        assert len(losses) == 20
        assert losses[-1] < 1e-6 * losses[0]
        assert {type(loss) for loss in losses} == {float}


def dtypes_of_outputs(snippet, dtype):
    """Return the types in which a step computes the outputs."""
    run = after(snippet, *STEP)
    found = set()

    def loss_of(outputs, targets):
        found.add(outputs.dtype)
        return F.mse_loss(outputs, targets)

    scaler = torch.amp.GradScaler("cpu", enabled=False)
    model = run.new_model()
    days = zip(run.radar.split(1), run.rain.split(1), strict=True)
    run.accumulate(model, list(days), loss_of, scaler, dtype)
    return found


class Elsewhere:
    """A tensor that has to be moved before it can be used."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __len__(self):
        """Return the number of samples."""
        return len(self.tensor)

    def to(self, device):
        """Return the tensor, on a device."""
        return self.tensor.to(device)


def test_it_learns_on_the_cpu__also_from_another_device(snippet):
    run = after(snippet, *STEP, "forecast")
    model, scaler = run.new_model(), torch.amp.GradScaler("cpu", enabled=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    parts = [(Elsewhere(run.radar), Elsewhere(run.rain))]
    given = model, parts, F.mse_loss, optimizer, scaler, BRAIN
    losses = [run.train_step(*given)[0] for _ in range(20)]

    assert losses[-1] < 1e-6 * losses[0]
    found = run.forecast(model, Elsewhere(run.radar), BRAIN)
    torch.testing.assert_close(found, run.rain, rtol=0.02, atol=1e-4)


@pytest.mark.parametrize("seed", [1])
def test_it_learns_on_the_cpu__also_from(snippet, seed):
    test_it_learns_on_the_cpu(snippet, seed)


def test_it_learns_on_the_cpu__also_in_the_loop(snippet):
    run = after(snippet, *STEP, "once", "loop")

    assert run.stepped
    assert run.loss < 1e-6
    assert run.scaler.is_enabled() == (run.dtype == HALF)
    assert run.schedule.last_epoch == 20
    assert next(run.model.parameters()).device == run.device


@edits(
    ("no step", "scaler.step(optimizer)\n    scale =", "scale ="),
    ("a small rate", "lr=0.3)\n    scaler", "lr=0.03)\n    scaler"),
    (
        "not unscaled",
        "scaler.unscale_(optimizer)\n    nn.utils.clip_grad_norm_("
        "model.parameters(), max_norm)\n    scaler.step(optimizer)\n    scale",
        "nn.utils.clip_grad_norm_("
        "model.parameters(), max_norm)\n    scaler.step(optimizer)\n    scale",
    ),
)
def test_it_learns_on_the_cpu__but_not_with(snippet, old, new, fails):
    """Without `scaler.step`, nothing moves; at a tenth of the rate, or without
    `unscale_`, the loss falls too slowly.
    """
    fails(test_it_learns_on_the_cpu, snippet.edit(old, new))


def test_forecast_gives_32_bits(snippet, end_of_model=nn.Identity):
    run = after(snippet, *STEP, "forecast")
    inner = nn.Sequential(run.new_model(), nn.Dropout(0.5))
    model = nn.Sequential(inner, end_of_model())
    records = []
    inner.register_forward_hook(
        lambda *_: records.append(torch.is_grad_enabled())
    )

    for dtype in (FULL, BRAIN, HALF):
        model.train()
        with no_error():
            found = run.forecast(model, run.radar, dtype)
        assert not any(records)
        assert found.dtype == FULL
        assert not found.requires_grad
        assert (found != 0).float().mean() > 0.9
        assert (found == found.to(dtype)).all()
        assert dtype == BRAIN or (found != found.to(BRAIN)).any()


def test_forecast_gives_32_bits__also_of_a_float64_model(snippet):
    run = after(snippet, *STEP, "forecast")
    inputs = run.radar.double()

    for dtype in (FULL, BRAIN, HALF):
        found = run.forecast(run.new_model().double(), inputs, dtype)
        assert found.dtype == FULL
    for dtype in (BRAIN, HALF):
        found = run.forecast(run.new_model().to(dtype), run.radar, dtype)
        assert found.dtype == FULL


def test_forecast_gives_32_bits__also_with_batchnorm(snippet):
    run = after(snippet, *STEP, "forecast")
    model = nn.Sequential(run.new_model(), nn.BatchNorm2d(1))
    statistics = [each.clone() for each in model[1].buffers()]
    one = run.forecast(model, run.radar[:1], BRAIN)

    assert torch.equal(one, run.forecast(model, run.radar, BRAIN)[:1])
    assert all(map(torch.equal, statistics, model[1].buffers()))


class AsTuple(nn.Module):
    """A last layer that returns a second output."""

    def forward(self, outputs):
        """Return the outputs, and what they come from."""
        return outputs, outputs


def test_forecast_gives_32_bits__ends_for_a_tuple_of_outputs(snippet, fails):
    """For a model that returns a tuple: it has no `float()`, and raises an
    error.
    """
    fails(test_forecast_gives_32_bits, snippet, AsTuple)


def test_forecast_gives_32_bits__also_between_steps(snippet):
    run = after(snippet, *STEP, "forecast")
    model = nn.Sequential(run.new_model(), nn.Dropout(0.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    run.forecast(model, run.radar, BRAIN)
    parts = [(run.radar, run.rain)]
    run.train_step(model, parts, F.mse_loss, optimizer, scaler, BRAIN)

    assert model[1].training
    assert run.forecast(model, run.radar, BRAIN).dtype == FULL
    assert not model[1].training


@edits(
    ("as computed", "model(inputs.to(device)).float()", "model(inputs)"),
    ("in training mode", "model.eval()", "model.train()"),
    ("with a graph", "torch.no_grad()", "torch.enable_grad()"),
)
def test_forecast_gives_32_bits__but_not(snippet, old, new, fails):
    """Without `float()`, the outputs stay in 16 bits; the others run in
    training mode, or record a graph.
    """
    fails(test_forecast_gives_32_bits, snippet.edit(old, new))


# Two ways to spend 16 bits


def stored(value, dtype):
    return torch.tensor(value, dtype=torch.float64).to(dtype).item()


def test_float16_ends_early(snippet, narrow=HALF):
    ranges = after(snippet, "radar", "ranges").ranges

    least, _, most, _ = ranges[narrow]
    assert (least, most) == (2**-24, 65_504)
    assert round(least, 8) == 0.00000006
    assert stored(2**-24, narrow) == 2**-24
    assert stored(2**-25, narrow) == 0
    assert stored(65_504, narrow) == 65_504
    assert stored(65_520, narrow) == math.inf


def test_float16_ends_early__but_not_at_smallest_normal(snippet, fails):
    """`smallest_normal` is not the smallest: below it, numbers have fewer
    digits.
    """
    edited = snippet.edit(
        "least = info.smallest_normal * info.eps",
        "least = info.smallest_normal",
    )
    fails(test_float16_ends_early, edited)


def test_bfloat16_has_the_range_of_float32(snippet, wide=BRAIN):
    ranges = after(snippet, "radar", "ranges").ranges

    for each in (wide, FULL):
        least, normal, most, _ = ranges[each]
        assert least < normal < 1e-37
        assert least < 1e-38
        assert most > 1e38
        assert stored(1e38, each) == pytest.approx(1e38, rel=0.01)
        assert stored(least, each) == least
        assert stored(normal, each) == normal


def test_bfloat16_has_the_range_of_float32__but_not_by_smallest_normal(
    snippet, fails
):
    """`smallest_normal` alone is above 10⁻³⁸: below it, numbers have fewer
    digits.
    """
    edited = snippet.edit(
        "least = info.smallest_normal * info.eps",
        "least = info.smallest_normal",
    )
    fails(test_bfloat16_has_the_range_of_float32, edited)


def test_float16_ends_early__ends_for_bfloat16(snippet, fails):
    """For `bfloat16`: it goes far beyond 65,504, to about `3.4e38`."""
    fails(test_float16_ends_early, snippet, BRAIN)


def test_bfloat16_has_the_range_of_float32__ends_for_float16(snippet, fails):
    """For `float16`: its smallest positive number is about `6e-8`, far above
    `1e-38`.
    """
    fails(test_bfloat16_has_the_range_of_float32, snippet, HALF)


def test_bfloat16_has_few_digits(snippet, half=HALF, brain=BRAIN):
    ranges = after(snippet, "radar", "ranges").ranges

    for dtype, about, digits in (
        (FULL, 1.0000001, 7),
        (half, 1.001, 3),
        (brain, 1.008, 3),
    ):
        following = ranges[dtype][3]
        assert round(following, digits) == about
        assert stored(following, dtype) == following
        assert stored(1 + (following - 1) * 0.49, dtype) == 1


def test_bfloat16_has_few_digits__but_not_float16(snippet, fails):
    """In `float16`, the next number after 1 is 1.001, not 1.008."""
    fails(test_bfloat16_has_few_digits, snippet, HALF, HALF)


def test_bfloat16_has_few_digits__but_float16_has_more(snippet, fails):
    """In `bfloat16`, the next number after 1 is 1.008, not 1.001."""
    fails(test_bfloat16_has_few_digits, snippet, BRAIN, BRAIN)


# Why the factor helps


def test_the_mean_divides_each_gradient(snippet, seed=0):
    run = after(snippet, *SLOPES)

    for model in (run.late, run.new_model(seed)):
        errors = (model(run.radar) - run.rain).detach()
        assert errors.numel() == 16_384
        slopes = run.output_slopes(model, FULL)
        torch.testing.assert_close(slopes, 2 * errors / 16_384)


@pytest.mark.parametrize("seed", [1])
def test_the_mean_divides_each_gradient__also_from(snippet, seed):
    test_the_mean_divides_each_gradient(snippet, seed)


@edits(
    (
        "a sum",
        "mse_loss(outputs, rain)\n    return",
        'mse_loss(outputs, rain, reduction="sum")\n    return',
    ),
    (
        "the absolute error",
        "mse_loss(outputs, rain)\n    return",
        "l1_loss(outputs, rain)\n    return",
    ),
)
def test_the_mean_divides_each_gradient__but_not(snippet, old, new, fails):
    """A sum does not divide; and the gradients of the absolute error are all
    of one size.
    """
    fails(test_the_mean_divides_each_gradient, snippet.edit(old, new))


def test_small_gradients_become_zero(snippet):
    run = after(snippet, *SLOPES, "zeros")
    zeros = run.zeros

    _, late, _ = run.train(FULL, steps=12)
    assert torch.equal(vector(run.late), vector(late))
    for name, dtype, factor in (
        ("float32", FULL, 1),
        ("bfloat16", BRAIN, 1),
        ("float16", HALF, 1),
        ("float16, times 65,536", HALF, 65536),
    ):
        slopes = run.output_slopes(run.late, dtype, factor)
        assert slopes.dtype == dtype
        assert zeros[name] == (slopes == 0).float().mean().item()
    assert zeros["float16"] > 0.95
    for name in ("float32", "bfloat16", "float16, times 65,536"):
        assert zeros[name] < 0.01


@pytest.mark.parametrize("seed", [1])
def test_small_gradients_become_zero__also_from(snippet, seed):
    run = after(snippet, *SLOPES)
    _, late, _ = run.train(FULL, steps=12, seed=seed)

    def share(dtype, factor):
        slopes = run.output_slopes(late, dtype, factor)
        assert slopes.dtype == dtype
        return (slopes == 0).float().mean()

    assert share(HALF, 1) > 0.95
    assert max(share(BRAIN, 1), share(HALF, 65536)) < 0.01


@edits(
    ("sooner", "steps=12)", "steps=3)"),
    ("in millimetres", "rain = 0.001 *", "rain = 1.0 *"),
    ("no factor", "factor * loss", "loss"),
    ("a small factor", "torch.float16, 65536", "torch.float16, 2"),
    ("float16 for bfloat16", "torch.bfloat16, 1", "torch.float16, 1"),
)
def test_small_gradients_become_zero__but_not(snippet, old, new, fails):
    """After three steps instead of twelve, the gradients are still larger; the
    others change the unit, the factor or the type.
    """
    fails(test_small_gradients_become_zero, snippet.edit(old, new))


def test_float16_stands_still_without_a_scaler(snippet, dtype=HALF, seed=0):
    with warnings.catch_warnings(record=True) as caught, no_error():
        warnings.simplefilter("always")
        without = trained(snippet, dtype, False, seed)

    assert not caught
    assert without[-1] > 100 * trained(snippet, dtype, True, seed)[-1]


def test_float16_stands_still_without_a_scaler__also_in_the_curves_of_the_page(
    snippet,
):
    assert after(snippet, *TRAIN, "four-ways").ways == {
        "float32": trained(snippet, FULL, False),
        "bfloat16": trained(snippet, BRAIN, False),
        "float16": trained(snippet, HALF, False),
        "float16 with a scaler": trained(snippet, HALF, True),
    }


@pytest.mark.parametrize("seed", [1])
def test_float16_stands_still_without_a_scaler__also_from(snippet, seed):
    test_float16_stands_still_without_a_scaler(snippet, HALF, seed)


def test_float16_stands_still_without_a_scaler__but_not_in_millimetres(
    snippet, fails
):
    """In millimetres, the gradients are a thousand times as large, and
    `float16` needs no scaler.
    """
    edited = snippet.edit("rain = 0.001 *", "rain = 1.0 *")
    fails(test_float16_stands_still_without_a_scaler, edited)


def test_float16_stands_still_without_a_scaler__ends_for_bfloat16(
    snippet, fails
):
    """In `bfloat16`: the loss ends at the same number with and without a
    scaler.
    """
    fails(test_float16_stands_still_without_a_scaler, snippet, BRAIN)


def test_digits_set_the_floor(snippet, scaled=True, seed=0):
    kinds = (FULL, False), (HALF, scaled), (BRAIN, False)
    full, half, brain = (trained(snippet, *k, seed)[-1] for k in kinds)

    assert full < half < brain


@pytest.mark.parametrize("seed", [1])
def test_digits_set_the_floor__also_from(snippet, seed):
    test_digits_set_the_floor(snippet, True, seed)


def test_digits_set_the_floor__also_in_the_curves_of_the_page(snippet):
    ways = after(snippet, *TRAIN, "four-ways").ways
    kinds = (FULL, False), (HALF, True), (BRAIN, False)
    names = "float32", "float16 with a scaler", "bfloat16"

    for name, kind in zip(names, kinds, strict=True):
        assert ways[name] == trained(snippet, *kind)
        assert len(ways[name]) == 20


def test_digits_set_the_floor__ends_without_a_scaler(snippet, fails):
    """Without a scaler: `float16` ends above `bfloat16`, because its gradients
    underflow.
    """
    fails(test_digits_set_the_floor, snippet, False)


def test_digits_set_the_floor__but_not_all_in_float32(snippet, fails):
    """With autocast off, all three compute in `float32` and end at the same
    loss.
    """
    edited = snippet.edit(
        "enabled=mixed):\n            loss",
        "enabled=False):\n            loss",
    )
    fails(test_digits_set_the_floor, edited)


# What autocast does


def results(snippet):
    """Return what the operations give, for both types of 16 bits."""
    run = after(snippet, *RESULTS)
    return {dtype: run.results(dtype) for dtype in (BRAIN, HALF)}


def off(snippet):
    old = "torch.autocast(device, dtype=dtype)"
    new = "torch.autocast(device, dtype=dtype, enabled=False)"
    return snippet.edit(old, new)


def test_products_are_in_16_bits(snippet):
    for dtype, found in results(snippet).items():
        for name in ("linear", "matmul", "conv2d"):
            assert found[name] == dtype


def test_products_are_in_16_bits__also_of_float32_alone(snippet):
    run, x = after(snippet, *RESULTS), torch.rand(4, 4)

    for name in ("linear", "matmul", "conv2d"):
        with no_error():  # although there is no 16-bit input
            assert run.operations[name](x, None).dtype == FULL


def test_products_are_in_16_bits__ends_for_float64(snippet, fails):
    """For `float64` inputs: the results are `float64`."""
    fails(test_products_are_in_16_bits, in_float64(snippet))


def in_float64(snippet):
    old = "torch.rand(4, 4, device=device)"
    new = "torch.rand(4, 4, device=device, dtype=torch.float64)"
    return snippet.edit(old, new)


def test_products_are_in_16_bits__also_of_other_shapes(snippet):
    run, x = after(snippet, *RESULTS), torch.rand(1, 1, 4, 4, 4)
    run.operations.clear()
    run.operations |= {
        "conv1d": lambda _, h: F.conv1d(x[0, 0, 0, :1], x[0, 0, :1, :1]),
        "conv3d": lambda _, h: F.conv3d(x, x),
        "conv_transpose2d": lambda _, h: F.conv_transpose2d(
            x[0, 0][:, None], x[0]
        ),
        "batched": lambda _, h: x @ x,
        "a vector": lambda _, h: x[0, 0, 0] @ x[0, 0, 0, 0],
        "two vectors": lambda _, h: x[0, 0, 0, 0] @ x[0, 0, 0, 0],
        "with a bias": lambda _, h: F.linear(x, x[0, 0, 0], x[0, 0, 0, 0]),
    }

    for dtype in (BRAIN, HALF):
        assert set(run.results(dtype).values()) == {dtype}


@edits(
    ("linear", "F.linear(x, x)", "F.linear(x.double(), x.double())"),
    ("matmul", "x, h: x @ x,", "x, h: x.double() @ x.double(),"),
    ("conv2d", "x[None, None])", "x[None, None]).float()"),
)
def test_products_are_in_16_bits__but_not(snippet, old, new, fails):
    """With `double()`, `linear` and `matmul` return `float64`; and the result
    of `conv2d`, with `float()`, is `float32`.
    """
    fails(test_products_are_in_16_bits, snippet.edit(old, new))


def test_products_are_in_16_bits__but_not_outside(snippet, fails):
    """With autocast off, products of `float32` are `float32`."""
    fails(test_products_are_in_16_bits, off(snippet))


LOSSES = "mse_loss", "cross_entropy"


def test_losses_are_in_32_bits__also_of_16_bits_alone(snippet):
    run, h = after(snippet, *RESULTS), torch.rand(4, 4)

    for name in LOSSES:
        with no_error():  # although there is no float32 input
            assert run.operations[name](None, h.to(BRAIN)).dtype == BRAIN


def test_losses_are_in_32_bits(snippet):
    for found in results(snippet).values():
        for name in LOSSES:
            assert found[name] == FULL


def test_losses_are_in_32_bits__also_of_classes(snippet):
    run = after(snippet, *RESULTS)
    run.operations.clear()
    run.operations |= {
        "classes": lambda _, h: F.cross_entropy(h, torch.arange(4)),
        "of float32": lambda x, h: F.mse_loss(h, x),
    }

    for dtype in (BRAIN, HALF):
        assert set(run.results(dtype).values()) == {FULL}


def test_losses_are_in_32_bits__but_not_outside(snippet, fails):
    """With autocast off, the losses of 16-bit inputs are in 16 bits."""
    fails(test_losses_are_in_32_bits, off(snippet))


@edits(
    ("by hand", "F.mse_loss(h, h)", "(h - h).square().mean()"),
    (
        "by a softmax",
        "F.cross_entropy(h, h)",
        "-(h * h.log_softmax(dim=1)).mean()",
    ),
)
def test_losses_are_in_32_bits__but_not(snippet, old, new, fails):
    """Written out with `square` and `mean`, or with `log_softmax`, the loss
    stays in 16 bits.
    """
    fails(test_losses_are_in_32_bits, snippet.edit(old, new))


KEPT = "relu", "exp", "sum", "softmax", "layer_norm"


def test_softmax_stays_on_the_cpu(snippet):
    for dtype, found in results(snippet).items():
        assert found["matmul"] == dtype  # inside autocast, that is
        for name in KEPT:
            assert found[name] == dtype


def test_softmax_stays_on_the_cpu__also_that_each_row_is_what_it_names(
    snippet,
):
    run, x = after(snippet, *RESULTS), torch.rand(4, 4)
    for name, expected in {
        "relu": x.sub(0.5).relu(),
        "exp": x.sub(0.5).exp(),
        "sum": x.sub(0.5).sum(),
        "softmax": x.sub(0.5).softmax(dim=1),
        "matmul": x.mm(x),
        "linear": x.mm(x.T),
        "conv2d": (x * x).sum()[None, None, None, None],
        "layer_norm": nn.LayerNorm(4)(x.sub(0.5)).detach(),
        "mse_loss": torch.tensor(0.0),
        "cross_entropy": -(x.sub(0.5) * x.sub(0.5).log_softmax(dim=1))
        .sum(dim=1)
        .mean(),
    }.items():
        given = None if name in KEPT else x
        with no_error():
            found = run.operations[name](given, x.sub(0.5))
        torch.testing.assert_close(found, expected)


@edits(
    ("relu", "h.relu()", "h.float().relu()"),
    ("exp", "h.exp()", "h.float().exp()"),
    ("sum", "h.sum()", "h.float().sum()"),
    ("softmax", "h.softmax(dim=1)", "h.softmax(dim=1, dtype=torch.float)"),
    ("layer_norm", "F.layer_norm(h, (4,))", "F.layer_norm(x, (4,))"),
)
def test_softmax_stays_on_the_cpu__but_not_of_others(snippet, old, new, fails):
    """`relu` of `float32` inputs returns `float32`; the other edits show it
    for the other four.
    """
    fails(test_softmax_stays_on_the_cpu, snippet.edit(old, new))


@pytest.mark.cuda
def test_softmax_stays_on_the_cpu__also_where_cuda_differs(snippet):
    test_softmax_stays_on_the_cpu(snippet)
    run = after(snippet, *RESULTS)
    found = run.results(HALF, "cuda")

    for name in ("exp", "sum", "softmax", "layer_norm", *LOSSES):
        assert found[name] == FULL
    for name in ("linear", "matmul", "conv2d", "relu"):
        assert found[name] == HALF


def test_backward_uses_the_forward_types(snippet):
    run = after(snippet, *SLOPES)
    layered = nn.Sequential(run.new_model(), nn.Linear(64, 64))

    for dtype in (BRAIN, HALF):
        for model in (run.late, layered):
            assert run.output_slopes(model, dtype, 65536).dtype == dtype


def test_backward_uses_the_forward_types__also_in_a_step(snippet):
    run, found = after(snippet, *STEP), []
    model = run.new_model()

    def watch(_, __, outputs):
        outputs.register_hook(lambda slope: found.append(slope.dtype))

    model.register_forward_hook(watch)
    scaler = torch.amp.GradScaler("cpu")
    for dtype in (BRAIN, HALF):
        given = model, [(run.radar, run.rain)], F.mse_loss, scaler, dtype
        run.accumulate(*given)
    assert found == [BRAIN, HALF]


def test_backward_uses_the_forward_types__but_not_without(snippet, fails):
    """With autocast off, the outputs are `float32`, and so are their
    gradients.
    """
    edited = snippet.edit("enabled=dtype.itemsize == 2", "enabled=False")
    fails(test_backward_uses_the_forward_types, edited)


def test_weights_stay_in_32_bits(snippet, dtype=BRAIN, scaled=False):
    _, model, _ = after(snippet, *TRAIN).train(dtype, scaled, steps=1)

    for parameter in model.parameters():
        assert parameter.dtype == FULL
        assert parameter.grad.dtype == FULL


def test_weights_stay_in_32_bits__also_in_float16(snippet):
    test_weights_stay_in_32_bits(snippet, HALF, scaled=True)


def test_weights_stay_in_32_bits__but_not_if_converted(snippet, fails):
    """If you convert the model with `to(torch.bfloat16)`, its weights are in
    16 bits.
    """
    edited = snippet.edit(
        "return nn.Conv2d(2, 1, 3, padding=1)",
        "return nn.Conv2d(2, 1, 3, padding=1).to(torch.bfloat16)",
    )
    fails(test_weights_stay_in_32_bits, edited)


# What the scaler does


def test_scale_multiplies_the_loss(snippet, factor=65_536.0):
    run = after(snippet, "radar", "live")
    slopes = 3.0, -0.5, 0.0

    for slope in slopes:
        [(scaled, *_)] = run.live([slope], init_scale=factor)
        assert scaled == factor * slope
    scaler = torch.amp.GradScaler("cpu", factor)
    for loss in map(torch.tensor, slopes):
        assert scaler.scale(loss) == factor * loss


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_scale_multiplies_the_loss__also_by(snippet, factor):
    test_scale_multiplies_the_loss(snippet, factor)


def test_scale_multiplies_the_loss__but_not_if_scaled_twice(snippet, fails):
    """Scaled twice, the loss is multiplied by the square of the scale."""
    old, new = "slope * weight", "scaler.scale(slope * weight)"
    fails(test_scale_multiplies_the_loss, snippet.edit(old, new))


def test_scale_multiplies_the_loss__but_not_if_disabled(snippet, fails):
    """With `enabled=False`, the loss stays as it is."""
    edited = snippet.edit('"cpu", **options', '"cpu", enabled=False')
    fails(test_scale_multiplies_the_loss, edited)


def test_unscale_or_step_divides(
    snippet, kind=torch.optim.SGD, factor=2**16, left_over=None
):
    run = after(snippet, *STEP)
    parts = [(run.radar[:3], run.rain[:3]), (run.radar[3:], run.rain[3:])]

    def slopes(scaler, call):
        model = run.new_model()
        groups = [{"params": [p]} for p in model.parameters()]
        optimizer = kind(groups, lr=0.1)
        for p in model.parameters() if left_over else ():
            p.grad = torch.full_like(p, left_over)
        run.accumulate(model, parts, F.mse_loss, scaler, FULL)
        call(optimizer)
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    none = torch.amp.GradScaler("cpu", enabled=False)
    plain = slopes(none, lambda _: None)
    for name in ("unscale_", "step"):
        scaler = torch.amp.GradScaler("cpu", float(factor))
        found = slopes(scaler, getattr(scaler, name))
        torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    "kind",
    [torch.optim.AdamW, partial(torch.optim.SGD, fused=True)],
    ids=["AdamW", "fused SGD"],
)
def test_unscale_or_step_divides__also_for(snippet, kind):
    test_unscale_or_step_divides(snippet, kind)


@pytest.mark.parametrize("factor", [2**-3, 3, 2**20])
def test_unscale_or_step_divides__also_by(snippet, factor):
    test_unscale_or_step_divides(snippet, factor=factor)


@edits(
    ("never multiplied", "scaler.scale(share).backward()", "share.backward()"),
    (
        "multiplied twice",
        "scaler.scale(share).backward()",
        "scaler.scale(scaler.scale(share)).backward()",
    ),
)
def test_unscale_or_step_divides__but_not_if(snippet, old, new, fails):
    """Without `scale`, `unscale_` raises an error; and what is scaled twice is
    divided only once.
    """
    fails(test_unscale_or_step_divides, snippet.edit(old, new))


def test_unscale_or_step_divides__ends_with_unscaled_gradients(snippet, fails):
    """A gradient in `.grad` that was never scaled, or is unscaled already, is
    divided as well, and nearly vanishes.
    """
    kind = torch.optim.SGD
    fails(test_unscale_or_step_divides, snippet, kind, 2**16, 1.0)


def test_the_factor_is_divided_out(snippet, dtype=FULL, seed=0, steps=5):
    run = after(snippet, *TRAIN)
    one, other = (
        vector(run.train(dtype, scaled, steps, seed=seed)[1])
        for scaled in (False, True)
    )

    assert (one != vector(run.new_model(seed))).all()
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


def test_the_factor_is_divided_out__also_for_a_single_weight(snippet):
    run = after(snippet, "radar", "live")
    weights = [weight for _, weight, _ in run.live([1.0, 2.0, -0.5])]

    assert weights == pytest.approx([0.9, 0.7, 0.75])


def test_the_factor_is_divided_out__ends_where_gradients_underflow(
    snippet, fails
):
    """Where gradients underflow in `float16`: without a scaler they become 0,
    and the step is another.
    """
    fails(test_the_factor_is_divided_out, snippet, HALF, 0, 20)


def test_the_factor_is_divided_out__ends_where_gradients_overflow(
    snippet, fails
):
    """Where scaled gradients overflow: the scaler skips the step."""
    edited = snippet.edit(
        'GradScaler("cpu", enabled=scaled)',
        'GradScaler("cpu", 2.0**120, enabled=scaled)',
    ).edit("rain = 0.001 *", "rain = 1000.0 *")
    fails(test_the_factor_is_divided_out, edited)


@pytest.mark.parametrize("dtype", [FULL, BRAIN])
@pytest.mark.parametrize("seed", [1])
def test_the_factor_is_divided_out__also_in(snippet, dtype, seed):
    test_the_factor_is_divided_out(snippet, dtype, seed)


def test_the_factor_is_divided_out__but_not_by_the_optimizer(snippet, fails):
    """`optimizer.step()` does not divide the scaled gradients."""
    clip = "    nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n"
    edited = snippet.edit(
        f"    scaler.unscale_(optimizer)\n{clip}    scaler.step(optimizer)\n"
        "    scale = scaler.get_scale()\n    scaler.update()\n",
        f"{clip}    optimizer.step()\n    scale = scaler.get_scale()\n",
    )
    fails(test_the_factor_is_divided_out, edited)


class Two(nn.Module):
    """A model of two weights, whose gradients are set apart."""

    def __init__(self, one, other):
        super().__init__()
        self.weights = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
        self.first, self.second = self.weights
        self.slopes = one, other

    def forward(self, inputs):
        """Return a number with these slopes along the weights."""
        pairs = zip(self.slopes, self.weights, strict=True)
        return inputs.mean() * sum((s * w).sum() for s, w in pairs)


def a_step_of(run, model, kind=torch.optim.SGD):
    optimizer = kind(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    parts = [(torch.ones(2), torch.ones(2))]
    given = model, parts, lambda outputs, _: outputs, optimizer
    return *run.train_step(*given, scaler, FULL), scaler.get_scale()


def test_an_infinite_gradient_skips_the_step(
    snippet, slopes=(1.0, math.inf), kind=torch.optim.SGD
):
    run = after(snippet, *STEP, "live", "life")
    model = Two(*slopes)
    a_step_of(run, model, kind)

    assert vector(model).tolist() == [1.0] * 4
    first, second, *_ = run.life
    assert second[0] == math.inf
    assert second[1] == first[1]


@pytest.mark.parametrize(
    "slopes",
    [(1.0, 1e36), (math.nan, 1.0), (0.0, -math.inf)],
    ids=["a gradient that overflows", "one of nan", "one of minus infinity"],
)
@pytest.mark.parametrize(
    "kind",
    [torch.optim.SGD, torch.optim.AdamW, partial(torch.optim.SGD, fused=True)],
    ids=["SGD", "AdamW", "fused SGD"],
)
def test_an_infinite_gradient_skips_the_step__also_for(snippet, slopes, kind):
    test_an_infinite_gradient_skips_the_step(snippet, slopes, kind)


def test_an_infinite_gradient_skips_the_step__ends_for_finite_ones(
    snippet, fails
):
    """If all gradients are finite: the weights move."""
    slopes = 1.0, 1e-3
    fails(test_an_infinite_gradient_skips_the_step, snippet, slopes)


def test_an_infinite_gradient_skips_the_step__but_not_without_a_scaler(
    snippet, fails
):
    """`optimizer.step()` does not look for `inf`, and moves the weights."""
    edited = snippet.edit(
        "scaler.step(optimizer)\n    scale =", "optimizer.step()\n    scale ="
    )
    fails(test_an_infinite_gradient_skips_the_step, edited)


def test_good_steps_double_the_factor(snippet):
    run = after(snippet, *LIFE)

    scaled, weights, scales = zip(*run.life, strict=True)
    assert scaled == (65_536, math.inf, 32_768, 32_768)
    assert weights == pytest.approx((0.9, 0.9, 0.8, 0.7))
    assert scales == (65_536, 32_768, 32_768, 65_536)

    steps = run.live([*[1.0] * 9, 1e36, *[1.0] * 2_000])
    for i, (*_, scale) in enumerate(steps, 1):
        assert scale == (32_768 if 10 <= i < 2_010 else 65_536)
    assert i == 2_010


@edits(
    ("from 1,024", '"cpu", **options', '"cpu", 1024.0, **options'),
    (
        "later",
        '"cpu", **options',
        '"cpu", **{"growth_interval": 2001} | options',
    ),
    ("by three", '"cpu", **options', '"cpu", growth_factor=3.0, **options'),
    ("a quarter", '"cpu", **options', '"cpu", backoff_factor=0.25, **options'),
)
def test_good_steps_double_the_factor__but_not(snippet, old, new, fails):
    """Here the scale starts at 1,024; the others change when it grows, or by
    what it is multiplied.
    """
    fails(test_good_steps_double_the_factor, snippet.edit(old, new))


FUSED = partial(torch.optim.SGD, momentum=0.9, fused=True)


@pytest.fixture
def marked_memory():
    """Fill uninitialized memory with nan, so that a test can tell it."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("marked_memory")
def test_a_skipped_step_spoils_fused_momentum(
    snippet, kind=FUSED, slopes=(math.inf, 1.0)
):
    """No cell shows it, since that memory holds other numbers each time."""
    run = after(snippet, *STEP)
    model, scaler = Two(1.0, slopes[0]), torch.amp.GradScaler("cpu")
    optimizer = kind(model.parameters(), lr=0.1)
    for slope in slopes:
        model.slopes = 1.0, slope
        parts = [(torch.ones(2), torch.ones(2))]
        given = model, parts, lambda outputs, _: outputs, optimizer
        run.train_step(*given, scaler, FULL)

    assert [str(each) for each in vector(model).tolist()] == ["nan"] * 4


@pytest.mark.usefixtures("marked_memory")
@pytest.mark.parametrize(
    "kind",
    [
        partial(torch.optim.SGD, momentum=0.9),
        partial(torch.optim.SGD, fused=True),
        partial(torch.optim.AdamW, fused=True),
    ],
    ids=["one that is not fused", "no momentum", "AdamW"],
)
def test_a_skipped_step_spoils_fused_momentum__but_not_with(
    snippet, kind, fails
):
    """SGD that is not fused, or has no momentum, goes on as it should, and so
    does a fused AdamW.
    """
    fails(test_a_skipped_step_spoils_fused_momentum, snippet, kind)


@pytest.mark.usefixtures("marked_memory")
def test_a_skipped_step_spoils_fused_momentum__ends_after_a_step(
    snippet, fails
):
    """If the first step is taken: a later skipped step leaves the momentum as
    it was.
    """
    slopes = 1.0, math.inf, 1.0
    fails(test_a_skipped_step_spoils_fused_momentum, snippet, FUSED, slopes)


# What goes wrong


class Conversions(TorchDispatchMode):
    """Count how often a tensor is converted into another type."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Compute as without this mode."""
        self.count += function is torch.ops.aten._to_copy.default
        return function(*args, **(kwargs or {}))


def conversions(layer, inputs, uses, cached):
    """Return how often tensors are converted in one block."""
    autocast = torch.autocast("cpu", inputs.dtype, cache_enabled=cached)
    with autocast, Conversions() as converted:
        for _ in range(uses):
            layer(inputs)
    return converted.count


class Turned(nn.Module):
    """A layer that uses its weight transposed."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(64, 3))

    def forward(self, inputs):
        """Return the products."""
        return F.linear(inputs, self.weight.T)


def test_a_weight_is_converted_once(
    snippet,
    uses=2,
    dtype=BRAIN,
    learns=True,
    cached=True,
    other=None,
):
    """No cell decides it: `autocast` itself converts."""
    run = after(snippet, "radar")
    inputs = run.radar.to(dtype)

    linear = nn.Linear(64, 3, bias=False)
    for layer in (run.new_model(), other() if other else linear):
        weights = len(list(layer.parameters()))
        layer.requires_grad_(learns)
        assert conversions(layer, inputs, uses, cached) == weights
        layer.requires_grad_(False)
        assert conversions(layer, inputs, uses, cached) == uses * weights


@pytest.mark.parametrize("uses", [1, 5], ids=["one use", "five uses"])
@pytest.mark.parametrize("dtype", [BRAIN, HALF])
def test_a_weight_is_converted_once__also_with(snippet, uses, dtype):
    test_a_weight_is_converted_once(snippet, uses, dtype)


def test_a_weight_is_converted_once__ends_for_a_transposed_weight(
    snippet, fails
):
    """For a weight that is used transposed: it is converted at each use."""
    given = snippet, 2, BRAIN, True, True, Turned
    fails(test_a_weight_is_converted_once, *given)


def test_a_weight_is_converted_once__ends_for_a_frozen_one(snippet, fails):
    """Once frozen: weights are converted at both uses."""
    fails(test_a_weight_is_converted_once, snippet, 2, BRAIN, False)


def test_a_weight_is_converted_once__ends_without_the_cache(snippet, fails):
    """With `cache_enabled=False`: trainable weights are converted at each use
    too.
    """
    given = snippet, 2, BRAIN, True, False
    fails(test_a_weight_is_converted_once, *given)


def test_a_block_keeps_old_copies(snippet):
    run = after(snippet, "radar", "whole-loop")

    assert len(run.stale) == 4
    assert len(set(run.stale)) == 1
    still = vector(run.model) == vector(run.new_model())
    assert still.sum().item() == 0


@edits(
    (
        "float16",
        "dtype=torch.bfloat16):\n    for",
        "dtype=torch.float16):\n    for",
    ),
    (
        "AdamW",
        "SGD(model.parameters(), lr=0.3)\nstale",
        "AdamW(model.parameters(), lr=0.01)\nstale",
    ),
)
def test_a_block_keeps_old_copies__also_with(snippet, old, new):
    test_a_block_keeps_old_copies(snippet.edit(old, new))


def test_a_block_keeps_old_copies__also_while_a_block_per_step_learns(snippet):
    run = after(snippet, *TRAIN, "whole-loop", "whole-loop-printed")

    assert len(run.fresh) == 4
    assert run.fresh[0] == run.stale[0]
    assert run.fresh[-1] < run.fresh[0] / 10


def test_a_block_keeps_old_copies__ends_with_batchnorm(snippet, fails):
    """With BatchNorm: its weights are used as they are, without a copy, so the
    loss changes.
    """
    edited = snippet.edit(
        "return nn.Conv2d(2, 1, 3, padding=1)",
        "return nn.Sequential("
        "nn.Conv2d(2, 1, 3, padding=1), nn.BatchNorm2d(1))",
    )
    fails(test_a_block_keeps_old_copies, edited)


def test_a_block_keeps_old_copies__but_not_without_the_cache(snippet, fails):
    """With `cache_enabled=False`, each step converts the weights anew, and the
    loss falls.
    """
    old = "dtype=torch.bfloat16):\n    for"
    new = "dtype=torch.bfloat16, cache_enabled=False):\n    for"
    fails(test_a_block_keeps_old_copies, snippet.edit(old, new))


def test_a_block_keeps_old_copies__but_not_around_the_forward(snippet, fails):
    """With autocast around the forward pass alone, each step converts the
    weights anew, and the loss falls.
    """
    edited = snippet.edit(
        'with torch.autocast("cpu", dtype=torch.bfloat16):\n    for',
        "if True:\n    for",
    ).edit(
        "loss = F.mse_loss(model(radar), rain)\n        loss.backward()\n"
        "        optimizer.step()\n        stale",
        'with torch.autocast("cpu"):\n'
        "            loss = F.mse_loss(model(radar), rain)\n"
        "        loss.backward()\n        optimizer.step()\n        stale",
    )
    fails(test_a_block_keeps_old_copies, edited)


def test_a_block_keeps_old_copies__but_not_if_none_moves(snippet, fails):
    """Without `optimizer.step()`, no weight moves."""
    edited = snippet.edit("optimizer.step()\n        stale", "stale")
    fails(test_a_block_keeps_old_copies, edited)


def test_small_updates_vanish(snippet, seed=0):
    run = after(snippet, "radar", "moved")
    sizes = vector(run.new_model(seed)).abs()
    with patch("torch.optim.AdamW", wraps=torch.optim.AdamW) as made:
        run.moved(run.new_model(seed), steps=0)
    assert made.call_args.kwargs == {"lr": 0.0001}

    assert run.moved(run.new_model(seed)).all()
    stuck = run.moved(run.new_model(seed).to(BRAIN))
    assert (sizes > 0.06).sum() > 5
    assert not stuck[sizes > 0.06].any()


@pytest.mark.parametrize("seed", [1])
def test_small_updates_vanish__also_from(snippet, seed):
    test_small_updates_vanish(snippet, seed)


@pytest.mark.parametrize("steps", [1, 100])
def test_small_updates_vanish__also_after(snippet, steps):
    run = after(snippet, "radar", "moved")
    sizes = vector(run.new_model()).abs()

    assert run.moved(run.new_model(), steps).all()
    stuck = run.moved(run.new_model().to(BRAIN), steps)
    assert not stuck[sizes > 0.06].any()


def test_small_updates_vanish__also_in_what_the_page_prints(snippet):
    run = after(snippet, "radar", "moved", "half-weights")

    assert run.free.all()
    assert run.stuck.sum() < 7


@edits(
    ("a large rate", "lr=0.0001", "lr=0.01"),
    (
        "float32",
        "before = [p",
        "model, before = model.float(), [p",
    ),
    ("no step", "steps=20, lr", "steps=0, lr"),
)
def test_small_updates_vanish__but_not_with(snippet, old, new, fails):
    """At a rate of 0.01, `bfloat16` weights move as well; so do weights in
    `float32`, and without a step none does.
    """
    edited = snippet.edit(old, new)
    fails(test_small_updates_vanish, edited)


def test_a_small_sum_is_rounded_back(snippet, dtype=BRAIN, least=0.06):
    """Look at every number of the type; no program takes part."""
    bits = torch.arange(2**15).to(torch.int16)
    sizes = bits.view(dtype) if dtype.itemsize == 2 else torch.rand(99)
    sizes = sizes[sizes.isfinite() & (sizes.float() > least)]

    for weights in (sizes, -sizes):
        for change in (0.0001, -0.0001):
            assert torch.equal(weights + change, weights)


def test_a_small_sum_is_rounded_back__ends_below(snippet, fails):
    """Between 0.01 and 0.06: neighbors are closer, and 0.0001 changes some of
    these numbers.
    """
    fails(test_a_small_sum_is_rounded_back, snippet, BRAIN, 0.01)


def test_a_small_sum_is_rounded_back__ends_in_float32(snippet, fails):
    """In `float32`: the neighbors are so close that 0.0001 makes another
    number.
    """
    fails(test_a_small_sum_is_rounded_back, snippet, FULL)


def test_the_outputs_themselves_are_infinite(
    snippet, dtype=HALF, bias=101_300.0
):
    run = after(snippet, *STEP, "forecast")
    model = run.new_model()
    nn.init.constant_(model.bias, bias)

    assert (run.forecast(model, run.radar, FULL).abs() > 65_520).all()
    outputs = run.forecast(model, run.radar, dtype)
    assert outputs.abs().min().item() == math.inf


def test_the_outputs_themselves_are_infinite__but_not_with_autocast_off(
    snippet, fails
):
    """With `autocast` off, the outputs are `float32`, and stay finite."""
    edited = snippet.edit(
        "autocast = torch.autocast(device.type, dtype=dtype, enabled=mixed)",
        "autocast = torch.autocast(device.type, dtype=dtype, enabled=False)",
    )
    fails(test_the_outputs_themselves_are_infinite, edited)


@pytest.mark.parametrize("bias", [65_530.0, -70_000.0, 1e6])
def test_the_outputs_themselves_are_infinite__also_at_a_bias_of(snippet, bias):
    test_the_outputs_themselves_are_infinite(snippet, HALF, bias)


def test_the_outputs_themselves_are_infinite__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`: outputs of about 101,300 stay finite."""
    fails(test_the_outputs_themselves_are_infinite, snippet, BRAIN)


def test_large_outputs_overflow(
    snippet, dtype=HALF, bias=101_300.0, target=101_300.0
):
    run = after(snippet, *TRAIN)
    targets = target + 100_000 * run.rain
    losses, model, scaler = run.train(dtype, True, 20, targets, bias)

    start = run.new_model()
    nn.init.constant_(start.bias, bias)
    assert not any(map(math.isfinite, losses))
    assert (vector(model) == vector(start)).all()
    assert scaler.get_scale() == 2.0 ** (16 - 20)


def test_large_outputs_overflow__but_not_with_autocast_off(snippet, fails):
    """With `autocast` off, the outputs are `float32`, and the loss is
    finite.
    """
    edited = snippet.edit(
        "with torch.autocast(device.type, dtype=dtype, enabled=mixed):",
        "with torch.autocast(device.type, dtype=dtype, enabled=False):",
    )
    fails(test_large_outputs_overflow, edited)


@pytest.mark.parametrize(
    ("bias", "target"),
    [(-70_000.0, 0.0), (1e6, 1e6), (70_000.0, math.inf)],
    ids=[
        "large negative outputs",
        "outputs near a million",
        "infinite targets",
    ],
)
def test_large_outputs_overflow__also_for(snippet, bias, target):
    test_large_outputs_overflow(snippet, HALF, bias, target)


def test_large_outputs_overflow__also_in_pascals(snippet):
    run = after(snippet, *TRAIN, "overflow")

    assert run.losses[-1] == math.inf
    assert run.scaler.get_scale() == 2.0 ** (16 - 20)
    torch.testing.assert_close(
        (run.pressure - 101_300) / 100_000, run.rain, rtol=0, atol=1e-6
    )


def test_large_outputs_overflow__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`: the outputs do not overflow, and the loss is finite."""
    fails(test_large_outputs_overflow, snippet, BRAIN)


def test_large_outputs_overflow__ends_at_60_000(snippet, fails):
    """At outputs of about 60,000: they do not overflow, and the loss is
    finite.
    """
    fails(test_large_outputs_overflow, snippet, HALF, 60_000.0, 60_000.0)


def test_other_units_fit(snippet):
    run = after(snippet, *TRAIN, "overflow", "other-units")

    first = F.mse_loss(run.new_model()(run.radar), run.near)
    assert run.losses[0] == pytest.approx(first.item(), rel=0.01)
    assert run.losses[0] > 0.1
    assert run.scaler.is_enabled()
    assert run.losses[-1] < 1e-4
    assert run.losses == run.train(HALF, True, targets=run.near)[0]
    torch.testing.assert_close(
        run.near * 100 + 101_300, run.pressure, rtol=1e-6, atol=0.1
    )


def test_other_units_fit__but_not_pascals(snippet, fails):
    """In pascals, the loss stays at about `1e10`."""
    edited = snippet.edit(
        "near = (pressure - 101_300) / 100", "near = pressure"
    )
    fails(test_other_units_fit, edited)


def plain_clipped_move(run, max_norm, seed, lr):
    model = run.new_model(seed)
    before = vector(model).clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    plain_step(run, model, F.mse_loss, optimizer, max_norm)
    return (vector(model) - before).norm().item()


def test_clip_after_unscale(snippet, max_norm=0.1, seed=0, lr=0.3):
    run = after(snippet, "radar", "clipped-move")

    most = lr * max_norm / 65_536
    wrong = run.clipped_move(False, max_norm, seed, lr)
    # What is left is below the digits of some weights.
    assert 0 < wrong < 1.5 * most


def test_clip_after_unscale__ends_with_adamw(snippet, fails):
    """With AdamW: its step divides by the size of the gradient, and is as
    long as ever.
    """
    source = snippet.cell("clipped-move").source
    edited = snippet.edit(source, source.replace("optim.SGD", "optim.AdamW"))
    fails(test_clip_after_unscale, edited)


def test_unscale_then_clip(snippet, max_norm=0.1, seed=0, lr=0.3):
    run = after(snippet, "radar", "clipped-move")

    right = run.clipped_move(True, max_norm, seed, lr)
    plain = plain_clipped_move(run, max_norm, seed, lr)
    assert right == pytest.approx(plain, rel=1e-4)
    assert type(right) is float


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("rate", [0.1, 1.0])
@pytest.mark.parametrize("limit", [0.5, 10.0])
def test_clip_after_unscale__also_with_a_limit_of(snippet, limit, seed, rate):
    test_clip_after_unscale(snippet, limit, seed, rate)


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("rate", [0.1, 1.0])
@pytest.mark.parametrize("limit", [0.5, 10.0])
def test_unscale_then_clip__also_with_a_limit_of(snippet, limit, seed, rate):
    test_unscale_then_clip(snippet, limit, seed, rate)


@edits(
    ("scaled", "if unscale:", "if False:"),
    (
        "a lower limit",
        "max_norm)\n    scaler.step(optimizer)\n    after",
        "max_norm / 2)\n    scaler.step(optimizer)\n    after",
    ),
)
def test_unscale_then_clip__but_not(snippet, old, new, fails):
    """Without `unscale_`, the step is tiny; and half the limit gives half the
    step.
    """
    fails(test_unscale_then_clip, snippet.edit(old, new))


@edits(
    ("unscaled", "if unscale:", "if True:"),
    (
        "a factor of 1",
        'GradScaler("cpu")\n    scaler.scale(F',
        'GradScaler("cpu", 1.0)\n    scaler.scale(F',
    ),
)
def test_clip_after_unscale__but_not(snippet, old, new, fails):
    """With `unscale_`, the step is 65,536 times as long, and with a scale of 1
    as well.
    """
    fails(test_clip_after_unscale, snippet.edit(old, new))


REFUSED = ("radar", "text-of", "refused")


def test_half_gradients_are_refused(snippet, fused=False):
    run = after(snippet, *REFUSED)
    text = "ValueError: Attempting to unscale FP16 gradients."

    assert run.texts[0] == text
    assert run.text_of(run.new_model) == "no error"
    optimizer = torch.optim.SGD(run.model.parameters(), lr=0.3, fused=fused)
    for name in ("unscale_", "step"):
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(run.model(run.radar.half()).float().mean()).backward()
        call = getattr(scaler, name)
        found = run.text_of(lambda: call(optimizer))  # noqa: B023
        assert (name, found) == (name, text)


def test_half_gradients_are_refused__ends_in_step_of_a_fused_optimizer(
    snippet, fails
):
    """With a fused optimizer: `step` raises no error."""
    fails(test_half_gradients_are_refused, snippet, True)


def test_half_gradients_are_refused__but_not_of_float32(snippet, fails):
    """Without `half()`, in model and inputs, there is no error."""
    edited = snippet.edit("new_model().half()", "new_model()").edit(
        "model(radar.half())", "model(radar)"
    )
    fails(test_half_gradients_are_refused, edited)


def test_half_inputs_are_refused(snippet):
    run = after(snippet, *REFUSED)

    def assert_refused(linear, convolution):
        assert "mat1 and mat2 must have the same dtype" in linear
        assert "Input type" in convolution
        assert "bias type (float) should be the same" in convolution

    assert_refused(*run.texts[1:])
    assert run.texts[1].endswith("got Half and Float")
    for inputs in (run.radar.half(), run.radar.to(BRAIN)):
        layer, model = nn.Linear(64, 1), run.new_model()
        assert_refused(
            run.text_of(lambda: layer(inputs)),  # noqa: B023
            run.text_of(lambda: model(inputs)),  # noqa: B023
        )


def test_half_inputs_are_refused__ends_in_a_layer_without_a_bias(
    snippet, fails
):
    """For a `Linear` without a bias: the error has other words."""
    old, new = "nn.Linear(64, 1)(", "nn.Linear(64, 1, bias=False)("
    fails(test_half_inputs_are_refused, snippet.edit(old, new))


@edits(
    ("linear", "nn.Linear(64, 1)(radar.half())", "nn.Linear(64, 1)(radar)"),
    ("convolution", "new_model()(radar.half())", "new_model()(radar)"),
)
def test_half_inputs_are_refused__but_not(snippet, old, new, fails):
    """With `float32` inputs, `Linear` raises no error; nor does `Conv2d`."""
    fails(test_half_inputs_are_refused, snippet.edit(old, new))


def test_autocast_takes_any_inputs(snippet):
    run = after(snippet, *STEP, "forecast")

    for model in (run.new_model(), nn.Linear(64, 3)):
        layer = model if isinstance(model, nn.Conv2d) else Rows(model)
        for dtype in (BRAIN, HALF):
            for given in (FULL, BRAIN, HALF):
                with no_error():
                    found = run.forecast(layer, run.radar.to(given), dtype)
                assert found.isfinite().all()


@pytest.mark.parametrize("given", [FULL, BRAIN, HALF])
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (partial(nn.Linear, 4, 4), (2, 4)),
        (partial(nn.Conv1d, 4, 4, 1), (2, 4, 4)),
        (partial(nn.Conv2d, 4, 4, 1), (2, 4, 4, 4)),
        (partial(nn.Conv3d, 4, 4, 1), (2, 4, 4, 4, 4)),
        (partial(nn.ConvTranspose2d, 4, 4, 1), (2, 4, 4, 4)),
        (partial(nn.LayerNorm, 4), (2, 4)),
        (partial(nn.BatchNorm2d, 4), (2, 4, 4, 4)),
    ],
    ids=[
        "Linear",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose2d",
        "LayerNorm",
        "BatchNorm2d",
    ],
)
def test_autocast_takes_any_inputs__also_for(snippet, given, layer, shape):
    """Autocast alone, without the program."""
    for dtype in (BRAIN, HALF):
        with torch.autocast("cpu", dtype=dtype), no_error():
            assert layer()(torch.rand(shape).to(given)).isfinite().all()


@pytest.mark.parametrize("given", [FULL, BRAIN, HALF])
def test_autocast_takes_any_inputs__also_in_training(snippet, given):
    run = after(snippet, *STEP)
    parts = [(run.radar.to(given), run.rain)]

    for layer in (nn.Linear(64, 3), run.new_model()):
        conv = isinstance(layer, nn.Conv2d)
        model = layer if conv else Rows(layer)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for dtype in (BRAIN, HALF):
            scaler = torch.amp.GradScaler("cpu", enabled=dtype == HALF)
            with no_error():
                loss, _ = run.train_step(
                    model,
                    parts,
                    lambda outputs, _: outputs.float().square().mean(),
                    optimizer,
                    scaler,
                    dtype,
                )
            assert loss.isfinite()


class Rows(nn.Module):
    """A layer that is given the rows of the first map of each day."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, inputs):
        """Return what the layer makes of them."""
        return self.layer(inputs[:, 0])


def test_autocast_takes_any_inputs__but_not_outside(snippet, fails):
    """With autocast off, 16-bit inputs raise an error in a `float32` layer."""
    edited = snippet.edit(
        "enabled=mixed)\n    with",
        "enabled=False)\n    with",
    )
    fails(test_autocast_takes_any_inputs, edited)


SKIPPED = (*STEP, "skipped")


def test_a_skipped_step_warns(snippet):
    run = after(snippet, *SKIPPED)

    assert run.stepped is False
    assert (vector(run.model) == vector(run.new_model())).all()
    assert run.warned == [
        "Detected call of `lr_scheduler.step()` before `optimizer.step()`"
    ]


@pytest.mark.parametrize(
    "new",
    ["ExponentialLR(optimizer, 0.9)", "LinearLR(optimizer)"],
    ids=["ExponentialLR", "LinearLR"],
)
def test_a_skipped_step_warns__also_with(snippet, new):
    old = "StepLR(optimizer, step_size=1)"
    test_a_skipped_step_warns(snippet.edit(old, new))


def test_a_skipped_step_warns__ends_with_a_fused_optimizer(snippet, fails):
    """With a fused optimizer: the step is skipped without a warning."""
    edited = snippet.edit(
        "lr=0.3)\nschedule = torch.optim.lr_scheduler.StepLR",
        "lr=0.3, fused=True)\nschedule = torch.optim.lr_scheduler.StepLR",
    )
    fails(test_a_skipped_step_warns, edited)


@edits(
    ("a step that is taken", "init_scale=2.0**40", "init_scale=2.0**10"),
    (
        "waiting",
        "schedule.step()  # without",
        "stepped and schedule.step()  #",
    ),
    (
        "not the first",
        "    loss, stepped = train_step(*given)\n",
        "    train_step(*given[:-2], torch.amp.GradScaler('cpu'), given[-1])\n"
        "    loss, stepped = train_step(*given)\n",
    ),
)
def test_a_skipped_step_warns__but_not(snippet, old, new, fails):
    """With a smaller scale, no step is skipped; the others let the schedule
    wait, or skip only a later step.
    """
    fails(test_a_skipped_step_warns, snippet.edit(old, new))


SLOPES_AND_STEPPED = (
    ((1.0, 1.0), True),
    ((0.0, 0.0), True),
    ((1.0, math.inf), False),
    ((1e36, 1.0), False),
    ((math.nan, 1.0), False),
)


def test_stepped_is_false_if_skipped(snippet, cases=SLOPES_AND_STEPPED):
    run = after(snippet, *STEP)

    for slopes, expected in cases:
        assert a_step_of(run, Two(*slopes))[1] is expected


@pytest.mark.parametrize("backoff", [0.25, 0.75, 0.99])
def test_stepped_is_false_if_skipped__also_with_a_backoff_of(snippet, backoff):
    run, model = after(snippet, *STEP), Two(1.0, math.inf)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    parts = [(torch.ones(2), torch.ones(2))]
    given = model, parts, lambda outputs, _: outputs, optimizer

    scaler = torch.amp.GradScaler("cpu", backoff_factor=backoff)
    assert run.train_step(*given, scaler, FULL)[1] is False
    assert (vector(model) == 1).all()


def test_stepped_is_false_if_skipped__also_with_a_disabled_scaler(snippet):
    run, model = after(snippet, *STEP), Two(1.0, math.inf)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    parts = [(torch.ones(2), torch.ones(2))]
    given = model, parts, lambda outputs, _: outputs, optimizer

    scaler = torch.amp.GradScaler("cpu", enabled=False)
    assert run.train_step(*given, scaler, FULL)[1] is True
    assert vector(model).isnan().any()


@pytest.mark.parametrize(
    "scale",
    [2.0**-149, 2.0**-148],
    ids=["the smallest scale that float32 has", "twice that scale"],
)
def test_stepped_is_false_if_skipped__also_at_the_end(snippet, scale):
    run, model = after(snippet, *STEP), Two(1.0, math.inf)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", scale)
    parts = [(torch.ones(2), torch.ones(2))]
    given = model, parts, lambda outputs, _: outputs, optimizer, scaler, FULL

    assert not any(run.train_step(*given)[1] for _ in range(4))
    assert scaler.get_scale() == 0
    assert (vector(model) == 1).all()


def test_stepped_is_false_if_skipped__also_in_the_loop(snippet):
    edited = snippet.edit(
        "dtype = best_dtype(device)\n", "dtype = torch.float16\n"
    ).edit("enabled=enabled)", "init_scale=2.0**30, enabled=enabled)")
    run = after(edited, *STEP, "once", "loop")

    skipped = 30 - math.log2(run.scaler.get_scale())
    assert 0 < skipped < 20
    assert run.schedule.last_epoch == 20 - skipped
    assert run.loss < 1e-4


def test_stepped_is_false_if_skipped__also_with_growing_and_disabled_scalers(
    snippet,
):
    assert after(snippet, *SKIPPED).stepped is False
    run = after(snippet, *TRAIN)
    scaler = torch.amp.GradScaler("cpu", growth_interval=1)
    optimizer = torch.optim.SGD((model := run.new_model()).parameters(), 0.1)
    given = model, [(run.radar, run.rain)], F.mse_loss, optimizer
    assert run.train_step(*given, scaler, BRAIN)[1] is True
    assert scaler.get_scale() == 2 * 65_536
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    assert run.train_step(*given, scaler, BRAIN)[1] is True


@edits(
    ("always", "stepped = scaler.get_scale() >= scale > 0", "stepped = True"),
    ("never", "stepped = scaler.get_scale() >= scale > 0", "stepped = False"),
    (
        "if it grew",
        "scaler.get_scale() >= scale",
        "scaler.get_scale() > scale",
    ),
    (
        "asked too late",
        "scale = scaler.get_scale()\n    scaler.update()",
        "scaler.update()\n    scale = scaler.get_scale()",
    ),
)
def test_stepped_is_false_if_skipped__but_not(snippet, old, new, fails):
    """With `stepped = True`, a skipped step counts as taken; the others miss
    steps that were taken, or ask too late.
    """
    fails(test_stepped_is_false_if_skipped, snippet.edit(old, new))


def test_an_empty_state_is_refused(snippet):
    run = after(snippet, "radar", "text-of", "resumed")

    assert run.empty.startswith("RuntimeError: The source state dict is empty")
    assert run.scaler.is_enabled()
    assert run.scaler.get_scale() == 65_536


def test_an_empty_state_is_refused__also_of_a_training(snippet):
    run = after(snippet, *TRAIN, "text-of")
    *_, disabled = run.train(BRAIN, False, steps=2)
    *_, enabled = run.train(HALF, True, steps=2)
    saved = disabled.state_dict()

    assert "is empty" in run.text_of(lambda: enabled.load_state_dict(saved))


@edits(
    (
        "a state of an enabled one",
        'GradScaler("cpu", enabled=False).state_dict()',
        'GradScaler("cpu").state_dict()',
    ),
    (
        "into a disabled one",
        'scaler = torch.amp.GradScaler("cpu")\nempty',
        'scaler = torch.amp.GradScaler("cpu", enabled=False)\nempty',
    ),
)
def test_an_empty_state_is_refused__but_not(snippet, old, new, fails):
    """The state of an enabled scaler is not empty; and a disabled one loads an
    empty state.
    """
    fails(test_an_empty_state_is_refused, snippet.edit(old, new))


@true_since("2.4", "they gave no warning")
def test_old_names_warn(snippet):
    old = after(snippet, "radar", "old-names").old

    assert len(old) == 2
    for text, name in zip(old, ("GradScaler", "autocast"), strict=True):
        assert f"`torch.cuda.amp.{name}(args...)` is deprecated" in text
        assert f"`torch.amp.{name}('cuda', args...)` instead" in text


@edits(
    (
        "a new scaler",
        "torch.cuda.amp.GradScaler()",
        'torch.amp.GradScaler("cuda", enabled=False)',
    ),
    (
        "a new autocast",
        "torch.cuda.amp.autocast()",
        'torch.autocast("cuda")',
    ),
)
def test_old_names_warn__but_not_of(snippet, old, new, fails):
    """`torch.amp.GradScaler`, the new name, gives no warning; nor does
    `torch.autocast`.
    """
    fails(test_old_names_warn, snippet.edit(old, new))
