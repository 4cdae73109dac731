"""The claims of docs/course/loop.md."""

import math
import warnings
from contextlib import contextmanager

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

LEARNS = "so-far", "loader", "train-epoch", "evaluate", "epochs"
LOOP = "so-far", "loader", "train-epoch", "untrained", "loop"
WORSE = *LOOP, "without-zero-grad"

# The ends of the four loops, which tell them apart.
BACKWARD = "        loss.backward()\n"
CLEAR = "        optimizer.zero_grad()\n"
STEP = "        optimizer.step()\n"
KEEP = "        losses.append"
KEEP_WORSE = "        without.append"
TESTED = "    results.append"
SAME_STEP = BACKWARD + STEP + KEEP_WORSE
SECOND_LOSS = "loss = F.cross_entropy(second(batch), targets)\n"

TEN = "in range(1, 11):"
EPOCHS_RATE = "lr=0.1)\n\nhistory"
TEN_OF_LOOP = (
    "losses = []\nfor _ in range(10):  # epochs",
    "losses = []\nfor _ in range(1):  # epochs",
)
MODEL = "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))"

SEEDS = pytest.mark.parametrize("seed", [1])


def seeded(snippet, seed):
    """Return the program with other digits in each part, and other models."""
    return (
        snippet.edit(
            "Generator().manual_seed(0)", f"Generator().manual_seed({seed})"
        )
        .edit(
            "torch.manual_seed(0)\nmodel", f"torch.manual_seed({seed})\nmodel"
        )
        .edit("    torch.manual_seed(0)", f"    torch.manual_seed({seed})")
    )


def with_optimizer(snippet, new):
    """Return the program with another optimizer for both loops."""
    for name in ("model", "second"):
        old = f"SGD({name}.parameters(), lr=0.1, momentum=0.9)"
        snippet = snippet.edit(old, new.replace("model", name))
    return snippet


def with_model(snippet, *layers):
    """Return the program with another untrained model."""
    new = f"    return nn.Sequential(nn.Flatten(), {', '.join(layers)})"
    return snippet.edit(MODEL, new)


@contextmanager
def silence():
    """Fail the test at an error and at a warning."""
    with no_error(), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def state_of(model):
    """Return a copy of all numbers of a model."""
    return [each.clone() for each in model.state_dict().values()]


def moved(before, model):
    """Return which tensors of a model are no longer what they were."""
    pairs = zip(before, state_of(model), strict=True)
    return [
        place
        for place, (old, new) in enumerate(pairs)
        if not torch.equal(old, new)
    ]


def by_hand(model, images, labels):
    """Return the loss and the share of right answers, digit by digit."""
    costs, rights = [], []
    for image, label in zip(images, labels.tolist(), strict=True):
        scores = model(image[None])[0].double().tolist()
        total = sum(math.exp(score) for score in scores)
        costs.append(math.log(total) - scores[label])
        rights.append(scores.index(max(scores)) == label)
    return sum(costs) / len(costs), sum(rights) / len(rights)


# Do this


def test_ten_epochs_teach_the_digits(snippet):
    run = after(snippet, *LEARNS)

    assert run.history["valid"][-1][1] > 0.85
    assert len(run.history["valid"]) == 10
    _, right = by_hand(run.model, run.images[run.valid], run.labels[run.valid])
    assert right == pytest.approx(run.history["valid"][-1][1])
    assert not set(run.valid.tolist()) & set(run.train.tolist())
    trained_on, _ = run.loader.dataset.tensors
    assert torch.equal(trained_on, run.images[run.train])


def test_ten_epochs_teach_the_digits__also_in_the_last_exercise(snippet):
    cells = *LEARNS[:-1], "untrained", "fit", "fit-checked"
    run = after(snippet, *cells)
    edited = snippet.edit(
        EPOCHS_RATE, f"lr=0.1, momentum=0.9{EPOCHS_RATE[6:]}"
    )
    expected = after(edited, *LEARNS).history["valid"]

    assert run.rights == [right for _, right in expected[:3]]


@SEEDS
def test_ten_epochs_teach_the_digits__also_from(snippet, seed):
    test_ten_epochs_teach_the_digits(seeded(snippet, seed))


@edits(
    ("after one epoch", TEN, "in range(1, 2):"),
    ("at a low rate", EPOCHS_RATE, "lr=0.001)\n\nhistory"),
    (
        "of digits that the model trains on",
        "images[train], labels[train]), batch_size=32",
        "images[valid], labels[valid]), batch_size=32",
    ),
    (
        "with wrong labels",
        "labels[train]), batch_size=32",
        "labels[train].flip(0)), batch_size=32",
    ),
)
def test_ten_epochs_teach_the_digits__but_not(snippet, old, new, fails):
    """One epoch is too short, a rate of 0.001 too low, and labels of other
    digits teach nothing; and the validation digits have to be new to the
    model.
    """
    fails(test_ten_epochs_teach_the_digits, snippet.edit(old, new))


def test_both_losses_fall(snippet):
    run = after(snippet, *LEARNS)
    start = after(snippet, "so-far", "evaluate", "untrained")

    for part, chosen in (("train", run.train), ("valid", run.valid)):
        digits = run.images[chosen], run.labels[chosen]
        first, _ = start.evaluate(start.model, *digits)
        losses = [loss for loss, _ in run.history[part]]
        assert [first, *losses] == sorted({first, *losses}, reverse=True)
        assert len(losses) == 10
        last, _ = by_hand(run.model, *digits)
        assert last == pytest.approx(losses[-1], rel=1e-4)


@SEEDS
def test_both_losses_fall__also_from(snippet, seed):
    test_both_losses_fall(seeded(snippet, seed))


@edits(
    (
        "without a step",
        STEP + "\n\n# %% evaluate",
        "\n\n# %% evaluate",
    ),
    (
        "for wrong labels of the training digits",
        "labels[train]))",
        "labels[train].flip(0)))",
    ),
    (
        "for wrong labels of the validation digits",
        "labels[valid]))\n    loss, right",
        "labels[valid].flip(0)))\n    loss, right",
    ),
)
def test_both_losses_fall__but_not(snippet, old, new, fails):
    """Without a step, no loss changes; and the loss for wrong labels grows, as
    the model gets sure of the right ones.
    """
    fails(test_both_losses_fall, snippet.edit(old, new))


def test_both_losses_fall__ends_at_a_high_rate(snippet, fails):
    """At a learning rate of 10, the steps are too long, and the loss goes up
    and down.
    """
    edited = snippet.edit(EPOCHS_RATE, "lr=10)\n\nhistory")
    fails(test_both_losses_fall, edited)


# How it works


def test_an_epoch_has_38_batches(snippet):
    run = after(snippet, "so-far", "loader", "sizes")

    assert run.sizes == [32] * 37 + [16]
    assert len(run.loader) == 38
    again = [len(targets) for _, targets in run.loader]
    assert again == run.sizes


def test_an_epoch_has_38_batches__also_in_order(snippet):
    test_an_epoch_has_38_batches(snippet.edit("32, shuffle=True", "32"))


@edits(
    ("32, shuffle=True", "100, shuffle=True"),
    ("32, shuffle=True", "32, shuffle=True, drop_last=True"),
)
def test_an_epoch_has_38_batches__but_not(snippet, old, new, fails):
    """Batches of 100 are twelve, and `drop_last=True` leaves the half batch
    out.
    """
    fails(test_an_epoch_has_38_batches, snippet.edit(old, new))


def test_each_epoch_has_its_own_order(snippet):
    run = after(snippet, "so-far", "loader")
    known = [image.tolist() for image in run.images[run.train]]
    orders = []
    for _ in range(3):
        batches = list(run.loader)
        orders.append(torch.cat([batch for batch, _ in batches]))
        shown = [image.tolist() for image in orders[-1]]
        assert sorted(shown) == sorted(known)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(orders[one], orders[other])


@pytest.mark.parametrize("size", [7, 500])
def test_each_epoch_has_its_own_order__also_in_batches_of(snippet, size):
    edited = snippet.edit("batch_size=32", f"batch_size={size}")
    test_each_epoch_has_its_own_order(edited)


@edits(
    ("without shuffle", "32, shuffle=True", "32"),
    (
        "with what is left dropped",
        "32, shuffle=True",
        "32, shuffle=True, drop_last=True",
    ),
    (
        "in an order drawn once",
        "32, shuffle=True\n)",
        "32,\n    sampler=torch.randperm(1200).tolist()\n)",
    ),
)
def test_each_epoch_has_its_own_order__but_not(snippet, old, new, fails):
    """Without `shuffle`, the order stays; so does an order drawn once; and
    `drop_last=True` leaves digits out.
    """
    fails(test_each_epoch_has_its_own_order, snippet.edit(old, new))


def evaluating(snippet, *layers):
    """Run what `evaluate` needs, with an untrained model."""
    edited = with_model(snippet, *layers) if layers else snippet
    cells = "so-far", "loader", "train-epoch", "evaluate", "untrained"
    return after(edited, *cells)


def test_evaluate_changes_nothing(snippet, *layers):
    run = evaluating(snippet, *layers)
    before = state_of(run.model)
    for chosen in (run.valid, run.train[:7]):
        run.evaluate(run.model, run.images[chosen], run.labels[chosen])

    assert moved(before, run.model) == []
    assert all(each.grad is None for each in run.model.parameters())


@pytest.mark.parametrize(
    "layer", ["nn.BatchNorm1d(64)", "nn.Dropout()", "nn.ReLU()"]
)
def test_evaluate_changes_nothing__also_with(snippet, layer):
    test_evaluate_changes_nothing(snippet, layer, "nn.Linear(64, 10)")


def test_evaluate_changes_nothing__also_after_training(snippet):
    run = after(snippet, *LEARNS)
    before = state_of(run.model)
    run.evaluate(run.model, run.images[run.valid], run.labels[run.valid])

    assert moved(before, run.model) == []


def test_evaluate_changes_nothing__but_not_if_it_trains(snippet, fails):
    """Take steps on the validation digits, and the model learns from them."""
    step = (
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    train_epoch(model, [(images, labels)], optimizer)\n"
        "    model.eval()\n"
    )
    fails(
        test_evaluate_changes_nothing, snippet.edit("    model.eval()\n", step)
    )


def test_evaluate_returns_two_numbers(snippet, *layers):
    run = evaluating(snippet, *layers)
    for chosen in (run.valid, run.train[:7], run.test[:1]):
        inputs = run.images[chosen], run.labels[chosen]
        found = run.evaluate(run.model, *inputs)
        assert [type(each) for each in found] == [float, float]
        assert found == pytest.approx(by_hand(run.model, *inputs), rel=1e-4)


@pytest.mark.parametrize("layer", ["nn.BatchNorm1d(64)", "nn.Dropout()"])
def test_evaluate_returns_two_numbers__also_with(snippet, layer):
    test_evaluate_returns_two_numbers(snippet, layer, "nn.Linear(64, 10)")


@edits(
    ("return loss.item()", "return loss"),
    ("right.item()", "right"),
    ("double().mean()", "double().sum()"),
    (
        "(scores, labels)\n    right",
        "(scores, labels, reduction='sum')\n    right",
    ),
)
def test_evaluate_returns_two_numbers__but_not(snippet, old, new, fails):
    """Without `item()`, you get a tensor; and a sum is not a mean."""
    fails(test_evaluate_returns_two_numbers, snippet.edit(old, new))


# What goes wrong


def test_the_loss_falls(snippet):
    losses = after(snippet, *LOOP).losses

    assert {type(each) for each in losses} == {float}  # to be drawn
    assert losses[0] > 2
    assert losses[-1] < 0.5
    assert sum(losses[-38:]) / 38 < 0.5
    assert len(losses) == 380


@SEEDS
def test_the_loss_falls__also_from(snippet, seed):
    test_the_loss_falls(seeded(snippet, seed))


def test_the_loss_falls__ends_with_a_trained_model(snippet, fails):
    """If the model has been trained before, the loss begins low: make a new
    one.
    """
    trained = (
        "\n\nmodel = untrained()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "train_epoch(model, loader, optimizer)\n"
    )
    edited = snippet.edit("\n\nmodel = untrained()\n", trained)
    fails(test_the_loss_falls, edited)


def test_the_loss_falls__ends_in_a_single_batch(snippet, fails):
    """The loss of one batch jumps up and down: from another start (seed 5),
    the last 16 digits have one of about 0.6, though the mean of the last epoch
    is low as well.
    """
    edited = seeded(snippet, 5)
    losses = after(edited, *LOOP).losses
    assert sum(losses[-38:]) / 38 < 0.5
    fails(test_the_loss_falls, edited)


def test_the_loss_falls__but_not_without_zero_grad(snippet, fails):
    """Without `zero_grad()`, the gradients add up, and the loss climbs."""
    old = CLEAR + BACKWARD + STEP + KEEP
    fails(test_the_loss_falls, snippet.edit(old, BACKWARD + STEP + KEEP))


@edits(
    ("without backward", BACKWARD + STEP + KEEP, STEP + KEEP),
    ("without a step", STEP + KEEP, KEEP),
    ("in one epoch", *TEN_OF_LOOP),
    (
        "from a trained model",
        "momentum=0.9)\n\nlosses",
        "momentum=0.9)\ntrain_epoch(model, loader, optimizer)\n\nlosses",
    ),
)
def test_the_loss_falls__but_not(snippet, old, new, fails):
    """Without a gradient or a step, nothing moves; one epoch is too short; and
    a model that has been trained starts lower.
    """
    fails(test_the_loss_falls, snippet.edit(old, new))


def test_without_zero_grad_nothing_is_said(snippet):
    with silence():
        run = snippet.only(*WORSE).after("without-zero-grad")

    assert len(run.without) == 380


def test_without_zero_grad_nothing_is_said__also_in_the_first_loop(snippet):
    old = CLEAR + BACKWARD + STEP + KEEP
    edited = snippet.edit(old, BACKWARD + STEP + KEEP)
    with silence():
        run = edited.only(*LOOP).after("loop")

    assert len(run.losses) == 380


def test_without_zero_grad_nothing_is_said__also_with_adam(snippet):
    new = "Adam(model.parameters())"
    test_without_zero_grad_nothing_is_said(with_optimizer(snippet, new))


def test_without_zero_grad_nothing_is_said__but_not_for_one_loss(
    snippet, fails
):
    """If the loss is computed only once, before the loop, the second
    `backward()` raises an error, because the first has freed the graph.
    """
    loop = "for _ in range(10):  # epochs\n    for batch, targets in loader:\n"
    old = f"without = []\n{loop}        {SECOND_LOSS}"
    new = f"without = []\nbatch, targets = next(iter(loader))\n{SECOND_LOSS}"
    fails(
        test_without_zero_grad_nothing_is_said, snippet.edit(old, new + loop)
    )


def test_without_zero_grad_nothing_is_said__but_not_of_an_old_option(
    snippet, fails
):
    """`reduce=True` works, but warns that it is deprecated."""
    old = "F.cross_entropy(second(batch), targets)"
    edited = snippet.edit(
        old, old.replace("targets)", "targets, reduce=True)")
    )
    fails(test_without_zero_grad_nothing_is_said, edited)


def test_without_zero_grad_it_is_worse(snippet):
    run = after(snippet, *WORSE)

    assert {type(each) for each in run.without} == {float}  # to be drawn
    assert run.without[0] == run.losses[0]  # the same start
    epoch = len(run.loader)
    assert len(run.without) == len(run.losses) == 10 * epoch
    assert run.without[-1] > 100 * run.losses[-1]
    assert sum(run.without[-epoch:]) > 100 * sum(run.losses[-epoch:])


@SEEDS
def test_without_zero_grad_it_is_worse__also_from(snippet, seed):
    test_without_zero_grad_it_is_worse(seeded(snippet, seed))


@pytest.mark.parametrize("size", [100])
def test_without_zero_grad_it_is_worse__also_in_batches_of(snippet, size):
    edited = snippet.edit("batch_size=32", f"batch_size={size}")
    test_without_zero_grad_it_is_worse(edited)


@pytest.mark.parametrize("rate", [0.3])
def test_without_zero_grad_it_is_worse__also_at_a_rate_of(snippet, rate):
    new = f"SGD(model.parameters(), lr={rate}, momentum=0.9)"
    test_without_zero_grad_it_is_worse(with_optimizer(snippet, new))


@edits(
    ("with it", SAME_STEP, CLEAR + SAME_STEP),
    (
        "from another start",
        "second = untrained()",
        "second = model",
    ),
    ("without a step", SAME_STEP, BACKWARD + KEEP_WORSE),
)
def test_without_zero_grad_it_is_worse__but_not(snippet, old, new, fails):
    """With the line, both runs are the same; a trained model starts lower; and
    without a step, the loss stays as it is.
    """
    fails(test_without_zero_grad_it_is_worse, snippet.edit(old, new))


def test_without_zero_grad_it_is_worse__ends_without_momentum(snippet, fails):
    """Plain SGD at this rate hides the mistake: the loss still falls."""
    edited = with_optimizer(snippet, "SGD(model.parameters(), lr=0.1)")
    worse = after(edited, *WORSE).without
    assert worse[-1] < worse[0] / 2
    fails(test_without_zero_grad_it_is_worse, edited)


def test_without_zero_grad_it_is_worse__ends_with_adam(snippet, fails):
    """With Adam, whose steps have a limited length, the loss ends less than a
    hundred times as high.
    """
    edited = with_optimizer(snippet, "Adam(model.parameters(), lr=0.01)")
    fails(test_without_zero_grad_it_is_worse, edited)


def test_without_step_the_loss_stays(snippet):
    run = after(
        snippet, "so-far", "loader", "evaluate", "untrained", "without-step"
    )

    start = run.evaluate(
        run.untrained(), run.images[run.valid], run.labels[run.valid]
    )
    assert run.results == [start] * 3
    assert all(each.grad.any() for each in run.third.parameters())


@SEEDS
def test_without_step_the_loss_stays__also_from(snippet, seed):
    test_without_step_the_loss_stays(seeded(snippet, seed))


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop"])
def test_without_step_the_loss_stays__also_with(snippet, name):
    old = "SGD(third.parameters()"
    edited = snippet.edit(old, old.replace("SGD", name))
    test_without_step_the_loss_stays(edited)


def test_without_step_the_loss_stays__but_not_with_it(snippet, fails):
    """With `step()`, the model learns, and the loss falls."""
    edited = snippet.edit(BACKWARD + TESTED, BACKWARD + STEP + TESTED)
    fails(test_without_step_the_loss_stays, edited)


def test_without_step_the_loss_stays__ends_with_dropout_left_on(
    snippet, fails
):
    """With dropout that stays on in `evaluate`, it differs each time."""
    edited = with_model(snippet, "nn.Dropout()", "nn.Linear(64, 10)").edit(
        "    model.eval()\n", ""
    )
    fails(test_without_step_the_loss_stays, edited)


def test_without_step_the_loss_stays__ends_with_batch_norm(snippet, fails):
    """With `BatchNorm`: it collects its means while the model only runs."""
    edited = with_model(snippet, "nn.BatchNorm1d(64)", "nn.Linear(64, 10)")
    fails(test_without_step_the_loss_stays, edited)
