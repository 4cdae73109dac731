"""
Write a dataset
===============

Samples from image files, by index and as a stream, and what workers do.
"""

# %% imports
import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset

# %% files
folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends

modes = ("RGB", "L", "RGBA", "RGB", "L", "RGBA")
for number, mode in enumerate(modes):
    image = Image.new("RGB", (8 + number, 6), (255, 40 * number, 0))
    image.convert(mode).save(folder / f"{number}.png")

# %% wrong-tensor
image = Image.open(folder / "0.png").convert("RGB")

try:
    torch.Tensor(image)
except TypeError as error:
    print(error)

# %% pixels
pixels = torch.from_numpy(np.array(image))

print(tuple(pixels.shape), pixels.dtype, pixels.amax().item())

# %% right-tensor
scaled = pixels.permute(2, 0, 1).float() / 255

print(tuple(scaled.shape), scaled.dtype, scaled.amax().item())


# %% dataset
class Pictures(Dataset):
    def __init__(self, paths, size=None):
        self.paths = paths
        self.size = size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as image:
            image = image.convert("RGB")
            image = image.resize(self.size or image.size)
        pixels = torch.from_numpy(np.array(image))
        return pixels.permute(2, 0, 1).float() / 255, index % 2


# %% sample
paths = sorted(folder.glob("*.png"))
pictures = Pictures(paths)
image, label = pictures[5]

print(len(pictures), tuple(image.shape), label)

# %% mixed-sizes
try:
    next(iter(DataLoader(pictures, batch_size=2)))
except RuntimeError as error:
    print(error)

# %% one-size
loader = DataLoader(Pictures(paths, size=(8, 6)), batch_size=4)
shapes = [tuple(images.shape) for images, labels in loader]

print(shapes)


# %% no-length
class NoLength(Dataset):
    def __getitem__(self, index):
        return index


try:
    next(iter(DataLoader(NoLength(), batch_size=2)))
except TypeError as error:
    print(error)


# %% in-memory
class InMemory(Dataset):
    def __init__(self, dataset):
        self.samples = [dataset[i] for i in range(len(dataset))]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


# %% opened
class Counted(Pictures):
    opened = 0

    def __getitem__(self, index):
        Counted.opened += 1
        return super().__getitem__(index)


# %% trade
def trade(dataset, samples):
    Counted.opened = 0
    for _ in range(3):
        for _ in DataLoader(dataset, batch_size=2):
            pass
    held = sum(image.nbytes for image, label in samples)
    return {"files opened in 3 epochs": Counted.opened, "bytes held": held}


# %% both
on_demand = Counted(paths, size=(8, 6))
in_memory = InMemory(on_demand)
rows = {
    "on demand": trade(on_demand, []),
    "in memory": trade(in_memory, in_memory.samples),
}

# %% trade-table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")


# %% stream
class Stream(IterableDataset):
    def __iter__(self):
        yield from range(6)


# %% read-stream
def read(dataset, workers):
    loader = DataLoader(
        dataset, num_workers=workers, multiprocessing_context="fork"
    )
    return sorted(batch.item() for batch in loader)


once = sorted(batch.item() for batch in DataLoader(Stream()))
twice = read(Stream(), workers=2)

print(once, twice)


# %% sharded
class Sharded(IterableDataset):
    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        yield from range(first, 6, step)


shared_out = read(Sharded(), workers=2)

print(shared_out)

# %% stream-limits
try:
    DataLoader(Stream(), shuffle=True)
except ValueError as error:
    print(error)

try:
    len(DataLoader(Stream()))
except TypeError as error:
    print(error)


# %% worker-memory
class Labels(Dataset):
    def __init__(self, labels):
        self.labels = labels

    def __len__(self):
        return 2

    def __getitem__(self, index):
        for _ in self.labels:
            pass
        return private_bytes()


# %% private-bytes
def private_bytes():
    text = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * int(text.split("Private_Dirty:")[1].split()[0])


# %% list-or-array
def used_by_a_worker(labels):
    loader = DataLoader(
        Labels(labels), num_workers=1, multiprocessing_context="fork"
    )
    return [batch.item() for batch in loader][-1]


# %% compare-workers
MB = 1_000_000

if Path("/proc/self/smaps_rollup").exists():  # Linux
    numbers = np.arange(1_000_000)
    of_an_array = used_by_a_worker(numbers)
    of_a_list = used_by_a_worker(numbers.tolist())
    print("more than 25 MB more:", of_a_list - of_an_array > 25 * MB)
