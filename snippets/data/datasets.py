"""
Write a dataset
===============

Pictures from files: their transforms, their split, and what workers cost.
"""

# %% do-this
import numpy as np
import torch
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset, Subset


def read(path):
    with Image.open(path) as file:
        image = ImageOps.exif_transpose(file)  # a photo comes upright
        pixels = np.array(image.convert("RGB").resize((32, 32)))
    return torch.from_numpy(pixels).permute(2, 0, 1)  # channels first


# %% dataset
class Pictures(Dataset):
    def __init__(self, paths, labels, transform):
        self.paths, self.transform = paths, transform
        self.labels = torch.tensor(labels)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = read(self.paths[index])  # opened now, not before
        return self.transform(image), self.labels[index]


# %% transforms
def augment(image):  # for training
    top, left = torch.randint(9, (2,))
    image = image[:, top : top + 24, left : left + 24] / 255
    return image.flip(-1) if torch.rand(()) < 0.5 else image


def center(image):  # for evaluation
    return image[:, 4:28, 4:28] / 255


# %% files
import atexit
import shutil
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
for number, mode in enumerate(["RGB", "L", "RGBA", "P"] * 2):
    name, sky = [("day", "skyblue"), ("night", "navy")][number // 4]
    image = Image.new("RGB", (40 + number, 36), sky)
    image.paste((255, 255, 0), (6, 8, 18, 20))  # a sun or a moon, in yellow
    image.convert(mode).save(folder / f"{number}_{name}.png")

# %% sample
paths = sorted(folder.glob("*.png"))
labels = [int("night" in path.name) for path in paths]
training = Pictures(paths, labels, augment)

image, label = training[6]
print(image.shape, image.dtype, image.amax().item(), label)

# %% epochs
torch.manual_seed(0)
drawn = [training[0] for epoch in range(3)]

# %% epochs-drawn
import matplotlib.pyplot as plt

with Image.open(paths[0]) as file:
    panels = {f"index 0:\n{paths[0].name}": np.array(file)}
panels["read():\n32 x 32"] = read(paths[0]).permute(1, 2, 0)
for epoch, (image, _) in enumerate(drawn):
    panels[f"transform,\nepoch {epoch}"] = image.permute(1, 2, 0)
figure, axes = plt.subplots(1, 5, figsize=(7, 2), layout="constrained")
for ax, (title, pixels) in zip(axes, panels.items(), strict=True):
    ax.imshow(pixels, extent=(0, pixels.shape[1], pixels.shape[0], 0))
    ax.set(title=title, xlim=(0, 40), ylim=(36, 0), xticks=[], yticks=[])
figure.suptitle("From an index to a sample")
plt.show()


# %% difference
def difference(dataset):  # between two reads of one sample
    (first, _), (again, _) = dataset[0], dataset[0]
    return (first - again).abs().amax().item()


# %% split
seed = torch.Generator().manual_seed(0)
order = torch.randperm(len(paths), generator=seed).tolist()

train = Subset(Pictures(paths, labels, augment), order[2:])
validation = Subset(Pictures(paths, labels, center), order[:2])

for part in (train, validation):
    print(part.indices, "differs by", difference(part))


# %% wrapper
class Transformed(Dataset):
    def __init__(self, dataset, transform):
        self.dataset, self.transform = dataset, transform

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        image, label = self.dataset[index]
        return self.transform(image), label


# %% in-memory
from torch.utils.data import TensorDataset

stacked = TensorDataset(
    torch.stack([read(path) for path in paths]), torch.tensor(labels)
)
in_memory = Transformed(stacked, augment)

held, sample = stacked.tensors[0], in_memory[0][0]
print(held.shape, held.dtype, held.nbytes, "bytes")
print(sample.shape, sample.dtype)

# %% shared-transform
# Wrong on purpose: do not copy.
from torch.utils.data import random_split

some, others = random_split(Pictures(paths, labels, augment), [6, 2])
before = difference(others)  # for validation
others.dataset.transform = center
after = difference(some)  # for training

print("validation differs by", before)
print("training differs by", after)

# %% picture
image = Image.open(paths[1]).convert("RGB")
pixels = torch.from_numpy(np.array(image))
print(image.size, pixels.shape, pixels.dtype, pixels.amax())


# %% refusal
def refusal(attempt):
    try:
        return attempt()
    except (RuntimeError, TypeError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")
        return error


# %% not-a-tensor
# Wrong on purpose: do not copy.
convolution = torch.nn.Conv2d(3, 1, kernel_size=3)
attempts = [
    lambda: torch.Tensor(image),
    lambda: torch.tensor(image),
    lambda: torch.from_numpy(image),
    lambda: next(iter(DataLoader([image]))),
    lambda: convolution(pixels / 255),  # channels last
    lambda: convolution(pixels.permute(2, 0, 1)),  # uint8
]
refused = [refusal(attempt) for attempt in attempts]

# %% mixed-sizes
# Wrong on purpose: do not copy.
as_they_are = [np.array(Image.open(path).convert("RGB")) for path in paths]
mixed = refusal(lambda: next(iter(DataLoader(as_they_are, batch_size=2))))


# %% no-length
# Wrong on purpose: do not copy.
class NoLength(Dataset):
    def __getitem__(self, index):
        return index


made = refusal(lambda: DataLoader(NoLength(), shuffle=True))

# %% few-files
import os
import re
import resource


def with_few_files(attempt):
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    numbers = [os.dup(1) for _ in range(40)]  # those of the next 40 files
    for number in numbers:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(numbers) + 1, most))
    try:
        return attempt()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


# %% list-of-tensors
# Wrong on purpose: do not copy.
start = {"num_workers": 1, "multiprocessing_context": "spawn"}
images = [torch.zeros(3, 24, 24) for _ in range(100)]
found = None
try:
    with_few_files(lambda: iter(DataLoader(images, **start)))
except RuntimeError as error:
    found = str(error)

print(re.sub(r"torch_\w+", "torch_...", str(found)))


# %% own-bytes
def own_bytes():
    text = Path("/proc/self/smaps_rollup").read_text()  # of this process
    return 1024 * int(text.split("Private_Dirty:")[1].split()[0])


# %% labels
class Labels(Dataset):
    def __init__(self, labels):
        self.labels = labels

    def __len__(self):
        return 1

    def __getitem__(self, index):
        before = own_bytes()
        for place in range(0, len(self.labels), 100):
            self.labels[place]
        return own_bytes() - before


# %% growth
def growth(labels):
    start = {"num_workers": 1, "multiprocessing_context": "fork"}
    return next(iter(DataLoader(Labels(labels), **start))).item()


# %% grown
if Path("/proc/self/smaps_rollup").exists():  # Linux
    array = np.arange(1_000_000)
    numbers = {"list": array.tolist(), "array": array}
    numbers["tensor"] = torch.from_numpy(array)
    grown = {name: growth(each) for name, each in numbers.items()}
    for name, size in grown.items():
        print(f"{name}: {round(size / 10_000_000) * 10} MB")
