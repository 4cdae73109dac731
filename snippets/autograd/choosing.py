"""
Choose how to stop gradients
============================

What ``detach``, ``requires_grad_``, ``no_grad`` and ``inference_mode`` stop.
"""

# %% apartments
import torch
from torch import nn
from torch.nn import functional as F


def new_model():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(2, 6), nn.Tanh())
    return nn.Sequential(encoder, nn.Linear(6, 1))


model, apartments = new_model(), torch.rand(64, 2)  # size, distance
prices = 4 * apartments[:, :1] * (1 - apartments[:, 1:])

# %% do-this
kept = F.mse_loss(model(apartments), prices).detach()
with torch.no_grad():
    validation_loss = F.mse_loss(model(apartments), prices)
with torch.inference_mode():
    predictions = model(apartments)

model[0].requires_grad_(False)  # the encoder
loss = F.mse_loss(model(apartments), prices)
loss.backward()

print(kept, validation_loss, predictions[0], loss, sep="\n")


# %% by-hand
def new_weights():
    return [torch.tensor(w, requires_grad=True) for w in (2.0, 3.0, 5.0)]


first, middle, last = new_weights()
output = last * (middle * (first * 1))
output.backward()
print(first.grad, middle.grad, last.grad)

# %% at-a-parameter
first, middle, last = new_weights()
middle.requires_grad_(False)
frozen = last * (middle * (first * 1))
frozen.backward()
print(first.grad, middle.grad, last.grad)

# %% at-a-tensor
first, middle, last = new_weights()
hidden = (middle * (first * 1)).detach()
cut = last * hidden
cut.backward()
print(first.grad, middle.grad, last.grad)

# %% for-a-block
first, middle, last = new_weights()
with torch.no_grad():
    hidden = middle * (first * 1)
unrecorded = last * hidden
unrecorded.backward()
print(first.grad, middle.grad, last.grad)


# %% walk
def walk(output):
    steps, node = [], output.grad_fn
    while node:
        earlier = [each for each, _ in node.next_functions if each]
        weights = [n.variable for n in earlier if hasattr(n, "variable")]
        steps.append(weights)
        [node] = [n for n in earlier if not hasattr(n, "variable")] or [None]
    return steps


def label(steps, i):
    if i >= len(steps):
        return "not in graph", "gray"
    if not steps[i]:
        return "no gradient", "#0072B2"
    return f"gets {steps[i][0].grad:g}", "#D55E00"


# %% walk-drawn
import matplotlib.pyplot as plt

titles = ("nothing stopped", "requires_grad_(False)", "detach()", "no_grad()")
graphs = map(walk, (output, frozen, cut, unrecorded))
_, axes = plt.subplots(4, figsize=(4.5, 4.5), layout="constrained")
for ax, title, steps in zip(axes, titles, graphs, strict=True):
    for i, name in enumerate(("last", "middle", "first")):
        said, color = label(steps, i)
        box = {"boxstyle": "round", "facecolor": "none", "edgecolor": color}
        ax.text(
            2 - i, 0, f"{name}\n{said}", bbox=box, ha="center", va="center"
        )
        if 0 < i < len(steps):
            arrow = {"arrowstyle": "->", "color": "gray"}
            ax.annotate("", (2.4 - i, 0), (2.6 - i, 0), arrowprops=arrow)
    ax.set(title=title, xlim=(-0.6, 2.6), ylim=(-0.6, 0.6))
    ax.axis("off")
plt.show()


# %% ways
ways = {
    "as it is": lambda model, x: model(x),
    "model.eval()": lambda model, x: model.eval()(x),
    "detach()": lambda model, x: model(x).detach(),
    "requires_grad_(False)": lambda model, x: model.requires_grad_(False)(x),
    "no_grad()": lambda model, x: torch.no_grad()(model)(x),
    "inference_mode()": lambda model, x: torch.inference_mode()(model)(x),
}


# %% saved-bytes
def saved_bytes(way, model, x):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor.untyped_storage()),
        lambda nothing: nothing,
    ):
        way(model, x)
    known = {each.data_ptr() for each in [*model.parameters(), x]}
    sizes = {each.data_ptr(): each.nbytes() for each in saved}
    return sum(sizes[place] for place in sizes.keys() - known)


# %% memory
for name, way in ways.items():
    print(f"{saved_bytes(way, new_model(), apartments):5} bytes  {name}")

# %% one-loop
model, losses = new_model(), {}
for phase, training in {"training": True, "validation": False}.items():
    model.train(training)
    with torch.set_grad_enabled(training):
        losses[phase] = F.mse_loss(model(apartments), prices)

print(losses)

# %% frozen-by-no-grad
# Wrong on purpose: do not copy.
first, middle, last = nn.Linear(2, 6), nn.Linear(6, 6), nn.Linear(6, 1)
with torch.no_grad():  # to freeze the middle layer
    hidden = middle(first(apartments))
F.mse_loss(last(hidden), prices).backward()

print("first:", first.bias.grad, "last:", last.bias.grad)

# %% no-graph
# Wrong on purpose: do not copy.
with torch.no_grad():
    loss = F.mse_loss(model(apartments), prices)
try:
    loss.backward()
except RuntimeError as error:
    print(error)

# %% not-a-leaf
# Wrong on purpose: do not copy.
hidden = model[0](apartments)
try:
    hidden.requires_grad_(False)
except RuntimeError as error:
    print(error)

# %% dropout
dropout, norm = nn.Dropout(0.5), nn.BatchNorm1d(2)
with torch.no_grad():
    print(dropout(torch.ones(6)))
    norm(apartments + 20)
print(norm.running_mean)

# %% skip
first, middle, last = new_weights()
hidden = first * 1
with torch.no_grad():
    change = middle * hidden
output = last * (hidden + change)
output.backward()
print(first.grad, middle.grad)

# %% features
with torch.no_grad():
    features = model[0](apartments)

# %% features-checked
head = nn.Linear(6, 1)
if features.requires_grad:
    print("not yet: the features still lead back to the encoder")
elif features.is_inference():
    print("not yet: no layer can train on an inference tensor")
else:
    F.mse_loss(head(features), prices).backward()
    print("right: the head learns, and the encoder is left alone")
