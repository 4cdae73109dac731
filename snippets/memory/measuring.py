"""
Measure memory: how much does a training need?
==============================================

Predict, count and compare what a training holds, and find its highest point.
"""

# %% train
import torch
from torch import nn
from torch.nn import functional as F


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


# %% on-cuda
if torch.cuda.is_available():
    torch.cuda.reset_peak_memory_stats()
    train(steps=2, device="cuda")
    print(torch.cuda.max_memory_allocated(), "bytes at most")

# %% history
import itertools
import json
import tempfile
from pathlib import Path

from torch.profiler import ProfilerActivity, profile


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


# %% on-the-cpu
curve = history(lambda: train(steps=2))
print(max(curve), "bytes at most")

# %% by-hand
batch, numbers = 32, 100 * 200 + 200 + 200 * 10 + 10
predicted = {
    "parameters": 4 * numbers,  # 1
    "gradients": 4 * numbers,  # 2
    "AdamW's state": 2 * 4 * numbers + 4 * 4,  # 3, with four counters
    "batch": 4 * batch * (100 + 10),  # 4
    "activations": 4 * batch * (200 + 10),  # 5
    "loss": 4,  # 6
}


# %% count
def bytes_of(tensors):
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


def kinds_of(model, optimizer, stations, towns, loss):
    gradients = [each.grad for each in model.parameters()]
    states = [each.values() for each in optimizer.state.values()]
    return {
        "parameters": list(model.parameters()),
        "gradients": [each for each in gradients if each is not None],
        "AdamW's state": list(itertools.chain(*states)),
        "batch": [stations, towns],
        "activations": [],
        "loss": [loss],
    }


def count(batch):
    saved = []  # what an operation saves for backward
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda each: saved.append(each) or each, lambda each: each):
        kinds = kinds_of(*train(steps=1, batch=batch))
    counted, seen = {}, []
    for kind, tensors in (kinds | {"activations": saved}).items():
        counted[kind] = bytes_of(seen + tensors) - bytes_of(seen)
        seen += tensors
    return counted


counted = count(batch)

# %% ledger
import pandas as pd

pd.DataFrame({"predicted": predicted, "counted": counted})

# %% difference
kept = []
left = history(lambda: kept.append(train(steps=2)))[-1]

print("before:", curve[0])
print("after:", curve[-1])
print("at most:", max(curve))
print("left, if you keep what train returns:", left)

# %% curve-drawn
import matplotlib.pyplot as plt

kilobytes = [held / 1e3 for held in curve]
end, top = len(curve) - 1, max(kilobytes)
plt.figure(figsize=(7, 3))
plt.plot(kilobytes, color="#0072B2")
plt.axhline(sum(counted.values()) / 1e3, color="#009E73", linestyle="--")
plt.text(0, sum(counted.values()) / 1e3 + 8, "all six lines", color="#009E73")
plt.plot([0, end], [0, kilobytes[-1]], "o", color="#D55E00")
plt.text(8, 0, "a reading before, and one after", color="#D55E00")
plt.plot(kilobytes.index(top), top, "^", color="#CC79A7")
plt.text(kilobytes.index(top) + 4, top, "peak", color="#CC79A7")
plt.title("A training of two steps, and two readings that miss its peak")
plt.xlabel("tensors made and freed")
plt.ylabel("kilobytes")
plt.show()

# %% boxes-drawn
import matplotlib.pyplot as plt

lines = [
    "your tensors",
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


def peak(shape, steps):
    return max(history(lambda: shape(steps)))


shapes = {"plateau": plateau, "staircase": staircase, "spike": spike}
for name, shape in shapes.items():
    print(f"{name}: {peak(shape, 8)} in 8 steps, {peak(shape, 16)} in 16")

# %% shapes-drawn
import matplotlib.pyplot as plt

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

# %% always-zero
if not torch.cuda.is_available():
    on_the_cpu = torch.ones(1_000_000)
    gauges = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    print(on_the_cpu.nbytes, "bytes on the CPU, and the gauges show", gauges)

# %% without-cuda
if not torch.cuda.is_available():
    try:
        torch.cuda.memory_summary()
    except KeyError as error:
        no_summary = error
        print("KeyError:", error)

# %% cuda-freed
if torch.cuda.is_available():
    torch.cuda.empty_cache()
    readings, gauges = {}, torch.cuda

    def read(when):
        readings[when] = gauges.memory_allocated(), gauges.memory_reserved()
        print(when, *readings[when])

    read("before")
    large = torch.ones(2**26, device="cuda")  # 256 MiB
    read("held")
    del large
    read("freed")
    torch.cuda.empty_cache()
    read("emptied")

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
    "cloned": squares.detach().clone(),
    "l1_loss": F.l1_loss(outputs, towns),
}
for name, each in losses.items():
    print(name, each.nbytes, "in a storage of", bytes_of([each]))

# %% cuda-blocks
if torch.cuda.is_available():
    start = torch.cuda.memory_allocated()
    one_number = torch.ones(1, device="cuda")
    after_one = torch.cuda.memory_allocated() - start
    just_more = torch.ones(129, device="cuda")  # 516 bytes
    after_both = torch.cuda.memory_allocated() - start
    print(after_one, after_both)

# %% views
views = {
    "year[:, 0]": year[:, 0],
    "year[[0]]": year[[0]],
    "year.T": year.T,
    "year[0] + 1": year[0] + 1,
    "year.flatten()[:1]": year.flatten()[:1],
}
for name, each in views.items():
    print(name, "holds", bytes_of([each]))


# %% kept-per-step
def kept_per_step(step):
    history(step)
    return history(step)[-1]


# %% kept-per-step-checked
model, optimizer, stations, towns, _ = train(steps=1)
log = []


def step(keep):
    optimizer.zero_grad()
    forecast = model(stations)
    loss = F.mse_loss(forecast, towns)
    loss.backward()
    optimizer.step()
    if keep:
        log.append(loss.detach())


healthy = kept_per_step(lambda: step(keep=False))
leaky = kept_per_step(lambda: step(keep=True))
if healthy != 0:
    print(f"This step keeps nothing new, but you found {healthy} bytes.")
elif leaky != 4 * 32 * 10:
    print(f"A loss in a list takes 1280 bytes, but you found {leaky}.")
else:
    print("Right: 0 bytes, and 1280 if the step keeps its loss.")
