"""
Build a model with nn.Module
============================

A digit classifier, and what a module knows of its layers and numbers.
"""

# %% do-this
import torch
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(784, 64)
        self.scores = nn.Linear(64, 10)

    def forward(self, images):
        return self.scores(self.hidden(images.flatten(start_dim=1)).relu())


model = Network()

# %% call-it
torch.manual_seed(0)
images = torch.rand(32, 1, 28, 28)

print(model(images).shape)


# %% by-hand
class Module:
    def __init__(self):
        vars(self)["registered"] = {}  # 1

    def __setattr__(self, name, value):
        vars(self)[name] = value
        if name in self.registered or isinstance(value, nn.Parameter | Module):
            self.registered[name] = value  # 2

    def register_buffer(self, name, tensor):
        vars(self)[name] = self.registered[name] = tensor  # 3

    def named(self, kind=torch.Tensor, path=""):
        for name, each in self.registered.items():
            if isinstance(each, Module):
                yield from each.named(kind, f"{path}{name}.")  # 4
            elif isinstance(each, kind):
                yield path + name, each  # 5

    def to(self, where):
        for _, tensor in self.named():
            tensor.data = tensor.data.to(where)  # 6


# %% compare
def build(Module):
    class Scale(Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(3))
            self.register_buffer("mean", torch.zeros(3))
            self.offset = torch.ones(3)

    class Model(Module):
        def __init__(self):
            super().__init__()
            self.first = Scale()
            self.others = [Scale(), Scale()]

    return Model()


ours, real = build(Module), build(nn.Module)
print("parameters, ours:", list(dict(ours.named(nn.Parameter))))
print("parameters, real:", list(dict(real.named_parameters())))
print("state dict, ours:", list(dict(ours.named())))
print("state dict, real:", list(dict(real.state_dict())))

for module in (ours, real):
    module.to(torch.float64)
    scale = module.first
    print(scale.gain.dtype, scale.mean.dtype, scale.offset.dtype)


# %% block
class Block(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3)
        self.norm = nn.BatchNorm2d(channels_out)
        self.pool = nn.MaxPool2d(2)

    def forward(self, images):
        return self.pool(self.norm(self.conv(images)).relu())


# %% digits
class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block(1, 8)
        self.second = Block(8, 16)
        self.head = nn.Linear(400, 10)

    def forward(self, images):
        features = self.second(self.first(images))
        return self.head(features.flatten(start_dim=1))


digits = Digits()


# %% count
def count(module):
    return sum(each.numel() for each in module.parameters())


print(count(digits))

# %% branches
tree = []


def add(module, name, depth=0, above=0):
    row = len(tree)
    tree.append((depth, above, name, module))
    for child, layer in module.named_children():
        add(layer, child, depth + 1, row)


add(digits, "digits")

# %% tree-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
for row, (depth, above, name, layer) in enumerate(tree):
    ink = "#D55E00" if list(layer.parameters(recurse=False)) else "#0072B2"
    text = f"{name}: {type(layer).__name__}, {count(layer):,}"
    ax.text(depth, -row, text, color=ink, bbox={"fc": "none", "ec": ink})
    if depth:
        left, y = depth - 0.9, 0.1 - row
        ax.plot([left, left, depth - 0.05], [-above - 0.2, y, y], "k", lw=1)
ax.set(title="Parameter counts (orange: has some of its own)")
ax.set(xlim=(-0.1, 3.4), ylim=(-len(tree), 1))
ax.axis("off")
plt.show()


# %% shapes-of
def shapes_of(model, inputs):
    shapes, handles = {}, []
    for name, layer in model.named_modules():

        def note(layer, inputs, output, name=name):
            if isinstance(output, torch.Tensor):  # or a tuple: of an LSTM
                shapes[name] = tuple(output.shape)

        handles.append(layer.register_forward_hook(note))
    try:
        model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return shapes


# %% shapes
shapes = shapes_of(digits, images)

# %% shapes-table
import pandas as pd

rows = {}
for name, layer in digits.named_modules():
    kind = type(layer).__name__
    rows[name or "(the whole model)"] = {
        "layer": kind,
        "output": str(shapes[name]),
    }
pd.DataFrame.from_dict(rows, orient="index")

# %% read-a-layer
read = {}


def keep(layer, inputs, output):
    read["second"] = output.detach()


handle = digits.second.register_forward_hook(keep)
digits(images)
handle.remove()

print(read["second"].shape)


# %% normalize
class Normalize(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(28))
        self.register_buffer("mean", torch.tensor([0.5]))
        self.register_buffer("frame", torch.ones(28), persistent=False)
        self.offset = torch.zeros(1)

    def forward(self, images):
        centered = (images - self.mean) * self.frame
        return centered * self.gain + self.offset


# %% kinds
trained, moved = Normalize(), Normalize().to("meta")
optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
trained(images).square().mean().backward()
optimizer.step()

start, kinds = Normalize(), {}
for name in ("gain", "mean", "frame", "offset"):
    step = getattr(trained, name) - getattr(start, name)
    kinds[name] = {
        "a step changes it by": step.abs().max().item(),
        "in the state_dict": ("no", "yes")[name in trained.state_dict()],
        'after to("meta") on': getattr(moved, name).device.type,
    }

# %% kinds-table
import pandas as pd

pd.DataFrame.from_dict(kinds, orient="index")

# %% layer-or-function
from torch.nn import functional as F

numbers = torch.linspace(-2, 2, 5)

print(nn.ReLU()(numbers), F.relu(numbers), numbers.relu(), sep="\n")

# %% function-in-sequential
# Wrong on purpose: do not copy.
try:
    nn.Sequential(nn.Linear(4, 8), F.relu)
except TypeError as error:
    print("TypeError:", error)


# %% in-a-list
# Wrong on purpose: do not copy.
class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [Block(1, 8), Block(8, 16)]
        self.head = nn.Linear(400, 10)

    def forward(self, images):
        for block in self.blocks:
            images = block(images)
        return self.head(images.flatten(start_dim=1))


# %% listed
listed = Listed()

print(listed(images).shape, count(listed), list(listed.state_dict()))

# %% module-list
listed.blocks = nn.ModuleList(listed.blocks)

print(listed(images).shape, count(listed), len(listed.state_dict()))


# %% no-super
# Wrong on purpose: do not copy.
class Hasty(nn.Module):
    def __init__(self):
        self.head = nn.Linear(400, 10)
        super().__init__()


try:
    Hasty()
except AttributeError as error:
    hasty = error
    print(error)

# %% wrong-features
# Wrong on purpose: do not copy.
wrong = Digits()
wrong.head = nn.Linear(784, 10)

try:
    wrong(images)
except RuntimeError as error:
    refusal = error
    print(error)

# %% lazy
lazy = Digits()
lazy.head = nn.LazyLinear(10)
print(lazy.head)

lazy(torch.rand(32, 1, 32, 32))
print(lazy.head)


# %% mixed
class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(2, 3))
        self.doubled = self.gain * 2
        self.layers = (nn.Linear(3, 5), nn.Linear(5, 3))
        self.last = nn.Linear(3, 1)


print(count(Mixed()))


# %% standardize
class Standardize(nn.Module):
    def __init__(self, images):
        super().__init__()
        self.register_buffer("mean", images.mean())
        self.register_buffer("std", images.std())

    def forward(self, images):
        return (images - self.mean) / self.std


# %% standardize-checked
standardize = Standardize(5 + 2 * images)
result = standardize(5 + 2 * images)
if not (result.mean().abs() < 1e-4 and (result.std() - 1).abs() < 1e-4):
    print("Mean and std should be 0 and 1:", result.mean(), result.std())
elif list(standardize.parameters()):
    print("An optimizer would train", list(standardize.parameters()))
elif len(standardize.state_dict()) != 2:
    print("A saved model would lack numbers:", standardize.state_dict())
elif any(x.device.type != "meta" for x in standardize.to("meta").buffers()):
    print("Something stays behind when the model moves.")
else:
    print("Right: both numbers are saved and moved, and neither is trained.")
