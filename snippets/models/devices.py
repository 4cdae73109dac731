"""
Choose a device
===============

Move tensors and models to a device, and see what moves along.
"""

# %% choose
import torch
from torch import nn

found = torch.accelerator.current_accelerator(check_available=True)
device = found or torch.device("cpu")

# %% make
inputs = torch.ones(2, 3, device=device)
model = nn.Linear(3, 1).to(device)

print(model(inputs).shape)

# %% tensor
tensor = torch.ones(3)
moved = tensor.to("meta")

print(tensor.device, moved.device)
print(tensor.to(tensor.device) is tensor)


# %% module
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.register_buffer("mean", torch.zeros(3))
        self.plain = torch.zeros(3)
        self.listed = [nn.Linear(3, 1)]


network = Model()
network.linear(torch.ones(1, 3)).sum().backward()
returned = network.to("meta")

print(returned is network)

# %% along
rows = {
    "a parameter": network.linear.weight,
    "its gradient": network.linear.weight.grad,
    "a buffer": network.mean,
    "a plain tensor": network.plain,
    "a layer in a list": network.listed[0].weight,
}
rows = {name: {"is on": str(each.device)} for name, each in rows.items()}

# %% table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% pretend
from torch._subclasses.fake_tensor import FakeTensorMode

attempts = {
    "x @ w": lambda x, w: x @ w,
    "x + w": lambda x, w: x + w,
    "cat([x, w])": lambda x, w: torch.cat([x, w]),
    "w + one number": lambda x, w: w + torch.tensor(1.0),
}

# %% mismatch
said = {}
with FakeTensorMode(), torch.no_grad():
    here, there = torch.ones(3, 3), torch.ones(3, 3, device="cuda")
    for name, attempt in attempts.items():
        try:
            said[name] = str(attempt(here, there).device)
        except RuntimeError as error:
            said[name] = str(error).partition(", but")[0]

for name, words in said.items():
    print(f"{name}: {words}")

# %% two-bugs
whole = torch.tensor([1, 2, 3])

try:
    nn.Linear(3, 1)(whole)
except RuntimeError as error:
    print(error)

# %% on-cuda
if torch.cuda.is_available():
    layer = nn.Linear(3, 1).to("cuda")
    try:
        layer(torch.ones(1, 3))
    except RuntimeError as error:
        print("same device" in str(error))
    print(layer(torch.ones(1, 3, device="cuda")).device.type)
