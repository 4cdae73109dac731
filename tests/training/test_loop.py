"""The claims of docs/training/loop.md."""

import copy
import math
import warnings
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import Snippet

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


SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
OPTIMIZERS = {
    "momentum": (SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    "Adam": (ADAM, {"weight_decay": 0.1, "amsgrad": True, "foreach": True}),
    "fused": (ADAMW, {"fused": True, "maximize": True}),
    "RMSprop": (torch.optim.RMSprop, {"momentum": 0.9, "weight_decay": 0.1}),
}
NESTEROV = {"lr": 0.1, "momentum": 0.9, "nesterov": True, "foreach": True}
PREPARED = {"images": images, "words": words, "smooth": smooth}


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

    with torch.no_grad():
        before, after = (
            F.mse_loss(model(run.weather[300:]), run.bikes[300:])
            for model in (untrained, run.model)
        )

    assert before > 0.4
    assert after < 0.2
    assert after.item() == pytest.approx(trained_anew(snippet).item())


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
)
def test_the_loop_learns__but_not(snippet, old, new, fails):
    fails(test_the_loop_learns, snippet.edit(old, new))


def test_zero_grad_clears(snippet, optimizer=None):
    run = run_to(snippet, "watch")
    for prepare in (None, images):
        names = prepared(run, prepare, optimizer)
        run.watch(run.lines, **names)
        before, after = run.watch([run.zero_grad], **names)

        assert all(slope is not None for slope in before["slopes"])
        assert all(slope is None for slope in after["slopes"])


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
    edited = snippet.edit(f'zero_grad = "{old}"', f'zero_grad = "{new}"')
    fails(test_zero_grad_clears, edited)


def slopes_by_hand(names):
    """Return the slopes of the loss of a batch, without touching .grad."""
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
        slopes = slopes_by_hand(names)
        sums = [a + b for a, b in zip(sums, slopes, strict=True)]
        *_, last = run.watch(run.lines[1:], **names)
        torch.testing.assert_close(last["slopes"], sums)

    assert not torch.allclose(slopes[0], sums[0] / 4, rtol=0.01)


def test_slopes_add_up__also_for_another_model(snippet):
    test_slopes_add_up(snippet, smooth)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_slopes_add_up__also_with(snippet, name):
    test_slopes_add_up(snippet, smooth, OPTIMIZERS[name])


def test_slopes_add_up__but_not_if_the_step_changes_them(snippet, fails):
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
        assert same(state["slopes"], mine["slopes"])
    numbers = [state["weights"][2][0, 3].item() for state in states]
    slopes = [state["slopes"][2] for state in states]
    words = [
        "None" if each is None else f"{each[0, 3]:.4f}" for each in slopes
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
    fails(test_the_forward_pass_keeps_tensors, snippet.edit(old, new))


def test_backward_finds_the_slopes(snippet, prepare=None):
    run = run_to(snippet, "watch")
    names = prepared(run, prepare)
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
            slopes, tiny = torch.zeros_like(parameter), 1e-6
            numbers, found = parameter.data.view(-1), slopes.view(-1)
            for i, number in enumerate(numbers.tolist()):
                numbers[i] = number + tiny
                above = loss()
                numbers[i] = number - tiny
                found[i] = (above - loss()) / (2 * tiny)
                numbers[i] = number
            torch.testing.assert_close(
                parameter.grad, slopes, rtol=1e-4, atol=1e-6
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


def test_backward_finds_the_slopes__also_but_for_argmax(snippet):
    run = run_to(snippet, "watch")
    names = prepared(run)
    outputs = "outputs = model[2](model[0](inputs).argmax(1)[:, None] * ones)"

    run.watch([outputs, *run.lines[2:4]], **names, ones=torch.ones(32))

    assert names["model"][0].weight.grad is None
    assert names["model"][2].weight.grad is not None


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
    ("for a graph of slopes", "backward()", "backward(create_graph=True)"),
)
def test_backward_lets_go__but_not(snippet, old, new, fails):
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


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_only_step_moves_weights__also_but_for_max_norm(snippet, kind):
    run, inputs = run_to(snippet, "watch"), torch.randint(9, (6, 3))
    model = kind(9, 8, max_norm=0.1)

    before, after = run.watch([run.forward], model, inputs=inputs)

    assert not same(before["weights"], after["weights"])


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
    fails(test_only_step_moves_weights, snippet.edit(old, new))


def test_step_leaves_the_slopes(snippet, optimizer=None):
    run = run_to(snippet, "watch")
    for prepare in (None, words):
        names = prepared(run, prepare, optimizer)
        for _ in range(3):
            *_, before, after = run.watch(run.lines, **names)
            assert same(before["slopes"], after["slopes"])
            assert all(slope is not None for slope in after["slopes"])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step_leaves_the_slopes__also_of(snippet, name):
    test_step_leaves_the_slopes(snippet, OPTIMIZERS[name])


def test_step_leaves_the_slopes__also_but_for_nesterov(snippet):
    run = run_to(snippet, "watch")
    names = prepared(run, None, (SGD, NESTEROV))

    *_, before, after = run.watch(run.lines, **names)

    assert not same(before["slopes"], after["slopes"])


@pytest.mark.parametrize("kind", [SGD, ADAM, ADAMW])
def test_step_leaves_the_slopes__also_but_for_a_scaler(snippet, kind):
    run = run_to(snippet, "watch")
    names = prepared(run, None, (kind, {"lr": 0.1, "fused": True}))
    names["scaler"] = torch.amp.GradScaler("cpu", init_scale=4.0)
    lines = ["scaler.scale(loss).backward()", "scaler.step(optimizer)"]

    *_, before, after = run.watch([*run.lines[:3], *lines], **names)

    assert not same(before["slopes"], after["slopes"])


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
    fails(test_step_leaves_the_slopes, snippet.edit(old, new))


def test_sgd_goes_against_the_slope(snippet, rate=0.1, prepare=None):
    run = run_to(snippet, "watch")
    names = prepared(run, prepare, (SGD, {"lr": rate}))
    unused = nn.Parameter(torch.ones(2))
    names["optimizer"].add_param_group({"params": [unused]})

    for _ in range(3):
        *_, before, after = run.watch(run.lines, **names)
        expected = [
            weight - rate * slope
            for weight, slope in zip(
                before["weights"], before["slopes"], strict=True
            )
        ]
        torch.testing.assert_close(after["weights"], expected)
        assert apart(after["weights"], before["weights"])
        assert unused.tolist() == [1, 1]


@pytest.mark.parametrize("rate", [0.003, 1.0])
def test_sgd_goes_against_the_slope__also_at(snippet, rate):
    test_sgd_goes_against_the_slope(snippet, rate, smooth)


def test_sgd_goes_against_the_slope__but_not_twice(snippet, fails):
    edited = snippet.edit(
        '"optimizer.step()"', '"optimizer.step(); optimizer.step()"'
    )
    fails(test_sgd_goes_against_the_slope, edited)


def test_sgd_goes_against_the_slope__but_not_with_momentum(snippet, fails):
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


def stays(snippet, name):
    """Whether an order leaves each parameter, where all five lines do not."""
    run = run_to(snippet, "left-out")
    before = list(run.start()[0].parameters())
    _, model = run.train_by(*run.orders[name], epochs=2)
    _, learns = run.train_by(*run.lines, epochs=1)
    assert not same(before, list(learns.parameters()))
    return same(before, list(model.parameters()))


def test_none_of_them_raises(snippet):
    run = run_to(snippet, "left-out")

    assert tuple(run.orders) == LEFT_OUT
    for order in run.orders.values():
        with no_error(), warnings.catch_warnings():
            warnings.simplefilter("error")
            run.train_by(*order, epochs=3)


def test_none_of_them_raises__also_with_others(snippet):
    test_none_of_them_raises(others(snippet))


@pytest.mark.parametrize(
    "line", ["", "import warnings; warnings.warn('wrong')"]
)
def test_none_of_them_raises__but_not_if_it_is(snippet, line, fails):
    edited = snippet.edit(
        '"no backward": [zero_grad, forward, measure, step]',
        f'"no backward": [zero_grad, {line!r} or measure, step]',
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fails(test_none_of_them_raises, edited)


def test_without_backward_nothing_moves(snippet):
    assert stays(snippet, "no backward")


def test_without_backward_nothing_moves__also_with_others(snippet):
    test_without_backward_nothing_moves(others(snippet))


def test_without_backward_nothing_moves__but_not_with_it(snippet, fails):
    edited = snippet.edit(
        "[zero_grad, forward, measure, step]",
        "[zero_grad, forward, measure, backward, step]",
    )
    fails(test_without_backward_nothing_moves, edited)


def test_without_backward_nothing_moves__but_not_with_zeros(snippet, fails):
    edited = snippet.edit(
        "[zero_grad, forward, measure, step]",
        "[zero_grad, forward, measure,"
        ' "for p in model.parameters(): p.grad = 0 * p.detach()", step]',
    )
    fails(test_without_backward_nothing_moves, edited)


def test_without_step_nothing_moves(snippet):
    assert stays(snippet, "no step")


def test_without_step_nothing_moves__also_with_others(snippet):
    test_without_step_nothing_moves(others(snippet))


def test_without_step_nothing_moves__but_not_with_one_by_hand(snippet, fails):
    edited = snippet.edit(
        '"no step": [zero_grad, forward, measure, backward]',
        '"no step": [zero_grad, forward, measure, backward,'
        ' "model[0].bias.data -= model[0].bias.grad"]',
    )
    fails(test_without_step_nothing_moves, edited)


def test_step_too_early_moves_nothing(snippet):
    assert stays(snippet, "step before backward")


def test_step_too_early_moves_nothing__also_with_others(snippet):
    test_step_too_early_moves_nothing(others(snippet))


def test_step_too_early_moves_nothing__but_not_with_another_after(
    snippet, fails
):
    edited = snippet.edit(
        "[zero_grad, forward, measure, step, backward]",
        "[zero_grad, forward, measure, step, backward, step]",
    )
    fails(test_step_too_early_moves_nothing, edited)


def test_step_too_early_moves_nothing__but_not_before_forward(snippet, fails):
    edited = snippet.edit(
        "[zero_grad, forward, measure, step, backward]",
        "[step, zero_grad, forward, measure, backward]",
    )
    fails(test_step_too_early_moves_nothing, edited)


def test_zero_grad_too_late_moves_nothing(snippet):
    assert stays(snippet, "zero_grad after backward")


def test_zero_grad_too_late_moves_nothing__also_with_others(snippet):
    test_zero_grad_too_late_moves_nothing(others(snippet))


def test_zero_grad_too_late_moves_nothing__but_not_with_zeros(snippet, fails):
    edited = snippet.edit(
        '"optimizer.zero_grad()"', '"optimizer.zero_grad(set_to_none=False)"'
    )
    fails(test_zero_grad_too_late_moves_nothing, edited)


def test_zero_grad_too_late_moves_nothing__but_not_after_step(snippet, fails):
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


@edits(
    (
        "with it at the end",
        "[forward, measure, backward, step],\n",
        "[forward, measure, backward, step, zero_grad],\n",
    ),
    ("at a tiny rate", "lr=0.05", "lr=0.00005"),
)
def test_without_zero_grad_it_is_worse__but_not(snippet, old, new, fails):
    fails(test_without_zero_grad_it_is_worse, snippet.edit(old, new))


def test_one_record_serves_once(snippet):
    run = run_to(snippet, "wrong-order")
    names = prepared(run)
    names["outputs"] = names["model"](names["inputs"])
    lines = [run.zero_grad, run.measure, run.backward, run.step]

    run.watch(lines, **names)
    with pytest.raises(RuntimeError) as caught:
        run.watch(lines, **names)

    assert run.again == str(caught.value)
    assert run.again.startswith("Trying to backward through the graph a sec")


@edits(
    (
        "with a record in each step",
        "zero_grad, measure, backward, step, before=forward",
        "zero_grad, forward, measure, backward, step",
    ),
    (
        "if the record is kept",
        '"loss.backward()"',
        '"loss.backward(retain_graph=True)"',
    ),
)
def test_one_record_serves_once__but_not(snippet, old, new, fails):
    fails(test_one_record_serves_once, snippet.edit(old, new))


def test_an_early_step_overwrites(snippet):
    run = run_to(snippet, "wrong-order")
    names = prepared(run) | {"F": F}
    names["model"], names["optimizer"] = run.start()
    early = "\n".join([run.forward, run.measure, run.step, run.backward])

    exec(early, names)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(early, names)

    assert str(run.in_place).startswith("one of the variables needed for")


def test_an_early_step_overwrites__also_with_sgd(snippet):
    test_an_early_step_overwrites(snippet.edit(*OTHERS["SGD"]))


@edits(
    (
        "after backward",
        "forward, measure, step, backward)",
        "forward, measure, backward, step)",
    ),
    (
        "with a reset",
        "refusal(forward, measure, step,",
        "refusal(zero_grad, forward, measure, step,",
    ),
)
def test_an_early_step_overwrites__but_not(snippet, old, new, fails):
    fails(test_an_early_step_overwrites, snippet.edit(old, new))


def test_many_losses_are_refused(snippet, shape=(100, 1)):
    run = run_to(snippet, "wrong-order")
    message = "grad can be implicitly created only for scalar outputs"

    assert run.not_one == message
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
    fails(test_many_losses_are_refused, snippet.edit(old, new))


def test_four_losses_may_be_swapped(snippet):
    pairs = list(run_to(snippet, "swapped").both_ways.values())

    assert len(pairs) == 8
    assert all(right == swapped > 0 for right, swapped in pairs[:4])
    assert {type(each) for pair in pairs for each in pair} == {float}


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
    fails(test_four_losses_change, snippet.edit(old, new))


def test_class_numbers_come_second(snippet, shape=(3, 2), dtype=torch.long):
    run = run_to(snippet, "swapped-classes", "swapped")
    numbers = (shape[0], *shape[2:])
    scores, classes = torch.randn(shape), torch.zeros(numbers, dtype=dtype)

    F.cross_entropy(run.scores, run.classes)
    F.cross_entropy(scores, classes)
    assert run.said is not None
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
    ("eval", "    model.eval()\n    seen", "    seen"),
    (
        "the mode of inner layers",
        "    model.eval()\n    seen",
        "    model.training = False\n    seen",
    ),
    ("no_grad", "with torch.no_grad():\n        for", "if True:\n        for"),
)
def test_each_has_its_mode__but_not_without(snippet, old, new, fails):
    fails(test_each_has_its_mode, snippet.edit(old, new))


def test_each_sample_counts_alike(snippet, size=64, drop_last=False):
    run = run_to(snippet, "fit")
    model, _ = run.start()
    still = SGD(model.parameters(), lr=0.0)
    for data in loaders(run, size, drop_last):
        inputs, targets = (torch.cat(each) for each in zip(*data, strict=True))
        with torch.no_grad():
            whole = F.mse_loss(model(inputs), targets).item()

        for mean in (
            run.train_epoch(model, data, still),
            run.evaluate(model, data),
        ):
            assert mean == pytest.approx(whole)
            assert type(mean) is float


@pytest.mark.parametrize(
    ("size", "drop_last"), [(7, False), (64, True), (500, False)]
)
def test_each_sample_counts_alike__also_in_batches_of(
    snippet, size, drop_last
):
    test_each_sample_counts_alike(snippet, size, drop_last)


@edits(
    (
        "in a mean of means",
        "sum(loss * n for loss, n in seen) / sum(n for _, n in seen)",
        "sum(loss for loss, _ in seen) / len(seen)",
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
        "optimizer.step()\n        seen.append((loss.item(), len(targets)))",
        "optimizer.step()\n        seen.append((loss.item(), 1))",
    ),
    (
        "if a batch counts once in validation",
        "            seen.append((loss.item(), len(targets)))",
        "            seen.append((loss.item(), 1))",
    ),
)
def test_each_sample_counts_alike__but_not(snippet, old, new, fails):
    fails(test_each_sample_counts_alike, snippet.edit(old, new))


class Cargo:
    """A batch that notes where it is sent, and stays."""

    def __init__(self, tensor, sent):
        """Hold a tensor."""
        self.tensor, self.sent = tensor, sent

    def to(self, device):
        """Return the tensor, and note the device."""
        self.sent.append(device)
        return self.tensor


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
    edited = snippet.edit(old, new)
    fails(test_batches_go_to_the_device, edited)


def rates_of(run, folder, rate=0.05, epochs=4):
    """Return the rate at each step, by epochs."""
    model, _ = run.start()
    optimizer = ADAMW(model.parameters(), lr=rate)
    rates = []
    optimizer.register_step_pre_hook(
        lambda *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    path = folder / "best.pt"
    run.fit(model, optimizer, *loaders(run, 100), epochs, path)
    return [rates[i : i + 3] for i in range(0, len(rates), 3)]


def test_the_rate_falls(snippet, tmp_path, rate=0.05, epochs=4):
    rates = rates_of(run_to(snippet, "fit"), tmp_path, rate, epochs)

    assert len(rates) == epochs
    assert all(len(set(each)) == 1 for each in rates)
    firsts = [each[0] for each in rates]
    assert firsts[0] == rate
    assert all(a > b > 0 for a, b in pairwise(firsts))


@pytest.mark.parametrize(("rate", "epochs"), [(0.3, 2), (0.001, 9)])
def test_the_rate_falls__also_from(snippet, tmp_path, rate, epochs):
    test_the_rate_falls(snippet, tmp_path, rate, epochs)


@edits(
    ("without its step", "        scheduler.step()\n", ""),
    (
        "at the start",
        "    losses = []\n",
        "    optimizer.step()\n    scheduler.step()\n    losses = []\n",
    ),
    (
        "to the end, over half the epochs",
        "CosineAnnealingLR(optimizer, epochs)",
        "CosineAnnealingLR(optimizer, epochs // 2)",
    ),
)
def test_the_rate_falls__but_not(snippet, old, new, tmp_path, fails):
    fails(test_the_rate_falls, snippet.edit(old, new), tmp_path)


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

    smallest = min(each for each in scripted if not math.isnan(each))
    best = max(i for i, each in enumerate(scripted) if each == smallest)
    best = states[best]
    assert tuple(losses) == scripted
    assert same(list(torch.load(path).values()), list(best.values()))
    assert apart(list(states[0].values()), list(states[1].values()))


@pytest.mark.parametrize(
    "scripted", [(1.0, 2.0), (2.0, 1.0), (0.2, 0.5, 0.1, 0.3), (1.0, 1.0)]
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
    ("the worst", "== min(losses)", "== max(losses)"),
    ("one below the last", "== min(losses)", "<= losses[-2:][0]"),
    (
        "the parameters alone",
        "torch.save(model.state_dict(), path)",
        "torch.save(dict(model.named_parameters()), path)",
    ),
)
def test_the_best_is_kept__but_not(snippet, old, new, tmp_path, fails):
    fails(test_the_best_is_kept, snippet.edit(old, new), tmp_path)


def test_the_best_is_kept__also_but_for_nan(snippet, tmp_path):
    with pytest.raises(FileNotFoundError):
        test_the_best_is_kept(snippet, tmp_path, (math.nan, 2.0, 1.0))


def test_the_best_is_kept__but_not_after_each_epoch(snippet, tmp_path, fails):
    edited = snippet.edit("if losses[-1] == min(losses):", "if True:")
    fails(test_the_best_is_kept, edited, tmp_path)


def test_a_bar_follows_the_loss(snippet):
    bar = run_to(snippet, "fit").bar

    for first in (0.001, 0.3, 50.0):
        assert bar([first]) == "#" * 30
        for share in (0.0, 0.1, 0.22, 0.5, 0.9, 1.0):
            assert bar([first, 3 * first, share * first]) == "#" * round(
                30 * share
            )
        for more in (2 * first, 1e30, math.inf, math.nan):
            assert bar([first, more]) == "#" * 30


SHARE = "min(1, losses[-1] / losses[0])"


@pytest.mark.parametrize(
    "share",
    [
        "min(1, losses[-1] / max(losses))",
        "min(9, losses[-1] / losses[0])",
        "min(1, losses[-1] / losses[0]) ** 2",
        "min(1, (losses[-1] if losses[-1] < math.inf else 0) / losses[0])",
        "(losses[-1] == losses[-1] and min(1, losses[-1] / losses[0]))",
    ],
    ids=["over the largest", "unbounded", "squared", "up to inf", "up to NaN"],
)
def test_a_bar_follows_the_loss__but_not(snippet, share, fails):
    edited = snippet.edit(SHARE, share.replace("math.inf", "float('inf')"))
    fails(test_a_bar_follows_the_loss, edited)


def test_a_bar_follows_the_loss__but_not_cut_off(snippet, fails):
    edited = snippet.edit("round(30", "int(30")
    fails(test_a_bar_follows_the_loss, edited)


def test_a_bar_follows_the_loss__but_not_at_another_length(snippet, fails):
    edited = snippet.edit("round(30", "round(20")
    fails(test_a_bar_follows_the_loss, edited)


def test_clipping_saves_the_weights(snippet):
    run = run_to(snippet, "clip-places")
    model, _ = run.start()
    before = F.mse_loss(model(run.weather), run.bikes).item()
    F.mse_loss(model(run.weather), 100 * run.bikes).backward()
    for each in model.parameters():
        each.data -= 0.1 * each.grad
    after = F.mse_loss(model(run.weather), run.bikes).item()
    loss = run.after_a_bad_day(*run.lines)

    assert 0.43 < before < 0.44
    assert after > 10_000
    assert loss == pytest.approx(after)
    assert run.clipped[4] < 0.43
    assert type(loss) is float


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
    fails(test_clipping_saves_the_weights, snippet.edit(old, new))


def test_clipping_bounds_the_norm(snippet, dtype=torch.float32):
    run = run_to(snippet, "clip")

    for size in (1e-3, 0.5, 0.999, 1.5, 40.0, 1e5):
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
        for each, slope in zip(model.parameters(), before, strict=False):
            each.grad = slope.clone()

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


@pytest.mark.parametrize("sign", [1, -1])
def test_clipping_bounds_the_norm__also_if_it_overflows(snippet, sign):
    model = nn.Linear(2, 2)
    for each in model.parameters():
        each.grad = torch.full_like(each, sign * 1e25)
    names = {"nn": nn, "model": model}

    exec(run_to(snippet, "clip").clip, names)

    assert names["norm"] == math.inf
    assert not any(each.grad.any() for each in model.parameters())


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
    edited = snippet.edit(f'"norm = {CLIP}"', f'"norm = {clip}"')
    fails(test_clipping_bounds_the_norm, edited)


def test_train_epoch_clips(snippet, scale=100):
    run = run_to(snippet, "fit")
    model, optimizer = run.start()
    norms = []

    def note(*_):
        slopes = [each.grad.flatten() for each in model.parameters()]
        norms.append(torch.cat(slopes).norm().item())

    optimizer.register_step_pre_hook(note)
    data = [(run.weather[i::4], scale * run.bikes[i::4]) for i in range(4)]
    run.train_epoch(model, data, optimizer)

    mine, optimizer = run.start()
    for inputs, targets in data:
        optimizer.zero_grad()
        F.mse_loss(mine(inputs), targets).backward()
        slopes = [each.grad for each in mine.parameters()]
        norm = torch.cat([each.flatten() for each in slopes]).norm()
        for each in slopes:
            each.div_(max(norm, 1))
        optimizer.step()
    for one, other in zip(model.parameters(), mine.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert len(norms) == 4
    assert all(0 < norm < 1 + 1e-5 for norm in norms)


@pytest.mark.parametrize("scale", [1, 1e6])
def test_train_epoch_clips__also_for_targets_times(snippet, scale):
    test_train_epoch_clips(snippet, scale)


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
    old = f"loss.backward()\n        {CLIP}\n"
    fails(test_train_epoch_clips, snippet.edit(old, new))


def test_train_epoch_clips__but_not_without_zero_grad(snippet, fails):
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
    fails(test_clip_in_between, snippet.edit(old, new))


def test_lbfgs_asks_again(snippet):
    run = run_to(snippet, "closure")
    [state, *_] = run.optimizer.state_dict()["state"].values()

    assert type(run.optimizer) is torch.optim.LBFGS
    assert len(run.falls) == 4
    assert state["func_evals"] > 20


def test_lbfgs_asks_again__but_not_in_one_iteration(snippet, fails):
    edited = snippet.edit(
        "LBFGS(model.parameters())\nfalls",
        "LBFGS(model.parameters(), max_iter=1)\nfalls",
    )
    fails(test_lbfgs_asks_again, edited)


def test_a_closure_resets(snippet):
    run = run_to(snippet, "closure-wrong", "closure")
    first, *later = run.rises

    assert run.falls[3] < 0.02
    assert run.falls[0] == first
    assert len(later) == 3
    assert not any(loss < first for loss in later)
    assert {type(each) for each in run.falls + run.rises} == {float}
    weights = [list(each.parameters()) for each in (run.model, run.start()[0])]
    assert apart(*weights)


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
    fails(test_a_closure_resets, snippet.edit(old, new))
