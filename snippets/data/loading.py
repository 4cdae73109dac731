"""
Load in batches
===============

The arguments of a DataLoader, one by one, and what workers see.
"""

# %% imports
import multiprocessing
import os
import random
import time
import warnings

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info


# %% numbers
class Numbers(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index


# %% batches
loader = DataLoader(Numbers(), batch_size=4)
batches = [batch.tolist() for batch in loader]

print(len(loader), batches)


# %% collate
class Samples(Numbers):
    def __getitem__(self, index):
        return {"name": str(index), "score": index / 2, "count": index}


first = next(iter(DataLoader(Samples(), batch_size=2)))

for name, values in first.items():
    print(name, values)

# %% drop-last
training = DataLoader(Numbers(), batch_size=4, drop_last=True)
seen = torch.cat(list(training)).tolist()
too_small = list(DataLoader(Numbers(), batch_size=16, drop_last=True))

print(seen, too_small)

# %% batch-of-one
norm = nn.BatchNorm1d(3)

try:
    norm(torch.ones(1, 3))
except ValueError as error:
    print(error)


# %% shuffle
def orders(epochs=2):
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(Numbers(), shuffle=True, generator=generator)
    return [torch.cat(list(loader)).tolist() for epoch in range(epochs)]


for order in orders():
    print(order)


# %% who-loads
class Who(Numbers):
    calls = 0

    def __getitem__(self, index):
        self.calls += 1
        worker = get_worker_info()
        return index, worker.id if worker else -1, os.getpid()


# %% two-workers
def two_workers(dataset, epochs=1, persistent_workers=False):
    loader = DataLoader(
        dataset,
        batch_size=2,
        num_workers=2,
        multiprocessing_context="fork",
        persistent_workers=persistent_workers,
    )
    return [batch for epoch in range(epochs) for batch in loader]


# %% workers
dataset = Who()
by_workers = [
    (indices.tolist(), workers.tolist())
    for indices, workers, _ in two_workers(dataset)
]

for indices, workers in by_workers:
    print(indices, "by worker", workers[0])

print("calls that the main process sees:", dataset.calls)


# %% persistent
def processes(persistent_workers):
    batches = two_workers(Who(), 2, persistent_workers)
    return len(torch.cat([pids for *_, pids in batches]).unique())


new = processes(persistent_workers=False)
kept = processes(persistent_workers=True)

print(new, kept)


# %% stale-workers
class Epoch(Numbers):
    epoch = 0

    def __getitem__(self, index):
        return self.epoch


# %% epochs-seen
def epochs_seen(persistent_workers):
    dataset = Epoch()
    loader = DataLoader(
        dataset,
        batch_size=10,
        num_workers=1,
        multiprocessing_context="fork",
        persistent_workers=persistent_workers,
    )
    for dataset.epoch in range(3):
        [batch] = loader
        yield batch[0].item()


# %% compare-epochs
current = list(epochs_seen(persistent_workers=False))
stale = list(epochs_seen(persistent_workers=True))

print(current, stale)


# %% too-many-workers
cores = os.cpu_count()

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    DataLoader(Numbers(), num_workers=cores + 1)

print([each.category.__name__ for each in caught])


# %% whole-batches
class WholeBatches(Numbers):
    calls = 0

    def __getitems__(self, indices):
        WholeBatches.calls += 1
        return list(indices)


whole = [batch.tolist() for batch in DataLoader(WholeBatches(), batch_size=5)]

print(whole, WholeBatches.calls)


# %% random-numbers
class Random(Numbers):
    def __init__(self):
        self.own = np.random.default_rng(0)

    def __getitem__(self, index):
        return {
            "torch": torch.rand(()).item(),
            "random": random.random(),
            "numpy.random": np.random.random(),
            "own generator": self.own.random(),
        }


# %% two-epochs
torch.manual_seed(0)
samples = two_workers(Random(), epochs=2)  # of 10 samples each
drawn = {
    name: torch.cat([batch[name] for batch in samples]) for name in samples[0]
}
rows = {
    name: {"different among 20": len(numbers.unique())}
    for name, numbers in drawn.items()
}

# %% seeds-table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")


# %% own-seed
class Seeded(Random):
    def __getitem__(self, index):
        if self.own is None:
            self.own = np.random.default_rng(get_worker_info().seed)
        return self.own.random()


seeded = Seeded()
seeded.own = None
numbers = torch.cat(two_workers(seeded, epochs=2))

print(len(numbers.unique()))


# %% failing
class Failing(Numbers):
    def __getitem__(self, index):
        return 10 / (index - 5)


# %% report
import traceback

try:
    two_workers(Failing())
except ZeroDivisionError as error:
    message = str(error)
    traceback.clear_frames(error.__traceback__)  # lets the workers go

print(message.splitlines()[0])
print(message.splitlines()[-1])


# %% local-function
def start(start_method):
    warnings.simplefilter("ignore")  # torch explains at length
    loader = DataLoader(
        range(1),
        num_workers=1,
        collate_fn=lambda samples: samples,
        multiprocessing_context=start_method,
    )
    return next(iter(loader))


# %% compare-starts
print("fork:", start("fork"))

try:
    start("spawn")
except Exception as error:
    print("spawn:", str(error))

# %% program
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import multiprocessing

def work():
    print("a worker at work")

GUARD:
    worker = multiprocessing.get_context("spawn").Process(target=work)
    worker.start()
    worker.join()
"""


# %% run-program
def run(program):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(program)
        return subprocess.run(
            [sys.executable, path], capture_output=True, text=True
        )


# %% guard
guarded = run(PROGRAM.replace("GUARD", 'if __name__ == "__main__"'))
unguarded = run(PROGRAM.replace("GUARD", "if True"))

print(guarded.stdout.strip())
print(unguarded.stderr.partition("RuntimeError:")[2].split("\n\n")[0].strip())

# %% start-method
print(multiprocessing.get_start_method())


# %% marked
class Marked(Dataset):
    def __init__(self):
        self.loaded = torch.zeros(100, dtype=torch.bool).share_memory_()

    def __len__(self):
        return 100

    def __getitem__(self, index):
        self.loaded[index] = True
        return index


# %% wait-for
def wait_for(number, loaded):
    for _ in range(500):  # ten seconds at most
        if loaded.sum() >= number:
            break
        time.sleep(0.02)
    time.sleep(0.05)  # would more come?
    return int(loaded.sum())


# %% loaded-ahead
def loaded_ahead(expected, **options):
    dataset = Marked()
    loader = DataLoader(dataset, multiprocessing_context="fork", **options)
    batches = iter(loader)  # starts the workers
    before = wait_for(expected, dataset.loaded)
    next(batches)
    return before, wait_for(expected + 1, dataset.loaded)


# %% prefetch
by_one = loaded_ahead(3, num_workers=1, prefetch_factor=3)
by_two = loaded_ahead(6, num_workers=2, prefetch_factor=3)
by_default = loaded_ahead(4, num_workers=2)

print(by_one, by_two, by_default)

# %% prefetch-alone
try:
    DataLoader(Numbers(), prefetch_factor=2)
except ValueError as error:
    print(error)
