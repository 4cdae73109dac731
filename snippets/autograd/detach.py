"""
Detach
======

What ``detach`` cuts, what it freezes, and where it belongs.
"""

# %% setup
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)

layer_1 = nn.Linear(4, 3)
layer_2 = nn.Linear(3, 1)
inputs = torch.randn(8, 4)
targets = torch.randn(8, 1)

# %% cut
hidden = layer_1(inputs)
cut = hidden.detach()

print(hidden.requires_grad, cut.requires_grad)

# %% backward
loss = F.mse_loss(layer_2(cut), targets)
loss.backward()

print("layer_1:", layer_1.weight.grad)
print("layer_2:", layer_2.weight.grad)

# %% step
parameters = [*layer_1.parameters(), *layer_2.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
before_1, before_2 = layer_1.weight.clone(), layer_2.weight.clone()
optimizer.step()

print("layer_1 stays:", torch.equal(layer_1.weight, before_1))
print("layer_2 stays:", torch.equal(layer_2.weight, before_2))

# %% mend
optimizer.zero_grad()
loss = F.mse_loss(layer_2(layer_1(inputs)), targets)
loss.backward()
optimizer.step()

print("layer_1 stays:", torch.equal(layer_1.weight, before_1))

# %% freeze
layer_1.requires_grad_(False)
optimizer.zero_grad()
F.mse_loss(layer_2(layer_1(inputs)), targets).backward()

print("layer_1:", layer_1.weight.grad)
print("layer_2:", layer_2.weight.grad.shape)


# %% trial
def trial(make_optimizer, train_before, clear):
    torch.manual_seed(0)
    first, second = nn.Linear(4, 3), nn.Linear(3, 1)
    optimizer = make_optimizer([*first.parameters(), *second.parameters()])
    if train_before:
        F.mse_loss(second(first(inputs)), targets).backward()
        optimizer.step()
    clear(optimizer)
    before = first.weight.clone()
    F.mse_loss(second(first(inputs).detach()), targets).backward()
    optimizer.step()
    return "stays" if torch.equal(first.weight, before) else "moves"


# %% optimizers
optim = torch.optim
optimizers = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD, momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "SGD, weight decay": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.1),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "Adam": lambda p: optim.Adam(p, lr=0.1),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1),
}


# %% conditions
def to_none(optimizer):
    optimizer.zero_grad()


def to_zero(optimizer):
    optimizer.zero_grad(set_to_none=False)


def not_at_all(optimizer):
    pass


# %% try-all
rows = {
    name: {
        "never trained before": trial(make, False, to_zero),
        "trained, then None": trial(make, True, to_none),
        "trained, then zeros": trial(make, True, to_zero),
        "trained, not cleared": trial(make, True, not_at_all),
    }
    for name, make in optimizers.items()
}

# %% table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% share
original = torch.ones(3, requires_grad=True) * 2
alias = original.detach()
alias[0] = 100

print(original.tolist())

# %% overwrite
weight = torch.tensor([1.0, 2.0], requires_grad=True)
powers = weight.exp()
powers.detach().zero_()

try:
    powers.sum().backward()
except RuntimeError as error:
    print(str(error).partition(":")[0])

# %% data
powers = weight.exp()
powers.data.zero_()
powers.sum().backward()

print("gradient:", weight.grad)
print("should be:", weight.detach().exp())

# %% log
loss = F.mse_loss(layer_2(inputs[:, :3]), targets)
kept = loss.detach()

print(kept.requires_grad, kept.item() == loss.item())

# %% log-alias
value_before = loss.item()
kept += 1

print(f"{value_before:.4f} became {loss.item():.4f}")

# %% target
value = nn.Linear(4, 1)
state, following = torch.randn(2, 4)
goal = 1 + 0.9 * value(following)

F.mse_loss(value(state), goal.detach()).backward()

error = (value(state) - goal).item()
print(value.weight.grad)
print(2 * error * state)

# %% chunks
cell = nn.RNNCell(2, 4)
sequence = torch.randn(6, 1, 2)


def train_in_chunks(between):
    state = torch.zeros(1, 4)
    for chunk in sequence.split(3):
        for step in chunk:
            state = cell(step, state)
        state.sum().backward()
        state = between(state)


# %% carry
try:
    train_in_chunks(between=lambda state: state)
except RuntimeError as error:
    print(str(error).partition(" (")[0])

cell.zero_grad()
train_in_chunks(between=lambda state: state.detach())

print(cell.weight_hh.grad.shape)

# %% straight-through
scores = torch.tensor([0.2, 1.5, -0.3], requires_grad=True)
soft = scores.softmax(dim=0)
hard = F.one_hot(soft.argmax(), 3).float()
choice = hard - soft.detach() + soft

print(choice.tolist())

# %% straight-gradient
prices = torch.tensor([1.0, 2.0, 3.0])
[through] = torch.autograd.grad((choice * prices).sum(), scores)
scores_again = scores.detach().requires_grad_()
[of_soft] = torch.autograd.grad(
    (scores_again.softmax(dim=0) * prices).sum(), scores_again
)

print(through)
print(of_soft)

# %% gumbel
sample = F.gumbel_softmax(scores, hard=True)
[gradient] = torch.autograd.grad((sample * prices).sum(), scores)

print(sample.tolist())
print(gradient.abs().sum() > 0)

# %% wrong-shape
output = torch.randn(3, 16, requires_grad=True)
labels = torch.rand(1, 16)

print((output - labels).shape)

# %% not-an-error
[first] = torch.autograd.grad((output - labels).sum(), output)
[second] = torch.autograd.grad((output - 100 * labels).sum(), output)

print(torch.equal(first, second), first.unique().tolist())


# %% descend
def descend(objective):
    guess = torch.zeros(3, 16, requires_grad=True)
    optimizer = torch.optim.SGD([guess], lr=1.0)
    for _ in range(200):
        optimizer.zero_grad()
        loss = objective(guess)
        loss.backward()
        optimizer.step()
    return loss.item()


# %% compare
labels = torch.rand(3, 16)

of_sum = descend(lambda guess: (guess - labels).sum())
of_mse = descend(lambda guess: F.mse_loss(guess, labels))

print(f"sum of differences: {of_sum:.1f}")
print(f"mean squared error: {of_mse:.6f}")
