"""
Change the learning rate: schedulers and warm-up
================================================

A warm-up and a cosine, a scheduler in twelve lines, and what goes wrong.
"""

# %% digits
import warnings

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    StepLR,
)
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16
digits = TensorDataset(pixels, torch.tensor(data.target))
train_set, val_set = random_split(digits, [1500, 297])
loader = DataLoader(train_set, batch_size=50, shuffle=True)


def new_model(seed=0):
    torch.manual_seed(seed)
    first, middle = nn.Linear(64, 32), nn.Linear(32, 32)
    return nn.Sequential(
        first, nn.ReLU(), middle, nn.ReLU(), nn.Linear(32, 10)
    )


model, epochs = new_model(), 10
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

# %% schedule
import math

from torch.optim.lr_scheduler import LambdaLR

total = epochs * len(loader)  # optimizer steps, not epochs
warm = total // 10


def factor(step):
    if step < warm:
        return (step + 1) / (warm + 1)
    done = min((step - warm) / (total - warm), 1)
    return (1 + math.cos(math.pi * done)) / 2


scheduler = LambdaLR(optimizer, factor)

# %% train
for epoch in range(epochs):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()  # after each optimizer step
    print(f"epoch {epoch + 1}: next rate {scheduler.get_last_lr()[0]:.4f}")


# %% train-with
torch.manual_seed(0)
batches = [*loader]  # the same ones for each training


def train_with(make, rate=0.1, per_epoch=False, seed=0):
    model = new_model(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    scheduler = make(optimizer)
    losses, taken = [], []
    for _ in range(epochs):
        for images, labels in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            losses.append(loss.item())
            taken.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if not per_epoch:
                scheduler.step()
        if per_epoch:
            scheduler.step()
    return losses, taken


def last(losses):
    return sum(losses[-len(batches) :]) / len(batches)


kinds = {
    "constant": lambda o: LambdaLR(o, lambda step: 1.0),
    "cosine alone": lambda o: CosineAnnealingLR(o, T_max=total),
    "warm-up and cosine": lambda o: LambdaLR(o, factor),
}

# %% worth
for rate in (0.01, 0.1):
    for name, make in kinds.items():
        losses, _ = train_with(make, rate)
        shown = f"loss {losses[0]:.1f}, highest {max(losses):.1f}"
        print(f"{rate:<4}  {name:18}  {shown}, last {last(losses):.1f}")


# %% by-hand
class Schedule:
    def __init__(self, optimizer, factor):
        self.optimizer, self.factor, self.calls = optimizer, factor, -1
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])  # 1
        self.base_lrs = [g["initial_lr"] for g in optimizer.param_groups]
        self.step()  # 2

    def step(self):
        self.calls += 1  # 3
        groups = self.optimizer.param_groups
        for group, base_lr in zip(groups, self.base_lrs, strict=True):
            group["lr"] = base_lr * self.factor(self.calls)  # 4


# %% compare
def new_optimizer(lr=1.0):
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)


def rates(make, steps=60, lr=0.1):
    optimizer, taken = new_optimizer(lr), []
    scheduler = make(optimizer)
    for _ in range(steps):
        taken.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return taken


def apart(make, factor):
    by_hand = rates(lambda o: Schedule(o, factor))
    pairs = zip(by_hand, rates(make), strict=True)
    return max(abs(mine - real) for mine, real in pairs)


print(f"LambdaLR: {apart(lambda o: LambdaLR(o, factor), factor)} apart")

# %% factors
factors = {
    "StepLR": lambda n: 0.5 ** (n // 10),
    "MultiStepLR": lambda n: 0.5 ** sum(n >= m for m in (5, 20)),
    "ExponentialLR": lambda n: 0.9**n,
    "LinearLR": lambda n: 0.1 + 0.9 * min(n / 10, 1),
    "CosineAnnealingLR": lambda n: (1 + math.cos(math.pi * n / 30)) / 2,
}
makes = {
    "StepLR": lambda o: StepLR(o, step_size=10, gamma=0.5),
    "MultiStepLR": lambda o: MultiStepLR(o, milestones=[5, 20], gamma=0.5),
    "ExponentialLR": lambda o: ExponentialLR(o, gamma=0.9),
    "LinearLR": lambda o: LinearLR(o, start_factor=0.1, total_iters=10),
    "CosineAnnealingLR": lambda o: CosineAnnealingLR(o, T_max=30),
}

for name, make in makes.items():
    print(f"{name}: {apart(make, factors[name]):.6f} apart")

# %% curves-drawn
import matplotlib.pyplot as plt

drawn = {name: rates(make, 40) for name, make in makes.items()}
drawn["OneCycleLR"] = rates(lambda o: OneCycleLR(o, 0.1, total_steps=30), 30)
figure, panels = plt.subplots(
    2, 3, figsize=(7.5, 4), sharex=True, sharey=True, layout="constrained"
)
for axes, (name, curve) in zip(panels.flat, drawn.items(), strict=True):
    axes.plot(curve, ".-", color="#0072B2", markersize=3)
    axes.set_title(name, fontsize="medium")
figure.supxlabel("calls of step()")
figure.supylabel("rate")
figure.suptitle("The rate under six schedulers")
plt.show()

# %% one-cycle
sgd = new_optimizer(lr=7.0)  # without momentum
one_cycle = OneCycleLR(sgd, max_lr=0.1, total_steps=30)
(group,) = sgd.param_groups
print(f"rate {group['lr']:.3f}, momentum {group['momentum']}")

# %% plateau
plateau = ReduceLROnPlateau(new_optimizer(), factor=0.5, patience=2)
for val_loss in (0.9, 0.8, 0.8, 0.79995, 0.85, 0.7):  # one an epoch
    plateau.step(val_loss)
    rate, bad = plateau.get_last_lr()[0], plateau.num_bad_epochs
    print(f"loss {val_loss:<7}  bad in a row: {bad}  rate {rate}")

# %% accuracy
for mode in ("min", "max"):
    by_accuracy = ReduceLROnPlateau(new_optimizer(), mode, patience=1)
    for accuracy in (0.5, 0.6, 0.7, 0.8, 0.9):
        by_accuracy.step(accuracy)
    print(f"mode={mode!r}: rate {by_accuracy.get_last_lr()[0]:.2f}")

# %% counts
counted = [
    ("cosine, T_max=300", lambda o: CosineAnnealingLR(o, 300)),
    ("cosine, T_max=10", lambda o: CosineAnnealingLR(o, 10)),
    ("StepLR, step_size=3", lambda o: StepLR(o, 3)),
]
for name, make in counted:
    for unit in ("batch", "epoch"):
        losses, taken = train_with(make, 0.1, per_epoch=unit == "epoch")
        some = "  ".join(f"{taken[n]:.4f}" for n in (0, 5, 10, 299))
        print(f"{name:19}  each {unit}: {some}  loss {last(losses):.0f}")

# %% wrong-order
# Wrong on purpose: do not copy.
early = new_optimizer()
too_soon = ExponentialLR(early, gamma=0.5)
skipped = []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        too_soon.step()
        skipped.append(early.param_groups[0]["lr"])
        early.step()

print(skipped, *[warning.message for warning in caught], sep="\n")

# %% skips
scaler = torch.amp.GradScaler("cpu")  # on a GPU: "cuda"
scaled = new_optimizer()
waiting = ExponentialLR(scaled, gamma=0.5)
(weight,) = scaled.param_groups[0]["params"]
for gradient in (math.inf, 1.0, math.inf, 1.0):
    scaled.zero_grad()
    scaler.scale(weight * gradient).backward()
    before = scaler.get_scale()
    scaler.step(scaled)
    scaler.update()
    if scaler.get_scale() >= before:  # else the step was skipped
        waiting.step()
    print(f"gradient {gradient}: next rate {waiting.get_last_lr()[0]}")


# %% set-by-hand
def halving(optimizer):
    return LambdaLR(optimizer, lambda n: 0.5**n)


def halved(make, base_too=False):
    optimizer, taken = new_optimizer(), []
    scheduler = make(optimizer)
    for step in range(5):
        if step == 2:
            optimizer.param_groups[0]["lr"] /= 2
            if base_too:
                scheduler.base_lrs = [rate / 2 for rate in scheduler.base_lrs]
        taken.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return taken


print("as planned:              ", rates(halving, 5, lr=1.0))
print("ExponentialLR, lr halved:", halved(lambda o: ExponentialLR(o, 0.5)))
print("LambdaLR, lr halved:     ", halved(halving))
print("LambdaLR, base_lrs too:  ", halved(halving, base_too=True))

# %% save
stopped = new_optimizer(lr=0.1)
scheduler = LambdaLR(stopped, factor)
for _ in range(100):
    stopped.step()
    scheduler.step()
saved = {
    "optimizer": stopped.state_dict(),
    "scheduler": scheduler.state_dict(),
}

# %% resume
resumed = new_optimizer(lr=0.1)
scheduler = LambdaLR(resumed, factor)  # first make both
resumed.load_state_dict(saved["optimizer"])  # then load both
scheduler.load_state_dict(saved["scheduler"])


# %% resumed
def next_rates(late=False, forgotten=False):
    optimizer, taken = new_optimizer(lr=0.1), []
    if late:
        optimizer.load_state_dict(saved["optimizer"])
    scheduler = LambdaLR(optimizer, factor)
    if not late:
        optimizer.load_state_dict(saved["optimizer"])
    if not forgotten:
        scheduler.load_state_dict(saved["scheduler"])
    for _ in range(3):
        taken.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return " ".join(f"{rate:.4f}" for rate in taken)


print("as above:                    ", next_rates())
print("state of scheduler forgotten:", next_rates(forgotten=True))
print("scheduler made too late:     ", next_rates(late=True))

# %% five-rates
stepped = rates(lambda o: StepLR(o, step_size=2, gamma=0.1), 5, lr=1.0)
print([round(rate, 4) for rate in stepped])


# %% linear
def linear(step):
    if step < warm:
        return (step + 1) / (warm + 1)
    return max(0, (total - step) / (total - warm))


# %% linear-checked
from itertools import pairwise

line = [linear(step) for step in range(total + 5)]
falls = [a - b for a, b in pairwise(line[warm : total + 1])]
if any(abs(line[n] - factor(n)) > 1e-9 for n in range(warm + 1)):
    print("The warm-up should be that of factor.")
elif max(falls) - min(falls) > 1e-9:
    print("After the warm-up, each step should fall by as much.")
elif line[total:] != [0] * 5:
    print(f"From step {total} on, it should be 0, and not {line[total:]}.")
else:
    print("Right: a straight line from 1 to 0, which stays there.")
