"""
One big batch, or many small ones
=================================

Is the batch too big for the memory? Split it into more and more parts, and
compare the gradient and the memory of the step with those of the whole.

The rule: **weighted parts give the gradient of the whole, with a part of its
activations**. Unless a layer looks at the batch, as BatchNorm does.

To try it with your own model, write a file with a function ``build()`` like
the one below, and give it to the script::

    python big_batch_or_accumulation.py --model my_model.py --batch 64

It needs ``torch``, ``matplotlib``, ``tqdm``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.

MODEL = None  # a file with a function build()
BATCH = 230  # samples
PARTS = [1, 2, 4, 8, 16]  # into how many parts the batch is cut

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
        description="Compare a batch in parts with the whole batch.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--model", metavar="FILE", default=MODEL, help="it has a build()")
    add("--batch", type=int, default=BATCH, help="samples")
    add("--parts", type=int, nargs="+", default=PARTS, help="of the batch")
    options = parser.parse_args()
    if options.batch < 2 or min(options.parts) < 1:
        parser.error("--batch is at least 2, and --parts are at least 1")
    MODEL, BATCH, PARTS = options.model, options.batch, options.parts

# %% setup
#
# Copy the loop from :doc:`/training/accumulation`. Here 230 samples do not
# divide well, on purpose, and all numbers have 64 bits, so that rounding hides
# no difference. The program runs on a CPU.

import copy
import math
import runpy
import sys
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

torch.set_default_dtype(torch.float64)

# %% build
#
# Your model
# ----------
#
# In your file, write a function like this one, without its argument: it
# returns a model, a dataset of pairs of an input and a target, and a loss that
# is the mean over the samples. In a notebook, set ``MODEL`` to the path of
# your file.


def build(norm=nn.LayerNorm):
    """Return a model, a dataset, and a loss function."""
    inputs, targets = torch.randn(BATCH, 32), torch.randn(BATCH, 1)
    model = nn.Sequential(nn.Linear(32, 64), norm(64), nn.Linear(64, 1))
    return model, TensorDataset(inputs, targets), F.mse_loss


# %% one-line
#
# .. _a-file-that-fails-is-named:
#
# One line names a file that is missing, fails, has no ``build()``, or gives
# inputs or targets that are not tensors.


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
# .. _a-model-of-yours-is-cut:
#
# With ``--model``, the batch is the first samples of the dataset of this file,
# and its model, lazy or not, is compared in training mode.


def wide(tensor):
    """Return numbers of 64 bits; integers stay as they are."""
    return tensor.double() if tensor.is_floating_point() else tensor


torch.manual_seed(0)
with one_line(MODEL):
    if MODEL:
        sys.path.insert(0, str(Path(MODEL).resolve().parent))
        found = runpy.run_path(MODEL)
        if "build" not in found:
            raise ValueError("it has no function build()")
        build = found["build"]
    model, data, loss_of = build()
    inputs, targets = next(iter(DataLoader(data, BATCH)))
    if not all(isinstance(x, torch.Tensor) for x in (inputs, targets)):
        raise TypeError("its inputs and its targets have to be tensors")
    with torch.no_grad():  # see whether it runs, and make lazy weights
        loss_of(model.double().eval()(wide(inputs)), wide(targets))

# %% step
#
# One step in parts
# -----------------
#
# Run each part forward and backward by itself, and let the gradients add up.
# A hook notes the bytes that autograd saves for ``backward``, but not those of
# the model itself.


def in_parts(model, parts, weight):
    """Return the gradient, and the most bytes kept at once for a part."""
    torch.manual_seed(1)
    model = copy.deepcopy(model).double().train()
    own = {each.data_ptr() for each in model.state_dict().values()}
    kept, most = {}, 0

    def note(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    xs, ys = wide(inputs).chunk(parts), wide(targets).chunk(parts)
    for x, y in zip(xs, ys, strict=True):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            loss = loss_of(model(x), y)
        most = max(most, sum(kept.values()))
        (weight(x, len(xs)) * loss).backward()
    found = [each.grad for each in model.parameters()]
    return torch.cat([g.flatten() for g in found if g is not None]), most


# %% ways
#
# Four ways to weight and to normalize
# ------------------------------------
#
# Weight each part by its size: of 16 parts here, the last one has five
# samples, and the others fifteen. Try another layer, too, with the model
# above.


def by_size(x, count):
    return len(x) / len(inputs)


ways = {
    "weighted by size": (model, by_size),
    "divided by the parts": (model, lambda x, count: 1 / count),
    "not divided": (model, lambda x, count: 1.0),
}
if not MODEL:
    torch.manual_seed(0)
    ways["BatchNorm"] = (build(nn.BatchNorm1d)[0], by_size)

# %% differences
#
# How far off is the gradient, for each number of parts?


def compare(model, weight):
    """Yield how far off each number of parts is, and its share of bytes."""
    whole, all_bytes = in_parts(model, 1, lambda x, count: 1.0)
    for parts in PARTS:
        try:
            gradient, most = in_parts(model, parts, weight)
        except ValueError:  # of a layer that does not take so small a part
            yield math.nan, math.nan
        else:
            error = (gradient - whole).norm() / whole.norm()
            yield error.item(), most / all_bytes


# %% compare
#
# .. _there-may-be-fewer-parts:
#
# ``chunk`` may make fewer parts than you ask for: of 230 samples, 100 parts
# are 77.

counts = [len(inputs.chunk(parts)) for parts in PARTS]
errors, memory = {}, {}
for name, way in tqdm(ways.items(), leave=False, disable=None):
    errors[name], memory[name] = zip(*compare(*way), strict=True)

print(f"{'parts':20}", counts)
for name in ways:
    print(f"{name:20}", [f"{error:.1g}" for error in errors[name]])

# %% conclusion
#
# What stays the same
# -------------------
#
# .. _weighted-parts-give-the-gradient-of-the-whole:
#
# Parts weighted by their size give the gradient of the whole batch, to twelve
# digits.
#
# .. _a-short-part-counts-too-much:
#
# Divided by their number, 16 parts of 230 samples miss the gradient by more
# than a twentieth, because the last is shorter; two parts of 115 do not.
#
# .. _undivided-parts-are-off-by-their-number:
#
# *n* equal parts that are not divided give *n* times the gradient.
#
# .. _batch-norm-parts-are-off:
#
# With ``BatchNorm``, even two parts give another gradient, 16 parts one that
# is farther off, and a part of one sample raises an error.
#
# See :doc:`/models/evaluation` for what ``BatchNorm`` does.

# %% conclude
#
# And with yours?
#
# .. _the-conclusion-names-what-is-the-same:
#
# The conclusion says of each way how far off its gradient is at most, or that
# there was an error.
#
# .. _the-conclusion-may-be-not-here:
#
# If parts weighted by their size do not give the gradient of the whole, it
# says "Not here".


def conclusion(errors):
    """Yield in words how far off the gradient of each way is."""
    for name, found in errors.items():
        if any(map(math.isnan, found)):
            yield f"{name}: an error in some number of parts"
        elif max(found) < 1e-9:
            yield f"{name}: the gradient of the whole, in all numbers of parts"
        else:
            yield f"{name}: up to {max(found):.0%} of its length off"
    if all(error < 1e-9 for error in errors["weighted by size"]):
        yield "So take parts, weighted by their size."
    else:
        yield "Not here: look for BatchNorm, dropout, or a loss that is a sum."


print(*conclusion(errors), sep="\n")

# %% memory
#
# What shrinks
# ------------
#
# .. _the-activations-shrink-with-the-parts:
#
# At once, autograd keeps the share of the activations that the largest part
# has of the batch: 15 of 230 samples in 16 parts.
#
# For what does not shrink, see :doc:`/memory/optimizer_state`.

print([f"{share:.1%}" for share in memory["weighted by size"]])

# %% picture
#
# On the left, what differs by less than 1e-12 is rounding.

import matplotlib.pyplot as plt

colors = ["#0072B2", "#E69F00", "#D55E00", "#009E73"]
markers = ["o", "^", "x", "s"]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 4))
for name, color, marker in zip(ways, colors, markers, strict=False):
    heights = [max(error, 1e-16) for error in errors[name]]
    left.plot(counts, heights, color=color, marker=marker, label=name)
left.set_xscale("log", base=2)
left.set_yscale("log")
left.set_xlabel("parts of the batch")
left.set_ylabel("difference to the gradient of the whole, relative")
left.legend(fontsize=8)
shares = [100 * share for share in memory["weighted by size"]]
right.plot(counts, shares, color=colors[0], marker="o")
right.set_xscale("log", base=2)
right.set_ylim(0, 105)
right.set_xlabel("parts of the batch")
right.set_ylabel("kept for backward, % of the whole")
figure.suptitle("A batch in parts: its gradient, and its memory")
figure.tight_layout()
plt.show()
