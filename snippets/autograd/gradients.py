"""
Gradients
=========

Which way to change each number so that a loss falls, and what can go wrong.
"""

# %% do-this
import torch

rate = torch.tensor(2.0, requires_grad=True)
fee = torch.tensor(1.0, requires_grad=True)
km, paid = torch.tensor(3.0), torch.tensor(10.0)

fare = rate * km + fee
loss = (fare - paid).square()
loss.backward()

print("loss:", loss.item())
print("rate:", rate.grad.item(), "fee:", fee.grad.item())

# %% forecast
forecasts, changes = {}, {}
for step in (0.01, -0.01, 2.0):
    nearby = ((rate + step) * km + fee - paid).square()
    changes[step] = (nearby - loss).item()
    forecasts[step] = step * rate.grad.item()
    print(f"{step}: {forecasts[step]:.4f} forecast, {changes[step]:.4f} true")


# %% helpers
def label(node):
    leaves = {"rate": rate, "fee": fee, "km": km, "paid": paid}
    for name, tensor in leaves.items():
        if getattr(node, "variable", None) is tensor:
            return name
    mark = {loss.grad_fn: "loss: ", fare.grad_fn: "fare: "}.get(node, "")
    return mark + node.name().removesuffix("Backward0")


def slopes_of(node):
    found = node(torch.tensor(1.0))
    return found if isinstance(found, tuple) else (found,)


# %% walk
fare = rate * km + fee
loss = (fare - paid).square()

arrows, seen, waiting = {}, set(), [loss.grad_fn]
while waiting:
    node = waiting.pop()
    before = node.next_functions
    if node in seen or not before:
        continue
    seen.add(node)  # paths may join again
    for (each, _), slope in zip(before, slopes_of(node), strict=True):
        if each is not None:
            arrows.setdefault((node, each), []).append(slope)
            waiting.append(each)

# %% draw
import matplotlib.pyplot as plt
import networkx as nx

graph = nx.DiGraph(arrows.keys())
levels = dict(enumerate(nx.topological_generations(graph)))
places = nx.multipartite_layout(graph, levels, align="horizontal", scale=-1)
look = {"with_labels": True, "node_color": "none", "node_size": 900}
names = {node: label(node) for node in graph}
box = {"fc": "none", "ec": "#0072B2"}
nx.draw(graph, places, labels=names, bbox=box, **look)
notes = {
    arrow: "   " + ", ".join(f"{slope:g}" for slope in slopes)
    for arrow, slopes in arrows.items()
}
side = {"rotate": False, "horizontalalignment": "left", "bbox": {"alpha": 0}}
nx.draw_networkx_edge_labels(graph, places, notes, **side)
plt.title("The graph of loss and each step's slope")
plt.show()

# %% two-paths
price = torch.tensor(2.0, requires_grad=True)
there, back = price * 3, price * 4
(there + back).backward()

print(price.grad)

# %% record
print(fare)
print("fare:", fare.grad_fn.name(), "leaf:", fare.is_leaf)
print("rate:", rate.grad_fn, "leaf:", rate.is_leaf)
print("km:", km.grad_fn, "leaf:", km.is_leaf)
slope = loss.grad_fn(torch.tensor(1.0))
print("slope of the square:", slope.item())

# %% grad
loss = (rate * km + fee - paid).square()
rate_slope, fee_slope = torch.autograd.grad(loss, [rate, fee])

print(rate_slope, fee_slope)

# %% second
loss = (rate * km + fee - paid).square()
(slope,) = torch.autograd.grad(loss, rate, create_graph=True)
(bend,) = torch.autograd.grad(slope, rate)

print("slope:", slope.item(), "slope of the slope:", bend.item())

# %% add-up
# Wrong on purpose: do not copy.
loss = (rate * km + fee - paid).square()
loss.backward()

print("rate:", rate.grad)

# %% clear
rate.grad = None
fee.grad = None
loss = (rate * km + fee - paid).square()
loss.backward()

print("rate:", rate.grad)

# %% again
# Wrong on purpose: do not copy.
try:
    loss.backward()
except RuntimeError as error:
    print(error)

# %% retain
rate.grad = None
loss = (rate * km + fee - paid).square()
loss.backward(retain_graph=True)
loss.backward()

print("rate:", rate.grad)

# %% cut
# Wrong on purpose: do not copy.
fare = rate.item() * km + fee.item()
loss = (fare - paid).square()
try:
    loss.backward()
except RuntimeError as error:
    print(error)

# %% ways
ways = {
    "t.detach()": lambda t: t.detach(),
    "t.detach().numpy()": lambda t: t.detach().numpy(),
    "t.item()": lambda t: t.item(),
    "t.tolist()": lambda t: t.tolist(),
    "torch.tensor(t)": lambda t: torch.tensor(t),
    "t > 5": lambda t: t > 5,
    "t.argmax()": lambda t: t.argmax(),
    "t.long()": lambda t: t.long(),
    "no_grad": torch.no_grad()(lambda t: 1 * t),
    "t.round()": lambda t: t.round(),
}

# %% one-path-cut
import warnings

grads, warned = {}, {}
for way, cut in ways.items():
    rate.grad, fee.grad = None, None
    with warnings.catch_warnings(record=True) as warned[way]:
        warnings.simplefilter("always")
        part = torch.as_tensor(cut(rate * km))
        (part + fee - paid).square().backward()
    grads[way] = {"rate.grad": rate.grad, "fee.grad": fee.grad}

# %% cut-table
import pandas as pd

pd.DataFrame.from_dict(grads, orient="index")

# %% many
# Wrong on purpose: do not copy.
rides, bills = torch.tensor([3.0, 5.0]), torch.tensor([10.0, 15.0])
losses = (rate * rides + fee - bills).square()
try:
    losses.backward()
except RuntimeError as error:
    print(error)

# %% mean
rate.grad = None
losses.mean().backward()

print("rate:", rate.grad)

# %% integers
# Wrong on purpose: do not copy.
try:
    count = torch.tensor(2, requires_grad=True)
except RuntimeError as error:
    print(error)

# %% not-kept
# Wrong on purpose: do not copy.
start = torch.tensor(2.0, requires_grad=True).double()
(start * km + fee - paid).square().backward()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    missing = start.grad

print("leaf:", start.is_leaf, "grad:", missing)
for each in caught:
    print(str(each.message).partition(" (Triggered")[0])

# %% kept
start = torch.tensor(2.0).double().requires_grad_()
fare = start * km + fee
fare.retain_grad()
(fare - paid).square().backward()

print("start:", start.grad)
print("fare:", fare.grad)

# %% model
torch.manual_seed(0)
used, unused = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
model = torch.nn.ModuleDict({"used": used, "unused": unused})
outputs = model["used"](rides.unsqueeze(1)).squeeze(1)
(outputs - bills).square().mean().backward()

for name, parameter in model.named_parameters():
    print(name, parameter.grad)

# %% tip
# Wrong on purpose: do not copy.
tip = torch.tensor(0.5, requires_grad=True)
fare = rate * km + fee
try:
    torch.autograd.grad(fare, tip)
except RuntimeError as error:
    print(error)

# %% allow-unused
wanted = [rate, tip]
gaps = torch.autograd.grad(fare, wanted, allow_unused=True)

print(gaps)

# %% hook
fare = rate * km + fee
before, after = [], []
fare.register_hook(before.append)
fare.register_hook(lambda slope: slope.clamp(-1, 1))
fare.register_hook(after.append)
(rate_slope,) = torch.autograd.grad((paid - fare).square(), rate)

print("at fare:", before, "then", after)
print("at rate:", rate_slope)
