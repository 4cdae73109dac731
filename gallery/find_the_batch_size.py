"""
Find the batch size that fits
=============================

Search for the largest batch that a training step can hold, and see each try.

The rule: **double until it fails, halve the gap, try a whole step each time**.
Section 1 of *Tips, tricks and gotchas in PyTorch* lowers the size by one
instead, inside a loop that never sees it.

It needs ``torch``, ``matplotlib``.
"""

# %% setup
#
# On a CUDA device the program asks the device. Anywhere else, a budget
# stands in for it: all that a step saves for ``backward`` is counted, as often
# as it is saved, and a step that needs more raises the device's error.

import torch
from torch import nn

BUDGET = 3_000_000  # bytes, where there is no CUDA device

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
MOST = 4096 if device == "cpu" else 2**30
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
model.to(device)
optimizer = torch.optim.Adam(model.parameters())

# %% step
#
# A step that can fail
# --------------------


def train_step(size):
    """Train on a batch of some samples; raise if the budget is exceeded."""
    kept = 0

    def note(tensor):
        nonlocal kept
        kept += tensor.nbytes
        if device == "cpu" and kept > BUDGET:
            raise torch.OutOfMemoryError("more than the budget")
        return tensor

    inputs = torch.randn(size, 64, device=device)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


# %% fits
#
# The handler only notes that it failed. All else happens after it, when the
# tensors of the failed step are gone.


def fits(size):
    """Return whether a training step with a batch of this size works."""
    try:
        train_step(size)
    except torch.OutOfMemoryError:
        worked = False
    else:
        worked = True
    if not worked and device == "cuda":
        torch.cuda.empty_cache()
    return worked


# %% search
#
# The search
# ----------


def largest_batch(most):
    """Return the largest size up to ``most`` that fits, and every try."""
    tries = {}
    low, high, size = 0, most + 1, 1
    while high - low > 1:
        tries[size] = fits(size)
        if tries[size]:
            low = size
        else:
            high = size
        doubling = high > most
        size = min(2 * size, most) if doubling else (low + high) // 2
    return low, tries


best, tries = largest_batch(MOST)

print(best if device == "cpu" else "found", "in", len(tries), "tries")

# %% claims
#
# .. _the-best-fits-and-one-more-does-not:
#
# The size that is found fits, and one more sample does not.
#
# .. _each-size-is-tried-once:
#
# No size is tried twice, and there are at most twice as many tries as
# doublings.
#
# .. _all-that-fits-is-found:
#
# If everything fits, the search ends at the largest size it was given.

print(fits(best), fits(best + 1))

# %% picture
#
# The picture shows the tries in their order: dots worked, crosses did not.

import matplotlib.pyplot as plt

order = list(range(1, len(tries) + 1))
sizes = list(tries)
figure, axis = plt.subplots(figsize=(7, 4))
axis.plot(order, sizes, color="#999999", linewidth=1)
for worked, color, marker, label in (
    (True, "#0072B2", "o", "fits"),
    (False, "#D55E00", "x", "out of memory"),
):
    chosen = [i for i in order if tries[sizes[i - 1]] == worked]
    axis.plot(
        chosen,
        [sizes[i - 1] for i in chosen],
        color=color,
        marker=marker,
        linestyle="",
        label=label,
    )
axis.axhline(best, color="#0072B2", linestyle=":")
axis.set_yscale("log", base=2)
axis.set_xlabel("try")
axis.set_ylabel("batch size, in samples")
axis.set_title("The search for the largest batch, try by try")
axis.legend()
plt.show()
