"""
Store a dataset larger than memory: memmap, HDF5, LMDB, tar
===========================================================

A memory-mapped dataset, a file with an index, and five formats.
"""

# %% digits
import atexit
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
digits, labels = load_digits(return_X_y=True)
digits = digits.astype(np.uint8).reshape(-1, 8, 8)  # gray, from 0 to 16

# %% write
path = folder / "digits.npy"
images = np.lib.format.open_memmap(path, "w+", np.uint8, (1797, 8, 8))
for index, image in enumerate(digits):  # one at a time
    images[index] = image
images.flush()


# %% do-this
class Digits(Dataset):
    def __init__(self, path, labels):
        self.path, self.labels = path, labels  # the path, not the open file

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        images = np.load(self.path, mmap_mode="r")  # reads only the header
        return torch.tensor(images[index]), self.labels[index]


# %% loop
two = {"num_workers": 2, "multiprocessing_context": "fork"}
loader = DataLoader(Digits(path, labels), batch_size=600, shuffle=True, **two)
for batch, answers in loader:
    print(batch.dtype, batch.shape, answers[:5])

# %% huge
import resource

huge, count = folder / "huge.npy", 2**31
images = np.lib.format.open_memmap(huge, "w+", np.uint8, (count, 8, 8))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
images[-1] = digits[57]
last, _ = Digits(huge, range(count))[count - 1]
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"a file of {huge.stat().st_size / 2**30:.0f} GiB,", end=" ")
print(f"{(after - before) / 2**20:.1f} GiB more memory,", end=" ")
print("right" if np.array_equal(last, digits[57]) else "wrong")


# %% by-hand
def pack(path, samples):
    with path.open("wb") as file:
        return [(file.tell(), file.write(each)) for each in samples]  # 1


class Packed(Dataset):
    def __init__(self, path, places):
        self.path, self.places = path, places  # 2

    def __len__(self):
        return len(self.places)

    def __getitem__(self, index):
        start, length = self.places[index]  # 3
        data = np.memmap(self.path, np.uint8, "r")  # 4
        return data[start : start + length].tobytes()  # 5


# %% packed
shorter = [each.tobytes().rstrip(b"\0") for each in digits]
places = pack(folder / "packed.bin", shorter)
packed = Packed(folder / "packed.bin", places)
print(places[:4], "...", places[-1])
print(packed[2].ljust(64, b"\0") == digits[2].tobytes())

# %% formats
import h5py
import lmdb
import pyarrow.parquet
import tfrecord
import webdataset
from tfrecord.tools.tfrecord2idx import create_index

with h5py.File(folder / "digits.h5", "w") as file:
    file["images"] = digits
gzip = {"chunks": (100, 8, 8), "compression": "gzip"}
with h5py.File(folder / "gzip.h5", "w") as file:
    file.create_dataset("images", data=digits, **gzip)

with (
    lmdb.open(str(folder / "digits.lmdb"), map_size=2**30) as environment,
    environment.begin(write=True) as transaction,
):
    for index, image in enumerate(digits):
        transaction.put(f"{index:08}".encode(), image.tobytes())

table = pyarrow.table({"image": [*digits.reshape(-1, 64)], "label": labels})
pyarrow.parquet.write_table(table, folder / "digits.parquet")

records = str(folder / "digits.tfrecord")
writer = tfrecord.TFRecordWriter(records)
for index, image in enumerate(digits):
    writer.write({"image": (image.tobytes(), "byte"), "i": (index, "int")})
writer.close()
create_index(records, f"{records}.index")

names = str(folder / "digits-%d.tar")
with webdataset.ShardWriter(names, maxcount=300, verbose=0) as writer:
    for index, image in enumerate(digits):
        sample = {"image.bin": image.tobytes(), "label.cls": labels[index]}
        writer.write({"__key__": f"{index:08}"} | sample)

# %% elsewhere
import tarfile

with h5py.File(folder / "digits.h5") as file:
    first = file["images"].id.get_offset()
in_hdf5 = [(first + 64 * index, 64) for index in range(1797)]
with tarfile.open(folder / "digits-0.tar") as tar:
    in_tar = [(each.offset_data, each.size) for each in tar.getmembers()[::2]]

found = {"digits.h5": in_hdf5, "digits-0.tar": in_tar}
for name, places in found.items():
    image = Packed(folder / name, places)[57]
    print(name, places[57], image == digits[57].tobytes())

# %% choose
import pandas as pd

files = {"HDF5": "digits.h5", "HDF5, gzip": "gzip.h5"}
files |= {"LMDB": "digits.lmdb/data.mdb", "Parquet": "digits.parquet"}
files |= {"TFRecord": "digits.tfrecord", "WebDataset": "digits-*.tar"}
rows = {}
for name, pattern in files.items():
    content = b"".join(each.read_bytes() for each in folder.glob(pattern))
    rows[name] = {
        "bytes for each digit": round(len(content) / len(digits)),
        "as they were": digits[57].tobytes() in content,
    }
pd.DataFrame.from_dict(rows, orient="index")

# %% shards
shards = str(folder / "digits-{0..5}.tar")
stream = webdataset.WebDataset(shards, shardshuffle=6).shuffle(500).decode()
stream = stream.to_tuple("image.bin", "label.cls")
shuffled = DataLoader(stream, batch_size=None, **two)
epochs = [[each for _, each in shuffled] for _ in range(2)]
again = "in the same order" if epochs[0] == epochs[1] else "in a new order"
print([len(answers) for answers in epochs], again)

# %% open-handles
# Wrong on purpose: do not copy.
import pickle

handles = [
    h5py.File(folder / "digits.h5"),
    lmdb.open(str(folder / "digits.lmdb"), readonly=True, lock=False),
    pyarrow.parquet.ParquetFile(folder / "digits.parquet"),
    tfrecord.torch.TFRecordDataset(records, f"{records}.index"),
]
for handle in handles:
    try:
        pickle.dumps(handle)
    except (TypeError, AttributeError) as error:
        print(f"{type(error).__name__}: {error}")


# %% from-hdf5
class FromHDF5(Dataset):
    def __init__(self, path):
        self.path, self.process, self.images = path, None, None
        with h5py.File(path) as file:
            self.length = len(file["images"])

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.process != os.getpid():  # the first sample in this process
            self.images = None  # lets go of what a fork has copied
            self.images = h5py.File(self.path)["images"]
            self.process = os.getpid()
        return torch.tensor(self.images[index])

    def __getstate__(self):  # for a pickle, such as that of a spawned worker
        return vars(self) | {"process": None, "images": None}


# %% from-hdf5-read
dataset = FromHDF5(folder / "digits.h5")
first = dataset[0]
batches = [*DataLoader(dataset, batch_size=600, **two)]
print(np.array_equal(torch.cat(batches), digits))

# %% map-pickled
# Wrong on purpose: do not copy.
images = np.load(path, mmap_mode="r")
print(f"the map: {len(pickle.dumps(images)):,} bytes,", end=" ")
print("its path:", len(pickle.dumps("digits.npy")))

# %% position
# Wrong on purpose: do not copy.
import multiprocessing

raw = folder / "digits.bin"
pack(raw, [image.tobytes() for image in digits])
fork = multiprocessing.get_context("fork")
with raw.open("rb", buffering=0) as file:
    file.seek(57 * 64)
    worker = fork.Process(target=file.read, args=(64,))
    worker.start()
    worker.join()
    image = np.frombuffer(file.read(64), np.uint8).reshape(8, 8)
print([index for index in (57, 58) if np.array_equal(image, digits[index])])

# %% dtype
# Wrong on purpose: do not copy.
inputs = digits.astype(np.float32)
inputs.tofile(folder / "inputs.bin")
for dtype in (np.float32, np.int32, np.float64):
    numbers = np.memmap(folder / "inputs.bin", dtype, "r")
    print(f"{numbers.dtype.name:8} {len(numbers):7,}", numbers[2:6])

# %% cut
starts = np.loadtxt(f"{records}.index", int)[:, 0]
part = Path(records).read_bytes()[: starts[900]]
(folder / "part.tfrecord").write_bytes(part)
part = (folder / "digits-0.tar").read_bytes()[: 150 * 4096]
(folder / "part.tar").write_bytes(part)

cut = [
    tfrecord.torch.TFRecordDataset(str(folder / "part.tfrecord"), None),
    webdataset.WebDataset(str(folder / "part.tar"), shardshuffle=False),
]
print([sum(1 for _ in each) for each in cut])

# %% chunks
import zlib

for size in (100, 1):
    options = gzip | {"chunks": (size, 8, 8)}
    with h5py.File(folder / "chunks.h5", "w") as file:
        array = file.create_dataset("images", data=digits, **options)
        info = array.id.get_chunk_info(0)
    chunk = Packed(folder / "chunks.h5", [(info.byte_offset, info.size)])[0]
    unpacked = np.frombuffer(zlib.decompress(chunk), np.uint8)
    print(f"to read one digit, {len(unpacked) // 64} are unpacked")

# %% place
pieces = pack(folder / "three.bin", [b"ab", b"", b"cde"])
print(pieces)


# %% from-lmdb
class FromLMDB(Dataset):
    def __init__(self, path):
        self.path, self.process, self.file = str(path), None, None
        with lmdb.open(self.path, readonly=True, lock=False) as file:
            self.length = file.stat()["entries"]

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.process != os.getpid():
            if self.file is not None:
                self.file.close()  # the copy that a fork has made
            self.file = lmdb.open(self.path, readonly=True, lock=False)
            self.process = os.getpid()
        index = range(len(self))[index]  # an IndexError past the last
        with self.file.begin() as transaction:
            value = transaction.get(f"{index:08}".encode())
        return torch.frombuffer(bytearray(value), dtype=torch.uint8)

    def __getstate__(self):
        return vars(self) | {"process": None, "file": None}


# %% from-lmdb-checked
handles[1].close()  # a process opens an environment only once
dataset = FromLMDB(folder / "digits.lmdb")
first = dataset[0]
with_workers = torch.cat([*DataLoader(dataset, batch_size=600, **two)])
if len(dataset) != 1797:
    print("How many entries does `stat()` count?")
elif not np.array_equal(with_workers, digits.reshape(-1, 64)):
    print("Which bytes does your key lead to?")
elif any(
    isinstance(each, lmdb.Environment)
    for each in dataset.__getstate__().values()
):
    print("A spawned worker gets a pickle: what must not be in it?")
else:
    print("Right: two workers read what one process has opened before.")
