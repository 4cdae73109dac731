"""
Measure memory
==============

Predict, count and compare what a training holds, and find its highest point.
"""

# %% imports
import itertools
import json
import pickle
import tempfile
from collections import Counter
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile


# %% history
def history(call):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        p.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    changes = [event for event in events if event.get("name") == "[memory]"]
    changes.sort(key=lambda event: event["ts"])
    sizes = [event["args"]["Bytes"] for event in changes]
    return list(itertools.accumulate(sizes, initial=0))


# %% peak
def peak(call):
    if not torch.accelerator.is_available():
        return max(history(call))
    torch.accelerator.reset_peak_memory_stats()
    before = torch.accelerator.memory_allocated()
    call()
    return torch.accelerator.max_memory_allocated() - before


# %% train
def train(steps, batch=32, device="cpu"):
    layers = nn.Linear(100, 200), nn.ReLU(), nn.Linear(200, 10)
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    stations = torch.randn(batch, 100, device=device)
    towns = torch.randn(batch, 10, device=device)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(model(stations), towns)
        loss.backward()
        optimizer.step()
    return model, optimizer, stations, towns, loss


# %% ask
torch.manual_seed(0)
available = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if available else "cpu"
most = peak(lambda: train(steps=2, device=device))
print(most, "bytes at most")


# %% bytes-of
def sizes_of(tensors):
    storages = [tensor.untyped_storage() for tensor in tensors]
    return {each.data_ptr(): each.nbytes() for each in storages}.values()


def bytes_of(tensors):
    return sum(sizes_of(tensors))


# %% kinds
def kinds_of(model, optimizer, stations, towns, loss):
    gradients = [each.grad for each in model.parameters()]
    states = [each.values() for each in optimizer.state.values()]
    return {
        "parameters": list(model.parameters()),
        "gradients": [each for each in gradients if each is not None],
        "optimizer's state": list(itertools.chain(*states)),
        "batch": [stations, towns],
        "loss": [loss],
    }


# %% boxes
kinds = kinds_of(*train(steps=1))
own = bytes_of(itertools.chain(*kinds.values()))
print("your tensors:", own, "bytes")

# %% boxes-drawn
import matplotlib.pyplot as plt

lines = [
    f"your tensors: here {own:,} bytes",
    "memory_allocated: + rounding, workspaces of libraries",
    "memory_reserved: + what is kept for tensors to come",
    "the driver, nvidia-smi: + CUDA's context, other programs",
]
colors = ["#0072B2", "#009E73", "#E69F00", "#CC79A7"]
plt.figure(figsize=(7, 3))
for depth, (line, color) in enumerate(zip(lines, colors, strict=True)):
    width, height = 0.76 + 0.08 * depth, 0.22 + 0.25 * depth
    corner = (0.12 - 0.04 * depth, 0.12 - 0.04 * depth)
    box = plt.Rectangle(corner, width, height, fill=False, ec=color, lw=2)
    plt.gca().add_patch(box)
    top = corner[1] + height - 0.1
    plt.text(0.5, top, line, ha="center", va="center")
plt.axis((-0.02, 1.02, -0.02, 1))
plt.axis("off")
plt.title("What four gauges count (not to scale)")
plt.show()

# %% predict
batch, numbers = 32, 100 * 200 + 200 + 200 * 10 + 10
predicted = {
    "parameters": 4 * numbers,
    "gradients": 4 * numbers,
    "optimizer's state": 2 * 4 * numbers + 4 * 4,  # and four counters
    "batch": 4 * batch * (100 + 10),
    "loss": 4,
    "activations": 4 * batch * (200 + 10),
}

# %% watched
saved = []


def note(tensor):
    saved.append(tensor)
    return tensor


with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
    kinds = kinds_of(*train(steps=1, batch=batch))
kinds["activations"] = saved

# %% count
counted, seen = {}, []
for kind, tensors in kinds.items():
    counted[kind] = bytes_of(seen + tensors) - bytes_of(seen)
    seen += tensors

# %% ledger
import pandas as pd

pd.DataFrame({"predicted": predicted, "counted": counted})

# %% curve
curve = history(lambda: train(steps=2))

print("before:", curve[0], "after:", curve[-1])
print("at most:", max(curve), "in the ledger:", sum(counted.values()))

# %% curve-drawn
import matplotlib.pyplot as plt

kilobytes = [held / 1e3 for held in curve]
end, top = len(curve) - 1, max(kilobytes)
plt.figure(figsize=(7, 3))
plt.plot(kilobytes, color="#0072B2")
plt.axhline(sum(counted.values()) / 1e3, color="#009E73", linestyle="--")
plt.text(0, sum(counted.values()) / 1e3 + 8, "ledger", color="#009E73")
plt.plot([0, end], [0, kilobytes[-1]], "o", color="#D55E00")
plt.text(8, 0, "a reading before, and one after", color="#D55E00")
plt.plot(kilobytes.index(top), top, "^", color="#CC79A7")
plt.text(kilobytes.index(top) + 4, top, "peak", color="#CC79A7")
plt.title("A training of two steps, and two readings that miss it")
plt.xlabel("tensors made and freed")
plt.ylabel("kilobytes")
plt.show()

# %% snapshot
if torch.cuda.is_available():
    torch.cuda.memory._record_memory_history(stacks="python")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "snapshot.pickle")  # yours: a file to keep
        try:
            train(steps=2, device="cuda")
        finally:
            torch.cuda.memory._dump_snapshot(str(path))
            torch.cuda.memory._record_memory_history(enabled=None)
        snapshot = pickle.loads(path.read_bytes())

# %% shapes
model, _, stations, towns, _ = train(steps=1)


def plateau(steps):
    for _ in range(steps):
        F.mse_loss(model(stations), towns).backward()


def staircase(steps):
    losses = []
    for _ in range(steps):
        losses.append(F.mse_loss(model(stations), towns))


def spike(steps):
    for number in range(steps):
        days = 5 if number == steps // 2 else 1
        some, goal = stations.repeat(days, 1), towns.repeat(days, 1)
        F.mse_loss(model(some), goal).backward()


# %% shapes-drawn
import matplotlib.pyplot as plt

shapes = {"plateau": plateau, "staircase": staircase, "spike": spike}
figure, axes = plt.subplots(1, 3, figsize=(7, 2.6), sharey=True)
for axis, (name, shape) in zip(axes, shapes.items(), strict=True):
    held = history(lambda shape=shape: shape(steps=8))
    axis.plot([each / 1e3 for each in held], color="#0072B2")
    axis.set_title(name)
    axis.set_xlabel("tensors made and freed")
axes[0].set_ylabel("kilobytes")
figure.suptitle("Eight steps, and three shapes")
figure.tight_layout()
plt.show()

# %% snapshot-read
if torch.cuda.is_available():
    file, taken = train.__code__.co_filename, Counter()
    for event in snapshot["device_traces"][torch.cuda.current_device()]:
        frames = event.get("frames", [])
        lines = [each["line"] for each in frames if each["filename"] == file]
        if event["action"] == "alloc" and lines:
            taken[lines[0]] += event["size"]
    for line, size in taken.most_common(3):
        print(size, "bytes asked for in line", line)

# %% gauges
cuda = torch.cuda
gauges = [cuda.memory_allocated, cuda.memory_reserved, cuda.memory_summary]
gauges += [cuda.reset_peak_memory_stats, cuda.memory._snapshot]
gauges += [torch.accelerator.memory_allocated]

# %% without-cuda
on_the_cpu = torch.ones(1_000_000)
answers = {}
for gauge in [] if torch.cuda.is_available() else gauges:
    name = f"{gauge.__module__}.{gauge.__name__}"
    try:
        answers[name] = gauge()
        print(name, answers[name])
    except Exception as error:
        answers[name] = error
        print(name, f"{type(error).__name__}: {error}")

# %% storages
year = torch.zeros(365, 100)  # of 100 stations
today = year[0]
mean = torch.zeros(1, 100)
means = mean.expand(365, 100)

for name, each in {"year": year, "today": today, "means": means}.items():
    print(name, each.nbytes, "in a storage of", bytes_of([each]))

# %% losses
outputs = torch.randn(32, 10, requires_grad=True)
towns = torch.randn(32, 10)
squares = F.mse_loss(outputs, towns)
losses = {
    "mse_loss": squares,
    "detached": squares.detach(),
    "cloned": squares.clone(),
    "l1_loss": F.l1_loss(outputs, towns),
}
for name, each in losses.items():
    print(name, each.nbytes, "in a storage of", bytes_of([each]))


# %% read
def read():
    free, total = torch.cuda.mem_get_info()
    driver = total - free
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), driver


# %% cuda-freed
if torch.cuda.is_available():
    torch.cuda.empty_cache()
    readings = {"before": read()}
    large = torch.ones(2**26, device="cuda")  # 256 MiB
    readings["held"] = read()
    del large
    readings["freed"] = read()
    torch.cuda.empty_cache()
    readings["emptied"] = read()
    for name, (allocated, reserved, driver) in readings.items():
        print(name, allocated, reserved, driver)

# %% cuda-peak
if torch.cuda.is_available():
    train(steps=2, batch=3200, device="cuda")
    earlier = torch.cuda.max_memory_allocated()
    train(steps=2, device="cuda")
    stale = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    train(steps=2, device="cuda")
    print(earlier, stale, torch.cuda.max_memory_allocated())

# %% cuda-blocks
if torch.cuda.is_available():
    start = torch.cuda.memory_allocated()
    one_number = torch.ones(1, device="cuda")
    after_one = torch.cuda.memory_allocated() - start
    just_more = torch.ones(129, device="cuda")  # 516 bytes
    after_both = torch.cuda.memory_allocated() - start
    print(after_one, after_both)

# %% cuda-ledger
if torch.cuda.is_available():
    train(steps=2, device="cuda")  # sets up what the libraries need
    base = torch.cuda.memory_allocated()
    kept = train(steps=2, device="cuda")
    cuda_counted = torch.cuda.memory_allocated() - base
    every = itertools.chain(*kinds_of(*kept).values())
    there = [each for each in every if each.is_cuda]
    rounded = [-(-size // 512) * 512 for size in sizes_of(there)]
    print(sum(rounded), cuda_counted)
