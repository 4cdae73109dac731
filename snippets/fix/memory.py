"""
Out of memory
=============

A shape that fills the memory by mistake, and its fix.
"""

# %% by-mistake
import torch

predictions = torch.zeros(10_000_000, 1)  # as a model with one output gives
targets = torch.zeros(10_000_000)
try:
    (predictions - targets).square().mean()
except RuntimeError as error:
    print(f"{error}\n")

errors = predictions.squeeze(1) - targets
print(list(errors.shape))
