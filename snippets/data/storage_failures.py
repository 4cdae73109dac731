"""
When a stored dataset fails: retry, LMDB, HDF5, shards
======================================================

Try a failed read again, and follow an error out of a worker.
"""

# %% days
import atexit
import errno
import shutil
import tempfile
from functools import cache, partial
from itertools import count, starmap
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)
paths = [folder / f"{day:03}.npy" for day in range(100)]
for path in paths:
    np.save(path, np.random.default_rng(int(path.stem)).normal(10, 5, 24))

two = {"batch_size": 20, "num_workers": 2, "multiprocessing_context": "fork"}
reads = count(1)


def over_the_network(path):
    if next(reads) % 7 == 0:  # every seventh read of a process fails
        raise OSError(errno.EIO, "Input/output error", path.name)
    return np.load(path)


# %% retry
import time


def retry(read, path, waits=(1, 2, 4, 8)):
    for wait in waits:
        try:
            return read(path)
        except FileNotFoundError:
            raise
        except OSError:
            time.sleep(wait)
    return read(path)


# %% epoch
def epoch(batches):
    batches, days, errors = iter(batches), [], []
    while True:
        try:
            days += next(batches)[1].tolist()
        except StopIteration:
            break
        except Exception as error:  # go on, to count
            errors.append(error.with_traceback(None))
    print(f"{len(days)} days, {len(set(days))} different")
    for error in errors[:1]:  # without the worker's traceback
        print(str(error).rpartition("\n ")[2].partition("\n")[2].strip())
    return days, errors


# %% do-this
class Days(Dataset):
    def __init__(self, read):
        self.read = read

    def __len__(self):
        return len(paths)

    def __getitem__(self, day):
        return self.read(paths[day]), day


again = partial(retry, over_the_network, waits=[0.01] * 4)
once = epoch(DataLoader(Days(over_the_network), **two))
retried = epoch(DataLoader(Days(again), **two))

# %% by-hand
import traceback

from torch.utils.data import default_collate


def load(dataset, batches):
    answers = (in_worker(dataset, indices) for indices in batches)
    return starmap(in_main, answers)


def in_worker(dataset, indices):
    try:
        return None, default_collate([dataset[i] for i in indices])  # 1
    except Exception as error:
        return type(error), traceback.format_exc()  # 2


def in_main(kind, content):
    if kind is None:
        return content
    text = f"Caught {kind.__name__} in DataLoader worker.\nOriginal {content}"
    try:
        error = kind(text)  # 3
    except Exception:
        error = RuntimeError(text)  # 4
    raise error


# %% compare
from urllib.error import HTTPError


def broken(path):
    if path.name == "046.npy":
        raise OSError(errno.EIO, "Input/output error", path.name)
    if path.name == "070.npy":
        raise HTTPError(path.name, 503, "Service Unavailable", {}, None)
    return np.load(path)


by_hand = epoch(load(Days(broken), torch.arange(100).split(20)))
real = epoch(DataLoader(Days(broken), **two))
for error in real[1]:
    print(type(error).__name__, getattr(error, "errno", "has no errno"))


# %% stream
class Stream(IterableDataset):
    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        for path in paths[worker.id :: worker.num_workers]:
            yield broken(path), int(path.stem)


streamed = epoch(DataLoader(Stream(), **two))

# %% lmdb
import lmdb

database = str(folder / "days.lmdb")
with lmdb.open(database) as file, file.begin(write=True) as transaction:
    for path in paths:
        transaction.put(path.name.encode(), np.load(path))


def look_up(opened, path):
    with opened().begin() as transaction:
        return np.frombuffer(bytearray(transaction.get(path.name.encode())))


# %% readers-full
# Wrong on purpose: do not copy.
with lmdb.open(database) as file:  # before the fork
    loader = DataLoader(Days(partial(look_up, lambda: file)), **two)
    locked = [epoch(loader) for _ in range(2)]


# %% from-lmdb
@cache  # one environment in each process
def environment():
    return lmdb.open(database, readonly=True, lock=False)


loader = DataLoader(Days(partial(look_up, environment)), **two)
free = [epoch(loader) for _ in range(2)]


# %% map-full
def put(key, size, **options):
    with (
        lmdb.open(str(folder / "small.lmdb"), **options) as file,
        file.begin(write=True) as transaction,
    ):
        transaction.put(key, bytes(size))
        return {key: len(value) for key, value in transaction.cursor()}


put(b"first", 5_000_000)
try:
    put(b"second", 6_000_000)
except lmdb.MapFullError as error:
    full = str(error)
    print(full)
stored = put(b"second", 6_000_000, map_size=2**30)
print(stored)

# %% hdf5-locked
import subprocess
import sys

import h5py


def elsewhere(path, mode):  # opens a file in another process
    program = f"import h5py; h5py.File({str(path)!r}, {mode!r})"
    command = [sys.executable, "-c", program]
    error = subprocess.run(command, capture_output=True, text=True).stderr
    return error.strip().rpartition("\n")[2] or "opened"


days_h5 = folder / "days.h5"
with h5py.File(days_h5, "w") as file:
    file["day"] = range(100)
    while_written = elsewhere(days_h5, "r")
with h5py.File(days_h5):
    while_read = {mode: elsewhere(days_h5, mode) for mode in ("r", "a", "w")}
left = days_h5.stat().st_size
print("r while it is written:", while_written)
for mode, said in while_read.items():
    print(mode, "while it is read:", said)
print(left, "bytes are left")

# %% one-shard
import webdataset

shard = str(folder / "days.tar")
with webdataset.TarWriter(shard) as tar:
    for path in paths:
        hours, day = path.read_bytes(), int(path.stem)
        tar.write({"__key__": path.stem, "npy": hours, "cls": day})

dataset = webdataset.WebDataset(shard, shardshuffle=False).decode()
served = epoch(DataLoader(dataset.to_tuple("npy", "cls"), **two))

# %% predicted
predicted = epoch(DataLoader(Days(broken), **two | {"batch_size": 30}))
