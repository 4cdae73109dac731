"""
Train in batches and epochs
===========================

Train in batches and epochs, and see what one missing line does.
"""

# %% so-far
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid, test = order.split([1200, 300, 297])

# %% loader
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(
    TensorDataset(images[train], labels[train]), batch_size=32, shuffle=True
)


# %% train-epoch
def train_epoch(model, loader, optimizer):
    model.train()
    for batch, targets in loader:
        loss = F.cross_entropy(model(batch), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# %% evaluate
def evaluate(model, images, labels):
    model.eval()
    with torch.no_grad():
        scores = model(images)
    loss = F.cross_entropy(scores, labels)
    right = (scores.argmax(dim=1) == labels).double().mean()
    return loss.item(), right.item()


# %% epochs
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

history = {"train": [], "valid": []}
for epoch in range(1, 11):
    train_epoch(model, loader, optimizer)
    history["train"].append(evaluate(model, images[train], labels[train]))
    history["valid"].append(evaluate(model, images[valid], labels[valid]))
    loss, right = history["valid"][-1]
    print(f"epoch {epoch}: loss {loss:.2f}, {right:.0%} right")

# %% curves
import matplotlib.pyplot as plt

_, (left, right) = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
for part, color in (("train", "#0072B2"), ("valid", "#D55E00")):
    losses, shares = zip(*history[part], strict=True)
    left.plot(range(1, 11), losses, color=color, label=part)
    right.plot(range(1, 11), shares, color=color, label=part)
left.set(title="The loss falls", xlabel="epoch", ylabel="loss", ylim=(0, None))
right.set(title="More answers are right", xlabel="epoch", ylim=(0, 1))
right.set_ylabel("share of right answers")
right.legend(loc="lower right")
plt.show()

# %% sizes
sizes = [len(batch) for batch, targets in loader]
print(len(sizes), "batches; the last has", sizes[-1], "digits")


# %% untrained
def untrained():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


model = untrained()

# %% loop
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

losses = []
for _ in range(10):  # epochs
    for batch, targets in loader:
        loss = F.cross_entropy(model(batch), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

# %% alone
import matplotlib.pyplot as plt

_, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
axis.plot(losses, color="#0072B2", label="with zero_grad")
axis.set(title="The loss with zero_grad", yscale="log", ylim=(0.02, 9000))
axis.set(xlabel="step", ylabel="loss")
axis.legend(loc="center right")
plt.show()

# %% without-zero-grad
# Wrong on purpose: do not copy.
second = untrained()
optimizer = torch.optim.SGD(second.parameters(), lr=0.1, momentum=0.9)

without = []
for _ in range(10):  # epochs
    for batch, targets in loader:
        loss = F.cross_entropy(second(batch), targets)
        loss.backward()
        optimizer.step()
        without.append(loss.item())

print(f"last loss: {losses[-1]:.2f} with the line, {without[-1]:.2f} without")

# %% both
import matplotlib.pyplot as plt

_, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
axis.plot(without, color="#D55E00", label="without zero_grad")
axis.plot(losses, color="#0072B2", label="with zero_grad")
axis.set(title="The loss with and without zero_grad", yscale="log")
axis.set(xlabel="step", ylabel="loss", ylim=(0.02, 9000))
axis.legend(loc="center right")
plt.show()

# %% without-step
# Wrong on purpose: do not copy.
third = untrained()
optimizer = torch.optim.SGD(third.parameters(), lr=0.1)

results = []
for _ in range(3):  # epochs
    for batch, targets in loader:
        loss = F.cross_entropy(third(batch), targets)
        optimizer.zero_grad()
        loss.backward()
    results.append(evaluate(third, images[valid], labels[valid]))
    print("loss:", results[-1][0])


# %% fit
def fit(model, loader, optimizer, epochs):
    rights = []
    for _ in range(epochs):
        train_epoch(model, loader, optimizer)
        rights.append(evaluate(model, images[valid], labels[valid])[1])
    return rights


# %% fit-checked
fresh = untrained()
optimizer = torch.optim.SGD(fresh.parameters(), lr=0.1, momentum=0.9)
rights = fit(fresh, loader, optimizer, epochs=3)

if not isinstance(rights, list) or len(rights) != 3:
    print("Not yet: three epochs should give a list of three numbers")
elif rights[-1] != evaluate(fresh, images[valid], labels[valid])[1]:
    print("Not yet: is the last one the share of right answers?", rights)
elif rights[-1] < 0.7:
    print("Not yet: does each batch go through all five lines?", rights)
else:
    print(f"Right: after three epochs, {rights[-1]:.0%} of the digits")
