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
# A batch of 230 samples is too big for the device, so you take it in parts and
# let their gradients add up before the step; :doc:`/training/accumulation` has
# the loop to copy. The number is odd on purpose: of 16 parts, the last one
# holds five samples and the others fifteen. The program runs on a CPU, in
# numbers of 64 bits, so that a difference is none of rounding.

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
inputs, targets = torch.randn(230, 32), torch.randn(230, 1)
PARTS = (1, 2, 4, 8, 16)

# %% step
#
# One step in parts
# -----------------
#
# Each part runs forward and backward by itself, and ``backward`` adds to the
# gradients that are there. Between the two, autograd keeps the tensors that
# ``backward`` will ask for. A hook counts their bytes, but not those of the
# weights, which are there anyway.


def in_parts(norm, parts, weight):
    """Return the gradient, and the most bytes kept at once for a part."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 64), norm(64), nn.Linear(64, 1))
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    most, kept = 0, 0

    def note(tensor):
        nonlocal kept
        if tensor.untyped_storage().data_ptr() not in weights:
            kept += tensor.nbytes
        return tensor

    batches = zip(inputs.chunk(parts), targets.chunk(parts), strict=True)
    for x, y in batches:
        kept = 0
        with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            loss = F.mse_loss(model(x), y)
        most = max(most, kept)
        (weight(x, parts) * loss).backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    return gradient, most


# %% ways
#
# Four ways to weight and to normalize
# ------------------------------------
#
# ``mse_loss`` is a mean over the samples of its part. A mean over five samples
# counts as much as one over fifteen, unless you weight each by its size.


def by_size(x, parts):
    return len(x) / len(inputs)


ways = {
    "weighted by size": (nn.LayerNorm, by_size),
    "divided by the parts": (nn.LayerNorm, lambda x, parts: 1 / parts),
    "not divided": (nn.LayerNorm, lambda x, parts: 1.0),
    "BatchNorm": (nn.BatchNorm1d, by_size),
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
    print(f"{name:20}", [f"{error:.1g}" for error in errors[name]])

# %% conclusion
#
# What stays the same
# -------------------
#
# .. _weighted-parts-give-the-gradient-of-the-whole:
#
# Weighted by their size, up to 230 parts give the gradient of the whole batch
# to twelve digits.
#
# .. _a-short-part-counts-too-much:
#
# Divided by their number, 16 parts give a gradient that is more than a
# twentieth off, because a sample of the short part counts three times as much
# as the others; two parts of 115 give that of the whole.
#
# .. _undivided-parts-are-off-by-their-number:
#
# Not divided, *n* equal parts give *n* times the gradient, so that it is
# *n* minus 1 times its length off.
#
# .. _batch-norm-parts-are-off:
#
# With ``BatchNorm``, even two parts give another gradient, 16 parts one that
# is farther off, and a part of one sample raises an error.
#
# ``BatchNorm`` takes the mean and the variance of each part, so a part is
# another batch to it; ``LayerNorm`` looks at one sample at a time. See
# :doc:`/models/evaluation`.
#
# .. _the-conclusion-names-what-is-the-same:
#
# The conclusion says of each way whether its largest difference is one of
# rounding, and else gives that difference.


def conclusion(errors):
    """Return in words how far off the gradient of each way is."""
    for name, differences in errors.items():
        worst = max(differences)
        if worst < 1e-9:
            yield f"{name}: the gradient of the whole, in all numbers of parts"
        else:
            yield f"{name}: up to {worst:.0%} of its length off"


print(*conclusion(errors), sep="\n")

# %% memory
#
# What shrinks
# ------------
#
# .. _the-activations-shrink-with-the-parts:
#
# With ``LayerNorm``, autograd keeps at once, weights aside, the share of the
# batch that the largest part holds: 15 of 230 samples in 16 parts.
#
# The weights, their gradients and the state of the optimizer do not shrink;
# :doc:`/memory/optimizer_state` counts them.

print([f"{share:.1%}" for share in memory["weighted by size"]])

# %% picture
#
# On the left, a line at the bottom is the gradient of the whole: what differs
# there is rounding.

import matplotlib.pyplot as plt

colors = ["#0072B2", "#E69F00", "#D55E00", "#009E73"]
markers = ["o", "^", "x", "s"]
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
right.set_ylabel("kept for backward, % of the whole")
figure.suptitle("A batch in parts: its gradient, and its memory")
figure.tight_layout()
plt.show()
