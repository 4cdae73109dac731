"""The claims of gallery/learning_rate_schedules.py."""

import math
from functools import cache
from itertools import pairwise

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from extensions.evidence.counterexamples import edits
from tests.helpers.recipes import (
    as_script,
    check_arguments,
    check_refused,
    given,
    told,
)

pytest.importorskip("tqdm", reason="tqdm is not installed")

from_another = pytest.mark.parametrize("number", [7], ids="start {}".format)
FALLING = {
    "StepLR",
    "ExponentialLR",
    "CosineAnnealingLR",
    "OneCycleLR",
    "warm-up, then cosine",
}


FIRST = ("settings", "options", "setup")
ARGUMENTS = {
    "STEPS": (["--steps", "70"], 70),
    "RATE": (["--rate", "0.5"], 0.5),
    "WARM_UP": (["--warm-up", "7"], 7),
    "STEP_SIZE": (["--step-size", "8"], 8),
    "LAST": (["--last", "0.25"], 0.25),
    "BATCH": (["--batch", "3"], 3),
    "START": (["--start", "5"], 5),
}


def start(snippet, number):
    return given(snippet, START=number)


@cache
def curved(snippet):
    """Return the variables of a program that has drawn its six curves."""
    return snippet.after("curves")


# -- Settings ----------------------------------------------------------------


def test_each_argument_sets_its_constant(snippet):
    check_arguments(snippet, ARGUMENTS)


@edits(
    ("default=BATCH", "default=9"),
    ("STEPS, RATE, START = options", "STEPS, START, RATE = options"),
    ("LAST, BATCH = options", "LAST, _ = options"),
    ('if "__file__" in globals():', "if True:"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With `default=9`, `BATCH` changes without its argument; the other edits
    swap or lose values, or read arguments in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_a_number_out_of_bounds_is_refused(snippet):
    check_refused(
        snippet,
        [
            ["--steps", "19", "--warm-up", "1"],
            *(["--warm-up", number] for number in ("0", "300", "-1")),
            *(["--rate", number] for number in ("0", "-1", "inf", "nan")),
            *(["--last", number] for number in ("0", "1.1", "nan")),
            ["--batch", "0"],
            ["--step-size", "0"],
            ["--start", "-1"],
        ],
    )


@pytest.mark.parametrize(
    "words", [["--warm-up", "1"], ["--start", "0"]], ids=" ".join
)
def test_a_number_out_of_bounds_is_refused__also_where_this_is_not(
    snippet, words
):
    names = {"--warm-up": "WARM_UP", "--start": "START"}
    name = names[words[0]]
    assert told(as_script(snippet), words, [name]) == {name: int(words[1])}


@edits(
    ("options.steps < 20", "options.steps < 19"),
    ("options.warm_up < options.steps", "options.warm_up <= options.steps"),
    ("options.batch < 1", "options.batch < 0"),
    ("options.step_size < 1", "options.step_size < 0"),
    ('options.rate < float("inf")', "options.rate"),
    ("not 0 < options.last <= 1", "not 0 < options.last"),
    ("options.start < 0", "options.start < -1"),
    ('"--batch and --step-size', '"batch and --step-size'),
)
def test_a_number_out_of_bounds_is_refused__but_not_with(
    snippet, old, new, fails
):
    """With `< 19`, 19 steps are accepted; the other edits accept other bad
    numbers, or do not name the argument.
    """
    fails(test_a_number_out_of_bounds_is_refused, snippet.edit(old, new))


# -- Where they end ----------------------------------------------------------


def test_the_scheduler_is_all_that_differs(snippet):
    run, seen, settings = given(snippet, STEPS=60).after("train"), [], []
    randint, step = torch.randint, torch.optim.SGD.step

    def drawn(*given):
        seen[-1].append(randint(*given))
        return seen[-1][-1]

    def stepped(optimizer, *given):
        [group] = optimizer.param_groups
        if len(seen[-1]) == 1:
            [weight] = group["params"]
            seen[-1].append(weight.detach().clone())
        options = {key: group[key] for key in ("momentum", "weight_decay")}
        settings.append((type(optimizer), options))
        return step(optimizer, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "randint", drawn)
        patch.setattr(torch.optim.SGD, "step", stepped)
        for make in run.schedules.values():
            torch.rand(3)  # as if more had been drawn before
            seen.append([])
            run.train(make)

    assert len(seen) == 6
    for own in seen:
        assert len(own) == 1 + run.STEPS
        assert all(map(torch.equal, own, seen[0]))
        assert not torch.equal(own[0], own[2])
    assert all(each == settings[0] for each in settings)


@edits(
    ("    torch.manual_seed(START)\n", ""),
    (
        "(512, (BATCH,))",
        "(512, (BATCH + (optimizer.param_groups[0]['lr'] < 0.1),))",
    ),
)
def test_the_scheduler_is_all_that_differs__but_not_with(
    snippet, old, new, fails
):
    """Without the seed, each schedule starts from other weights; in the second
    edit, the batch depends on the rate.
    """
    fails(test_the_scheduler_is_all_that_differs, snippet.edit(old, new))


def mean_of_the_end(losses):
    return torch.tensor(losses[-50:], dtype=torch.float64).mean().item()


def test_falling_rates_end_five_times_as_close(snippet, number=2):
    run = curved(start(snippet, number))

    ends = {name: mean_of_the_end(run.curves[name][1]) for name in run.curves}
    assert ends == pytest.approx(run.ends)
    assert run.curves["constant"][0] == [0.2] * 300
    constant = ends.pop("constant")
    assert ends.keys() == FALLING
    assert all(run.curves[name][0][-1] < 0.02 for name in FALLING)
    assert constant > 1e-4  # more than rounding, which may be below zero
    assert all(5 * end < constant for end in ends.values())


@from_another
def test_falling_rates_end_five_times_as_close__also_from(snippet, number):
    test_falling_rates_end_five_times_as_close(snippet, number)


def test_falling_rates_end_five_times_as_close__ends_with_all_samples(
    snippet, fails
):
    """With all samples in each step: then the constant rate ends at the best
    loss as well, up to rounding.
    """
    edited = snippet.edit("torch.randint(512, (BATCH,))", "torch.arange(512)")
    fails(test_falling_rates_end_five_times_as_close, edited)


@edits(
    ("LAST = 0.01", "LAST = 0.5"),
    (", cycle_momentum=False", ""),
)
def test_falling_rates_end_five_times_as_close__but_not_with(
    snippet, old, new, fails
):
    """With `LAST = 0.5`, `ExponentialLR` falls only to half; with its own
    momentum, `OneCycleLR` diverges.
    """
    fails(test_falling_rates_end_five_times_as_close, snippet.edit(old, new))


def test_the_closest_depends_on_the_start(snippet):
    runs = [curved(start(snippet, number)) for number in (2, 7)]

    closest = [min(run.ends, key=run.ends.get) for run in runs]
    assert closest == ["ExponentialLR", "StepLR"]
    for run in runs:
        own = {name: run.curves[name][1] for name in run.curves}
        ends = {name: mean_of_the_end(losses) for name, losses in own.items()}
        assert ends == pytest.approx(run.ends)


def test_the_closest_depends_on_the_start__but_not_from_one_start(
    snippet, fails
):
    """With `manual_seed(2)`, both starts are the same run, so the same
    schedule ends closest.
    """
    edited = snippet.edit("manual_seed(START)", "manual_seed(2)")
    fails(test_the_closest_depends_on_the_start, edited)


def test_the_conclusion_names_the_closest(snippet):
    edited = snippet.edit(
        'print(conclusion(ends, curves["constant"][1][0]))', ""
    )
    say = edited.only("conclusion").after("conclusion").conclusion

    for name in FALLING:
        ends = dict.fromkeys([*FALLING, "constant"], 2.0) | {name: 0.5}
        assert say(ends, 3.0) == (
            f"{name} ended closest, 4 times as close as constant."
        )
        assert say(ends, 1.0) == say(ends, 3.0)  # the others ended farther
    ends["constant"] = 0.25
    assert say(ends, 3.0).startswith("Not here: the constant")
    for first in (0.25, 0.1):
        assert say(ends, first).startswith("Not here: none ended")
    lost = dict.fromkeys(ends, float("nan"))
    assert say(lost, 3.0).startswith("Not here: none ended")


@edits(
    ("min(ends, key=ends.get)", "max(ends, key=ends.get)"),
    ("if not ends[name] < first:", "if not ends[name] <= first:"),
    ('if name == "constant":', 'if name == "StepLR":'),
    ('ends["constant"] / ends[name]', 'ends["StepLR"] / ends[name]'),
)
def test_the_conclusion_names_the_closest__but_not_with(
    snippet, old, new, fails
):
    """With `max()`, it names the schedule that ends farthest away; the other
    edits move a limit, or mix up schedules.
    """
    fails(test_the_conclusion_names_the_closest, snippet.edit(old, new))


# -- The shapes --------------------------------------------------------------

# What a claim leaves open; some shapes do not end within the steps.
OTHERS = (
    {"STEPS": 20, "WARM_UP": 1, "STEP_SIZE": 7, "RATE": 3.0, "LAST": 0.5},
    {"STEPS": 70, "WARM_UP": 69, "STEP_SIZE": 69, "RATE": 1e-4, "LAST": 1.0},
    {"STEPS": 40, "WARM_UP": 10, "STEP_SIZE": 900, "RATE": 0.1, "LAST": 1e-5},
)
others = pytest.mark.parametrize(
    "settings", OTHERS, ids=["20 steps", "70 steps", "40 steps"]
)


def rates_of(snippet, name):
    """Return the rates of a schedule, and the variables of the program."""
    run, used = snippet.after("train"), []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: used.append(optimizer.param_groups[0]["lr"])
    )
    try:
        rates = run.train(run.schedules[name])[0]
    finally:
        hook.remove()
    assert len(rates) == run.STEPS
    assert rates == used  # what is listed is what the steps took
    return rates, run


def test_step_lr_falls_at_100_and_200(snippet):
    rates, run = rates_of(snippet, "StepLR")

    expected = [
        run.RATE / 10 ** (each // run.STEP_SIZE) for each in range(run.STEPS)
    ]
    assert rates == pytest.approx(expected)
    if run.STEPS == 300:
        expected = [0.2] * 100 + [0.02] * 100 + [0.002] * 100
        assert rates == pytest.approx(expected)


@others
def test_step_lr_falls_at_100_and_200__also_with(snippet, settings):
    test_step_lr_falls_at_100_and_200(given(snippet, **settings))


@edits(("step_size=STEP_SIZE", "step_size=99"), ("gamma=0.1", "gamma=0.2"))
def test_step_lr_falls_at_100_and_200__but_not_with(snippet, old, new, fails):
    """With `step_size=99`, the rate falls too early; with `gamma=0.2`, it is
    divided by five.
    """
    fails(test_step_lr_falls_at_100_and_200, snippet.edit(old, new))


def test_one_cycle_peaks_at_its_third(snippet):
    rates, run = rates_of(snippet, "OneCycleLR")

    peak = 3 * run.STEPS // 10 - 1  # of the steps counted from 0
    assert run.STEPS != 300 or peak == 89
    assert rates[peak] == pytest.approx(run.RATE)
    assert max(rates[:peak] + rates[peak + 1 :]) < rates[peak]


@others
def test_one_cycle_peaks_at_its_third__also_with(snippet, settings):
    test_one_cycle_peaks_at_its_third(given(snippet, **settings))


def test_one_cycle_peaks_at_its_third__also_in_what_the_program_prints(
    snippet, capsys
):
    run = snippet.after("shapes")
    rates, _ = run.curves["OneCycleLR"]
    step = 1 + max(range(len(rates)), key=rates.__getitem__)
    printed = capsys.readouterr().out.splitlines()[-1]
    assert f"'OneCycleLR': {step}," in printed


@edits(
    (
        "a later peak",
        ", cycle_momentum=False",
        ", cycle_momentum=False, pct_start=0.5",
    ),
    (
        "a fixed peak",
        "max_lr=RATE, total_steps=STEPS, c",
        "max_lr=1, total_steps=STEPS, c",
    ),
)
def test_one_cycle_peaks_at_its_third__but_not_with(snippet, old, new, fails):
    """`pct_start=0.5` moves the peak to the middle, and `max_lr=1` makes it
    higher.
    """
    fails(test_one_cycle_peaks_at_its_third, snippet.edit(old, new))


def test_the_warm_up_ends_at_the_highest_rate(snippet):
    rates, run = rates_of(snippet, "warm-up, then cosine")

    assert rates[0] == pytest.approx(run.RATE / 10)
    assert rates[run.WARM_UP] == pytest.approx(run.RATE) == max(rates)
    rising, falling = rates[: run.WARM_UP + 1], rates[run.WARM_UP :]
    expected = [0.1 + 0.9 * step / run.WARM_UP for step in range(len(rising))]
    assert [rate / run.RATE for rate in rising] == pytest.approx(expected)
    assert all(b > a for a, b in pairwise(rising))
    assert all(b < a for a, b in pairwise(falling))
    cosine = [
        math.cos(math.pi * k / len(falling)) for k in range(len(falling))
    ]
    expected = [run.RATE * (1 + each) / 2 for each in cosine]
    assert falling == pytest.approx(expected)


@others
def test_the_warm_up_ends_at_the_highest_rate__also_with(snippet, settings):
    test_the_warm_up_ends_at_the_highest_rate(given(snippet, **settings))


@edits(
    ("start_factor=0.1", "start_factor=0.2"),
    ("total_iters=WARM_UP", "total_iters=9"),
    ("milestones=[WARM_UP]", "milestones=[40]"),
    ("T_max=STEPS - WARM_UP", "T_max=99"),
)
def test_the_warm_up_ends_at_the_highest_rate__but_not_with(
    snippet, old, new, fails
):
    """`start_factor=0.2` begins with a fifth of the rate; the other edits end
    the warm-up or the cosine at another step.
    """
    fails(test_the_warm_up_ends_at_the_highest_rate, snippet.edit(old, new))


def test_exponential_lr_ends_at_its_last(snippet):
    rates, run = rates_of(snippet, "ExponentialLR")

    factors = [b / a for a, b in pairwise(rates)]
    assert rates[0] == run.RATE
    assert factors == pytest.approx([factors[0]] * (run.STEPS - 1))
    after = rates[-1] * factors[0]
    assert after == pytest.approx(run.RATE * run.LAST)
    assert run.STEPS != 300 or after == pytest.approx(0.002)


@others
def test_exponential_lr_ends_at_its_last__also_with(snippet, settings):
    test_exponential_lr_ends_at_its_last(given(snippet, **settings))


@edits(
    ("LAST ** (1 / STEPS)", "0.985"),
    ("gamma=LAST ** (1 / STEPS)", "gamma=LAST ** 0.01"),
)
def test_exponential_lr_ends_at_its_last__but_not_with(
    snippet, old, new, fails
):
    """With a `gamma` that ignores the number of steps, it ends at another
    rate.
    """
    fails(test_exponential_lr_ends_at_its_last, snippet.edit(old, new))


def test_all_but_the_constant_rate_end_low(snippet):
    run = curved(snippet)
    lasts = {name: rates for name, (rates, _) in run.curves.items()}

    low = {name for name, rates in lasts.items() if rates[-1] < run.RATE / 10}
    assert low == FALLING
    assert lasts["constant"] == [run.RATE] * run.STEPS
    assert all(max(rates) <= run.RATE for rates in lasts.values())


def test_all_but_the_constant_rate_end_low__also_of_210_steps(snippet):
    test_all_but_the_constant_rate_end_low(
        given(snippet, STEPS=210, RATE=0.05, WARM_UP=100)
    )


@edits(
    ("lambda step: 1.0)", "lambda step: 0.99**step)"),
    ("gamma=0.1", "gamma=0.5"),
    ("T_max=STEPS - WARM_UP", "T_max=2 * STEPS"),
)
def test_all_but_the_constant_rate_end_low__but_not_with(
    snippet, old, new, fails
):
    """With `0.99**step`, the constant rate ends low, too; the other edits let
    `StepLR` or the cosine end high.
    """
    fails(test_all_but_the_constant_rate_end_low, snippet.edit(old, new))


def test_all_but_the_constant_rate_end_low__ends_before_step_lr_steps(
    snippet, fails
):
    """With only 90 steps: `StepLR` has not fallen yet."""
    few = given(snippet, STEPS=90)
    fails(test_all_but_the_constant_rate_end_low, few)


# -- High or low -------------------------------------------------------------


def test_a_constant_rate_is_too_high_or_too_low(snippet, number=2):
    program = start(snippet, number).only(*FIRST, "train", "rates")
    ends = program.after("rates").constants

    assert list(ends) == [1.0, 0.1, 0.001]
    assert ends[1.0] > 1e-4  # more than rounding
    assert ends[1.0] > 5 * ends[0.1]
    assert ends[0.001] > 5 * ends[0.1]


@from_another
def test_a_constant_rate_is_too_high_or_too_low__also_from(snippet, number):
    test_a_constant_rate_is_too_high_or_too_low(snippet, number)


@edits(
    ("torch.randint(512, (BATCH,))", "torch.arange(512)"),
    ("in tqdm(range(STEPS),", "in tqdm(range(9),"),
)
def test_a_constant_rate_is_too_high_or_too_low__but_not_with(
    snippet, old, new, fails
):
    """With all samples in each step, the high rate ends at the best loss;
    after only nine steps, it is still ahead.
    """
    fails(test_a_constant_rate_is_too_high_or_too_low, snippet.edit(old, new))


def test_a_high_rate_is_closer_at_first(snippet, number=2):
    kept = start(snippet, number).edit(
        "    _, losses = train(constant(factor))\n",
        "    found[factor] = _, losses = train(constant(factor))\n",
    )
    kept = kept.edit("constants = {}\n", "constants, found = {}, {}\n")
    found = kept.only(*FIRST, "train", "rates").after("rates").found

    for factor, (rates, _) in found.items():
        assert rates == [factor * 0.2] * 300
    after_ten = {factor: losses[9] for factor, (_, losses) in found.items()}
    assert sorted(after_ten, key=after_ten.get) == [1.0, 0.1, 0.001]
    spread = {
        factor: torch.tensor(losses[-50:]).std().item()
        for factor, (_, losses) in found.items()
    }
    assert spread[1.0] > 1e-4  # more than rounding
    assert spread[1.0] > 5 * spread[0.1]


@from_another
def test_a_high_rate_is_closer_at_first__also_from(snippet, number):
    test_a_high_rate_is_closer_at_first(snippet, number)


@edits(
    ("torch.randint(512, (BATCH,))", "torch.arange(512)"),
    ("lambda step: factor", "lambda step: 0.02"),
)
def test_a_high_rate_is_closer_at_first__but_not_with(
    snippet, old, new, fails
):
    """With all samples in each step, the high rate does not wander; with a
    fixed factor, all three rates are the same.
    """
    fails(test_a_high_rate_is_closer_at_first, snippet.edit(old, new))


def momenta(run):
    """Return the momentum of each step under the last schedule."""
    found = []
    step = torch.optim.SGD.step

    def noting(optimizer, *given):
        found.append(optimizer.param_groups[0]["momentum"])
        return step(optimizer, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.SGD, "step", noting)
        after = run.only(*FIRST, "train", "momentum").after("momentum")
    return found, after


def test_one_cycle_gives_a_momentum(snippet):
    found, _ = momenta(snippet)

    assert len(found) == 300
    assert min(found) == pytest.approx(0.85)
    assert max(found) == pytest.approx(0.95)


@edits(
    (
        "OneCycleLR(o, max_lr=RATE, total_steps=STEPS)",
        "CosineAnnealingLR(o, STEPS)",
    ),
)
def test_one_cycle_gives_a_momentum__but_not_with(snippet, old, new, fails):
    """`CosineAnnealingLR` leaves the momentum alone."""
    fails(test_one_cycle_gives_a_momentum, snippet.edit(old, new))


def test_one_cycle_with_its_momentum_diverges(snippet, number=2):
    program = start(snippet, number).only(*FIRST, "train", "momentum")
    losses = program.after("momentum").diverged

    assert max(losses) > 100 * losses[0]
    assert losses[-1] > losses[0]


def test_one_cycle_with_its_momentum_diverges__also_in_what_the_program_prints(
    snippet, capsys
):
    program = start(snippet, 2)
    first = 'print(f"first {'
    for edited, words in (
        (program, "it diverges"),
        (program.edit(first, f"diverged = [2, 9, 5]\n{first}"), "it diverges"),
        (
            program.edit(
                "total_steps=STEPS)\n",
                "total_steps=STEPS, cycle_momentum=False)\n",
            ),
            "not here",
        ),
    ):
        capsys.readouterr()
        edited.only(*FIRST, "train", "momentum").after("momentum")
        assert capsys.readouterr().out.endswith(f": {words}\n")


@from_another
def test_one_cycle_with_its_momentum_diverges__also_from(snippet, number):
    test_one_cycle_with_its_momentum_diverges(snippet, number)


def test_one_cycle_with_its_momentum_diverges__ends_at_a_tenth_of_the_rate(
    snippet, fails
):
    """At a tenth of the rate: the loss never rises above the first."""
    old = "max_lr=RATE, total_steps=STEPS)\n"
    edited = snippet.edit(old, old.replace("RATE", "RATE / 10"))
    fails(test_one_cycle_with_its_momentum_diverges, edited)


@edits(
    ("total_steps=STEPS)\n", "total_steps=STEPS, cycle_momentum=False)\n"),
)
def test_one_cycle_with_its_momentum_diverges__but_not_with(
    snippet, old, new, fails
):
    """With `cycle_momentum=False`, the loss never rises above the first."""
    edited = snippet.edit(old, new)
    fails(test_one_cycle_with_its_momentum_diverges, edited)
