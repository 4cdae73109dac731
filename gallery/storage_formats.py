"""
Five formats, one dataset
=========================

Write the same samples as HDF5, LMDB, Parquet, TFRecord and WebDataset, read
them back in two workers, and compare room and time.

The rule: **by index, HDF5 or LMDB; as a table, Parquet; as a stream, TFRecord
or WebDataset**. Then look at the room and the time for samples like yours.

It needs ``torch``, ``h5py``, ``lmdb``, ``matplotlib``, ``numpy``, ``pyarrow``,
``tfrecord``, ``webdataset``.
"""

# %% setup
#
# Images of 28 by 28 bytes, drawn so that they compress about as well as
# drawings do. The workers are forked.

import atexit
import shutil
import tempfile
import time
from pathlib import Path

import h5py
import lmdb
import numpy as np
import pyarrow
import pyarrow.parquet
import tfrecord
import torch
import webdataset
from tfrecord.tools.tfrecord2idx import create_index
from tfrecord.torch.dataset import TFRecordDataset
from torch.utils.data import DataLoader, Dataset, IterableDataset

NUMBER = 400
folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends

grid = np.arange(28)
images = np.zeros((NUMBER, 28, 28), np.uint8)
for i in range(NUMBER):
    x, y, radius = 5 + i % 17, 5 + i // 17 % 17, 3 + i % 7
    distance = (grid - x) ** 2 + (grid[:, None] - y) ** 2
    images[i] = np.where(distance < radius**2, 255 - i % 100, 0)

# %% write
#
# Write them
# ----------

with h5py.File(folder / "samples.h5", "w") as file:
    file.create_dataset("x", data=images, chunks=(40, 28, 28))
with h5py.File(folder / "gzip.h5", "w") as file:
    file.create_dataset(
        "x", data=images, chunks=(40, 28, 28), compression="gzip"
    )
with (
    lmdb.open(str(folder / "lmdb"), map_size=2**24) as environment,
    environment.begin(write=True) as transaction,
):
    for i, image in enumerate(images):
        transaction.put(str(i).encode(), image.tobytes())
table = pyarrow.table(
    {"x": [image.tobytes() for image in images], "y": list(range(NUMBER))}
)
pyarrow.parquet.write_table(
    table, folder / "samples.parquet", row_group_size=40
)

# %% write-streams
#
# The streams, in one file and in four shards.

writer = tfrecord.TFRecordWriter(str(folder / "samples.tfrecord"))
for i, image in enumerate(images):
    writer.write({"x": (image.tobytes(), "byte"), "y": (i, "int")})
writer.close()
create_index(str(folder / "samples.tfrecord"), str(folder / "samples.index"))
pattern = str(folder / "shard-%d.tar")
with webdataset.ShardWriter(pattern, maxcount=100, verbose=0) as shards:
    for i, image in enumerate(images):
        shards.write({"__key__": f"{i:03}", "x.npy": image, "y.cls": i})

# %% by-index
#
# Read them by index
# ------------------
#
# The file is opened in the worker, at the first sample it is asked for.


class Stored(Dataset):
    """Images of shape (28, 28) by their number, from a file."""

    def __init__(self, name):
        self.path = folder / name
        self.file = None

    def __len__(self):
        return NUMBER

    def __getitem__(self, index):
        if self.file is None:
            self.file = self.open()
        return self.sample(index), index


class FromHDF5(Stored):
    """From the array x of an HDF5 file."""

    def open(self):
        return h5py.File(self.path)["x"]

    def sample(self, index):
        return self.file[index]


class FromLMDB(Stored):
    """From the values of an LMDB environment."""

    def open(self):
        return lmdb.open(str(self.path), readonly=True, lock=False)

    def sample(self, index):
        with self.file.begin() as transaction:
            value = transaction.get(str(index).encode())
        return np.frombuffer(bytearray(value), np.uint8).reshape(28, 28)


# %% as-stream
#
# Read them as a stream
# ---------------------
#
# Each worker takes its share of the groups of rows; the two libraries share
# out by themselves.


class FromParquet(IterableDataset):
    """From the groups of rows of a Parquet file, shared out."""

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        with pyarrow.parquet.ParquetFile(folder / "samples.parquet") as file:
            for group in range(first, file.num_row_groups, step):
                for row in file.read_row_group(group).to_pylist():
                    yield decode(row["x"]), row["y"]


def decode(content):
    return np.frombuffer(bytearray(content), np.uint8).reshape(28, 28)


def from_record(record):
    return decode(record["x"]), int(record["y"][0])


def streams():
    """Return the two datasets that libraries make."""
    tars = sorted(str(path) for path in folder.glob("shard-*.tar"))
    records = TFRecordDataset(
        str(folder / "samples.tfrecord"),
        str(folder / "samples.index"),
        {"x": "byte", "y": "int"},
        transform=from_record,
    )
    sharded = webdataset.WebDataset(tars, shardshuffle=False)
    return records, sharded.decode().to_tuple("x.npy", "y.cls")


# %% read
#
# All of them, once
# -----------------
#
# .. _every-format-gives-every-image-once:
#
# Each format gives each of the 400 images once, unchanged, to two workers.


def epoch(dataset):
    """Return the images in the order of their numbers, and the seconds."""
    loader = DataLoader(
        dataset, batch_size=40, num_workers=2, multiprocessing_context="fork"
    )
    start = time.perf_counter()
    x, y = (torch.cat(part) for part in zip(*loader, strict=True))
    seconds = time.perf_counter() - start
    return x[y.argsort()], y.sort().values, seconds


records, sharded = streams()
datasets = {
    "HDF5": FromHDF5("samples.h5"),
    "HDF5, gzip": FromHDF5("gzip.h5"),
    "LMDB": FromLMDB("lmdb"),
    "Parquet": FromParquet(),
    "TFRecord": records,
    "WebDataset": sharded,
}
results = {name: epoch(dataset) for name, dataset in datasets.items()}
right = {
    name: np.array_equal(x, images) and y.tolist() == list(range(NUMBER))
    for name, (x, y, _) in results.items()
}

print(right)

# %% room
#
# The room they take
# ------------------
#
# .. _gzip-and-parquet-take-the-least-room:
#
# For these images, HDF5 with gzip and Parquet take less than a quarter of
# the bytes of the images, and the others at least all of them.
#
# .. _tar-takes-the-most-room:
#
# WebDataset takes the most: each file in a tar begins on a multiple of 512
# bytes, behind a header.

files = {
    "HDF5": ["samples.h5"],
    "HDF5, gzip": ["gzip.h5"],
    "LMDB": ["lmdb/data.mdb"],
    "Parquet": ["samples.parquet"],
    "TFRecord": ["samples.tfrecord", "samples.index"],
    "WebDataset": [f"shard-{i}.tar" for i in range(4)],
}
room = {
    name: sum((folder / file).stat().st_size for file in each) / images.nbytes
    for name, each in files.items()
}

print({name: round(share, 2) for name, share in room.items()})

# %% picture

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 3.5))
names = list(files)[::-1]
axis.barh(names, [room[name] for name in names], color="#0072B2")
axis.axvline(1, color="#999999", linestyle=":")
axis.set_xlabel("room, in sizes of the images")
axis.set_title("The same images in five formats: their room")
figure.tight_layout()
plt.show()

# %% time-picture
#
# What it buys
# ------------
#
# The program has timed the epoch of each format on your machine, with the
# start of its two workers.

import matplotlib.pyplot as plt

figure, axis = plt.subplots(num="timings", figsize=(7, 3.5))
names = list(files)[::-1]
milliseconds = [1000 * results[name][2] for name in names]
axis.barh(names, milliseconds, color="#D55E00", hatch="//", alpha=0.8)
axis.set_xlabel("time of an epoch with its workers, ms")
axis.set_title("The same images in five formats: their time")
figure.tight_layout()
plt.show()
