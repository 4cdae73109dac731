"""
The project: a program that names your own pictures
===================================================

Seven functions turn folders of pictures into a program that names new ones.
"""

# %% so-far
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


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


# %% find-pictures
from pathlib import Path

ENDINGS = [".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp"]


def find_pictures(folder):
    paths = [
        path
        for path in sorted(Path(folder).glob("*/*"))
        if path.suffix.lower() in ENDINGS
    ]
    names = sorted({path.parent.name for path in paths})
    return [(path, names.index(path.parent.name)) for path in paths], names


# %% read-picture
import numpy as np
from PIL import Image


def read_picture(path):
    with Image.open(path) as image:
        small = image.convert("RGB").resize((32, 32))
    pixels = torch.tensor(np.array(small), dtype=torch.float32)
    return pixels.permute(2, 0, 1) / 255


# %% split
def split(pictures):
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(pictures), generator=generator).tolist()
    shuffled = [pictures[place] for place in order]
    count = len(pictures) // 5
    return shuffled[count:], shuffled[:count]


# %% make-model
class Net(nn.Module):
    def __init__(self, number_of_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.linear = nn.Linear(2048, number_of_classes)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)
        return self.linear(x.flatten(1))


def make_model(number_of_classes):
    return Net(number_of_classes)


# %% train
def read_all(pictures):
    images = torch.stack([read_picture(path) for path, _ in pictures])
    return images, torch.tensor([number for _, number in pictures])


def train(train_pictures, valid_pictures, names):
    data = TensorDataset(*read_all(train_pictures))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    images, labels = read_all(valid_pictures)

    torch.manual_seed(0)
    model = make_model(len(names))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for epoch in range(15):
        train_epoch(model, loader, optimizer)
        loss, right = evaluate(model, images, labels)
        print(f"epoch {epoch + 1}: loss {loss:.2f}, {right:.0%} right")
    return model


# %% save-and-load
def save(model, names, path):
    torch.save({"weights": model.state_dict(), "names": names}, path)


def load(path):
    saved = torch.load(path, map_location="cpu")
    model = make_model(len(saved["names"]))
    model.load_state_dict(saved["weights"])
    model.eval()
    return model, saved["names"]


# %% predict
def predict(model, names, path):
    with torch.no_grad():
        scores = model(read_picture(path)[None])  # a batch of one
    probability, best = scores.softmax(dim=1)[0].max(dim=0)
    return names[best], probability.item()


# %% command-line
import sys


def main(arguments):
    match arguments:
        case ["train", folder, path]:
            pictures, names = find_pictures(folder)
            model = train(*split(pictures), names)
            save(model, names, path)
        case ["predict", path, picture]:
            name, probability = predict(*load(path), picture)
            print(f"{name} {probability:.0%}")
        case _:
            print("python project.py train FOLDER MODEL")
            print("python project.py predict MODEL PICTURE")


if __name__ == "__main__":
    main(sys.argv[1:])

# %% draw
import atexit
import random
import shutil
import tempfile

from PIL import ImageDraw


def draw(shape, numbers):
    size = numbers.randint(32, 64)  # pixels
    paper = tuple(numbers.randint(160, 255) for _ in range(3))
    ink = tuple(numbers.randint(0, 120) for _ in range(3))
    radius = size * numbers.uniform(0.3, 0.45)
    x = numbers.uniform(radius, size - radius)
    y = numbers.uniform(radius, size - radius)
    image = Image.new("RGB", (size, size), paper)
    pen = ImageDraw.Draw(image)
    if shape == "ring":
        box = (x - radius, y - radius, x + radius, y + radius)
        pen.ellipse(box, outline=ink, width=size // 8)
    else:
        sides = {"triangle": 3, "square": 4, "hexagon": 6}[shape]
        pen.regular_polygon((x, y, radius), sides, fill=ink)
    return image


def draw_folder(folder, count, seed):
    numbers = random.Random(seed)
    for shape in ("ring", "square", "triangle"):
        place = Path(folder, shape)
        place.mkdir(parents=True)
        for number in range(1, count + 1):
            draw(shape, numbers).save(place / f"{number}.png")


folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
draw_folder(folder / "pictures", count=60, seed=0)
draw_folder(folder / "new", count=50, seed=1)

# %% run
main(["train", folder / "pictures", folder / "model.pt"])

# %% judge
model, names = load(folder / "model.pt")
new_pictures, _ = find_pictures(folder / "new")
answers = [predict(model, names, path) for path, _ in new_pictures]
truth = [path.parent.name for path, _ in new_pictures]
right = sum(a == b for (a, _), b in zip(answers, truth, strict=True))
print(f"{right} of {len(truth)} new pictures get the right name")

# %% show
import matplotlib.pyplot as plt

places = sorted(range(len(answers)), key=lambda place: answers[place][1])
_, panels = plt.subplots(2, 5, figsize=(7, 3.4), layout="constrained")
for panel, place in zip(
    panels.flat, places[:5] + places[-100::20], strict=True
):
    name, probability = answers[place]
    color = "#0072B2" if name == truth[place] else "#D55E00"
    panel.imshow(Image.open(new_pictures[place][0]))
    panel.set_title(f"{name} {probability:.0%}", color=color)
    panel.axis("off")
plt.suptitle("Above, the five answers that are least sure; below, five others")
plt.show()

# %% no-convert
# Wrong on purpose: do not copy.
shapes = {}
for mode in ("RGB", "L", "RGBA"):  # colors, gray, colors with transparency
    path = folder / f"{mode}.png"
    Image.new(mode, (40, 30)).save(path)
    image = Image.open(path).resize((32, 32))
    shapes[mode] = np.array(image).shape
print(shapes)

# %% hexagon
path = folder / "hexagon.png"
draw("hexagon", random.Random(0)).save(path)
name, probability = predict(model, names, path)
print(f"{name} {probability:.0%}")


# %% predict-all
def predict_all(model, names, folder):
    return {
        path.name: predict(model, names, path)[0]
        for path in sorted(Path(folder).iterdir())
        if path.suffix.lower() in ENDINGS
    }


# %% predict-all-checked
(folder / "new" / "ring" / "notes.txt").write_text("not a picture")
named = predict_all(model, names, folder / "new" / "ring")
if named == {
    path.name: answer[0]
    for (path, _), answer in zip(new_pictures, answers, strict=True)
    if path.parent.name == "ring"
}:
    print("Right: each of the", len(named), "pictures has its name")
else:
    print("Not yet: expected a name for each picture, got", named)
