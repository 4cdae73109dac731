"""
Types of numbers
================

What each dtype can hold, and what happens when two of them meet.
"""

# %% do-this
import numpy
import torch
from torch import nn

listed = numpy.array([[0.1], [257.0], [70_000.0]])
prices = torch.from_numpy(listed).float()  # inputs: float32
kinds = torch.tensor([0, 2, 1])  # class labels: int64
photo = torch.tensor([[0, 100, 200]], dtype=torch.uint8)  # as stored
pixels = photo.float() / 255  # the photo as an input
loss = nn.functional.cross_entropy(nn.Linear(1, 3)(prices), kinds)

print(listed.dtype, prices.dtype, kinds.dtype, photo.dtype, pixels)

# %% bits
from math import log2

bits = {}
for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
    fraction = round(-log2(torch.finfo(dtype).eps))
    bits[dtype] = 1, 8 * dtype.itemsize - 1 - fraction, fraction

# %% bits-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(7, 2.5), layout="constrained")
for row, (dtype, parts) in enumerate(bits.items()):
    left = 0
    for part, ink in zip(parts, ("white", "#D55E00", "#0072B2"), strict=True):
        ax.barh(-row, part, left=left, color=ink, edgecolor="black")
        left += part
    info = torch.finfo(dtype)
    ax.text(
        66, -row, f"up to {info.max:.1e}, step {info.eps:.1e}", va="center"
    )
ax.set(title="Bits: sign, exponent (orange), fraction (blue)", xlim=(0, 108))
ax.set(yticks=[0, -1, -2, -3], yticklabels=map(str, bits), xticks=[16, 32, 64])
plt.show()

# %% amounts
amounts = torch.tensor([1e-8, 0.1, 257, 70_000])
stored = {dtype: amounts.to(dtype).tolist() for dtype in bits}

# %% amounts-shown
import pandas as pd

names = ["fee 1e-8", "pencil 0.1", "phone 257", "car 70,000"]
table = pd.DataFrame.from_dict(stored, orient="index", columns=names)
table.map("{:.7g}".format)

# %% small-raises
# Wrong on purpose: do not copy.
price = torch.tensor([256.0], dtype=torch.bfloat16)
for _ in range(100):
    price = price + 1

print(price)

# %% convert
precise = prices.to(torch.float64)
same = prices.to(torch.float32)
model = nn.Linear(1, 3)
model.to(torch.float64)

print(prices.dtype, precise.dtype, same is prices, model.weight.dtype)

# %% to-integers
cut_off = torch.tensor([-1.7, 1.7]).long()
truth = torch.tensor([-0.5, 0.0, 2.0]).bool()

print(cut_off, truth)

# %% meet
met = [torch.bool, torch.uint8, torch.int64, *bits]
ones = [torch.ones(3, dtype=each) for each in met]
sums = {a.dtype: {b.dtype: (a + b).dtype for b in ones} for a in ones}

# %% meet-shown
import pandas as pd

pd.DataFrame.from_dict(sums, orient="index").map(lambda each: str(each)[6:])

# %% lost
# Wrong on purpose: do not copy.
counts = torch.tensor([257, 70_000])
in_float16 = counts + torch.zeros(2, dtype=torch.float16)
in_bfloat16 = counts + torch.zeros(2, dtype=torch.bfloat16)

print(in_float16, in_bfloat16)

# %% single
rebate = torch.tensor(0.9, dtype=torch.float64)  # no dimension
mixed = [prices * rebate, photo + 300, photo * 0.9]

print([each.dtype for each in mixed])

# %% divide
debts = torch.tensor([-7, 7])
shares = [debts / 2, debts // 2, debts.div(2, rounding_mode="trunc")]

torch.set_default_dtype(torch.float64)
wide = [debts / 2, debts * 0.5]
torch.set_default_dtype(torch.float32)
print(*shares, *wide, sep="\n")


# %% refusal
def refusal(attempt, *inputs):
    try:
        attempt(*inputs)
    except RuntimeError as error:
        return str(error)


# %% inputs
# Wrong on purpose: do not copy.
raw = torch.from_numpy(listed)
half = torch.full((3, 1), 0.5)
calls = {
    "Linear": nn.Linear(1, 3),
    "Linear without bias": nn.Linear(1, 3, bias=False),
    "batch @ batch": lambda x: half.T[None] @ x[None],
    "Conv1d": lambda x: nn.Conv1d(1, 1, 1)(x.T),
    "BCELoss": lambda x: nn.BCELoss()(half, x / 70_000),
}
for name, call in calls.items():
    print(name, refusal(call, raw), sep=": ")

# %% labels
# Wrong on purpose: do not copy.
scores = nn.Linear(1, 3)(prices)
entropy = nn.CrossEntropyLoss()
no_labels = kinds.int(), kinds.float()
no_label = [refusal(entropy, scores, each) for each in no_labels]

print(*no_label, sep="\n")

# %% yes-or-no
# Wrong on purpose: do not copy.
bought = torch.tensor([0, 1, 1])  # no or yes
losses = nn.BCEWithLogitsLoss(), nn.BCELoss()
no_target = [refusal(loss, half[:, 0], bought) for loss in losses]

print(*no_target, sep="\n")

# %% no-mean
# Wrong on purpose: do not copy.
no_mean = [refusal(attempt, kinds) for attempt in (torch.mean, torch.std)]
print(*no_mean, sep="\n")

# %% wrap
# Wrong on purpose: do not copy.
brighter = photo + 100
total = photo.sum()
converted = torch.tensor([300]).to(torch.uint8)
too_large = refusal(lambda: torch.tensor([300], dtype=torch.uint8))

print(brighter, total, converted, too_large, sep="\n")

# %% clamp
right = (photo.int() + 100).clamp(max=255).to(torch.uint8)
print(right)

# %% in-place
# Wrong on purpose: do not copy.
counts[0] = 1.7
no_product = refusal(counts.mul_, 0.9)
print(counts, no_product)

# %% float8
tiny = prices.to(torch.float8_e5m2)
no_sum = refusal(lambda: tiny + tiny)
print(tiny.nbytes, no_sum)
