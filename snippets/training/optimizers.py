"""
Choose an optimizer
===================

One step of five optimizers, and which parameters they hold.
"""

# %% imports
import copy

import torch
from torch import nn, optim

# %% defaults
kinds = {
    "SGD": optim.SGD,
    "Adam": optim.Adam,
    "AdamW": optim.AdamW,
    "Adagrad": optim.Adagrad,
    "RMSprop": optim.RMSprop,
}
defaults = {
    name: kind([torch.zeros(1)]).defaults for name, kind in kinds.items()
}
rows = {
    name: {key: given[key] for key in ("lr", "weight_decay")}
    for name, given in defaults.items()
}

# %% defaults-table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")


# %% first-step
def first_step(kind, gradient, **options):
    weight = torch.tensor([1.0], requires_grad=True)
    weight.grad = torch.tensor([gradient])
    kind([weight], lr=0.1, **options).step()
    return 1 - weight.item()


moves = {
    name: {f"gradient {g}": first_step(kind, g) for g in (0.01, 1.0, 100.0)}
    for name, kind in kinds.items()
}

# %% first-step-table
import pandas as pd

pd.DataFrame.from_dict(moves, orient="index").round(4)

# %% momentum
weight = torch.tensor([0.0], requires_grad=True)
optimizer = optim.SGD([weight], lr=0.1, momentum=0.9)
positions = []
for _ in range(3):
    weight.grad = torch.tensor([1.0])
    optimizer.step()
    positions.append(round(weight.item(), 3))

print(positions)

# %% decay
decayed = {
    name: first_step(kind, 0.0, weight_decay=0.1)
    for name, kind in kinds.items()
}

print({name: round(step, 4) for name, step in decayed.items()})

# %% groups
model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
weights = [p for p in model.parameters() if p.dim() > 1]
biases = [p for p in model.parameters() if p.dim() == 1]
optimizer = optim.AdamW(
    [
        {"params": weights},
        {"params": biases, "weight_decay": 0.0, "lr": 0.001},
    ],
    lr=0.01,
)

for group in optimizer.param_groups:
    print(len(group["params"]), group["lr"], group["weight_decay"])

# %% replaced
model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
optimizer = optim.SGD(model.parameters(), lr=0.1)
model[1] = nn.Linear(3, 1)  # a new head
before = copy.deepcopy(model.state_dict())
model(torch.ones(4, 3)).sum().backward()
optimizer.step()
changed = {
    name: not torch.equal(values, before[name])
    for name, values in model.state_dict().items()
}

print(changed)

# %% added
optimizer.add_param_group({"params": model[1].parameters()})
optimizer.step()
now_changed = not torch.equal(model[1].weight, before["1.weight"])

print(now_changed)

# %% frozen
model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
optimizer = optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
model[0].requires_grad_(False)
start = model[0].weight.clone()
model(torch.ones(4, 3)).sum().backward()
optimizer.step()
stayed = torch.equal(model[0].weight, start)

print(stayed)


# %% refused
def refused(given):
    try:
        optim.SGD(given, lr=0.1)
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return "taken"


parameters = model.parameters()
optim.SGD(parameters, lr=0.1)  # goes through the generator

print(refused(parameters))
print(refused(model[0].weight).partition(",")[0])
print(refused([model[1].weight * 2]))

# %% twice
shared = nn.Linear(2, 2)
given = [{"params": shared.parameters()}, {"params": shared.parameters()}]

print(refused(given))
