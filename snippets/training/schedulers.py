"""
Change the learning rate
========================

Five schedules as curves, and the order of the two steps.
"""

# %% imports
import warnings

import torch
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LinearLR,
    OneCycleLR,
    SequentialLR,
    StepLR,
)


# %% rates
def rates(make, steps=20, optimizer=None):
    optimizer = optimizer or SGD([torch.zeros(1)], lr=1.0)
    scheduler = make(optimizer)
    used = []
    for _ in range(steps):
        used.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return used


# %% warm-up
def warm_up(optimizer):
    warm = LinearLR(optimizer, start_factor=0.1, total_iters=5)
    cool = CosineAnnealingLR(optimizer, T_max=15)
    return SequentialLR(optimizer, [warm, cool], milestones=[5])


# %% curves
curves = {
    "StepLR(step_size=5, gamma=0.5)": rates(
        lambda optimizer: StepLR(optimizer, step_size=5, gamma=0.5)
    ),
    "CosineAnnealingLR(T_max=20)": rates(
        lambda optimizer: CosineAnnealingLR(optimizer, T_max=20)
    ),
    "OneCycleLR(max_lr=1, total_steps=20)": rates(
        lambda optimizer: OneCycleLR(optimizer, max_lr=1, total_steps=20)
    ),
    "LinearLR, then CosineAnnealingLR": rates(warm_up),
}

# %% plot
import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 2, figsize=(8, 5), sharex=True, sharey=True)
for axis, (name, rate) in zip(axes.flat, curves.items(), strict=True):
    axis.plot(rate, marker="o", markersize=3, color="#0072B2")
    axis.set_title(name, fontsize=9)
for axis in axes[1]:
    axis.set_xlabel("calls of scheduler.step()")
for axis in axes[:, 0]:
    axis.set_ylabel("learning rate")
figure.suptitle("The learning rate under four schedules")
plt.show()

# %% counts-calls
per_epoch = rates(lambda o: StepLR(o, step_size=5, gamma=0.5), steps=6)
per_batch = rates(lambda o: StepLR(o, step_size=5, gamma=0.5), steps=60)

print(per_epoch[-1], per_batch[-1])

# %% cosine-end
past_the_end = rates(lambda o: CosineAnnealingLR(o, T_max=10), steps=21)

print([round(rate, 3) for rate in past_the_end[::5]])

# %% one-cycle-end
optimizer = SGD([torch.zeros(1)], lr=1.0)
cycle = OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
calls = 0
try:
    while calls < 20:
        optimizer.step()
        cycle.step()
        calls += 1
except ValueError as error:
    print(calls, error)

# %% one-cycle-momentum
optimizer = SGD([torch.zeros(1)], lr=1.0, momentum=0.9)
cycle = OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
given = optimizer.param_groups[0]
momenta, learning_rates = [], []
for _ in range(10):
    momenta.append(given["momentum"])
    learning_rates.append(given["lr"])
    optimizer.step()
    cycle.step()

print([round(each, 2) for each in momenta])

# %% one-cycle-start
optimizer = SGD([torch.zeros(1)], lr=0.5)
OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
first_rate = optimizer.param_groups[0]["lr"]
first_momentum = optimizer.param_groups[0]["momentum"]

print(round(first_rate, 2), first_momentum)


# %% wrong-order
def first_rates(scheduler_first):
    optimizer = SGD([torch.zeros(1)], lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.1)
    used = []
    for _ in range(3):
        if scheduler_first:
            scheduler.step()
        used.append(round(optimizer.param_groups[0]["lr"], 4))
        optimizer.step()
        if not scheduler_first:
            scheduler.step()
    return used


# %% compare-orders
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    right, wrong = first_rates(False), first_rates(True)

print(right, wrong)
for warning in caught:
    print(str(warning.message).partition(". ")[0])

# %% read-the-rate
optimizer = Adam([torch.zeros(1)], lr=1.0)
scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
optimizer.step()
scheduler.step()

print(scheduler.get_last_lr(), optimizer.param_groups[0]["lr"])

# %% groups
optimizer = SGD(
    [
        {"params": [torch.zeros(1)], "lr": 1.0},
        {"params": [torch.zeros(1)], "lr": 0.1},
    ]
)
scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
optimizer.step()
scheduler.step()

print(scheduler.get_last_lr())
