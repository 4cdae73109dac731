"""
Reset the gradients
===================

Where zero_grad belongs, and what None does that zeros do not.
"""

# %% data
import weakref

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
inputs = torch.randn(64, 3)
targets = inputs @ torch.tensor([[1.0], [-2.0], [3.0]])

# %% add-up
layer = nn.Linear(3, 1)
F.mse_loss(layer(inputs), targets).backward()
once = layer.weight.grad.clone()
F.mse_loss(layer(inputs), targets).backward()

print(torch.allclose(layer.weight.grad, 2 * once))

# %% none
layer.zero_grad()

print(layer.weight.grad)


# %% train
def train(place, steps=50):
    torch.manual_seed(1)
    layer = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(steps):
        if place == "before backward":
            optimizer.zero_grad()
        loss = F.mse_loss(layer(inputs), targets)
        loss.backward()
        if place == "between backward and step":
            optimizer.zero_grad()
        optimizer.step()
        if place == "after step":
            optimizer.zero_grad()
    return layer.weight.detach(), loss.item()


# %% places
weights, losses = {}, {}
for place in (
    "before backward",
    "after step",
    "between backward and step",
    "nowhere",
):
    weights[place], losses[place] = train(place)

_, losses["no training"] = train("nowhere", steps=1)
rows = {place: {"loss": round(loss, 4)} for place, loss in losses.items()}

# %% places-table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")


# %% two-heads
class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.first = nn.Linear(3, 1)
        self.second = nn.Linear(3, 1)

    def forward(self, x, head):
        return getattr(self, head)(self.body(x))


# %% unused-head
def length_left(set_to_none):
    model = TwoHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    for head in ("second", "first"):
        optimizer.zero_grad(set_to_none=set_to_none)
        before = model.second.weight.detach().clone()
        F.mse_loss(model(inputs, head), targets).backward()
        optimizer.step()
    return (model.second.weight.norm() / before.norm()).item()


print("None:", round(length_left(set_to_none=True), 4))
print("zeros:", round(length_left(set_to_none=False), 4))

# %% left-out
model = TwoHeads()
optimizer = torch.optim.SGD(model.first.parameters(), lr=0.1)
F.mse_loss(model(inputs, "first"), targets).backward()
optimizer.zero_grad()
after_the_optimizer = model.body.weight.grad is None
model.zero_grad()
after_the_model = model.body.weight.grad is None

print(after_the_optimizer, after_the_model)


# %% bytes-held
def bytes_held(set_to_none):
    layer = nn.Linear(100, 100)
    layer(torch.ones(1, 100)).sum().backward()
    watch = weakref.ref(layer.weight.grad)
    layer.zero_grad(set_to_none=set_to_none)
    gradients = [parameter.grad for parameter in layer.parameters()]
    held = sum(each.nbytes for each in gradients if each is not None)
    return held, watch() is None


print("None:", bytes_held(set_to_none=True))
print("zeros:", bytes_held(set_to_none=False))

# %% read-none
layer = nn.Linear(3, 1)
layer.zero_grad()

try:
    layer.weight.grad.norm()
except AttributeError as error:
    print(error)

total = nn.utils.clip_grad_norm_(layer.parameters(), max_norm=1.0)

print(total)
