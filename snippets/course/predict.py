"""
Save the model, and predict a picture
=====================================

A trained model goes into a file, and names the digit in a picture.
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

# %% folder
import atexit
import shutil
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
model_file = folder / "digits.pt"

# %% save
words = "zero one two three four five six seven eight nine"
names = words.split()  # the name of class 0, of class 1 and so on
weights = model.state_dict()
torch.save({"weights": weights, "names": names}, model_file)

# %% load
saved = torch.load(model_file, map_location="cpu")
loaded = Net()  # the same layers, with random numbers
loaded.load_state_dict(saved["weights"])
loaded.eval()

# %% draw
from PIL import Image

digit = images[test[21]]  # a six, of shape (1, 8, 8)
ink = (digit[0] * 255).round().byte().numpy()
gray = Image.fromarray(255 - ink).resize((80, 80), Image.Resampling.NEAREST)
gray.save(folder / "gray.png")

# %% prepare
import numpy as np


def prepare(path):
    with Image.open(path) as picture:
        gray = picture.convert("L")
    small = gray.resize((8, 8), Image.Resampling.BOX)
    light = torch.tensor(np.array(small)) / 255  # black is 0, white is 1
    pixels = 1 - light  # no ink is 0, ink is 1
    return pixels[None, None]  # a batch of one, with one channel


# %% predict
def predict(path):
    with torch.no_grad():
        scores = loaded(prepare(path))
    probability, best = scores.softmax(dim=1)[0].max(dim=0)
    return saved["names"][best], probability.item()


name, probability = predict(folder / "gray.png")
print(f"{name}: {probability:.1%}")

# %% state-dict
for name, tensor in saved["weights"].items():
    print(name, tuple(tensor.shape))

# %% by-hand
pixels = prepare(folder / "gray.png")[0]
print("in the data set:", digits.images[test[21], 0, 3])
print("in training:", digit[0, 0, 3].item())
print("in the file:", gray.getpixel((35, 5)))
print("prepared:", round(pixels[0, 0, 3].item(), 3))

# %% read-drawn
import matplotlib.pyplot as plt

_, (left, middle, right) = plt.subplots(
    1, 3, figsize=(7, 2.6), layout="constrained", width_ratios=[1, 1, 1.4]
)
left.imshow(gray, cmap="gray", vmin=0, vmax=255)
left.set_title("the file, 80 x 80", size=10)
middle.imshow(pixels[0], cmap="gray", vmin=0, vmax=1)
middle.set_title("prepared, 8 x 8", size=10)
for panel in (left, middle):
    panel.set(xticks=[], yticks=[])
with torch.no_grad():
    shares = loaded(pixels[None]).softmax(dim=1)[0]
colors = ["#0072B2"] * 10
colors[shares.argmax()] = "#D55E00"
right.barh(names, shares, color=colors)
right.set(xlim=(0, 1), xlabel="probability")
right.invert_yaxis()
plt.suptitle("From a picture file to a probability for each digit")
plt.show()

# %% other-files
gray.convert("RGB").save(folder / "color.png")
gray.resize((200, 200)).save(folder / "large.png")

for path in sorted(folder.glob("*.png")):
    name, probability = predict(path)
    print(f"{path.name}: {name}, {probability:.0%}")

# %% guess
# Wrong on purpose: do not copy.
with torch.no_grad():
    scores = loaded(1 - digit[None])
probability, best = scores.softmax(dim=1)[0].max(dim=0)
print(f"{names[best]}: {probability:.0%}")

# %% ways
ways = {
    "as in training": lambda x: x,
    "inverted": lambda x: 1 - x,
    "transposed": lambda x: x.mT,
}


def judge(x):
    with torch.no_grad():
        probability, best = loaded(x).softmax(dim=1).max(dim=1)
    right = best == labels[test]
    return right.double().mean().item(), probability[~right].mean().item()


judged = {}
for way, change in ways.items():
    judged[way] = judge(change(images[test]))
    right, sure = judged[way]
    print(f"{way}: {right:.0%} right, wrong names look {sure:.0%} sure")

# %% changed
# Wrong on purpose: do not copy.
letters = Net()
letters.linear = nn.Linear(128, 26)  # 26 letters in place of 10 digits
try:
    print(letters.load_state_dict(saved["weights"]))
except RuntimeError as error:
    print(error)


# %% top-three
def top_three(path):
    with torch.no_grad():
        scores = loaded(prepare(path))
    places = scores[0].topk(3).indices
    return [names[place] for place in places]


# %% top-three-checked
with torch.no_grad():
    scores = loaded(prepare(folder / "gray.png"))[0].tolist()
ranked = sorted(zip(scores, names, strict=True), reverse=True)
expected = [name for _, name in ranked[:3]]
found = top_three(folder / "gray.png")
if found == expected:
    print("Right: the digit is most likely", *found)
else:
    print("Not yet: expected", expected, "but found", found)
