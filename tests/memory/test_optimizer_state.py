"""The claims of docs/memory/optimizer_state.md."""

import pytest

BEFORE, AFTER = "before a step", "after it"


def after(snippet):
    rows = snippet.after("try-all").rows
    return {name: row[AFTER] for name, row in rows.items()}


def test_sgd_keeps_one_with_momentum(snippet):
    found = after(snippet)

    assert (found["SGD"], found["SGD, momentum"]) == (0, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("optim.SGD(p, lr=0.01),", "optim.Adam(p, lr=0.01),"),
        ("optim.SGD(p, lr=0.01, momentum=0.9)", "optim.SGD(p, lr=0.01)"),
    ],
)
def test_sgd_keeps_one_with_momentum__but_not(snippet, old, new, fails):
    fails(test_sgd_keeps_one_with_momentum, snippet.edit(old, new))


def test_rmsprop_keeps_up_to_three(snippet):
    found = after(snippet)

    assert found["RMSprop"] == 1
    assert found["RMSprop, momentum"] == found["RMSprop, centered"] == 2
    assert found["RMSprop, both"] == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RMSprop(p, momentum=0.9),", "RMSprop(p),"),
        ("RMSprop(p, centered=True)", "RMSprop(p)"),
        ("momentum=0.9, centered=True", "momentum=0.9"),
    ],
)
def test_rmsprop_keeps_up_to_three__but_not_plain(snippet, old, new, fails):
    fails(test_rmsprop_keeps_up_to_three, snippet.edit(old, new))


def test_adagrad_keeps_one(snippet):
    assert after(snippet)["Adagrad"] == 1


def test_adagrad_keeps_one__but_adam_does_not(snippet, fails):
    fails(
        test_adagrad_keeps_one,
        snippet.edit("optim.Adagrad(p)", "optim.Adam(p)"),
    )


def test_adam_keeps_two_or_three(snippet):
    found = after(snippet)

    assert found["Adam"] == found["AdamW"] == 2
    assert found["Adam, amsgrad"] == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("optim.Adam(p),", "optim.Adam(p, amsgrad=True),"),
        ("optim.AdamW(p)", "optim.AdamW(p, amsgrad=True)"),
        ("optim.Adam(p, amsgrad=True),", "optim.Adam(p),"),
    ],
)
def test_adam_keeps_two_or_three__but_not_the_other(snippet, old, new, fails):
    fails(test_adam_keeps_two_or_three, snippet.edit(old, new))


def test_counters_take_four_bytes(snippet):
    rows = snippet.after("try-all").rows

    counters = {name: row["bytes of counters"] for name, row in rows.items()}
    for name, number in counters.items():
        assert number == (0 if name.startswith("SGD") else 4 * 4)


def test_counters_take_four_bytes__but_not_of_more_parameters(snippet, fails):
    edited = snippet.edit(
        "nn.Linear(64, 64, dtype=dtype), nn.Linear(64, 64, dtype=dtype)",
        "*(nn.Linear(64, 64, dtype=dtype) for _ in range(3))",
    )
    fails(test_counters_take_four_bytes, edited)


def test_the_state_appears_at_the_first_step(snippet):
    rows = snippet.after("try-all").rows

    for name, row in rows.items():
        assert row[BEFORE] == (1 if name == "Adagrad" else 0)
        assert row[AFTER] > 0 or name == "SGD"


def test_the_state_appears_at_the_first_step__but_adagrads(snippet, fails):
    edited = snippet.edit("optim.Adagrad(p)", "optim.RMSprop(p)")
    fails(test_the_state_appears_at_the_first_step, edited)


def test_the_second_step_adds_nothing(snippet):
    run = snippet.after("second-step")

    assert run.after_one == run.after_two > 0


def test_the_second_step_adds_nothing__but_the_first_does(snippet, fails):
    edited = snippet.edit("step(model, optimizer)\nafter_one", "after_one")
    fails(test_the_second_step_adds_nothing, edited)


def test_the_state_has_the_type_of_its_parameter(snippet):
    run = snippet.after("half")

    size = run.bytes_of(run.half.parameters())
    assert size == 2 * sum(each.numel() for each in run.half.parameters())
    assert run.half_state == 2 * size


def test_the_state_has_the_type_of_its_parameter__but_not_unhalved(
    snippet, fails
):
    edited = snippet.edit("new_model(torch.bfloat16)", "new_model()")
    fails(test_the_state_has_the_type_of_its_parameter, edited)


def test_no_gradient_no_state(snippet):
    run = snippet.after("unused")

    assert run.with_state == 2
    assert run.model[1].weight not in run.optimizer.state


def test_no_gradient_no_state__but_with_one(snippet, fails):
    edited = snippet.edit("model[1].requires_grad_(False)\n", "")
    fails(test_no_gradient_no_state, edited)


def test_adagrad_keeps_a_state_for_all(snippet, optimizer="Adagrad"):
    edited = snippet.edit(
        "optim.Adam(model.parameters())\nmodel[1]",
        f"optim.{optimizer}(model.parameters())\nmodel[1]",
    )
    run = edited.after("unused")

    assert run.with_state == 4
    assert run.model[1].weight in run.optimizer.state


def test_adagrad_keeps_a_state_for_all__but_adam_does_not(snippet, fails):
    fails(test_adagrad_keeps_a_state_for_all, snippet, "Adam")


def test_zero_grad_keeps_the_state(snippet):
    assert snippet.after("zero-grad").kept > 0


def test_zero_grad_keeps_the_state__but_clearing_does_not(snippet, fails):
    edited = snippet.edit("optimizer.zero_grad()", "optimizer.state.clear()")
    fails(test_zero_grad_keeps_the_state, edited)


def test_an_optimizer_holds_the_parameters(snippet):
    run = snippet.after("after-the-model")

    assert run.held == run.size > 0
    assert not hasattr(run, "model")


def test_an_optimizer_holds_the_parameters__but_not_if_emptied(snippet, fails):
    edited = snippet.edit(
        "del model\n", "del model\noptimizer.param_groups.clear()\n"
    )
    fails(test_an_optimizer_holds_the_parameters, edited)
