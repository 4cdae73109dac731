"""
Overfitting
===========

A small network learns 100 digits by heart, and nine ways are compared.
"""

# %% digits
from copy import deepcopy

import torch
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.nn import functional as F

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
shuffled = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid, test = shuffled.split([1200, 300, 297])
few = images[train[:100]], labels[train[:100]]
validation = images[valid], labels[valid]


# %% model
def make_model(hidden=64, dropout=0.0):
    layers = [nn.Flatten()]
    for inputs in (64, hidden):
        layers += [nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(hidden, 10))


def train_epoch(model, optimizer):
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(few[0]), few[1]).backward()
    optimizer.step()


def evaluate(model, data):
    model.eval()
    with torch.no_grad():
        scores = model(data[0])
    right = scores.argmax(dim=1) == data[1]
    loss = F.cross_entropy(scores, data[1])
    return loss.item(), right.double().mean().item()


torch.manual_seed(2)
model = make_model()
optimizer = optim.AdamW(model.parameters(), lr=0.01)

# %% early-stopping
best_loss = float("inf")
for epoch in range(100):
    train_epoch(model, optimizer)
    loss, _ = evaluate(model, validation)
    if loss < best_loss:
        best_loss, best_epoch = loss, epoch
        best_state = deepcopy(model.state_dict())
    elif epoch - best_epoch >= 20:  # patience
        break
model.load_state_dict(best_state)

# %% stopped
print(f"stopped in epoch {epoch}, validation loss {loss:.2f}")
back, _ = evaluate(model, validation)
print(f"back to epoch {best_epoch}, validation loss {back:.2f}")


# %% shift
def shift(images):
    windows = F.pad(images, (1, 1, 1, 1)).unfold(2, 8, 1).unfold(3, 8, 1)
    down, right = torch.randint(3, (2, len(images)))
    return windows[torch.arange(len(images)), :, down, right]


# %% fit
def fit(seed, data=few, *, change=None, smoothing=0.0, l1=0.0, **way):
    torch.manual_seed(seed)
    decay, curve = way.pop("weight_decay", 0.01), []
    model = make_model(**way)
    optimizer = optim.AdamW(model.parameters(), lr=0.01, weight_decay=decay)
    for epoch in range(100):
        model.train()
        scores = model(change(data[0]) if change else data[0])
        loss = F.cross_entropy(scores, data[1], label_smoothing=smoothing)
        if l1:
            loss += l1 * sum(p.abs().sum() for p in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 5 == 4:
            both = evaluate(model, data), evaluate(model, validation)
            curve.append([*both[0], *both[1]])
    return model, torch.tensor(curve, dtype=torch.float64)


# %% two
late, overfits = fit(seed=2)
_, underfits = fit(seed=2, hidden=2)

for name, curve in {"64 units": overfits, "2 units": underfits}.items():
    training, validating = curve[-1, 0], curve[-1, 2]
    print(f"{name}: training {training:.2f}, validation {validating:.2f}")

# %% curves
import matplotlib.pyplot as plt

figure, panels = plt.subplots(
    1, 2, sharey=True, figsize=(6, 3.2), layout="constrained"
)
for axes, curve, name in zip(
    panels, (overfits, underfits), ("overfits", "underfits"), strict=True
):
    epochs = range(5, 101, 5)
    axes.plot(epochs, curve[:, 0], color="#0072B2", label="training")
    axes.plot(epochs, curve[:, 2], color="#D55E00", label="validation")
    axes.set(title=name, xlabel="epochs", ylim=(0, 2.5))
low = overfits[:, 2].argmin().item()
panels[0].plot(5 * low + 5, overfits[low, 2], "o", color="#D55E00")
panels[0].set_ylabel("loss")
panels[1].legend(loc="lower left")
figure.suptitle("64 hidden units, and 2")
plt.show()


# %% confident
def costs(model):
    """Return what right and what wrong answers cost on average."""
    with torch.no_grad():
        scores = model.eval()(validation[0])
    each = F.cross_entropy(scores, validation[1], reduction="none")
    right = scores.argmax(dim=1) == validation[1]
    return each[right].mean().item(), each[~right].mean().item()


for name, which in {"early": model, "late": late}.items():
    loss, accuracy = evaluate(which, validation)
    print(f"{name}: {accuracy:.1%} right, loss {loss:.2f}", end=", ")
    print("cost if right {:.2f}, if wrong {:.2f}".format(*costs(which)))

# %% ways
more = images[train[:400]], labels[train[:400]]
ways = {
    "nothing": {},
    "weight decay 0": {"weight_decay": 0.0},
    "weight decay 1": {"weight_decay": 1.0},
    "L1 penalty 0.001": {"l1": 0.001},
    "dropout 0.5": {"dropout": 0.5},
    "label smoothing 0.1": {"smoothing": 0.1},
    "shifts by a pixel": {"change": shift},
    "8 hidden units": {"hidden": 8},
    "400 digits": {"data": more},
}
runs = {
    name: [fit(seed, **way) for seed in (0, 1, 2)]
    for name, way in ways.items()
}

# %% table
import pandas as pd

rows = {}
for name, results in runs.items():
    curves = torch.stack([curve for _, curve in results])
    lowest = curves[:, :, 2].amin(dim=1).mean().item()
    last = curves[:, -1].mean(dim=0).tolist()
    rows[name] = [f"{n:.2f}" for n in (last[0], lowest, last[2])]
    rows[name].append(f"{last[3]:.1%}")
columns = ["training", "lowest validation", "validation", "right"]

pd.DataFrame.from_dict(rows, orient="index", columns=columns)

# %% shifted
torch.manual_seed(0)
moved = shift(validation[0]), validation[1]

for name in ("nothing", "shifts by a pixel"):
    shares = [evaluate(model, moved)[1] for model, _ in runs[name]]
    print(f"{name}: {sum(shares) / 3:.0%} of the shifted digits")

# %% small-weights
for name in ("nothing", "L1 penalty 0.001"):
    weights = nn.utils.parameters_to_vector(runs[name][0][0].parameters())
    small = (weights.abs() < 0.01).double().mean().item()
    zeros = (weights == 0).sum().item()
    print(f"{name}: {small:.0%} below 0.01, {zeros} exactly 0")

# %% mc-dropout
dropping, _ = runs["dropout 0.5"][0]
dropping.eval()
for module in dropping.modules():
    if isinstance(module, nn.Dropout):
        module.train()
with torch.no_grad():
    passes = [dropping(validation[0]).softmax(dim=1) for _ in range(50)]
probabilities = torch.stack(passes).mean(dim=0)

# %% spread
guesses = probabilities.argmax(dim=1)
spread = torch.stack(passes).std(dim=0)[torch.arange(300), guesses]
right = guesses == validation[1]
print(f"spread if right {spread[right].mean():.2f}", end=", ")
print(f"if wrong {spread[~right].mean():.2f}")

# %% reference
# Wrong on purpose: do not copy.
torch.manual_seed(2)
model = make_model()
optimizer = optim.AdamW(model.parameters(), lr=0.01)
best_loss = float("inf")
for _ in range(100):
    train_epoch(model, optimizer)
    loss, _ = evaluate(model, validation)
    if loss < best_loss:
        best_loss, best_state = loss, model.state_dict()
model.load_state_dict(best_state)

kept, _ = evaluate(model, validation)
print(f"best {best_loss:.2f}, last {loss:.2f}, kept {kept:.2f}")

# %% guessers
torch.manual_seed(0)
guessers = torch.randint(10, (1000, 1797))
on_validation = (guessers[:, valid] == labels[valid]).double().mean(dim=1)
best = on_validation.argmax()
on_test = (guessers[best, test] == labels[test]).double().mean()
print(f"validation {on_validation[best]:.1%}, test {on_test:.1%}")

# %% folds
folds = torch.randperm(100, generator=torch.Generator().manual_seed(0))
folds = folds.chunk(5)
results = []
for number, held_out in enumerate(folds):
    others = torch.cat(folds[:number] + folds[number + 1 :])
    model, _ = fit(seed=2, data=(few[0][others], few[1][others]))  # a new one
    _, accuracy = evaluate(model, (few[0][held_out], few[1][held_out]))
    results.append(accuracy)

print("right:", *(f"{each:.0%}" for each in results))
print(f"mean: {sum(results) / len(results):.0%}")

# %% copies
layer = nn.Linear(1, 1)
nn.init.ones_(layer.weight)
state = layer.state_dict()
shallow = dict(state)
cloned = {name: tensor.clone() for name, tensor in state.items()}
nn.init.constant_(layer.weight, 5.0)

print(*(kept["weight"].item() for kept in (state, shallow, cloned)))
