"""
How many workers a loader wants
===============================

Count epochs per second with none to four workers, for samples that cost
nothing, that compute, and that wait.

The rule: **try, with your own samples**. *PyTorch Basics* says: as many
workers as cores. Three datasets give three answers.

It needs ``torch``, ``matplotlib``.
"""

# %% setup
#
# The workers are forked, so the program runs on Linux and macOS, in a notebook
# as well.

import os
import statistics
import time
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)  # each worker has one, too
WORKERS = (0, 1, 2, 4)
# Too many workers for a machine are a part of the question.
warnings.filterwarnings("ignore", "This DataLoader will create")

# %% datasets
#
# Three kinds of samples
# ----------------------


class Samples(Dataset):
    """64 samples; each gives its number and the process that made it."""

    def __init__(self, work):
        self.work = work

    def __len__(self):
        return 64

    def __getitem__(self, index):
        self.work()
        return index, os.getpid()


def compute():
    torch.arange(30_000).flip(0).sort()


kinds = {
    "free": lambda: None,
    "computing": compute,
    "waiting": lambda: time.sleep(0.002),  # as for a disk
}


def loader_of(kind, workers):
    """Return a loader whose workers, if any, stay alive between epochs."""
    options = {}
    if workers:
        options = {
            "persistent_workers": True,
            "multiprocessing_context": "fork",
        }
    return DataLoader(
        Samples(kinds[kind]), batch_size=8, num_workers=workers, **options
    )


# %% check
#
# The same samples, whoever loads them
# ------------------------------------
#
# .. _the-number-of-workers-changes-no-sample:
#
# With none, one, two and four workers, the samples are the same, in the same
# order.
#
# .. _as-many-processes-as-workers:
#
# They come from as many processes as there are workers, and without workers
# from the main process.

loaded, origins = {}, {}
for workers in WORKERS:
    batches = list(loader_of("free", workers))
    indices = torch.cat([indices for indices, _ in batches]).tolist()
    origins[workers] = [pids[0].item() for _, pids in batches]
    loaded[workers] = indices, set(origins[workers])

print({workers: len(found) for workers, (_, found) in loaded.items()})


# %% shares
#
# Which process loads which batch.

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 3))
colors = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
for row, workers in enumerate(WORKERS):
    order = list(dict.fromkeys(origins[workers]))
    for batch, process in enumerate(origins[workers]):
        number = order.index(process)
        axis.barh(row, 0.9, left=batch, color=colors[number], alpha=0.8)
        axis.text(batch + 0.45, row, number, ha="center", va="center")
axis.set_yticks(range(len(WORKERS)), WORKERS)
axis.set_ylabel("workers")
axis.set_xlabel("batch; the number in its box is that of the process")
axis.set_title("Who loads which batch, with none to four workers")
plt.show()

# %% time
#
# What it buys
# ------------
#
# The program counts the epochs per second on your machine. The first epoch
# starts the workers, and is not counted.


def epochs_per_second(kind, workers, rounds=3):
    """Return how many epochs a second has, for each of some rounds."""
    loader = loader_of(kind, workers)
    list(loader)
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        list(loader)
        found.append(1 / (time.perf_counter() - start))
    return found


speeds = {
    kind: [epochs_per_second(kind, workers) for workers in WORKERS]
    for kind in kinds
}

# %% time-picture
#
# A line at 1 is a loader without workers. Above it, workers help.

import matplotlib.pyplot as plt

colors = ["#0072B2", "#D55E00", "#009E73"]
markers = ["o", "s", "^"]
figure, axis = plt.subplots(num="timings", figsize=(7, 4))
for kind, color, marker in zip(kinds, colors, markers, strict=True):
    medians = [statistics.median(each) for each in speeds[kind]]
    ratios = [median / medians[0] for median in medians]
    axis.plot(WORKERS, ratios, color=color, marker=marker, label=kind)
axis.axhline(1, color="#999999", linewidth=1)
axis.axvline(os.cpu_count(), color="#999999", linestyle=":", label="cores")
axis.set_yscale("log")
axis.set_xticks(WORKERS)
axis.set_xlabel("workers")
axis.set_ylabel("epochs per second, relative to no worker")
axis.set_title("What workers do, for three kinds of samples")
axis.legend()
plt.show()
