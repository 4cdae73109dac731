"""
Write a custom dataset: Subset, random_split and transforms
===========================================================

A dataset of picture files, and random_split in fourteen lines.
"""

# %% files
import atexit
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
digits = load_digits()
for number, label in enumerate(digits.target[:100]):
    path = folder / str(label) / f"{number:02}.png"
    path.parent.mkdir(exist_ok=True)
    gray = (digits.images[number] * 255 / 16).astype("uint8")
    Image.fromarray(gray).save(path)

# %% do-this
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class Digits(Dataset):
    def __init__(self, paths, transform):
        self.paths, self.transform = paths, transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as file:  # opened now, not before
            pixels = np.array(ImageOps.exif_transpose(file).convert("RGB"))
        image = torch.from_numpy(pixels).permute(2, 0, 1) / 255
        return self.transform(image), int(self.paths[index].parent.name)


# %% split
def shifted(image):  # a pixel to the left, to the right, or not at all
    return image.roll(torch.randint(-1, 2, ()).item(), dims=2)


paths = sorted(Path(folder).glob("*/*.png"))
seed = torch.Generator().manual_seed(0)
train_paths, val_paths = random_split(paths, [0.8, 0.2], seed)
train_set = Digits(train_paths, shifted)
val_set = Digits(val_paths, nn.Identity())  # no transform

image, label = train_set[0]
print(len(train_set), len(val_set), image.shape, image.dtype, label)


# %% by-hand
class Part(Dataset):
    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices  # 1

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]  # 2


def split(dataset, lengths, generator=None):
    if 1 - 1e-9 < sum(lengths) <= 1:  # fractions
        lengths = [int(len(dataset) * each) for each in lengths]  # 3
        rest = len(dataset) - sum(lengths)
        lengths = [n + (place < rest) for place, n in enumerate(lengths)]  # 4
    order = torch.randperm(len(dataset), generator=generator)  # 5
    return [Part(dataset, each.tolist()) for each in order.split(lengths)]


# %% compare
for count in (10, 11, 100):
    for lengths in ([0.8, 0.2], [0.45, 0.35, 0.2], [count - 1, 1]):
        halves = []
        for function in (random_split, split):
            torch.manual_seed(1)
            parts = function(paths[:count], lengths)
            samples = [list(part) for part in parts]
            halves.append((samples, torch.rand(1)))  # and what comes next
        sizes = [len(part) for part in parts]
        same = "same" if halves[0] == halves[1] else "different"
        print(f"{count:3} files, {lengths}: {sizes}, {same}")

# %% walk
letters = "abcdefghij"
for part in random_split(letters, [0.7, 0.15, 0.15], seed.manual_seed(0)):
    print(part.indices, [*part])

# %% epochs
import matplotlib.pyplot as plt

torch.manual_seed(3)
drawn = [train_set[0] for epoch in range(4)]

figure, axes = plt.subplots(1, 4, figsize=(7, 2.1), layout="constrained")
for epoch, (picture, _) in enumerate(drawn):
    ax = axes[epoch]
    ax.imshow(picture.permute(1, 2, 0))
    ax.set(title=f"epoch {epoch}", xticks=[], yticks=[])
figure.suptitle("train_set[0] in four epochs")
plt.show()


# %% shared-transform
# Wrong on purpose: do not copy.
def different(part):  # pictures among 30 reads of one sample
    return len({part[0][0].numpy().tobytes() for _ in range(30)})


train_part, val_part = random_split(Digits(paths, shifted), [0.8, 0.2])
print("as split:", different(train_part), different(val_part))

val_part.transform = nn.Identity()
print("val_part.transform:", different(train_part), different(val_part))

val_part.dataset.transform = nn.Identity()
print("dataset.transform:", different(train_part), different(val_part))

# %% own-dataset
train_part, val_part = random_split(Digits(paths, shifted), [0.8, 0.2])
val_part.dataset = Digits(paths, nn.Identity())
print("training:", different(train_part), "validation:", different(val_part))

# %% no-attribute
try:
    val_part.paths
except AttributeError as error:
    print(error)

files = [val_part.dataset.paths[index] for index in val_part.indices]
print(len(files), "paths")

# %% copies
# Wrong on purpose: do not copy.
from torch.utils.data import ConcatDataset

copied = ConcatDataset([Digits(paths, nn.Identity()), Digits(paths, shifted)])
leaky_train, leaky_val = random_split(copied, [0.8, 0.2], seed.manual_seed(0))
seen = {index % 100 for index in leaky_train.indices}  # files in training
leaks = [index for index in leaky_val.indices if index % 100 in seen]
print(len(leaks), "of", len(leaky_val), "validation pictures")

# %% copies-later
both = ConcatDataset([Digits(train_paths, nn.Identity()), train_set])
print(len(both), "for training;", {*train_paths} & {*val_paths}, "in both")

# %% in-place
# Wrong on purpose: do not copy.
stored = [val_set[index] for index in range(len(val_set))]  # read once
print("as read:", stored[0][0].max())
for epoch in range(3):
    brighter = [image.mul_(2) for image, label in stored]
    print(f"epoch {epoch}:", brighter[0].max())


# %% no-length
# Wrong on purpose: do not copy.
class NoLength(Dataset):
    def __getitem__(self, index):
        return paths[index]


try:
    random_split(NoLength(), [0.8, 0.2])
except TypeError as error:
    print(error)


# %% own-memory
def own_memory():
    text = Path("/proc/self/smaps_rollup").read_text()  # of this process
    return 1024 * int(text.split("Private_Dirty:")[1].split()[0])


class Reads(Dataset):
    def __init__(self, numbers):
        self.numbers = numbers

    def __len__(self):
        return 1

    def __getitem__(self, index):
        before = own_memory()
        for place in range(0, len(self.numbers), 100):
            self.numbers[place]
        return own_memory() - before


def growth(numbers):
    start = {"num_workers": 1, "multiprocessing_context": "fork"}
    return next(iter(DataLoader(Reads(numbers), **start))).item()


# %% grown
if Path("/proc/self/smaps_rollup").exists():  # Linux
    array = np.arange(1_000_000)
    million = {"list": array.tolist(), "array": array}
    million["tensor"] = torch.from_numpy(array)
    grown = {name: growth(numbers) for name, numbers in million.items()}
    for name, size in grown.items():
        print(f"{name}: {round(size / 10_000_000) * 10} MB")

# %% thirds
parts = random_split(range(7), [0.5, 0.25, 0.25])
print([len(part) for part in parts])


# %% in-memory
class InMemory(Dataset):
    def __init__(self, dataset, transform):
        samples = [dataset[index] for index in range(len(dataset))]
        self.images = torch.stack([image for image, label in samples])
        self.labels = [label for image, label in samples]
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.images[index].clone()), self.labels[index]


# %% in-memory-checked
reads, runs = [], []  # samples that were read, and runs of the transform


class Counted(Digits):
    def __getitem__(self, index):
        reads.append(index)
        return super().__getitem__(index)


def doubled(image):
    runs.append(image)
    return image.mul_(2)


twice = InMemory(Counted(val_paths, nn.Identity()), doubled)
first, second = ([twice[i] for i in range(len(val_set))] for _ in range(2))
pairs = zip(second, val_set, strict=True)
kept = [each for each in vars(twice).values() if torch.is_tensor(each)]

if sorted(reads) != [*range(len(val_set))]:
    print(f"{len(reads)} reads of {len({*reads})} files: read each file once.")
elif [label for _, label in first] != [label for _, label in val_set]:
    print("The labels are those of other pictures.")
elif not all(image.equal(2 * fresh) for (image, _), (fresh, _) in pairs):
    print("The second epoch is not twice as bright as the files.")
elif len(runs) != 2 * len(val_set):
    print("The transform does not run once at each read.")
elif not any(each.shape == (len(val_set), 3, 8, 8) for each in kept):
    print("The pictures are not in one tensor.")
else:
    print("Right: each file is read once, and what is kept stays as it was.")
