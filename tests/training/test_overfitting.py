"""The claims of docs/training/overfitting.md."""

from copy import deepcopy
from functools import cache
from itertools import pairwise

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits
from tests.helpers.programs import resumed

SETUP = ("digits", "model")
FIVE = ("weight decay 1", "L1 penalty 0.001", "dropout 0.5")
FIVE += ("label smoothing 0.1", "shifts by a pixel")
DONE = "    return model, torch.tensor(curve, dtype=torch.float64)"
OTHER_WAYS = ("weight decay 0", "8 hidden units", "400 digits")


def stopped(snippet):
    return snippet.only(*SETUP, "early-stopping").after("early-stopping")


@cache
def ran(snippet):
    """Return the ways of the table, before any of them has run."""
    text = snippet.text.replace("for seed in (0, 1, 2)", "for seed in ()")
    unrun = type(snippet)(snippet.path, text)
    return unrun.only(*SETUP, "shift", "fit", "ways").after("ways")


@cache
def run_of(snippet, way, seed):
    """Return a run of a way."""
    run = ran(snippet)
    return run.fit(seed, **run.ways[way])


def runs_of(snippet, way, seeds=range(3)):
    """Return three runs of a way: those of the table, or from other seeds."""
    return [run_of(snippet, way, seed) for seed in seeds]


def last(snippet, way, column, seeds=range(3)):
    """Return where a column of the curves ends, on average."""
    curves = [curve for _, curve in runs_of(snippet, way, seeds)]
    assert {len(curve) for curve in curves} == {20}
    return torch.stack(curves)[:, -1, column].mean().item()


def loss_of(snippet, way, seeds=range(3)):
    return last(snippet, way, 2, seeds)


def share_of(snippet, way, seeds=range(3)):
    return last(snippet, way, 3, seeds)


def trained(snippet):
    """Return the states and losses after 100 epochs from the same start."""
    return _trained(snippet.only(*SETUP))


@cache
def _trained(program):
    run = program.after("model")
    torch.manual_seed(2)
    model = run.make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    states, losses = [], []
    for _ in range(100):
        run.train_epoch(model, optimizer)
        assert model.training
        losses.append(run.evaluate(model, run.validation)[0])
        states.append(deepcopy(model.state_dict()))
    return states, losses


def test_the_best_state_comes_back(snippet):
    run = stopped(snippet)

    states, losses = trained(snippet)
    state, losses = states[run.best_epoch], losses[: run.epoch + 1]
    assert losses.index(min(losses)) == run.best_epoch
    assert losses[run.best_epoch] == run.best_loss
    assert run.epoch > run.best_epoch
    now = run.model.state_dict()
    assert [name for name in state if not now[name].equal(state[name])] == []
    assert run.evaluate(run.model, run.validation)[0] == run.best_loss


MADE = "    return nn.Sequential(*layers, nn.Linear(hidden, 10))"


@edits(
    ("BatchNorm", MADE, f"    layers.append(nn.BatchNorm1d(hidden))\n{MADE}"),
    ("dropout", "dropout=0.0", "dropout=0.5"),
)
def test_the_best_state_comes_back__also_with(snippet, old, new):
    test_the_best_state_comes_back(snippet.edit(old, new))


COPIED = "best_state = deepcopy(model.state_dict())"
LOADED = "model.load_state_dict(best_state)\n\n# %% stopped"


@edits(
    ("a copy", COPIED, "best_state = model.state_dict()"),
    ("loading it", LOADED, "\n\n# %% stopped"),
)
def test_the_best_state_comes_back__but_not_without(snippet, old, new, fails):
    """Without one of these, the last model is left, not the best one."""
    fails(test_the_best_state_comes_back, snippet.edit(old, new))


def test_the_best_state_comes_back__but_not_of_parameters(snippet, fails):
    """If only parameters are copied, BatchNorm keeps its last statistics."""
    old = "best_state = deepcopy(model.state_dict())"
    new = "best_state = deepcopy(dict(model.named_parameters()))"
    edited = (
        snippet.edit(
            MADE, f"    layers.append(nn.BatchNorm1d(hidden))\n{MADE}"
        )
        .edit(old, new)
        .edit(
            "load_state_dict(best_state)\n\n# %% stopped",
            "load_state_dict(best_state, strict=False)\n\n# %% stopped",
        )
    )
    fails(test_the_best_state_comes_back, edited)


def test_patience_counts_epochs(snippet):
    run = stopped(snippet)

    losses = trained(snippet)[1][: run.epoch + 1]
    assert run.epoch - run.best_epoch == 20
    assert min(losses[-20:]) >= min(losses[:-20]) == run.best_loss
    lows = [
        n for n, _ in enumerate(losses) if losses[n] == min(losses[: n + 1])
    ]
    assert max(b - a for a, b in pairwise(lows)) <= 20


def test_patience_counts_epochs__also_at_another_rate(snippet):
    run = stopped(snippet)
    torch.manual_seed(0)
    run.model = run.make_model()
    run.optimizer = torch.optim.AdamW(run.model.parameters(), lr=0.003)
    loop = compile(snippet.cell("early-stopping").source, "loop", "exec")
    exec(loop, vars(run))

    assert run.epoch - run.best_epoch == 20


@edits(
    ("of 10", ">= 20:  # patience", ">= 10:  # patience"),
    ("counted from the start", "epoch - best_epoch >=", "epoch >="),
)
def test_patience_counts_epochs__but_not_with_one(snippet, old, new, fails):
    """Other numbers end the loop elsewhere."""
    fails(test_patience_counts_epochs, snippet.edit(old, new))


def test_patience_counts_epochs__ends_with_the_range(snippet, fails):
    """If 100 epochs are over before, the loop ends there, without patience."""
    edited = snippet.edit(
        "range(100):\n    train_epoch(model, optimizer)\n"
        "    loss, _ = evaluate(model, validation)\n"
        "    if loss < best_loss:\n        best_loss, best_epoch",
        "range(25):\n    train_epoch(model, optimizer)\n"
        "    loss, _ = evaluate(model, validation)\n"
        "    if loss < best_loss:\n        best_loss, best_epoch",
    )
    fails(test_patience_counts_epochs, edited)


def test_a_nan_is_never_best(snippet, value="nan"):
    old = (
        "    loss, _ = evaluate(model, validation)\n    if loss < best_loss:\n"
    )
    new = f'    loss = float("{value}")\n    if loss < best_loss:\n'
    head, tail = snippet.text.split("# %% stopped")
    edited = type(snippet)(
        snippet.path, head.replace(old, new) + "# %% stopped" + tail
    )

    with pytest.raises(NameError, match="best_epoch"):
        stopped(edited)


def test_a_nan_is_never_best__also_if_infinite(snippet):
    test_a_nan_is_never_best(snippet, "inf")


def test_a_nan_is_never_best__but_not_a_number(snippet, fails):
    """A number is lower than infinity, so that there is a best epoch."""
    fails(test_a_nan_is_never_best, snippet, "0.5")


def test_a_nan_is_never_best__but_not_counted_from_the_start(snippet, fails):
    """If `best_epoch` is set before the loop, it stops without this error."""
    old = 'best_loss = float("inf")\nfor epoch'
    new = 'best_loss, best_epoch = float("inf"), 0\nfor epoch'
    fails(test_a_nan_is_never_best, snippet.edit(old, new))


def test_a_nan_is_never_best__ends_if_the_cell_ran_before(snippet, fails):
    """In a notebook where the cell ran before, `best_epoch` is still there:
    the loop ends without an error, with the state of the earlier run.
    """
    old = 'best_loss = float("inf")\nfor epoch'
    new = f"best_epoch, best_state = 18, model.state_dict()\n{old}"
    fails(test_a_nan_is_never_best, snippet.edit(old, new))


def assert_parts(curve):
    assert curve[-1, 0] < 0.01
    assert curve[-1, 2] > 4 / 3 * curve[:, 2].min()


def test_the_curves_part(snippet):
    run = resumed(snippet, (*SETUP, "fit", "two"))

    assert_parts(run.overfits)
    loss, share = run.evaluate(run.late, run.validation)
    assert {type(loss), type(share)} == {float}
    assert run.overfits[-1, 2:].tolist() == [loss, share]
    assert run.overfits[-1, :2].tolist() == [*run.evaluate(run.late, run.few)]
    assert len(run.few[0]) == len(run.few[1]) == 100
    assert [len(part) for part in (run.train, run.valid, run.test)] == [
        1200,
        300,
        297,
    ]
    seeded = torch.Generator().manual_seed(0)
    assert run.shuffled.equal(torch.randperm(1797, generator=seeded))


@pytest.mark.parametrize("seed", [1])
def test_the_curves_part__also_from(snippet, seed):
    assert_parts(run_of(snippet, "nothing", seed)[1])


@edits(
    (
        "a large weight decay",
        'way.pop("weight_decay", 0.01)',
        'way.pop("weight_decay", 1.0)',
    ),
    (
        "2 hidden units",
        "late, overfits = fit(seed=2)",
        "late, overfits = fit(seed=2, hidden=2)",
    ),
)
def test_the_curves_part__but_not_with(snippet, old, new, fails):
    """A large weight decay closes the gap; 2 units do not learn the 100."""
    fails(test_the_curves_part, snippet.edit(old, new))


def confident(snippet):
    cells = (*SETUP, "early-stopping", "fit", "two", "confident")
    return resumed(snippet, cells)


def test_the_late_model_is_right_more_often(snippet):
    run = confident(snippet)

    early, late = (
        run.evaluate(model, run.validation) for model in (run.model, run.late)
    )
    assert late[0] > 1.2 * early[0]
    assert late[1] > early[1] + 0.02
    state = trained(snippet)[0][-1]  # the early one, had it gone on
    now = run.late.state_dict()
    assert [name for name in state if not now[name].equal(state[name])] == []


def test_the_late_model_is_right_more_often__also_on_average(snippet):
    curves = [
        curve
        for _, curve in runs_of(snippet, "nothing", [0, 1, 2, 10, 11, 12])
    ]
    lows = torch.stack([c[c[:, 2].argmin()] for c in curves]).mean(dim=0)
    ends = torch.stack([curve[-1] for curve in curves]).mean(dim=0)

    assert ends[2] > 1.2 * lows[2]
    assert ends[3] > lows[3]


def from_seed(snippet, seed):
    """Start both models, the early and the late one, from another seed."""
    start = "torch.manual_seed({})\nmodel = make_model()\n"
    start += "optimizer = optim.AdamW(model.parameters(), lr=0.01)\n\n"
    edited = snippet.edit(start.format(2), start.format(seed))
    return edited.edit(
        "late, overfits = fit(seed=2)", f"late, overfits = fit(seed={seed})"
    )


def test_the_late_model_is_right_more_often__ends_from_seed_0(snippet, fails):
    """From another start, the loss rises as well, but the accuracy may stay
    about the same.
    """
    edited = from_seed(snippet, 0)
    _, curve = run_of(snippet, "nothing", 0)
    early, late = curve[[curve[:, 2].argmin(), -1], 2:].tolist()
    assert late[0] > 1.2 * early[0]
    assert late[1] == pytest.approx(early[1], abs=0.01)
    fails(test_the_late_model_is_right_more_often, edited)


def test_the_late_model_is_right_more_often__but_not_with_decay(
    snippet, fails
):
    """With weight decay 1, the late model has no higher loss."""
    old = "late, overfits = fit(seed=2)"
    edited = snippet.edit(old, "late, overfits = fit(seed=2, weight_decay=1)")
    fails(test_the_late_model_is_right_more_often, edited)


def test_the_late_model_is_right_more_often__but_not_tiny(snippet, fails):
    """With 2 hidden units, the late model is right less often."""
    edited = snippet.edit(
        "late, overfits = fit(seed=2)",
        "late, overfits = fit(seed=2, hidden=2)",
    )
    fails(test_the_late_model_is_right_more_often, edited)


def test_wrong_answers_cost_more(snippet):
    run = confident(snippet)

    (right, wrong), (late_right, late_wrong) = map(
        run.costs, (run.model, run.late)
    )
    assert {*map(type, (right, wrong, late_right, late_wrong))} == {float}
    assert late_wrong > 2 * wrong
    assert late_right < right / 2
    loss, share = run.evaluate(run.late, run.validation)
    mean = share * late_right + (1 - share) * late_wrong
    assert mean == pytest.approx(loss, rel=1e-4)


def test_wrong_answers_cost_more__also_from_seed_3(snippet):
    test_wrong_answers_cost_more(from_seed(snippet, 3))


def test_wrong_answers_cost_more__but_not_with_decay(snippet, fails):
    """With weight decay 1, wrong answers do not get that costly."""
    old = "late, overfits = fit(seed=2)"
    edited = snippet.edit(old, "late, overfits = fit(seed=2, weight_decay=1)")
    fails(test_wrong_answers_cost_more, edited)


def test_wrong_answers_cost_more__but_not_early(snippet, fails):
    """After 20 epochs, right answers still cost as much."""
    edited = snippet.edit(
        "for epoch in range(100):\n        model.train()",
        "for epoch in range(20):\n        model.train()",
    )
    fails(test_wrong_answers_cost_more, edited)


def test_no_remedy_adds_five_points(snippet, names=FIVE, seeds=range(3)):
    plain = share_of(snippet, "nothing", seeds)

    assert len(names) == 5
    shares = {name: share_of(snippet, name, seeds) for name in names}
    assert [n for n, share in shares.items() if share >= plain + 0.05] == []


def test_no_remedy_adds_five_points__also_from_another_seed(snippet):
    test_no_remedy_adds_five_points(snippet, seeds=[10])


def test_no_remedy_adds_five_points__but_not_more_data(snippet, fails):
    """400 digits add more than 5 points."""
    names = (*FIVE[:4], "400 digits")
    fails(test_no_remedy_adds_five_points, snippet, names)


def test_more_data_helps_most(snippet, way="400 digits", seeds=range(3)):
    assert (
        share_of(snippet, way, seeds)
        > share_of(snippet, "nothing", seeds) + 0.05
    )
    assert (
        loss_of(snippet, way, seeds) < loss_of(snippet, "nothing", seeds) / 2
    )
    assert len(ran(snippet).ways["400 digits"]["data"][0]) == 400


def test_more_data_helps_most__also_in_the_table(snippet):
    text = f"{DONE}\n\ndef fit(seed, **way):\n    return seed, way"
    edited = snippet.edit(DONE, text)
    run = edited.only(*SETUP, "shift", "fit", "ways").after("ways")

    assert {*run.ways} == {"nothing", *FIVE, *OTHER_WAYS}
    assert run.runs == {
        name: [(seed, way) for seed in range(3)]
        for name, way in run.ways.items()
    }


def test_more_data_helps_most__also_from_another_seed(snippet):
    test_more_data_helps_most(snippet, seeds=[10])


@pytest.mark.parametrize("way", ["dropout 0.5", "L1 penalty 0.001"])
def test_more_data_helps_most__but_not(snippet, way, fails):
    """Other remedies do not halve the loss, and add less."""
    fails(test_more_data_helps_most, snippet, way)


def test_shifts_teach_shifts(snippet, way="shifts by a pixel", seed=0):
    run, shares = ran(snippet), []
    for name in ("nothing", way):
        torch.manual_seed(seed)
        moved = run.shift(run.validation[0]), run.validation[1]
        models = [model for model, _ in runs_of(snippet, name)]
        found = [run.evaluate(model, moved)[1] for model in models]
        shares.append(sum(found) / 3)

    assert shares[1] > shares[0] + 0.25
    same = (moved[0] == run.validation[0]).flatten(1).all(dim=1)
    assert 0 < same.double().mean() < 0.25
    plain, shifted = run.validation[0].amax(), moved[0].amax()
    assert plain == shifted
    edge = torch.zeros(400, 1, 8, 8)
    edge[:, :, 3, 4] = 1
    places = {(y, x) for _, _, y, x in run.shift(edge).nonzero().tolist()}
    assert places == {(y, x) for y in (2, 3, 4) for x in (3, 4, 5)}


def few_runs(snippet, ways, *cells, epochs=5):
    """Run the last cells with a single run of some ways, a short one."""
    old = "for epoch in range(100):\n        model.train()"
    snippet = snippet.edit(old, old.replace("100", str(epochs)))
    text = snippet.text.replace("for seed in (0, 1, 2)", "for seed in (0,)")
    lines = text.splitlines(keepends=True)
    start, end = lines.index("ways = {\n") + 1, lines.index("runs = {\n") - 1
    kept = [each for each in lines[start:end] if any(w in each for w in ways)]
    text = "".join([*lines[:start], *kept, *lines[end:]])
    cells = (*SETUP, "shift", "fit", "ways", *cells)
    return type(snippet)(snippet.path, text).only(*cells).after(cells[-1])


def test_shifts_teach_shifts__also_in_the_table(snippet):
    run = few_runs(snippet, ["nothing", "shifts by"], "shifted")

    torch.manual_seed(0)
    assert run.moved[0].equal(run.shift(run.validation[0]))
    assert run.moved[1] is run.validation[1]
    model, _ = run.runs["shifts by a pixel"][0]
    assert run.shares == [run.evaluate(model, run.moved)[1]]


def test_shifts_teach_shifts__also_with_another_draw(snippet):
    test_shifts_teach_shifts(snippet, seed=1)


@pytest.mark.parametrize("way", ["400 digits", "weight decay 1"])
def test_shifts_teach_shifts__but_not(snippet, way, fails):
    """Weight decay or more digits do not teach the shift that well."""
    fails(test_shifts_teach_shifts, snippet, way)


CUT = "    for p in model.parameters():\n"
CUT += "        p.data[p.abs() < 0.01] = 0\n"


def dropping(snippet, *cells, epochs=5):
    """Run the last cells with a single run of dropout."""
    return few_runs(snippet, ["dropout"], "mc-dropout", *cells, epochs=epochs)


def test_only_dropout_is_on(snippet):
    run = dropping(snippet)

    on = [type(part) for part in run.dropping.modules() if part.training]
    assert on == [nn.Dropout] * 2
    assert not run.passes[0].equal(run.passes[1])
    assert len(run.passes) == 50
    assert not run.passes[0].requires_grad
    run.dropping.eval()
    scores = [run.dropping(run.validation[0]) for _ in range(2)]
    assert scores[0].equal(scores[1])


def test_only_dropout_is_on__also_beside_batchnorm(snippet):
    edited = snippet.edit(
        MADE, f"    layers.append(nn.BatchNorm1d(hidden))\n{MADE}"
    )
    test_only_dropout_is_on(edited)
    run = dropping(edited)
    assert run.dropping[-2].num_batches_tracked == 5


@edits(
    (
        "training mode",
        'dropping, _ = runs["dropout 0.5"][0]',
        'dropping, _ = runs["dropout 0.5"][0]\ndropping.train()',
    ),
    (
        "nested layers",
        MADE,
        MADE.replace("*layers", "nn.Sequential(*layers)"),
    ),
)
def test_only_dropout_is_on__also_from(snippet, old, new):
    test_only_dropout_is_on(snippet.edit(old, new))


ON = "    if isinstance(module, nn.Dropout):\n        module.train()"


@edits(
    ("all in training mode", ON, "    module.train()"),
    ("none in training mode", ON, "    pass"),
    ("eval afterwards", ON, f"{ON}\ndropping.eval()"),
)
def test_only_dropout_is_on__but_not_with(snippet, old, new, fails):
    """Then all layers are in training mode, or none."""
    fails(test_only_dropout_is_on, snippet.edit(old, new))


def test_only_dropout_is_on__ends_with_dropout2d(snippet, fails):
    """`Dropout2d` is no `nn.Dropout`, so that the loop passes it over."""
    old = "nn.Dropout(dropout)"
    fails(test_only_dropout_is_on, snippet.edit(old, "nn.Dropout1d(dropout)"))


class Functional(nn.Module):
    """Drops out by the function, as long as it is in training mode."""

    def forward(self, inputs):
        """Return the inputs, some of them as 0."""
        return nn.functional.dropout(inputs, 0.5, self.training)


OTHERS = {
    "Dropout2d": lambda: nn.Dropout2d(0.5),
    "the function": Functional,
    "an LSTM": lambda: nn.LSTM(8, 8, num_layers=2, dropout=0.5),
}


def differ(snippet, layer):
    """Tell whether two passes differ after the loop of the page."""
    run = dropping(snippet)
    run.dropping = nn.Sequential(layer)
    run.validation = (
        torch.ones(4, 3, 8, 8)
        if isinstance(layer, nn.Dropout2d)
        else torch.ones(4, 3, 8),
        None,
    )
    text = snippet.cell("mc-dropout").source.partition("\n")[2]
    loop = text.partition("with torch.no_grad()")[0]
    exec(compile(loop, "loop", "exec"), vars(run))
    results = [layer(run.validation[0]) for _ in range(2)]
    results = [r[0] if isinstance(r, tuple) else r for r in results]
    return not results[0].equal(results[1])


def test_the_loop_misses_other_dropout(snippet, layers=OTHERS):
    found = [n for n, make in layers.items() if differ(snippet, make())]
    assert found == []
    with torch.random.fork_rng():
        layer = Functional().train()
        assert not layer(torch.ones(99)).equal(layer(torch.ones(99)))


class AlwaysOn(nn.Module):
    """Drops out in every mode."""

    def forward(self, inputs):
        """Return the inputs, some of them as 0."""
        return nn.functional.dropout(inputs, 0.5)


def test_the_loop_misses_other_dropout__ends_without_its_training(
    snippet, fails
):
    """`F.dropout(x)` without `training=self.training` is on in every mode,
    with the loop and without it.
    """
    fails(test_the_loop_misses_other_dropout, snippet, {"on": AlwaysOn})


def test_the_loop_misses_other_dropout__but_not_dropout(snippet, fails):
    """`nn.Dropout` itself is found."""
    layers = {"Dropout": lambda: nn.Dropout(0.5)}
    fails(test_the_loop_misses_other_dropout, snippet, layers)


def test_the_loop_misses_other_dropout__but_not_if_named(snippet, fails):
    """If the loop names `Dropout2d` too, it finds it."""
    old = "isinstance(module, nn.Dropout)"
    edited = snippet.edit(old, "isinstance(module, nn.Dropout | nn.Dropout2d)")
    fails(test_the_loop_misses_other_dropout, edited)


def kept(snippet):
    return snippet.only(*SETUP, "reference").after("reference")


def test_the_last_model_is_kept(snippet):
    run = kept(snippet)

    states, losses = trained(snippet)
    state = states[-1]
    assert run.kept == run.loss == losses[-1]
    assert run.best_loss == min(losses) < 0.8 * run.kept
    now = run.model.state_dict()
    assert [name for name in state if not now[name].equal(state[name])] == []


def test_the_last_model_is_kept__also_in_the_exercise(snippet):
    run = snippet.only("digits", "copies").after("copies")

    kept = run.state, run.shallow, run.cloned
    assert [each["weight"].item() for each in kept] == [5, 5, 1]
    assert run.shallow is not run.state


SHARED = "best_loss, best_state = loss, model.state_dict()"


def test_the_last_model_is_kept__also_with_a_shallow_copy(snippet):
    test_the_last_model_is_kept(snippet.edit(SHARED, f"{SHARED}.copy()"))


def test_the_last_model_is_kept__but_not_a_deep_copy(snippet, fails):
    """A deep copy holds the weights of the best epoch."""
    new = "best_loss, best_state = loss, deepcopy(model.state_dict())"
    fails(test_the_last_model_is_kept, snippet.edit(SHARED, new))


def test_the_last_model_is_kept__but_not_clones(snippet, fails):
    """A clone of each tensor holds the weights of the best epoch."""
    new = "{k: v.clone() for k, v in model.state_dict().items()}"
    edited = snippet.edit(SHARED, f"best_loss, best_state = loss, {new}")
    fails(test_the_last_model_is_kept, edited)


def test_the_best_of_many_is_lucky(snippet):
    run = snippet.only("digits", "guessers").after("guessers")

    assert run.on_validation[run.best] > 0.14
    assert run.on_test < 0.13
    assert run.guessers.shape == (1000, 1797)
    right = run.guessers[:, run.valid] == run.labels[run.valid]
    assert (
        round(300 * run.on_validation[run.best].item())
        == right.sum(dim=1).max()
    )


@pytest.mark.parametrize("seed", [1])
def test_the_best_of_many_is_lucky__also_from(snippet, seed):
    old = "torch.manual_seed(0)\nguessers"
    edited = snippet.edit(old, f"torch.manual_seed({seed})\nguessers")
    test_the_best_of_many_is_lucky(edited)


@edits(
    ("one guesser", "(1000, 1797)", "(1, 1797)"),
    (
        "those to choose by",
        "(guessers[best, test] == labels[test])",
        "(guessers[best, valid] == labels[valid])",
    ),
)
def test_the_best_of_many_is_lucky__but_not_with(snippet, old, new, fails):
    """One guesser had no choice; on the digits chosen by, the luck stays."""
    fails(test_the_best_of_many_is_lucky, snippet.edit(old, new))


FOLDED = ("digits", "model", "fit", "folds")
NEW_MODEL = """\
    model, _ = fit(seed=2, data=(few[0][others], few[1][others]))  # a new one
"""
OLD_MODEL = """\
    model = make_model() if number == 0 else model
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(100):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(few[0][others]), few[1][others]).backward()
        optimizer.step()
"""


def test_one_model_for_all_folds_has_seen_them(snippet, old=OLD_MODEL):
    new_each_time = snippet.only(*FOLDED).after("folds").results
    edited = snippet.only(*FOLDED).edit(NEW_MODEL, old)
    torch.manual_seed(0)
    going_on = edited.after("folds").results

    assert sum(going_on) / 5 > sum(new_each_time) / 5 + 0.05


def test_one_model_for_all_folds_has_seen_them__but_not_a_new_one(
    snippet, fails
):
    """Each fold begins with a new model."""
    new = OLD_MODEL.replace(" if number == 0 else model", "")
    fails(test_one_model_for_all_folds_has_seen_them, snippet, new)
