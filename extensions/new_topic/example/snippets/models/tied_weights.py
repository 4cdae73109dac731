"""
Tied weights
============

Two layers share one weight.
"""

# %% do-this
from torch import nn

model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
model[1].weight = model[0].weight

print([name for name, _ in model.named_parameters()])

# %% copy
# Wrong on purpose: do not copy.
model[1].weight = nn.Parameter(model[0].weight.clone())

print([name for name, _ in model.named_parameters()])
