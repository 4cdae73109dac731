"""
Six schedules for the learning rate
===================================

Train one model under six schedules, and see the rate beside the loss.

The rule: **high enough to learn, low enough to end well**. Which schedule does
that best is a matter of the task: look at the curves of yours.

It needs ``torch``, ``matplotlib``.
"""

# %% setup
#
# A noisy regression that a constant rate cannot finish: with small batches,
# a high rate keeps the weights moving around the best ones. The program runs
# on a CPU.

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

STEPS, RATE = 300, 0.2

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
# ``OneCycleLR`` would move the momentum too, and give one to an SGD that has
# none, so it is told not to.


def warm_up_and_cosine(optimizer):
    warm = LinearLR(optimizer, start_factor=0.1, total_iters=30)
    cool = CosineAnnealingLR(optimizer, T_max=STEPS - 30)
    return SequentialLR(optimizer, [warm, cool], milestones=[30])


schedules = {
    "constant": lambda o: LambdaLR(o, lambda step: 1.0),
    "StepLR": lambda o: StepLR(o, step_size=100, gamma=0.1),
    "ExponentialLR": lambda o: ExponentialLR(o, gamma=0.985),
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
# The loss that counts is the one over all data, beyond the best possible one.


def train(make_scheduler):
    """Return the rate of each step, and the excess loss after it."""
    torch.manual_seed(1)
    model = nn.Linear(8, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    scheduler = make_scheduler(optimizer)
    rates, losses = [], []
    for _ in range(STEPS):
        chosen = torch.randint(512, (8,))
        optimizer.zero_grad()
        F.mse_loss(model(inputs[chosen]), targets[chosen]).backward()
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            loss = F.mse_loss(model(inputs), targets).item()
        losses.append(loss - floor)
    return rates, losses


curves = {name: train(make) for name, make in schedules.items()}

# %% ends
#
# Where they end
# --------------
#
# .. _a-constant-rate-ends-worst:
#
# After 300 steps, the constant rate is farther from the best loss than each of
# the five that fall.
#
# .. _falling-rates-end-ten-times-as-close:
#
# Each of the five ends at least ten times as close as the constant one, by the
# mean over the last 50 steps.
#
# .. _one-cycle-with-its-momentum-ends-worse:
#
# Without ``cycle_momentum=False``, ``OneCycleLR`` ends farther from the best
# loss than the constant rate.
#
# .. _step-lr-falls-at-100-and-200:
#
# ``StepLR`` falls to a tenth at the steps 100 and 200.
#
# .. _one-cycle-peaks-at-its-third:
#
# ``OneCycleLR`` is highest at step 89, just before a third of its way.

ends = {name: sum(losses[-50:]) / 50 for name, (_, losses) in curves.items()}

for name, end in ends.items():
    print(f"{name:22} {end:.5f}")

# %% picture

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
