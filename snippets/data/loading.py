"""
Load with workers
=================

What a worker is, what it sees of your program, and what can go wrong there.
"""

# %% days
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Days(Dataset):
    reads = 0

    def __len__(self):
        return 12

    def __getitem__(self, day):
        self.reads += 1
        worker = get_worker_info()  # None in the main process
        return day, worker.id if worker else -1


fork = {"batch_size": 2, "num_workers": 2, "multiprocessing_context": "fork"}


# %% recorded
def recorded(dataset, workers, batch_size=2, **options):
    asked = []

    def ask():
        for first in range(0, len(dataset), batch_size):
            asked.append(first)
            yield [*range(len(dataset))[first : first + batch_size]]

    options |= {"multiprocessing_context": "fork"} if workers else {}
    loader = DataLoader(
        dataset, batch_sampler=ask(), num_workers=workers, **options
    )
    batches = iter(loader)
    counts = [len(asked)]  # before the first batch, then after each
    given = [(batch, counts.append(len(asked)))[0] for batch in batches]
    return counts, given


# %% record
runs = {workers: recorded(Days(), workers) for workers in (0, 2)}
counts, given = runs[2]

for days, workers in given:
    print(f"days {days.tolist()} were read by worker {workers[0]}")
print("batches asked for before the first one:", counts[0])
print("and up to each that is handed over:", counts[1:])

# %% schedule
from bisect import bisect


def schedule(counts, given, loading=3, step=1):
    ends, handed_over, rows = {-1: 0}, [0], []  # -1: the main process
    for batch, (_, [worker, *_]) in enumerate(given):
        asked = handed_over[min(bisect(counts, batch), batch)]
        start = max(asked, ends.get(int(worker), 0))
        ends[int(worker)] = done = start + loading
        rows.append(("load", int(worker), batch, start, done))
        if done > ends[-1]:
            rows.append(("wait", -1, batch, ends[-1], done))
        handed_over.append(max(done, ends[-1]))
        ends[-1] = handed_over[-1] + step
        rows.append(("train", -1, batch, handed_over[-1], ends[-1]))
    return rows


# %% timeline
import matplotlib.pyplot as plt

fills = {"load": {"fill": False}, "wait": {"color": "#D55E00"}}
fills["train"] = {"color": "#0072B2"}
sizes = {"figsize": (8, 3), "height_ratios": (1, 3), "sharex": True}
sizes["layout"] = "constrained"
for ax, workers in zip(plt.subplots(2, **sizes)[1], runs, strict=True):
    for what, process, batch, start, end in schedule(*runs[workers]):
        ax.barh(process, end - start, left=start, ec="k", **fills[what])
        ax.text((start + end) / 2, process, batch, ha="center", va="center")
    lanes = ["main", "worker 0", "worker 1"][: workers + 1]
    ax.set(yticks=range(-1, workers), yticklabels=lanes)
    ax.invert_yaxis()
plt.suptitle(
    "Batches are loaded (empty), waited for (orange), trained on (blue)"
)
plt.xlabel("steps of training")
plt.show()

# %% copies
days = Days()
given = list(DataLoader(days, **fork))

print("reads that the main process sees:", days.reads)

# %% do-this
from torch.utils.data import TensorDataset

degrees = TensorDataset(torch.arange(12.0))  # temperatures of twelve days

if __name__ == "__main__":  # a worker may import this file
    common = {"batch_size": 4, "num_workers": 2, "persistent_workers": True}
    common["pin_memory"] = torch.cuda.is_available()
    torch.manual_seed(0)
    training = DataLoader(degrees, shuffle=True, **common)
    evaluation = DataLoader(degrees, **common)

# %% read-both
for loader in (training, evaluation):
    # A worker could not import the code of this page.
    loader.multiprocessing_context = "fork"

trained = [[batch.tolist() for [batch] in training] for epoch in range(2)]
evaluated = [batch.tolist() for [batch] in evaluation]

print("training:  ", *trained, sep="\n")
print("evaluation:", evaluated, sep="\n")

# %% three-epochs
import os


class Epochs(Days):
    epoch = 0

    def __getitem__(self, day):
        return self.epoch, os.getpid()


# %% epochs-seen
seen, processes = {}, {}

for stay in (False, True):
    dataset, rows = Epochs(), []
    one = {**fork, "num_workers": 1, "batch_size": 12}
    loader = DataLoader(dataset, **one, persistent_workers=stay)
    for dataset.epoch in range(3):
        rows += loader
    seen[stay] = [epoch[0].item() for epoch, _ in rows]
    processes[stay] = len({int(ids[0]) for _, ids in rows})
    print(f"persistent_workers={stay}: {processes[stay]} processes")
    print("epochs that they saw:", seen[stay])

# %% without-workers
needs = {"prefetch_factor": 2, "persistent_workers": True, "timeout": 60}
needs["multiprocessing_context"] = "fork"
texts = {}

for name, value in needs.items():
    try:
        next(iter(DataLoader(Days(), **{name: value})))
    except (ValueError, AssertionError) as error:
        texts[name] = f"{type(error).__name__}: {error}"
        print(texts[name])

# %% without-numbers
import re


def without_numbers(error):  # they differ from run to run
    return re.sub(r"\d+", "N", str(error))


# %% too-many-workers
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    DataLoader(Days(), num_workers=os.cpu_count() + 1)

for warning in caught:
    print(without_numbers(warning.message))


# %% local-function
# Wrong on purpose: do not copy.
def read(start_method):
    loader = DataLoader(
        [7.0, 9.0],
        num_workers=1,
        collate_fn=lambda samples: samples,
        multiprocessing_context=start_method,
    )
    return list(loader)


# %% compare-starts
print("fork:", read("fork"))
try:
    with warnings.catch_warnings(action="ignore"):  # torch explains
        read("spawn")
except Exception as error:
    print(f"spawn: {type(error).__name__}: {error}")

# %% program
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import multiprocessing

GUARD:
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()
"""


# %% run-program
def run(guard):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(PROGRAM.replace("GUARD", guard))
        command = [sys.executable, path]
        return subprocess.run(command, stderr=subprocess.PIPE, text=True)


# %% guard
# Wrong on purpose: do not copy.
unguarded = run("if True").stderr

print(unguarded[unguarded.rfind("RuntimeError") :])

# %% noise
import random

import numpy as np


class Noise(Days):
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __getitem__(self, day):
        numbers = {"torch": torch.rand(()).item(), "random": random.random()}
        numbers["np.random"] = np.random.random()
        return {"day": day, **numbers, "self.rng": self.rng.random()}


# %% seed-worker
def seed_worker(worker_id):
    info = get_worker_info()
    info.dataset.rng = np.random.default_rng(info.seed)


# %% draw
def draw(epochs, **options):
    loader = DataLoader(Noise(), **{**fork, "batch_size": 6, **options})
    return [batch for epoch in range(epochs) for batch in loader]


# %% drawn
torch.manual_seed(0)
drawn = draw(2)

# %% seeded
seeded = draw(2, worker_init_fn=seed_worker)

# %% seeds-table
import pandas as pd

rows = {name: [each[name][0].item() for each in drawn] for name in drawn[0]}
rows["self.rng, seeded"] = [each["self.rng"][0].item() for each in seeded]
del rows["day"]
heads = [f"epoch {epoch}, worker {id}" for epoch in (0, 1) for id in (0, 1)]
pd.DataFrame.from_dict(rows, orient="index", columns=heads).round(3)


# %% again
def again():
    generator = torch.Generator().manual_seed(1)
    options = {"generator": generator, "worker_init_fn": seed_worker}
    return draw(1, shuffle=True, **options)


twice = [again(), again()]

for each in twice:
    print(each[0]["day"].tolist(), each[0]["self.rng"][0].item())


# %% failing
class Failing(Days):
    def __getitem__(self, day):
        return 1 / (day - 5)


# %% report
# Wrong on purpose: do not copy.
import traceback

try:
    list(DataLoader(Failing(), **fork))
except ZeroDivisionError as error:
    print(re.sub(r'File ".*/', 'File ".../', str(error)))
    traceback.clear_frames(error.__traceback__)  # so that the workers end


# %% unpicklable
class Unpicklable(Days):
    def __getitem__(self, day):
        class MissingDay(Exception):
            pass

        raise MissingDay(day)


# %% quiet
said = os.memfd_create("said")  # a file in memory


def quiet(worker_id):
    sys.stderr = os.fdopen(said, "w", 1)  # what Python prints
    os.dup2(said, 2)  # and what torch does


# %% hang
# Wrong on purpose: do not copy.
try:
    list(DataLoader(Unpicklable(), timeout=1, worker_init_fn=quiet, **fork))
except RuntimeError as error:
    print(without_numbers(error))

# %% said
print("a worker said:", os.pread(said, 9999, 0).decode().splitlines()[-1])

# %% killed
import signal
import time


class Killed(Days):
    def __init__(self, name):
        self.signal = getattr(signal, name)

    def __getitem__(self, day):
        time.sleep(0.2)
        os.kill(os.getpid(), self.signal)


# %% kill
# Wrong on purpose: do not copy.
for name in ("SIGKILL", "SIGBUS"):
    try:
        one = {**fork, "num_workers": 1}
        list(DataLoader(Killed(name), **one, worker_init_fn=quiet))
    except RuntimeError as error:
        print(without_numbers(error.__cause__))
        print(without_numbers(error))

# %% few-files
import resource


def keep(what):
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    numbers = [os.dup(1) for _ in range(40)]  # those of the next 40 files
    for number in numbers:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(numbers) + 1, most))
    try:
        return list(map(what, DataLoader(torch.arange(400.0), **fork)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


# %% too-many-files
# Wrong on purpose: do not copy.
try:
    keep(torch.Tensor.detach)
except RuntimeError as error:
    print(error)

# %% clones
print("kept:", len(keep(torch.Tensor.clone)))
