"""
Tied weights
============

A decoder shares the weight of an embedding.
"""

# %% tie
from torch import nn

embedding = nn.Embedding(100, 8)
decoder = nn.Linear(8, 100, bias=False)
decoder.weight = embedding.weight

model = nn.Sequential(embedding, decoder)
print([name for name, _ in model.named_parameters()])

# %% wrap
# Wrong on purpose: do not copy.
decoder.weight = nn.Parameter(embedding.weight)
print([name for name, _ in model.named_parameters()])
