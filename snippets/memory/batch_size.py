"""
Find the largest batch size that fits
=====================================

Search for the largest batch, predict it, and retry without harm.
"""

# %% device
import weakref

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class SmallDevice(TorchDispatchMode):
    def __init__(self, size):
        super().__init__()
        self.size, self.held, self.trace = size, 0, []
        self.known = weakref.WeakSet()

    def hold(self, more):
        if self.held + more > self.size:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        self.held += more
        self.trace.append(self.held)

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


# %% search
def largest_batch(most, steps=2):
    low, high = 1, most + 1
    while high - low > 1:
        size = min(2 * low, (low + high) // 2)  # 1
        if fits(size, steps):
            low = size
        else:
            high = size
    return low


# %% fits
import gc


def fits(size, steps):
    gc.collect()
    model, optimizer = build()  # 2
    try:
        for _ in range(steps):  # 3
            train_step(model, optimizer, *make_batch(size))
    except torch.OutOfMemoryError:  # 4
        return False
    return True


# %% parts
def build(kind=torch.optim.AdamW):
    first = nn.Linear(64, 256), nn.ReLU()
    second = nn.Linear(256, 256), nn.ReLU()
    model = nn.Sequential(*first, *second, nn.Linear(256, 10))
    return model, kind(model.parameters(), lr=0.001)


def make_batch(size):
    return torch.rand(size, 64), torch.randint(10, (size,))


def train_step(model, optimizer, images, labels):
    optimizer.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()


# %% your-search
with SmallDevice(3_000_000):  # on a GPU: with torch.device("cuda"):
    best = largest_batch(most=4096)
print(best)


# %% by-hand
def trace(size, steps):
    with SmallDevice(float("inf")) as device:
        fits(size, steps)
    return device.trace


def predict(free, small, large, steps=2):
    found = []
    traces = trace(small, steps), trace(large, steps)
    for less, more in zip(*traces, strict=True):  # 5
        per_sample = (more - less) // (large - small)  # 6
        fixed = less - small * per_sample  # 7
        size = float("inf") if fixed <= free else 0
        if per_sample > 0:
            size = (free - fixed) // per_sample  # 8
        found.append((size, fixed, per_sample))
    return min(found)  # 9


# %% predicted
size, fixed, per_sample = predict(3_000_000, small=10, large=20)
print(f"(3000000 - {fixed}) / {per_sample} = {size}")

# %% one-step
once, _, _ = predict(3_000_000, small=10, large=20, steps=1)
with SmallDevice(3_000_000):
    for steps in (1, 2):
        print(f"{once} images, {steps} steps:", fits(once, steps))

# %% drawn
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(8, 3.4))
for size, color in ((best, "#0072B2"), (once, "#D55E00")):
    held = [each / 1e6 for each in trace(size, steps=2)]
    axis.plot(held, color=color, label=f"{size} images")
axis.axhline(3, color="#000000", linestyle="--")
axis.set(title="Two steps", xlabel="moment", ylabel="megabytes held")
axis.legend()
figure.tight_layout()
plt.show()

# %% digits
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16
digits = TensorDataset(pixels, torch.tensor(data.target))


# %% well-known
# Wrong on purpose: do not copy.
def shrink(data, batch_size):
    model, optimizer = build()
    loader, trained = DataLoader(data, batch_size), 0
    for images, labels in loader:
        try:
            train_step(model, optimizer, images, labels)
            trained += len(images)
        except RuntimeError:
            batch_size //= 2
            loader = DataLoader(data, batch_size)
    return trained


with SmallDevice(3_000_000):
    trained = shrink(digits, 800)
print("trained on", trained, "of", len(digits))

# %% swallowed
# Wrong on purpose: do not copy.
square = TensorDataset(pixels.reshape(-1, 8, 8), digits.tensors[1])
try:
    shrink(square, 100)
except ValueError as error:
    print(error)


# %% recover
def inside_and_after(size):
    model, optimizer = build()
    print("before:", device.held)
    try:
        train_step(model, optimizer, *make_batch(size))
    except torch.OutOfMemoryError:
        inside = device.held
    return inside, device.held


with SmallDevice(3_000_000) as device:
    inside, after = inside_and_after(1000)
print("inside except:", inside, "after it:", after)

# %% retry-wrong
# Wrong on purpose: do not copy.
with SmallDevice(3_000_000):
    model, _ = build()
    images, _ = make_batch(700)
    for size in (700, 350):
        try:
            for part in images.split(size):
                model(part).sum().backward()
        except torch.OutOfMemoryError as error:
            print(error, "Again, in halves:")
print(model[-1].bias.grad)


# %% retry
def gradients_fit(model, optimizer, images, labels, size):
    optimizer.zero_grad()  # what a failed try has left
    pairs = zip(images.split(size), labels.split(size), strict=True)
    try:
        for part, goal in pairs:
            loss = F.cross_entropy(model(part), goal, reduction="sum")
            (loss / len(images)).backward()
    except torch.OutOfMemoryError:
        return False
    return True


def train_epoch(model, optimizer, loader, size):
    for images, labels in loader:
        while not gradients_fit(model, optimizer, images, labels, size):
            size //= 2
        optimizer.step()
    return size


# %% retried
with SmallDevice(3_000_000):
    model, optimizer = build()
    size = train_epoch(model, optimizer, DataLoader(digits, 800), size=800)
print("parts of at most", size)

# %% half-made
# Wrong on purpose: do not copy.
with SmallDevice(1_000_000):
    model, optimizer = build()
    batch = make_batch(16)
    try:
        train_step(model, optimizer, *batch)
    except torch.OutOfMemoryError as error:
        print(error, "Again, with more room:")

try:
    train_step(model, optimizer, *batch)
except KeyError as error:
    print("KeyError:", error)

# %% is-full
FULL = "out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED"


def is_full(error):
    return any(words in str(error) for words in FULL)


# %% on-cuda
if torch.cuda.is_available():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(2**30 / total)
    with torch.device("cuda"):
        cuda_best = largest_batch(most=2**21)
    torch.cuda.set_per_process_memory_fraction(1.0)

# %% twice-the-room
size, fixed, per_sample = predict(6_000_000, small=10, large=20)
print(size)


# %% two-peaks
def from_peaks(free, small, large):
    low, high = max(trace(small, 2)), max(trace(large, 2))
    per_sample = (high - low) // (large - small)
    return (free - (low - small * per_sample)) // per_sample


# %% two-peaks-checked
answer = from_peaks(3_000_000, 300, 400)
if answer == best:
    print("Right: from two peaks,", answer, "images fit.")
elif answer > best:
    print("Too many: what does a step hold besides its batch?")
else:
    print("Too few: does `per_sample` count the fixed bytes again?")
