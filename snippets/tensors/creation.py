"""
Make a tensor
=============

Tensors from numbers, from patterns and by chance, and copies of them.
"""

# %% do-this
import torch

torch.manual_seed(0)
week = torch.tensor([17.0, 19.5, 21.0, 20.0, 18.5, 16.0, 15.5])
rain = torch.zeros(2, 7)  # two places, seven days
guess = torch.full((7,), 20.0)
hours = torch.arange(0, 24, 6)  # in steps of 6
marks = torch.linspace(-10, 40, 6)  # 6 of them
noise = torch.randn(7)
copy = week.clone()

print(week, rain, guess, hours, marks, noise, copy, sep="\n")

# %% parts
places = torch.tensor([[17.0, 19.5, 21.0], [12.0, 14.5, 13.0]])
print(places.shape, places.dtype, places.device)

# %% parts-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(4, 2), layout="constrained")
for row, numbers in enumerate(places.tolist()):
    ink = ("#0072B2", "#D55E00")[row]
    box = {"boxstyle": "square,pad=0.6", "fc": "none", "ec": ink}
    for column, number in enumerate(numbers):
        ax.text(column, -row, number, bbox=box, ha="center", va="center")
ax.set(title=f"shape {tuple(places.shape)}, {places.dtype}")
ax.set(xlabel=f"axis 1: {places.shape[1]} days", xlim=(-0.6, 2.6))
ax.set(ylabel=f"axis 0: {places.shape[0]} places", ylim=(-1.6, 0.6))
ax.set(xticks=[], yticks=[], frame_on=False)
plt.show()

# %% calls
calls = ["tensor([17, 19])", "tensor([17, True])", "tensor([True, False])"]
calls += ["tensor([17, 19.0])", "tensor([])", "zeros(7)", "ones(7)"]
calls += ["empty(7)", "full((7,), 20)", "full((7,), 20.0)", "arange(7)"]
calls += ["arange(7.0)", "linspace(0, 1, 7)", "rand(7)", "randn(7)"]
calls += ["eye(7)", "randint(6, (7,))", "randperm(7)"]


# %% dtypes
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

# %% ask
device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)
small = torch.zeros(2, 3, dtype=torch.float16, device=device)

print(small)

# %% like
sunny = torch.tensor([[3, 0, 5], [1, 2, 4]])
like = torch.ones_like(sunny)
print(like)

# %% ranges
down = torch.arange(5, 0, -2)
points = torch.linspace(0, 1, 5)
print(down, points)

# %% chance
torch.manual_seed(0)
uniform, normal = torch.rand(10_000), torch.randn(10_000)
dice = torch.randint(1, 7, (10_000,))
order = torch.randperm(7)

print(order)

# %% chance-drawn
import matplotlib.pyplot as plt

draws = {"rand": uniform, "randn": normal, "randint(1, 7)": dice}
_, axes = plt.subplots(1, 3, figsize=(7, 2.2), layout="constrained")
for ax, (name, numbers) in zip(axes, draws.items(), strict=True):
    bins = [0.5 + each for each in range(7)] if numbers is dice else 30
    ax.hist(numbers.numpy(), bins=bins, rwidth=0.85, color="#0072B2")
    ax.set(title=f"10,000 from {name}", yticks=[])
plt.show()

# %% seed
torch.manual_seed(1)
first = torch.rand(3)
torch.manual_seed(1)
again, after = torch.rand(3), torch.rand(3)

print(first, again, after, sep="\n")

# %% generator
own = torch.Generator().manual_seed(1)
torch.manual_seed(2)
mine = torch.rand(3, generator=own)
between = torch.rand(3)  # something else draws
then = torch.rand(3, generator=own)

print(mine, between, then, sep="\n")

# %% copies
monday = torch.tensor([17.0, 19.5])
same, copied = monday, monday.clone()
monday[0] = 99.0
print(same, copied)

# %% graph
offset = torch.tensor([0.5], requires_grad=True)
linked, apart = offset.clone(), offset.detach().clone()
print(linked, apart)

# %% unequal-rows
# Wrong on purpose: do not copy.
try:
    uneven = torch.tensor([[17.0, 19.5], [12.0]])
except ValueError as error:
    print(error)

# %% list-of-tensors
# Wrong on purpose: do not copy.
days = [torch.tensor([17.0, 12.0]), torch.tensor([19.5, 14.5])]
refusals = []
for each in (days, [*sunny]):
    try:
        torch.tensor(each)
    except (ValueError, TypeError) as error:
        refusals.append(error)
        print(f"{type(error).__name__}: {error}")

# %% stacked
stacked = torch.stack(days)
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
visitors = torch.Tensor([16_777_217])
three = torch.Tensor(3)

print(int(visitors), three.shape)
try:
    typed = torch.Tensor([17, 19], dtype=torch.int64)
except TypeError as error:
    print(error)

# %% capital-right
visitors_right = torch.tensor([16_777_217])
number = torch.tensor(3)
print(visitors_right, number)

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
half = torch.full_like(sunny, 0.5)
print(half)
try:
    torch.rand_like(sunny)
except RuntimeError as error:
    print(error)

# %% floating
weights = torch.tensor([17.0, 19.0], requires_grad=True)
floating = torch.full_like(sunny, 0.5, dtype=torch.float32)
drawn = torch.rand_like(sunny, dtype=torch.float32)

print(weights, floating, drawn, sep="\n")

# %% empty-first-row
# Wrong on purpose: do not copy.
dropped = torch.tensor([[], [12.0, 14.5]])
print(dropped)
