"""The claims of docs/course/overfitting.md."""

import math
from functools import cache
from statistics import mean

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import after, resumed

REMEDIES = ("early stopping", "dropout")
WAYS = ("no remedy", "1,200 pictures", *REMEDIES)


# The program as long as a test needs it: what it begins with runs once.
CELLS = "so-far", "few", "overfit", "stop-early", "stopped", "watch-training"


def overfitted(snippet):
    return resumed(snippet, *CELLS[:3])


def both(snippet):
    return resumed(snippet, *CELLS[:5])


def watched(snippet):
    return resumed(snippet, *CELLS)


def everything(snippet):
    return resumed(snippet, *CELLS, "gap", "gap-checked")


def from_another(snippet, seed):
    """Return the program with its three models from another seed."""
    for name in ("model", "stopped", "late"):
        old = f"manual_seed(0)\n{name}"
        snippet = snippet.edit(old, old.replace("0", f"{seed}"))
    return snippet


OTHERS = {
    "seed 4": lambda snippet: (from_another(snippet, 4), everything),
    "another 100 pictures": lambda snippet: (
        snippet.edit("train[:100]", "train[300:400]"),
        both,
    ),
}
with_others = pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)


# Two curves


def test_all_100_are_learned(snippet, train=everything):
    run = train(snippet)

    assert len({*run.few.tolist()} & {*run.train.tolist()}) == 100
    assert len(run.train_losses) == 60
    few = run.images[run.few], run.labels[run.few]
    loss, right = run.evaluate(run.model, *few)
    assert right == 1
    assert run.train_losses[-1] == loss < 0.01


@with_others
def test_all_100_are_learned__also_with(snippet, other):
    test_all_100_are_learned(*other(snippet))


RATE = "lr=0.01)\n\ntrain_losses"
LOOP = "for _ in range(60):\n    train_epoch(model, loader, optimizer)\n"
ONLY_15 = ("15 epochs", LOOP, LOOP.replace("60", "15"))


@edits(ONLY_15, ("a rate of 0.003", RATE, RATE.replace("0.01", "0.003")))
def test_all_100_are_learned__but_not_with(snippet, old, new, fails):
    """It takes more steps, or larger ones, to learn them all."""
    fails(test_all_100_are_learned, snippet.edit(old, new), overfitted)


def test_the_validation_loss_turns(snippet, train=everything):
    run = train(snippet)

    assert {*run.valid.tolist()} & {*run.few.tolist()} == set()
    assert len(run.valid_losses) == 60
    valid = run.images[run.valid], run.labels[run.valid]
    assert run.valid_losses[-1] == run.evaluate(run.model, *valid)[0]
    assert run.valid_losses.index(min(run.valid_losses)) < 40
    assert run.valid_losses[-1] > 1.1 * min(run.valid_losses)


@with_others
def test_the_validation_loss_turns__also_with(snippet, other):
    test_the_validation_loss_turns(*other(snippet))


def test_the_validation_loss_turns__also_as_a_gap(snippet):
    run = everything(snippet)

    wanted = run.valid_losses[-1] - run.train_losses[-1]
    assert run.found == run.wanted == wanted
    assert run.found > min(run.valid_losses)
    assert abs(run.gap(run.Net())) < 0.1


def test_the_validation_loss_turns__but_not_in_15_epochs(snippet, fails):
    """After 15 epochs, it is still near its lowest."""
    edited = snippet.edit(*ONLY_15[1:])
    fails(test_the_validation_loss_turns, edited, overfitted)


def test_the_validation_loss_turns__ends_at_a_rate_of_0_003(snippet, fails):
    """At this rate, 60 epochs are too few to see the validation loss rise."""
    slower = snippet.edit(RATE, RATE.replace("0.01", "0.003"))
    fails(test_the_validation_loss_turns, slower, overfitted)


# Early stopping


def scripted(snippet, losses):
    """Stop a training that has these validation losses, and return it."""
    run = after(snippet, "so-far", "few", "stop-early")
    left, model = iter(losses), nn.Linear(1, 1)
    nn.init.zeros_(model.weight)

    def train_epoch(*_):  # the weight counts the epochs
        with torch.no_grad():
            model.weight += 1

    fakes = {
        "train_epoch": train_epoch,
        "evaluate": lambda *_: (next(left), 0.5),
    }
    run.stop_early.__globals__.update(fakes)
    run.stopped = model
    run.epoch, run.best_epoch = run.stop_early(model, None)
    return run


def test_patience_is_waiting(snippet, losses=None):
    if losses is None:
        run = everything(snippet)
        losses = run.valid_losses
    else:
        run = scripted(snippet, losses)

    seen = losses[: run.epoch + 1]
    assert run.best_epoch == seen.index(min(seen))
    assert run.epoch - run.best_epoch == 15


FALLING = [1 / (1 + n) for n in range(60)]
SCRIPTS = {
    "a loss that only rises": [1 + n for n in range(60)],
    "a loss that stays": [1.0] * 60,
    "a better one after 14": [3.0] * 15 + [2.0] + [2.5] * 44,
    "one after 14, which counts anew": [3.0, *[4.0] * 13, 2.0, *[2.1] * 45],
    "a better one too late": [3.0] * 16 + [1.0] * 44,
}


@pytest.mark.parametrize("losses", SCRIPTS.values(), ids=SCRIPTS)
def test_patience_is_waiting__also_for(snippet, losses):
    test_patience_is_waiting(snippet, losses)


def test_patience_is_waiting__also_with_two_in_the_exercise(snippet):
    run = after(snippet, "quiz")

    assert run.number - run.best_number == 2
    assert run.best_number == run.losses.index(run.best_loss) == 1
    assert run.best_loss == min(run.losses[: run.number + 1])


@edits(
    ("a patience of 10", "patience=15", "patience=10"),
    ("counting from the start", "epoch - best_epoch ==", "epoch =="),
    ("nothing that ends it", "break\n    model", "pass\n    model"),
)
def test_patience_is_waiting__but_not_with(snippet, old, new, fails):
    """Another patience ends the loop elsewhere, or not at all."""
    losses = SCRIPTS["a better one after 14"]
    fails(test_patience_is_waiting, snippet.edit(old, new), losses)


def test_patience_is_waiting__ends_after_60_epochs(snippet, fails):
    """If the loss still falls, the loop ends after its 60 epochs."""
    fails(test_patience_is_waiting, snippet, FALLING)


def test_the_best_epoch_comes_back(snippet, losses=None):
    if losses is None:
        run = everything(snippet)
        losses = run.valid_losses
        valid = run.images[run.valid], run.labels[run.valid]
        found, _ = run.evaluate(run.stopped, *valid)
        assert found == min(losses[: run.epoch + 1])
    else:
        with no_error():
            run = scripted(snippet, losses)
        assert run.stopped.weight.item() == 1 + losses.index(min(losses))


LATER = {
    "the first epoch": [1 + n for n in range(60)],
    "the last epoch": FALLING,
    "the earliest of several": [3.0] * 5 + [2.0] * 55,
}


@pytest.mark.parametrize("losses", LATER.values(), ids=LATER)
def test_the_best_epoch_comes_back__also_if_it_is(snippet, losses):
    test_the_best_epoch_comes_back(snippet, losses)


def test_the_best_epoch_comes_back__also_before_nan(snippet):
    losses = [3.0, 2.0, *[math.nan] * 58]
    test_the_best_epoch_comes_back(snippet, losses)


def test_the_best_epoch_comes_back__ends_with_nan_at_first(snippet, fails):
    """If the first loss is `nan`, no epoch is the best yet, and an
    `UnboundLocalError` comes: lower the rate.
    """
    fails(test_the_best_epoch_comes_back, snippet, [math.nan] * 60)


def test_the_best_epoch_comes_back__also_with_batchnorm(snippet):
    run = after(snippet, "so-far", "few", "stop-early")
    torch.manual_seed(0)
    layers = nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10)
    model, evaluate, losses = nn.Sequential(*layers), run.evaluate, []

    def noted(*inputs):
        losses.append(evaluate(*inputs)[0])
        return losses[-1], 0.5

    run.stop_early.__globals__["evaluate"] = noted
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    epoch, best_epoch = run.stop_early(model, optimizer)

    assert epoch > best_epoch
    valid = run.images[run.valid], run.labels[run.valid]
    assert evaluate(model, *valid)[0] == min(losses)


@edits(
    ("a copy", "copy.deepcopy(model.state_dict())", "model.state_dict()"),
    ("a deep copy", "copy.deepcopy(", "copy.copy("),
    ("loading it", "    model.load_state_dict(best_state)\n", ""),
)
def test_the_best_epoch_comes_back__but_not_without(snippet, old, new, fails):
    """Without one of these, the last model is left."""
    losses = SCRIPTS["a better one after 14"]
    fails(test_the_best_epoch_comes_back, snippet.edit(old, new), losses)


def share_of(run, model):
    """Return the share of validation pictures that a model names right."""
    with torch.no_grad():
        answers = model(run.images[run.valid]).argmax(dim=1)
    return (answers == run.labels[run.valid]).double().mean().item()


def test_the_answers_hardly_change(snippet, train=everything):
    run = train(snippet)
    valid = run.images[run.valid], run.labels[run.valid]
    loss, early = run.evaluate(run.stopped, *valid)

    assert early == pytest.approx(share_of(run, run.stopped))
    assert abs(early - share_of(run, run.model)) < 0.05
    assert run.valid_losses[-1] > 1.1 * loss
    if train is both:  # no later cell has put other numbers there
        assert (run.loss, run.right) == (loss, early)


@with_others
def test_the_answers_hardly_change__also_with(snippet, other):
    test_the_answers_hardly_change(*other(snippet))


def test_the_answers_hardly_change__but_not_if_too_early(snippet, fails):
    """With a patience of 1, it stops before it has learned the digits."""
    edited = snippet.edit("patience=15", "patience=1")
    fails(test_the_answers_hardly_change, edited, both)


# Remedies

RUNS = {}


@cache
def untrained(snippet):
    """Return what the cells define, before any of the ways has run."""
    edited = snippet.edit("in ways.items():", "in ():")
    cells = "so-far", "few", "stop-early", "dropout", "try-out", "ways"
    return after(edited, *cells)


def from_seeds_3_and_4(snippet):
    """Return the program with two other starts for each way."""
    return snippet.edit("for seed in (0, 1, 2):", "for seed in (3, 4):")


def runs_of(snippet, name):
    """Return the runs of a way, one from each seed.

    Two programs that agree in all that matters for a way share its runs.
    """
    head, _, rest = snippet.text.partition("# %% ways")
    way = rest.partition(f'    "{name}": ')[2].splitlines()[0]
    key = head, way
    if key not in RUNS:
        run = untrained(snippet)
        RUNS[key] = run.try_out(**run.ways[name])
        assert len(RUNS[key]) in (2, 3)
    return RUNS[key]


def losses_of(snippet, name):
    return [loss for loss, _ in runs_of(snippet, name)]


def shares_of(snippet, name):
    return [share for _, share in runs_of(snippet, name)]


def test_more_data_helps_most(snippet):
    worst = min(shares_of(snippet, "1,200 pictures"))

    others = {
        name: max(shares_of(snippet, name))
        for name in WAYS
        if name != "1,200 pictures"
    }
    assert [name for name in others if others[name] >= worst] == []
    run = untrained(snippet)
    assert {*run.ways} == {*WAYS}
    assert len(run.make_loader(run.train)) * 5 == 60
    assert len(run.make_loader(run.few)) == 1


def test_more_data_helps_most__also_from_other_seeds(snippet):
    test_more_data_helps_most(from_seeds_3_and_4(snippet))


@edits(
    ("the 100 again", '{"part": train, "epochs": 5}', "{}"),
    ("a single epoch", '"epochs": 5', '"epochs": 1'),
)
def test_more_data_helps_most__but_not(snippet, old, new, fails):
    """It takes new pictures, and enough steps to learn from them."""
    fails(test_more_data_helps_most, snippet.edit(old, new))


def test_two_remedies_lower_the_loss(snippet):
    plain = mean(losses_of(snippet, "no remedy"))

    found = {name: mean(losses_of(snippet, name)) for name in REMEDIES}
    assert [name for name in found if found[name] >= plain] == []


def test_two_remedies_lower_the_loss__also_from_other_seeds(snippet):
    test_two_remedies_lower_the_loss(from_seeds_3_and_4(snippet))


@edits(
    ("early stopping", '{"early": True}', "{}"),
    ("dropout", '{"make": with_dropout}', "{}"),
)
def test_two_remedies_lower_the_loss__but_not_without(
    snippet, old, new, fails
):
    """Without its remedy, a run is one of those without any."""
    fails(test_two_remedies_lower_the_loss, snippet.edit(old, new))


def test_three_runs_cannot_tell(snippet):
    plain = shares_of(snippet, "no remedy")

    apart = []
    for name in REMEDIES:
        shares = shares_of(snippet, name)
        if min(shares) > max(plain) or max(shares) < min(plain):
            apart.append(name)
    assert apart == []


def test_three_runs_cannot_tell__also_from_other_seeds(snippet):
    test_three_runs_cannot_tell(from_seeds_3_and_4(snippet))


def test_three_runs_cannot_tell__but_not_with_more_data(snippet, fails):
    """Here even the nearest runs are apart, so three are enough."""
    edited = snippet.edit('{"early": True}', '{"part": train, "epochs": 5}')
    fails(test_three_runs_cannot_tell, edited)


# The wrong loss


def test_the_training_loss_stops_nothing(snippet, train=everything):
    run = train(snippet)

    assert run.late_epoch == 59
    valid = run.images[run.valid], run.labels[run.valid]
    good, late = (
        run.evaluate(model, *valid)[0] for model in (run.stopped, run.late)
    )
    assert late > good
    assert run.loss == late


def test_the_training_loss_stops_nothing__also_from_seed_4(snippet):
    test_the_training_loss_stops_nothing(from_another(snippet, 4))


def test_the_training_loss_stops_nothing__but_not_on_validation(
    snippet, fails
):
    """The validation loss rises, and that stops the loop."""
    edited = snippet.edit("watched=few", "watched=valid")
    fails(test_the_training_loss_stops_nothing, edited, watched)
