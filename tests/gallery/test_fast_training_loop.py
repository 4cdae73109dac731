"""The claims of gallery/fast_training_loop.py."""

import pytest
import torch


def test_both_loops_learn_the_same(snippet):
    errors = snippet.after("train").errors

    plain, fast = errors["plain"], errors["fast"]
    assert fast[-1] == pytest.approx(plain[-1], rel=0.1)
    assert max(plain[-1], fast[-1]) < plain[0] / 10


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        scaler.step(optimizer)\n", ""),
        ("epochs=8", "epochs=0"),
    ],
)
def test_both_loops_learn_the_same__but_not_without_steps(
    snippet, old, new, fails
):
    fails(test_both_loops_learn_the_same, snippet.edit(old, new))


def test_in_full_precision_the_parts_give_the_same_gradient(snippet):
    run = snippet.after("gradient")

    torch.testing.assert_close(run.in_parts, run.whole, rtol=1e-3, atol=1e-5)


def test_in_full_precision_the_parts_give_the_same_gradient__but_weighted(
    snippet, fails
):
    edited = snippet.edit(
        "        (loss * len(part) / len(x)).backward()",
        "        (loss / parts).backward()",
    )
    fails(test_in_full_precision_the_parts_give_the_same_gradient, edited)


def test_mixed_precision_changes_the_gradient_a_little(snippet):
    run = snippet.after("gradient")

    assert 0 < run.off < 0.05
    assert not torch.equal(run.in_mixed_parts, run.in_parts)


@pytest.mark.parametrize(
    "new", ["gradient(GROUP, mixed=False)", "2 * gradient(GROUP, mixed=True)"]
)
def test_mixed_precision_changes_the_gradient_a_little__but_not(
    snippet, new, fails
):
    edited = snippet.edit("gradient(GROUP, mixed=True)", new)
    fails(test_mixed_precision_changes_the_gradient_a_little, edited)
