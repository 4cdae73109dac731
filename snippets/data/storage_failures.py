"""
When a stored dataset fails
===========================

The errors of HDF5, LMDB, TFRecord and WebDataset, each with its fix.
"""

# %% imports
import atexit
import functools
import multiprocessing
import shutil
import tempfile
import traceback
import warnings
from pathlib import Path

import h5py
import lmdb
import numpy as np
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset

# %% days
folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
temperature = np.random.default_rng(0).normal(10, 5, (100, 24))

path = str(folder / "days.lmdb")
with lmdb.open(path) as file, file.begin(write=True) as transaction:
    for day, hours in enumerate(temperature):
        transaction.put(f"{day:08}".encode(), hours.tobytes())

two = {"batch_size": 20, "num_workers": 2, "multiprocessing_context": "fork"}


# %% epochs
def epochs(loader, count=3):
    found = []
    for _ in range(count):
        try:
            days = torch.cat([days for _, days in loader])
            found.append(f"{len(days)} days, {len(days.unique())} different")
        except Exception as error:
            traceback.clear_frames(error.__traceback__)  # ends the workers
            found.append(own_words(error))
    return found


# %% own-words
def own_words(error):
    lines = f"{type(error).__name__}: {error}".splitlines()
    while any(line.startswith(" ") for line in lines):
        lines.pop(0)  # the traceback of a worker
    return "\n".join(lines)


# %% from-lmdb
@functools.cache  # one environment in each process
def environment(path):
    return lmdb.open(path, readonly=True, lock=False)


class Days(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, day):
        with self.file().begin() as transaction:
            hours = transaction.get(f"{day:08}".encode())
        return np.frombuffer(bytearray(hours)), day

    def file(self):
        return environment(path)


# %% do-this
found = epochs(DataLoader(Days(), **two))

print(*found, sep="\n")

# %% records
import tfrecord
from tfrecord.tools.tfrecord2idx import create_index
from tfrecord.torch.dataset import TFRecordDataset

records, index = str(folder / "days.tfrecord"), str(folder / "days.index")
writer = tfrecord.TFRecordWriter(records)
for day in range(100):
    writer.write({"day": (day, "int")})
writer.close()
create_index(records, index)


# %% number
def number(record):
    return int(record["day"][0])


def arrivals(index, **options):
    dataset = TFRecordDataset(records, index, {"day": "int"}, transform=number)
    loader = DataLoader(dataset, **options)
    return [day for batch in loader for day in batch.tolist()]


# %% orders
np.random.seed(0)  # as its order without workers is random
orders = {
    "two workers, no index": arrivals(None, **two),
    "two workers, an index": arrivals(index, **two),
    "no workers, an index": arrivals(index),
}

# %% orders-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(8, 2.6), layout="constrained")
for panel, (name, days) in zip(axes, orders.items(), strict=True):
    panel.plot(days, ".", color="#0072B2", markersize=3)
    panel.set_title(f"{name}: {len(days)} days", fontsize="medium")
    panel.set_xlabel("sample")
axes[0].set_ylabel("day")
figure.suptitle("Days of one TFRecord file, in the order in which they come")
plt.show()

# %% opened-twice
# Wrong on purpose: do not copy.
training = lmdb.open(path)
try:
    validation = lmdb.open(path)
except lmdb.Error as error:
    twice = str(error).replace(path, "days.lmdb")
    print(twice)
training.close()

# %% shared
together = ConcatDataset([Days(), Days()])
both = epochs(DataLoader(together, **two), count=1)

print(*both)

# %% map-full
# Wrong on purpose: do not copy.
small = str(folder / "small.lmdb")
with lmdb.open(small) as file:
    with file.begin(write=True) as transaction:
        transaction.put(b"first", bytes(5_000_000))
    try:
        with file.begin(write=True) as transaction:
            transaction.put(b"second", bytes(6_000_000))
    except lmdb.MapFullError as error:
        full = str(error)
        print(full)

# %% larger-map
with lmdb.open(small, map_size=2**30) as file:
    with file.begin(write=True) as transaction:
        transaction.put(b"second", bytes(6_000_000))
    with file.begin() as transaction:
        stored = {key: len(value) for key, value in transaction.cursor()}

print(stored)


# %% opened-before-the-fork
# Wrong on purpose: do not copy.
class OpenedBefore(Days):
    def __init__(self, opened):
        self.opened = opened

    def file(self):
        return self.opened


# %% readers-full
# Wrong on purpose: do not copy.
with lmdb.open(path) as file:
    locked = epochs(DataLoader(OpenedBefore(file), **two))
print(*locked, sep="\n")

# %% without-locks
with lmdb.open(path, lock=False) as file:
    free = epochs(DataLoader(OpenedBefore(file), **two))

print(*free, sep="\n")


# %% write-into-the-map
# Wrong on purpose: do not copy.
def warm():
    warnings.simplefilter("ignore")  # "The given buffer is not writable"
    file = lmdb.open(path)
    with file.begin(buffers=True) as transaction:
        hours = transaction.get(b"00000000")
        torch.frombuffer(hours, dtype=torch.float64).add_(1)


# %% crash
def exit_code(function):
    process = multiprocessing.get_context("fork").Process(target=function)
    process.start()
    process.join()
    return process.exitcode


crash = exit_code(warm)
print("exit code", crash)


# %% hdf5
with h5py.File(folder / "days.h5", "w") as file:
    file["temperature"] = temperature

wanted = np.array([57, 3, 57])

# %% hdf5-order
# Wrong on purpose: do not copy.
with h5py.File(folder / "days.h5") as file:
    try:
        file["temperature"][wanted]
    except TypeError as error:
        unsorted = str(error)
        print(unsorted)

# %% hdf5-sorted
days, places = np.unique(wanted, return_inverse=True)
with h5py.File(folder / "days.h5") as file:
    hours = file["temperature"][days][places]

print(hours[:, 0], temperature[wanted, 0])

# %% elsewhere
import subprocess
import sys


def elsewhere(path, options):  # opens a file in another process
    program = f"import h5py; h5py.File({str(path)!r}, {options})"
    command = [sys.executable, "-c", program]
    error = subprocess.run(command, capture_output=True, text=True).stderr
    return error.strip().rpartition("\n")[2] or "opened"


# %% hdf5-locked
days_h5 = folder / "days.h5"
with h5py.File(days_h5, "a"):  # still open for writing
    while_written = elsewhere(days_h5, "'r'")
with h5py.File(days_h5):  # still open for reading
    while_read = elsewhere(days_h5, "'a'")
closed = elsewhere(days_h5, "'a'")

print("while it is written:", while_written)
print("while it is read:", while_read)
print("afterwards:", closed)

# %% hdf5-swmr
growing = folder / "growing.h5"
with h5py.File(growing, "w", libver="latest") as file:
    file["temperature"] = temperature
    file.swmr_mode = True  # from now on, others can read
    shared = elsewhere(growing, "'r', swmr=True")

print("SWMR, while it is written:", shared)

# %% write-shards
import webdataset

for half in range(2):
    with webdataset.TarWriter(str(folder / f"days-{half}.tar")) as shard:
        for day in range(50 * half, 50 * half + 50):
            sample = {"hours.npy": temperature[day], "day.cls": day}
            shard.write({"__key__": f"{day:08}"} | sample)


# %% from-shards
def from_shards(*names, **options):
    shards = [str(folder / name) for name in names]
    dataset = webdataset.WebDataset(shards, shardshuffle=False, **options)
    return dataset.decode().to_tuple("hours.npy", "day.cls")


# %% one-shard
# Wrong on purpose: do not copy.
one_shard = from_shards("days-0.tar")
[one] = epochs(DataLoader(one_shard, **two), count=1)
print(one)

# %% enough-shards
two_shards = from_shards("days-0.tar", "days-1.tar")
unchecked = from_shards("days-0.tar", empty_check=False)
served = [
    *epochs(DataLoader(two_shards, **two), count=1),
    *epochs(DataLoader(unchecked, **two), count=1),
]
print(*served, sep="\n")


# %% cut
import pyarrow.parquet

numbers = pyarrow.table({"day": range(100)})
pyarrow.parquet.write_table(numbers, folder / "days.parquet")


def cut(name):
    whole = (folder / name).read_bytes()
    short = folder / f"cut-{Path(name).name}"
    short.write_bytes(whole[: len(whole) * 3 // 4 + 7])
    return str(short)


# %% readers
def all_of_lmdb():
    file = lmdb.open(cut("days.lmdb/data.mdb"), subdir=False)
    return list(file.begin().cursor())


shard = webdataset.WebDataset(cut("days-0.tar"), shardshuffle=False)
readers = {
    "HDF5": lambda: h5py.File(cut("days.h5")),
    "Parquet": lambda: pyarrow.parquet.read_table(cut("days.parquet")),
    "TFRecord": lambda: tfrecord.tfrecord_loader(cut("days.tfrecord"), None),
    "WebDataset": lambda: shard,
}

# %% cut-files
read, errors = {}, {}
for name, reader in readers.items():
    read[name] = 0
    try:
        for _ in reader():
            read[name] += 1
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        errors[name] = said.replace(str(folder), ".")
    print(f"{name}: {read[name]} read, {errors.get(name, 'no error')}")
lmdb_code = exit_code(all_of_lmdb)
print("LMDB: exit code", lmdb_code)
