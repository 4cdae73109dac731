"""
Vectorization
=============

The same result from a loop, from one call, and from calls put together.
"""

# %% table
import torch
from torch.nn import functional as F

table = torch.tensor([[0.0, 1.0, 2.0, 3.0], [7.0, 6.0, 5.0, 4.0]])


# %% loop
def largest_by_loop(table):
    largest = torch.empty(2)
    for i in range(2):
        largest[i] = table[i, 0]
        for value in table[i]:
            if value > largest[i]:
                largest[i] = value
    return largest


print(largest_by_loop(table))

# %% call
print(table.amax(dim=1))

# %% dim
print(table.amax(dim=0))
print(table.amax(dim=1))
print(table.amax())

# %% loop-breaks
whole = torch.tensor([[16777217, 0], [1, 2]])

print(largest_by_loop(whole).long())
print(whole.amax(dim=1))

# %% where
values, positions = table.max(dim=1)

print(values, positions)

# %% ties
tied = torch.tensor([2.0, 5.0, 5.0], requires_grad=True)


def slope(largest):
    return torch.autograd.grad(largest, tied)[0].tolist()


# %% tied-gradients
rows = {
    "tied.amax(dim=0)": slope(tied.amax(dim=0)),
    "tied.max()": slope(tied.max()),
    "tied.max(dim=0).values": slope(tied.max(dim=0).values),
    "tied[tied.argmax()]": slope(tied[tied.argmax()]),
}

# %% ties-table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index", columns=tied.tolist())

# %% vectors
torch.manual_seed(0)
first, second = torch.randn(5, 3), torch.randn(5, 3)

looped = torch.stack(
    [
        a.dot(b) / (a.dot(a).sqrt() * b.dot(b).sqrt())
        for a, b in zip(first, second, strict=True)
    ]
)
called = F.cosine_similarity(first, second, dim=1)

print(looped)
print(called)

# %% composed
lengths = torch.linalg.vector_norm(first, dim=1)
lengths = lengths * torch.linalg.vector_norm(second, dim=1)
composed = (first * second).sum(dim=1) / lengths

print(composed)

# %% wrong-dim
wrong = F.cosine_similarity(first, second, dim=0)

print(wrong.shape, called.shape)

# %% zero
zero, one = torch.zeros(3), torch.ones(3)

print(F.cosine_similarity(zero, one, dim=0))
print(zero.dot(one) / (zero.norm() * one.norm()))

# %% all-pairs
pairs = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
by_shape = F.cosine_similarity(first[:, None], second[None, :], dim=2)

print(pairs.shape, torch.allclose(pairs, by_shape))


# %% vmap
def similarity(a, b):
    return a.dot(b) / (a.norm() * b.norm())


mapped = torch.vmap(similarity)(first, second)

print(mapped)
