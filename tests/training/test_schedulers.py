"""The claims of docs/training/schedulers.md."""

from itertools import pairwise

import pytest

STEP = "StepLR(step_size=5, gamma=0.5)"
COSINE = "CosineAnnealingLR(T_max=20)"
CYCLE = "OneCycleLR(max_lr=1, total_steps=20)"
WARM = "LinearLR, then CosineAnnealingLR"


def rises(rates):
    return all(later > sooner for sooner, later in pairwise(rates))


def falls(rates):
    return rises(rates[::-1])


def test_step_lr_falls_in_stairs(snippet):
    rates = snippet.after("curves").curves[STEP]

    assert rates == [0.5 ** (step // 5) for step in range(20)]


def test_step_lr_falls_in_stairs__but_not_at_gamma_one(snippet, fails):
    edited = snippet.edit(
        "lambda optimizer: StepLR(optimizer, step_size=5, gamma=0.5)",
        "lambda optimizer: StepLR(optimizer, step_size=5, gamma=1.0)",
    )
    fails(test_step_lr_falls_in_stairs, edited)


def test_cosine_falls_to_t_max(snippet):
    rates = snippet.after("curves").curves[COSINE]

    assert rates[0] == 1
    assert falls(rates)
    assert rates[-1] < 0.01


def test_cosine_falls_to_t_max__but_not_beyond(snippet, fails):
    edited = snippet.edit(
        "CosineAnnealingLR(optimizer, T_max=20)",
        "CosineAnnealingLR(optimizer, T_max=12)",
    )
    fails(test_cosine_falls_to_t_max, edited)


def test_one_cycle_rises_and_falls(snippet):
    rates = snippet.after("curves").curves[CYCLE]

    top = rates.index(max(rates))
    assert rates[0] == pytest.approx(1 / 25)
    assert max(rates) == pytest.approx(1)
    assert rises(rates[: top + 1])
    assert falls(rates[top:])
    assert top == 0.3 * 20 - 1
    assert rates[-1] < 1e-4


def test_one_cycle_rises_and_falls__but_not_if_told(snippet, fails):
    edited = snippet.edit(
        "OneCycleLR(optimizer, max_lr=1, total_steps=20)",
        "OneCycleLR(optimizer, max_lr=1, total_steps=20, pct_start=0.6)",
    )
    fails(test_one_cycle_rises_and_falls, edited)


def test_warm_up_rises_then_falls(snippet):
    rates = snippet.after("curves").curves[WARM]

    assert rates[0] == pytest.approx(0.1)
    assert rises(rates[:6])
    assert falls(rates[5:])


def test_warm_up_rises_then_falls__but_not_without_it(snippet, fails):
    edited = snippet.edit("start_factor=0.1", "start_factor=1.0")
    fails(test_warm_up_rises_then_falls, edited)


def test_a_step_is_a_call(snippet):
    run = snippet.after("counts-calls")

    assert run.per_epoch[-1] == 0.5
    assert run.per_batch[-1] == 0.5**11


def test_a_step_is_a_call__but_not_without_one(snippet, fails):
    edited = snippet.edit(
        "        scheduler.step()\n    return used\n\n\n# %% warm",
        "    return used\n\n\n# %% warm",
    )
    fails(test_a_step_is_a_call, edited)


def test_cosine_rises_again(snippet):
    rates = snippet.after("cosine-end").past_the_end

    assert falls(rates[:11])
    assert rises(rates[10:])
    assert rates[20] == pytest.approx(1)


def test_cosine_rises_again__but_not_before_its_end(snippet, fails):
    edited = snippet.edit(
        "CosineAnnealingLR(o, T_max=10)", "CosineAnnealingLR(o, T_max=20)"
    )
    fails(test_cosine_rises_again, edited)


def test_one_cycle_ends_with_an_error(snippet, capsys):
    run = snippet.after("one-cycle-end")

    assert run.calls == 10
    assert "Tried to step 11 times" in capsys.readouterr().out


def test_one_cycle_ends_with_an_error__but_not_before(snippet, capsys, fails):
    edited = snippet.edit("while calls < 20:", "while calls < 10:")
    fails(test_one_cycle_ends_with_an_error, edited, capsys)


def test_one_cycle_moves_the_momentum(snippet):
    run = snippet.after("one-cycle-momentum")

    top = run.learning_rates.index(max(run.learning_rates))
    assert 0 < top < 9
    assert falls(run.momenta[: top + 1])
    assert rises(run.momenta[top:])


def test_one_cycle_moves_the_momentum__but_not_if_told(snippet, fails):
    edited = snippet.edit(
        "cycle = OneCycleLR(optimizer, max_lr=1.0, total_steps=10)\ngiven",
        "cycle = OneCycleLR(\n    optimizer, max_lr=1.0, total_steps=10,"
        " cycle_momentum=False\n)\ngiven",
    )
    fails(test_one_cycle_moves_the_momentum, edited)


def test_one_cycle_replaces_the_rate(snippet):
    assert snippet.after("one-cycle-start").first_rate == pytest.approx(1 / 25)


def test_one_cycle_replaces_the_rate__but_step_lr_does_not(snippet, fails):
    edited = snippet.edit(
        "\nOneCycleLR(optimizer, max_lr=1.0, total_steps=10)\nfirst",
        "\nStepLR(optimizer, step_size=10)\nfirst",
    )
    fails(test_one_cycle_replaces_the_rate, edited)


def test_one_cycle_brings_a_momentum(snippet):
    assert snippet.after("one-cycle-start").first_momentum == 0.95


def test_one_cycle_brings_a_momentum__but_not_if_told(snippet, fails):
    edited = snippet.edit(
        "\nOneCycleLR(optimizer, max_lr=1.0, total_steps=10)\nfirst",
        "\nOneCycleLR(\n    optimizer, max_lr=1.0, total_steps=10,"
        " cycle_momentum=False\n)\nfirst",
    )
    fails(test_one_cycle_brings_a_momentum, edited)


def test_the_wrong_order_skips_the_first_rate(snippet):
    run = snippet.after("compare-orders")

    assert run.right == [1.0, 0.1, 0.01]
    assert run.wrong == [0.1, 0.01, 0.001]


def test_the_wrong_order_skips_the_first_rate__but_not_the_right(
    snippet, fails
):
    edited = snippet.edit("first_rates(True)", "first_rates(False)")
    fails(test_the_wrong_order_skips_the_first_rate, edited)


def test_the_wrong_order_is_warned_of(snippet):
    caught = snippet.after("compare-orders").caught

    assert len(caught) == 1
    [warning] = caught
    assert "`lr_scheduler.step()` before `optimizer.step()`" in str(
        warning.message
    )


def test_the_wrong_order_is_warned_of__but_not_the_right(snippet, fails):
    edited = snippet.edit("first_rates(True)", "first_rates(False)")
    fails(test_the_wrong_order_is_warned_of, edited)


def test_the_rate_stands_in_the_groups(snippet):
    run = snippet.after("read-the-rate")

    assert run.scheduler.get_last_lr() == [0.5]
    assert run.optimizer.param_groups[0]["lr"] == 0.5


def test_the_rate_stands_in_the_groups__but_not_before_a_step(snippet, fails):
    edited = snippet.edit(
        "scheduler.step()\n\nprint(scheduler.get_last_lr(), ",
        "\nprint(scheduler.get_last_lr(), ",
    )
    fails(test_the_rate_stands_in_the_groups, edited)


def test_the_rate_stands_in_the_groups__but_not_one_set_by_hand(
    snippet, fails
):
    edited = snippet.edit(
        "print(scheduler.get_last_lr(), optimizer.param_groups",
        'optimizer.param_groups[0]["lr"] = 7.0\n'
        "print(scheduler.get_last_lr(), optimizer.param_groups",
    )
    fails(test_the_rate_stands_in_the_groups, edited)


def test_groups_keep_their_own_rates(snippet):
    run = snippet.after("groups")

    assert run.scheduler.get_last_lr() == pytest.approx([0.5, 0.05])


def test_groups_keep_their_own_rates__but_not_under_one_cycle(snippet, fails):
    edited = snippet.edit(
        "    ]\n)\nscheduler = StepLR(optimizer, step_size=1, gamma=0.5)",
        "    ]\n)\nscheduler = OneCycleLR(optimizer, 1.0, total_steps=9)",
    )
    fails(test_groups_keep_their_own_rates, edited)
