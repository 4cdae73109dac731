"""
IterableDataset: read a stream
==============================

Lines of logs as samples: shared out to workers, shuffled, and counted.
"""

# %% files
import atexit
import shutil
import tempfile
from itertools import islice
from pathlib import Path

import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    default_collate,
    get_worker_info,
)

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
for number, season in enumerate(["winter", "spring", "autumn", "summer"]):
    degrees = range(6 * number, 6 * number + 6)
    lines = "".join(f"{each}\n" for each in degrees)
    (folder / f"{number}_{season}.log").write_text(lines)
paths = sorted(folder.glob("*.log"))


# %% do-this
class Logs(IterableDataset):
    def __init__(self, paths):
        self.paths = paths

    def __iter__(self):
        worker = get_worker_info()  # None in the main process
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for path in self.paths[first::step]:
            with path.open() as lines:
                yield from map(float, lines)


# %% read
two = {"num_workers": 2, "multiprocessing_context": "fork"}
loader = DataLoader(Logs(paths), batch_size=4, **two)
batches = [batch.tolist() for batch in loader]
print(*batches, sep="\n")


# %% by-hand
def load(streams, batch_size, drop_last=False):
    workers = [iter(stream) for stream in streams]  # 1
    while workers:
        for worker in [*workers]:  # 2
            batch = [*islice(worker, batch_size)]  # 3
            if len(batch) < (batch_size if drop_last else 1):  # 4
                workers.remove(worker)
            else:
                yield default_collate(batch)


# %% compare
shares = Logs(paths[0::2]), Logs(paths[1::2])
ours = [batch.tolist() for batch in load(shares, batch_size=4)]
print("the batches of the loader:", ours == batches)


# %% repeated
# Wrong on purpose: do not copy.
class Unshared(Logs):
    def __iter__(self):
        for path in self.paths:  # all of them, in each worker
            with path.open() as lines:
                yield from map(float, lines)


repeated = [*DataLoader(Unshared(paths), batch_size=8, **two)]
for batch in repeated:
    print(batch.tolist())


# %% shuffled
class Shuffled(IterableDataset):
    def __init__(self, stream, size):
        self.stream, self.size = stream, size

    def __iter__(self):
        held = []
        for sample in self.stream:
            if len(held) < self.size:
                held.append(sample)
            else:
                place = torch.randint(self.size, ())
                yield held[place]
                held[place] = sample
        for place in torch.randperm(len(held)):
            yield held[place]


# %% shuffled-read
torch.manual_seed(0)
loader = DataLoader(Shuffled(Logs(paths), size=4), batch_size=4, **two)
mixed = [batch.tolist() for batch in loader]
print(*mixed, sep="\n")

# %% buffers
torch.manual_seed(0)
outputs = {size: [*Shuffled(range(400), size)] for size in (1, 50, 400)}

# %% buffers-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(7, 2.6), layout="constrained")
for ax, (size, places) in zip(axes, outputs.items(), strict=True):
    ax.plot(places, ".", color="#0072B2", markersize=3)
    ax.set(title=f"size {size}", xlabel="place in the output")
axes[0].set_ylabel("place in the stream")
figure.suptitle("What a buffer does to the order of 400 samples")
plt.show()

# %% refused
# Wrong on purpose: do not copy.
errors = []
for attempt in (
    lambda: DataLoader(Logs(paths), shuffle=True),
    lambda: len(DataLoader(Logs(paths))),
):
    try:
        attempt()
    except (ValueError, TypeError) as error:
        errors.append(error)
        print(f"{type(error).__name__}: {error}")


# %% counted
class Counted(Logs):
    def __len__(self):
        return 24


counted = DataLoader(Counted(paths), batch_size=8, **two)
length, given = len(counted), [len(batch) for batch in counted]
print("len:", length, "batches of", given)

# %% dropped
dropped = {}
for batch_size in (8, 16):
    for name, workers in {"no workers": {}, "two workers": two}.items():
        options = {"batch_size": batch_size, "drop_last": True, **workers}
        loader = DataLoader(Logs(paths), **options)
        dropped[batch_size, name] = [len(batch) for batch in loader]
        print(f"batch_size {batch_size}, {name}:", dropped[batch_size, name])


# %% ranks
def read_by(rank, count):  # what one of several processes reads
    return [*DataLoader(Logs(paths[rank::count]), batch_size=4, **two)]


by_process = [read_by(rank, 3) for rank in range(3)]
for rank, batches in enumerate(by_process):
    print(f"rank {rank}:", [batch.tolist() for batch in batches])

# %% as-many
steps = 2  # what each process has at least
as_many = [len([*islice(batches, steps)]) for batches in by_process]
print(as_many)


# %% once
# Wrong on purpose: do not copy.
class Once(IterableDataset):
    def __init__(self, samples):
        self.samples = iter(samples)

    def __iter__(self):
        return iter(self.samples)


loader = DataLoader(Once([20, 21, 22, 23]), batch_size=2)
for epoch in range(2):
    print("epoch", epoch, [batch.tolist() for batch in loader])


# %% own-order
# Wrong on purpose: do not copy.
class OwnOrder(Logs):
    def __iter__(self):  # each worker draws for itself
        order = torch.randperm(len(self.paths))
        return iter(Logs([self.paths[place] for place in order]))


# %% same-order
class SameOrder(Logs):
    def __init__(self, paths):
        super().__init__(paths)
        self.epoch = torch.tensor(0).share_memory_()

    def __iter__(self):
        seed = torch.Generator().manual_seed(self.epoch.item())
        order = torch.randperm(len(self.paths), generator=seed)
        return iter(Logs([self.paths[place] for place in order]))


# %% orders
def lost(stream):
    return 24 - len({*DataLoader(stream, batch_size=None, **two)})


torch.manual_seed(1)
own, same = OwnOrder(paths), SameOrder(paths)
for epoch in (1, 2, 3):
    same.epoch.fill_(epoch)
    print(f"OwnOrder loses {lost(own)} lines, SameOrder {lost(same)}")

# %% three-workers
streams = [Logs(paths[worker::3]) for worker in range(3)]
for batch in load(streams, batch_size=4, drop_last=True):
    print(batch.tolist())


# %% lines
class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        with self.path.open() as lines:
            yield from map(float, islice(lines, first, None, step))


# %% lines-checked
for workers in (0, 1, 2):
    start = {**two, "num_workers": workers} if workers else {}
    found = sorted(DataLoader(Lines(paths[3]), batch_size=None, **start))
    again = len([*DataLoader(Lines(paths[3]), batch_size=None, **start)])
    if found != [18, 19, 20, 21, 22, 23]:
        print(f"With {workers} workers, these lines came: {found}")
        break
    if again != 6:
        print(f"In the second epoch, {again} lines came.")
        break
else:
    print("Right: each of the six lines comes once, whoever reads it.")
