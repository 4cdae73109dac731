"""
CUDA out of memory: make the training fit
=========================================

Find out why memory ends, and make a training step fit into less of it.
"""

# %% blocks
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        inside = nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1)
        self.layers = nn.Sequential(*inside)

    def forward(self, x):
        return x + self.layers(x)


class Blocks(nn.Module):
    def __init__(self, blocks=8, width=128, recompute=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, 1)
        self.recompute = recompute


# %% recompute
class Forecast(Blocks):
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
    kind, lower = inputs.device.type, dtype != torch.float32
    pairs = zip(inputs.chunk(parts), targets.chunk(parts), strict=True)
    for some, goal in pairs:
        with torch.autocast(kind, dtype, enabled=lower):
            loss = F.mse_loss(model(some), goal)
        (loss * len(some) / len(inputs)).backward()
    optimizer.step()


# %% count
import gc
import itertools
import json
import tempfile
from pathlib import Path

from torch.profiler import ProfilerActivity, profile

torch.manual_seed(0)
readings = torch.randn(512, 128)  # of 512 days, by 128 stations
temperatures = torch.randn(512, 1)  # of the days after


def fresh(kind=torch.optim.AdamW, **options):
    torch.manual_seed(0)
    model = Forecast(**options)
    return model, kind(model.parameters(), lr=0.001), readings, temperatures


def history(call):
    gc.collect()  # so that nothing older ends within the call
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
}
peaks["the same in bfloat16"] = peak(
    parts=4, recompute=True, dtype=torch.bfloat16
)

# %% remedies-tabulated
import pandas as pd

pd.DataFrame.from_dict(
    {
        name: {"bytes": size, "share": round(size / peaks["as it is"], 2)}
        for name, size in peaks.items()
    },
    orient="index",
)


# %% by-hand
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x):
        ctx.block, ctx.random = block, torch.get_rng_state()  # 1
        ctx.save_for_backward(x)  # 2
        return block(x)  # 3

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()  # 4
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.random)  # 5
            y = ctx.block(x)  # 6
        y.backward(gradient)  # 7
        return None, x.grad


# %% compare
def one_pass(way):
    model, _, inputs, targets = fresh()
    x = inputs.clone().requires_grad_()
    for block in model.blocks:
        x = way(block, x)
    loss = F.mse_loss(model.head(x), targets)
    loss.backward()
    return [loss.detach(), *(each.grad for each in model.parameters())]


def apart(one, other):
    pairs = zip(one, other, strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


kept = one_pass(lambda block, x: block(x))
ours = one_pass(Checkpoint.apply)
real = one_pass(lambda block, x: checkpoint(block, x, use_reentrant=False))
print("our checkpoint and PyTorch's:", apart(ours, real), "apart")
print("our checkpoint and no checkpoint:", apart(ours, kept), "apart")


# %% kept
def forward(model):
    answers = []
    torch.manual_seed(1)
    curve = history(lambda: answers.append(model(readings)))
    return answers[0], curve[-1][1]


for recompute in (False, True):
    models = [fresh(blocks=n, recompute=recompute)[0] for n in (8, 16)]
    eight, sixteen = (forward(model)[1] for model in models)
    print(f"recompute={recompute}: {(sixteen - eight) // 8} bytes per block")


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
import warnings

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

# %% calls
model, optimizer, inputs, targets = fresh(recompute=True)
calls = []
model.blocks[0].register_forward_pre_hook(lambda *_: calls.append("a call"))
step(model, optimizer, inputs, targets, parts=4)
print(len(calls), "times")


# %% pairs
class Pairs(Blocks):
    def forward(self, x):
        for first in range(0, len(self.blocks), 2):
            pair = nn.Sequential(*self.blocks[first : first + 2])
            x = checkpoint(pair, x, use_reentrant=False)
        return self.head(x)


# %% pairs-checked
built = []
for kind in (Forecast, Pairs):
    torch.manual_seed(0)
    built.append(kind(blocks=16, recompute=True))
(single, more), (paired, less) = (forward(model) for model in built)
if not paired.equal(single):
    print("Your model gives other outputs than Forecast.")
elif less > 0.6 * more:
    print(f"After the forward pass, {less} bytes stay; Forecast keeps {more}.")
else:
    print(f"Right: the same outputs, and {less} bytes in place of {more}.")
