"""
Save a model, load it, and predict one sample
=============================================

A trained model goes into a file, and one picture gets a name.
"""

# %% data
import atexit
import shutil
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.nn import functional as F

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
shuffled = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid, test = shuffled.split([1200, 300, 297])

words = "zero one two three four five six seven eight nine"
names = words.split()  # the name of class 0, of class 1 and so on
image = images[test[0]]  # 1 x 8 x 8

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
path = folder / "digits.pt"


# %% make-model
def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(3),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(144, 10),
    )


torch.manual_seed(0)
model = make_model()

# %% train
optimizer = optim.Adam(model.parameters(), lr=0.02)
for _ in range(10):
    for batch in train[torch.randperm(1200)].split(100):
        loss = F.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# %% save
torch.save({"weights": model.state_dict(), "names": names}, path)

# %% predict
saved = torch.load(path, map_location="cpu")
loaded = make_model()  # the same layers, with random weights
loaded.load_state_dict(saved["weights"])
loaded.eval()

with torch.inference_mode():
    scores = loaded(image.unsqueeze(0))  # a batch of one
probabilities = scores.softmax(dim=1)[0]
probability, best = probabilities.max(dim=0)
print(f"{saved['names'][best]}: {probability:.1%}")

# %% shapes
print("image:", image.shape)
print("batch of one:", image.unsqueeze(0).shape)
print("scores:", scores.shape)
print("probabilities:", probabilities.shape)

# %% by-hand
three_scores = torch.tensor([2.0, 0.0, 0.0])
print("powers of e:", three_scores.exp())
print("probabilities:", three_scores.softmax(dim=0))

# %% top-k
top = probabilities.topk(3)
for value, place in zip(*top, strict=True):
    print(f"{names[place]}: {value:.2%}")

# %% checkpoint
checkpoint = {
    "weights": model.state_dict(),
    "names": names,  # in the order of the class numbers
    "size": (8, 8),
    "white": 0.0,  # the number for a white pixel,
    "black": 1.0,  # and for a black one
}
torch.save(checkpoint, path)

# %% prepare
import numpy as np
from PIL import Image, ImageOps


def prepare(file, saved):
    upright = ImageOps.exif_transpose(Image.open(file))
    gray = upright.convert("L")
    small = gray.resize(saved["size"], Image.Resampling.BOX)
    light = torch.tensor(np.array(small)) / 255  # black is 0, white is 1
    pixels = saved["black"] + (saved["white"] - saved["black"]) * light
    return pixels[None]  # channel x height x width


# %% read
def read(file, path):
    saved = torch.load(path, map_location="cpu")
    model = make_model()
    model.load_state_dict(saved["weights"])
    model.eval()
    with torch.inference_mode():
        scores = model(prepare(file, saved).unsqueeze(0))
    probability, best = scores.softmax(dim=1)[0].max(dim=0)
    return saved["names"][best], probability.item()


# %% scan
def scan(image, file):  # black ink on white paper, 80 x 80 pixels, in color
    ink = (image[0] * 255).round().to(torch.uint8).numpy()
    paper = Image.fromarray(255 - ink).convert("RGB")
    paper.resize((80, 80), Image.Resampling.NEAREST).save(file)


# %% from-a-file
scan(image, folder / "scan.png")
answer = read(folder / "scan.png", path)
print(answer)

# %% on-a-device
device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)
moved = make_model().to(device)
moved.load_state_dict(saved["weights"])
moved.eval()
with torch.inference_mode():
    moved_scores = moved(image.unsqueeze(0).to(device)).cpu()

# %% ways
ways = {
    "as in training": lambda x: x,
    "not scaled: 0 to 16": lambda x: x * 16,
    "scaled twice": lambda x: x / 16,
    "inverted": lambda x: 1 - x,
    "transposed": lambda x: x.mT,
    "twice as large": lambda x: F.interpolate(x, scale_factor=2),
}

# %% ways-drawn
import matplotlib.pyplot as plt

changed = {way: change(image[None]) for way, change in ways.items()}
_, panels = plt.subplots(3, 2, figsize=(4, 6), layout="constrained")
for panel, (way, x) in zip(panels.flat, changed.items(), strict=True):
    with torch.inference_mode():
        shown, answer = loaded(x).softmax(dim=1)[0].max(dim=0)
    panel.imshow(x[0, 0], cmap="gray", vmin=0, vmax=1)
    panel.set_title(f"{way}\n{names[answer]}, {shown:.0%}", size=10)
for panel in panels.flat:
    panel.axis("off")
plt.suptitle(f"A {names[labels[test[0]]]}, prepared in six ways")
plt.show()


# %% judge
def judge(x):
    with torch.inference_mode():
        shown, best = loaded(x).softmax(dim=1).max(dim=1)
    right = best == labels[test]
    return right.float().mean().item(), shown[~right].mean().item()


judged = {way: judge(change(images[test])) for way, change in ways.items()}

# %% judged-table
import pandas as pd

columns = ["answers that are right", "mean probability of a wrong answer"]
rows = [[f"{part:.0%}" for part in each] for each in judged.values()]
pd.DataFrame(rows, judged, columns)


# %% error-of
def error_of(call, *inputs):
    try:
        call(*inputs)
    except (RuntimeError, IndexError) as error:
        return str(error)


# %% raises
colored = error_of(loaded, image.expand(3, 8, 8).unsqueeze(0))
bytes_given = error_of(loaded, (image * 16).byte().unsqueeze(0))

print(colored, bytes_given, sep="\n")

# %% sorted-names
# Wrong on purpose: do not copy.
by_alphabet = sorted(names)
for number in (0, 3, 6):
    print("class", number, "is called", by_alphabet[number])

# %% forgotten-eval
# Wrong on purpose: do not copy.
again = make_model()
again.load_state_dict(model.eval().state_dict())
with torch.inference_mode():
    tries = [again(images[test]).softmax(dim=1) for _ in range(2)]

first, second = (each.argmax(dim=1) for each in tries)
print("in training mode:", again.training)
print("other names the second time:", (first != second).sum().item())

# %% one-by-accident
# Wrong on purpose: do not copy.
over_batch = scores.softmax(dim=0)
print(over_batch)

# %% no-batch
no_batch = error_of(loaded, image)
print(no_batch)

# %% silent-batch
flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
color = torch.rand(3, 8, 8)  # red, green and blue of one picture
vector = torch.rand(64)

print("a color picture:", flat(color).shape)
print("a vector:", flat[1](vector).shape)

# %% programs
imports = """
import torch
from torch import nn
"""
network = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
"""
train_py = f"""{imports}{network}
torch.save(Net(), "net.pt")
"""

# %% predict-program
predict_py = f"""{imports}
def load(**options):
    try:
        print(type(torch.load("net.pt", **options)))
    except Exception as error:
        print(f"{{type(error).__name__}}: {{str(error).partition('. ')[0]}}")

load()
load(weights_only=False)
{network}
load(weights_only=False)
"""

# %% run
import subprocess
import sys


def run(name, program):
    (folder / name).write_text(program)
    command = [sys.executable, name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found = (done.stdout + done.stderr).replace(f"{folder.resolve()}/", "")
    return found.replace(f"{folder}/", "").splitlines()


# %% elsewhere
trained_lines = run("train.py", train_py)
*refused, opened = run("predict.py", predict_py)
print(*refused, sep="\n")

# %% with-the-class
print(opened)

# %% blank
with torch.inference_mode():
    blank = loaded(torch.zeros(1, 1, 8, 8)).softmax(dim=1)[0]

print("sum:", round(blank.sum().item(), 3))


# %% or-unsure
def or_unsure(probabilities, names):
    probability, best = probabilities.max(dim=0)
    return names[best] if probability > 0.9 else "unsure"


# %% or-unsure-checked
sure, unsure = torch.full((10,), 0.005), torch.full((10,), 0.1)
sure[7] = 0.955
answers = [or_unsure(each, names) for each in (sure, unsure)]
if answers == ["seven", "unsure"]:
    print("Right: the digit is named", or_unsure(probabilities, names))
else:
    print("Not yet: they should be seven and unsure, and are", answers)
