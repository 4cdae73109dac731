"""
Choose an optimizer
===================

AdamW in two groups, the paths of three optimizers, and a sweep of rates.
"""

# %% groups
import torch
from torch import nn, optim


def groups(model, decay):
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    return [
        {"params": weights, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]


# %% do-this
def new_model():
    norm = nn.LayerNorm(16)
    return nn.Sequential(nn.Linear(3, 16), norm, nn.ReLU(), nn.Linear(16, 1))


model = new_model()
optimizer = optim.AdamW(groups(model, decay=0.01), lr=0.001)

for group in optimizer.param_groups:
    shapes = [tuple(p.shape) for p in group["params"]]
    print(f"decay {group['weight_decay']}:", *shapes)

# %% weather
torch.manual_seed(0)
weather = torch.randn(200, 3)  # today, wind and clouds
today, wind, clouds = weather.T
tomorrow = (3 + 2 * today + wind * clouds)[:, None]


# %% train
def train(kind, decay=0.0, reduction="mean", seed=0, **options):
    torch.manual_seed(seed)
    model = new_model()
    optimizer = kind(groups(model, decay), **options)
    for _ in range(30):
        optimizer.zero_grad()
        errors = (model(weather) - tomorrow).square()
        (errors.mean() if reduction == "mean" else errors.sum()).backward()
        optimizer.step()
    return errors.mean().item(), model


# %% sweep
kinds = {
    "SGD": (optim.SGD, {}),
    "SGD with momentum": (optim.SGD, {"momentum": 0.9}),
    "AdamW": (optim.AdamW, {"decay": 0.01}),
}


def sweep(name, rates, **options):
    kind, given = kinds[name]
    return [train(kind, lr=lr, **given, **options)[0] for lr in rates]


# %% sweep-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(
    1, 2, sharex=True, sharey=True, figsize=(7.5, 3.4), layout="constrained"
)
styles = [("k", "-"), ("#0072B2", "--"), ("#D55E00", "-")]
for axes, reduction in zip(panels, ("mean", "sum"), strict=True):
    for name, (color, line) in zip(kinds, styles, strict=True):
        rates = [0.001, 0.01, 0.03, 0.1, 0.3, 1.0]
        if reduction == "sum" and name.startswith("SGD"):
            rates = [rate / 200 for rate in rates]
        errors = sweep(name, rates, reduction=reduction)
        axes.loglog(rates, errors, line, color=color, marker=".", label=name)
    axes.set(xlabel="rate", title=f"{reduction} of the squared errors")
panels[0].set(ylabel="mean squared error", ylim=(0.3, 20))
labels = panels[0].get_legend_handles_labels()
figure.legend(*labels, loc="outside lower center", ncols=3)
figure.suptitle("The error after 30 steps, by rate")
plt.show()


# %% valley
def valley(w):
    return (w[0] ** 2 + 30 * w[1] ** 2) / 2


def path(kind, loss=valley, start=(4.0, 4.0), **options):
    w = torch.tensor(start, requires_grad=True)
    optimizer, points = kind([w], **options), [w.tolist()]
    for _ in range(40):
        optimizer.zero_grad()
        loss(w).backward()
        optimizer.step()
        points.append(w.tolist())
    return torch.tensor(points)


# %% paths
walks = {
    "SGD": {"kind": optim.SGD, "lr": 0.06},
    "momentum": {"kind": optim.SGD, "lr": 0.02, "momentum": 0.9},
    "Adam": {"kind": optim.Adam, "lr": 0.3},
}

# %% paths-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 3, sharey=True, figsize=(7.5, 3))
along, across = torch.linspace(-2, 5, 80), torch.linspace(-4.5, 4.5, 80)
height = valley(torch.stack(torch.meshgrid(along, across, indexing="xy")))
for axes, (name, walk) in zip(panels, walks.items(), strict=True):
    points = path(**walk)
    axes.contour(along, across, height, [1, 5, 20, 60, 150], colors="#0072B2")
    axes.plot(*points.T, ".-", color="#D55E00")
    heights = f"{valley(points[0]):.0f} to {valley(points[-1]):.3f}"
    axes.set_title(f"{name}: {heights}", fontsize="medium")
    axes.set_xlabel("along the valley")
panels[0].set_ylabel("across the valley")
figure.suptitle("Forty steps in a valley, with the first and last height")
figure.tight_layout()
plt.show()


# %% moves
def moves(gradients, kind, **options):
    weight = torch.zeros(1, dtype=torch.float64)
    optimizer, lengths = kind([weight], lr=0.1, **options), []
    for gradient in gradients:
        before = weight.item()
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
        lengths.append(before - weight.item())
    return lengths


# %% how-far
steady, swinging = [2.0] * 80, [2.0, -2.0] * 40
strides = {
    "SGD, steady": (steady, {"kind": optim.SGD}),
    "momentum, steady": (steady, {"kind": optim.SGD, "momentum": 0.9}),
    "momentum, swinging": (swinging, {"kind": optim.SGD, "momentum": 0.9}),
    "Adam, steady": (steady, {"kind": optim.Adam}),
    "Adam, swinging": (swinging, {"kind": optim.Adam}),
}

# %% how-far-tabulated
import pandas as pd

rows = {
    name: {f"step {i}": moves(given, **kind)[i - 1] for i in (1, 2, 3, 4, 80)}
    for name, (given, kind) in strides.items()
}

pd.DataFrame.from_dict(rows, orient="index").round(3)


# %% decay
def decayed(sizes, kind, weight_decay):
    weights = torch.ones(2)
    optimizer = kind([weights], lr=0.02, weight_decay=weight_decay)
    for step in range(100):
        weights.grad = torch.tensor(sizes) * (-1) ** step
        optimizer.step()
    return weights.tolist()


# %% two-decays
sizes = [0.01, 100.0]
decays = {
    "without decay": {"kind": optim.Adam, "weight_decay": 0.0},
    "Adam": {"kind": optim.Adam, "weight_decay": 0.1},
    "AdamW": {"kind": optim.AdamW, "weight_decay": 0.1},
}

# %% two-decays-tabulated
import pandas as pd

rows = {name: decayed(sizes, **given) for name, given in decays.items()}

columns = ["weight of small gradients", "weight of large gradients"]
pd.DataFrame.from_dict(rows, orient="index", columns=columns).round(3)


# %% biases
def mean_forecast(bias_decays):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    given = groups(model, decay=0.1)
    if bias_decays:
        given = [{"params": model.parameters(), "weight_decay": 0.1}]
    optimizer = optim.AdamW(given, lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(weather), tomorrow).backward()
        optimizer.step()
    return model(weather).mean().item()


# %% averages
import pandas as pd

rows = {
    "temperature": [tomorrow.mean().item()],
    "forecast, decay of the weight": [mean_forecast(False)],
    "forecast, decay of weight and bias": [mean_forecast(True)],
}

pd.DataFrame.from_dict(rows, orient="index", columns=["mean"]).round(3)

# %% two-rates
model = new_model()
body, head = model[:3].parameters(), model[3].parameters()
optimizer = optim.AdamW(
    [{"params": body, "lr": 0.0001}, {"params": head}], lr=0.001
)

for group in optimizer.param_groups:
    print(len(group["params"]), group["lr"], group["weight_decay"])


# %% learn
def learn(model, optimizer):
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.zero_grad()
    (model(weather) - tomorrow).square().mean().backward()
    optimizer.step()
    pairs = zip(model.named_parameters(), before, strict=True)
    return {name: (p - old).abs().max().item() for (name, p), old in pairs}


# %% replaced
# Wrong on purpose: do not copy.
model = new_model()
optimizer = optim.SGD(model.parameters(), lr=0.01)
model[3] = nn.Linear(16, 1)  # a new head
lost = learn(model, optimizer)

print({name: round(move, 4) for name, move in lost.items()})

# %% added
optimizer.add_param_group({"params": model[3].parameters()})
found = learn(model, optimizer)

print({name: round(move, 4) for name, move in found.items()})

# %% attribute
# Wrong on purpose: do not copy.
optimizer.lr = 0.0
moving = learn(model, optimizer)

print(max(moving.values()))

# %% every-group
for group in optimizer.param_groups:
    group["lr"] = 0.0
resting = learn(model, optimizer)

print(max(resting.values()))

# %% refused
model = new_model()
parameters = model.parameters()
optim.SGD(parameters)  # goes through the parameters, and uses them up
result = model[0].weight * 2
twice = [{"params": model[0].parameters()}, {"params": model.parameters()}]
texts = []
for given in (parameters, model[0].bias, [result], twice):
    try:
        optim.SGD(given)
    except (TypeError, ValueError) as error:
        texts.append(f"{type(error).__name__}: {error}")

print(*texts, sep="\n")


# %% rotated
def rotated(w):
    """Return the height in the same valley, rotated by 45 degrees."""
    return valley(torch.stack([w[0] + w[1], w[0] - w[1]]) / 2**0.5)


start = (32**0.5, 0.0)
rotated_walks = {
    name: path(**walks[name], loss=rotated, start=start)
    for name in ("SGD", "Adam")
}

for name, points in rotated_walks.items():
    print(
        f"{name}: from {rotated(points[0]):.0f} to {rotated(points[-1]):.3f}"
    )

# %% ways
ways = {"one by one": {"foreach": False}, "foreach": {"foreach": True}}
ways["fused"] = {"fused": True}
ends = {name: train(optim.AdamW, lr=0.01, **way) for name, way in ways.items()}

for name, (loss, _) in ends.items():
    print(f"{name}: loss {loss:.6f}")
