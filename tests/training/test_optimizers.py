"""The claims of docs/training/optimizers.md."""

import itertools
import math
import warnings
from types import GeneratorType

import pytest
import torch
from torch import nn, optim
from torch.optim.optimizer import register_optimizer_step_pre_hook

from extensions.evidence.counterexamples import edits, no_error


def tied():
    """Return a model whose output layer shares the table of its input."""
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    model[1].weight = model[0].weight
    return model


def pictures():
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(16, 2))


def without_biases():
    return nn.Linear(3, 2, bias=False)


def partly_frozen():
    model = pictures()
    model[0].requires_grad_(False)
    return model


def assert_split(parameters, given, decay):
    """Check that the weights decay, the rest not, and nothing is lost."""
    parameters = list(parameters)
    first, second = given
    assert first["weight_decay"] == decay
    assert second["weight_decay"] == 0
    for group, some in ((first, True), (second, False)):
        held = [id(p) for p in group["params"]]
        assert held == [id(p) for p in parameters if (p.ndim >= 2) is some]


def test_groups_split_by_axes(snippet):
    run = snippet.after("do-this")

    assert type(run.optimizer) is optim.AdamW
    assert_split(run.model.parameters(), run.optimizer.param_groups, 0.01)


def with_a_single_number():
    """Return a model with a parameter that has no axis."""
    model = without_biases()
    model.scale = nn.Parameter(torch.tensor(1.0))
    return model


@pytest.mark.parametrize(
    "make",
    [tied, pictures, without_biases, partly_frozen, with_a_single_number],
    ids=[
        "tied weights",
        "convolutions",
        "no biases",
        "frozen layers",
        "one number",
    ],
)
def test_groups_split_by_axes__also_for(snippet, make):
    run, model = snippet.after("groups"), make()
    optimizer = optim.SGD(run.groups(model, 0.3), lr=0.1)

    assert_split(model.parameters(), optimizer.param_groups, 0.3)


@edits(
    ("a bias left out", "p.dim() <= 1]", "p.dim() < 1]"),
    (
        "a bias that decays",
        'others, "weight_decay": 0.0',
        'others, "weight_decay": decay',
    ),
    ("a weight left out", "p.dim() > 1]", "p.dim() > 2]"),
    ("weights among the others", "if p.dim() <= 1]", "if p.dim() <= 2]"),
    ("no decay", '"weight_decay": decay}', '"weight_decay": 0.0}'),
)
def test_groups_split_by_axes__but_not_with(snippet, old, new, fails):
    """Each edit leaves parameters out, moves them to the other group, or gives
    a group the decay of the other.
    """
    edited = snippet.edit(old, new)
    if new == "if p.dim() <= 2]":
        edited = edited.edit("p.dim() > 1]", "p.dim() > 9]")
    fails(test_groups_split_by_axes, edited)


WEIGHTS = [
    nn.Linear(3, 2),
    nn.Embedding(4, 3),
    nn.Conv1d(2, 3, 2),
    nn.Conv2d(2, 3, 2),
    nn.Conv3d(2, 3, 2),
    nn.ConvTranspose2d(2, 3, 2),
    nn.LSTM(3, 2, 2),
    nn.MultiheadAttention(4, 2),
]
NORMS = [nn.BatchNorm1d(3), nn.BatchNorm2d(3), nn.BatchNorm3d(3)]
NORMS += [nn.GroupNorm(2, 4), nn.LayerNorm(4)]


def test_biases_and_norms_do_not_decay(snippet, weights=WEIGHTS, norms=NORMS):
    run = snippet.after("groups")

    for layer in [*weights, *norms]:
        first, second = run.groups(layer, 0.1)
        decays = {
            id(p): group["weight_decay"] > 0
            for group in (first, second)
            for p in group["params"]
        }
        for name, p in layer.named_parameters():
            is_weight = layer not in norms and "bias" not in name
            assert decays.get(id(p)) == is_weight, (layer, name)


@edits(
    ("weights spared", "p.dim() > 1]", "p.dim() > 5]"),
    (
        "biases decaying",
        'others, "weight_decay": 0.0',
        'others, "weight_decay": decay',
    ),
)
def test_biases_and_norms_do_not_decay__but_not_with(snippet, old, new, fails):
    """Compare with 5 in place of 1, and no weight decays; give the others
    `decay` as well, and biases do.
    """
    edited = snippet.edit(old, new)
    if "dim" in old:
        edited = edited.edit("p.dim() <= 1]", "p.dim() <= 5]")
    fails(test_biases_and_norms_do_not_decay, edited)


def test_biases_and_norms_do_not_decay__ends_for_a_norm_over_two_axes(
    snippet, fails
):
    """For a `LayerNorm` over two axes: its weight has two axes, and decays."""
    norms = [nn.LayerNorm((2, 3))]
    fails(test_biases_and_norms_do_not_decay, snippet, [], norms)


def test_biases_and_norms_do_not_decay__ends_for_a_bias_of_keys(
    snippet, fails
):
    """With `add_bias_kv=True` in `MultiheadAttention`: these biases have three
    axes, and decay.
    """
    weights = [nn.MultiheadAttention(4, 2, add_bias_kv=True)]
    fails(test_biases_and_norms_do_not_decay, snippet, weights, [])


def trained_anew(kind, lr, **options):
    """Return the error after 30 steps, with data and a loop of its own."""
    torch.manual_seed(0)
    days = torch.randn(200, 3)
    target = 3 + 2 * days[:, 0] + days[:, 1] * days[:, 2]
    torch.manual_seed(0)
    layers = nn.Linear(3, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 1)
    model = nn.Sequential(*layers)
    optimizer = kind(model.parameters(), lr=lr, **options)
    for _ in range(30):
        loss = nn.functional.mse_loss(model(days).squeeze(1), target)
        model.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


KINDS = {
    "SGD": (optim.SGD, {}),
    "SGD with momentum": (optim.SGD, {"momentum": 0.9}),
    "AdamW": (optim.AdamW, {"decay": 0.01}),
}
RATES = [0.001, 0.01, 0.03, 0.1, 0.3, 1.0]


def test_rates_that_work(snippet, seed=0):
    run = snippet.after("sweep")

    if not seed:
        expected = trained_anew(optim.SGD, 0.03)
        (error,) = run.sweep("SGD", [0.03])
        assert error == pytest.approx(expected, rel=1e-3)
    best = {}
    for name in run.kinds:
        errors = run.sweep(name, RATES, seed=seed)
        finite = [math.inf if error != error else error for error in errors]
        best[name] = RATES[finite.index(min(finite))]
    assert (best["AdamW"], best["SGD with momentum"]) == (0.3, 0.1)
    assert run.kinds == KINDS


@pytest.mark.parametrize("seed", [2])
def test_rates_that_work__also_from_another_start(snippet, seed):
    test_rates_that_work(snippet, seed)


@edits(
    ("a third of the steps", "range(30)", "range(10)"),
    (
        "Adagrad for momentum",
        '(optim.SGD, {"momentum": 0.9})',
        "(optim.Adagrad, {})",
    ),
    ("Adagrad for SGD", "(optim.SGD, {})", "(optim.Adagrad, {})"),
    (
        "no AdamW",
        '(optim.AdamW, {"decay": 0.01})',
        '(optim.SGD, {"decay": 0.01})',
    ),
)
def test_rates_that_work__but_not_with(snippet, old, new, fails):
    """Ten steps leave larger errors; and with another optimizer in place of
    one of the three, you compare something else.
    """
    fails(test_rates_that_work, snippet.edit(old, new))


def test_sgd_ends_in_nan(snippet, seed=0):
    run = snippet.after("sweep")

    for name in ("SGD", "SGD with momentum"):
        kind, options = run.kinds[name]
        error, model = run.train(kind, lr=0.3, seed=seed, **options)
        assert math.isnan(error)
        assert any(p.isnan().any() for p in model.parameters())
        assert math.isnan(trained_anew(optim.SGD, 0.3, **options))
    expected = trained_anew(optim.SGD, 0.03)
    (error,) = run.sweep("SGD", [0.03])
    assert error == pytest.approx(expected, rel=1e-3)


def test_sgd_ends_in_nan__also_from_another_start(snippet):
    test_sgd_ends_in_nan(snippet, 1)


@edits(
    ("in place of SGD", "(optim.SGD, {})", "(optim.Adam, {})"),
    (
        "in place of momentum",
        '(optim.SGD, {"momentum": 0.9})',
        "(optim.Adam, {})",
    ),
)
def test_sgd_ends_in_nan__but_not_adam(snippet, old, new, fails):
    """With Adam in place of SGD, the error stays finite."""
    fails(test_sgd_ends_in_nan, snippet.edit(old, new))


def test_the_sum_shifts_sgd_alone(snippet, seed=0, rates=(0.003, 0.03)):
    run = snippet.after("sweep")

    for name in run.kinds:
        factor = 1 / 200 if name.startswith("SGD") else 1
        mean = run.sweep(name, rates, seed=seed)
        others = [rate * factor for rate in rates]
        total = run.sweep(name, others, seed=seed, reduction="sum")
        assert total == pytest.approx(mean, rel=2e-3)


def test_the_sum_shifts_sgd_alone__also_from_another_start(snippet):
    test_the_sum_shifts_sgd_alone(snippet, 1, [0.01])


@edits(
    ("SGD", "(optim.SGD, {})", "(optim.Adam, {})"),
    ("momentum", '(optim.SGD, {"momentum": 0.9})', "(optim.Adam, {})"),
    (
        "AdamW",
        '(optim.AdamW, {"decay": 0.01})',
        '(optim.SGD, {"decay": 0.01})',
    ),
)
def test_the_sum_shifts_sgd_alone__but_not_with_another_in_place_of(
    snippet, old, new, fails
):
    """For Adam, a 200th of the rate is too little; for SGD in place of AdamW,
    the same rate is too much.
    """
    fails(test_the_sum_shifts_sgd_alone, snippet.edit(old, new), 0, [0.003])


def test_the_sum_shifts_sgd_alone__but_not_adam_with_another_decay(
    snippet, fails
):
    """A penalty on the weights that is added to the sum alone changes the
    steps of AdamW.
    """
    edited = snippet.edit(
        "errors.sum()",
        "(errors.sum() + model[0].weight.square().sum() * 1e4)",
    )
    fails(test_the_sum_shifts_sgd_alone, edited, 0, [0.003])


def test_the_sum_shifts_sgd_alone__ends_at_a_rate_that_diverges(
    snippet, fails
):
    """At a rate that diverges, here 0.3 for SGD: the error is nan, with the
    mean as well as with the sum.
    """
    fails(test_the_sum_shifts_sgd_alone, snippet, 0, [0.3])


def test_few_steps_need_a_large_rate(snippet, seed=0):
    run = snippet.after("sweep")
    kind, given = run.kinds["AdamW"]
    error, model = run.train(kind, lr=0.001, seed=seed, **given)
    torch.manual_seed(seed)
    start = run.new_model()

    for now, old in zip(model.parameters(), start.parameters(), strict=True):
        assert 0 < (now - old).abs().max() <= 0.05
    assert error > 10
    errors = (model(run.weather) - run.tomorrow).square()
    assert error == pytest.approx(errors.mean().item(), rel=0.05)


def test_few_steps_need_a_large_rate__also_from_another_start(snippet):
    test_few_steps_need_a_large_rate(snippet, 1)


@edits(
    (
        "with momentum",
        '(optim.AdamW, {"decay": 0.01})',
        '(optim.SGD, {"momentum": 0.9})',
    ),
    ("in three times the steps", "range(30)", "range(90)"),
    (
        "for a forecast near zero",
        "(3 + 2 * today + wind * clouds)",
        "(wind * clouds)",
    ),
)
def test_few_steps_need_a_large_rate__but_not(snippet, old, new, fails):
    """SGD with momentum, or 90 steps, moves parameters further; and
    temperatures near 0 need no large move.
    """
    fails(test_few_steps_need_a_large_rate, snippet.edit(old, new))


def test_the_steepest_way_limits_the_rate(snippet):
    run = snippet.after("paths")
    along, across = run.path(**run.walks["SGD"]).T

    assert run.walks["SGD"] == {"kind": optim.SGD, "lr": 0.06}
    assert (across[1:] * across[:-1] < 0).all()
    assert (along[1:] / along[:-1]).tolist() == pytest.approx([0.94] * 40)


@edits(
    ("at half the rate", '"lr": 0.06', '"lr": 0.03'),
    ("in a flatter valley", "30 * w[1]", "15 * w[1]"),
    ("where it is steeper along", "(w[0] ** 2", "(2 * w[0] ** 2"),
    ("with momentum", '"lr": 0.06', '"lr": 0.06, "momentum": 0.5'),
)
def test_the_steepest_way_limits_the_rate__but_not(snippet, old, new, fails):
    """At half the rate, or in a flatter valley, it does not jump across; the
    other edits change its steps along the valley.
    """
    fails(test_the_steepest_way_limits_the_rate, snippet.edit(old, new))


def test_swings_grow_above_two_over_the_curvature(
    snippet, curvature=30, momentum=0.0
):
    run = snippet.edit("30 * w[1]", f"{curvature} * w[1]").after("paths")

    for share in (0.5, 0.9, 0.99, 1.01, 1.1, 1.5):
        options = {"lr": 2 * share / curvature, "momentum": momentum}
        swings = run.path(optim.SGD, **options)[:, 1].abs()
        assert (swings[-1] > swings[0]).item() == (share > 1)


@pytest.mark.parametrize("curvature", [2, 3.5, 1000])
def test_swings_grow_above_two_over_the_curvature__also_for_a_curvature_of(
    snippet, curvature
):
    test_swings_grow_above_two_over_the_curvature(snippet, curvature)


def test_swings_grow_above_two_over_the_curvature__but_not_of_half_the_height(
    snippet, fails
):
    """Divided by 4, the curvature across is 15, so swings grow only at rates
    above 2/15.
    """
    edited = snippet.edit("w[1] ** 2) / 2", "w[1] ** 2) / 4")
    fails(test_swings_grow_above_two_over_the_curvature, edited)


def test_swings_grow_above_two_over_the_curvature__ends_with_momentum(
    snippet, fails
):
    """With momentum 0.5: swings do not yet grow just above that rate."""
    fails(test_swings_grow_above_two_over_the_curvature, snippet, 30, 0.5)


def test_momentum_gets_lower(snippet):
    run = snippet.after("paths")
    slower = run.path(optim.SGD, lr=0.02)
    with_it, without = (
        run.path(**run.walks["momentum"]),
        run.path(**run.walks["SGD"]),
    )

    assert run.walks["momentum"].get("momentum") == 0.9
    assert run.walks["momentum"]["kind"] is optim.SGD
    assert len(with_it) == len(without) == 41
    assert run.valley(with_it[-1]) < run.valley(without[-1])
    assert run.valley(with_it[-1]) < run.valley(slower[-1])


@edits(
    ("without momentum", '0.02, "momentum": 0.9', "0.02"),
    ("with more", '0.02, "momentum": 0.9', '0.02, "momentum": 0.99'),
    ("after 14 steps", "range(40)", "range(14)"),
)
def test_momentum_gets_lower__but_not(snippet, old, new, fails):
    """Without momentum, with 0.99, or after 14 steps, it is still higher than
    plain SGD.
    """
    fails(test_momentum_gets_lower, snippet.edit(old, new))


def test_adam_moves_both_weights_alike(snippet):
    run = snippet.after("paths")
    walks = [run.path(optim.Adam, lr=rate) for rate in (0.01, 0.1, 1.0)]

    assert run.walks["Adam"] == {"kind": optim.Adam, "lr": 0.3}
    walks.append(run.path(**run.walks["Adam"]))
    for along, across in (points.T for points in walks):
        torch.testing.assert_close(along, across, rtol=0, atol=1e-4)
        assert len(set(along.tolist())) > 35


@edits(
    ("SGD", 'optim.Adam, "lr": 0.3', 'optim.SGD, "lr": 0.01'),
)
def test_adam_moves_both_weights_alike__but_not_with(snippet, old, new, fails):
    """SGD follows the gradient, which is 30 times as large across the
    valley.
    """
    fails(test_adam_moves_both_weights_alike, snippet.edit(old, new))


def test_adam_moves_both_weights_alike__ends_from_another_start(
    snippet, fails
):
    """From another start, here (4, 2): both move by like lengths only until
    one of them is at the bottom.
    """
    edited = snippet.edit("start=(4.0, 4.0)", "start=(4.0, 2.0)")
    fails(test_adam_moves_both_weights_alike, edited)


def at(snippet, rate):
    """Return the snippet with another rate for its single weight."""
    return snippet.edit("lr=0.1, **options", f"lr={rate}, **options")


def steps_of(run, name):
    """Return how far the steps go in one of the ways of the page."""
    gradients, options = run.strides[name]
    return run.moves(gradients, **options)


def test_sgd_follows_the_size(snippet, kind=optim.SGD, rate=0.1, **options):
    run = snippet.after("how-far")
    assert steps_of(run, "SGD, steady") == pytest.approx([2 * rate] * 80)

    gradients = [0.0, 1e-6, -3.0, 2.0, 1e6]
    steps = run.moves(gradients, kind, **options)
    assert steps == pytest.approx([rate * each for each in gradients])


@pytest.mark.parametrize("rate", [0.001, 3.0])
def test_sgd_follows_the_size__also_at_rate(snippet, rate):
    test_sgd_follows_the_size(at(snippet, rate), rate=rate)


def test_sgd_follows_the_size__ends_for_adam(snippet, fails):
    """For Adam: it divides by the size of the gradients, so its steps do not
    grow with them.
    """
    fails(test_sgd_follows_the_size, snippet, optim.Adam)


@pytest.mark.parametrize("option", ["momentum", "weight_decay"])
def test_sgd_follows_the_size__but_not_with(snippet, option, fails):
    """`momentum` adds past gradients to the step, and `weight_decay` part of
    the weight.
    """
    old = '"SGD, steady": (steady, {"kind": optim.SGD'
    edited = snippet.edit(f"{old}}}", f'{old}, "{option}": 0.5}}')
    fails(test_sgd_follows_the_size, edited)


def test_momentum_adds_up_and_cancels(snippet):
    run = snippet.after("how-far")
    plain = steps_of(run, "SGD, steady")
    steady = steps_of(run, "momentum, steady")
    ratios = [a / b for a, b in zip(steady, plain, strict=True)]
    assert ratios[:3] == pytest.approx([1, 1.9, 2.71])
    assert ratios == sorted(ratios)
    assert ratios[-1] == pytest.approx(10, rel=1e-3)

    plain = run.moves(run.swinging, optim.SGD)
    swinging = steps_of(run, "momentum, swinging")
    ratios = [a / b for a, b in zip(swinging, plain, strict=True)]
    far = [abs(ratio - 1 / 1.9) for ratio in ratios]
    assert far == sorted(far, reverse=True)
    assert far[-1] < 1e-3


@pytest.mark.parametrize("size", ["-0.001", "5000.0"])
def test_momentum_adds_up_and_cancels__also_for_size(snippet, size):
    edited = snippet.edit("[2.0] * 80", f"[{size}] * 80")
    edited = edited.edit("[2.0, -2.0]", f"[{size}, -({size})]")
    test_momentum_adds_up_and_cancels(edited)


def with_momentum(snippet, way, options):
    """Return the program with other options for a gradient that goes so."""
    old = f'"momentum, {way}": ({way}, {{"kind": optim.SGD'
    return snippet.edit(f'{old}, "momentum": 0.9', f"{old}{options}")


@pytest.mark.parametrize(
    ("way", "options"),
    [("steady", ""), ("swinging", ""), ("steady", ', "momentum": 0.8')],
    ids=["adding up", "cancelling", "less"],
)
def test_momentum_adds_up_and_cancels__but_not(snippet, way, options, fails):
    """Without momentum, steps neither grow nor shrink; with 0.8, they grow to
    5 times the first.
    """
    edited = with_momentum(snippet, way, options)
    fails(test_momentum_adds_up_and_cancels, edited)


@pytest.mark.parametrize("way", ["steady", "swinging"])
@pytest.mark.parametrize("option", ['"nesterov": True', '"dampening": 0.5'])
def test_momentum_adds_up_and_cancels__ends_with(snippet, option, way, fails):
    """With `nesterov=True`: the first steps differ; with `dampening=0.5`:
    steps grow to 5 times only.
    """
    edited = with_momentum(snippet, way, f', "momentum": 0.9, {option}')
    fails(test_momentum_adds_up_and_cancels, edited)


def test_adam_moves_by_the_rate(snippet, size=2.0, rate=0.1):
    run = snippet.after("how-far")
    steady = [
        run.moves([size] * 30, optim.Adam),
        steps_of(run, "Adam, steady"),
    ]
    swings = run.moves([size, -size] * 15, optim.Adam)
    for name in ("Adam, steady", "Adam, swinging"):
        assert run.strides[name][1] == {"kind": optim.Adam}

    for steps in steady:
        assert [abs(step) for step in steps] == pytest.approx(
            [rate] * len(steps), rel=1e-3
        )
    for first, *others in (swings, steps_of(run, "Adam, swinging")):
        assert abs(first) == pytest.approx(rate, rel=1e-3)
        assert 0 < max(abs(step) for step in others) < rate / 2


@pytest.mark.parametrize("size", [0.001, -0.7, 1000.0])
def test_adam_moves_by_the_rate__also_for_size(snippet, size):
    test_adam_moves_by_the_rate(snippet, size)


@pytest.mark.parametrize("rate", [0.001, 3.0])
def test_adam_moves_by_the_rate__also_at_rate(snippet, rate):
    test_adam_moves_by_the_rate(at(snippet, rate), 2.0, rate)


def test_adam_moves_by_the_rate__also_in_single_precision(snippet):
    edited = snippet.edit("dtype=torch.float64", "dtype=torch.float32")
    test_adam_moves_by_the_rate(edited, 0.001)


@pytest.mark.parametrize("way", ["steady", "swinging"])
def test_adam_moves_by_the_rate__but_not_sgd(snippet, way, fails):
    """A step of SGD is the rate times the gradient: here 0.2 and not 0.1."""
    old = f'"Adam, {way}": ({way}, {{"kind": optim.'
    edited = snippet.edit(f"{old}Adam", f"{old}SGD")
    fails(test_adam_moves_by_the_rate, edited)


def test_adam_moves_by_the_rate__ends_near_eps(snippet, fails):
    """For gradients as small as `eps`, 1e-8: steps are half as long as the
    rate.
    """
    fails(test_adam_moves_by_the_rate, snippet, 1e-8)


def test_adamw_decays_apart(
    snippet, kind=optim.AdamW, decay=0.1, rate=0.1, **options
):
    """No cell decides it: the optimizers themselves are compared."""
    run = snippet.after("how-far")
    gradients = torch.randn(40).mul(3).exp().tolist() + run.swinging[:20]
    plain = run.moves(gradients, optim.Adam, **options)
    steps = run.moves(gradients, kind, weight_decay=decay, **options)

    weights = [0, *itertools.accumulate(-step for step in steps)]
    expected = [
        step + rate * decay * weight
        for step, weight in zip(plain, weights[:-1], strict=True)
    ]
    assert steps == pytest.approx(expected)


@pytest.mark.parametrize("decay", [0.0, 0.01, 2.0])
def test_adamw_decays_apart__also_for_a_decay_of(snippet, decay):
    test_adamw_decays_apart(snippet, optim.AdamW, decay)


@pytest.mark.parametrize("rate", [0.001, 1.0])
def test_adamw_decays_apart__also_at_rate(snippet, rate):
    test_adamw_decays_apart(at(snippet, rate), rate=rate)


@pytest.mark.parametrize(
    "options", [{"betas": (0.5, 0.9)}, {"amsgrad": True}, {"maximize": True}]
)
def test_adamw_decays_apart__also_with(snippet, options):
    test_adamw_decays_apart(snippet, **options)


def test_adamw_decays_apart__ends_for_adam(snippet, fails):
    """For Adam: it adds the decay to the gradient, and divides both."""
    fails(test_adamw_decays_apart, snippet, optim.Adam)


def shares(run, name):
    """Return what a decay leaves of both weights, as a share."""
    end, without = (
        run.decayed(run.sizes, **run.decays[each])
        for each in (name, "without decay")
    )
    pairs = zip(end, without, strict=True)
    return [end / without for end, without in pairs]


def decayed_anew(kind, size):
    """Return a weight after 100 steps with a gradient that swings."""
    weight = torch.ones(1)
    optimizer = kind([weight], lr=0.02, weight_decay=0.1)
    for step in range(100):
        weight.grad = torch.full((1,), size if step % 2 == 0 else -size)
        optimizer.step()
    return weight.item()


def test_adam_divides_the_decay(snippet):
    run = snippet.after("two-decays")
    small, large = shares(run, "Adam")
    anew = [decayed_anew(optim.Adam, size) for size in run.sizes]
    found = run.decayed(run.sizes, **run.decays["Adam"])

    assert small < 0.1
    assert 0.99 < large < 1
    assert found == pytest.approx(anew, rel=1e-4)


@edits(
    ("two small gradients", "[0.01, 100.0]", "[0.01, 0.01]"),
    ("two large gradients", "[0.01, 100.0]", "[100.0, 100.0]"),
    (
        "AdamW",
        'optim.Adam, "weight_decay": 0.1',
        'optim.AdamW, "weight_decay": 0.1',
    ),
)
def test_adam_divides_the_decay__but_not_with(snippet, old, new, fails):
    """With two small gradients, it takes over nine tenths of both; with two
    large ones, hardly any; AdamW takes 18 % of each.
    """
    fails(test_adam_divides_the_decay, snippet.edit(old, new))


def test_adamw_takes_the_same_share(snippet):
    run = snippet.after("two-decays")
    small, large = shares(run, "AdamW")

    assert small == pytest.approx(large, abs=1e-3)
    decay = run.decays["AdamW"]["weight_decay"]
    assert small == pytest.approx((1 - 0.02 * decay) ** 100, abs=1e-3)


@edits(
    ("further gradients", "[0.01, 100.0]", "[0.001, 1000.0]"),
    (
        "more decay",
        'optim.AdamW, "weight_decay": 0.1',
        'optim.AdamW, "weight_decay": 0.5',
    ),
)
def test_adamw_takes_the_same_share__also_for(snippet, old, new):
    test_adamw_takes_the_same_share(snippet.edit(old, new))


def test_adamw_takes_the_same_share__but_not_with_adam(snippet, fails):
    """Adam takes nearly all of one weight, and 0.2 % of the other."""
    edited = snippet.edit('optim.AdamW, "weight', 'optim.Adam, "weight')
    fails(test_adamw_takes_the_same_share, edited)


def test_adamw_takes_the_same_share__but_not_a_share_of_nothing(
    snippet, fails
):
    """With a decay of 0, there is no share to take."""
    edited = snippet.edit("weight_decay=weight_decay)", "weight_decay=0.0)")
    fails(test_adamw_takes_the_same_share, edited)


def test_a_decayed_bias_pulls_the_forecast(snippet):
    run = snippet.after("biases")
    mean = run.tomorrow.mean().item()
    decays = {}

    def note(optimizer, *_):
        for group in optimizer.param_groups:
            for p in group["params"]:
                decays[tuple(p.shape)] = group["weight_decay"]

    hook = register_optimizer_step_pre_hook(note)
    try:
        assert run.mean_forecast(False) == pytest.approx(mean, abs=0.01)
        assert decays == {(1, 3): 0.1, (1,): 0.0}
        assert 0 < run.mean_forecast(True) < mean - 0.1
        assert decays == {(1, 3): 0.1, (1,): 0.1}
    finally:
        hook.remove()
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(150):
        model.zero_grad()
        (model(run.weather) - run.tomorrow).square().mean().backward()
        optimizer.step()
    decayed = model(run.weather).mean().item()
    assert run.mean_forecast(True) == pytest.approx(decayed, rel=1e-3)


@edits(
    (
        "a bias that decays",
        "p.dim() <= 1]",
        "p.dim() <= 1]\n    weights, others = weights + others, []",
    ),
    (
        "a bias that does not",
        '"params": model.parameters(), "weight_decay": 0.1}',
        '"params": model.parameters(), "weight_decay": 0.0}',
    ),
)
def test_a_decayed_bias_pulls_the_forecast__but_not_with(
    snippet, old, new, fails
):
    """If `groups` lets biases decay, its forecast is too low as well; without
    decay, neither is.
    """
    fails(test_a_decayed_bias_pulls_the_forecast, snippet.edit(old, new))


def test_adamw_decays_by_default(snippet, make=None):
    run = snippet.after("paths")
    kinds = [
        run.kinds["SGD"][0],
        run.walks["Adam"]["kind"],
        run.kinds["AdamW"][0],
    ]

    for kind, decay in zip(kinds, (0, 0, 0.01), strict=True):
        model = (make or run.new_model)().double()
        old = [p.detach().clone() for p in model.parameters()]
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        kind(model.parameters(), lr=0.5).step()
        factor = 1 - 0.5 * decay
        for now, before in zip(model.parameters(), old, strict=True):
            torch.testing.assert_close(now.data, factor * before)


@pytest.mark.parametrize(
    "make", [tied, pictures], ids=["tied weights", "convolutions"]
)
def test_adamw_decays_by_default__also_for(snippet, make):
    test_adamw_decays_by_default(snippet, make)


@edits(
    ("SGD", "(optim.SGD, {})", "(optim.AdamW, {})"),
    ("Adam", 'optim.Adam, "lr"', 'optim.AdamW, "lr"'),
    ("AdamW", "(optim.AdamW, {", "(optim.Adam, {"),
)
def test_adamw_decays_by_default__but_not_another_in_place_of(
    snippet, old, new, fails
):
    """AdamW in place of SGD or Adam decays every parameter; Adam in place of
    AdamW decays none.
    """
    fails(test_adamw_decays_by_default, snippet.edit(old, new))


def test_decay_needs_no_gradient(snippet, kind=optim.AdamW, left=None):
    run = snippet.after("decay")
    for decay in (0.1, 2.0):
        weights = run.decayed([0.0, 0.0], kind, decay)
        expected = (1 - 0.02 * decay) ** 100
        assert weights == pytest.approx([expected] * 2, rel=1e-5)

    weight = nn.Parameter(torch.ones(3))
    weight.grad = left
    kind([weight], lr=0.02, weight_decay=0.1).step()
    assert weight.tolist() == [1, 1, 1]


def test_decay_needs_no_gradient__ends_for_adam(snippet, fails):
    """For Adam: it takes the decay for a gradient, and moves the weight to
    about 0 in these 100 steps.
    """
    fails(test_decay_needs_no_gradient, snippet, optim.Adam)


def test_decay_needs_no_gradient__but_not_still_with_zeros(snippet, fails):
    """Zeros in `.grad` are not `None`, so the weight shrinks."""
    fails(test_decay_needs_no_gradient, snippet, optim.AdamW, torch.zeros(3))


def test_decay_needs_no_gradient__but_not_after_others(snippet, fails):
    """A gradient of 1 in the first step alone goes on to move the weight
    through AdamW's averages.
    """
    edited = snippet.edit(
        "torch.tensor(sizes) * (-1) ** step",
        "torch.tensor(sizes) * (-1) ** step + (step == 0)",
    )
    fails(test_decay_needs_no_gradient, edited)


def test_groups_override_the_call(snippet):
    run = snippet.after("two-rates")
    body, head = run.optimizer.param_groups

    assert (len(body.pop("params")), len(head.pop("params"))) == (4, 2)
    assert (body.pop("lr"), head.pop("lr")) == (0.0001, 0.001)
    defaults = dict(run.optimizer.defaults)
    del defaults["lr"]
    assert {name: body[name] for name in defaults} == defaults
    assert {name: head[name] for name in defaults} == defaults


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.RMSprop])
def test_groups_override_the_call__also_for(snippet, kind):
    edited = snippet.edit(
        "optimizer = optim.AdamW(\n", f"optimizer = optim.{kind.__name__}(\n"
    )
    test_groups_override_the_call(edited)


def test_groups_override_the_call__also_for_every_option(snippet):
    """The first group names all options of AdamW, the second a few."""
    run = snippet.after("two-rates")
    names = {"lr": 0.3, "betas": (0.5, 0.6), "eps": 1e-3, "weight_decay": 0.0}
    names |= {"amsgrad": True, "maximize": True, "foreach": False}
    few = {"weight_decay": 0.0, "betas": (0.7, 0.8)}
    call = {"lr": 0.2, "weight_decay": 0.7, "eps": 1e-4}

    one, other = run.model[:3].parameters(), run.model[3].parameters()
    groups = [{"params": one, **names}, {"params": other, **few}]
    optimizer = optim.AdamW(groups, **call)
    first, second = optimizer.param_groups
    assert {name: first[name] for name in names} == names
    expected = optimizer.defaults | few
    assert {name: second[name] for name in expected} == expected
    assert {name: expected[name] for name in call} == call | {
        "weight_decay": 0.0
    }


@pytest.mark.parametrize(
    "change",
    [
        "0]['lr'] = 0.001",
        "1]['lr'] = 0.0001",
        "0]['weight_decay'] = 0.5",
        "1]['weight_decay'] = 0.5",
    ],
)
def test_groups_override_the_call__but_not_after_a_change(
    snippet, change, fails
):
    """Change an option in `param_groups` later, and the group has the new
    value.
    """
    old = '{"params": head}], lr=0.001\n)\n'
    edited = snippet.edit(old, f"{old}optimizer.param_groups[{change}\n")
    fails(test_groups_override_the_call, edited)


def test_a_late_layer_is_not_trained(snippet, late="3"):
    lost = snippet.after("replaced").lost

    assert lost.pop(f"{late}.weight") == 0
    assert lost.pop(f"{late}.bias") == 0
    assert min(lost.values()) > 0


NEW_HEAD = "model[3] = nn.Linear(16, 1)  # a new head\n"
MAKE = "optimizer = optim.SGD(model.parameters(), lr=0.01)\n"


def test_a_late_layer_is_not_trained__also_when_appended(snippet):
    edited = snippet.edit(NEW_HEAD, "model.append(nn.Linear(1, 1))\n")
    test_a_late_layer_is_not_trained(edited, "4")


def test_a_late_layer_is_not_trained__also_in_the_middle(snippet):
    edited = snippet.edit(NEW_HEAD, "model[1] = nn.BatchNorm1d(16)\n")
    test_a_late_layer_is_not_trained(edited, "1")


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "RMSprop"])
def test_a_late_layer_is_not_trained__also_by(snippet, kind):
    edited = snippet.edit(MAKE, MAKE.replace("SGD", kind))
    test_a_late_layer_is_not_trained(edited)


def test_a_late_layer_is_not_trained__but_not_before_the_optimizer(
    snippet, fails
):
    """If the head joins before the optimizer is made, it is trained."""
    edited = snippet.edit(MAKE + NEW_HEAD, NEW_HEAD + MAKE)
    fails(test_a_late_layer_is_not_trained, edited)


@pytest.mark.parametrize("part", ["weight", "bias"])
def test_a_late_layer_is_not_trained__but_not_once_added(snippet, part, fails):
    """Handed to `add_param_group`, its weight or its bias is trained."""
    add = f'optimizer.add_param_group({{"params": model[3].{part}}})\n'
    edited = snippet.edit(NEW_HEAD, NEW_HEAD + add)
    fails(test_a_late_layer_is_not_trained, edited)


def test_an_added_layer_is_trained(snippet, options=None):
    run = snippet.after("added")
    first, second = run.optimizer.param_groups
    if schedule := getattr(run, "schedule", None):
        with no_error():
            schedule.step()

    assert min(run.found.values()) > 0
    expected = {**run.optimizer.defaults, **(options or {})}
    assert {name: second[name] for name in expected} == expected
    assert first["lr"] == 0.01


ADD = 'optimizer.add_param_group({"params": model[3].parameters()})\n'


def test_an_added_layer_is_trained__also_at_its_own_rate(snippet):
    edited = snippet.edit(ADD, ADD.replace("()})", '(), "lr": 0.5})'))
    test_an_added_layer_is_trained(edited, {"lr": 0.5})


def test_an_added_layer_is_trained__also_by_adamw(snippet):
    edited = snippet.edit(MAKE, MAKE.replace("SGD", "AdamW"))
    test_an_added_layer_is_trained(edited)


@pytest.mark.parametrize(
    "options",
    ["LambdaLR(optimizer, lambda n: 1.0", "OneCycleLR(optimizer, 0.01, 9"],
    ids=["LambdaLR", "OneCycleLR"],
)
def test_an_added_layer_is_trained__ends_after_a_schedule(
    snippet, options, fails
):
    """If a `LambdaLR` or `OneCycleLR` was made before: its next `step()`
    raises an error, because it knows nothing of the new group.
    """
    schedule = f"schedule = optim.lr_scheduler.{options})\n"
    edited = snippet.edit(ADD, schedule + ADD)
    fails(test_an_added_layer_is_trained, edited)


@edits(
    ("the weight alone", ADD, ADD.replace("parameters()", "weight")),
    ("the bias alone", ADD, ADD.replace("parameters()", "bias")),
    ("a changed rate", ADD, f"{ADD}optimizer.param_groups[1]['lr'] = 0.5\n"),
)
def test_an_added_layer_is_trained__but_not_with(snippet, old, new, fails):
    """Only what you add learns, here the weight or the bias alone; and a rate
    set later replaces that of the call.
    """
    fails(test_an_added_layer_is_trained, snippet.edit(old, new))


def test_the_attribute_changes_nothing(snippet):
    run = snippet.after("attribute")

    for forecast in (None, -100, 100):
        moving = run.moving
        if forecast:
            nn.init.constant_(run.model[3].bias, forecast)
            moving = run.learn(run.model, run.optimizer)
        for name, parameter in run.model.named_parameters():
            step = 0.01 * parameter.grad.abs().max().item()
            assert moving[name] == pytest.approx(step, rel=1e-3)
    assert getattr(run.optimizer, "lr", None) == 0


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW])
@pytest.mark.parametrize("rate", [0.0, 5.0])
def test_the_attribute_changes_nothing__also_for(snippet, kind, rate):
    twins = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    for twin in twins:
        optimizer = kind([twin], lr=0.1)
        if twin is twins[0]:
            optimizer.lr = rate
        twin.grad = torch.ones(2)
        optimizer.step()

    assert twins[0].tolist() == twins[1].tolist() != [1, 1]


@pytest.mark.parametrize("index", [0, 1])
def test_the_attribute_changes_nothing__but_not_in_a_group(
    snippet, index, fails
):
    """Set to 0 in one of the `param_groups`, the rate keeps the parameters of
    that group where they are.
    """
    edited = snippet.edit(
        "optimizer.lr = 0.0", f'optimizer.param_groups[{index}]["lr"] = 0.0'
    )
    fails(test_the_attribute_changes_nothing, edited)


def test_the_rate_stands_in_the_groups(snippet):
    run = snippet.after("every-group")
    parameters = list(run.model.parameters())
    loss = nn.functional.mse_loss(run.model(run.weather), run.tomorrow)
    slopes = torch.autograd.grad(loss, parameters)

    assert set(run.resting.values()) == {0}
    for parameter, slope in zip(parameters, slopes, strict=True):
        assert slope.any()
        torch.testing.assert_close(parameter.grad, slope)


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_the_rate_stands_in_the_groups__also_for(snippet, kind):
    edited = snippet.edit(MAKE, MAKE.replace("SGD", kind))
    test_the_rate_stands_in_the_groups(edited)


RATE = '    group["lr"] = 0.0'


@edits(
    ("only in the first", f"groups:\n{RATE}", f"groups[:1]:\n{RATE}"),
    ("only in the last", f"groups:\n{RATE}", f"groups[1:]:\n{RATE}"),
    ("above 0", RATE, '    group["lr"] = 0.001'),
)
def test_the_rate_stands_in_the_groups__but_not(snippet, old, new, fails):
    """The parameters of a group that you leave out still move, and so do all
    of them at a rate above 0.
    """
    fails(test_the_rate_stands_in_the_groups, snippet.edit(old, new))


@pytest.mark.parametrize("kind", ["LambdaLR", "CyclicLR"])
def test_the_rate_stands_in_the_groups__ends_with_the_next_step_of(
    snippet, kind, fails
):
    """With the next step of a scheduler, such as `LambdaLR` or `CyclicLR`: it
    computes the rate anew.
    """
    options = {"LambdaLR": "lambda _: 0.5", "CyclicLR": "0.1, 0.2"}[kind]
    every = f"for group in optimizer.param_groups:\n{RATE}\n"
    edited = snippet.edit(
        every,
        f"schedule = optim.lr_scheduler.{kind}(optimizer, {options})\n"
        f"learn(model, optimizer)\n{every}schedule.step()\n",
    )
    fails(test_the_rate_stands_in_the_groups, edited)


EMPTY = "ValueError: optimizer got an empty parameter list"


def test_a_generator_is_used_up(snippet):
    run = snippet.after("refused")
    assert run.texts[0] == EMPTY
    assert isinstance(run.parameters, GeneratorType | filter)


PARAMETERS = "parameters = model.parameters()\n"


@edits(
    (
        "a filter",
        PARAMETERS,
        "parameters = filter(torch.is_tensor, model.parameters())\n",
    ),
    ("AdamW", "optim.SGD(given)", "optim.AdamW(given)"),
    ("an empty list", "(parameters, model[0]", "([], model[0]"),
)
def test_a_generator_is_used_up__also_with(snippet, old, new):
    test_a_generator_is_used_up(snippet.edit(old, new))


@edits(
    ("a list", PARAMETERS, "parameters = [*model.parameters()]\n"),
    ("its first use", "optim.SGD(parameters)", "optim.SGD"),
    ("another call", "(parameters, model[0]", "(model.parameters(), model[0]"),
    ("a full list", "(parameters, model[0]", "([model[0].bias], model[0]"),
)
def test_a_generator_is_used_up__but_not(snippet, old, new, fails):
    """A list, a generator not yet used or another call of `parameters()` still
    holds parameters, and raises no error.
    """
    fails(test_a_generator_is_used_up, snippet.edit(old, new))


def test_a_used_up_group_is_empty(snippet, kind=optim.SGD, added=False):
    run = snippet.after("refused")
    group = {"params": run.parameters}

    with no_error(), warnings.catch_warnings(action="error"):
        if added:
            optimizer = kind(nn.Linear(2, 1).parameters())
            optimizer.add_param_group(group)
        else:
            optimizer = kind([group])
    assert len(optimizer.param_groups) == 1 + added
    assert optimizer.param_groups[-1]["params"] == []


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW])
@pytest.mark.parametrize(
    "added", [False, True], ids=["a new optimizer", "an added group"]
)
def test_a_used_up_group_is_empty__also_with(snippet, kind, added):
    test_a_used_up_group_is_empty(snippet, kind, added)


def test_a_used_up_group_is_empty__but_not_a_list(snippet, fails):
    """A list is not used up, so the group holds all parameters."""
    edited = snippet.edit(PARAMETERS, "parameters = [*model.parameters()]\n")
    fails(test_a_used_up_group_is_empty, edited)


ALONE = "TypeError: params argument given to the optimizer should be"


def test_a_tensor_alone_is_refused(snippet):
    expected = f"{ALONE} an iterable of Tensors or dicts, but got"
    starts = [text[: len(expected)] for text in snippet.after("refused").texts]
    assert expected in starts


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_a_tensor_alone_is_refused__also_by(snippet, kind):
    edited = snippet.edit("optim.SGD(given)", f"optim.{kind}(given)")
    test_a_tensor_alone_is_refused(edited)


def test_a_tensor_alone_is_refused__also_a_weight(snippet):
    old = "(parameters, model[0].bias"
    test_a_tensor_alone_is_refused(
        snippet.edit(old, "(parameters, model[0].weight")
    )


def test_a_tensor_alone_is_refused__but_not_in_a_list(snippet, fails):
    """In a list, a single parameter raises no error."""
    edited = snippet.edit("s, model[0].bias", "s, [model[0].bias]")
    fails(test_a_tensor_alone_is_refused, edited)


LEAF = "ValueError: can't optimize a non-leaf Tensor"


def test_a_computed_tensor_is_refused(snippet):
    assert LEAF in snippet.after("refused").texts


@edits(
    ("a view", "model[0].weight * 2", "model[0].weight[0]"),
    ("another type", "model[0].weight * 2", "model[0].weight.double()"),
    ("AdamW", "optim.SGD(given)", "optim.AdamW(given)"),
    ("a group", "[result]", '[{"params": result}]'),
)
def test_a_computed_tensor_is_refused__also_with(snippet, old, new):
    test_a_computed_tensor_is_refused(snippet.edit(old, new))


RESULT = "result = model[0].weight * 2\n"


@edits(
    ("a parameter", RESULT, "result = model[0].weight\n"),
    ("a detached one", RESULT, "result = (model[0].weight * 2).detach()\n"),
)
def test_a_computed_tensor_is_refused__but_not(snippet, old, new, fails):
    """A parameter, or a detached result, is a leaf, and raises no error."""
    fails(test_a_computed_tensor_is_refused, snippet.edit(old, new))


def test_a_computed_tensor_is_refused__ends_after_retain_grad(snippet, fails):
    """After `retain_grad()`: it raises no error."""
    edited = snippet.edit(RESULT, f"{RESULT}result.retain_grad()\n")
    fails(test_a_computed_tensor_is_refused, edited)


def test_a_computed_tensor_is_refused__ends_with_differentiable(
    snippet, fails
):
    """With `differentiable=True`: it raises no error."""
    old = "optim.SGD(given)"
    edited = snippet.edit(old, "optim.SGD(given, differentiable=True)")
    fails(test_a_computed_tensor_is_refused, edited)


TWICE = "ValueError: some parameters appear in more than one parameter group"


def test_a_parameter_in_two_groups_is_refused(snippet):
    assert TWICE in snippet.after("refused").texts


@edits(
    ("by AdamW", "optim.SGD(given)", "optim.AdamW(given)"),
    (
        "a single weight",
        '{"params": model[0].parameters()}',
        '{"params": model[3].weight}',
    ),
)
def test_a_parameter_in_two_groups_is_refused__also_with(snippet, old, new):
    test_a_parameter_in_two_groups_is_refused(snippet.edit(old, new))


def test_a_parameter_in_two_groups_is_refused__but_not_a_copy(snippet, fails):
    """Here the first group holds parameters of another layer, so none is in
    two groups.
    """
    edited = snippet.edit(
        '{"params": model[0].parameters()}',
        '{"params": nn.Linear(3, 16).parameters()}',
    )
    fails(test_a_parameter_in_two_groups_is_refused, edited)


def test_adam_feels_the_turn(snippet):
    run = snippet.after("rotated")
    walks = run.rotated_walks
    ends = {name: run.rotated(way[-1]) for name, way in walks.items()}
    before = {
        name: run.valley(run.path(**run.walks[name])[-1]) for name in ends
    }

    for way in walks.values():
        assert len(way) == 41
        assert run.rotated(way[0]).item() == pytest.approx(248)
    assert ends["SGD"].item() == pytest.approx(before["SGD"].item(), rel=1e-3)
    assert ends["Adam"] > 100 * before["Adam"]


@edits(
    ("Adam for SGD", 'optim.SGD, "lr": 0.06', 'optim.Adam, "lr": 0.06'),
    ("SGD for Adam", 'optim.Adam, "lr": 0.3', 'optim.SGD, "lr": 0.03'),
    (
        "another valley",
        "[w[0] + w[1], w[0] - w[1]]) / 2**0.5",
        "[w[0], w[0]]) / 2**0.5",
    ),
)
def test_adam_feels_the_turn__but_not_with(snippet, old, new, fails):
    """Adam in place of SGD does not end as high as before; SGD in place of
    Adam does; the third edit makes another valley.
    """
    fails(test_adam_feels_the_turn, snippet.edit(old, new))


def test_three_ways_agree(snippet):
    run = snippet.after("ways")
    models = [model for _, model in run.ends.values()]

    assert len(models) == 3
    for model in models[1:]:
        pairs = zip(model.parameters(), models[0].parameters(), strict=True)
        for one, other in pairs:
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert list(run.ways.values()) == [
        {"foreach": False},
        {"foreach": True},
        {"fused": True},
    ]


@pytest.mark.parametrize("kind", ["Adam", "SGD"])
def test_three_ways_agree__also_of(snippet, kind):
    edited = snippet.edit("train(optim.AdamW, lr", f"train(optim.{kind}, lr")
    test_three_ways_agree(edited)


@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_three_ways_agree__ends_in_bfloat16(snippet, kind, fails):
    """With weights in `bfloat16`: each way rounds in other places."""
    edited = snippet.edit("train(optim.AdamW, lr", f"train(optim.{kind}, lr")
    source = edited.cell("train").source
    low = source.replace("new_model()", "new_model().bfloat16()")
    low = low.replace("model(weather)", "model(weather.bfloat16())")
    edited = edited.edit(source, low)
    fails(test_three_ways_agree, edited)


@edits(
    ("foreach", '{"foreach": True}', '{"foreach": True, "eps": 0.01}'),
    ("fused", '{"fused": True}', '{"fused": True, "eps": 0.01}'),
)
def test_three_ways_agree__but_not_with_another_eps_for(
    snippet, old, new, fails
):
    """With a larger `eps`, one of them leads to other parameters."""
    fails(test_three_ways_agree, snippet.edit(old, new))


DEFAULT_RATES = {"SGD": 0.001, "Adam": 0.001, "AdamW": 0.001}
DEFAULT_RATES |= {"Adagrad": 0.01, "RMSprop": 0.01, "Adadelta": 1, "LBFGS": 1}


def test_every_optimizer_has_a_default_rate(snippet):
    every = vars(snippet.after("groups").optim)
    rates = {
        name: kind([torch.zeros(2, 2)]).defaults.get("lr")
        for name, kind in every.items()
        if name[0].isupper() and name != "Optimizer"
    }

    assert {name: rates[name] for name in DEFAULT_RATES} == DEFAULT_RATES
    assert None not in rates.values()


@pytest.mark.parametrize(
    "change",
    [
        "SGD=optim.Adagrad",
        "Adam=optim.NAdam",
        "AdamW=optim.Adagrad",
        "Adagrad=optim.SGD",
        "RMSprop=optim.SGD",
        "Adadelta=optim.SGD",
        "LBFGS=optim.SGD",
        "Own=lambda p: optim.Optimizer(p, {})",
    ],
)
def test_every_optimizer_has_a_default_rate__but_not_one_for_all(
    snippet, change, fails
):
    """Each edit puts an optimizer with another default, or with none, in place
    of one of these or beside them.
    """
    line = "from torch import nn, optim\n"
    edited = snippet.edit(
        line,
        f"{line}from types import SimpleNamespace\n"
        f"optim = SimpleNamespace(**{{**vars(optim), **dict({change})}})\n",
    )
    fails(test_every_optimizer_has_a_default_rate, edited)
