"""The claims of docs/training/schedulers.md."""

import copy
import io
import math
import warnings
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn, optim
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from torch.optim.optimizer import register_optimizer_step_pre_hook

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after
from tests.helpers.worlds import each

approx = pytest.approx
START = ["digits", "schedule"]
CURVES = [*START, "by-hand", "compare", "factors"]
INF = float("inf")


def one_weight(lr=1.0, kind=optim.SGD, **options):
    """Return an optimizer of one weight."""
    return kind([nn.Parameter(torch.zeros(1))], lr=lr, **options)


def two_groups(kind=optim.SGD, **options):
    """Return an optimizer with two groups, whose rates differ."""
    first = {"params": [nn.Parameter(torch.zeros(1))], "lr": 0.3}
    second = {"params": [nn.Parameter(torch.zeros(1))]}
    return kind([first, second], lr=0.02, **options)


def rates_of(optimizer):
    """Return the rate of each group."""
    return [group["lr"] for group in optimizer.param_groups]


def taken(make, steps, optimizer=None):
    """Return the rate of each step of the first group."""
    optimizer = optimizer or one_weight()
    schedule, rates = make(optimizer), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


@contextmanager
def rates_of_all_steps():
    """Collect the rate of each step that any optimizer takes."""
    rates = []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    try:
        yield rates
    finally:
        hook.remove()


@contextmanager
def recorded():
    """Record each warning."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield seen


def differences(numbers):
    """Return how much each number is above the one before."""
    return [later - sooner for sooner, later in pairwise(numbers)]


def test_the_rate_rises_then_falls(snippet, warm=None):
    if warm is not None:
        snippet = snippet.edit("warm = total // 10", f"warm = {warm}")
    with rates_of_all_steps() as rates, no_error():
        run = snippet.only(*START, "train").after("train")
    total = run.epochs * len(run.loader)
    warm = total // 10 if warm is None else warm
    top = run.optimizer.param_groups[0]["initial_lr"]

    assert len(rates) == total
    assert run.scheduler.get_last_lr() == [0]
    whole = [0.0, *rates, 0.0]
    assert differences(whole[: warm + 2]) == approx(
        [top / (warm + 1)] * (warm + 1)
    )
    angles = torch.linspace(0, torch.pi, total - warm + 1, dtype=torch.float64)
    wave = top * (1 + angles.cos()) / 2
    assert whole[warm + 1 :] == approx(wave.tolist(), abs=1e-12)
    for _ in range(2 * total):
        run.optimizer.step()
        run.scheduler.step()
        assert rates_of(run.optimizer) == [0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("new_model(), 10", "new_model(), 1"),
        ("batch_size=50", "batch_size=400"),
        ("batch_size=50", "batch_size=1500"),
        (
            "AdamW(model.parameters(), lr=0.1)",
            "SGD(model.parameters(), lr=0.1)",
        ),
    ],
    ids=["one epoch", "a smaller last batch", "ten steps in all", "SGD"],
)
def test_the_rate_rises_then_falls__also_with(snippet, old, new):
    test_the_rate_rises_then_falls(snippet.edit(old, new))


@pytest.mark.parametrize("warm", [0, 1, 299])
def test_the_rate_rises_then_falls__also_with_a_warm_up_of(snippet, warm):
    test_the_rate_rises_then_falls(snippet, warm)


def test_the_rate_rises_then_falls__also_with_accumulation(snippet):
    edited = snippet.edit(
        "epochs * len(loader)", "epochs * math.ceil(len(loader) / 4)"
    )
    run = edited.only(*START).after("schedule")
    assert run.total == 10 * 8  # seven steps of four batches, and one of two
    rates = taken(lambda o: LambdaLR(o, run.factor), 90)
    assert rates[80:] == [0] * 10
    assert 0 < rates[79] < 0.01


def test_the_rate_rises_then_falls__ends_if_the_warm_up_is_as_long(
    snippet, fails
):
    """With `warm = total` nothing is left for the fall: the last call divides
    by zero.
    """
    fails(test_the_rate_rises_then_falls, snippet, 300)


@edits(
    ("epochs counted", "epochs * len(loader)", "epochs"),
    ("a straight line", "(1 + math.cos(math.pi * done)) / 2", "1 - done"),
    (
        "no end",
        "min((step - warm) / (total - warm), 1)",
        "(step - warm) / 270",
    ),
    (
        "one call an epoch",
        "        scheduler.step()  #",
        "    scheduler.step()  #",
    ),
)
def test_the_rate_rises_then_falls__but_not_with(snippet, old, new, fails):
    """If `total` counts epochs, the rate is 0 after ten steps; with one call
    an epoch it never falls; without `min`, it rises again.
    """
    fails(test_the_rate_rises_then_falls, snippet.edit(old, new))


def test_a_warm_up_stops_the_jump(snippet, rate=0.1, seeds=(0,)):
    run = after(snippet, *START, "train-with")
    assert len(run.batches) == 30
    for seed in seeds:
        found = {
            name: run.train_with(make, rate, seed=seed)[0]
            for name, make in run.kinds.items()
        }
        *without, warm = found.values()
        assert {len(losses) for losses in found.values()} == {300}
        assert max(warm) < 1.05 * warm[0]
        for cold in without:
            assert cold[0] == warm[0]
            assert max(cold[:30]) > 1.15 * cold[0]
            assert run.last(cold) > 2 * run.last(warm)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_warm_up_stops_the_jump__also_from_seed(snippet, seed):
    test_a_warm_up_stops_the_jump(snippet, seeds=[seed])


def test_a_warm_up_stops_the_jump__also_none_at_a_low_rate(snippet):
    run = after(snippet, *START, "train-with")
    ends = []
    for make in run.kinds.values():
        losses, rates = run.train_with(make, 0.01)
        assert max(losses) < 1.05 * losses[0]
        assert max(rates) <= 0.01
        ends.append(run.last(losses))
    assert ends[0] < 1.2 * min(ends)


def test_a_warm_up_stops_the_jump__ends_at_a_low_rate(snippet, fails):
    """At 0.01, nothing jumps without a warm-up."""
    fails(test_a_warm_up_stops_the_jump, snippet, 0.01)


def test_a_warm_up_stops_the_jump__ends_with_sgd(snippet, fails):
    """With plain SGD at 0.1, nothing jumps: its steps are shorter."""
    old = "torch.optim.AdamW(model.parameters(), lr=rate)"
    edited = snippet.edit(old, old.replace("AdamW", "SGD"))
    fails(test_a_warm_up_stops_the_jump, edited)


def test_a_warm_up_stops_the_jump__ends_at_a_very_high_rate(snippet, fails):
    """At 1, the loss jumps in spite of the warm-up."""
    fails(test_a_warm_up_stops_the_jump, snippet, 1.0)


@edits(
    (
        "no warm-up either",
        "LambdaLR(o, factor),\n}",
        "CosineAnnealingLR(o, T_max=total),\n}",
    ),
    ("a warm-up of one step", "warm = total // 10", "warm = 1"),
    (
        "always a warm-up",
        "LambdaLR(o, lambda step: 1.0)",
        "LambdaLR(o, factor)",
    ),
)
def test_a_warm_up_stops_the_jump__but_not_with(snippet, old, new, fails):
    """With one step of warm-up the loss jumps all the same; with thirty, it
    never does.
    """
    fails(test_a_warm_up_stops_the_jump, snippet.edit(old, new), 0.1, [0])


def both(run, factor, optimizer_of, steps, change=None, real=LambdaLR):
    """Compare two trainings: rates and weights, step by step."""
    seen = []
    for make in (run.Schedule, real):
        optimizer = optimizer_of()
        with recorded() as told, no_error():
            schedule, rates = make(optimizer, factor), []
            for step in range(steps):
                if change and (changed := change(step, optimizer, schedule)):
                    optimizer, schedule = changed
                rates.append(rates_of(optimizer))
                for group in optimizer.param_groups:
                    for weight in group["params"]:
                        weight.grad = torch.full_like(weight, math.sin(step))
                optimizer.step()
                schedule.step()
        told = [str(warning.message) for warning in told]
        weights = [g["params"][0].tolist() for g in optimizer.param_groups]
        starts = [g["initial_lr"] for g in optimizer.param_groups]
        bases = schedule.base_lrs
        seen.append((rates, rates_of(optimizer), weights, starts, bases, told))
    assert seen[0] == seen[1]


def test_these_lines_are_lambda_lr(
    snippet, factor=None, optimizer_of=two_groups, change=None
):
    run = after(snippet, *CURVES)
    assert run.apart(lambda o: LambdaLR(o, run.factor), run.factor) == 0

    factor = factor or run.factor
    both(run, factor, optimizer_of, 400, change)


FACTORS = {
    "a constant": lambda n: 1.0,
    "a whole number": lambda n: 3,
    "a growing share": lambda n: n / 7,
    "the inverse root": lambda n: (n + 1) ** -0.5,
    "negative numbers": lambda n: -(0.9**n),
    "waves": math.sin,
}
OPTIMIZERS = {
    "AdamW in two groups": lambda: two_groups(optim.AdamW),
    "Adam": lambda: one_weight(0.1, optim.Adam),
    "SGD with momentum": lambda: one_weight(0.01, momentum=0.9),
    "RMSprop": lambda: one_weight(0.01, optim.RMSprop),
    "a rate of 0": lambda: one_weight(0.0),
}


@each("factor", FACTORS)
def test_these_lines_are_lambda_lr__also_for(snippet, factor):
    test_these_lines_are_lambda_lr(snippet, factor)


@each("optimizer", OPTIMIZERS)
def test_these_lines_are_lambda_lr__also_with(snippet, optimizer):
    test_these_lines_are_lambda_lr(snippet, None, optimizer)


def test_these_lines_are_lambda_lr__also_if_a_rate_is_set_by_hand(snippet):
    def change(step, optimizer, schedule):
        if step in (3, 50):
            optimizer.param_groups[0]["lr"] = 7.0
        if step == 80:
            schedule.base_lrs = [2 * rate for rate in schedule.base_lrs]

    test_these_lines_are_lambda_lr(snippet, change=change)


def test_these_lines_are_lambda_lr__also_for_a_second_one(snippet):
    def change(step, optimizer, schedule):
        if step == 40:  # it starts again from the first rate
            return optimizer, type(schedule)(optimizer, lambda n: 0.9**n)
        return None

    test_these_lines_are_lambda_lr(snippet, change=change)


def again(optimizer):
    """Load the optimizer's own state, which gives it other groups."""
    optimizer.load_state_dict(optimizer.state_dict())


def test_these_lines_are_lambda_lr__also_after_loading_the_optimizer(snippet):
    saved = {}

    def change(step, optimizer, schedule):
        if step == 20:
            saved.update(copy.deepcopy(optimizer.state_dict()))
        if step == 50:
            optimizer.load_state_dict(saved)

    test_these_lines_are_lambda_lr(snippet, change=change)


def test_these_lines_are_lambda_lr__ends_with_get_last_lr(snippet, fails):
    """Ours has no `get_last_lr()`."""

    def change(step, optimizer, schedule):
        if step == 3:
            schedule.get_last_lr()

    fails(test_these_lines_are_lambda_lr, snippet, None, two_groups, change)


def test_these_lines_are_lambda_lr__ends_with_a_state_dict(snippet, fails):
    """Ours has no `state_dict()`."""

    def change(step, optimizer, schedule):
        if step == 3:
            schedule.load_state_dict(schedule.state_dict())

    fails(test_these_lines_are_lambda_lr, snippet, None, two_groups, change)


def test_these_lines_are_lambda_lr__ends_with_a_factor_for_each_group(
    snippet, fails
):
    """`LambdaLR` takes a list of factors, one for each group."""
    two = [lambda n: 1.0, lambda n: 0.9**n]
    fails(test_these_lines_are_lambda_lr, snippet, two)


def test_these_lines_are_lambda_lr__ends_for_a_tensor(snippet, fails):
    """With a tensor as the rate, PyTorch's writes into that tensor, and ours
    makes a new one.
    """

    def optimizer_of():
        return one_weight(torch.tensor(0.1))

    fails(test_these_lines_are_lambda_lr, snippet, None, optimizer_of)


def test_these_lines_are_lambda_lr__ends_with_a_warning(snippet, fails):
    """Ours doesn't warn you if it steps before the optimizer."""

    def change(step, optimizer, schedule):
        if step == 0:
            schedule.step()

    fails(test_these_lines_are_lambda_lr, snippet, None, two_groups, change)


@edits(
    (
        "1",
        'group.setdefault("initial_lr", group["lr"])',
        'group["initial_lr"] = group["lr"]',
    ),
    ("2", "        self.step()  # 2\n", ""),
    ("3", "self.calls += 1", "self.calls += 2"),
    ("4", "base_lr * self", 'group["lr"] * self'),
    ("4 for the first group alone", "# 4", "\n            break"),
    (
        "4 for the groups of the start",
        "groups = self.optimizer.param_groups",
        'groups = vars(self).setdefault("g", self.optimizer.param_groups)',
    ),
)
def test_these_lines_are_lambda_lr__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each of the numbered lines counts: line 1 keeps the first rate for a
    second scheduler, for example.
    """

    def change(step, optimizer, schedule):
        if step == 20:
            again(optimizer)
        if step == 40:
            return optimizer, type(schedule)(optimizer, lambda n: 0.9**n)
        return None

    edited = snippet.edit(old, new)
    fails(test_these_lines_are_lambda_lr, edited, None, two_groups, change)


def closed(name, **options):
    """Return a scheduler of the five, and its factor, for some options."""
    given = options
    if name == "StepLR":
        size, gamma = options["step_size"], options["gamma"]
        return lambda n: gamma ** (n // size)
    if name == "MultiStepLR":
        at, gamma = options["milestones"], options["gamma"]
        return lambda n: gamma ** sum(n >= m for m in at)
    if name == "ExponentialLR":
        return lambda n: given["gamma"] ** n
    if name == "LinearLR":
        start, ends = options["start_factor"], options["total_iters"]
        return lambda n: start + (1 - start) * min(n / ends, 1)
    return lambda n: (1 + math.cos(math.pi * n / given["T_max"])) / 2


def test_five_schedulers_are_factors(
    snippet, kinds=None, options=None, optimizer_of=two_groups, change=None
):
    run = after(snippet, *CURVES)
    assert list(run.makes) == list(run.factors) == list(KINDS)
    for name, make in run.makes.items():
        assert run.apart(make, run.factors[name]) < 1e-9
        some = kinds or KINDS
        if name not in some:
            continue
        factor = run.factors[name]
        if options:
            factor = closed(name, **options)
            make = partial(some[name], **options)
        found = []
        for build in (lambda o, f=factor: run.Schedule(o, f), make):
            optimizer = optimizer_of()
            with no_error():
                schedule, rates = build(optimizer), []
                for step in range(100):
                    if change:
                        change(step, optimizer)
                    rates += rates_of(optimizer)
                    optimizer.step()
                    schedule.step()
            found.append(rates)
        assert found[0] == approx(found[1], rel=1e-9, abs=1e-12)


KINDS = {
    "StepLR": StepLR,
    "MultiStepLR": MultiStepLR,
    "ExponentialLR": ExponentialLR,
    "LinearLR": LinearLR,
    "CosineAnnealingLR": CosineAnnealingLR,
}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("StepLR", {"step_size": 1, "gamma": 0.7}),
        ("StepLR", {"step_size": 33, "gamma": 1.5}),
        ("MultiStepLR", {"milestones": [1, 2, 9], "gamma": 0.1}),
        ("ExponentialLR", {"gamma": 0.99}),
        ("LinearLR", {"start_factor": 0.01, "total_iters": 25}),
        ("LinearLR", {"start_factor": 1.0, "total_iters": 1}),
        ("CosineAnnealingLR", {"T_max": 7}),
        ("CosineAnnealingLR", {"T_max": 100}),
    ],
    ids=str,
)
def test_five_schedulers_are_factors__also_for(snippet, name, options):
    kinds = {name: KINDS[name]}
    test_five_schedulers_are_factors(snippet, kinds, options)


def test_five_schedulers_are_factors__also_with_adamw(snippet):
    def optimizer_of():
        return two_groups(optim.AdamW)

    test_five_schedulers_are_factors(snippet, optimizer_of=optimizer_of)


@pytest.mark.parametrize("name", KINDS)
def test_five_schedulers_are_factors__ends_with_a_rate_set_by_hand(
    snippet, name, fails
):
    """They multiply the rate that they find, so they keep one that you set by
    hand.
    """

    def change(step, optimizer):
        if step == 3:
            optimizer.param_groups[0]["lr"] /= 2

    kinds = {name: KINDS[name]}
    options = (kinds, None, two_groups, change)
    fails(test_five_schedulers_are_factors, snippet, *options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("CosineAnnealingLR", {"T_max": 30, "eta_min": 0.001}),
        (
            "LinearLR",
            {"start_factor": 0.1, "total_iters": 9, "end_factor": 0.9},
        ),
    ],
    ids=["eta_min", "end_factor"],
)
def test_five_schedulers_are_factors__ends_with(snippet, name, options, fails):
    """With `eta_min` or `end_factor` above or below what the formula has, the
    curve is a different one.
    """
    kinds = {name: KINDS[name]}
    fails(test_five_schedulers_are_factors, snippet, kinds, options)


@edits(
    ("0.5 ** (n // 10)", "0.5 ** (n / 10)"),
    ("n >= m for m", "n > m for m"),
    ("0.9**n", "0.9 ** (n + 1)"),
    ("0.9 * min(n / 10, 1)", "0.9 * n / 10"),
    ("math.pi * n / 30)) / 2", "math.pi * n / 30))"),
    ("T_max=30)", "T_max=31)"),
)
def test_five_schedulers_are_factors__but_not(snippet, old, new, fails):
    """Each formula counts from the call that the constructor makes, n = 0."""
    fails(test_five_schedulers_are_factors, snippet.edit(old, new))


COUNTING = {
    "LambdaLR": lambda o: LambdaLR(o, lambda n: 0.9**n),
    "OneCycleLR": lambda o: OneCycleLR(o, 1.0, 90),
    "warm restarts": lambda o: CosineAnnealingWarmRestarts(o, 7),
    "SequentialLR": lambda o: SequentialLR(
        o, [LinearLR(o, 0.1, total_iters=9), ExponentialLR(o, 0.9)], [9]
    ),
    "ChainedScheduler": lambda o: ChainedScheduler(
        [LinearLR(o, 0.1, total_iters=9), ExponentialLR(o, 0.9)]
    ),
}


def test_a_step_is_a_call(snippet, make=None):
    run = after(snippet, *CURVES)
    makes = {"x": make} if make else run.makes
    makes = {**makes, "ours": lambda o: run.Schedule(o, run.factor)}
    for make in makes.values():
        once = taken(make, 29)
        for every in (2, 3):
            optimizer = one_weight(momentum=0.9)
            schedule, rates = make(optimizer), []
            for step in range(1, 29 * every + 1):
                rates += rates_of(optimizer)
                optimizer.step()
                if step % every == 0:
                    schedule.step()
            assert rates[::every] == once
            assert rates[every - 1 :: every] == once


@each("make", COUNTING)
def test_a_step_is_a_call__also_for(snippet, make):
    def with_momentum(optimizer):
        optimizer.param_groups[0]["momentum"] = 0.9
        optimizer.defaults["momentum"] = 0.9
        return make(optimizer)

    test_a_step_is_a_call(snippet, with_momentum)


def test_a_step_is_a_call__also_in_a_training(snippet):
    run = after(snippet, *START, "train-with")
    plan = taken(lambda o: CosineAnnealingLR(o, 10), 300, one_weight(0.1))

    def make(optimizer):
        return CosineAnnealingLR(optimizer, 10)

    _, rates = run.train_with(make, 0.1, per_epoch=True)
    assert rates == [plan[step // 30] for step in range(300)]
    _, rates = run.train_with(make, 0.1)
    assert rates == plan
    assert rates[10] < 1e-9 < 0.09 < rates[299]

    def hardly(optimizer):
        return CosineAnnealingLR(optimizer, 300)

    _, rates = run.train_with(hardly, 0.1, per_epoch=True)
    assert min(rates) > 0.099
    losses, rates = run.train_with(lambda o: StepLR(o, 3), 0.1)
    assert rates[10] == approx(0.1 / 1000)
    assert run.last(losses) == approx(math.log(10), abs=0.1)


def test_a_step_is_a_call__also_as_last_epoch(snippet):
    edited = snippet.edit("new_model(), 10", "new_model(), 1")
    run = edited.only(*START, "train").after("train")
    assert run.scheduler.last_epoch == len(run.loader) == 30

    run = after(snippet, *CURVES)
    makes = {**run.makes, **COUNTING}
    del makes["ChainedScheduler"]
    for make in makes.values():
        optimizer = one_weight()
        schedule = make(optimizer)
        for call in range(1, 30):
            for _ in range(call % 3):
                optimizer.step()
            schedule.step()
            assert schedule.last_epoch == call


def test_a_step_is_a_call__ends_with_a_number(snippet, fails):
    """`CosineAnnealingWarmRestarts` may be given a number, as in
    `step(epoch + batch / batches)`: it takes that, and counts no call.
    """

    def make(optimizer):
        schedule, steps = CosineAnnealingWarmRestarts(optimizer, 7), []
        optimizer.register_step_post_hook(lambda *_: steps.append(1))
        call = schedule.step
        schedule.step = lambda: call(len(steps) / 10)
        return schedule

    fails(test_a_step_is_a_call, snippet, make)


def test_a_step_is_a_call__but_not_if_the_optimizer_counts(snippet, fails):
    """A subclass that steps by a hook of the optimizer counts optimizer
    steps.
    """
    edited = snippet.edit(
        "lambda o: ExponentialLR(o, gamma=0.9)", "Counting"
    ).edit(
        "# %% factors\n",
        "# %% factors\nclass Counting(ExponentialLR):\n"
        "    def __init__(self, optimizer):\n"
        "        super().__init__(optimizer, 0.9)\n"
        "        optimizer.register_step_post_hook(self.count)\n\n"
        "    def count(self, *_):\n        super().step()\n\n"
        "    def step(self):\n"
        "        if self.last_epoch < 0:\n            super().step()\n\n\n",
    )
    fails(test_a_step_is_a_call, edited)


def follow(metrics, lr=1.0, **options):
    """Return the rate after each call with a metric, and the bad calls."""
    plateau = ReduceLROnPlateau(one_weight(lr), **options)
    rates, bad = [], []
    for metric in metrics:
        plateau.step(metric)
        rates += plateau.get_last_lr()
        bad.append(plateau.num_bad_epochs)
    return rates, bad


def test_patience_and_one_more(snippet, patience=2, factor=0.5, calls=20):
    run = snippet.only(*CURVES, "plateau").after("plateau")
    shown = []
    for _ in range(6):
        run.plateau.step(0.9)
        shown += run.plateau.get_last_lr()
    assert shown == [0.5, 0.5, 0.25, 0.25, 0.25, 0.125]

    metrics = [1.0] * calls
    rates, _ = follow(metrics, patience=patience, factor=factor)
    lowered = [call // (patience + 1) for call in range(calls)]
    assert rates == approx([factor**n for n in lowered], rel=1e-6, abs=0)
    in_a_row = [1.0, *[1.0] * patience, 0.5, *[0.5] * patience, 0.3]
    rates, _ = follow(in_a_row, patience=patience, factor=factor)
    assert rates == [1.0] * len(in_a_row)


@pytest.mark.parametrize(
    ("patience", "factor"),
    [(0, 0.5), (5, 0.9), (10, 0.1)],
    ids=["a half at once", "nine tenths at the sixth", "the default"],
)
def test_patience_and_one_more__also_with(snippet, patience, factor):
    test_patience_and_one_more(snippet, patience, factor)


def test_patience_and_one_more__also_for_nan(snippet):
    rates, _ = follow([1.0, *[float("nan")] * 6], factor=0.5, patience=2)
    assert rates == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25]


def test_patience_and_one_more__ends_where_the_rate_would_fall_by_1e_8(
    snippet, fails
):
    """A rate that would fall by `eps`, 1e-8, or less stays."""
    fails(test_patience_and_one_more, snippet, 2, 0.1, 60)


PLATEAU = "ReduceLROnPlateau(new_optimizer(), factor=0.5, patience=2)"


@edits(
    ("another factor", PLATEAU, PLATEAU.replace("0.5", "0.6")),
    ("another patience", PLATEAU, PLATEAU.replace("=2", "=3")),
    ("a cooldown", PLATEAU, PLATEAU.replace("=2", "=2, cooldown=1")),
    ("a floor", PLATEAU, PLATEAU.replace("=2", "=2, min_lr=0.4")),
)
def test_patience_and_one_more__but_not_with(snippet, old, new, fails):
    """Another `factor` or `patience` gives other rates; with `cooldown`, it
    waits longer, and `min_lr` is a floor.
    """
    fails(test_patience_and_one_more, snippet.edit(old, new))


def test_an_equal_loss_is_bad(snippet, best=0.8):
    run = snippet.only(*CURVES, "plateau").after("plateau")
    assert run.plateau.num_bad_epochs == 0
    shown = 0.7
    for share, bad in ((1.0, 1), (0.99988, 0), (0.99995, 1), (1.0, 2)):
        run.plateau.step(shown * share)
        assert run.plateau.num_bad_epochs == bad
        shown *= 1 if bad else share
    shares = {1.0: 1, 0.99995: 1, 0.9998: 0, 2.0: 1}
    for share, bad in shares.items():
        assert follow([best, best * share])[1] == [0, bad]
        beside = [best * 3, best, best * 2, best * share]
        assert follow(beside)[1] == [0, 0, 1, 2 * bad]


@pytest.mark.parametrize("best", [1e-6, 3.0, 1e5])
def test_an_equal_loss_is_bad__also_after_a_best_loss_of(snippet, best):
    test_an_equal_loss_is_bad(snippet, best)


@pytest.mark.parametrize("loss", [-1.0, -300.0])
def test_an_equal_loss_is_bad__also_below_zero_by_an_absolute_threshold(loss):
    assert follow([loss] * 50)[0] == [1.0] * 50
    assert follow([loss] * 50, threshold_mode="abs")[0][-1] < 0.01


def test_an_equal_loss_is_bad__ends_below_zero(snippet, fails):
    """For a loss below 0, an equal one is good."""
    fails(test_an_equal_loss_is_bad, snippet, -1.0)


@edits(
    ("a threshold below zero", PLATEAU, PLATEAU[:-1] + ", threshold=-0.1)"),
    ("a larger threshold", PLATEAU, PLATEAU[:-1] + ", threshold=0.01)"),
)
def test_an_equal_loss_is_bad__but_not_with(snippet, old, new, fails):
    """With `threshold=-0.1` an equal loss is good; with 0.01, one that is
    0.012 percent lower is bad as well.
    """
    fails(test_an_equal_loss_is_bad, snippet.edit(old, new))


def test_accuracy_needs_mode_max(snippet, patience=1, grown=(0.5, 0.6, 0.61)):
    run = snippet.only(*CURVES, "accuracy").after("accuracy")
    assert run.accuracy == 0.9
    again = copy.deepcopy(run.by_accuracy)
    assert again.get_last_lr() == [1.0]
    again.step(0.95)
    assert again.num_bad_epochs == 0

    bad = follow(grown, patience=9)[1]
    assert bad == [*range(len(grown))]
    falls = follow([*grown, *[9.0] * patience], patience=patience)[0]
    assert falls[-1] < 1
    good = follow(grown, patience=patience, mode="max")
    assert good == ([1.0] * len(grown), [0] * len(grown))


@pytest.mark.parametrize("patience", [0, 2])
def test_accuracy_needs_mode_max__also_with_a_patience_of(snippet, patience):
    test_accuracy_needs_mode_max(snippet, patience)


def test_accuracy_needs_mode_max__also_in_percent(snippet):
    test_accuracy_needs_mode_max(snippet, 1, (50, 60, 61, 99.5, 100))


def test_accuracy_needs_mode_max__ends_if_it_grows_too_little(snippet, fails):
    """With `mode="max"`, growing by less than 0.01 percent is bad, too."""
    grown = (0.5, 0.50001, 0.50002)
    fails(test_accuracy_needs_mode_max, snippet, 1, grown)


@edits(
    ("twice min", '("min", "max")', '("min", "min")'),
    ("shrinking", "(0.5, 0.6, 0.7, 0.8, 0.9)", "(1.3, 1.2, 1.1, 1.0, 0.9)"),
)
def test_accuracy_needs_mode_max__but_not_with(snippet, old, new, fails):
    """With `mode="min"` a growing accuracy is bad, and with `mode="max"` a
    shrinking one.
    """
    fails(test_accuracy_needs_mode_max, snippet.edit(old, new))


def test_cosine_rises_again(snippet, calls=30, least=0.0):
    run = after(snippet, *CURVES)
    makes = [run.makes["CosineAnnealingLR"]]
    if (calls, least) != (30, 0.0):
        makes = [lambda o: CosineAnnealingLR(o, calls, least)]
    rates = taken(makes[0], 2 * calls + 1)

    assert rates[calls] == approx(least, abs=1e-12)
    assert max(differences(rates[: calls + 1])) < 0
    assert min(differences(rates[calls:])) > 0
    assert (rates[0], rates[-1]) == approx((1, 1))


@pytest.mark.parametrize(
    ("calls", "least"),
    [(7, 0.0), (20, 0.1), (1000, 1e-5)],
    ids=["7 calls", "20 calls down to a tenth", "1000 calls"],
)
def test_cosine_rises_again__also_with(snippet, calls, least):
    test_cosine_rises_again(snippet, calls, least)


def test_cosine_rises_again__ends_above_the_first_rate(snippet, fails):
    """With `eta_min` above the first rate, it rises and falls again."""
    fails(test_cosine_rises_again, snippet, 20, 2.0)


@edits(
    ("T_max=30)", "T_max=31)"),
    ("T_max=30)", "T_max=30, eta_min=0.1)"),
    ("CosineAnnealingLR(o, T_max=30)", "LambdaLR(o, factor)"),
)
def test_cosine_rises_again__but_not_with(snippet, old, new, fails):
    """With `T_max=31` or `eta_min=0.1`, the rate is not 0 after 30 calls; and
    the factor of the page never rises again.
    """
    fails(test_cosine_rises_again, snippet.edit(old, new))


TEXT = "Detected call of `lr_scheduler.step()` before `optimizer.step()`."


def test_the_wrong_order_skips_the_first_rate(snippet, make=None):
    with rates_of_all_steps() as rates, no_error():
        run = snippet.only(*CURVES, "wrong-order").after("wrong-order")
    assert run.skipped == rates[-3:] == [0.5, 0.25, 0.125]
    assert [str(w.message)[: len(TEXT)] for w in run.caught] == [TEXT]

    for build in [make] if make else run.makes.values():
        planned = taken(build, 12)
        optimizer = one_weight()
        schedule, early = build(optimizer), []
        with recorded() as told:
            for _ in range(11):
                schedule.step()
                early += rates_of(optimizer)
                optimizer.step()
        assert early == approx(planned[1:])
        assert [str(w.message)[: len(TEXT)] for w in told] == [TEXT]


@pytest.mark.parametrize(
    "make",
    [
        lambda o: LambdaLR(o, lambda n: 1 / (n + 1)),
        lambda o: OneCycleLR(o, 1.0, 30, cycle_momentum=False),
    ],
    ids=["LambdaLR", "OneCycleLR"],
)
def test_the_wrong_order_skips_the_first_rate__also_for(snippet, make):
    test_the_wrong_order_skips_the_first_rate(snippet, make)


def test_the_wrong_order_skips_the_first_rate__but_not_the_right(
    snippet, fails
):
    """With the optimizer first, its first step takes the first rate, and no
    warning comes.
    """
    edited = snippet.edit(
        "        too_soon.step()\n"
        '        skipped.append(early.param_groups[0]["lr"])\n'
        "        early.step()\n",
        '        skipped.append(early.param_groups[0]["lr"])\n'
        "        early.step()\n"
        "        too_soon.step()\n",
    )
    fails(test_the_wrong_order_skips_the_first_rate, edited)


class Plateau(ReduceLROnPlateau):
    """A plateau that gets the same loss at each call."""

    def step(self):
        """Take a step with a loss of 1."""
        super().step(1.0)


def test_the_wrong_order_skips_the_first_rate__ends_on_a_plateau(
    snippet, fails
):
    """`ReduceLROnPlateau` is called after an epoch, and never warns."""
    fails(test_the_wrong_order_skips_the_first_rate, snippet, Plateau)


def scaled(gradients, optimizer, wait, scaler=None, beside=None):
    """Step with each gradient; return how often weight and rate changed."""
    scaler, steps = scaler or torch.amp.GradScaler("cpu"), 0
    (weight,) = optimizer.param_groups[0]["params"]
    schedule = ExponentialLR(optimizer, gamma=0.5)
    for gradient in gradients:
        old = weight.item()
        optimizer.zero_grad()
        scaler.scale(weight * gradient).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        if beside:
            beside.param_groups[0]["params"][0].grad = torch.tensor([INF])
            scaler.step(beside)
        scaler.update()
        if not wait or scaler.get_scale() >= before:
            schedule.step()
        steps += weight.item() != old
        yield steps, schedule.last_epoch


def test_a_skipped_first_step_warns(
    snippet, first=INF, kind=optim.SGD, fused=False
):
    run = snippet.only(*CURVES, "skips")
    with recorded() as told:
        run.edit("if scaler.get_scale() >= before:", "if before:").after(
            "skips"
        )
    assert [str(w.message)[: len(TEXT)] for w in told] == [TEXT]

    with recorded() as told:
        optimizer = one_weight(1.0, kind, fused=fused)
        *_, (_, counted) = scaled([first, 1.0, INF, 1.0], optimizer, False)
    assert counted == 4
    assert [str(w.message)[: len(TEXT)] for w in told] == [TEXT]
    with recorded() as told:
        optimizer = one_weight(1.0, kind, fused=fused)
        *_, counts = scaled([1.0, INF, INF, 1.0], optimizer, False)
    assert (counts, told) == ((2, 4), [])


def test_a_skipped_first_step_warns__also_with_adamw(snippet):
    test_a_skipped_first_step_warns(snippet, kind=optim.AdamW)


def test_a_skipped_first_step_warns__ends_with_a_fused_optimizer(
    snippet, fails
):
    """With `fused=True`, the first skip brings no warning."""
    fails(test_a_skipped_first_step_warns, snippet, INF, optim.SGD, True)


def test_a_skipped_first_step_warns__but_not_if_it_is_taken(snippet, fails):
    """If the first step is taken, no warning comes, even if later ones are
    skipped.
    """
    old = "(math.inf, 1.0, math.inf, 1.0)"
    edited = snippet.edit(old, "(1.0, math.inf, math.inf, 1.0)")
    fails(test_a_skipped_first_step_warns, edited)


def test_the_scale_tells_a_skip(
    snippet, scaler=None, gradients=None, beside=None, **given
):
    with recorded() as told:
        run = snippet.only(*CURVES, "skips").after("skips")
    assert (run.waiting.get_last_lr(), told) == ([0.25], [])
    assert (run.waiting.last_epoch, run.scaler.get_scale()) == (2, 2**14)

    some = [INF, 1.0, INF, 1.0], [1.0] * 5, [INF] * 9, [1, INF, float("nan")]
    for each_time in [gradients] if gradients else some:
        optimizer = one_weight(1.0, **given)
        new = copy.deepcopy(scaler)
        with recorded():
            counts = [*scaled(each_time, optimizer, True, new, beside)]
        assert [s for s, _ in counts] == [c for _, c in counts]


@pytest.mark.parametrize(
    "options",
    [{"growth_interval": 1}, {"backoff_factor": 0.9}, {"init_scale": 1e-4}],
    ids=str,
)
def test_the_scale_tells_a_skip__also_with(snippet, options):
    scaler = torch.amp.GradScaler("cpu", **options)
    test_the_scale_tells_a_skip(snippet, scaler)


def test_the_scale_tells_a_skip__also_with_a_disabled_scaler(snippet):
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    test_the_scale_tells_a_skip(snippet, scaler, [1, 1])


@pytest.mark.parametrize("kind", [optim.SGD, optim.AdamW])
def test_the_scale_tells_a_skip__also_with_a_fused(snippet, kind):
    test_the_scale_tells_a_skip(snippet, kind=kind, fused=True)


@pytest.mark.parametrize("scale", [0.0, 1e-45])
def test_the_scale_tells_a_skip__ends_where_it_cannot_shrink(
    snippet, scale, fails
):
    """A scale of 0, or the smallest above it times 0.9, cannot shrink, so a
    skip looks like a step that was taken.
    """
    options = {"init_scale": scale, "backoff_factor": 0.9}
    scaler = torch.amp.GradScaler("cpu", **options)
    fails(test_the_scale_tells_a_skip, snippet, scaler, [INF, INF])


def test_the_scale_tells_a_skip__ends_with_two_optimizers(snippet, fails):
    """If another optimizer has the same scaler, its skip lowers the scale,
    too: the scheduler then waits although a step was taken.
    """
    inputs = snippet, None, [1, 1], one_weight()
    fails(test_the_scale_tells_a_skip, *inputs)


GUARD = "if scaler.get_scale() >= before:"


@edits(
    ("never asked", GUARD, "if before:"),
    (
        "asked too late",
        f"    scaler.update()\n    {GUARD}",
        f"    scaler.update()\n    before = scaler.get_scale()\n    {GUARD}",
    ),
    ("only if it grows", GUARD, "if scaler.get_scale() > before:"),
)
def test_the_scale_tells_a_skip__but_not_with(snippet, old, new, fails):
    """Without the question, or asked too late, the scheduler steps after
    skips, too; with `>`, it never does.
    """
    fails(test_the_scale_tells_a_skip, snippet.edit(old, new))


def half_from(make, at, base_too=False):
    """Return the rates of 40 steps, halved by hand before one of them."""
    optimizer = one_weight()
    schedule, rates = make(optimizer), []
    for step in range(40):
        if step == at:
            optimizer.param_groups[0]["lr"] /= 2
            if base_too:
                schedule.base_lrs = [each / 2 for each in schedule.base_lrs]
        rates += rates_of(optimizer)
        optimizer.step()
        schedule.step()
    return rates


def test_formulas_overwrite_a_rate_set_by_hand(
    snippet, at=12, overwriting=None, kept=None
):
    run = snippet.only(*CURVES, "set-by-hand").after("set-by-hand")
    assert run.halved(run.halving) == [1, 0.5, 0.125, 0.125, 0.0625]
    both_halved = run.halved(run.halving, base_too=True)
    assert both_halved == [1, 0.5, 0.125, 0.0625, 0.03125]

    formulas = overwriting or [
        run.halving,
        lambda o: LambdaLR(o, run.factor),
        lambda o: OneCycleLR(o, 1.0, 40, cycle_momentum=False),
    ]
    for make in formulas:
        expected = taken(make, 40)
        expected[at] /= 2
        assert half_from(make, at) == expected
    makes = kept or {**run.makes, "CosineAnnealingLR": cosine_of_40}
    for make in makes.values():
        planned = taken(make, 40)
        expected = planned[:at] + [rate / 2 for rate in planned[at:]]
        assert half_from(make, at) == approx(expected)


def cosine_of_40(optimizer):
    """Return a cosine that is still falling after 40 calls."""
    return CosineAnnealingLR(optimizer, T_max=40)


@pytest.mark.parametrize("at", [1, 5, 39])
def test_formulas_overwrite_a_rate_set_by_hand__also_at(snippet, at):
    test_formulas_overwrite_a_rate_set_by_hand(snippet, at)


def test_formulas_overwrite_a_rate_set_by_hand__also_with_base_lrs(snippet):
    run = after(snippet, *CURVES)

    def make(optimizer):
        return LambdaLR(optimizer, run.factor)

    planned = taken(make, 40)
    expected = planned[:12] + [rate / 2 for rate in planned[12:]]
    assert half_from(make, 12, base_too=True) == approx(expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda o: CosineAnnealingLR(o, 40, eta_min=0.1),
        lambda o: CosineAnnealingLR(o, 20),
    ],
    ids=["an eta_min", "a T_max that is passed"],
)
def test_formulas_overwrite_a_rate_set_by_hand__ends_with(
    snippet, make, fails
):
    """`CosineAnnealingLR` does not keep exactly half of the planned rate with
    an `eta_min`, nor beyond call number `T_max`.
    """
    kept = {"cosine": make}
    options = (snippet, 12, None, kept)
    fails(test_formulas_overwrite_a_rate_set_by_hand, *options)


@edits(
    ("lambda o: ExponentialLR(o, gamma=0.9)", "halves"),
    (
        "return LambdaLR(optimizer, lambda n: 0.5**n)",
        "return ExponentialLR(optimizer, 0.5)",
    ),
)
def test_formulas_overwrite_a_rate_set_by_hand__but_not_swapped(
    snippet, old, new, fails
):
    """A `LambdaLR` with the curve of `ExponentialLR` does not continue from
    the halved rate, and an `ExponentialLR` in its place does.
    """
    edited = snippet.edit(old, new).edit(
        "# %% factors\n",
        "# %% factors\ndef halves(o):\n"
        "    return LambdaLR(o, lambda n: 0.9**n)\n\n\n",
    )
    fails(test_formulas_overwrite_a_rate_set_by_hand, edited)


RESUME = [*CURVES, "save", "resume"]


def test_resume_goes_on(snippet, steps=100):
    edited = snippet.edit("in range(100)", f"in range({steps})")
    with no_error():
        run = edited.only(*RESUME).after("resume")
    optimizer, schedule = run.resumed, run.scheduler

    factor = edited.only(*CURVES).after("factors").factor
    planned = taken(lambda o: LambdaLR(o, factor), 320, one_weight(0.1))
    rates = []
    for _ in range(320 - steps):
        rates += rates_of(optimizer)
        optimizer.step()
        schedule.step()
    assert rates == planned[steps:]


@pytest.mark.parametrize("steps", [1, 30, 299, 300])
def test_resume_goes_on__also_after(snippet, steps):
    test_resume_goes_on(snippet, steps)


def test_resume_goes_on__also_from_a_file(snippet):
    edited = snippet.edit(
        "# %% resume\n",
        "# %% resume\nimport io\n\nfile = io.BytesIO()\n"
        "torch.save(saved, file)\nfile.seek(0)\nsaved = torch.load(file)\n\n",
    )
    test_resume_goes_on(edited)


def next_of(steps, make, late=False, forgotten=False):
    """Return the planned rates, and those after a stop."""
    stopped = one_weight(0.1)
    schedule = make(stopped)
    for _ in range(steps):
        stopped.step()
        schedule.step()
    file = io.BytesIO()
    torch.save([stopped.state_dict(), schedule.state_dict()], file)
    file.seek(0)
    first, second = torch.load(file)
    optimizer = one_weight(0.1)
    if late:
        optimizer.load_state_dict(first)
    schedule = make(optimizer)
    if not late:
        optimizer.load_state_dict(first)
    if not forgotten:
        schedule.load_state_dict(second)
    rates = []
    for _ in range(5):
        rates += rates_of(optimizer)
        optimizer.step()
        schedule.step()
    return taken(make, steps + 5, one_weight(0.1)), rates


@pytest.mark.parametrize("name", [*KINDS, *COUNTING])
def test_resume_goes_on__also_for(snippet, name):
    make = COUNTING.get(name) or after(snippet, *CURVES).makes[name]
    for steps in (1, 12, 29):
        planned, rates = next_of(steps, make)
        assert rates == approx(planned[steps:], abs=1e-12)


def test_resume_goes_on__also_unlike_the_wrong_ways(snippet):
    run = after(snippet, *RESUME, "resumed")
    plan = [f"{0.1 * run.factor(n):.4f}" for n in range(103)]
    assert run.next_rates().split() == plan[100:]
    late = run.next_rates(late=True).split()
    assert late == [plan[0], *plan[101:]]
    forgotten = run.next_rates(forgotten=True).split()
    assert forgotten == [plan[100], *plan[1:3]]

    def make(optimizer):
        return LambdaLR(optimizer, run.factor)

    planned, rates = next_of(100, make, forgotten=True)
    assert rates == [planned[100], *planned[1:5]]
    planned, rates = next_of(100, make, late=True)
    assert rates == [planned[0], *planned[101:]]
    planned, rates = next_of(20, run.makes["LinearLR"], late=True)
    assert rates == approx([0.1 * rate for rate in planned[20:]])


def test_resume_goes_on__ends_with_a_different_factor(snippet, fails):
    """The state doesn't hold a `factor` that is a function: with a different
    `total`, the rates go on along the new curve.
    """
    edited = snippet.edit("# %% resume\n", "# %% resume\ntotal = 200\n")
    fails(test_resume_goes_on, edited)


LOADS = (
    "scheduler = LambdaLR(resumed, factor)  # first make both\n"
    'resumed.load_state_dict(saved["optimizer"])  # then load both\n'
)


@edits(
    (
        "without the optimizer",
        'resumed.load_state_dict(saved["optimizer"])  # then load both\n',
        "",
    ),
    (
        "without the scheduler",
        'scheduler.load_state_dict(saved["scheduler"])\n\n',
        "",
    ),
    (
        "made too late",
        LOADS,
        'resumed.load_state_dict(saved["optimizer"])\n'
        "scheduler = LambdaLR(resumed, factor)\n",
    ),
)
def test_resume_goes_on__but_not(snippet, old, new, fails):
    """Without the state of the optimizer, or with a scheduler made after it,
    the first rate is wrong; without that of the scheduler, all others.
    """
    fails(test_resume_goes_on, snippet.edit(old, new))


def test_one_cycle_brings_a_momentum(snippet):
    run = snippet.only(*CURVES, "one-cycle").after("one-cycle")
    (group,) = run.sgd.param_groups
    rates, momenta = [], []
    for _ in range(30):
        rates.append(group["lr"])
        momenta.append(group["momentum"])
        run.sgd.step()
        run.one_cycle.step()
    assert run.sgd.defaults["momentum"] == 0
    assert rates == taken(lambda o: OneCycleLR(o, 0.1, total_steps=30), 30)
    assert max(rates) == rates[8] == approx(0.1)
    assert rates[0] == approx(0.1 / 25)
    assert (min(momenta), max(momenta)) == approx((0.85, 0.95))


def test_one_cycle_brings_a_momentum__also_as_the_first_beta():
    adam = two_groups(optim.AdamW)
    schedule = OneCycleLR(adam, 0.1, total_steps=30)
    betas = []
    for _ in range(30):
        betas += [group["betas"] for group in adam.param_groups]
        adam.step()
        schedule.step()
    first, second = zip(*betas, strict=True)
    assert (min(first), max(first)) == approx((0.85, 0.95))
    assert set(second) == {0.999}


@edits(
    (
        "without",
        "total_steps=30)\n(",
        "total_steps=30, cycle_momentum=False)\n(",
    ),
    (
        "a floor of 0.5",
        "total_steps=30)\n(",
        "total_steps=30, base_momentum=0.5)\n(",
    ),
    (
        "its lr as max_lr",
        "OneCycleLR(sgd, max_lr=0.1",
        'OneCycleLR(sgd, max_lr=sgd.param_groups[0]["lr"]',
    ),
)
def test_one_cycle_brings_a_momentum__but_not_with(snippet, old, new, fails):
    """With `cycle_momentum=False` the momentum stays 0; `max_lr` may be the
    optimizer's rate, if you pass it.
    """
    fails(test_one_cycle_brings_a_momentum, snippet.edit(old, new))


def test_one_cycle_brings_a_momentum__also_leaves_all_else_alone(snippet):
    run = after(snippet, *CURVES)
    for kind in (optim.SGD, optim.AdamW):
        for make in run.makes.values():
            optimizer = two_groups(kind)
            schedule, before = make(optimizer), []
            for group in optimizer.param_groups:
                before.append({**group, "lr": 0})
            for _ in range(29):
                optimizer.step()
                schedule.step()
            after_all = [{**g, "lr": 0} for g in optimizer.param_groups]
            assert str(after_all) == str(before)
