"""
In-place changes
================

When overwriting a tensor breaks the backward pass, and how to find and fix it.
"""

# %% do-this
import torch
from torch import nn

rate = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
growth = rate.exp()
growth = growth + 1  # a new tensor under the old name
growth.sum().backward()
with torch.no_grad():
    rate -= 0.1 * rate.grad  # a weight, changed by hand

print(rate)

# %% overwritten
# Wrong on purpose: do not copy.
growth = rate.exp()
print("version", growth._version)
growth += 1
print("version", growth._version)

try:
    growth.sum().backward()
except RuntimeError as error:
    print(error)

# %% operations
operations = {
    "x + y": lambda x, y: x + y,
    "3 * x": lambda x, y: 3 * x,
    "x.sum()": lambda x, y: x.sum(),
    "x * y": lambda x, y: x * y,
    "x.square()": lambda x, y: x.square(),
    "x.log()": lambda x, y: x.log(),
    "x.exp()": lambda x, y: x.exp(),
    "x.sigmoid()": lambda x, y: x.sigmoid(),
    "x.relu()": lambda x, y: x.relu(),
}


# %% saves
def saves(operation, x, y):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor.data_ptr()), lambda place: place
    ):
        result = operation(x, y)
    places = {"x": x, "y": y, "result": result}
    return {n for n, each in places.items() if each.data_ptr() in saved}


# %% saves-list
x, y = torch.ones(2, 3, requires_grad=True)
found = {}
for name, operation in operations.items():
    found[name] = saves(operation, x, y)
    print(f"{name:12}", " and ".join(sorted(found[name])) or "nothing")

# %% view
rate.grad = None
growth = 1 + rate
first_two = growth[:2]
first_two *= 3
growth.sum().backward()

print("versions:", first_two._version, growth._version)
print(rate.grad)

# %% find-the-line
import contextlib
import warnings

with (
    warnings.catch_warnings(record=True, action="always") as caught,
    torch.autograd.detect_anomaly(),
):
    growth = rate.exp()
    growth += 1
    with contextlib.suppress(RuntimeError):
        growth.sum().backward()

print(str(caught[-1].message).splitlines()[-2].strip())

# %% fixes
fixes = {
    "growth + 1": lambda growth: growth + 1,
    "clone() first": lambda growth: growth.clone().add_(1),
    "where": lambda growth: torch.where(growth > 1, growth, 0),
    "masked_fill": lambda growth: growth.masked_fill(growth < 1, 0),
}
gradients = {}
for name, fix in fixes.items():
    [gradients[name]] = torch.autograd.grad(fix(rate.exp()).sum(), rate)
    print(f"{name:14}", gradients[name])


# %% refusal
def refusal(attempt):
    try:
        attempt()
    except RuntimeError as error:
        return str(error)


# %% leaves
# Wrong on purpose: do not copy.
attempts = {
    "a leaf": lambda: rate.add_(1),
    "a view of a leaf": lambda: rate[:2].add_(1),
    "one of several views": lambda: rate.exp().unbind()[0].add_(1),
}
for attempt in attempts.values():
    print(refusal(attempt))


# %% steps
# Wrong on purpose: do not copy.
def written(keep, steps):
    levels = torch.zeros(steps)
    levels[0] = 1
    for t in range(1, steps):
        levels[t] = keep * levels[t - 1]
    return levels.sum()


keep = torch.tensor(0.5, requires_grad=True)
total = written(keep, 4)
print(refusal(total.backward))


# %% steps-in-a-list
def collected(keep, steps):
    levels = [torch.tensor(1.0)]
    for t in range(1, steps):
        levels.append(keep * levels[t - 1])
    return torch.stack(levels).sum()


collected(keep, 4).backward()
print(keep.grad)


# %% two-losses
def two_losses(step_between, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, **options)
    output = model(torch.ones(2, 3))
    output.sum().backward(retain_graph=True)
    if step_between:
        optimizer.step()
    optimizer.zero_grad()
    output.square().sum().backward()
    return model


# %% step-between
# Wrong on purpose: do not copy.
said = refusal(lambda: two_losses(step_between=True))
print(said)

# %% step-fused
# Wrong on purpose: do not copy.
right = two_losses(step_between=False)
wrong = two_losses(step_between=True, fused=True)
print("should be:", right[0].bias.grad)
print("is:       ", wrong[0].bias.grad)

# %% data
# Wrong on purpose: do not copy.
rate.grad = None
growth = rate.exp()
growth.data.fill_(9)
growth.sum().backward()

print("should be:", rate.detach().exp())
print("is:       ", rate.grad)

# %% hooks
# Wrong on purpose: do not copy.
rate.grad = None
with torch.autograd.graph.save_on_cpu():
    growth = rate.exp()
growth += 1
growth.sum().backward()

print("should be:", rate.detach().exp())
print("is:       ", rate.grad)


# %% skip-connection
# Wrong on purpose: do not copy.
def skip(hidden):
    return hidden + nn.functional.relu(hidden, inplace=True)


hidden = torch.tensor([2.0, -3.0])
print("should be:", hidden + nn.functional.relu(hidden))
print("is:       ", skip(hidden))


# %% relu-behind
def relu_behind(layer, numbers):
    try:
        nn.functional.relu(layer(numbers), inplace=True).sum().backward()
    except RuntimeError:
        return "raises"
    return "trains"


# %% relu-behind-all
layers = [nn.Linear(3, 3), nn.BatchNorm1d(3), nn.LayerNorm(3), nn.Dropout()]
layers += [nn.Sigmoid(), nn.Tanh(), nn.Softmax(dim=1), nn.ReLU()]
outcomes = {}
for layer in layers:
    name, numbers = type(layer).__name__, torch.rand(2, 3, requires_grad=True)
    outcomes[name] = relu_behind(layer, numbers)
    print(f"{name:12}", outcomes[name])
