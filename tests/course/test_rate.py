"""The claims of docs/course/rate.md."""

import math
from functools import cache
from itertools import pairwise

import pytest
import torch
from torch import nn

from extensions.programs.snippet import after

BASE = ("so-far", "losses-at")
SGD = torch.optim.SGD


def seeded(snippet, seed=1):
    """Return the program with other first weights and other batches."""
    return snippet.edit("torch.manual_seed(0)", f"torch.manual_seed({seed})")


@cache
def losses_at(snippet, *given, **options):
    """Train one network, and return its losses."""
    return after(snippet, *BASE).losses_at(*given, **options)


def draws_at_random(loader):
    """Check that a loader gives other batches of 32 in each epoch."""
    at_random = isinstance(loader.sampler, torch.utils.data.RandomSampler)
    return at_random and loader.batch_size == 32


# Do this


def test_only_one_rate_learns(snippet):
    run = after(snippet, *BASE, "tens")
    curves = run.adam

    starts = [losses[0] for losses in curves.values()]
    assert starts == pytest.approx([math.log(10)] * len(curves), abs=0.1)
    assert {len(losses) for losses in curves.values()} == {4}
    assert [rate for rate in curves if curves[rate][-1] < 0.5] == [0.01]
    assert [*curves] == [0.0001, 0.001, 0.01, 0.1]
    assert draws_at_random(run.loader)
    first, second = (run.new(rate)[0].state_dict() for rate in (0.1, 1.0))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("rate", [0.001, 0.1], ids="not at {}".format)
def test_only_one_rate_learns__also_from_seed_1(snippet, rate):
    assert losses_at(seeded(snippet), rate)[-1] > 0.5


def test_only_one_rate_learns__but_not_at_0_03(snippet, fails):
    """A rate of 0.03 learns too."""
    edited = snippet.edit("(0.0001, 0.001, 0.01, 0.1)", "(0.03,)")
    fails(test_only_one_rate_learns, edited)


def test_three_rates_are_good(snippet):
    near = after(snippet, *BASE, "threes").near

    ends = {rate: losses[-1] for rate, losses in near.items()}
    ends[0.01] = after(snippet, *BASE, "tens").adam[0.01][-1]
    assert {rate: end for rate, end in ends.items() if end >= 0.5} == {}
    assert {*ends} == {0.003, 0.01, 0.03}


@pytest.mark.parametrize("rate", [0.003, 0.03], ids="at {}".format)
def test_three_rates_are_good__also_from_seed_1(snippet, rate):
    assert losses_at(seeded(snippet), rate)[-1] < 0.5


def test_three_rates_are_good__but_not_ten_times_higher(snippet, fails):
    """At 0.3, the network learns nothing."""
    edited = snippet.edit("(0.003, 0.03)", "(0.3,)")
    fails(test_three_rates_are_good, edited)


# One step by hand


def test_a_step_multiplies_w(snippet):
    run = after(snippet, "so-far", "by-hand")

    assert run.walk(0.1, steps=1) == [5, 4]
    assert run.walk(1.1, steps=1) == [5, -6]
    for rate, factor in ((0.1, 0.8), (1.1, -1.2), (0.25, 0.5), (2.0, -3)):
        values = run.walk(rate)
        assert values == pytest.approx([5 * factor**n for n in range(5)])
    longer = [abs(w) for w in run.walk(1.1)]
    assert longer == sorted(longer)


def test_a_step_multiplies_w__also_where_nothing_changes_but_the_sign(snippet):
    walk = after(snippet, "so-far", "by-hand").walk
    assert walk(1.0) == [5, -5, 5, -5, 5]


def test_a_step_multiplies_w__but_not_for_another_loss(snippet, fails):
    """The gradient of 3w² is three times as large, and so is the step."""
    edited = snippet.edit("loss = w * w", "loss = 3 * w * w")
    fails(test_a_step_multiplies_w, edited)


def test_a_step_multiplies_w__but_not_with_adam(snippet, fails):
    """Adam's steps do not grow with the gradient."""
    edited = snippet.edit("torch.optim.SGD([w]", "torch.optim.Adam([w]")
    fails(test_a_step_multiplies_w, edited)


def test_growing_steps_end_in_nan(snippet, rate=1.1):
    walk = after(snippet, "so-far", "by-hand").walk
    values = torch.tensor(walk(rate, steps=600))

    largest = values[values.isfinite()].abs().max().item()
    assert largest > 1e38
    assert values[-1].isnan()


@pytest.mark.parametrize("rate", [1.5, 10.0], ids="at a rate of {}".format)
def test_growing_steps_end_in_nan__also(snippet, rate):
    values = torch.tensor(after(snippet, "so-far", "by-hand").walk(rate, 600))
    assert values[-1].isnan()


def test_growing_steps_end_in_nan__but_not_when_steps_shrink(snippet, fails):
    """At 0.1, each step is shorter than the last."""
    fails(test_growing_steps_end_in_nan, snippet, 0.1)


def test_growing_steps_end_in_nan__ends_just_above_1(snippet, fails):
    """At 1.01, w grows by 2 % a step, and 600 steps are too few."""
    fails(test_growing_steps_end_in_nan, snippet, 1.01)


# Four curves

RATES = '"too low": 0.01, "good": 0.3, "too high": 1.0, "far too high": 10.0'


def four(snippet):
    """Return the curves of SGD, and check that none was cut short."""
    curves = after(snippet, *BASE, "sgd").sgd
    assert {len(losses) for losses in curves.values()} == {6}
    return curves


def is_slow(losses):
    """Check that a loss has hardly begun to fall."""
    assert 0 < losses[0] - losses[-1] < 0.1


def jumps(losses):
    """Check that a loss falls, and rises on its way."""
    assert min(losses) < losses[0]
    assert max(b - a for a, b in pairwise(losses)) > 0.05


def test_a_low_rate_is_slow(snippet):
    is_slow(four(snippet)["too low"])


def test_a_low_rate_is_slow__but_not_at_a_rate_of_0_3(snippet, fails):
    """At 0.3, it takes much more off the loss."""
    edited = snippet.edit(RATES, '"too low": 0.3')
    fails(test_a_low_rate_is_slow, edited)


def test_sgd_learns_at_a_higher_rate(snippet):
    end = four(snippet)["good"][-1]
    assert end < 0.5


def test_sgd_learns_at_a_higher_rate__also_from_seed_1(snippet):
    assert losses_at(seeded(snippet), 0.3, SGD, epochs=5)[-1] < 0.5


def test_sgd_learns_at_a_higher_rate__but_not_at_0_01(snippet, fails):
    """At 0.01, the loss stays above 0.5."""
    edited = snippet.edit(RATES, '"good": 0.01')
    fails(test_sgd_learns_at_a_higher_rate, edited)


def test_a_high_rate_jumps(snippet):
    curves = four(snippet)
    jumps(curves["too high"])
    assert curves["too high"][-1] > curves["good"][-1]


def test_a_high_rate_jumps__also_from_seed_1(snippet):
    good, high = (
        losses_at(seeded(snippet), rate, SGD, epochs=5) for rate in (0.3, 1.0)
    )
    jumps(high)
    assert high[-1] > good[-1]


def test_a_high_rate_jumps__ends_with_other_pictures(snippet, fails):
    """With other training pictures, the loss may fall in each epoch."""
    edited = snippet.edit(
        "torch.Generator().manual_seed(0)", "torch.Generator().manual_seed(4)"
    ).edit(RATES, '"good": 0.3, "too high": 1.0')
    fails(test_a_high_rate_jumps, seeded(edited))


def test_a_high_rate_jumps__but_not_at_0_1(snippet, fails):
    """At 0.1, the loss falls in each epoch."""
    edited = snippet.edit(RATES, '"too high": 0.1')
    fails(test_a_high_rate_jumps, edited)


def test_a_huge_rate_is_stuck(snippet):
    first, *later = four(snippet)["far too high"]
    assert min(later) > first


def test_a_huge_rate_is_stuck__also_from_seed_1(snippet):
    first, *later = losses_at(seeded(snippet), 10.0, SGD, epochs=2)
    assert min(later) > first


def test_a_huge_rate_is_stuck__but_not_at_0_3(snippet, fails):
    """At 0.3, the loss falls."""
    edited = snippet.edit(RATES, '"far too high": 0.3')
    fails(test_a_huge_rate_is_stuck, edited)


# One batch


def test_one_batch_is_learned_by_heart(snippet):
    run = after(snippet, *BASE, "by-heart")
    batch = run.images[run.train][:32], run.labels[run.train][:32]

    assert run.before > 2
    assert run.after < 0.01
    assert run.evaluate(run.model, *batch) == (run.after, 1)


def test_one_batch_is_learned_by_heart__also_from_seed_1(snippet):
    """With 32 other pictures, counted on their way through the network."""
    run = after(snippet, *BASE, "by-heart")
    seen, modes = [], []

    class Counted(run.Net):
        def forward(self, x):
            seen.append(len(x))
            modes.append((self.training, torch.is_grad_enabled()))
            return super().forward(x)

    torch.manual_seed(1)
    model = Counted()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    images, labels = run.images[run.valid], run.labels[run.valid]
    _, end = run.by_heart(model, optimizer, images, labels)

    assert end < 0.01
    assert seen == [32] * 102  # before, 100 steps and after
    apart, trained = (False, False), (True, True)
    assert modes == [apart, *[trained] * 100, apart]
    found = run.evaluate(model, images[:32], labels[:32])
    assert [type(each) for each in found] == [float, float]


def test_one_batch_is_learned_by_heart__but_not_in_ten_steps(snippet, fails):
    """After 10 steps, the loss is still above 0.01."""
    edited = snippet.edit("range(100)", "range(10)")
    fails(test_one_batch_is_learned_by_heart, edited)


def test_an_old_optimizer_changes_nothing(snippet):
    run = after(snippet, *BASE, "by-heart", "other-model")

    assert run.after == run.before
    held = {
        id(p) for group in run.optimizer.param_groups for p in group["params"]
    }
    assert {id(p) for p in run.model.parameters()}.isdisjoint(held)


@pytest.mark.parametrize("rate", [0.3, 10.0], ids="at a rate of {}".format)
def test_an_old_optimizer_changes_nothing__also_with_sgd(snippet, rate):
    run = after(snippet, *BASE, "by-heart")
    _, optimizer = run.new(rate, SGD)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    before, end = run.by_heart(model, optimizer, run.images, run.labels)
    assert end == before


def test_an_old_optimizer_changes_nothing__ends_with_batch_norm(
    snippet, fails
):
    """With `BatchNorm`: it collects its means without an optimizer, so the
    loss moves.
    """
    first = "self.conv1 = nn.Conv2d(1, 16, 3, padding=1)"
    edited = snippet.edit(
        first,
        first.replace("= ", "= nn.Sequential(", 1) + ", nn.BatchNorm2d(16))",
    )
    fails(test_an_old_optimizer_changes_nothing, edited)


def test_an_old_optimizer_changes_nothing__but_not_with_its_own(
    snippet, fails
):
    """An optimizer made after the new model trains it."""
    old = "model = Net()  # the cell that makes the model was run again\n"
    own = "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n"
    fails(test_an_old_optimizer_changes_nothing, snippet.edit(old, old + own))


# Try it


def test_only_one_rate_learns__also_in_the_exercise(snippet):
    run = after(snippet, "choose", "choose-checked")

    assert run.chosen == 0.1
    assert run.choose(after(snippet, *BASE, "tens").adam) == 0.01
    assert run.choose({1.0: [math.inf], 0.1: [9.0], 10.0: [9.5]}) == 0.1
