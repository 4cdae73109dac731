"""
Store samples in few files
==========================

HDF5, LMDB, Parquet, TFRecord and WebDataset, each read by two workers.
"""

# %% imports
import atexit
import multiprocessing
import pickle
import shutil
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

# %% samples
folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends

inputs = np.random.default_rng(0).random((100, 8), dtype=np.float32)
labels = np.arange(100)


# %% by-index
class Stored(Dataset):
    def __init__(self, path):
        self.path = path
        self.file = None

    def __len__(self):
        return 100

    def __getitem__(self, index):
        if self.file is None:  # in the process that reads
            self.file = self.open()
        return self.sample(index)


# %% as-a-stream
def shared_out(parts):
    worker = torch.utils.data.get_worker_info()
    return parts[worker.id :: worker.num_workers] if worker else parts


# %% check
def check(dataset):
    loader = DataLoader(
        dataset, batch_size=10, num_workers=2, multiprocessing_context="fork"
    )
    x, y = (torch.cat(parts) for parts in zip(*loader, strict=True))
    order = y.argsort()
    return {
        "samples": len(y),
        "each label once": y[order].tolist() == labels.tolist(),
        "equal inputs": np.array_equal(x[order], inputs[: len(y)]),
    }


# %% hdf5-write
import h5py

with h5py.File(folder / "samples.h5", "w") as file:
    file.create_dataset("x", data=inputs, chunks=(10, 8), compression="gzip")
    file.create_dataset("y", data=labels)


# %% hdf5-read
class FromHDF5(Stored):
    def open(self):
        return h5py.File(self.path)

    def sample(self, index):
        return self.file["x"][index], self.file["y"][index]


# %% lmdb-write
import lmdb

with (
    lmdb.open(str(folder / "lmdb"), map_size=2**20) as environment,
    environment.begin(write=True) as transaction,
):
    for i in range(100):
        value = inputs[i].tobytes() + labels[i].tobytes()
        transaction.put(str(i).encode(), value)


# %% lmdb-read
class FromLMDB(Stored):
    def open(self):
        return lmdb.open(str(self.path), readonly=True, lock=False)

    def sample(self, index):
        with self.file.begin() as transaction:
            value = transaction.get(str(index).encode())
        x = np.frombuffer(bytearray(value[:32]), np.float32)
        return x, int.from_bytes(value[32:], "little")


# %% parquet-write
import pyarrow
import pyarrow.parquet

table = pyarrow.table({"x": list(inputs), "y": labels})
pyarrow.parquet.write_table(
    table, folder / "samples.parquet", row_group_size=10
)


# %% parquet-read
class FromParquet(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with pyarrow.parquet.ParquetFile(self.path) as file:
            for group in shared_out(range(file.num_row_groups)):
                for row in file.read_row_group(group).to_pylist():
                    yield np.float32(row["x"]), row["y"]


# %% tfrecord-write
import tfrecord
from tfrecord.tools.tfrecord2idx import create_index
from tfrecord.torch.dataset import TFRecordDataset

writer = tfrecord.TFRecordWriter(str(folder / "samples.tfrecord"))
for i in range(100):
    writer.write(
        {"x": (inputs[i].tobytes(), "byte"), "y": (int(labels[i]), "int")}
    )
writer.close()


# %% tfrecord-read
def decode(record):
    return np.frombuffer(bytearray(record["x"]), np.float32), int(
        record["y"][0]
    )


# %% tfrecord-index
path, index = str(folder / "samples.tfrecord"), str(folder / "samples.index")
create_index(path, index)
fields = {"x": "byte", "y": "int"}
from_tfrecord = TFRecordDataset(path, index, fields, transform=decode)


# %% webdataset-write
import webdataset

pattern = str(folder / "shard-%d.tar")
with webdataset.ShardWriter(pattern, maxcount=25, verbose=0) as writer:
    for i in range(100):
        name = f"{i:03}"
        writer.write({"__key__": name, "x.npy": inputs[i], "y.cls": i})

# %% webdataset-read
shards = sorted(str(path) for path in folder.glob("shard-*.tar"))
from_webdataset = (
    webdataset.WebDataset(shards, shardshuffle=False)
    .decode()
    .to_tuple("x.npy", "y.cls")
)


# %% sizes
zeros = np.zeros(250_000, np.float32)  # a million bytes

with h5py.File(folder / "plain.h5", "w") as file:
    file.create_dataset("x", data=zeros)
with h5py.File(folder / "gzip.h5", "w") as file:
    file.create_dataset("x", data=zeros, compression="gzip")
pyarrow.parquet.write_table(
    pyarrow.table({"x": zeros}), folder / "zeros.parquet"
)

# %% sizes-of-records
with (
    lmdb.open(str(folder / "zeros"), map_size=2**24) as environment,
    environment.begin(write=True) as transaction,
):
    transaction.put(b"x", zeros.tobytes())

# %% sizes-of-shards
writer = tfrecord.TFRecordWriter(str(folder / "zeros.tfrecord"))
writer.write({"x": (zeros.tobytes(), "byte")})
writer.close()
for name in ("zeros.tar", "zeros.tar.gz"):
    with webdataset.TarWriter(str(folder / name)) as writer:
        writer.write({"__key__": "0", "x.npy": zeros})

# %% compression
files = {
    "HDF5": "plain.h5",
    "HDF5, gzip": "gzip.h5",
    "LMDB": "zeros/data.mdb",
    "Parquet": "zeros.parquet",
    "TFRecord": "zeros.tfrecord",
    "WebDataset": "zeros.tar",
    "WebDataset, gzip": "zeros.tar.gz",
}

# %% kilobytes
kilobytes = {
    name: {"kB": (folder / file).stat().st_size // 1000}
    for name, file in files.items()
}

# %% compression-table
import pandas as pd

pd.DataFrame.from_dict(kilobytes, orient="index")


# %% half
def half(name):
    content = (folder / name).read_bytes()
    (folder / "half").write_bytes(content[: len(content) // 2])
    return str(folder / "half")


# %% count
def count(samples):
    read = 0
    try:
        for _ in samples():
            read += 1
    except Exception as error:
        return read, type(error).__name__
    return read, "no error"


# %% streams
first_halves = {
    "HDF5": lambda: h5py.File(half("samples.h5"))["x"],
    "Parquet": lambda: pyarrow.parquet.read_table(half("samples.parquet")),
    "TFRecord": lambda: tfrecord.tfrecord_loader(
        half("samples.tfrecord"), None
    ),
    "WebDataset": lambda: webdataset.WebDataset(
        half("shard-0.tar"), shardshuffle=False
    ),
}
for name, samples in first_halves.items():
    print(name, *count(samples))

# %% evolve
newer = pyarrow.schema([*table.schema, ("weight", pyarrow.float32())])
old = pyarrow.parquet.read_table(folder / "samples.parquet", schema=newer)

print(old.column_names, old["weight"].null_count)

# %% add-an-array
with h5py.File(folder / "samples.h5", "a") as file:
    file.create_dataset("weight", data=np.ones(100))

print(check(FromHDF5(folder / "samples.h5")))

# %% missing-fields
without = TFRecordDataset(path, None, {"weight": "float"})
try:
    next(iter(without))
except KeyError as error:
    print(str(error).partition(" (")[0])

without = webdataset.WebDataset(shards, shardshuffle=False)
try:
    next(iter(without.to_tuple("weight.npy")))
except ValueError as error:
    print(error)

# %% missing-key
with (
    lmdb.open(str(folder / "lmdb"), readonly=True, lock=False) as stored,
    stored.begin() as transaction,
):
    missing = transaction.get(b"weight")

print(missing)

# %% check-all
datasets = {
    "HDF5": FromHDF5(folder / "samples.h5"),
    "LMDB": FromLMDB(folder / "lmdb"),
    "Parquet": FromParquet(folder / "samples.parquet"),
    "TFRecord": from_tfrecord,
    "WebDataset": from_webdataset,
}
rows = {name: check(dataset) for name, dataset in datasets.items()}

# %% table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% open-handles
handles = {
    "HDF5": FromHDF5(folder / "samples.h5").open(),
    "LMDB": FromLMDB(folder / "lmdb").open(),
    "Parquet": pyarrow.parquet.ParquetFile(folder / "samples.parquet"),
    "TFRecord": TFRecordDataset(path, index, fields),
}
for name, handle in handles.items():
    try:
        pickle.dumps(handle)
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")


# %% close
for name in ("HDF5", "LMDB", "Parquet"):
    handles[name].close()


# %% opened-twice
with lmdb.open(str(folder / "lmdb"), readonly=True, lock=False):
    try:
        lmdb.open(str(folder / "lmdb"), readonly=True, lock=False)
    except lmdb.Error as error:
        print("The environment", str(error).rpartition("' ")[2])

# %% map-full
try:
    with (
        lmdb.open(str(folder / "small")) as environment,
        environment.begin(write=True) as transaction,
    ):
        transaction.put(b"key", bytes(11_000_000))
except lmdb.MapFullError as error:
    print(error)


# %% write-into-the-map
def write():
    warnings.simplefilter("ignore")  # "not writable", it says
    with (
        lmdb.open(str(folder / "lmdb"), readonly=True, lock=False) as stored,
        stored.begin(buffers=True) as transaction,
    ):
        x = torch.frombuffer(transaction.get(b"0"), dtype=torch.int64)
        x += 1


# %% crash
process = multiprocessing.get_context("fork").Process(target=write)
process.start()
process.join()

print(process.exitcode)

# %% without-index
without_index = TFRecordDataset(path, None, fields, transform=decode)

print(check(without_index)["samples"])

# %% starts
starts = set()
for _ in range(20):
    record = next(iter(TFRecordDataset(path, index, fields)))
    starts.add(int(record["y"][0]))

print(len(starts) > 1)

# %% hdf5-order
with h5py.File(folder / "samples.h5") as file:
    try:
        file["x"][[3, 1]]
    except TypeError as error:
        print(error)


# %% outcome
def outcome(dataset):
    try:
        return check(dataset)["samples"]
    except Exception as error:
        traceback.clear_frames(error.__traceback__)  # lets the workers go
        return str(error)


# %% one-shard
one_shard = webdataset.WebDataset(shards[:1], shardshuffle=False)
failure = outcome(one_shard.decode().to_tuple("x.npy", "y.cls"))

print(failure.splitlines()[-2])


# %% opened-too-early
def three_epochs(**options):
    early = FromLMDB(folder / "lmdb")
    with lmdb.open(str(early.path), **options) as early.file:
        return [outcome(early) for _ in range(3)]


# %% compare-locks
with_locks = three_epochs()
more_readers = three_epochs(max_readers=250)
without_locks = three_epochs(lock=False)

for epochs in (with_locks, more_readers, without_locks):
    print([str(each).partition(" in ")[0] for each in epochs])
