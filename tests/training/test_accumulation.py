"""The claims of docs/training/accumulation.md."""

import copy
import math
import weakref

import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from extensions.evidence.counterexamples import edits
from extensions.evidence.versions import older
from tests.helpers.worlds import MODELS

STEP = ("days", "model", "step")
TOOLS = ("days", "model", "gradient", "cut")


def apart(found, right):
    """Return how far two gradients are apart, relative to the right one."""
    return ((found - right).norm() / right.norm()).item()


def flat(model):
    """Return all gradients as one."""
    gradients = [p.grad for p in model.parameters()]
    return torch.cat(
        [each.flatten() for each in gradients if each is not None]
    )


def with_layer(layer, seed=3):
    torch.manual_seed(seed)
    layers = nn.Linear(3, 16), layer, nn.Tanh(), nn.Linear(16, 3)
    return nn.Sequential(*layers)


def plain(seed=3):
    return with_layer(nn.Identity(), seed)


def watch(optimizer, model):
    """Return a list that gets the gradient of the model at each step."""
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(flat(model)))
    return seen


class Away:
    """A tensor elsewhere, and the lists that its copies are noted in."""

    def __init__(self, tensor, moved, alive):
        self.tensor, self.moved, self.alive = tensor, moved, alive

    def __ne__(self, other):
        """Compare the numbers."""
        return self.tensor != other

    def to(self, _):
        """Return a copy, and note how many copies are there with it."""
        copied = self.tensor.clone()
        self.moved.append(weakref.ref(copied))
        self.alive.append(sum(ref() is not None for ref in self.moved))
        return copied


SECOND_LOOP = "    for inputs, labels in parts:\n        loss ="
MOVE = "inputs, labels = inputs.to(None), labels.to(None)"
MOVED = SECOND_LOOP.replace("        loss", f"        {MOVE}\n        loss")


@pytest.mark.simulates("a device")
def test_one_part_at_a_time_is_moved(snippet, line=MOVED, sizes=(5, 2)):
    """Move the parts as the page says, which the program does not."""
    run = snippet.edit(SECOND_LOOP, line).only(*STEP).after("step")

    for size in sizes:
        moved, alive = [], []
        pieces = run.days[:12].split(size), run.notes[:12].split(size)
        parts = [
            (Away(inputs, moved, alive), Away(labels, moved, alive))
            for inputs, labels in zip(*pieces, strict=True)
        ]
        model = run.new_model()
        run.big_step(model, optim.SGD(model.parameters(), lr=0.1), parts)
        assert len(parts) > 2
        assert alive == [1, 2] * len(parts)


def test_one_part_at_a_time_is_moved__but_not_before_the_loop(snippet, fails):
    """Moved before the loop, all parts are on the device at once."""
    pairs = "[(a.to(None), b.to(None)) for a, b in parts]"
    line = SECOND_LOOP.replace("in parts", f"in {pairs}")
    fails(test_one_part_at_a_time_is_moved, snippet, line)


def test_one_part_at_a_time_is_moved__but_not_without_backward(snippet, fails):
    """Without `backward()` in the loop, the graph of each loss keeps its part
    on the device.
    """
    edited = snippet.edit("loss.backward()  # adds", "mean += loss  # adds")
    fails(test_one_part_at_a_time_is_moved, edited)


# %% the gradient of the whole


def in_two_groups(parameters, lr):
    """Return SGD in two groups: the later weights move half as far."""
    first, *others = parameters
    groups = [{"params": [first]}, {"params": others, "lr": lr / 2}]
    return optim.SGD(groups, lr=lr)


def test_parts_give_the_gradient_of_the_whole(
    snippet,
    make=plain,
    sizes=(5, 5, 2),
    kind=optim.SGD,
    dtype=torch.float32,
    start=16,
    labeled=True,
):
    run = snippet.only(*STEP).after("step")
    tolerance = 50 * torch.finfo(dtype).eps
    clipped = []
    for scale in (1, 30):
        days = scale * run.days[start : start + sum(sizes)].to(dtype)
        notes = run.notes[start : start + sum(sizes)]
        notes = notes if labeled else torch.full_like(notes, -100)
        parts = list(zip(days.split(sizes), notes.split(sizes), strict=True))
        model = make().to(dtype)
        reference = copy.deepcopy(model)
        model(days).square().sum().backward()  # an old gradient
        optimizer = kind(model.parameters(), lr=0.1)
        seen = watch(optimizer, model)
        before = [p.detach().clone() for p in model.parameters()]

        mean = run.big_step(model, optimizer, parts)

        loss = F.cross_entropy(reference(days), notes)
        loss.backward()
        loss = loss.detach()
        clipped.append(flat(reference).norm() > 1)
        nn.utils.clip_grad_norm_(reference.parameters(), max_norm=1.0)
        right = flat(reference)
        assert len(seen) == 1
        assert apart(seen[0], right) < tolerance
        assert math.isclose(mean, loss, rel_tol=tolerance)
        twin = kind(reference.parameters(), lr=0.1)
        for p, old, other in zip(
            model.parameters(), before, reference.parameters(), strict=True
        ):
            other.grad = None if p.grad is None else p.grad.clone()
            assert torch.equal(other, old)
        twin.step()
        for p, other in zip(
            model.parameters(), reference.parameters(), strict=True
        ):
            assert torch.equal(p, other)
    assert clipped[-1]


@pytest.mark.parametrize(
    "options",
    [
        {"sizes": (12,)},
        {"sizes": (1,) * 12},
        {"sizes": (1, 20, 3), "start": 10},
        {"sizes": (1,) * 40, "start": 0},
    ],
    ids=["one part", "12 parts", "very uneven parts", "40 parts"],
)
def test_parts_give_the_gradient_of_the_whole__also_in(snippet, options):
    test_parts_give_the_gradient_of_the_whole(snippet, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"sizes": (4, 4), "start": 0},
        {"kind": optim.AdamW},
        {"kind": optim.RMSprop},
        {"kind": in_two_groups},
        {"dtype": torch.float64},
        {"make": lambda: plain(seed=8)},
    ],
    ids=[
        "labels for all days",
        "AdamW",
        "RMSprop",
        "two parameter groups",
        "float64",
        "another start",
    ],
)
def test_parts_give_the_gradient_of_the_whole__also_with(snippet, options):
    test_parts_give_the_gradient_of_the_whole(snippet, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: with_layer(nn.LayerNorm(16)),
        lambda: with_layer(nn.GroupNorm(4, 16)),
        lambda: with_layer(nn.BatchNorm1d(16)).eval(),
        lambda: with_layer(nn.Dropout(0.5)).eval(),
        MODELS["tied"],
        MODELS["frozen in part"],
    ],
    ids=[
        "LayerNorm",
        "GroupNorm",
        "BatchNorm in evaluation mode",
        "Dropout in that mode",
        "a tied weight",
        "a frozen layer",
    ],
)
def test_parts_give_the_gradient_of_the_whole__also_for_a_model_with(
    snippet, make
):
    test_parts_give_the_gradient_of_the_whole(snippet, make)


def test_parts_give_the_gradient_of_the_whole__also_of_sequences(snippet):
    run = snippet.only(*STEP).after("step")
    torch.manual_seed(0)
    weeks, labels = torch.randn(6, 3, 7), torch.randint(3, (6, 7))
    for week, length in zip(labels, (7, 6, 1, 2, 0, 5), strict=True):
        week[length:] = -100
    model = nn.Conv1d(3, 3, 1)
    run.big_step(
        model,
        optim.SGD(model.parameters(), lr=0.0),
        list(zip(weeks.split(2), labels.split(2), strict=True)),
    )
    found = flat(model)
    model.zero_grad()
    F.cross_entropy(model(weeks), labels).backward()

    assert apart(found, flat(model)) < 1e-5


CLEAR = "    optimizer.zero_grad()\n    mean = 0.0\n"
PARTS = "    for inputs, labels in parts:\n        loss = F.cross"


def test_parts_give_the_gradient_of_the_whole__but_not_cleared_in_each_part(
    snippet, fails
):
    """With `zero_grad()` inside the loop, only the last part counts."""
    edited = snippet.edit(
        f"{CLEAR}{PARTS}",
        "    mean = 0.0\n    for inputs, labels in parts:\n"
        "        optimizer.zero_grad()\n        loss = F.cross",
    )
    fails(test_parts_give_the_gradient_of_the_whole, edited)


@edits(
    ("never cleared", CLEAR, "    mean = 0.0\n"),
    ("means", 'labels, reduction="sum") / total\n', "labels) / total\n"),
    (
        "the number of parts",
        'labels, reduction="sum") / total\n',
        "labels) / len(parts)\n",
    ),
    ("all labels counted", "(labels != -100).sum().item()", "len(labels)"),
    (
        "other labels left out",
        "(labels != -100).sum().item()",
        "(labels != 0).sum().item()",
    ),
    (
        "not clipped",
        "    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"
        "  # if you clip\n    optimizer",
        "    optimizer",
    ),
    (
        "clipped in each part",
        "        mean += loss.detach()\n",
        "        mean += loss.detach()\n"
        "        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n",
    ),
    (
        "a step for each part",
        "        mean += loss.detach()\n",
        "        mean += loss.detach()\n        optimizer.step()\n",
    ),
    ("no step", "    optimizer.step()\n    return mean", "    return mean"),
    ("another mean", "return mean", "return mean / len(parts)"),
    ("the last mean", "mean += loss.detach()", "mean = loss.detach()"),
)
def test_parts_give_the_gradient_of_the_whole__but_not_if(
    snippet, old, new, fails
):
    """Without `zero_grad()`, an old gradient counts as well; the other edits
    change the divisor, the clipping, the step or the mean.
    """
    fails(test_parts_give_the_gradient_of_the_whole, snippet.edit(old, new))


@pytest.mark.parametrize(
    "make",
    [
        lambda: with_layer(nn.BatchNorm1d(16)),
        lambda: with_layer(nn.Dropout(0.5)),
    ],
    ids=["BatchNorm", "Dropout"],
)
def test_parts_give_the_gradient_of_the_whole__ends_in_training_mode_with(
    snippet, make, fails
):
    """With BatchNorm or Dropout in training mode: in parts, they compute other
    numbers than in the whole.
    """
    fails(test_parts_give_the_gradient_of_the_whole, snippet, make)


def test_parts_give_the_gradient_of_the_whole__ends_if_one_is_not_optimized(
    snippet, fails
):
    """If the optimizer lacks a layer: that layer's old gradients stay, and
    count in the clipping.
    """

    def kind(parameters, lr):
        return optim.SGD(list(parameters)[2:], lr=lr)

    inputs = snippet, plain, (5, 5, 2), kind
    fails(test_parts_give_the_gradient_of_the_whole, *inputs)


def test_parts_give_the_gradient_of_the_whole__ends_without_any_label(
    snippet, fails
):
    """Without any label: the mean loss is `nan`, but `big_step` returns 0."""
    inputs = snippet, plain, (5, 5, 2), optim.SGD, torch.float32, 16, False
    fails(test_parts_give_the_gradient_of_the_whole, *inputs)


# %% another loss

COUNT = "(labels != -100).sum().item()"
LOSS = 'F.cross_entropy(model(inputs), labels, reduction="sum")'


def test_count_what_the_mean_divides_by(
    snippet,
    square="labels.numel()",
    weighted="torch.tensor({weights})[labels].sum().item()",
    weights=(1.0, 5.0, 0.3),
):
    for count, loss, labels in (
        (
            square,
            LOSS.replace("cross_entropy", "mse_loss"),
            torch.randn(12, 3),
        ),
        (
            weighted.format(weights=weights),
            LOSS.replace("reduction", f"torch.tensor({weights}), reduction"),
            torch.tensor([0, 1, 2, 2, 0, 0, 1, 1, 1, 2, 2, 0]),
        ),
    ):
        edited = snippet.edit(COUNT, count).edit(LOSS, loss)
        run = edited.only(*STEP).after("step")
        model = run.new_model()
        optimizer = optim.SGD(model.parameters(), lr=0.0)
        days = run.days[:12]
        parts = zip(
            days.split((5, 5, 2)), labels.split((5, 5, 2)), strict=True
        )
        mean = run.big_step(model, optimizer, list(parts))
        found = flat(model)

        model.zero_grad()
        if labels.ndim == 2:
            right = F.mse_loss(model(days), labels)
        else:
            weight = torch.tensor(weights)
            right = F.cross_entropy(model(days), labels, weight)
        right.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        assert apart(found, flat(model)) < 1e-5
        assert math.isclose(mean, right.detach(), rel_tol=1e-5)


def test_count_what_the_mean_divides_by__also_with_weights_that_add_up_below_1(
    snippet,
):
    weights = 0.01, 0.05, 0.003
    test_count_what_the_mean_divides_by(snippet, weights=weights)


@pytest.mark.parametrize(
    ("square", "weighted"),
    [
        ("len(labels)", "torch.tensor({weights})[labels].sum().item()"),
        ("labels.numel()", "len(labels)"),
    ],
    ids=["rows", "labels without weights"],
)
def test_count_what_the_mean_divides_by__but_not_by(
    snippet, square, weighted, fails
):
    """`len(labels)` counts rows of targets, or labels without their weights,
    and the mean loss comes out wrong.
    """
    fails(test_count_what_the_mean_divides_by, snippet, square, weighted)


# %% an epoch


def test_each_group_steps_once(
    snippet, batches=11, parts_per_step=4, loader=list, kind=optim.SGD
):
    run = snippet.only(*STEP, "train-epoch").after("train-epoch")
    inputs = run.days.repeat(2, 1)[: 2 * batches]
    labels = torch.zeros(2 * batches, dtype=torch.int64)
    parts = zip(inputs.split(2), labels.split(2), strict=True)
    seen, steps = [], []
    model = plain().eval()  # as an evaluation leaves it
    model.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    optimizer = kind(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: steps.append(len(seen)))
    schedule = optim.lr_scheduler.StepLR(optimizer, 10**6)

    losses = run.train_epoch(
        model,
        optimizer,
        schedule,
        loader(parts if batches else []),
        parts_per_step,
    )

    full = range(parts_per_step, batches + 1, parts_per_step)
    ends = [*full, batches] if batches % parts_per_step else [*full]
    assert steps == ends
    assert schedule.last_epoch == len(losses) == len(ends)
    assert all(each.training for each in model.modules())
    if batches:
        assert torch.equal(torch.cat(seen), inputs)


@pytest.mark.parametrize(
    ("batches", "parts_per_step", "loader", "kind"),
    [
        (12, 4, list, optim.SGD),
        (3, 4, list, optim.SGD),
        (7, 1, list, optim.SGD),
        (11, 6, list, optim.SGD),
        (40, 32, list, optim.SGD),
        (0, 4, list, optim.SGD),
        (9, 2, list, optim.AdamW),
        (
            10,
            3,
            lambda parts: torch.utils.data.DataLoader(
                list(parts), batch_size=None
            ),
            optim.SGD,
        ),
    ],
    ids=[
        "12 batches by 4",
        "3 by 4",
        "7 by 1",
        "11 by 6",
        "40 by 32",
        "none",
        "9 by 2 with AdamW",
        "10 by 3 from a loader",
    ],
)
def test_each_group_steps_once__also_for(
    snippet, batches, parts_per_step, loader, kind
):
    test_each_group_steps_once(snippet, batches, parts_per_step, loader, kind)


def test_each_group_steps_once__but_not_in_evaluation_mode(snippet, fails):
    """Without `model.train()`, a model that was just evaluated stays in
    evaluation mode.
    """
    edited = snippet.edit("    model.train()\n    losses", "    losses")
    fails(test_each_group_steps_once, edited)


CALL = "        losses.append(big_step(model, optimizer, parts))\n"
TAKE = "while parts := list(islice(batches, parts_per_step)):\n"


@edits(
    (
        "the smaller group left out",
        CALL,
        f"        if len(parts) < parts_per_step:\n            break\n{CALL}",
    ),
    ("other groups", TAKE, TAKE.replace("parts_per_step", "2")),
    (
        "a schedule for each part",
        "        schedule.step()  #",
        "        for _ in parts:\n            schedule.step()  #",
    ),
    ("no schedule", "        schedule.step()  #", "        #"),
    (
        "a batch taken twice",
        "parts))\n        schedule",
        "[*parts, parts[0]]))\n        schedule",
    ),
    (
        "a step too many",
        CALL,
        f"{CALL}        optimizer.step()\n",
    ),
)
def test_each_group_steps_once__but_not_with(snippet, old, new, fails):
    """With this `break`, the smaller group at the end gets no step; the others
    change the groups, or the number of steps.
    """
    fails(test_each_group_steps_once, snippet.edit(old, new))


DO_THIS = (*STEP, "train-epoch", "do-this")


def test_fifteen_steps_to_zero(snippet):
    seen, steps = [], []

    def note_days(module, given):
        if isinstance(module, nn.Sequential):
            seen.append(given[0])

    def note_step(optimizer, *_):
        taken = sum(len(part) for part in seen)
        before = sum(number for number, _ in steps)
        steps.append((taken - before, optimizer.param_groups[0]["lr"]))

    hooks = [
        register_module_forward_pre_hook(note_days),
        register_optimizer_step_pre_hook(note_step),
    ]
    try:
        run = snippet.only(*DO_THIS).after("do-this")
    finally:
        for hook in hooks:
            hook.remove()

    sizes = [len(labels) for _, labels in run.loader]
    k = run.parts_per_step
    groups = [sum(sizes[i : i + k]) for i in range(0, len(sizes), k)]
    assert groups == [16, 16, 10]
    assert max(sizes) == 4
    assert sum(len(part) for part in seen) == 5 * 42
    epochs = torch.cat(seen).split(42)
    for i, order in enumerate(epochs):
        assert torch.equal(order.sort(0).values, run.days.sort(0).values)
        assert not any(torch.equal(order, other) for other in epochs[:i])
    assert [number for number, _ in steps] == [16, 16, 10] * 5
    rates = [rate for _, rate in steps]
    rates.append(run.optimizer.param_groups[0]["lr"])
    assert rates[0] == 0.03
    assert rates == sorted(set(rates), reverse=True)
    assert rates[-1] == pytest.approx(0, abs=1e-9)


@edits(
    ("one order", "shuffle=True", "shuffle=False"),
    (
        "seeded in each epoch",
        "for _ in range(epochs):\n",
        "for _ in range(epochs):\n    torch.manual_seed(0)\n",
    ),
    ("up and down again", "T_max=steps)\nfor", "T_max=5)\nfor"),
    ("smaller parts", "batch_size=4", "batch_size=2"),
    ("smaller groups", "parts_per_step = 5, 4", "parts_per_step = 5, 3"),
    ("no smaller group", "ceil(len(loader) / parts_per_step)", "2"),
    ("parts counted", "ceil(len(loader) / parts_per_step)", "len(loader)"),
    ("fewer epochs", "parts_per_step = 5, 4", "parts_per_step = 4, 4"),
    ("another rate", "lr=0.03)\nsteps", "lr=0.01)\nsteps"),
)
def test_fifteen_steps_to_zero__but_not_with(snippet, old, new, fails):
    """Without `shuffle`, each epoch takes the days in the same order; the
    others change the steps, the groups or the rates.
    """
    fails(test_fifteen_steps_to_zero, snippet.edit(old, new))


# %% shares


def test_weighted_parts_equal_the_batch(snippet):
    run = snippet.only(*TOOLS, "shares").after("shares")

    assert [len(inputs) for inputs, _ in run.parts] == [5, 5, 2]
    for seed in range(5):
        model = run.new_model(seed)
        whole = run.gradient(model, run.together, [1])
        found = run.gradient(model, run.parts, run.ways["by size"])
        difference = run.off(found, whole)
        assert type(difference) is float
        assert difference == pytest.approx(apart(found, whole))
        assert apart(found, whole) < 1e-5


@pytest.mark.parametrize(
    "option", ["weight=torch.tensor([1.0, 2.0, 5.0])", "ignore_index=0"]
)
def test_weighted_parts_equal_the_batch__ends_with(snippet, option, fails):
    """With weights of classes or ignored labels, the mean of a part divides by
    something else than its days.
    """
    edited = snippet.edit(
        "loss = F.cross_entropy(model(inputs), labels)  # the mean",
        f"loss = F.cross_entropy(model(inputs), labels, {option})  # the mean",
    )
    fails(test_weighted_parts_equal_the_batch, edited)


@edits(
    ("[5 / 12, 5 / 12, 2 / 12]", "[1 / 3, 1 / 3, 1 / 3]"),
    (
        "another group",
        "cut(days[:12], notes[:12], 5)",
        "cut(days[1:13], notes[1:13], 5)",
    ),
    ("    model.zero_grad()\n    for (", "    for ("),
)
def test_weighted_parts_equal_the_batch__but_not_with(
    snippet, old, new, fails
):
    """With a third for each part, the last one counts too much; the others
    take other days, or keep old gradients.
    """
    fails(test_weighted_parts_equal_the_batch, snippet.edit(old, new))


def test_uneven_parts_need_their_size(snippet):
    run = snippet.only(*TOOLS, "shares").after("shares")

    shares = run.ways["by number"]
    found = run.gradient(run.model, run.parts, shares)
    whole = run.gradient(run.model, run.together, [1])
    assert shares == [1 / len(run.parts)] * 3
    assert apart(found, whole) > 0.2
    each = run.cut(run.days[:12], run.notes[:12], 1)
    share = 1 / (10 + 2 * 2.5)
    day_by_day = [share] * 10 + [2.5 * share] * 2
    assert apart(found, run.gradient(run.model, each, day_by_day)) < 1e-5


@edits(
    ("equal parts", "notes[:12], 5)", "notes[:12], 4)"),
    ("by size", "[1 / 3, 1 / 3, 1 / 3]", "[5 / 12, 5 / 12, 2 / 12]"),
    ("other parts", "notes[:12], 5)", "notes[:12], 11)"),
)
def test_uneven_parts_need_their_size__but_not_with(snippet, old, new, fails):
    """With three parts of 4 days, dividing by their number is right; the
    others weigh by size, or cut other parts.
    """
    edited = snippet.edit(old, new)
    if "11" in new:
        edited = edited.edit("[1 / 3, 1 / 3, 1 / 3]", "[1 / 2, 1 / 2]").edit(
            "[5 / 12, 5 / 12, 2 / 12]", "[11 / 12, 1 / 12]"
        )
        edited = edited.edit('"not divided": [1, 1, 1]', '"both": [1, 1]')
    fails(test_uneven_parts_need_their_size, edited)


def test_divided_parts_equal_the_batch(snippet, sizes=(4, 4, 4), start=0):
    run = snippet.only(*TOOLS).after("cut")
    days = run.days[start : start + sum(sizes)]
    notes = run.notes[start : start + sum(sizes)]
    parts = list(zip(days.split(sizes), notes.split(sizes), strict=True))
    for seed in range(3):
        model = run.new_model(seed)
        whole = run.gradient(model, [(days, notes)], [1])
        shares = [1 / len(parts)] * len(parts)
        assert apart(run.gradient(model, parts, shares), whole) < 1e-5


def test_divided_parts_equal_the_batch__but_not_for_sums(snippet, fails):
    """Summed losses need no division: divided by the number of parts, they
    are too small.
    """
    edited = snippet.edit(
        "labels)  # the mean of a part",
        'labels, reduction="sum")',
    )
    fails(test_divided_parts_equal_the_batch, edited)


@pytest.mark.parametrize(
    ("sizes", "start"),
    [((6, 6), 0), ((1,) * 12, 0), ((7,), 3), ((2, 3, 3, 3), 18)],
    ids=[
        "two parts of 6 days",
        "parts of one day",
        "a single part",
        "parts of 2 and 3 days with 2 labels each",
    ],
)
def test_divided_parts_equal_the_batch__also_for(snippet, sizes, start):
    """In the last case, each part but the first has a day without label."""
    test_divided_parts_equal_the_batch(snippet, sizes, start)


@pytest.mark.parametrize(
    ("sizes", "start"),
    [((5, 5, 2), 0), ((4, 4, 4), 18)],
    ids=["another number of days", "missing labels"],
)
def test_divided_parts_equal_the_batch__ends_with(
    snippet, sizes, start, fails
):
    """With different numbers of labels, as in parts of 5, 5 and 2 days, or of
    4 days where labels are missing.
    """
    fails(test_divided_parts_equal_the_batch, snippet, sizes, start)


MEAN = "labels)  # the mean of a part"
WITH_WEIGHTS = MEAN.replace(")", ", weight=torch.tensor([1.0, 1.0, 4.0]))")


def test_divided_parts_equal_the_batch__ends_with_class_weights(
    snippet, fails
):
    """With class weights: the mean divides by the sum of the weights, which
    differs from part to part.
    """
    edited = snippet.edit(MEAN, WITH_WEIGHTS)
    fails(test_divided_parts_equal_the_batch, edited)


# %% memory

MEMORY = (*TOOLS, "step", "kept", "most-kept", "memory")


def test_a_part_keeps_its_share(snippet, seed=0, parts=(2, 4, 8, 16, 64)):
    run = snippet.only(*MEMORY).after("memory")

    torch.manual_seed(seed)
    run.many.copy_(torch.randn(4096, 3))
    whole, _ = run.memory(1)
    assert whole >= 4096 * 4 * (3 + 16 + 3)
    for n in parts:
        assert run.memory(n)[0] == pytest.approx(whole / n, rel=0.01)


def test_a_part_keeps_its_share__ends_for_parts_of_one_day(snippet, fails):
    """For parts of one day: autograd also keeps one number for each loss, here
    4 bytes beside 96.
    """
    fails(test_a_part_keeps_its_share, snippet, 0, (4096,))


def test_a_part_keeps_its_share__ends_under_autocast(snippet, fails):
    """Under `autocast`, its copies of the weights stay beside each part."""
    step = "lambda: big_step(model, optimizer, parts)"
    edited = snippet.edit(step, f"torch.autocast('cpu')({step})")
    fails(test_a_part_keeps_its_share, edited)


def test_a_part_keeps_its_share__also_of_other_days(snippet):
    test_a_part_keeps_its_share(snippet, seed=1)


BACKWARD = "loss.backward()  # adds to the gradients, and frees this part\n"


@edits(
    (
        "one backward",
        f"        {BACKWARD}        mean += loss.detach()\n",
        "        mean += loss\n    mean.backward()\n",
    ),
    (
        "a graph that is kept",
        f"{BACKWARD}        mean += loss.detach()\n",
        "loss.backward(retain_graph=True)\n        mean += loss\n",
    ),
    ("unequal parts", "4096 // n)", "4096 // n + 400)"),
)
def test_a_part_keeps_its_share__but_not_with(snippet, old, new, fails):
    """With one `backward()` at the end, nothing is freed before it; the others
    keep the graphs, or cut unequal parts.
    """
    fails(test_a_part_keeps_its_share, snippet.edit(old, new))


def test_the_rest_does_not_shrink(snippet):
    run = snippet.only(*MEMORY).after("memory")

    model = run.new_model()
    weights = sum(p.nbytes for p in model.parameters())
    optimizer = optim.AdamW(model.parameters())
    run.big_step(model, optimizer, run.cut(run.many, run.sky, 64))
    for state in optimizer.state.values():
        assert set(state) == {"step", "exp_avg", "exp_avg_sq"}
    for n in (1, 2, 16, 64):
        assert run.memory(n)[1] == 4 * weights


@edits(
    (
        "one average",
        '[state["exp_avg"], state["exp_avg_sq"]]',
        '[state["momentum_buffer"]]',
    ),
    (
        "gradients that are cleared",
        "    optimizer.step()\n    return mean",
        "    optimizer.step()\n    optimizer.zero_grad()\n    return mean",
    ),
)
def test_the_rest_does_not_shrink__but_not_with(snippet, old, new, fails):
    """SGD with momentum keeps one buffer instead of two averages; and cleared
    gradients take no memory.
    """
    edited = snippet.edit(old, new)
    if "momentum" in new:
        edited = edited.edit(
            "optim.AdamW(model.parameters())\n    kept",
            "optim.SGD(model.parameters(), momentum=0.9)\n    kept",
        )
    else:
        edited = edited.edit(
            "*(p.grad for p in model.parameters())]",
            "*(p.grad for p in model.parameters() if p.grad is not None)]",
        )
    fails(test_the_rest_does_not_shrink, edited)


# %% the division forgotten


def test_undivided_is_n_times_as_large(snippet, sizes=(4, 4, 4), start=0):
    run = snippet.only(*TOOLS).after("cut")
    days = run.days[start : start + sum(sizes)]
    notes = run.notes[start : start + sum(sizes)]
    parts = list(zip(days.split(sizes), notes.split(sizes), strict=True))
    model = run.new_model()
    whole = run.gradient(model, [(days, notes)], [1])
    added = run.gradient(model, parts, [1] * len(parts))

    assert apart(added, len(parts) * whole) < 1e-5
    assert whole.norm() > 0.1


@pytest.mark.parametrize(
    ("sizes", "start"),
    [((1,) * 20, 0), ((6, 6), 5), ((2, 3, 3, 3), 18)],
    ids=[
        "parts of one day",
        "two parts of 6 days",
        "parts of 2 and 3 days with 2 labels each",
    ],
)
def test_undivided_is_n_times_as_large__also_for(snippet, sizes, start):
    test_undivided_is_n_times_as_large(snippet, sizes, start)


def test_undivided_is_n_times_as_large__ends_with_other_numbers(
    snippet, fails
):
    """With different numbers of labels, as in parts of 5, 5 and 2 days: they
    add up to something else.
    """
    fails(test_undivided_is_n_times_as_large, snippet, (5, 5, 2))


def test_undivided_is_n_times_as_large__ends_with_class_weights(
    snippet, fails
):
    """With class weights: the mean divides by the sum of the weights, which
    differs from part to part.
    """
    edited = snippet.edit(MEAN, WITH_WEIGHTS)
    fails(test_undivided_is_n_times_as_large, edited)


def test_undivided_is_n_times_as_large__but_not_divided(snippet, fails):
    """Divided by the number of parts, the means add up to the gradient of the
    whole itself.
    """
    edited = snippet.edit("(share * loss)", "(share * loss / len(parts))")
    fails(test_undivided_is_n_times_as_large, edited)


def test_undivided_is_n_times_as_large__but_not_for_sums(snippet, fails):
    """Summed losses add up to the gradient of the whole sum; there is no
    factor n.
    """
    edited = snippet.edit(
        "labels)  # the mean of a part", 'labels, reduction="sum")'
    )
    fails(test_undivided_is_n_times_as_large, edited)


def test_undivided_sgd_has_n_times_the_rate(
    snippet, seed=1, lr=0.05, weight_decay=0.0, **options
):
    run = snippet.only(*TOOLS, "fit").after("fit")

    def sgd(parameters, lr):
        return optim.SGD(
            parameters, lr=lr, weight_decay=weight_decay, **options
        )

    undivided = run.fit(sgd, lr, 1, seed)
    faster = run.fit(sgd, 7 * lr, 1 / 7, seed)
    untrained = run.new_model(seed)
    for p, other, old in zip(
        undivided.parameters(),
        faster.parameters(),
        untrained.parameters(),
        strict=True,
    ):
        torch.testing.assert_close(p, other, rtol=1e-3, atol=1e-4)
        assert (p - old).norm() > 0.01


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 2},
        {"seed": 3},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.5},
    ],
    ids=[
        "another start",
        "a third one",
        "momentum",
        "Nesterov momentum",
        "dampening",
    ],
)
def test_undivided_sgd_has_n_times_the_rate__also_with(snippet, options):
    test_undivided_sgd_has_n_times_the_rate(snippet, **options)


def test_undivided_sgd_has_n_times_the_rate__ends_with_weight_decay(
    snippet, fails
):
    """With weight decay: a higher rate also decays more, but a larger gradient
    does not.
    """
    fails(test_undivided_sgd_has_n_times_the_rate, snippet, 1, 0.05, 0.1)


def test_undivided_sgd_has_n_times_the_rate__ends_if_the_training_diverges(
    snippet, fails
):
    """If the training diverges: at a rate of 2 it is chaotic, and rounding
    errors grow.
    """
    fails(test_undivided_sgd_has_n_times_the_rate, snippet, 1, 2.0)


def test_undivided_sgd_has_n_times_the_rate__but_not_adam(snippet, fails):
    """AdamW hardly notices a larger gradient, but it does notice a higher
    rate.
    """
    edited = snippet.edit(
        "kind(model.parameters(), lr=lr)",
        "optim.AdamW(model.parameters(), lr=lr)",
    )
    fails(test_undivided_sgd_has_n_times_the_rate, edited)


STARTS = (1, 2, 3)
FIT = (*TOOLS, "fit", "undivided")


def ends(run, name, seed):
    kind, lr, share = run.runs[name]
    loss = run.mean_loss(run.fit(kind, lr, share, seed))
    assert type(loss) is float
    return loss


def test_undivided_sgd_diverges(snippet):
    run = snippet.only(*FIT).after("undivided")

    assert run.runs["SGD, rate 3, divided"] == (optim.SGD, 3, 1 / 7)
    assert run.runs["SGD, rate 3, forgotten"] == (optim.SGD, 3, 1)
    for seed in (*STARTS, 4, 5):
        model = run.new_model(seed)
        before = F.cross_entropy(model(run.days), run.notes).item()
        assert run.mean_loss(model) == pytest.approx(before)
        assert ends(run, "SGD, rate 3, divided", seed) < before
        assert ends(run, "SGD, rate 3, forgotten", seed) > before


@edits(
    ("forgotten twice", "(optim.SGD, 3.0, 1 / 7)", "(optim.SGD, 3.0, 1)"),
    ("never forgotten", "(optim.SGD, 3.0, 1)", "(optim.SGD, 3.0, 1 / 7)"),
    ("AdamW", "(optim.SGD, 3.0, 1)", "(optim.AdamW, 3.0, 1)"),
)
def test_undivided_sgd_diverges__but_not_with(snippet, old, new, fails):
    """Here the division is missing in both runs, so they are the same; the
    others divide in both, or take AdamW.
    """
    fails(test_undivided_sgd_diverges, snippet.edit(old, new))


def test_adamw_hides_the_factor(snippet):
    run = snippet.only(*FIT).after("undivided")

    assert run.runs["AdamW, divided"][1:] == (0.03, 1 / 7)
    assert run.runs["AdamW, forgotten"][1:] == (0.03, 1)
    assert run.runs["AdamW, divided"][0] is optim.AdamW
    for seed in STARTS:
        divided = ends(run, "AdamW, divided", seed)
        forgotten = ends(run, "AdamW, forgotten", seed)
        assert math.isclose(divided, forgotten, rel_tol=1e-3)
        assert divided < 0.9 * run.mean_loss(run.new_model(seed))


@edits(
    ("(optim.AdamW, 0.03, 1)", "(optim.SGD, 0.03, 1)"),
    ("(optim.AdamW, 0.03, 1)", "(optim.Adagrad, 0.03, 1e-8)"),
    ("another rate", "(optim.AdamW, 0.03, 1)", "(optim.AdamW, 0.3, 1)"),
)
def test_adamw_hides_the_factor__but_not_with(snippet, old, new, fails):
    """With SGD or Adagrad in the second run, or AdamW at another rate, the
    losses no longer agree.
    """
    fails(test_adamw_hides_the_factor, snippet.edit(old, new))


MILLIONTH = "AdamW, a millionth of the loss, "


def test_tiny_gradients_show_the_factor(snippet):
    run = snippet.only(*FIT).after("undivided")

    assert optim.AdamW([torch.zeros(1)]).defaults["eps"] == 1e-8
    assert run.runs[f"{MILLIONTH}divided"][1:] == (0.03, 1e-6 / 7)
    assert run.runs[f"{MILLIONTH}forgotten"][1:] == (0.03, 1e-6)
    for seed in STARTS:
        divided = ends(run, f"{MILLIONTH}divided", seed)
        forgotten = ends(run, f"{MILLIONTH}forgotten", seed)
        assert not math.isclose(divided, forgotten, rel_tol=0.05)
    for name in ("divided", "forgotten"):
        assert run.runs[f"{MILLIONTH}{name}"][0] is optim.AdamW


def test_tiny_gradients_show_the_factor__but_not_without_eps(snippet, fails):
    """With an `eps` of 1e-30, even these gradients are far above it, and the
    losses agree.
    """
    edited = snippet.edit(
        "kind(model.parameters(), lr=lr)",
        "optim.AdamW(model.parameters(), lr=lr, eps=1e-30)",
    )
    fails(test_tiny_gradients_show_the_factor, edited)


# %% labels


def test_halves_of_weeks_are_not_halves(snippet):
    run = snippet.only(*TOOLS, "weeks").after("weeks")

    assert run.by_half == [1 / 2, 1 / 2]
    assert (run.notes[:20] != -100).all()
    days, labels = run.days[:20], run.padded.flatten()
    whole = run.gradient(run.model, [(days, labels)], [1])
    found = run.gradient(run.model, run.halves, run.by_half)
    assert apart(found, whole) > 1 / 3
    held = labels != -100
    each = run.cut(days[held], labels[held], 1)
    day_by_day = [1 / 18] * 9 + [3 / 18] * 3
    assert apart(found, run.gradient(run.model, each, day_by_day)) < 1e-5


@edits(
    ("equal weeks", "lengths = [5, 4, 2, 1]", "lengths = [4, 2, 4, 2]"),
    ("by labels", "[1 / 2, 1 / 2], [9", "[9 / 12, 3 / 12], [9"),
    ("other lengths", "[5, 4, 2, 1]", "[5, 2, 4, 1]"),
)
def test_halves_of_weeks_are_not_halves__but_not_with(
    snippet, old, new, fails
):
    """If both halves have six labels, one half each is right; the others weigh
    by labels, or change the lengths.
    """
    fails(test_halves_of_weeks_are_not_halves, snippet.edit(old, new))


def test_weighted_by_labels_it_is_right(snippet):
    run = snippet.only(*TOOLS, "weeks").after("weeks")

    numbers = [(labels != -100).sum().item() for _, labels in run.halves]
    assert numbers == [9, 3]
    days, labels = run.days[:20], run.padded.flatten()
    for seed in range(3):
        model = run.new_model(seed)
        whole = run.gradient(model, [(days, labels)], [1])
        found = run.gradient(model, run.halves, run.by_label)
        assert apart(found, whole) < 1e-5


def test_weighted_by_labels_it_is_right__but_not_by_days(snippet, fails):
    """Weighted by days, padding included, each half counts one half, and the
    gradient is wrong.
    """
    edited = snippet.edit("[9 / 12, 3 / 12]", "[10 / 20, 10 / 20]")
    fails(test_weighted_by_labels_it_is_right, edited)


def test_weighted_by_labels_it_is_right__but_not_if_padding_has_a_label(
    snippet, fails
):
    """With 0 in place of `-100`, padding counts too, and each half has ten
    labels instead of 9 and 3.
    """
    edited = snippet.edit("week[length:] = -100", "week[length:] = 0")
    fails(test_weighted_by_labels_it_is_right, edited)


SCORED = "F.cross_entropy(model(inputs), labels, reduction"
FLAT = "model(inputs).flatten(0, 1), labels.flatten(), reduction"


def test_big_step_takes_weeks(snippet, flattened=FLAT, size=2):
    """Write what the page says, which the program does not."""
    edited = snippet.edit(SCORED, f"F.cross_entropy({flattened}")
    run = edited.only(*TOOLS, "step", "weeks").after("weeks")
    weeks, labels = run.days[:20].view(4, 5, 3), run.padded

    for seed in range(3):
        model = run.new_model(seed)
        whole = run.gradient(model, [(run.days[:20], labels.flatten())], [1])
        assert whole.norm() < 1  # so that the clipping leaves it
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        mean = F.cross_entropy(model(run.days[:20]), labels.flatten())
        found = run.big_step(model, optimizer, run.cut(weeks, labels, size))
        assert found.item() == pytest.approx(mean.item(), rel=1e-5)
        assert apart(flat(model), whole) < 1e-5


def test_big_step_takes_weeks__also_with_fewer_labels(snippet):
    edited = snippet.edit("lengths = [5, 4, 2, 1]", "lengths = [3, 0, 2, 1]")
    test_big_step_takes_weeks(edited)


@pytest.mark.parametrize("size", [1, 3, 4])
def test_big_step_takes_weeks__also_in_parts_of(snippet, size):
    test_big_step_takes_weeks(snippet, size=size)


def test_big_step_takes_weeks__but_not_in_another_order(snippet, fails):
    """With `labels.T`, the labels come in another order than the outputs."""
    fails(
        test_big_step_takes_weeks,
        snippet,
        FLAT.replace("labels.", "labels.T."),
    )


# %% the last group


def test_the_rest_leaks(snippet, n=10, k=4, kind=optim.SGD):
    run = snippet.only(*TOOLS, "common-loop").after("common-loop")
    batches = run.cut(run.days[: 2 * n], run.days[: 2 * n].argmax(1), 2)
    model = run.new_model()
    optimizer = kind(model.parameters(), lr=0.1)
    seen = watch(optimizer, model)
    run.common_epoch(model, optimizer, batches, k)

    rest = batches[n - n % k :]
    copied = copy.deepcopy(model)
    assert len(seen) == n // k
    left = flat(model)
    right = run.gradient(copied, rest, [1 / k] * len(rest))
    assert apart(left, right) < 1e-5

    first = run.gradient(copied, batches[:k], [1 / k] * k)
    run.common_epoch(model, optimizer, batches, k)
    assert apart(seen[n // k], left + first) < 1e-5


@pytest.mark.parametrize(
    ("n", "k", "kind"),
    [(11, 4, optim.SGD), (5, 3, optim.AdamW), (7, 6, optim.SGD)],
    ids=["11 batches by 4", "5 by 3 with AdamW", "7 by 6"],
)
def test_the_rest_leaks__also_for(snippet, n, k, kind):
    test_the_rest_leaks(snippet, n, k, kind)


def test_the_rest_leaks__also_in_the_run(snippet):
    cells = (*TOOLS, "common-loop", "left-over")
    run = snippet.only(*cells).after("left-over")

    assert [len(inputs) for inputs, _ in run.batches] == [2] * 10
    untrained = [p.detach() for p in run.new_model().parameters()]
    pairs = zip(run.model.parameters(), untrained, strict=True)
    assert not any(torch.equal(p, old) for p, old in pairs)
    model = copy.deepcopy(run.model)
    right = run.gradient(model, run.batches[8:], [1 / 4] * 2)
    assert apart(run.left_over, right) < 1e-5


EVERY = "        if i % parts_per_step == 0:\n"
LAST = "        if i % parts_per_step == 0 or i == len(loader):\n"
HEAD = "def common_epoch(model, optimizer, loader, parts_per_step):\n"


@edits(
    ("the rest steps", EVERY, LAST),
    ("cleared at the start", HEAD, f"{HEAD}    optimizer.zero_grad()\n"),
)
def test_the_rest_leaks__but_not_if(snippet, old, new, fails):
    """With a step after the last batch, the rest counts too; with a reset at
    the start, it cannot leak.
    """
    edited = snippet.edit(old, new)
    if old == EVERY:
        edited = edited.edit(
            "            optimizer.zero_grad()\n\n\n# %% left",
            "            if i < len(loader):\n"
            "                optimizer.zero_grad()\n\n\n# %% left",
        )
    fails(test_the_rest_leaks, edited)


def test_a_short_group_is_too_weak(snippet, n=10, k=4, without=0):
    edited = snippet.edit(EVERY, LAST)
    run = edited.only(*TOOLS, "common-loop").after("common-loop")
    days = run.days[: 2 * n]
    labels = days.argmax(1)
    labels[2 * n - without :] = -100
    batches = run.cut(days, labels, 2)
    model = run.new_model()
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    seen = watch(optimizer, model)
    run.common_epoch(model, optimizer, batches, k)

    j = n % k
    rest = slice(2 * (n - j), 2 * n)
    whole = run.gradient(model, [(days[rest], labels[rest])], [1])
    assert len(seen) == n // k + 1
    assert apart(seen[-1], j / k * whole) < 1e-5


@pytest.mark.parametrize(
    ("n", "k"),
    [(11, 4), (3, 8), (7, 6), (19, 4)],
    ids=["11 batches by 4", "3 by 8", "7 by 6", "19 by 4"],
)
def test_a_short_group_is_too_weak__also_for(snippet, n, k):
    test_a_short_group_is_too_weak(snippet, n, k)


def test_a_short_group_is_too_weak__ends_if_a_label_is_missing(snippet, fails):
    """If one of the last two batches lacks a label: they no longer step with
    exactly 2/4 of their gradient.
    """
    fails(test_a_short_group_is_too_weak, snippet, 10, 4, 1)


def test_a_short_group_is_too_weak__but_not_divided_by_its_number(
    snippet, fails
):
    """Divided by their own number, 2, the last two batches step with their
    whole gradient.
    """
    edited = snippet.edit(
        "labels) / parts_per_step",
        "labels) / (2 if i > 8 else parts_per_step)",
    )
    fails(test_a_short_group_is_too_weak, edited)


# %% clipping


def test_clip_after_the_last_part(snippet):
    run = snippet.only(*TOOLS, "shares", "clip").after("clip")

    for max_norm in (0.01, 0.1, 0.3, 9.0):
        share = min(1, max_norm / run.whole.norm())
        found = run.clipped(each_part=False, max_norm=max_norm)
        assert apart(found, share * run.whole) < 1e-4


CLIPS = (*TOOLS, "shares", "clip", "clip-once")
CLIP = "    nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n"


@edits(
    ("unclipped", f"{CLIP}    return", "    return"),
    ("in each part", "        if each_part:  # wrong\n", "        if True:\n"),
    ("another group", "notes[:12], 12)", "notes[:12], 6)[:1]"),
)
def test_clip_after_the_last_part__but_not(snippet, old, new, fails):
    """The gradient of six days is not that of twelve; the other edits do not
    clip, or clip in each part.
    """
    fails(test_clip_after_the_last_part, snippet.edit(old, new))


def test_clipping_each_part_differs(snippet):
    run = snippet.only(*CLIPS).after("clip-once")

    assert run.target.norm().item() == pytest.approx(0.1)
    right = 0.1 * run.whole / run.whole.norm()
    assert apart(run.target, right) < 1e-5
    found = run.clipped(each_part=True)
    assert found.norm() < 0.1001
    by_hand = torch.zeros_like(right)
    for part, share in zip(run.parts, run.ways["by size"], strict=True):
        by_hand = by_hand + run.gradient(run.new_model(), [part], [share])
        by_hand = by_hand * min(1, 0.1 / by_hand.norm())
    assert apart(found, by_hand) < 1e-4
    assert apart(found, right) > 0.1


def test_clipping_each_part_differs__but_not_below_the_norm(snippet, fails):
    """With a limit of 9 in each part, nothing is clipped before the end, and
    the result is right.
    """
    edited = snippet.edit(
        f"        if each_part:  # wrong\n        {CLIP}",
        f"        if each_part:  # wrong\n        {CLIP}".replace(
            "max_norm)", "9.0)"
        ),
    )
    fails(test_clipping_each_part_differs, edited)


# %% the schedule


def test_a_schedule_per_part_ends_early(snippet, n=4, steps=20):
    run = snippet.only("days", "rates").after("rates")

    found = run.rates(n, steps)
    end = steps // n
    assert len(found) == steps
    assert found[0] == 0.1
    assert found[end] == pytest.approx(0, abs=1e-9)
    assert min(found[:end]) > 0.0001
    assert found[end + 1] > 0.0001
    assert found[end : end + end] == sorted(found[end : end + end])


def test_a_schedule_per_part_ends_early__also_for_80_steps(snippet):
    test_a_schedule_per_part_ends_early(snippet, steps=80)


@edits(
    (
        "once for each step",
        "        for _ in range(calls_per_step):\n            schedule",
        "        for _ in range(1):\n            schedule",
    ),
    (
        "in parts",
        "T_max=steps)\n    found",
        "T_max=calls_per_step * steps)\n    found",
    ),
    (
        "a schedule that stays low",
        "CosineAnnealingLR(optimizer, T_max=steps)\n    found",
        "LinearLR(optimizer, 1.0, 0.0, steps)\n    found",
    ),
)
def test_a_schedule_per_part_ends_early__but_not(snippet, old, new, fails):
    """Called once for each step, or with `T_max` counted in parts, it ends on
    time; and `LinearLR` does not rise again.
    """
    fails(test_a_schedule_per_part_ends_early, snippet.edit(old, new))


# %% one backward for all


def test_at_once_keeps_all_parts(snippet):
    run = snippet.only(*MEMORY, "at-once").after("at-once")

    def kept(parts, model):
        return run.most_kept(model, lambda: run.at_once(model, parts, 4096))

    model = run.new_model()
    assert len(run.eighths) == 8
    found = kept(run.eighths, model)
    assert run.kept == found
    assert found == pytest.approx(run.memory(1)[0], rel=0.01)
    whole = run.gradient(run.new_model(), [(run.many, run.sky)], [1])
    assert apart(flat(model), whole) < 1e-4


def test_at_once_keeps_all_parts__but_not_with_a_backward_for_each(
    snippet, fails
):
    """With a `backward()` for each part, autograd keeps an eighth of it at
    once.
    """
    edited = snippet.edit(
        "        losses.append(F.cross_entropy(scores, labels,"
        ' reduction="sum") / total)\n    sum(losses).backward()',
        "        loss = F.cross_entropy(scores, labels,"
        ' reduction="sum") / total\n        loss.backward()',
    )
    fails(test_at_once_keeps_all_parts, edited)


# %% where it ends

EDGES = (*TOOLS, "shares", "edges")


def test_group_norm_sees_each_day_alone(snippet, layers=None):
    run = snippet.only(*EDGES).after("edges")
    layers = layers or [nn.GroupNorm(n, 16) for n in (1, 2, 4)]
    still = nn.BatchNorm1d(16)
    still(torch.randn(9, 16))

    for layer in (*layers, still.eval()):
        assert run.edge(layer) < 1e-5


def test_group_norm_sees_each_day_alone__ends_for_batch_norm(snippet, fails):
    """For BatchNorm in training mode: it normalizes each part by itself."""
    layers = [nn.BatchNorm1d(16)]
    fails(test_group_norm_sees_each_day_alone, snippet, layers)


def test_group_norm_sees_each_day_alone__but_not_in_training(snippet, fails):
    """After `train()`, the frozen BatchNorm normalizes each part by itself
    again.
    """
    edited = snippet.edit(
        "model = nn.Sequential(*layers)\n    torch",
        "model = nn.Sequential(*layers).train()\n    torch",
    )
    fails(test_group_norm_sees_each_day_alone, edited)


def test_batch_norm_sees_the_parts(
    snippet, batch=nn.BatchNorm1d, layer=nn.LayerNorm, training=True
):
    run = snippet.only(*EDGES).after("edges")

    assert type(run.edges["BatchNorm"]) is nn.BatchNorm1d
    assert run.edges["BatchNorm"].training
    assert type(run.edges["LayerNorm"]) is nn.LayerNorm
    assert run.edge(layer(16)) < 1e-5
    assert run.edge(batch(16).train(training)) > 0.1
    for share, (inputs, _) in zip(run.ways["by size"], run.parts, strict=True):
        assert share == len(inputs) / 12


class Look(nn.Module):
    """Note the state of the random numbers, and draw one."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, inputs):
        """Return the inputs."""
        self.seen.append(torch.get_rng_state())
        torch.rand(1)
        return inputs


def test_batch_norm_sees_the_parts__also_without_running_numbers(snippet):
    def batch(n):
        return nn.BatchNorm1d(n, track_running_stats=False)

    test_batch_norm_sees_the_parts(snippet, batch)


def test_batch_norm_sees_the_parts__but_not_in_evaluation(snippet, fails):
    """In evaluation mode, BatchNorm uses its running statistics, and parts
    give the gradient of the whole.
    """
    edited = snippet.edit(
        "model = nn.Sequential(*layers)\n    torch",
        "model = nn.Sequential(*layers).eval()\n    torch",
    )
    fails(test_batch_norm_sees_the_parts, edited)


def test_batch_norm_sees_the_parts__but_not_layer_norm(snippet, fails):
    """LayerNorm in place of BatchNorm normalizes each day by itself, so parts
    give the gradient of the whole.
    """
    fails(test_batch_norm_sees_the_parts, snippet, nn.LayerNorm)


def test_batch_norm_sees_the_parts__but_not_unweighed(snippet, fails):
    """With a third for each part, whatever its size, LayerNorm does not give
    the gradient of the whole either.
    """
    edited = snippet.edit("[5 / 12, 5 / 12, 2 / 12]", "[1 / 3, 1 / 3, 1 / 3]")
    fails(test_batch_norm_sees_the_parts, edited)


def test_dropout_draws_again(snippet, p=0.2, training=True):
    run = snippet.only(*EDGES).after("edges")

    layer = nn.Sequential(nn.Dropout(p), nn.Dropout(p)).train(training)
    assert run.edge(layer) > 0.01
    assert run.edge(run.edges["two Dropouts"]) > 0.01
    look = Look()
    assert run.edge(look) < 1e-5
    assert torch.equal(look.seen[0], look.seen[1])
    torch.manual_seed(7)
    assert run.edge(layer) == run.edge(layer)


def test_dropout_draws_again__also_with_half(snippet):
    test_dropout_draws_again(snippet, p=0.5)


DROPS_LESS = [
    (
        "nothing is dropped",
        "model = nn.Sequential(*layers)\n    torch",
        "model = nn.Sequential(*layers).eval()\n    torch",
    ),
]
if not older(torch.__version__, "2.7"):  # before, one alone drew again, too
    DROPS_LESS.append(
        (
            "one of the two drops nothing",
            "nn.Dropout(0.2), nn.Dropout(0.2)",
            "nn.Dropout(0.2), nn.Dropout(0.0)",
        )
    )


@edits(*DROPS_LESS)
def test_dropout_draws_again__but_not_if(snippet, old, new, fails):
    """In evaluation mode nothing is dropped; and if only one of the two drops,
    it drops the same numbers in parts.
    """
    fails(test_dropout_draws_again, snippet.edit(old, new))


def test_a_loss_over_pairs_changes(snippet):
    run = snippet.only(*TOOLS, "pairs", "pairs-in-parts").after(
        "pairs-in-parts"
    )
    today, tomorrow = run.pairs
    assert len(today) == 12

    model = run.new_model()
    scores = model(today) @ model(tomorrow).T
    F.cross_entropy(scores, torch.arange(12)).backward()
    assert apart(run.in_one, flat(model)) < 1e-5
    assert apart(run.in_parts, flat(model)) > 0.1
    model.zero_grad()
    for i in (0, 4, 8):
        four = slice(i, i + 4)
        scores = model(today[four]) @ model(tomorrow[four]).T
        (F.cross_entropy(scores, torch.arange(4)) / 3).backward()
    assert apart(run.in_parts, flat(model)) < 1e-5


@edits(
    ("one part", "for size in (4, 12)", "for size in (12, 12)"),
    (
        "compared with all",
        "model(second).T\n        labels = torch.arange(len(first))",
        "model(tomorrow).T\n"
        "        labels = (first[:, None] == today).all(2).long().argmax(1)",
    ),
)
def test_a_loss_over_pairs_changes__but_not(snippet, old, new, fails):
    """In one part of 12, or compared with all twelve days, each day meets the
    same others as in the whole.
    """
    fails(test_a_loss_over_pairs_changes, snippet.edit(old, new))


def test_no_label_adds_nothing(snippet, kind=optim.SGD):
    run = snippet.only(*STEP).after("step")
    days = run.days[:4]
    none = (days, torch.full((4,), -100))
    some = (days, torch.tensor([0, 1, 2, 1]))

    def step(*parts):
        model = run.new_model()
        optimizer = kind(model.parameters(), lr=0.1)
        mean = run.big_step(model, optimizer, list(parts))
        return flat(model), mean

    alone, mean = step(some)
    for parts in ((some, none), (none, some), (none, some, none)):
        found, same = step(*parts)
        assert torch.equal(found, alone)
        assert same == mean
    for parts in ((none,), (none, none)):
        found, mean = step(*parts)
        assert (found == 0).all()
        assert mean == 0


def test_no_label_adds_nothing__also_with_adamw(snippet):
    test_no_label_adds_nothing(snippet, optim.AdamW)


@edits(
    (
        "a group without a label",
        " for _, labels in parts) or 1\n",
        " for _, labels in parts) or 0\n",
    ),
    ("a part counts", "(labels != -100).sum().item()", "len(labels)"),
    (
        "a mean over no label",
        'labels, reduction="sum") / total\n',
        "labels) / total\n",
    ),
)
def test_no_label_adds_nothing__but_not_with(snippet, old, new, fails):
    """With `or 0`, a group without any label divides 0 by 0; the others count
    its days, or take a mean of nothing.
    """
    fails(test_no_label_adds_nothing, snippet.edit(old, new))


def test_bfloat16_parts_lose_digits(snippet, dtype=torch.bfloat16):
    run = snippet.only(*TOOLS, "step").after("cut")
    for seed in range(3):
        torch.manual_seed(seed)
        days = torch.randn(1024, 3).to(dtype)
        labels = torch.randint(3, (1024,))
        model = run.new_model().to(dtype)
        optimizer = optim.SGD(model.parameters(), lr=0.0)
        mean = run.big_step(model, optimizer, run.cut(days, labels, 1))
        found = flat(model)
        whole = run.big_step(model, optimizer, [(days, labels)])
        assert mean < whole / 2
        assert apart(found, flat(model)) > 0.05


def test_bfloat16_parts_lose_digits__but_not_added_in_float32(snippet, fails):
    """Added up in a `float32` tensor, the mean loss comes out right."""
    edited = snippet.edit(
        "    mean = 0.0\n",
        "    mean = torch.zeros(())\n",
    )
    fails(test_bfloat16_parts_lose_digits, edited)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bfloat16_parts_lose_digits__ends_in(snippet, dtype, fails):
    """In `float32` or `float64`: the same parts add up to the mean loss."""
    fails(test_bfloat16_parts_lose_digits, snippet, dtype)


def test_float32_sums_keep_the_digits(snippet, dtype=torch.float32, seed=0):
    run = snippet.only(*TOOLS).after("cut")
    torch.manual_seed(seed)
    days = torch.randn(1024, 3).bfloat16()
    labels = torch.randint(3, (1024,))
    model = run.new_model().bfloat16()
    found = 0
    for part in run.cut(days, labels, 1):
        found = found + run.gradient(model, [part], [1 / 1024]).to(dtype)
    whole = run.gradient(model, [(days, labels)], [1])
    assert whole.dtype == torch.bfloat16
    assert apart(found, whole) < 0.01


def test_float32_sums_keep_the_digits__but_not_without_a_reset(snippet, fails):
    """Without `zero_grad()`, the gradients of earlier parts are added
    again.
    """
    edited = snippet.edit(
        "    model.zero_grad()\n    for (inputs, labels), share",
        "    for (inputs, labels), share",
    )
    fails(test_float32_sums_keep_the_digits, edited)


def test_float32_sums_keep_the_digits__also_from_another_start(snippet):
    test_float32_sums_keep_the_digits(snippet, seed=1)


def test_float32_sums_keep_the_digits__ends_in_bfloat16(snippet, fails):
    """Added in `bfloat16`: the same gradients are several percent off."""
    fails(test_float32_sums_keep_the_digits, snippet, torch.bfloat16)


# %% the source


def test_one_equals_sign_is_an_error(
    snippet, line="if (i+1) % 2 == 0 or (i+1) = len(data):"
):
    """The tip's line, to which a body is added, is no part of the snippet."""
    with pytest.raises(SyntaxError):
        compile(f"{line} pass", str(snippet.path), "exec")


def test_one_equals_sign_is_an_error__but_not_two(snippet, fails):
    """With `==` in place of `=`, Python accepts the line."""
    line = "if (i+1) % 2 == 0 or (i+1) == len(data):"
    fails(test_one_equals_sign_is_an_error, snippet, line)
