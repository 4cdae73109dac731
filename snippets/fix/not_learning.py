"""
The loss does not fall: overfit one batch, check each gradient
==============================================================

One batch as a test, a training step by hand, and twelve broken programs.
"""

# %% digits
import copy
from types import SimpleNamespace

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16
digits = TensorDataset(pixels, torch.tensor(data.target))
train_set, val_set = random_split(digits, [1500, 297])
train_loader = DataLoader(train_set, batch_size=50, shuffle=True)
train_images, train_labels = train_set[:]


def network():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


torch.manual_seed(1)
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.25)

# %% do-this
images, labels = next(iter(train_loader))  # one batch, and no other
for count in range(301):
    old = copy.deepcopy(model.state_dict())
    optimizer.zero_grad()  # your own five lines, from here
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()  # to here
    if count in (0, 300):
        print(f"step {count + 1}: loss {loss.item():.3f}")
        for name, p in model.named_parameters():
            gradient = None if p.grad is None else p.grad.norm()
            moved = (p.detach() - old[name]).norm() / p.detach().norm()
            print("  ", name, "gradient:", gradient, "moved:", moved)


# %% by-hand
@torch.no_grad()
def train_step(images, labels, w1, b1, w2, b2, lr):
    hidden = (images @ w1.T + b1).relu()  # 1
    scores = hidden @ w2.T + b2  # 2
    right = F.one_hot(labels, len(b2))
    error = (scores.softmax(dim=1) - right) / len(labels)  # 3
    back = (error @ w2) * (hidden > 0)  # 4
    w2 -= lr * error.T @ hidden  # 5
    b2 -= lr * error.sum(dim=0)
    w1 -= lr * back.T @ images  # 6
    b1 -= lr * back.sum(dim=0)


# %% compare
usual = network()
by_hand = [p.detach().clone() for p in usual.parameters()]
sgd = torch.optim.SGD(usual.parameters(), lr=0.25)
for _ in range(5):
    for images, labels in train_loader:
        sgd.zero_grad()
        F.cross_entropy(usual(images), labels).backward()
        sgd.step()

        train_step(images, labels, *by_hand, lr=0.25)
for (name, p), mine in zip(usual.named_parameters(), by_hand, strict=True):
    difference = (p.detach() - mine).abs().max().item()
    print(f"{name:8} {difference:.4f} apart after 150 steps")

# %% walk
for pixel in (0.0, 0.5, 8.0):
    w1, b1, w2 = torch.ones(1, 1), torch.zeros(1), torch.zeros(10, 1)
    image, label = torch.tensor([[pixel]]), torch.tensor([3])
    train_step(image, label, w1, b1, w2, torch.zeros(10), lr=0.25)
    weight = w2[3].item()
    print(f"pixel {pixel}: the weight moves by {weight:.4g}", end=", ")
    print(f"and through it, the score of class 3 by {weight * pixel:.4g}")

# %% one-batch
healthy = {"make": network, "rate": 0.25, "optimizer": torch.optim.SGD}
healthy |= {"learns": nn.Module.parameters, "loss": F.cross_entropy}
healthy |= {"lines": ("zero_grad", "backward", "step"), "seed": 1}
healthy |= {"prepare": torch.clone, "labels": train_labels}


def begin(**changes):
    """Return a new model, its optimizer, and its training step."""
    use = SimpleNamespace(**healthy | changes)
    torch.manual_seed(use.seed)
    model = use.make()
    optimizer = use.optimizer(use.learns(model), lr=use.rate)

    def take(rows):
        scores = model(use.prepare(train_images[rows]))
        loss = use.loss(scores, use.labels[rows])
        for line in use.lines:
            getattr(loss if line == "backward" else optimizer, line)()
        return loss.item()

    return model, optimizer, take


def one_batch(**changes):
    """Return what the first lines of the page print, for the first weight."""
    model, _, take = begin(**changes)
    weight, seen = model[0].weight, []
    for count in range(301):
        old = weight.detach().clone()
        loss = take(slice(50))
        if count in (0, 300):
            grad = None if weight.grad is None else weight.grad.norm().item()
            moved = (weight.detach() - old).norm() / weight.detach().norm()
            seen.append((loss, grad, moved.item()))
    (first, grad, moved), (last, left, _) = seen
    row = {"first loss": first, "first gradient": grad, "moved": moved}
    return row | {"last loss": last, "last gradient": left}


def found(row):
    """Return the names of the numbers that look wrong."""
    first, grad, moved, last, left = row.values()
    wrong = {"first loss": not 1.84 < first < 2.76}  # ln 10, and a fifth
    wrong |= {"first gradient": not grad, "moved": not 1e-4 < moved < 0.5}
    wrong["last loss"] = not last < 0.23  # a tenth of ln 10
    wrong["last gradient"] = bool(grad and left) and left > 5 * grad
    return [name for name, is_wrong in wrong.items() if is_wrong]


def five_epochs(take):
    for _ in range(5):
        for rows in torch.randperm(1500).split(50):
            take(rows)


def validate(model, prepare=torch.clone):
    images, labels = val_set[:]
    with torch.no_grad():
        return F.cross_entropy(model(prepare(images)), labels).item()


# %% faults
# Wrong on purpose: do not copy.
class Cut(nn.Module):
    def forward(self, x):
        return x.detach()


def dead():
    model = network()
    nn.init.constant_(model[0].bias, -20.0)  # no input gets above 0
    return model


torch.manual_seed(2)
shuffled = train_labels[torch.randperm(1500)]
faults = {
    "softmax before the loss": {
        "loss": lambda scores, y: F.cross_entropy(scores.softmax(1), y)
    },
    "ReLU on the scores": {"make": lambda: network().append(nn.ReLU())},
    "zero_grad() before step()": {"lines": ("backward", "zero_grad", "step")},
    "no zero_grad()": {"lines": ("backward", "step")},
    "optimizer of another model": {"learns": lambda _: network().parameters()},
    "optimizer of the last layer": {"learns": lambda m: m[2].parameters()},
    "rate too small": {"rate": 0.00001},
    "rate too large": {"rate": 25.0},
    "detach() in the model": {"make": lambda: network().insert(1, Cut())},
    "dead ReLUs": {"make": dead},
    "pixels up to 255": {"prepare": lambda images: 255 * images},
    "labels shuffled": {"labels": shuffled},
}

# %% table
import pandas as pd

table = {}
for name, changes in {"healthy": {}, **faults}.items():
    row = one_batch(**changes)
    table[name] = {
        check: f"{number:.2g}" if number is not None else "None"
        for check, number in row.items()
    }
    for check in found(row):
        table[name][check] += " ●"
pd.DataFrame.from_dict(table, orient="index")

# %% rates
for rate in (0.01, 0.1, 1.0, 10.0):
    fast, sgd, take = begin(rate=rate)
    five_epochs(take)
    dead_units = (fast[:2](pixels).amax(dim=0) == 0).sum().item()
    print(f"rate {rate:5}: loss {validate(fast):.1f}", end=", ")
    print(f"hidden units that are 0 for all images: {dead_units} of 32")

# %% lower
sgd.param_groups[0]["lr"] = 0.1
five_epochs(take)
print(f"rate 10, then 0.1: loss {validate(fast):.1f}")


# %% unscaled
def up_to_255(images):
    return 255 * images


def standardized(images):
    numbers = up_to_255(train_images)
    return (up_to_255(images) - numbers.mean()) / numbers.std()


for prepare in (torch.clone, up_to_255, standardized):
    scaled, _, take = begin(prepare=prepare)
    first = validate(scaled, prepare)
    five_epochs(take)
    print(f"{prepare.__name__:12} before {first:5.2f}", end=", ")
    print(f"after five epochs {validate(scaled, prepare):.2f}")

# %% labels
import matplotlib.pyplot as plt

figure, panels = plt.subplots(2, 8, figsize=(8, 2.6), layout="constrained")
for line, answers in zip(panels, (train_labels, shuffled), strict=True):
    for axes, image, label in zip(line, train_images, answers, strict=False):
        axes.imshow(image.view(8, 8), cmap="gray_r")
        axes.set_title(label.item())
        axes.axis("off")
figure.suptitle("Images with their labels (top), and with shuffled ones")
plt.show()

# %% by-heart
by_heart, _, take = begin(labels=shuffled)
five_epochs(take)
print(f"one batch {one_batch(labels=shuffled)['last loss']:.2f}")
print(f"new images, after five epochs {validate(by_heart):.2f}")

# %% another-pixel
w1, b1, w2 = torch.ones(1, 1), torch.zeros(1), torch.zeros(2, 1)
image, label = torch.tensor([[2.0]]), torch.tensor([1])
train_step(image, label, w1, b1, w2, torch.zeros(2), lr=0.1)
print(f"{w2[1].item():.2f}")


# %% dead-share
def dead_share(layer, inputs):
    hidden = layer(inputs).relu()
    return (hidden == 0).all(dim=0).float().mean().item()


# %% dead-share-checked
torch.manual_seed(0)
layer = nn.Linear(64, 32)
layer.bias.data = torch.tensor(8 * [-20.0] + 24 * [0.3])
shares = dead_share(layer, pixels), dead_share(layer, pixels[:1])
print(f"all images: {shares[0]:.2f}, a single image: {shares[1]:.2f}")
if shares[0] == 0.25:
    print("Right: eight of the 32 units are dead.")
else:
    print("Eight of the 32 units are 0 for every image. Which did you count?")
