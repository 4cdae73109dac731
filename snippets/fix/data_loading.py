"""
A DataLoader fails
==================

Errors of loops, datasets and pictures, each with what mends it.
"""

# %% next
from torch.utils.data import DataLoader

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

# %% filtered
import numpy as np
import pandas as pd
from torch.utils.data import Dataset


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
