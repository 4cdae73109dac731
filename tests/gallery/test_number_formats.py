"""The claims of gallery/number_formats.py."""

import torch


def test_float16_ends_at_65504(snippet):
    assert snippet.after("limits").limits["float16"].max == 65_504


def test_float16_ends_at_65504__but_bfloat16_does_not(snippet, fails):
    edited = snippet.edit(
        '"float16": torch.float16', '"float16": torch.bfloat16'
    )
    fails(test_float16_ends_at_65504, edited)


def test_bfloat16_reaches_as_far_as_float32(snippet):
    limits = snippet.after("limits").limits

    ratio = limits["bfloat16"].max / limits["float32"].max
    assert 0.99 < ratio <= 1


def test_bfloat16_reaches_as_far_as_float32__but_not_float16(snippet, fails):
    edited = snippet.edit(
        '"bfloat16": torch.bfloat16', '"bfloat16": torch.float16'
    )
    fails(test_bfloat16_reaches_as_far_as_float32, edited)


def test_near_one_bfloat16_has_steps_of_a_128th(snippet):
    at_one = snippet.after("near-one").at_one

    assert at_one["bfloat16"] == 1 / 128
    assert at_one["float16"] == 1 / 1024
    for name in at_one:
        assert at_one[name] == torch.finfo(getattr(torch, name)).eps


def test_near_one_bfloat16_has_steps_of_a_128th__but_not_near_two(
    snippet, fails
):
    edited = snippet.edit("spacings[name][30]", "spacings[name][31]")
    fails(test_near_one_bfloat16_has_steps_of_a_128th, edited)


def test_the_relative_step_is_the_same_everywhere(snippet):
    run = snippet.after("near-one")

    relative = run.spacings["float32"] / run.powers
    assert set(relative.tolist()) == {2**-23}


def test_the_relative_step_is_the_same_everywhere__but_not_in_float16(
    snippet, fails
):
    edited = snippet.edit(
        '"float32": torch.float32', '"float32": torch.float16'
    )
    fails(test_the_relative_step_is_the_same_everywhere, edited)


def test_a_bfloat16_sum_of_ones_stops_at_256(snippet):
    assert snippet.after("sum").stops["bfloat16"] == 256


def test_a_bfloat16_sum_of_ones_stops_at_256__but_not_of_twos(snippet, fails):
    edited = snippet.edit(
        "while (total + 1) != total:\n        total = total + 1",
        "while (total + 2) != total:\n        total = total + 2",
    )
    fails(test_a_bfloat16_sum_of_ones_stops_at_256, edited)


def test_a_float16_sum_of_ones_stops_at_2048(snippet):
    assert snippet.after("sum").stops["float16"] == 2048


def test_a_float16_sum_of_ones_stops_at_2048__but_not_of_twos(snippet, fails):
    edited = snippet.edit(
        "while (total + 1) != total:\n        total = total + 1",
        "while (total + 2) != total:\n        total = total + 2",
    )
    fails(test_a_float16_sum_of_ones_stops_at_2048, edited)
