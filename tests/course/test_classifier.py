"""The claims of docs/course/classifier.md."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import after

DATA = "so-far", "parts", "model"
TRAIN = *DATA, "accuracy", "train"
FIRST = *DATA, "start-again"
UNTRAINED = *DATA, "accuracy", "start-again", "untrained"
BACKWARD = *UNTRAINED, "backward"
STEP = *BACKWARD, "step"
NUDGED = *UNTRAINED, "nudged"
MORE = *STEP, "more-steps"
NEAREST = *MORE, "nearest-average"
THREE = *DATA, "by-hand", "surprise"
SOFTMAX = *DATA, "accuracy", "softmax-first"
UNSCALED = *DATA, "not-scaled"

SEEDS = pytest.mark.parametrize("seed", [1, 2, 3], ids="seed {}".format)


def edit_in(snippet, name, old, new):
    """Change one passage of a cell, where other cells hold the same."""
    source = snippet.cell(name).source
    assert source.count(old) == 1
    return snippet.edit(source, source.replace(old, new))


def seeded(snippet, seed, name):
    """Return the program with other parts, and another start of a cell."""
    drawn = "Generator().manual_seed({})".format
    other = snippet.edit(drawn(0), drawn(seed))
    seed_line = "torch.manual_seed({})".format
    return edit_in(other, name, seed_line(0), seed_line(seed))


def right(run, part):
    """Return how many answers to a part are right, without `accuracy`."""
    with torch.no_grad():
        answers = run.model(run.images[part]).argmax(dim=1).tolist()
    pairs = zip(answers, run.labels[part].tolist(), strict=True)
    return sum(answer == label for answer, label in pairs) / len(answers)


def by_hand(run, steps, images=None, change=lambda scores: scores):
    """Compare a model with one that takes the same steps without optimizer."""
    torch.manual_seed(0)
    layer = nn.Linear(64, 10)
    inputs = run.images if images is None else images
    for _ in range(steps):
        scores = layer(inputs[run.train].flatten(1))
        loss = F.cross_entropy(change(scores), run.labels[run.train])
        gradients = torch.autograd.grad(loss, [layer.weight, layer.bias])
        with torch.no_grad():
            for parameter, gradient in zip(
                layer.parameters(), gradients, strict=True
            ):
                parameter -= gradient
    for found, expected in zip(
        run.model.parameters(), layer.parameters(), strict=True
    ):
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)


# Do this


def test_each_picture_is_in_one_part(snippet):
    run = after(snippet, "so-far", "parts")

    parts = [run.train, run.valid, run.test]
    assert [len(part) for part in parts] == [1200, 300, 297]
    assert sorted(torch.cat(parts).tolist()) == list(range(1797))
    assert len(run.images) == len(run.labels) == 1797
    seeded_order = torch.Generator().manual_seed(0)
    assert torch.equal(run.order, torch.randperm(1797, generator=seeded_order))


@edits(
    ("torch.randperm(1797, ", "torch.randint(1797, (1797,), "),
    (
        "order.split([1200, 300, 297])",
        "order[:1200], order[1000:1300], order[1500:]",
    ),
)
def test_each_picture_is_in_one_part__but_not(snippet, old, new, fails):
    """`randint` may draw a picture twice, and slices may overlap."""
    fails(test_each_picture_is_in_one_part, snippet.edit(old, new))


def test_five_steps_beat_guessing(snippet):
    run = after(snippet, *DATA)
    assert right(run, run.valid) < 0.25

    with no_error():
        run = after(snippet, *TRAIN)
    assert right(run, run.valid) > 0.7
    found = run.accuracy(run.model, run.valid)
    assert isinstance(found, float)
    assert found == right(run, run.valid)


@SEEDS
def test_five_steps_beat_guessing__also_from(snippet, seed):
    test_five_steps_beat_guessing(seeded(snippet, seed, "model"))


def test_five_steps_beat_guessing__also_without_an_optimizer(snippet):
    by_hand(after(snippet, *TRAIN), 5)


@edits(
    ("    loss.backward()\n", ""),
    ("    optimizer.step()\n", ""),
    ("loss.backward()", "(-loss).backward()"),
    (
        "optimizer.zero_grad()\n    loss.backward()",
        "loss.backward()\n    optimizer.zero_grad()",
    ),
    ("range(1, 6)", "range(1, 2)"),
    ("labels[train]", "labels[valid].repeat(4)"),
)
def test_five_steps_beat_guessing__but_not(snippet, old, new, fails):
    """Each of the lines is needed, and the labels of the same pictures."""
    fails(test_five_steps_beat_guessing, edit_in(snippet, "train", old, new))


def test_five_steps_beat_guessing__ends_with_a_small_rate(snippet, fails):
    """At a learning rate of 0.01, five steps go almost nowhere."""
    edited = edit_in(snippet, "model", "lr=1.0", "lr=0.01")
    fails(test_five_steps_beat_guessing, edited)


def test_five_steps_beat_guessing__ends_with_a_large_rate(snippet, fails):
    """At a learning rate of 10, each step goes too far."""
    edited = edit_in(snippet, "model", "lr=1.0", "lr=10.0")
    fails(test_five_steps_beat_guessing, edited)


# The model gives ten scores


def weighted_sums(run):
    """Check the scores of some pictures, number by number."""
    counts = [each.numel() for each in run.model.parameters()]
    assert sorted(counts) == [10, 640]
    weight, bias = (each.tolist() for each in run.model.parameters())
    scores = run.model(run.images[run.train[:3]]).tolist()
    for place, found in zip(run.train[:3], scores, strict=True):
        pixels = run.images[place].flatten().tolist()
        for digit in range(10):
            products = map(math.prod, zip(pixels, weight[digit], strict=True))
            expected = sum(products) + bias[digit]
            assert found[digit] == pytest.approx(expected, abs=1e-5)


def test_a_score_is_a_weighted_sum(snippet):
    run = after(snippet, *FIRST)

    weighted_sums(run)
    assert run.scores.shape == (1200, 10)
    expected = run.model(run.images[run.train])
    torch.testing.assert_close(run.scores, expected)


def test_a_score_is_a_weighted_sum__also_after_training(snippet):
    weighted_sums(after(snippet, *TRAIN))


@edits(
    ("nn.Linear(64, 10)", "nn.Linear(64, 10), nn.ReLU()"),
    ("nn.Linear(64, 10)", "nn.Linear(64, 10, bias=False)"),
    ("nn.Linear(64, 10)", "nn.Linear(64, 16), nn.Linear(16, 10)"),
    ("nn.Flatten()", "nn.Flatten(), nn.Softmax(dim=1)"),
    ("model(images[train])", "model(images[valid])"),
)
def test_a_score_is_a_weighted_sum__but_not(snippet, old, new, fails):
    """Another layer changes the scores, and so do other pictures."""
    edited = edit_in(snippet, "start-again", old, new)
    fails(test_a_score_is_a_weighted_sum, edited)


# Softmax turns scores into probabilities


def test_softmax_divides_by_the_sum(snippet, scores=None):
    run = after(snippet, *THREE)
    if scores is None:
        scores, found = run.three_scores, run.probabilities
        torch.testing.assert_close(run.powers / run.powers.sum(), found)
    else:
        found = scores.softmax(dim=0)

    powers = [math.exp(score) for score in scores.tolist()]
    expected = [power / sum(powers) for power in powers]
    assert found.tolist() == pytest.approx(expected)
    assert sum(found.tolist()) == pytest.approx(1)
    assert found.argmax() == scores.argmax()


@pytest.mark.parametrize("count", [1, 2, 10], ids="{} scores".format)
def test_softmax_divides_by_the_sum__also_of(snippet, count):
    torch.manual_seed(0)
    test_softmax_divides_by_the_sum(snippet, 5 * torch.randn(count))


@edits(
    ("= three_scores.softmax(dim=0)", "= three_scores.sigmoid()"),
    ("= three_scores.softmax(dim=0)", "= three_scores / three_scores.sum()"),
    ("= three_scores.softmax(dim=0)", "= (3 * three_scores).softmax(dim=0)"),
    ("three_scores.exp()", "three_scores.exp2()"),
)
def test_softmax_divides_by_the_sum__but_not(snippet, old, new, fails):
    """`sigmoid` looks at each score alone, so the sum is not 1."""
    fails(test_softmax_divides_by_the_sum, snippet.edit(old, new))


# The loss says how surprised the model is


def test_cross_entropy_is_surprise(snippet):
    run = after(snippet, *THREE)

    for label in range(3):
        found = F.cross_entropy(run.three_scores, torch.tensor(label))
        torch.testing.assert_close(found, run.surprises[label])
        expected = -math.log(run.probabilities[label])
        assert found.item() == pytest.approx(expected)


def test_cross_entropy_is_surprise__also_as_a_mean(snippet):
    run = after(snippet, *UNTRAINED)

    rows = run.scores.softmax(dim=1).tolist()
    pairs = zip(rows, run.labels[run.train].tolist(), strict=True)
    surprises = [-math.log(row[label]) for row, label in pairs]
    assert run.loss.item() == pytest.approx(sum(surprises) / 1200, abs=1e-4)


def test_cross_entropy_is_surprise__also_for_equal_scores(snippet):
    run = after(snippet, *DATA, "quiz")

    assert run.equal.tolist() == [0, 0, 0, 0]
    assert run.quiz.item() == pytest.approx(math.log(4))


@edits(
    ("-probabilities.log()", "1 - probabilities"),
    ("-probabilities.log()", "-probabilities.log2()"),
    ("-probabilities.log()", "-three_scores"),
)
def test_cross_entropy_is_surprise__but_not(snippet, old, new, fails):
    """It is the natural logarithm of the probability."""
    fails(test_cross_entropy_is_surprise, snippet.edit(old, new))


def test_cross_entropy_is_surprise__ends_with_scores_far_apart(snippet, fails):
    """Where a probability rounds to 0, the surprise by hand is infinite, and
    `cross_entropy` still returns the right number.
    """
    edited = snippet.edit("[2.0, 1.0, 0.0]", "[200.0, 100.0, 0.0]")
    fails(test_cross_entropy_is_surprise, edited)


def test_untrained_is_guessing(snippet):
    run = after(snippet, *UNTRAINED)

    assert math.log(10) == pytest.approx(2.30, abs=0.005)
    assert run.loss.item() == pytest.approx(math.log(10), abs=0.2)
    assert 0.01 < right(run, run.valid) < 0.25
    assert 0.01 < right(run, run.train) < 0.25


@SEEDS
def test_untrained_is_guessing__also_from(snippet, seed):
    test_untrained_is_guessing(seeded(snippet, seed, "start-again"))


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def two_layers():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
    )


@pytest.mark.parametrize(
    "build", [linear, two_layers], ids=["one layer", "two layers"]
)
def test_untrained_is_guessing__also_in_fifty_models_with(snippet, build):
    data = after(snippet, *UNTRAINED)
    images, labels, parts = data.images[data.train], data.labels, []
    for seed in range(50):
        torch.manual_seed(seed)
        with torch.no_grad():
            scores = build()(images)
        loss = F.cross_entropy(scores, labels[data.train])
        assert loss.item() == pytest.approx(math.log(10), abs=0.2)
        answers = scores.argmax(dim=1)
        parts.append((answers == labels[data.train]).double().mean().item())
    assert sum(parts) / 50 == pytest.approx(0.1, abs=0.03)


@edits(
    ("nn.Linear(64, 10))", "nn.Linear(64, 100))"),
    (
        "scores = model",
        "model[1].weight.data *= 20\nscores = model",
    ),
)
def test_untrained_is_guessing__but_not(snippet, old, new, fails):
    """A hundred classes begin at ln 100 = 4.61, and large weights are sure of
    wrong answers.
    """
    edited = edit_in(snippet, "start-again", old, new)
    fails(test_untrained_is_guessing, edited)


def test_untrained_is_guessing__but_not_after_training(snippet, fails):
    """A trained model knows more."""
    steps = snippet.cell("train").source
    old = "scores = model"
    edited = edit_in(snippet, "start-again", old, f"{steps}\n{old}")
    fails(test_untrained_is_guessing, edited)


def test_untrained_is_guessing__ends_with_unscaled_pixels(snippet, fails):
    """With pixels up to 16, the first loss is far above."""
    fails(
        test_untrained_is_guessing, snippet.edit("[:, None] / 16", "[:, None]")
    )


def losses_and_answers(run, change):
    """Return the loss and the right answers of each small change's model."""
    layer, labels = run.model[1], run.labels[run.train]
    pixels = run.images[run.train].flatten(1).double()
    weights = layer.weight.detach().double()
    scores = pixels @ weights.T + layer.bias.detach().double()
    for digit in range(10):
        for pixel in range(64):
            moved = scores.clone()
            moved[:, digit] -= change * pixels[:, pixel]
            right_answers = (moved.argmax(dim=1) == labels).sum().item()
            yield F.cross_entropy(moved, labels).item(), right_answers


def test_accuracy_hides_small_changes(snippet):
    run = after(snippet, *NUDGED)
    change = (run.model[1].weight - run.nudged[1].weight).detach()
    size = change[change != 0].sum().item()
    still = *losses_and_answers(run, 0), *losses_and_answers(run, size)
    (loss, answers), tried = still[0], still[640:]
    moved = sum(each != loss for each, _ in tried)
    hidden = sum(each == answers for _, each in tried)
    labels = run.labels[run.train]
    shown = F.cross_entropy(run.nudged(run.images[run.train]), labels)

    assert moved > 0.8 * len(tried), (moved, len(tried))
    assert hidden > 0.5 * len(tried), (hidden, len(tried))
    assert abs(shown.item() - loss) > 1e-5


@SEEDS
def test_accuracy_hides_small_changes__also_from(snippet, seed):
    test_accuracy_hides_small_changes(seeded(snippet, seed, "start-again"))


def test_accuracy_hides_small_changes__but_not_of_the_same_model(
    snippet, fails
):
    """Compared with itself, the model shows no change of the loss."""
    edited = snippet.edit("nudged = deepcopy(model)", "nudged = model")
    fails(test_accuracy_hides_small_changes, edited)


def test_accuracy_hides_small_changes__ends_at_a_blank_pixel(snippet, fails):
    """Where a pixel is blank in all pictures, even the loss stays the same."""
    fails(
        test_accuracy_hides_small_changes,
        snippet.edit("[0, 28] -=", "[0, 0] -="),
    )


# backward and step adjust the parameters


def test_a_gradient_for_each_parameter(snippet):
    run = after(snippet, *BACKWARD)

    parameters = list(run.model.parameters())
    assert sum(each.numel() for each in parameters) == 650
    assert all(each.grad is not None for each in parameters)
    assert [each.grad.shape for each in parameters] == [(10, 64), (10,)]
    assert run.gradient == run.model[1].weight.grad[0, 28]
    # The formula for a linear layer: mean of (probability - truth) * pixel.
    wrong = run.scores.detach().softmax(dim=1)
    wrong[torch.arange(1200), run.labels[run.train]] -= 1
    inputs = run.images[run.train].flatten(1)
    expected = (wrong.mT @ inputs / 1200, wrong.mean(dim=0))
    for parameter, found in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, found, atol=1e-5, rtol=0)
    for parameter in parameters:
        for place in [(0, 28), (7, 43)]:
            index = place[: parameter.ndim]
            grown = loss_after(run, parameter, index, 0.05)
            shrunk = loss_after(run, parameter, index, -0.05)
            expected = parameter.grad[index].item()
            assert (grown - shrunk) / 0.1 == pytest.approx(expected, abs=1e-3)


@torch.no_grad()
def loss_after(run, parameter, index, change):
    """Return the loss if one parameter were larger, in double precision."""
    kept = parameter.clone()
    parameter[index] += change
    scores = run.model(run.images[run.train]).double()
    parameter.copy_(kept)
    return F.cross_entropy(scores, run.labels[run.train]).item()


@SEEDS
def test_a_gradient_for_each_parameter__also_from(snippet, seed):
    test_a_gradient_for_each_parameter(seeded(snippet, seed, "start-again"))


@edits(
    ("loss.backward()", "(2 * loss).backward()"),
    ("loss.backward()", "(-loss).backward()"),
    (
        "loss.backward()",
        "loss.backward()\nmodel[1].bias.grad = None",
    ),
    (
        "loss.backward()",
        "loss.backward()\nmodel[1].weight.grad[5, 20] += 1",
    ),
)
def test_a_gradient_for_each_parameter__but_not(snippet, old, new, fails):
    """The gradient of another number is another one."""
    edited = edit_in(snippet, "backward", old, new)
    fails(test_a_gradient_for_each_parameter, edited)


def test_a_gradient_for_each_parameter__but_not_frozen(snippet, fails):
    """A bias that requires no gradient gets none."""
    old = "scores = model"
    new = f"model[1].bias.requires_grad_(False)\n{old}"
    edited = edit_in(snippet, "start-again", old, new)
    fails(test_a_gradient_for_each_parameter, edited)


def test_step_subtracts_the_gradient(snippet, rate=1.0):
    waiting, stepped = after(snippet, *BACKWARD), after(snippet, *STEP)

    pairs = zip(
        waiting.model.parameters(), stepped.model.parameters(), strict=True
    )
    for old, new in pairs:
        assert torch.equal(new.grad, old.grad)
        torch.testing.assert_close(new, old - rate * old.grad)
    moved = stepped.before - rate * stepped.gradient
    assert stepped.after == pytest.approx(moved, abs=1e-6)
    assert (stepped.before, stepped.after) == (
        waiting.model[1].weight[0, 28],
        stepped.model[1].weight[0, 28],
    )


@pytest.mark.parametrize("rate", [0.1, 0.5], ids="a rate of {}".format)
def test_step_subtracts_the_gradient__also_with(snippet, rate):
    edited = edit_in(snippet, "start-again", "lr=1.0", f"lr={rate}")
    test_step_subtracts_the_gradient(edited, rate)


@edits(
    ("torch.optim.SGD", "torch.optim.Adam"),
    ("lr=1.0", "lr=1.0, weight_decay=0.1"),
    ("lr=1.0", "lr=1.0, maximize=True"),
)
def test_step_subtracts_the_gradient__but_not(snippet, old, new, fails):
    """Other optimizers and options take another step."""
    edited = edit_in(snippet, "start-again", old, new)
    fails(test_step_subtracts_the_gradient, edited)


def test_step_subtracts_the_gradient__ends_with_momentum(snippet, fails):
    """With momentum, the second step follows the first one, too."""
    first = (
        "F.cross_entropy(model(images[train]), labels[train]).backward()\n"
        "optimizer.step()\noptimizer.zero_grad()\n"
    )
    plain = edit_in(snippet, "start-again", "lr=1.0)\n", f"lr=1.0)\n{first}")
    test_step_subtracts_the_gradient(plain)
    edited = edit_in(plain, "start-again", "lr=1.0", "lr=1.0, momentum=0.9")
    fails(test_step_subtracts_the_gradient, edited)


# What has it learned?


def nearest_averages(run):
    """Return the share of pictures nearest to their own digit's average."""
    pictures = run.images.flatten(1).double()
    averages = [
        pictures[[i for i in run.train.tolist() if run.labels[i] == digit]]
        for digit in range(10)
    ]
    found = [
        min(
            range(10),
            key=lambda d: (pictures[i] - averages[d].mean(0)).norm().item(),
        )
        for i in run.valid.tolist()
    ]
    labels = run.labels[run.valid].tolist()
    return sum(map(int.__eq__, found, labels)) / len(labels)


def test_fifty_steps_beat_averages(snippet):
    five = after(snippet, *TRAIN)
    run = after(snippet, *NEAREST)
    expected = nearest_averages(run)

    assert run.share.item() == pytest.approx(expected)
    assert right(five, five.valid) < expected, expected
    assert expected < right(run, run.valid), expected


@SEEDS
def test_fifty_steps_beat_averages__also_from(snippet, seed):
    test_fifty_steps_beat_averages(seeded(snippet, seed, "start-again"))


@edits(
    ("distances.argmin", "distances.argmax"),
    ("labels[train] == digit]", "labels[train] != digit]"),
    ("range(49)", "range(4)"),
)
def test_fifty_steps_beat_averages__but_not(snippet, old, new, fails):
    """The farthest average, and that of all other digits, is a worse rule, and
    five steps are too few.
    """
    fails(test_fifty_steps_beat_averages, snippet.edit(old, new))


def test_fifty_steps_beat_averages__ends_with_a_small_rate(snippet, fails):
    """At a learning rate of 0.01, 50 steps stay below the baseline."""
    edited = edit_in(snippet, "start-again", "lr=1.0", "lr=0.01")
    fails(test_fifty_steps_beat_averages, edited)


def middle(snippet):
    """Return the weights of the digit 0 in the middle of the picture."""
    weights = after(snippet, *MORE).model[1].weight[0]
    return weights.unflatten(0, (8, 8))[3:5, 3:5]


def test_ink_in_the_middle_is_no_zero(snippet):
    # A weight starts between -1/8 and 1/8.
    assert middle(snippet).max() < -1 / 8


@SEEDS
def test_ink_in_the_middle_is_no_zero__also_from(snippet, seed):
    test_ink_in_the_middle_is_no_zero(seeded(snippet, seed, "start-again"))


def test_ink_in_the_middle_is_no_zero__also_without_an_optimizer(snippet):
    by_hand(after(snippet, *MORE), 50)


@edits(
    ("range(49)", "range(0)"),
    ("loss.backward()", "(-loss).backward()"),
    ("labels[train]", "labels[train].flip(0)"),
    ("images[train]", "1 - images[train]"),
)
def test_ink_in_the_middle_is_no_zero__but_not(snippet, old, new, fails):
    """One step is too few, and other labels say something else."""
    edited = edit_in(snippet, "more-steps", old, new)
    fails(test_ink_in_the_middle_is_no_zero, edited)


# What goes wrong


def test_softmax_first_learns_slowly(snippet):
    with no_error():
        run = after(snippet, *SOFTMAX)
    assert right(run, run.valid) < 0.4


@SEEDS
def test_softmax_first_learns_slowly__also_from(snippet, seed):
    test_softmax_first_learns_slowly(seeded(snippet, seed, "softmax-first"))


def test_softmax_first_learns_slowly__also_without_an_optimizer(snippet):
    run = after(snippet, *SOFTMAX)
    by_hand(run, 5, change=lambda scores: scores.softmax(dim=1))


def test_softmax_first_learns_slowly__but_not_without_softmax(snippet, fails):
    """From the plain scores, five steps are enough."""
    edited = snippet.edit("scores.softmax(dim=1)", "scores")
    fails(test_softmax_first_learns_slowly, edited)


def test_softmax_first_learns_slowly__ends_after_a_hundred_steps(
    snippet, fails
):
    """It does learn, only slowly: after a hundred steps, most are right."""
    edited = edit_in(snippet, "softmax-first", "range(5)", "range(100)")
    fails(test_softmax_first_learns_slowly, edited)


def test_softmax_first_learns_slowly__ends_with_a_large_rate(snippet, fails):
    """A learning rate of 10 makes up for some of it, and more than 40 percent
    are right.
    """
    edited = edit_in(snippet, "softmax-first", "lr=1.0", "lr=10.0")
    fails(test_softmax_first_learns_slowly, edited)


def test_unscaled_pixels_raise_the_loss(snippet):
    with no_error():
        run = after(snippet, *UNSCALED)
    assert run.pixels.max() == 16
    assert run.loss.item() > 100


@SEEDS
def test_unscaled_pixels_raise_the_loss__also_from(snippet, seed):
    test_unscaled_pixels_raise_the_loss(seeded(snippet, seed, "not-scaled"))


def test_unscaled_pixels_raise_the_loss__also_without_an_optimizer(snippet):
    run = after(snippet, *UNSCALED)
    by_hand(run, 5, images=16 * run.images)


def test_unscaled_pixels_raise_the_loss__but_not_scaled(snippet, fails):
    """Divided by 16, the pixels are those of the right program."""
    old = "[:, None]\n"
    edited = edit_in(snippet, "not-scaled", old, "[:, None] / 16\n")
    fails(test_unscaled_pixels_raise_the_loss, edited)


def test_unscaled_pixels_raise_the_loss__ends_with_a_small_rate(
    snippet, fails
):
    """At a learning rate of 0.005, the loss falls."""
    edited = edit_in(snippet, "not-scaled", "lr=1.0", "lr=0.005")
    fails(test_unscaled_pixels_raise_the_loss, edited)
