"""The claims of docs/training/zero_grad.md."""

import weakref

import pytest
import torch
from torch import nn, optim

from extensions.evidence.counterexamples import edits
from extensions.evidence.versions import true_since
from tests.helpers import worlds

FORWARD, BEFORE, AFTER = PLACES = (
    "before the forward pass",
    "before backward",
    "after step",
)
NOWHERE = "nowhere"
KINDS = {
    "SGD": (optim.SGD, {}),
    "SGD with momentum": (optim.SGD, {"momentum": 0.9}),
    "SGD with decay": (optim.SGD, {"weight_decay": 0.1}),
    "SGD with both": (optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
    "Adam": (optim.Adam, {}),
    "AdamW": (optim.AdamW, {}),
}
MOVE = {name: own for name, own in KINDS.items() if name != "SGD"}
SHALLOW = "    model = nn.Linear(2, 1, bias=False)\n    return"
DEEPER = (
    "    layers = nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)\n"
    "    model = nn.Sequential(*layers)\n"
    "    model.weight = layers[0].weight\n    return"
)


def has(parameters):
    """Return whether each parameter has a gradient that is not zero."""
    return all(p.grad is not None and bool(p.grad.any()) for p in parameters)


def grads(module):
    return [each.grad for each in module.parameters()]


def trainer(snippet):
    """Return what trains a model, without the runs of the page."""
    return snippet.only("receipts", "train").after("train")


def weights(run, place, kind, steps=20, **options):
    """Return the weights that a model has in each step."""
    seen = run.train(*run.new_model(kind, **options), place, steps)
    return torch.stack([prices for _, _, prices, _ in seen])


# Do this


def test_three_places_are_the_same(snippet, kinds=KINDS, **options):
    run = trainer(snippet)

    for kind, own in kinds.values():
        first, second, third = (
            weights(run, place, kind, **own, **options) for place in PLACES
        )
        assert torch.equal(first, second)
        assert torch.equal(second, third)
        assert not torch.equal(first[0], first[-1])


@pytest.mark.parametrize("rate", [0.001, 0.05])
def test_three_places_are_the_same__also_at(snippet, rate):
    test_three_places_are_the_same(snippet, seed=2, lr=rate)


def test_three_places_are_the_same__also_in_a_deeper_model(snippet):
    edited = snippet.edit(SHALLOW, DEEPER).edit(
        "prices = model.weight[0]", "prices = model.weight"
    )
    test_three_places_are_the_same(edited, lr=0.01)


def test_three_places_are_the_same__also_in_the_loop_of_the_page(snippet):
    found = snippet.after("do-this").model.weight.tolist()
    assert found == [pytest.approx([3, 2], abs=0.01)]


@edits(
    ("none before the forward pass", '== "before the', '== "no'),
    ("none before backward", '== "before backward', '== "no'),
    (
        "one between backward and step",
        "        optimizer.step()\n        if place",
        '        if place == "after step":\n'
        "            optimizer.zero_grad()\n"
        "        optimizer.step()\n        if place",
    ),
)
@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_three_places_are_the_same__but_not_with(
    snippet, old, new, name, fails
):
    """Leave a reset out, or put it between `backward()` and `step()`, and that
    run gets other weights.
    """
    fails(
        test_three_places_are_the_same,
        snippet.edit(old, new),
        {name: KINDS[name]},
    )


@edits(
    (
        "two backward passes a step",
        "        loss.backward()\n        gradient",
        "        loss.backward(retain_graph=True)\n"
        '        if place == "before backward":\n'
        "            optimizer.zero_grad(**how)\n"
        "        loss.backward()\n        gradient",
    ),
    (
        "a gradient from before the loop",
        "    seen = []\n    for _",
        "    seen = []\n    F.mse_loss(model(bought), totals).backward()\n"
        "    for _",
    ),
    (
        "a batch that is skipped",
        "        optimizer.step()\n        if place",
        "        if len(seen) == 3:\n            seen.append(seen[-1])\n"
        "            continue\n        optimizer.step()\n        if place",
    ),
)
def test_three_places_are_the_same__ends_with(snippet, old, new, fails):
    """With two backward passes a step, a gradient from before the loop, or a
    `continue` before `step()`: each place drops something else.
    """
    fails(test_three_places_are_the_same, snippet.edit(old, new))


# How it works


def test_no_reset_is_a_momentum_of_one(snippet, momentum=1.0, decay=0, **own):
    run = trainer(snippet)

    own["weight_decay"] = decay
    summed = weights(run, NOWHERE, optim.SGD, 100, **own)
    remembered = weights(run, BEFORE, optim.SGD, 100, momentum=momentum, **own)
    torch.testing.assert_close(summed, remembered, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
def test_no_reset_is_a_momentum_of_one__also_at(snippet, rate):
    test_no_reset_is_a_momentum_of_one(snippet, seed=2, lr=rate)


def test_no_reset_is_a_momentum_of_one__also_in_what_the_page_draws(snippet):
    run = snippet.only("receipts", "train", "two-runs").after("two-runs")
    assert len(run.runs["no reset"]) == 40
    at, total = run.new_model()[0].weight[0].detach(), 0
    for _, gradient, prices, _ in run.runs["no reset"]:
        errors = run.bought @ at[:, None] - run.totals
        total = total + 2 * (errors * run.bought).mean(dim=0)
        torch.testing.assert_close(gradient, total, atol=1e-3, rtol=1e-3)
        at = prices
    *_, (_, gradient, prices, _) = run.runs["reset"]
    assert gradient.norm() < 0.1
    assert prices.tolist() == pytest.approx([3, 2], abs=0.1)


@pytest.mark.parametrize(("momentum", "decay"), [(0.9, 0), (1.0, 0.1)])
def test_no_reset_is_a_momentum_of_one__ends_with(
    snippet, momentum, decay, fails
):
    """With `momentum=0.9`, or with weight decay: the steps are different."""
    fails(test_no_reset_is_a_momentum_of_one, snippet, momentum, decay)


def test_no_reset_is_a_momentum_of_one__ends_with_clipping(snippet, fails):
    """With `clip_grad_norm_`: old gradients are clipped again and again."""
    old = "        gradient = model.weight.grad[0].clone()\n"
    edited = snippet.edit(
        old, f"        clip_grad_norm_(model.weight, 1)\n{old}"
    )
    fails(test_no_reset_is_a_momentum_of_one, edited)


def test_no_reset_is_a_momentum_of_one__but_not_after_a_reset(snippet, fails):
    """With a reset in both runs, plain SGD has nothing to remember."""
    old = 'if place == "after step"'
    edited = snippet.edit(old, 'if place in ("after step", "nowhere")')
    fails(test_no_reset_is_a_momentum_of_one, edited)


def left_by(reset, kind, how, make, graph):
    """Return what a reset of some parameters leaves in the `.grad` of all."""
    torch.manual_seed(0)
    parameters = [*make().parameters()]
    loss = sum(each.square().sum() for each in parameters)
    loss.backward(create_graph=graph)
    gradients = [each.grad for each in parameters]
    optimizer = kind(parameters[1:2], lr=0.1)
    optimizer.add_param_group({"params": parameters[2:3]})
    reset(optimizer, *how)
    return [
        (str(each.grad), each.grad is before)
        for each, before in zip(parameters, gradients, strict=True)
    ]


IN_PART = worlds.MODELS["frozen in part"]


def test_seven_lines_are_zero_grad(snippet, make=IN_PART, graph=False):
    run = snippet.only("receipts", "train", "by-hand").after("by-hand")

    for kind in (optim.SGD, optim.AdamW, optim.LBFGS):
        for how in ((), (True,), (False,)):
            ways = (run.zero_grad, kind.zero_grad)
            ours, real = (
                left_by(reset, kind, how, make, graph) for reset in ways
            )
            assert ours == real


@worlds.each("make", worlds.MODELS, "with BatchNorm", "tied", "bfloat16")
def test_seven_lines_are_zero_grad__also_for(snippet, make):
    test_seven_lines_are_zero_grad(snippet, make)


@edits(
    ("of the first group", ".param_groups:", ".param_groups[:1]:"),
    ("of no first one", 'group["params"]:', 'group["params"][1:]:'),
    ("None always", "if set_to_none:", "if True:"),
    ("None never", "if set_to_none:", "if False:"),
    (
        "zeros for None",
        "elif p.grad is not None:",
        "elif p.grad is None:\n"
        "                p.grad = p.detach() * 0\n            else:",
    ),
    ("new zeros", "p.grad.zero_()", "p.grad = p.grad.detach() * 0"),
)
def test_seven_lines_are_zero_grad__but_not(snippet, old, new, fails):
    """Each edit changes a line: fewer parameters, `None` in every case or in
    none, zeros in place of `None`, or new zeros.
    """
    fails(test_seven_lines_are_zero_grad, snippet.edit(old, new))


@pytest.mark.filterwarnings("ignore:Using backward.* with create_graph")
def test_seven_lines_are_zero_grad__ends_with_create_graph(snippet, fails):
    """With `create_graph=True`: only PyTorch's zeros are free of the graph."""
    fails(test_seven_lines_are_zero_grad, snippet, IN_PART, True)


@true_since("2.0", "it filled them with zeros")
def test_the_default_is_none(snippet, *how):
    run = snippet.only("receipts", "left-out").after("left-out")
    held = [*run.head.parameters()]

    watches = [weakref.ref(each.grad) for each in held if each.grad.any()]
    run.optimizer.zero_grad(*how)
    assert grads(run.head) == [None, None]
    assert [watch() for watch in watches] == [None, None]  # is freed


@pytest.mark.parametrize("kind", ["Adam", "RMSprop", "LBFGS"])
def test_the_default_is_none__also_of(snippet, kind):
    edited = snippet.edit("    optimizer.step()\n    norms", "    norms").edit(
        "SGD(head.parameters()", f"{kind}(head.parameters()"
    )
    test_the_default_is_none(edited)


def test_the_default_is_none__also_of_two_groups(snippet):
    groups = '[{"params": head.weight}, {"params": head.bias}]'
    edited = snippet.edit("SGD(head.parameters()", f"SGD({groups}")
    test_the_default_is_none(edited)


def test_the_default_is_none__but_not_if_told(snippet, fails):
    """With `set_to_none=False`, `.grad` holds zeros."""
    fails(test_the_default_is_none, snippet, False)


def closed(snippet):
    return snippet.only("receipts", "closed-shop").after("closed-shop")


def test_zeros_move_the_closed_shop(snippet, kinds=MOVE, lr=0.1):
    run = closed(snippet)

    assert run.moved(optim.SGD, False, lr) == 0
    for kind, options in kinds.values():
        assert run.moved(kind, False, lr, **options) > 0
        assert run.moved(kind, True, lr, **options) == 0


@pytest.mark.parametrize("rate", [0.001, 1.0])
def test_zeros_move_the_closed_shop__also_at(snippet, rate):
    test_zeros_move_the_closed_shop(snippet, lr=rate)


def test_zeros_move_the_closed_shop__also_a_single_weight(snippet):
    cells = snippet.only("receipts", "goes-on")
    assert cells.after("goes-on").weight == 2.5  # 2 + 0.25 * 0.5 * 4
    edited = cells.edit("in (False, True)", "in (True, True)")
    assert edited.after("goes-on").weight == 2


@edits(
    ("None both times", "(set_to_none)\n        F", "()\n        F"),
    ("no reset", "optimizer.zero_grad(set_to_none)\n        F", "F"),
)
@pytest.mark.parametrize("name", MOVE)
def test_zeros_move_the_closed_shop__but_not(snippet, old, new, name, fails):
    """With `None`, the shop stays; without a reset, its old gradient moves it
    in both columns.
    """
    edited = snippet.edit(old, new)
    fails(test_zeros_move_the_closed_shop, edited, {name: MOVE[name]})


@pytest.mark.parametrize("name", MOVE)
def test_zeros_move_the_closed_shop__ends_without_a_past(snippet, name, fails):
    """If the shop was never open: its `.grad` is `None`, and stays `None`."""
    edited = snippet.edit("F.mse_loss(shop(", "F.mse_loss(shops[1](")
    fails(test_zeros_move_the_closed_shop, edited, {name: MOVE[name]})


def test_zeros_move_the_closed_shop__but_not_plain_sgd(snippet, fails):
    """Plain SGD takes a step of the length 0."""
    fails(test_zeros_move_the_closed_shop, snippet, {"SGD": KINDS["SGD"]})


def test_none_frees_the_forward_pass(snippet, dtype=torch.float32, steps=2):
    torch.set_default_dtype(dtype)
    run = trainer(snippet)

    for place in PLACES:
        for none in (True, False):
            own = run.new_model()
            *_, last = run.train(*own, place, steps, set_to_none=none)
            freed = none and place != BEFORE
            assert last[-1][0] == (0 if freed else 2 * dtype.itemsize)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_none_frees_the_forward_pass__also_with(snippet, dtype):
    test_none_frees_the_forward_pass(snippet, dtype)


def test_none_frees_the_forward_pass__also_what_the_page_prints(snippet):
    run = snippet.only("receipts", "train", "places").after("places")
    assert len(run.bytes_held) == 6
    for (place, none), found in run.bytes_held.items():
        freed = none and place != BEFORE, none and place == AFTER
        assert found == tuple(0 if each else 8 for each in freed)


START, COUNT = "    seen = []\n", "        in_forward = held(model)\n"
SECOND = (
    '        if place == "before backward":\n'
    "            optimizer.zero_grad(**how)\n"
)


@edits(
    ("no reset", 'if place == "after step":', "if False:"),
    ("None always", START, f"{START}    how.clear()\n"),
    ("None never", START, f"{START}    how['set_to_none'] = False\n"),
    ("counted later", COUNT + SECOND, SECOND + COUNT),
)
def test_none_frees_the_forward_pass__but_not(snippet, old, new, fails):
    """Each edit leaves a reset out, changes what it writes, or counts later,
    so there are other bytes.
    """
    fails(test_none_frees_the_forward_pass, snippet.edit(old, new))


def test_none_frees_the_forward_pass__ends_in_the_first_step(snippet, fails):
    """In the first step, there are no gradients yet."""
    fails(test_none_frees_the_forward_pass, snippet, torch.float32, 1)


# What goes wrong


def test_at_a_low_rate_it_looks_good(snippet, rate=0.01, seeds=(1, 2, 3)):
    run = snippet.only("receipts", "train", "places", "settled").after(
        "settled"
    )
    for seed in seeds:
        right, wrong = (
            run.settled(optim.AdamW, rate, place, seed)
            for place in (FORWARD, NOWHERE)
        )
        assert wrong < right


def test_at_a_low_rate_it_looks_good__also_as_the_page_prints(snippet):
    cells = ("receipts", "train", "places", "forgotten", "settled")
    run = snippet.only(*cells).after("settled")
    assert min(run.losses) < 1
    assert max(run.losses[50:]) > 20
    for kind, lr in run.settings[:3]:
        for seed in (1, 2, 3):
            right = run.settled(kind, lr, BEFORE, seed)
            assert run.settled(kind, lr, NOWHERE, seed) > 100 * right
    assert run.settings[3] == (optim.AdamW, 0.01)


def test_at_a_low_rate_it_looks_good__ends_at_a_higher_rate(snippet, fails):
    """At a rate of 0.1, the loss is higher without the reset."""
    fails(test_at_a_low_rate_it_looks_good, snippet, 0.1)


@edits(
    ("in 400 steps", "steps=100, **how", "steps=400, **how"),
    ("a reset in both", 'if place == "before the', 'if place or "the'),
)
def test_at_a_low_rate_it_looks_good__but_not(snippet, old, new, fails):
    """After 400 steps, the loss is higher without the reset; with one in both
    runs, it is the same.
    """
    fails(test_at_a_low_rate_it_looks_good, snippet.edit(old, new))


NEW = "new_model(optim.AdamW)"
RESET = "    optimizer.zero_grad()\n    optimizer.step()\n"
OPTIONS = (
    "optim.AdamW",
    "optim.SGD",
    "optim.SGD, momentum=0.9, weight_decay=0.1",
    "optim.Adam",
    "optim.Adam, weight_decay=0.1",
)


def test_between_nothing_is_learned(snippet, options=OPTIONS):
    cells = snippet.only("receipts", "train", "between")
    for each in options:
        run = cells.edit(NEW, f"new_model({each})").after("between")
        start, _ = run.new_model()
        assert torch.equal(run.before, start.weight)
        assert torch.equal(run.model.weight, start.weight)


@edits(
    ("never", RESET, "    optimizer.step()\n"),
    ("with zeros", RESET, RESET.replace("grad()", "grad(False)")),
)
def test_between_nothing_is_learned__but_is(snippet, old, new, fails):
    """Without `zero_grad()`, AdamW moves the weights; and with zeros in place
    of `None`, its weight decay does.
    """
    edited = snippet.edit(old, new)
    fails(test_between_nothing_is_learned, edited, ("optim.AdamW",))


@pytest.mark.parametrize("options", OPTIONS)
def test_between_nothing_is_learned__but_after_step(snippet, options, fails):
    """With `zero_grad()` after `step()`, the model learns."""
    after = "    optimizer.step()\n    optimizer.zero_grad()\n"
    edited = snippet.edit(RESET, after)
    fails(test_between_nothing_is_learned, edited, (options,))


def test_an_optimizer_resets_its_own(snippet):
    cells = snippet.only("receipts", "left-out", "reset-all")
    run = cells.after("left-out")
    assert has(run.model.parameters())
    torch.manual_seed(0)
    _, head = nn.Linear(2, 2), nn.Linear(2, 1)
    assert not torch.equal(run.head.weight, head.weight)
    run.optimizer.zero_grad()
    assert grads(run.head) == [None, None]
    assert has(run.body.parameters())
    run.model.zero_grad()
    assert grads(run.model) == [None] * 4
    assert run.norms[0] > 2 * 10.1  # grows in four steps

    run = cells.after("reset-all")
    assert grads(run.model) == [None] * 4


def test_an_optimizer_resets_its_own__also_what_the_model_lacks(snippet):
    run = snippet.only("receipts", "left-out").after("left-out")
    outside = nn.Linear(2, 1)
    run.optimizer.add_param_group({"params": outside.parameters()})
    for reset, expected in ((run.model, True), (run.optimizer, False)):
        outside(run.bought).sum().backward()
        reset.zero_grad()
        assert has(outside.parameters()) == expected


@edits(
    ("of the whole model", "SGD(head.parameters()", "SGD(model.parameters()"),
    ("of the body", "SGD(head.parameters()", "SGD(body.parameters()"),
)
def test_an_optimizer_resets_its_own__but_not(snippet, old, new, fails):
    """An optimizer of the whole model resets the body too; one of the body
    does not reset the head.
    """
    fails(test_an_optimizer_resets_its_own, snippet.edit(old, new))


def test_the_judge_gets_gradients_too(snippet):
    run = snippet.only("receipts", "two-optimizers").after("two-optimizers")
    assert run.for_generator.state
    assert grads(run.generator) == [None, None]
    assert has(run.judge.parameters())
    run.for_judge.zero_grad()
    assert grads(run.judge) == [None, None]


@edits(
    ("reset too", "for_generator.zero_grad()", "judge.zero_grad()"),
    ("frozen", "made_up = ", "judge.requires_grad_(False)\nmade_up = "),
    ("never asked", "F.softplus(-judge(made_up))", "made_up.square()"),
)
def test_the_judge_gets_gradients_too__but_not(snippet, old, new, fails):
    """Reset, frozen, or left out of the loss, the judge has no gradients."""
    fails(test_the_judge_gets_gradients_too, snippet.edit(old, new))


@true_since("2.0", "there were zeros, which have a norm")
def test_none_has_no_norm(snippet):
    run = snippet.only("receipts", "train", "read-none").after("read-none")
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


WRITERS = {
    "zero_grad": lambda run: run.optimizer.zero_grad(set_to_none=False),
    "clip_grad_norm_": lambda run: run.clip_grad_norm_(run.model.weight, 1.0),
    "backward": lambda run: run.model(run.bought).sum().backward(),
}


def test_a_kept_gradient_changes(snippet, writers=WRITERS):
    cells = snippet.only("receipts", "train", "keep", "kept-changes")
    for name, write in writers.items():
        run = cells.after("keep")
        assert torch.equal(run.kept, run.copied)
        write(run)
        assert not torch.equal(run.kept, run.copied), name
    changed = cells.after("kept-changes")
    assert changed.kept.tolist() == [[0, 0]] != changed.copied.tolist()


@pytest.mark.parametrize("name", WRITERS)
def test_a_kept_gradient_changes__but_no_copy(snippet, name, fails):
    """A `clone()` stays as it is."""
    edited = snippet.edit(
        "model.weight.grad, model", "model.weight.grad.clone(), model"
    )
    fails(test_a_kept_gradient_changes, edited, {name: WRITERS[name]})


STAY = {
    "a reset before backward": lambda run: [
        run.optimizer.zero_grad(),
        run.model(run.bought).sum().backward(),
    ],
    "create_graph": lambda run: (
        run.model(run.bought).sum().backward(create_graph=True)
    ),
    "a large max_norm": lambda run: run.clip_grad_norm_(run.model.weight, 99),
}


@pytest.mark.filterwarnings("ignore:Using backward.* with create_graph")
@pytest.mark.parametrize("name", STAY)
def test_a_kept_gradient_changes__ends_with(snippet, name, fails):
    """With the default `zero_grad()`, also before `backward()`, with
    `create_graph=True`, or if nothing has to be clipped: it stays as it is.
    """
    fails(test_a_kept_gradient_changes, snippet, {name: STAY[name]})


# Where it ends


def test_only_parameters_are_reset(snippet):
    cells = snippet.only("receipts", "train", "not-parameters")
    run = cells.after("not-parameters")

    assert run.model.weight.grad is None
    assert run.predictions.grad_fn is not None
    for each in (run.receipts, run.predictions):
        assert each.grad is not None
        assert each.grad.any()


INPUT = "receipts = bought[:1].clone().requires_grad_()\n"
RETAIN = "predictions.retain_grad()\n"
HOLD = RETAIN + "optimizer.add_param_group({{'params': {}}})\n"


@edits(
    (
        "in the model",
        INPUT,
        "receipts = model.more = nn.Parameter(bought[:1].clone())\n",
    ),
    ("in the optimizer", RETAIN, HOLD.format("receipts")),
    ("its predictions, too", RETAIN, HOLD.format("predictions")),
)
def test_only_parameters_are_reset__but_those_are(snippet, old, new, fails):
    """As a parameter of the model or of the optimizer, a tensor is reset."""
    fails(test_only_parameters_are_reset, snippet.edit(old, new))
