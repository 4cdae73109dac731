"""
Add up the loss
===============

What a sum of losses keeps, and which sum is right.
"""

# %% model
import weakref

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
inputs = torch.randn(64, 8)
targets = inputs.sum(dim=1, keepdim=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


# %% nodes
def nodes_behind(value):
    found, waiting = set(), [getattr(value, "grad_fn", None)]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.add(node)
            waiting += [before for before, _ in node.next_functions]
    return len(found)


# %% ways
ways = {
    "total += loss": lambda total, loss: total + loss,
    "total += loss.detach()": lambda total, loss: total + loss.detach(),
    "total += loss.item()": lambda total, loss: total + loss.item(),
}


def add_up(add, steps):
    total = 0.0
    for _ in range(steps):
        model.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        total = add(total, loss)
    return total


# %% count-nodes
rows = {}
for name, add in ways.items():
    ten, twenty = add_up(add, 10), add_up(add, 20)
    rows[name] = {
        "nodes after 10 steps": nodes_behind(ten),
        "after 20": nodes_behind(twenty),
        "gives": type(twenty).__name__,
    }

# %% nodes-table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")


# %% box
class Box:
    def __init__(self, tensor):
        self.tensor = tensor.detach()


# %% activations-alive
def activations_alive(backward, retain=False):
    boxes = weakref.WeakSet()

    def keep(tensor):
        box = Box(tensor)
        boxes.add(box)
        return box

    total = 0.0
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda b: b.tensor):
        for _ in range(5):
            loss = F.mse_loss(model(inputs), targets)
            if backward:
                loss.backward(retain_graph=retain)
            total = total + loss
    return len(boxes)


# %% compare-leaks
print("after backward:", activations_alive(backward=True))
print("without backward:", activations_alive(backward=False))
print("with retain_graph:", activations_alive(backward=True, retain=True))

# %% list
losses = []
for _ in range(5):
    losses.append(F.mse_loss(model(inputs), targets))

print([loss.grad_fn.name() for loss in losses][:1], len(losses))

# %% alias
loss = torch.tensor(2.0)
total = loss.detach()
total += 3

print(loss.item())

# %% precision
single = torch.tensor(0.0)
double = 0.0
for _ in range(20_000):
    single += 0.1
    double += 0.1

print(round(single.item(), 2), round(double, 2))

# %% mean
batches = list(inputs.split(24))  # of 24, 24 and 16 samples
goals = list(targets.split(24))
with torch.no_grad():
    losses = [
        F.mse_loss(model(x), y).item()
        for x, y in zip(batches, goals, strict=True)
    ]
    whole = F.mse_loss(model(inputs), targets).item()
mean_of_means = sum(losses) / 3
weighted = (24 * losses[0] + 24 * losses[1] + 16 * losses[2]) / 64

print(abs(mean_of_means - whole) > 1e-3, abs(weighted - whole) < 1e-6)

# %% empty
loader = torch.utils.data.DataLoader(range(3), batch_size=8, drop_last=True)
total = sum(float(batch.sum()) for batch in loader)

try:
    total / len(loader)
except ZeroDivisionError as error:
    print(error)

print(total / len(loader.dataset))
