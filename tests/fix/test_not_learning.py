"""The claims of docs/fix/not_learning.md."""

import copy
import math
from functools import cache, partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error

SEEDS = range(1, 3)


@cache
def defined(snippet):
    """Return what the page defines, without a training.

    Nothing in it changes when it is used, so that it runs once.
    """
    return snippet.only("digits", "by-hand", "one-batch", "faults").after(
        "faults"
    )


@cache
def numbers(snippet, name, seed=1):
    """Return the row that the page's table has for a program."""
    run = defined(snippet)
    changes = run.faults[name] if name else {}
    return run.one_batch(**changes, seed=seed)


def test_an_untrained_network_begins_at_chance(snippet, scale=1.0, seeds=20):
    run = snippet.only("digits").after("digits")
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = run.network()
        images, labels = next(iter(run.train_loader))
        for inputs, targets in ((images, labels), run.val_set[:]):
            loss = F.cross_entropy(model(scale * inputs), targets).item()
            assert loss == pytest.approx(math.log(10), rel=0.2)
    assert 0 <= run.pixels.min() < run.pixels.max() == 1


@edits(
    ("pixels up to 16", "torch.float32) / 16", "torch.float32) / 1"),
    (
        "larger weights",
        "    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), "
        "nn.Linear(32, 10))",
        "    last = nn.Linear(32, 10)\n"
        "    nn.init.normal_(last.weight)\n"
        "    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), last)",
    ),
)
def test_an_untrained_network_begins_at_chance__but_not_with(
    snippet, old, new, fails
):
    """With pixels up to 16, or with larger weights, the scores differ more."""
    fails(test_an_untrained_network_begins_at_chance, snippet.edit(old, new))


def test_an_untrained_network_begins_at_chance__ends_for_large_inputs(
    snippet, fails
):
    """For pixels up to 255, the first loss is far above ln 10."""
    fails(test_an_untrained_network_begins_at_chance, snippet, 255.0, 1)


def trained_twice(run, batches, sizes, rate, loss, options):
    """Train by hand and with PyTorch, and return both lists of weights."""
    features, width, classes = sizes
    model = nn.Sequential(
        nn.Linear(features, width), nn.ReLU(), nn.Linear(width, classes)
    ).to(batches[0][0].dtype)
    by_hand = [p.detach().clone() for p in model.parameters()]
    sgd = torch.optim.SGD(model.parameters(), lr=rate, **options)
    for images, labels in batches:
        sgd.zero_grad()
        loss(model(images), labels).backward()
        sgd.step()
        with no_error():
            run.train_step(images, labels, *by_hand, lr=rate)
    return list(model.parameters()), by_hand


def random_batches(sizes, rows, count, dtype):
    """Return random batches of a few shapes."""
    return [
        (
            torch.randn(rows, sizes[0], dtype=dtype),
            torch.randint(sizes[2], (rows,)),
        )
        for _ in range(count)
    ]


def test_eleven_lines_train_like_pytorch(
    snippet,
    sizes=(64, 32, 10),
    rows=50,
    rate=0.25,
    dtype=torch.float64,
    loss=F.cross_entropy,
    options=(),
    ignored=False,
):
    run = snippet.only("digits", "by-hand").after("by-hand")
    torch.manual_seed(0)
    batches = random_batches(sizes, rows, 150, dtype)
    if sizes == (64, 32, 10):
        digits = [batch for _ in range(5) for batch in run.train_loader]
        batches = [(images.to(dtype), y) for images, y in digits]
    if ignored:
        batches[0][1][0] = -100
    options = dict(options)
    both = trained_twice(run, batches, sizes, rate, loss, options)
    for theirs, mine in zip(*both, strict=True):
        assert mine.grad_fn is None
        assert (mine - theirs.detach()).abs().max().item() < 1e-9


@pytest.mark.parametrize(
    ("sizes", "rows", "rate"),
    [((1, 1, 2), 1, 0.1), ((5, 300, 40), 7, 0.01), ((3, 4, 3), 200, 1.0)],
    ids=["a single number", "many classes", "a large rate"],
)
def test_eleven_lines_train_like_pytorch__also_for(snippet, sizes, rows, rate):
    test_eleven_lines_train_like_pytorch(snippet, sizes, rows, rate)


def test_eleven_lines_train_like_pytorch__also_in_float32(snippet):
    run = snippet.after("compare")
    pairs = zip(run.usual.parameters(), run.by_hand, strict=True)
    for theirs, mine in pairs:
        assert (theirs.detach() - mine).abs().max().item() < 1e-3
        assert mine.dtype == torch.float32


USUAL = (64, 32, 10), 50, 0.25, torch.float64


@pytest.mark.parametrize("name", ["momentum", "weight_decay"])
def test_eleven_lines_train_like_pytorch__ends_with_an_option(
    snippet, name, fails
):
    """With momentum or weight decay, SGD takes other steps."""
    options = (*USUAL, F.cross_entropy, {name: 0.01})
    fails(test_eleven_lines_train_like_pytorch, snippet, *options)


@pytest.mark.parametrize(
    "options",
    [{"label_smoothing": 0.1}, {"weight": torch.arange(1.0, 11).double()}],
    ids=["label smoothing", "class weights"],
)
def test_eleven_lines_train_like_pytorch__ends_with(snippet, options, fails):
    """With label smoothing or class weights, the error of line 3 differs."""
    loss = partial(F.cross_entropy, **options)
    fails(test_eleven_lines_train_like_pytorch, snippet, *USUAL, loss)


def test_eleven_lines_train_like_pytorch__ends_with_ignored_labels(
    snippet, fails
):
    """A label of -100, which `cross_entropy` ignores, raises an error."""
    options = (*USUAL, F.cross_entropy, (), True)
    fails(test_eleven_lines_train_like_pytorch, snippet, *options)


@edits(
    ("line 1", "images @ w1.T + b1).relu()", "images @ w1.T + b1).abs()"),
    ("line 2", "hidden @ w2.T + b2", "hidden @ w2.T"),
    ("line 3", "scores.softmax(dim=1) - right", "scores.sigmoid() - right"),
    ("line 4", "(error @ w2) * (hidden > 0)", "error @ w2"),
    ("line 5", "error.T @ hidden", "error.T @ hidden.square()"),
    ("line 6", "w1 -= lr * back.T @ images", "w1 += lr * back.T @ images"),
)
def test_eleven_lines_train_like_pytorch__but_not_without(
    snippet, old, new, fails
):
    """Each edit changes one numbered line, and the weights differ."""
    fails(test_eleven_lines_train_like_pytorch, snippet.edit(old, new))


def test_eleven_lines_train_like_pytorch__also_as_walked_through(snippet):
    run = snippet.after("walk")
    assert run.pixel == 8
    assert run.w2[3].item() == pytest.approx(1.8)
    assert run.weight * run.pixel == pytest.approx(256 * 0.05625)


def convolution():
    """Return a convolution with BatchNorm, for flat images."""
    layers = [nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(288, 10))


HEALTHY = {
    "SGD": {},
    "AdamW": {"optimizer": torch.optim.AdamW, "rate": 0.01},
    "convolution": {
        "make": convolution,
        "prepare": lambda images: images.view(-1, 1, 8, 8),
        "rate": 0.1,
    },
}


def test_healthy_programs_pass(snippet, seeds=SEEDS, programs=HEALTHY):
    run = defined(snippet)
    for changes in programs.values():
        for seed in seeds:
            row = run.one_batch(**changes, seed=seed)
            assert (row, run.found(row)) == (row, [])


def test_healthy_programs_pass__also_in_the_lines_to_copy(snippet):
    run = snippet.after("do-this")
    assert run.loss.item() < 0.23
    assert len(run.labels) == 50
    assert {name for name, _ in run.model.named_parameters()} == set(run.old)
    assert 1e-6 < run.moved < 0.5


def test_healthy_programs_pass__also_with_a_bias_before_batchnorm(snippet):
    run = defined(snippet)
    for rate in (0.1, 0.25):
        changes = HEALTHY["convolution"] | {"rate": rate}
        model, _, take = run.begin(**changes)
        bias = model[0].bias
        before = bias.detach().clone()
        take(slice(50))
        assert bias.grad.norm() < 1e-6
        assert (bias.detach() - before).norm() < 1e-6 * before.norm()


def test_healthy_programs_pass__ends_at_a_low_rate(snippet, fails):
    """At a rate of 0.01, 300 steps are too few for SGD."""
    programs = {"": {"rate": 0.01}}
    fails(test_healthy_programs_pass, snippet, (1,), programs)


def test_healthy_programs_pass__ends_with_label_smoothing(snippet, fails):
    """With label smoothing, the loss of one batch doesn't get near 0."""
    loss = partial(F.cross_entropy, label_smoothing=0.1)
    fails(test_healthy_programs_pass, snippet, (1,), {"": {"loss": loss}})


def test_healthy_programs_pass__ends_with_much_dropout(snippet, fails):
    """With dropout, one batch may not be learned in 300 steps."""

    def make():
        return defined(snippet).network().insert(2, nn.Dropout(0.8))

    fails(test_healthy_programs_pass, snippet, (1,), {"": {"make": make}})


@edits(
    ("a rate of 25", '"rate": 0.25', '"rate": 25.0'),
    ("no step", '"backward", "step"), "seed"', '"backward"), "seed"'),
)
def test_healthy_programs_pass__but_not_with(snippet, old, new, fails):
    """At a rate of 25, or without `step()`, one batch is not learned."""
    fails(test_healthy_programs_pass, snippet.edit(old, new), (1,))


FOUND = {
    "softmax before the loss": {"last loss"},
    "ReLU on the scores": {"last loss"},
    "zero_grad() before step()": {"first gradient", "moved", "last loss"},
    "no zero_grad()": {"last gradient"},
    "optimizer of another model": {"moved", "last loss"},
    "optimizer of the last layer": {"moved", "last loss"},
    "rate too small": {"moved", "last loss"},
    "rate too large": {"last loss"},
    "detach() in the model": {"first gradient", "moved"},
    "dead ReLUs": {"first gradient", "moved", "last loss"},
    "pixels up to 255": {"first loss"},
    "labels shuffled": set(),
}


def test_each_fault_is_found(
    snippet, names=tuple(FOUND), seeds=SEEDS, more=None
):
    run = defined(snippet)
    if more:
        row = run.one_batch(**more)
        assert (row, run.found(row)) != (row, [])
    assert list(run.faults) == list(FOUND)
    for name in names:
        for seed in seeds:
            row = numbers(snippet, name, seed)
            found = set(run.found(row))
            missed = FOUND[name] - found
            assert (name, row, missed) == (name, row, set())
            assert bool(found) == (name != "labels shuffled")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("rate too small", '"rate": 0.00001', '"rate": 0.1'),
        ("no zero_grad()", '("backward", "step")}', 'healthy["lines"]}'),
        ("pixels up to 255", "images: 255 * images}", "images: 1 * images}"),
        ("detach() in the model", "return x.detach()", "return x"),
    ],
)
def test_each_fault_is_found__but_not_once_fixed(
    snippet, name, old, new, fails
):
    """Fix a program, and no number looks wrong."""
    fails(test_each_fault_is_found, snippet.edit(old, new), (name,), (1,))


def test_each_fault_is_found__also_if_it_is_nan(snippet):
    run = defined(snippet)
    good = run.one_batch()
    assert run.found(good) == []
    for name in ("first loss", "moved", "last loss"):
        assert run.found(good | {name: math.nan}) == [name]


def test_each_fault_is_found__ends_for_a_few_wrong_labels(snippet, fails):
    """If one label in ten is wrong, no number looks wrong."""
    labels = defined(snippet).train_labels.clone()
    labels[::10] = (labels[::10] + 1) % 10
    fails(test_each_fault_is_found, snippet, (), (1,), {"labels": labels})


def test_each_fault_is_found__ends_at_another_start(snippet, fails):
    """From seed 9, a ReLU on the scores still lets this batch be learned."""
    fails(test_each_fault_is_found, snippet, ("ReLU on the scores",), (9,))


LEFT_OUT = "optimizer of another model", "optimizer of the last layer"


def test_a_gradient_without_a_move(snippet, names=LEFT_OUT, **changes):
    run = defined(snippet)
    for name in names:
        for seed in SEEDS:
            row = run.one_batch(**run.faults[name], seed=seed, **changes)
            assert row["first gradient"] > 0.01
            assert row["moved"] == 0
            assert row["last gradient"] > 10 * row["first gradient"]
    model, _, take = run.begin(**run.faults[names[-1]])
    before = copy.deepcopy(model.state_dict())
    for _ in range(3):
        take(slice(50))
    after = model.state_dict()
    moved = [name for name in before if not after[name].equal(before[name])]
    assert moved == ["2.weight", "2.bias"]


@pytest.mark.parametrize("kind", ["AdamW", "RMSprop"])
def test_a_gradient_without_a_move__also_with(snippet, kind):
    options = {"optimizer": getattr(torch.optim, kind), "rate": 0.001}
    run = defined(snippet)
    for name in LEFT_OUT:
        row = run.one_batch(**run.faults[name], **options)
        assert row["first gradient"] > 0.01
        assert row["moved"] == 0


@edits(
    ("of its first layer", "m[2].parameters()", "m[0].parameters()"),
    ("of all layers", "m[2].parameters()", "m.parameters()"),
)
def test_a_gradient_without_a_move__but_not_with_the_optimizer(
    snippet, old, new, fails
):
    """If the optimizer has the first layer, that layer moves."""
    fails(test_a_gradient_without_a_move, snippet.edit(old, new), LEFT_OUT[1:])


def first_gradients(model, run):
    """Return the gradients of all parameters after one `backward()`."""
    model.zero_grad()
    scores = model(run.train_images)
    F.cross_entropy(scores, run.train_labels).backward()
    return [p.grad for p in model.parameters()]


def test_none_is_not_zero(snippet, cut=None, dead=None, seeds=10):
    run = defined(snippet)
    cut = cut or run.faults["detach() in the model"]["make"]
    dead = dead or run.faults["dead ReLUs"]["make"]
    for seed in range(seeds):
        torch.manual_seed(seed)
        weight, bias, *head = first_gradients(cut(), run)
        assert (weight, bias) == (None, None)
        assert all(each.norm() > 0 for each in head)
        weight, bias, *_, last = first_gradients(dead(), run)
        assert (weight.abs().max(), bias.abs().max()) == (0, 0)
        assert last.norm() > 0


@pytest.mark.parametrize("where", [1, 2])
def test_none_is_not_zero__also_with_a_cut_at(snippet, where):
    run = defined(snippet)

    def make():
        return run.network().insert(where, run.Cut())

    test_none_is_not_zero(snippet, make)


def test_none_is_not_zero__ends_with_a_leaky_relu(snippet, fails):
    """A `LeakyReLU` lets a small gradient through."""
    run = defined(snippet)

    def leaky():
        model = run.dead()
        model[1] = nn.LeakyReLU()
        return model

    fails(test_none_is_not_zero, snippet, None, leaky, 1)


def test_none_is_not_zero__but_not_with_a_live_relu(snippet, fails):
    """With a bias of 0, the ReLU is alive, and a gradient arrives."""
    fails(test_none_is_not_zero, snippet.edit("bias, -20.0", "bias, 0.0"))


@edits(
    ("no cut", "return x.detach()", "return x"),
    ("times 0", "return x.detach()", "return 0 * x"),
)
def test_none_is_not_zero__but_not_with(snippet, old, new, fails):
    """Without a cut, a gradient arrives; behind a factor of 0, zeros do."""
    fails(test_none_is_not_zero, snippet.edit(old, new))


def test_a_dead_relu_stays_dead(snippet, seeds=SEEDS, rate=10.0, **options):
    run = defined(snippet)
    for seed in seeds:
        model, optimizer, take = run.begin(rate=rate, seed=seed)
        run.five_epochs(take)
        assert (model[:2](run.pixels) == 0).all()
        assert model(run.pixels).std(dim=0).max() == 0
        before = copy.deepcopy(model.state_dict())
        optimizer.param_groups[0] |= {"lr": 0.1, **options}
        run.five_epochs(take)
        assert (model[:2](run.pixels) == 0).all()
        moved = {
            n for n, p in model.named_parameters() if p.ne(before[n]).any()
        }
        decayed = set(before) if "weight_decay" in options else set()
        assert moved == decayed | {"2.bias"}
        assert run.validate(model) > 2.2
        again, _, take = run.begin(seed=seed)
        run.five_epochs(take)
        assert run.validate(again) < 0.5


def test_a_dead_relu_stays_dead__also_as_shown(snippet):
    names = ["digits", "one-batch", "rates", "lower"]
    run = snippet.only(*names).after("lower")
    assert (run.rate, run.dead_units) == (10, 32)
    assert run.validate(run.fast) > 2.2


@pytest.mark.parametrize("name", ["weight_decay", "momentum"])
def test_a_dead_relu_stays_dead__also_with(snippet, name):
    test_a_dead_relu_stays_dead(snippet, (1,), **{name: 0.1})


def test_a_dead_relu_stays_dead__but_not_a_leaky_one(snippet, fails):
    """With `LeakyReLU`, no unit is dead."""
    edited = snippet.edit(
        "nn.ReLU(), nn.Linear(32, 10)", "nn.LeakyReLU(), nn.Linear(32, 10)"
    )
    fails(test_a_dead_relu_stays_dead, edited, (1,))


def test_a_dead_relu_stays_dead__ends_at_a_good_rate(snippet, fails):
    """At a rate of 0.25, the units don't die."""
    fails(test_a_dead_relu_stays_dead, snippet, (1,), 0.25)


def test_unscaled_pixels_stay_at_chance(snippet, seeds=SEEDS, rate=0.25):
    names = ["digits", "one-batch", "unscaled"]
    run = snippet.only(*names).after("unscaled")
    for seed in seeds:
        losses = []
        for prepare in (run.up_to_255, run.standardized):
            model, _, take = run.begin(seed=seed, prepare=prepare, rate=rate)
            run.five_epochs(take)
            losses.append(run.validate(model, prepare))
        assert losses[0] > 2.2
        assert losses[1] < 0.5
    standardized = run.standardized(run.train_images)
    assert standardized.mean().item() == pytest.approx(0, abs=1e-4)
    assert standardized.std().item() == pytest.approx(1, abs=1e-4)


def test_unscaled_pixels_stay_at_chance__ends_at_a_tiny_rate(snippet, fails):
    """At a rate of 0.00001, the network learns pixels up to 255."""
    fails(test_unscaled_pixels_stay_at_chance, snippet, (1,), 0.00001)


@edits(
    ("divided", "return 255 * images", "return images"),
    ("not divided", "numbers.mean()) / numbers.std()", "numbers.mean())"),
)
def test_unscaled_pixels_stay_at_chance__but_not(snippet, old, new, fails):
    """Pixels up to 1 are learned, and pixels around 0 that still go up to 200
    are not.
    """
    fails(test_unscaled_pixels_stay_at_chance, snippet.edit(old, new), (1,))


def test_learned_by_heart(snippet, seeds=SEEDS):
    run = defined(snippet)
    assert run.shuffled.sort().values.equal(run.train_labels.sort().values)
    for seed in seeds:
        assert numbers(snippet, "labels shuffled", seed)["last loss"] < 0.23
        model, _, take = run.begin(labels=run.shuffled, seed=seed)
        run.five_epochs(take)
        assert run.validate(model) > 2.2
        assert math.isclose(run.validate(model), math.log(10), rel_tol=0.1)


@edits(
    (
        "in order",
        "shuffled = train_labels[torch.randperm(1500)]",
        "shuffled = train_labels.clone()",
    ),
    ("a low rate", '"rate": 0.25', '"rate": 0.01'),
)
def test_learned_by_heart__but_not(snippet, old, new, fails):
    """With labels in order, the loss falls on new images too; at a low
    rate, not even one batch is learned.
    """
    edited = snippet.edit(old, new)
    fails(test_learned_by_heart, edited, (1,))
