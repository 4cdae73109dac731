"""
Broadcasting
============

How tensors of different shapes meet, and where that goes wrong in silence.
"""

# %% meet
import torch

column = torch.tensor([[0], [10], [20]])
row = torch.tensor([[1, 2, 3, 4]])
total = column + row

print(column.shape, row.shape, total.shape)
print(total)

# %% draw
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 3, figsize=(8, 2.4))
for ax, values in zip(axes, (column, row, total), strict=True):
    height, width = values.shape
    for r, c in torch.cartesian_prod(
        torch.arange(3), torch.arange(4)
    ).tolist():
        style = "-" if r < height and c < width else ":"
        ax.add_patch(plt.Rectangle((c, r), 0.9, 0.9, fill=False, ls=style))
        number = values.expand(3, 4)[r, c].item()
        ax.text(c + 0.45, r + 0.45, number, ha="center", va="center")
    ax.set(title=f"{(height, width)}", xlim=(-0.1, 4), ylim=(3, -0.1))
    ax.set_axis_off()
fig.suptitle("column + row = sum; dotted numbers are repeated", y=1.1)
plt.show()

# %% rule
shapes = [
    ((3, 4), (4,)),
    ((2, 1, 4), (3, 1)),
    ((3, 4), ()),
    ((3, 0), (3, 1)),
    ((3, 4), (3,)),
    ((2,), (3,)),
    ((0,), (2,)),
]


def meeting(first, second):
    try:
        return tuple((torch.zeros(first) + torch.zeros(second)).shape)
    except RuntimeError:
        return "error"


# %% try
rows = [{"first": a, "second": b, "result": meeting(a, b)} for a, b in shapes]

# %% table
import pandas as pd

pd.DataFrame(rows)

# %% error
try:
    torch.zeros(3, 4) + torch.zeros(3)
except RuntimeError as error:
    print(error)

print((torch.zeros(3, 4) + torch.zeros(3).unsqueeze(1)).shape)

# %% no-copy
numbers = torch.arange(4)
repeated = numbers.expand(3, 4)

print(repeated.shape, repeated.stride())

# %% in-place
target = torch.zeros(3, 1)

try:
    target += torch.ones(1, 4)
except RuntimeError as error:
    print(error)

# %% silent
predictions = torch.tensor([[1.0], [2.0], [3.0]])
answers = torch.tensor([1.0, 2.0, 3.0])

print((predictions - answers).shape)
print((predictions - answers.unsqueeze(1)).shape)

# %% fit
torch.manual_seed(0)
inputs = torch.randn(64, 3)
weights = torch.tensor([1.0, -2.0, 0.5])
outputs = inputs @ weights


def fit(targets):
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        optimizer.step()
    return [round(weight, 3) + 0.0 for weight in model.weight[0].tolist()]


# %% fit-both
of_column = fit(outputs.unsqueeze(1))
of_flat = fit(outputs)

print("targets (64, 1):", of_column)
print("targets (64,):  ", of_flat)

# %% warning
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.nn.functional.mse_loss(predictions, answers)

print(str(caught[0].message).partition(". ")[0])
