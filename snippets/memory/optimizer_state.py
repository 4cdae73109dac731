"""
Count the optimizer's state
===========================

How many times the model's bytes each optimizer keeps, and from when on.
"""

# %% imports
import torch
from torch import nn, optim

# %% kinds
kinds = {
    "SGD": lambda p: optim.SGD(p, lr=0.01),
    "SGD, momentum": lambda p: optim.SGD(p, lr=0.01, momentum=0.9),
    "RMSprop": lambda p: optim.RMSprop(p),
    "RMSprop, momentum": lambda p: optim.RMSprop(p, momentum=0.9),
    "RMSprop, centered": lambda p: optim.RMSprop(p, centered=True),
    "RMSprop, both": lambda p: optim.RMSprop(p, momentum=0.9, centered=True),
    "Adagrad": lambda p: optim.Adagrad(p),
    "Adam": lambda p: optim.Adam(p),
    "Adam, amsgrad": lambda p: optim.Adam(p, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p),
}


# %% count
def bytes_of(tensors):
    return sum(tensor.nbytes for tensor in tensors)


def state_of(optimizer):
    tensors = [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    ]
    counters = [each for each in tensors if each.dim() == 0]
    return bytes_of(tensors) - bytes_of(counters), bytes_of(counters)


# %% try-one
def new_model(dtype=torch.float32):
    return nn.Sequential(
        nn.Linear(64, 64, dtype=dtype), nn.Linear(64, 64, dtype=dtype)
    )


def step(model, optimizer):
    dtype = model[0].weight.dtype
    model(torch.ones(1, 64, dtype=dtype)).sum().backward()
    optimizer.step()


def multiples(make):
    model = new_model()
    size = bytes_of(model.parameters())
    optimizer = make(model.parameters())
    before = state_of(optimizer)[0] / size
    step(model, optimizer)
    state, counters = state_of(optimizer)
    return {
        "before a step": before,
        "after it": state / size,
        "bytes of counters": counters,
    }


# %% try-all
rows = {name: multiples(make) for name, make in kinds.items()}

# %% table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% second-step
model = new_model()
optimizer = optim.Adam(model.parameters())
step(model, optimizer)
after_one = sum(state_of(optimizer))
step(model, optimizer)
after_two = sum(state_of(optimizer))

print(after_one == after_two)

# %% half
half = new_model(torch.bfloat16)
optimizer = optim.Adam(half.parameters())
step(half, optimizer)
half_state, _ = state_of(optimizer)

print(bytes_of(half.parameters()), half_state)

# %% unused
model = new_model()
optimizer = optim.Adam(model.parameters())
model[1].requires_grad_(False)
step(model, optimizer)
with_state = len(optimizer.state)

print(with_state, "of", len(list(model.parameters())), "parameters")

# %% zero-grad
optimizer.zero_grad()
kept = sum(state_of(optimizer))

print(kept > 0)

# %% after-the-model
size = bytes_of(model.parameters())
del model
held = bytes_of(
    parameter
    for group in optimizer.param_groups
    for parameter in group["params"]
)

print(held == size)
