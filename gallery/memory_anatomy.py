"""
What fills the memory in one step
=================================

Watch parameters, gradients, optimizer state and activations come and go in
one training step, and predict each of them with a pencil.

The rule: **parameters, gradients and state follow the model, activations the
batch**. Whatever is too large tells you what to change.

It needs ``torch``, ``matplotlib``.
"""

# %% setup
#
# A small model with Adam. The program runs on a CPU, where every byte can be
# counted.

import torch
from torch import nn

torch.manual_seed(0)

WIDTH, LAYERS, BATCH = 256, 4, 512
layers = []
for _ in range(LAYERS):
    layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
model = nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters())
inputs = torch.randn(BATCH, WIDTH)

# %% predict
#
# With a pencil
# -------------
#
# Each number takes four bytes. A ``Linear`` keeps its input for ``backward``
# and a ``ReLU`` its result, which is the input of the next ``Linear``: so the
# activations are the input, and one result for each layer. Adam keeps two
# numbers for each parameter, and a counter for each parameter tensor.

numbers = LAYERS * (WIDTH * WIDTH + WIDTH)
predicted = {
    "parameters": 4 * numbers,
    "gradients": 4 * numbers,
    "optimizer state": 2 * 4 * numbers + 4 * 2 * LAYERS,
    "activations": 4 * BATCH * WIDTH * (1 + LAYERS),
}

print(predicted)

# %% count
#
# By counting
# -----------
#
# A hook notes what the forward pass keeps. The weights are among it, and are
# counted as parameters.

kept = {}
own = {parameter.data_ptr() for parameter in model.parameters()}


def note(tensor):
    if tensor.data_ptr() not in own:
        kept[tensor.data_ptr()] = tensor.nbytes
    return tensor


def count():
    """Return the bytes of each kind that are held now."""
    gradients = [parameter.grad for parameter in model.parameters()]
    state = [
        value for each in optimizer.state.values() for value in each.values()
    ]
    return {
        "parameters": sum(each.nbytes for each in model.parameters()),
        "gradients": sum(g.nbytes for g in gradients if g is not None),
        "optimizer state": sum(value.nbytes for value in state),
        "activations": sum(kept.values()),
    }


# %% step
#
# One step, stage by stage
# ------------------------

stages = {"model made": count()}
with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
    loss = model(inputs).mean()
stages["forward"] = count()
loss.backward()
kept.clear()  # backward has let go of them
stages["backward"] = count()
optimizer.step()
stages["step"] = count()
optimizer.zero_grad()
stages["zero_grad"] = count()

for stage, held in stages.items():
    print(f"{stage:10}", {kind: size // 1024 for kind, size in held.items()})

# %% compare
#
# .. _each-kind-is-as-predicted:
#
# At its largest, each kind takes exactly the predicted bytes.
#
# .. _the-state-stays-after-the-step:
#
# After ``zero_grad``, the parameters and the state of Adam are still there:
# three times the bytes of the parameters, and the counters.
#
# .. _activations-are-the-most-here:
#
# With a batch of 512, the activations are more than all parameters and
# gradients together.

largest = {
    kind: max(held[kind] for held in stages.values()) for kind in predicted
}

print(largest == predicted)

# %% picture
#
# The picture stacks what is held after each stage. The last bar is the
# prediction, for the moment when all of it is there at once.

import matplotlib.pyplot as plt

colors = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"]
hatches = ["", "//", "..", "xx"]
bars = {**stages, "predicted": predicted}
figure, axis = plt.subplots(figsize=(7, 4))
bottom = [0.0] * len(bars)
for kind, color, hatch in zip(predicted, colors, hatches, strict=True):
    heights = [held[kind] / 1e6 for held in bars.values()]
    axis.bar(
        list(bars),
        heights,
        bottom=bottom,
        label=kind,
        color=color,
        hatch=hatch,
        alpha=0.7,
    )
    bottom = [low + high for low, high in zip(bottom, heights, strict=True)]
axis.set_ylabel("MB")
axis.set_title("What one training step holds, stage by stage")
axis.legend()
plt.show()
