"""
A DataLoader fails
==================

Errors of loops, datasets and pictures, each with what mends it.
"""

# %% arguments
import os
import re
import signal
import sys
import time
import warnings

from torch.utils.data import DataLoader, Dataset

needs = {"prefetch_factor": 2, "persistent_workers": True, "timeout": 60}
needs["multiprocessing_context"] = "fork"
texts = {}

for name, value in needs.items():
    try:
        next(iter(DataLoader([1.0, 2.0], **{name: value})))
    except (ValueError, AssertionError) as error:
        texts[name] = f"{type(error).__name__}: {error}"
        print(texts[name])

# %% too-many-workers
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    DataLoader(range(12), num_workers=os.cpu_count() + 1)

for warning in caught:
    print(re.sub(r"\d+", "N", str(warning.message)))

# %% killed
said = os.memfd_create("said")  # a file in memory


def quiet(worker_id):
    sys.stderr = os.fdopen(said, "w", 1)  # what Python prints
    os.dup2(said, 2)  # and what torch does


one = {"num_workers": 1, "multiprocessing_context": "fork"}


class Killed(Dataset):
    def __init__(self, name):
        self.signal = getattr(signal, name)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        time.sleep(0.2)
        os.kill(os.getpid(), self.signal)


# %% kill
for name in ("SIGKILL", "SIGBUS"):
    try:
        list(DataLoader(Killed(name), **one, worker_init_fn=quiet))
    except RuntimeError as error:
        print(re.sub(r"\d+", "N", str(error.__cause__)))
        print(re.sub(r"\d+", "N", str(error)))


# %% unpicklable
class Unpicklable(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        class MissingSample(Exception):
            pass

        raise MissingSample(index)


# %% hang
said = os.memfd_create("said")
try:
    data = Unpicklable()
    list(DataLoader(data, **one, timeout=1, worker_init_fn=quiet))
except RuntimeError as error:
    print(re.sub(r"\d+", "N", str(error)))
print("A worker said:", os.pread(said, 9999, 0).decode().splitlines()[-1])

# %% few-files
import resource

import torch


def keep(what):
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    numbers = [os.dup(1) for _ in range(40)]  # those of the next 40 files
    for number in numbers:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(numbers) + 1, most))
    try:
        return list(map(what, DataLoader(torch.arange(200.0), **one)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


# %% too-many-files
try:
    keep(torch.Tensor.detach)
except RuntimeError as error:
    print(error)
print("Batches kept as copies:", len(keep(torch.Tensor.clone)))

# %% next
loader = DataLoader([1.0, 2.0, 3.0])
batches = iter(loader)

try:
    batches.next()  # as it was before torch 1.13
except AttributeError as error:
    print(error, end="\n\n")

first, second = next(batches), next(batches)
print(first, second)

# %% empty
from pathlib import Path

files = sorted(Path("photos").glob("*.jpg"))  # there is no such folder

try:
    DataLoader(files, shuffle=True)
except ValueError as error:
    print(error, end="\n\n")

batches = list(DataLoader(files))
print(len(files), "files,", len(batches), "batches")

# %% in-a-worker
short = [torch.zeros(3), torch.zeros(2)]

try:
    next(iter(DataLoader(short, 2, **one)))
except RuntimeError as error:
    error.with_traceback(None)  # which still holds the worker
    print(str(error).splitlines()[-1])

# %% filtered
import numpy as np
import pandas as pd


class Sizes(Dataset):
    def __init__(self, table):
        self.column = table["size"]

    def __len__(self):
        return len(self.column)

    def __getitem__(self, index):
        return self.column[index]


table = pd.DataFrame({"size": [1.0, 5.0, 2.0, 6.0]})
large = Sizes(table[table["size"] > 3])  # the rows 1 and 3

try:
    list(DataLoader(large))
except KeyError as error:
    print(f"KeyError: {error}")


# %% by-place
class ByPlace(Sizes):
    def __getitem__(self, index):
        return self.column.iloc[index]


print(list(DataLoader(ByPlace(table[table["size"] > 3]))))

# %% fromarray
from PIL import Image

colors = np.random.default_rng(0).random((6, 8, 3), dtype=np.float32)

try:
    Image.fromarray(colors)
except TypeError as error:
    print(error, end="\n\n")

picture = Image.fromarray((255 * colors).round().astype(np.uint8))
print(picture.mode, picture.size)

# %% pictures
import io

file = io.BytesIO()
noise = np.random.default_rng(0).integers(256, size=(64, 64, 3))
Image.fromarray(noise.astype(np.uint8)).save(file, "JPEG")
whole = file.getvalue()

contents = {
    "whole.jpg": whole,
    "cut.jpg": whole[: len(whole) // 2],  # a download that broke off
    "page.jpg": b"<!DOCTYPE html><title>404 Not Found</title>",
}


# %% broken
def broken(paths):
    """Return why each file that is not a whole picture cannot be read."""
    found = {}
    for path in paths:
        try:
            with Image.open(path) as picture:
                picture.load()
        except (OSError, SyntaxError) as error:  # of Pillow
            found[path] = str(error)
    return found


# %% found
import contextlib
import tempfile

with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
    for name, content in contents.items():
        Path(name).write_bytes(content)
    found = broken(contents)

print(*found.values(), sep="\n\n")

# %% filled
from PIL import ImageFile

ImageFile.LOAD_TRUNCATED_IMAGES = True
pixels = np.asarray(Image.open(io.BytesIO(contents["cut.jpg"])))
ImageFile.LOAD_TRUNCATED_IMAGES = False

print("last row:", pixels[-1, 0], "to", pixels[-1, -1])

# %% pinning-loader
with warnings.catch_warnings(record=True, action="always") as caught:
    pinned = next(iter(DataLoader([1.0, 2.0], 2, pin_memory=True)))

print(*(warning.message for warning in caught))
print(pinned, "is pinned" if pinned.is_pinned() else "is not pinned")

# %% cannot-pin
import torch

refusals = []
for place in ("cpu", "meta"):
    try:
        torch.ones(3, device=place).pin_memory()
    except RuntimeError as error:
        refusals.append(str(error))
        print(f"on {place}: {error}")
