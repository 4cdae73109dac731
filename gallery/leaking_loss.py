"""
How a running loss keeps its graph
==================================

You find out what a loop keeps alive when it adds up its losses, how long that
goes well, and which way of adding up keeps nothing.

The rule: **add up the number, not the tensor**. Write
``total += loss.item()``, and put an evaluation under ``torch.no_grad()``. The
lines to copy, also for a GPU, stand in
:doc:`Add up the loss </memory/running_loss>`.

It needs ``torch``, ``matplotlib``.
"""

# %% setup
#
# A small model forecasts a temperature from the readings of 64 stations. The
# program runs on a CPU.

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

torch.manual_seed(0)

readings = torch.randn(256, 64)
temperatures = readings.sum(dim=1, keepdim=True)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
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
# nothing alive, and tells whether the memory is still in use.

outputs = []


def note(layer, inputs, output):
    """Note where the output of a layer lies, and its size."""
    outputs.append((StorageWeakRef(output.untyped_storage()), output.nbytes))


for layer in model:
    layer.register_forward_hook(note)


def count_bytes():
    """Return the bytes of those outputs that are still in memory."""
    return sum(size for place, size in outputs if not place.expired())


# %% measure
#
# Add up losses in three ways
# ---------------------------
#
# One loop serves for training, where each loss goes through ``backward``, and
# for an evaluation that forgot ``torch.no_grad()``, where none does.


def measure(record, learn, steps=30):
    """Return the total, and what it keeps after each step: nodes, bytes."""
    outputs.clear()
    total, nodes, sizes = 0.0, [], []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(readings), temperatures)
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
# In this training, ``total += loss`` keeps new graph nodes alive at every
# step, after the first always the same number.
#
# .. _the-sum-keeps-no-activation-after-backward:
#
# Of a loss that went through ``backward``, the sum keeps no output of these
# layers.
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
# Without ``backward``, ``total += loss`` keeps the outputs of the ``ReLU`` and
# of the last layer, of every step.
#
# .. _a-number-keeps-no-activation:
#
# With ``loss.item()`` or ``loss.detach()``, the outputs of a step are freed
# with its loss.
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
# outputs.

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
# What PyTorch's own layers leave behind, ``backward`` frees. A function of
# your own has to ask for that, with ``ctx.save_for_backward``. This one keeps
# its input as ``ctx.x`` instead.


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
# With ``Square`` behind the last layer, ``total += loss`` keeps the output of
# that layer from every step, though each loss went through ``backward``.


class Squares(nn.Module):
    """A layer that squares what it gets."""

    def forward(self, x):
        """Return the squares."""
        return Square.apply(x)


model.append(Squares())
_, _, squared_sizes = measure(ways["total += loss"], learn=True)
del model[-1]

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
# Of the three ways, ``loss.detach()`` and ``loss.item()`` are those that keep
# nothing in both loops.
#
# On a CPU, take ``loss.item()``. On a GPU, where it waits, add up
# ``loss.detach()``, and read the sum when you log.

safe = [
    name
    for name in ways
    if all(answers[loop, name] == "nothing" for loop in loops)
]
print("safe in both loops:", *safe, sep="\n    ")

# %% picture
#
# On the left is a training, on the right an evaluation that forgot
# ``torch.no_grad()``.

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
steps = range(1, 31)
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
