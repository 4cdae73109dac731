"""
Make a tensor
=============

Tensors from numbers and from patterns, and copies of them.
"""

# %% do-this
import torch
from sklearn.datasets import load_digits

seven = torch.tensor([[0, 9, 9], [0, 0, 9], [0, 9, 0], [0, 9, 0]])
images = torch.tensor(load_digits().images, dtype=torch.float32)
blank = torch.zeros(8, 8)
gray = torch.full((8, 8), 5.0)
noise = torch.rand(8, 8)
copy = images[0].clone()

print(seven, images.shape, sep="\n")

# %% parts
print(seven.shape, seven.dtype, seven.device)

# %% parts-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(3, 3.2), layout="constrained")
ax.imshow(seven, cmap="gray_r", vmax=16)
for row, numbers in enumerate(seven.tolist()):
    for column, number in enumerate(numbers):
        color = "#ffff99" if number else "#003399"
        ax.text(column, row, number, color=color, ha="center", va="center")
ax.set(title=f"seven: shape {tuple(seven.shape)}")
ax.set(xlabel="axis 1: 3 columns", ylabel="axis 0: 4 rows")
ax.set(xticks=[], yticks=[])
plt.show()

# %% ask
device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)
small = torch.zeros(2, 3, dtype=torch.float16, device=device)

print(small)

# %% like
like = torch.ones_like(seven)
print(like)

# %% dtypes
calls = ["tensor([17, 19])", "tensor([17, True])", "tensor([True, False])"]
calls += ["tensor([17, 19.0])", "tensor([])", "zeros(7)", "ones(7)"]
calls += ["empty(7)", "full((7,), 20)", "full((7,), 20.0)", "arange(7)"]
calls += ["arange(7.0)", "linspace(0, 1, 7)", "rand(7)", "randn(7)"]
calls += ["eye(7)", "randint(6, (7,))", "randperm(7)"]


def dtypes():
    return {call: eval(f"torch.{call}").dtype for call in calls}


at_first = dtypes()
torch.set_default_dtype(torch.float64)
changed, layer = dtypes(), torch.nn.Linear(1, 1)
torch.set_default_dtype(torch.float32)

# %% dtypes-shown
import pandas as pd

rows = {
    call: {"default float32": found, "default float64": changed[call]}
    for call, found in at_first.items()
}
pd.DataFrame.from_dict(rows, orient="index")

# %% ranges
even = torch.arange(0, 8, 2)
down = torch.arange(5, 0, -2)
levels = torch.linspace(0, 16, 5)
points = torch.linspace(0, 1, 5)

print(even, down, levels, points, sep="\n")

# %% copies
row = torch.tensor([3.0, 16.0])
same, copied = row, row.clone()
row[0] = 9.0
print(same, copied)

# %% graph
offset = torch.tensor([0.5], requires_grad=True)
linked, apart = offset.clone(), offset.detach().clone()
print(linked, apart)

# %% unequal-rows
# Wrong on purpose: do not copy.
try:
    uneven = torch.tensor([[0.0, 9.0], [9.0]])
except ValueError as error:
    print(error)

# %% list-of-tensors
# Wrong on purpose: do not copy.
rows = [torch.tensor([0.0, 9.0]), torch.tensor([9.0, 9.0])]
refusals = []
for each in (rows, [*seven]):
    try:
        torch.tensor(each)
    except (ValueError, TypeError) as error:
        refusals.append(error)
        print(f"{type(error).__name__}: {error}")

# %% stacked
stacked = torch.stack(rows)
print(stacked)

# %% tensor-of-a-tensor
# Wrong on purpose: do not copy.
import warnings

with warnings.catch_warnings(record=True, action="always") as caught:
    cut = torch.tensor(offset)

for warning in caught:
    print(warning.message)
print(cut)

# %% capital
# Wrong on purpose: do not copy.
pixels = torch.Tensor([16_777_217])
three = torch.Tensor(3)

print(int(pixels), three.shape)
try:
    typed = torch.Tensor([17, 19], dtype=torch.int64)
except TypeError as error:
    print(error)

# %% capital-right
pixels_right = torch.tensor([16_777_217])
number = torch.tensor(3)
print(pixels_right, number)

# %% fractional-step
# Wrong on purpose: do not copy.
steps, needed = torch.arange(1, 1.3, 0.1), (1.3 - 1) / 0.1
print(steps, needed)

# %% count-first
counted = 1 + 0.1 * torch.arange(3)
print(counted)

# %% integer-gradients
# Wrong on purpose: do not copy.
try:
    weights = torch.tensor([17, 19], requires_grad=True)
except RuntimeError as error:
    print(error)

# %% like-integers
# Wrong on purpose: do not copy.
half = torch.full_like(seven, 0.5)
print(half)

# %% floating
weights = torch.tensor([17.0, 19.0], requires_grad=True)
floating = torch.full_like(seven, 0.5, dtype=torch.float32)

print(weights, floating, sep="\n")

# %% empty-first-row
# Wrong on purpose: do not copy.
dropped = torch.tensor([[], [9.0, 9.0]])
print(dropped)

# %% quiz
print(torch.arange(3, 9, 2))
print(torch.tensor([[1, 2, 3]]).shape)

# %% frame
frame = torch.zeros(8, 8)
frame[0], frame[-1] = 9, 9
frame[:, 0], frame[:, -1] = 9, 9

# %% frame-checked
ink = int(frame.sum())
if frame.shape != (8, 8):
    print("Not yet: expected 8 by 8 pixels, not", tuple(frame.shape))
elif ink != 9 * 28 or frame[1:-1, 1:-1].any():
    print("Not yet: 28 pixels at the edge should be 9, the rest 0")
else:
    print("Right: the frame has 28 pixels of ink 9")
