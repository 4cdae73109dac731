"""
Initialize weights: Kaiming and PyTorch's defaults
==================================================

What the first weights do to numbers and gradients over twenty layers.
"""

# %% digits
import math

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

images = torch.tensor(load_digits().data[:300], dtype=torch.float32) / 16
labels = torch.tensor(load_digits().target[:300])


def deep(count=20, seed=1, block=nn.Sequential, norm=nn.Identity):
    torch.manual_seed(seed)
    layers = [(nn.Linear(64, 64), norm(64), nn.ReLU()) for _ in range(count)]
    return nn.Sequential(*(block(*each) for each in layers), nn.Linear(64, 10))


def train(model, steps=30):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


model = deep()


# %% initialize
def initialize(layer):
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


model.apply(initialize)

# %% losses
losses = {"PyTorch's": train(deep())}
losses["Kaiming's"] = train(deep().apply(initialize))
for name, each in losses.items():
    print(f"{name}: loss {each[0]:.2f}, after 30 steps {each[-1]:.2f}")
print(f"a guess: loss {math.log(10):.2f}")


# %% by-hand
@torch.no_grad()
def default(layer):  # as PyTorch draws
    n = layer.weight[0].numel()  # 1
    bound = 1 / n**0.5  # 2
    layer.weight.uniform_(-bound, bound)  # 3
    layer.bias.uniform_(-bound, bound)


@torch.no_grad()
def kaiming(layer):  # as `initialize` draws
    n = layer.weight[0].numel()
    layer.weight.normal_(0, (2 / n) ** 0.5)  # 4
    layer.bias.zero_()


def after(square, n, std, bias_std=0.0):  # the mean square after a ReLU
    return (n * std**2 * square + bias_std**2) / 2  # 5


# %% compare
def same(layer, *draws):
    drawn = []
    for draw in draws:
        torch.manual_seed(2)
        draw(layer)
        drawn.append([each.clone() for each in layer.parameters()])
    return all(map(torch.equal, *drawn))


for layer in (nn.Linear(64, 10), nn.Conv2d(3, 8, 5)):
    name = type(layer)
    print(name.__name__, same(layer, name.reset_parameters, default), end=" ")
    print(same(layer, initialize, kaiming))

# %% measures
starts = {  # the standard deviations of weights and biases
    "PyTorch's": (1 / 192**0.5, 1 / 192**0.5),
    "0.02": (0.02, 0.0),
    "0.5": (0.5, 0.0),
    "Kaiming's": ((2 / 64) ** 0.5, 0.0),
}


def started(name, seed=1):
    model = deep(seed=seed)
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and name != "PyTorch's":
            nn.init.normal_(layer.weight, std=starts[name][0])
            nn.init.zeros_(layer.bias)
    return model


@torch.no_grad()
def measured(model):
    numbers, sizes, spreads = images, [], []
    for layer in model[:-1]:
        numbers = layer(numbers)
        sizes.append(numbers.double().square().mean().sqrt().item())
        spreads.append(numbers.double().std(dim=0).mean().item())
    return sizes, spreads


def gradients(model):
    F.cross_entropy(model(images), labels).backward()
    return [each[0].weight.grad.norm().item() for each in model[:-1]]


# %% predicted
predicted, sizes, spreads = {}, {}, {}
for name, (std, bias_std) in starts.items():
    square = images.square().mean().item()
    for _ in range(20):
        square = after(square, 64, std, bias_std)
    predicted[name] = square**0.5
    sizes[name], spreads[name] = measured(started(name))
    print(f"{name:9} predicted {predicted[name]:7.2g}", end="  ")
    print(f"measured {sizes[name][-1]:7.2g}", end="  ")
    print(f"pictures differ by {round(spreads[name][-1], 6):.2g}")

# %% backward
backward = {name: gradients(started(name)) for name in starts}
for name, each in backward.items():
    print(f"{name:9} {each[-1]:7.2g} at layer 20, {each[0]:7.2g} at layer 1")

# %% drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
looks = ("k", "--"), ("k", ":"), ("#D55E00", "-"), ("#0072B2", "-")
for shown, values in zip(axes, (spreads, backward), strict=True):
    for (name, each), (color, dash) in zip(values.items(), looks, strict=True):
        shown.semilogy(range(1, 21), each, dash, color=color, label=name)
    shown.set_xticks((1, 5, 10, 15, 20))
    shown.set_xlabel("layer")
axes[0].set_title("How much the pictures differ")
axes[1].set_title("Size of the gradient")
axes[1].legend(fontsize="small")
plt.show()

# %% defaults
layers = [nn.Linear(64, 10), nn.Conv2d(3, 8, 5), nn.LSTM(16, 25)]
layers += [nn.Embedding(500, 20, padding_idx=0), nn.BatchNorm1d(9)]

for layer in layers:
    print(layer)
    for name, each in layer.named_parameters():
        print(f"    {name}: {each.min():.2f} to {each.max():.2f}")

# %% zeros
# Wrong on purpose: do not copy.
zeros = deep(2)
for parameter in zeros.parameters():
    nn.init.zeros_(parameter)
stuck = train(zeros)

moved = [name for name, each in zeros.named_parameters() if each.any()]
print(f"loss {stuck[0]:.3f}, after 30 steps {stuck[-1]:.3f}, moved: {moved}")

# %% equal-units
# Wrong on purpose: do not copy.
equal = deep(1)
nn.init.constant_(equal[0][0].weight, 0.01)
nn.init.zeros_(equal[0][0].bias)
nn.init.constant_(equal[1].weight, 0.1)
train(equal)

print(equal[0][0].weight[:3, 18:22])


# %% residual
class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


kept = train(deep(block=Residual))
spoiled = train(deep(block=Residual).apply(initialize))  # wrong on purpose
print(f"as PyTorch draws: loss {kept[0]:.1f}, then {kept[-1]:.2f}")
print(f"initialized: loss {spoiled[0]:.0f}, then {spoiled[-1]:.0f}")

# %% fan-in
# Wrong on purpose: do not copy.
try:
    nn.init.kaiming_normal_(model[0][0].bias)
except ValueError as error:
    print(error)

# %% arrived
arrived = {
    "four layers": gradients(deep(4)),
    "BatchNorm": gradients(deep(norm=nn.BatchNorm1d)),
    "LayerNorm": gradients(deep(norm=nn.LayerNorm)),
    "residual": gradients(deep(block=Residual)),
}
for name, each in arrived.items():
    print(f"{name:11} first layer / last layer: {each[0] / each[-1]:.2g}")

# %% one-eighth
print(f"{after(1.0, 64, 1 / 8)}, after 20 layers {0.5**20:.1g}")


# %% scaled
@torch.no_grad()
def scaled(model, batch):
    for block in model[:-1]:
        block[0].weight /= block(batch).square().mean().sqrt()
        batch = block(batch)
    return model


# %% scaled-checked
sizes_now, _ = measured(scaled(started("0.5"), images))
if not all(0.5 < each < 2 for each in sizes_now):
    print("Some layers still give large or small numbers:", sizes_now)
else:
    lost = train(scaled(started("0.5"), images))
    print(f"All sizes are near 1, and the loss falls to {lost[-1]:.2f}.")
