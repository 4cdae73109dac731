"""The claims of docs/training/gan.md."""

import pytest
import torch

from extensions.evidence.counterexamples import edits
from extensions.programs.snippet import after

MADE = ("flats", "models", "optimizers")
RUN = (*MADE, "loop", "compare", "losses")  # one run for two claims
GENERATOR = "nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)"


def test_the_fakes_are_like_the_real_ones(snippet):
    run = after(snippet, *RUN)

    spread = (run.fakes.std(dim=0) / run.flats.std(dim=0)).tolist()
    assert spread == pytest.approx([1, 1], abs=0.3)
    assert torch.corrcoef(run.fakes.T)[0, 1].item() > 0.7


@edits(
    ("another start", "= new_models()", "= new_models(1)"),
    ("twice the weights", GENERATOR, GENERATOR.replace("32", "64")),
)
def test_the_fakes_are_like_the_real_ones__also_with(snippet, old, new):
    test_the_fakes_are_like_the_real_ones(snippet.edit(old, new))


@edits(
    (
        "it wants to be caught",
        "is_real)\n    g_optimizer",
        "is_fake)\n    g_optimizer",
    ),
    ("it never steps", "    g_optimizer.step()\n", ""),
)
def test_the_fakes_are_like_the_real_ones__but_not_if(
    snippet, old, new, fails
):
    """The generator learns the opposite, or nothing."""
    fails(test_the_fakes_are_like_the_real_ones, snippet.edit(old, new))


def test_as_real_keeps_a_gradient(snippet):
    gradients = after(snippet, *MADE, "sure").gradients

    assert gradients["as real"] == pytest.approx(-1, abs=0.05)
    assert gradients["minus the discriminator's"] == pytest.approx(0, abs=0.05)


@edits(("-10.0", "-4.0"), ("-10.0", "-30.0"))
def test_as_real_keeps_a_gradient__also_at(snippet, old, new):
    test_as_real_keeps_a_gradient(snippet.edit(old, new))


def test_as_real_keeps_a_gradient__but_not_as_fake(snippet, fails):
    """The generator's loss takes its fakes as fakes."""
    old = '"as real": loss_of(score, torch.tensor(1.0))'
    edited = snippet.edit(old, old.replace("1.0", "0.0"))

    fails(test_as_real_keeps_a_gradient, edited)


@edits(("-10.0", "0.0"), ("-10.0", "2.0"))
def test_as_real_keeps_a_gradient__ends_if_it_is_not_sure(
    snippet, old, new, fails
):
    """While the discriminator is not sure, both give a gradient."""
    fails(test_as_real_keeps_a_gradient, snippet.edit(old, new))


@torch.no_grad()
def fakes_of(generator):
    return generator(torch.randn(600, 2))


def off(run, fakes):
    """Return how far the fakes' covariance is off."""
    return (torch.cov(fakes.T) - torch.cov(run.flats.T)).norm().item()


def test_neither_loss_falls(snippet):
    run = after(snippet, *RUN)

    first = run.mean(run.d_losses[:100]), run.mean(run.g_losses[:100])
    last = run.mean(run.d_losses[-100:]), run.mean(run.g_losses[-100:])
    assert last[0] == pytest.approx(1.39, abs=0.03)
    assert last > tuple(loss - 0.1 for loss in first)
    assert last[1] > first[1] - 0.1
    assert off(run, run.fakes) < 0.5 * off(run, fakes_of(run.new_models()[0]))


@edits(("it never steps", "    g_optimizer.step()\n", ""))
def test_neither_loss_falls__but_the_discriminators_if_it_wins(
    snippet, old, new, fails
):
    """Against a generator that never steps, the discriminator wins."""
    fails(test_neither_loss_falls, snippet.edit(old, new))


def raise_in(snippet, cell):
    """Run a cell that meets an error, and raise it."""
    only = snippet.only(*MADE, cell)
    return only.edit("print(error)", "raise").after(cell)


def test_without_detach_the_graph_is_gone(snippet):
    with pytest.raises(RuntimeError, match="through the graph a second time"):
        raise_in(snippet, "without-detach")


def test_without_detach_the_graph_is_gone__but_not_with_it(snippet, fails):
    """With `fake.detach()`, the first backward pass stops at the fakes."""
    edited = snippet.edit(
        "(discriminator(fake), is_fake)  # no detach",
        "(discriminator(fake.detach()), is_fake)",
    )
    fails(test_without_detach_the_graph_is_gone, edited)


def test_a_step_in_between_is_noticed(snippet):
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        raise_in(snippet, "too-early")


def test_a_step_in_between_is_noticed__ends_with_autocast(snippet, fails):
    """Under autocast, nothing is noticed: the backward pass uses 16-bit
    copies of the weights, from before the step.
    """
    line = "scores = discriminator(fake)"
    autocast = 'with torch.autocast("cpu", dtype=torch.bfloat16): '
    edited = snippet.edit(f"{line}  # before", f"{autocast}{line}  # before")
    edited = edited.edit("loss_of(scores, ", "loss_of(scores.float(), ")
    fails(test_a_step_in_between_is_noticed, edited)


@edits(
    (
        "asked again",
        "loss_of(scores, is_real).backward()",
        "loss_of(discriminator(fake), is_real).backward()",
    ),
    (
        "no step in between",
        "d_loss.backward()\nd_optimizer.step()\ntry",
        "d_loss.backward()\ntry",
    ),
)
def test_a_step_in_between_is_noticed__but_not_if(snippet, old, new, fails):
    """The score is newer than the weights, or there is no step."""
    fails(test_a_step_in_between_is_noticed, snippet.edit(old, new))
