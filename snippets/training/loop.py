"""
Write the training loop
=======================

The five lines of a training step, each left out in turn, and a whole loop.
"""

# %% days
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
weather = torch.rand(400, 2)  # temperature and rain, each from 0 to 1
warm, wet = weather.split(1, dim=1)
bikes = 8 * warm * (1 - warm) * (1 - wet) + 0.1 * torch.randn(400, 1)
old = TensorDataset(weather[:300], bikes[:300])
new = TensorDataset(weather[300:], bikes[300:])


# %% start
def start(device="cpu"):
    torch.manual_seed(1)
    layers = nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1)
    model = nn.Sequential(*layers).to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=0.05)


# %% do-this
loader = DataLoader(old, batch_size=100, shuffle=True)
model, optimizer = start()

for epoch in range(5):
    for inputs, targets in loader:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = F.mse_loss(outputs, targets)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss of the last batch {loss.item():.3f}")

# %% lines
zero_grad = "optimizer.zero_grad()"
forward = "outputs = model(inputs)"
measure = "loss = F.mse_loss(outputs, targets)"
backward = "loss.backward()"
step = "optimizer.step()"
lines = [zero_grad, forward, measure, backward, step]


# %% look
from weakref import WeakSet

alive = WeakSet()


def look(model):
    weights = [each.detach().clone() for each in model.parameters()]
    gradients = [each.grad for each in model.parameters()]
    gradients = [each if each is None else each.clone() for each in gradients]
    kept = {each.tensor.data_ptr() for each in alive}  # each tensor once
    return {"weights": weights, "gradients": gradients, "kept": len(kept)}


# %% kept
class Kept:  # what a graph holds for its backward pass
    def __init__(self, tensor):
        self.tensor = tensor
        alive.add(self)


# %% watch
def watch(lines, model, **names):
    hooks = torch.autograd.graph.saved_tensors_hooks
    names |= {"model": model, "F": F}
    states = [look(model)]
    with hooks(Kept, lambda kept: kept.tensor):
        for line in lines:
            exec(line, names)
            states.append(look(model))
    return states


# %% cycle
model, optimizer = start()
for inputs, targets in DataLoader(old, batch_size=100):
    names = {"optimizer": optimizer, "inputs": inputs, "targets": targets}
    states = watch(lines, model, **names)

# %% seen
seen = []
for state in states:
    weight, gradient = state["weights"][2][0, 3].item(), state["gradients"][2]
    gradient = "None" if gradient is None else f"{gradient[0, 3].item():.4f}"
    kept = f"kept tensors {state['kept']}"
    seen.append((f"weight {weight:.4f}", f".grad {gradient}", kept))
for line, words in zip(["before", *lines], seen, strict=True):
    print(f"{line:36}", *words, sep="  ")

# %% changes
changes = []
for i in range(5):
    pairs = zip(seen[i], seen[i + 1], strict=True)
    moved = (f"\n{a} → {b.split()[-1]}" for a, b in pairs if a != b)
    changes.append("".join(moved))

# %% cycle-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
x, y = [0, 1, 0.75, -0.9, -1], [1, 0.4, -0.6, -0.6, 0.4]
places = torch.tensor([x, y]).T
ways = places.roll(-1, 0) - places
ax.quiver(*(places + 0.38 * ways).T, *ways.T, scale=16, width=0.003)
for *here, words, line in zip(x, y, changes, lines, strict=True):
    ax.text(*here, words, ha="center", va="top", color="#D55E00")
    ax.text(*here, line, ha="center", va="top", family="monospace")
ax.set(title="One step, and what each line changes", ylim=(-1.1, 1.2))
ax.set(xlim=(-1.6, 1.6), xticks=[], yticks=[], frame_on=False)
plt.show()


# %% train-by
def train_by(*lines, before="", epochs=20):
    model, optimizer = start()
    names = {"model": model, "optimizer": optimizer, "F": F}
    names["inputs"] = weather[:100]
    exec(before, names)
    step, losses = compile("\n".join(lines), "step", "exec"), []
    for _ in range(epochs):
        losses.append(F.mse_loss(model(weather), bikes).item())
        for names["inputs"], names["targets"] in loader:
            exec(step, names)
    return [*losses, F.mse_loss(model(weather), bikes).item()], model


# %% left-out
# Wrong on purpose: do not copy.
orders = {
    "no zero_grad": [forward, measure, backward, step],
    "no backward": [zero_grad, forward, measure, step],
    "no step": [zero_grad, forward, measure, backward],
    "step before backward": [zero_grad, forward, measure, step, backward],
    "zero_grad after backward": [forward, measure, backward, zero_grad, step],
}

# %% left-out-table
import pandas as pd

heads = {0: "loss before", 1: "after 1 epoch", 5: "after 5", 20: "after 20"}
rows = {}
for name, order in {"all five": lines, **orders}.items():
    losses, _ = train_by(*order)
    rows[name] = {head: f"{losses[i]:.3f}" for i, head in heads.items()}
pd.DataFrame.from_dict(rows, orient="index")


# %% refusal
def refusal(*lines, **before):
    try:
        train_by(*lines, **before)
    except RuntimeError as error:
        return str(error)


# %% wrong-order
# Wrong on purpose: do not copy.
each = measure.replace("targets", "targets, reduction='none'")
mistakes = {
    "model(inputs) before the loop": [zero_grad, measure, backward, step],
    "step before backward, no zero_grad": [forward, measure, step, backward],
    "a loss of many numbers": [zero_grad, forward, each, backward, step],
}
errors = {}
for name, order in mistakes.items():
    before = "" if forward in order else forward
    errors[name] = refusal(*order, before=before)
    print(f"{name}:", errors[name], sep="\n")

# %% swapped
rained, chance = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([0.9, 0.2, 0.8])
kinds = [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss]
kinds += [F.binary_cross_entropy, F.binary_cross_entropy_with_logits]
kinds += [F.poisson_nll_loss, F.cross_entropy]
both_ways = {
    kind.__name__: (kind(chance, rained).item(), kind(rained, chance).item())
    for kind in kinds
}

# %% swapped-table
import pandas as pd

heads = "loss(outputs, targets)", "swapped"
rows = {
    name: dict(zip(heads, pair, strict=True))
    for name, pair in both_ways.items()
}
pd.DataFrame.from_dict(rows, orient="index").round(3)

# %% swapped-classes
# Wrong on purpose: do not copy.
scores, classes = torch.randn(3, 2), torch.tensor([1, 0, 1])
said = None
try:
    F.cross_entropy(classes, scores)
except RuntimeError as error:
    said = str(error)
print(said)

# %% device
device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)


# %% train-epoch
def train_epoch(model, loader, optimizer):
    model.train()
    total, samples = 0.0, 0
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        total += loss.detach().float() * len(targets)  # stays on the device
        samples += len(targets)
    return (total / samples).item()  # waits for the device, once


# %% evaluate
def evaluate(model, loader):
    model.eval()
    total, samples = 0.0, 0
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            loss = F.mse_loss(model(inputs), targets)
            total += loss.float() * len(targets)
            samples += len(targets)
    return (total / samples).item()


# %% fit
def fit(model, optimizer, training, validation, epochs, path):
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    losses, best = [], float("inf")
    for epoch in range(epochs):
        trained = train_epoch(model, training, optimizer)
        scheduler.step()
        losses.append(evaluate(model, validation))
        if losses[-1] <= best:
            best = losses[-1]
            torch.save(model.state_dict(), path)
        print(f"{epoch + 1:3}  {trained:.4f}  {losses[-1]:.4f}")
    return losses


# %% folder
import atexit
import shutil
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
validation = DataLoader(new, batch_size=64)

# %% run
model, optimizer = start(device)
losses = fit(model, optimizer, loader, validation, 12, folder / "best.pt")

best = torch.load(folder / "best.pt", map_location=device)
model.load_state_dict(best)
print(f"best: {evaluate(model, validation):.4f}")

# %% clip
clip = "norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"


def after_a_bad_day(*lines):
    model, _ = start()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    names = {"model": model, "optimizer": optimizer, "F": F, "nn": nn}
    names |= {"inputs": weather, "targets": 100 * bikes}
    exec("\n".join(lines), names)
    return F.mse_loss(model(weather), bikes).item()


# %% clip-places
clipped = {}
for place in range(6):
    clipped[place] = after_a_bad_day(*lines[:place], clip, *lines[place:])
    print(f"clipped after {place} of the lines: loss {clipped[place]:10.3f}")


# %% closure
def closure():
    optimizer.zero_grad()
    loss = F.mse_loss(model(weather), bikes)
    loss.backward()
    return loss


model, _ = start()
optimizer = torch.optim.LBFGS(
    model.parameters(), line_search_fn="strong_wolfe"
)
falls = [optimizer.step(closure).item() for _ in range(4)]
print(falls)


# %% closure-wrong
# Wrong on purpose: do not copy.
def adds_up():
    loss = F.mse_loss(model(weather), bikes)
    loss.backward()
    return loss


model, _ = start()
optimizer = torch.optim.LBFGS(
    model.parameters(), line_search_fn="strong_wolfe"
)
stays = [optimizer.step(adds_up).item() for _ in range(4)]
print(stays)
