"""
Build a network of your own
===========================

A small convolutional network names more digits right than a linear model.
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


# %% network
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

# %% train
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
for _ in range(10):
    train_epoch(model, loader, optimizer)

loss, right = evaluate(model, images[valid], labels[valid])
print(f"network: {right:.0%} right")

# %% compare
torch.manual_seed(0)
linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
for _ in range(10):
    train_epoch(linear, loader, optimizer)

loss, linear_right = evaluate(linear, images[valid], labels[valid])
print(f"linear: {linear_right:.0%} right")

# %% window
picture = torch.tensor([[0.0, 0.0, 1.0, 1.0, 1.0]] * 5)
weights = torch.tensor([[-1.0, 0.0, 1.0]] * 3)
edges = F.conv2d(picture[None, None], weights[None, None])[0, 0]

print(picture)
print(weights)
print(edges)

# %% digit
zero = images[0]  # 1 x 8 x 8
found = F.conv2d(zero, weights[None, None], padding=1)

# %% digit-drawn
import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

colors = ["#0072B2", "white", "#D55E00"]
two_sides = LinearSegmentedColormap.from_list("two sides", colors)
_, (left, right_side) = plt.subplots(
    1, 2, figsize=(6.4, 3.2), layout="constrained"
)
left.imshow(zero[0], cmap="gray_r")
left.set_title("a digit")
shown = right_side.imshow(found[0], cmap=two_sides, vmin=-3, vmax=3)
right_side.set_title("what nine weights give")
plt.colorbar(shown, ax=right_side, shrink=0.8)
for panel in (left, right_side):
    panel.axis("off")
plt.suptitle("Orange: ink begins. Blue: ink ends.")
plt.show()

# %% shapes
x = images[:5]
print("five pictures:", x.shape)
x = F.max_pool2d(model.conv1(x).relu(), 2)
print("first pooling:", x.shape)
x = F.max_pool2d(model.conv2(x).relu(), 2)
print("second pooling:", x.shape)
x = x.flatten(1)
print("flattened:", x.shape)


# %% relu
def first(x):
    return 2 * x + 1


def second(x):
    return 3 * x - 2


x = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])
in_a_row = second(first(x))
with_relu = second(first(x).relu())
print("in a row: ", in_a_row)
print("with relu:", with_relu)

# %% count
for name, layer in model.named_children():
    print(name, sum(p.numel() for p in layer.parameters()))
total = sum(p.numel() for p in model.parameters())
print("all", total)


# %% unpooled
# Wrong on purpose: do not copy.
class Unpooled(Net):
    def forward(self, x):
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = self.conv2(x).relu()
        return self.linear(x.flatten(1))


try:
    Unpooled()(images[:5])
except RuntimeError as error:
    print(error)

# %% quiz
stripe = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]] * 3)
answer = F.conv2d(stripe[None, None], weights[None, None])[0, 0]
print(answer)
print(answer.relu())


# %% small
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)
        return self.linear(x.flatten(1))


# %% small-checked
small = Small()
scores = small(images[:5])
numbers = sum(p.numel() for p in small.parameters())
if scores.shape == (5, 10) and numbers == 1898:
    print("Right: ten scores for each picture, from 1,898 parameters")
else:
    print("Not yet:", tuple(scores.shape), "scores,", numbers, "parameters")
