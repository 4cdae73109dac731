"""
Symptoms
========

The errors that readers meet first, raised by the torch that is installed.
"""

# %% imports
import io

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import default_collate

# %% shapes-and-types
floats, whole = torch.ones(2, 3), torch.tensor([[1, 2, 3]])
shapes_and_types = {
    "Linear of whole numbers": lambda: nn.Linear(3, 1)(whole),
    "mean of whole numbers": lambda: whole.mean(),
    "a product of 2x3 and 2x3": lambda: floats @ floats,
    "a sum of 3 and 4": lambda: torch.ones(3) + torch.ones(4),
    "images of two sizes": lambda: default_collate([floats, whole]),
    "a class that is not there": lambda: F.cross_entropy(
        floats, torch.tensor([0, 3])
    ),
    "a word that is not there": lambda: nn.Embedding(3, 2)(torch.tensor(3)),
    "BatchNorm of one sample": lambda: nn.BatchNorm1d(3)(floats[:1]),
}


# %% twice
def backward_twice():
    loss = torch.ones(1, requires_grad=True).exp().sum()
    loss.backward()
    loss.backward()


def change_in_between():
    weight = torch.ones(1, requires_grad=True)
    powers = weight.exp()
    powers += 1
    powers.backward()


# %% gradients
weight = torch.ones(3, requires_grad=True)
gradients = {
    "backward, and again": backward_twice,
    "backward of a change in place": change_in_between,
    "backward without a graph": lambda: floats.sum().backward(),
    "backward of three numbers": lambda: (2 * weight).backward(),
    "a parameter changed in place": lambda: weight.add_(1),
    "numpy() of a parameter": lambda: weight.numpy(),
    "an optimizer without parameters": lambda: torch.optim.SGD([]),
}


# %% load-numpy
def load_numpy_number():
    file = io.BytesIO()
    torch.save({"loss": np.float64(1)}, file)
    file.seek(0)
    torch.load(file)


# %% files
files = {
    "a checkpoint with a NumPy number": load_numpy_number,
    "the state of another model": lambda: nn.Linear(2, 2).load_state_dict(
        {"module.weight": torch.ones(2, 2)}
    ),
    "a state of another size": lambda: nn.Linear(2, 2).load_state_dict(
        nn.Linear(3, 2).state_dict()
    ),
}


# %% message
def message(attempt):
    try:
        attempt()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines()]
        return f"{type(error).__name__}: {' '.join(lines[:2])}"
    return "no error"


attempts = shapes_and_types | gradients | files
said = {name: message(attempt) for name, attempt in attempts.items()}
rows = {name: {"says": text[:120]} for name, text in said.items()}

# %% messages
import pandas as pd

pd.set_option("display.max_colwidth", None)
pd.DataFrame.from_dict(rows, orient="index")
