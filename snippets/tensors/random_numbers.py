"""
Make random numbers
===================

Random numbers of several distributions, repeated by a seed.
"""

# %% do-this
import torch

torch.manual_seed(0)
noise = torch.rand(2, 3)  # from 0 to 1
weights = torch.randn(2, 3)  # bell curve around 0
rolls = torch.randint(1, 7, (5,))  # a die
shuffled = torch.randperm(5)  # 0 to 4 in random order

print(noise, weights, rolls, shuffled, sep="\n")

# %% chance
torch.manual_seed(0)
uniform, normal = torch.rand(10_000), torch.randn(10_000)
dice = torch.randint(1, 7, (10_000,))
order = torch.randperm(7)

print(uniform[:3], normal[:3], dice[:10], order, sep="\n")

# %% chance-drawn
import matplotlib.pyplot as plt

draws = {"rand": uniform, "randn": normal, "randint(1, 7)": dice}
_, axes = plt.subplots(3, 1, figsize=(4, 5), layout="constrained")
for ax, (name, numbers) in zip(axes, draws.items(), strict=True):
    bins = [0.5 + each for each in range(7)] if numbers is dice else 30
    ax.hist(numbers.numpy(), bins=bins, rwidth=0.85, color="#0072B2")
    ax.set(title=f"10,000 from {name}", yticks=[])
plt.show()

# %% stretch
temperatures = 15 + 10 * uniform
heights = 170 + 8 * normal

print(temperatures[:3], heights[:3], sep="\n")

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

# %% extra-draw
torch.manual_seed(1)
torch.rand(1)  # somebody adds this line
moved = torch.rand(3)

print(moved)

# %% seed-in-the-loop
# Wrong on purpose: do not copy.
repeated = []
for epoch in range(3):
    torch.manual_seed(0)
    repeated.append(torch.randperm(5))
    print(epoch, repeated[-1])

# %% seed-once
torch.manual_seed(0)
varied = []
for epoch in range(3):
    varied.append(torch.randperm(5))
    print(epoch, varied[-1])

# %% new-generators
# Wrong on purpose: do not copy.
one, other = torch.Generator(), torch.Generator()
alike = torch.rand(3, generator=one), torch.rand(3, generator=other)

print(*alike, sep="\n")

# %% like-integers
# Wrong on purpose: do not copy.
counts = torch.tensor([[3, 0, 5], [1, 2, 4]])
try:
    torch.rand_like(counts)
except RuntimeError as error:
    print(error)

# %% floating
drawn = torch.rand_like(counts, dtype=torch.float32)
print(drawn)

# %% quiz
print(torch.randint(3, 4, (5,)))
print(torch.randperm(4).sum())

# %% shifts
torch.manual_seed(0)
shifts = 4 * torch.rand(1000) - 2

# %% shifts-checked
if shifts.shape != (1000,):
    print("Not yet: expected 1,000 numbers, not", tuple(shifts.shape))
elif shifts.min() < -2 or shifts.max() > 2:
    print("Not yet: some numbers are not between -2 and 2")
elif shifts.min() > -1.9 or shifts.max() < 1.9:
    print("Not yet: the numbers do not reach from -2 to 2")
elif shifts.histc(4, -2, 2).min() < 180:
    print("Not yet: a quarter of the range gets too few numbers")
else:
    print("Right: the numbers are spread evenly between -2 and 2")
