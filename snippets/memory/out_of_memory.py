"""
Out of memory
=============

Read the error, and make a training step fit into less memory.
"""

# %% imports
import itertools
import json
import re
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint


# %% block
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        inside = nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1)
        self.layers = nn.Sequential(*inside)

    def forward(self, x):
        return x + self.layers(x)


# %% recompute
class Forecast(nn.Module):
    def __init__(self, blocks=8, width=128, recompute=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, 1)
        self.recompute = recompute

    def forward(self, x):
        for block in self.blocks:
            if self.recompute:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(x)


# %% step
def step(model, optimizer, inputs, targets, parts=1, dtype=torch.float32):
    optimizer.zero_grad()
    kind, halves = inputs.device.type, dtype != torch.float32
    pairs = zip(inputs.chunk(parts), targets.chunk(parts), strict=True)
    for some, goal in pairs:
        with torch.autocast(kind, dtype, enabled=halves):
            loss = F.mse_loss(model(some), goal)
        (loss * len(some) / len(inputs)).backward()
    optimizer.step()


# %% history
def history(call):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        p.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    events.sort(key=lambda event: event.get("ts", 0))
    names = [event.get("name", "") for event in events]
    sizes = [event.get("args", {}).get("Bytes", 0) for event in events]
    return list(zip(names, itertools.accumulate(sizes), strict=True))


# %% days
torch.manual_seed(0)
readings = torch.randn(512, 128)  # of 512 days, by 128 stations
temperatures = torch.randn(512, 1)  # of the days after


def fresh(kind=torch.optim.AdamW, **options):
    torch.manual_seed(0)
    model = Forecast(**options)
    return model, kind(model.parameters(), lr=0.001), readings, temperatures


# %% two-steps
def two_steps(parts=1, dtype=torch.float32, **options):
    day = fresh(**options)
    return history(lambda: [step(*day, parts, dtype) for _ in range(2)])


def peak(**options):
    return max(held for _, held in two_steps(**options))


# %% hill
curves = {"as it is": two_steps(), "recomputed": two_steps(recompute=True)}

for name, curve in curves.items():
    print(name, max(held for _, held in curve), "bytes at most")

# %% hill-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(7, 3), sharey=True)
for axis, (name, curve) in zip(axes, curves.items(), strict=True):
    axis.plot([held / 1e6 for _, held in curve], color="#0072B2")
    seen = [event for event, _ in curve]
    back = [event.startswith("autograd::engine") for event in seen]
    axis.axvline(back.index(True), color="#D55E00", linestyle="--")
    axis.set_title(name)
    axis.set_xlabel("events of two steps")
axes[0].set_ylabel("megabytes above the parameters")
axes[0].text(back.index(True), 0, " first backward", color="#D55E00")
figure.suptitle("What two steps hold")
figure.tight_layout()
plt.show()

# %% remedies
peaks = {
    "as it is": peak(),
    "4 parts": peak(parts=4),
    "bfloat16": peak(dtype=torch.bfloat16),
    "recomputed": peak(recompute=True),
    "SGD": peak(kind=torch.optim.SGD),
    "4 parts, recomputed": peak(parts=4, recompute=True),
    "all three": peak(parts=4, recompute=True, dtype=torch.bfloat16),
}

# %% remedies-tabulated
import pandas as pd

pd.DataFrame.from_dict(
    {
        name: {"bytes": size, "share": round(size / peaks["as it is"], 2)}
        for name, size in peaks.items()
    },
    orient="index",
)


# %% gigabytes
UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SIZE = r"([\d.]+) (bytes|KiB|MiB|GiB)"
PARTS = {
    "asked": f"Tried to allocate {SIZE}",
    "device": f"total capaci?ty of {SIZE}",
    "free": f"of which {SIZE} is free",
    "tensors": f"{SIZE} is allocated by PyTorch",
    "unused": f"{SIZE} is reserved by PyTorch but unallocated",
}


# %% read
def gigabytes(text):
    sizes, text = {}, " ".join(text.split())
    for name, part in PARTS.items():
        if (found := re.search(part, text)) is None:
            raise ValueError(f"the text does not say what is {name}")
        sizes[name] = float(found[1]) * UNITS[found[2]] / 2**30
    return sizes


# %% judge
def judge(text):
    asked, device, free, tensors, unused = gigabytes(text).values()
    other, needed = device - free - tensors - unused, max(asked, device / 50)
    if asked > device / 2:
        return "one huge tensor: print the shapes"
    if other > device / 4:
        return f"something else holds {other:.1f} GiB: see nvidia-smi"
    if free > needed >= unused:
        return "enough is free: look for a limit, and try again alone"
    if free + unused > needed:
        return "fragmented: try expandable segments"
    return "your tensors fill the device: take a remedy"


# %% example
error_text = """CUDA out of memory. Tried to allocate 256.00 MiB.
GPU 0 has a total capacity of 8.00 GiB of which 91.00 MiB is free.
Of the allocated memory 7.21 GiB is allocated by PyTorch, and
113.25 MiB is reserved by PyTorch but unallocated."""

print(gigabytes(error_text))
print(judge(error_text))

# %% on-cuda
if torch.cuda.is_available():
    try:
        torch.empty(2**50, device="cuda")
    except torch.OutOfMemoryError as error:
        cuda_text = str(error)
        print(cuda_text)


# %% no-graph
def forward_peak(blocks, stop):
    model = fresh(blocks=blocks)[0].eval()
    with stop():
        return max(held for _, held in history(lambda: model(readings)))


forward_peaks = {
    stop.__name__: [forward_peak(blocks, stop) for blocks in (4, 8, 16)]
    for stop in (torch.enable_grad, torch.no_grad)
}
print(forward_peaks)

# %% reentrant
# Wrong on purpose: do not copy.
model = fresh()[0]
x = readings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for block in model.blocks:
        x = checkpoint(block, x, use_reentrant=True)
F.mse_loss(model.head(x), temperatures).backward()

print("UserWarning:", *{str(each.message) for each in caught})
print(model.blocks[7].layers[0].weight.grad, model.head.weight.grad.norm())


# %% batch-norm
norm = nn.BatchNorm1d(128)
checkpoint(norm, readings, use_reentrant=False).mean().backward()
print("batches counted:", norm.num_batches_tracked.item())


# %% failing
class Full:
    """A device that is full during its first backward."""

    def __init__(self):
        self.calls = 0

    def __call__(self, *_):
        self.calls += 1
        if self.calls == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")


# %% one-pass
def one_pass(model, inputs, targets):
    torch.manual_seed(1)
    F.mse_loss(model(inputs), targets).backward()


def slopes(model):
    return [block.layers[0].weight.grad.norm() for block in model.blocks]


# %% retry-wrong
# Wrong on purpose: do not copy.
model, _, inputs, targets = fresh()
model.blocks[3].register_full_backward_hook(Full())
for _ in range(2):
    try:
        one_pass(model, inputs, targets)
    except torch.OutOfMemoryError as error:
        print(error, "Again:")
retried = slopes(model)

# %% compared
model.zero_grad()
one_pass(model, inputs, targets)
rights = slopes(model)

for place in (0, 1, 2, 4, 5, 6, 7):
    print(f"block {place}: {retried[place] / rights[place]:.1f} times")

# %% retry-right
model, optimizer, inputs, targets = fresh(torch.optim.SGD)
model.blocks[3].register_full_backward_hook(Full())
for parts in (1, 2):
    failed = False
    try:
        step(model, optimizer, inputs, targets, parts)
    except torch.OutOfMemoryError:
        failed = True
    if not failed:
        print("done in", parts, "parts")
        break
