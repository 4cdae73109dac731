"""
Load data with workers: num_workers
===================================

A DataLoader with workers in seventeen lines, and what follows from them.
"""

# %% digits
import warnings

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    TensorDataset,
    get_worker_info,
    random_split,
)

two = {"num_workers": 2, "multiprocessing_context": "fork"}

torch.manual_seed(0)
data = load_digits()
pixels = torch.tensor(data.images, dtype=torch.float32) / 16
digits = TensorDataset(pixels, torch.tensor(data.target))
train_set, val_set = random_split(digits, [1500, 297])

model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters())

# %% do-this
if __name__ == "__main__":  # a worker may import this file
    options = {"batch_size": 50, "num_workers": 2, "persistent_workers": True}
    options["pin_memory"] = torch.cuda.is_available()
    train_loader = DataLoader(train_set, shuffle=True, **options)
    val_loader = DataLoader(val_set, **options)
    for _ in range(2):  # epochs
        for images, labels in train_loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

# %% by-hand
from torch.utils.data import default_collate

fork = torch.multiprocessing.get_context("fork")


def load(dataset, batches, num_workers):
    seed, done = torch.tensor(0).random_().item(), fork.Event()
    queues = [fork.Queue(1) for _ in range(num_workers)]  # 1
    for worker, queue in enumerate(queues):
        mine = batches[worker::num_workers]  # 2
        inputs = dataset, mine, seed + worker, queue, done
        fork.Process(target=work, args=inputs, daemon=True).start()  # 3
    for number in range(len(batches)):
        yield queues[number % num_workers].get()  # 4
    done.set()


def work(dataset, batches, seed, queue, done):
    torch.set_num_threads(1)  # a fork copies no threads
    torch.manual_seed(seed)  # 5
    for indices in batches:
        samples = [dataset[index] for index in indices]  # 6
        queue.put(default_collate(samples))  # 7
    done.wait()  # until the main process has got them all


# %% compare
class Noisy(Dataset):
    def __getitem__(self, index):
        image, label = digits[index]
        return image + 0.1 * torch.randn(8, 8), label


batches = [each.tolist() for each in torch.randperm(1797).split(50)]
torch.manual_seed(1)
by_hand = list(load(Noisy(), batches, num_workers=2))
torch.manual_seed(1)
loaded = list(DataLoader(Noisy(), batch_sampler=batches, **two))

pairs = [zip(*both, strict=True) for both in zip(by_hand, loaded, strict=True)]
equal = [all(mine.equal(its) for mine, its in pair) for pair in pairs]
print(f"{sum(equal)} of {len(equal)} batches are equal")


# %% record
class Signed(Dataset):
    def __getitem__(self, index):
        return index, get_worker_info().id


def read(batches, **options):
    ordered, given = [], []

    def order():
        for batch in batches:
            ordered.append(batch)
            yield batch

    options["multiprocessing_context"] = "fork"
    loader = DataLoader(Signed(), batch_sampler=order(), **options)
    for indices, workers in loader:
        given.append((indices.tolist(), workers.tolist(), len(ordered)))
    return given


given = read([[n, n + 1] for n in range(0, 16, 2)], num_workers=2)
for indices, workers, count in given:
    print(f"{indices} from worker {workers[0]}; {count} batches were ordered")


# %% waits
class Clock(Dataset):
    free = 0  # when this worker has loaded its last batch

    def __init__(self, loading):
        self.loading = loading

    def __getitem__(self, ordered):
        self.free = max(self.free, ordered) + self.loading
        return self.free


def waits(workers, loading=3, step=1, **options):
    now, waited = 0, []

    def order():
        for _ in range(10):
            yield [now]

    loader = DataLoader(
        Clock(loading),
        batch_sampler=order(),
        num_workers=workers,
        multiprocessing_context="fork",
        **options,
    )
    for ready in loader:
        waited.append(max(0, ready.item() - now))
        now = max(now, ready.item()) + step
    return waited


with warnings.catch_warnings(action="ignore"):  # more workers than cores
    waited = {workers: waits(workers) for workers in (1, 2, 3)}
for workers, steps in waited.items():
    print(f"num_workers={workers}: waits for", *steps, "steps")

# %% noise
import random

import numpy as np


class Noise(Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return 6

    def __getitem__(self, index):
        numbers = {"torch": torch.rand(()).item(), "random": random.random()}
        numbers["np.random"] = np.random.random()
        return {**numbers, "self.rng": self.rng.random()}


# %% drawn
def draw(epochs, **options):
    loader = DataLoader(Noise(), batch_size=3, **{**two, **options})
    return [batch for epoch in range(epochs) for batch in loader]


torch.manual_seed(0)
drawn = draw(2)


# %% seed-worker
def seed_worker(worker_id):
    info = get_worker_info()
    info.dataset.rng = np.random.default_rng(info.seed)


seeded = draw(2, worker_init_fn=seed_worker)

# %% seeds-table
import pandas as pd

rows = {name: [each[name][0].item() for each in drawn] for name in drawn[0]}
rows["self.rng, seeded"] = [each["self.rng"][0].item() for each in seeded]
heads = [f"epoch {epoch}, worker {id}" for epoch in (0, 1) for id in (0, 1)]
pd.DataFrame.from_dict(rows, orient="index", columns=heads).round(3)


# %% copies
class Counted(Dataset):
    reads = 0

    def __len__(self):
        return 12

    def __getitem__(self, index):
        self.reads += 1
        return self.reads


counted = Counted()
for reads in DataLoader(counted, batch_size=6, **two):
    print("a worker counts", reads.tolist())
print("the main process counts", counted.reads)


# %% stale
class Fading(Dataset):
    noise = 0

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return int(self.noise)


seen = {}
for stay in (False, True):
    fading = Fading()
    loader = DataLoader(fading, 2, **two, persistent_workers=stay)
    seen[stay] = []
    for epoch in (1, 2, 3):
        fading.noise = 4 - epoch
        seen[stay] += [batch[0].item() for batch in loader]
    print(f"persistent_workers={stay}: noise of {seen[stay]}")

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


# %% compare-starts
# Wrong on purpose: do not copy.
def load_by(start_method):
    loader = DataLoader(
        [7.0, 9.0],
        num_workers=1,
        collate_fn=lambda samples: samples,
        multiprocessing_context=start_method,
    )
    return list(loader)


print("fork:", load_by("fork"))
try:
    with warnings.catch_warnings(action="ignore"):  # torch explains
        load_by("spawn")
except Exception as error:
    print(f"spawn: {type(error).__name__}: {error}")

# %% four-steps
print(*waits(workers=2, loading=4))

# %% seed-inner
from torch.utils.data import Subset


def seed_inner(worker_id):
    info = get_worker_info()
    dataset = info.dataset
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    dataset.rng = np.random.default_rng(info.seed)


# %% seed-inner-checked
[part] = random_split(Noise(), [6])
loader = DataLoader(part, 3, **two, worker_init_fn=seed_inner)
first, second = [batch["self.rng"].tolist() for batch in loader]
if first == second:
    print("Both workers drew the same. Which object did you give the rng?")
else:
    print("Right: behind the Subset, each worker has its own generator.")
