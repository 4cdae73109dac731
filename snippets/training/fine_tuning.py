"""
Fine-tune a model
=================

A reader of digits learns letters: a new head, a frozen body, two rates.
"""

# %% characters
from copy import deepcopy

import torch
from torch import nn, optim
from torch.nn import functional as F

ROWS = {  # each character has five rows of three bits
    "digits": "75557 26227 71747 71717 55711 74717 74757 71111 75757 75717",
    "letters": "25755 74447 74647 55755 44447",
}


# %% draw
def draw(kind, each, seed):
    torch.manual_seed(seed)
    rows = [[int(row) for row in shape] for shape in ROWS[kind].split()]
    shapes = (torch.tensor(rows)[..., None] >> torch.tensor([2, 1, 0])) & 1
    labels = torch.arange(each * len(shapes)) % len(shapes)
    pictures = 0.3 * torch.randn(len(labels), 1, 8, 8)
    for picture, label in zip(pictures, labels, strict=True):
        y, x, ink = torch.randint(4, (3,)).tolist()
        color = 2 if ink % 2 else -2
        picture[0, y : y + 5, x : x + 3] += color * shapes[label]
    return pictures, labels


# %% drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(2, 5, figsize=(6, 2.7), layout="constrained")
for row, kind in zip(panels, ROWS, strict=True):
    for axes, picture in zip(row, draw(kind, 1, seed=4)[0], strict=False):
        axes.imshow(picture[0], cmap="gray", vmin=-2.5, vmax=2.5)
        axes.set_axis_off()
figure.suptitle("Five digits of the first task, and the letters A C E H L")
plt.show()


# %% reader
class Reader(nn.Module):
    def __init__(self, classes):
        super().__init__()
        first = nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU()
        second = nn.Conv2d(24, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()
        ends = nn.AdaptiveMaxPool2d(1), nn.Flatten()
        self.body = nn.Sequential(*first, nn.MaxPool2d(2), *second, *ends)
        self.head = nn.Linear(32, classes)

    def forward(self, pictures):
        return self.head(self.body(pictures))


# %% pretrain
pictures, labels = draw("digits", 60, seed=0)
torch.manual_seed(1)
model = Reader(classes=10)
optimizer = optim.AdamW(model.parameters(), lr=0.01)
for _ in range(100):
    some = torch.randint(600, (32,))
    optimizer.zero_grad()
    F.cross_entropy(model(pictures[some]), labels[some]).backward()
    optimizer.step()
trained = model.state_dict()

# %% replace
model = Reader(classes=10)  # as it was trained
model.load_state_dict(trained)  # or torch.load("digits.pt")
model.requires_grad_(False)  # freeze all,
model.head = nn.Linear(model.head.in_features, 5)  # then replace the head,
optimizer = optim.AdamW(model.head.parameters(), lr=0.03)  # then this

learning = sum(p.numel() for p in model.parameters() if p.requires_grad)
print(learning, "of", sum(p.numel() for p in model.parameters()))


# %% fit
def fit(model, optimizer, data, steps, still=True):
    pictures, labels = data
    for _ in range(steps):
        model.train()
        if still:
            model.body.eval()  # BatchNorm and dropout hold still
        optimizer.zero_grad()
        F.cross_entropy(model(pictures), labels).backward()
        optimizer.step()


# %% accuracy
def accuracy(model, data):
    pictures, labels = data
    model.eval()
    with torch.no_grad():
        guesses = model(pictures).argmax(dim=1)
    return (guesses == labels).double().mean().item()


# %% train-the-head
letters, unseen = draw("letters", 3, seed=0), draw("letters", 30, seed=99)
fit(model, optimizer, letters, steps=20)

print(f"right: {accuracy(model, unseen):.2f}")

# %% unfreeze
model.body.requires_grad_(True)
optimizer.add_param_group({"params": model.body.parameters(), "lr": 0.001})
fit(model, optimizer, letters, steps=20)

print(f"right: {accuracy(model, unseen):.2f}")


# %% fine-tune
def fine_tune(seed, rates, rate=0.03, loaded=True, still=True):
    torch.manual_seed(seed)
    model, curve = Reader(10), []
    if loaded:
        model.load_state_dict(trained)
    model.head = nn.Linear(32, 5)
    groups = [{"params": part.parameters()} for part in model.children()]
    optimizer, few = optim.AdamW(groups, lr=rate), draw("letters", 3, seed)
    for optimizer.param_groups[0]["lr"] in rates:
        model.body.requires_grad_(optimizer.param_groups[0]["lr"] > 0)
        fit(model, optimizer, few, 5, still)
        curve.append(accuracy(model, unseen))
    return model, curve


# %% digits-again
def digits_again(model):
    again = Reader(10)
    again.load_state_dict(trained)
    again.body.load_state_dict(model.body.state_dict())
    return accuracy(again, draw("digits", 30, seed=1))


# %% ways
scratch = {"rate": 0.01, "loaded": False, "still": False}
ways = {
    "from scratch": {"rates": [0.01] * 4, **scratch},
    "frozen body": {"rates": [0.0] * 4},
    "then the body at 0.001": {"rates": [0.0, 0.0, 0.001, 0.001]},
    "then the body at 0.03": {"rates": [0.0, 0.0, 0.03, 0.03]},
}
runs = {
    name: [fine_tune(seed, **way) for seed in (0, 1, 2)]
    for name, way in ways.items()
}

# %% ways-drawn
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(
    1, 2, sharey=True, figsize=(7.5, 4), layout="constrained"
)
colors = ["k", "#0072B2", "#009E73", "#D55E00"]
steps = range(5, 21, 5)
for place, (name, results) in enumerate(runs.items()):
    curves = torch.tensor([curve for _, curve in results])
    style = {"color": colors[place], "label": name}
    left.plot(steps, curves.mean(dim=0), "o-", **style)
    if place:
        again = [digits_again(model) for model, _ in results]
        right.plot([place] * 3, again, "o", color=colors[place])
left.set(xlabel="steps", ylabel="share that is right", xticks=steps)
left.set_title("new letters, mean of three runs")
right.set(title="digits after 20 steps, each run", xticks=[], xlim=(0.5, 3.5))
left.set_ylim(0, 1)
handles = left.get_legend_handles_labels()
figure.legend(*handles, loc="outside lower center", ncols=2)
figure.suptitle("Four ways to learn letters, three runs each")
plt.show()


# %% saved-bytes
def saved_bytes(model, pictures):
    sizes = {}

    def pack(tensor):
        sizes[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        outputs = model(pictures)
    for parameter in model.parameters():
        sizes.pop(parameter.data_ptr(), None)
    return sum(sizes.values()), outputs


# %% what-learns
def saved_if(*learning):
    model = Reader(10)
    model.load_state_dict(trained)
    model.eval().requires_grad_(False)
    for part in learning:
        model.get_submodule(part).requires_grad_(True)
    return saved_bytes(model, unseen[0])[0]


# %% saved
import pandas as pd

parts = {
    "all": [""],
    "head": ["head"],
    "second convolution, head": ["body.4", "head"],
    "first convolution": ["body.0"],
}
rows = {name: [saved_if(*learning)] for name, learning in parts.items()}

pd.DataFrame.from_dict(rows, orient="index", columns=["bytes saved"])


# %% new-reader
def new_reader():
    torch.manual_seed(0)
    model = Reader(10)
    model.load_state_dict(trained)
    model.body.requires_grad_(False)
    model.head = nn.Linear(32, 5)
    return model, optim.AdamW(model.head.parameters(), lr=0.03)


def features_of(model):
    model.eval()
    with torch.no_grad():
        return model.body(unseen[0])


# %% moving-body
# Wrong on purpose: do not copy.
model, optimizer = new_reader()
weights, before = deepcopy(model.body[0].weight), features_of(model)
fit(model, optimizer, letters, steps=20, still=False)
moved = features_of(model)

print("weights moved by", (model.body[0].weight - weights).abs().max().item())
print(before[0, :4], moved[0, :4], sep="\n")

# %% still-body
model, optimizer = new_reader()
fit(model, optimizer, letters, steps=20)
stayed = features_of(model)

print(before[0, :4], stayed[0, :4], sep="\n")

# %% attribute
# Wrong on purpose: do not copy.
model = Reader(10)
model.body.requires_grad = False

print([p.requires_grad for p in model.body.parameters()])

# %% method
model.body.requires_grad_(False)

print([p.requires_grad for p in model.body.parameters()])

# %% frozen-head
# Wrong on purpose: do not copy.
model = Reader(10)
model.head = nn.Linear(32, 5)
model.requires_grad_(False)
message = "no error"
try:
    F.cross_entropy(model(letters[0]), letters[1]).backward()
except RuntimeError as error:
    message = str(error)

print(message)

# %% not-added
# Wrong on purpose: do not copy.
model, optimizer = new_reader()
model.body.requires_grad_(True)
weights, sizes = deepcopy(model.body[0].weight), []
for _ in range(3):
    fit(model, optimizer, letters, steps=1)
    sizes.append(model.body[0].weight.grad.abs().sum().item())

print("weights moved by", (model.body[0].weight - weights).abs().max().item())
print("sizes of its gradient:", [round(size, 1) for size in sizes])

# %% other-classes
# Wrong on purpose: do not copy.
model = Reader(classes=5)
message = "no error"
try:
    model.load_state_dict(trained, strict=False)
except RuntimeError as error:
    message = str(error)

print(message)


# %% all-but
def all_but(model, head):  # such as all_but(model, "fc")
    own = {id(p) for p in model.get_submodule(head).parameters()}
    return [p for p in model.parameters() if id(p) not in own]


body = all_but(model, "head")

print(sum(p.numel() for p in body))

# %% features-once
model, optimizer = new_reader()
with torch.no_grad():
    features = model.body.eval()(letters[0])  # once
for _ in range(20):
    optimizer.zero_grad()
    F.cross_entropy(model.head(features), letters[1]).backward()
    optimizer.step()

print(f"right: {accuracy(model, unseen):.2f}")
