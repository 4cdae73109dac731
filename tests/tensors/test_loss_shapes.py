"""The claims of docs/tensors/loss_shapes.md."""

import warnings
from contextlib import nullcontext
from itertools import permutations, product

import pytest
import torch
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error

WARNING = ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]
RAISING = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "soft_margin_loss",
    "cross_entropy",
    "nll_loss",
]
SILENT = [
    "poisson_nll_loss",
    "kl_div",
    "gaussian_nll_loss",
    "((g - t) ** 2).mean()",
]
BY_NAME = {name: getattr(F, name) for name in WARNING + SILENT[:1]} | {
    "kl_div": lambda g, t: F.kl_div(g.log(), t, reduction="batchmean"),
    "gaussian_nll_loss": lambda g, t: F.gaussian_nll_loss(
        g, t, torch.ones_like(g)
    ),
    "((g - t) ** 2).mean()": lambda g, t: (g - t).square().mean(),
}
SIZES = pytest.mark.parametrize("count", [2, 7, 64], ids="N of {}".format)


def swaps(old, *new):
    """Run a counter-example with each of several texts for one."""
    return edits(*((old, each) for each in new))


def counted(*shape):
    """Return 1, 2, 3 and so on in a shape."""
    return torch.arange(1.0, torch.Size(shape).numel() + 1).reshape(shape)


def at_random(*shape, seed=0):
    """Return numbers at random that do not depend on other tests."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator)


# Do this


def test_reshape_pairs_them(snippet, shape=(442,)):
    given = snippet.edit(
        "paired = targets",
        f"targets = targets.reshape({shape})\npaired = targets",
    )
    with no_error():
        run = given.after("do-this")

    assert run.targets.shape == shape
    assert run.predictions.shape == run.paired.shape == (442, 1)
    wanted = run.targets.flatten()
    assert torch.equal(run.paired[:, 0], wanted)
    by_hand = sum((run.predictions.flatten() - wanted) ** 2) / 442
    torch.testing.assert_close(run.loss, by_hand)


def test_reshape_pairs_them__also_of_one_column(snippet):
    test_reshape_pairs_them(snippet, (442, 1))


@pytest.mark.parametrize("count", [1, 2, 7], ids="N of {}".format)
def test_reshape_pairs_them__also_for(count):
    guesses, targets = counted(count, 1), 3 * counted(count)
    for form in ((count,), (count, 1)):
        paired = targets.reshape(form).reshape(guesses.shape)
        assert torch.equal(guesses - paired, -2 * guesses)


def test_reshape_pairs_them__also_with_squeezed_predictions(snippet):
    run = snippet.after("do-this")
    loss = F.mse_loss(run.predictions.squeeze(1), run.targets)
    torch.testing.assert_close(loss, run.loss)


@swaps(
    "targets.reshape(predictions.shape)",
    "targets",
    "targets.unsqueeze(0)",
    "targets.reshape(predictions.shape).flip(0)",
)
def test_reshape_pairs_them__but_not_in_another_form_or_order(
    snippet, old, new, fails
):
    """If the targets stay flat or become a row, each target meets each
    prediction; reversed, it meets the wrong one.
    """
    fails(test_reshape_pairs_them, snippet.edit(old, new))


def test_reshape_pairs_them__but_not_unsqueezed_twice(snippet, fails):
    """`unsqueeze(1)` gives targets of shape (N, 1) a third axis."""
    edited = snippet.edit(
        "targets.reshape(predictions.shape)", "targets.unsqueeze(1)"
    )
    fails(test_reshape_pairs_them, edited, (442, 1))


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_reshape_pairs_them__also_in_the_exercise(snippet):
    run = snippet.after("strict-loss-checked")
    with pytest.raises(ValueError, match="against"):
        run.strict_mse(run.predictions, run.targets)
    usual = F.mse_loss(run.predictions, run.paired)
    assert run.strict_mse(run.predictions, run.paired) == usual
    assert run.complaints == []

    answer = snippet.cell("strict-loss").source
    for wrong in (
        answer.replace("predictions.shape != targets.shape", "False"),
        answer.replace(
            "predictions.shape != targets.shape", "targets.dim() < 2"
        ),
        answer.replace("return ", "return 2 * "),
    ):
        run = snippet.edit(answer, wrong).after("strict-loss-checked")
        assert run.complaints != []


# How it works


def is_a_table(guesses, targets, differences):
    """Check that each guess meets each target."""
    count = len(targets)
    assert differences.shape == (count, count)
    for i, j in product(range(count), range(count)):
        assert differences[i, j] == guesses[i, 0] - targets[j]


def test_the_difference_is_square(snippet):
    run = snippet.after("three")

    assert run.guesses.shape == (3, 1)
    is_a_table(run.guesses, run.answers, run.differences)
    assert run.differences.diagonal().tolist() == [0, 0, 0]
    torch.testing.assert_close(
        run.differences.square().mean(), torch.tensor(28 / 9)
    )


@pytest.mark.parametrize("count", [1, 2, 7], ids="N of {}".format)
def test_the_difference_is_square__also_for(count):
    guesses, targets = counted(count, 1), counted(count)
    is_a_table(guesses, targets, guesses - targets)


@SIZES
def test_the_difference_is_square__also_with_the_shapes_swapped(count):
    assert (counted(count) - counted(count, 1)).shape == (count, count)


@swaps(
    "differences = guesses - answers\n",
    "differences = guesses - answers[:, None]\n",
    "differences = guesses[:, 0] - answers\n",
    "differences = (guesses - answers).T\n",
)
def test_the_difference_is_square__but_not_so(snippet, old, new, fails):
    """If both have the same shape, each guess meets its own answer; in the
    transposed table, guess and answer are swapped.
    """
    fails(test_the_difference_is_square, snippet.edit(old, new))


def test_any_order_has_the_same_loss(snippet):
    run = snippet.after("three")

    loss = run.differences.square().mean()
    assert loss > 1
    assert torch.equal(run.swapped, run.guesses - run.answers.flip(0))
    torch.testing.assert_close(run.swapped.square().mean(), loss)
    for order in permutations(range(3)):
        differences = run.guesses - run.answers[list(order)]
        torch.testing.assert_close(differences.square().mean(), loss)


@SIZES
@pytest.mark.parametrize("call", WARNING + SILENT[:1])
def test_any_order_has_the_same_loss__also_of(call, count):
    guesses, targets = at_random(count, 1), at_random(count, seed=1)
    with warnings.catch_warnings(action="ignore"):
        loss, again = (
            getattr(F, call)(guesses, each)
            for each in (targets, targets.flip(0))
        )
    torch.testing.assert_close(again, loss)


@edits(
    ("= guesses - answers\n", "= guesses - answers[:, None]\n"),
    ("swapped = guesses", "swapped = guesses[:, 0]"),
)
def test_any_order_has_the_same_loss__but_not_in_pairs(
    snippet, old, new, fails
):
    """With equal shapes, the order decides what each guess is compared
    with.
    """
    fails(test_any_order_has_the_same_loss, snippet.edit(old, new))


def pulls(loss, guesses, targets):
    """Return the gradients with flat targets, and with their mean alone."""
    guesses = guesses.detach().requires_grad_()
    return [
        torch.autograd.grad(loss(guesses, each), guesses)[0]
        for each in (targets, targets.mean())
    ]


def test_each_guess_is_pulled_to_the_mean(snippet):
    run = snippet.after("pull")

    assert run.pull.shape == (3, 1)
    mean = 10 / 3
    for guess, pull in zip((2, 3, 5), run.pull, strict=True):
        assert pull.item() == pytest.approx(2 / 3 * (guess - mean), rel=1e-5)
    torch.testing.assert_close(run.pull, run.pull_to_mean)
    assert run.mean_loss.item() == pytest.approx(14 / 9)


@SIZES
def test_each_guess_is_pulled_to_the_mean__also_for(count):
    guesses, targets = at_random(count, 1), at_random(count, seed=1)
    flat, mean = pulls(lambda g, t: (g - t).square().mean(), guesses, targets)
    torch.testing.assert_close(flat, mean)


@edits(
    (
        "flat_loss = (guesses - answers).square()",
        "flat_loss = (guesses - answers[:, None]).square()",
    ),
    (
        "flat_loss = (guesses - answers).square()",
        "flat_loss = (guesses - answers).pow(4)",
    ),
    (
        "mean_loss = (guesses - answers.mean())",
        "mean_loss = (guesses - answers.median())",
    ),
)
def test_each_guess_is_pulled_to_the_mean__but_not_so(
    snippet, old, new, fails
):
    """With equal shapes, a perfect guess gets the gradient 0; other powers and
    the median pull it elsewhere.
    """
    fails(test_each_guess_is_pulled_to_the_mean, snippet.edit(old, new))


def test_each_guess_is_pulled_to_the_mean__ends_at_absolute_differences(
    snippet, fails
):
    """With absolute differences, each guess is pulled to the median."""
    edited = snippet.edit(
        "(guesses - answers).square().mean()\nmean",
        "(guesses - answers).abs().mean()\nmean",
    )
    fails(test_each_guess_is_pulled_to_the_mean, edited)


# What goes wrong


def test_matching_shapes_learn(snippet):
    with no_error():
        run = snippet.after("train-both")

    mean_loss = (run.targets - run.targets.mean()).square().mean().item()
    assert run.right_guesses.shape == (442, 1)
    assert run.right_loss < mean_loss / 2
    assert run.right_guesses.max() - run.right_guesses.min() > 200
    paired = torch.stack([run.right_guesses[:, 0], run.targets])
    assert torch.corrcoef(paired)[0, 1] > 0.7


def seeded(snippet, seed):
    """Return a snippet that trains from another start."""
    old = "torch.manual_seed(0)\n    model"
    return snippet.edit(old, f"torch.manual_seed({seed})\n    model")


@pytest.mark.parametrize("seed", [1])
def test_matching_shapes_learn__also_from_another_start(snippet, seed):
    test_matching_shapes_learn(seeded(snippet, seed))


@swaps(
    "train(targets[:, None])",
    "train(targets[None, :])",
    "train(targets)",
    "train(targets.flip(0)[:, None])",
    "train(targets[:, None] * 0)",
)
def test_matching_shapes_learn__but_not_with_other_pairs(
    snippet, old, new, fails
):
    """Targets that are flat, a row, reversed or all 0 don't tell the model
    which patient had which score.
    """
    fails(test_matching_shapes_learn, snippet.edit(old, new))


def test_flat_targets_learn_the_mean(snippet):
    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        no_error(),
    ):
        run = snippet.after("train-both")

    assert caught == []
    assert run.targets.shape == (442,)
    assert run.flat_guesses.shape == (442, 1)
    mean = run.targets.mean().item()
    assert 151 < run.flat_guesses.min() < run.flat_guesses.max() < 154
    assert mean == pytest.approx(152.13, abs=0.01)
    assert run.targets.std() > 70


@pytest.mark.parametrize("seed", [1])
def test_flat_targets_learn_the_mean__also_from_another_start(snippet, seed):
    test_flat_targets_learn_the_mean(seeded(snippet, seed))


def test_flat_targets_learn_the_mean__also_with_the_shapes_swapped(snippet):
    edited = snippet.edit(
        "(model(inputs) - targets)", "(model(inputs)[:, 0] - targets[:, None])"
    )
    test_flat_targets_learn_the_mean(edited)


def test_flat_targets_learn_the_mean__but_not_reshaped(snippet, fails):
    """With targets of shape (442, 1), the second model learns as the first
    one did.
    """
    edited = snippet.edit(
        "flat_guesses = train(targets)",
        "flat_guesses = train(targets[:, None])",
    )
    fails(test_flat_targets_learn_the_mean, edited)


def test_flat_targets_learn_the_mean__but_not_with_mse_loss(snippet, fails):
    """`mse_loss` learns the mean as well, but gives a warning."""
    edited = snippet.edit(
        "(model(inputs) - targets).square().mean()",
        "F.mse_loss(model(inputs), targets)",
    )
    fails(test_flat_targets_learn_the_mean, edited)


def test_flat_targets_learn_the_mean__ends_at_absolute_differences(
    snippet, fails
):
    """With absolute differences, the predictions go to the median."""
    edited = snippet.edit(
        "(model(inputs) - targets).square()",
        "100 * (model(inputs) - targets).abs()",
    )
    fails(test_flat_targets_learn_the_mean, edited)


def test_the_loss_stops_at_the_variance(snippet):
    run = snippet.after("train-both")

    variance = (run.targets - run.targets.mean()).square().mean().item()
    assert run.flat_loss == pytest.approx(variance, rel=1e-3)
    assert round(variance) == 5930
    assert run.right_loss == pytest.approx(2860, abs=1)


@pytest.mark.parametrize("seed", [1])
def test_the_loss_stops_at_the_variance__also_from_another_start(
    snippet, seed
):
    run = seeded(snippet, seed).after("train-both")
    assert run.flat_loss == pytest.approx(5930, abs=1)
    assert run.right_loss == pytest.approx(2860, abs=5)


@SIZES
def test_the_loss_stops_at_the_variance__also_at_the_best_guesses_for(count):
    targets = at_random(count)
    guesses = targets.mean().expand(count, 1)
    loss = (guesses - targets).square().mean()
    torch.testing.assert_close(loss, targets.var(correction=0))
    for seed in range(1, 4):
        other = guesses + at_random(count, 1, seed=seed)
        assert (other - targets).square().mean() > loss


@edits(
    (
        "flat_guesses = train(targets)",
        "flat_guesses = train(targets[:, None])",
    ),
    ("in range(100):", "in range(5):"),
    ("(model(inputs) - targets).square()", "(model(inputs) - targets).abs()"),
)
def test_the_loss_stops_at_the_variance__but_not_so(snippet, old, new, fails):
    """With equal shapes, the loss falls further; after five steps, or with
    absolute differences, it ends at another number.
    """
    fails(test_the_loss_stops_at_the_variance, snippet.edit(old, new))


def test_accuracy_counts_all_pairs(snippet):
    run = snippet.after("accuracy")

    assert run.labels.shape == (200,)
    assert run.predicted.shape == (200, 1)
    assert torch.equal(run.predicted[:, 0], run.labels)
    assert run.accuracy.item() == pytest.approx(0.1)


@pytest.mark.parametrize("classes", [2, 5], ids="{} classes".format)
def test_accuracy_counts_all_pairs__also_with(classes):
    labels = torch.arange(classes).repeat(4)
    accuracy = (labels[:, None] == labels).float().mean()
    assert accuracy.item() == pytest.approx(1 / classes)


def test_accuracy_counts_all_pairs__ends_at_classes_of_different_sizes(
    snippet, fails
):
    """If most labels are of one class, more of the pairs agree."""
    old = "torch.arange(10).repeat(20)"
    new = "torch.arange(10).repeat(20) * (torch.arange(200) % 3 == 0)"
    fails(test_accuracy_counts_all_pairs, snippet.edit(old, new))


@swaps(
    "(predicted == labels)",
    "(predicted[:, 0] == labels)",
    "(predicted == labels[:, None])",
)
def test_accuracy_counts_all_pairs__but_not_of_equal_shapes(
    snippet, old, new, fails
):
    """With equal shapes, each prediction meets only its own label, and the
    accuracy is 100%.
    """
    fails(test_accuracy_counts_all_pairs, snippet.edit(old, new))


# Which losses notice


def fractions():
    """Return guesses of (N, 1) and targets of (N,), all between 0 and 1."""
    for count, dtype in product((2, 3, 8), (torch.float32, torch.float64)):
        yield (
            torch.sigmoid(at_random(count, 1, seed=count)).to(dtype),
            torch.sigmoid(at_random(count, seed=9)).to(dtype),
        )


def check_outcomes(run, names, wanted):
    for name in names:
        loss = run.losses[name]
        what, value, _ = run.outcome(loss, run.share[:, None], run.share)
        assert what == run.outcomes[name]["outcome"] == wanted
        assert value == run.outcomes[name]["loss"]
        for guesses, targets in fractions():
            what, value, text = run.outcome(loss, guesses, targets)
            assert what == wanted
            assert bool(text) == (wanted != "is silent")
            if wanted == "raises":
                assert value == run.outcomes[name]["should be"] == ""
                with pytest.raises((RuntimeError, ValueError)):
                    loss(guesses, targets)
                continue
            count = len(targets)
            every = guesses.expand(count, count), targets.expand(count, count)
            over_pairs = BY_NAME[name](*every).item()
            assert float(value) == pytest.approx(over_pairs, abs=0.001)
            with warnings.catch_warnings(action="ignore"):
                exact = loss(guesses, targets).item()
            assert exact == pytest.approx(over_pairs, rel=1e-5)


def with_loss(snippet, name, targets="t.reshape(g.shape)"):
    """Return the snippet with other targets for one of its losses."""
    loss = f"F.{name}(g, {targets})"
    if name == "kl_div":
        loss = f'F.kl_div(g.log(), {targets}, reduction="batchmean")'
    elif name == "gaussian_nll_loss":
        loss = f"F.gaussian_nll_loss(g, {targets}, g * 0 + 1)"
    elif name == SILENT[-1]:
        loss = f"((g - {targets}) ** 2).mean()"
    return snippet.edit(
        "** 2).mean(),\n}\n",
        f'** 2).mean(),\n}} | {{"{name}": lambda g, t: {loss}}}\n',
    )


def test_four_losses_warn(snippet):
    run = snippet.after("outcomes")
    check_outcomes(run, WARNING, "warns")
    [text] = [text for text, names in run.texts.items() if "l1_loss" in names]
    assert run.texts[text] == WARNING
    assert "will likely lead to incorrect results due to broadcasting" in text
    for name in WARNING:
        assert run.outcomes[name]["should be"] == "0.000"
        assert run.outcomes[name]["loss"] != "0.000"


@pytest.mark.parametrize("name", WARNING)
def test_four_losses_warn__but_not_of_reshaped_targets(snippet, name, fails):
    """With targets of shape (N, 1), the loss is right and there is no
    warning.
    """
    fails(test_four_losses_warn, with_loss(snippet, name))


def test_five_losses_raise(snippet):
    check_outcomes(snippet.after("outcomes"), RAISING, "raises")


@pytest.mark.parametrize("name", RAISING[:4])
def test_five_losses_raise__but_not_of_reshaped_targets(snippet, name, fails):
    """With targets of shape (N, 1), the loss is computed."""
    fails(test_five_losses_raise, with_loss(snippet, name))


@pytest.mark.parametrize("name", RAISING[3:])
def test_five_losses_raise__ends_at_class_numbers(snippet, name, fails):
    """With class numbers of shape (N,), the loss takes the one column as the
    only class.
    """
    fails(test_five_losses_raise, with_loss(snippet, name, "t.long()"))


def test_five_losses_raise__ends_at_a_batch_of_one(snippet, fails):
    """With one guess and one target, `soft_margin_loss` raises no error, and
    its value is right.
    """
    one = snippet.edit("torch.tensor([0.2, 0.3, 0.5])", "torch.tensor([0.5])")
    fails(test_five_losses_raise, one)


def test_four_losses_are_silent(snippet):
    run = snippet.after("outcomes")
    check_outcomes(run, SILENT, "is silent")
    for name in SILENT:
        row = run.outcomes[name]
        assert row["loss"] != row["should be"] != ""
        paired = BY_NAME[name](run.share, run.share).item()
        assert float(row["should be"]) == pytest.approx(paired, abs=0.001)
        assert name in run.texts[""]


@pytest.mark.parametrize("flat", [False, True], ids=["(N, 1)", "(N,)"])
def test_four_losses_are_silent__also_with_variances_of_shape(flat):
    for guesses, targets in fractions():
        variances, count = guesses + 1, len(targets)
        every = [x.expand(count, count) for x in (guesses, targets, variances)]
        wanted = F.gaussian_nll_loss(*every)
        given = variances[:, 0] if flat else variances
        found = F.gaussian_nll_loss(guesses, targets, given)
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", SILENT)
def test_four_losses_are_silent__but_not_of_reshaped_targets(
    snippet, name, fails
):
    """With targets of shape (N, 1), the loss is over N pairs, as it
    should be.
    """
    fails(test_four_losses_are_silent, with_loss(snippet, name))


def test_four_losses_are_silent__ends_without_batchmean(snippet, fails):
    """By default, `kl_div` warns about its `reduction` for any shapes."""
    edited = snippet.edit(', reduction="batchmean"', "")
    fails(test_four_losses_are_silent, edited)


def test_a_loop_warns_once_per_shape(
    snippet, action="default", counts=(3, 3, 3), inside=None
):
    """No edit of the program changes Python's filters."""
    assert snippet.cell("error-from-warning")
    for name in WARNING:
        loss = getattr(F, name)
        with warnings.catch_warnings(record=True, action=action) as caught:
            for n in counts:
                with inside() if inside else nullcontext():
                    loss(torch.ones(n, 1), torch.ones(n))
        assert len(caught) == len(set(counts))


def test_a_loop_warns_once_per_shape__also_with_a_smaller_last_batch(snippet):
    counts = (3, 3, 2, 3, 2, 5)
    test_a_loop_warns_once_per_shape(snippet, counts=counts)


@pytest.mark.parametrize("action", ["always", "ignore"])
def test_a_loop_warns_once_per_shape__ends_with_the_filter(
    snippet, action, fails
):
    """With another of Python's filters, it comes in each pass or never."""
    fails(test_a_loop_warns_once_per_shape, snippet, action, (3, 3, 2))


def test_a_loop_warns_once_per_shape__ends_if_filters_change(snippet, fails):
    """Each change of the filters, such as by `catch_warnings`, lets it come
    once more.
    """
    inside = warnings.catch_warnings
    fails(
        test_a_loop_warns_once_per_shape, snippet, "default", (3,) * 3, inside
    )


def test_the_warning_becomes_an_error(snippet):
    run = snippet.after("texts")
    source = snippet.cell("error-from-warning").source
    source = source.replace("except UserWarning as", "except KeyError as")

    def raised(line):
        """Return the text that a line raises, and what it warns of."""
        code = source.replace("F.mse_loss(predictions, targets)", line)
        with warnings.catch_warnings(record=True, action="always") as caught:
            before = warnings.filters[:]
            try:
                exec(code, dict(vars(run)))
            except Warning as error:
                return str(error), []
            finally:
                assert warnings.filters == before
        return "", [str(each.message) for each in caught]

    for name in WARNING:
        text, caught = raised(f"F.{name}(predictions, targets)")
        assert text.startswith("Using a target size")
        assert caught == []
    for kind in ("UserWarning", "DeprecationWarning", "RuntimeWarning"):
        line = f'warnings.warn("Another one", {kind})'
        assert raised(line) == ("", ["Another one"])


@edits(
    ('filterwarnings("error"', 'filterwarnings("ignore"'),
    ('("error", message="Using a target size")', '("error")'),
    ('message="Using a target size"', 'message="The target size"'),
    (
        "    warnings.filterwarnings(",
        '    warnings.simplefilter("ignore")\n    warnings.filterwarnings(',
    ),
)
def test_the_warning_becomes_an_error__but_not_with_another_filter(
    snippet, old, new, fails
):
    """With another action or text, or with another filter after it, the
    warning is hidden or stays a warning, or other warnings become errors as
    well.
    """
    fails(test_the_warning_becomes_an_error, snippet.edit(old, new))


def test_the_warning_becomes_an_error__but_not_of_one_shape(snippet, fails):
    """With equal shapes, there is no warning to turn into an error."""
    edited = snippet.edit(
        "targets = torch.tensor(targets, dtype=torch.float32)",
        "targets = torch.tensor(targets, dtype=torch.float32)[:, None]",
    )
    fails(test_the_warning_becomes_an_error, edited)
