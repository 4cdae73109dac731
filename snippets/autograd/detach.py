"""
Detach a tensor
===============

What ``detach`` cuts, where a cut belongs, and what it does not freeze.
"""

# %% apartments
import torch
from torch import nn, optim
from torch.nn import functional as F

torch.manual_seed(0)
apartments = torch.rand(64, 2)  # size, and distance from the center
prices = 4 * apartments[:, :1] * (1 - apartments[:, 1:])
encoder, head = nn.Sequential(nn.Linear(2, 6), nn.Tanh()), nn.Linear(6, 1)

# %% keep
loss = F.mse_loss(head(encoder(apartments)), prices)
kept = loss.detach()
print(loss, kept, sep="\n")

# %% by-hand
x, y = torch.tensor(1.0), torch.tensor(10.0)
encoder_weight = torch.tensor(3.0, requires_grad=True)
head_weight = torch.tensor(2.0, requires_grad=True)

hidden = encoder_weight * x  # 3 * 1 = 3
loss = (head_weight * hidden - y) ** 2  # (2 * 3 - 10) ** 2 = 16
loss.backward()
print("head:", head_weight.grad, "encoder:", encoder_weight.grad)

# %% cut
hidden = encoder_weight * x
cut = hidden.detach()
print(hidden, cut, sep="\n")

# %% gradients
head_weight.grad = encoder_weight.grad = None  # start again
loss = (head_weight * cut - y) ** 2
loss.backward()
print("head:", head_weight.grad, "encoder:", encoder_weight.grad)

# %% walk
whole_loss = (head_weight * hidden - y) ** 2
cut_loss = (head_weight * cut - y) ** 2


def walk(root):
    places, waiting = {}, [(root, (0, 0), (0, 0))]
    while waiting:
        node, place, origin = waiting.pop()
        met = node in places  # paths may join again
        x, y = places.setdefault(node, place)
        yield node, (x, y), origin
        for earlier, _ in () if met else node.next_functions:
            if earlier is not None:
                left = hasattr(earlier, "variable")  # a parameter
                waiting.append((earlier, (x - left, y - 1), (x, y)))


def label(node, loss):
    if not hasattr(node, "variable"):
        return node.name()
    weight = node.variable
    [gradient] = torch.autograd.grad(loss, weight, retain_graph=True)
    name = "encoder_weight" if weight is encoder_weight else "head_weight"
    return f"{name}\ngets {gradient:g}"


# %% two-graphs
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(5, 4), layout="constrained")
titles = ("Without detach", "With hidden detached")
for ax, loss, title in zip(axes, (whole_loss, cut_loss), titles, strict=True):
    for node, place, origin in walk(loss.grad_fn):
        color = "#D55E00" if hasattr(node, "variable") else "#0072B2"
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": color}
        ax.plot(*zip(origin, place, strict=True), "black", linewidth=1)
        ax.text(*place, label(node, loss), bbox=box, ha="center", size=9)
    ax.set(title=title, xlim=(-1.6, 0.6), ylim=(-4.3, 0.4))
    ax.axis("off")
plt.show()

# %% target
this_year, next_year = torch.rand(2, 64, 2)
prediction = head(encoder(this_year))
target = 0.2 + 0.9 * head(encoder(next_year))

for goal in (target, target.detach()):
    loss = F.mse_loss(prediction, goal)
    [gradient] = torch.autograd.grad(loss, head.bias, retain_graph=True)
    print("gradient of the head's bias:", gradient)

# %% chunks
months = torch.rand(8, 1)
rnn, readout = nn.RNN(1, 4), nn.Linear(4, 1)

state = torch.zeros(1, 4)
for chunk in months.split(4):
    output, state = rnn(chunk[:-1], state.detach())
    loss = F.mse_loss(readout(output[-1]), chunk[-1])
    loss.backward()
print(rnn.bias_hh_l0.grad)

# %% straight-through
price = torch.tensor([1.2, 2.7], requires_grad=True)
rounded = price.round()
through = price + (price.round() - price).detach()

for way, result in {"round": rounded, "straight-through": through}.items():
    [gradient] = torch.autograd.grad(result.sum(), price)
    print(f"{way}: {result.tolist()}, gradient {gradient.tolist()}")

# %% discriminator
generator, discriminator = nn.Linear(3, 2), nn.Linear(2, 1)
fake = generator(torch.randn(64, 3))
scores = discriminator(torch.cat([apartments, fake.detach()]))
is_real = torch.cat([torch.ones(64, 1), torch.zeros(64, 1)])
F.binary_cross_entropy_with_logits(scores, is_real).backward()

print("generator:", generator.bias.grad)
print("discriminator:", discriminator.bias.grad)


# %% cut-in-the-middle
# Wrong on purpose: do not copy.
class CutModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, 6), nn.Tanh())
        self.head = nn.Linear(6, 1)

    def forward(self, apartments):
        return self.head(self.encoder(apartments).detach())


# %% whole-model
class WholeModel(CutModel):
    def forward(self, apartments):
        return self.head(self.encoder(apartments))


# %% train
def train(model_class, seed):
    torch.manual_seed(seed)
    model = model_class()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    for _ in range(80):
        optimizer.zero_grad()
        loss = F.mse_loss(model(apartments), prices)
        loss.backward()
        optimizer.step()
    return loss.item()


# %% compare
import pandas as pd

losses = {
    f"seed {seed}": {
        "with the cut": round(train(CutModel, seed), 4),
        "without": round(train(WholeModel, seed), 4),
    }
    for seed in range(5)
}
pd.DataFrame.from_dict(losses, orient="index")

# %% find
model = CutModel()
F.mse_loss(model(apartments), prices).backward()

print([name for name, p in model.named_parameters() if p.grad is None])

# %% carried
# Wrong on purpose: do not copy.
state = torch.zeros(1, 4)
try:
    for chunk in months.split(4):
        output, state = rnn(chunk[:-1], state)
        F.mse_loss(readout(output[-1]), chunk[-1]).backward()
except RuntimeError as error:
    print(error)

# %% nothing-left
# Wrong on purpose: do not copy.
prediction = head(encoder(apartments)).detach()
try:
    F.mse_loss(prediction, prices).backward()
except RuntimeError as error:
    print(error)

# %% moves-anyway
# Wrong on purpose: do not copy.
optimizer = optim.SGD([encoder_weight, head_weight], lr=0.01)
head_weight.grad = encoder_weight.grad = None
for detached in (False, True):
    hidden = encoder_weight * x
    hidden = hidden.detach() if detached else hidden
    (head_weight * hidden - y).square().backward()
    optimizer.step()
    print(f"detached: {detached}, encoder_weight: {encoder_weight:.2f}")

# %% share
loss = F.mse_loss(head(encoder(apartments)), prices)
total, copy, number = loss.detach(), loss.detach().clone(), loss.item()
total += 100
print(loss, copy, number, sep="\n")

# %% to-numpy
prediction = head(encoder(apartments))[0]
try:
    prediction.numpy()
except RuntimeError as error:
    print(error)

print(prediction.detach().numpy())

# %% half-a-cut
weight = torch.tensor(3.0, requires_grad=True)
hidden = weight * 2
(hidden.detach() * hidden).backward()
print(weight.grad)

# %% not-an-error
output, labels = torch.randn(3, 16, requires_grad=True), torch.rand(1, 16)
differences = output - labels
[gradient] = torch.autograd.grad(differences.sum(), output)
print(differences.shape, gradient.unique())
