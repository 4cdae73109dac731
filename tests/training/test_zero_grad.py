"""The claims of docs/training/zero_grad.md."""

import weakref
from functools import partial
from unittest.mock import patch

import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import true_since

BEFORE, AFTER = "before backward", "after step"
FORWARD, NOWHERE = "before the forward pass", "nowhere"
FOUR = {
    "SGD": (optim.SGD, {}),
    "SGD with momentum": (optim.SGD, {"momentum": 0.9}),
    "Adam": (optim.Adam, {}),
    "AdamW": (optim.AdamW, {}),
}
SHALLOW = "    model = nn.Linear(2, 1, bias=False)\n    return"
DEEPER = (
    "    layers = nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)\n"
    "    model = nn.Sequential(*layers)\n    return"
)


def has(parameters):
    """Return whether each parameter has a gradient that is not zero."""
    return all(p.grad is not None and bool(p.grad.any()) for p in parameters)


def trainer(snippet):
    """Return what trains a model, without the runs of the page."""
    return snippet.only("receipts", "new-model", "train").after("train")


def test_the_loop_finds_the_prices(snippet):
    prices = snippet.after("do-this").model.weight

    torch.testing.assert_close(
        prices, torch.tensor([[3.0, 2.0]]), atol=0.01, rtol=0
    )


@pytest.mark.parametrize("seed", [1])
def test_the_loop_finds_the_prices__also_from_another_start(snippet, seed):
    edited = snippet.edit(
        "manual_seed(0)\nbought", f"manual_seed({seed})\nbought"
    )
    test_the_loop_finds_the_prices(edited)


LOOP = """    optimizer.zero_grad()
    loss = F.mse_loss(model(bought), totals)
    loss.backward()
    optimizer.step()

print("apples, pears"""


@pytest.mark.parametrize(
    "new",
    [
        LOOP.replace("    optimizer.zero_grad()\n", ""),
        LOOP.replace("    optimizer.zero_grad()\n", "").replace(
            "backward()\n", "backward()\n    optimizer.zero_grad()\n"
        ),
    ],
    ids=["without a reset", "between"],
)
def test_the_loop_finds_the_prices__but_not(snippet, new, fails):
    """Without a reset, gradients add up; with one between `backward()` and
    `step()`, no step has a gradient.
    """
    fails(test_the_loop_finds_the_prices, snippet.edit(LOOP, new))


def weights(run, place, kind, steps=20, **options):
    """Return all weights that a model has while it is trained."""
    seen = run.train(place, *run.new_model(kind, **options), steps=steps)
    return torch.stack([weights for _, _, weights in seen])


def test_three_places_are_the_same(snippet, kinds=FOUR, **options):
    run = trainer(snippet)

    for kind, own in kinds.values():
        first, second, third = (
            weights(run, place, kind, **own, **options)
            for place in (FORWARD, BEFORE, AFTER)
        )
        assert torch.equal(first, second)
        assert torch.equal(second, third)
        assert not torch.equal(first[0], first[-1])


@pytest.mark.parametrize("rate", [0.001, 0.05])
@pytest.mark.parametrize("seed", [2])
def test_three_places_are_the_same__also_from(snippet, seed, rate):
    test_three_places_are_the_same(snippet, seed=seed, lr=rate)


def test_three_places_are_the_same__also_in_a_deeper_model(snippet):
    edited = snippet.edit(SHALLOW, DEEPER)
    test_three_places_are_the_same(edited, lr=0.01)


STEPS = (
    "        optimizer.step()\n"
    '        reset(optimizer, "after step", place)\n'
    "        seen"
)
SWAPPED = (
    '        reset(optimizer, "after step", place)\n'
    "        optimizer.step()\n"
    "        seen"
)


@edits(
    (
        "a forward pass with an old gradient left",
        'reset(optimizer, "before the forward pass", place)\n        loss = F',
        "loss = F",
    ),
    (
        "none before backward",
        'reset(optimizer, "before backward", place)\n        loss.backward()\n'
        "        gradients",
        "loss.backward()\n        gradients",
    ),
    ("between in place of after", STEPS, SWAPPED),
)
@pytest.mark.parametrize("name", FOUR)
def test_three_places_are_the_same__but_not_with(
    snippet, old, new, name, fails
):
    """Leave a reset out, or put it between `backward()` and `step()`, and that
    run gets other weights.
    """
    edited = snippet.edit(old, new)
    fails(test_three_places_are_the_same, edited, {name: FOUR[name]})


@edits(
    (
        "two backward passes per step",
        "place)\n        loss.backward()\n        gradients",
        "place)\n        loss.backward(retain_graph=True)\n"
        '        reset(optimizer, "before backward", place)\n'
        "        F.l1_loss(model(bought), totals).backward()\n"
        "        gradients",
    ),
    (
        "a gradient left from before",
        "    seen = []\n    for _ in range(steps):\n        reset",
        "    seen = []\n    F.mse_loss(model(bought), totals).backward()\n"
        "    for _ in range(steps):\n        reset",
    ),
)
@pytest.mark.parametrize("name", FOUR)
def test_three_places_are_the_same__ends_with(snippet, old, new, name, fails):
    """With two backward passes a step, or a gradient left from before: a reset
    at each place drops something else.
    """
    edited = snippet.edit(old, new)
    fails(test_three_places_are_the_same, edited, {name: FOUR[name]})


def gradient_at(run, weights):
    """Return the gradient of the mean squared error, by hand."""
    errors = run.bought @ weights[:, None] - run.totals
    return 2 * (errors * run.bought).mean(dim=0)


def test_without_a_reset_gradients_sum_up(snippet):
    run = snippet.after("two-runs")
    start = run.new_model(lr=0.1)[0].weight[0]

    assert [len(each) for each in run.runs.values()] == [40, 40]
    total, at = torch.zeros(2), start
    for _, gradients, weights in run.runs["no reset"]:
        total = total + gradient_at(run, at)
        torch.testing.assert_close(gradients, total, atol=1e-3, rtol=1e-3)
        at = weights


def test_without_a_reset_gradients_sum_up__but_not_with_one(snippet, fails):
    """With a reset after each step, `.grad` holds the gradient of that step
    alone.
    """
    edited = snippet.edit(
        '("no reset", "nowhere")', '("no reset", "after step")'
    )
    fails(test_without_a_reset_gradients_sum_up, edited)


def test_no_reset_is_a_momentum_of_one(snippet, momentum=1.0, **options):
    run = trainer(snippet)

    summed = weights(run, NOWHERE, optim.SGD, 100, **options)
    options["momentum"] = momentum
    remembered = weights(run, BEFORE, optim.SGD, 100, **options)
    torch.testing.assert_close(summed, remembered, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("seed", [2])
def test_no_reset_is_a_momentum_of_one__also_from(snippet, seed, rate):
    test_no_reset_is_a_momentum_of_one(snippet, seed=seed, lr=rate)


def test_no_reset_is_a_momentum_of_one__ends_for_less(snippet, fails):
    """With `momentum=0.9`: SGD takes other steps."""
    fails(test_no_reset_is_a_momentum_of_one, snippet, 0.9)


def test_no_reset_is_a_momentum_of_one__but_not_after_a_reset(snippet, fails):
    """With a reset after each step, plain SGD has nothing to remember."""
    edited = snippet.edit("if here == place", 'if here == "after step"')
    fails(test_no_reset_is_a_momentum_of_one, edited)


def test_two_losses_add_up(snippet):
    cells = snippet.only("receipts", "new-model", "two-losses")
    with no_error():
        run = cells.after("two-losses")

    total = sum(
        F.mse_loss(run.model(run.bought[part]), run.totals[part])
        for part in (slice(20), slice(20, None))
    )
    expected = torch.autograd.grad(total, run.model.parameters())
    for parameter, gradient in zip(
        run.model.parameters(), expected, strict=True
    ):
        torch.testing.assert_close(parameter.grad, gradient)


def test_two_losses_add_up__also_in_a_deeper_model(snippet):
    edited = (
        snippet.edit(SHALLOW, DEEPER)
        .edit('print("first:", model.weight.grad)', "")
        .edit('print("both: ", model.weight.grad)', "")
    )
    test_two_losses_add_up(edited)


@edits(
    ("the first alone", "second.backward()\n", ""),
    ("the second alone", "first.backward()\n", ""),
    (
        "a reset in between",
        "second.backward()\n",
        "model.zero_grad()\nsecond.backward()\n",
    ),
)
def test_two_losses_add_up__but_not(snippet, old, new, fails):
    """With one of the losses alone, or a reset in between, `.grad` holds the
    gradient of that one.
    """
    fails(test_two_losses_add_up, snippet.edit(old, new))


def test_two_losses_add_up__ends_with_one_forward_pass(snippet, fails):
    """If both come from one forward pass: the second `backward()` raises an
    error, because the first has freed what it needs.
    """
    edited = snippet.edit(
        "first = F.mse_loss(model(bought[:20])",
        "outputs = model(bought)\nfirst = F.mse_loss(outputs[:20]",
    ).edit("mse_loss(model(bought[20:])", "mse_loss(outputs[20:]")
    fails(test_two_losses_add_up, edited)


def test_two_losses_add_up__ends_with_a_gradient_from_before(snippet, fails):
    """If `.grad` holds a gradient already: the others are added to it."""
    new = "model(bought).sum().backward()\nfirst.backward()\n"
    edited = snippet.edit("first.backward()\n", new)
    fails(test_two_losses_add_up, edited)


@true_since("2.0", "it filled them with zeros")
def test_the_default_is_none(snippet):
    cells = snippet.only("receipts", "new-model", "left-out")
    run = cells.after("left-out")
    held = list(run.head.parameters())

    assert all(each.grad is not None for each in held)
    with patch.object(run.optimizer, "zero_grad") as told:
        run.reset(run.optimizer, "here", "here")
    told.assert_called_once_with()
    run.reset(run.optimizer, "here", "here")
    assert [each.grad for each in held] == [None, None]


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "RMSprop", "LBFGS"])
def test_the_default_is_none__also_of_other_optimizers(snippet, kind):
    old = "    optimizer.step()\n    lengths"
    edited = snippet.edit(old, "    lengths").edit(
        "optim.SGD(head.parameters(), lr=0.01)",
        f"optim.{kind}(head.parameters(), lr=0.01)",
    )
    test_the_default_is_none(edited)


def test_the_default_is_none__also_of_two_groups(snippet):
    groups = '[{"params": head.weight}, {"params": head.bias}]'
    edited = snippet.edit("SGD(head.parameters()", f"SGD({groups}")
    test_the_default_is_none(edited)


@edits(
    ("told otherwise", "zero_grad(**how)", "zero_grad(set_to_none=False)"),
    ("no reset", "optimizer.zero_grad(**how)", "pass"),
    (
        "the first alone",
        "optimizer.zero_grad(**how)",
        'optimizer.param_groups[0]["params"][0].grad = None',
    ),
)
def test_the_default_is_none__but_not(snippet, old, new, fails):
    """`set_to_none=False` leaves zeros; the other edits do not call
    `zero_grad()`.
    """
    fails(test_the_default_is_none, snippet.edit(old, new))


def test_zeros_are_written_in_place(snippet):
    cells = snippet.only("receipts", "new-model", "left-out")
    run = cells.after("left-out")
    weight, bias = run.head.weight, run.head.bias
    gradient, bias.grad = weight.grad, None

    assert gradient.any()
    run.reset(run.optimizer, "here", "here", set_to_none=False)
    assert weight.grad is gradient
    assert gradient.count_nonzero() == 0
    assert bias.grad is None


@pytest.mark.parametrize("options", ["foreach=True", "fused=True"])
def test_zeros_are_written_in_place__also_with(snippet, options):
    edited = snippet.edit("lr=0.01)\n\nfor", f"lr=0.01, {options})\n\nfor")
    test_zeros_are_written_in_place(edited)


@edits(
    ("none", "zero_grad(**how)", "zero_grad()"),
    ("no reset", "optimizer.zero_grad(**how)", "pass"),
    (
        "new zeros",
        "        optimizer.zero_grad(**how)",
        "        for p in optimizer.param_groups[0]['params']:\n"
        "            p.grad = torch.zeros_like(p)",
    ),
)
def test_zeros_are_written_in_place__but_not(snippet, old, new, fails):
    """By default, `.grad` becomes `None`; the other edits leave the gradient,
    or put new zeros in its place.
    """
    fails(test_zeros_are_written_in_place, snippet.edit(old, new))


STAY = {
    **FOUR,
    "SGD with decay": (optim.SGD, {"weight_decay": 0.1}),
    "SGD with both": (optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
}
MOVE = {name: own for name, own in STAY.items() if name != "SGD"}


KINDS = {
    "SGD": (optim.SGD, {}),
    "SGD, momentum": (optim.SGD, {"momentum": 0.9}),
    "SGD, weight decay": (optim.SGD, {"weight_decay": 0.1}),
    "AdamW": (optim.AdamW, {}),
    "LBFGS": (optim.LBFGS, {"max_iter": 3}),
}


def shops(snippet):
    """Return what takes a step for each shop."""
    cells = ("receipts", "loss-of", "east-is-closed", "five-optimizers")
    return snippet.only(*cells).after("five-optimizers")


def test_none_leaves_the_closed_shop(snippet, kinds=STAY, lr=0.1):
    run = shops(snippet)

    for kind, options in kinds.values():
        before, after = run.two_shops(kind, True, lr=lr, **options)
        assert torch.equal(before, after)
    assert run.kinds == KINDS
    names = ("SGD", "SGD, momentum", "SGD, weight decay", "AdamW")
    if lr == 0.1 and kinds is STAY:
        assert [run.moved(name, set_to_none=True) for name in names] == [0] * 4


@pytest.mark.parametrize("rate", [0.001, 1.0])
def test_none_leaves_the_closed_shop__also_at(snippet, rate):
    test_none_leaves_the_closed_shop(snippet, lr=rate)


def test_none_leaves_the_closed_shop__but_not_without_a_reset(snippet, fails):
    """Without a reset, the old gradient moves it again."""
    line = "        optimizer.zero_grad(set_to_none=set_to_none)\n"
    fails(test_none_leaves_the_closed_shop, snippet.edit(line, ""))


@pytest.mark.parametrize("name", STAY)
def test_none_leaves_the_closed_shop__but_no_optimizer_without_a_reset(
    snippet, name, fails
):
    """Without a reset, each of these optimizers moves it by the old
    gradient.
    """
    line = "        optimizer.zero_grad(set_to_none=set_to_none)\n"
    edited = snippet.edit(line, "")
    fails(test_none_leaves_the_closed_shop, edited, {name: STAY[name]})


@pytest.mark.parametrize("name", MOVE)
def test_none_leaves_the_closed_shop__but_not_with_zeros(snippet, name, fails):
    """Zeros in place of `None` move it with momentum, weight decay, Adam or
    AdamW.
    """
    edited = snippet.edit(
        "set_to_none=set_to_none)\n        loss",
        "set_to_none=False)\n        loss",
    )
    fails(test_none_leaves_the_closed_shop, edited, {name: MOVE[name]})


def test_none_leaves_the_closed_shop__ends_with_lbfgs(snippet, fails):
    """With `LBFGS`: it moves."""
    kinds = {"LBFGS": (optim.LBFGS, {})}
    fails(test_none_leaves_the_closed_shop, snippet, kinds)


def test_zeros_move_the_closed_shop(snippet, kinds=MOVE, lr=0.1):
    run = shops(snippet)

    before, after = run.two_shops(optim.SGD, False, lr=lr)
    assert torch.equal(before, after)
    for kind, options in kinds.values():
        before, after = run.two_shops(kind, False, lr=lr, **options)
        assert (before != after).tolist() == [True] * len(after)
    for name, (kind, options) in run.kinds.items():
        before, after = run.two_shops(kind, False, lr=0.1, **options)
        farthest = max(map(abs, (after - before).tolist()))
        found = run.moved(name, set_to_none=False)
        assert isinstance(found, float)
        assert found == pytest.approx(farthest)
    assert run.kinds == KINDS


@pytest.mark.parametrize("rate", [0.01, 1.0])
def test_zeros_move_the_closed_shop__also_at(snippet, rate):
    test_zeros_move_the_closed_shop(snippet, lr=rate)


@pytest.mark.parametrize("name", MOVE)
def test_zeros_move_the_closed_shop__but_not_with_none(snippet, name, fails):
    """With `None` in place of zeros, it stays as it is."""
    edited = snippet.edit(
        "set_to_none=set_to_none)\n        loss",
        "set_to_none=True)\n        loss",
    )
    fails(test_zeros_move_the_closed_shop, edited, {name: MOVE[name]})


def test_zeros_move_the_closed_shop__but_not_plain_sgd(snippet, fails):
    """Plain SGD is not one of those that move it."""
    kinds = {"SGD": (optim.SGD, {})}
    fails(test_zeros_move_the_closed_shop, snippet, kinds)


def test_zeros_move_the_closed_shop__but_sgd_too_with_old_gradients(
    snippet, fails
):
    """With the old gradient in place of zeros, plain SGD moves it as well."""
    line = "        optimizer.zero_grad(set_to_none=set_to_none)\n"
    fails(test_zeros_move_the_closed_shop, snippet.edit(line, ""), {})


@pytest.mark.parametrize("name", ["SGD with momentum", "Adam"])
def test_zeros_move_the_closed_shop__but_not_without_a_past(
    snippet, name, fails
):
    """A shop that was never open has no past gradients that could move it."""
    edited = snippet.edit(
        "for shop in (east, west)", "for shop in (west, west)"
    )
    fails(test_zeros_move_the_closed_shop, edited, {name: MOVE[name]})


def test_lbfgs_takes_none_for_zeros(snippet, kind=optim.LBFGS):
    run = shops(snippet)

    _, options = run.kinds["LBFGS"]
    before, after = run.two_shops(kind, True, lr=0.1, **options)
    zeros_before, zeros_after = run.two_shops(kind, False, lr=0.1, **options)
    assert torch.equal(before, zeros_before)
    assert torch.equal(after, zeros_after)
    assert (before != after).tolist() == [True] * len(after)


@pytest.mark.parametrize(
    "options",
    ["", '"max_iter": 9', '"line_search_fn": "strong_wolfe"'],
    ids=["the default", "nine iterations", "a line search"],
)
@pytest.mark.parametrize("rate", [0.01, 1.0])
def test_lbfgs_takes_none_for_zeros__also_where_the_shop_stays(
    snippet, options, rate
):
    edited = snippet.edit('"max_iter": 3', options)
    run = shops(edited)

    _, options = run.kinds["LBFGS"]
    ways = [
        run.two_shops(optim.LBFGS, none, lr=rate, **options)
        for none in (True, False)
    ]
    for with_none, with_zeros in zip(*ways, strict=True):
        assert torch.equal(with_none, with_zeros)


def test_lbfgs_takes_none_for_zeros__but_not_adamw(snippet, fails):
    """AdamW in its place moves the closed shop with zeros, but not with
    `None`.
    """
    edited = snippet.edit('"max_iter": 3', "")
    fails(test_lbfgs_takes_none_for_zeros, edited, optim.AdamW)


def test_lbfgs_takes_none_for_zeros__but_not_without_a_past(snippet, fails):
    """A shop that was never open stays as it is."""
    edited = snippet.edit(
        "for shop in (east, west)", "for shop in (west, west)"
    )
    fails(test_lbfgs_takes_none_for_zeros, edited)


def bytes_of(snippet, place, set_to_none, layer):
    """Return the bytes in the forward pass and at the end, and of all."""
    cells = snippet.only("receipts", "new-model", "held", "places")
    run = cells.after("places")
    optimizer = optim.SGD(layer.parameters(), lr=0.001)
    counted = run.bytes_held(place, layer, optimizer, set_to_none=set_to_none)
    return *counted, sum(each.nbytes for each in layer.parameters())


def layers():
    """Return layers of two sizes, with a bias and without."""
    yield nn.Linear(10, 7)
    yield nn.Linear(3, 4, bias=False)


def test_none_frees_the_forward_pass(snippet, dtype=torch.float32):
    torch.set_default_dtype(dtype)
    for layer in layers():
        for place in (FORWARD, AFTER):
            assert bytes_of(snippet, place, True, layer)[0] == 0
        found, _, whole = bytes_of(snippet, BEFORE, True, layer)
        assert found == whole
        for place in (BEFORE, AFTER, FORWARD):
            found, _, whole = bytes_of(snippet, place, False, layer)
            assert found == whole


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_none_frees_the_forward_pass__also_with(snippet, dtype):
    test_none_frees_the_forward_pass(snippet, dtype)


FIRST = '        reset(optimizer, "before the forward pass", place, **how)\n'
SECOND = '        reset(optimizer, "before backward", place, **how)\n'
THIRD = '        reset(optimizer, "after step", place, **how)\n'


@edits(
    ("the first left out", FIRST, ""),
    ("the third left out", THIRD, ""),
    (
        "the second too early",
        FIRST,
        FIRST + SECOND,
    ),
    ("zeros never", "zero_grad(**how)", "zero_grad()"),
    ("none never", "zero_grad(**how)", "zero_grad(set_to_none=False)"),
    ("a layer that is new", "for _ in range(2)", "for _ in range(1)"),
)
def test_none_frees_the_forward_pass__but_not(snippet, old, new, fails):
    """Each edit leaves a reset out, moves it, changes what it writes, or looks
    at the first pass, so other bytes are held.
    """
    if new == FIRST + SECOND:
        snippet = snippet.edit(SECOND, "")
    fails(test_none_frees_the_forward_pass, snippet.edit(old, new))


def test_after_step_nothing_is_held(snippet):
    run = snippet.only("receipts", "new-model", "held", "places").after(
        "places"
    )
    counted = [
        run.bytes_held(place, *run.big_model(), set_to_none=none)[1]
        for place, none in run.where.values()
    ]
    assert counted == [4_004_000, 4_004_000, 0, 4_004_000]
    assert list(run.where.values()) == [
        (FORWARD, True),
        (BEFORE, True),
        (AFTER, True),
        (AFTER, False),
    ]
    for layer in layers():
        assert bytes_of(snippet, AFTER, True, layer)[1] == 0
        ways = [(BEFORE, True), (FORWARD, True), (AFTER, False)]
        for place, set_to_none in ways:
            _, found, whole = bytes_of(snippet, place, set_to_none, layer)
            assert found == whole


@edits(
    ("not after step", THIRD, ""),
    ("zeros never", "zero_grad(**how)", "zero_grad()"),
    ("none never", "zero_grad(**how)", "zero_grad(set_to_none=False)"),
    (
        "after step in any case",
        THIRD,
        '        reset(optimizer, "", "", **how)\n',
    ),
)
def test_after_step_nothing_is_held__but_not(snippet, old, new, fails):
    """Each edit leaves out the reset after `step()`, does it in each row, or
    changes what a reset writes.
    """
    fails(test_after_step_nothing_is_held, snippet.edit(old, new))


SETTINGS = [(optim.SGD, 0.1), (optim.SGD, 0.3)]
SETTINGS += [(optim.AdamW, 0.1), (optim.AdamW, 0.01)]


def test_the_loss_does_not_settle(snippet, settings=None, seeds=(1, 2, 3)):
    cells = ("receipts", "new-model", "train", "settled", "spread")
    run = snippet.only(*cells).after("spread")

    assert run.settings == SETTINGS
    found = {}
    for kind, lr in settings or run.settings[:3]:
        found[kind, lr] = right, wrong = run.spread(kind, lr, seeds)
        assert wrong > 100 * right
    (kind, lr), (right, wrong) = next(iter(found.items()))
    for place, chosen, ends in ((BEFORE, max, right), (NOWHERE, min, wrong)):
        means = []
        for seed in seeds:
            seen = run.train(place, *run.new_model(kind, seed, lr))
            losses = [loss for loss, _, _ in seen]
            means.append(sum(losses[-50:]) / 50)
        assert ends == pytest.approx(chosen(means), rel=1e-4)


def test_none_frees_each_gradient(snippet):
    run = trainer(snippet)
    model, optimizer = run.new_model()
    run.train("nowhere", model, optimizer, steps=1)

    watches = [weakref.ref(each.grad) for each in model.parameters()]
    run.reset(optimizer, "here", "here")
    assert [watch() for watch in watches] == [None] * len(watches)


def test_none_frees_each_gradient__also_in_a_deeper_model(snippet):
    test_none_frees_each_gradient(snippet.edit(SHALLOW, DEEPER))


@edits(
    ("zeros", "zero_grad(**how)", "zero_grad(set_to_none=False)"),
    (
        "a reference",
        "        optimizer.step()\n        reset",
        "        optimizer.kept = model.weight.grad\n"
        "        optimizer.step()\n        reset",
    ),
)
def test_none_frees_each_gradient__but_not(snippet, old, new, fails):
    """Zeros are written into the gradient, so it stays; and so does one that
    the optimizer refers to.
    """
    if "step" in old:
        old, new = (
            f'{old}(optimizer, "after step", place)\n        seen',
            (f'{new}(optimizer, "after step", place)\n        seen'),
        )
    fails(test_none_frees_each_gradient, snippet.edit(old, new))


def test_the_loss_does_not_settle__also_in_the_loop_of_the_page(snippet):
    cells = snippet.only("receipts", "new-model", "forgotten")
    losses = cells.after("forgotten").losses

    assert min(losses) < 1
    assert sum(losses[50:]) > 50 * 10
    right = cells.edit(
        "model(bought), totals)\n    loss.backward()\n    optimizer.step()\n"
        "    losses",
        "model(bought), totals)\n    optimizer.zero_grad()\n"
        "    loss.backward()\n    optimizer.step()\n    losses",
    )
    assert sum(right.after("forgotten").losses[50:]) == 0


@edits(
    ("reset", 'settled("nowhere"', 'settled("after step"'),
    ("the first steps", "losses[50:]", "losses[:2]"),
)
def test_the_loss_does_not_settle__but_not(snippet, old, new, fails):
    """With a reset in both runs, or in the first two steps, the losses are not
    that far apart.
    """
    fails(test_the_loss_does_not_settle, snippet.edit(old, new))


def test_the_loss_does_not_settle__ends_in_the_last_row(snippet, fails):
    """In the last row, with AdamW at 0.01: it is lower."""
    settings = [(optim.AdamW, 0.01)]
    fails(test_the_loss_does_not_settle, snippet, settings)


def test_at_a_low_rate_it_looks_good(snippet, seeds=(1, 2, 3)):
    cells = ("receipts", "new-model", "train", "settled", "spread")
    run = snippet.only(*cells).after("spread")

    kind, lr = run.settings[-1]
    assert kind is optim.AdamW
    for seed in seeds:
        means = []
        for place in (BEFORE, NOWHERE):
            seen = run.train(place, *run.new_model(kind, seed, lr))
            losses = [loss for loss, _, _ in seen]
            means.append(sum(losses[-50:]) / 50)
        with_reset, without = means
        assert without < with_reset


@edits(
    ("at a higher rate", "(optim.AdamW, 0.01)]", "(optim.AdamW, 0.1)]"),
    ("after more steps", "steps=100", "steps=400"),
)
def test_at_a_low_rate_it_looks_good__but_not(snippet, old, new, fails):
    """At a rate of 0.1, it is higher; and at the end of 400 steps, it is
    higher at 0.01, too.
    """
    fails(test_at_a_low_rate_it_looks_good, snippet.edit(old, new))


NEW = "new_model(optim.AdamW)"
OPTIONS = (
    "optim.SGD",
    "optim.SGD, momentum=0.9",
    "optim.SGD, momentum=0.9, weight_decay=0.1",
    "optim.Adam",
    "optim.Adam, weight_decay=0.1",
    "optim.AdamW",
)


def test_between_nothing_is_learned(snippet, options=OPTIONS):
    cells = snippet.only("receipts", "new-model", "between")
    losses, backward = [], torch.Tensor.backward

    def noted(loss):
        losses.append(loss.item())
        backward(loss)

    with patch.object(torch.Tensor, "backward", noted):
        run = cells.after("between")
    assert len(losses) == 100
    assert min(losses) > 0.1
    start, _ = run.new_model(optim.AdamW)
    assert torch.equal(run.before, start.weight)
    assert run.before.data_ptr() != run.model.weight.data_ptr()
    assert torch.equal(run.model.weight, start.weight)
    for each in options:
        run = cells.edit(NEW, f"new_model({each})").after("between")
        assert torch.equal(run.model.weight, run.before)


RESET = "    optimizer.zero_grad()\n    optimizer.step()\n"


@edits(
    ("never", RESET, "    optimizer.step()\n"),
    ("after", RESET, "    optimizer.step()\n    optimizer.zero_grad()\n"),
)
@pytest.mark.parametrize("options", OPTIONS)
def test_between_nothing_is_learned__but_is(snippet, old, new, options, fails):
    """Without `zero_grad()`, or with `zero_grad()` after `step()`, the
    parameters move.
    """
    edited = snippet.edit(old, new)
    fails(test_between_nothing_is_learned, edited, (options,))


def test_between_nothing_is_learned__but_decay_goes_on_with_zeros(
    snippet, fails
):
    """With zeros in place of `None`, AdamW's weight decay still moves them."""
    zeros = RESET.replace("grad()", "grad(set_to_none=False)")
    edited = snippet.edit(
        RESET, zeros.replace("    optimizer.step", "    next_step")
    ).edit(
        "before = model.weight.detach().clone()\nfor",
        "before = model.weight.detach().clone()\n"
        "next_step = optimizer.step\nfor",
    )
    fails(test_between_nothing_is_learned, edited, ("optim.AdamW",))


def test_an_optimizer_resets_its_own(snippet):
    cells = snippet.only("receipts", "new-model", "left-out", "reset-all")
    run = cells.after("left-out")
    torch.manual_seed(0)
    _, head = nn.Linear(2, 2), nn.Linear(2, 1)
    assert not torch.equal(run.head.weight, head.weight)
    run.optimizer.zero_grad()
    assert [each.grad for each in run.head.parameters()] == [None, None]
    assert has(run.body.parameters())

    model = cells.after("reset-all").model
    assert [each.grad for each in model.parameters()] == [None] * 4
    run = cells.edit(
        "model.zero_grad()\n\n",
        "outside = nn.Linear(2, 1)\noutside(bought).sum().backward()\n"
        "optimizer.add_param_group({'params': outside.parameters()})\n"
        "model.zero_grad()\n\n",
    ).after("reset-all")
    assert [each.grad for each in run.model.parameters()] == [None] * 4
    assert has(run.outside.parameters())


def test_an_optimizer_resets_its_own__but_all_if_it_holds_all(snippet, fails):
    """An optimizer of the whole model resets all of it."""
    edited = snippet.edit(
        "optim.SGD(head.parameters()", "optim.SGD(model.parameters()"
    )
    fails(test_an_optimizer_resets_its_own, edited)


@edits(
    (
        "a head that is not held",
        "optim.SGD(head.parameters()",
        "optim.SGD(body.parameters()",
    ),
    (
        "a model without its body",
        "nn.Sequential(body, head)\noptimizer",
        "nn.Sequential(nn.Linear(2, 2), head)\noptimizer",
    ),
)
def test_an_optimizer_resets_its_own__but_not(snippet, old, new, fails):
    """An optimizer of the body does not reset the head; and a model with
    another body does not reset this one.
    """
    edited = snippet.edit(old, new)
    if "Sequential" in old:
        edited = edited.edit(
            "    lengths = [layer.weight.grad.norm().item() for layer in"
            " (body, head)]\n",
            "    lengths = []\n",
        )
    fails(test_an_optimizer_resets_its_own, edited)


def test_clipping_counts_what_is_left(snippet, share=0.1):
    cells = snippet.only("receipts", "new-model", "left-out")
    run, again = cells.after("left-out"), cells.after("left-out")
    first, second = run.head.weight.grad, again.head.weight.grad
    gradients = [each.grad for each in run.model.parameters()]
    left = [
        gradient.flatten() for gradient in gradients if gradient is not None
    ]
    length = torch.cat(left).norm()
    max_norm = share * length

    assert torch.equal(first, second)
    found = run.clip_grad_norm_(run.model.parameters(), max_norm=max_norm)
    torch.testing.assert_close(found, length)
    again.clip_grad_norm_(again.head.parameters(), max_norm=max_norm)
    assert first.norm() < 0.9 * second.norm()


@pytest.mark.parametrize("share", [0.01, 0.5, 0.8])
def test_clipping_counts_what_is_left__also_to_a_share_of(snippet, share):
    test_clipping_counts_what_is_left(snippet, share)


def test_clipping_counts_what_is_left__ends_where_nothing_is_clipped(
    snippet, fails
):
    """If `max_norm` is so large that nothing is clipped: nothing shrinks."""
    fails(test_clipping_counts_what_is_left, snippet, 2.0)


def test_clipping_counts_what_is_left__but_nothing_of_a_frozen_body(
    snippet, fails
):
    """A frozen body has no gradients, so nothing of it is counted."""
    edited = snippet.edit(
        "model = nn.Sequential(body, head)",
        "model = nn.Sequential(body.requires_grad_(False), head)",
    ).edit("for layer in (body, head)]", "for layer in (head,)]")
    fails(test_clipping_counts_what_is_left, edited)


def test_the_judge_gets_gradients_too(snippet):
    cells = snippet.only("receipts", "two-optimizers", "judge-reset")
    run = cells.after("judge-reset")
    assert [each.grad for each in run.judge.parameters()] == [None, None]

    run = cells.after("two-optimizers")
    assert run.for_generator.state
    assert [each.grad for each in run.generator.parameters()] == [None, None]
    assert has(run.judge.parameters())


@edits(
    (
        "reset too",
        "for_generator.zero_grad()",
        "for_generator.zero_grad()\nfor_judge.zero_grad()",
    ),
    (
        "switched off",
        "made_up = ",
        "judge.requires_grad_(False)\nmade_up = ",
    ),
    (
        "never reset",
        "for_judge.zero_grad()\n\n",
        "for_generator.zero_grad()\n\n",
    ),
    (
        "never asked",
        "F.softplus(-judge(made_up)).mean()",
        "made_up.square().mean()",
    ),
)
def test_the_judge_gets_gradients_too__but_not(snippet, old, new, fails):
    """Reset, frozen, or left out of the loss, the judge has no gradients; and
    the generator's `zero_grad()` does not clear them.
    """
    edited = snippet.edit(old, new)
    fails(test_the_judge_gets_gradients_too, edited)


def test_after_its_own_step_is_too_early(snippet, resets=("after",)):
    run = snippet.only("receipts", "two-optimizers").after("two-optimizers")
    left = [each.grad for each in run.judge.parameters()]
    [group] = run.for_judge.param_groups
    assert len(group["params"]) == len(left) == 2
    assert None not in left
    assert all(each.any() for each in left)
    loss = F.softplus(run.judge(run.made_up.detach())).mean()
    own = torch.autograd.grad(loss, run.judge.parameters(), retain_graph=True)
    expected = [a + b for a, b in zip(left, own, strict=True)]
    taken = []

    run.for_judge.register_step_pre_hook(
        lambda *_: taken.extend(each.grad for each in run.judge.parameters())
    )
    if "before" in resets:
        run.for_judge.zero_grad()
    loss.backward()
    run.for_judge.step()
    for gradient, both in zip(taken, expected, strict=True):
        torch.testing.assert_close(gradient, both)


def test_after_its_own_step_is_too_early__ends_before(snippet, fails):
    """If you reset before its own `backward()`: the judge steps with its own
    gradients alone.
    """
    fails(test_after_its_own_step_is_too_early, snippet, ("before",))


@edits(
    (
        "switched off in the other turn",
        "made_up = ",
        "judge.requires_grad_(False)\nmade_up = ",
    ),
    (
        "reset in the other turn",
        "for_generator.zero_grad()",
        "for_generator.zero_grad()\nfor_judge.zero_grad()",
    ),
)
def test_after_its_own_step_is_too_early__but_not_if(snippet, old, new, fails):
    """If you freeze or reset the judge in the generator's turn, nothing is
    left to add.
    """
    fails(test_after_its_own_step_is_too_early, snippet.edit(old, new))


@true_since("2.0", "there were zeros, which have a norm")
def test_none_has_no_norm(snippet):
    cells = snippet.only("receipts", "new-model", "read-none")
    run = cells.after("read-none")

    start, _ = run.new_model()
    assert not torch.equal(run.model.weight, start.weight)
    text = "^'NoneType' object has no attribute 'norm'$"
    with pytest.raises(AttributeError, match=text):
        run.model.weight.grad.norm()


@edits(
    ("zeros", "grad()\n\ntry", "grad(set_to_none=False)\n\ntry"),
    ("no reset", "step()\noptimizer.zero_grad()\n\ntry", "step()\n\ntry"),
)
def test_none_has_no_norm__but(snippet, old, new, fails):
    """Zeros have a norm, and so does a gradient that nobody reset."""
    fails(test_none_has_no_norm, snippet.edit(old, new))


def test_clipping_skips_none(snippet):
    cells = snippet.only(
        "receipts", "new-model", "left-out", "read-none", "read-in-time"
    )
    run = cells.after("read-none")
    at = run.model.weight.detach().clone()
    assert run.clip_grad_norm_(run.model.parameters(), max_norm=1.0) == 0
    assert run.model.weight.grad is None

    run = cells.after("read-in-time")
    gradient = gradient_at(run, at[0])
    torch.testing.assert_close(run.length, gradient.norm())
    assert gradient.norm() > 1
    moved = (at - run.model.weight)[0]
    torch.testing.assert_close(moved, 0.2 * gradient / gradient.norm())

    run = cells.after("left-out")
    run.head.bias.grad = None
    run.head.weight.grad = torch.tensor([[3.0, 4.0]])
    length = run.clip_grad_norm_(run.head.parameters(), max_norm=2.5)
    assert length == 5
    assert run.head.bias.grad is None
    torch.testing.assert_close(
        run.head.weight.grad, torch.tensor([[1.5, 2.0]])
    )


def test_clipping_skips_none__but_not_a_gradient(snippet, fails):
    """Without the reset, it returns the norm of the gradient."""
    edited = snippet.edit(
        "step()\noptimizer.zero_grad()\n\ntry", "step()\n\ntry"
    )
    fails(test_clipping_skips_none, edited)


def test_zeros_overwrite_a_kept_gradient(snippet):
    run = snippet.only("receipts", "new-model", "keep").after("keep")

    before, kept = run.keep(set_to_none=True)
    assert before.any()
    assert torch.equal(kept, before)
    before, kept = run.keep(set_to_none=False)
    assert before.any()
    assert not kept.any()


@edits(
    (
        "no reset",
        "optimizer.zero_grad(set_to_none=set_to_none)\n    return b",
        "return b",
    ),
    (
        "zeros never",
        "none=set_to_none)\n    return b",
        "none=True)\n    return b",
    ),
    (
        "none never",
        "none=set_to_none)\n    return b",
        "none=False)\n    return b",
    ),
    (
        "a copy",
        "kept = model.weight.grad\n",
        "kept = model.weight.grad.clone()\n",
    ),
)
def test_zeros_overwrite_a_kept_gradient__but_not(snippet, old, new, fails):
    """Without a reset, with `None` both times, or with a copy, the numbers
    stay; with zeros both times, none do.
    """
    fails(test_zeros_overwrite_a_kept_gradient, snippet.edit(old, new))


def test_nesterov_writes_into_grad(snippet, **options):
    cells = snippet.only("receipts", "new-model", "nesterov")
    run = cells.after("nesterov")

    # The momentum is the gradient itself after the first step.
    before, after = run.step_changes(foreach=True, **options)
    torch.testing.assert_close(after, before + 0.9 * before)
    before, after = run.step_changes(foreach=False, **options)
    assert before.any()
    assert torch.equal(before, after)


@pytest.mark.parametrize("options", [{"lr": 0.01}, {"seed": 2}], ids=str)
def test_nesterov_writes_into_grad__also_with(snippet, options):
    test_nesterov_writes_into_grad(snippet, **options)


@edits(
    ("no nesterov", "nesterov=True", "nesterov=False"),
    ("foreach in both", "**options)\n    F", "**options | FOREACH)\n    F"),
    ("foreach in none", "**options)\n    F", "**options | SINGLE)\n    F"),
)
def test_nesterov_writes_into_grad__but_not(snippet, old, new, fails):
    """Without `nesterov`, or with `foreach=False` both times, `.grad` stays;
    with `foreach=True` both times, neither does.
    """
    edited = snippet.edit(old, new).edit(
        "def step_changes",
        'FOREACH, SINGLE = {"foreach": True}, {"foreach": False}\n\n\n'
        "def step_changes",
    )
    fails(test_nesterov_writes_into_grad, edited)


@pytest.mark.parametrize("option", ["weight_decay=0.1", "maximize=True"])
def test_nesterov_writes_into_grad__ends_with(snippet, option, fails):
    """With `weight_decay` or `maximize=True`: `.grad` stays as it is."""
    edited = snippet.edit("nesterov=True", f"nesterov=True, {option}")
    fails(test_nesterov_writes_into_grad, edited)


def test_only_parameters_are_reset(snippet):
    cells = snippet.only("receipts", "new-model", "not-parameters")
    run = cells.after("not-parameters")

    assert run.model.weight.grad is None
    assert run.predictions.grad_fn is not None
    for each in (run.receipts, run.predictions):
        assert each.grad is not None
        assert each.grad.any()
    calls = []
    for kind in (nn.Module, optim.Optimizer):
        reset = kind.zero_grad
        note = partial(lambda name, *_, **__: calls.append(name), kind)
        with patch.object(kind, "zero_grad", note):
            cells.after("not-parameters")
        assert kind.zero_grad is reset
    assert calls == [nn.Module, optim.Optimizer]


@pytest.mark.parametrize("held", ["receipts", "predictions"])
def test_only_parameters_are_reset__but_not_if_held(snippet, held, fails):
    """As a parameter of the optimizer, it is reset."""
    retain = "predictions.retain_grad()\n"
    hold = f"optimizer.add_param_group({{'params': {held}}})\n"
    end = "print(receipts.grad[0], predictions.grad[0])"
    edited = snippet.edit(retain, retain + hold).edit(end, "")
    fails(test_only_parameters_are_reset, edited)


@pytest.mark.parametrize("resetter", ["optimizer", "model"])
def test_only_parameters_are_reset__but_those_are(snippet, resetter, fails):
    """As a parameter of the model, the input is reset."""
    end = "print(receipts.grad[0], predictions.grad[0])"
    held = (
        "model.receipts = nn.Parameter(receipts.detach())\n"
        "receipts = model.receipts\n"
        "optimizer = optim.SGD(model.parameters())\n"
    )
    edited = (
        snippet.edit("in (optimizer, model)", f"in ({resetter},)")
        .edit(
            "predictions = model(receipts)",
            f"{held}predictions = model(receipts)",
        )
        .edit(end, "")
    )
    fails(test_only_parameters_are_reset, edited)
