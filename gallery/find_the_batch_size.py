"""
Find the batch size that fits
=============================

Search for the largest batch that your model can train with, in a program that
does nothing else, and see each try.

The rule: **double until it fails, halve the gap, try two whole steps**. See
:doc:`/memory/batch_size` for why two, and how to search within your own
program.

Write a file with a function ``build()`` like the one below, and give it to the
script::

    python find_the_batch_size.py --model my_model.py --most 4096

It needs ``torch``, ``matplotlib``, ``tqdm``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.
#
# On a CUDA device the program asks the device, of which it may take nine
# tenths.
# Anywhere else, a stand-in for a device of so many bytes takes its place.

MODEL = None  # a file with a function build()
LEAST, MOST = 2, 4096  # sizes of a batch; BatchNorm needs two samples
SHARE = 0.9  # of a CUDA device that the search may use
STAND_IN = 8_000_000  # bytes, where there is no CUDA device

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.
#
# .. _a-number-out-of-bounds-is-refused:
#
# A number that is out of bounds ends the script, with a line that says what is
# possible.

import argparse

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="Find the largest batch that a model can train with.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--model", metavar="FILE", default=MODEL, help="it has a build()")
    add("--least", type=int, default=LEAST, help="size to begin with")
    add("--most", type=int, default=MOST, help="size to end with")
    add("--share", type=float, default=SHARE, help="of a CUDA device")
    add("--stand-in", type=int, default=STAND_IN, help="bytes without CUDA")
    options = parser.parse_args()
    if not 1 <= options.least <= options.most:
        parser.error("--least is at least 1, and --most is no less")
    if not 0 < options.share <= 1 or options.stand_in < 1:
        parser.error("--share is above 0, up to 1; --stand-in is at least 1")
    MODEL, STAND_IN = options.model, options.stand_in
    LEAST, MOST, SHARE = options.least, options.most, options.share

# %% build
#
# Your model
# ----------
#
# In your file, write a function like this one. It returns a fresh model, its
# optimizer, and a function that trains with a batch of so many samples, with
# your loss and all that your step does. Make the batch of your longest
# samples. In a notebook, replace the function in this cell.

import gc
import runpy
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm


def build(device):
    """Return a model, its optimizer, and a step with so many samples."""
    hidden = nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU()
    model = nn.Sequential(*hidden, nn.Linear(256, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)

    def step(size):
        inputs = torch.randn(size, 64, device=device)
        targets = torch.randn(size, 1, device=device)
        optimizer.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    return model, optimizer, step


# %% one-line
#
# .. _a-file-that-fails-is-named:
#
# A file that is missing, has no ``build()``, or fails when it is read is named
# in one line.


@contextmanager
def one_line(path):
    """Say in one line what is wrong with a file."""
    try:
        yield
    except Exception as error:
        said = str(error).strip().rpartition("\n")[2]
        sys.tracebacklimit = 0  # the line below is all that is shown
        raise ValueError(f"{path}: {type(error).__name__}: {said}") from None


# %% yours
#
# .. _a-model-of-yours-is-searched:
#
# With ``--model``, the program searches with the model of this file.

if MODEL:
    with one_line(MODEL):
        sys.path.insert(0, str(Path(MODEL).resolve().parent))
        found = runpy.run_path(MODEL)
        if "build" not in found:
            raise ValueError("it has no function build()")
        build = found["build"]

# %% stand-in
#
# A device, or what stands in for it
# ----------------------------------
#
# .. _the-stand-in-counts-each-tensor:
#
# The stand-in counts the bytes of each tensor while it exists, and raises the
# error of a device when they are too many.

import weakref

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class StandIn(TorchDispatchMode):
    """Hold what is made under ``with``, up to so many bytes."""

    def __init__(self, size):
        super().__init__()
        self.size, self.held, self.known = size, 0, weakref.WeakSet()

    def hold(self, more):
        """Take so many bytes more, or raise."""
        if self.held + more > self.size:
            raise torch.OutOfMemoryError("more than the stand-in holds")
        self.held += more

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        """Run an operation, and count the storages that it makes."""
        made = call(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, torch.Tensor):
                storage = each.untyped_storage()
                if storage not in self.known:
                    self.hold(storage.nbytes())
                    self.known.add(storage)
                    weakref.finalize(storage, self.hold, -storage.nbytes())
        return made


device = "cuda" if torch.cuda.is_available() else "cpu"


def room():
    """Return what one try may use, for a ``with``."""
    if device == "cuda":
        torch.cuda.set_per_process_memory_fraction(SHARE)
        return nullcontext()
    return StandIn(STAND_IN)


# %% fits
#
# One try
# -------
#
# Build everything anew for each try, and collect reference cycles first.
# Libraries such as cuBLAS tell of a full device in words of their own.

FULL = "out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED"


def is_full(error):
    """Return whether an error tells of a full device."""
    known = isinstance(error, torch.OutOfMemoryError)
    return known or any(words in str(error) for words in FULL)


def fits(size):
    """Return whether two whole steps with a batch of this size work."""
    gc.collect()
    with room():
        model, _, step = build(device)
        model.train()
        try:
            for _ in range(2):
                step(size)
        except RuntimeError as error:
            if not is_full(error):
                raise
            return False
    return True


# %% search
#
# The search
# ----------


def largest_batch(least, most):
    """Return the largest size that fits, or 0, and every try."""
    if not 1 <= least <= most:
        return 0, {}
    tries, size = {}, least
    low, high = least - 1, most + 1
    with tqdm(desc="tries", unit=" tries", disable=None) as bar:
        while high - low > 1:
            tries[size] = fits(size)
            bar.set_postfix(size=size, fits=tries[size])
            bar.update()
            low, high = (size, high) if tries[size] else (low, size)
            doubled = min(2 * size, most)
            size = doubled if all(tries.values()) else (low + high) // 2
    return max((s for s in tries if tries[s]), default=0), tries


best, tries = largest_batch(LEAST, MOST)

# %% conclusion
#
# What it found
# -------------


def conclusion(best, tries, least, most):
    """Return what the search says, in a sentence."""
    if not tries:
        return f"Not here: there is no batch of {least} to {most} samples."
    if best == 0:
        return f"Not here: not even {least} samples fit."
    if best == most:
        return f"Not here: everything up to {most} samples fits."
    return f"{best} samples fit, {best + 1} do not ({len(tries)} tries)."


print(conclusion(best, tries, LEAST, MOST))

# %% claims
#
# .. _the-best-fits-and-one-more-does-not:
#
# The size that it found fits on the stand-in, and one more sample does not.
#
# .. _each-size-is-tried-once:
#
# No size is tried twice, and there are at most 2 · log₂(the result) + 2 tries.
#
# .. _the-conclusion-may-be-not-here:
#
# If everything fits, or nothing, the program says "Not here", and why.
#
# .. _each-try-begins-anew:
#
# Each try begins with a fresh model in training mode and a fresh optimizer,
# and nothing of the tries before is left.
#
# For whether such a batch is fast and learns well, see
# :doc:`/memory/batch_size`.

# %% picture
#
# The picture shows the tries in their order: dots worked, crosses did not.

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 4))
for worked, color, marker, label in (
    (True, "#0072B2", "o", "fits"),
    (False, "#D55E00", "x", "out of memory"),
):
    chosen = [
        (number, size)
        for number, (size, fit) in enumerate(tries.items(), 1)
        if fit == worked
    ]
    numbers, sizes = [n for n, _ in chosen], [size for _, size in chosen]
    axis.plot(numbers, sizes, marker, color=color, label=label)
axis.axhline(best, color="#0072B2", linestyle=":")
axis.set_xlabel("try")
axis.set_ylabel("batch size, in samples")
axis.set_title("The search for the largest batch, try by try")
axis.legend()
plt.show()
