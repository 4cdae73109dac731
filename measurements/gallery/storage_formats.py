"""An epoch of 400 images from each format

Images of 28 by 28 bytes in batches of 40, read by two workers from files that
the system has in memory.
One repetition is one epoch, with the start of its workers.
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import h5py
import lmdb
import numpy as np
import pyarrow
import pyarrow.parquet
import tfrecord
import webdataset
from tfrecord.tools.tfrecord2idx import create_index
from tfrecord.torch.dataset import TFRecordDataset
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    get_worker_info,
)

NUMBER = 400


def write(folder):
    """Write discs that compress about as well as drawings do."""
    grid = np.arange(28)
    images = np.zeros((NUMBER, 28, 28), np.uint8)
    for i in range(NUMBER):
        x, y, radius = 5 + i % 17, 5 + i // 17 % 17, 3 + i % 7
        distance = (grid - x) ** 2 + (grid[:, None] - y) ** 2
        images[i] = np.where(distance < radius**2, 255 - i % 100, 0)
    for name, compression in (("samples.h5", None), ("gzip.h5", "gzip")):
        with h5py.File(folder / name, "w") as file:
            file.create_dataset(
                "x",
                data=images,
                chunks=(40, 28, 28),
                compression=compression,
            )
    with (
        lmdb.open(str(folder / "lmdb"), map_size=2**24) as environment,
        environment.begin(write=True) as transaction,
    ):
        for i, image in enumerate(images):
            transaction.put(str(i).encode(), image.tobytes())
    table = pyarrow.table({"x": [image.tobytes() for image in images]})
    pyarrow.parquet.write_table(
        table, folder / "samples.parquet", row_group_size=40
    )
    writer = tfrecord.TFRecordWriter(str(folder / "samples.tfrecord"))
    pattern = str(folder / "shard-%d.tar")
    with webdataset.ShardWriter(pattern, maxcount=100, verbose=0) as shards:
        for i, image in enumerate(images):
            writer.write({"x": (image.tobytes(), "byte")})
            shards.write({"__key__": f"{i:03}", "x.npy": image})
    writer.close()
    create_index(
        str(folder / "samples.tfrecord"), str(folder / "samples.index")
    )


def decoded(content):
    """Return an image from its bytes."""
    return np.frombuffer(bytearray(content), np.uint8).reshape(28, 28)


class Stored(Dataset):
    """Images by their number, from a file that each worker opens."""

    def __init__(self, path):
        self.path = path
        self.file = None

    def __len__(self):
        return NUMBER

    def __getitem__(self, index):
        self.file = self.file or self.open()
        return self.sample(index)


class FromHDF5(Stored):
    """From the array x of an HDF5 file."""

    def open(self):
        """Return the file, open."""
        return h5py.File(self.path)

    def sample(self, index):
        """Return one image."""
        return self.file["x"][index]


class FromLMDB(Stored):
    """From the values of an LMDB environment."""

    def open(self):
        """Return the environment, open."""
        return lmdb.open(str(self.path), readonly=True, lock=False)

    def sample(self, index):
        """Return one image."""
        with self.file.begin() as transaction:
            return decoded(transaction.get(str(index).encode()))


class FromParquet(IterableDataset):
    """From the groups of rows of a Parquet file, shared out."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        worker = get_worker_info()
        with pyarrow.parquet.ParquetFile(self.path) as file:
            for group in range(
                worker.id, file.num_row_groups, worker.num_workers
            ):
                for row in file.read_row_group(group).to_pylist():
                    yield decoded(row["x"])


def of_record(record):
    """Return the image of a record."""
    return decoded(record["x"])


def cases(device):
    """Return what is timed, by name; the first is what all are held to."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    write(folder)
    records = TFRecordDataset(
        str(folder / "samples.tfrecord"),
        str(folder / "samples.index"),
        {"x": "byte"},
        transform=of_record,
    )
    tars = sorted(str(path) for path in folder.glob("shard-*.tar"))
    sharded = webdataset.WebDataset(tars, shardshuffle=False)
    datasets = {
        "HDF5": FromHDF5(folder / "samples.h5"),
        "HDF5, gzip": FromHDF5(folder / "gzip.h5"),
        "LMDB": FromLMDB(folder / "lmdb"),
        "Parquet": FromParquet(folder / "samples.parquet"),
        "TFRecord": records,
        "WebDataset": sharded.decode().to_tuple("x.npy"),
    }

    def epoch(dataset):
        loader = DataLoader(
            dataset,
            batch_size=40,
            num_workers=2,
            multiprocessing_context="fork",
        )
        return lambda: list(loader)

    return {name: epoch(dataset) for name, dataset in datasets.items()}
