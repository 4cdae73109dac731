"""The claims of docs/start/first_training.md."""

import os
import subprocess
import sys
import textwrap
import warnings
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_pre_hook

from extensions.evidence.counterexamples import edits, no_error

# The end of the first loop, which the second does not have.
BACKWARD = "    loss.backward()\n"
STEP = "    optimizer.step()\n"
KEEP = "    losses.append"
GUESS = "guesses = model(warmth)\n    loss = F.mse_loss(guesses, sold)\n"
STEPS = "range(250):\n    optimizer.zero"
MADE = "nn.Sequential(*layers).to(device)\n"
ADAMW = "AdamW(model.parameters(), lr=0.05"
LEARNS = "device", "data", "model", "untrained", "loop"
STARTS = pytest.mark.parametrize("seed", [1, 2, 3])


def seeded(snippet, seed):
    """Return the program with other days and another model to begin with."""
    return snippet.edit("manual_seed(0)", f"manual_seed({seed})")


@cache
def trained(snippet, cell):
    """Run a program to the end of a cell, once for all tests that read it."""
    return snippet.after(cell)


def in_three_steps(snippet):
    """Return the program with a short training, where that will do."""
    return snippet.edit(STEPS, STEPS.replace("250", "3"))


def rule(warmth):
    """Return what is sold, without the noise."""
    return 0.3 + 3 * torch.exp(-((warmth - 2.6) ** 2))


def state_of(model):
    """Return a copy of all numbers of a model, those that it learns first."""
    held = [*model.parameters(), *model.buffers()]
    return [each.detach().clone() for each in held]


def by_line(snippet, steps=1):
    """Run the body of the loop line by line.

    Return the variables, and of each line the numbers of the model before and
    behind it, and what lies in ``.grad`` then.
    """
    run = snippet.after("model")
    body = snippet.cell("loop").source.partition("range(250):\n")[2]
    run.losses, seen = [], []
    for line in textwrap.dedent(body).splitlines() * steps:
        before = state_of(run.model)
        exec(line, vars(run))
        slopes = [each.grad for each in run.model.parameters()]
        seen.append((line, before, state_of(run.model), slopes))
    return run, seen


@contextmanager
def silence():
    """Fail the test at an error and at a warning."""
    with no_error(), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# Do this


SCRIPT = """
import sys
sys.modules["matplotlib"] = None  # as if it were not installed
exec(compile(sys.argv[1], "first_training.py", "exec"))
"""


def test_a_picture_needs_matplotlib(snippet):
    text = in_three_steps(snippet).text
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, text],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert "at 25 °C" in done.stdout  # what comes before it runs
    assert "ModuleNotFoundError" in done.stderr
    assert "the best day" not in done.stdout


def test_a_picture_needs_matplotlib__but_not_without_one(snippet, fails):
    """A script that draws no picture runs to its end."""
    edited = snippet
    for each in snippet.cells().values():
        if each.is_display:
            edited = edited.edit(each.source, "pass\n")
    fails(test_a_picture_needs_matplotlib, edited)


def test_the_loss_falls(snippet):
    losses = trained(snippet, "loop").losses

    assert losses[0] > 2
    assert losses[-1] < 0.05
    assert len(losses) == 250


@STARTS
def test_the_loss_falls__also_from_other_starts(snippet, seed):
    test_the_loss_falls(seeded(snippet, seed))


def test_the_loss_falls__but_not_without_zero_grad(snippet, fails):
    """Without `zero_grad()`, each gradient adds to those before, and the loss
    does not stay down.
    """
    edited = snippet.edit("    optimizer.zero_grad()\n", "")
    fails(test_the_loss_falls, edited)


@edits(
    ("without backward", BACKWARD + STEP + KEEP, STEP + KEEP),
    ("without step", STEP + KEEP, KEEP),
    ("in thirty steps", STEPS, STEPS.replace("250", "30")),
    ("from guesses that fit", "3 * torch.exp", "0 * torch.exp"),
)
def test_the_loss_falls__but_not(snippet, old, new, fails):
    """Without a gradient or a step, nothing moves; thirty steps are too few;
    and an easy rule starts below 2.
    """
    fails(test_the_loss_falls, snippet.edit(old, new))


# How it works


def test_before_and_after_are_guesses(snippet):
    start = snippet.after("model")

    for program in (in_three_steps(snippet), snippet):
        run = program.after("before-and-after")
        asked = run.degrees.to(run.device)
        for guesses, model in (
            (run.before, start.model),
            (run.after, run.model),
        ):
            expected = model(asked).detach().cpu()
            torch.testing.assert_close(guesses, expected)
        assert not torch.allclose(run.before, run.after)


@edits(
    ("without a copy", "copy.deepcopy(model)\n\n", "model\n\n"),
    ("of one model alone", "before = untrained(", "before = model("),
    ("of the untrained alone", "after = model(", "after = untrained("),
    ("of other days", "before = untrained(", "before = untrained(1 + "),
)
def test_before_and_after_are_guesses__but_not(snippet, old, new, fails):
    """Without a copy, `untrained` is the model itself and learns too; the
    other edits ask the wrong model or days.
    """
    fails(test_before_and_after_are_guesses, snippet.edit(old, new))


def test_it_finds_the_best_day(snippet):
    run = trained(snippet, "best")

    assert run.degrees.shape == (41, 1)
    torch.testing.assert_close(run.degrees[:, 0], torch.arange(41) / 10)
    assert run.best == run.degrees[run.after.argmax()].item()
    assert abs(10 * run.best - 26) <= 2.01
    noise = run.sold - rule(run.warmth)
    assert noise.std() < 0.13
    assert rule(run.degrees).argmax() == 26


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
    ("by a rule that is highest elsewhere", "- 2.6)", "- 2.5)"),
)
def test_it_finds_the_best_day__but_not(snippet, old, new, fails):
    """Untrained, without a ReLU or from shuffled sales, it finds another day;
    another rule has another best day.
    """
    fails(test_it_finds_the_best_day, snippet.edit(old, new))


def places(program):
    """Return on which devices a program's models are, and what they take."""
    seen = set()

    def look(layer, inputs):
        tensors = [*inputs, *layer.parameters(), *layer.buffers()]
        seen.update(each.device.type for each in tensors)

    handle = register_module_forward_pre_hook(look)
    try:
        with no_error():
            run = program.after("far-away")
    finally:
        handle.remove()
    held = {run.warmth.device.type, run.sold.device.type}
    return run.device.type, seen | held, [run.before, run.after]


@pytest.mark.simulates("an accelerator")
def test_all_is_on_the_device(snippet, monkeypatch):
    asks = in_three_steps(snippet).only(
        *LEARNS, "ask", "before-and-after", "far-away"
    )
    device, used, drawn = places(asks)
    assert used == {device}
    assert {each.device.type for each in drawn} == {"cpu"}

    item = torch.Tensor.item
    monkeypatch.setattr(
        torch.Tensor, "item", lambda x: 0.0 if x.is_meta else item(x)
    )
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: torch.zeros(x.shape))
    # meta stands in for an accelerator, without numbers
    on_meta = asks.edit("torch.accelerator.is_available()", "True").edit(
        "torch.accelerator.current_accelerator()", 'torch.device("meta")'
    )
    device, used, drawn = places(on_meta)
    assert used == {device} == {"meta"}
    assert {each.device.type for each in drawn} == {"cpu"}


@edits(
    ("if the model stays", MADE, MADE.replace(".to(device)", "")),
    ("if the days stay", "= warmth.to(device)", "= warmth"),
    ("if the sales stay", ", sold.to(device)", ", sold"),
    ("if a question stays", "[[2.5]], device=device", "[[2.5]]"),
    ("if many stay", "model(degrees.to(device))", "model(degrees)"),
    (
        "if the guesses stay",
        "model(degrees.to(device)).cpu()",
        "model(degrees.to(device))",
    ),
    ("if the last one stays", "[[6.0]], device=device", "[[6.0]]"),
)
def test_all_is_on_the_device__but_not(snippet, monkeypatch, old, new, fails):
    """Leave out one `.to(device)`, `device=` or `.cpu()`, and that part is not
    where the others are.
    """
    fails(test_all_is_on_the_device, snippet.edit(old, new), monkeypatch)


def losses_of(program):
    """Run a program on the CPU, and return its losses."""
    on_cpu = program.edit("torch.accelerator.is_available()", "False")
    return on_cpu.after("loop").losses


def test_the_same_seed_the_same_losses(snippet):
    first = losses_of(snippet)
    torch.rand(3)  # somebody draws

    assert losses_of(snippet) == first


def test_the_same_seed_the_same_losses__also_with_another_seed(snippet):
    test_the_same_seed_the_same_losses(seeded(snippet, 1))


def test_the_same_seed_the_same_losses__also_with_two_threads(snippet):
    torch.set_num_threads(2)
    try:
        test_the_same_seed_the_same_losses(snippet)
    finally:
        torch.set_num_threads(1)


def test_the_same_seed_the_same_losses__also_in_another_process(snippet):
    on_cpu = snippet.edit("torch.accelerator.is_available()", "False")
    program = on_cpu.only(*LEARNS).text + "print(losses)\n"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        text=True,
    )
    assert done.stdout == f"{losses_of(snippet)}\n"


def test_the_same_seed_the_same_losses__but_not_without_it(snippet, fails):
    """Without a seed, the data and the first weights are different in each
    run.
    """
    edited = snippet.edit("torch.manual_seed(0)\n", "")
    fails(test_the_same_seed_the_same_losses, edited)


def test_the_model_has_193_numbers(snippet):
    model = snippet.after("model").model

    assert sum(each.numel() for each in model.parameters()) == 193
    assert all(each.requires_grad for each in model.parameters())
    learned = in_three_steps(snippet).after("loop").model
    assert all(each.requires_grad for each in learned.parameters())


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
    (
        "if some do not learn",
        MADE,
        f"{MADE}model[0].requires_grad_(False)\n",
    ),
)
def test_the_model_has_193_numbers__but_not(snippet, old, new, fails):
    """Thirty-two units without biases leave 97 numbers, and a single layer has
    2; what is frozen does not learn.
    """
    fails(test_the_model_has_193_numbers, snippet.edit(old, new))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_numbers_begin_at_random(snippet, seed):
    first = state_of(snippet.after("model").model)
    other = state_of(seeded(snippet, seed).after("model").model)

    for one, another in zip(first, other, strict=True):
        assert (one != another).all()


@pytest.mark.parametrize("part", ["model", "model[2]"])
def test_the_numbers_begin_at_random__but_not_if_set(snippet, part, fails):
    """Set to zero, the numbers are the same for every seed."""
    zeros = f"for each in {part}.parameters():\n    nn.init.zeros_(each)\n"
    edited = snippet.edit(MADE, MADE + zeros)
    fails(test_the_numbers_begin_at_random, edited, 1)


def test_a_guess_for_each_day(snippet):
    run, _ = by_line(snippet)
    model = snippet.after("model").model

    assert run.guesses.shape == (200, 1) == run.sold.shape
    for guess, day in zip(run.guesses, run.warmth, strict=True):
        torch.testing.assert_close(guess, model(day))


@edits(
    (
        "for days left out",
        GUESS + BACKWARD + STEP + KEEP,
        GUESS.replace("warmth", "warmth[:9]").replace("sold", "sold[:9]")
        + BACKWARD
        + STEP
        + KEEP,
    ),
    (
        "with one guess for all",
        GUESS,
        GUESS.replace("warmth", "warmth.mean().expand(200, 1)"),
    ),
)
def test_a_guess_for_each_day__but_not(snippet, old, new, fails):
    """`warmth[:9]` leaves days out, and the mean warmth gives one guess for
    all days.
    """
    fails(test_a_guess_for_each_day, snippet.edit(old, new))


@pytest.mark.parametrize("steps", [1, 7])
def test_the_loss_is_a_mean_of_squares(snippet, steps):
    run, _ = by_line(snippet, steps)

    apart = (run.guesses - run.sold).flatten().tolist()
    mean = sum(each * each for each in apart) / len(apart)
    assert run.loss.shape == ()
    assert run.loss.item() == pytest.approx(mean, rel=1e-4)


@edits(
    ("of distances", GUESS, GUESS.replace("mse", "l1")),
    ("of a sum", GUESS, GUESS.replace("sold)", "sold, reduction='sum')")),
    ("of a row", GUESS, GUESS.replace("sold)", "sold[:, 0])")),
)
@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
def test_the_loss_is_a_mean_of_squares__but_not(snippet, old, new, fails):
    """`l1_loss` does not square, a sum is no mean, and `sold[:, 0]` compares
    each guess with all days.
    """
    fails(test_the_loss_is_a_mean_of_squares, snippet.edit(old, new), 1)


def test_backward_gives_each_number_a_slope(snippet):
    run, seen = by_line(snippet)

    slopes = {line: found for line, _, _, found in seen}
    assert slopes["loss = F.mse_loss(guesses, sold)"] == [None] * 4
    shapes = [each.shape for each in run.model.parameters()]
    assert [
        getattr(each, "shape", None) for each in slopes["loss.backward()"]
    ] == shapes
    learned = in_three_steps(snippet).after("loop").model
    for each in learned.parameters():
        assert each.grad is not None
        assert each.grad.shape == each.shape


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
    """`detach()` cuts the way back to the first layer, and a frozen layer gets
    no gradient.
    """
    fails(test_backward_gives_each_number_a_slope, snippet.edit(old, new))


def test_only_step_changes_the_model(snippet):
    _, seen = by_line(snippet, steps=3)

    moved = [
        line
        for line, before, after, _ in seen
        if not all(map(torch.equal, before, after))
    ]
    assert moved == ["optimizer.step()"] * 3


@edits(
    ("at a rate of 0", ADAMW, ADAMW.replace("0.05", "0.0")),
    (
        "with a change of our own",
        BACKWARD + STEP + KEEP,
        BACKWARD + "    model[0].bias.data.zero_()\n" + STEP + KEEP,
    ),
)
def test_only_step_changes_the_model__but_not(snippet, old, new, fails):
    """With a rate of 0, `step()` moves nothing; and a line of your own can
    change the model, too.
    """
    fails(test_only_step_changes_the_model, snippet.edit(old, new))


def test_only_step_changes_the_model__ends_with_batch_norm(snippet, fails):
    """With `BatchNorm`: the forward pass updates its running statistics."""
    edited = snippet.edit("nn.ReLU()", "nn.BatchNorm1d(64), nn.ReLU()")
    fails(test_only_step_changes_the_model, edited)


def test_the_first_step_goes_down(snippet):
    run, seen = by_line(snippet)

    [(before, after, slopes)] = [
        found for line, *found in seen if line == "optimizer.step()"
    ]
    assert len(before) == len(after) == len(slopes)
    for old, new, slope in zip(before, after, slopes, strict=True):
        assert slope.any()
        moved = (new - old).sign()
        assert torch.equal(moved[slope != 0], -slope.sign()[slope != 0])
    assert F.mse_loss(run.model(run.warmth), run.sold) < run.loss


@STARTS
def test_the_first_step_goes_down__also_from_other_starts(snippet, seed):
    test_the_first_step_goes_down(seeded(snippet, seed))


@edits(
    ("if told to go up", ADAMW, f"{ADAMW}, maximize=True"),
    ("with strong decay", ADAMW, f"{ADAMW}, weight_decay=20"),
    ("at a rate of 5", ADAMW, ADAMW.replace("0.05", "5")),
)
def test_the_first_step_goes_down__but_not(snippet, old, new, fails):
    """`maximize=True` goes up, a decay of 20 outweighs the gradient, and a
    rate of 5 goes too far.
    """
    fails(test_the_first_step_goes_down, snippet.edit(old, new))


def first_step(program, rate):
    """Return by how much the first step changes each number."""
    _, seen = by_line(
        program.edit("lr=0.05)\n\n# %% u", f"lr={rate})\n\n# %% u")
    )
    [(before, after)] = [
        (before, after)
        for line, before, after, _ in seen
        if line == "optimizer.step()"
    ]
    return [new - old for old, new in zip(before, after, strict=True)]


@pytest.mark.parametrize("rate", [0.05, 0.001, 0.2])
def test_the_rate_scales_a_step(snippet, rate):
    once, twice = first_step(snippet, rate), first_step(snippet, 2 * rate)
    for one, other in zip(once, twice, strict=True):
        assert one.any()
        torch.testing.assert_close(other, 2 * one, rtol=1e-2, atol=1e-6)


@STARTS
def test_the_rate_scales_a_step__also_from_other_starts(snippet, seed):
    test_the_rate_scales_a_step(seeded(snippet, seed), 0.05)


def test_the_rate_scales_a_step__but_not_if_only_a_layer_gets_it(
    snippet, fails
):
    """Here the first layer has a rate of its own, so the other `lr` does not
    reach it.
    """
    groups = (
        "AdamW([{'params': model[0].parameters(), 'lr': 0.01},"
        " *({'params': [p]} for p in model[2].parameters())], lr=0.05"
    )
    edited = snippet.edit(ADAMW, groups)
    fails(test_the_rate_scales_a_step, edited, 0.05)


def test_losses_are_plain_numbers(snippet):
    run, _ = by_line(snippet, steps=3)

    assert [type(each) for each in run.losses] == [float] * 3
    assert run.losses[-1] == run.loss


@edits(
    ("without item", "losses.append(loss.item())", "losses.append(loss)"),
    (
        "with NumPy",
        "losses.append(loss.item())",
        "losses.append(loss.detach().cpu().numpy())",
    ),
)
def test_losses_are_plain_numbers__but_not(snippet, old, new, fails):
    """Without `item()`, you keep tensors, and `numpy()` gives arrays."""
    fails(test_losses_are_plain_numbers, snippet.edit(old, new))


def test_only_the_noise_is_left(snippet):
    run = trained(snippet, "loop")

    assert 0.1**2 / 2 < run.losses[-1] < 2 * 0.1**2
    noise = run.sold - rule(run.warmth)
    assert 0.007 < noise.var() < 0.014  # as 200 numbers show it


@STARTS
def test_only_the_noise_is_left__also_from_other_starts(snippet, seed):
    test_only_the_noise_is_left(seeded(snippet, seed))


@edits(
    ("after thirty steps", STEPS, STEPS.replace("250", "30")),
    ("without noise", "0.1 * torch.randn", "0.0 * torch.randn"),
    ("with a little more noise", "0.1 * torch.randn", "0.13 * torch.randn"),
    ("with more noise", "0.1 * torch.randn", "0.5 * torch.randn"),
)
def test_only_the_noise_is_left__but_not(snippet, old, new, fails):
    """After thirty steps there is more left to learn, and other noise leaves
    another loss.
    """
    fails(test_only_the_noise_is_left, snippet.edit(old, new))


def test_the_rule_is_found(snippet):
    run = trained(snippet, "best")

    torch.testing.assert_close(run.degrees[:, 0], torch.arange(41) / 10)
    assert (run.after - rule(run.degrees)).abs().max() < 0.2
    assert abs(run.answer.item() - rule(torch.tensor(2.5))) < 0.2


@STARTS
def test_the_rule_is_found__also_from_other_starts(snippet, seed):
    test_the_rule_is_found(seeded(snippet, seed))


@edits(
    ("before it learns", "after = model(", "after = untrained("),
    ("in an answer before", "answer = model(", "answer = untrained("),
    ("without a ReLU", "nn.ReLU()", "nn.Identity()"),
    ("without cold days", "4 * torch.rand(200, 1)", "4 - torch.rand(200, 1)"),
)
def test_the_rule_is_found__but_not(snippet, old, new, fails):
    """Without training, a ReLU or the cold days, the model is further off."""
    fails(test_the_rule_is_found, snippet.edit(old, new))


def test_asking_keeps_no_record(snippet):
    run = in_three_steps(snippet).after("before-and-after")

    for each in (run.answer, run.before, run.after):
        assert not each.requires_grad
        assert each.grad_fn is None


@pytest.mark.parametrize("name", ["answer", "before"])
def test_asking_keeps_no_record__but_not_without_no_grad(snippet, name, fails):
    """Without `no_grad()`, the result keeps the graph that `backward()`
    follows.
    """
    edited = snippet.edit(
        f"with torch.no_grad():\n    {name}", f"if True:\n    {name}"
    )
    fails(test_asking_keeps_no_record, edited)


# What goes wrong


def test_without_zero_grad_nothing_is_said(snippet):
    with silence():
        run = snippet.after("without-zero-grad")

    assert len(run.worse) == 250


def test_without_zero_grad_nothing_is_said__also_in_the_first_loop(snippet):
    with silence():
        run = snippet.edit("    optimizer.zero_grad()\n", "").after("loop")

    assert len(run.losses) == 250


def test_without_zero_grad_nothing_is_said__but_not_of_one_guess(
    snippet, fails
):
    """Guess only once, before the loop, and the second `backward()` raises:
    the graph has been freed.
    """
    edited = snippet.edit(
        "    guesses = forgetful(warmth)\n    loss",
        "    loss",
    )
    edited = edited.edit(
        "worse = []\n", "worse = []\nguesses = forgetful(warmth)\n"
    )
    fails(test_without_zero_grad_nothing_is_said, edited)


@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
def test_without_zero_grad_nothing_is_said__but_not_of_a_row(snippet, fails):
    """Compared with the row `sold[:, 0]`, `mse_loss` warns about the
    shapes.
    """
    old = "forgetful(warmth)\n    loss = F.mse_loss(guesses, sold)"
    edited = snippet.edit(old, old.replace("sold)", "sold[:, 0])"))
    fails(test_without_zero_grad_nothing_is_said, edited)


def test_without_zero_grad_it_is_worse(snippet):
    run = trained(snippet, "without-zero-grad")

    assert run.worse[0] == run.losses[0]
    (group,) = run.optimizer.param_groups
    (first,) = snippet.after("model").optimizer.param_groups
    assert group["lr"] == first["lr"]
    assert run.worse[-1] > 100 * run.losses[-1]
    assert {type(each) for each in run.worse} == {float}  # to be drawn


@STARTS
def test_without_zero_grad_it_is_worse__also_from_other_starts(snippet, seed):
    test_without_zero_grad_it_is_worse(seeded(snippet, seed))


WITH_IT = (
    "with it",
    "    guesses = forgetful(warmth)",
    "    optimizer.zero_grad()\n    guesses = forgetful(warmth)",
)


@edits(
    WITH_IT,
    (
        "from another start",
        "copy.deepcopy(untrained)\noptimizer",
        "copy.deepcopy(model)\noptimizer",
    ),
)
def test_without_zero_grad_it_is_worse__but_not(snippet, old, new, fails):
    """With `zero_grad()` back, both runs are the same; from the trained model,
    the first loss is another.
    """
    fails(test_without_zero_grad_it_is_worse, snippet.edit(old, new))


def test_without_zero_grad_it_overshoots(snippet):
    climbs, is_low = 0, False
    for loss in trained(snippet, "without-zero-grad").worse:
        climbs += is_low and loss > 4
        is_low = loss < 2 or (is_low and loss <= 4)

    assert climbs >= 3


@STARTS
def test_without_zero_grad_it_overshoots__also_from_other_starts(
    snippet, seed
):
    test_without_zero_grad_it_overshoots(seeded(snippet, seed))


@edits(
    WITH_IT,
    ("if nothing moves", f"{STEP}    worse", "    worse"),
    ("if nothing is asked", f"{BACKWARD}{STEP}    worse", f"{STEP}    worse"),
    ("in thirty steps", "250):\n    guesses", "30):\n    guesses"),
)
def test_without_zero_grad_it_overshoots__but_not(snippet, old, new, fails):
    """With `zero_grad()`, the loss does not climb; without a gradient or a
    step, it stays; and thirty steps are too few.
    """
    fails(test_without_zero_grad_it_overshoots, snippet.edit(old, new))


# Where it ends


def test_far_away_it_is_wrong(snippet):
    with silence():
        run = snippet.only(*LEARNS, "far-away").after("far-away")

    assert run.hot < 0
    assert run.warmth.max() <= 4
    asked = run.model(torch.tensor([[6.0]], device=run.device)).item()
    assert run.hot == pytest.approx(asked)


@STARTS
def test_far_away_it_is_wrong__also_from_other_starts(snippet, seed):
    test_far_away_it_is_wrong(seeded(snippet, seed))


def test_far_away_it_is_wrong__but_not_with_hot_days(snippet, fails):
    """Trained on days of up to 80 °C, the model has seen 60 °C, and no longer
    guesses below 0.
    """
    edited = snippet.edit("warmth = 4 *", "warmth = 8 *")
    fails(test_far_away_it_is_wrong, edited)


@edits(
    ("among the days", "[[6.0]]", "[[3.0]]"),
    ("with a few hot days", "warmth = 4 *", "warmth = 4.4 *"),
    ("of two numbers", "[[6.0]]", "[[6.0, 6.0]]"),
)
def test_far_away_it_is_wrong__but_not(snippet, old, new, fails):
    """At 30 °C, the model has seen days like that; notes up to 44 °C are
    others; and two numbers are no input for it.
    """
    fails(test_far_away_it_is_wrong, snippet.edit(old, new))
