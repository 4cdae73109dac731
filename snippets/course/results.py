"""
Find out whether it is any good
===============================

A baseline, the mistakes, and how exact an accuracy from 300 pictures is.
"""

# %% so-far
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid, test = order.split([1200, 300, 297])
loader = DataLoader(
    TensorDataset(images[train], labels[train]), batch_size=32, shuffle=True
)


def train_epoch(model, loader, optimizer):
    model.train()
    for batch, targets in loader:
        loss = F.cross_entropy(model(batch), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(model, images, labels):
    model.eval()
    with torch.no_grad():
        scores = model(images)
    loss = F.cross_entropy(scores, labels)
    right = (scores.argmax(dim=1) == labels).double().mean()
    return loss.item(), right.item()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.linear = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)
        return self.linear(x.flatten(1))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
for _ in range(10):
    train_epoch(model, loader, optimizer)

# %% baseline
counts = labels[train].bincount()  # how many zeros, ones, twos ...
commonest = counts.argmax()
always = (labels[valid] == commonest).double().mean()
_, accuracy = evaluate(model, images[valid], labels[valid])

print(f"always {commonest}:    {always:.1%}")
print(f"the network: {accuracy:.1%}")

# %% confusion
with torch.no_grad():
    scores = model(images[valid])
answers = scores.argmax(dim=1)

confusion = torch.zeros(10, 10, dtype=torch.long)
for label, answer in zip(labels[valid], answers, strict=True):
    confusion[label, answer] += 1

# %% confusion-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(4.2, 4.2), layout="constrained")
for i, j in confusion.nonzero().tolist():
    color = "#0072B2" if i == j else "#D55E00"
    style = {"color": color, "weight": "bold", "ha": "center", "va": "center"}
    axes.text(j, i, confusion[i, j].item(), **style)
axes.grid(alpha=0.15)
axes.set(xlim=(-0.5, 9.5), ylim=(9.5, -0.5))
axes.set(xticks=range(10), yticks=range(10))
axes.set(xlabel="what the network said", ylabel="what it was")
axes.set_title("What the network said for each digit")
plt.show()

# %% recall
recall = confusion.diagonal() / confusion.sum(dim=1)

for digit in (7, 8, 9):
    print(f"recall of {digit}: {recall[digit]:.0%}")

# %% mistakes
sure = scores.softmax(dim=1).max(dim=1).values
right = answers == labels[valid]  # True or False; ~ swaps them

print(f"how sure when right: {sure[right].mean():.0%}")
print(f"how sure when wrong: {sure[~right].mean():.0%}")

# %% mistakes-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(2, 4, figsize=(5, 3), layout="constrained")
places = (~right).nonzero()[:, 0]
for panel, place in zip(panels.flat, places, strict=False):
    label = labels[valid][place]
    panel.imshow(images[valid][place, 0], cmap="gray_r")
    panel.set_title(f"{answers[place]}, {sure[place]:.0%}")
    panel.set(xticks=(), yticks=(), xlabel=f"really {label}")
figure.suptitle("What the network said, how sure it was, and the truth")
plt.show()


# %% standard-error
def standard_error(accuracy, pictures):
    return (accuracy * (1 - accuracy) / pictures) ** 0.5


print(f"{standard_error(0.97, 300):.2%}")

# %% draws
torch.manual_seed(0)
draws = torch.rand(1000, 300) < 0.97  # is the answer right?
shown = draws.double().mean(dim=1)  # 1,000 accuracies

print(f"typically off by {shown.std():.2%}")
print(f"lowest {shown.min():.1%}, highest {shown.max():.1%}")
print(f"98 % or more: {(shown >= 0.98).sum()} of 1,000")

# %% test
_, at_the_end = evaluate(model, images[test], labels[test])

print(f"test: {at_the_end:.1%}")

# %% on-training
# Wrong on purpose: do not copy.
_, too_good = evaluate(model, images[train], labels[train])

print(f"the network: {too_good:.1%}")

# %% quiz
print(f"{standard_error(0.97, 1200):.2%}")


# %% solution
def weakest(confusion):
    recall = confusion.diagonal() / confusion.sum(dim=1)
    return recall.argmin().item()


# %% solution-checked
three = torch.tensor([[50, 1, 9], [4, 12, 1], [0, 1, 9]])
if weakest(three) == 1:
    print("Right: the weakest digit of the network is", weakest(confusion))
else:
    print("Not yet: 12 of 17 ones are found, but your answer is", end=" ")
    print(weakest(three))
