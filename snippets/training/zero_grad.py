"""
Reset the gradients
===================

Where zero_grad belongs, and what None does that zeros do not.
"""

# %% receipts
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils import parameters_to_vector as vector

torch.manual_seed(0)
bought = 2 * torch.rand(60, 2)  # kilograms of apples and of pears
totals = (bought @ torch.tensor([3.0, 2.0]))[:, None]

# %% do-this
model = nn.Linear(2, 1, bias=False)  # its two weights are the prices
optimizer = optim.SGD(model.parameters(), lr=0.2)

for _ in range(100):
    optimizer.zero_grad()
    loss = F.mse_loss(model(bought), totals)
    loss.backward()
    optimizer.step()

print("apples, pears:", [round(p, 3) for p in model.weight[0].tolist()])


# %% new-model
def new_model(kind=optim.SGD, seed=1, lr=0.2, **options):
    torch.manual_seed(seed)
    model = nn.Linear(2, 1, bias=False)
    return model, kind(model.parameters(), lr=lr, **options)


def reset(optimizer, here, place, **how):
    if here == place:
        optimizer.zero_grad(**how)


# %% train
def train(place, model, optimizer, steps=100):
    seen = []
    for _ in range(steps):
        reset(optimizer, "before the forward pass", place)
        loss = F.mse_loss(model(bought), totals)
        reset(optimizer, "before backward", place)
        loss.backward()
        gradients = vector([p.grad for p in model.parameters()])
        optimizer.step()
        reset(optimizer, "after step", place)
        seen.append((loss.item(), gradients, vector(model.parameters())))
    return seen


# %% two-runs
runs = {
    name: train(place, *new_model(lr=0.1), steps=40)
    for name, place in [("no reset", "nowhere"), ("reset", "before backward")]
}

# %% two-runs-drawn
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3.2))
styles = [("#D55E00", "--"), ("#0072B2", "-")]
for (name, run), (color, line) in zip(runs.items(), styles, strict=True):
    gradients = torch.stack([gradients for _, gradients, _ in run])
    prices = torch.stack([prices for _, _, prices in run]).detach()
    left.plot(gradients[:, 0], line, color=color, marker=".", label=name)
    right.plot(*prices.T, line, color=color, marker=".", label=name)
right.plot(3, 2, "k*", markersize=12, label="the prices")
left.set(xlabel="step", ylabel=".grad", title=".grad of the price of apples")
right.set(xlabel="price of apples", ylabel="price of pears")
right.set_title("the two prices, step by step")
right.legend(fontsize="small")
figure.suptitle("Forty steps with a reset and without")
figure.tight_layout()
plt.show()

# %% two-losses
model, optimizer = new_model()
first = F.mse_loss(model(bought[:20]), totals[:20])
second = F.mse_loss(model(bought[20:]), totals[20:])

first.backward()
print("first:", model.weight.grad)
second.backward()
print("both: ", model.weight.grad)


# %% loss-of
def loss_of(shop, optimizer, set_to_none):
    def closure():
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = F.mse_loss(shop(bought), totals)
        loss.backward()
        return loss

    return closure


# %% east-is-closed
def two_shops(kind, set_to_none, **options):
    torch.manual_seed(0)
    east, west = nn.Linear(2, 1), nn.Linear(2, 1)
    parameters = [*east.parameters(), *west.parameters()]
    optimizer, seen = kind(parameters, **options), []
    for shop in (east, west):
        optimizer.step(loss_of(shop, optimizer, set_to_none))
        seen.append(vector(east.parameters()))
    return seen


# %% five-optimizers
kinds = {
    "SGD": (optim.SGD, {}),
    "SGD, momentum": (optim.SGD, {"momentum": 0.9}),
    "SGD, weight decay": (optim.SGD, {"weight_decay": 0.1}),
    "AdamW": (optim.AdamW, {}),
    "LBFGS": (optim.LBFGS, {"max_iter": 3}),
}


def moved(name, set_to_none):
    kind, options = kinds[name]
    before, after = two_shops(kind, set_to_none, lr=0.1, **options)
    return (after - before).abs().max().item()


# %% five-optimizers-tabulated
import pandas as pd

rows = {
    name: {
        "None": round(moved(name, set_to_none=True), 4),
        "zeros": round(moved(name, set_to_none=False), 4),
    }
    for name in kinds
}
pd.DataFrame.from_dict(rows, orient="index")


# %% held
def held(model):
    found = [p.grad for p in model.parameters() if p.grad is not None]
    return sum(gradient.nbytes for gradient in found)


def bytes_held(place, model, optimizer, **how):
    for _ in range(2):
        reset(optimizer, "before the forward pass", place, **how)
        loss = model(torch.ones(1, model.in_features)).sum()
        in_forward = held(model)
        reset(optimizer, "before backward", place, **how)
        loss.backward()
        optimizer.step()
        reset(optimizer, "after step", place, **how)
    return in_forward, held(model)


# %% places
def big_model():
    model = nn.Linear(1000, 1000)
    return model, optim.SGD(model.parameters(), lr=0.001)


where = {
    "None, before the forward pass": ("before the forward pass", True),
    "None, before backward": ("before backward", True),
    "None, after step": ("after step", True),
    "zeros, after step": ("after step", False),
}

# %% places-tabulated
import pandas as pd

rows = {}
for name, (place, none) in where.items():
    counted = bytes_held(place, *big_model(), set_to_none=none)
    columns = ("in the forward pass", "after the step")
    rows[name] = dict(zip(columns, counted, strict=True))
pd.DataFrame.from_dict(rows, orient="index")

# %% forgotten
# Wrong on purpose: do not copy.
model, optimizer = new_model()
losses = []
for _ in range(100):
    loss = F.mse_loss(model(bought), totals)
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 1))

print("every tenth loss:", losses[::10])


# %% settled
settings = [(optim.SGD, 0.1), (optim.SGD, 0.3)]
settings += [(optim.AdamW, 0.1), (optim.AdamW, 0.01)]


def settled(place, kind, lr, seed=1):
    seen = train(place, *new_model(kind, seed, lr))
    losses = torch.tensor([loss for loss, _, _ in seen])
    return losses[50:].mean()


# %% spread
def spread(kind, lr, seeds=(1, 2, 3)):
    right = [settled("before backward", kind, lr, seed) for seed in seeds]
    wrong = [settled("nowhere", kind, lr, seed) for seed in seeds]
    return max(right), min(wrong)


# %% settled-tabulated
import pandas as pd

rows = {}
for kind, lr in settings:
    right, wrong = spread(kind, lr)
    rows[f"{kind.__name__}, rate {lr}"] = {
        "reset, highest of 3": f"{right:.2g}",
        "no reset, lowest of 3": f"{wrong:.2g}",
    }
pd.DataFrame.from_dict(rows, orient="index")

# %% between
# Wrong on purpose: do not copy.
model, optimizer = new_model(optim.AdamW)
before = model.weight.detach().clone()
for _ in range(100):
    F.mse_loss(model(bought), totals).backward()
    optimizer.zero_grad()
    optimizer.step()

print("before:", before)
print("after: ", model.weight.detach())

# %% left-out
torch.manual_seed(0)
body, head = nn.Linear(2, 2), nn.Linear(2, 1)
model = nn.Sequential(body, head)
optimizer = optim.SGD(head.parameters(), lr=0.01)

for _ in range(4):
    optimizer.zero_grad()
    F.mse_loss(model(bought), totals).backward()
    optimizer.step()
    lengths = [layer.weight.grad.norm().item() for layer in (body, head)]
    print("body, head:", [round(length, 1) for length in lengths])

# %% reset-all
model.zero_grad()

print("body, head:", [body.weight.grad, head.weight.grad])

# %% two-optimizers
generator, judge = nn.Linear(2, 2), nn.Linear(2, 1)
for_generator = optim.AdamW(generator.parameters())
for_judge = optim.AdamW(judge.parameters())

made_up = generator(torch.randn(8, 2))
F.softplus(-judge(made_up)).mean().backward()  # the generator's turn
for_generator.step()
for_generator.zero_grad()

print("generator:", generator.weight.grad)
print("judge:", judge.weight.grad)

# %% judge-reset
for_judge.zero_grad()

print("judge:", judge.weight.grad)

# %% read-none
model, optimizer = new_model()
F.mse_loss(model(bought), totals).backward()
optimizer.step()
optimizer.zero_grad()

try:
    print(model.weight.grad.norm())
except AttributeError as error:
    print(error)

# %% read-in-time
F.mse_loss(model(bought), totals).backward()
length = clip_grad_norm_(model.parameters(), max_norm=1.0)
optimizer.step()

print("length before clipping:", round(length.item(), 2))


# %% keep
def keep(set_to_none):
    model, optimizer = new_model()
    F.mse_loss(model(bought), totals).backward()
    kept = model.weight.grad
    before = kept.clone()
    optimizer.zero_grad(set_to_none=set_to_none)
    return before, kept


print("None: ", *keep(set_to_none=True))
print("zeros:", *keep(set_to_none=False))


# %% nesterov
def step_changes(**options):
    model, optimizer = new_model(momentum=0.9, nesterov=True, **options)
    F.mse_loss(model(bought), totals).backward()
    before = model.weight.grad.clone()
    optimizer.step()
    return before, model.weight.grad


print("before and after step:", *step_changes(foreach=True))

# %% not-parameters
model, optimizer = new_model()
receipts = bought.clone().requires_grad_()
predictions = model(receipts)
predictions.retain_grad()
predictions.sum().backward()
for each in (optimizer, model):
    each.zero_grad()

print(receipts.grad[0], predictions.grad[0])
