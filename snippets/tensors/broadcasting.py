"""
Broadcasting
============

Combine tensors of different shapes, and see what that costs and hides.
"""

# %% load
import torch
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)  # 1797 x 8 x 8

# %% do-this
mean_image = images.mean(dim=0)  # (8, 8)
centered = images - mean_image  # (1797, 8, 8)

peaks = images.amax(dim=(1, 2), keepdim=True)  # (1797, 1, 1)
scaled = images / peaks  # (1797, 8, 8)

print("largest pixel of four images:", images.amax(dim=(1, 2))[:4])
print("the same, after scaling:", scaled.amax(dim=(1, 2))[:4])

# %% digits-drawn
import matplotlib.pyplot as plt

fig, axes = plt.subplots(3, 3, figsize=(4, 4.4), layout="constrained")
for k, row in enumerate(axes):
    row[0].imshow(images[k], cmap="gray_r", vmin=0, vmax=16)
    row[1].imshow(mean_image, cmap="gray_r", vmin=0, vmax=16)
    row[2].imshow(centered[k], cmap="RdBu_r", vmin=-16, vmax=16)
    for panel, sign in zip(row, ("", "$-$", "$=$"), strict=True):
        panel.set_ylabel(sign, rotation=0, size=16, labelpad=12)
        panel.set(xticks=[], yticks=[])
names = ("images", "mean_image", "centered")
for panel, name in zip(axes[0], names, strict=True):
    panel.set_title(name, size=11)
fig.suptitle("The same mean image meets each image")
plt.show()

# %% by-hand
euros = torch.tensor([2.0, 3.0, 5.0])  # the prices of three products
rates = torch.tensor([1.0, 1.5, 0.5, 8.0])  # of four currencies
prices = euros[:, None] * rates  # (3, 1) * (4,) -> (3, 4)

print(prices)

# %% stretched-drawn
import matplotlib.pyplot as plt
import numpy as np

shown = {"euros[:, None]": euros[:, None], "rates": rates, "prices": prices}
fig, axes = plt.subplots(3, 1, figsize=(3.4, 5.4), layout="constrained")
for panel, (name, numbers) in zip(axes, shown.items(), strict=True):
    rows, columns = torch.atleast_2d(numbers).shape
    for (y, x), number in np.ndenumerate(numbers.expand(3, 4)):
        own = y < rows and x < columns
        style = {"ec": "#0072B2", "lw": 2} if own else {"ls": ":"}
        panel.add_patch(plt.Rectangle((x, y), 0.9, 0.9, fill=False, **style))
        middle = {"ha": "center", "va": "center", "size": 12}
        panel.text(x + 0.45, y + 0.45, f"{number:g}", **middle)
    panel.set_title(f"{name}: {tuple(numbers.shape)}", size=12)
    panel.set(xlim=(-0.1, 4), ylim=(3, -0.1), xticks=[], yticks=[])
    panel.set_frame_on(False)
fig.suptitle("Stretched to (3, 4): dotted boxes repeat")
plt.show()


# %% line-up
def line_up(first, second):
    length = max(len(first), len(second))
    result = []
    for place in range(-length, 0):
        a, b = (s[place] if place >= -len(s) else 1 for s in (first, second))
        fits = a == b or 1 in (a, b)
        result.append((b if a == 1 else a) if fits else "error")
    for shape in (first, second, result):
        print("".join(f"{size:>7}" for size in shape).rjust(7 * length))
    return tuple(result)


# %% lined-up
fits = line_up((1797, 8, 8), (8, 8))
print()
stretches = line_up((3, 1), (4,))
print()
misfits = line_up((1797, 8, 8), (1797,))

# %% ask
print(torch.broadcast_shapes((1797, 8, 8), (8, 8)))
print(torch.broadcast_shapes((7, 1, 1), (3, 1), (4,)))

# %% no-copy
column = euros[:, None]
stretched = column.expand(3, 4)
copied = column.repeat(1, 4)

for each in (column, stretched, copied):
    size = each.untyped_storage().nbytes()
    print(f"{tuple(each.shape)} strides {each.stride()}: {size} bytes")

# %% all-pairs
flat = images.flatten(1)  # (1797, 64)
pairs = torch.broadcast_shapes(flat[:, None].shape, flat.shape)

for shape in (flat.shape, pairs):
    megabytes = shape.numel() * flat.element_size() / 1e6
    print(f"{tuple(shape)}: {megabytes:.1f} MB")

# %% gradient
rates.requires_grad_()
(euros[:, None] * rates).sum().backward()

print(rates.grad)

# %% misfit
# Wrong on purpose: do not copy.
peaks = images.amax(dim=(1, 2))  # (1797,)
try:
    images / peaks
except RuntimeError as error:
    print(error)

# %% cures
scaled = images / peaks[:, None, None]

torch.manual_seed(0)
photos = torch.rand(16, 3, 32, 32)  # 16 photos of 3 channels
means = photos.mean(dim=(0, 2, 3))  # (3,)
normalized = photos - means[:, None, None]

# %% square
# Wrong on purpose: do not copy.
batch, peaks = images[:8], images[:8].amax(dim=(1, 2))
mixed_up = batch / peaks

print("should be:", (batch / peaks[:, None, None]).amax(dim=(1, 2)))
print("is:       ", mixed_up.amax(dim=(1, 2)))

# %% in-place
# Wrong on purpose: do not copy.
total = torch.zeros(8, 8)
try:
    total += images
except RuntimeError as error:
    print(error)

# %% write
# Wrong on purpose: do not copy.
row = torch.tensor([2.0, 3.0, 5.0])
table = row.expand(2, 3)
try:
    table += 1
except RuntimeError as error:
    print(error)
table[0, 0] = 9

print(table, row, sep="\n")

# %% products
# Wrong on purpose: do not copy.
attempts = {
    "@": lambda: torch.ones(3, 1) @ torch.ones(3, 4),
    "bmm": lambda: torch.bmm(torch.ones(2, 3, 4), torch.ones(1, 4, 5)),
    "cat": lambda: torch.cat([torch.ones(3, 1), torch.ones(1, 4)]),
    "stack": lambda: torch.stack([torch.ones(3, 1), torch.ones(3, 4)]),
}
messages = {}

# %% products-tried
for name, attempt in attempts.items():
    try:
        attempt()
    except RuntimeError as error:
        messages[name] = str(error)
        print(f"{name}: {error}")

# %% edges
one_number = prices * torch.tensor(2.0)
nothing = euros[:, None] * torch.zeros(3, 0)

print(one_number.shape, nothing.shape)

# %% two-shapes
print((torch.ones(5, 1) + torch.ones(5)).shape)
print((torch.ones(2, 1, 3) + torch.ones(4, 1)).shape)

# %% class-means
labels = torch.tensor(digits.target)
means = torch.stack([flat[labels == k].mean(dim=0) for k in range(10)])

# %% distances
distances = (flat[:, None] - means).square().sum(dim=2).sqrt()

# %% distances-checked
expected = torch.cdist(flat, means)
if distances.shape != expected.shape:
    print("Not yet: expected shape (1797, 10), not", tuple(distances.shape))
elif not distances.allclose(expected, atol=0.01):
    print("Not yet: the shape is right, but the numbers are not")
else:
    right = (distances.argmin(dim=1) == labels).sum()
    print(f"Right: the nearest mean image names {right} of 1797 digits")
