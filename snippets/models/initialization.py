"""
Initial weights
===============

What the first weights do to numbers and gradients over twenty layers.
"""

# %% pictures
import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
classes = torch.arange(100) % 4
pictures = torch.randn(4, 64)[classes] + 0.5 * torch.randn(100, 64)


# %% initialize
def initialize(layer):
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def twenty_layers():
    hidden = [nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(20)]
    return nn.Sequential(*hidden, nn.Linear(64, 4))


# %% do-this
model = twenty_layers()
model.apply(initialize)
first_loss = F.cross_entropy(model(pictures), classes).item()

print(f"first loss {first_loss:.2f}, a guess has {math.log(4):.2f}")

# %% deviations
deviations = {
    "as PyTorch does it": None,
    "deviation 0.02": 0.02,
    "deviation 0.5": 0.5,
    "Kaiming": math.sqrt(2 / 64),
}


# %% started
def started(deviation, seed=1):
    torch.manual_seed(seed)
    model = twenty_layers()
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and deviation:
            nn.init.normal_(layer.weight, std=deviation)
            nn.init.zeros_(layer.bias)
    return model


# %% differences
def differences(model):
    numbers, found = pictures, []
    for layer in model[:-1]:
        numbers = layer(numbers)
        found.append(numbers.std(dim=0).mean().item())
    return found


# %% forward
forward = {name: differences(started(d)) for name, d in deviations.items()}

for name, found in forward.items():
    print(f"{name}: {found[0]:.2g} after 1 layer, {found[-1]:.2g} after 20")

# %% forward-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
looks = ("k", "--"), ("k", ":"), ("#D55E00", "-"), ("#0072B2", "-")
for (name, found), (color, dash) in zip(forward.items(), looks, strict=True):
    axes.semilogy(range(1, 21), found, dash, color=color)
    axes.text(20.5, found[-1], name, va="center")
axes.set_xlim(0, 32)
axes.set_xticks((1, 5, 10, 15, 20))
axes.set_xlabel("layer")
axes.set_title("How much the pictures still differ")
plt.show()


# %% gradients
def gradients(model):
    F.cross_entropy(model(pictures), classes).backward()
    return [each[0].weight.grad.norm().item() for each in model[:-1]]


# %% backward
backward = {name: gradients(started(d)) for name, d in deviations.items()}

for name, found in backward.items():
    print(f"{name}: {found[-1]:.2g} at layer 20, {found[0]:.2g} at layer 1")

# %% defaults
layers = [nn.Linear(64, 4), nn.Conv2d(3, 8, 5), nn.LSTM(16, 25)]
layers += [nn.Embedding(500, 20), nn.BatchNorm1d(9), nn.LayerNorm(9)]

for layer in layers:
    for name, each in layer.named_parameters():
        scale = f"from {each.min():.2f} to {each.max():.2f}"
        print(type(layer).__name__, name, tuple(each.shape), scale)

# %% root-five
torch.manual_seed(2)
linear = nn.Linear(64, 300)
torch.manual_seed(2)
root_five = nn.init.kaiming_uniform_(torch.empty(300, 64), a=math.sqrt(5))

print("Linear   ", linear.weight[0, :4].tolist())
print("root five", root_five[0, :4].tolist())


# %% normalized
def normalized(factor):
    torch.manual_seed(1)
    linear = nn.Linear(64, 64, bias=False)
    with torch.no_grad():
        linear.weight *= factor
        numbers = linear(pictures)
        return numbers, nn.BatchNorm1d(64)(numbers), nn.LayerNorm(64)(numbers)


for factor in (1, 10, 100):
    plain, batch, layer = normalized(factor)
    print(f"{plain[0, 0]:.2f}, then {batch[0, 0]:.4f} or {layer[0, 0]:.4f}")


# %% fan-in
# Wrong on purpose: do not copy.
refused = {}
for name, parameter in twenty_layers().named_parameters():
    try:
        nn.init.kaiming_normal_(parameter)
    except ValueError as error:
        refused[name] = str(error)
print(len(refused), "times:", *set(refused.values()))


# %% train
def train(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    losses = []
    for _ in range(20):
        loss = F.cross_entropy(model(pictures), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% zeros
# Wrong on purpose: do not copy.
zeros = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 4))
for parameter in zeros.parameters():
    nn.init.zeros_(parameter)
stuck = train(zeros)

print(f"loss {stuck[0]:.4f}, after 20 steps {stuck[-1]:.4f}")

# %% equal-units
# Wrong on purpose: do not copy.
equal = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 4))
nn.init.constant_(equal[0].weight, 0.01)
nn.init.zeros_(equal[0].bias)
nn.init.constant_(equal[2].weight, 0.1)
train(equal)

print(equal[0].weight[:3, :4])

# %% losses
names = ("as PyTorch does it", "Kaiming")
losses = {name: train(started(deviations[name])) for name in names}

for name, found in losses.items():
    print(f"{name}: loss {found[0]:.3f}, after 20 steps {found[-1]:.4f}")


# %% helped
class Residual(nn.Sequential):
    def forward(self, numbers):
        return numbers + super().forward(numbers)


def helped(name, count=20, seed=1):
    torch.manual_seed(seed)
    kind = Residual if name == "residual" else nn.Sequential
    norms = {"BatchNorm": nn.BatchNorm1d, "LayerNorm": nn.LayerNorm}
    norm = norms.get(name, nn.Identity)
    layers = [(nn.Linear(64, 64), norm(64), nn.ReLU()) for _ in range(count)]
    return nn.Sequential(*(kind(*each) for each in layers), nn.Linear(64, 4))


# %% residual
# Wrong on purpose: do not copy.
residual = helped("residual")
drawn = F.cross_entropy(residual(pictures), classes).item()
residual.apply(initialize)
spoiled = F.cross_entropy(residual(pictures), classes).item()

print(f"first loss {drawn:.0f}, after initialize {spoiled:.0f}")

# %% kept
kept = {"four layers": gradients(helped("nothing", count=4))}
for name in ("BatchNorm", "LayerNorm", "residual"):
    kept[name] = gradients(helped(name))

for name, found in kept.items():
    print(f"{name}: {found[-1]:.2g} at the last layer, {found[0]:.2g} at 1")
