"""
Evaluate a model
================

What eval, no_grad and inference_mode switch off, and what they leave on.
"""

# %% model
import contextlib

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, inputs):
        return self.dropout(self.norm(self.linear(inputs)))


torch.manual_seed(0)
inputs = torch.randn(32, 4)


# %% look
def look(training, context):
    net = Net().train(training)
    before = net.norm.running_mean.clone()
    with context:
        first, second = net(inputs), net(inputs)
        loose = F.dropout(inputs, 0.5)
        tied = F.dropout(inputs, 0.5, training=net.training)
    return {
        "statistics move": not torch.equal(net.norm.running_mean, before),
        "Dropout drops": not torch.equal(first, second),
        "F.dropout drops": not torch.equal(loose, inputs),
        "F.dropout(training=...) drops": not torch.equal(tied, inputs),
        "records a graph": first.requires_grad,
    }


# %% try-all
rows = {
    f"{mode}, {name}": look(mode == "train()", context())
    for mode in ("train()", "eval()")
    for name, context in {
        "no context": contextlib.nullcontext,
        "no_grad()": torch.no_grad,
        "inference_mode()": torch.inference_mode,
    }.items()
}

# %% table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% evaluate
net = Net()


def evaluate(net, inputs):
    modes = {module: module.training for module in net.modules()}
    net.eval()
    try:
        with torch.inference_mode():
            return net(inputs)
    finally:
        for module, mode in modes.items():
            module.training = mode


output = evaluate(net, inputs)

print(output.requires_grad, net.training)

# %% lag
norm = nn.BatchNorm1d(1)
data = torch.randn(1000, 1) + 7

norm.train()(data)
early = norm.eval()(data).mean().item()

print(f"running mean {norm.running_mean.item():.2f}, output mean {early:.2f}")

# %% caught-up
for _ in range(100):
    norm.train()(data)
late = norm.eval()(data).mean().item()

print(f"running mean {norm.running_mean.item():.2f}, output mean {late:.2f}")

# %% one-sample
try:
    nn.BatchNorm1d(2)(torch.ones(1, 2))
except ValueError as error:
    print(error)

print(nn.BatchNorm1d(2).eval()(torch.ones(1, 2)).shape)

# %% scale
dropped = nn.Dropout(0.5)(torch.ones(10_000))

print(dropped.unique().tolist(), f"mean {dropped.mean():.2f}")
