"""
Five formats, one dataset
=========================

Write the same samples as HDF5, LMDB, Parquet, TFRecord and WebDataset, read
them back in workers, and see which format takes the least space and the least
time for samples like yours.

The rule: **by index, HDF5 or LMDB; as a table, Parquet; as a stream, TFRecord
or WebDataset**. See :doc:`/data/storage` for how each format works.

Save an array of samples with ``numpy.save``, and give it to the script::

    python storage_formats.py --array my_samples.npy --workers 4

It needs ``torch``, ``h5py``, ``lmdb``, ``matplotlib``, ``numpy``, ``pyarrow``,
``tfrecord``, ``webdataset``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.
# Workers are forked here: where your system cannot do that, take 0.

ARRAY = None  # a file of numpy.save with at least two samples
MOST = 1000  # samples of it that are taken
WORKERS = 2  # processes that read; 0: the program itself

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.
#
# .. _a-senseless-setting-is-refused:
#
# Fewer than 0 workers, workers where the system cannot fork, and fewer than 2
# samples end the program with one line.

import argparse
import multiprocessing

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="Compare five formats for your samples.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--array", metavar="FILE", default=ARRAY, help="of numpy.save")
    add("--most", type=int, default=MOST, help="samples to take")
    add("--workers", type=int, default=WORKERS, help="processes that read")
    options = parser.parse_args()
    ARRAY, MOST, WORKERS = options.array, options.most, options.workers
can_fork = "fork" in multiprocessing.get_all_start_methods()
if WORKERS < 0 or (WORKERS and not can_fork):
    raise SystemExit("workers: from 0, and only 0 where nothing can fork")
if MOST < 2:
    raise SystemExit("samples: at least 2")

# %% setup
#
# .. _the-files-go-when-the-program-ends:
#
# All files are in a temporary folder, which is removed when the program ends.

import atexit
import shutil
import tempfile
import time
import warnings
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

# Too many workers for a machine are a part of the question.
warnings.filterwarnings("ignore", "This DataLoader will create")
folder = Path(tempfile.mkdtemp())
remover = atexit.register(shutil.rmtree, folder)  # as the program ends

# %% samples
#
# .. _the-samples-are-discs:
#
# Without an array, the samples are 400 images of 28 by 28 bytes, each a disc
# of one gray on black.
#
# .. _at-most-1000-samples-are-taken:
#
# Of a larger array, the first 1,000 samples are taken, or as many as you say.
#
# .. _a-senseless-array-is-refused:
#
# A file that holds no array of numbers, or fewer than two samples, ends the
# program with one line.


def discs():
    """Return 400 images."""
    images = np.zeros((400, 28, 28), np.uint8)
    random = np.random.default_rng(0)
    pixels = np.indices((28, 28))
    for image in images:
        center = random.integers(8, 20, (2, 1, 1))
        distance = np.linalg.norm(pixels - center, axis=0)
        image[distance < random.integers(3, 9)] = random.integers(100, 256)
    return images


try:
    samples = discs()
    if ARRAY:
        samples = np.array(np.load(ARRAY, mmap_mode="r")[:MOST])
    torch.from_numpy(samples)  # only to see whether torch has its type
except Exception as error:
    raise SystemExit(f"cannot use {ARRAY}: {error}") from None
NUMBER, *shape = samples.shape or (0,)
if NUMBER < 2 or samples.size == 0:
    raise SystemExit(f"cannot use {ARRAY}: it needs two samples with numbers")

# %% write
#
# Write them
# ----------
#
# With gzip, keep the chunks of HDF5 small; see :doc:`/data/storage`.
#
# .. _a-chunk-has-at-most-40-samples:
#
# A chunk here has 40 samples, or as many as take at most 1 MiB.

most = max(1, 2**20 // samples[0].nbytes)
chunks = (min(40, NUMBER, most), *shape)
with h5py.File(folder / "samples.h5", "w") as file:
    file.create_dataset("x", data=samples, chunks=chunks)
with h5py.File(folder / "gzip.h5", "w") as file:
    file.create_dataset("x", data=samples, chunks=chunks, compression="gzip")
room_for_all = 2 * samples.nbytes + 2**14 * NUMBER + 2**24
with (
    lmdb.open(str(folder / "lmdb"), map_size=room_for_all) as environment,
    environment.begin(write=True) as transaction,
):
    for i, sample in enumerate(samples):
        transaction.put(str(i).encode(), sample.tobytes())
contents = [sample.tobytes() for sample in samples]
table = pyarrow.table({"x": contents, "y": list(range(NUMBER))})
pyarrow.parquet.write_table(
    table, folder / "samples.parquet", row_group_size=40
)

# %% write-streams
#
# Now the two that are made for streams.

records_path = str(folder / "samples.tfrecord")
index_path = str(folder / "samples.index")
writer = tfrecord.TFRecordWriter(records_path)
for i, content in enumerate(contents):
    writer.write({"x": (content, "byte"), "y": (i, "int")})
writer.close()
create_index(records_path, index_path)
each = max(1, NUMBER // max(4, WORKERS))
pattern = str(folder / "shard-%d.tar")
with webdataset.ShardWriter(pattern, maxcount=each, verbose=0) as shards:
    for i, sample in enumerate(samples):
        shards.write({"__key__": f"{i:03}", "x.npy": sample, "y.cls": i})

# %% by-index
#
# Read them by index
# ------------------
#
# .. _each-worker-opens-its-own-file:
#
# These two datasets open their file at the first sample, so each worker opens
# its own.
#
# If your main process reads samples, too, take the datasets of
# :doc:`/data/storage`.


def decode(content):
    """Return a sample from its bytes."""
    values = np.frombuffer(bytearray(content), samples.dtype)
    return values.reshape(shape)


class Stored(Dataset):
    """Samples by their number, from a file."""

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
            return decode(transaction.get(str(index).encode()))


# %% as-stream
#
# Read them as a stream
# ---------------------
#
# How do the workers share a stream? In your own dataset, ask
# ``get_worker_info`` which worker it is in.


class FromParquet(IterableDataset):
    """From the groups of rows of a Parquet file, shared out."""

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        with pyarrow.parquet.ParquetFile(folder / "samples.parquet") as file:
            for group in range(first, file.num_row_groups, step):
                for row in file.read_row_group(group).to_pylist():
                    yield decode(row["x"]), row["y"]


def from_record(record):
    return decode(record["x"]), int(record["y"][0])


records = TFRecordDataset(
    records_path,
    index_path,
    {"x": "byte", "y": "int"},
    transform=from_record,
)
tars = sorted(str(path) for path in folder.glob("shard-*.tar"))
sharded = webdataset.WebDataset(tars, shardshuffle=False, empty_check=False)
sharded = sharded.decode().to_tuple("x.npy", "y.cls")

# %% read
#
# All of them, once
# -----------------
#
# .. _every-format-gives-every-sample-once:
#
# With any number of workers, each format gives each sample once, unchanged.


def epoch(dataset):
    """Return the samples in the order of their numbers, and the seconds."""
    start = "fork" if WORKERS else None
    options = {"num_workers": WORKERS, "multiprocessing_context": start}
    loader = DataLoader(dataset, batch_size=40, **options)
    begin = time.perf_counter()
    x, y = (torch.cat(part) for part in zip(*loader, strict=True))
    seconds = time.perf_counter() - begin
    return x[y.argsort()], y.sort().values, seconds


datasets = {
    "HDF5": FromHDF5("samples.h5"),
    "HDF5, gzip": FromHDF5("gzip.h5"),
    "LMDB": FromLMDB("lmdb"),
    "Parquet": FromParquet(),
    "TFRecord": records,
    "WebDataset": sharded,
}
loaded = {name: epoch(dataset) for name, dataset in datasets.items()}

for name, (x, y, _) in loaded.items():
    same = x.numpy().tobytes() == samples.tobytes()
    right = same and y.tolist() == list(range(NUMBER))
    print(f"{name:10} {'all samples' if right else 'wrong samples'}")

# %% room
#
# The room they take
# ------------------
#
# .. _gzip-and-parquet-take-the-least-room:
#
# For the discs, HDF5 with gzip and Parquet take less than a quarter of the
# samples' bytes, and the others at least all of them.
#
# .. _tar-takes-the-most-room:
#
# WebDataset takes the most for the discs, because each file in a tar takes
# whole blocks of 512 bytes and a header.

files = {
    "HDF5": ["samples.h5"],
    "HDF5, gzip": ["gzip.h5"],
    "LMDB": ["lmdb/data.mdb"],
    "Parquet": ["samples.parquet"],
    "TFRecord": ["samples.tfrecord", "samples.index"],
    "WebDataset": tars,
}
room = {}
for name, each in files.items():
    size = sum((folder / file).stat().st_size for file in each)
    room[name] = size / samples.nbytes

# %% answer
#
# The answer
# ----------
#
# .. _the-least-room-or-not-here:
#
# The program names, by index and as a stream, the format that takes the least
# space, or "not here" if it saves nothing.

KINDS = {
    "by index": ["HDF5", "HDF5, gzip", "LMDB"],
    "as a stream": ["Parquet", "TFRecord", "WebDataset"],
}


def smallest(room):
    """Return for each kind what takes the least room, or "not here"."""
    said = {}
    for kind, names in KINDS.items():
        best = min(names, key=room.get)
        said[kind] = f"{best} takes the least space"
        if room[best] >= 1:
            said[kind] = "not here: no format saves room"
    return said


for kind, words in smallest(room).items():
    print(f"{kind}: {words}")

# %% picture

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 3.5))
names = list(files)[::-1]
axis.barh(names, [room[name] for name in names], color="#0072B2")
axis.axvline(1, color="#999999", linestyle=":")
axis.set_xlabel("room, in sizes of the samples")
axis.set_title("The same samples in five formats: their room")
figure.tight_layout()
plt.show()

# %% time
#
# What it buys
# ------------
#
# .. _an-epoch-is-timed-with-its-workers:
#
# An epoch is timed from before its workers start until its last batch is
# there.
#
# If you shuffle, time that. And if your files do not fit into memory, time
# them rather than these, which have just been written.
#
# .. _a-clear-winner-or-not-here:
#
# A format is the fastest if the slowest of its three epochs is faster than the
# fastest of each other format. If there is none, the title says "not here".


def fastest(times):
    """Say which format is the fastest, from the seconds of its epochs."""
    best = min(times, key=times.get)  # who wins does so in each epoch
    others = [min(times[name]) for name in times if name != best]
    if max(times[best]) < min(others):
        return f"{best} is the fastest"
    return "not here: no format is clearly the fastest"


times = {name: [] for name in datasets}
for _ in range(3):
    for name, dataset in datasets.items():
        times[name].append(epoch(dataset)[2])

# %% time-picture

import matplotlib.pyplot as plt

figure, axis = plt.subplots(num="timings", figsize=(7, 3.5))
for name in names:
    shortest, longest = 1000 * min(times[name]), 1000 * max(times[name])
    axis.barh(name, shortest, color="#D55E00", hatch="//", alpha=0.8)
    axis.hlines(name, shortest, longest, color="#0072B2")
axis.set_xlabel("time of an epoch with its workers, ms; from best to worst")
axis.set_title(f"Time of the same samples: {fastest(times)}", fontsize=10)
figure.tight_layout()
plt.show()
