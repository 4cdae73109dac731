"""
How a running loss keeps its graph
==================================

Find out what a training loop keeps alive when it adds up its losses, and add
them up so that it keeps nothing.

The rule: **add the number, not the tensor**. Write ``total += loss.item()``.

The warning comes from section 2 of *Tips, tricks and gotchas in PyTorch*. The
program adds what the source does not tell apart: which part of a graph stays,
and which part goes.

It needs ``torch``, ``matplotlib``.
"""

# %% setup
#
# A small model, a batch of data, and nothing else. The program runs on a
# CPU.

import weakref

import torch
from torch import nn

torch.manual_seed(0)

inputs = torch.randn(256, 64)
targets = inputs.sum(dim=1, keepdim=True)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

# %% nodes
#
# Count what is kept
# ------------------
#
# A loss knows how it was computed: its ``grad_fn`` is a node of a graph, and
# each node leads to the nodes before it. Whoever holds the loss holds them
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


# %% saved
#
# A node may save tensors for its backward pass, and these take room too. A
# hook sees each of them when it is saved, and a weak reference tells whether
# it is still alive.


class Saved:
    """A tensor that a graph node saved for its backward pass."""

    def __init__(self, tensor):
        self.tensor = tensor.detach()


saved = weakref.WeakSet()


def remember(tensor):
    box = Saved(tensor)
    saved.add(box)
    return box


# %% count-bytes
#
# Inputs, targets and weights are left out: they live on anyway. The rest is
# what keeping a loss costs, the *activations*.


def count_bytes():
    """Return the bytes of the saved tensors that are kept for a graph."""
    own = {inputs.data_ptr(), targets.data_ptr()}
    own |= {weight.data_ptr() for weight in model.parameters()}
    kept = {box.tensor.data_ptr(): box.tensor.nbytes for box in saved}
    return sum(size for place, size in kept.items() if place not in own)


# %% measure
#
# Add up losses in three ways
# ---------------------------
#
# One loop serves for training, where each loss goes through ``backward``, and
# for an evaluation that forgot ``torch.no_grad()``, where it does not.


def measure(record, learn, steps=30):
    """Return the total, and what it keeps after each step: nodes, bytes."""
    total, nodes, sizes = 0.0, [], []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(
            remember, lambda box: box.tensor
        ):
            loss = nn.functional.mse_loss(model(inputs), targets)
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
# In training, ``total += loss`` keeps new graph nodes alive at every step,
# after the first always the same number.
#
# .. _the-sum-keeps-no-activation-after-backward:
#
# The sum keeps no activation of a loss that went through ``backward``.
#
# .. _a-number-keeps-no-node:
#
# With ``loss.item()`` or ``loss.detach()``, no graph node stays alive.
#
# So in training the nodes stay and the activations go. Now the same loop as an
# evaluation, where no ``backward`` frees anything.

evaluated = {name: measure(way, learn=False) for name, way in ways.items()}

for name, (_, nodes, sizes) in evaluated.items():
    print(f"{name:24} {nodes[-1]:4} nodes, {sizes[-1] // 1024:5} KiB")

# %% no-grad
#
# .. _the-sum-keeps-the-activations-of-every-evaluation:
#
# Without ``backward``, ``total += loss`` keeps the activations of every step.
#
# .. _a-number-keeps-no-activation:
#
# With ``loss.item()`` or ``loss.detach()``, the activations of a step are
# freed with its loss.
#
# .. _the-three-totals-are-equal:
#
# The three ways give the same total, to five digits.
#
# In an evaluation, ``torch.no_grad()`` is the better mend: there is then no
# graph to keep.
#
# .. _under-no-grad-even-the-tensor-keeps-nothing:
#
# Under ``torch.no_grad()``, even ``total += loss`` keeps nothing.

with torch.no_grad():
    careful = measure(ways["total += loss"], learn=False)

print(careful[1][-1], "nodes,", careful[2][-1], "bytes")

# %% free
#
# .. _what-the-sum-keeps-dies-with-it:
#
# All that the sum keeps is freed when the sum itself goes, here at the end of
# the function.

print(evaluated["total += loss"][2][-1], "bytes at the last step")
print(count_bytes(), "bytes after the function")

# %% mean
#
# The mean over samples
# ---------------------
#
# A running loss is often divided by the number of batches at the end.
#
# .. _the-mean-of-batch-means-is-not-the-mean:
#
# With a smaller last batch, the mean of the batch means is here not the mean
# over the samples.
#
# .. _weighting-by-size-gives-the-mean:
#
# Weighted by the sizes of the batches, the losses give the mean over the
# samples.

batches = list(zip(inputs.split(120), targets.split(120), strict=True))
print([len(batch) for batch, _ in batches])

with torch.no_grad():
    error = nn.functional.mse_loss
    losses = [error(model(x), y).item() for x, y in batches]
    weighted = [
        len(x) * loss for (x, _), loss in zip(batches, losses, strict=True)
    ]
    whole = error(model(inputs), targets).item()

mean_of_means = sum(losses) / len(batches)
mean = sum(weighted) / len(inputs)
print(f"{mean_of_means:.4f}, {mean:.4f}, {whole:.4f}")

# %% picture
#
# The answer at a glance
# ----------------------
#
# On the left is a training, on the right an evaluation that forgot
# ``torch.no_grad()``. The flat lines are the mend.

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
    title="Evaluation without no_grad: activations kept",
    xlabel="step",
    ylabel="MiB",
)
left.legend()
figure.tight_layout()
plt.show()
