"""
Six schedules for the learning rate
===================================

Train one model under six schedules, and see the rate beside the loss.

The rule: **begin with a rate that is high enough to learn, and end with one
that is low**. Replace the model and the data by yours, and look at your curves
before you choose.

Give the script the lengths and the rate that you want to see::

    python learning_rate_schedules.py --steps 1000 --rate 0.05 --warm-up 100

It needs ``torch``, ``matplotlib``, ``tqdm``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.

STEPS = 300  # of each training
RATE = 0.2  # the highest learning rate
WARM_UP = 30  # steps, before the cosine
STEP_SIZE = 100  # steps after which StepLR divides by 10
LAST = 0.01  # the part of the rate that ExponentialLR ends at
BATCH = 8  # samples of a step
START = 2  # the seed of the first weights and of the batches

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.
#
# .. _a-number-out-of-bounds-is-refused:
#
# A number that is out of bounds ends the script, with a line that says what is
# possible.

import argparse

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="Compare six schedules for the learning rate.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--steps", type=int, default=STEPS, help="of each training")
    add("--rate", type=float, default=RATE, help="highest learning rate")
    add("--warm-up", type=int, default=WARM_UP, help="steps before the cosine")
    add("--step-size", type=int, default=STEP_SIZE, help="of StepLR")
    add("--last", type=float, default=LAST, help="end of ExponentialLR")
    add("--batch", type=int, default=BATCH, help="samples of a step")
    add("--start", type=int, default=START, help="seed of weights and batches")
    options = parser.parse_args()
    if options.steps < 20 or not 0 < options.warm_up < options.steps:
        parser.error("--steps is at least 20, --warm-up from 1 to below it")
    if options.batch < 1 or options.step_size < 1:
        parser.error("--batch and --step-size are at least 1")
    if not 0 < options.rate < float("inf") or not 0 < options.last <= 1:
        parser.error("--rate is above 0, and --last is above 0 and up to 1")
    if options.start < 0:
        parser.error("--start is at least 0")
    STEPS, RATE, START = options.steps, options.rate, options.start
    WARM_UP, STEP_SIZE = options.warm_up, options.step_size
    LAST, BATCH = options.last, options.batch

# %% setup
#
# A small model learns from 512 noisy samples, a few at a time, on the CPU.

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    OneCycleLR,
    SequentialLR,
    StepLR,
)
from tqdm import tqdm

torch.manual_seed(0)
inputs = torch.randn(512, 8)
targets = inputs @ torch.randn(8, 1) + torch.randn(512, 1)
# With 64 bits: with 32, the last digits differ from process to process.
x, y = inputs.double(), targets.double()
best = torch.linalg.lstsq(x, y).solution
floor = F.mse_loss(x @ best, y).float().item()

# %% schedules
#
# The schedules
# -------------
#
# See :doc:`/training/schedulers` for what each of them needs.
#
# ``OneCycleLR`` is told not to touch the momentum: the reason comes below.


def warm_up_and_cosine(optimizer):
    warm = LinearLR(optimizer, start_factor=0.1, total_iters=WARM_UP)
    cool = CosineAnnealingLR(optimizer, T_max=STEPS - WARM_UP)
    return SequentialLR(optimizer, [warm, cool], milestones=[WARM_UP])


schedules = {
    "constant": lambda o: LambdaLR(o, lambda step: 1.0),
    "StepLR": lambda o: StepLR(o, step_size=STEP_SIZE, gamma=0.1),
    "ExponentialLR": lambda o: ExponentialLR(o, gamma=LAST ** (1 / STEPS)),
    "CosineAnnealingLR": lambda o: CosineAnnealingLR(o, T_max=STEPS),
    "OneCycleLR": lambda o: OneCycleLR(
        o, max_lr=RATE, total_steps=STEPS, cycle_momentum=False
    ),
    "warm-up, then cosine": warm_up_and_cosine,
}

# %% train
#
# One training for each
# ---------------------
#
# Call ``scheduler.step()`` after ``optimizer.step()``. What counts is the
# *excess loss*: the loss over all samples, minus the lowest possible one.


def train(make_scheduler):
    """Return the rate of each step, and the excess loss after it."""
    torch.manual_seed(START)
    model = nn.Linear(8, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    scheduler = make_scheduler(optimizer)
    rates, losses = [], []
    for _ in tqdm(range(STEPS), leave=False, disable=None):
        chosen = torch.randint(512, (BATCH,))
        optimizer.zero_grad()
        F.mse_loss(model(inputs[chosen]), targets[chosen]).backward()
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            loss = F.mse_loss(model(inputs), targets).item()
        losses.append(loss - floor)
    return rates, losses


def end(losses):
    """Return the mean over the last sixth of the steps."""
    last = losses[-(len(losses) // 6) :]
    return sum(last) / len(last)


# %% curves
#
# .. _the-scheduler-is-all-that-differs:
#
# The first weights and the batches are the same under each schedule.

curves = {name: train(make) for name, make in schedules.items()}
ends = {name: end(losses) for name, (_, losses) in curves.items()}

for name, excess in ends.items():
    print(f"{name:22} {excess:.5f}")

# %% conclusion
#
# Where they end
# --------------
#
# .. _falling-rates-end-five-times-as-close:
#
# All five falling schedules end at least five times as close to the best loss
# as the constant rate, averaged over the last 50 steps.
#
# .. _the-closest-depends-on-the-start:
#
# Which schedule ends closest depends on the start: it is ``ExponentialLR``
# from start 2, and ``StepLR`` from start 7.
#
# So do not choose by one run: repeat it with another ``START``.
#
# .. _the-conclusion-names-the-closest:
#
# The conclusion names the schedule that ends closest. It says "Not here" if
# that is the constant rate, or if none has ended closer than it began.


def conclusion(ends, first):
    """Return in words which schedule ends closest to the best loss."""
    name = min(ends, key=ends.get)
    if not ends[name] < first:
        return "Not here: none ended closer than it began. Try a lower rate."
    if name == "constant":
        return "Not here: the constant rate ended closest."
    times = ends["constant"] / ends[name]
    return f"{name} ended closest, {times:.0f} times as close as constant."


print(conclusion(ends, curves["constant"][1][0]))

# %% shapes
#
# .. _step-lr-falls-at-100-and-200:
#
# ``StepLR`` divides the rate by ten each time after as many steps as you say:
# here 100 at 0.2, 100 at 0.02, 100 at 0.002.
#
# .. _one-cycle-peaks-at-its-third:
#
# ``OneCycleLR`` is highest after 30 percent of the steps, with the rate that
# you give it.
#
# .. _the-warm-up-ends-at-the-highest-rate:
#
# The warm-up begins with a tenth of the rate and arrives at all of it after as
# many steps as you say. From there, the cosine falls.
#
# .. _exponential-lr-ends-at-its-last:
#
# After the last step, ``ExponentialLR`` is at the part of the rate that you
# say, here at 0.002.
#
# .. _all-but-the-constant-rate-end-low:
#
# All but the constant rate end below a tenth of the highest rate.

tops = {name: rates.index(max(rates)) for name, (rates, _) in curves.items()}
print({name: top + 1 for name, top in tops.items()})

# %% picture
#
# Above is the rate, and below the loss. Compare the constant rate, in gray,
# with the others, at the beginning and at the end.

import matplotlib.pyplot as plt

colors = ["#999999", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]
styles = ["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1))]
figure, (above, below) = plt.subplots(2, 1, figsize=(7, 6), sharex=True)
for name, color, style in zip(curves, colors, styles, strict=True):
    rates, losses = curves[name]
    above.plot(rates, color=color, linestyle=style, label=name)
    smooth = torch.tensor(losses).unfold(0, 20, 1).mean(dim=1)
    below.plot(range(19, STEPS), smooth, color=color, linestyle=style)
above.set_ylabel("learning rate")
above.legend(fontsize=8)
below.set_yscale("log")
below.set_ylabel("loss beyond the best\n(mean of 20 steps)")
below.set_xlabel("step")
figure.suptitle("Six schedules, and what the model learns under them")
plt.show()

# %% rates
#
# High or low
# -----------
#
# Could one rate do without a schedule?
#
# .. _a-constant-rate-is-too-high-or-too-low:
#
# The constant rates 0.2 and 0.0002 both end at least five times as far from
# the best loss as 0.02.
#
# .. _a-high-rate-is-closer-at-first:
#
# Yet after ten steps, 0.2 is the closest: a high rate learns faster at first,
# and then wanders around the best weights.


def constant(factor):
    """Return what makes a scheduler that only multiplies the rate."""
    return lambda optimizer: LambdaLR(optimizer, lambda step: factor)


constants = {}
for factor in (1.0, 0.1, 0.001):
    _, losses = train(constant(factor))
    constants[factor] = end(losses)
    print(f"rate {factor * RATE:<6g} {constants[factor]:.5f}")

# %% momentum
#
# OneCycleLR diverges
# -------------------
#
# .. _one-cycle-gives-a-momentum:
#
# Without ``cycle_momentum=False``, ``OneCycleLR`` gives the SGD a momentum
# from 0.85 to 0.95.
#
# .. _one-cycle-with-its-momentum-diverges:
#
# With that momentum, the training diverges here: the loss rises to more than a
# hundred times the first, and still ends above it.
#
# With momentum, take a lower rate; see :doc:`/training/optimizers`.

rates, diverged = train(
    lambda o: OneCycleLR(o, max_lr=RATE, total_steps=STEPS)
)

print(f"first {diverged[0]:.2f}, highest {max(diverged):.0f}")
words = "not here" if diverged[-1] < diverged[0] else "it diverges"
print(f"last {diverged[-1]:.3g}: {words}")
