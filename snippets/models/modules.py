"""
Build a model
=============

A digit classifier, and what a module knows of its layers and numbers.
"""

# %% block
import torch
from torch import nn


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


# %% do-this
torch.manual_seed(0)
images = torch.rand(32, 1, 28, 28)

model = Digits()
scores = model(images)

print(scores.shape)


# %% count
def count(module):
    return sum(each.numel() for each in module.parameters())


print(count(model))


# %% branches
tree = []


def add(module, name, depth=0, above=0):
    row = len(tree)
    tree.append((depth, above, name, module))
    for child, layer in module.named_children():
        add(layer, child, depth + 1, row)


add(model, "model")

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
shapes = shapes_of(Digits(), images)

# %% shapes-table
import pandas as pd

rows = {}
for name, layer in model.named_modules():
    kind = type(layer).__name__
    rows[name or "(the model)"] = {"layer": kind, "output": str(shapes[name])}
pd.DataFrame.from_dict(rows, orient="index")

# %% read-a-layer
read = {}


def keep(layer, inputs, output):
    read["second"] = output.detach()


handle = model.second.register_forward_hook(keep)
model(images)
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
        "moves in a step by": step.abs().max().item(),
        "in the state_dict": ("no", "yes")[name in trained.state_dict()],
        'after to("meta") on': getattr(moved, name).device.type,
    }

# %% kinds-table
import pandas as pd

pd.DataFrame.from_dict(kinds, orient="index")

# %% layer-or-function
from torch.nn import functional as F

numbers = torch.linspace(-2, 2, 5)
rectified = nn.ReLU()(numbers), F.relu(numbers), numbers.relu()

print(*rectified, sep="\n")

# %% function-in-sequential
# Wrong on purpose: do not copy.
no_layer = None
try:
    nn.Sequential(nn.Linear(4, 8), F.relu)
except TypeError as error:
    no_layer = error
    print("TypeError:", error)

# %% freeze
frozen = Digits()
frozen.first.requires_grad_(False)

learning = [each for each in frozen.parameters() if each.requires_grad]
optimizer = torch.optim.AdamW(learning)


# %% distances
def distances(model, optimizer):
    before = {name: each.clone() for name, each in model.state_dict().items()}
    labels = torch.arange(len(images)) % 10
    model.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    return {
        name: (each - before[name]).abs().max().item()
        for name, each in model.state_dict().items()
    }


# %% frozen
moves = {"after requires_grad_(False)": distances(frozen, optimizer)}
frozen.first.eval()
moves["and eval()"] = distances(frozen, optimizer)

# %% frozen-table
import pandas as pd

pd.DataFrame(moves)

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

# %% forward
# Wrong on purpose: do not copy.
calls, noted = [], Digits()
noted.register_forward_hook(lambda *_: calls.append("model"))
noted.head.register_forward_hook(lambda *_: calls.append("head"))

noted.forward(images)
print(calls)

noted(images)
print(calls)

# %% replaced
# Wrong on purpose: do not copy.
renewed = Digits()
optimizer = torch.optim.AdamW(renewed.parameters())
renewed.head = nn.Linear(400, 10)

late = distances(renewed, optimizer)
print(late["second.conv.weight"], late["head.weight"])

# %% tied
twice = Block(8, 8)
tied = nn.Sequential(Block(1, 8), twice, twice)

print(count(tied), count(tied[0]) + count(twice))
print([name for name in tied.state_dict() if name.endswith("conv.weight")])
