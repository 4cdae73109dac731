"""The claims of docs/training/accumulation.md."""

import math

import pytest
import torch


def test_undivided_is_n_times_as_large(snippet):
    run = snippet.after("equal-groups")

    torch.testing.assert_close(run.undivided, 3 * run.big)
    assert run.big.norm() > 0.1


def test_undivided_is_n_times_as_large__but_not_for_a_sum(snippet, fails):
    edited = snippet.edit(
        "F.mse_loss(model(x), y)).backward()\n    return",
        "F.mse_loss(model(x), y, reduction='sum')).backward()\n    return",
    )
    fails(test_undivided_is_n_times_as_large, edited)


def test_divided_parts_equal_the_batch(snippet):
    run = snippet.after("equal-groups")

    torch.testing.assert_close(run.divided, run.big)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "[(1 / 3, x, y) for x, y in parts])\n\nprint(torch.allclose(undiv",
            "[(1 / 2, x, y) for x, y in parts])\n\nprint(torch.allclose(undiv",
        ),
        (
            "inputs.split(4), targets.split(4)",
            "inputs.split(5), targets.split(5)",
        ),
    ],
)
def test_divided_parts_equal_the_batch__but_not(snippet, old, new, fails):
    fails(test_divided_parts_equal_the_batch, snippet.edit(old, new))


def test_undivided_sgd_diverges(snippet):
    losses = snippet.after("undivided-training").losses

    assert losses["SGD, divided"] < 1
    assert not losses["SGD, undivided"] < 1e6


def test_undivided_sgd_diverges__but_not_at_a_third_of_the_rate(
    snippet, fails
):
    edited = snippet.edit(
        "optim.SGD, False, lr=0.3", "optim.SGD, False, lr=0.1"
    )
    fails(test_undivided_sgd_diverges, edited)


def test_adam_hides_the_factor(snippet):
    losses = snippet.after("undivided-training").losses

    divided, undivided = losses["Adam, divided"], losses["Adam, undivided"]
    assert math.isclose(divided, undivided, rel_tol=1e-6)


def test_adam_hides_the_factor__but_not_from_sgd(snippet, fails):
    edited = snippet.edit(
        "optim.Adam, False, lr=0.03", "optim.SGD, False, lr=0.03"
    )
    fails(test_adam_hides_the_factor, edited)


def test_uneven_parts_need_their_size(snippet):
    run = snippet.after("short-group")

    assert [len(x) for x, _ in run.uneven] == [5, 5, 2]
    assert not torch.allclose(run.by_number, run.big, rtol=0.01)


def test_uneven_parts_need_their_size__but_even_ones_do_not(snippet, fails):
    edited = snippet.edit(
        "inputs.split(5), targets.split(5)",
        "inputs.split(4), targets.split(4)",
    )
    run = edited.after("short-group")

    torch.testing.assert_close(run.by_number, run.big)
    fails(test_uneven_parts_need_their_size, edited)


def test_weighted_parts_equal_the_batch(snippet):
    run = snippet.after("short-group")

    torch.testing.assert_close(run.by_size, run.big)


def test_weighted_parts_equal_the_batch__but_not_unweighted(snippet, fails):
    fails(
        test_weighted_parts_equal_the_batch,
        snippet.edit("len(x) / 12", "1 / 3"),
    )


def test_halves_of_words_are_not_halves(snippet):
    run = snippet.after("token-weights")

    assert [int(count) for count in run.tokens] == [8, 6]
    assert not torch.allclose(run.by_batch, run.whole, rtol=0.01)


def test_halves_of_words_are_not_halves__but_of_equal_lengths(snippet, fails):
    edited = snippet.edit("(6, 2, 5, 1)", "(6, 2, 6, 2)").edit(
        "count / 14", "count / 16"
    )
    run = edited.after("token-weights")

    torch.testing.assert_close(run.by_batch, run.whole)
    fails(test_halves_of_words_are_not_halves, edited)


def test_weighted_by_words_it_is_right(snippet):
    run = snippet.after("token-weights")

    torch.testing.assert_close(run.by_token, run.whole)


def test_weighted_by_words_it_is_right__but_not_with_the_padding(
    snippet, fails
):
    edited = snippet.edit(
        "(words[rows] != -100).sum()", "words[rows].numel() * 7 / 12"
    )
    fails(test_weighted_by_words_it_is_right, edited)


def test_batch_norm_sees_the_parts(snippet):
    run = snippet.after("norms")

    assert run.with_norm(run.nn.LayerNorm(8))
    assert not run.with_norm(run.nn.BatchNorm1d(8))


def test_batch_norm_sees_the_parts__but_not_in_evaluation(snippet, fails):
    edited = snippet.edit(
        "norm, nn.Linear(8, 1))\n    together",
        "norm, nn.Linear(8, 1)).eval()\n    together",
    )
    fails(test_batch_norm_sees_the_parts, edited)


def test_clip_after_the_last_part(snippet):
    run = snippet.after("clip-once")

    torch.testing.assert_close(
        run.clipped(each_part=False), run.right, rtol=1e-4, atol=0
    )


def test_clip_after_the_last_part__but_not_unclipped(snippet, fails):
    clip = "    nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)\n"
    edited = snippet.edit(f"{clip}    return", "    return")
    fails(test_clip_after_the_last_part, edited)


def test_clipping_each_part_differs(snippet):
    run = snippet.after("clip-once")

    assert not torch.allclose(
        run.clipped(each_part=True), run.right, rtol=0.01
    )


def test_clipping_each_part_differs__but_not_below_the_limit(snippet, fails):
    clip = "nn.utils.clip_grad_norm_(model.parameters(), max_norm="
    each = f"        if each_part:\n            {clip}"
    edited = snippet.edit(f"{each}0.1)", f"{each}9.0)")
    fails(test_clipping_each_part_differs, edited)


def test_the_last_group_steps_too(snippet):
    assert snippet.after("last-group").steps_taken == [3, 6, 7]


def test_the_last_group_steps_too__but_not_unasked(snippet, fails):
    edited = snippet.edit(
        "    if batch % 3 == 0 or batch == 7:", "    if batch % 3 == 0:"
    )
    fails(test_the_last_group_steps_too, edited)


def test_one_equals_sign_is_an_error(snippet, capsys):
    snippet.after("typing-error")

    assert capsys.readouterr().out.endswith("invalid syntax\n")


def test_one_equals_sign_is_an_error__but_not_two(snippet, capsys, fails):
    edited = snippet.edit(
        "batch % 2 == 0 or batch = 7", "batch % 2 == 0 or batch == 7"
    )
    fails(test_one_equals_sign_is_an_error, edited, capsys)
