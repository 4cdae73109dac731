"""Reading a thousand samples, in order and at random

Samples of 784 bytes and a label. One repetition reads all of them from files
that the system has in memory, without workers.
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
import torch

NUMBER = 1000


def write(folder):
    """Write the samples in four forms; return them."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(256, size=(NUMBER, 784), dtype=np.uint8)
    for i, row in enumerate(pixels):
        np.save(folder / f"{i}.npy", row)
    with h5py.File(folder / "samples.h5", "w") as file:
        file.create_dataset("x", data=pixels)
    with (
        lmdb.open(str(folder / "lmdb"), map_size=2**24) as environment,
        environment.begin(write=True) as transaction,
    ):
        for i, row in enumerate(pixels):
            transaction.put(str(i).encode(), row.tobytes())
    table = pyarrow.table({"x": [row.tobytes() for row in pixels]})
    pyarrow.parquet.write_table(table, folder / "samples.parquet")


def cases(device):
    """Return what is timed, by name; the first of a kind is the base."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    write(folder)
    hdf5 = h5py.File(folder / "samples.h5")["x"]
    environment = lmdb.open(str(folder / "lmdb"), readonly=True, lock=False)
    parquet = pyarrow.parquet.ParquetFile(folder / "samples.parquet")
    shuffled = torch.randperm(NUMBER).tolist()

    def from_files(order):
        for i in order:
            torch.from_numpy(np.load(folder / f"{i}.npy"))

    def from_hdf5(order):
        for i in order:
            torch.from_numpy(hdf5[i])

    def from_lmdb(order):
        with environment.begin() as transaction:
            for i in order:
                value = bytearray(transaction.get(str(i).encode()))
                torch.frombuffer(value, dtype=torch.uint8)

    def from_parquet():
        for value in parquet.read()["x"]:
            torch.frombuffer(bytearray(value.as_py()), dtype=torch.uint8)

    return {
        "in order: a file for each": lambda: from_files(range(NUMBER)),
        "in order: HDF5": lambda: from_hdf5(range(NUMBER)),
        "in order: LMDB": lambda: from_lmdb(range(NUMBER)),
        "in order: Parquet": from_parquet,
        "at random: a file for each": lambda: from_files(shuffled),
        "at random: HDF5": lambda: from_hdf5(shuffled),
        "at random: LMDB": lambda: from_lmdb(shuffled),
    }
