"""The claims of docs/start/first_training.md."""

import textwrap
import warnings

import pytest
import torch

from extensions.files.failures import edits, no_error

# The end of the first loop, which the second does not have.
BACKWARD = "    loss.backward()\n"
STEP = "    optimizer.step()\n"
KEEP = "    losses.append"
GUESS = "guesses = model(warmth)\n    loss = F.mse_loss(guesses, sold)\n"
STARTS = pytest.mark.parametrize("seed", [1, 2, 3])


def seeded(snippet, seed):
    """Return the program with other days and another model to begin with."""
    return snippet.edit("manual_seed(0)", f"manual_seed({seed})")


def state_of(model):
    """Return a copy of all numbers that a model has learned."""
    return [each.detach().clone() for each in model.parameters()]


def test_the_model_has_193_numbers(snippet):
    model = snippet.after("model").model

    assert sum(each.numel() for each in model.parameters()) == 193


@edits(
    (
        "with fewer units",
        "layers = nn.Linear(1, 64)",
        "layers = nn.Linear(1, 32, bias=False)",
    ),
    (
        "without the hidden layer",
        "nn.Sequential(*layers)",
        "nn.Sequential(nn.Linear(1, 1))",
    ),
)
def test_the_model_has_193_numbers__but_not(snippet, old, new, fails):
    fails(test_the_model_has_193_numbers, snippet.edit(old, new))


def test_the_loss_falls(snippet):
    losses = snippet.after("loop").losses

    assert losses[0] > 2
    assert losses[-1] < 0.05
    assert len(losses) == 250


@STARTS
def test_the_loss_falls__also_from_other_starts(snippet, seed):
    test_the_loss_falls(seeded(snippet, seed))


def test_the_loss_falls__but_not_without_zero_grad(snippet, fails):
    edited = snippet.edit("    optimizer.zero_grad()\n", "")
    fails(test_the_loss_falls, edited)


@edits(
    ("without backward", BACKWARD + STEP + KEEP, STEP + KEEP),
    ("without step", STEP + KEEP, KEEP),
    (
        "in thirty steps",
        "range(250):\n    optimizer.zero",
        "range(30):\n    optimizer.zero",
    ),
    ("from guesses that fit", "3 * torch.exp", "0 * torch.exp"),
)
def test_the_loss_falls__but_not(snippet, old, new, fails):
    fails(test_the_loss_falls, snippet.edit(old, new))


def test_it_finds_the_best_day(snippet):
    run = snippet.after("best")

    assert run.degrees.shape == (41, 1)
    torch.testing.assert_close(run.degrees[:, 0], torch.arange(41) / 10)
    assert run.best == run.degrees[run.after.argmax()].item()
    assert abs(10 * run.best - 26) <= 2.01


@STARTS
def test_it_finds_the_best_day__also_from_other_starts(snippet, seed):
    test_it_finds_the_best_day(seeded(snippet, seed))


@edits(
    ("before it learns", "after = model(", "after = untrained("),
    ("without a ReLU", "nn.ReLU()", "nn.Identity()"),
    (
        "of shuffled days",
        "sold = warmth.to(device), sold",
        "sold = warmth.to(device), sold[torch.randperm(200)]",
    ),
)
def test_it_finds_the_best_day__but_not(snippet, old, new, fails):
    fails(test_it_finds_the_best_day, snippet.edit(old, new))


def test_a_guess_for_each_day(snippet):
    run = snippet.after("loop")

    assert run.guesses.shape == (200, 1) == run.sold.shape


def test_a_guess_for_each_day__but_not_for_days_left_out(snippet, fails):
    old = GUESS + BACKWARD + STEP + KEEP
    fewer = GUESS.replace("warmth", "warmth[:9]").replace("sold", "sold[:9]")
    edited = snippet.edit(old, fewer + BACKWARD + STEP + KEEP)
    fails(test_a_guess_for_each_day, edited)


def test_the_loss_is_a_mean_of_squares(snippet):
    run = snippet.after("loop")

    apart = (run.guesses - run.sold).flatten().tolist()
    mean = sum(each * each for each in apart) / len(apart)
    assert run.loss.shape == ()
    assert run.loss.item() == pytest.approx(mean, rel=1e-4)


@edits(
    ("of distances", GUESS, GUESS.replace("mse", "l1")),
    ("of a sum", GUESS, GUESS.replace("sold)", "sold, reduction='sum')")),
)
def test_the_loss_is_a_mean_of_squares__but_not(snippet, old, new, fails):
    fails(test_the_loss_is_a_mean_of_squares, snippet.edit(old, new))


def changes(snippet):
    """Run the body of the loop line by line.

    Return which lines changed the model, and what lies in ``.grad`` behind
    each.
    """
    run = snippet.after("model")
    body = snippet.cell("loop").source.partition("range(250):\n")[2]
    run.losses, moved, slopes = [], [], {}
    for line in textwrap.dedent(body).splitlines():
        before = state_of(run.model)
        exec(line, vars(run))
        after = state_of(run.model)
        if not all(map(torch.equal, before, after)):
            moved.append(line)
        slopes[line] = [each.grad for each in run.model.parameters()]
    return run, moved, slopes


def test_only_step_changes_the_model(snippet):
    _, moved, _ = changes(snippet)

    assert moved == ["optimizer.step()"]


@edits(
    (
        "at a rate of 0",
        "model.parameters(), lr=0.05",
        "model.parameters(), lr=0.0",
    ),
    (
        "with a change of our own",
        BACKWARD + STEP + KEEP,
        BACKWARD + "    model[0].bias.data.zero_()\n" + STEP + KEEP,
    ),
)
def test_only_step_changes_the_model__but_not(snippet, old, new, fails):
    fails(test_only_step_changes_the_model, snippet.edit(old, new))


def test_backward_gives_each_number_a_slope(snippet):
    run, _, slopes = changes(snippet)

    assert slopes["loss = F.mse_loss(guesses, sold)"] == [None] * 4
    shapes = [each.shape for each in run.model.parameters()]
    assert [
        getattr(each, "shape", None) for each in slopes["loss.backward()"]
    ] == shapes


@edits(
    (
        "of a cut",
        "guesses = model(warmth)",
        "guesses = model[2](model[1](model[0](warmth)).detach())",
    ),
    (
        "of a frozen layer",
        "optimizer = torch.optim.AdamW(model.",
        "model[0].requires_grad_(False)\noptimizer = torch.optim.AdamW(model.",
    ),
)
def test_backward_gives_each_number_a_slope__but_not(snippet, old, new, fails):
    fails(test_backward_gives_each_number_a_slope, snippet.edit(old, new))


def test_only_the_noise_is_left(snippet):
    run = snippet.after("loop")

    assert 0.1**2 / 2 < run.losses[-1] < 2 * 0.1**2


@STARTS
def test_only_the_noise_is_left__also_from_other_starts(snippet, seed):
    test_only_the_noise_is_left(seeded(snippet, seed))


@edits(
    (
        "after thirty steps",
        "range(250):\n    optimizer.zero",
        "range(30):\n    optimizer.zero",
    ),
    ("without noise", "0.1 * torch.randn", "0.0 * torch.randn"),
    ("with more noise", "0.1 * torch.randn", "0.5 * torch.randn"),
)
def test_only_the_noise_is_left__but_not(snippet, old, new, fails):
    fails(test_only_the_noise_is_left, snippet.edit(old, new))


def test_the_same_seed_the_same_losses(snippet):
    torch.rand(3)  # somebody drew before
    first = snippet.after("loop").losses

    assert snippet.after("loop").losses == first


def test_the_same_seed_the_same_losses__but_not_without_it(snippet, fails):
    edited = snippet.edit("torch.manual_seed(0)\n", "")
    fails(test_the_same_seed_the_same_losses, edited)


def test_without_zero_grad_nothing_is_said(snippet):
    with no_error(), warnings.catch_warnings():
        warnings.simplefilter("error")
        run = snippet.after("without-zero-grad")

    assert len(run.worse) == 250


def test_without_zero_grad_nothing_is_said__but_not_of_one_guess(
    snippet, fails
):
    edited = snippet.edit(
        "    guesses = forgetful(warmth)\n    loss",
        "    loss",
    )
    edited = edited.edit(
        "worse = []\n", "worse = []\nguesses = forgetful(warmth)\n"
    )
    fails(test_without_zero_grad_nothing_is_said, edited)


def test_without_zero_grad_it_is_worse(snippet):
    run = snippet.after("without-zero-grad")

    assert run.worse[0] == run.losses[0]
    assert run.worse[-1] > 100 * run.losses[-1]


@STARTS
def test_without_zero_grad_it_is_worse__also_from_other_starts(snippet, seed):
    test_without_zero_grad_it_is_worse(seeded(snippet, seed))


@edits(
    (
        "with it",
        "    guesses = forgetful(warmth)",
        "    optimizer.zero_grad()\n    guesses = forgetful(warmth)",
    ),
    (
        "from another start",
        "copy.deepcopy(untrained)\noptimizer",
        "copy.deepcopy(model)\noptimizer",
    ),
)
def test_without_zero_grad_it_is_worse__but_not(snippet, old, new, fails):
    fails(test_without_zero_grad_it_is_worse, snippet.edit(old, new))


def test_far_away_it_is_wrong(snippet):
    assert snippet.after("far-away").hot < 0


@STARTS
def test_far_away_it_is_wrong__also_from_other_starts(snippet, seed):
    test_far_away_it_is_wrong(seeded(snippet, seed))


def test_far_away_it_is_wrong__but_not_with_hot_days(snippet, fails):
    edited = snippet.edit("warmth = 4 *", "warmth = 8 *")
    fails(test_far_away_it_is_wrong, edited)


def test_far_away_it_is_wrong__but_not_among_the_days(snippet, fails):
    edited = snippet.edit("[[6.0]]", "[[3.0]]")
    fails(test_far_away_it_is_wrong, edited)
