"""
Compute gradients
=================

How a loss changes with each number behind it, and how PyTorch finds out.
"""

# %% do-this
import torch

w = torch.tensor(3.0, requires_grad=True)
b = torch.tensor(1.0, requires_grad=True)
x, y = torch.tensor(2.0), torch.tensor(10.0)

prediction = w * x + b
loss = (prediction - y) ** 2
loss.backward()

print("prediction:", prediction.item(), "loss:", loss.item())
print("w.grad:", w.grad.item(), "b.grad:", b.grad.item())

# %% forecast
forecasts, changes = {}, {}
for step in (0.01, -0.01, 3.0):
    nearby = ((w + step) * x + b - y) ** 2
    changes[step] = (nearby - loss).item()
    forecasts[step] = step * w.grad.item()
    print(f"{step}: {forecasts[step]:.4f} forecast, {changes[step]:.4f} true")

# %% steps
product = w * x
prediction = product + b
difference = prediction - y
loss = difference**2

print("product:", product.item(), "prediction:", prediction.item())
print("difference:", difference.item(), "loss:", loss.item())

# %% flow
arrows, flow, waiting = {}, {}, [loss.grad_fn]
while waiting:
    node = waiting.pop()
    if node in arrows:
        continue  # paths may join again
    arrows[node] = [earlier for earlier, _ in node.next_functions]
    waiting += filter(None, arrows[node])
    # A hook is called with what a node passes on, and with what arrived.
    node.register_hook(lambda *seen, node=node: flow.update({node: seen}))
gradients = torch.autograd.grad(loss, [w, b], retain_graph=True)

# %% draw
import matplotlib.pyplot as plt

boxes = {"loss": (loss, 0, 4), "difference": (difference, 0, 3)}
boxes |= {"prediction": (prediction, 0, 2), "product": (product, -1, 1)}
boxes |= {"b": (b, 1, 1), "w": (w, -1, 0)}
fig, ax = plt.subplots(figsize=(4.6, 4.8), layout="constrained")
ax.set(title="Gradients on their way back", xlim=(-2, 2), ylim=(-0.3, 4.3))
ax.axis("off")
look = {"ha": "center", "va": "center", "fontsize": 11}
places = {}
for name, (tensor, *place) in boxes.items():
    places[torch.autograd.graph.get_gradient_edge(tensor).node] = place
    edge = "#D55E00" if tensor.is_leaf else "#0072B2"
    frame = {"boxstyle": "round", "facecolor": "none", "edgecolor": edge}
    ax.text(*place, f"{name} = ${tensor.item():g}$", bbox=frame, **look)
for node, (passed, [arrived]) in flow.items():
    for earlier, number in zip(arrows[node], passed, strict=True):
        if earlier is None:
            continue
        (left, top), (right, low) = places[node], places[earlier]
        along = [left, right], [top - 0.18, low + 0.22]
        ax.plot(*along, "black", linewidth=1, marker="v", markevery=[1])
        said = rf"  $\times\,{number / arrived:g} \rightarrow {number:g}$  "
        side = "right" if right < left else "left"
        ax.text((left + right) / 2, (top + low) / 2, said, ha=side, size=11)
plt.show()

# %% two-paths
rent = torch.tensor(2.0, requires_grad=True)
kitchen, bedroom = rent * 3, rent * 4
(kitchen + bedroom).backward()

print(rent.grad)

# %% vector
v = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
(v**2).sum().backward()

print(v.grad)

# %% record
print("prediction:", prediction.grad_fn.name(), "leaf:", prediction.is_leaf)
print("w:", w.grad_fn, "leaf:", w.is_leaf)
print("x:", x.grad_fn, "leaf:", x.is_leaf)

# %% grad
loss = (w * x + b - y) ** 2
w_gradient, b_gradient = torch.autograd.grad(loss, [w, b])

print(w_gradient, b_gradient)

# %% second
loss = (w * x + b - y) ** 2
(gradient,) = torch.autograd.grad(loss, w, create_graph=True)
(curvature,) = torch.autograd.grad(gradient, w)

print("gradient:", gradient.item(), "its own gradient:", curvature.item())

# %% add-up
# Wrong on purpose: do not copy.
loss = (w * x + b - y) ** 2
loss.backward()

print("w.grad:", w.grad)

# %% clear
w.grad = None
b.grad = None
loss = (w * x + b - y) ** 2
loss.backward()

print("w.grad:", w.grad)

# %% again
# Wrong on purpose: do not copy.
try:
    loss.backward()
except RuntimeError as error:
    print(error)

# %% retain
w.grad = None
loss = (w * x + b - y) ** 2
loss.backward(retain_graph=True)
loss.backward()

print("w.grad:", w.grad)

# %% many
# Wrong on purpose: do not copy.
rooms, prices = torch.tensor([2.0, 3.0]), torch.tensor([10.0, 14.0])
losses = (w * rooms + b - prices) ** 2
try:
    losses.backward()
except RuntimeError as error:
    print(error)

# %% mean
w.grad = None
losses.mean().backward()

print("w.grad:", w.grad)

# %% weights
matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
v = torch.tensor([5.0, 6.0], requires_grad=True)
outputs = matrix @ v
outputs.backward(gradient=torch.tensor([1.0, 10.0]))

print(v.grad)

# %% predict
a = torch.tensor(2.0, requires_grad=True)
result = a
for _ in range(2):
    result = result * a
result.backward()

print(a.grad)

# %% descend
w = torch.tensor(3.0, requires_grad=True)
for _ in range(20):
    loss = (w * 2 + 1 - 10) ** 2
    (gradient,) = torch.autograd.grad(loss, w)
    w = (w - 0.1 * gradient).detach().requires_grad_()

# %% check
missed = abs(w.item() * 2 + 1 - 10)
if missed < 0.01:
    print(f"right: w = {w.item():.2f} predicts 10")
else:
    print(f"not yet: the prediction misses 10 by {missed:.2f}")
