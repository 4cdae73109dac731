"""
Reproducible training: seeds and deterministic algorithms
=========================================================

A training that repeats itself, and the lines where it draws.
"""

# %% seed-everything
import random

import numpy as np
import torch


def seed_everything(seed):
    random.seed(seed)  # Python
    np.random.seed(seed)  # NumPy
    torch.manual_seed(seed)  # PyTorch, on the CPU and on GPUs
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


# %% train
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16
targets = torch.tensor(data.target)
digits = TensorDataset(pixels[:500], targets[:500])


class NoisyDigits(Dataset):
    def __len__(self):
        return len(digits)

    def __getitem__(self, i):
        light, noise = random.uniform(0.8, 1.2), np.random.normal(0, 0.1)
        return light * digits[i][0] + noise, digits[i][1]


def new_model(width=32):
    layers = nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.5)
    return nn.Sequential(*layers, nn.Linear(width, 10))


def fit(model, dataset, epochs=3, **options):
    loader = DataLoader(dataset, batch_size=64, shuffle=True, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return model


# %% check
runs = []
for _ in range(2):
    seed_everything(0)  # before the model is made
    runs.append(fit(new_model(), NoisyDigits()).state_dict())

for name in runs[0]:
    print(name, torch.equal(runs[0][name], runs[1][name]))


# %% by-hand
def by_hand(seed, epochs=3):
    stream = torch.Generator().manual_seed(seed)  # 1
    shapes = (32, 64), (32,), (10, 32), (10,)
    weights = [torch.empty(shape, requires_grad=True) for shape in shapes]
    for weight, root in zip(weights, (8, 8, 32**0.5, 32**0.5), strict=True):
        weight.data.uniform_(-1 / root, 1 / root, generator=stream)  # 2
    for _ in range(epochs):
        two = torch.empty(2, dtype=torch.int64).random_(generator=stream)  # 3
        shuffle = torch.Generator().manual_seed(two[1].item())
        for rows in torch.randperm(500, generator=shuffle).split(64):  # 4
            images, labels = digits[rows]
            hidden = F.linear(images, *weights[:2]).relu()
            mask = torch.bernoulli(hidden.detach(), 0.5, generator=stream)  # 5
            output = F.linear(hidden * (mask / 0.5), *weights[2:])
            loss = F.cross_entropy(output, labels)
            grads = torch.autograd.grad(loss, weights)
            for weight, grad in zip(weights, grads, strict=True):
                weight.data -= 0.5 * grad
    return weights


# %% compare
for seed in range(3):
    torch.manual_seed(seed)
    real = fit(new_model(), digits).parameters()
    pairs = zip(real, by_hand(seed), strict=True)
    print(f"seed {seed}:", [torch.equal(p, weight) for p, weight in pairs])


# %% stream
torch.manual_seed(0)
print(torch.rand(3))

torch.manual_seed(0)
print(nn.Linear(64, 32).weight[0, :3].detach())


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

# %% order
large, one = torch.tensor(16_777_216.0), torch.tensor(1.0)

print((large + one) + one)
print(large + (one + one))


# %% backwards
def path(rate, backwards):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses, weights = [], []
    for step in range(200):
        rows = torch.arange(step % 8, 500, 8)
        images, labels = digits[rows.flip(0) if backwards else rows]
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        weights.append(nn.utils.parameters_to_vector(model.parameters()))
    return losses, torch.stack(weights).detach()


differences = {}
for rate in (0.1, 0.5):
    losses, weights = path(rate, backwards=False)
    again, others = path(rate, backwards=True)
    differences[rate] = (weights - others).abs().amax(dim=1)
    first = f"{losses[0]:.4f} {again[0]:.4f}"
    print(f"rate {rate}: first losses {first},", end=" ")
    print("equal weights:", torch.equal(weights[0], others[0]))

# %% backwards-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for rate, color in zip(differences, ("#0072B2", "#D55E00"), strict=True):
    axes.semilogy(differences[rate], color=color, label=f"rate {rate}")
axes.set(xlabel="step", ylabel="largest difference")
axes.set_title("Weights of two runs that read each batch in another order")
axes.legend()
plt.show()

# %% late
# Wrong on purpose: do not copy.
late = []
for _ in range(2):
    model = new_model()
    seed_everything(0)
    late.append(fit(model, NoisyDigits()))

for model in late:
    print(model[0].bias[:3].detach())

# %% one-more
# Wrong on purpose: do not copy.
seed_everything(0)
print(f"an example: {torch.rand(1).item():.4f}")
shifted = new_model()

print(shifted[0].weight[0, :2].detach())

# %% fork
seed_everything(0)
with torch.random.fork_rng():
    print(f"an example: {torch.rand(1).item():.4f}")
kept = new_model()

print(kept[0].weight[0, :2].detach())


# %% epoch
def epoch():
    order = [*DataLoader(range(7), batch_size=None, shuffle=True)]
    return order, F.dropout(torch.ones(7)).int().tolist()


# %% each-epoch
# Wrong on purpose: do not copy.
repeated = []
for _ in range(3):
    torch.manual_seed(0)
    repeated.append(epoch())
    print(*repeated[-1])

# %% once
fresh = []
torch.manual_seed(0)
for _ in range(3):
    fresh.append(epoch())
    print(*fresh[-1])

# %% workers
ends = {}
for count in (0, 1, 2):
    context = "fork" if count else None
    options = {"num_workers": count, "multiprocessing_context": context}
    seed_everything(0)
    ends[count] = fit(new_model(), NoisyDigits(), epochs=1, **options)
    print(count, "workers:", ends[count][0].bias[:3].detach())

# %% words
import os
import subprocess
import sys

program = "classes = {'Arabic', 'Chinese', 'Czech', 'Dutch', 'Irish', 'Thai'}"


def in_a_process(hash_seed, end="print(*classes)"):
    known = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", f"{program}\n{end}"]
    done = subprocess.run(command, env=known, capture_output=True, check=True)
    return done.stdout.decode().split()


# %% orders
too_late = "import os\nos.environ['PYTHONHASHSEED'] = '2'\nprint(*classes)"

print("hash seed 1:      ", *in_a_process("1"))
print("hash seed 2:      ", *in_a_process("2"))
print("set in the program:", *in_a_process("1", too_late))
print("sorted:           ", *in_a_process("2", "print(*sorted(classes))"))

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
import warnings

torch.use_deterministic_algorithms(True, warn_only=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    restored = unpool(*pooled)
torch.use_deterministic_algorithms(True)

print(len(caught), "warning, and a result:", restored[0, 0, 1].tolist())


# %% many-seeds
def accuracy(seed, width):
    seed_everything(seed)
    model = fit(new_model(width), digits, epochs=5).eval()
    with torch.no_grad():
        found = model(pixels[500:]).argmax(dim=1)
    return (found == targets[500:]).float().mean().item() * 100


accuracies = {
    width: torch.tensor([accuracy(seed, width) for seed in range(10)])
    for width in (32, 40)
}

for width, each in accuracies.items():
    print(f"width {width}: {each.mean():.0f} percent, std {each.std():.0f}")

# %% many-seeds-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for y, each in enumerate(accuracies.values()):
    axes.plot(each, [y] * len(each), "o", color="#0072B2", alpha=0.6)
    axes.errorbar(each.mean(), y + 0.25, xerr=each.std(), fmt="ks", capsize=4)
axes.set(yticks=[0, 1], yticklabels=[f"width {width}" for width in accuracies])
axes.set(ylim=(-0.5, 1.7), xlabel="percent right, of 1,297 other digits")
axes.set_title("Ten seeds of two models, with mean and standard deviation")
plt.show()

# %% second-number
torch.manual_seed(0)
torch.rand(1)
print(f"{nn.Linear(4, 2).weight[0, 0].item():.4f}")

# %% all-kept
from contextlib import contextmanager


@contextmanager
def all_generators_kept():
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


# %% all-kept-checked
def three():
    return [random.random(), np.random.rand(), torch.rand(1).item()]


seed_everything(0)
expected = three()
seed_everything(0)
try:
    with all_generators_kept():
        inside = three()
        raise InterruptedError
except InterruptedError:
    after = three()
names = ["random", "np.random", "torch"]
moved = [n for n, a, b in zip(names, after, expected, strict=True) if a != b]
if inside != expected:
    print("Inside the block, the generators go on from where they are.")
elif moved:
    print("After the block, these do not go on as before:", *moved)
else:
    print("Right: all three go on as before, even after an error.")
