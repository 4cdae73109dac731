"""
Get the same numbers twice
==========================

A training that repeats itself, and what keeps others from doing so.
"""

# %% imports
import copy
import os
import random
import subprocess
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


# %% seed-everything
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


# %% trips
class Trips(Dataset):
    def __init__(self):
        made = torch.Generator().manual_seed(7)
        self.seen = torch.randn(64, 3, generator=made)
        self.late = 5 + self.seen.sum(dim=1, keepdim=True).square()

    def __len__(self):
        return len(self.seen)

    def __getitem__(self, i):
        noise = random.uniform(0.9, 1.1), np.random.normal(0, 0.1)
        return self.seen[i] * noise[0] + noise[1], self.late[i]


# %% model
def new_model(width=16, drop=0.2):
    layers = nn.Linear(3, width), nn.ReLU(), nn.Dropout(drop)
    return nn.Sequential(*layers, nn.Linear(width, 1))


# %% fit
def fit(model, seed, workers=0):
    order = torch.Generator().manual_seed(seed)
    options = {"batch_size": 16, "num_workers": workers}
    loader = DataLoader(Trips(), shuffle=True, generator=order, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    for _ in range(5):
        for inputs, targets in loader:
            optimizer.zero_grad()
            F.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    return model


# %% train
def train(seed, **options):
    seed_everything(seed)
    return fit(new_model(), seed, **options)


# %% same
def same(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(
        torch.equal(one[name], other[name]) for name in one
    )


# %% check
first, second = train(seed=0), train(seed=0)

for model in (first, second):
    print(model[0].weight[0].tolist())
print("same:", same(first, second))


# %% sources
class Noise(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.tensor([random.random(), np.random.rand()])


worker = {"num_workers": 1, "multiprocessing_context": "fork"}
sources = {
    "initial weights": lambda: nn.Linear(2, 4).weight,
    "shuffled order": lambda: [*DataLoader(range(20), shuffle=True)],
    "dropout": lambda: F.dropout(torch.ones(30)),
    "random": random.random,
    "np.random": np.random.rand,
    "both in a worker": lambda: [*DataLoader(Noise(), 4, **worker)].pop(),
    "np.random.default_rng()": lambda: np.random.default_rng().random(),
}

# %% seeds
seeds = {"random.seed": random.seed, "np.random.seed": np.random.seed}
seeds["torch.manual_seed"] = torch.manual_seed
seeds["seed_everything"] = seed_everything


def repeats(seed, draw):
    drawn = []
    for _ in range(2):
        seed(1)
        drawn.append(torch.as_tensor(draw()))
    return torch.equal(*drawn)


# %% reached
import pandas as pd

rows = {
    name: ["same" if repeats(seed, draw) else "" for seed in seeds.values()]
    for name, draw in sources.items()
}

pd.DataFrame.from_dict(rows, orient="index", columns=[*seeds])

# %% takers
takers = {"split": 3, "order": 2, "noise": 3}


def taken(extra, apart):
    shared = torch.Generator().manual_seed(0)
    drawn = {"extra": torch.rand(extra, generator=shared)}
    for i, (name, count) in enumerate(takers.items()):
        own = torch.Generator().manual_seed(i)
        drawn[name] = torch.rand(count, generator=own if apart else shared)
    return drawn


# %% takers-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(2, 1, sharex=True, figsize=(7.5, 3.6))
colors = ["#CC79A7", "#56B4E9", "#E69F00", "#F0E442"]
inside = {"color": "#001840", "ha": "center", "va": "center"}
heads = ["One generator for all", "A generator for each"]
for axes, apart, head in zip(panels, (False, True), heads, strict=True):
    for y, extra in enumerate((0, 1)):
        x = 1 - extra
        drawn = taken(extra, apart)
        for color, numbers in zip(colors, drawn.values(), strict=True):
            for number in numbers.tolist():
                axes.barh(y, 0.94, left=x, color=color, height=0.8)
                axes.text(x + 0.47, y, f"{number:.2f}", **inside)
                x += 1
    axes.set_title(head, fontsize="medium")
    axes.set_yticks([0, 1], ["as it was", "one more"], size="small")
    axes.tick_params(left=False)
    axes.set(xticks=[])
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
labels = [plt.Rectangle((0, 0), 1, 1, color=color) for color in colors]
figure.legend(labels, ["one more", *takers], loc="lower center", ncols=4)
figure.suptitle("One extra draw shifts all later ones")
figure.tight_layout(rect=(0, 0.08, 1, 1))
plt.show()

# %% one-more
# Wrong on purpose: do not copy.
seed_everything(0)
print("an example:", torch.rand(1).item())
shifted = fit(new_model(), 0)

print(shifted[0].weight[0].tolist())

# %% fork
seed_everything(0)
with torch.random.fork_rng():
    print("an example:", torch.rand(1).item())
kept = fit(new_model(), 0)

print(kept[0].weight[0].tolist())

# %% order
left, right = (0.1 + 0.2) + 0.3, 0.1 + (0.2 + 0.3)

print(left, right)

# %% threads
made = torch.Generator().manual_seed(0)
delays = torch.randn(10, 100_000, generator=made)


def sums(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    totals = torch.stack([row.sum() for row in delays])
    torch.set_num_threads(before)
    return totals


# %% summed
one, two = sums(threads=1), sums(threads=2)

print(f"{one[0].item():.6f} {two[0].item():.6f}")
print("other sums:", (one != two).sum().item(), "of", len(one))

# %% alone
torch.manual_seed(0)
layer, days = nn.Linear(512, 16), torch.randn(64, 512)
with torch.no_grad():
    together = layer(days)
    alone = torch.cat([layer(day[None]) for day in days])

print("largest difference:", (together - alone).abs().max().item())


# %% nudge
def nudge(model):
    weights = model[0].weight.data.view(-1)
    largest = weights.argmax()
    weights[largest] = weights[largest].nextafter(torch.tensor(torch.inf))
    return model


# %% walk
def walk(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    seen, late = Trips().seen, Trips().late
    path = []
    for step in range(200):
        path.append(nn.utils.parameters_to_vector(model.parameters()).detach())
        optimizer.zero_grad()
        F.mse_loss(model(seen[step % 4 :: 4]), late[step % 4 :: 4]).backward()
        optimizer.step()
    return torch.stack(path)


# %% apart
def apart(seed):
    paths = []
    for change in (lambda model: model, nudge):
        torch.manual_seed(seed)
        paths.append(walk(change(new_model(32))))
    return (paths[0] - paths[1]).abs().amax(dim=1)


distances = apart(seed=0)

# %% apart-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
axes.semilogy(distances, color="#0072B2")
axes.set(xlabel="step", ylabel="largest difference")
axes.set_title("How far two runs get, one bit apart at the start")
plt.show()

# %% four-digits
# Wrong on purpose: do not copy.
torch.manual_seed(0)
model = new_model().eval()
other = nudge(copy.deepcopy(model))
shown = []
for each in (model, other):
    loss = F.mse_loss(each(Trips().seen), Trips().late)
    shown.append(f"{loss:.2f}")

print(*shown, "same:", same(model, other))

# %% refused
torch.use_deterministic_algorithms(True)
image = torch.arange(16.0).view(1, 1, 4, 4)
pooled = nn.MaxPool2d(2, return_indices=True)(image)
unpool, refused = nn.MaxUnpool2d(2), []

try:
    unpool(*pooled)
except RuntimeError as error:
    refused.append(error)

print(*refused)

# %% warned
torch.use_deterministic_algorithms(True, warn_only=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    restored = unpool(*pooled)
torch.use_deterministic_algorithms(True)

print(str(caught[0].message).partition(", but")[0])
print(restored[0, 0, 1].tolist())

# %% never-written
empty = torch.empty(3)

print(empty)

# %% late
# Wrong on purpose: do not copy.
late = []
for _ in range(2):
    model = new_model()
    seed_everything(0)
    late.append(fit(model, 0))

for model in late:
    print(model[0].weight[0].tolist())


# %% dropped
def dropped(in_each_epoch):
    torch.manual_seed(0)
    kept = []
    for _ in range(3):
        if in_each_epoch:
            torch.manual_seed(0)
        kept.append(F.dropout(torch.ones(24)) > 0)
    return kept


# %% each-epoch
# Wrong on purpose: do not copy.
repeated = dropped(in_each_epoch=True)

for kept in repeated:
    print("".join("x" if each else "." for each in kept))

# %% once
fresh = dropped(in_each_epoch=False)

for kept in fresh:
    print("".join("x" if each else "." for each in kept))

# %% words
program = "words = {'fog', 'hail', 'rain', 'snow', 'sun', 'wind'}"


def in_a_process(hash_seed, end="print(*words)"):
    known = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", f"{program}\n{end}"]
    done = subprocess.run(command, env=known, capture_output=True, check=True)
    return done.stdout.decode().split()


# %% orders
# Wrong on purpose: do not copy.
too_late = "import os\nos.environ['PYTHONHASHSEED'] = '2'\nprint(*words)"

print("seed 1:", *in_a_process("1"))
print("seed 2:", *in_a_process("2"))
print("seed 1, then 2:", *in_a_process("1", too_late))

# %% sorted
always = [in_a_process(seed, "print(*sorted(words))") for seed in "12"]

print(*always, sep="\n")


# %% many-seeds
def error(seed, width):
    seed_everything(seed)
    model = fit(new_model(width, drop=0), seed).eval()
    with torch.no_grad():
        return F.mse_loss(model(Trips().seen), Trips().late).item()


errors = {
    width: torch.tensor([error(seed, width) for seed in range(10)])
    for width in (16, 32)
}

for width, each in errors.items():
    print(f"width {width}: {each.mean():.1f}, std {each.std():.1f}")

# %% many-seeds-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for y, each in enumerate(errors.values()):
    axes.plot(each, [y] * len(each), "o", color="#0072B2", alpha=0.6)
    axes.errorbar(each.mean(), y + 0.25, xerr=each.std(), fmt="ks", capsize=4)
axes.set(yticks=[0, 1], yticklabels=[f"width {width}" for width in errors])
axes.set(ylim=(-0.5, 1.7), xlabel="mean squared error")
axes.set_title("Ten seeds of two models, with mean and standard deviation")
plt.show()

# %% on-cuda
if torch.cuda.is_available():
    draws = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        draws.append(torch.rand(3, device=device).tolist())
    print(*draws, sep="\n")

# %% off-again
torch.use_deterministic_algorithms(False)
