"""
How many workers a loader wants
===============================

Count how many epochs per second a loader reads with none to four workers, from
your dataset or from three kinds of samples, and see how many workers to take.

The rule: **try it with your own samples, on the machine that trains**.

Write a file with a function ``build()`` that returns your dataset, and give it
to the script::

    python loader_workers.py --dataset my_data.py --workers 2 4 8

It needs ``torch``, ``matplotlib``, ``tqdm``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.

DATASET = None  # a file with a function build()
BATCH_SIZE = 8  # of the loader
BATCHES = 50  # of an epoch, at most
WORKERS = [1, 2, 4]  # beside 0
ROUNDS = 2  # epochs up, epochs down

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.
#
# .. _a-number-out-of-bounds-is-refused:
#
# A number that is out of bounds ends the script, with a line that says what is
# possible.

import argparse

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="Count how many workers a loader wants.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--dataset", metavar="FILE", default=DATASET, help="it has a build()")
    add("--batch-size", type=int, default=BATCH_SIZE, help="of the loader")
    add("--batches", type=int, default=BATCHES, help="of an epoch, at most")
    add("--workers", type=int, nargs="+", default=WORKERS, help="beside 0")
    add("--rounds", type=int, default=ROUNDS, help="epochs up, epochs down")
    options = parser.parse_args()
    numbers = options.batch_size, options.batches, *options.workers
    if min(*numbers, options.rounds // 2) < 1:
        words = "--batch-size, --batches and --workers are at least 1"
        parser.error(f"{words}, and --rounds is at least 2")
    DATASET, WORKERS, ROUNDS = options.dataset, options.workers, options.rounds
    BATCH_SIZE, BATCHES = options.batch_size, options.batches

# %% setup
#
# On macOS and Windows, run it as a script; see :doc:`/data/loading`.

import importlib
import os
import statistics
import sys
import time
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, Subset
from tqdm import tqdm

start = "fork" if sys.platform == "linux" else "spawn"
counts = sorted({0, *WORKERS})
# Too many workers for a machine are a part of the question.
warnings.filterwarnings("ignore", "This DataLoader will create")

# %% samples
#
# .. _samples-of-three-kinds:
#
# The first kind of sample does nothing, the second sorts 5,000 numbers, and
# the third waits for a millisecond, as for a disk.


def compute():
    torch.rand(5_000).sort()


class Samples(Dataset):
    """Numbers, each with the process that made it."""

    def __init__(self, work):
        self.work = work

    def __len__(self):
        return 64

    def __getitem__(self, index):
        self.work()
        return index, os.getpid()


builders = {
    "free": lambda: Samples(int),
    "computing": lambda: Samples(compute),
    "waiting": lambda: Samples(partial(time.sleep, 0.001)),
}
collate_fn = None

# %% loader
#
# .. _an-epoch-has-a-limit:
#
# An epoch reads 50 batches, or as many as you say, at random from the whole
# dataset: always the same samples in the same order.


def loader_of(build, workers):
    """Return a loader whose workers, if any, stay alive between epochs."""
    dataset = build()
    order = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(dataset), generator=order).tolist()
    return DataLoader(
        Subset(dataset, chosen[: BATCHES * BATCH_SIZE]),
        batch_size=BATCH_SIZE,
        num_workers=workers,
        collate_fn=collate_fn,
        persistent_workers=workers > 0,
        multiprocessing_context=start if workers else None,
    )


# %% yours
#
# In a file, write a function ``build()`` that returns your dataset, with the
# transforms that you train with, and a function ``collate_fn`` if you use one.
#
# .. _a-file-of-yours-is-read:
#
# With ``--dataset``, the program times the dataset of this file instead, with
# its ``collate_fn`` if it has one.
#
# .. _what-cannot-be-timed-is-named:
#
# One line names a file that is missing, fails, or has no ``build()``, and a
# dataset that is iterable, empty, or has no length.
#
# .. _a-file-with-the-name-of-a-module-is-refused:
#
# A file that is called like a module of Python or an installed one, such as
# ``random.py``, is refused.


@contextmanager
def one_line(path):
    """Say in one line what is wrong with a file."""
    try:
        yield
    except Exception as error:
        said = str(error).strip().rpartition("\n")[2]
        sys.tracebacklimit = 0  # the line below is all that is shown
        raise ValueError(f"{path}: {type(error).__name__}: {said}") from None


if __name__ == "__main__" and DATASET:
    path = Path(DATASET).resolve()
    sys.path.insert(0, str(path.parent))  # for workers, too
    with one_line(DATASET):
        if path.stem in sys.stdlib_module_names:
            raise ValueError(f"rename it: Python has a module {path.stem}")
        module = importlib.import_module(path.stem)
        if getattr(module, "__file__", "") != str(path):
            raise ValueError(f"rename it: another module is {path.stem}")
        builders = {path.stem: module.build}
        collate_fn = getattr(module, "collate_fn", None)
        if not len(module.build()):
            raise ValueError("the dataset is empty")

# %% check
#
# .. _the-number-of-workers-changes-no-sample:
#
# With any number of workers, the samples are the same, in the same order.
#
# .. _as-many-processes-as-workers:
#
# The batches come from as many processes as there are workers, and without
# workers from the main process.

origins = {}
if __name__ == "__main__" and not DATASET:
    loaded = {}
    for workers in counts:
        batches = list(loader_of(builders["free"], workers))
        loaded[workers] = torch.cat([indices for indices, _ in batches])
        origins[workers] = [pids[0].item() for _, pids in batches]
        print(f"{workers} workers: {len(set(origins[workers]))} processes")

# %% time
#
# What it buys
# ------------
#
# Go through the numbers of workers up and down again, in case the machine
# becomes slower in between.
#
# .. _the-first-epoch-is-not-counted:
#
# The first epoch of each loader, in which its workers start, is not counted.
#
# If the files do not fit into memory, expect less. For how many workers a
# training step can use, see :doc:`/data/loading`. If the program takes the
# largest number, try larger ones.


def measure():
    """Return the speeds by the kind of sample and the number of workers."""
    speeds = {name: {each: [] for each in counts} for name in builders}
    turns = counts + counts[::-1]
    tries = [(name, workers) for name in builders for workers in turns]
    for name, workers in tqdm(tries, leave=False, disable=None):
        loader = loader_of(builders[name], workers)
        for each in range(1 + ROUNDS):
            begin = time.perf_counter()
            for _ in loader:
                pass
            speed = 1 / (time.perf_counter() - begin)
            speeds[name][workers] += [speed] if each else []
    return speeds


# %% conclude
#
# .. _the-fewest-that-no-other-beats:
#
# One number of workers beats another if its slowest round is more than 5
# percent faster than the fastest of the other. The program takes the smallest
# number that beats 0 and that no other beats.
#
# .. _noise-is-said:
#
# If no number beats 0, it takes 0, unless the rounds differ by 25 percent or
# more: then it says that they are too noisy.


def beats(speeds, others):
    return min(speeds) > 1.05 * max(others)


def conclude(speeds):
    """Return in words how many workers to take, from speeds by number."""
    base = speeds[0]
    for few in speeds:
        better = [each for each in speeds if beats(speeds[each], speeds[few])]
        if beats(speeds[few], base) and not better:
            return f"take {few}, which helps"
    for found in list(speeds.values())[1:]:
        both = [*found, *base]
        if max(both) >= 1.25 * min(both) and not beats(base, found):
            return "too noisy to say: try more rounds, close other programs"
    return "take 0: workers do not help here"


if __name__ == "__main__":
    with one_line(DATASET):
        speeds = measure()
    lines = [f"{name} samples: {conclude(speeds[name])}" for name in speeds]
    if "__file__" in globals():  # in a notebook, the picture says it
        print(*lines, sep="\n")

# %% time-picture
#
# The line at 1 is a loader without workers.

import matplotlib.pyplot as plt

if __name__ == "__main__":
    figure, axis = plt.subplots(num="timings", figsize=(7, 4.6))
    styles = [("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^")]
    for name, (color, marker) in zip(speeds, styles, strict=False):
        middle = [statistics.median(speeds[name][each]) for each in counts]
        ratios = [each / middle[0] for each in middle]
        axis.plot(counts, ratios, color=color, marker=marker, label=name)
    axis.axhline(1, color="#999999", linewidth=1)
    axis.axvline(os.cpu_count(), color="#999999", ls=":", label="cores")
    axis.set_xticks(counts)
    axis.set(xlabel="workers", ylabel="epochs per second, relative to 0")
    axis.set_title("\n".join(lines), fontsize=10)
    axis.legend()
    figure.tight_layout()
    plt.show()

# %% origins-picture
#
# Who makes which batch
# ---------------------
#
# Each row is a loader of the check above, each square one of its batches, and
# each colour a process.

import matplotlib.pyplot as plt

COLORS = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"

if origins:
    figure, axis = plt.subplots(figsize=(7, 3.5))
    for row, workers in enumerate(origins):
        known = list(dict.fromkeys(origins[workers]))
        for place, process in enumerate(origins[workers]):
            number = known.index(process)
            color = COLORS[number % len(COLORS)] if workers else "#999999"
            axis.barh(row, 0.9, left=place, color=color, alpha=0.5)
            label = number + 1 if workers else "main"
            axis.text(place + 0.45, row, label, ha="center", va="center")
    axis.set_yticks(range(len(origins)), labels=origins)
    axis.set_xticks([])
    axis.margins(x=0.02)
    axis.invert_yaxis()
    axis.set(xlabel="batches, in their order", ylabel="workers")
    axis.set_title("The process that makes each batch, by number of workers")
    figure.tight_layout()
    plt.show()
