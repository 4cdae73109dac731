"""
Gradients, optimizers and schedulers
====================================

Errors of backward, of optimizers and of losses, each with what mends it.
"""

# %% before-the-loop
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs, targets = torch.randn(8, 2), torch.randn(8, 1)

penalty = model.weight.square().sum()  # once, for all steps
try:
    for _ in range(2):
        loss = F.mse_loss(model(inputs), targets) + penalty
        loss.backward()
except RuntimeError as error:
    print(f"{error}\n")

for _ in range(2):
    penalty = model.weight.square().sum()  # anew, in each step
    loss = F.mse_loss(model(inputs), targets) + penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss: {loss:.2f}")

# %% early-step
layers = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
early = torch.optim.SGD(layers.parameters(), lr=0.1)
try:
    for _ in range(2):
        loss = F.mse_loss(layers(inputs), targets)
        early.step()
        loss.backward()
except RuntimeError as error:
    print(error)

# %% moved-leaf
for device in ("cpu", "meta"):  # "meta" stands for any other device
    moved = torch.zeros(3, requires_grad=True).to(device)
    made = torch.zeros(3, requires_grad=True, device=device)
    print(f"{device}: to() {moved.is_leaf}, device= {made.is_leaf}")


# %% legacy
import warnings


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


x = torch.ones(2, requires_grad=True)
try:
    with warnings.catch_warnings(action="ignore"):
        Double()(x)
except RuntimeError as error:
    print(f"{error}\n")

doubled = Double.apply(x)
print(doubled.tolist())

# %% scores
scores = model(inputs)
labels = (targets > 0).float()
try:
    F.binary_cross_entropy(scores, labels)
except RuntimeError as error:
    print(f"{error}\n")

with_scores = F.binary_cross_entropy_with_logits(scores, labels)
with_sigmoid = F.binary_cross_entropy(scores.sigmoid(), labels)
print(f"{with_scores:.4f} {with_sigmoid:.4f}")

# %% no-dim
steps = torch.randn(2, 5, 3)  # texts, words, classes
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    guessed = F.softmax(steps)
print(*(f"{warning.message}\n" for warning in caught))

meant = F.softmax(steps, dim=-1)
print(f"one word adds up to {guessed[0, 0].sum():.2f} without dim,")
print(f"and to {meant[0, 0].sum():.2f} with dim=-1")

# %% no-gradient
scaler = torch.amp.GradScaler("cpu")  # on a GPU: "cuda"
optimizer.zero_grad()
output = model(inputs).detach().requires_grad_()
try:
    scaler.scale(F.mse_loss(output, targets)).backward()
    scaler.step(optimizer)
except AssertionError as error:
    print(f"{error}\n")

scaler = torch.amp.GradScaler("cpu")
scaler.scale(F.mse_loss(model(inputs), targets)).backward()
before = model.bias.item()
scaler.step(optimizer)
scaler.update()
print(f"the bias moves from {before:.3f} to {model.bias.item():.3f}")

# %% old-names
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.cuda.amp.GradScaler()
    torch.cuda.amp.autocast()
old = [str(each.message) for each in caught if each.category is FutureWarning]
print(*old, sep="\n")

# %% empty-state
saved = torch.amp.GradScaler("cpu", enabled=False).state_dict()
scaler = torch.amp.GradScaler("cpu")
try:
    scaler.load_state_dict(saved)
except RuntimeError as error:
    print(error)

# %% not-positive
rows = torch.randn(3, 8)
covariance = rows.T @ rows / 3  # 8 columns, but only 3 rows
try:
    torch.linalg.cholesky(covariance)
except torch.linalg.LinAlgError as error:
    print(f"{error}\n")

mended = covariance + 1e-3 * torch.eye(8)
factor = torch.linalg.cholesky(mended)
print(f"{(factor @ factor.T - mended).abs().max():.0e} off")

# %% scale
raw = torch.tensor([-200.0, 0.0, 3.0])  # what a network gives
try:
    torch.distributions.Normal(torch.zeros(3), F.softplus(raw))
except ValueError as error:
    print(f"{error}\n")

scale = F.softplus(raw) + 1e-6
print(torch.distributions.Normal(torch.zeros(3), scale))


# %% empty
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(2, 2), nn.Linear(2, 1)]


try:
    torch.optim.SGD(Net().parameters())
except ValueError as error:
    print(f"{error}\n")


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 1)])


seen = [tuple(weight.shape) for weight in Listed().parameters()]
print(seen)

# %% handed-over
model = nn.Sequential(nn.Linear(3, 16), nn.Linear(16, 1))
parameters = model.parameters()
torch.optim.SGD(parameters)  # goes through the parameters, and uses them up
result = model[0].weight * 2
twice = [{"params": model[0].parameters()}, {"params": model.parameters()}]
texts = []
for given in (parameters, model[0].bias, [result], twice):
    try:
        torch.optim.SGD(given)
    except (TypeError, ValueError) as error:
        texts.append(f"{type(error).__name__}: {error}")

print(*texts, sep="\n\n")

# %% one-cycle-end
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR

sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
one_cycle, calls = OneCycleLR(sgd, max_lr=1.0, total_steps=30), 0
try:
    while calls < 40:
        sgd.step()
        one_cycle.step()
        calls += 1
except ValueError as error:
    print(f"{error}\n")
print(f"{calls} calls raise nothing")

# %% last-epoch
sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
try:
    StepLR(sgd, step_size=10, last_epoch=19)
except KeyError as error:
    print(f"{error.args[0]}\n")

sgd.param_groups[0]["initial_lr"] = 0.1
resumed = StepLR(sgd, step_size=10, last_epoch=19)  # it makes call number 20
print(f"with an initial_lr: {resumed.last_epoch} calls so far")

# %% no-metric
on_plateau = ReduceLROnPlateau(sgd)
try:
    on_plateau.step()
except TypeError as error:
    print(f"{error}\n")

on_plateau.step(0.5)
print(f"with a loss: the best so far is {on_plateau.best}")
