"""
Store samples in few files
==========================

Five formats, what each costs, and readers that two workers can share.
"""

# %% imports
import atexit
import itertools
import os
import shutil
import tempfile
from pathlib import Path

import h5py
import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    get_worker_info,
)

# %% days
folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends

torch.manual_seed(0)
weather = np.random.default_rng(0)
temperature = weather.normal(10, 5, (100, 24)).astype(np.float32)


# %% stored
class Stored(Dataset):
    def __init__(self, path, length):
        self.path, self.length = path, length
        self.file = self.arrays = self.process = None

    def __len__(self):
        return self.length

    def __getstate__(self):  # a path can be pickled, an open file cannot
        closed = {"file": None, "arrays": None, "process": None}
        return vars(self) | closed

    def ready(self):
        if self.process != os.getpid():  # the first sample in this process
            if self.file is not None:
                self.file.close()  # a copy of it, made by a fork
            self.open()
            self.process = os.getpid()


# %% from-hdf5
class FromHDF5(Stored):
    def __init__(self, path):
        with h5py.File(path) as file:
            super().__init__(path, len(file["day"]))

    def open(self):
        self.file = h5py.File(self.path)
        self.arrays = self.file["temperature"], self.file["day"]

    def __getitem__(self, index):
        self.ready()
        return tuple(array[index] for array in self.arrays)


# %% to-hdf5
def to_hdf5(path, temperature, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("temperature", data=temperature, **options)
        file["day"] = np.arange(len(temperature))


to_hdf5(folder / "days.h5", temperature, chunks=(10, 24), compression="gzip")

# %% do-this
two = {"num_workers": 2, "multiprocessing_context": "fork"}
loader = DataLoader(
    FromHDF5(folder / "days.h5"), batch_size=20, shuffle=True, **two
)
for temperatures, days in loader:
    print(temperatures.dtype, temperatures.shape, days[:4])

# %% lmdb
import lmdb


def to_lmdb(path, temperature):
    with (
        lmdb.open(str(path), map_size=2**30) as environment,  # at most 1 GiB
        environment.begin(write=True) as transaction,
    ):
        for day, hours in enumerate(temperature):
            transaction.put(f"{day:08}".encode(), hours.tobytes())


# %% from-lmdb
class FromLMDB(Stored):
    def __init__(self, path):
        super().__init__(path, 0)
        self.open()
        self.length = self.file.stat()["entries"]
        self.file.close()

    def open(self):
        self.file = lmdb.open(str(self.path), readonly=True, lock=False)

    def __getitem__(self, index):
        self.ready()
        index = range(len(self))[index]  # an IndexError past the last
        with self.file.begin() as transaction:
            value = transaction.get(f"{index:08}".encode())
        return np.frombuffer(bytearray(value), np.float32), index


# %% parquet
import pyarrow
import pyarrow.parquet


def to_parquet(path, temperature):
    days = range(len(temperature))
    table = pyarrow.table({"temperature": list(temperature), "day": days})
    pyarrow.parquet.write_table(table, path, row_group_size=10)


# %% from-parquet
class FromParquet(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        with pyarrow.parquet.ParquetFile(self.path) as file:
            for group in range(first, file.num_row_groups, step):
                for row in file.read_row_group(group).to_pylist():
                    yield np.float32(row["temperature"]), row["day"]


# %% tfrecord
import tfrecord
from tfrecord.tools.tfrecord2idx import create_index


def to_tfrecord(path, temperature):
    writer = tfrecord.TFRecordWriter(str(path))
    for day, hours in enumerate(temperature):
        writer.write(
            {"temperature": (hours.tobytes(), "byte"), "day": (day, "int")}
        )
    writer.close()
    create_index(str(path), f"{path}.index")


# %% from-tfrecord
from tfrecord.torch.dataset import TFRecordDataset


def decode(record):  # at the top level, so that it can be pickled
    hours = np.frombuffer(bytearray(record["temperature"]), np.float32)
    return hours, int(record["day"][0])


def from_tfrecord(path):
    fields = {"temperature": "byte", "day": "int"}
    index = f"{path}.index"
    return TFRecordDataset(str(path), index, fields, transform=decode)


# %% webdataset
import webdataset


def to_webdataset(path, temperature):  # a path such as days-%d.tar
    with webdataset.ShardWriter(str(path), maxcount=25, verbose=0) as writer:
        for day, hours in enumerate(temperature):
            sample = {"temperature.npy": hours, "day.cls": day}
            writer.write({"__key__": f"{day:08}"} | sample)


# %% from-webdataset
def from_webdataset(path):  # the path that the writer was given
    names = (str(path) % number for number in itertools.count())
    shards = list(itertools.takewhile(os.path.exists, names))
    if not shards:
        raise FileNotFoundError(str(path) % 0)
    dataset = webdataset.WebDataset(shards, shardshuffle=False)
    return dataset.decode().to_tuple("temperature.npy", "day.cls")


# %% write-all
to_lmdb(folder / "days.lmdb", temperature)
to_parquet(folder / "days.parquet", temperature)
to_tfrecord(folder / "days.tfrecord", temperature)
to_webdataset(folder / "days-%d.tar", temperature)

datasets = {
    "HDF5": FromHDF5(folder / "days.h5"),
    "LMDB": FromLMDB(folder / "days.lmdb"),
    "Parquet": FromParquet(folder / "days.parquet"),
    "TFRecord": from_tfrecord(folder / "days.tfrecord"),
    "WebDataset": from_webdataset(folder / "days-%d.tar"),
}


# %% counts
def counts(batches):
    parts = zip(*batches, strict=True)
    temperatures, days = (torch.cat(each) for each in parts)
    error = temperatures - torch.from_numpy(temperature)[days]
    return {
        "days": len(days),
        "different days": len(set(days.tolist())),
        "largest error": error.abs().max().item(),
    }


read = {
    name: counts(DataLoader(dataset, **two))
    for name, dataset in datasets.items()
}

# %% counts-table
import pandas as pd

pd.DataFrame.from_dict(read, orient="index")

# %% content
files = {
    "HDF5": [folder / "days.h5"],
    "LMDB": [folder / "days.lmdb" / "data.mdb"],
    "Parquet": [folder / "days.parquet"],
    "TFRecord": [folder / "days.tfrecord"],
    "WebDataset": sorted(folder.glob("days-*.tar")),
}
content = {
    name: b"".join(path.read_bytes() for path in paths)
    for name, paths in files.items()
}

# %% places
with h5py.File(folder / "days.h5") as file:
    array = file["temperature"].id
    chunks = [array.get_chunk_info(i) for i in range(array.get_num_chunks())]
groups = pyarrow.parquet.read_metadata(folder / "days.parquet")
columns = [groups.row_group(i).column(0) for i in range(groups.num_row_groups)]
records = np.loadtxt(folder / "days.tfrecord.index", int)
places = {
    "HDF5": [(each.byte_offset, each.size) for each in chunks],
    "LMDB": [(content["LMDB"].rfind(day), day.nbytes) for day in temperature],
    "Parquet": [
        (each.dictionary_page_offset, each.total_compressed_size)
        for each in columns
    ],
    "TFRecord": [(int(start), int(size)) for start, size in records],
}

# %% places-in-shards
import tarfile

places["WebDataset"], start = [], 0
for path in files["WebDataset"]:
    with tarfile.open(path) as tar:
        members = tar.getmembers()
    for first, second in zip(members[::2], members[1::2], strict=True):
        end = second.offset_data + 512
        places["WebDataset"].append((start + first.offset, end - first.offset))
    start += path.stat().st_size

# %% places-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
for y, (name, parts) in enumerate(places.items()):
    size, held = len(content[name]), 100 // len(parts)
    axes.barh(y, 1, 0.8, fill=False)
    for i, (first, length) in enumerate(parts):
        color = "#D55E00" if i == 57 // held else "#0072B2"
        axes.barh(
            y, length / size, 0.8, first / size, color=color, ec="w", lw=0.4
        )
    axes.text(1.01, y, f"{size:,} bytes", va="center")
axes.set_yticks(range(len(places)), list(places))
axes.set_xticks([0, 1], ["start of the file", "end"])
axes.spines[:].set_visible(False)
axes.invert_yaxis()
axes.set_title("Where the temperatures stand; day 57 is in the orange part")
plt.show()

# %% zeros
zeros = np.zeros((10, 25_000), np.float32)  # a million bytes
to_hdf5(folder / "zeros.h5", zeros)
to_lmdb(folder / "zeros.lmdb", zeros)
to_parquet(folder / "zeros.parquet", zeros)
to_tfrecord(folder / "zeros.tfrecord", zeros)
to_webdataset(folder / "zeros-%d.tar", zeros)
to_hdf5(folder / "packed.h5", zeros, compression="gzip")
to_webdataset(folder / "packed-%d.tar.gz", zeros)

# %% sizes
zeros_in = {
    "HDF5": ["zeros.h5", "packed.h5"],
    "LMDB": ["zeros.lmdb/data.mdb"],
    "Parquet": ["zeros.parquet"],
    "TFRecord": ["zeros.tfrecord"],
    "WebDataset": ["zeros-0.tar", "packed-0.tar.gz"],
}
sizes = {
    name: [(folder / path).stat().st_size for path in paths]
    for name, paths in zeros_in.items()
}

# %% cut
(folder / "half").mkdir()
for path in folder.glob("days*"):
    if path.is_dir():
        (folder / "half" / path.name).mkdir()
        path = path / "data.mdb"
    whole = path.read_bytes()
    cut = folder / "half" / path.relative_to(folder)
    cut.write_bytes(whole[: len(whole) // 2])

# %% count
import multiprocessing

fork = multiprocessing.get_context("fork")


def count(samples, path, days, error):
    try:
        for _ in samples(path):
            days.value += 1
    except Exception as caught:
        error.value = type(caught).__name__.encode()


# %% in-a-process
import signal


def first_half(samples, path):
    days, error = fork.Value("i"), fork.Array("c", 80)
    reader = fork.Process(target=count, args=(samples, path, days, error))
    reader.start()
    reader.join()  # a crash ends the reader, not this program
    crash = reader.exitcode and signal.Signals(-reader.exitcode).name
    return days.value, crash or error.value.decode() or "no error"


# %% halves
def without_index(path):
    fields = {"temperature": "byte", "day": "int"}
    return TFRecordDataset(str(path), None, fields, transform=decode)


half = folder / "half"
halves = {
    "HDF5": first_half(FromHDF5, half / "days.h5"),
    "LMDB": first_half(FromLMDB, half / "days.lmdb"),
    "Parquet": first_half(FromParquet, half / "days.parquet"),
    "TFRecord": first_half(without_index, half / "days.tfrecord"),
    "WebDataset": first_half(from_webdataset, half / "days-%d.tar"),
}

# %% missing-field
lmdb_days = datasets["LMDB"]
lmdb_days.ready()
newer = pyarrow.schema([("day", pyarrow.int64()), ("rain", pyarrow.float32())])
table = pyarrow.parquet.read_table(folder / "days.parquet", schema=newer)
records, shard = str(folder / "older.tfrecord"), str(folder / "days-0.tar")
writer = tfrecord.TFRecordWriter(records)
writer.write({"day": (0, "int")})  # one field: several are listed in any order
writer.close()
records = TFRecordDataset(records, None, {"rain": "float"})
shard = webdataset.WebDataset(shard, shardshuffle=False).to_tuple("rain.npy")

# %% rain
attempts = {
    "HDF5": lambda: h5py.File(folder / "days.h5")["rain"],
    "LMDB": lambda: lmdb_days.file.begin().get(b"rain"),
    "Parquet": lambda: table["rain"].to_pylist().pop(),
    "TFRecord": lambda: next(iter(records)),
    "WebDataset": lambda: next(iter(shard)),
}

# %% ask-for-rain
asked = {}
for name, attempt in attempts.items():
    try:
        asked[name] = str(attempt())
    except (KeyError, ValueError) as error:
        asked[name] = f"{type(error).__name__}: {error}"
    print(f"{name:10}", asked[name])

# %% choose
import pandas as pd

libraries = [h5py, lmdb, pyarrow, tfrecord, webdataset]
rows = {}
for (name, dataset), library in zip(datasets.items(), libraries, strict=True):
    plain, *packed = (f"{size // 1000:,} kB" for size in sizes[name])
    days, error = halves[name]
    rows[name] = {
        "read": "as a stream"
        if isinstance(dataset, IterableDataset)
        else "by index",
        "bytes for a day": len(content[name]) // 100,
        "1,000 kB of zeros": " or ".join([plain, *packed]),
        "the first half gives": f"{days} days, {error}",
        "a missing field": asked[name].partition(":")[0],
        "library": library.__name__,
    }

pd.DataFrame.from_dict(rows, orient="index")

# %% open-handles
# Wrong on purpose: do not copy.
import pickle

handles = [
    h5py.File(folder / "days.h5"),
    lmdb_days.file,
    pyarrow.parquet.ParquetFile(folder / "days.parquet"),
    TFRecordDataset(str(folder / "days.tfrecord"), None),
]
refused = []
for handle in handles:
    try:
        pickle.dumps(handle)
    except (TypeError, AttributeError) as error:
        refused.append(f"{type(error).__name__}: {error}")
print(*refused, sep="\n")
