"""
Your first training
===================

A whole program that trains a model, and what one missing line does to it.
"""

# %% device
import torch
from torch import nn
from torch.nn import functional as F

device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)

# %% data
torch.manual_seed(0)
warmth = 4 * torch.rand(200, 1)  # 2.5 is 25 °C
sold = 0.3 + 3 * torch.exp(-((warmth - 2.6) ** 2))  # 3.3 is 330
sold += 0.1 * torch.randn(200, 1)  # what no rule explains
warmth, sold = warmth.to(device), sold.to(device)

# %% model
layers = nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 1)
model = nn.Sequential(*layers).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)

# %% untrained
import copy

untrained = copy.deepcopy(model)

# %% loop
losses = []

for _ in range(250):
    optimizer.zero_grad()
    guesses = model(warmth)
    loss = F.mse_loss(guesses, sold)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

# %% ask
with torch.no_grad():
    answer = model(torch.tensor([[2.5]], device=device))
print(f"at 25 °C: {100 * answer.item():.0f} ice creams")

# %% before-and-after
degrees = torch.linspace(0, 4, 41)[:, None]

with torch.no_grad():
    before = untrained(degrees.to(device)).cpu()
    after = model(degrees.to(device)).cpu()

# %% learned
import matplotlib.pyplot as plt

_, (left, right) = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
left.plot(losses, color="#D55E00")
left.set(title="The loss falls", xlabel="step", ylabel="loss", ylim=(0, None))
right.plot(10 * warmth.cpu(), 100 * sold.cpu(), ".", color="gray")
right.plot(10 * degrees, 100 * before, "--", color="#0072B2", label="before")
right.plot(10 * degrees, 100 * after, color="#D55E00", label="after")
right.set(title="What the model guesses", xlabel="°C", ylabel="ice creams")
right.legend()
plt.show()

# %% best
best = degrees[after.argmax()].item()
print(f"the best day has {10 * best:.0f} °C")

# %% alone
import matplotlib.pyplot as plt

_, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
axis.plot(losses, color="#0072B2", label="with zero_grad")
axis.set(title="The loss with zero_grad", yscale="log", ylim=(0.005, 20))
axis.set(xlabel="step", ylabel="loss")
axis.legend(loc="center right")
plt.show()

# %% start-again
forgetful = copy.deepcopy(untrained)
optimizer = torch.optim.AdamW(forgetful.parameters(), lr=0.05)

# %% without-zero-grad
# Wrong on purpose: do not copy.
worse = []

for _ in range(250):
    guesses = forgetful(warmth)
    loss = F.mse_loss(guesses, sold)
    loss.backward()
    optimizer.step()
    worse.append(loss.item())

print(f"last loss: {losses[-1]:.2f} with it, {worse[-1]:.2f} without")

# %% both
import matplotlib.pyplot as plt

_, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
axis.plot(worse, color="#D55E00", label="without zero_grad")
axis.plot(losses, color="#0072B2", label="with zero_grad")
axis.set(title="The loss with and without zero_grad", yscale="log")
axis.set(xlabel="step", ylabel="loss", ylim=(0.005, 20))
axis.legend(loc="center right")
plt.show()

# %% far-away
with torch.no_grad():
    hot = model(torch.tensor([[6.0]], device=device)).item()
print(f"at 60 °C: {100 * hot:.0f} ice creams")
