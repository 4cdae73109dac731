"""
Train with a batch that does not fit into memory
================================================

A large batch in parts: one step, its memory, and six ways to get it wrong.
"""

# %% days
from itertools import islice
from math import ceil
from weakref import WeakSet

import torch
from torch import nn, optim
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
days = torch.randn(42, 3)  # pressure, wind and clouds of the day before
notes = (days @ torch.randn(3, 3) + 2 * torch.randn(42, 3)).argmax(1)
notes[20::3] = -100  # nobody noted sun (0), rain (1) or snow (2)


# %% model
def new_model(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))


# %% step
def big_step(model, optimizer, parts):  # parts: a list, read twice
    total = sum((labels != -100).sum().item() for _, labels in parts) or 1
    optimizer.zero_grad()
    mean = 0.0
    for inputs, labels in parts:
        loss = F.cross_entropy(model(inputs), labels, reduction="sum") / total
        loss.backward()  # adds to the gradients, and frees this part
        mean += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # if you clip
    optimizer.step()
    return mean


# %% train-epoch
def train_epoch(model, optimizer, schedule, loader, parts_per_step):
    model.train()
    losses = []
    batches = iter(loader)
    while parts := list(islice(batches, parts_per_step)):
        losses.append(big_step(model, optimizer, parts))
        schedule.step()  # once for each step of the optimizer
    return losses


# %% do-this
loader = DataLoader(TensorDataset(days, notes), batch_size=4, shuffle=True)
epochs, parts_per_step = 5, 4  # steps with 16 days; 4 fit into memory

model = new_model()
optimizer = optim.AdamW(model.parameters(), lr=0.03)
steps = epochs * ceil(len(loader) / parts_per_step)
schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
for _ in range(epochs):
    losses = train_epoch(model, optimizer, schedule, loader, parts_per_step)
    print(*(f"{loss:.3f}" for loss in losses))


# %% gradient
def gradient(model, parts, shares):
    model.zero_grad()
    for (inputs, labels), share in zip(parts, shares, strict=True):
        loss = F.cross_entropy(model(inputs), labels)  # the mean of a part
        (share * loss).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# %% cut
def cut(inputs, labels, size):
    return list(zip(inputs.split(size), labels.split(size), strict=True))


def off(found, right):
    return ((found - right).norm() / right.norm()).item()


# %% shares
model = new_model()
together = cut(days[:12], notes[:12], 12)
parts = cut(days[:12], notes[:12], 5)  # 5, 5 and 2 days
whole = gradient(model, together, [1])
ways = {
    "by size": [5 / 12, 5 / 12, 2 / 12],
    "by number": [1 / 3, 1 / 3, 1 / 3],
    "not divided": [1, 1, 1],
}

for name, shares in ways.items():
    print(f"{name}: {off(gradient(model, parts, shares), whole):.1%} off")

# %% shares-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7.5, 2.8), layout="constrained")
colors = ("#0072B2", "#D55E00", "#999999")
names = []
for row, (name, shares) in enumerate(ways.items()):
    end = 0.0
    for i, color in enumerate(colors):
        bias = gradient(model, parts[i : i + 1], shares[i : i + 1])[-3].item()
        given = {"color": color, "label": f"part {i + 1}" if row == 0 else ""}
        axes.barh(row + 0.25 * (i - 1), bias, 0.23, left=end, **given)
        end += bias
    axes.plot([end, end], [row - 0.4, row + 0.4], "k", linewidth=3)
    names.append(f"{name}: {end:.3f}")
axes.axvline(whole[-3].item(), color="k", linestyle="--", label="whole")
axes.set_yticks(range(3), names)
axes.set(xlim=(0, 0.5), ylim=(2.5, -0.5))
axes.set_xlabel("gradient of one bias; a part begins where the last one ends")
axes.legend(loc="right")
figure.suptitle("Three parts of 5, 5 and 2 days, added up in three ways")
plt.show()


# %% kept
class Kept:
    def __init__(self, tensor):
        self.tensor = tensor


# %% most-kept
def most_kept(model, step):
    """Return the most bytes that autograd keeps at once, weights aside."""
    weights = {p.data_ptr() for p in model.parameters()}
    alive, counts = WeakSet(), [0]

    def pack(tensor):
        kept = Kept(tensor)
        alive.add(kept)  # until autograd lets go of it
        sizes = {k.tensor.data_ptr(): k.tensor.nbytes for k in alive}
        counts.append(sum(sizes[at] for at in sizes.keys() - weights))
        return kept

    with saved_tensors_hooks(pack, lambda kept: kept.tensor):
        step()
    return max(counts)


# %% memory
many, sky = torch.randn(4096, 3), torch.randint(3, (4096,))


def memory(n):
    model, parts = new_model(), cut(many, sky, 4096 // n)
    optimizer = optim.AdamW(model.parameters())
    kept = most_kept(model, lambda: big_step(model, optimizer, parts))
    held = [*model.parameters(), *(p.grad for p in model.parameters())]
    for state in optimizer.state.values():
        held += [state["exp_avg"], state["exp_avg_sq"]]
    return kept, sum(tensor.nbytes for tensor in held)


# %% memory-tabulated
import pandas as pd

rows = {}
for n in (1, 2, 4, 8, 16):
    name = f"{n} parts" if n > 1 else "whole"
    rows[name] = [f"{size / 1000:.1f}" for size in memory(n)]
columns = ["for the way back, kB", "weights, gradients, averages, kB"]
pd.DataFrame.from_dict(rows, orient="index", columns=columns)


# %% fit
def fit(kind, lr, share, seed=1):
    model = new_model(seed)
    optimizer = kind(model.parameters(), lr=lr)
    for _ in range(40):
        gradient(model, cut(days, notes, 6), [share] * 7)  # seven parts
        optimizer.step()
    return model


def mean_loss(model):
    with torch.no_grad():
        return F.cross_entropy(model(days), notes).item()


# %% undivided
runs = {
    "SGD, rate 3, divided": (optim.SGD, 3.0, 1 / 7),
    "SGD, rate 3, forgotten": (optim.SGD, 3.0, 1),
    "AdamW, divided": (optim.AdamW, 0.03, 1 / 7),
    "AdamW, forgotten": (optim.AdamW, 0.03, 1),
    "AdamW, a millionth of the loss, divided": (optim.AdamW, 0.03, 1e-6 / 7),
    "AdamW, a millionth of the loss, forgotten": (optim.AdamW, 0.03, 1e-6),
}

# %% undivided-tabulated
import pandas as pd

rows = {name: round(mean_loss(fit(*run)), 4) for name, run in runs.items()}
pd.DataFrame.from_dict(rows, orient="index", columns=["loss after 40 steps"])

# %% weeks
lengths = [5, 4, 2, 1]
padded = notes[:20].reshape(4, 5).clone()
for week, length in zip(padded, lengths, strict=True):
    week[length:] = -100  # padding
model = new_model()
halves = cut(days[:20], padded.flatten(), 10)  # 9 labels and 3
right = gradient(model, cut(days[:20], padded.flatten(), 20), [1])

by_half, by_label = [1 / 2, 1 / 2], [9 / 12, 3 / 12]

for shares in (by_half, by_label):
    print(f"{shares}: {off(gradient(model, halves, shares), right):.1%} off")


# %% common-loop
# Wrong on purpose: do not copy.
def common_epoch(model, optimizer, loader, parts_per_step):
    for i, (inputs, labels) in enumerate(loader, start=1):
        loss = F.cross_entropy(model(inputs), labels) / parts_per_step
        loss.backward()
        if i % parts_per_step == 0:
            optimizer.step()
            optimizer.zero_grad()


# %% left-over
batches = cut(days[:20], notes[:20], 2)  # ten parts: 4, 4 and 2
model = new_model()
optimizer = optim.SGD(model.parameters(), lr=0.1)
common_epoch(model, optimizer, batches, parts_per_step=4)
left_over = torch.cat([p.grad.flatten() for p in model.parameters()])

print(f"length of the gradient left over: {left_over.norm():.2f}")


# %% clip
def clipped(each_part, max_norm=0.1):
    model = new_model()
    for (inputs, labels), share in zip(parts, ways["by size"], strict=True):
        (share * F.cross_entropy(model(inputs), labels)).backward()
        if each_part:  # wrong
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# %% clip-once
target = whole * 0.1 / whole.norm()

print(f"clipped once: {off(clipped(each_part=False), target):.1%} off")
print(f"clipped in each part: {off(clipped(each_part=True), target):.1%} off")


# %% rates
def rates(calls_per_step, steps=20):
    optimizer = optim.SGD([torch.zeros(1)], lr=0.1)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for _ in range(calls_per_step):
            schedule.step()
    return found


# %% rates-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7.5, 2.6), layout="constrained")
axes.plot(rates(1), "o-", color="#0072B2", label="once for each step")
axes.plot(rates(4), "x--", color="#D55E00", label="once for each of 4 parts")
axes.set(xlabel="step of the optimizer", ylabel="rate", xticks=range(0, 20, 5))
figure.legend(loc="outside lower center", ncols=2)
figure.suptitle("A cosine over 20 steps")
plt.show()


# %% at-once
# Wrong on purpose: do not copy.
def at_once(model, parts, total):
    losses = []
    for inputs, labels in parts:
        scores = model(inputs)
        losses.append(F.cross_entropy(scores, labels, reduction="sum") / total)
    sum(losses).backward()


model = new_model()
eighths = cut(many, sky, 512)
kept = most_kept(model, lambda: at_once(model, eighths, 4096))

print(f"{kept / 1000:.1f} kB")


# %% edges
def edge(layer):
    torch.manual_seed(1)
    layers = nn.Linear(3, 16), layer, nn.Tanh(), nn.Linear(16, 3)
    model = nn.Sequential(*layers)
    torch.manual_seed(1)
    whole = gradient(model, together, [1])
    torch.manual_seed(1)
    return off(gradient(model, parts, ways["by size"]), whole)


edges = {
    "LayerNorm": nn.LayerNorm(16),
    "BatchNorm": nn.BatchNorm1d(16),
    "two Dropouts": nn.Sequential(nn.Dropout(0.2), nn.Dropout(0.2)),
}

for name, layer in edges.items():
    print(f"{name}: {edge(layer):.1%} off")


# %% pairs
def pair_gradient(today, tomorrow, size):
    """Ask which day of its part follows a day."""
    model = new_model()
    for first, second in cut(today, tomorrow, size):
        scores = model(first) @ model(second).T
        labels = torch.arange(len(first))
        loss = F.cross_entropy(scores, labels, reduction="sum") / len(today)
        loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# %% pairs-in-parts
pairs = days[:12], days[1:13]
in_parts, in_one = (pair_gradient(*pairs, size) for size in (4, 12))

print(f"{off(in_parts, in_one):.1%} off")
