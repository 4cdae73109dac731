"""
Types of numbers
================

Which dtype to choose, what it can hold, and what happens when two meet.
"""

# %% load
import torch
from sklearn.datasets import load_digits
from torch import nn

digits = load_digits()  # NumPy arrays: 1,797 images and their labels

# %% do-this
images = torch.from_numpy(digits.images).float()  # inputs: float32
labels = torch.from_numpy(digits.target).long()  # class labels: int64
photos = (images * 15).to(torch.uint8)  # bytes to store, here up to 240
pixels = photos.float() / 255  # bytes as inputs: float32 again
ink = images > 8  # a mask: bool

scores = nn.Linear(64, 10)(images.flatten(1))
loss = nn.functional.cross_entropy(scores, labels)

print(digits.images.dtype, images.dtype, labels.dtype, photos.dtype, ink.dtype)

# %% bits
from math import log2

bits = {}
for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
    fraction = round(-log2(torch.finfo(dtype).eps))
    bits[dtype] = 1, 8 * dtype.itemsize - 1 - fraction, fraction

# %% bits-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(5, 2.8), layout="constrained")
colors = "white", "#D55E00", "#0072B2"
for row, (dtype, parts) in enumerate(bits.items()):
    left = 0
    for part, color in zip(parts, colors, strict=True):
        ax.barh(-row, part, left=left, color=color, edgecolor="black")
        left += part
    reach = f"up to {torch.finfo(dtype).max:.5g}"
    ax.text(66, -row, f"{reach}\nstep $2^{{-{parts[2]}}}$", va="center")
ax.set(title="Bits: sign, exponent (orange), fraction (blue)", xlim=(0, 108))
names = [str(dtype)[6:] for dtype in bits]
ax.set(yticks=[0, -1, -2, -3], yticklabels=names, xticks=[16, 32, 64])
plt.show()

# %% amounts
amounts = torch.tensor([1e-8, 0.1, 257, 70_000])
stored = {dtype: amounts.to(dtype).tolist() for dtype in bits}

# %% amounts-shown
import pandas as pd

names = ["0.00000001", "0.1", "257", "70,000"]
table = pd.DataFrame.from_dict(stored, orient="index", columns=names)
table.index = [str(dtype)[6:] for dtype in stored]
table.map("{:.7g}".format)

# %% small-updates
# Wrong on purpose: do not copy.
weight = torch.tensor(256.0, dtype=torch.bfloat16)
for _ in range(100):
    weight = weight + 1

print(weight)

# %% convert
precise = images.to(torch.float64)  # or images.double()
model = nn.Linear(64, 10)
model.to(torch.float64)

print(images.dtype, precise.dtype, model.weight.dtype)

# %% to-integers
cut_off = torch.tensor([-1.7, 1.7]).long()

print(cut_off)

# %% meet
sharpened = photos + images  # uint8 and float32
masked = photos * ink  # uint8 and bool

print(sharpened.dtype, masked.dtype)

# %% single
largest = torch.from_numpy(digits.images).max()  # float64, no dimensions
scaled = images / largest
doubled = photos * 2
faded = photos * 0.5

print(scaled.dtype, doubled.dtype, faded.dtype)


# %% error-of
def error_of(call, *inputs):
    try:
        call(*inputs)
    except RuntimeError as error:
        return str(error)


# %% inputs
# Wrong on purpose: do not copy.
raw = torch.from_numpy(digits.images).flatten(1)  # float64
chances = torch.full((1797, 64), 0.5)  # float32
calls = {
    "batch @ batch": lambda x: chances.T[None] @ x[None],
    "Conv2d": lambda x: nn.Conv2d(1, 4, 3)(x.view(-1, 1, 8, 8)),
    "BCELoss": lambda x: nn.BCELoss()(chances, x / 16),
    "Linear without bias": nn.Linear(64, 10, bias=False),
    "Linear": nn.Linear(64, 10),
}
for name, call in calls.items():
    print(name, error_of(call, raw), sep=": ")

# %% labels
# Wrong on purpose: do not copy.
loss_function = nn.CrossEntropyLoss()
wrong_labels = labels.int(), labels.float()
no_loss = [error_of(loss_function, scores, each) for each in wrong_labels]

print(*no_loss, sep="\n")

# %% yes-or-no
# Wrong on purpose: do not copy.
is_zero = torch.where(labels == 0, 1, 0)  # int64: 1 for a zero
losses = nn.BCEWithLogitsLoss(), nn.BCELoss()
no_target = [error_of(loss, chances[:, 0], is_zero) for loss in losses]

print(*no_target, sep="\n")

# %% no-mean
# Wrong on purpose: do not copy.
no_mean = [error_of(attempt, is_zero) for attempt in (torch.mean, torch.std)]
print(*no_mean, sep="\n")

# %% share
share = is_zero.float().mean()
print(share)

# %% wrap
# Wrong on purpose: do not copy.
brighter = photos[0] + 100
print(photos[0, 0], brighter[0], sep="\n")

# %% clamp
right = (photos[0].int() + 100).clamp(0, 255).to(torch.uint8)
print(right[0])

# %% brighter-drawn
import matplotlib.pyplot as plt

shown = {"the photo": photos[0], "+ 100": brighter, "with int()": right}
fig, axes = plt.subplots(1, 3, figsize=(6, 2.4), layout="constrained")
for ax, (name, image) in zip(axes, shown.items(), strict=True):
    ax.imshow(image, cmap="gray", vmin=0, vmax=255)
    ax.set_title(name, size=10)
    ax.axis("off")
fig.suptitle("A zero, made brighter by 100")
plt.show()

# %% rounded
print(torch.tensor([255.0, 257.0, 513.0]).bfloat16().tolist())

# %% difference
difference = (photos[0].int() - photos[1].int()).abs().to(torch.uint8)

# %% difference-checked
larger = torch.maximum(photos[0], photos[1])
smaller = torch.minimum(photos[0], photos[1])
correct = difference.dtype == torch.uint8
correct = correct and torch.equal(difference, larger - smaller)
if correct:
    print("Right: the largest difference is", difference.max().item())
else:
    print("Not yet: the first row should be", (larger - smaller)[0])
