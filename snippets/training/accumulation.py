"""
Accumulate gradients
====================

When several small batches give the gradient of a big one, and when not.
"""

# %% data
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)  # differences are then no rounding
inputs, targets = torch.randn(12, 4), torch.randn(12, 1)


def new_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


# %% gradient
def gradient(model, weighted_losses):
    for weight, x, y in weighted_losses:
        (weight * F.mse_loss(model(x), y)).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


big = gradient(new_model(), [(1, inputs, targets)])

# %% equal-groups
parts = list(zip(inputs.split(4), targets.split(4), strict=True))
undivided = gradient(new_model(), [(1, x, y) for x, y in parts])
divided = gradient(new_model(), [(1 / 3, x, y) for x, y in parts])

print(torch.allclose(undivided, 3 * big), torch.allclose(divided, big))


# %% diverge
def train(optimizer_class, divide, lr):
    model = new_model()
    optimizer = optimizer_class(model.parameters(), lr=lr)
    for _ in range(40):
        optimizer.zero_grad()
        for x, y in parts:
            loss = F.mse_loss(model(x), y)
            (loss / 3 if divide else loss).backward()
        optimizer.step()
    with torch.no_grad():
        return F.mse_loss(model(inputs), targets).item()


# %% undivided-training
losses = {
    "SGD, divided": train(torch.optim.SGD, True, lr=0.3),
    "SGD, undivided": train(torch.optim.SGD, False, lr=0.3),
    "Adam, divided": train(torch.optim.Adam, True, lr=0.03),
    "Adam, undivided": train(torch.optim.Adam, False, lr=0.03),
}
rows = {name: {"loss": f"{loss:.3g}"} for name, loss in losses.items()}

# %% undivided-table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% short-group
uneven = list(zip(inputs.split(5), targets.split(5), strict=True))
by_number = gradient(new_model(), [(1 / 3, x, y) for x, y in uneven])
by_size = gradient(new_model(), [(len(x) / 12, x, y) for x, y in uneven])

print(torch.allclose(by_number, big), torch.allclose(by_size, big))

# %% tokens
logits = torch.randn(4, 6, 10, requires_grad=True)
words = torch.randint(10, (4, 6))
for row, length in enumerate((6, 2, 5, 1)):
    words[row, length:] = -100  # padding, which the loss ignores


def token_gradient(groups, weights):
    logits.grad = None
    for rows, weight in zip(groups, weights, strict=True):
        loss = F.cross_entropy(
            logits[rows].flatten(0, 1), words[rows].flatten()
        )
        (weight * loss).backward()
    return logits.grad.clone()


# %% token-weights
whole = token_gradient([slice(0, 4)], [1])
halves = [slice(0, 2), slice(2, 4)]
tokens = [(words[rows] != -100).sum() for rows in halves]
by_batch = token_gradient(halves, [1 / 2, 1 / 2])
by_token = token_gradient(halves, [count / 14 for count in tokens])

print(torch.allclose(by_batch, whole), torch.allclose(by_token, whole))


# %% norms
def with_norm(norm):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), norm, nn.Linear(8, 1))
    together = gradient(model, [(1, inputs, targets)])
    model.zero_grad()
    in_parts = gradient(model, [(1 / 3, x, y) for x, y in parts])
    return torch.allclose(together, in_parts)


print("LayerNorm:", with_norm(nn.LayerNorm(8)))
print("BatchNorm:", with_norm(nn.BatchNorm1d(8)))


# %% clip
def clipped(each_part):
    model = new_model()
    for x, y in parts:
        (F.mse_loss(model(x), y) / 3).backward()
        if each_part:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# %% clip-once
right = big * 0.1 / big.norm()

print(torch.allclose(clipped(each_part=False), right, rtol=1e-4))
print(torch.allclose(clipped(each_part=True), right, rtol=1e-4))

# %% last-group
steps_taken = []
for batch in range(1, 8):  # seven batches, in groups of three
    if batch % 3 == 0 or batch == 7:
        steps_taken.append(batch)

print(steps_taken)

# %% typing-error
try:
    compile("if batch % 2 == 0 or batch = 7: pass", "a program", "exec")
except SyntaxError as error:
    print(error.msg)
