"""
Save and resume
===============

A checkpoint that a training can be resumed from, and one that it cannot.
"""

# %% training
import io

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
inputs = torch.randn(64, 4)
targets = inputs.sum(dim=1, keepdim=True)


# %% start
def start():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.5)
    return model, optimizer, scheduler


# %% steps
def train(model, optimizer, scheduler, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        scheduler.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# %% uninterrupted
uninterrupted = train(*start(), steps=20)

# %% save
model, optimizer, scheduler = start()
train(model, optimizer, scheduler, steps=8)

file = io.BytesIO()  # a path would do as well
checkpoint = {
    "model": model.state_dict(),
    "optimizer": optimizer.state_dict(),
    "scheduler": scheduler.state_dict(),
    "rng": torch.get_rng_state(),
}
torch.save(checkpoint, file)


# %% resume
def resume(*names):
    file.seek(0)
    loaded = torch.load(file, map_location="cpu")
    parts = dict(
        zip(("model", "optimizer", "scheduler"), start(), strict=True)
    )
    for name in names:
        if name in parts:
            parts[name].load_state_dict(loaded[name])
        else:
            torch.set_rng_state(loaded["rng"])
    return train(*parts.values(), steps=12)


# %% compare
everything = ("model", "optimizer", "scheduler", "rng")
rows = {
    "everything": everything,
    "without the optimizer": ("model", "scheduler", "rng"),
    "without the scheduler": ("model", "optimizer", "rng"),
    "without the random state": ("model", "optimizer", "scheduler"),
    "the model only": ("model",),
}
rows = {
    name: {"same as uninterrupted": torch.equal(resume(*parts), uninterrupted)}
    for name, parts in rows.items()
}

# %% table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% whole-model
file = io.BytesIO()
torch.save(model, file)
file.seek(0)

try:
    torch.load(file)
except Exception as error:
    print(type(error).__name__, str(error).partition(".")[0], sep=": ")

# %% plain
import numpy as np

file = io.BytesIO()
torch.save({"loss": np.float64(0.5)}, file)
file.seek(0)

try:
    torch.load(file)
except Exception as error:
    print(type(error).__name__)

file = io.BytesIO()
torch.save({"loss": float(np.float64(0.5)), "epochs": [1, 2]}, file)
file.seek(0)

print(torch.load(file))

# %% map
file = io.BytesIO()
torch.save({"weight": torch.ones(3)}, file)
file.seek(0)

print(torch.load(file, map_location="meta")["weight"].device)

# %% view
large = torch.zeros(1000, 1000)


def size(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    return file.tell()


whole, row, own_row = size(large), size(large[0]), size(large[0].clone())

print(row > 0.99 * whole, own_row < 0.01 * whole)

# %% free
import weakref

file.seek(0)
loaded = torch.load(file)
watch = weakref.ref(loaded["weight"])
target = nn.ParameterDict({"weight": torch.zeros(3)})
target.load_state_dict(loaded)

print(watch() is None)
del loaded
print(watch() is None)

# %% scaler
scaler = torch.amp.GradScaler("cpu")
scaler.scale(torch.tensor(1.0))
scaler.update(new_scale=1024.0)  # where a long training has come to

resumed = torch.amp.GradScaler("cpu")
start_scale = resumed.get_scale()
resumed.load_state_dict(scaler.state_dict())

print(start_scale, resumed.get_scale())

# %% safetensors
from safetensors.torch import load, save

content = save(model.state_dict())
tensors = load(content)

print(sorted(tensors))

# %% safetensors-refuses
shared = torch.ones(3)

for state in ({"loss": 0.5}, {"first": shared, "second": shared}):
    try:
        save(state)
    except (ValueError, RuntimeError) as error:
        print(str(error).partition(": [")[0])
