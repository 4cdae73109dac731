"""
Fine-tune a model: freeze layers, replace the head
==================================================

A reader of digits learns letters: a new head, a frozen body, two rates.
"""

# %% pretrained
import torch
from torch import nn, optim
from torch.nn import functional as F

ROWS = {  # each character has five rows of three bits
    "digits": "75557 26227 71747 71717 55711 74717 74757 71111 75757 75717",
    "letters": "25755 74447 74647 55755 44447",
}


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


digits, names = draw("digits", 60, seed=0)
torch.manual_seed(1)
model = Reader(classes=10)
optimizer = optim.AdamW(model.parameters(), lr=0.01)
for _ in range(100):
    some = torch.randint(600, (32,))
    optimizer.zero_grad()
    F.cross_entropy(model(digits[some]), names[some]).backward()
    optimizer.step()
trained = model.state_dict()

letters, labels = draw("letters", 3, seed=0)
unseen = draw("letters", 30, seed=99)

# %% replace
model = Reader(classes=10)  # as it was trained
model.load_state_dict(trained)  # or torch.load("digits.pt")
model.requires_grad_(False)  # freeze all of it
model.head = nn.Linear(model.head.in_features, 5)  # this layer learns
optimizer = optim.AdamW(model.head.parameters(), lr=0.03)

# %% train-the-head
for _ in range(20):
    model.train()
    model.body.eval()  # BatchNorm and dropout hold still
    optimizer.zero_grad()
    F.cross_entropy(model(letters), labels).backward()
    optimizer.step()


# %% fit
def fit(model, optimizer, data, steps, still=True):
    pictures, labels = data
    for _ in range(steps):
        model.train()
        if still:
            model.body.eval()
        optimizer.zero_grad()
        F.cross_entropy(model(pictures), labels).backward()
        optimizer.step()


def accuracy(model, data):
    pictures, labels = data
    model.eval()
    with torch.no_grad():
        guesses = model(pictures).argmax(dim=1)
    return (guesses == labels).double().mean().item()


print(f"right: {accuracy(model, unseen):.2f}")

# %% unfreeze
model.body.requires_grad_(True)
optimizer.add_param_group({"params": model.body.parameters(), "lr": 0.001})
fit(model, optimizer, (letters, labels), steps=20)

print(f"right: {accuracy(model, unseen):.2f}")

# %% drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(2, 5, figsize=(6, 2.7), layout="constrained")
for row, kind in zip(panels, ROWS, strict=True):
    for axes, picture in zip(row, draw(kind, 1, seed=4)[0], strict=False):
        axes.imshow(picture[0], cmap="gray", vmin=-2.5, vmax=2.5)
        axes.set_axis_off()
figure.suptitle("Five digits of the first task, and the letters A C E H L")
plt.show()


# %% ways
def fine_tune(seed, rates, rate=0.03, loaded=True, still=True):
    torch.manual_seed(seed)
    model, curve = Reader(10), []
    if loaded:
        model.load_state_dict(trained)
    model.head = nn.Linear(32, 5)
    groups = [{"params": part.parameters()} for part in model.children()]
    optimizer, few = optim.AdamW(groups, lr=rate), draw("letters", 3, seed)
    for body_rate in rates:
        optimizer.param_groups[0]["lr"] = body_rate
        model.body.requires_grad_(body_rate > 0)
        fit(model, optimizer, few, 5, still)
        curve.append(accuracy(model, unseen))
    return model, curve


def digits_again(model):
    again = Reader(10)
    again.load_state_dict(trained)
    again.body.load_state_dict(model.body.state_dict())
    return accuracy(again, draw("digits", 30, seed=1))


scratch = {"rate": 0.01, "loaded": False, "still": False}
ways = {
    "from scratch": {"rates": [0.01] * 4, **scratch},
    "frozen body": {"rates": [0.0] * 4},
    "frozen, but without eval()": {"rates": [0.0] * 4, "still": False},
    "then the body at 0.001": {"rates": [0.0, 0.0, 0.001, 0.001]},
    "then the body at 0.03": {"rates": [0.0, 0.0, 0.03, 0.03]},
}
runs = {
    name: [fine_tune(seed, **way) for seed in (0, 1, 2)]
    for name, way in ways.items()
}
print("                           letters  digits")
for name, results in runs.items():
    new = sum(curve[-1] for _, curve in results) / 3
    old = sum(digits_again(model) for model, _ in results) / 3
    print(f"{name:26} {new:7.0%} {old:7.0%}")

# %% ways-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
colors = ["k", "#0072B2", "#56B4E9", "#009E73", "#D55E00"]
for color, (name, results) in zip(colors, runs.items(), strict=True):
    curve = torch.tensor([curve for _, curve in results]).mean(dim=0)
    axes.plot(range(5, 21, 5), curve, "o-", color=color, label=name)
axes.set(xlabel="steps", ylabel="share of the letters that is right")
axes.set(xticks=range(5, 21, 5), ylim=(0, 1))
axes.set_title("Five ways to learn letters, mean of three runs")
figure.legend(loc="outside lower center", ncols=2)
plt.show()


# %% saved
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


def saved_if(*learning):
    model = Reader(10)
    model.load_state_dict(trained)
    model.eval().requires_grad_(False)
    for part in learning:
        model.get_submodule(part).requires_grad_(True)
    return saved_bytes(model, unseen[0])[0]


parts = {
    "the head": ["head"],
    "the second convolution": ["body.4"],
    "the first convolution": ["body.0"],
    "everything": [""],
}
print("if this learns         bytes saved")
for name, learning in parts.items():
    print(f"{name:22} {saved_if(*learning):11,}")


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
weights, before = model.body[0].weight.detach().clone(), features_of(model)
fit(model, optimizer, (letters, labels), steps=20, still=False)
moved = features_of(model)

print("weights moved by", (model.body[0].weight - weights).abs().max().item())
print(before[0, :4], moved[0, :4], sep="\n")

# %% still-body
model, optimizer = new_reader()
fit(model, optimizer, (letters, labels), steps=20)
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
    F.cross_entropy(model(letters), labels).backward()
except RuntimeError as error:
    message = str(error)

print(message)

# %% not-added
# Wrong on purpose: do not copy.
model, optimizer = new_reader()
model.body.requires_grad_(True)
weights, sizes = model.body[0].weight.detach().clone(), []
for _ in range(3):
    fit(model, optimizer, (letters, labels), steps=1)
    sizes.append(model.body[0].weight.grad.abs().sum().item())

print("weights moved by", (model.body[0].weight - weights).abs().max().item())
print("sizes of its gradient:", [round(size, 1) for size in sizes])

# %% features-once
model, optimizer = new_reader()
with torch.no_grad():
    features = model.body.eval()(letters)  # once
for _ in range(20):
    optimizer.zero_grad()
    F.cross_entropy(model.head(features), labels).backward()
    optimizer.step()

print(f"right: {accuracy(model, unseen):.2f}")

# %% counted
model, optimizer = new_reader()
counted = model.body[1].num_batches_tracked
before = counted.item()
model.requires_grad_(False).train()
with torch.no_grad():
    for _ in range(3):
        model(letters)
print(counted.item() - before)


# %% all-but
def all_but(model, head):
    own = {id(p) for p in model.get_submodule(head).parameters()}
    return [p for p in model.parameters() if id(p) not in own]


# %% all-but-checked
layers = {"fc": nn.Linear(3, 5), "fc2": nn.Linear(3, 3)}
whole = nn.ModuleDict(layers)
whole.token = nn.Parameter(torch.zeros(3))
rest = list(all_but(whole, "fc"))
found = {id(p) for p in rest}
if found & {id(p) for p in whole["fc"].parameters()}:
    print("The head's own parameters are in the list.")
elif id(whole["fc2"].bias) not in found:
    print("The layer fc2 is missing, but it isn't the head.")
elif id(whole.token) not in found:
    print("A parameter that belongs to no layer is missing.")
elif len(rest) != 3:
    print("Each parameter should be in the list once.")
else:
    print("Right: three parameters, and the head's are not among them.")
