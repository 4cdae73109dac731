"""
Train your first classifier
===========================

Five steps of training, from guessing to four digits in five.
"""

# %% so-far
import torch
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)

# %% parts
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid, test = order.split([1200, 300, 297])

# %% model
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)


# %% accuracy
def accuracy(model, part):
    guesses = model(images[part]).argmax(dim=1)
    right = (guesses == labels[part]).double()  # 1 for True, 0 for False
    return right.mean().item()


# %% train
print(f"untrained: {accuracy(model, valid):.0%} right")
for step in range(1, 6):
    loss = F.cross_entropy(model(images[train]), labels[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: {accuracy(model, valid):.0%} right")

# %% start-again
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

scores = model(images[train])
print(scores.shape)
print("scores:", [round(score, 2) for score in scores[0].tolist()])
print("answer:", scores[0].argmax().item())
print("label: ", labels[train[0]].item())

# %% by-hand
three_scores = torch.tensor([2.0, 1.0, 0.0])
powers = three_scores.exp()

print("powers of e:", powers)
print("by hand:    ", powers / powers.sum())
print("softmax:    ", three_scores.softmax(dim=0))

# %% surprise
probabilities = three_scores.softmax(dim=0)
surprises = -probabilities.log()  # the natural logarithm, ln

print("surprises:    ", surprises)
# If the last class is the right one, whose number is 2:
print("cross-entropy:", F.cross_entropy(three_scores, torch.tensor(2)))

# %% untrained
loss = F.cross_entropy(scores, labels[train])

print(f"loss: {loss.item():.2f}")
print(f"right: {accuracy(model, valid):.0%}")

# %% nudged
from copy import deepcopy

nudged = deepcopy(model)
with torch.no_grad():
    nudged[1].weight[0, 28] -= 0.01

for each in model, nudged:
    measured = F.cross_entropy(each(images[train]), labels[train])
    print(f"loss {measured:.4f}, right {accuracy(each, train):.2%}")

# %% backward
loss.backward()

weight = model[1].weight  # of the second layer, Linear
before = weight[0, 28].item()
gradient = weight.grad[0, 28].item()
print(weight.shape, weight.grad.shape)
print(f"weight {before:.4f}, gradient {gradient:.4f}")

# %% step
optimizer.step()

after = weight[0, 28].item()
print(f"weight {after:.4f}")

# %% more-steps
for _ in range(49):
    loss = F.cross_entropy(model(images[train]), labels[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print(f"after 50 steps: {accuracy(model, valid):.0%} right")

# %% nearest-average
averages = [
    images[train][labels[train] == digit].mean(0) for digit in range(10)
]
differences = images[valid][:, None] - torch.stack(averages)
distances = differences.square().sum(dim=(2, 3, 4))
nearest = distances.argmin(dim=1)

share = (nearest == labels[valid]).double().mean()
print(f"nearest average: {share:.0%} right")

# %% weights-drawn
import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

colors = ["#0072B2", "white", "#D55E00"]
colors = LinearSegmentedColormap.from_list("weights", colors)
_, panels = plt.subplots(2, 5, figsize=(6, 3), layout="constrained")
pictures = model[1].weight.detach().unflatten(1, (8, 8))
for digit, panel in enumerate(panels.flat):
    panel.imshow(pictures[digit], cmap=colors, vmin=-0.6, vmax=0.6)
    panel.set_title(digit, size=10)
    panel.axis("off")
plt.suptitle("The 64 weights of each digit, after 50 steps")
plt.show()

# %% softmax-first
# Wrong on purpose: do not copy.
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

for _ in range(5):
    scores = model(images[train])
    loss = F.cross_entropy(scores.softmax(dim=1), labels[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print(f"after 5 steps: {accuracy(model, valid):.0%} right")

# %% not-scaled
# Wrong on purpose: do not copy.
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
pixels = torch.tensor(digits.images, dtype=torch.float32)[:, None]

for _ in range(5):
    loss = F.cross_entropy(model(pixels[train]), labels[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print(f"loss: {loss.item():.0f}")

# %% quiz
equal = torch.zeros(4)
quiz = F.cross_entropy(equal, torch.tensor(2))
print(f"{quiz:.2f}")
