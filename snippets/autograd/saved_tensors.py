"""
What autograd saves
===================

Which tensors an operation saves for the backward pass, and which ones you may
overwrite.
"""

# %% do-this
import torch
from torch import nn

saved = []


def note(tensor):
    saved.append(tensor)
    return tensor


x = torch.tensor([3.0, 4.0], requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
    squares = x**2
print(saved)

# %% no-copy
# Wrong on purpose: do not copy.
root = torch.tensor(16.0, requires_grad=True).sqrt()
saved = root.grad_fn._saved_result
print("saved:", saved.item())
root += 5
print("saved:", saved.item())

# %% operations
operations = {
    "x + y": lambda x, y: x + y,
    "3 * x": lambda x, y: 3 * x,
    "x.sum()": lambda x, y: x.sum(),
    "x * y": lambda x, y: x * y,
    "x.square()": lambda x, y: x.square(),
    "x.log()": lambda x, y: x.log(),
    "x.exp()": lambda x, y: x.exp(),
    "x.tanh()": lambda x, y: x.tanh(),
    "x.sigmoid()": lambda x, y: x.sigmoid(),
    "x.softmax(0)": lambda x, y: x.softmax(0),
    "x.relu()": lambda x, y: x.relu(),
}


# %% saved-by
def saved_by(operation, **tensors):
    memory = set()
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: memory.add(tensor.data_ptr()), lambda nothing: nothing
    ):
        tensors["result"] = operation(*tensors.values())
    return [name for name, t in tensors.items() if t.data_ptr() in memory]


# %% found
x, y = torch.ones(2, 3, requires_grad=True)
found = {name: saved_by(each, x=x, y=y) for name, each in operations.items()}

# %% table
import pandas as pd

columns = {
    tensor: ["saved" if tensor in names else "" for names in found.values()]
    for tensor in ("x", "y", "result")
}
pd.DataFrame(columns, index=list(found))

# %% linear
layer, data = nn.Linear(3, 2), torch.ones(4, 3)
hidden = torch.ones(4, 3, requires_grad=True)
kept = {}
for name, inputs in {"data": data, "hidden": hidden}.items():
    kept[name] = saved_by(
        lambda inputs, weight: layer(inputs),
        inputs=inputs,
        weight=layer.weight,
    )
    print(name, "as inputs:", kept[name])


# %% raises
def raises(operation, overwritten):
    leaf = torch.ones(3, requires_grad=True)
    tensors = {"x": leaf * 2, "y": leaf * 3}
    tensors["result"] = operation(**tensors)
    total = tensors["result"].sum()
    tensors[overwritten].mul_(2)
    try:
        total.backward()
    except RuntimeError:
        return True
    return False


# %% overwrite-each
raising = {
    name: [each for each in ("x", "y", "result") if raises(operation, each)]
    for name, operation in operations.items()
}
differ = [name for name in operations if raising[name] != found[name]]
print("saved, but does not raise, or the reverse:", differ)

# %% slice
weight = torch.tensor(2.0, requires_grad=True)
hidden = weight * torch.ones(3)  # 2, 2, 2
first_two = hidden[:2]
first_two *= 3  # hidden is 6, 6, 2
hidden.sum().backward()
print(hidden.tolist(), "gradient:", weight.grad.item())


# %% several-views
# Wrong on purpose: do not copy.
def add_to_each(rows):
    for row in rows:
        row += 1


try:
    add_to_each(weight * torch.ones(3))
except RuntimeError as error:
    print(error)


# %% relu-behind
def relu_behind(layer, inputs):
    try:
        nn.functional.relu(layer(inputs), inplace=True).sum().backward()
    except RuntimeError:
        return "raises"
    return "trains"


# %% relu-behind-all
layers = [nn.Linear(3, 3), nn.BatchNorm1d(3), nn.LayerNorm(3), nn.Dropout()]
layers += [nn.Sigmoid(), nn.Tanh(), nn.Softmax(dim=1), nn.ReLU()]
outcomes = {}
for layer in layers:
    name, inputs = type(layer).__name__, torch.rand(2, 3, requires_grad=True)
    outcomes[name] = relu_behind(layer, inputs)
    print(f"{name:12}", outcomes[name])


# %% skip-connection
# Wrong on purpose: do not copy.
def skip(hidden):
    return hidden + nn.functional.relu(hidden, inplace=True)


hidden = torch.tensor([2.0, -3.0])
print("should be:", hidden + nn.functional.relu(hidden))
print("is:       ", skip(hidden))

# %% hooks
# Wrong on purpose: do not copy.
zero = torch.tensor(0.0, requires_grad=True)
with torch.autograd.graph.save_on_cpu():
    one = zero.exp()  # exp(0) = 1
one += 5
one.backward()
print("should be:", zero.exp().item(), "is:", zero.grad.item())

# %% which-raise
tries = {
    "hidden + 10": lambda hidden: hidden + 10,
    "10 * hidden": lambda hidden: 10 * hidden,
    "hidden**2": lambda hidden: hidden**2,
}
said = []
for name, operation in tries.items():
    hidden = 3 * torch.tensor(2.0, requires_grad=True)
    result = operation(hidden)
    hidden += 1
    try:
        result.backward()
    except RuntimeError:
        said.append(f"{name} raises")
print(*said, sep="\n")
