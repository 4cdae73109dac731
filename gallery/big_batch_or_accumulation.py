"""
One big batch, or many small ones
=================================

Split a batch into more and more parts, and see what stays the same and what
does not: the gradient, and the memory that the step needs.

The rule: **weighted parts give the gradient of the whole, with a part of its
activations**. Unless a layer looks at the batch.

It needs ``torch``, ``matplotlib``.
"""

# %% setup
#
# Numbers of 64 bits, so that a difference is none of rounding. The program
# runs on a CPU.

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
inputs, targets = torch.randn(240, 32), torch.randn(240, 1)
PARTS = (1, 2, 4, 8, 16)

# %% step
#
# One step in parts
# -----------------
#
# A hook notes the largest number of bytes that the graph of a part keeps.


def in_parts(norm, parts, weight):
    """Return the gradient, and the most bytes of activations at once."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 64), norm(64), nn.Linear(64, 1))
    most, kept = 0, 0

    def note(tensor):
        nonlocal kept
        kept += tensor.nbytes
        return tensor

    batches = zip(inputs.chunk(parts), targets.chunk(parts), strict=True)
    for x, y in batches:
        kept = 0
        with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            loss = F.mse_loss(model(x), y)
        (weight(x, parts) * loss).backward()
        most = max(most, kept)
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    return gradient, most


# %% ways
#
# Three ways to weight and to normalize
# -------------------------------------

ways = {
    "weighted by size": (nn.LayerNorm, lambda x, parts: len(x) / 240),
    "not divided": (nn.LayerNorm, lambda x, parts: 1.0),
    "BatchNorm": (nn.BatchNorm1d, lambda x, parts: len(x) / 240),
}
errors, memory = {}, {}
for name, (norm, weight) in ways.items():
    whole, all_bytes = in_parts(norm, 1, lambda x, parts: 1.0)
    errors[name], memory[name] = [], []
    for parts in PARTS:
        gradient, most = in_parts(norm, parts, weight)
        error = (gradient - whole).norm() / whole.norm()
        errors[name].append(error.item())
        memory[name].append(most / all_bytes)

for name in ways:
    print(f"{name:17}", [f"{error:.2f}" for error in errors[name]])

# %% claims
#
# .. _weighted-parts-give-the-gradient-of-the-whole:
#
# Weighted by their size, up to 16 parts give the gradient of the whole batch
# to twelve digits.
#
# .. _undivided-parts-are-off-by-their-number:
#
# Not divided, 16 parts give a gradient that is 15 times its length off.
#
# .. _batch-norm-parts-are-off:
#
# With ``BatchNorm``, even two parts give another gradient, and 16 parts one
# that is farther off.
#
# .. _the-activations-shrink-with-the-parts:
#
# In 16 parts, the activations take less than a fifth of what the whole batch
# takes.

print([f"{share:.0%}" for share in memory["weighted by size"]])

# %% picture

import matplotlib.pyplot as plt

colors = ["#0072B2", "#D55E00", "#009E73"]
markers = ["o", "x", "s"]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 4))
for name, color, marker in zip(ways, colors, markers, strict=True):
    heights = [max(error, 1e-16) for error in errors[name]]
    left.plot(PARTS, heights, color=color, marker=marker, label=name)
left.set_xscale("log", base=2)
left.set_yscale("log")
left.set_xlabel("parts of the batch")
left.set_ylabel("difference to the gradient of the whole, relative")
left.legend(fontsize=8)
shares = [100 * share for share in memory["weighted by size"]]
right.plot(PARTS, shares, color=colors[0], marker="o")
right.set_xscale("log", base=2)
right.set_ylim(0, 105)
right.set_xlabel("parts of the batch")
right.set_ylabel("activations, % of those of the whole")
figure.suptitle("A batch in parts: its gradient, and its memory")
figure.tight_layout()
plt.show()
