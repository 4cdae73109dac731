"""The claims of docs/training/schedulers.md."""

import io
import math
import warnings
from contextlib import contextmanager
from itertools import groupby, pairwise

import pytest
import torch
from torch import nn, optim
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    StepLR,
)
from torch.optim.optimizer import register_optimizer_step_pre_hook

from extensions.evidence.counterexamples import edits, no_error

approx = pytest.approx
LAMBDA = "return LambdaLR(optimizer, share)"


def light(snippet, *cells):
    """Run what the cells rest on and the cells, without the long trainings."""
    names = [
        "imports",
        "schedule",
        "more-imports",
        "toy",
        "rates",
        "kinds",
        "follow",
    ]
    names += [name for name in cells if name not in names]
    return snippet.only(*names).after(cells[-1] if cells else "follow")


@contextmanager
def recorded():
    """Record each warning."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield seen


def differences(rates):
    return [later - sooner for sooner, later in pairwise(rates)]


def wave(rates, top):
    """Check that rates fall from the top to 0 along half a cosine."""
    angles = torch.linspace(0, torch.pi, len(rates), dtype=torch.float64)
    assert rates == approx((top * (1 + angles.cos()) / 2).tolist(), abs=1e-12)


def two_groups(kind=optim.SGD, **options):
    first = {"params": [nn.Parameter(torch.zeros(1))], "lr": 0.3}
    second = {"params": [nn.Parameter(torch.zeros(1))]}
    return kind([first, second], lr=0.02, **options)


@contextmanager
def taken_rates():
    """Collect the rate of each step that any optimizer takes."""
    taken = []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: taken.append(optimizer.param_groups[0]["lr"])
    )
    yield taken
    hook.remove()


TENTH = "warm=total // 10"


def test_the_rate_rises_then_falls(snippet, warm=None):
    edited = snippet if warm is None else snippet.edit(TENTH, f"warm={warm}")
    with taken_rates() as taken:
        run = edited.after("train")
    (group,) = run.optimizer.param_groups
    top = group["initial_lr"]
    with torch.no_grad():
        mistake = nn.functional.mse_loss(run.model(run.apartments), run.prices)

    warm = run.total // 10 if warm is None else warm
    assert taken == run.used
    assert all(p.grad is None for p in run.model.parameters())
    assert mistake < run.prices.var()
    assert min(run.used) > 0
    rise = differences([0.0, *run.used[: warm + 1]])
    assert rise == approx([top / (warm + 1)] * len(rise))
    wave([*run.used[warm:], group["lr"]], top)


def test_the_loop_takes_total_steps(snippet):
    run = snippet.after("train")

    states = run.optimizer.state.values()
    assert {state["step"].item() for state in states} == {run.total}
    assert run.schedule.last_epoch == len(run.used) == run.total


OTHERS = pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epochs, accumulate = 10, 4", "epochs, accumulate = 4, 1"),
        ("epochs, accumulate = 10, 4", "epochs, accumulate = 7, 5"),
        ("epochs, accumulate = 10, 4", "epochs, accumulate = 11, 100"),
        ("batch_size=8", "batch_size=7"),
    ],
    ids=[
        "no accumulation",
        "5 batches a step",
        "a step an epoch",
        "batches of 7",
    ],
)


@OTHERS
def test_the_loop_takes_total_steps__also_with(snippet, old, new):
    test_the_loop_takes_total_steps(snippet.edit(old, new))


@edits(
    (
        "a shorter group left out",
        "epochs * math.ceil(len(loader) / accumulate)",
        "epochs * (len(loader) // 5)",
    ),
    (
        "a step for each batch",
        "if number % accumulate == 0 or number == len(loader):",
        "if number:",
    ),
)
def test_the_loop_takes_total_steps__but_not_with(snippet, old, new, fails):
    """Computed as `len(loader) // 5`, `total` is too small, 20; and with a
    step at each batch, the loop takes 120.
    """
    fails(test_the_loop_takes_total_steps, snippet.edit(old, new))


@OTHERS
def test_the_rate_rises_then_falls__also_with(snippet, old, new):
    test_the_rate_rises_then_falls(snippet.edit(old, new))


@pytest.mark.parametrize("warm", [30, 40])
def test_the_rate_rises_then_falls__ends_if_warm_is_not_below_total(
    snippet, fails, warm
):
    """If `warm` is `total` or more: the training ends before the rate reaches
    `lr`.
    """
    fails(test_the_rate_rises_then_falls, snippet, warm)


@pytest.mark.parametrize("warm", [0, 29])
def test_the_rate_rises_then_falls__also_with_a_warm_up_of(snippet, warm):
    test_the_rate_rises_then_falls(snippet, warm)


@edits(
    ("batches in place of steps", "math.ceil(len(loader) / accumulate)", "12"),
    ("no warm-up", "if step < warm:", "if step < 0:"),
    ("a straight line", "(1 + math.cos(math.pi * done)) / 2", "1 - done"),
    (
        "twice a step",
        "optimizer.step()\n            schedule.step()\n            opt",
        "optimizer.step()\n            schedule.step()\n"
        "            schedule.step()\n            opt",
    ),
    ("the last group left out", "or number == len(loader)", "or number < 0"),
)
def test_the_rate_rises_then_falls__but_not_with(snippet, old, new, fails):
    """If `total` counts the batches, the rate does not get down to 0; the
    other edits change its curve or its pace.
    """
    edited = snippet.edit(old, new)
    if "len(loader)" in old:
        edited = edited.edit(
            "epochs, accumulate = 10, 4", "e, accumulate = 10, 5"
        )
        edited = edited.edit(
            "total = epochs *", "epochs = e\ntotal = epochs *"
        )
    fails(test_the_rate_rises_then_falls, edited)


def test_the_rate_rises_then_falls__but_not_with_the_schedule_first(
    snippet, fails
):
    """With the schedule first, each optimizer step takes the rate of the next
    one.
    """
    edited = snippet.edit(
        "optimizer.step()\n            schedule.step()\n            opt",
        "schedule.step()\n            optimizer.step()\n            opt",
    ).edit("used = []\n", "used = []\nwarnings.simplefilter('ignore')\n")
    fails(test_the_rate_rises_then_falls, edited)


@pytest.mark.parametrize("total", [100, 10_000], ids="{} steps".format)
def test_the_rate_rises_then_falls__also_in(snippet, total):
    run, warm = light(snippet), total // 10
    optimizer = run.new_optimizer()
    schedule = run.warm_up_cosine(optimizer, warm, total)
    top, rates = optimizer.param_groups[0]["initial_lr"], []
    for _ in range(total):
        rates += schedule.get_last_lr()
        optimizer.step()
        schedule.step()

    rise = [top * (step + 1) / (warm + 1) for step in range(warm)]
    ends = [math.pi * step / (total - warm) for step in range(total - warm)]
    fall = [top * (1 + math.cos(end)) / 2 for end in ends]
    assert rates == approx(rise + fall, rel=1e-6, abs=0)


def test_past_the_total_the_rate_is_zero(snippet, total=30, warm=3):
    run = light(snippet)
    optimizer = run.new_optimizer()
    schedule = run.warm_up_cosine(optimizer, warm=warm, total=total)

    for call in range(1, 4 * total):
        optimizer.step()
        schedule.step()
        assert (schedule.get_last_lr()[0] == 0) == (call >= total)


def test_past_the_total_the_rate_is_zero__also_for_a_short_one(snippet):
    test_past_the_total_the_rate_is_zero(snippet, 2, 0)


def test_past_the_total_the_rate_is_zero__but_not_unbounded(snippet, fails):
    """Without the first condition of `share`, the cosine goes on, and the rate
    rises again.
    """
    edited = snippet.edit("if step >= total:", "if step < 0:")
    fails(test_past_the_total_the_rate_is_zero, edited)


@pytest.mark.parametrize("warm", [2, 5])
def test_past_the_total_the_rate_is_zero__also_with_a_warm_up_of(
    snippet, warm
):
    test_past_the_total_the_rate_is_zero(snippet, 2, warm)


RESUMED = ["save", "resume", "forget", "make-late", "next-rates"]
COSINE = "(1 + math.cos(math.pi * done)) / 2"


def test_one_minus_done_falls_straight(
    snippet, warm=3, total=30, line="return 1 - done"
):
    run = light(snippet.edit(f"return {COSINE}", line))
    optimizer = run.new_optimizer()
    schedule = run.warm_up_cosine(optimizer, warm=warm, total=total)

    rates = called(lambda _: schedule, total, optimizer)
    assert rates[warm] == 1
    steps = total - warm
    assert differences(rates[warm:]) == approx([-1 / steps] * steps)


def test_one_minus_done_falls_straight__also_without_warm_up(snippet):
    test_one_minus_done_falls_straight(snippet, 0, 7)


@pytest.mark.parametrize(
    "line",
    [
        "return 0.5 - done / 2",
        "return 1 - done / 2",
        "return (1 - done) ** 2",
    ],
)
def test_one_minus_done_falls_straight__but_not_with(snippet, line, fails):
    """`0.5 - done / 2` starts at half of the rate, `1 - done / 2` ends there;
    squared, it does not fall linearly.
    """
    fails(test_one_minus_done_falls_straight, snippet, 3, 30, line)


def everything(run):
    """Return all schedules of the page by name, to be made of an optimizer."""
    cosine = {"warm_up_cosine": lambda o: run.warm_up_cosine(o, 3, 30)}
    return {**run.kinds, **cosine}


def test_a_schedule_writes_the_rate(snippet, kind=optim.SGD):
    run = light(snippet)
    makes = {**everything(run), "plateau": run.ReduceLROnPlateau}

    key = "betas" if kind is optim.AdamW else "momentum"
    for name, make in makes.items():
        optimizer = two_groups(kind)
        schedule, changed = make(optimizer), set()
        for _ in range(29):
            optimizer.step()
            before = [dict(group) for group in optimizer.param_groups]
            given = [1.0] if name == "plateau" else []
            schedule.step(*given)
            for old, group in zip(before, optimizer.param_groups, strict=True):
                changed |= {k for k in group if group[k] is not old.get(k)}
                if "betas" in group:
                    assert group["betas"][1:] == old["betas"][1:]
        both = {"lr", key} if name == "OneCycleLR" else {"lr"}
        assert {name: changed} == {name: both}


def test_a_schedule_writes_the_rate__also_with_adamw(snippet):
    test_a_schedule_writes_the_rate(snippet, optim.AdamW)


def test_a_schedule_writes_the_rate__ends_for_a_cyclic_rate(snippet, fails):
    """For `CyclicLR`: by default, it changes the momentum as well."""
    edited = snippet.edit(
        "StepLR(o, step_size=10, gamma=0.5)",
        "torch.optim.lr_scheduler.CyclicLR(o, 0.1, 0.2)",
    )
    fails(test_a_schedule_writes_the_rate, edited)


@edits(
    (
        "another option changed",
        LAMBDA,
        "return Meddling(optimizer, share)\n\n\nclass Meddling(LambdaLR):\n"
        "    def step(self):\n        super().step()\n"
        "        for group in self.optimizer.param_groups:\n"
        '            group["weight_decay"] = self.last_epoch / 100',
    ),
    (
        "the momentum left alone",
        "OneCycleLR(o, max_lr=1.0, total_steps=30)",
        "OneCycleLR(o, 1.0, total_steps=30, cycle_momentum=False)",
    ),
    (
        "the rate left alone",
        "StepLR(o, step_size=10, gamma=0.5)",
        "StepLR(o, step_size=99, gamma=1)",
    ),
)
def test_a_schedule_writes_the_rate__but_not_with(snippet, old, new, fails):
    """A subclass that sets `weight_decay` changes another option; the other
    edits leave the momentum or the rate alone.
    """
    fails(test_a_schedule_writes_the_rate, snippet.edit(old, new))


def test_a_schedule_writes_the_rate__but_not_both_betas(snippet, fails):
    """A subclass of `OneCycleLR` that writes both `betas` changes the second
    as well.
    """
    edited = snippet.edit("lambda o: OneCycleLR(o,", "lambda o: Both(o,").edit(
        "# %% kinds\n",
        "# %% kinds\nclass Both(OneCycleLR):\n"
        "    def step(self):\n        super().step()\n"
        "        for group in self.optimizer.param_groups:\n"
        '            if "betas" in group:\n'
        '                group["betas"] = group["betas"][:1] * 2\n\n\n',
    )
    fails(test_a_schedule_writes_the_rate, edited, optim.AdamW)


def test_get_last_lr_is_the_next_rate(snippet):
    run = snippet.only(
        "imports", "schedule", "more-imports", "model", "count", "groups"
    ).after("groups")
    assert run.schedule.get_last_lr() == approx([0.001 / 8, 0.01 / 8])
    held = [id(p) for g in run.optimizer.param_groups for p in g["params"]]
    assert held == [id(p) for p in run.model.parameters()]
    run = light(snippet)
    makes = {**everything(run), "p": run.ReduceLROnPlateau}

    for name, make in makes.items():
        optimizer = two_groups()
        schedule = make(optimizer)
        for _ in range(20):
            given = schedule.get_last_lr()
            assert len(given) == 2
            for group, rate in zip(optimizer.param_groups, given, strict=True):
                (weight,) = group["params"]
                group["momentum"] = 0
                weight.data.zero_()
                weight.grad = torch.ones(1)
                group["expected"] = rate
            optimizer.step()
            for group in optimizer.param_groups:
                (weight,) = group["params"]
                assert -weight.item() == approx(group["expected"]), name
            schedule.step(*([1.0] if name == "p" else []))


def test_get_last_lr_is_the_next_rate__but_not_of_a_list_of_old(
    snippet, fails
):
    """A subclass whose `get_last_lr()` returns `base_lrs` gives the full
    rates, not those of the next step.
    """
    late = (
        "return Late(optimizer, share)\n\n\nclass Late(LambdaLR):\n"
        "    def get_last_lr(self):\n        return self.base_lrs"
    )
    fails(test_get_last_lr_is_the_next_rate, snippet.edit(LAMBDA, late))


def test_get_last_lr_is_the_next_rate__but_not_of_one_group(snippet, fails):
    """A subclass that returns the first rate alone leaves out the other
    group.
    """
    one = (
        "return One(optimizer, share)\n\n\nclass One(LambdaLR):\n"
        "    def get_last_lr(self):\n        return super().get_last_lr()[:1]"
    )
    fails(test_get_last_lr_is_the_next_rate, snippet.edit(LAMBDA, one))


def test_get_last_lr_is_the_next_rate__but_not_of_one_set_later(
    snippet, fails
):
    """If `step()` halves the rates in the groups at its end, `get_last_lr()`
    still returns the whole ones.
    """
    late = (
        "return Late(optimizer, share)\n\n\nclass Late(LambdaLR):\n"
        "    def step(self):\n        super().step()\n"
        "        for group in self.optimizer.param_groups:\n"
        '            group["lr"] /= 2'
    )
    fails(test_get_last_lr_is_the_next_rate, snippet.edit(LAMBDA, late))


def test_groups_keep_their_ratio(snippet, leave="OneCycleLR", late=False):
    run = light(snippet)
    assert "OneCycleLR" in run.kinds

    for name, make in everything(run).items():
        optimizer = two_groups()
        if late and name == "LinearLR":
            second = optimizer.param_groups.pop()
            schedule = make(optimizer)
            optimizer.add_param_group({"params": second["params"]})
            optimizer.step()
            schedule.step()
        else:
            schedule = make(optimizer)
        for _ in range(30 if name == "OneCycleLR" else 100):
            first, second = schedule.get_last_lr()
            if name != leave:
                assert first == approx(second * 15, rel=1e-6, abs=0)
            optimizer.step()
            schedule.step()


def test_groups_keep_their_ratio__but_not_under_one_cycle(snippet, fails):
    """`OneCycleLR` in place of `StepLR` gives both groups the same rate."""
    edited = snippet.edit(
        "StepLR(o, step_size=10, gamma=0.5)",
        "OneCycleLR(o, max_lr=1.0, total_steps=120)",
    )
    fails(test_groups_keep_their_ratio, edited)


def test_groups_keep_their_ratio__ends_under_one_cycle(snippet, fails):
    """For `OneCycleLR`: it gives both groups the same rate."""
    fails(test_groups_keep_their_ratio, snippet, None)


def test_groups_keep_their_ratio__ends_for_a_late_group(snippet, fails):
    """For a group that is added after a `LinearLR` was made: it begins at its
    full rate, and the warm-up makes it higher.
    """
    fails(test_groups_keep_their_ratio, snippet, "OneCycleLR", True)


@edits(
    ("T_max=30", "T_max=30, eta_min=0.001"),
    ("lambda o: StepLR(o, step_size=10, gamma=0.5)", "floored"),
)
def test_groups_keep_their_ratio__ends_with_an_eta_min(
    snippet, old, new, fails
):
    """With `eta_min` above 0 in `CosineAnnealingLR`: the rates of both groups
    fall to that same number.
    """
    edited = snippet.edit(old, new)
    if new == "floored":
        edited = edited.edit(
            "# %% kinds\n",
            "# %% kinds\nfloored = lambda o: CosineAnnealingLR(o, 30, 0.01)\n",
        )
    fails(test_groups_keep_their_ratio, edited)


def called(make, times, optimizer):
    """Return the rates before each call of `step()` and after the last."""
    schedule = make(optimizer)
    rates = schedule.get_last_lr()
    for _ in range(times):
        optimizer.step()
        schedule.step()
        rates = rates + schedule.get_last_lr()
    return rates


def multiplied(rate, gamma, calls, times):
    rates = [rate]
    for call in range(1, times + 1):
        rates.append(rates[-1] * (gamma if call in calls else 1))
    return rates


def test_three_schedules_multiply(snippet):
    run = light(snippet)

    when = {
        "StepLR": (0.5, range(10, 99, 10)),
        "MultiStepLR": (0.5, [5, 20]),
        "ExponentialLR": (0.9, range(99)),
    }
    for name, (gamma, calls) in when.items():
        rates = called(run.kinds[name], 40, run.new_optimizer())
        assert rates == approx(multiplied(1.0, gamma, calls, 40))


@pytest.mark.parametrize("gamma", [0.1, 0.7, 1.5])
def test_three_schedules_multiply__also_with_a_gamma_of(snippet, gamma):
    run, rate = light(snippet), 1.0
    when = {
        StepLR: ({"step_size": 3}, range(3, 99, 3)),
        MultiStepLR: ({"milestones": [1, 2, 9]}, [1, 2, 9]),
        ExponentialLR: ({}, range(99)),
    }
    for kind, (options, calls) in when.items():
        rates = called(
            lambda o, k=kind, given=options: k(o, gamma=gamma, **given),
            20,
            run.new_optimizer(),
        )
        assert rates == approx(multiplied(rate, gamma, calls, 20))


@edits(
    ("StepLR(o, step_size=10", "StepLR(o, step_size=9"),
    ("milestones=[5, 20]", "milestones=[5, 21]"),
    ("ExponentialLR(o, gamma=0.9)", "StepLR(o, 2, gamma=0.9)"),
)
def test_three_schedules_multiply__but_not_with(snippet, old, new, fails):
    """Each edit multiplies at other calls: after every 9, at number 21, or at
    every second one.
    """
    fails(test_three_schedules_multiply, snippet.edit(old, new))


def test_linear_lr_ends_at_the_rate(snippet):
    run = light(snippet)
    rates = called(run.kinds["LinearLR"], 40, run.new_optimizer())

    assert rates[0] == approx(0.1)
    assert max(rates[:10]) < 0.99
    assert rates[10:] == approx([1.0] * 31)


@pytest.mark.parametrize(
    ("factor", "calls"),
    [(0.5, 3), (0.01, 25)],
    ids=["3 calls from a half", "25 calls from a hundredth"],
)
def test_linear_lr_ends_at_the_rate__also_with(snippet, factor, calls):
    run = light(snippet)
    rates = called(
        lambda o: LinearLR(o, factor, total_iters=calls),
        40,
        run.new_optimizer(),
    )

    assert rates[0] == approx(factor)
    assert max(rates[:calls]) < 0.99
    assert rates[calls:] == approx([1.0] * (41 - calls))


@edits(
    ("start_factor=0.1", "start_factor=0.2"),
    ("total_iters=10", "total_iters=12"),
    ("total_iters=10", "total_iters=8"),
    (
        "LinearLR(o, start_factor=0.1, total_iters=10)",
        "OneCycleLR(o, 1.0, 90, pct_start=0.1223, div_factor=10)",
    ),
)
def test_linear_lr_ends_at_the_rate__but_not_with(snippet, old, new, fails):
    """With `start_factor=0.2`, it starts at 0.2; the other edits get to the
    full rate sooner or later, or do not stay there.
    """
    fails(test_linear_lr_ends_at_the_rate, snippet.edit(old, new))


@edits(
    ("start_factor=0.1", "start_factor=0.1, end_factor=0.9"),
)
def test_linear_lr_ends_at_the_rate__ends_with_an_end_factor(
    snippet, old, new, fails
):
    """With `end_factor=0.9`: it stays at 0.9 of the rate."""
    fails(test_linear_lr_ends_at_the_rate, snippet.edit(old, new))


def test_cosine_rises_again(snippet):
    run = light(snippet)
    rates = called(run.kinds["CosineAnnealingLR"], 60, run.new_optimizer())

    assert rates[30] == approx(0, abs=1e-12)
    assert max(differences(rates[:31])) < 0 < min(differences(rates[30:]))
    assert rates[60] == approx(1)


@pytest.mark.parametrize(
    ("calls", "least"),
    [(7, 0.0), (20, 0.1)],
    ids=["7 calls down to 0", "20 calls down to a tenth"],
)
def test_cosine_rises_again__also_with(snippet, calls, least):
    run = light(snippet)
    rates = called(
        lambda o: CosineAnnealingLR(o, calls, least),
        2 * calls,
        run.new_optimizer(),
    )

    assert rates[calls] == approx(least, abs=1e-12)
    assert max(differences(rates[: calls + 1])) < 0
    assert min(differences(rates[calls:])) > 0
    assert rates[-1] == approx(1)


@edits(
    ("T_max=30", "T_max=31"),
    ("T_max=30", "T_max=30, eta_min=0.1"),
    ("CosineAnnealingLR(o, T_max=30)", "warm_up_cosine(o, 0, 30)"),
)
def test_cosine_rises_again__but_not_with(snippet, old, new, fails):
    """With `T_max=31` or `eta_min=0.1`, the rate is not 0 after 30 calls; and
    `warm_up_cosine` never rises again.
    """
    fails(test_cosine_rises_again, snippet.edit(old, new))


def one_cycle(rates, total, top):
    assert rates[0] == approx(top / 25)
    peak = total * 3 // 10 - 1
    assert rates.index(max(rates)) == peak
    assert rates[peak] == approx(top)
    assert min(differences(rates[: peak + 1])) > 0
    assert max(differences(rates[peak:])) < 0
    assert rates[-1] < top / 100_000


def test_one_cycle_rises_and_falls(snippet, total=30):
    edited = snippet
    if total != 30:
        old, new = "max_lr=1.0, total_steps=30)\n}", "max_lr=1.0, total_steps="
        old, new = f"{old[:-2]},\n}}", f"{new}{total}),\n}}"
        edited = snippet.edit(old, new)
    run = light(edited)
    optimizer = run.new_optimizer()
    rates = called(run.kinds["OneCycleLR"], total - 1, optimizer)
    one_cycle(rates, total, 1.0)


def test_one_cycle_rises_and_falls__ends_if_0_3_times_the_total_is_not_whole(
    snippet, fails
):
    """If 0.3 times `total_steps` is not a whole number: no step is taken quite
    at `max_lr`.
    """
    fails(test_one_cycle_rises_and_falls, snippet, 37)


def test_one_cycle_ignores_the_rate(snippet):
    run = light(snippet)
    for rate in (1.0, 0.001, 7.0):
        (group,) = (optimizer := run.new_optimizer()).param_groups
        group["lr"] = rate
        one_cycle(called(run.kinds["OneCycleLR"], 29, optimizer), 30, 1.0)


def test_one_cycle_ignores_the_rate__but_not_with_it_as_max_lr(snippet, fails):
    """If you pass the rate of the optimizer as `max_lr`, it does."""
    passage = "lambda o: OneCycleLR(o, max_lr=1.0, total_steps=30)"
    new = passage.replace("max_lr=1.0", 'max_lr=o.param_groups[0]["lr"]')
    fails(test_one_cycle_ignores_the_rate, snippet.edit(passage, new))


@pytest.mark.parametrize(
    ("total", "top"),
    [(10, 0.1), (100, 3.0)],
    ids=["10 steps up to a tenth", "100 steps up to 3"],
)
def test_one_cycle_rises_and_falls__also_with(snippet, total, top):
    run = light(snippet)
    rates = called(
        lambda o: OneCycleLR(o, top, total), total - 1, run.new_optimizer()
    )

    one_cycle(rates, total, top)


@edits(
    ("total_steps=30", "total_steps=30, div_factor=10"),
    ("total_steps=30", "total_steps=30, final_div_factor=10"),
    ("total_steps=30", "total_steps=30, pct_start=0.5"),
    ("max_lr=1.0", "max_lr=0.5"),
)
def test_one_cycle_rises_and_falls__but_not_with(snippet, old, new, fails):
    """`div_factor`, `final_div_factor` and `pct_start` change its start, its
    end and its peak; `max_lr=0.5` halves all rates.
    """
    passage = "lambda o: OneCycleLR(o, max_lr=1.0, total_steps=30)"
    edited = snippet.edit(passage, passage.replace(old, new))
    fails(test_one_cycle_rises_and_falls, edited)


def test_a_step_is_a_call(snippet):
    run = light(snippet)

    for make in run.kinds.values():
        once = run.rates(make, steps=29)
        for every in (2, 3):
            taken = run.rates(make, steps=29 * every, every=every)
            assert taken[::every] == once
            assert taken[every - 1 :: every] == once


def test_a_step_is_a_call__but_not_if_called_otherwise(snippet, fails):
    """If the loop calls `step()` after each optimizer step, the schedules move
    on after each, whatever `every` is.
    """
    edited = snippet.edit("if step % every == 0:", "if every:")
    edited = edited.edit(
        "lambda o: OneCycleLR(o, max_lr=1.0, total_steps=30)",
        "lambda o: OneCycleLR(o, max_lr=1.0, total_steps=300)",
    )
    fails(test_a_step_is_a_call, edited)


def test_a_step_is_a_call__but_not_if_the_optimizer_counts(snippet, fails):
    """A subclass that steps by a hook of the optimizer counts optimizer
    steps.
    """
    edited = snippet.edit(
        "lambda o: ExponentialLR(o, gamma=0.9)", "Counting"
    ).edit(
        "# %% kinds\n",
        "# %% kinds\nclass Counting(ExponentialLR):\n"
        "    def __init__(self, optimizer):\n"
        "        super().__init__(optimizer, 0.9)\n"
        "        optimizer.register_step_post_hook(self.count)\n\n"
        "    def count(self, *_):\n        super().step()\n\n"
        "    def step(self):\n"
        "        if self.last_epoch < 0:\n            super().step()\n\n\n",
    )
    fails(test_a_step_is_a_call, edited)


def begun_anew(run, warm=12):
    """Return the losses of 60 steps, with prices and a loop of its own."""
    size, rooms, age = run.apartments.T
    target = 3 + 2 * size + rooms * age
    model = run.new_model()
    optimizer, losses = optim.AdamW(model.parameters()), []
    rate = optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.01)
    schedule = run.warm_up_cosine(rate, warm, 60)
    for _ in range(60):
        optimizer.param_groups[0]["lr"] = rate.param_groups[0]["lr"]
        mistakes = (model(run.apartments).squeeze(1) - target).square()
        model.zero_grad()
        mistakes.mean().backward()
        optimizer.step()
        rate.step()
        schedule.step()
        losses.append(mistakes.mean().item())
    return losses


def test_a_warm_up_stops_the_jump(snippet, rate=0.3, starts=(0, 1)):
    run = snippet.only(
        "imports", "schedule", "more-imports", "model", "begin"
    ).after("begin")

    assert run.begin(12, 0.01) == approx(begun_anew(run), rel=1e-3)
    begun = set()
    for seed in starts:
        cold, warm = run.begin(0, rate, seed), run.begin(12, rate, seed)
        assert type(cold[0]) is float
        assert cold[0] not in begun
        begun.add(cold[0])
        assert cold[0] == warm[0]
        assert max(cold) > 5 * cold[0]
        assert max(warm) == warm[0]


def test_a_low_rate_does_not_jump(snippet, rate=0.01, starts=(0, 1)):
    run = snippet.only(
        "imports", "schedule", "more-imports", "model", "begin"
    ).after("begin")

    for start in (0, 12):
        shown = run.begin(start, 0.01)
        assert shown == approx(begun_anew(run, start), rel=1e-3)
    for seed in starts:
        for start in (0, 12):
            low = run.begin(start, rate, seed)
            assert max(low) == low[0]


def test_a_low_rate_does_not_jump__but_not_30_times_as_high(snippet, fails):
    """At a rate 30 times as high, the loss does rise."""
    edited = snippet.edit(
        "optim.AdamW(model.parameters(), lr=rate)\n"
        "    schedule = warm_up_cosine(optimizer, warm, total=60)",
        "optim.AdamW(model.parameters(), lr=30 * rate)\n"
        "    schedule = warm_up_cosine(optimizer, warm, total=60)",
    )
    fails(test_a_low_rate_does_not_jump, edited)


def test_a_low_rate_does_not_jump__ends_at_a_high_one(snippet, fails):
    """At 0.3: the loss rises to more than nine times its first value."""
    fails(test_a_low_rate_does_not_jump, snippet, 0.3)


WARM = "warm_up_cosine(optimizer, warm, total=60)"
ADAMW = "lr=rate)\n    schedule = warm_up_cosine(optimizer, warm"


@edits(
    ("no high rate", ADAMW, ADAMW.replace("rate)", "rate / 30)", 1)),
    ("always a warm-up", WARM, WARM.replace("warm,", "12,")),
    ("never a warm-up", WARM, WARM.replace("warm,", "0,")),
)
def test_a_warm_up_stops_the_jump__but_not_with(snippet, old, new, fails):
    """At a thirtieth of the rate, or with a warm-up both times, nothing jumps;
    with none, both do.
    """
    fails(test_a_warm_up_stops_the_jump, snippet.edit(old, new), 0.3, [1])


def test_a_warm_up_stops_the_jump__but_not_from_one_start(snippet, fails):
    """With `new_model(0)`, both starts are the same one."""
    edited = snippet.edit("new_model(seed), []", "new_model(0), []")
    fails(test_a_warm_up_stops_the_jump, edited, 0.3, [0, 1])


def test_a_warm_up_stops_the_jump__ends_at_a_higher_rate(snippet, fails):
    """At a rate of 30: the loss jumps in spite of the warm-up."""
    fails(test_a_warm_up_stops_the_jump, snippet, 30.0, [1])


def bad_calls(run, metrics, **options):
    """Return at which calls, counted from 1, the rate is lowered."""
    rates = run.follow([*metrics, 0.0], **options)
    return [k for k, step in enumerate(differences(rates), 1) if step < 0]


def test_patience_and_one_more(snippet, patience=2, factor=0.5, times=3):
    run = light(snippet, "plateau")
    assert run.schedule.get_last_lr() == [0.5]
    assert run.schedule.num_bad_epochs == 0
    shown = []
    for _ in range(6):
        run.schedule.step(0.9)
        shown += run.schedule.get_last_lr()
    assert shown == [0.5, 0.5, 0.25, 0.25, 0.25, 0.125]
    metrics = [1.0] * times * (patience + 2)

    rates = run.follow(metrics, patience=patience, factor=factor)
    for call, rate in enumerate(rates):
        lowered = max(0, call - 1) // (patience + 1)
        assert rate == approx(factor**lowered)
    tiny = run.follow([1.0] * 40, patience=0)
    assert tiny[-1] == approx(1e-8, rel=1e-6, abs=0)
    in_a_row = [1.0, *[1.0] * patience, 0.5, *[0.5] * patience, 0.3]
    assert not bad_calls(run, in_a_row, patience=patience, factor=factor)


@pytest.mark.parametrize(
    ("patience", "factor"),
    [(0, 0.1), (5, 0.9)],
    ids=["a tenth at once", "nine tenths after a patience of 5"],
)
def test_patience_and_one_more__also_with(snippet, patience, factor):
    test_patience_and_one_more(snippet, patience, factor)


@edits(
    (
        "a cooldown",
        "(optimizer, **options)",
        "(optimizer, cooldown=1, **options)",
    ),
    (
        "a floor",
        "(optimizer, **options)",
        "(optimizer, min_lr=0.4, **options)",
    ),
    (
        "a larger eps",
        "(optimizer, **options)",
        "(optimizer, eps=0.6, **options)",
    ),
    (
        "another factor",
        "ReduceLROnPlateau(optimizer, **options)",
        'ReduceLROnPlateau(optimizer, **{**options, "factor": 0.6})',
    ),
    (
        "another patience",
        "ReduceLROnPlateau(optimizer, **options)",
        'ReduceLROnPlateau(optimizer, **{**options, "patience": 3})',
    ),
)
def test_patience_and_one_more__but_not_with(snippet, old, new, fails):
    """`cooldown` makes it wait longer, `min_lr` and `eps` keep the rate up;
    another `factor` or `patience` gives other rates.
    """
    fails(test_patience_and_one_more, snippet.edit(old, new))


def test_patience_and_one_more__ends_where_the_rate_would_fall_by_1e_8(
    snippet, fails
):
    """Where the rate would fall by `1e-8` or less: it stays."""
    fails(test_patience_and_one_more, snippet, 2, 0.1, 12)


def test_an_equal_loss_is_bad(snippet, best=0.8):
    run = light(snippet, "plateau")

    assert run.schedule.num_bad_epochs == 0
    shown = 0.7
    for share, bad in ((1.0, 1), (0.99988, 0), (0.99995, 1), (1.0, 2)):
        run.schedule.step(shown * share)
        assert run.schedule.num_bad_epochs == bad
        shown *= 1 if bad else share
    for share, bad in (
        (1.0, True),
        (0.99995, True),
        (0.9998, False),
        (2.0, True),
    ):
        lowered = bad_calls(run, [best, best * share], patience=0)
        assert lowered == ([2] if bad else [])
        beside = [best * 3, best, best * 2, best * share]
        assert bad_calls(run, beside, patience=1) == ([4] if bad else [])


@pytest.mark.parametrize("best", [1e-6, 3.0, 1e5])
def test_an_equal_loss_is_bad__also_after_a_best_loss_of(snippet, best):
    test_an_equal_loss_is_bad(snippet, best)


def test_an_equal_loss_is_bad__but_not_with_a_threshold_below_zero(
    snippet, fails
):
    """With `threshold=-0.1`, an equal loss is good."""
    edited = snippet.edit(
        "ReduceLROnPlateau(optimizer, **options)",
        "ReduceLROnPlateau(optimizer, threshold=-0.1, **options)",
    )
    fails(test_an_equal_loss_is_bad, edited)


def test_an_equal_loss_is_bad__but_not_with_a_larger_threshold(snippet, fails):
    """With `threshold=0.01`, a loss that is 0.02 percent lower is bad as
    well.
    """
    edited = snippet.edit(
        "ReduceLROnPlateau(optimizer, **options)",
        "ReduceLROnPlateau(optimizer, threshold=0.01, **options)",
    )
    fails(test_an_equal_loss_is_bad, edited)


def test_an_equal_loss_is_bad__but_not_by_an_absolute_threshold(
    snippet, fails
):
    """With `threshold_mode="abs"`, the loss has to be more than 0.0001 lower,
    however large it is.
    """
    edited = snippet.edit(
        "ReduceLROnPlateau(optimizer, **options)",
        'ReduceLROnPlateau(optimizer, threshold_mode="abs", **options)',
    )
    fails(test_an_equal_loss_is_bad, edited, 3.0)


def test_an_equal_loss_is_bad__ends_below_zero(snippet, fails):
    """For a loss below 0: an equal one is good."""
    fails(test_an_equal_loss_is_bad, snippet, -1.0)


def test_accuracy_needs_mode_max(snippet, patience=1):
    run = light(snippet, "accuracy-wrong")

    lowered = bad_calls(run, run.accuracies, patience=patience)
    n, calls = len(run.accuracies), range(2 + patience, 9, 1 + patience)
    assert lowered == [k for k in calls if k <= n] != []
    for grown in (run.accuracies, [0.5, 0.5001, 0.5002]):
        with no_error():
            kept = run.follow([*grown, 9.0], patience=0, mode="max")
        assert kept == [1.0] * (len(grown) + 1)


def test_accuracy_needs_mode_max__also_with_another_patience(snippet):
    test_accuracy_needs_mode_max(snippet, 0)
    test_accuracy_needs_mode_max(snippet, 2)


@edits(
    ("shrinking", "[0.5, 0.6, 0.7, 0.8, 0.9]", "[0.9, 0.8, 0.7, 0.6, 0.5]"),
    ("too little", "[0.5, 0.6, 0.7, 0.8, 0.9]", "[0.5, 0.50001, 0.50002]"),
    (
        "min by force",
        "ReduceLROnPlateau(optimizer, **options)",
        'ReduceLROnPlateau(optimizer, **{**options, "mode": "min"})',
    ),
    (
        "max by force",
        "ReduceLROnPlateau(optimizer, **options)",
        'ReduceLROnPlateau(optimizer, **{**options, "mode": "max"})',
    ),
)
def test_accuracy_needs_mode_max__but_not_with(snippet, old, new, fails):
    """A shrinking accuracy looks like a falling loss; and with `mode="max"`,
    growing by 0.00001 is too little.
    """
    fails(test_accuracy_needs_mode_max, snippet.edit(old, new))


def test_the_wrong_order_skips_the_first_rate(snippet):
    with taken_rates() as taken:
        run = light(snippet, "wrong-order")
    assert run.skipped == taken == [0.5, 0.25, 0.125]

    for make in everything(run).values():
        right = run.rates(make, steps=12)
        optimizer = run.new_optimizer()
        schedule, taken = make(optimizer), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(11):
                schedule.step()
                taken.append(optimizer.param_groups[0]["lr"])
                optimizer.step()
        assert taken == approx(right[1:])
        assert taken[0] != right[0] or taken != right[:-1]


def test_the_wrong_order_skips_the_first_rate__but_not_the_right(
    snippet, fails
):
    """With the schedule last, the first optimizer step takes the first
    rate.
    """
    edited = snippet.edit(
        "        schedule.step()\n"
        "        skipped.append(schedule.get_last_lr()[0])\n"
        "        optimizer.step()\n",
        "        skipped.append(schedule.get_last_lr()[0])\n"
        "        optimizer.step()\n"
        "        schedule.step()\n",
    )
    fails(test_the_wrong_order_skips_the_first_rate, edited)


TEXT = "Detected call of `lr_scheduler.step()` before `optimizer.step()`."


def test_the_wrong_order_is_warned_of(snippet, loaded=False):
    run = light(snippet, "wrong-order")
    assert len(run.caught) == 1
    warning = run.caught[0]
    assert str(warning.message).startswith(TEXT)
    assert warning.category is UserWarning

    for make in everything(run).values():
        optimizer = run.new_optimizer()
        schedule = make(optimizer)
        if loaded:
            with recorded():
                schedule.step()
            state, optimizer = schedule.state_dict(), run.new_optimizer()
            schedule = make(optimizer)
            schedule.load_state_dict(state)
        with recorded() as seen:
            for _ in range(3):
                schedule.step()
            optimizer.step()
            schedule.step()
        assert len(seen) == 1
        assert str(seen[0].message).startswith(TEXT)

    with recorded() as seen:
        optimizer = run.new_optimizer()
        run.ReduceLROnPlateau(optimizer).step(1.0)
        optimizer.step()
    assert not seen


def test_the_wrong_order_is_warned_of__but_not_the_right(snippet, fails):
    """With `optimizer.step()` first, no warning comes."""
    edited = snippet.edit(
        "    for _ in range(3):\n        schedule.step()\n",
        "    for _ in range(3):\n        optimizer.step()\n"
        "        schedule.step()\n",
    )
    fails(test_the_wrong_order_is_warned_of, edited)


def test_the_wrong_order_is_warned_of__ends_for_a_state_that_was_loaded(
    snippet, fails
):
    """If the schedule has loaded a state: no warning comes."""
    fails(test_the_wrong_order_is_warned_of, snippet, True)


def test_the_wrong_order_is_warned_of__but_not_on_a_plateau(snippet, fails):
    """`ReduceLROnPlateau` in place of `warm_up_cosine` does not warn."""
    edited = snippet.edit(LAMBDA, "return Plateau(optimizer)").edit(
        "# %% schedule\n",
        "# %% schedule\nclass Plateau("
        "torch.optim.lr_scheduler.ReduceLROnPlateau):\n"
        "    def step(self):\n        super().step(1.0)\n\n\n",
    )
    fails(test_the_wrong_order_is_warned_of, edited)


def scaled(run, gradients, scaler=None, kind=optim.SGD, **options):
    """Step with each gradient; return how often weight and rate changed."""
    scaler = scaler or torch.amp.GradScaler("cpu")
    weight, steps = nn.Parameter(torch.zeros(1)), 0
    optimizer = kind([weight], lr=1.0, **options)
    schedule = ExponentialLR(optimizer, gamma=0.5)
    for gradient in gradients:
        before = weight.item()
        optimizer.zero_grad()
        scaler.scale(weight * gradient).backward()
        run.step_scaled(scaler, optimizer, schedule)
        steps += weight.item() != before
        yield steps, schedule.last_epoch


GUARD = "if scaler.get_scale() >= before > 0:"
INF = float("inf")


def test_a_skipped_first_step_warns(
    snippet, first=INF, kind=optim.SGD, fused=False
):
    edited = snippet.edit(GUARD, "if before:")
    run = light(edited, "scaled")

    given = {"kind": kind, "fused": fused}
    with recorded() as seen:
        *_, (_, counted) = scaled(run, [first, 1.0, INF, 1.0], **given)
    assert len(seen) == 1
    assert str(seen[0].message).startswith(TEXT)
    assert counted == 4

    with recorded() as seen:
        *_, counts = scaled(run, [1.0, INF, INF, 1.0], **given)
    assert not seen
    assert counts == (2, 4)


def test_a_skipped_first_step_warns__also_with_adamw(snippet):
    test_a_skipped_first_step_warns(snippet, kind=optim.AdamW)


def test_a_skipped_first_step_warns__ends_with_a_fused_optimizer(
    snippet, fails
):
    """With `fused=True`: the first skip brings no warning."""
    fails(test_a_skipped_first_step_warns, snippet, INF, optim.SGD, True)


def test_a_skipped_first_step_warns__ends_if_it_is_taken(snippet, fails):
    """If the first step is taken: no warning comes."""
    fails(test_a_skipped_first_step_warns, snippet, 1.0)


def test_a_skipped_first_step_warns__but_not_of_a_later_skip(snippet, fails):
    """A line in `step_scaled` that warns of later skips would add a warning
    for each.
    """
    edited = snippet.edit(
        "    scaler.step(optimizer)\n",
        "    scaler.step(optimizer)\n"
        "    if scaler._per_optimizer_states and before < 60_000:\n"
        '        warnings.warn("a skip", UserWarning, stacklevel=1)\n',
    )
    fails(test_a_skipped_first_step_warns, edited)


def test_the_scale_tells_a_skip(
    snippet, options=None, gradients=None, **of_optimizer
):
    run = light(snippet, "scaled", "skips")
    assert run.schedule.get_last_lr() == [0.25]
    assert run.scaler.get_scale() == 2**14

    each = [INF, 1.0, INF, 1.0], [1.0] * 5, [INF] * 9, [1, INF]
    for some in [gradients] if gradients else each:
        scaler = torch.amp.GradScaler("cpu", **(options or {}))
        for taken, counted in scaled(run, some, scaler, **of_optimizer):
            assert taken == counted


def test_the_scale_tells_a_skip__also_if_the_scale_grows(snippet):
    test_the_scale_tells_a_skip(snippet, {"growth_interval": 1})
    test_the_scale_tells_a_skip(snippet, {"backoff_factor": 0.9})


@pytest.mark.parametrize("scale", [1e-4, 1e-40, 1e-45])
def test_the_scale_tells_a_skip__also_at_a_scale_of(snippet, scale):
    run = light(snippet, "scaled")

    scaler = torch.amp.GradScaler("cpu", scale)
    for taken, counted in scaled(run, [INF] * 200, scaler):
        assert taken == counted == 0
    assert scaler.get_scale() == 0


def test_the_scale_tells_a_skip__also_with_a_disabled_scaler(snippet):
    test_the_scale_tells_a_skip(snippet, {"enabled": False}, gradients=[1, 1])


def test_the_scale_tells_a_skip__also_with_other_optimizers(snippet):
    test_the_scale_tells_a_skip(snippet, fused=True)
    test_the_scale_tells_a_skip(snippet, kind=optim.AdamW)
    test_the_scale_tells_a_skip(snippet, kind=optim.AdamW, fused=True)


@edits(
    ("never asked", GUARD, "if True:"),
    (
        "called twice",
        f"{GUARD}  # else the step was skipped\n",
        f"{GUARD}  # else the step was skipped\n        schedule.step()\n",
    ),
    (
        "asked before the update",
        f"    scaler.update()\n    {GUARD}",
        "    asked = scaler.get_scale()\n    scaler.update()\n"
        "    if asked >= before:",
    ),
    ("always skipped", GUARD, "if scaler.get_scale() > before:"),
)
def test_the_scale_tells_a_skip__but_not_with(snippet, old, new, fails):
    """Without the condition, the schedule steps after skips, too; the other
    edits step twice, ask too early, or never step.
    """
    edited = snippet.edit(old, new)
    edited = edited.edit(
        "# %% skips\n",
        "# %% skips\nwarnings.simplefilter('ignore')\n",
    )
    fails(test_the_scale_tells_a_skip, edited)


def test_the_scale_tells_a_skip__ends_where_a_scale_is_too_small_to_shrink(
    snippet, fails
):
    """Where the scale is so small that it cannot shrink: a skip looks like a
    step that was taken.
    """
    options = {"init_scale": 1e-45, "backoff_factor": 0.9}
    edited = snippet.edit(
        "# %% skips\n",
        "# %% skips\nwarnings.simplefilter('ignore')\n",
    )
    fails(test_the_scale_tells_a_skip, edited, options)


def plans_of(snippet):
    """Return the four plans, and check what they plan for."""
    planning = light(snippet, "never-falls")
    plans = planning.plans
    run = snippet.only("imports", "schedule", "more-imports", "model", "count")
    run = run.after("count")
    assert (run.epochs * len(run.loader), run.total) == (120, 30)
    right, batches, epochs, once = plans.values()

    assert [len(plan) for plan in plans.values()] == [30] * 4
    for plan, total in ((right, 30), (batches, 120), (epochs, 10), (once, 30)):
        assert plan[0] == approx(1 / (total // 10 + 1))
        whole = planned_rates(planning, total, total // 10) + [0.0] * 30
        calls = 3 if plan is once else 1
        assert plan == approx([whole[k // calls] for k in range(30)])
    assert right[-1] < 0.01
    return batches, epochs, once


def test_a_wrong_total_never_falls(snippet):
    assert plans_of(snippet)[0][-1] > 0.9


def test_a_total_of_epochs_ends_early(snippet):
    _, epochs, _ = plans_of(snippet)
    assert min(epochs[:10]) > 0
    assert epochs[10:] == [0] * 20


def test_once_an_epoch_hardly_falls(snippet):
    once = plans_of(snippet)[2]

    assert once[-1] > 0.8
    assert [len([*held]) for _, held in groupby(once)] == [30 // 10] * 10


def test_a_wrong_total_never_falls__but_not_with_the_steps_as_total(
    snippet, fails
):
    """With a `total` of 30, the rate ends near 0."""
    edited = snippet.edit(
        "warm_up_cosine(o, 12, 120)", "warm_up_cosine(o, 12, 30)"
    )
    fails(test_a_wrong_total_never_falls, edited)


@edits(
    (
        "epochs made longer",
        "warm_up_cosine(o, 1, 10)",
        "warm_up_cosine(o, 1, 15)",
    ),
)
def test_a_total_of_epochs_ends_early__but_not_with(snippet, old, new, fails):
    """With a `total` of 15, the rate is 0 only after 15 steps."""
    fails(test_a_total_of_epochs_ends_early, snippet.edit(old, new))


@edits(
    ("called at each step", "every=3", "every=1"),
    (
        "another warm-up",
        "lambda o: warm_up_cosine(o, 3, 30), every=3",
        "lambda o: warm_up_cosine(o, 9, 30), every=3",
    ),
)
def test_once_an_epoch_hardly_falls__but_not_with(snippet, old, new, fails):
    """Called at each step, the rate ends near 0; with a warm-up of 9 calls, it
    has not begun to fall.
    """
    fails(test_once_an_epoch_hardly_falls, snippet.edit(old, new))


def test_one_cycle_ends_with_an_error(snippet, capsys):
    run = light(snippet, "one-cycle-end")

    assert run.calls == 30
    assert "Tried to step 31 times. The specified number" in (
        capsys.readouterr().out
    )
    for total in (2, 17):
        optimizer = run.new_optimizer()
        schedule = OneCycleLR(optimizer, max_lr=0.1, total_steps=total)
        for _ in range(total):
            optimizer.step()
            schedule.step()
        text = f"Tried to step {total + 1} times"
        with pytest.raises(ValueError, match=text):
            schedule.step()


def test_one_cycle_ends_with_an_error__but_not_before(snippet, capsys, fails):
    """A loop of 30 calls raises no error."""
    edited = snippet.edit("while calls < 40:", "while calls < 30:")
    fails(test_one_cycle_ends_with_an_error, edited, capsys)


def test_one_cycle_ends_with_an_error__but_not_the_cosine(
    snippet, capsys, fails
):
    """`CosineAnnealingLR` takes all 40 calls."""
    edited = snippet.edit(
        "schedule = OneCycleLR(optimizer, max_lr=1.0, total_steps=30)",
        "schedule = CosineAnnealingLR(optimizer, T_max=30)",
    )
    fails(test_one_cycle_ends_with_an_error, edited, capsys)


def test_factors_keep_a_rate_set_by_hand(snippet, at=12, leave="OneCycleLR"):
    run = light(snippet, "by-hand")
    assert len(run.kinds) == 6

    for name, make in run.kinds.items():
        planned, halved = run.rates(make), run.halved(make, at=at)
        expected = planned[:at] + [rate / 2 for rate in planned[at:]]
        if name != leave:
            assert halved == approx(expected)


@pytest.mark.parametrize("at", [1, 5, 29])
def test_factors_keep_a_rate_set_by_hand__also_at(snippet, at):
    test_factors_keep_a_rate_set_by_hand(snippet, at)


def test_factors_keep_a_rate_set_by_hand__ends_with_an_eta_min(snippet, fails):
    """With `eta_min` above 0 in `CosineAnnealingLR`: a halved rate does not
    stay half of the planned one.
    """
    edited = snippet.edit("T_max=30", "T_max=30, eta_min=0.1")
    fails(test_factors_keep_a_rate_set_by_hand, edited)


def test_factors_keep_a_rate_set_by_hand__ends_at_t_max(snippet, fails):
    """After call number `T_max` of `CosineAnnealingLR`: it takes the planned
    rates again.
    """
    edited = snippet.edit("T_max=30", "T_max=20")
    fails(test_factors_keep_a_rate_set_by_hand, edited)


@edits(
    (
        "lambda o: StepLR(o, step_size=10, gamma=0.5)",
        "lambda o: warm_up_cosine(o, 3, 30)",
    ),
)
def test_factors_keep_a_rate_set_by_hand__but_not_with(
    snippet, old, new, fails
):
    """`warm_up_cosine` in place of `StepLR` does not look at the rate that it
    finds.
    """
    fails(test_factors_keep_a_rate_set_by_hand, snippet.edit(old, new))


def test_factors_keep_a_rate_set_by_hand__ends_under_one_cycle(snippet, fails):
    """For `OneCycleLR`: it does not look at the rate that it finds."""
    fails(test_factors_keep_a_rate_set_by_hand, snippet, 12, None)


def test_formulas_overwrite_a_rate_set_by_hand(snippet, at=12):
    run = light(snippet, "by-hand")
    makes = everything(run)

    for name in ("warm_up_cosine", "OneCycleLR"):
        planned, halved = run.rates(makes[name]), run.halved(makes[name], at)
        assert halved[at] == approx(planned[at] / 2)
        second = planned[1]
        del planned[at], halved[at]
        assert halved == approx(planned)

        schedule = makes[name](optimizer := run.new_optimizer())
        optimizer.param_groups[0]["lr"] = 0.123
        for _ in range(3):
            assert optimizer.param_groups[0]["lr"] == 0.123
            optimizer.step()
        schedule.step()
        assert optimizer.param_groups[0]["lr"] == approx(second)


@pytest.mark.parametrize("at", [1, 5, 29])
def test_formulas_overwrite_a_rate_set_by_hand__also_at(snippet, at):
    test_formulas_overwrite_a_rate_set_by_hand(snippet, at)


@edits(
    (
        "OneCycleLR(o, max_lr=1.0, total_steps=30)",
        "CosineAnnealingLR(o, T_max=30)",
    ),
    (LAMBDA, "return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)"),
)
def test_formulas_overwrite_a_rate_set_by_hand__but_not(
    snippet, old, new, fails
):
    """`CosineAnnealingLR` and `ExponentialLR` in their place continue from the
    halved rate.
    """
    fails(test_formulas_overwrite_a_rate_set_by_hand, snippet.edit(old, new))


def test_base_rates_scale_the_curve(snippet):
    run = light(snippet, "base-rates")
    planned = run.rates(lambda o: run.warm_up_cosine(o, 3, 30))

    assert run.schedule.last_epoch == 1
    taken = []
    for _ in range(29):
        taken.append(run.optimizer.param_groups[0]["lr"])
        run.optimizer.step()
        run.schedule.step()
    assert taken == approx([rate / 2 for rate in planned[1:]])


def test_base_rates_scale_the_curve__but_not_a_cosine(snippet, fails):
    """`CosineAnnealingLR` continues from the rate itself, and does not look at
    `base_lrs`.
    """
    edited = snippet.edit(
        "schedule = warm_up_cosine(optimizer, warm=3, total=30)\n"
        "schedule.base",
        "schedule = CosineAnnealingLR(optimizer, T_max=30)\nschedule.base",
    )
    fails(test_base_rates_scale_the_curve, edited)


def test_base_rates_scale_the_curve__but_not_the_rate(snippet, fails):
    """If you halve the rate in the group instead, the next `step()` writes the
    whole one again.
    """
    edited = snippet.edit(
        "schedule.base_lrs = [rate / 2 for rate in schedule.base_lrs]",
        'optimizer.param_groups[0]["lr"] /= 2',
    )
    fails(test_base_rates_scale_the_curve, edited)


def planned_rates(run, total=30, warm=3):
    return run.rates(lambda o: run.warm_up_cosine(o, warm, total), steps=total)


def test_resume_goes_on(snippet, steps=12):
    edited = snippet
    if steps != 12:
        edited = snippet.edit("range(12)", f"range({steps})")
    run = light(edited, *RESUMED)

    expected = planned_rates(run)[steps : steps + 5]
    torch.save(run.saved, file := io.BytesIO())
    assert run.next_rates(*run.resume()) == expected
    file.seek(0)
    run.saved.update(torch.load(file))
    assert run.next_rates(*run.resume()) == expected


@pytest.mark.parametrize("steps", [1, 3, 25])
def test_resume_goes_on__also_after(snippet, steps):
    test_resume_goes_on(snippet, steps)


@edits(
    (
        'total=total)\n    optimizer.load_state_dict(saved["optimizer"])\n',
        "total=total)\n",
    ),
    (
        "total=total)\n"
        '    optimizer.load_state_dict(saved["optimizer"])\n'
        '    schedule.load_state_dict(saved["schedule"])\n',
        'total=total)\n    optimizer.load_state_dict(saved["optimizer"])\n',
    ),
)
def test_resume_goes_on__but_not_without_a_state(snippet, old, new, fails):
    """Without the state of the optimizer, the first rate is wrong; without
    that of the schedule, all but the first.
    """
    fails(test_resume_goes_on, snippet.edit(old, new))


def test_a_forgotten_schedule_begins_again(snippet, steps=12):
    edited = snippet
    if steps != 12:
        edited = snippet.edit("range(12)", f"range({steps})")
    run = light(edited, *RESUMED)
    planned = planned_rates(run)

    first, *later = run.next_rates(*run.forget())
    assert first == planned[steps]
    assert later == planned[1:5]
    assert later[0] < later[1] < later[2]


@pytest.mark.parametrize("steps", [3, 25])
def test_a_forgotten_schedule_begins_again__also_after(snippet, steps):
    test_a_forgotten_schedule_begins_again(snippet, steps)


def test_a_forgotten_schedule_begins_again__but_not_if_loaded(snippet, fails):
    """With the state of the schedule loaded, the warm-up does not begin
    again.
    """
    edited = snippet.edit(
        '    optimizer.load_state_dict(saved["optimizer"])\n'
        "    return optimizer, schedule\n",
        '    optimizer.load_state_dict(saved["optimizer"])\n'
        '    schedule.load_state_dict(saved["schedule"])\n'
        "    return optimizer, schedule\n",
    )
    fails(test_a_forgotten_schedule_begins_again, edited)


def test_a_late_schedule_writes_its_first_rate(snippet, factor=0.1):
    edited = snippet.edit("start_factor=0.1", f"start_factor={factor}")
    run = light(edited, *RESUMED)
    planned = planned_rates(run)

    first, *later = run.next_rates(*run.make_late())
    assert first == planned[0] != planned[12]
    assert later == planned[13:17]

    make = run.kinds["LinearLR"]
    for steps in (1, 6, 20):
        stopped = make(before := run.new_optimizer())
        for _ in range(steps):
            before.step()
            stopped.step()
        optimizer = run.new_optimizer()
        optimizer.load_state_dict(before.state_dict())
        schedule = make(optimizer)
        schedule.load_state_dict(stopped.state_dict())
        late = run.next_rates(optimizer, schedule)
        expected = [factor * rate for rate in run.rates(make)[steps:][:5]]
        assert late == approx(expected)


def test_a_late_schedule_writes_its_first_rate__but_not_in_time(
    snippet, fails
):
    """Made before the optimizer is loaded, it takes the right rate from the
    first step on.
    """
    edited = snippet.edit(
        "def make_late():\n"
        "    optimizer = new_optimizer()\n"
        '    optimizer.load_state_dict(saved["optimizer"])\n'
        "    schedule = warm_up_cosine(optimizer, warm=3, total=30)\n",
        "def make_late():\n"
        "    optimizer = new_optimizer()\n"
        "    schedule = warm_up_cosine(optimizer, warm=3, total=30)\n"
        '    optimizer.load_state_dict(saved["optimizer"])\n',
    )
    fails(test_a_late_schedule_writes_its_first_rate, edited)


def test_a_late_schedule_writes_its_first_rate__also_with_a_half(snippet):
    test_a_late_schedule_writes_its_first_rate(snippet, 0.5)


def test_a_late_schedule_writes_its_first_rate__but_not_under_a_step_lr(
    snippet, fails
):
    """`StepLR` in place of `LinearLR` leaves the rate as it finds it."""
    edited = snippet.edit(
        "lambda o: LinearLR(o, start_factor=0.1, total_iters=10)",
        "lambda o, start_factor=0.1: StepLR(o, 10)",
    )
    fails(test_a_late_schedule_writes_its_first_rate, edited)


def test_a_late_schedule_writes_its_first_rate__but_not_for_more_steps(
    snippet, fails
):
    """Without the state of the schedule, the later steps get its second rate,
    its third, and so on.
    """
    edited = snippet.edit(
        '    schedule.load_state_dict(saved["schedule"])\n'
        "    return optimizer, schedule\n\n\n# %% next",
        "    return optimizer, schedule\n\n\n# %% next",
    )
    fails(test_a_late_schedule_writes_its_first_rate, edited)


MADE = {
    StepLR: {"step_size": 3},
    MultiStepLR: {"milestones": [3]},
    ExponentialLR: {"gamma": 0.5},
    CosineAnnealingLR: {"T_max": 30},
    LinearLR: {},
    OneCycleLR: {"max_lr": 1.0, "total_steps": 30},
}


def test_last_epoch_needs_an_initial_rate(snippet, capsys):
    run = light(snippet, "save", "resume", "last-epoch")
    text = "param 'initial_lr' is not specified in param_groups[0]"
    assert text in capsys.readouterr().out

    for kind, options in MADE.items():
        assert any(
            isinstance(m(two_groups()), kind) for m in run.kinds.values()
        )
        for last in (0, 11):
            with pytest.raises(KeyError, match="'initial_lr' is not"):
                kind(run.new_optimizer(), last_epoch=last, **options)


@edits(
    ("last_epoch=11", "last_epoch=-1"),
    (
        "StepLR(new_optimizer(), step_size=10, last_epoch=11)",
        "StepLR(resume()[0], step_size=10, last_epoch=11)",
    ),
)
def test_last_epoch_needs_an_initial_rate__but_not_with(
    snippet, old, new, capsys, fails
):
    """With `last_epoch=-1`, or for an optimizer that was loaded, there is no
    error.
    """
    edited = snippet.edit(old, new)
    fails(test_last_epoch_needs_an_initial_rate, edited, capsys)


def test_plateau_needs_its_metric(snippet, capsys):
    light(snippet, "no-metric")

    text = "missing 1 required positional argument: 'metrics'"
    assert text in capsys.readouterr().out


def test_plateau_needs_its_metric__but_not_with_one(snippet, capsys, fails):
    """With a metric, there is no error."""
    edited = snippet.edit(
        "ReduceLROnPlateau(new_optimizer()).step()",
        "ReduceLROnPlateau(new_optimizer()).step(1.0)",
    )
    fails(test_plateau_needs_its_metric, edited, capsys)


def test_plateau_needs_its_metric__but_not_another(snippet, capsys, fails):
    """A `LinearLR` in its place raises no error."""
    edited = snippet.edit(
        "ReduceLROnPlateau(new_optimizer()).step()",
        "LinearLR(new_optimizer())",
    )
    fails(test_plateau_needs_its_metric, edited, capsys)


def test_the_state_holds_no_curve(snippet, total=60, warm=3):
    old = "warm=3, total=total"
    run = light(snippet.edit(old, f"warm={warm}, total=total"), *RESUMED)

    first, *later = run.next_rates(*run.resume(total=total))
    assert first == planned_rates(run)[12]
    assert later == planned_rates(run, total, warm)[13:17]
    assert later != planned_rates(run)[13:17]


def test_the_state_holds_no_curve__also_with_a_shorter_one(snippet):
    test_the_state_holds_no_curve(snippet, 20)


def test_the_state_holds_no_curve__also_with_a_longer_warm_up(snippet):
    test_the_state_holds_no_curve(snippet, 30, warm=6)


def test_the_state_holds_no_curve__but_not_a_cosine(snippet, fails):
    """The state of `CosineAnnealingLR` holds `T_max`, so it stays on the old
    curve.
    """
    edited = snippet.edit(
        LAMBDA,
        "return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)",
    )
    fails(test_the_state_holds_no_curve, edited)


def test_the_state_holds_no_curve__but_not_of_a_callable_object(
    snippet, fails
):
    """If the curve is an object and not a function, its numbers are in the
    state, and it stays on the old curve.
    """
    edited = snippet.edit(
        LAMBDA,
        "return LambdaLR(optimizer, Share(warm, total))\n\n\nclass Share:\n"
        "    def __init__(self, warm, total):\n"
        "        self.warm, self.total = warm, total\n\n"
        "    def __call__(self, step):\n"
        "        return max(0, 1 - step / self.total)",
    )
    fails(test_the_state_holds_no_curve, edited)


def test_one_cycle_brings_a_momentum(snippet):
    run = light(snippet)
    optimizer, seen = run.new_optimizer(), []
    assert optimizer.param_groups[0]["momentum"] == 0

    schedule = run.kinds["OneCycleLR"](optimizer)
    for _ in range(30):
        seen.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        schedule.step()
    assert (min(seen), max(seen)) == approx((0.85, 0.95))
    optimizer = run.new_optimizer()
    schedule = OneCycleLR(optimizer, 1.0, 30, cycle_momentum=False)
    for _ in range(30):
        assert optimizer.param_groups[0]["momentum"] == 0
        optimizer.step()
        schedule.step()


@edits(
    ("total_steps=30", "total_steps=30, cycle_momentum=False"),
    ("total_steps=30", "total_steps=30, max_momentum=0.9"),
    ("total_steps=30", "total_steps=30, base_momentum=0.5"),
)
def test_one_cycle_brings_a_momentum__but_not_with(snippet, old, new, fails):
    """With `cycle_momentum=False`, it stays 0; `max_momentum` and
    `base_momentum` change its limits.
    """
    passage = "lambda o: OneCycleLR(o, max_lr=1.0, total_steps=30)"
    edited = snippet.edit(passage, passage.replace(old, new))
    fails(test_one_cycle_brings_a_momentum, edited)


def test_a_negative_loss_is_never_bad(snippet, loss=-1.0):
    run = light(snippet)

    assert run.follow([loss] * 50) == [1.0] * 50
    lowered = run.follow([loss] * 50, threshold_mode="abs")
    assert lowered[-1] < 0.01


def test_a_negative_loss_is_never_bad__also_for_a_loss_of_minus_300(snippet):
    test_a_negative_loss_is_never_bad(snippet, -300.0)


def test_a_negative_loss_is_never_bad__ends_for_a_positive_one(snippet, fails):
    """For a positive loss that stays the same: it lowers the rate."""
    fails(test_a_negative_loss_is_never_bad, snippet, 1.0)


def test_a_negative_loss_is_never_bad__but_not_with_a_threshold_below_zero(
    snippet, fails
):
    """With `threshold=-0.1`, it lowers the rate for a negative loss as
    well.
    """
    edited = snippet.edit(
        "ReduceLROnPlateau(optimizer, **options)",
        "ReduceLROnPlateau(optimizer, threshold=-0.1, **options)",
    )
    fails(test_a_negative_loss_is_never_bad, edited)


def test_a_negative_loss_is_never_bad__but_not_relative(snippet, fails):
    """With `threshold_mode="rel"` in its place, it never does."""
    edited = snippet.edit(
        "ReduceLROnPlateau(optimizer, **options)",
        'ReduceLROnPlateau(optimizer, **{**options, "threshold_mode": "rel"})',
    )
    fails(test_a_negative_loss_is_never_bad, edited)
