"""
How a running loss keeps its graph
==================================

Memory grows with every step? See what your loop keeps when it adds up its
losses, how long that goes well, and which way of adding up keeps nothing.

The rule: **add up the number, not the tensor**. Write
``total += loss.item()``, and put an evaluation under ``torch.no_grad()``. Copy
the lines, also for a GPU, from :doc:`/memory/running_loss`.

To see what your own model leaves behind, write a file with a function
``build()`` like the one below, and give it to the script::

    python leaking_loss.py --model my_model.py --batch 16

It needs ``torch``, ``matplotlib``, ``tqdm``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.

MODEL = None  # a file with a function build()
BATCH = 256  # samples of a step
STEPS = 30  # of each loop

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.
#
# .. _a-number-out-of-bounds-is-refused:
#
# A batch below 1 or fewer than 2 steps end the script with a line that says
# what is possible.

import argparse

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="See what a loop keeps that adds up its losses.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--model", metavar="FILE", default=MODEL, help="it has a build()")
    add("--batch", type=int, default=BATCH, help="samples of a step")
    add("--steps", type=int, default=STEPS, help="of each loop")
    options = parser.parse_args()
    if options.batch < 1 or options.steps < 2:
        parser.error("--batch is at least 1, and --steps is at least 2")
    MODEL, BATCH, STEPS = options.model, options.batch, options.steps

# %% build
#
# Your model
# ----------
#
# In your file, write a function like this one, which returns a model for the
# CPU, a dataset of pairs of an input and a target, and a loss function. In a
# notebook, replace the function in this cell.

import runpy
import sys
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def build():
    """Return a model, a dataset, and a loss function."""
    readings = torch.randn(BATCH, 64)
    temperatures = readings.sum(dim=1, keepdim=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
    data = TensorDataset(readings, temperatures)
    return model, data, nn.functional.mse_loss


# %% one-line
#
# .. _a-file-that-fails-is-named:
#
# A file that is missing, has no ``build()``, or fails is named in one line.


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
# .. _a-model-of-yours-is-counted:
#
# With ``--model``, each step takes the first batch of the dataset of this
# file, and its model and its loss.

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

optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

# %% nodes
#
# Count what is kept
# ------------------
#
# .. _each-node-counts-once:
#
# A loss that was computed from parameters holds the nodes of its graph, from
# ``grad_fn`` on. This function counts them, each once.


def count_nodes(value):
    """Return how many graph nodes a tensor keeps alive; a number keeps 0."""
    found = set()
    waiting = [getattr(value, "grad_fn", None)]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.add(node)
            waiting += [before for before, _ in node.next_functions]
    return len(found)


# %% made
#
# Find the tensors that the nodes hold for ``backward``: the *activations*, and
# whatever else an operation saves. This ``TorchDispatchMode`` notes the memory
# of the results of each operation, with a weak reference.
#
# .. _the-bytes-are-those-of-the-allocator:
#
# It counts every byte of a step that the memory allocator does not get back,
# also for an LSTM or ``gelu(x @ w) @ v``.


def memory_of(values):
    """Return the bytes of each piece of memory that some values use."""
    tensors = [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]
    dense = [x for x in tensors if x.layout == torch.strided]
    pieces = [tensor.untyped_storage() for tensor in dense]
    return {StorageWeakRef(piece): piece.nbytes() for piece in pieces}


class Forward(TorchDispatchMode):
    """Notes the memory that operations allocate."""

    def __init__(self):
        super().__init__()
        self.allocated = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Run an operation, and note where its results are."""
        results = function(*args, **(kwargs or {}))
        given = memory_of((args, kwargs))
        for piece, size in memory_of(results).items():
            if piece not in given:  # a view, or written in place
                self.allocated[piece] = size
        return results

    def count_bytes(self):
        """Return the bytes that are still in memory."""
        pieces = self.allocated.items()
        return sum(size for piece, size in pieces if not piece.expired())


forward = Forward()


# %% measure
#
# Add up losses in three ways
# ---------------------------
#
# This loop trains, with ``backward`` for each loss. With ``learn=False``, it
# is an evaluation that forgot ``torch.no_grad()``.


def measure(record, learn, model=model):
    """Return the total, and what is kept after each step: nodes, bytes."""
    forward.allocated.clear()
    total, nodes, sizes = 0.0, [], []
    for _ in tqdm(range(STEPS), leave=False, disable=None):
        optimizer.zero_grad()
        with forward:
            loss = loss_of(model(inputs), targets)
        if learn:
            loss.backward()
            optimizer.step()
        total += record(loss)
        del loss
        nodes.append(count_nodes(total))
        sizes.append(forward.count_bytes())
    return torch.as_tensor(total).item(), nodes, sizes


# %% train
#
# First, training.

ways = {
    "total += loss": lambda loss: loss,
    "total += loss.detach()": lambda loss: loss.detach(),
    "total += loss.item()": lambda loss: loss.item(),
}
trained = {name: measure(way, learn=True) for name, way in ways.items()}

for name, (_, nodes, sizes) in trained.items():
    print(f"{name:24} {nodes[0]:4} to {nodes[-1]:4} nodes, {sizes[-1]} bytes")

# %% evaluate
#
# .. _the-sum-keeps-nodes-of-every-step:
#
# In training, ``total += loss`` keeps the graph nodes of every step.
#
# .. _the-sum-keeps-no-activation-after-backward:
#
# But ``backward`` frees the activations, and the sum keeps none of them.
#
# .. _a-number-keeps-no-node:
#
# With ``loss.item()`` or ``loss.detach()``, no graph node stays alive.
#
# Now the same loop as an evaluation, where no ``backward`` frees anything.

evaluated = {name: measure(way, learn=False) for name, way in ways.items()}

for name, (_, nodes, sizes) in evaluated.items():
    print(f"{name:24} {nodes[-1]:4} nodes, {sizes[-1] // 1024:5} KiB")

# %% no-grad
#
# .. _the-sum-keeps-the-activations-of-every-evaluation:
#
# Without ``backward``, ``total += loss`` keeps the activations of every step:
# here the output of the ``ReLU`` and that of the last layer.
#
# .. _a-number-keeps-no-activation:
#
# With ``loss.item()`` or ``loss.detach()``, they are freed with the loss.
#
# .. _the-three-totals-are-equal:
#
# The three ways give the same total, to five digits.
#
# For an evaluation there is a better way, which builds no graph at all.
#
# .. _under-no-grad-even-the-tensor-keeps-nothing:
#
# Under ``torch.no_grad()``, even ``total += loss`` keeps neither nodes nor
# activations.

with torch.no_grad():
    careful = measure(ways["total += loss"], learn=False)

print(careful[1][-1], "nodes,", careful[2][-1], "bytes")

# %% free
#
# Free what the sum keeps
# -----------------------
#
# .. _what-the-sum-keeps-dies-with-it:
#
# The memory is free again as soon as the sum is gone, here at the end of the
# function.

_, _, sizes = measure(ways["total += loss"], learn=False)
left = forward.count_bytes()
print(sizes[-1], "bytes at the last step,", left, "after the function")

# %% own
#
# A custom function that keeps its input
# --------------------------------------
#
# Let a custom function save its tensors with ``ctx.save_for_backward``. This
# one assigns its input to ``ctx.x`` instead.


class Square(torch.autograd.Function):
    """Square a tensor, and hold on to it."""

    @staticmethod
    def forward(ctx, x):
        """Return the squares."""
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        """Return the gradient of the input."""
        return 2 * ctx.x * gradient


# %% own-measured
#
# .. _an-attribute-of-ctx-survives-backward:
#
# With ``Square`` behind the last layer, ``total += loss`` keeps the output of
# that layer from every step, even after ``backward``.


class Squares(nn.Module):
    """A layer that squares what it gets."""

    def forward(self, x):
        """Return the squares."""
        return Square.apply(x)


if not MODEL:
    squared = nn.Sequential(model, Squares())
    way = ways["total += loss"]
    _, _, squared_sizes = measure(way, learn=True, model=squared)
    print(squared_sizes[0], "to", squared_sizes[-1], "bytes")

# %% judge
#
# The answer
# ----------
#
# .. _the-answer-says-when-a-gibibyte-is-full:
#
# If the bytes grow, the answer is by how many in a step, and after how many
# steps a gibibyte is full.


def judge(nodes, sizes):
    """Say what a step adds to what a loop keeps."""
    steps = len(sizes) - 1
    if sizes[-1] > sizes[0]:
        each = (sizes[-1] - sizes[0]) / steps
        full = f"1 GiB is full after {2**30 / each:.0f} steps"
        return f"{each:.0f} bytes a step: {full}"
    if nodes[-1] > nodes[0]:
        return f"{(nodes[-1] - nodes[0]) / steps:.0f} nodes a step"
    return "nothing"


loops = {"training": trained, "evaluation": evaluated}
answers = {
    (loop, name): judge(nodes, sizes)
    for loop, found in loops.items()
    for name, (_, nodes, sizes) in found.items()
}
for (loop, name), answer in answers.items():
    print(f"{loop:10}  {name:24} adds {answer}")

# %% choose
#
# .. _two-ways-keep-nothing-in-both-loops:
#
# Both ``loss.detach()`` and ``loss.item()`` keep nothing in either loop.
#
# On a CPU, take ``loss.item()``. On a GPU, add up ``loss.detach()``, and read
# the sum when you log; see :doc:`/memory/running_loss`.
#
# .. _the-conclusion-may-be-not-here:
#
# If the model itself keeps what it computes, no way is safe, and the program
# says "Not here".

safe = [
    name
    for name in ways
    if all(answers[loop, name] == "nothing" for loop in loops)
]
if safe:
    print("safe in both loops:", *safe, sep="\n    ")
else:
    print("Not here: your model or your loss function keeps something itself.")

# %% picture
#
# On the left is a training, on the right an evaluation that forgot
# ``torch.no_grad()``.

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
steps = range(1, STEPS + 1)
styles = {"total += loss": "#D55E00", "total += loss.item()": "#0072B2"}
for name, color in styles.items():
    marker = "o" if name == "total += loss" else "s"
    line = {"color": color, "marker": marker, "markevery": 5, "label": name}
    left.plot(steps, trained[name][1], **line)
    kept = [size / 2**20 for size in evaluated[name][2]]
    right.plot(steps, kept, **line)
left.set(title="Training: graph nodes kept", xlabel="step", ylabel="nodes")
right.set(
    title="Evaluation without no_grad: memory kept",
    xlabel="step",
    ylabel="MiB",
)
left.legend()
figure.tight_layout()
plt.show()
