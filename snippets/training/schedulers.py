"""
Change the learning rate
========================

A warm-up and a cosine, seven other schedules, and what puts them out of step.
"""

# %% imports
import math

import torch
from torch import nn, optim
from torch.optim.lr_scheduler import LambdaLR


# %% schedule
def warm_up_cosine(optimizer, warm, total):
    def share(step):
        if step >= total:
            return 0.0
        if step < warm:
            return (step + 1) / (warm + 1)
        done = (step - warm) / (total - warm)
        return (1 + math.cos(math.pi * done)) / 2

    return LambdaLR(optimizer, share)


# %% more-imports
import inspect
import warnings

from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    StepLR,
)

# %% model
torch.manual_seed(0)
apartments = torch.randn(96, 3)  # size, rooms and age
size, rooms, age = apartments.T
prices = (3 + 2 * size + rooms * age)[:, None]
data = torch.utils.data.TensorDataset(apartments, prices)
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)


def new_model(seed=0):
    torch.manual_seed(seed)
    middle = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
    return nn.Sequential(nn.Linear(3, 32), nn.ReLU(), middle, nn.Linear(32, 1))


# %% count
epochs, accumulate = 10, 4
total = epochs * math.ceil(len(loader) / accumulate)  # optimizer steps
model = new_model()
optimizer = optim.AdamW(model.parameters(), lr=0.03)
schedule = warm_up_cosine(optimizer, warm=total // 10, total=total)

print(f"{len(loader)} batches an epoch, {total} optimizer steps in all")

# %% train
used = []
for _ in range(epochs):
    for number, (inputs, targets) in enumerate(loader, start=1):
        loss = nn.functional.mse_loss(model(inputs), targets)
        (loss / accumulate).backward()
        if number % accumulate == 0 or number == len(loader):
            used.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()

print([round(rate, 4) for rate in used])

# %% groups
body = {"params": model[:3].parameters(), "lr": 0.001}
head = {"params": model[3].parameters(), "lr": 0.01}
optimizer = optim.AdamW([body, head])
schedule = ExponentialLR(optimizer, gamma=0.5)

for _ in range(3):
    print(schedule.get_last_lr(), [g["lr"] for g in optimizer.param_groups])
    optimizer.step()
    schedule.step()


# %% toy
def new_optimizer():
    return optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)


# %% rates
def rates(make, steps=30, every=1):
    optimizer, taken = new_optimizer(), []
    schedule = make(optimizer)
    for step in range(1, steps + 1):
        taken.append(schedule.get_last_lr()[0])
        optimizer.step()
        if step % every == 0:
            schedule.step()
    return taken


# %% kinds
kinds = {
    "StepLR": lambda o: StepLR(o, step_size=10, gamma=0.5),
    "MultiStepLR": lambda o: MultiStepLR(o, milestones=[5, 20], gamma=0.5),
    "ExponentialLR": lambda o: ExponentialLR(o, gamma=0.9),
    "CosineAnnealingLR": lambda o: CosineAnnealingLR(o, T_max=30),
    "LinearLR": lambda o: LinearLR(o, start_factor=0.1, total_iters=10),
    "OneCycleLR": lambda o: OneCycleLR(o, max_lr=1.0, total_steps=30),
}


# %% follow
def follow(metrics, **options):
    optimizer, taken = new_optimizer(), []
    schedule = ReduceLROnPlateau(optimizer, **options)
    for metric in metrics:
        taken.append(schedule.get_last_lr()[0])
        schedule.step(metric)
    return taken


# %% curves-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(
    2, 4, figsize=(8.5, 4.2), sharex=True, sharey=True, layout="constrained"
)
ends = {"OneCycleLR": 30}
drawn = {n: rates(make, ends.get(n, 40)) for n, make in kinds.items()}
drawn["warm_up_cosine"] = rates(lambda o: warm_up_cosine(o, 3, 30), 40)
losses = [max(0.4, 1 - 0.1 * epoch) for epoch in range(40)]
drawn["ReduceLROnPlateau"] = follow(losses, patience=7, factor=0.5)
for axes, (name, curve) in zip(panels.flat, drawn.items(), strict=True):
    axes.axvline(30, color="#999999", linestyle=":")
    axes.plot(curve, ".-", color="#0072B2", markersize=3)
    axes.set_title(name, fontsize="medium")
axes.plot(losses, "--", color="#D55E00", label="loss")
axes.legend(frameon=False)
figure.supxlabel("calls of step()")
figure.supylabel("rate")
figure.suptitle("The rate under eight schedules")
plt.show()

# %% tabulated
import pandas as pd

rows = {}
for name, make in kinds.items():
    options = inspect.signature(type(make(new_optimizer()))).parameters
    needed = [k for k, o in options.items() if o.default is o.empty][1:]
    curve = rates(make, 30 if name == "OneCycleLR" else 41)
    row = {f"rate {n}": f"{curve[n]:.3f}" for n in (0, 5, 15, 29)}
    row["rate 40"] = f"{curve[40]:.3f}" if curve[40:] else "an error"
    rows[name] = {"options without a default": ", ".join(needed), **row}

pd.DataFrame.from_dict(rows, orient="index")


# %% begin
def begin(warm, rate, seed=0):
    model, losses = new_model(seed), []
    optimizer = optim.AdamW(model.parameters(), lr=rate)
    schedule = warm_up_cosine(optimizer, warm, total=60)
    for _ in range(60):
        loss = nn.functional.mse_loss(model(apartments), prices)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


# %% begin-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(
    1, 2, sharey=True, figsize=(7.5, 3), layout="constrained"
)
for axes, rate in zip(panels, (0.3, 0.01), strict=True):
    axes.semilogy(begin(0, rate), "--", color="#D55E00", label="no warm-up")
    axes.semilogy(begin(12, rate), color="#0072B2", label="12 warm-up steps")
    axes.set(title=f"rate {rate}", xlabel="optimizer step")
panels[0].set_ylabel("loss")
panels[0].legend(frameon=False)
figure.suptitle("The loss with and without a warm-up")
plt.show()

# %% plateau
optimizer = new_optimizer()
schedule = ReduceLROnPlateau(optimizer, factor=0.5, patience=2)

for loss in (0.9, 0.8, 0.8, 0.79995, 0.85, 0.7):  # one an epoch
    schedule.step(loss)
    print(loss, schedule.num_bad_epochs, schedule.get_last_lr())

# %% accuracy-wrong
# Wrong on purpose: do not copy.
accuracies = [0.5, 0.6, 0.7, 0.8, 0.9]

print(follow(accuracies, patience=1))

# %% accuracy
print(follow(accuracies, patience=1, mode="max"))

# %% wrong-order
# Wrong on purpose: do not copy.
optimizer = new_optimizer()
schedule = ExponentialLR(optimizer, gamma=0.5)
skipped = []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        schedule.step()
        skipped.append(schedule.get_last_lr()[0])
        optimizer.step()

print(skipped, *[warning.message for warning in caught])

# %% right-order
print(rates(lambda o: ExponentialLR(o, gamma=0.5), steps=3))


# %% scaled
def step_scaled(scaler, optimizer, schedule):
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= before > 0:  # else the step was skipped
        schedule.step()


# %% skips
scaler = torch.amp.GradScaler("cpu")
optimizer = new_optimizer()
schedule = ExponentialLR(optimizer, gamma=0.5)
(weight,) = optimizer.param_groups[0]["params"]
for gradient in (math.inf, 1.0, math.inf, 1.0):
    optimizer.zero_grad()
    scaler.scale(weight * gradient).backward()
    step_scaled(scaler, optimizer, schedule)
    print(f"{gradient}: next rate {schedule.get_last_lr()[0]}")


# %% never-falls
plans = {
    "30 optimizer steps": rates(lambda o: warm_up_cosine(o, 3, 30)),
    "120 batches": rates(lambda o: warm_up_cosine(o, 12, 120)),
    "10 epochs": rates(lambda o: warm_up_cosine(o, 1, 10)),
    "30, called once an epoch": rates(
        lambda o: warm_up_cosine(o, 3, 30), every=3
    ),
}

for name, plan in plans.items():
    print(f"{name}: last rate {plan[-1]:.3f}")

# %% never-falls-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
styles = [("k", "-"), ("#0072B2", "--"), ("#D55E00", "-."), ("#009E73", ":")]
for (name, plan), (color, line) in zip(plans.items(), styles, strict=True):
    axes.plot(plan, line, color=color, label=name)
axes.set(xlabel="optimizer step", ylabel="rate")
axes.legend(title="total", loc="center left", bbox_to_anchor=(1, 0.5))
axes.set_title("One training of 30 optimizer steps, four counts")
plt.show()

# %% one-cycle-end
# Wrong on purpose: do not copy.
optimizer = new_optimizer()
schedule = OneCycleLR(optimizer, max_lr=1.0, total_steps=30)
calls = 0
try:
    while calls < 40:
        optimizer.step()
        schedule.step()
        calls += 1
except ValueError as error:
    print(f"after {calls} calls: {error}")


# %% by-hand
# Wrong on purpose: do not copy.
def halved(make, at=12, steps=30):
    optimizer, taken = new_optimizer(), []
    schedule = make(optimizer)
    for step in range(steps):
        if step == at:
            optimizer.param_groups[0]["lr"] /= 2
        taken.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return taken


# %% by-hand-shown
import pandas as pd

rows = {}
for name, make in kinds.items():
    pairs = zip(halved(make), rates(make), strict=True)
    shares = [f"{by_hand / planned:.3f}" for by_hand, planned in pairs]
    rows[name] = {f"step {k}": shares[k] for k in (11, 12, 13, 20, 29)}

pd.DataFrame.from_dict(rows, orient="index")

# %% base-rates
optimizer = new_optimizer()
schedule = warm_up_cosine(optimizer, warm=3, total=30)
schedule.base_lrs = [rate / 2 for rate in schedule.base_lrs]
optimizer.step()
schedule.step()

print(schedule.get_last_lr())

# %% save
optimizer = new_optimizer()
schedule = warm_up_cosine(optimizer, warm=3, total=30)
for _ in range(12):
    optimizer.step()
    schedule.step()
saved = {
    "optimizer": optimizer.state_dict(),
    "schedule": schedule.state_dict(),
}


# %% resume
def resume(total=30):
    optimizer = new_optimizer()
    schedule = warm_up_cosine(optimizer, warm=3, total=total)
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
    return optimizer, schedule


# %% forget
# Wrong on purpose: do not copy.
def forget():
    optimizer = new_optimizer()
    schedule = warm_up_cosine(optimizer, warm=3, total=30)
    optimizer.load_state_dict(saved["optimizer"])
    return optimizer, schedule


# %% make-late
# Wrong on purpose: do not copy.
def make_late():
    optimizer = new_optimizer()
    optimizer.load_state_dict(saved["optimizer"])
    schedule = warm_up_cosine(optimizer, warm=3, total=30)
    schedule.load_state_dict(saved["schedule"])
    return optimizer, schedule


# %% next-rates
def next_rates(optimizer, schedule):
    taken = []
    for _ in range(5):
        taken.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return taken


# %% resumed
for way in (resume, forget, make_late):
    optimizer, schedule = way()
    after = next_rates(optimizer, schedule)
    print(f"{way.__name__:10}", *[f"{rate:.3f}" for rate in after])

# %% last-epoch
# Wrong on purpose: do not copy.
try:
    StepLR(new_optimizer(), step_size=10, last_epoch=11)
except KeyError as error:
    print(error.args[0])

# %% no-metric
# Wrong on purpose: do not copy.
try:
    ReduceLROnPlateau(new_optimizer()).step()
except TypeError as error:
    print(error)
