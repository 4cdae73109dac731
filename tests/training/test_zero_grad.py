"""The claims of docs/training/zero_grad.md."""

import pytest
import torch


def test_backward_adds_up(snippet):
    run = snippet.after("add-up")

    torch.testing.assert_close(run.layer.weight.grad, 2 * run.once)
    assert run.once.abs().min() > 0.01


def test_backward_adds_up__but_not_after_a_reset(snippet, fails):
    edited = snippet.edit(
        "grad.clone()\nF.mse_loss",
        "grad.clone()\nlayer.zero_grad()\nF.mse_loss",
    )
    fails(test_backward_adds_up, edited)


def test_the_default_is_none(snippet):
    run = snippet.after("none")

    assert [each.grad for each in run.layer.parameters()] == [None, None]


def test_the_default_is_none__but_not_if_told(snippet, fails):
    edited = snippet.edit(
        "layer.zero_grad()\n\nprint(layer.weight.grad)",
        "layer.zero_grad(set_to_none=False)\n",
    )
    fails(test_the_default_is_none, edited)


BEFORE, AFTER = "before backward", "after step"
BETWEEN, NOWHERE = "between backward and step", "nowhere"


def test_before_and_after_are_the_same(snippet):
    run = snippet.after("places")

    assert torch.equal(run.weights[BEFORE], run.weights[AFTER])
    assert run.losses[BEFORE] < 0.001 < run.losses["no training"]


def test_before_and_after_are_the_same__but_not_between(snippet, fails):
    edited = snippet.edit(f'if place == "{AFTER}":', "if False:")
    fails(test_before_and_after_are_the_same, edited)


def test_between_nothing_is_learned(snippet):
    run = snippet.after("places")

    assert run.losses[BETWEEN] == run.losses["no training"] > 1


@pytest.mark.parametrize(
    "new",
    [
        f'if place == "{BEFORE}" or place == "{BETWEEN}":',
        f'if place != "{NOWHERE}" and place != "{AFTER}":',
    ],
)
def test_between_nothing_is_learned__but_is_before(snippet, new, fails):
    edited = snippet.edit(f'if place == "{BEFORE}":', new).edit(
        f'if place == "{BETWEEN}":', "if False:"
    )
    fails(test_between_nothing_is_learned, edited)


def test_without_a_reset_training_fails(snippet):
    losses = snippet.after("places").losses

    assert losses[NOWHERE] > 1000 * losses[BEFORE]


def test_without_a_reset_training_fails__but_not_with_one(snippet, fails):
    edited = snippet.edit(
        f'if place == "{AFTER}":', f'if place != "{BEFORE}":'
    )
    fails(test_without_a_reset_training_fails, edited)


def test_none_leaves_an_unused_head(snippet):
    run = snippet.after("unused-head")

    assert run.length_left(set_to_none=True) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        optimizer.zero_grad(set_to_none=set_to_none)\n", ""),
        (
            'for head in ("second", "first"):',
            'for head in ("first", "second"):',
        ),
    ],
)
def test_none_leaves_an_unused_head__but_not(snippet, old, new, fails):
    fails(test_none_leaves_an_unused_head, snippet.edit(old, new))


def test_zeros_shrink_an_unused_head(snippet):
    run = snippet.after("unused-head")

    assert run.length_left(set_to_none=False) == pytest.approx(0.99)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", weight_decay=0.1", ""),
        (
            'for head in ("second", "first"):',
            'for head in ("first", "first"):',
        ),
    ],
)
def test_zeros_shrink_an_unused_head__but_not(snippet, old, new, fails):
    fails(test_zeros_shrink_an_unused_head, snippet.edit(old, new))


def test_an_optimizer_resets_its_own(snippet):
    run = snippet.after("left-out")

    assert not run.after_the_optimizer
    assert run.after_the_model
    assert run.model.first.weight.grad is None


def test_an_optimizer_resets_its_own__but_all_if_it_holds_all(snippet, fails):
    edited = snippet.edit("model.first.parameters()", "model.parameters()")
    fails(test_an_optimizer_resets_its_own, edited)


def test_none_frees_the_gradients(snippet):
    run = snippet.after("bytes-held")

    assert run.bytes_held(set_to_none=True) == (0, True)
    assert run.bytes_held(set_to_none=False) == (4 * (100 * 100 + 100), False)


def test_none_frees_the_gradients__but_not_if_kept(snippet, fails):
    edited = snippet.edit(
        "    watch = weakref",
        "    kept = layer.weight.grad\n    watch = weakref",
    )
    fails(test_none_frees_the_gradients, edited)


def test_none_has_no_norm(snippet):
    run = snippet.after("read-none")

    with pytest.raises(AttributeError, match="has no attribute 'norm'"):
        run.layer.weight.grad.norm()


def test_none_has_no_norm__but_zeros_have(snippet, fails):
    edited = snippet.edit(
        "layer = nn.Linear(3, 1)\nlayer.zero_grad()\n",
        "layer = nn.Linear(3, 1)\nlayer(inputs).sum().backward()\n"
        "layer.zero_grad(set_to_none=False)\n",
    )
    assert edited.after("read-none").layer.weight.grad.norm() == 0
    fails(test_none_has_no_norm, edited)


def test_clipping_skips_none(snippet):
    run = snippet.after("read-none")

    assert run.total == 0
    run.layer.bias.grad = torch.ones(1)
    total = torch.nn.utils.clip_grad_norm_(run.layer.parameters(), 0.5)
    assert total == 1
    assert run.layer.weight.grad is None
    assert run.layer.bias.grad == pytest.approx(0.5, abs=1e-4)


def test_clipping_skips_none__but_not_a_gradient(snippet, fails):
    edited = snippet.edit(
        "\ntotal =", "\nlayer(inputs).sum().backward()\ntotal ="
    )
    fails(test_clipping_skips_none, edited)
