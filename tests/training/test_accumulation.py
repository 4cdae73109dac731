"""The claims of docs/training/accumulation.md."""

import copy
import functools
import weakref
from itertools import islice

import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import compiled, printed
from tests.helpers.worlds import MODELS, each

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-12, torch.bfloat16: 0.02}
MOMENTUM = functools.partial(optim.SGD, momentum=0.9)
DECAY = functools.partial(optim.SGD, weight_decay=0.3)


def apart(found, right):
    """Return how far two gradients are apart, relative to the right one."""
    return ((found - right).norm() / right.norm()).item()


def flat(model):
    """Return all gradients of a model as one."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return torch.cat([each.flatten() for each in gradients])


def small(layer=None):
    """Return a model of three numbers, as that of the page."""
    torch.manual_seed(3)
    layers = [nn.Linear(3, 16), layer or nn.Identity(), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(16, 3))


def samples(count, dtype=torch.float32):
    """Return that many samples of three numbers, with their labels."""
    torch.manual_seed(0)
    inputs = torch.randn(count, 3)
    labels = (2 * inputs + torch.randn(count, 3)).argmax(dim=1)
    return inputs.to(dtype), labels


def executed(snippet, name, model, optimizer, **given):
    """Run a cell on another model, and return its variables and the
    gradients that each step finds.
    """
    seen = []

    def note(*_):
        seen.append(flat(model))

    variables = {"F": F, "torch": torch, "islice": islice, "model": model}
    hook = optimizer.register_step_pre_hook(note)
    with no_error():
        exec(
            compiled(snippet.cells()[name], snippet.path),
            {**variables, "optimizer": optimizer, **given},
            found := {},
        )
    hook.remove()
    return found, seen


def whole_gradient(model, inputs, labels, loss=F.cross_entropy):
    """Return the gradients of the mean loss over a whole batch."""
    model.zero_grad()
    loss(model(inputs), labels).backward()
    found = flat(model)
    model.zero_grad()
    return found


# Models that treat each sample by itself, and layers that don't.
SAME = {
    "LayerNorm": lambda: small(nn.LayerNorm(16)),
    "GroupNorm": lambda: small(nn.GroupNorm(4, 16)),
    "BatchNorm in evaluation mode": lambda: small(nn.BatchNorm1d(16)).eval(),
    "Dropout in that mode": lambda: small(nn.Dropout(0.5)).eval(),
    "a tied weight": MODELS["tied"],
    "a frozen layer": MODELS["frozen in part"],
}
DIFFERENT = {
    "BatchNorm": lambda: small(nn.BatchNorm1d(16)),
    "Dropout": lambda: small(nn.Dropout(0.5)),
}


# %% the loop


def test_parts_give_the_gradient_of_the_whole(
    snippet,
    make=small,
    counts=(100, 97),
    kind=optim.SGD,
    dtype=torch.float32,
    change=lambda labels: labels,
):
    tolerance = TOLERANCE[dtype]
    model = make().to(dtype)
    model(samples(9, dtype)[0]).sum().backward()  # an old gradient
    optimizer = kind(model.parameters(), lr=0.1)
    reference = copy.deepcopy(model)
    twin = kind(reference.parameters(), lr=0.1)
    for count in counts:
        inputs, labels = samples(count, dtype)
        labels = change(labels)
        loader = [(inputs, labels)]
        run, seen = executed(
            snippet, "do-this", model, optimizer, loader=loader
        )

        twin.zero_grad()
        loss = F.cross_entropy(reference(inputs), labels)
        loss.backward()
        twin.step()
        assert len(seen) == 1
        assert apart(seen[0], flat(reference)) < tolerance
        assert run["batch_loss"] == pytest.approx(loss.item(), rel=tolerance)
        for p, other in zip(
            model.parameters(), reference.parameters(), strict=True
        ):
            torch.testing.assert_close(p, other, rtol=1e-3, atol=tolerance)


@pytest.mark.parametrize(
    "counts", [(10, 25), (26, 51), (1, 300)], ids="batches of {}".format
)
def test_parts_give_the_gradient_of_the_whole__also_in(snippet, counts):
    test_parts_give_the_gradient_of_the_whole(snippet, counts=counts)


@pytest.mark.parametrize(
    "options",
    [
        {"kind": MOMENTUM},
        {"kind": DECAY},
        {"kind": optim.AdamW, "dtype": torch.float64},
    ],
    ids=["momentum", "weight decay", "AdamW in float64"],
)
def test_parts_give_the_gradient_of_the_whole__also_with(snippet, options):
    test_parts_give_the_gradient_of_the_whole(snippet, **options)


@each("make", SAME)
def test_parts_give_the_gradient_of_the_whole__also_for_a_model_with(
    snippet, make
):
    test_parts_give_the_gradient_of_the_whole(snippet, make)


SUM = (
    '        loss = F.cross_entropy(model(x), y, reduction="sum")'
    " / len(labels)\n        loss.backward()  # adds"
)


def test_parts_give_the_gradient_of_the_whole__also_moved_part_by_part(
    snippet,
):
    moved, alive = [], []

    def to_device(tensor):
        copied = tensor.clone()
        moved.append(weakref.ref(copied))
        alive.append(sum(ref() is not None for ref in moved))
        return copied

    model = small()
    executed(
        snippet.edit(SUM, f"        x, y = to_device(x), to_device(y)\n{SUM}"),
        "do-this",
        model,
        optim.SGD(model.parameters(), lr=0.0),
        loader=[samples(100)],
        to_device=to_device,
    )
    assert alive == [1, 2] * 4


class Attention(nn.Module):
    """A model that mixes the three numbers of a sample."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.mix = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, inputs):
        """Return the scores of three labels."""
        tokens = inputs[..., None].expand(-1, -1, 8) * torch.arange(8)
        return self.last(self.mix(tokens, tokens, tokens)[0].mean(dim=1))


def test_parts_give_the_gradient_of_the_whole__also_with_attention(snippet):
    test_parts_give_the_gradient_of_the_whole(snippet, Attention)


def test_parts_give_the_gradient_of_the_whole__ends_with_adamw_for_noise(
    snippet, fails
):
    """With AdamW, a weight whose gradient is only rounding noise moves at
    random: that of the keys' bias in attention, which changes no output.
    """
    options = snippet, Attention, (100,), optim.AdamW
    fails(test_parts_give_the_gradient_of_the_whole, *options)


def some_ignored(labels):
    """Ignore each seventh label."""
    labels[::7] = -100
    return labels


@each("make", DIFFERENT)
def test_parts_give_the_gradient_of_the_whole__ends_in_training_mode_with(
    snippet, make, fails
):
    """With BatchNorm or dropout in training mode, parts compute something
    else.
    """
    fails(test_parts_give_the_gradient_of_the_whole, snippet, make)


def test_parts_give_the_gradient_of_the_whole__ends_for_ignored_labels(
    snippet, fails
):
    """With ignored labels, `len(labels)` counts too many."""
    options = snippet, small, (100,), optim.SGD, torch.float32, some_ignored
    fails(test_parts_give_the_gradient_of_the_whole, *options)


def test_parts_give_the_gradient_of_the_whole__ends_for_pixels(snippet, fails):
    """With a label per pixel, `len(labels)` counts the images."""

    def make():
        return nn.Sequential(nn.Linear(3, 6), nn.Unflatten(1, (3, 2)))

    def change(labels):
        return labels[:, None].expand(-1, 2)

    options = snippet, make, (100,), optim.SGD, torch.float32, change
    fails(test_parts_give_the_gradient_of_the_whole, *options)


CLEAR = "    optimizer.zero_grad()\n    batch_loss = 0.0\n"
STEP = '    optimizer.step()\nprint(f"loss of'


@edits(
    ("cleared in each part", SUM, f"        optimizer.zero_grad()\n{SUM}"),
    ("never cleared", CLEAR, "    batch_loss = 0.0\n"),
    ("means", SUM, SUM.replace(', reduction="sum"', "")),
    ("not divided", SUM, SUM.replace(" / len(labels)", "")),
    ("divided by 100", SUM, SUM.replace("len(labels)", "100")),
    ("a step for each part", STEP, f"    {STEP}"),
    ("another loss", "batch_loss += loss", "batch_loss = loss"),
)
def test_parts_give_the_gradient_of_the_whole__but_not(
    snippet, old, new, fails
):
    """Cleared in each part, only the last one counts, and never cleared, old
    gradients do; a smaller batch needs a smaller divisor.
    """
    fails(test_parts_give_the_gradient_of_the_whole, snippet.edit(old, new))


# %% ten lines


def test_weighted_parts_equal_the_batch(
    snippet,
    make=small,
    count=57,
    sizes=(1, 20, 56, 57, 99),
    dtype=torch.float32,
    change=lambda labels: labels,
    loss=F.cross_entropy,
    kind=optim.SGD,
):
    run = snippet.only("digits", "by-hand").after("by-hand")
    inputs, labels = samples(count, dtype)
    labels = change(labels)
    model = make().to(dtype)
    optimizer = kind(model.parameters(), lr=0.1)
    for size in sizes:
        right = whole_gradient(model, inputs, labels, loss)
        with no_error():
            sums = run.gradients_in_parts(model, inputs, labels, size)
        found = torch.cat([each.flatten() for each in sums])
        assert found.dtype == dtype
        assert apart(found, right) < TOLERANCE[dtype]
        if size >= count:
            assert found.equal(right)
        for p, gradient in zip(model.parameters(), sums, strict=True):
            p.grad = gradient
        optimizer.step()


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(1, (1, 2)), (12, (5, 1)), (100, (25, 40))],
    ids=["one sample", "12 samples", "100 samples"],
)
def test_weighted_parts_equal_the_batch__also_for(snippet, count, sizes):
    test_weighted_parts_equal_the_batch(snippet, small, count, sizes)


@each(
    "make",
    SAME,
    *("LayerNorm", "BatchNorm in evaluation mode", "a tied weight"),
)
def test_weighted_parts_equal_the_batch__also_for_a_model_with(snippet, make):
    test_weighted_parts_equal_the_batch(snippet, make)


@pytest.mark.parametrize(
    "options",
    [{"dtype": torch.float64}, {"kind": optim.AdamW}, {"kind": MOMENTUM}],
    ids=["float64", "steps of AdamW", "steps with momentum"],
)
def test_weighted_parts_equal_the_batch__also_with(snippet, options):
    test_weighted_parts_equal_the_batch(snippet, **options)


def test_weighted_parts_equal_the_batch__also_as_compared(snippet):
    run = snippet.only("digits", "by-hand", "compare").after("compare")
    start = run.new_model().parameters()
    trained = run.whole.parameters(), run.in_parts.parameters()
    for old, p, other in zip(start, *trained, strict=True):
        assert (p - old).abs().max() > 0.1
        assert (p - other).abs().max() < 5e-5
        assert (p.grad - other.grad).abs().max() < 5e-5
    assert 0 <= run.apart < 5e-5
    assert 0 <= run.grads_apart < 5e-5


def test_weighted_parts_equal_the_batch__also_walked_by_hand(snippet):
    snippet.only("digits", "walk").after("walk")
    lines = printed[-1]["walk"].splitlines()
    assert [line.split()[-1] for line in lines] == ["-6.0", "-8.0", "-16.0"]


class WithSpare(nn.Module):
    """A model with a layer that its outputs don't depend on."""

    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, inputs):
        """Return what the one layer makes of the inputs."""
        return self.used(inputs)


@pytest.mark.parametrize(
    "make",
    [MODELS["frozen in part"], WithSpare],
    ids=["frozen", "not used"],
)
def test_weighted_parts_equal_the_batch__ends_if_a_parameter_is(
    snippet, make, fails
):
    """If a parameter is frozen or not used, line 3 raises an error."""
    fails(test_weighted_parts_equal_the_batch, snippet, make)


@each("make", DIFFERENT)
def test_weighted_parts_equal_the_batch__ends_in_training_mode_with(
    snippet, make, fails
):
    """BatchNorm normalizes each part by itself, and dropout draws different
    numbers.
    """
    fails(test_weighted_parts_equal_the_batch, snippet, make, 57, (20,))


def test_weighted_parts_equal_the_batch__ends_for_ignored_labels(
    snippet, fails
):
    """If the loss ignores some labels, line 4 counts too many."""
    options = small, 57, (20,), torch.float32, some_ignored
    fails(test_weighted_parts_equal_the_batch, snippet, *options)


def test_weighted_parts_equal_the_batch__ends_for_a_loss_over_pairs(
    snippet, fails
):
    """A contrastive loss compares each sample with those of its part."""

    def loss(scores, _):
        return F.cross_entropy(scores @ scores.T, torch.arange(len(scores)))

    pairs = "F.cross_entropy((s := model(x)) @ s.T, torch.arange(len(x)))  # 2"
    edited = snippet.edit("F.cross_entropy(model(x), y)  # 2", pairs)
    test_weighted_parts_equal_the_batch(edited, sizes=(57,), loss=loss)
    options = small, 56, (28,), torch.float32, lambda labels: labels, loss
    fails(test_weighted_parts_equal_the_batch, edited, *options)


def test_weighted_parts_equal_the_batch__ends_in_bfloat16(snippet, fails):
    """In `bfloat16`, the sums of 1,024 parts are about a tenth off."""
    options = small, 1024, (1,), torch.bfloat16
    fails(test_weighted_parts_equal_the_batch, snippet, *options)


@edits(
    ("1", "[0.0] * len", "[1.0] * len"),
    ("2", "y)  # 2", 'y, reduction="sum")  # 2'),
    ("3", "grad(loss, parameters)  # 3", "grad(loss.log(), parameters)  # 3"),
    ("4", "len(y) / len(labels)  # 4", "1  # 4"),
    (
        "4, by the number of parts",
        "len(y) / len(labels)  # 4",
        "1 / len(labels.split(size))  # 4",
    ),
    ("5", "sums[i] + share", "share"),
)
def test_weighted_parts_equal_the_batch__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each numbered line counts: with the number of parts in line 4, a
    smaller last part counts too much, and without the sum in line 5, only
    that one counts.
    """
    fails(test_weighted_parts_equal_the_batch, snippet.edit(old, new))


# %% memory

MEMORY = ("digits", "kept")


def test_a_part_keeps_its_share(snippet, parts=(2, 4, 16, 64), width=4):
    run = snippet.only(*MEMORY).after("kept")

    weights = sum(p.nbytes for p in run.new_model().parameters()) / 1000
    whole, held = run.memory(1)
    assert whole >= 1600 * width * (64 + 32 + 10) / 1000
    for n in parts:
        kept, fixed = run.memory(n)
        assert kept == pytest.approx(whole / n, rel=0.01)
        assert fixed == held == pytest.approx(4 * weights)


def test_a_part_keeps_its_share__ends_under_autocast(snippet, fails):
    """Under `autocast`, its copies of the weights stay beside each part."""
    step = "kept = most_kept(model, step)"
    cast = "kept = torch.autocast('cpu')(most_kept)(model, step)"
    edited = snippet.edit(step, cast)
    fails(test_a_part_keeps_its_share, edited, (2, 64), 2)


@edits(
    (
        "graphs that are kept",
        "/ 1600\n            loss.backward()",
        "/ 1600\n            held.append(loss)\n"
        "            loss.backward(retain_graph=True)",
    ),
    ("one part", "for x, y in zip(*parts, strict=True)", "for x, y in [many]"),
)
def test_a_part_keeps_its_share__but_not_with(snippet, old, new, fails):
    """With `retain_graph=True` and losses that are kept, nothing is freed; a
    batch in one part isn't cut.
    """
    edited = snippet.edit(old, new)
    edited = edited.edit(
        "    def step():\n", "    held = []\n\n    def step():\n"
    )
    fails(test_a_part_keeps_its_share, edited)


# %% the division


def test_undivided_is_n_times_as_large(
    snippet, size=25, kind=optim.SGD, lr=0.2
):
    run = snippet.only("digits", "train", "accumulated").after("accumulated")
    for inputs, labels in (run.digits[:100], samples(100)):
        model = small() if inputs.shape[1] == 3 else run.new_model()
        right = whole_gradient(model, inputs, labels)
        batch = model, inputs, labels, F.cross_entropy
        found = run.accumulated(*batch, size)
        assert apart(found, len(labels.split(size)) * right) < 1e-5
    # Batches of 97 digits, the last, are cut into four parts, too.
    undivided, faster = run.train(kind, lr, 1), run.train(kind, 4 * lr, 4)
    assert undivided == pytest.approx(faster, rel=1e-4)


@pytest.mark.parametrize("size", [1, 10, 50])
def test_undivided_is_n_times_as_large__also_in_parts_of(snippet, size):
    test_undivided_is_n_times_as_large(snippet, size)


def test_undivided_is_n_times_as_large__also_with_momentum(snippet):
    test_undivided_is_n_times_as_large(snippet, 25, MOMENTUM, 0.01)


def test_undivided_is_n_times_as_large__ends_for_unequal_parts(snippet, fails):
    """Parts of 40, 40 and 20 add up to something else."""
    fails(test_undivided_is_n_times_as_large, snippet, 40)


@pytest.mark.parametrize("kind", [DECAY, optim.AdamW])
def test_undivided_is_n_times_as_large__ends_as_a_rate_with(
    snippet, kind, fails
):
    """With weight decay or AdamW, n times the gradient is not n times the
    rate.
    """
    fails(test_undivided_is_n_times_as_large, snippet, 25, kind, 0.05)


@edits(
    ("divided", "loss_of(model(x), y).b", "(loss_of(model(x), y) / 4).b"),
    ("divided in the training", "y) / divisor", "y) / 4"),
)
def test_undivided_is_n_times_as_large__but_not(snippet, old, new, fails):
    """Divided by the number of parts, the means add up to the gradient of the
    whole batch.
    """
    fails(test_undivided_is_n_times_as_large, snippet.edit(old, new))


def test_adamw_hides_the_factor(snippet, lrs=(0.01,)):
    run = snippet.only("digits", "train", "undivided").after("undivided")
    for lr in lrs:
        right, wrong = run.train(run.adamw, lr, 4), run.train(run.adamw, lr, 1)
        assert right == pytest.approx(wrong, rel=1e-3)
        assert right < 2
    assert run.right == pytest.approx(run.wrong, rel=1e-3)


def test_adamw_hides_the_factor__also_at_another_rate(snippet):
    test_adamw_hides_the_factor(snippet, (0.003,))


def test_adamw_hides_the_factor__ends_for_tiny_gradients(snippet, fails):
    """With a millionth of the loss, gradients are as small as the `eps` that
    AdamW adds to its divisor.
    """
    edited = snippet.edit("y) / divisor", "y) / divisor * 1e-6")
    fails(test_adamw_hides_the_factor, edited)


def test_adamw_hides_the_factor__ends_with_clipping(snippet, fails):
    """If gradients are clipped, more of the undivided ones are."""
    step = "                loss.backward()\n            optimizer.step()\n"
    clip = "            nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n"
    edited = snippet.edit(step, f"{step[:32]}{clip}{step[32:]}")
    fails(test_adamw_hides_the_factor, edited)


def test_adamw_hides_the_factor__but_not_with_sgd(snippet, fails):
    """SGD moves four times as far with four times the gradient."""
    adamw = "torch.optim.SGD, torch.optim.AdamW\nfor"
    edited = snippet.edit(adamw, adamw.replace("AdamW", "SGD"))
    fails(test_adamw_hides_the_factor, edited)


# %% the last group

EVERY = "        if i % 4 == 0:\n"
LAST = "        if i % 4 == 0 or i == len(part_loader):\n"


def parts_of(sizes):
    """Return batches of these sizes."""
    inputs, labels = samples(sum(sizes))
    parts = inputs.split(sizes), labels.split(sizes)
    return list(zip(*parts, strict=True))


def epochs(snippet, sizes, kind=optim.SGD):
    """Run the loop for two epochs, at a rate of 0."""
    model = small()
    model(samples(9)[0]).sum().backward()
    parts, optimizer = parts_of(sizes), kind(model.parameters(), lr=0.0)
    run, seen = executed(
        snippet, "common-loop", model, optimizer, part_loader=parts
    )
    return run["left_over"], parts, seen


def test_the_rest_leaks(snippet, sizes=(20,) * 9 + (17,), kind=optim.SGD):
    run = snippet.only("digits", "do-this", "common-loop").after("common-loop")
    assert (run.i, run.steps) == (90, 22)
    assert run.left_over

    left_over, parts, seen = epochs(snippet, sizes, kind)
    n = len(sizes)
    said = f"{n} parts, gradients left over: "
    assert f"{said}{left_over}" == f"{said}True"
    shares = [whole_gradient(small(), *part) / 4 for part in parts]
    assert len(seen) == 2 * (n // 4)
    assert apart(seen[0], sum(shares[:4])) < 1e-5
    rest = sum(shares[n - n % 4 :])
    assert apart(seen[n // 4], sum(shares[:4]) + rest) < 1e-5


@pytest.mark.parametrize("count", [5, 7], ids="{} parts".format)
def test_the_rest_leaks__also_for(snippet, count):
    test_the_rest_leaks(snippet, (20,) * count)


def test_the_rest_leaks__also_with_adamw(snippet):
    test_the_rest_leaks(snippet, kind=optim.AdamW)


def test_the_rest_leaks__ends_if_the_loader_drops_them(snippet, fails):
    """With eight parts, two full groups, nothing is left over."""
    fails(test_the_rest_leaks, snippet, (20,) * 8)


def test_the_rest_leaks__but_not_with_a_divisor_of_its_own(snippet, fails):
    """With a step after the last part, and a division by two there, the rest
    counts too.
    """
    edited = snippet.edit(EVERY, LAST).edit(
        "F.cross_entropy(model(x), y) / 4\n        loss",
        "F.cross_entropy(model(x), y) / (4 if i <= 88 else 2)\n        loss",
    )
    fails(test_the_rest_leaks, edited)


def test_the_rest_leaks__but_not_cleared_in_each_epoch(snippet, fails):
    """Cleared at the start of each epoch, the rest is lost, but does not
    leak.
    """
    edited = snippet.edit(
        "    steps = 0\n", "    steps = 0\n    optimizer.zero_grad()\n"
    )
    fails(test_the_rest_leaks, edited)


def test_a_short_group_is_too_weak(
    snippet, sizes=(20,) * 9 + (17,), tolerance=0.1, divided=4
):
    *_, seen = epochs(snippet.edit(EVERY, LAST), sizes)
    j = len(sizes) % 4
    assert len(seen) == 2 * (len(sizes) // 4 + 1)
    inputs, labels = samples(sum(sizes))
    first = sum(sizes[:-j])
    right = whole_gradient(small(), inputs[first:], labels[first:])
    assert apart(seen[-1], j / divided * right) < tolerance


@pytest.mark.parametrize("count", [6, 7, 9], ids="{} equal parts".format)
def test_a_short_group_is_too_weak__also_exactly_for(snippet, count):
    test_a_short_group_is_too_weak(snippet, (20,) * count, 1e-5)


def test_a_short_group_is_too_weak__ends_if_the_last_part_is_tiny(
    snippet, fails
):
    """If the very last part has one sample, it counts as much as the one
    before.
    """
    fails(test_a_short_group_is_too_weak, snippet, (20,) * 9 + (1,))


def test_a_short_group_is_too_weak__but_not_divided_by_its_number(
    snippet, fails
):
    """Divided by two, the last two parts step with their whole gradient."""
    edited = snippet.edit(
        "F.cross_entropy(model(x), y) / 4\n        loss",
        "F.cross_entropy(model(x), y) / (4 if i <= 8 else 2)\n        loss",
    )
    fails(test_a_short_group_is_too_weak, edited)


def test_each_group_steps_once(
    snippet,
    sizes=(20,) * 9 + (17,),
    kind=optim.SGD,
    change=lambda labels: labels,
):
    run = snippet.only("digits", "do-this", "groups").after("groups")
    assert run.count == 37

    model = small()
    model(samples(9)[0]).sum().backward()
    inputs, labels = samples(sum(sizes))
    labels = change(labels)
    pairs = inputs.split(sizes), labels.split(sizes)
    parts = list(zip(*pairs, strict=True))
    optimizer = kind(model.parameters(), lr=0.0)
    _, seen = executed(snippet, "groups", model, optimizer, part_loader=parts)
    groups = [sum(sizes[i : i + 4]) for i in range(0, len(sizes), 4)]
    assert len(seen) == len(groups)
    pairs = zip(inputs.split(groups), labels.split(groups), strict=True)
    for found, pair in zip(seen, pairs, strict=True):
        assert apart(found, whole_gradient(small(), *pair)) < 1e-5


@pytest.mark.parametrize(
    "sizes", [(20,) * 8, (5, 1, 9), (1,) * 5], ids="parts of {}".format
)
def test_each_group_steps_once__also_for(snippet, sizes):
    test_each_group_steps_once(snippet, sizes)


def test_each_group_steps_once__also_with_adamw(snippet):
    test_each_group_steps_once(snippet, kind=optim.AdamW)


def test_each_group_steps_once__ends_for_ignored_labels(snippet, fails):
    """If the loss ignores some labels, `len(y)` counts too many."""
    inputs = snippet, (20,) * 9 + (17,), optim.SGD, some_ignored
    fails(test_each_group_steps_once, *inputs)


def test_each_group_steps_once__also_for_ignored_labels(snippet):
    edited = snippet.edit(
        "sum(len(y) for _, y in parts)",
        "sum((y != -100).sum() for _, y in parts)",
    )
    sizes = (20,) * 9 + (17,)
    test_each_group_steps_once(edited, sizes, optim.SGD, some_ignored)


GROUP_SUM = 'y, reduction="sum") / count\n'


@edits(
    ("the mean of means", GROUP_SUM, "y) / len(parts)\n"),
    ("divided by 4", GROUP_SUM, "y) / 4\n"),
    ("groups of 3", "islice(batches, 4)", "islice(batches, 3)"),
    (
        "the rest left out",
        "    count = sum(",
        "    if len(parts) < 4:\n        break\n    count = sum(",
    ),
)
def test_each_group_steps_once__but_not_with(snippet, old, new, fails):
    """The mean of the parts' means counts a smaller part too much; with the
    `break`, the rest gets no step.
    """
    fails(test_each_group_steps_once, snippet.edit(old, new))


# %% labels

COUNTS = ("(labels != -100).sum()", "weight[labels].sum()", "labels.numel()")


def test_count_what_the_mean_divides_by(
    snippet, counts=COUNTS, weight=(1.0, 5.0, 0.3), last=95, smoothing=0.0
):
    run = snippet.only("digits", "accumulated", "ignored").after("ignored")
    batch = run.images, run.some_labels
    right = whole_gradient(run.new_model(), *batch)
    for name, loss_of in run.ways.items():
        found = run.accumulated(run.new_model(), *batch, loss_of)
        assert (apart(found, right) < 1e-5) == (name == "sum / 65")

    inputs, labels = samples(100)
    ignored = labels.clone()
    ignored[60:last] = -100
    plain = {"label_smoothing": smoothing}
    weighted = {"weight": torch.tensor(weight), **plain}
    for count, name, targets, given in (
        (counts[0], "cross_entropy", ignored, plain),
        (counts[1], "cross_entropy", labels, weighted),
        (
            "weight[labels[labels != -100]].sum()",
            "cross_entropy",
            ignored,
            weighted,
        ),
        (counts[2], "mse_loss", torch.randn(100, 3), {}),
    ):
        call = SUM.replace("len(labels)", count)
        call = call.replace("cross_entropy", name)
        call = call.replace("y, r", "y, **given, r")
        variables = {"loader": [(inputs, targets)], "given": given, **given}
        model = small()
        _, seen = executed(
            snippet.edit(SUM, call),
            "do-this",
            model,
            optim.SGD(model.parameters(), lr=0.0),
            **variables,
        )
        mean = functools.partial(getattr(F, name), **given)
        right = whole_gradient(model, inputs, targets, mean)
        assert apart(seen[0], right) < 1e-5


def test_count_what_the_mean_divides_by__also_with_small_weights(snippet):
    weight = 0.01, 0.05, 0.003
    test_count_what_the_mean_divides_by(snippet, weight=weight)


def test_count_what_the_mean_divides_by__also_with_label_smoothing(snippet):
    test_count_what_the_mean_divides_by(snippet, smoothing=0.1)


def test_count_what_the_mean_divides_by__also_if_a_part_has_no_label(snippet):
    test_count_what_the_mean_divides_by(snippet, last=100)


def test_count_what_the_mean_divides_by__also_for_sequences(snippet):
    model = nn.Conv1d(3, 3, 1)
    inputs, labels = torch.randn(60, 3, 7), torch.randint(3, (60, 7))
    labels[::3, 2:] = -100
    call = SUM.replace("len(labels)", COUNTS[0])
    _, seen = executed(
        snippet.edit(SUM, call),
        "do-this",
        model,
        optim.SGD(model.parameters(), lr=0.0),
        loader=[(inputs, labels)],
    )
    assert apart(seen[0], whole_gradient(model, inputs, labels)) < 1e-5


def test_count_what_the_mean_divides_by__also_clamped_if_weights_are_small(
    snippet,
):
    counts = COUNTS[0], f"{COUNTS[1]}.clamp(min=1e-9)", COUNTS[2]
    weight = 0.001, 0.005, 0.0003
    test_count_what_the_mean_divides_by(snippet, counts, weight)
    counts = COUNTS[0], f"{COUNTS[1]}.clamp(min=1)", COUNTS[2]
    with pytest.raises(AssertionError):
        test_count_what_the_mean_divides_by(snippet, counts, weight)


def test_count_what_the_mean_divides_by__also_clamped(snippet):
    losses = []
    weights = "weight[labels[labels != -100]].sum()"
    for count in (
        f"{COUNTS[0]}.clamp(min=1)",
        f"{weights}.clamp(min=1e-9)",
        COUNTS[0],
        weights,
    ):
        call = SUM.replace("len(labels)", count)
        model = small()
        run, seen = executed(
            snippet.edit(SUM, call),
            "do-this",
            model,
            optim.SGD(model.parameters(), lr=0.0),
            loader=[(samples(40)[0], torch.full((40,), -100))],
            weight=torch.ones(3),
        )
        losses.append(str(run["batch_loss"]))
        assert seen[0].eq(0).all()
    assert losses == ["0.0", "0.0", "nan", "nan"]


@pytest.mark.parametrize(
    "counts",
    [
        ("len(labels)", *COUNTS[1:]),
        (COUNTS[0], "len(labels)", COUNTS[2]),
        (*COUNTS[:2], "len(labels)"),
    ],
    ids=["ignored labels", "class weights", "mse_loss"],
)
def test_count_what_the_mean_divides_by__but_not_by_samples_with(
    snippet, counts, fails
):
    """`len(labels)` counts ignored labels, forgets the weights, and counts
    rows of targets.
    """
    fails(test_count_what_the_mean_divides_by, snippet, counts)


def test_count_what_the_mean_divides_by__but_not_by_all_100(snippet, fails):
    """Divided by all 100, the sum over 65 labels is too small."""
    edited = snippet.edit("(some_labels != -100).sum()", "100")
    fails(test_count_what_the_mean_divides_by, edited)


# %% BatchNorm

NORMS = ("digits", "accumulated", "norms")


def test_batch_norm_sees_the_parts(snippet, others=(), norm=None):
    run = snippet.only(*NORMS).after("norms")
    batch = run.images, run.labels

    def distance(norm):
        model = run.new_model(norm)
        right = whole_gradient(model, *batch)
        found = run.accumulated(
            model, *batch, lambda scores, y: F.cross_entropy(scores, y) / 4
        )
        return apart(found, right)

    first, frozen, *rest = run.norms
    assert type(first) is type(frozen) is nn.BatchNorm1d
    assert [type(each) for each in rest] == [nn.GroupNorm, nn.LayerNorm]
    assert distance(norm or first) > 0.1
    for other in (frozen, *rest, *others):
        assert distance(other) < 1e-5


def test_batch_norm_sees_the_parts__also_for_other_groups(snippet):
    groups = nn.GroupNorm(1, 32), nn.GroupNorm(32, 32), nn.RMSNorm(32)
    test_batch_norm_sees_the_parts(snippet, groups)


def test_batch_norm_sees_the_parts__also_without_running_statistics(snippet):
    norm = nn.BatchNorm1d(32, track_running_stats=False)
    test_batch_norm_sees_the_parts(snippet, norm=norm)


@edits(
    ("in evaluation mode", "[nn.BatchNorm1d(32), f", "[frozen, f"),
    ("frozen again", "nn.BatchNorm1d(32).eval()", "nn.BatchNorm1d(32)"),
)
def test_batch_norm_sees_the_parts__but_not(snippet, old, new, fails):
    """In evaluation mode, BatchNorm uses its running statistics; without
    `eval()`, it normalizes each part again.
    """
    fails(test_batch_norm_sees_the_parts, snippet.edit(old, new))


# %% clipping and schedules

CLIP = ("digits", "accumulated", "clip")


def test_clip_after_the_last_part(snippet, limits=(0.01, 0.1, 0.5, 9.0)):
    run = snippet.only(*CLIP).after("clip")
    right = whole_gradient(run.new_model(), run.images, run.labels)
    for limit in limits:
        share = min(1, limit / right.norm().item())
        assert apart(run.clipped(False, limit), share * right) < 1e-4
    assert apart(run.clipped(True), 0.1 / right.norm() * right) > 0.1


CALL = "    nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n    return"


@edits(
    ("in each part", "        if each_part:  # wrong\n", "        if True:\n"),
    ("unclipped", CALL, "    return"),
    ("by value", CALL, CALL.replace("norm_", "value_")),
)
def test_clip_after_the_last_part__but_not(snippet, old, new, fails):
    """Clipped in each part, the sum points elsewhere; without the last call,
    nothing is clipped; and by value, each number is, not the norm.
    """
    fails(test_clip_after_the_last_part, snippet.edit(old, new))


def test_a_schedule_per_part_ends_early(snippet, steps=20):
    run = snippet.only("digits", "rates").after("rates")
    found = run.rates(4, steps)
    end = steps // 4
    assert len(found) == steps
    assert found[end] == pytest.approx(0, abs=1e-9)
    assert min(found[:end]) > 0.0001
    rise = found[end : 2 * end + 1]
    assert rise == sorted(rise)
    assert rise[-1] == pytest.approx(0.1)


def test_a_schedule_per_part_ends_early__also_for_80_steps(snippet):
    test_a_schedule_per_part_ends_early(snippet, 80)


@edits(
    ("once a step", "in range(calls_per_step)", "in range(1)"),
    ("T_max in parts", "(optimizer, steps)", "(optimizer, 4 * steps)"),
    (
        "a linear schedule",
        "CosineAnnealingLR(optimizer, steps)",
        "LinearLR(optimizer, 1.0, 0.0, steps)",
    ),
)
def test_a_schedule_per_part_ends_early__but_not(snippet, old, new, fails):
    """Called once for each step, or with `T_max` counted in parts, it ends on
    time; and `LinearLR` does not rise again.
    """
    fails(test_a_schedule_per_part_ends_early, snippet.edit(old, new))


# %% one backward for all


def test_at_once_keeps_all_parts(snippet, sizes=(100, 400)):
    run = snippet.only(*MEMORY, "at-once").after("at-once")
    whole, _ = run.memory(1)
    for size in sizes:
        model = run.new_model()

        def step(model=model, size=size):
            run.at_once(model, *run.many, size)

        kept = run.most_kept(model, step)
        assert kept / 1000 == pytest.approx(whole, rel=0.01)
        right = whole_gradient(run.new_model(), *run.many)
        assert apart(flat(model), right) < 1e-4


def test_at_once_keeps_all_parts__also_in_parts_of_10(snippet):
    test_at_once_keeps_all_parts(snippet, (10,))


def test_at_once_keeps_all_parts__but_not_with_a_backward_for_each(
    snippet, fails
):
    """With a `backward()` for each part, autograd keeps one part at once."""
    edited = snippet.edit(
        "        losses.append(loss)\n", "        loss.backward()\n"
    )
    edited = edited.edit("    sum(losses).backward()\n", "")
    fails(test_at_once_keeps_all_parts, edited)
