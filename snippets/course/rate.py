"""
Choose a learning rate
======================

One model is trained at many rates, and one batch finds a bug.
"""

# %% so-far
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid, test = order.split([1200, 300, 297])

loader = DataLoader(
    TensorDataset(images[train], labels[train]), batch_size=32, shuffle=True
)


def train_epoch(model, loader, optimizer):
    model.train()
    for batch, targets in loader:
        loss = F.cross_entropy(model(batch), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(model, images, labels):
    model.eval()
    with torch.no_grad():
        scores = model(images)
    loss = F.cross_entropy(scores, labels)
    right = (scores.argmax(dim=1) == labels).double().mean()
    return loss.item(), right.item()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.linear = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)
        return self.linear(x.flatten(1))


# %% losses-at
def new(rate, kind=torch.optim.Adam):
    torch.manual_seed(0)  # the same first weights for every rate
    model = Net()
    return model, kind(model.parameters(), lr=rate)


def losses_at(rate, kind=torch.optim.Adam, epochs=3):
    model, optimizer = new(rate, kind)
    losses = [evaluate(model, images[valid], labels[valid])[0]]
    for _ in range(epochs):
        train_epoch(model, loader, optimizer)
        losses.append(evaluate(model, images[valid], labels[valid])[0])
    return losses


# %% tens
adam = {}
for rate in (0.0001, 0.001, 0.01, 0.1):
    adam[rate] = losses_at(rate)
    print(f"{rate:>6}:", *(f"{loss:.2f}" for loss in adam[rate]))

# %% threes
near = {}
for rate in (0.003, 0.03):
    near[rate] = losses_at(rate)
    print(f"{rate:>6}:", *(f"{loss:.2f}" for loss in near[rate]))


# %% by-hand
def walk(rate, steps=4):
    w = torch.tensor(5.0, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=rate)
    values = [w.item()]
    for _ in range(steps):
        loss = w * w
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(w.item())
    return values


for rate in (0.1, 1.1):
    print(f"{rate}:", *(f"{w:.2f}" for w in walk(rate)))

# %% nan
print(walk(1.1, steps=600)[-1])

# %% sgd
rates = {"too low": 0.01, "good": 0.3, "too high": 1.0, "far too high": 10.0}
sgd = {}
for name, rate in rates.items():
    sgd[name] = losses_at(rate, torch.optim.SGD, epochs=5)
    print(f"{name:>12}:", *(f"{loss:.2f}" for loss in sgd[name]))

# %% sgd-drawn
import matplotlib.pyplot as plt

plt.figure(figsize=(6, 3.6), layout="constrained")
styles = ["#0072B2", "#0072B2", "#D55E00", "#D55E00"]
for (name, losses), color in zip(sgd.items(), styles, strict=True):
    line = "-" if name in ("good", "too high") else "--"
    label = f"{name}: {rates[name]}"
    plt.plot(losses, line, color=color, marker=".", label=label)
plt.xlabel("epochs")
plt.ylabel("loss on the validation set")
plt.title("The four curves, with SGD")
plt.legend()
plt.show()


# %% by-heart
def by_heart(model, optimizer, images, labels):
    batch = images[:32], labels[:32]
    before, _ = evaluate(model, *batch)
    for _ in range(100):
        train_epoch(model, [batch], optimizer)
    after, _ = evaluate(model, *batch)
    return before, after


model, optimizer = new(0.01)
before, after = by_heart(model, optimizer, images[train], labels[train])
print(f"{before:.3f} -> {after:.3f}")

# %% other-model
# Wrong on purpose: do not copy.
model, optimizer = new(0.01)
model = Net()  # the cell that makes the model was run again

before, after = by_heart(model, optimizer, images[train], labels[train])
print(f"{before:.3f} -> {after:.3f}")

# %% at-one
print(walk(1.0))


# %% choose
from math import isfinite


def choose(curves):
    ends = {rate: losses[-1] for rate, losses in curves.items()}
    finite = [rate for rate in ends if isfinite(ends[rate])]
    return min(finite, key=ends.get)


# %% choose-checked
made_up = {10.0: [2.3, float("nan")], 0.1: [2.3, 0.5], 0.01: [2.3, 1.4]}
chosen = choose(made_up)
if chosen == 0.1:
    print("Right: it chooses", chosen)
else:
    print("Not yet: it should choose 0.1, and chooses", chosen)
