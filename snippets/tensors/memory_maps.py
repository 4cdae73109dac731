"""
Read-only arrays and memory maps
================================

Tensors that share memory which nobody may write to.
"""

# %% file
import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np

folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder, ignore_errors=True)
path = str(Path(folder, "temperatures"))
np.float32([20.5, 21.0]).tofile(path)

# %% maps
import torch

mapped = torch.from_numpy(np.memmap(path, "float32", mode="c"))
copied = torch.tensor(np.memmap(path, "float32", mode="r"))
opened = torch.from_file(path, shared=False, size=2, dtype=torch.float32)

# %% maps-tried
for tensor in (mapped, copied, opened):
    tensor[0] = 99.0
on_disk = np.fromfile(path, "float32")

print(mapped, copied, opened, sep="\n")
print("in the file:", on_disk)

# %% flags
from PIL import Image

arrays = {
    "np.frombuffer": np.frombuffer(b"\x14\x15", dtype=np.uint8),
    "np.broadcast_to": np.broadcast_to(np.float32(20.5), (2, 3)),
    "np.asarray": np.asarray(Image.new("L", (8, 8))),
    "np.memmap": np.memmap(path, "float32", mode="r"),
}
for name, array in arrays.items():
    print(f"{name:15} writeable: {array.flags.writeable}")

# %% read-only
# Wrong on purpose: do not copy.
import warnings

limits = np.array([-40.0, 85.0])
limits.flags.writeable = False
with warnings.catch_warnings(record=True, action="always") as caught:
    unlimited = torch.from_numpy(limits)
unlimited[1] = 0.0

texts = [str(each.message).partition(" (Trigg")[0] for each in caught]
print(*texts, limits, sep="\n")

# %% reading
with warnings.catch_warnings(action="ignore"):
    readings = torch.from_numpy(arrays["np.memmap"])
warmer = readings + 1  # a new tensor
warmer[0] = 99.0

print(readings.sum(), warmer)


# %% crash
# Wrong on purpose: do not copy.
def write_to_map(path):
    array = np.memmap(path, "float32", mode="r")
    tensor = torch.from_numpy(array)
    try:
        tensor[0] = 99.0
    except BaseException as error:
        print("caught:", error)


# %% crash-run
import multiprocessing

fork = multiprocessing.get_context("fork")
process = fork.Process(target=write_to_map, args=[path])
with warnings.catch_warnings(action="ignore"):  # of the array, of the fork
    process.start()
process.join()

print("exit code:", process.exitcode)

# %% quiz
many = np.broadcast_to(np.ones(1), 3)
with warnings.catch_warnings(action="ignore"):
    tensor = torch.from_numpy(many)
tensor[0] = 7.0
print(many)
