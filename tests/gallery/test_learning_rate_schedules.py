"""The claims of gallery/learning_rate_schedules.py."""

from functools import cache

import pytest
import torch

from extensions.files.failures import edits

STARTS = (2, 4, 7)
FALLING = {
    "StepLR",
    "ExponentialLR",
    "CosineAnnealingLR",
    "OneCycleLR",
    "warm-up, then cosine",
}


def start(snippet, number):
    return snippet.edit("300, 0.2, 2\n", f"300, 0.2, {number}\n")


@cache
def curved(snippet):
    """Return the variables of a program that has drawn its six curves."""
    return snippet.after("curves")


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
    assert all(5 * end < constant for end in ends.values())


@pytest.mark.parametrize("number", STARTS[1:])
def test_falling_rates_end_five_times_as_close__also_from(snippet, number):
    test_falling_rates_end_five_times_as_close(snippet, number)


@edits(
    ("gamma=0.985", "gamma=0.999"),
    (", cycle_momentum=False", ""),
)
def test_falling_rates_end_five_times_as_close__but_not_with(
    snippet, old, new, fails
):
    fails(test_falling_rates_end_five_times_as_close, snippet.edit(old, new))


def test_the_closest_depends_on_the_start(snippet):
    runs = [curved(start(snippet, number)) for number in STARTS]

    closest = [min(run.ends, key=run.ends.get) for run in runs]
    assert closest == ["ExponentialLR", "ExponentialLR", "StepLR"]


def test_the_closest_depends_on_the_start__but_not_from_one_start(
    snippet, fails
):
    edited = snippet.edit("manual_seed(START)", "manual_seed(2)")
    fails(test_the_closest_depends_on_the_start, edited)


def test_the_conclusion_names_the_closest(snippet):
    names = ("setup", "schedules", "train", "conclusion")
    edited = snippet.edit("print(conclusion(ends", "print(len(str(STEPS")
    edited = edited.edit('curves["constant"][1][0]))', ")))")
    say = edited.only(*names).after("conclusion").conclusion

    for name in FALLING:
        ends = dict.fromkeys([*FALLING, "constant"], 2.0) | {name: 0.5}
        assert say(ends, 3.0) == (
            f"{name} ended closest, 4 times as close as constant."
        )
    ends["constant"] = 0.25
    assert say(ends, 3.0).startswith("The constant rate ended closest")
    for first in (0.25, 0.1):
        assert say(ends, first).startswith("None ended closer than it began")
    lost = dict.fromkeys(ends, float("nan"))
    assert say(lost, 3.0).startswith("None ended closer than it began")


@edits(
    ("min(ends, key=ends.get)", "max(ends, key=ends.get)"),
    ("if not ends[name] < first:", "if not ends[name] <= first:"),
    ('if name == "constant":', 'if name == "StepLR":'),
    ('ends["constant"] / ends[name]', 'ends["StepLR"] / ends[name]'),
)
def test_the_conclusion_names_the_closest__but_not_with(
    snippet, old, new, fails
):
    fails(test_the_conclusion_names_the_closest, snippet.edit(old, new))


def rates_of(snippet, name):
    run = snippet.after("train")
    return run.train(run.schedules[name])[0]


def test_step_lr_falls_at_100_and_200(snippet):
    rates = rates_of(snippet, "StepLR")

    expected = [0.2] * 100 + [0.02] * 100 + [0.002] * 100
    assert rates == pytest.approx(expected)


@edits(("step_size=100", "step_size=99"), ("gamma=0.1", "gamma=0.2"))
def test_step_lr_falls_at_100_and_200__but_not_with(snippet, old, new, fails):
    fails(test_step_lr_falls_at_100_and_200, snippet.edit(old, new))


def test_one_cycle_peaks_at_its_third(snippet):
    rates = rates_of(snippet, "OneCycleLR")

    assert len(rates) == 300
    assert rates[89] == pytest.approx(0.2)
    assert max(rates[:89] + rates[90:]) < rates[89]


@edits(
    (", cycle_momentum=False", ", cycle_momentum=False, pct_start=0.5"),
    ("max_lr=RATE, total_steps=STEPS, c", "max_lr=1, total_steps=STEPS, c"),
)
def test_one_cycle_peaks_at_its_third__but_not_with(snippet, old, new, fails):
    fails(test_one_cycle_peaks_at_its_third, snippet.edit(old, new))


def test_a_constant_rate_is_too_high_or_too_low(snippet, number=2):
    program = start(snippet, number).only("setup", "train", "rates")
    ends = program.after("rates").constants

    assert list(ends) == [1.0, 0.1, 0.001]
    assert ends[1.0] > 5 * ends[0.1]
    assert ends[0.001] > 5 * ends[0.1]


@pytest.mark.parametrize("number", STARTS[1:])
def test_a_constant_rate_is_too_high_or_too_low__also_from(snippet, number):
    test_a_constant_rate_is_too_high_or_too_low(snippet, number)


@edits(
    ("chosen = torch.randint(512, (8,))", "chosen = torch.arange(512)"),
    ("for _ in range(STEPS):", "for _ in range(9):"),
)
def test_a_constant_rate_is_too_high_or_too_low__but_not_with(
    snippet, old, new, fails
):
    fails(test_a_constant_rate_is_too_high_or_too_low, snippet.edit(old, new))


def momenta(run):
    """Return the momentum of each step under the last schedule."""
    found = []
    step = torch.optim.SGD.step

    def noting(optimizer, *given):
        found.append(optimizer.param_groups[0]["momentum"])
        return step(optimizer, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.SGD, "step", noting)
        after = run.only("setup", "train", "momentum").after("momentum")
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
    fails(test_one_cycle_gives_a_momentum, snippet.edit(old, new))


def test_one_cycle_with_its_momentum_diverges(snippet, number=2):
    program = start(snippet, number).only("setup", "train", "momentum")
    losses = program.after("momentum").diverged

    assert max(losses) > 100 * losses[0]
    assert losses[-1] > losses[0]


@pytest.mark.parametrize("number", STARTS[1:])
def test_one_cycle_with_its_momentum_diverges__also_from(snippet, number):
    test_one_cycle_with_its_momentum_diverges(snippet, number)


@edits(
    ("total_steps=STEPS)\n", "total_steps=STEPS, cycle_momentum=False)\n"),
    ("max_lr=RATE, total_steps=STEPS)\n", "max_lr=0.02, total_steps=STEPS)\n"),
)
def test_one_cycle_with_its_momentum_diverges__but_not_with(
    snippet, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_one_cycle_with_its_momentum_diverges, edited)
