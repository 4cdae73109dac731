"""The claims of docs/training/optimizers.md."""

import pytest

RATES = {"SGD": 0.001, "Adam": 0.001, "AdamW": 0.001}
RATES |= {"Adagrad": 0.01, "RMSprop": 0.01}


def test_every_optimizer_has_a_default_rate(snippet):
    rows = snippet.after("defaults").rows

    assert {name: row["lr"] for name, row in rows.items()} == RATES


def test_every_optimizer_has_a_default_rate__but_not_one_for_all(
    snippet, fails
):
    edited = snippet.edit('"RMSprop": optim.RMSprop', '"RMSprop": optim.SGD')
    fails(test_every_optimizer_has_a_default_rate, edited)


def test_adamw_decays_by_default(snippet):
    rows = snippet.after("defaults").rows
    decays = {name: row["weight_decay"] for name, row in rows.items()}

    assert decays.pop("AdamW") == 0.01
    assert set(decays.values()) == {0}


def test_adamw_decays_by_default__but_adam_does_not(snippet, fails):
    edited = snippet.edit('"AdamW": optim.AdamW', '"AdamW": optim.Adam')
    fails(test_adamw_decays_by_default, edited)


def steps(snippet, name):
    return list(snippet.after("first-step").moves[name].values())


def test_sgd_follows_the_size(snippet):
    assert steps(snippet, "SGD") == pytest.approx([0.001, 0.1, 10], rel=1e-3)


def test_sgd_follows_the_size__but_adam_does_not(snippet, fails):
    edited = snippet.edit('"SGD": optim.SGD', '"SGD": optim.Adam')
    fails(test_sgd_follows_the_size, edited)


def test_adam_ignores_the_size(snippet):
    assert steps(snippet, "Adam") == pytest.approx([0.1] * 3, rel=1e-4)
    assert steps(snippet, "Adagrad") == pytest.approx([0.1] * 3, rel=1e-4)
    decay = 0.1 * 0.01
    assert steps(snippet, "AdamW") == pytest.approx(
        [0.1 + decay] * 3, rel=1e-4
    )


@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adagrad"])
def test_adam_ignores_the_size__but_sgd_does_not(snippet, name, fails):
    edited = snippet.edit(f'"{name}": optim.{name}', f'"{name}": optim.SGD')
    fails(test_adam_ignores_the_size, edited)


def test_adam_ignores_the_size__but_not_below_eps(snippet, fails):
    edited = snippet.edit("(0.01, 1.0, 100.0)", "(1e-9, 1.0, 100.0)")
    fails(test_adam_ignores_the_size, edited)


def test_rmsprop_starts_ten_times_as_far(snippet):
    assert steps(snippet, "RMSprop") == pytest.approx([1] * 3, rel=1e-3)


def test_rmsprop_starts_ten_times_as_far__but_not_at_another_alpha(
    snippet, fails
):
    edited = snippet.edit(
        "first_step(kind, g) for g",
        'first_step(kind, g, **{"alpha": 0.0} if name == "RMSprop" else {})'
        " for g",
    )
    fails(test_rmsprop_starts_ten_times_as_far, edited)


def test_rmsprop_starts_ten_times_as_far__but_not_below_eps(snippet, fails):
    edited = snippet.edit("(0.01, 1.0, 100.0)", "(1e-10, 1.0, 100.0)")
    fails(test_rmsprop_starts_ten_times_as_far, edited)


def test_momentum_adds_up(snippet):
    run = snippet.after("momentum")

    first, second, third = run.positions
    assert first == -0.1
    assert second - first == pytest.approx(-0.19)
    assert third - second == pytest.approx(-0.271)


def test_momentum_adds_up__but_not_without_it(snippet, fails):
    fails(test_momentum_adds_up, snippet.edit("momentum=0.9", "momentum=0.0"))


def test_sgd_and_adamw_decay_in_proportion(snippet):
    decayed = snippet.after("decay").decayed

    assert decayed["SGD"] == pytest.approx(0.1 * 0.1, rel=1e-4)
    assert decayed["AdamW"] == pytest.approx(0.1 * 0.1, rel=1e-4)


def test_sgd_and_adamw_decay_in_proportion__but_adam_does_not(snippet, fails):
    edited = snippet.edit('"AdamW": optim.AdamW', '"AdamW": optim.Adam')
    fails(test_sgd_and_adamw_decay_in_proportion, edited)


def test_adam_rescales_the_decay(snippet):
    run = snippet.after("decay")

    for name in ("Adam", "Adagrad", "RMSprop"):
        step = run.moves[name]["gradient 1.0"]
        assert run.decayed[name] == pytest.approx(step, rel=1e-4)


def test_adam_rescales_the_decay__but_adamw_does_not(snippet, fails):
    edited = snippet.edit('"Adam": optim.Adam,', '"Adam": optim.AdamW,')
    fails(test_adam_rescales_the_decay, edited)


def test_decoupled_adam_decays_like_adamw(snippet, is_decoupled=True):
    run = snippet.after("decay")
    options = {"weight_decay": 0.1, "decoupled_weight_decay": is_decoupled}
    adam = run.first_step(run.optim.Adam, 0.0, **options)

    assert adam == pytest.approx(run.decayed["AdamW"], rel=1e-4)


def test_decoupled_adam_decays_like_adamw__but_not_by_default(snippet, fails):
    fails(test_decoupled_adam_decays_like_adamw, snippet, False)


def test_groups_override_the_call(snippet):
    first, second = snippet.after("groups").optimizer.param_groups

    assert (first["lr"], first["weight_decay"]) == (0.01, 0.01)
    assert (second["lr"], second["weight_decay"]) == (0.001, 0.0)
    assert first["betas"] == second["betas"]


def test_groups_override_the_call__but_not_unasked(snippet, fails):
    edited = snippet.edit(', "weight_decay": 0.0, "lr": 0.001', "")
    fails(test_groups_override_the_call, edited)


def test_a_replaced_layer_is_not_trained(snippet):
    assert snippet.after("replaced").changed == {
        "0.weight": True,
        "0.bias": True,
        "1.weight": False,
        "1.bias": False,
    }


def test_a_replaced_layer_is_not_trained__but_before_it_is(snippet, fails):
    new = "model[1] = nn.Linear(3, 1)  # a new head\n"
    make = "optimizer = optim.SGD(model.parameters(), lr=0.1)\n"
    edited = snippet.edit(make + new, new + make)
    fails(test_a_replaced_layer_is_not_trained, edited)


def test_an_added_layer_is_trained(snippet):
    assert snippet.after("added").now_changed


def test_an_added_layer_is_trained__but_not_unadded(snippet, fails):
    edited = snippet.edit(
        'optimizer.add_param_group({"params": model[1].parameters()})\n', ""
    )
    fails(test_an_added_layer_is_trained, edited)


def test_a_frozen_layer_stays(snippet):
    run = snippet.after("frozen")

    assert run.stayed
    assert run.model[0].weight.grad is None


def test_a_frozen_layer_stays__but_not_with_an_old_gradient(snippet, fails):
    edited = snippet.edit(
        "model[0].requires_grad_(False)\n",
        "model(torch.ones(4, 3)).sum().backward()\n"
        "model[0].requires_grad_(False)\n",
    )
    fails(test_a_frozen_layer_stays, edited)


def test_a_generator_is_used_up(snippet):
    run = snippet.after("refused")

    assert "empty parameter list" in run.refused(run.parameters)


def test_a_generator_is_used_up__but_not_a_list(snippet, fails):
    edited = snippet.edit(
        "parameters = model.parameters()", "parameters = [*model.parameters()]"
    )
    fails(test_a_generator_is_used_up, edited)


def test_a_tensor_alone_is_refused(snippet):
    run = snippet.after("refused")

    assert run.refused(run.model[0].weight).startswith("TypeError: params")


def test_a_tensor_alone_is_refused__but_not_in_a_list(snippet, fails):
    edited = snippet.edit(
        "optim.SGD(given, lr=0.1)", "optim.SGD([given], lr=0.1)"
    )
    fails(test_a_tensor_alone_is_refused, edited)


def test_a_computed_tensor_is_refused(snippet, capsys):
    snippet.after("refused")

    assert "non-leaf" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    "new", ["model[1].weight", "(model[1].weight * 2).detach()"]
)
def test_a_computed_tensor_is_refused__but_not_a_leaf(
    snippet, capsys, new, fails
):
    edited = snippet.edit("model[1].weight * 2", new)
    fails(test_a_computed_tensor_is_refused, edited, capsys)


def test_a_computed_tensor_is_refused__but_not_with_its_gradient(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "print(refused([model[1].weight * 2]))",
        "computed = model[1].weight * 2\ncomputed.retain_grad()\n"
        "print(refused([computed]))",
    )
    fails(test_a_computed_tensor_is_refused, edited, capsys)


def test_a_parameter_in_two_groups_is_refused(snippet, capsys):
    snippet.after("twice")

    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("ValueError: some parameters appear in more than")


def test_a_parameter_in_two_groups_is_refused__but_not_a_copy(
    snippet, capsys, fails
):
    edited = snippet.edit(
        'shared.parameters()}, {"params": shared.parameters()}]',
        'shared.parameters()}, {"params": nn.Linear(2, 2).parameters()}]',
    )
    fails(test_a_parameter_in_two_groups_is_refused, edited, capsys)
