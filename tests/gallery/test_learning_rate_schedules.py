"""The claims of gallery/learning_rate_schedules.py."""

import pytest


def test_a_constant_rate_ends_worst(snippet):
    ends = dict(snippet.after("ends").ends)

    assert ends.pop("constant") > max(ends.values())


def test_a_constant_rate_ends_worst__but_not_a_low_one(snippet, fails):
    edited = snippet.edit(
        "LambdaLR(o, lambda step: 1.0)",
        "LambdaLR(o, lambda step: 1.0 if step < 99 else 0.02)",
    )
    fails(test_a_constant_rate_ends_worst, edited)


def test_falling_rates_end_ten_times_as_close(snippet):
    ends = dict(snippet.after("ends").ends)

    constant = ends.pop("constant")
    assert all(10 * end < constant for end in ends.values())


def test_falling_rates_end_ten_times_as_close__but_not_slow_ones(
    snippet, fails
):
    edited = snippet.edit("gamma=0.985", "gamma=0.999")
    fails(test_falling_rates_end_ten_times_as_close, edited)


def test_step_lr_falls_at_100_and_200(snippet):
    rates, _ = snippet.after("train").curves["StepLR"]

    expected = [0.2] * 100 + [0.02] * 100 + [0.002] * 100
    assert rates == pytest.approx(expected)


def test_step_lr_falls_at_100_and_200__but_not_at_other_steps(snippet, fails):
    edited = snippet.edit("step_size=100", "step_size=99")
    fails(test_step_lr_falls_at_100_and_200, edited)


def test_one_cycle_peaks_at_its_third(snippet):
    rates, _ = snippet.after("train").curves["OneCycleLR"]

    assert rates.index(max(rates)) == 89


def test_one_cycle_peaks_at_its_third__but_not_if_told(snippet, fails):
    edited = snippet.edit(
        ", cycle_momentum=False", ", cycle_momentum=False, pct_start=0.5"
    )
    fails(test_one_cycle_peaks_at_its_third, edited)


def test_one_cycle_with_its_momentum_ends_worse(snippet):
    ends = snippet.edit(", cycle_momentum=False", "").after("ends").ends

    assert not ends["OneCycleLR"] < ends["constant"]


def test_one_cycle_with_its_momentum_ends_worse__but_not_lower(snippet, fails):
    edited = snippet.edit("STEPS, RATE = 300, 0.2", "STEPS, RATE = 300, 0.002")
    fails(test_one_cycle_with_its_momentum_ends_worse, edited)


def test_falling_rates_end_ten_times_as_close__but_not_with_momentum(
    snippet, fails
):
    edited = snippet.edit(", cycle_momentum=False", "")
    fails(test_falling_rates_end_ten_times_as_close, edited)
