"""
Gradients
=========

From ``requires_grad`` to ``.grad``, with the graph in between.
"""

# %% ask
import torch

w = torch.tensor(2.0, requires_grad=True)
b = torch.tensor(1.0, requires_grad=True)
x = torch.tensor(3.0)
target = torch.tensor(10.0)

print("w:", w.requires_grad)
print("x:", x.requires_grad)

# %% whole-numbers
try:
    counts = torch.tensor([1, 2, 3], requires_grad=True)
except RuntimeError as error:
    print(error)

# %% compute
product = w * x
prediction = product + b
loss = (prediction - target).square()

print(product.requires_grad, (x * target).requires_grad)

# %% history
print(loss)
print("product:", product.grad_fn.name(), "leaf:", product.is_leaf)
print("w:", w.grad_fn, "leaf:", w.is_leaf)

# %% label
leaves = {"w": w, "b": b, "x": x, "target": target}


def label(node):
    for name, tensor in leaves.items():
        if getattr(node, "variable", None) is tensor:
            return f"AccumulateGrad: {name}"
    return node.name()


# %% walk
edges = []
waiting = [loss.grad_fn]
while waiting:
    node = waiting.pop()
    for earlier, _ in node.next_functions:
        if earlier is not None:
            edges.append((label(node), label(earlier)))
            waiting.append(earlier)

for later, earlier in edges:
    print(later, "->", earlier)

# %% draw
import matplotlib.pyplot as plt
import networkx as nx

graph = nx.DiGraph(edges)
layers = dict(enumerate(nx.topological_generations(graph)))
places = nx.multipartite_layout(graph, layers, align="horizontal")
fig, ax = plt.subplots(figsize=(5, 4.5), subplot_kw={"frame_on": False})
nx.draw_networkx_edges(graph, places, node_size=550, node_shape="s")
for color, is_leaf in (("#0072B2", False), ("#D55E00", True)):
    box = {"boxstyle": "round", "edgecolor": color, "facecolor": "none"}
    labels = {each: each for each in graph if (":" in each) == is_leaf}
    nx.draw_networkx_labels(graph, places, labels, bbox=box)
ax.set(title="The graph behind loss, down to w and b")
ax.set(xlim=(-0.5, 0.5), ylim=(1.1, -1.2))
plt.show()

# %% backward
loss.backward()

print("w:", w.grad)
print("b:", b.grad)
print("x:", x.grad)

# %% by-hand
slope = 2 * (prediction.item() - target.item())

print("b:", slope)
print("w:", slope * x.item())

# %% not-kept
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(prediction.grad)

print(str(caught[0].message).partition(". ")[0])

# %% kept
start = torch.tensor(2.0, requires_grad=True)
middle = 3 * start
middle.retain_grad()
middle.square().backward()

print(middle.grad, start.grad)

# %% add-up
rate = torch.tensor(2.0, requires_grad=True)

(5 * rate).backward()
print("once:", rate.grad)

(5 * rate).backward()
print("twice:", rate.grad)

# %% clear
rate.grad = None
(5 * rate).backward()

print(rate.grad)

# %% again
side = torch.tensor(3.0, requires_grad=True)
area = side.square()
area.backward()

try:
    area.backward()
except RuntimeError as error:
    print(error)

# %% retain
side.grad = None
area = side.square()
area.backward(retain_graph=True)
area.backward()

print(side.grad)

# %% many
sides = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
areas = sides.square()

try:
    areas.backward()
except RuntimeError as error:
    print(error)

# %% weigh
areas.backward(torch.tensor([1.0, 0.0, 10.0]))

print(sides.grad)

# %% model
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1)
)
inputs = torch.randn(8, 3)
goals = 5 * inputs.sum(dim=1, keepdim=True)

loss = torch.nn.functional.mse_loss(model(inputs), goals)
loss.backward()

for name, parameter in model.named_parameters():
    print(name, parameter.grad)

# %% no-grad
with torch.no_grad():
    guess = model(inputs)

print(guess.requires_grad, guess.grad_fn)

# %% freeze
model.zero_grad()
model[0].requires_grad_(False)

loss = torch.nn.functional.mse_loss(model(inputs), goals)
loss.backward()

for name, parameter in model.named_parameters():
    print(name, "no gradient" if parameter.grad is None else "gradient")

# %% on-cuda
if torch.cuda.is_available():
    remote = torch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    remote.square().sum().backward()
    print(remote.grad)
