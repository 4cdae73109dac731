"""
A fast training loop, beside the plain one
==========================================

Join four tips into one loop: asynchronous transfer, mixed precision, reset
gradients and accumulation. Check that it learns what the plain loop learns,
and time both on your machine.

The rule: **first the same result, then the time**. *PyTorch tips and tricks*
shows such a loop; it divides no loss, makes its scaler anew, and does not run.

It needs ``torch``, ``matplotlib``.
"""

# %% setup
#
# A regression that a small network can learn. The program uses a CUDA device
# if there is one.

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader, TensorDataset

has_cuda = torch.cuda.is_available()
device = "cuda" if has_cuda else "cpu"
HALF = torch.float16 if has_cuda else torch.bfloat16
GROUP = 4  # parts of a batch

torch.manual_seed(0)
inputs = torch.randn(2000, 16)
targets = inputs[:, :4].prod(dim=1, keepdim=True).tanh() + inputs[:, :1]
data = TensorDataset(inputs, targets)


def new_model():
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()
    )
    return model.append(nn.Linear(128, 1)).to(device)


# %% plain
#
# The plain loop
# --------------


def plain_epoch(model, optimizer):
    """Train on batches of 64."""
    order = torch.Generator().manual_seed(2)
    loader = DataLoader(data, batch_size=64, shuffle=True, generator=order)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


# %% fast
#
# The fast loop
# -------------
#
# Batches of 64 in four parts. Each part is weighted by its share of the batch,
# also in the last batch, which is short. The scaler is made once, outside.


def fast_epoch(model, optimizer, scaler):
    """Train on batches of 64, each in parts of 16, in mixed precision."""
    order = torch.Generator().manual_seed(2)
    loader = DataLoader(
        data,
        batch_size=64,
        shuffle=True,
        generator=order,
        pin_memory=has_cuda,
    )
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        optimizer.zero_grad()
        for part, goal in zip(x.chunk(GROUP), y.chunk(GROUP), strict=True):
            with torch.autocast(device, dtype=HALF):
                loss = F.mse_loss(model(part), goal)
            scaler.scale(loss * len(part) / len(x)).backward()
        scaler.step(optimizer)
        scaler.update()


# %% train
#
# The same result?
# ----------------
#
# .. _both-loops-learn-the-same:
#
# After eight epochs, the error of the fast loop is within ten percent of that
# of the plain loop, and both are below a tenth of the error at the start.


def error(model):
    with torch.inference_mode():
        return F.mse_loss(model(inputs.to(device)), targets.to(device)).item()


def train(kind, epochs=8):
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.004)
    scaler = torch.amp.GradScaler(device, enabled=has_cuda)
    errors = [error(model)]
    for _ in range(epochs):
        if kind == "plain":
            plain_epoch(model, optimizer)
        else:
            fast_epoch(model, optimizer, scaler)
        errors.append(error(model))
    return errors


errors = {kind: train(kind) for kind in ("plain", "fast")}

print({kind: each[-1] < each[0] / 10 for kind, each in errors.items()})


# %% gradient
#
# .. _in-full-precision-the-parts-give-the-same-gradient:
#
# Without mixed precision, the parts give the gradient of the batch, up to
# rounding.
#
# .. _mixed-precision-changes-the-gradient-a-little:
#
# With it, the gradient is less than five percent off, and not equal.


def gradient(parts, mixed):
    model = new_model()
    x, y = inputs[:50].to(device), targets[:50].to(device)
    for part, goal in zip(x.chunk(parts), y.chunk(parts), strict=True):
        with torch.autocast(device, dtype=HALF, enabled=mixed):
            loss = F.mse_loss(model(part), goal)
        (loss * len(part) / len(x)).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


whole = gradient(1, mixed=False)
in_parts = gradient(GROUP, mixed=False)
in_mixed_parts = gradient(GROUP, mixed=True)
off = ((in_mixed_parts - whole).norm() / whole.norm()).item()

print(torch.allclose(in_parts, whole, atol=1e-5), 0 < off < 0.05)

# %% picture

import matplotlib.pyplot as plt

styles = {"plain": ("-", "#0072B2"), "fast": ("--", "#D55E00")}
figure, axis = plt.subplots(figsize=(7, 4))
for kind, (style, color) in styles.items():
    axis.plot(errors[kind], linestyle=style, color=color, label=kind)
axis.set_yscale("log")
axis.set_xlabel("epoch")
axis.set_ylabel("mean squared error")
axis.set_title("What both loops learn")
axis.legend()
plt.show()

# %% time
#
# What it buys
# ------------
#
# What the tips are worth depends on the device and on the sizes. The program
# times an epoch of both loops on yours.


def timed(epoch, *more):
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.004)
    timer = Timer(
        "epoch(model, optimizer, *more)",
        globals={
            "epoch": epoch,
            "model": model,
            "optimizer": optimizer,
            "more": more,
        },
        num_threads=torch.get_num_threads(),
    )
    return timer.blocked_autorange(min_run_time=0.2).times


scaler = torch.amp.GradScaler(device, enabled=has_cuda)
times = {"plain": timed(plain_epoch), "fast": timed(fast_epoch, scaler)}

# %% time-picture

import matplotlib.pyplot as plt

figure, axis = plt.subplots(num="timings")
milliseconds = [[1000 * each for each in times[kind]] for kind in times]
axis.boxplot(milliseconds, tick_labels=list(times))
axis.set_ylim(bottom=0)
axis.set_ylabel("time of an epoch, ms")
axis.set_title(f"How long both loops take on {device}")
plt.show()
