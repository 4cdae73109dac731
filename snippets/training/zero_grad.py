"""
zero_grad(): when to call it, and why
=====================================

Where zero_grad belongs, and what None does that zeros do not.
"""

# %% receipts
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

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

# %% added
weight = torch.tensor(1.0, requires_grad=True)
for _ in range(3):
    ((weight - 3) ** 2).backward()
    print(weight.grad.item())


# %% train
def new_model(kind=optim.SGD, seed=1, lr=0.2, **options):
    torch.manual_seed(seed)
    model = nn.Linear(2, 1, bias=False)
    return model, kind(model.parameters(), lr=lr, **options)


def held(model):  # the bytes of all gradients
    found = [p.grad for p in model.parameters() if p.grad is not None]
    return sum(gradient.nbytes for gradient in found)


def train(model, optimizer, place, steps=100, **how):
    seen = []
    for _ in range(steps):
        if place == "before the forward pass":
            optimizer.zero_grad(**how)
        loss = F.mse_loss(model(bought), totals)
        in_forward = held(model)
        if place == "before backward":
            optimizer.zero_grad(**how)
        loss.backward()
        gradient = model.weight.grad[0].clone()
        optimizer.step()
        if place == "after step":
            optimizer.zero_grad(**how)
        prices = model.weight[0].detach().clone()
        bytes_held = in_forward, held(model)
        seen.append((loss.item(), gradient, prices, bytes_held))
    return seen


# %% two-runs
runs = {
    name: train(*new_model(lr=0.1), place, steps=40)
    for name, place in [("no reset", "nowhere"), ("reset", "after step")]
}

# %% two-runs-drawn
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3.2))
styles = [("#D55E00", "--"), ("#0072B2", "-")]
for (name, run), (color, line) in zip(runs.items(), styles, strict=True):
    gradients = torch.stack([gradient for _, gradient, _, _ in run])
    prices = torch.stack([prices for _, _, prices, _ in run])
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


# %% by-hand
def zero_grad(optimizer, set_to_none=True):
    for group in optimizer.param_groups:
        for p in group["params"]:  # 1
            if set_to_none:
                p.grad = None  # 2
            elif p.grad is not None:  # 3
                p.grad.zero_()  # 4


# %% compare
for reset in (zero_grad, optim.SGD.zero_grad):
    model, optimizer = new_model()
    for set_to_none in (False, True):
        F.mse_loss(model(bought), totals).backward()
        reset(optimizer, set_to_none)
        print(reset.__qualname__, model.weight.grad)


# %% closed-shop
def moved(kind, set_to_none, lr=0.1, **options):
    torch.manual_seed(0)
    shops = nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1)])
    optimizer = kind(shops.parameters(), lr=lr, **options)
    for shop in shops:  # in the second step, the first shop is closed
        before = shops[0].weight.detach().clone()
        optimizer.zero_grad(set_to_none)
        F.mse_loss(shop(bought), totals).backward()
        optimizer.step()
    return (shops[0].weight - before).abs().max().item()


# %% optimizers
kinds = {
    "SGD": (optim.SGD, {}),
    "SGD, momentum": (optim.SGD, {"momentum": 0.9}),
    "SGD, weight decay": (optim.SGD, {"weight_decay": 0.1}),
    "Adam": (optim.Adam, {}),
    "AdamW": (optim.AdamW, {}),
}
for name, (kind, options) in kinds.items():
    none, zeros = (moved(kind, each, **options) for each in (True, False))
    print(f"{name:18} None {none:.4f}   zeros {zeros:.4f}")

# %% places
places = ("before the forward pass", "before backward", "after step")
bytes_held = {}
for place in places:
    for none in (True, False):
        *_, last = train(*new_model(), place, 2, set_to_none=none)
        bytes_held[place, none] = last[-1]
        print(f"{'None' if none else 'zeros':6}{place:24}", *last[-1])

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


def settled(kind, lr, place, seed=1):
    seen = train(*new_model(kind, seed, lr), place)
    return sum(loss for loss, *_ in seen[-50:]) / 50


for kind, lr in settings:
    right, wrong = (settled(kind, lr, each) for each in (places[0], "nowhere"))
    print(f"{kind.__name__:5} {lr:4}  {right:6.3f}  without: {wrong:6.3f}")

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
    norms = [layer.weight.grad.norm().item() for layer in (body, head)]
    print("body, head:", [round(norm, 1) for norm in norms])

# %% reset-all
clip_grad_norm_(model.parameters(), max_norm=1.0)
print("head.weight, clipped:", round(head.weight.grad.norm().item(), 2))
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

# %% read-none
model, optimizer = new_model()
F.mse_loss(model(bought), totals).backward()
optimizer.step()
optimizer.zero_grad()

try:
    print(model.weight.grad.norm())
except AttributeError as error:
    print(error)
print(clip_grad_norm_(model.parameters(), max_norm=1.0))

# %% read-in-time
F.mse_loss(model(bought), totals).backward()
print(model.weight.grad.norm())
optimizer.step()

# %% keep
model, optimizer = new_model()
F.mse_loss(model(bought), totals).backward()
kept, copied = model.weight.grad, model.weight.grad.clone()
print("kept:   ", kept)

# %% kept-changes
clip_grad_norm_(model.parameters(), max_norm=1.0)
print("clipped:", kept)
optimizer.zero_grad(set_to_none=False)
print("zeros:  ", kept)
print("copied: ", copied)

# %% not-parameters
model, optimizer = new_model()
receipts = bought[:1].clone().requires_grad_()
predictions = model(receipts)
predictions.retain_grad()
predictions.sum().backward()
for each in (optimizer, model):
    each.zero_grad()

print("weight:     ", model.weight.grad)
print("receipts:   ", receipts.grad)
print("predictions:", predictions.grad)

# %% goes-on
weight = nn.Parameter(torch.tensor(1.0))
optimizer = optim.SGD([weight], lr=0.25, momentum=0.5)
((weight - 3) ** 2).backward()
optimizer.step()
print(weight.item())
for set_to_none in (False, True):
    optimizer.zero_grad(set_to_none)
    optimizer.step()
    print(weight.item())


# %% norms
def gradient_norms(model):
    named = model.named_parameters()
    return {n: p.grad.norm().item() for n, p in named if p.grad is not None}


# %% norms-checked
model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
model[0].requires_grad_(False)
F.mse_loss(model(bought), totals).backward()
found = gradient_norms(model)
model.zero_grad()
if gradient_norms(model) != {}:
    print("After zero_grad(), there should be no norms at all.")
elif set(found) != {"1.weight", "1.bias"}:
    print(f"The second layer has a weight and a bias, but {list(found)} came.")
elif not all(isinstance(norm, float) for norm in found.values()):
    print("Each norm should be a number of Python, which is easy to log.")
else:
    print("Right: parameters without a gradient are left out.")
