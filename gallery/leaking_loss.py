"""
How a running loss keeps its graph
==================================

You find out what a loop keeps alive when it adds up its losses, how long that
goes well, and which way of adding up keeps nothing.

The rule: **add up the number, not the tensor**. Write
``total += loss.item()``, and put an evaluation under ``torch.no_grad()``. The
lines to copy, also for a GPU, stand in
:doc:`Add up the loss </memory/running_loss>`.

To find out what your own model leaves behind, write a file with a function
``build()`` like that below, and give it to the script::

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
# As a script, each argument sets the constant of its name, and what is not
# given stays as it is above.
#
# .. _a-number-out-of-bounds-is-refused:
#
# A number that makes no sense ends the script, with a line that says what is
# possible.

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
# In your file, write a function like this one. Its small model forecasts a
# temperature from the readings of 64 stations. The samples are pairs of an
# input and a target. In a notebook, replace the function in this cell. The
# program runs on a CPU.

import runpy
import sys
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
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
# If there is no such file or no ``build()`` in it, or if ``build()`` raises an
# error, the error is one line that names the file.


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
# With ``--model``, every step is one with the first samples of the dataset
# that ``build()`` of this file returns, with its model and its loss.

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
# A loss leads to a graph: its ``grad_fn`` is a *node*, one for each operation,
# and each node leads to those before it. Whoever holds the loss holds them
# all. This function follows the graph and counts its nodes.


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


# %% outputs
#
# A node may also hold what a layer gave out, because ``backward`` will need
# it. A hook notes each of these *outputs*, with a weak reference, which keeps
# nothing alive, and tells whether the memory is still in use. Memory that
# several layers give out counts once.

outputs = {}


def note(layer, given, output):
    """Note where the output of a layer lies, and its size."""
    for each in tree_leaves(output):
        if isinstance(each, torch.Tensor):
            storage = each.untyped_storage()
            outputs[StorageWeakRef(storage)] = storage.nbytes()


for layer in model.modules():
    if not list(layer.children()):  # a layer that has no layers itself
        layer.register_forward_hook(note)


def count_bytes():
    """Return the bytes of those outputs that are still in memory."""
    return sum(size for place, size in outputs.items() if not place.expired())


# %% measure
#
# Add up losses in three ways
# ---------------------------
#
# One loop serves for training, where each loss goes through ``backward``, and
# for an evaluation that forgot ``torch.no_grad()``, where none does.


def measure(record, learn, model=model):
    """Return the total, and what it keeps after each step: nodes, bytes."""
    outputs.clear()
    total, nodes, sizes = 0.0, [], []
    for _ in tqdm(range(STEPS), leave=False, disable=None):
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        if learn:
            loss.backward()
            optimizer.step()
        total += record(loss)
        del loss
        nodes.append(count_nodes(total))
        sizes.append(count_bytes())
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
# In a training of the model above, ``total += loss`` keeps new graph nodes
# alive at every step, after the first always the same number.
#
# .. _the-sum-keeps-no-activation-after-backward:
#
# Of a loss that went through ``backward``, the sum keeps no output of the
# layers above.
#
# .. _a-number-keeps-no-node:
#
# With ``loss.item()`` or ``loss.detach()``, no graph node stays alive.
#
# So in training the nodes stay, and the outputs go. Now the same loop as an
# evaluation, where no ``backward`` frees anything.

evaluated = {name: measure(way, learn=False) for name, way in ways.items()}

for name, (_, nodes, sizes) in evaluated.items():
    print(f"{name:24} {nodes[-1]:4} nodes, {sizes[-1] // 1024:5} KiB")

# %% no-grad
#
# .. _the-sum-keeps-the-activations-of-every-evaluation:
#
# Without ``backward``, ``total += loss`` keeps, in the model above, the
# outputs of the ``ReLU`` and of the last layer, of every step.
#
# .. _a-number-keeps-no-activation:
#
# With ``loss.item()`` or ``loss.detach()``, the outputs that a step of the
# model above makes are freed with its loss.
#
# .. _the-three-totals-are-equal:
#
# The three ways give the same total, to five digits, here over up to 50 steps.
#
# For an evaluation there is a better way, which builds no graph at all.
#
# .. _under-no-grad-even-the-tensor-keeps-nothing:
#
# Under ``torch.no_grad()``, even ``total += loss`` keeps neither nodes nor
# outputs of the model above.

with torch.no_grad():
    careful = measure(ways["total += loss"], learn=False)

print(careful[1][-1], "nodes,", careful[2][-1], "bytes")

# %% free
#
# When it ends
# ------------
#
# .. _what-the-sum-keeps-dies-with-it:
#
# The outputs that a sum keeps are freed when the sum itself goes, here at the
# end of the function.

_, _, sizes = measure(ways["total += loss"], learn=False)
left = count_bytes()
print(sizes[-1], "bytes at the last step,", left, "after the function")

# %% own
#
# A layer of your own
# -------------------
#
# What PyTorch's own layers keep for ``backward``, ``backward`` frees. A
# function of your own has to ask for that, with ``ctx.save_for_backward``.
# This one keeps its input as ``ctx.x`` instead.


class Square(torch.autograd.Function):
    """Square a tensor, and hold on to it."""

    @staticmethod
    def forward(ctx, x):
        """Return the squares."""
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, slope):
        """Return the slopes of the squares."""
        return 2 * ctx.x * slope


# %% own-measured
#
# .. _an-attribute-of-ctx-survives-backward:
#
# With ``Square`` behind the last layer of the model above, ``total += loss``
# keeps the output of that layer from every step, though each loss went through
# ``backward``.


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
# What does all this come to? From the counts follows what one step adds, and
# from that, for how many steps a gibibyte has room.


def judge(nodes, sizes):
    """Say what a step adds to what a loop keeps."""
    steps = len(sizes) - 1
    if sizes[-1] > sizes[0]:
        each = (sizes[-1] - sizes[0]) // steps
        return f"{each} bytes a step, so 1 GiB holds {2**30 // each} steps"
    if nodes[-1] > nodes[0]:
        return f"{(nodes[-1] - nodes[0]) // steps} nodes a step"
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
# With the model above, ``loss.detach()`` and ``loss.item()`` are, of the three
# ways, those that keep nothing in both loops.
#
# On a CPU, take ``loss.item()``. On a GPU, where it waits, add up
# ``loss.detach()``, and read the sum when you log.
#
# .. _the-conclusion-may-be-not-here:
#
# If a model keeps its outputs by itself, no way is safe, and the program says
# "Not here".

safe = [
    name
    for name in ways
    if all(answers[loop, name] == "nothing" for loop in loops)
]
if safe:
    print("safe in both loops:", *safe, sep="\n    ")
else:
    print("Not here: your model or your loss keeps something by itself.")

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
    title="Evaluation without no_grad: outputs kept",
    xlabel="step",
    ylabel="MiB",
)
left.legend()
figure.tight_layout()
plt.show()
