"""
Find a missing gradient
=======================

Why a gradient is ``None`` or zero, or why ``backward`` finds none at all.
"""

# %% do-this
import torch
from torch import nn

torch.manual_seed(0)
used, unused = nn.Linear(1, 1), nn.Linear(1, 1)
model = nn.ModuleDict({"used": used, "unused": unused})
rooms, prices = torch.tensor([[2.0], [3.0]]), torch.tensor([[10.0], [14.0]])

predictions = model["used"](rooms)
(predictions - prices).square().mean().backward()
for name, parameter in model.named_parameters():
    print(name, parameter.grad)

# %% cut
# Wrong on purpose: do not copy.
w = torch.tensor(3.0, requires_grad=True)
b = torch.tensor(1.0, requires_grad=True)
x, y = torch.tensor(2.0), torch.tensor(10.0)

loss = (w.item() * x + b.item() - y) ** 2
try:
    loss.backward()
except RuntimeError as error:
    print(error)

# %% silenced
# Wrong on purpose: do not copy.
loss.requires_grad_().backward()

print("w.grad:", w.grad, "b.grad:", b.grad)

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
    w.grad, b.grad = None, None
    with warnings.catch_warnings(record=True) as warned[way]:
        warnings.simplefilter("always")
        part = torch.as_tensor(cut(w * x))
        ((part + b - y) ** 2).backward()
    grads[way] = {"w.grad": w.grad, "b.grad": b.grad}

# %% cut-table
import pandas as pd

pd.DataFrame.from_dict(grads, orient="index")

# %% hook
prediction = w * x + b
before, after = [], []
prediction.register_hook(before.append)
prediction.register_hook(lambda gradient: gradient.clamp(-1, 1))
prediction.register_hook(after.append)
(w_gradient,) = torch.autograd.grad((prediction - y) ** 2, w)

print("at prediction:", before, "then", after)
print("at w:", w_gradient)

# %% not-kept
# Wrong on purpose: do not copy.
start = torch.tensor(3.0, requires_grad=True).double()
((start * x + b - y) ** 2).backward()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    missing = start.grad

print("leaf:", start.is_leaf, "grad:", missing)
for each in caught:
    print(str(each.message).partition(" (Triggered")[0])

# %% kept
start = torch.tensor(3.0).double().requires_grad_()
prediction = start * x + b
prediction.retain_grad()
((prediction - y) ** 2).backward()

print("start:", start.grad)
print("prediction:", prediction.grad)

# %% convert
model = model.double()
weight = model["used"].weight

print(weight.dtype, "leaf:", weight.is_leaf)

# %% integers
# Wrong on purpose: do not copy.
try:
    count = torch.tensor(2, requires_grad=True)
except RuntimeError as error:
    print(error)

# %% garden
# Wrong on purpose: do not copy.
garden = torch.tensor(0.5, requires_grad=True)
prediction = w * x + b
try:
    torch.autograd.grad(prediction, garden)
except RuntimeError as error:
    print(error)

# %% allow-unused
wanted = [w, garden]
gaps = torch.autograd.grad(prediction, wanted, allow_unused=True)

print(gaps)

# %% predict
hidden = torch.tensor([1.0, 2.0], requires_grad=True)
gate = torch.tensor([1.0, 1.0], requires_grad=True)
(hidden.detach() * gate * hidden.round()).sum().backward()

print("hidden:", hidden.grad)
print("gate:", gate.grad)
