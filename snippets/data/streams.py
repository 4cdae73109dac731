"""
Write a stream
==============

Lines of logs as samples: shared out to workers, shuffled, and counted.
"""

# %% do-this
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Logs(IterableDataset):
    def __init__(self, paths):
        self.paths = paths

    def __iter__(self):
        for path in share(self.paths):
            with path.open() as lines:
                yield from map(float, lines)


# %% share
def share(files):
    info = get_worker_info()  # None in the main process
    if info is None:
        return files
    return files[info.id :: info.num_workers]


# %% shuffled
class Shuffled(IterableDataset):
    def __init__(self, stream, size):
        self.stream, self.size = stream, size

    def __iter__(self):
        held = []
        for sample in self.stream:
            if len(held) == self.size:
                place = torch.randint(self.size, ())
                yield held[place]
                held[place] = sample
            else:
                held.append(sample)
        for place in torch.randperm(len(held)):
            yield held[place]


# %% files
import atexit
import shutil
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
for number, season in enumerate(["winter", "spring", "autumn", "summer"]):
    degrees = range(6 * number, 6 * number + 6)
    lines = "".join(f"{each}\n" for each in degrees)
    (folder / f"{number}_{season}.log").write_text(lines)

# %% loader
paths = sorted(folder.glob("*.log"))
fork = {"num_workers": 2, "multiprocessing_context": "fork"}
torch.manual_seed(0)

loader = DataLoader(Shuffled(Logs(paths), size=4), batch_size=4, **fork)

# %% read
batches = [batch.tolist() for batch in loader]
print(*batches, sep="\n")


# %% who-reads-what
class Told(IterableDataset):
    def __init__(self, stream):
        self.stream = stream

    def __iter__(self):
        for sample in self.stream:
            yield sample, get_worker_info().id


# %% repeated
# Wrong on purpose: do not copy.
class Unshared(Logs):
    def __iter__(self):
        for path in self.paths:  # all of them, in each worker
            with path.open() as lines:
                yield from map(float, lines)


# %% both-ways
readers = {}
for stream in (Unshared(paths), Logs(paths)):
    pairs = DataLoader(Told(stream), batch_size=None, **fork)
    readers[type(stream).__name__] = sorted(pairs)
    print(type(stream).__name__, "gives", len([*pairs]), "samples")

# %% readers-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 1, figsize=(7, 3), layout="constrained")
for ax, (name, pairs) in zip(axes, readers.items(), strict=True):
    for degrees, worker in pairs:
        color = ("#0072B2", "#D55E00")[worker]
        ax.text(degrees, -worker, f"{degrees:.0f}", color=color, ha="center")
    ax.set(title=f"{name}: what each worker reads", xlim=(-1, 24))
    ax.set(yticks=(0, -1), yticklabels=("worker 0", "worker 1"))
    ax.set(xticks=[], ylim=(-1.5, 1))
plt.show()

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


# %% with-a-length
class Counted(Logs):
    def __len__(self):
        return 24


# %% more-batches
counted = DataLoader(Counted(paths), batch_size=8, **fork)
length, given = len(counted), [len(batch) for batch in counted]
print(length, given)


# %% last-batches
def sizes(workers, batch_size, drop_last):
    start = fork if workers else {}
    loader = DataLoader(Logs(paths), batch_size, drop_last=drop_last, **start)
    return [len(batch) for batch in loader]


# %% dropped
dropped = {}
for batch_size in (8, 16):
    for workers in (0, 2):
        both = [sizes(workers, batch_size, drop) for drop in (False, True)]
        dropped[batch_size, workers] = sum(both[0]) - sum(both[1])
        print(f"batch_size {batch_size}, {workers} workers:", *both)


# %% ranks
def read_by(rank, count):  # what one of several processes reads
    return [*DataLoader(Logs(paths[rank::count]), 4, **fork)]


by_process = [read_by(rank, 3) for rank in range(3)]
for rank, batches in enumerate(by_process):
    print(f"rank {rank}:", [batch.tolist() for batch in batches])

# %% as-many
from itertools import islice

steps = 2  # what each process has at least
as_many = [len([*islice(batches, steps)]) for batches in by_process]
print(as_many)


# %% once
# Wrong on purpose: do not copy.
class Once(IterableDataset):
    def __init__(self, samples):
        self.samples = iter(samples)

    def __iter__(self):
        return self.samples


loader = DataLoader(Once(range(6)), batch_size=3)
twice = [[batch.tolist() for batch in loader] for epoch in range(2)]
print(*twice, sep="\n")


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
    return 24 - len({*DataLoader(stream, batch_size=None, **fork)})


torch.manual_seed(1)
own, same, firsts = OwnOrder(paths), SameOrder(paths), []
for epoch in (1, 2, 3):
    same.epoch.fill_(epoch)
    firsts.append([*same][::6])
    print(f"lost: {lost(own)} or {lost(same)}, order {firsts[-1]}")
