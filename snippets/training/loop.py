"""
Write a training loop: zero_grad(), backward(), step()
======================================================

Five lines that train a model, three of them by hand, and a whole loop.
"""

# %% digits
import copy

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
val_loader = DataLoader(val_set, batch_size=50)

# %% do-this
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.25)

for epoch in range(5):
    for images, labels in train_loader:
        optimizer.zero_grad()  # forget the old gradients
        scores = model(images)  # predict
        loss = F.cross_entropy(scores, labels)  # how wrong?
        loss.backward()  # compute the gradients
        optimizer.step()  # move the weights
    print(f"epoch {epoch + 1}: loss of the last batch {loss.item():.3f}")


# %% by-hand
def zero_grad(parameters):
    for p in parameters:
        p.grad = None  # 1


def backward(loss, parameters):
    gradients = torch.autograd.grad(loss, parameters)  # 2
    for p, new in zip(parameters, gradients, strict=True):
        p.grad = new if p.grad is None else p.grad + new  # 3


@torch.no_grad()
def step(parameters, lr):
    for p in parameters:
        if p.grad is not None:  # 4
            p -= lr * p.grad  # 5


# %% compare
torch.manual_seed(1)
usual = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
by_hand = copy.deepcopy(usual)
sgd = torch.optim.SGD(usual.parameters(), lr=0.25)
parameters = list(by_hand.parameters())
for _ in range(5):
    for images, labels in train_loader:
        sgd.zero_grad()
        F.cross_entropy(usual(images), labels).backward()
        sgd.step()

        zero_grad(parameters)
        backward(F.cross_entropy(by_hand(images), labels), parameters)
        step(parameters, lr=0.25)
for name, weight in usual.named_parameters():
    difference = (weight - by_hand.get_parameter(name)).abs().max().item()
    print(f"{name:8}: {difference} apart after 150 steps")

# %% walk
for resets in (True, False):
    weight = torch.tensor([1.0], requires_grad=True)
    weights = [1.0]
    for _ in range(4):
        if resets:
            zero_grad([weight])
        backward((weight - 3) ** 2, [weight])
        step([weight], lr=0.25)
        weights.append(weight.item())
    print("with zero_grad:   " if resets else "without zero_grad:", weights)

# %% set-up
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
model.to(device)  # before you make the optimizer
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)

# %% whole
best_loss, best_state = float("inf"), None

for epoch in range(10):
    model.train()
    total, count = 0.0, 0
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        total += loss.item() * len(labels)
        count += len(labels)
    train_loss = total / count

    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for images, labels in val_loader:
            images, labels = images.to(device), labels.to(device)
            loss = F.cross_entropy(model(images), labels)
            total += loss.item() * len(labels)
            count += len(labels)
    val_loss = total / count

    print(f"{epoch + 1:2}  train {train_loss:.3f}  val {val_loss:.3f}")
    if val_loss < best_loss:
        best_loss, best_state = val_loss, copy.deepcopy(model.state_dict())

model.load_state_dict(best_state)
print(f"kept the weights with val {best_loss:.3f}")


# %% train
def train(lines, batches, epochs=1):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    names = {"model": model, "optimizer": optimizer, "nn": nn, "F": F}
    val_images, val_labels = val_set[:]
    losses = []
    for _ in range(epochs):
        for names["images"], names["labels"] in batches:
            exec("\n".join(lines), names)
        with torch.no_grad():
            loss = F.cross_entropy(model(val_images), val_labels)
        losses.append(loss.item())
    return losses, model


# %% lines
# Wrong on purpose: do not copy.
five = [
    "optimizer.zero_grad()",
    "scores = model(images)",
    "loss = F.cross_entropy(scores, labels)",
    "loss.backward()",
    "optimizer.step()",
]
reset, forward, measure, back, move = five
orders = {
    "all five lines": five,
    "no backward": [reset, forward, measure, move],
    "no step": [reset, forward, measure, back],
    "step before backward": [reset, forward, measure, move, back],
    "zero_grad after backward": [forward, measure, back, reset, move],
    "no zero_grad": [forward, measure, back, move],
}

# %% left-out
losses = {}
for name, lines in orders.items():
    losses[name], _ = train(lines, train_loader, epochs=10)
    first, third = (f"{losses[name][i]:.2f}" for i in (0, 2))
    last = f"{losses[name][9]:.1f}"  # on other CPUs, 3.9 may be 4.4
    print(f"{name:24}  epoch 1: {first}  3: {third}  10: {last}")

# %% best-is-last
# Wrong on purpose: do not copy.
layer = nn.Linear(1, 1, bias=False)
nn.init.ones_(layer.weight)
kept, copied = layer.state_dict(), copy.deepcopy(layer.state_dict())
((layer.weight - 3) ** 2).sum().backward()
torch.optim.SGD(layer.parameters(), lr=0.25).step()
print("state_dict():          ", kept["weight"].item())
print("deepcopy(state_dict()):", copied["weight"].item())

# %% clip-places
clip = "nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"
bad_images, bad_labels = train_set[:50]
bad_batches = [(1000 * bad_images, bad_labels)]
clipped = {}
for place in range(6):
    lines = [*five[:place], clip, *five[place:]]
    [clipped[place]], _ = train(lines, bad_batches)
    after = ["at the start", *(f"after {line}" for line in five)][place]
    print(f"{after:44} loss {clipped[place]:7.2f}")

# %% swapped
is_one = torch.tensor([1.0, 0.0, 1.0])  # does the image show a 1?
chance = torch.tensor([0.9, 0.2, 0.8])  # what a model says
kinds = [F.mse_loss, F.l1_loss, F.huber_loss]
kinds += [F.binary_cross_entropy, F.binary_cross_entropy_with_logits]
kinds += [F.poisson_nll_loss, F.cross_entropy]
both_ways = {}
for kind in kinds:
    right, swapped = kind(chance, is_one), kind(is_one, chance)
    both_ways[kind.__name__] = right.item(), swapped.item()
    print(f"{kind.__name__:32}  {right:6.3f}  swapped {swapped:6.3f}")

# %% twice
weight = torch.tensor([1.0], requires_grad=True)
sgd = torch.optim.SGD([weight], lr=0.25)
for _ in range(2):
    loss = (weight - 3) ** 2
    loss.backward()
sgd.step()
print(weight.item())


# %% momentum
@torch.no_grad()
def step_with_momentum(parameters, velocities, lr):
    for p in parameters:
        if p.grad is not None:
            velocities[p] = 0.9 * velocities.get(p, 0) + p.grad
            p -= lr * velocities[p]


# %% momentum-checked
mine, other = nn.Linear(64, 10), nn.Linear(64, 10)
other.load_state_dict(mine.state_dict())
sgd = torch.optim.SGD(other.parameters(), lr=0.25, momentum=0.9)
parameters, velocities = list(mine.parameters()), {}
for images, labels in train_loader:
    zero_grad(parameters)
    backward(F.cross_entropy(mine(images), labels), parameters)
    step_with_momentum(parameters, velocities, lr=0.25)

    sgd.zero_grad()
    F.cross_entropy(other(images), labels).backward()
    sgd.step()
difference = (mine.weight - other.weight).abs().max().item()
if difference < 1e-4:
    print("Right: after 30 steps, your weights are those of PyTorch.")
elif len(velocities) < 2:
    print(
        "Where does the velocity of each parameter stay until the next step?"
    )
else:
    print(f"{difference:.4f} apart: does each step keep nine tenths?")
