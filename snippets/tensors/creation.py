"""
Make a tensor
=============

Tensors from values, from a pattern, from NumPy and from chance.
"""

# %% values
import numpy as np
import torch

table = torch.tensor([[1, 2], [3, 4], [5, 6]])

print(table)
print(table.shape)

# %% ragged
try:
    ragged = torch.tensor([[1, 2], [3]])
except ValueError as error:
    print(error)

# %% infer
examples = [[1, 2], [1, 2.5], [True, False], [1, True], [1j, 2], []]
rows = {str(each): {"dtype": torch.tensor(each).dtype} for each in examples}

# %% inferred
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% ask
halves = torch.tensor([1, 2], dtype=torch.float16)

print(halves)

# %% constants
zeros, ones = torch.zeros(2, 3), torch.ones(2)
sevens = torch.full((2,), 7)
identity = torch.eye(2)

print(zeros, ones, sevens, identity, sep="\n")

# %% like
like = torch.zeros_like(table)

print(like.shape, like.dtype)

# %% ranges
to_five = torch.arange(5)
two_to_eight = torch.arange(2, 8)
by_twos = torch.arange(2, 8, 2)

print(to_five, two_to_eight, by_twos, sep="\n")

# %% spaces
points = torch.linspace(0, 1, 6)

print(points)

# %% rounding
steps = torch.arange(1, 1.3, 0.1)
counted = 1 + 0.1 * torch.arange(3)

print(steps)
print(counted)

# %% chance
torch.manual_seed(0)
uniform = torch.rand(10_000)
normal = torch.randn(10_000)
dice = torch.randint(1, 6, (10_000,))

print(f"uniform: {uniform.min():.2f} to {uniform.max():.2f}")
print(f"normal: mean {normal.mean():.2f}, deviation {normal.std():.2f}")
print("dice:", dice.unique().tolist())

# %% seed
torch.manual_seed(1)
first = torch.rand(3)
torch.manual_seed(1)
again = torch.rand(3)
after = torch.rand(3)

print(torch.equal(first, again), torch.equal(first, after))

# %% generator
own = torch.Generator().manual_seed(1)
mine = torch.rand(3, generator=own)

print(torch.equal(first, mine))

# %% from-numpy
array = np.array([[1.0, 2.0], [3.0, 4.0]])

from_array = torch.from_numpy(array)
from_list = torch.tensor(array.tolist())

print(from_array.dtype, from_list.dtype)

# %% capital
small = torch.tensor([16777217])
capital = torch.Tensor([16777217])

print(small.dtype, small.item())
print(capital.dtype, int(capital.item()))

# %% capital-size
number, unchosen = torch.tensor(3), torch.Tensor(3)

print(number.shape, unchosen.shape)

# %% capital-dtype
try:
    typed = torch.Tensor([1, 2], dtype=torch.int64)
except TypeError as error:
    print(str(error).partition(" - ")[0])
