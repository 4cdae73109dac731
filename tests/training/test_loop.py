"""The claims of docs/training/loop.md."""

import math

import pytest
import torch

from extensions.files.failures import no_error


def test_the_loop_learns(snippet):
    history = snippet.after("run").history

    assert history[0][1] < 0.5
    assert history[-1][1] > 0.9
    assert len(history) == 11


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(10)", "range(0)"),
        (
            "loss.backward()\n        optimizer.step()\n\n\n# %% eval",
            "loss.backward()\n\n\n# %% eval",
        ),
        (
            "centers[labels] + torch.randn",
            "0 * centers[labels] + torch.randn",
        ),
    ],
)
def test_the_loop_learns__but_not(snippet, old, new, fails):
    edited = snippet.edit(old, new)
    fails(test_the_loop_learns, edited)


CHANGED = "weights changed"


def test_without_backward_nothing_changes(snippet):
    rows = snippet.after("left-out").rows

    assert not rows["backward"][CHANGED]
    assert rows["nothing"][CHANGED]


def test_without_backward_nothing_changes__but_with_it(snippet, fails):
    edited = snippet.edit('if left_out != "backward":', "if True:")
    fails(test_without_backward_nothing_changes, edited)


def test_without_step_nothing_changes(snippet):
    rows = snippet.after("left-out").rows

    assert not rows["step"][CHANGED]
    assert rows["nothing"][CHANGED]


def test_without_step_nothing_changes__but_with_it(snippet, fails):
    edited = snippet.edit('not in ("step", "order")', 'not in ("order",)')
    fails(test_without_step_nothing_changes, edited)


def test_step_before_backward_changes_nothing(snippet):
    with no_error():
        rows = snippet.after("left-out").rows

    assert not rows["order"][CHANGED]
    assert rows["nothing"][CHANGED]


def test_step_before_backward_changes_nothing__but_old_gradients_do(
    snippet, fails
):
    edited = snippet.edit(
        'if left_out != "zero_grad":', 'if left_out != "order":'
    )
    fails(test_step_before_backward_changes_nothing, edited)


def test_evaluation_mode_stays(snippet):
    run = snippet.after("no-train")

    assert run.mode_in_second_epoch is False
    assert not run.model[2].training


def test_evaluation_mode_stays__but_not_after_train(snippet, fails):
    edited = snippet.edit(
        'epoch_without("nothing", model, optimizer)\nmode',
        "train_epoch(model, optimizer)\nmode",
    )
    fails(test_evaluation_mode_stays, edited)


def test_training_mode_gives_two_results(snippet):
    run = snippet.after("no-eval")

    assert not run.same_in_training
    assert run.same_in_evaluation


def test_training_mode_gives_two_results__but_not_without_dropout(
    snippet, fails
):
    edited = snippet.edit("nn.Dropout(0.5)", "nn.Dropout(0.0)")
    fails(test_training_mode_gives_two_results, edited)


def test_validation_keeps_its_graph(snippet):
    run = snippet.after("no-no-grad")

    assert run.kept.grad_fn is not None
    assert run.dropped.grad_fn is None


def test_validation_keeps_its_graph__but_not_if_frozen(snippet, fails):
    edited = snippet.edit(
        "\nkept = F", "\nmodel.requires_grad_(False)\nkept = F"
    )
    fails(test_validation_keeps_its_graph, edited)


def test_swapped_bce_is_another_loss(snippet):
    run = snippet.after("swapped")

    assert run.swapped > 50 * run.right_way


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "cross_entropy(actual, predicted)",
            "cross_entropy(predicted, actual)",
        ),
        ("[1.0, 0.0, 1.0]", "[0.9, 0.2, 0.8]"),
    ],
)
def test_swapped_bce_is_another_loss__but_not(snippet, old, new, fails):
    fails(test_swapped_bce_is_another_loss, snippet.edit(old, new))


def test_only_mse_may_be_swapped(snippet, capsys):
    snippet.after("swapped-quietly")

    assert capsys.readouterr().out.endswith("True True\n")


def test_only_mse_may_be_swapped__but_not_kl(snippet, capsys, fails):
    edited = snippet.edit(
        "F.mse_loss(actual, predicted)",
        "F.kl_div(actual, predicted, reduction='sum')",
    )
    fails(test_only_mse_may_be_swapped, edited, capsys)


def test_softmax_twice_has_a_floor(snippet):
    run = snippet.after("softmax-twice")

    assert run.floor == pytest.approx(math.log(math.e + 3) - 1)
    assert run.floor > 0.743
    assert run.confident < 1e-6
    tries = torch.randn(1000, 4, dtype=torch.float64).mul(10).softmax(dim=1)
    loss = torch.nn.functional.cross_entropy
    zeros = torch.zeros(1000, dtype=torch.long)
    assert loss(tries, zeros, reduction="none").min() > 0.743


def test_softmax_twice_has_a_floor__but_logits_have_none(snippet, fails):
    edited = snippet.edit(
        "F.cross_entropy(perfect,", "F.cross_entropy(9 * perfect,"
    )
    fails(test_softmax_twice_has_a_floor, edited)


def test_a_mean_of_means_is_off(snippet):
    run = snippet.after("mean-of-means")

    assert run.sizes == [64, 36]
    assert abs(run.mean_of_means - run.whole) > 1e-4


def test_a_mean_of_means_is_off__but_not_of_equal_batches(snippet, fails):
    edited = snippet.edit(
        "TensorDataset(points[300:], labels[300:]), batch_size=64",
        "TensorDataset(points[300:], labels[300:]), batch_size=50",
    )
    fails(test_a_mean_of_means_is_off, edited)


def test_a_weighted_mean_is_right(snippet):
    run = snippet.after("mean-of-means")

    assert run.mean == pytest.approx(run.whole, abs=1e-6)


def test_a_weighted_mean_is_right__but_not_unweighted(snippet, fails):
    edited = snippet.edit("loss * size for", "loss * 50 for")
    fails(test_a_weighted_mean_is_right, edited)
