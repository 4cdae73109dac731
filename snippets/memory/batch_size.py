"""
Find the batch size
===================

Search for the largest batch that fits, and retry without harm.
"""

# %% imports
import gc
import math
import weakref

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader, TensorDataset


# %% your-step
def step(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = F.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()


# %% is-full
FULL = "out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED"


def is_full(error):
    known = isinstance(error, torch.OutOfMemoryError)
    return known or any(words in str(error) for words in FULL)


# %% fits
def fits(build, make_batch, size, steps=2):
    gc.collect()  # reference cycles that earlier tries have left
    with torch.random.fork_rng():
        model, optimizer = build()
        model.train()
        try:
            for _ in range(steps):
                step(model, optimizer, *make_batch(size))
        except RuntimeError as error:
            if not is_full(error):
                raise
            return False
    return True


# %% search
def largest_batch(build, make_batch, most, least=2, steps=2):
    if not 1 <= least <= most:
        raise ValueError(f"no sizes from {least} to {most}")
    tries, size = {}, least
    low, high = least - 1, most + 1  # the largest is from low up to high - 1
    while high - low > 1:
        tries[size] = fits(build, make_batch, size, steps)
        low, high = (size, high) if tries[size] else (low, size)
        doubled = min(2 * size, most)
        size = doubled if all(tries.values()) else (low + high) // 2
    return max((n for n in tries if tries[n]), default=0), tries


# %% room
class Room:
    def __init__(self, size):
        super().__init__()
        self.size, self.held, self.curve = size, 0, []
        self.known = weakref.WeakSet()

    def hold(self, more):
        if self.held + more > self.size:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        self.held += more
        self.curve.append(self.held)


# %% small-device
class SmallDevice(Room, TorchDispatchMode):
    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        made = call(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, torch.Tensor):
                storage = each.untyped_storage()
                if storage not in self.known:
                    self.hold(storage.nbytes())
                    self.known.add(storage)
                    weakref.finalize(storage, self.hold, -storage.nbytes())
        return made


# %% forecast
def fresh(kind=torch.optim.AdamW):
    first = nn.Linear(128, 256), nn.BatchNorm1d(256), nn.ReLU()
    second = nn.Dropout(0.1), nn.Linear(256, 256), nn.ReLU()
    model = nn.Sequential(*first, *second, nn.Linear(256, 1))
    return model, kind(model.parameters(), lr=0.001)


def make_batch(size):
    readings = torch.randn(size, 128)  # of 128 stations
    return readings, torch.randn(size, 1)  # the temperatures to forecast


# %% your-search
with SmallDevice(3_000_000) as device:
    best, tries = largest_batch(fresh, make_batch, most=1000)

print(best, "days fit:", tries)

# %% one-step
with device:
    once, _ = largest_batch(fresh, make_batch, 1000, steps=1)
    thrice, _ = largest_batch(fresh, make_batch, 1000, steps=3)

print("one step:", once, "two steps:", best, "three steps:", thrice)


# %% two-tries
def curve(size):
    device.curve.clear()
    with device:
        fits(fresh, make_batch, size)
    return list(device.curve)


curves = {best: curve(best), once: curve(once)}

# %% drawn
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4))
for number, (size, fit) in enumerate(tries.items(), 1):
    color = "#0072B2" if fit else "#D55E00"
    left.plot(number, size, "o" if fit else "x", color=color)
left.axhline(best, color="#0072B2", linestyle=":")
left.set_xticks(range(1, len(tries) + 1, 2))
left.set(title="dot: fits, cross: does not", xlabel="try", ylabel="days")
for size, color in ((best, "#0072B2"), (once, "#D55E00")):
    held = [each / 1e6 for each in curves[size]]
    right.plot(held, color=color, label=f"{size} days")
right.axhline(device.size / 1e6, color="#000000", linestyle="--")
right.set(title="two of its tries", xlabel="events", ylabel="megabytes")
right.legend()
figure.suptitle("The search for the largest batch, and what two tries hold")
figure.tight_layout()
plt.show()


# %% recover
def around(size):
    model, optimizer = fresh()
    held = {"before": device.held}
    try:
        step(model, optimizer, *make_batch(size))
    except torch.OutOfMemoryError:
        held["inside except"] = device.held
    held["after it"] = device.held
    return held


# %% recovered
with SmallDevice(3_000_000) as device:
    print(around(800))


# %% well-known
# Wrong on purpose: do not copy.
def shrink(days, batch_size, trained):
    model, optimizer = fresh()
    loader = DataLoader(days, batch_size)
    for batch in loader:
        try:
            step(model, optimizer, *batch)
            trained.append(len(batch[0]))
        except RuntimeError:
            batch_size -= 1
            loader = DataLoader(days, batch_size)
    return loader


# %% skipped
days = TensorDataset(*make_batch(1000))
trained = []
with SmallDevice(3_000_000):
    loader = shrink(days, 400, trained)

print("trained:", trained, "next loader:", loader.batch_size)

# %% swallowed
# Wrong on purpose: do not copy.
days_of_7 = TensorDataset(torch.randn(100, 7), torch.randn(100, 1))
trained_on_7 = []
try:
    shrink(days_of_7, 3, trained_on_7)
except ValueError as error:
    print(error)

# %% bug
try:
    largest_batch(fresh, lambda size: (torch.randn(size, 7), 0), most=9)
except RuntimeError as error:
    print(error)

# %% one-sample
try:
    largest_batch(fresh, make_batch, most=1000, least=1)
except ValueError as error:
    print(error)

# %% retry-wrong
# Wrong on purpose: do not copy.
inputs, _ = make_batch(360)
with SmallDevice(3_000_000):
    model, _ = fresh()
    for size in (360, 180):
        try:
            for some in inputs.split(size):
                model(some).sum().backward()
        except torch.OutOfMemoryError as error:
            print(error, "Again, in halves:")

print(model[-1].bias.grad)

# %% half-made
# Wrong on purpose: do not copy.
with SmallDevice(1_200_000):
    model, optimizer = fresh()
    batch = make_batch(16)
    try:
        step(model, optimizer, *batch)
    except torch.OutOfMemoryError as error:
        print(error, "Again, with more room:")

try:
    step(model, optimizer, *batch)
except KeyError as error:
    print("KeyError:", error)


# %% gradients
def gradients_fit(model, optimizer, inputs, targets, size):
    optimizer.zero_grad()  # what a failed try has left
    device = next(model.parameters()).device
    parts = math.ceil(len(inputs) / size)
    pairs = inputs.tensor_split(parts), targets.tensor_split(parts)
    try:
        for some, goal in zip(*pairs, strict=True):
            loss = F.mse_loss(model(some.to(device)), goal.to(device))
            (loss * len(some) / len(inputs)).backward()
    except RuntimeError as error:
        if not is_full(error):
            raise
        return False
    return True


# %% epoch
def train_epoch(model, optimizer, loader, size):
    for batch in loader:
        while not gradients_fit(model, optimizer, *batch, size):
            size = min(size, len(batch[0])) // 2
            if size == 0:
                raise MemoryError("not even one sample fits")
        optimizer.step()
    return size


# %% retry-right
with SmallDevice(4_000_000):
    model, optimizer = fresh()
    size = train_epoch(model, optimizer, DataLoader(days, 500), size=500)

print("trained in parts of at most", size)


# %% the-cpu
try:
    torch.empty(2**50)
except RuntimeError as error:
    print(type(error).__name__, error)


# %% speed
def samples_per_second(build, make_batch, size, seconds=1.0):
    with torch.random.fork_rng():
        model, optimizer = build()
        model.train()
        names = {"step": step, "model": model, "optimizer": optimizer}
        names["batch"] = make_batch(size)
        statement = "step(model, optimizer, *batch)"
        threads = torch.get_num_threads()
        timer = Timer(statement, globals=names, num_threads=threads)
        run = timer.blocked_autorange(min_run_time=seconds)
    return size / run.median


# %% on-cuda
if torch.cuda.is_available():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(2**30 / total)
    with torch.device("cuda"):
        cuda_best, _ = largest_batch(fresh, make_batch, 2**21)
    torch.cuda.set_per_process_memory_fraction(1.0)
