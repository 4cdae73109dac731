"""The claims of docs/course/overfitting.md."""

from functools import cache
from statistics import mean

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits
from tests.helpers.programs import after

REMEDIES = ("early stopping", "dropout", "weight decay", "shifts")
WAYS = ("no remedy", "all 1,200 pictures", *REMEDIES, "a smaller model")


# Two curves


@cache
def overfitted(snippet):
    return after(snippet, "so-far", "few", "overfit")


def test_all_100_are_learned(snippet):
    run = overfitted(snippet)

    assert len({*run.few.tolist()} & {*run.train.tolist()}) == 100
    assert len(run.train_losses) == 60
    few = run.images[run.few], run.labels[run.few]
    loss, right = run.evaluate(run.model, *few)
    assert right == 1
    assert run.train_losses[-1] == loss < 0.01


SEEDED = "manual_seed(0)\nmodel"
OTHERS = {
    "seed 4": (SEEDED, "manual_seed(4)\nmodel"),
    "another 100 pictures": ("train[:100]", "train[300:400]"),
}
from_others = pytest.mark.parametrize(
    ("old", "new"), OTHERS.values(), ids=OTHERS
)
RATE = "torch.optim.Adam(model.parameters(), lr=0.01)"
LOOP = "for _ in range(60):\n    train_epoch(model, loader, optimizer)\n"
ONLY_15 = ("15 epochs", LOOP, LOOP.replace("60", "15"))


@from_others
def test_all_100_are_learned__also_with(snippet, old, new):
    test_all_100_are_learned(snippet.edit(old, new))


@edits(ONLY_15, ("a small rate", RATE, RATE.replace("0.01", "0.0003")))
def test_all_100_are_learned__but_not_with(snippet, old, new, fails):
    """It takes more steps, or larger ones, to learn them all."""
    fails(test_all_100_are_learned, snippet.edit(old, new))


def test_the_validation_loss_turns(snippet):
    run = overfitted(snippet)

    assert {*run.valid.tolist()} & {*run.few.tolist()} == set()
    assert len(run.valid_losses) == 60
    valid = run.images[run.valid], run.labels[run.valid]
    assert run.valid_losses[-1] == run.evaluate(run.model, *valid)[0]
    assert run.valid_losses.index(min(run.valid_losses)) < 40
    assert run.valid_losses[-1] > 1.1 * min(run.valid_losses)


@from_others
def test_the_validation_loss_turns__also_with(snippet, old, new):
    test_the_validation_loss_turns(snippet.edit(old, new))


def test_the_validation_loss_turns__also_as_a_gap(snippet):
    cells = "so-far", "few", "overfit", "gap", "gap-checked"
    run = after(snippet, *cells)

    wanted = run.valid_losses[-1] - run.train_losses[-1]
    assert run.found == run.wanted == wanted
    assert run.found > min(run.valid_losses)
    assert abs(run.gap(run.Net())) < 0.1


DECAYING = "torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=1.0)"


@edits(ONLY_15, ("weight decay", RATE, DECAYING))
def test_the_validation_loss_turns__but_not_with(snippet, old, new, fails):
    """After 15 epochs, or with weight decay, it is still near its lowest."""
    fails(test_the_validation_loss_turns, snippet.edit(old, new))


def test_the_validation_loss_turns__ends_at_a_rate_of_0_003(snippet, fails):
    """At this rate, 60 epochs are too few to see the validation loss rise."""
    slower = snippet.edit(RATE, RATE.replace("0.01", "0.003"))
    fails(test_the_validation_loss_turns, slower)


# Early stopping


@cache
def stopped(snippet):
    return after(snippet, "so-far", "few", "stop-early", "stopped")


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
        run, losses = stopped(snippet), overfitted(snippet).valid_losses
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
        run, losses = stopped(snippet), overfitted(snippet).valid_losses
        valid = run.images[run.valid], run.labels[run.valid]
        found, _ = run.evaluate(run.stopped, *valid)
        assert found == min(losses[: run.epoch + 1])
    else:
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


@cache
def both(snippet):
    return after(snippet, "so-far", "few", "overfit", "stop-early", "stopped")


def judged(run, model):
    """Return the share of right answers, and how sure the wrong ones are."""
    with torch.no_grad():
        shares = model(run.images[run.valid]).softmax(dim=1)
    sure, answers = shares.max(dim=1)
    right = answers == run.labels[run.valid]
    return right.double().mean().item(), sure[~right].mean().item()


def test_the_answers_hardly_change(snippet):
    run = both(snippet)
    early, late = (judged(run, each)[0] for each in (run.stopped, run.model))

    assert run.right == pytest.approx(early)
    assert abs(early - late) < 0.05
    assert run.valid_losses[-1] > 1.1 * run.loss


def from_another(snippet, seed):
    """Return the program with both models from another seed."""
    for name in ("model", "stopped"):
        old = f"manual_seed(0)\n{name}"
        snippet = snippet.edit(old, old.replace("0", f"{seed}"))
    return snippet


SEEDS = pytest.mark.parametrize("seed", [3, 4], ids="from seed {}".format)


@SEEDS
def test_the_answers_hardly_change__also(snippet, seed):
    test_the_answers_hardly_change(from_another(snippet, seed))


def test_the_answers_hardly_change__also_for_other_pictures(snippet):
    edited = snippet.edit("train[:100]", "train[300:400]")
    test_the_answers_hardly_change(edited)


def test_the_answers_hardly_change__but_not_if_too_early(snippet, fails):
    """With a patience of 1, it stops before it has learned the digits."""
    edited = snippet.edit("patience=15", "patience=1")
    fails(test_the_answers_hardly_change, edited)


def test_longer_is_surer_when_wrong(snippet):
    run = both(snippet)
    early, late = (judged(run, each)[1] for each in (run.stopped, run.model))

    assert len(run.valid_losses) > 1 + run.best_epoch
    assert late > early


@SEEDS
def test_longer_is_surer_when_wrong__also(snippet, seed):
    test_longer_is_surer_when_wrong(from_another(snippet, seed))


def test_longer_is_surer_when_wrong__also_for_other_pictures(snippet):
    edited = snippet.edit("train[:100]", "train[300:400]")
    test_longer_is_surer_when_wrong(edited)


def test_longer_is_surer_when_wrong__but_not_with_decay(snippet, fails):
    """Weight decay keeps the longer training from getting sure."""
    fails(test_longer_is_surer_when_wrong, snippet.edit(RATE, DECAYING))


# Remedies

RUNS = {}


@cache
def untrained(snippet):
    """Return what the cells define, before any of the ways has run."""
    all_ways = "for name, way in ways.items()}"
    edited = snippet.edit(all_ways, "for name, way in ()}")
    return after(
        edited, "so-far", "few", "stop-early", "remedies", "try-out", "ways"
    )


def runs_of(snippet, name, first=0):
    """Return three runs of a way: those of the table, or from other seeds.

    Two programs that agree in all that matters for a way share its runs.
    """
    head, _, rest = snippet.text.partition("# %% ways")
    way = rest.partition(f'    "{name}": ')[2].splitlines()[0]
    key = head, way, first
    if key not in RUNS:
        run = untrained(snippet)
        seeds = {"seeds": range(first, first + 3)} if first else {}
        RUNS[key] = run.try_out(**run.ways[name], **seeds)
        assert len(RUNS[key]) == 3
    return RUNS[key]


def losses_of(snippet, name, first=0):
    return [loss for loss, _ in runs_of(snippet, name, first)]


def shares_of(snippet, name, first=0):
    return [share for _, share in runs_of(snippet, name, first)]


def test_more_data_helps_most(snippet, first=0):
    worst = min(shares_of(snippet, "all 1,200 pictures", first))

    others = {
        name: max(shares_of(snippet, name, first))
        for name in WAYS
        if name != "all 1,200 pictures"
    }
    assert [name for name in others if others[name] >= worst] == []
    run = untrained(snippet)
    assert {*run.ways} == {*WAYS}
    assert len(run.make_loader(run.train)) * 5 == 60
    assert len(run.make_loader(run.few)) == 1


def test_more_data_helps_most__also_from_other_seeds(snippet):
    test_more_data_helps_most(snippet, first=3)


@edits(
    ("the 100 again", '{"part": train, "epochs": 5}', "{}"),
    ("a single epoch", '"epochs": 5', '"epochs": 1'),
)
def test_more_data_helps_most__but_not(snippet, old, new, fails):
    """It takes new pictures, and enough steps to learn from them."""
    fails(test_more_data_helps_most, snippet.edit(old, new))


def test_four_remedies_lower_the_loss(snippet, first=0):
    plain = mean(losses_of(snippet, "no remedy", first))

    found = {name: mean(losses_of(snippet, name, first)) for name in REMEDIES}
    assert [name for name in found if found[name] >= plain] == []


def test_four_remedies_lower_the_loss__also_from_other_seeds(snippet):
    test_four_remedies_lower_the_loss(snippet, first=3)


@edits(
    ("early stopping", '{"early": True}', "{}"),
    ("dropout", '{"make": with_dropout}', "{}"),
    ("weight decay", '{"decay": 1.0}', "{}"),
    ("shifts", '{"make": with_shifts}', "{}"),
    ("a remedy, but a smaller model", "with_dropout}", "smaller}"),
)
def test_four_remedies_lower_the_loss__but_not_without(
    snippet, old, new, fails
):
    """Without its remedy, a run is one of those without any."""
    fails(test_four_remedies_lower_the_loss, snippet.edit(old, new))


def test_three_runs_cannot_tell(snippet, first=0):
    plain = shares_of(snippet, "no remedy", first)

    apart = []
    for name in REMEDIES[:3]:
        shares = shares_of(snippet, name, first)
        if min(shares) > max(plain) or max(shares) < min(plain):
            apart.append(name)
    assert apart == []


def test_three_runs_cannot_tell__also_from_other_seeds(snippet):
    test_three_runs_cannot_tell(snippet, first=3)


@edits(
    ("with more data", '{"early": True}', '{"part": train, "epochs": 5}'),
    ("for a smaller model", '{"decay": 1.0}', '{"make": smaller}'),
)
def test_three_runs_cannot_tell__but_not(snippet, old, new, fails):
    """Here even the nearest runs are apart, so three are enough."""
    fails(test_three_runs_cannot_tell, snippet.edit(old, new))


def test_a_smaller_model_is_worse(snippet, first=0):
    shares = shares_of(snippet, "a smaller model", first)

    assert mean(shares) < mean(shares_of(snippet, "no remedy", first))
    run = untrained(snippet)
    small, large = (
        sum(p.numel() for p in model.parameters())
        for model in (run.smaller(), run.Net())
    )
    assert small < large / 9


def test_a_smaller_model_is_worse__also_from_other_seeds(snippet):
    test_a_smaller_model_is_worse(snippet, first=3)


def test_a_smaller_model_is_worse__but_not_with_more_data(snippet, fails):
    """Given all 1,200 pictures, the linear model beats the 100."""
    old = '"make": smaller'
    edited = snippet.edit(old, f'{old}, "part": train, "epochs": 20')
    fails(test_a_smaller_model_is_worse, edited)


def test_shifts_cost_answers(snippet, first=0):
    plain = mean(shares_of(snippet, "no remedy", first))

    assert mean(shares_of(snippet, "shifts", first)) < plain


def test_shifts_cost_answers__also_from_other_seeds(snippet):
    test_shifts_cost_answers(snippet, first=3)


def test_shifts_cost_answers__but_not_with_more_data(snippet, fails):
    """With all 1,200 pictures, even fewer epochs get more right."""
    old = '{"make": with_shifts}'
    new = '{"part": train, "epochs": 5}'
    fails(test_shifts_cost_answers, snippet.edit(old, new))


def test_shifts_cost_answers__ends_with_other_pictures(snippet, fails):
    """With another 100 pictures, shifts got more right in three runs."""
    others = snippet.edit("train[:100]", "train[300:400]")
    fails(test_shifts_cost_answers, others, 6)


# The wrong loss


def test_the_training_loss_stops_nothing(snippet):
    cells = "so-far", "few", "stop-early", "stopped", "watch-training"
    run = after(snippet, *cells)

    assert run.late_epoch == 59
    valid = run.images[run.valid], run.labels[run.valid]
    good, late = (
        run.evaluate(model, *valid)[0] for model in (run.stopped, run.late)
    )
    assert run.loss == late > good


@pytest.mark.parametrize("seed", [4])
def test_the_training_loss_stops_nothing__also_from(snippet, seed):
    for name in ("stopped", "late"):
        old = f"manual_seed(0)\n{name}"
        snippet = snippet.edit(old, old.replace("0", f"{seed}"))
    test_the_training_loss_stops_nothing(snippet)


def test_the_training_loss_stops_nothing__but_not_on_validation(
    snippet, fails
):
    """The validation loss rises, and that stops the loop."""
    edited = snippet.edit("watched=few", "watched=valid")
    fails(test_the_training_loss_stops_nothing, edited)
