"""
Indexing
========

Pick numbers from a tensor by position, by mask and by list.
"""

# %% cube
import torch

cube = torch.arange(24).reshape(2, 3, 4)

print(cube)

# %% positions
one = cube[0, 1, 0]
line = cube[:, 1, 0]
last = cube[0, :, -1]

print(one, line, last, sep="\n")

# %% ellipsis
print(torch.equal(cube[..., -1], cube[:, :, -1]))

# %% slices
print(cube[0, 1:, ::2])
print(cube[0, 1:100].shape)

# %% range-error
try:
    cube[2]
except IndexError as error:
    print(error)

# %% mask
grid = torch.arange(6).reshape(2, 3)
large = grid[grid > 2]

rows = grid[torch.tensor([True, False])]

print(grid > 2)
print(large)
print(rows)

# %% mask-shape
try:
    grid[torch.tensor([True, False, True])]
except IndexError as error:
    print(error)

# %% lists
columns = grid[:, [0, 2]]

print(columns)

# %% per-row
features = torch.arange(48).reshape(4, 6, 2)
chosen = torch.tensor([0, 2, 5, 1])

per_row = features[torch.arange(4), chosen]
for_all_rows = features[:, chosen]

print(per_row.shape, for_all_rows.shape)
print(per_row)

# %% same-only
print(torch.equal(features[torch.arange(4), 2], features[:, 2]))

# %% share
ways = {
    "grid[0]": grid[0],
    "grid[:, 1:]": grid[:, 1:],
    "grid[..., 0]": grid[..., 0],
    "grid[None]": grid[None],
    "grid.mT": grid.mT,
    "grid.reshape(3, 2)": grid.reshape(3, 2),
    "grid.mT.reshape(6)": grid.mT.reshape(6),
    "grid[grid > 2]": grid[grid > 2],
    "grid[:, [0, 2]]": grid[:, [0, 2]],
}

# %% views
start = grid.untyped_storage().data_ptr()
rows = {
    name: {
        "shape": tuple(part.shape),
        "shares memory": part.untyped_storage().data_ptr() == start,
    }
    for name, part in ways.items()
}

# %% table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% write
first_row = grid[0]
first_row[0] = 100
picked = grid[:, [0, 2]]
picked[0, 1] = 200
grid[:, [0, 2]] += 1000

print(grid)

# %% repeated
counts = torch.zeros(3)
counts[torch.tensor([0, 0, 1])] += 1

print(counts)
print(torch.zeros(3).index_add(0, torch.tensor([0, 0, 1]), torch.ones(3)))

# %% numpy
array = cube.numpy()

try:
    cube[::-1]
except ValueError as error:
    print("a negative step:", error)

print("an integer and a list apart:", cube[0, :, [0, 1]].shape)
print("the same in NumPy:", array[0, :, [0, 1]].shape)
print("one element:", type(cube[0, 0, 0]), type(array[0, 0, 0]))
