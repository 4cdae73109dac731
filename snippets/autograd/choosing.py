"""
Choose how to stop gradients
============================

What each way to stop gradients does to the layers, to memory and to later use.
"""

# %% forecast
import torch
from torch import nn


def three_layers():
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    middle = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    return nn.Sequential(first, middle, nn.Linear(4, 1))


model, days = three_layers(), torch.randn(8, 3)

# %% do-this
model[1].requires_grad_(False)  # freeze a layer, learn through it
goal = model(days).detach()  # use a result as a constant
with torch.no_grad():  # compute without recording
    validated = model(days)
with torch.inference_mode():  # the same, and never train with it
    predicted = model(days)
output = model(days)  # record, and learn from it
output.mean().backward()

for result in (goal, validated, predicted, output):
    print(result.mean())

# %% ways
ways = {
    "nothing": lambda layer, x: layer(x),
    "eval()": lambda layer, x: layer.eval()(x),
    "requires_grad_(False)": lambda layer, x: layer.requires_grad_(False)(x),
    "detach()": lambda layer, x: layer(x).detach(),
    "no_grad()": lambda layer, x: torch.no_grad()(layer)(x),
    "inference_mode()": lambda layer, x: torch.inference_mode()(layer)(x),
}


# %% way-back
def way_back(result):
    steps, node = [], result.grad_fn
    while node:
        before = {each.name(): each for each, _ in node.next_functions if each}
        learns = before.pop("torch::autograd::AccumulateGrad", None)
        before.pop("TBackward0", None)  # a weight, transposed
        steps.append((node.name().removesuffix("Backward0"), bool(learns)))
        [node] = before.values() or [None]
    return steps


# %% way-back-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for row, name in enumerate(list(ways)[:-1]):
    ax.text(5, -row, name)
    first, middle, last = three_layers()
    forecast = last(ways[name](middle, first(days)))
    for i, (step, learns) in enumerate(way_back(forecast)):
        ink = "#D55E00" if learns else "#0072B2"
        ax.text(4 - i, -row, step, color=ink, bbox={"fc": "none", "ec": ink})
ax.set(title="Back from the forecast; orange learns", ylim=(-4.5, 0.6))
ax.set(xlim=(-0.6, 7.4), xticks=[], yticks=[], frame_on=False)
plt.show()


# %% weigh
def weigh(way, layer, numbers):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor.untyped_storage()),
        lambda nothing: nothing,
    ):
        way(layer, numbers)
    known = {each.data_ptr() for each in [*layer.parameters(), numbers]}
    sizes = {each.data_ptr(): each.nbytes() for each in saved}
    return sum(sizes[place] for place in sizes.keys() - known)


# %% weigh-all
for name, way in ways.items():
    print(f"{weigh(way, three_layers(), days):4} bytes  {name}")

# %% middle-in-no-grad
# Wrong on purpose: do not copy.
first, middle, last = three_layers()
with torch.no_grad():
    hidden = middle(first(days))
last(hidden).mean().backward()

print("first:", first[0].bias.grad, "last:", last.bias.grad)


# %% refusal
def refusal(attempt):
    try:
        attempt()
    except RuntimeError as error:
        return str(error)


# %% later
# Wrong on purpose: do not copy.
scale = torch.tensor(2.0, requires_grad=True)
attempts = {
    "multiply": lambda: scale * predicted,
    "change": lambda: predicted.mul_(2),
    "ask": lambda: predicted.requires_grad_(),
}
for attempt in attempts.values():
    print(refusal(attempt))

# %% clone
copy = predicted.clone()
(scale * copy).sum().backward()

print(scale.grad)

# %% no-way-back
# Wrong on purpose: do not copy.
with torch.no_grad():
    loss = model(days).square().mean()

print(refusal(loss.backward))
frozen = refusal(lambda: output.requires_grad_(False))
print(frozen)

# %% layers-go-on
dropout, norm = nn.Dropout(0.5), nn.BatchNorm1d(3)
with torch.no_grad():
    print(dropout(torch.ones(6)))
    shifted = norm(days + 20)
print(norm.running_mean)

# %% nested
with torch.no_grad():
    offset = nn.Parameter(torch.zeros(1))
    factor = torch.ones(1, requires_grad=True)
    unrecorded = offset + factor
    with torch.enable_grad():
        recorded = offset + factor
with torch.inference_mode():
    with torch.enable_grad():
        forgotten, says = offset + factor, torch.is_grad_enabled()
    with torch.inference_mode(False):
        normal = offset + factor

print(offset, unrecorded, recorded, forgotten, says, normal, sep="\n")


# %% generators
def leaking():
    with torch.no_grad():
        yield from map(model, days)


@torch.no_grad()
def tight():
    yield from map(model, days)


warmer = {}
for series in (leaking, tight):
    warmer[series.__name__] = [scale * degrees for degrees in series()]
    print(series.__name__, warmer[series.__name__][0])

# %% epochs
losses = {}
for phase, training in {"training": True, "validation": False}.items():
    model.train(training)
    with torch.set_grad_enabled(training):
        losses[phase] = model(days).square().mean()

print(losses)

# %% threads
from concurrent.futures import ThreadPoolExecutor

with torch.no_grad(), ThreadPoolExecutor() as pool:
    doubled = [scale * 2, pool.submit(lambda: scale * 2).result()]

print(doubled)
