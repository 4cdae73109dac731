"""The claims of docs/autograd/detach.md."""

import pytest
import torch
from torch.nn import functional as F

NEVER, TO_NONE, TO_ZERO, STALE = (
    "never trained before",
    "trained, then None",
    "trained, then zeros",
    "trained, not cleared",
)
STAYS_WITH_ZEROS = {"SGD", "RMSprop", "Adagrad"}
MOVED_BY_ZEROS = {"SGD, momentum", "SGD, weight decay", "Adam", "AdamW"}


def moved(run, column):
    """Return the optimizers that move the layer under a condition."""
    return {name for name, row in run.rows.items() if row[column] == "moves"}


def test_the_cut_has_no_history(snippet):
    run = snippet.after("cut")

    assert not run.cut.requires_grad
    assert run.cut.grad_fn is None
    assert run.hidden.requires_grad


def test_the_cut_has_no_history__but_a_clone_has(snippet, fails):
    edited = snippet.edit("cut = hidden.detach()", "cut = hidden.clone()")
    fails(test_the_cut_has_no_history, edited)


def test_only_layer_2_gets_a_gradient(snippet):
    run = snippet.after("backward")

    assert run.layer_1.weight.grad is None
    assert run.layer_1.bias.grad is None
    assert run.layer_2.weight.grad.abs().sum() > 0


def test_only_layer_2_gets_a_gradient__but_not_without_detach(snippet, fails):
    edited = snippet.edit("cut = hidden.detach()", "cut = hidden")
    fails(test_only_layer_2_gets_a_gradient, edited)


def test_layer_1_stays_frozen(snippet):
    run = snippet.after("step")

    assert any(run.layer_1.weight is each for each in run.parameters)
    assert torch.equal(run.layer_1.weight, run.before_1)
    assert not torch.equal(run.layer_2.weight, run.before_2)


def test_layer_1_stays_frozen__but_not_without_detach(snippet, fails):
    edited = snippet.edit("cut = hidden.detach()", "cut = hidden")
    fails(test_layer_1_stays_frozen, edited)


def test_layer_1_moves_without_detach(snippet):
    run = snippet.after("mend")

    assert not torch.equal(run.layer_1.weight, run.before_1)


def test_layer_1_moves_without_detach__but_not_with_it(snippet, fails):
    edited = snippet.edit(
        "optimizer.zero_grad()\nloss = F.mse_loss(layer_2(layer_1(inputs))",
        "optimizer.zero_grad()\n"
        "loss = F.mse_loss(layer_2(layer_1(inputs).detach())",
    )
    fails(test_layer_1_moves_without_detach, edited)


def test_freezing_says_what_it_does(snippet):
    run = snippet.after("freeze")

    assert all(each.grad is None for each in run.layer_1.parameters())
    assert all(each.grad is not None for each in run.layer_2.parameters())


def test_freezing_says_what_it_does__but_not_if_left_out(snippet, fails):
    edited = snippet.edit("layer_1.requires_grad_(False)", "")
    fails(test_freezing_says_what_it_does, edited)


def test_an_untrained_layer_stays(snippet):
    run = snippet.after("try-all")

    assert len(run.rows) == 7
    assert moved(run, NEVER) == set()


def test_an_untrained_layer_stays__but_not_without_detach(snippet, fails):
    edited = snippet.edit("first(inputs).detach()", "first(inputs)")
    fails(test_an_untrained_layer_stays, edited)


def test_none_stays(snippet):
    run = snippet.after("try-all")

    assert len(run.rows) == 7
    assert moved(run, TO_NONE) == set()


def test_none_stays__but_zeros_do_not(snippet, fails):
    edited = snippet.edit(
        "    optimizer.zero_grad()\n\n\ndef",
        "    optimizer.zero_grad(False)\n\n\ndef",
    )
    fails(test_none_stays, edited)


def test_zeros_move_four(snippet):
    run = snippet.after("try-all")

    assert moved(run, TO_ZERO) >= MOVED_BY_ZEROS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", momentum=0.9", ""),
        (", weight_decay=0.1", ""),
        ("optim.Adam(p, lr=0.1)", "optim.Adam(p, lr=0.1, betas=(0.0, 0.999))"),
        ("optim.AdamW(p, lr=0.1)", "optim.SGD(p, lr=0.1)"),
        ("set_to_none=False", "set_to_none=True"),
        ("        optimizer.step()\n    clear", "    clear"),
    ],
)
def test_zeros_move_four__but_not_without_their_cause(
    snippet, old, new, fails
):
    fails(test_zeros_move_four, snippet.edit(old, new))


def test_zeros_stay_under_three(snippet):
    run = snippet.after("try-all")

    assert run.rows.keys() >= STAYS_WITH_ZEROS
    assert not moved(run, TO_ZERO) & STAYS_WITH_ZEROS


@pytest.mark.parametrize("name", sorted(STAYS_WITH_ZEROS))
def test_zeros_stay_under_three__but_not_with_weight_decay(
    snippet, name, fails
):
    old = f"optim.{name}(p, lr=0.1)"
    new = f"optim.{name}(p, lr=0.1, weight_decay=0.1)"
    fails(test_zeros_stay_under_three, snippet.edit(old, new))


def test_zeros_stay_under_three__but_not_with_momentum(snippet, fails):
    old, new = "RMSprop(p, lr=0.1)", "RMSprop(p, lr=0.1, momentum=0.9)"
    fails(test_zeros_stay_under_three, snippet.edit(old, new))


def test_zeros_without_a_step_move_two(snippet):
    edited = snippet.edit("        optimizer.step()\n    clear", "    clear")
    run = edited.after("try-all")

    assert len(run.rows) == 7
    assert moved(run, TO_ZERO) == {"SGD, weight decay", "AdamW"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", weight_decay=0.1", ""),
        ("AdamW(p, lr=0.1)", "AdamW(p, lr=0.1, weight_decay=0.0)"),
    ],
)
def test_zeros_without_a_step_move_two__but_not_undecayed(
    snippet, old, new, fails
):
    fails(test_zeros_without_a_step_move_two, snippet.edit(old, new))


def test_stale_gradients_move(snippet):
    run = snippet.after("try-all")

    assert moved(run, STALE) == run.rows.keys()


def test_stale_gradients_move__but_not_once_cleared(snippet, fails):
    edited = snippet.edit(
        "def not_at_all(optimizer):\n    pass",
        "def not_at_all(optimizer):\n    optimizer.zero_grad()",
    )
    fails(test_stale_gradients_move, edited)


def test_zero_grad_means_none(snippet):
    run = snippet.after("mend")

    run.optimizer.zero_grad()

    assert all(each.grad is None for each in run.parameters)


def test_zero_grad_means_none__but_not_if_told_otherwise(snippet, fails):
    run = snippet.after("mend")

    run.optimizer.zero_grad(set_to_none=False)

    assert all(each.grad.abs().sum() == 0 for each in run.parameters)
    edited = snippet.edit(
        "optimizer = torch.optim.SGD(parameters, lr=0.1)",
        "optimizer = torch.optim.SGD(parameters[:1], lr=0.1)",
    )
    fails(test_zero_grad_means_none, edited)


def test_the_cut_shares_memory(snippet):
    run = snippet.after("share")

    assert run.alias.data_ptr() == run.original.data_ptr()
    assert run.original.tolist() == [100, 2, 2]


def test_the_cut_shares_memory__but_a_clone_does_not(snippet, fails):
    edited = snippet.edit("original.detach()", "original.detach().clone()")
    fails(test_the_cut_shares_memory, edited)


def test_overwriting_is_noticed(snippet):
    run = snippet.after("overwrite")

    assert run.powers.tolist() == [0, 0]
    assert run.weight.grad is None
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run.powers.sum().backward()


def test_overwriting_is_noticed__but_not_in_a_clone(snippet, fails):
    edited = snippet.edit("powers.detach().zero_()", "powers.clone().zero_()")
    fails(test_overwriting_is_noticed, edited)


def test_overwriting_is_noticed__but_not_if_no_value_is_needed(snippet, fails):
    edited = snippet.edit(
        "powers = weight.exp()\npowers.detach()",
        "powers = weight * 2\npowers.detach()",
    )
    assert edited.after("overwrite").weight.grad.tolist() == [2, 2]
    fails(test_overwriting_is_noticed, edited)


def test_data_is_silently_wrong(snippet):
    run = snippet.after("data")

    assert run.weight.grad.tolist() == [0, 0]
    assert (run.weight.exp() > 2).all()


def test_data_is_silently_wrong__but_right_without_the_write(snippet, fails):
    edited = snippet.edit("powers.data.zero_()", "powers.data")
    fails(test_data_is_silently_wrong, edited)


def test_a_detached_loss_is_a_value(snippet):
    run = snippet.after("log")

    assert run.loss.requires_grad
    assert not run.kept.requires_grad
    assert torch.equal(run.kept, run.loss)


def test_a_detached_loss_is_a_value__but_the_loss_has_a_graph(snippet, fails):
    edited = snippet.edit("kept = loss.detach()", "kept = loss")
    fails(test_a_detached_loss_is_a_value, edited)


def test_adding_in_place_changes_the_loss(snippet):
    run = snippet.after("log-alias")

    assert run.loss.item() == pytest.approx(run.value_before + 1)


def test_adding_in_place_changes_the_loss__but_not_out_of_place(
    snippet, fails
):
    edited = snippet.edit("kept += 1", "kept = kept + 1")
    fails(test_adding_in_place_changes_the_loss, edited)


def test_item_is_a_copy(snippet):
    run = snippet.after("log-alias")

    assert run.value_before == pytest.approx(run.loss.item() - 1)


def test_item_is_a_copy__but_a_detached_loss_is_not(snippet, fails):
    edited = snippet.edit(
        "value_before = loss.item()", "value_before = loss.detach()"
    )
    fails(test_item_is_a_copy, edited)


def test_a_detached_target_is_a_constant(snippet):
    run = snippet.after("target")

    by_formula = 2 * run.error * run.state
    torch.testing.assert_close(run.value.weight.grad[0], by_formula)


def test_a_detached_target_is_a_constant__but_not_without_detach(
    snippet, fails
):
    edited = snippet.edit("goal.detach()", "goal")
    fails(test_a_detached_target_is_a_constant, edited)


def test_a_carried_state_raises(snippet):
    run = snippet.after("chunks")

    with pytest.raises(RuntimeError, match="backward through the graph a sec"):
        run.train_in_chunks(between=lambda state: state)


def test_a_carried_state_raises__but_not_within_one_chunk(snippet, fails):
    edited = snippet.edit("sequence.split(3)", "sequence.split(6)")
    fails(test_a_carried_state_raises, edited)


def test_a_detached_state_trains(snippet):
    run = snippet.after("carry")
    trained = run.cell.weight_hh.grad.clone()

    # The same by hand: the second chunk starts from the first one's values.
    run.cell.zero_grad()
    start = torch.zeros(1, 4)
    for chunk in run.sequence.split(3):
        state = torch.tensor(start.tolist())
        for step in chunk:
            state = run.cell(step, state)
        state.sum().backward()
        start = state

    assert trained.abs().sum() > 0
    torch.testing.assert_close(trained, run.cell.weight_hh.grad)


def test_a_detached_state_trains__but_otherwise_if_thrown_away(snippet, fails):
    edited = snippet.edit(
        "train_in_chunks(between=lambda state: state.detach())",
        "train_in_chunks(between=torch.zeros_like)",
    )
    fails(test_a_detached_state_trains, edited)


def test_argmax_ends_the_graph(snippet):
    run = snippet.after("straight-through")

    assert run.scores.requires_grad
    assert not run.hard.requires_grad


def test_argmax_ends_the_graph__but_softmax_does_not(snippet, fails):
    edited = snippet.edit("F.one_hot(soft.argmax(), 3).float()", "soft")
    fails(test_argmax_ends_the_graph, edited)


def test_straight_through_has_the_hard_value(snippet):
    run = snippet.after("straight-through")

    torch.testing.assert_close(run.choice, run.hard)
    assert run.hard.sum() == 1


def test_straight_through_has_the_hard_value__but_not_added_twice(
    snippet, fails
):
    edited = snippet.edit("hard - soft.detach() + soft", "hard + soft")
    fails(test_straight_through_has_the_hard_value, edited)


def test_straight_through_has_the_soft_gradient(snippet):
    run = snippet.after("straight-gradient")

    torch.testing.assert_close(run.through, run.of_soft)
    assert run.of_soft.abs().sum() > 0


def test_straight_through_has_the_soft_gradient__but_not_undetached(
    snippet, fails
):
    edited = snippet.edit("hard - soft.detach() + soft", "hard - soft + soft")
    fails(test_straight_through_has_the_soft_gradient, edited)


def test_gumbel_softmax_is_hard_with_a_gradient(snippet):
    run = snippet.after("gumbel")

    assert sorted(run.sample.tolist()) == pytest.approx([0, 0, 1])
    assert run.gradient.abs().max() > 0.001


def test_gumbel_softmax_is_hard_with_a_gradient__but_not_when_soft(
    snippet, fails
):
    fails(
        test_gumbel_softmax_is_hard_with_a_gradient,
        snippet.edit("hard=True", "hard=False"),
    )


def test_gumbel_softmax_is_hard_with_a_gradient__but_not_at_one_price(
    snippet, fails
):
    edited = snippet.edit("[1.0, 2.0, 3.0]", "[1.0, 1.0, 1.0]")
    fails(test_gumbel_softmax_is_hard_with_a_gradient, edited)


def test_labels_broadcast_silently(snippet):
    run = snippet.after("wrong-shape")
    output, labels = run.output, run.labels

    assert (output.shape, labels.shape) == ((3, 16), (1, 16))
    assert torch.equal(output - labels, output - labels.expand(3, 16))


def test_labels_broadcast_silently__but_not_other_shapes(snippet, fails):
    edited = snippet.edit(
        "labels = torch.rand(1, 16)\n", "labels = torch.rand(3, 16)\n"
    )
    fails(test_labels_broadcast_silently, edited)


def test_mse_loss_warns_of_shapes(snippet):
    run = snippet.after("wrong-shape")

    with pytest.warns(UserWarning, match="different to the input size"):
        F.mse_loss(run.output, run.labels)


def test_mse_loss_warns_of_shapes__but_not_of_equal_ones(snippet, fails):
    edited = snippet.edit(
        "labels = torch.rand(1, 16)\n", "labels = torch.rand(3, 16)\n"
    )
    fails(test_mse_loss_warns_of_shapes, edited)


def test_the_sum_ignores_its_labels(snippet):
    run = snippet.after("not-an-error")

    assert torch.equal(run.first, run.second)
    assert torch.equal(run.first, torch.ones(3, 16))


def test_the_sum_ignores_its_labels__but_a_sum_of_squares_does_not(
    snippet, fails
):
    edited = snippet.edit(
        "(output - 100 * labels).sum()", "(output - labels).square().sum()"
    )
    fails(test_the_sum_ignores_its_labels, edited)


def test_the_sum_falls_without_end(snippet):
    run = snippet.after("compare")
    further = snippet.edit("range(200)", "range(400)").after("compare")

    assert run.of_sum < 0
    assert further.of_sum == pytest.approx(2 * run.of_sum, rel=0.02)


def test_the_sum_falls_without_end__but_not_a_sum_of_squares(snippet, fails):
    edited = snippet.edit(
        "(guess - labels).sum()", "F.mse_loss(guess, labels)"
    )
    fails(test_the_sum_falls_without_end, edited)


def test_the_mse_comes_to_rest(snippet):
    run = snippet.after("compare")

    assert 0 <= run.of_mse < 1e-6


def test_the_mse_comes_to_rest__but_not_the_sum(snippet, fails):
    edited = snippet.edit(
        "F.mse_loss(guess, labels)", "(guess - labels).sum()"
    )
    fails(test_the_mse_comes_to_rest, edited)
