"""
A fast training loop, beside the plain one
==========================================

Add three tips to a plain training loop, one alone and all together: transfer
that does not wait, mixed precision, and batches in parts. Check that each loop
learns what the plain one learns, then see which tip helps on your machine.

The rule: **first the same result, then the time, one tip at a time**.

Write a file with a function ``build()`` like that below, and give it to the
script::

    python fast_training_loop.py --model my_model.py --batch 512 --epochs 3

It needs ``torch``, ``matplotlib``, ``tqdm``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.

MODEL = None  # a file with a function build()
EPOCHS = 6  # of the comparison
BATCH = 64  # samples of a step
PARTS = 2  # of a batch
RATE = 0.01  # the learning rate
ROUNDS = 4  # epochs to time

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.
#
# .. _a-number-out-of-bounds-is-refused:
#
# A number that is out of bounds ends the script, with a line that says what is
# possible.

import argparse

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="Compare training loops with one tip each.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--model", metavar="FILE", default=MODEL, help="it has a build()")
    add("--epochs", type=int, default=EPOCHS, help="of the comparison")
    add("--batch", type=int, default=BATCH, help="samples of a step")
    add("--parts", type=int, default=PARTS, help="of a batch")
    add("--rate", type=float, default=RATE, help="the learning rate")
    add("--rounds", type=int, default=ROUNDS, help="epochs to time")
    options = parser.parse_args()
    numbers = options.epochs, options.batch, options.parts
    if min(*numbers, options.rounds // 3) < 1:
        words = "--epochs, --batch and --parts are at least 1"
        parser.error(f"{words}, and --rounds is at least 3")
    if not 0 < options.rate < float("inf"):
        parser.error("--rate is above 0")
    MODEL, EPOCHS, BATCH = options.model, options.epochs, options.batch
    PARTS, RATE, ROUNDS = options.parts, options.rate, options.rounds

# %% setup
#
# The program uses an accelerator if there is one, and the CPU otherwise.
#
# .. _the-dtype-suits-the-device:
#
# Mixed precision takes ``bfloat16``, but ``float16`` on MPS and on a CUDA GPU
# that does not support ``bfloat16`` itself.

import copy
import runpy
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)
half = torch.bfloat16
if device.type == "mps" or (
    device.type == "cuda"
    and not torch.cuda.is_bf16_supported(including_emulation=False)
):
    half = torch.float16
if not MODEL:
    torch.set_num_threads(1)  # the model below is small

# %% build
#
# .. _a-model-of-yours-is-trained:
#
# With ``--model``, the program trains and times the model, lazy or not, that
# ``build()`` of this file returns, with its dataset and its loss.
#
# Let the dataset hold pairs of an input and a target, and the loss be the mean
# over the samples.
#
# .. _a-file-that-fails-is-named:
#
# One line names a file that is missing, fails, has no ``build()``, or gives
# inputs or targets that are not tensors.


def build():
    """Return a model, a dataset, and a loss function."""
    inputs = torch.randn(690, 16)
    targets = inputs[:, :1] + inputs[:, 1:2].abs()
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64))
    model.append(nn.ReLU()).append(nn.Linear(64, 1))
    return model, TensorDataset(inputs, targets), F.mse_loss


@contextmanager
def one_line(path):
    """Say in one line what is wrong with a file."""
    try:
        yield
    except Exception as error:
        said = str(error).strip().rpartition("\n")[2]
        sys.tracebacklimit = 0  # the line below is all that is shown
        raise ValueError(f"{path}: {type(error).__name__}: {said}") from None


torch.manual_seed(0)
with one_line(MODEL):
    if MODEL:
        sys.path.insert(0, str(Path(MODEL).resolve().parent))
        found = runpy.run_path(MODEL)
        if "build" not in found:
            raise ValueError("it has no function build()")
        build = found["build"]
    fresh_model, data, loss_of = build()
    inputs, targets = next(iter(DataLoader(data, BATCH)))
    if not all(isinstance(x, torch.Tensor) for x in (inputs, targets)):
        raise TypeError("its inputs and its targets have to be tensors")
    with torch.no_grad():  # see whether it runs, and make lazy weights
        loss_of(fresh_model.eval()(inputs), targets)

# %% ways
#
# * *transfer*: copy batches from pinned memory to a CUDA GPU without waiting;
#   see :doc:`/data/transfer`.
# * *mixed precision*: let autocast compute in 16 bits; see
#   :doc:`/training/mixed_precision`.
# * *parts*: cut the batch, to save memory rather than time; see
#   :doc:`/training/accumulation`.
#
# .. _each-way-has-one-tip:
#
# Besides the plain loop and the one with all tips, each loop has one tip
# alone. Only on CUDA does a loop use *transfer*.

plain = {"pinned": False, "dtype": torch.float32, "parts": 1}
tips = {"mixed precision": {"dtype": half}, "parts": {"parts": PARTS}}
if device.type == "cuda":
    tips = {"transfer": {"pinned": True}, **tips}
ways = {"plain": plain, **{name: plain | tips[name] for name in tips}}
ways["all tips"] = plain | {}
for tip in tips.values():
    ways["all tips"] |= tip

# %% backward
#
# .. _parts-count-by-their-share:
#
# In full precision, the parts together give the gradient of the whole batch.
#
# .. _batch-norm-sees-the-parts:
#
# With a ``BatchNorm1d`` in the model, they do not.


def backward(model, inputs, targets, scaler, dtype=torch.float32, parts=1):
    """Add the gradient of the mean loss over a batch, part by part."""
    mixed = dtype is not torch.float32
    pairs = zip(inputs.chunk(parts), targets.chunk(parts), strict=True)
    for part, goal in pairs:
        with torch.autocast(device.type, dtype=half, enabled=mixed):
            loss = loss_of(model(part), goal)
        share = len(part) / len(inputs)  # the last part may be smaller
        scaler.scale(loss * share).backward()


# %% loop
#
# Make the scaler once, before the first epoch.
#
# .. _only-float16-is-scaled:
#
# The loss is scaled with ``float16``, and with no other dtype.
#
# .. _each-sample-counts-once:
#
# An epoch takes each sample once, in an order that differs from epoch to epoch
# and is the same for all loops.
#
# .. _each-mode-is-set:
#
# An epoch trains in training mode. The error is the mean loss over all
# samples, in evaluation mode.


class Training:
    """A model that is trained in one of the ways."""

    def __init__(self, pinned, dtype, parts):
        self.options = {"dtype": dtype, "parts": parts}
        self.pinned = pinned
        self.model = copy.deepcopy(fresh_model).to(device)
        weights = self.model.parameters()
        self.optimizer = torch.optim.AdamW(weights, lr=RATE)
        scaled = dtype is torch.float16
        self.scaler = torch.amp.GradScaler(device.type, enabled=scaled)
        order = torch.Generator().manual_seed(0)
        kind = {"shuffle": True, "generator": order, "pin_memory": pinned}
        self.loader = DataLoader(data, BATCH, **kind)

    def epoch(self):
        self.model.train()
        for inputs, targets in self.loader:
            inputs = inputs.to(device, non_blocking=self.pinned)
            targets = targets.to(device, non_blocking=self.pinned)
            self.optimizer.zero_grad()
            backward(self.model, inputs, targets, self.scaler, **self.options)
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def error(self):
        self.model.eval()
        total = 0.0
        with torch.no_grad():
            for inputs, targets in DataLoader(data, BATCH):
                inputs, targets = inputs.to(device), targets.to(device)
                loss = loss_of(self.model(inputs), targets)
                total += loss * len(inputs)
        return total.item() / len(data)


# %% train
#
# The same result?
# ----------------
#
# .. _all-loops-learn-the-same:
#
# After six epochs, each loop's error is within 25 percent of the plain loop's,
# and below a tenth of the error at the start.


def train(way):
    """Return the error before the first epoch, and after each."""
    torch.manual_seed(0)
    training = Training(**ways[way])
    found = [training.error()]
    for _ in tqdm(range(EPOCHS), desc=way, leave=False, disable=None):
        training.epoch()
        found.append(training.error())
    return found


with one_line(MODEL):
    errors = {way: train(way) for way in ways}
for way, found in errors.items():
    print(f"{way}: {found[0]:.2f} at the start, {found[-1]:.2f} at the end")

# %% picture

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 4))
styles = ["-", "--", "-.", ":", "--"]
colors = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]
for way, style, color in zip(errors, styles, colors, strict=False):
    axis.plot(errors[way], linestyle=style, color=color, label=way)
axis.set(yscale="log", xlabel="epoch", ylabel="mean loss")
axis.set_title("What each loop learns")
axis.legend()
plt.show(block=False)  # a window does not stop the program

# %% calls
#
# Why a tip may cost
# ------------------
#
# How many operations does an epoch call? See :doc:`/speed/profiling` for when
# this overhead is the bottleneck.
#
# .. _each-tip-calls-more:
#
# Parts call more operations than the plain loop, because each part runs the
# model again, and so does mixed precision, because it converts tensors.


class Calls(TorchDispatchMode):
    """Count the operations that are called, by name."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function.overloadpacket))
        return function(*args, **(kwargs or {}))


def count_calls(way):
    """Return the names of the operations that an epoch calls."""
    training = Training(**ways[way])
    with Calls() as counter:
        training.epoch()
    return counter.names


called = {way: count_calls(way) for way in ways}
for way, names in called.items():
    print(f"{way}: {len(names)} calls, {names.count('aten._to_copy')} convert")

# %% time
#
# What it buys
# ------------
#
# Try larger models and batches, too.
#
# .. _each-loop-warms-up:
#
# The loops take turns, epoch by epoch. The first epoch of each is not counted,
# and the clock is read when the device has finished.


def now():
    """Return the time when all that was queued is done."""
    if device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter()


def timed():
    """Return the seconds of some epochs, by way."""
    trainings = {way: Training(**ways[way]) for way in ways}
    seconds = {way: [] for way in ways}
    for each in tqdm(range(1 + ROUNDS), leave=False, disable=None):
        for way, training in trainings.items():
            start = now()
            training.epoch()
            seconds[way] += [now() - start] if each else []
    return seconds


seconds = timed()

# %% conclude
#
# .. _an-effect-is-one-of-four:
#
# A loop *is faster* if its slowest epoch beats the fastest of the plain loop
# by 5 percent, and *is slower* in the same way. Otherwise it *makes no
# difference*, or is *too noisy to tell* if some epoch takes 25 percent longer
# than another.


def effect(seconds, base):
    """Return in words what a loop is, from the times of some epochs."""
    if 1.05 * max(seconds) < min(base):
        return "is faster"
    if 1.05 * max(base) < min(seconds):
        return "is slower"
    if max(*seconds, *base) < 1.25 * min(*seconds, *base):
        return "makes no difference"
    return "is too noisy to tell: try more rounds"


base = seconds["plain"]
more = {way: len(called[way]) / len(called["plain"]) for way in ways}
lines = [
    f"{way} {effect(seconds[way], base)}, with {more[way]:.1f} times the calls"
    for way in list(ways)[1:]
]
if "__file__" in globals():  # in a notebook, the picture says it
    print(f"on {device.type}:", *lines, sep="\n")

# %% time-picture

import matplotlib.pyplot as plt

figure, axis = plt.subplots(num="timings", figsize=(7, 5))
milliseconds = [[1000 * each for each in found] for found in seconds.values()]
axis.boxplot(milliseconds, tick_labels=list(seconds))
axis.set_ylim(bottom=0)
axis.set_ylabel("time of an epoch, ms")
title = f"How long an epoch takes on {device.type}"
axis.set_title("\n".join([title, *lines]), fontsize=10)
figure.tight_layout()
plt.show()
