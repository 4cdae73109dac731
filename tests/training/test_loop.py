"""The claims of docs/training/loop.md."""

import copy
import math
import warnings
from itertools import pairwise
from types import SimpleNamespace
from weakref import WeakSet

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import Snippet
from tests.helpers import worlds

SLOW = {"wrong-order", "run", "clip-places", "closure"}
SLOW |= {"cycle", "seen", "changes"}


def run_to(snippet, last, *needed):
    """Run to the end of a cell, without slow cells that it does not need."""
    text = snippet.text.replace("epoch in range(5)", "epoch in range(0)")
    if last == "wrong-order":  # the second step tells
        text = text.replace("epochs=20", "epochs=1")
    quick = Snippet(snippet.path, text)
    names = quick.cells().keys() - SLOW | {last, *needed}
    return quick.only(*names).after(last)


def images():
    """Return a model of images, images and targets."""
    layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout2d()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(18, 3))
    return model, torch.randn(6, 1, 5, 5), torch.randn(6, 3)


def words():
    """Return a model of words, words and targets."""
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    layers = [nn.Embedding(9, 8), attention, nn.Flatten(), nn.Linear(24, 1)]
    return nn.Sequential(*layers), torch.randint(9, (6, 3)), torch.randn(6, 1)


def smooth():
    """Return a model of double precision without a kink or chance."""
    layers = [nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2)]
    inputs, targets = torch.randn(5, 3), torch.randn(5, 2)
    return nn.Sequential(*layers).double(), inputs.double(), targets.double()


WORLDS = "tied", "frozen in part", "with BatchNorm"


def of_the_world(model):
    """Return a model, inputs and targets that fit it."""
    return model(), torch.randn(5, 3), torch.randn(5, 3)


SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
OPTIMIZERS = {
    "momentum": (SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    "Adam": (ADAM, {"weight_decay": 0.1, "amsgrad": True, "foreach": True}),
    "fused AdamW": (ADAMW, {"fused": True, "maximize": True}),
    "RMSprop": (torch.optim.RMSprop, {"momentum": 0.9, "weight_decay": 0.1}),
}
NESTEROV = {"lr": 0.1, "momentum": 0.9, "nesterov": True, "foreach": True}
PREPARED = {"images": images, "words": words, "float64": smooth}


def prepared(run, prepare=None, optimizer=None):
    """Return names for the five lines, by default those of the page."""
    torch.manual_seed(5)
    if prepare:
        model, inputs, targets = prepare()
    else:
        model, _ = run.start()
        inputs, targets = run.weather[:50], run.bikes[:50]
    kind, options = optimizer or (ADAMW, {"lr": 0.01})
    optimizer = kind(model.parameters(), **options)
    return {
        "model": model,
        "optimizer": optimizer,
        "inputs": inputs,
        "targets": targets,
    }


def same(first, second):
    """Compare lists of tensors, or of None."""
    return len(first) == len(second) and all(
        a is b if a is None or b is None else a.equal(b)
        for a, b in zip(first, second, strict=True)
    )


def apart(first, second):
    """Return whether each tensor of a list is another than its fellow."""
    return not any(a.equal(b) for a, b in zip(first, second, strict=True))


def trained_anew(snippet):
    """Return the loss on new days after five epochs of a loop of our own."""
    run = snippet.after("start")
    model, optimizer = run.start()
    for _ in range(5):
        for inputs, targets in DataLoader(run.old, 100, shuffle=True):
            loss = (model(inputs) - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return F.mse_loss(model(run.weather[300:]), run.bikes[300:])


def test_the_loop_learns(snippet):
    run = snippet.after("do-this")
    untrained, _ = run.start()
    inputs, targets = run.new.tensors

    with torch.no_grad():
        before, after = (
            F.mse_loss(model(inputs), targets)
            for model in (untrained, run.model)
        )

    trained_on = set(map(tuple, run.old.tensors[0].tolist()))
    assert trained_on.isdisjoint(map(tuple, inputs.tolist()))
    assert len(inputs) == 100
    assert before > 0.4
    assert after < 0.2
    assert after.item() == pytest.approx(trained_anew(snippet).item())


SEEN = "weather[200:300], bikes[200:300]"


@edits(
    (
        "without a step",
        "        optimizer.step()\n    print",
        "    print",
    ),
    ("uphill", "lr=0.05", "lr=0.05, maximize=True"),
    ("in one epoch", "for epoch in range(5)", "for epoch in range(1)"),
    ("from noise", "8 * warm", "8 * torch.rand_like(warm)"),
    ("from below 0.4", "8 * warm", "4 * warm"),
    ("on days that it has seen", "weather[300:], bikes[300:]", SEEN),
)
def test_the_loop_learns__but_not(snippet, old, new, fails):
    """Without `step()`, nothing is learned; the others go uphill, stop after
    one epoch, or take other bikes or days.
    """
    fails(test_the_loop_learns, snippet.edit(old, new))


def test_zero_grad_clears(snippet, optimizer=None):
    run = run_to(snippet, "watch")
    for prepare in (None, images):
        names = prepared(run, prepare, optimizer)
        run.watch(run.lines, **names)
        before, after = run.watch([run.zero_grad], **names)

        assert all(gradient is not None for gradient in before["gradients"])
        assert all(gradient is None for gradient in after["gradients"])


def test_zero_grad_clears__also_in_every_group(snippet):
    run = run_to(snippet, "watch")
    names = prepared(run)
    outside, *inside = names["model"].parameters()
    groups = [{"params": inside[:1]}, {"params": inside[1:]}]
    names["optimizer"] = ADAMW(groups)
    run.watch(run.lines, **names)

    run.watch([run.zero_grad], **names)

    assert outside.grad is not None
    assert all(each.grad is None for each in inside)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_zero_grad_clears__also_with(snippet, name):
    test_zero_grad_clears(snippet, OPTIMIZERS[name])


@edits(
    ("to zeros", "optimizer.zero_grad()", "optimizer.zero_grad(False)"),
    ("in one layer", "optimizer.zero_grad()", "model[0].zero_grad()"),
)
def test_zero_grad_clears__but_not(snippet, old, new, fails):
    """`zero_grad(False)` leaves zeros instead of `None`; and
    `model[0].zero_grad()` clears one layer alone.
    """
    edited = snippet.edit(f'zero_grad = "{old}"', f'zero_grad = "{new}"')
    fails(test_zero_grad_clears, edited)


def gradients_by_hand(names):
    """Return the gradients of the loss of a batch, without touching .grad."""
    model = names["model"]
    loss = (model(names["inputs"]) - names["targets"]).square().mean()
    return torch.autograd.grad(loss, list(model.parameters()))


def test_slopes_add_up(snippet, prepare=None, optimizer=(SGD, {"lr": 0.2})):
    run = run_to(snippet, "watch")
    names = prepared(run, prepare, optimizer)
    sums = [torch.zeros_like(each) for each in names["model"].parameters()]

    for _ in range(4):
        names["inputs"] = names["inputs"].roll(1, 1) * 1.1
        names["targets"] = names["targets"] + 1
        gradients = gradients_by_hand(names)
        sums = [a + b for a, b in zip(sums, gradients, strict=True)]
        *_, last = run.watch(run.lines[1:], **names)
        torch.testing.assert_close(last["gradients"], sums)

    assert not torch.allclose(gradients[0], sums[0] / 4, rtol=0.01)


def test_slopes_add_up__also_for_another_model(snippet):
    test_slopes_add_up(snippet, smooth)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_slopes_add_up__also_with(snippet, name):
    test_slopes_add_up(snippet, smooth, OPTIMIZERS[name])


def test_slopes_add_up__ends_with_nesterov(snippet, fails):
    """With SGD's `nesterov=True` and `foreach=True`: `step()` adds the
    momentum to `.grad` itself.
    """
    fails(test_slopes_add_up, snippet, None, (SGD, NESTEROV))


@edits(
    (
        "if a line before clears",
        '"outputs = model(inputs)"',
        '"optimizer.zero_grad(); outputs = model(inputs)"',
    ),
    (
        "if only the first batch counts",
        '"loss.backward()"',
        '"if model[0].bias.grad is None: loss.backward()"',
    ),
)
def test_slopes_add_up__but_not(snippet, old, new, fails):
    """If another line resets, only the last gradient is left; the other edit
    runs `backward()` only once.
    """
    fails(test_slopes_add_up, snippet.edit(old, new))


def check_the_drawing(run):
    """Check what is drawn against a third step of our own."""
    names = prepared(run)
    names["model"], names["optimizer"] = run.start()
    for i in (0, 100, 200):
        names["inputs"] = run.weather[i : i + 100]
        names["targets"] = run.bikes[i : i + 100]
        states = run.watch(run.lines, **names)
    for state, mine in zip(run.states, states, strict=True):
        assert same(state["weights"], mine["weights"])
        assert same(state["gradients"], mine["gradients"])
    numbers = [state["weights"][2][0, 3].item() for state in states]
    gradients = [state["gradients"][2] for state in states]
    words = [
        "None" if each is None else f"{each[0, 3]:.4f}" for each in gradients
    ]
    weights, after = f"\nweight {numbers[4]:.4f}", f"{numbers[5]:.4f}"
    assert run.seen[0] == (weights[1:], f".grad {words[0]}", "kept tensors 0")
    assert run.changes == [
        f"\n.grad {words[0]} → None",
        "\nkept tensors 0 → 3",
        "\nkept tensors 3 → 5",
        f"\n.grad None → {words[4]}\nkept tensors 5 → 0",
        f"{weights} → {after}",
    ]


def test_the_forward_pass_keeps_tensors(snippet, size=100):
    run = run_to(snippet, "changes", "cycle", "seen")
    check_the_drawing(run)
    assert [each["kept"] for each in run.states] == [0, 0, 3, 5, 0, 0]
    assert type(run.start()[0][1]) is nn.ReLU

    names, results = prepared(run) | {"F": F}, []
    names |= {"inputs": run.weather[:size], "targets": run.bikes[:size]}
    names["model"][1].register_forward_hook(
        lambda *args: results.append(args[2].data_ptr())
    )
    expected = {
        names["inputs"].data_ptr(),
        names["model"][2].weight.data_ptr(),
    }
    keep = torch.autograd.graph.saved_tensors_hooks(run.Kept, lambda kept: 0)
    with keep:
        exec(run.forward, names)
        kept = {each.tensor.data_ptr() for each in run.alive}
        assert kept == expected | set(results)
        exec(run.measure, names)
        kept = {each.tensor.data_ptr() for each in run.alive} - kept
        assert kept == {names[k].data_ptr() for k in ("outputs", "targets")}


@pytest.mark.parametrize("size", [1, 300])
def test_the_forward_pass_keeps_tensors__also_for(snippet, size):
    test_the_forward_pass_keeps_tensors(snippet, size)


@edits(
    (
        "of a loss that needs no numbers",
        '"loss = F.mse_loss(outputs, targets)"',
        '"loss = (outputs - targets).mean()"',
    ),
    ("of a layer that needs its inputs too", "nn.ReLU()", "nn.GELU()"),
    (
        "of a layer that stands still",
        "nn.Linear(2, 32)",
        "nn.Linear(2, 32).requires_grad_(False)",
    ),
)
def test_the_forward_pass_keeps_tensors__but_not(snippet, old, new, fails):
    """This loss keeps nothing for `backward()`; the model keeps one more with
    `GELU`, and only one with a frozen first layer.
    """
    fails(test_the_forward_pass_keeps_tensors, snippet.edit(old, new))


def test_backward_finds_the_slopes(snippet, prepare=None, left_out=0):
    run = run_to(snippet, "watch")
    names = prepared(run, prepare)
    held = list(names["model"].parameters())[left_out:]
    names["optimizer"] = SGD(held, lr=0.1)
    model = names["model"].double()
    frozen = next(iter(model.parameters()))
    for each in ("inputs", "targets"):
        names[each] = names[each].double()

    def loss():
        residuals = model(names["inputs"]) - names["targets"]
        return residuals.square().mean().item()

    for learns in (True, False):
        frozen.requires_grad_(learns)
        run.watch(run.lines[:4], **names)
        for parameter in model.parameters():
            if not parameter.requires_grad:
                assert parameter.grad is None
                continue
            assert parameter.grad is not None
            gradients, tiny = torch.zeros_like(parameter), 1e-6
            numbers, found = parameter.data.view(-1), gradients.view(-1)
            for i, number in enumerate(numbers.tolist()):
                numbers[i] = number + tiny
                above = loss()
                numbers[i] = number - tiny
                found[i] = (above - loss()) / (2 * tiny)
                numbers[i] = number
            torch.testing.assert_close(
                parameter.grad, gradients, rtol=1e-4, atol=1e-6
            )


def test_backward_finds_the_slopes__also_for_another_model(snippet):
    test_backward_finds_the_slopes(snippet, smooth)


def test_backward_finds_the_slopes__also_of_a_part(snippet):
    run = run_to(snippet, "watch")
    names = prepared(run)
    unused = nn.Linear(2, 1)
    names["model"].append(nn.Identity())
    names["model"][-1].unused = unused

    run.watch(run.lines[:4], **names)

    assert unused.weight.grad is None
    assert names["model"][0].weight.grad is not None


@worlds.each("model", worlds.MODELS, *WORLDS)
def test_backward_finds_the_slopes__also_if_the_model_is(snippet, model):
    test_backward_finds_the_slopes(snippet, lambda: of_the_world(model))


class Best(nn.Module):
    """The number of the largest output, which has no gradient."""

    def forward(self, inputs):
        """Return it as a column."""
        return inputs.argmax(1, keepdim=True).to(inputs.dtype)


def through_argmax():
    """Return a model whose first layer is behind an argmax."""
    model = nn.Sequential(nn.Linear(3, 4), Best(), nn.Linear(1, 2))
    return model, torch.randn(5, 3), torch.randn(5, 2)


def test_backward_finds_the_slopes__ends_through_an_argmax(snippet, fails):
    """For layers before an `argmax`: it passes no gradient on, and their
    `.grad` stays `None`.
    """
    fails(test_backward_finds_the_slopes, snippet, through_argmax)


def test_backward_finds_the_slopes__ends_if_the_optimizer_lacks_one(
    snippet, fails
):
    """If the optimizer lacks a parameter: `optimizer.zero_grad()` leaves its
    old gradient.
    """
    fails(test_backward_finds_the_slopes, snippet, smooth, 1)


@edits(
    ("doubled", '"loss.backward()"', '"(2 * loss).backward()"'),
    (
        "of the weights alone",
        '"loss.backward()"',
        '"loss.backward(inputs=[model[0].weight, model[2].weight])"',
    ),
    (
        "of another loss",
        '"loss.backward()"',
        '"(loss + model[2].weight.sum()).backward()"',
    ),
    ("without a reset", '"optimizer.zero_grad()"', '"pass"'),
)
def test_backward_finds_the_slopes__but_not(snippet, old, new, fails):
    """`(2 * loss).backward()` stores twice the gradient; the others leave out
    the biases, take another loss, or do not reset.
    """
    fails(test_backward_finds_the_slopes, snippet.edit(old, new))


def test_backward_lets_go(snippet, prepare=None):
    run = run_to(snippet, "watch")
    names = prepared(run, prepare)

    for _ in range(2):
        states = run.watch(run.lines, **names)
        assert states[3]["kept"] > 0
        assert states[4]["kept"] == 0


@pytest.mark.parametrize("name", PREPARED)
def test_backward_lets_go__also_for(snippet, name):
    test_backward_lets_go(snippet, PREPARED[name])


@edits(
    ("if told to keep them", "backward()", "backward(retain_graph=True)"),
    ("for a graph of gradients", "backward()", "backward(create_graph=True)"),
)
def test_backward_lets_go__but_not(snippet, old, new, fails):
    """With `retain_graph=True`, all five tensors stay; with
    `create_graph=True`, the graph stays too.
    """
    edited = snippet.edit(f'"loss.{old}"', f'"loss.{new}"')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fails(test_backward_lets_go, edited)


def test_only_step_moves_weights(snippet, prepare=None, optimizer=None):
    run = run_to(snippet, "watch")
    names = prepared(run, prepare, optimizer)

    for _ in range(3):
        states = run.watch(run.lines, **names)
        *others, before, after = [state["weights"] for state in states]
        assert all(same(each, before) for each in others)
        assert not same(before, after)


@pytest.mark.parametrize("name", PREPARED)
def test_only_step_moves_weights__also_for(snippet, name):
    test_only_step_moves_weights(snippet, PREPARED[name])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_only_step_moves_weights__also_with(snippet, name):
    test_only_step_moves_weights(snippet, images, OPTIMIZERS[name])


def with_max_norm(kind):
    """Return a model that shortens rows in its forward pass, and data."""
    layers = [kind(9, 8, max_norm=0.1), nn.Flatten(), nn.LazyLinear(1)]
    model, inputs = nn.Sequential(*layers), torch.randint(9, (6, 3))
    model(inputs.clone())
    model[0].reset_parameters()
    return model, inputs, torch.randn(6, 1)


@worlds.each("model", worlds.MODELS, *WORLDS)
def test_only_step_moves_weights__also_if_the_model_is(snippet, model):
    test_only_step_moves_weights(snippet, lambda: of_the_world(model))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_only_step_moves_weights__ends_with_max_norm(snippet, kind, fails):
    """With `max_norm`: `Embedding` and `EmbeddingBag` shrink rows of their
    weight in the forward pass.
    """
    fails(test_only_step_moves_weights, snippet, lambda: with_max_norm(kind))


MOVES = "; [each.data.add_(1) for each in model.parameters()]"


@edits(
    (
        "zero_grad",
        '"optimizer.zero_grad()"',
        f'"optimizer.zero_grad(){MOVES}"',
    ),
    (
        "forward",
        '"outputs = model(inputs)"',
        f'"outputs = model(inputs){MOVES}"',
    ),
    (
        "the loss",
        '"loss = F.mse_loss(outputs, targets)"',
        f'"loss = F.mse_loss(outputs, targets){MOVES}"',
    ),
    ("backward", '"loss.backward()"', f'"loss.backward(){MOVES}"'),
    ("no line", '"optimizer.step()"', '"pass"'),
)
def test_only_step_moves_weights__but_not_if_it_is(snippet, old, new, fails):
    """Here the first line also adds 1 to each parameter; the others do so in
    another line, or leave out `step()`.
    """
    fails(test_only_step_moves_weights, snippet.edit(old, new))


def test_step_leaves_the_slopes(snippet, optimizer=None, scaler=None):
    run = run_to(snippet, "watch")
    for prepare in (None, words):
        names = prepared(run, prepare, optimizer) | {"scaler": scaler}
        for _ in range(3):
            *_, before, after = run.watch(run.lines, **names)
            assert same(before["gradients"], after["gradients"])
            assert all(gradient is not None for gradient in after["gradients"])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step_leaves_the_slopes__also_of(snippet, name):
    test_step_leaves_the_slopes(snippet, OPTIMIZERS[name])


def test_step_leaves_the_slopes__ends_with_nesterov(snippet, fails):
    """With SGD's `nesterov=True` and `foreach=True`: `step()` adds the
    momentum to `.grad` itself.
    """
    fails(test_step_leaves_the_slopes, snippet, (SGD, NESTEROV))


@pytest.mark.parametrize("kind", [SGD, ADAM, ADAMW])
def test_step_leaves_the_slopes__ends_with_a_grad_scaler(snippet, kind, fails):
    """With a `GradScaler` and a fused optimizer: its step divides each `.grad`
    by the scale.
    """
    edited = snippet.edit(
        'backward = "loss.backward()"',
        'backward = "scaler.scale(loss).backward()"',
    ).edit('step = "optimizer.step()"', 'step = "scaler.step(optimizer)"')
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer = (kind, {"lr": 0.1, "fused": True})
    fails(test_step_leaves_the_slopes, edited, optimizer, scaler)


@edits(
    (
        "if they are scaled",
        '"optimizer.step()"',
        '"[each.grad.mul_(2) for each in model.parameters()]"',
    ),
    (
        "if they are cleared",
        '"optimizer.step()"',
        '"optimizer.step(); optimizer.zero_grad()"',
    ),
    (
        "if one is cleared",
        '"optimizer.step()"',
        '"optimizer.step(); model[-1].bias.grad = None"',
    ),
)
def test_step_leaves_the_slopes__but_not(snippet, old, new, fails):
    """This step doubles each gradient; the others clear all of them, or
    one.
    """
    fails(test_step_leaves_the_slopes, snippet.edit(old, new))


def test_sgd_goes_against_the_slope(snippet, rate=0.1, prepare=None):
    run = run_to(snippet, "watch")
    names = prepared(run, prepare, (SGD, {"lr": rate}))
    unused = nn.Parameter(torch.ones(2))
    names["optimizer"].add_param_group({"params": [unused]})

    for _ in range(3):
        *_, before, after = run.watch(run.lines, **names)
        expected = [
            weight - rate * gradient
            for weight, gradient in zip(
                before["weights"], before["gradients"], strict=True
            )
        ]
        torch.testing.assert_close(after["weights"], expected)
        assert apart(after["weights"], before["weights"])
        assert unused.tolist() == [1, 1]


@pytest.mark.parametrize("rate", [0.003, 1.0])
def test_sgd_goes_against_the_slope__also_at(snippet, rate):
    test_sgd_goes_against_the_slope(snippet, rate, smooth)


def in_bfloat16():
    """Return a model with weights in bfloat16, inputs and targets."""
    model, inputs, targets = smooth()
    return model.bfloat16(), inputs.bfloat16(), targets.bfloat16()


def test_sgd_goes_against_the_slope__ends_in_bfloat16(snippet, fails):
    """With weights in `bfloat16`: a step below about a 500th of a weight is
    rounded away.
    """
    fails(test_sgd_goes_against_the_slope, snippet, 0.0001, in_bfloat16)


def test_sgd_goes_against_the_slope__but_not_twice(snippet, fails):
    """Two calls of `step()` subtract it twice."""
    edited = snippet.edit(
        '"optimizer.step()"', '"optimizer.step(); optimizer.step()"'
    )
    fails(test_sgd_goes_against_the_slope, edited)


def test_sgd_goes_against_the_slope__but_not_with_momentum(snippet, fails):
    """With momentum, earlier gradients count as well."""
    edited = snippet.edit(
        '"optimizer.step()"',
        "\"optimizer.param_groups[0]['momentum'] = 0.9; optimizer.step()\"",
    )
    fails(test_sgd_goes_against_the_slope, edited)


LEFT_OUT = (
    "no zero_grad",
    "no backward",
    "no step",
    "step before backward",
    "zero_grad after backward",
)
ADAMW_OF_THE_PAGE = "torch.optim.AdamW(model.parameters(), lr=0.05)"
LAYERS = "nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1)"
OTHERS = {
    "SGD": (
        ADAMW_OF_THE_PAGE,
        "torch.optim.SGD(model.parameters(), 0.01, 0.9, weight_decay=0.1)",
    ),
    "another model": (
        LAYERS,
        "nn.Linear(2, 8), nn.Dropout(), nn.Linear(8, 8), nn.BatchNorm1d(8), "
        "nn.Linear(8, 1)",
    ),
}


def others(snippet):
    """Return the program with another model and another optimizer."""
    return snippet.edit(*OTHERS["SGD"]).edit(*OTHERS["another model"])


def check_the_order(run, name):
    """Check that an order is that of its name, made from the five lines."""
    reset, forward, measure, backward, step = run.lines
    orders = {
        "no zero_grad": [forward, measure, backward, step],
        "no backward": [reset, forward, measure, step],
        "no step": [reset, forward, measure, backward],
        "step before backward": [reset, forward, measure, step, backward],
        "zero_grad after backward": [forward, measure, backward, reset, step],
    }
    assert run.orders[name] == orders[name]


def check_that_it_stays(snippet, name, epochs=2):
    """Check that an order leaves each parameter; all five lines do not."""
    run = run_to(snippet, "left-out")
    before = list(run.start()[0].parameters())
    _, model = run.train_by(*run.orders[name], epochs=epochs)
    _, learns = run.train_by(*run.lines, epochs=1)
    assert not same(before, list(learns.parameters()))
    assert same(before, list(model.parameters()))
    check_the_order(run, name)


def test_none_of_them_raises(snippet):
    run = run_to(snippet, "left-out")

    assert tuple(run.orders) == LEFT_OUT
    for name, order in run.orders.items():
        with no_error(), warnings.catch_warnings():
            warnings.simplefilter("error")
            run.train_by(*order, epochs=3)
        check_the_order(run, name)


def test_none_of_them_raises__also_with_another_model_and_sgd(snippet):
    test_none_of_them_raises(others(snippet))


@pytest.mark.parametrize(
    "line",
    ["", "import warnings; warnings.warn('wrong')"],
    ids=["an error", "a warning"],
)
def test_none_of_them_raises__but_not_if_it_is(snippet, line, fails):
    """Without the forward line, `outputs` is missing and raises a `NameError`;
    the other edit adds a line that warns.
    """
    edited = snippet.edit(
        '"no backward": [zero_grad, forward, measure, step]',
        f'"no backward": [zero_grad, {line!r} or measure, step]',
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fails(test_none_of_them_raises, edited)


def test_without_backward_nothing_moves(snippet):
    check_that_it_stays(snippet, "no backward")


def test_without_backward_nothing_moves__also_with_another_model_and_sgd(
    snippet,
):
    test_without_backward_nothing_moves(others(snippet))


def test_without_backward_nothing_moves__but_not_with_it(snippet, fails):
    """With `backward()` back in the order, the parameters move."""
    edited = snippet.edit(
        "[zero_grad, forward, measure, step]",
        "[zero_grad, forward, measure, backward, step]",
    )
    fails(test_without_backward_nothing_moves, edited)


def test_without_backward_nothing_moves__but_not_with_zeros(snippet, fails):
    """With zeros in `.grad` in place of `None`, the weight decay of AdamW
    moves parameters all the same.
    """
    edited = snippet.edit(
        "[zero_grad, forward, measure, step]",
        "[zero_grad, forward, measure,"
        ' "for p in model.parameters(): p.grad = 0 * p.detach()", step]',
    )
    fails(test_without_backward_nothing_moves, edited)


def test_without_step_nothing_moves(snippet):
    check_that_it_stays(snippet, "no step")


def test_without_step_nothing_moves__also_with_another_model_and_sgd(
    snippet,
):
    test_without_step_nothing_moves(others(snippet))


def test_without_step_nothing_moves__but_not_with_one_by_hand(snippet, fails):
    """If you subtract a gradient by hand, that parameter moves."""
    edited = snippet.edit(
        '"no step": [zero_grad, forward, measure, backward]',
        '"no step": [zero_grad, forward, measure, backward,'
        ' "model[0].bias.data -= model[0].bias.grad"]',
    )
    fails(test_without_step_nothing_moves, edited)


def test_step_too_early_moves_nothing(snippet):
    check_that_it_stays(snippet, "step before backward")


def test_step_too_early_moves_nothing__also_with_another_model_and_sgd(
    snippet,
):
    test_step_too_early_moves_nothing(others(snippet))


def test_step_too_early_moves_nothing__but_not_with_another_after(
    snippet, fails
):
    """A second `step()`, after `backward()`, moves the parameters."""
    edited = snippet.edit(
        "[zero_grad, forward, measure, step, backward]",
        "[zero_grad, forward, measure, step, backward, step]",
    )
    fails(test_step_too_early_moves_nothing, edited)


def test_step_too_early_moves_nothing__but_not_before_forward(snippet, fails):
    """With `step()` before `zero_grad()`, it applies the gradients of the
    batch before.
    """
    edited = snippet.edit(
        "[zero_grad, forward, measure, step, backward]",
        "[step, zero_grad, forward, measure, backward]",
    )
    fails(test_step_too_early_moves_nothing, edited)


def test_zero_grad_too_late_moves_nothing(snippet):
    check_that_it_stays(snippet, "zero_grad after backward")


def test_zero_grad_too_late_moves_nothing__also_with_another_model_and_sgd(
    snippet,
):
    test_zero_grad_too_late_moves_nothing(others(snippet))


def test_zero_grad_too_late_moves_nothing__but_not_with_zeros(snippet, fails):
    """`set_to_none=False` leaves zeros in place of `None`, and then the weight
    decay of AdamW moves parameters.
    """
    edited = snippet.edit(
        '"optimizer.zero_grad()"', '"optimizer.zero_grad(set_to_none=False)"'
    )
    fails(test_zero_grad_too_late_moves_nothing, edited)


def test_zero_grad_too_late_moves_nothing__but_not_after_step(snippet, fails):
    """With `zero_grad()` after `step()`, the gradients are still there when
    `step()` needs them.
    """
    edited = snippet.edit(
        "[forward, measure, backward, zero_grad, step]",
        "[forward, measure, backward, step, zero_grad]",
    )
    fails(test_zero_grad_too_late_moves_nothing, edited)


def test_without_zero_grad_it_is_worse(snippet):
    run = run_to(snippet, "left-out")
    wrong, model = run.train_by(*run.orders["no zero_grad"])
    right, _ = run.train_by(*run.lines)

    assert wrong[20] > 5 * right[20]
    assert len(wrong) == len(right) == 21
    assert {type(each) for each in wrong} == {float}
    with torch.no_grad():
        loss = F.mse_loss(model(run.weather), run.bikes).item()
    assert wrong[20] == pytest.approx(loss)
    assert wrong[0] == right[0]
    assert len({*right}) == 21
    check_the_order(run, "no zero_grad")


@pytest.mark.parametrize("seed", [2])
def test_without_zero_grad_it_is_worse__also_from_start(snippet, seed):
    edited = snippet.edit("torch.manual_seed(1)", f"torch.manual_seed({seed})")
    test_without_zero_grad_it_is_worse(edited)


@edits(
    (
        "with it at the end",
        "[forward, measure, backward, step],\n",
        "[forward, measure, backward, step, zero_grad],\n",
    ),
    ("at a tiny rate", "lr=0.05", "lr=0.00005"),
)
def test_without_zero_grad_it_is_worse__but_not(snippet, old, new, fails):
    """With `zero_grad()` at the end of each step, the loss is as low; and at a
    tiny rate, both losses stay high.
    """
    fails(test_without_zero_grad_it_is_worse, snippet.edit(old, new))


def test_one_record_serves_once(snippet):
    run = run_to(snippet, "wrong-order")
    names = prepared(run)
    names["outputs"] = names["model"](names["inputs"])
    lines = [run.zero_grad, run.measure, run.backward, run.step]

    run.watch(lines, **names)
    with pytest.raises(RuntimeError) as caught:
        run.watch(lines, **names)

    error = run.errors["model(inputs) before the loop"]
    assert error == str(caught.value)
    assert error.startswith("Trying to backward through the graph a second")
    assert run.mistakes["model(inputs) before the loop"] == lines


@edits(
    (
        "with a record in each step",
        "[zero_grad, measure, backward, step]",
        "[zero_grad, forward, measure, backward, step]",
    ),
    (
        "if the record is kept",
        '"loss.backward()"',
        '"loss.backward(retain_graph=True)"',
    ),
)
def test_one_record_serves_once__but_not(snippet, old, new, fails):
    """With the forward line in each step, there is no error; with
    `retain_graph=True`, there is another one.
    """
    fails(test_one_record_serves_once, snippet.edit(old, new))


def test_an_early_step_overwrites(snippet):
    run = run_to(snippet, "wrong-order")
    names = prepared(run) | {"F": F}
    names["model"], names["optimizer"] = run.start()
    early = "\n".join([run.forward, run.measure, run.step, run.backward])

    exec(early, names)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(early, names)

    error = run.errors["step before backward, no zero_grad"]
    assert str(error).startswith("one of the variables needed for gradient")
    order = run.mistakes["step before backward, no zero_grad"]
    assert order == early.split("\n")


@edits(
    ("with a fused step", "lr=0.05)", "lr=0.05, fused=True)"),
    (
        "for a single linear layer",
        "nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1)",
        "(nn.Linear(2, 1),)",
    ),
)
def test_an_early_step_overwrites__ends(snippet, old, new, fails):
    """With a fused step: it overwrites weights without an error; for a single
    linear layer: `backward()` needs no weights.
    """
    fails(test_an_early_step_overwrites, snippet.edit(old, new))


def test_an_early_step_overwrites__also_with_sgd(snippet):
    test_an_early_step_overwrites(snippet.edit(*OTHERS["SGD"]))


@edits(
    (
        "after backward",
        '[forward, measure, step, backward],\n    "a loss',
        '[forward, measure, backward, step],\n    "a loss',
    ),
    (
        "with a reset",
        'zero_grad": [forward, measure, step, backward],\n    "a loss',
        'zero_grad": [zero_grad, *lines[1:3], step, backward],\n    "a loss',
    ),
)
def test_an_early_step_overwrites__but_not(snippet, old, new, fails):
    """After `backward()`, nothing needs the old weights any more; and with a
    reset first, `step()` overwrites nothing.
    """
    fails(test_an_early_step_overwrites, snippet.edit(old, new))


def test_many_losses_are_refused(snippet, shape=(100, 1)):
    run = run_to(snippet, "wrong-order")
    message = "grad can be implicitly created only for scalar outputs"

    reset, forward, _, backward, step = run.lines
    each = "loss = F.mse_loss(outputs, targets, reduction='none')"
    assert run.errors["a loss of many numbers"] == message
    order = run.mistakes["a loss of many numbers"]
    assert order == [reset, forward, each, backward, step]
    many = torch.ones(shape, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match=message):
        exec(run.backward, {"loss": many})


@pytest.mark.parametrize("shape", [(2,), (2, 1, 3)])
def test_many_losses_are_refused__also_of(snippet, shape):
    test_many_losses_are_refused(snippet, shape)


@edits(
    ("of their mean", "reduction='none'", "reduction='mean'"),
    (
        "with a weight for each",
        '"loss.backward()"',
        '"loss.backward(loss.detach())"',
    ),
)
def test_many_losses_are_refused__but_not(snippet, old, new, fails):
    """The mean of the losses is one number; and with a weight for each,
    `backward()` takes many.
    """
    fails(test_many_losses_are_refused, snippet.edit(old, new))


def test_four_losses_may_be_swapped(snippet):
    run = run_to(snippet, "swapped")
    names, pairs = list(run.both_ways), list(run.both_ways.values())

    assert len(pairs) == 8
    assert names[:4] == [each.__name__ for each in SAME]
    assert all(right == swapped > 0 for right, swapped in pairs[:4])
    assert {type(each) for pair in pairs for each in pair} == {float}
    for name, pair in list(run.both_ways.items())[:4]:
        loss = getattr(F, name)
        assert pair[0] == loss(run.chance, run.rained).item()
        assert pair[1] == loss(run.rained, run.chance).item()


SAME = {
    F.mse_loss: [{}],
    F.l1_loss: [{}],
    F.smooth_l1_loss: [{}, {"beta": 0.3}],
    F.huber_loss: [{}, {"delta": 0.3}],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_four_losses_may_be_swapped__also_for(reduction, dtype):
    numbers = 3 * torch.randn(2, 5, 4, dtype=dtype)
    cases = [
        (loss, each) for loss, choices in SAME.items() for each in choices
    ]
    for loss, options in cases:
        found = []
        for swapped in (False, True):
            outputs, targets = numbers.clone()
            outputs.requires_grad_()
            pair = (targets, outputs) if swapped else (outputs, targets)
            value = loss(*pair, reduction=reduction, **options)
            value.sum().backward()
            found.append((value.detach(), outputs.grad))
        assert same(*found)
        assert found[0][1].count_nonzero() == 20


@pytest.mark.parametrize(
    "old", ["[F.mse_loss", "F.l1_loss", "F.smooth_l1_loss", "F.huber_loss"]
)
def test_four_losses_may_be_swapped__but_not_if_one_is(snippet, old, fails):
    """`hinge_embedding_loss`, in place of one of the four, gives another
    number when swapped.
    """
    new = "[" * old.startswith("[") + "F.hinge_embedding_loss"
    fails(test_four_losses_may_be_swapped, snippet.edit(old, new))


def test_four_losses_change(snippet):
    with no_error():
        run = run_to(snippet, "swapped")
    names = list(run.both_ways)[4:]

    assert len(names) == 4
    for name in names:
        right, swapped = run.both_ways[name]
        assert abs(right - swapped) > 0.01
        assert right == getattr(F, name)(run.chance, run.rained).item()
        assert swapped == getattr(F, name)(run.rained, run.chance).item()


@edits(
    ("for certain outputs", "[0.9, 0.2, 0.8]", "[1.0, 0.0, 1.0]"),
    ("for a margin", "F.poisson_nll_loss", "F.soft_margin_loss"),
    ("for logits of a margin", "F.cross_entropy]", "F.soft_margin_loss]"),
)
def test_four_losses_change__but_not(snippet, old, new, fails):
    """If the outputs equal the targets, swapping changes nothing; nor does it
    in `soft_margin_loss`.
    """
    fails(test_four_losses_change, snippet.edit(old, new))


def test_class_numbers_come_second(snippet, shape=(3, 2), dtype=torch.long):
    run = run_to(snippet, "swapped-classes", "swapped")
    numbers = (shape[0], *shape[2:])
    scores, classes = torch.randn(shape), torch.zeros(numbers, dtype=dtype)

    F.cross_entropy(run.scores, run.classes)
    F.cross_entropy(scores, classes)
    with pytest.raises(RuntimeError) as caught:
        F.cross_entropy(run.classes, run.scores)
    assert run.said == str(caught.value)
    assert not run.classes.is_floating_point()
    with pytest.raises((RuntimeError, IndexError)):
        F.cross_entropy(classes, scores)
    with pytest.raises(IndexError):
        F.cross_entropy(classes.view(-1)[0], scores.view(-1))


@pytest.mark.parametrize("shape", [(3, 3), (1, 1), (4, 2, 5), (2, 2, 2, 2)])
def test_class_numbers_come_second__also_for(snippet, shape):
    test_class_numbers_come_second(snippet, shape)


def test_class_numbers_come_second__also_of_bytes(snippet):
    test_class_numbers_come_second(snippet, dtype=torch.uint8)


def test_class_numbers_come_second__but_not_in_their_place(snippet, fails):
    """With the class numbers second, there is no error."""
    edited = snippet.edit("(classes, scores)", "(scores, classes)")
    fails(test_class_numbers_come_second, edited)


class Watched(nn.Module):
    """A layer that notes how it is called."""

    def __init__(self):
        """Begin with nothing noted."""
        super().__init__()
        self.inner, self.notes = nn.Dropout(0.5), []

    def forward(self, inputs):
        """Return the inputs, and note the modes."""
        self.notes.append(
            (self.training, self.inner.training, torch.is_grad_enabled())
        )
        return inputs


def loaders(run, size=64, drop_last=False):
    """Return training and validation data of the page in batches."""
    return (
        DataLoader(run.old, size, drop_last=drop_last),
        DataLoader(run.new, size, drop_last=drop_last),
    )


def test_each_has_its_mode(snippet):
    run = run_to(snippet, "fit")
    training, validation = loaders(run)
    watched = Watched()
    model = nn.Sequential(watched, run.start()[0])
    model.register_forward_pre_hook(
        lambda *_: watched.notes.append(
            (
                any(each.training for each in model.modules()),
                all(each.training for each in model.modules()),
                torch.is_grad_enabled(),
            )
        )
    )
    optimizer = ADAMW(model.parameters())

    for begun in (True, False):
        for data in (training, validation):
            model.train(begun)
            run.train_epoch(model, data, optimizer)
            assert set(watched.notes) == {(True, True, True)}
            watched.notes.clear()
            model.train(begun)
            run.evaluate(model, data)
            assert set(watched.notes) == {(False, False, False)}
            watched.notes.clear()
            assert torch.is_grad_enabled()


@edits(
    ("train", "    model.train()\n", ""),
    ("eval", "    model.eval()\n", ""),
    (
        "the mode of inner layers",
        "    model.eval()\n",
        "    model.training = False\n",
    ),
    ("no_grad", "with torch.no_grad():\n        for", "if True:\n        for"),
)
def test_each_has_its_mode__but_not_without(snippet, old, new, fails):
    """Without `model.train()`, a model that was evaluated trains in evaluation
    mode; the others leave out `eval()`, a part of it, or `no_grad()`.
    """
    fails(test_each_has_its_mode, snippet.edit(old, new))


def test_each_sample_counts_alike(
    snippet, size=64, drop_last=False, outputs=1, loss=F.mse_loss
):
    run = run_to(snippet, "fit")
    run.train_epoch.__globals__["F"] = SimpleNamespace(mse_loss=loss)
    model, _ = run.start()
    model.append(nn.Linear(1, outputs))
    still = SGD(model.parameters(), lr=0.0)
    for data in loaders(run, size, drop_last):
        if outputs > 1:
            data = [(x, y.repeat(1, outputs).round()) for x, y in data]
        inputs, targets = (torch.cat(each) for each in zip(*data, strict=True))
        with torch.no_grad():
            whole = loss(model(inputs), targets).item()

        for mean in (
            run.train_epoch(model, data, still),
            run.evaluate(model, data),
        ):
            assert mean == pytest.approx(whole)
            assert type(mean) is float


@pytest.mark.parametrize(
    ("size", "drop_last"),
    [(7, False), (64, True), (500, False)],
    ids=["seven", "64 with the rest left out", "all samples"],
)
def test_each_sample_counts_alike__also_in_batches_of(
    snippet, size, drop_last
):
    test_each_sample_counts_alike(snippet, size, drop_last)


def test_each_sample_counts_alike__also_with_many_targets(snippet):
    test_each_sample_counts_alike(snippet, outputs=3)


def test_each_sample_counts_alike__ends_for_ignored_labels(snippet, fails):
    """If the loss ignores some labels: batches are still weighed by all of
    theirs.
    """

    def loss(outputs, targets):
        labels = targets[:, 0].long().masked_fill(targets[:, 0] > 1, -100)
        return F.cross_entropy(outputs, labels)

    fails(test_each_sample_counts_alike, snippet, 64, False, 3, loss)


def test_each_sample_counts_alike__ends_with_class_weights(snippet, fails):
    """With class weights: `cross_entropy` divides by the weights of a batch,
    so a batch counts by its size, not by its weights.
    """

    def loss(outputs, targets):
        labels, weight = targets[:, 0].long() % 3, torch.tensor([9.0, 1, 1])
        return F.cross_entropy(outputs, labels, weight)

    fails(test_each_sample_counts_alike, snippet, 64, False, 3, loss)


def test_each_sample_counts_alike__also_in_bfloat16(snippet):
    run = run_to(snippet, "fit")
    model = nn.Linear(1, 1, bias=False).bfloat16()
    nn.init.ones_(model.weight)
    batch = torch.ones(64, 1, dtype=torch.bfloat16), torch.zeros(64, 1)
    batch = [each.bfloat16() for each in batch]
    still = SGD(model.parameters(), lr=0.0)

    assert run.evaluate(model, [batch] * 1000) == 1
    assert run.train_epoch(model, [batch] * 1000, still) == 1


@edits(
    (
        "in a mean of means",
        "+= len(targets)\n    return (total / samples).item()\n",
        "+= 64\n    return (total / samples).item()\n",
    ),
    (
        "if the loss is a sum",
        "        loss = F.mse_loss(model(inputs), targets)\n        loss.b",
        (
            "        loss = F.mse_loss(model(inputs), targets,"
            " reduction='sum')\n        loss.b"
        ),
    ),
    (
        "if validation takes a sum",
        "            loss = F.mse_loss(model(inputs), targets)\n",
        (
            "            loss = F.mse_loss(model(inputs), targets,"
            " reduction='sum')\n"
        ),
    ),
    (
        "if a batch counts once in training",
        "loss.detach().float() * len(targets)",
        "loss.detach().float() * 64",
    ),
    (
        "if a batch counts once in validation",
        "            total += loss.float() * len(targets)",
        "            total += loss.float() * 64",
    ),
)
def test_each_sample_counts_alike__but_not(snippet, old, new, fails):
    """Divided by 64 a batch, even for smaller ones, the mean is too small; the
    others sum, or weigh batches alike.
    """
    fails(test_each_sample_counts_alike, snippet.edit(old, new))


class Reads(TorchDispatchMode):
    """Count how often Python reads a number out of a tensor."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run an operation, and count it if it reads."""
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_the_loss_is_read_once(snippet, size=64):
    run = run_to(snippet, "fit")
    model, _ = run.start()
    optimizer = SGD(model.parameters(), lr=0.01)
    training, validation = map(list, loaders(run, size))

    with Reads() as reads:
        assert type(run.train_epoch(model, training, optimizer)) is float
    assert reads.count == 1
    with Reads() as reads:
        assert type(run.evaluate(model, validation)) is float
    assert reads.count == 1


@pytest.mark.parametrize("size", [300, 7])
def test_the_loss_is_read_once__also_in_batches_of(snippet, size):
    test_the_loss_is_read_once(snippet, size)


@edits(
    (
        "in each step of the training",
        "total += loss.detach().float() * len(targets)",
        "total += loss.detach() * len(targets) + 0 * loss.item()",
    ),
    (
        "in each batch of the validation",
        "total += loss.float() * len(targets)",
        "total += loss * len(targets) + 0 * loss.item()",
    ),
)
def test_the_loss_is_read_once__but_not(snippet, old, new, fails):
    """With `loss.item()` in the loop, the loss is read in each step of the
    training, or in each batch of the validation.
    """
    fails(test_the_loss_is_read_once, snippet.edit(old, new))


class Mark:
    """What a node of the graph holds, so that we see when it goes."""


def test_train_epoch_keeps_no_graph(snippet):
    run = run_to(snippet, "fit")
    model, optimizer = run.start()
    nodes, counts = WeakSet(), []

    def mark(*args):
        node = Mark()
        nodes.add(node)
        args[2].grad_fn.metadata["mark"] = node

    model.register_forward_hook(mark)
    optimizer.register_step_post_hook(lambda *_: counts.append(len(nodes)))
    for size in (100, 10):
        run.train_epoch(model, loaders(run, size)[0], optimizer)

    assert counts == [1] * 33


@edits(
    ("if the losses are added up with it", "loss.detach().float()", "loss"),
    (
        "in a list of losses",
        "+= len(targets)\n    return (total / samples).item()  #",
        "+= len(targets)\n        model.kept = getattr(model, 'kept', [])\n"
        "        model.kept.append(loss)\n"
        "    return (total / samples).item()  #",
    ),
)
def test_train_epoch_keeps_no_graph__but_not(snippet, old, new, fails):
    """Without `detach()`, the sum keeps the graph of each step; so does a list
    of losses.
    """
    fails(test_train_epoch_keeps_no_graph, snippet.edit(old, new))


class Cargo:
    """A batch that notes where it is sent, and stays."""

    def __init__(self, tensor, sent):
        """Hold a tensor."""
        self.tensor, self.sent = tensor, sent

    def to(self, device):
        """Return the tensor, and note the device."""
        self.sent.append(device)
        return self.tensor


@pytest.mark.simulates("a device")
def test_batches_go_to_the_device(snippet):
    run = run_to(snippet, "fit")
    model, optimizer = run.start()
    sent = []
    data = [(Cargo(run.weather, sent), Cargo(run.bikes, sent))] * 2

    for call in (
        lambda: run.train_epoch(model, data, optimizer),
        lambda: run.evaluate(model, data),
    ):
        with no_error():
            sent.clear()
            try:
                call()
            except (TypeError, AttributeError) as error:
                pytest.fail(f"a batch stays behind: {error}")
        assert sent == [run.device] * 4

    expected = torch.device("cpu")
    if torch.accelerator.is_available():
        expected = torch.accelerator.current_accelerator()
    assert run.device == expected
    moved, _ = run.start("meta")
    assert {each.device.type for each in moved.parameters()} == {"meta"}


PAIR = "inputs, targets = inputs.to(device), targets.to(device)"


@edits(
    (
        "training inputs",
        f"        {PAIR}\n        optimizer",
        "        targets = targets.to(device)\n        optimizer",
    ),
    (
        "training targets",
        f"        {PAIR}\n        optimizer",
        "        inputs = inputs.to(device)\n        optimizer",
    ),
    (
        "inputs of the validation",
        f"            {PAIR}\n",
        "            targets = targets.to(device)\n",
    ),
    (
        "targets of the validation",
        f"            {PAIR}\n",
        "            inputs = inputs.to(device)\n",
    ),
)
def test_batches_go_to_the_device__but_not(snippet, old, new, fails):
    """Here the training inputs are not moved; the others leave out the
    targets, or one of the two in validation.
    """
    edited = snippet.edit(old, new)
    fails(test_batches_go_to_the_device, edited)


def rates_of(run, folder, rate=0.05, epochs=4, fits=1):
    """Return the rate at each step of the last call of fit, by epochs."""
    model, _ = run.start()
    weights = [each for each in model.parameters() if each.dim() > 1]
    biases = [each for each in model.parameters() if each.dim() <= 1]
    groups = [{"params": weights}, {"params": biases, "lr": rate / 2}]
    optimizer = ADAMW(groups, lr=rate)
    rates = []

    def note(*_):
        first, second = optimizer.param_groups
        assert second["lr"] == pytest.approx(first["lr"] / 2)
        rates.append(first["lr"])

    optimizer.register_step_pre_hook(note)
    path = folder / "best.pt"
    for _ in range(fits):
        rates.clear()
        run.fit(model, optimizer, *loaders(run, 100), epochs, path)
    return [rates[i : i + 3] for i in range(0, len(rates), 3)]


def test_the_rate_falls(snippet, tmp_path, rate=0.05, epochs=4, fits=1):
    rates = rates_of(run_to(snippet, "fit"), tmp_path, rate, epochs, fits)

    assert len(rates) == epochs
    assert all(len(set(each)) == 1 for each in rates)
    firsts = [each[0] for each in rates]
    assert firsts[0] == rate
    assert all(a > b > 0 for a, b in pairwise(firsts))


@pytest.mark.parametrize(
    ("rate", "epochs"),
    [(0.3, 2), (0.001, 9), (0.1, 1), (0.1, 25)],
    ids=[
        "a large rate in two epochs",
        "a small one in nine",
        "another in one",
        "another in 25",
    ],
)
def test_the_rate_falls__also_from(snippet, tmp_path, rate, epochs):
    test_the_rate_falls(snippet, tmp_path, rate, epochs)


@edits(
    ("without its step", "        scheduler.step()\n", ""),
    (
        "at the start",
        "    losses, best = [], ",
        "    optimizer.step()\n    scheduler.step()\n    losses, best = [], ",
    ),
    (
        "to the end, over half the epochs",
        "CosineAnnealingLR(optimizer, epochs)",
        "CosineAnnealingLR(optimizer, epochs // 2)",
    ),
)
def test_the_rate_falls__but_not(snippet, old, new, tmp_path, fails):
    """Without `scheduler.step()`, the rate stays as it is; the others lower it
    too early, or let it rise again.
    """
    fails(test_the_rate_falls, snippet.edit(old, new), tmp_path)


def test_the_rate_falls__ends_with_a_used_optimizer(snippet, tmp_path, fails):
    """With an optimizer that `fit` has used before: its rate is 0 from the
    start.
    """
    fails(test_the_rate_falls, snippet, tmp_path, 0.05, 4, 2)


def test_fit_ends_at_a_rate_of_zero(snippet, tmp_path, epochs=4):
    run = run_to(snippet, "fit")
    model, optimizer = run.start()
    path = tmp_path / "best.pt"
    arguments = model, optimizer, *loaders(run, 100), epochs, path
    run.fit(*arguments)
    before = [each.detach().clone() for each in model.parameters()]
    run.fit(*arguments)

    for group in optimizer.param_groups:
        assert group["lr"] == pytest.approx(0, abs=1e-9)
    for each, old in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(each.data, old)


@pytest.mark.parametrize("epochs", [1, 7])
def test_fit_ends_at_a_rate_of_zero__also_after(snippet, tmp_path, epochs):
    test_fit_ends_at_a_rate_of_zero(snippet, tmp_path, epochs)


def test_fit_ends_at_a_rate_of_zero__but_not_in_half_the_epochs(
    snippet, tmp_path, fails
):
    """With a cosine over twice as many epochs, the rate does not reach 0."""
    edited = snippet.edit("LR(optimizer, epochs)", "LR(optimizer, 2 * epochs)")
    fails(test_fit_ends_at_a_rate_of_zero, edited, tmp_path)


def test_the_best_is_kept(snippet, tmp_path, scripted=(3.0, 1.0, 2.5, 2.0)):
    run = run_to(snippet, "fit")
    model = nn.Sequential(nn.BatchNorm1d(2), run.start()[0])
    optimizer = ADAMW(model.parameters())
    training, validation = loaders(run, 100)
    path, states = tmp_path / "best.pt", []

    def evaluate(its_model, loader):
        assert its_model is model
        assert loader is validation
        states.append(copy.deepcopy(model.state_dict()))
        return scripted[len(states) - 1]

    run.fit.__globals__["evaluate"] = evaluate
    losses = run.fit(
        model, optimizer, training, validation, len(scripted), path
    )

    assert path.exists()
    smallest = min(each for each in scripted if not math.isnan(each))
    best = max(i for i, each in enumerate(scripted) if each == smallest)
    best = states[best]
    assert repr(tuple(losses)) == repr(scripted)  # nan is not nan
    assert same(list(torch.load(path).values()), list(best.values()))
    assert apart(list(states[0].values()), list(states[1].values()))


@pytest.mark.parametrize(
    "scripted",
    [
        (1.0, 2.0),
        (2.0, 1.0),
        (0.2, 0.5, 0.1, 0.3),
        (1.0, 1.0),
        (math.inf, math.inf),
        (0.0, 1.0),
        (math.nan, 2.0, 1.0),
        (2.0, 1.0, math.nan),
        (-1.0, 0.0, -2.0),
    ],
    ids=[
        "rising losses",
        "falling losses",
        "ups and downs",
        "equal losses",
        "infinite losses",
        "a first loss of 0",
        "a first nan",
        "a last nan",
        "negative losses",
    ],
)
def test_the_best_is_kept__also_for(snippet, tmp_path, scripted):
    test_the_best_is_kept(snippet, tmp_path, scripted)


def test_the_best_is_kept__also_after_a_run(snippet):
    run = run_to(snippet, "run")

    best = run.evaluate(run.model, run.validation)

    assert best == min(run.losses)


def test_the_best_is_kept__also_if_the_last_is_not_it(snippet):
    edited = snippet.edit("lr=0.05", "lr=2.0").edit(", 12, ", ", 5, ")
    test_the_best_is_kept__also_after_a_run(edited)


@edits(
    ("the worst", "losses[-1] <= best", "losses[-1] == max(losses)"),
    (
        "one below the last",
        "losses[-1] <= best",
        "losses[-1] <= losses[-2:][0]",
    ),
    (
        "the parameters alone",
        "torch.save(model.state_dict(), path)",
        "torch.save(dict(model.named_parameters()), path)",
    ),
)
def test_the_best_is_kept__but_not(snippet, old, new, tmp_path, fails):
    """With `max`, the file holds the worst epoch; the others save any loss
    below the last one, or leave out the buffers.
    """
    fails(test_the_best_is_kept, snippet.edit(old, new), tmp_path)


def test_the_best_is_kept__ends_if_every_loss_is_nan(snippet, tmp_path, fails):
    """If every loss is `nan`: no file is saved."""
    fails(test_the_best_is_kept, snippet, tmp_path, (math.nan, math.nan))


def test_the_best_is_kept__but_not_after_each_epoch(snippet, tmp_path, fails):
    """Saved after every epoch, the file holds the last weights, not the
    best.
    """
    edited = snippet.edit("if losses[-1] <= best:", "if True:")
    fails(test_the_best_is_kept, edited, tmp_path)


def test_clipping_saves_the_weights(snippet):
    run = run_to(snippet, "clip-places")
    model, _ = run.start()
    before = F.mse_loss(model(run.weather), run.bikes).item()
    F.mse_loss(model(run.weather), 100 * run.bikes).backward()
    for each in model.parameters():
        each.data -= 0.1 * each.grad
    after = F.mse_loss(model(run.weather), run.bikes).item()
    loss = run.after_a_bad_day(*run.lines)

    assert after > 1000 * before
    assert loss == pytest.approx(after)
    assert run.clipped[4] < before
    assert type(loss) is float


@pytest.mark.parametrize("seed", [2])
def test_clipping_saves_the_weights__also_from_start(snippet, seed):
    edited = snippet.edit("torch.manual_seed(1)", f"torch.manual_seed({seed})")
    test_clipping_saves_the_weights(edited)


@edits(
    ("if the batch is right", "100 * bikes", "bikes"),
    ("at a larger bound", 'max_norm=1.0)"', 'max_norm=100.0)"'),
    (
        "at a smaller rate",
        "torch.optim.SGD(model.parameters(), lr=0.1)",
        "torch.optim.SGD(model.parameters(), lr=1e-5)",
    ),
)
def test_clipping_saves_the_weights__but_not(snippet, old, new, fails):
    """With the right batch, the loss falls without clipping, as it does at a
    tiny rate; clipped to 100, it still explodes.
    """
    fails(test_clipping_saves_the_weights, snippet.edit(old, new))


def test_clipping_bounds_the_norm(
    snippet,
    dtype=torch.float32,
    sizes=(1e-3, 0.5, 0.999, 1.5, 40.0, 1e5),
    number=None,
):
    run = run_to(snippet, "clip")

    for size in sizes:
        model, inputs, targets = smooth()
        model = model.to(dtype)
        loss = F.mse_loss(model(inputs.to(dtype)), targets.to(dtype))
        loss.backward()
        unused = nn.Linear(2, 2).weight
        model.append(nn.Identity())
        model[-1].unused = unused
        before = [each.grad for each in model.parameters()][:-1]
        norm = torch.cat([each.flatten() for each in before]).norm()
        before = [each * (size / norm) for each in before]
        for each, gradient in zip(model.parameters(), before, strict=False):
            each.grad = gradient.clone()
        if number is not None:
            model[0].weight.grad[0, 0] = number

        names = {"nn": nn, "model": model}
        exec(run.clip, names)

        after = [each.grad for each in model.parameters()][:-1]
        whole = torch.cat([each.flatten() for each in after]).norm().item()
        assert names["norm"].item() == pytest.approx(size, rel=1e-5)
        assert unused.grad is None
        if size < 1:
            assert same(after, before)
        else:
            assert whole <= 1 + 1e-5
            factor = [
                (a / b)[b.abs() > 1e-9]
                for a, b in zip(after, before, strict=True)
            ]
            factor = torch.cat([each.flatten() for each in factor])
            torch.testing.assert_close(
                factor, factor[:1].expand_as(factor), rtol=1e-5, atol=0
            )


@pytest.mark.parametrize("size", [1e25, -1e25])
def test_clipping_bounds_the_norm__ends_if_the_squares_overflow(
    snippet, size, fails
):
    """If the squares of the gradients overflow: the norm comes out as
    `inf`.
    """
    fails(test_clipping_bounds_the_norm, snippet, torch.float32, (size,))


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_clipping_bounds_the_norm__ends_if_a_gradient_is_not_finite(
    snippet, number, fails
):
    """If a gradient is `inf` or `nan`: the norm is `inf` or `nan`, and no
    factor helps.
    """
    sizes = (1.5,)
    fails(test_clipping_bounds_the_norm, snippet, torch.float32, sizes, number)


def test_clipping_bounds_the_norm__also_in_double(snippet):
    test_clipping_bounds_the_norm(snippet, torch.float64)


CLIP = "nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"
EACH = "nn.utils.clip_grad_norm_([each], 1.0) for each in model.parameters()"


@pytest.mark.parametrize(
    "clip",
    [
        f"[{EACH}][0]",
        CLIP.replace("1.0", "1.0, norm_type=1.0"),
        CLIP.replace("model.parameters()", "model[0].parameters()"),
        CLIP.replace("1.0", "1.5"),
        CLIP.replace("1.0", "0.4"),
        f"{CLIP} * 2",
        f"{CLIP}; model[0].weight.grad[0] *= 0.9",
    ],
    ids=[
        "of each parameter alone",
        "in another norm",
        "of one layer",
        "up to 1.5",
        "if smaller ones shrink",
        "the norm returned",
        "with two factors",
    ],
)
def test_clipping_bounds_the_norm__but_not(snippet, clip, fails):
    """Clipped one by one, the parameters have no joint norm; the others change
    the norm, the limit, the layers or the factors.
    """
    edited = snippet.edit(f'"norm = {CLIP}"', f'"norm = {clip}"')
    fails(test_clipping_bounds_the_norm, edited)


def test_train_epoch_clips(snippet, scale=100, size=100):
    run = run_to(snippet, "fit")
    model, mine = run.start()[0], run.start()[0]
    optimizer, other = (
        ADAMW(
            [
                {"params": each[:1].parameters()},
                {"params": each[2].weight},
                {"params": each[2].bias},
            ],
            lr=0.05,
        )
        for each in (model, mine)
    )
    norms = []

    def note(*_):
        gradients = [each.grad.flatten() for each in model.parameters()]
        norms.append(torch.cat(gradients).norm().item())

    optimizer.register_step_pre_hook(note)
    pieces = run.weather.split(size), (scale * run.bikes).split(size)
    data = list(zip(*pieces, strict=True))
    run.train_epoch(model, data, optimizer)

    for inputs, targets in data:
        other.zero_grad()
        F.mse_loss(mine(inputs), targets).backward()
        gradients = [each.grad for each in mine.parameters()]
        norm = torch.cat([each.flatten() for each in gradients]).norm()
        for each in gradients:
            each.div_(max(norm, 1))
        other.step()
    for one, its in zip(model.parameters(), mine.parameters(), strict=True):
        torch.testing.assert_close(one, its)
    assert len(norms) == 4
    assert all(0 < norm < 1 + 1e-5 for norm in norms)


@pytest.mark.parametrize("scale", [1, 1e6], ids=["one", "a million"])
def test_train_epoch_clips__also_for_targets_times(snippet, scale):
    test_train_epoch_clips(snippet, scale)


@pytest.mark.parametrize("size", [130, 133], ids=["10 samples", "1 sample"])
def test_train_epoch_clips__also_with_a_last_batch_of(snippet, size):
    test_train_epoch_clips(snippet, size=size)


@pytest.mark.parametrize(
    "new",
    [
        "loss.backward()\n",
        f"{CLIP}\n        loss.backward()\n",
        f"loss.backward()\n        {CLIP.replace('1.0', '2.0')}\n",
    ],
    ids=["if it does not", "before backward", "to 2.0"],
)
def test_train_epoch_clips__but_not(snippet, new, fails):
    """Without this line, nothing is clipped; before `backward()` it finds no
    gradients, and 2.0 is another limit.
    """
    old = f"loss.backward()\n        {CLIP}\n"
    fails(test_train_epoch_clips, snippet.edit(old, new))


def test_train_epoch_clips__but_not_without_zero_grad(snippet, fails):
    """Without `zero_grad()`, the gradients of earlier batches count as
    well.
    """
    edited = snippet.edit(
        "        optimizer.zero_grad()\n        loss = F",
        "        loss = F",
    )
    fails(test_train_epoch_clips, edited)


def weights_after(run, lines, optimizer):
    """Return the weights after two steps by any lines."""
    names = prepared(run, None, optimizer) | {"nn": nn}
    names["targets"] = 10 * names["targets"]
    return [run.watch(lines, **names)[-1]["weights"] for _ in range(2)][-1]


def test_clip_in_between(snippet, optimizer=(SGD, {"lr": 1e-4})):
    run = run_to(snippet, "clip-places")
    expected = weights_after(run, run.lines, optimizer)

    bad = run.after_a_bad_day(*run.lines)
    for place, loss in run.clipped.items():
        lines = [*run.lines[:place], run.clip, *run.lines[place:]]
        weights = weights_after(run, lines, optimizer)
        assert same(weights, expected) == (place != 4)
        assert (loss == bad) == (place != 4)
    assert len(run.clipped) == 6


@pytest.mark.parametrize("name", ["momentum", "Adam"])
def test_clip_in_between__also_with(snippet, name):
    test_clip_in_between(snippet, OPTIMIZERS[name])


@edits(
    (
        "without a reset",
        'zero_grad = "optimizer.zero_grad()"',
        'zero_grad = "None"',
    ),
    (
        "if the weights are clipped",
        "norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)",
        "norm = [p.data.clamp_(-0.01, 0.01) for p in model.parameters()]",
    ),
)
def test_clip_in_between__but_not(snippet, old, new, fails):
    """`clamp_` changes the weights themselves, in every place; without
    `zero_grad()`, clipped gradients count in the next step.
    """
    fails(test_clip_in_between, snippet.edit(old, new))


def test_lbfgs_asks_again(snippet, options=None, at_the_minimum=False):
    run = run_to(snippet, "closure")
    calls = []

    def counted():
        calls.append(1)
        return run.closure()

    kind = type(run.optimizer)
    [state, *_] = run.optimizer.state_dict()["state"].values()
    assert state["func_evals"] > len(run.falls)
    run.closure.__globals__["model"] = run.start()[0]
    run.closure.__globals__["optimizer"] = kind(
        run.closure.__globals__["model"].parameters(), **(options or {})
    )
    if at_the_minimum:
        reached = run.closure.__globals__["model"](run.weather).detach()
        run.closure.__globals__["bikes"] = reached
    run.closure.__globals__["optimizer"].step(counted)

    assert kind is torch.optim.LBFGS
    assert len(calls) > 1
    assert len(run.falls) == 4


def test_lbfgs_asks_again__but_not_in_one_iteration(snippet, fails):
    """With `max_iter=1`, it computes the loss only once in each step."""
    edited = snippet.edit(
        'line_search_fn="strong_wolfe"\n)\nfalls',
        "max_iter=1\n)\nfalls",
    )
    fails(test_lbfgs_asks_again, edited)


def test_lbfgs_asks_again__also_with_a_line_search(snippet):
    test_lbfgs_asks_again(snippet, {"line_search_fn": "strong_wolfe"})


def test_lbfgs_asks_again__ends_at_the_minimum(snippet, fails):
    """At the minimum: the first gradient is 0, so it computes the loss only
    once.
    """
    options, at_the_minimum = {}, True
    fails(test_lbfgs_asks_again, snippet, options, at_the_minimum)


def test_a_closure_resets(snippet):
    run = run_to(snippet, "closure-wrong", "closure")

    assert run.stays[0] == run.falls[0]
    assert min(run.stays) > 5 * min(run.falls)
    assert len(run.stays) == len(run.falls) == 4
    assert {type(each) for each in run.falls + run.stays} == {float}
    model, again = run.start()[0], []
    run.adds_up.__globals__["model"] = model
    search = {"line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS(model.parameters(), **search)
    for _ in range(4):
        again.append(optimizer.step(run.adds_up).item())
    assert run.stays == pytest.approx(again, rel=0.01)


@pytest.mark.parametrize("seed", [2])
def test_a_closure_resets__also_from_start(snippet, seed):
    edited = snippet.edit("torch.manual_seed(1)", f"torch.manual_seed({seed})")
    test_a_closure_resets(edited)


@edits(
    (
        "where both reset",
        "def adds_up():\n",
        "def adds_up():\n    optimizer.zero_grad()\n",
    ),
    (
        "where neither does",
        "def closure():\n    optimizer.zero_grad()\n",
        "def closure():\n",
    ),
)
def test_a_closure_resets__but_not(snippet, old, new, fails):
    """With `zero_grad()` in both closures, or in neither, both end at the same
    loss.
    """
    fails(test_a_closure_resets, snippet.edit(old, new))
