"""
Train in one process or several, and resume
===========================================

Train with one file on a CPU, on one GPU, or on all GPUs of a machine. It
learns the same with any number of processes, and goes on after a stop, also
with another number.

The rule: **however many processes share a step, it takes the same samples**.

Download the script, and start it with ``--help`` for all options::

    python train_in_several_processes.py --checkpoint digits.pt
    torchrun --nproc-per-node=2 train_in_several_processes.py --epochs 20

It needs ``torch``, ``matplotlib``, ``scikit-learn``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.

EPOCHS = 5  # how often to go through all training digits
BATCH_SIZE = 100  # digits of a step, in all processes together
RATE = 0.003  # the learning rate
CHECKPOINT = None  # a file to write after each epoch, and to go on from
SEED = 0

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.

import argparse

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="Train in one process or several, and resume.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--epochs", type=int, default=EPOCHS, help="times through all digits")
    add("--batch-size", type=int, default=BATCH_SIZE, help="digits per step")
    add("--rate", type=float, default=RATE, help="learning rate")
    add("--checkpoint", default=CHECKPOINT, help="file to write and resume")
    add("--seed", type=int, default=SEED, help="of all random numbers")
    options = parser.parse_args()
    EPOCHS, BATCH_SIZE = options.epochs, options.batch_size
    RATE, SEED = options.rate, options.seed
    CHECKPOINT = options.checkpoint

# %% process
#
# Which process am I?
# -------------------
#
# ``torchrun`` starts the file once for each process, and tells each its number
# and their count; see :doc:`/scaling/processes`.
#
# .. _without-torchrun-there-is-one-process:
#
# Without ``torchrun``, this is the only process, and it joins no group.
#
# .. _each-process-has-a-gpu-of-its-own:
#
# If the machine has a GPU for each process, each takes its own.
# Otherwise, all of them take the CPU.
#
# .. _a-batch-that-cannot-be-shared-is-refused:
#
# A batch size that the processes cannot share equally is refused.

import os

import torch
import torch.distributed as dist

rank = int(os.environ.get("RANK", 0))
count = int(os.environ.get("WORLD_SIZE", 1))
on_this_machine = int(os.environ.get("LOCAL_WORLD_SIZE", 1))

if EPOCHS < 1 or BATCH_SIZE < 1 or not RATE > 0:
    raise SystemExit("epochs and batch size start at 1, the rate above 0")
if BATCH_SIZE % count:
    raise SystemExit(f"{count} processes cannot share {BATCH_SIZE} digits")

if torch.cuda.device_count() >= on_this_machine:
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
else:
    device = torch.device("cpu")
if "RANK" in os.environ:
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend)

# %% digits
#
# Share the digits
# ----------------
#
# Of 1,797 handwritten digits, 297 are kept to validate. Put your own dataset
# in their place.
#
# .. _a-step-takes-the-same-digits:
#
# Each step takes the same digits, whether one process takes them all or
# several share them.
#
# That needs two things: each process takes its part of ``BATCH_SIZE``, and the
# digits at the end that do not fill a batch are left out of that epoch.
#
# .. _a-batch-that-is-too-large-is-refused:
#
# So a batch size above the number of training digits is refused.
#
# .. _each-epoch-has-an-order-of-its-own:
#
# Each epoch takes the digits in another order, because of ``set_epoch``.

from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

found = load_digits()
images = torch.tensor(found.data, dtype=torch.float32) / 16
labels = torch.tensor(found.target)

order = torch.Generator().manual_seed(SEED)
shuffled = torch.randperm(len(labels), generator=order)
train = TensorDataset(images[shuffled[297:]], labels[shuffled[297:]])
valid = TensorDataset(images[shuffled[:297]], labels[shuffled[:297]])
if len(train) < BATCH_SIZE:
    raise SystemExit(
        f"{len(train)} digits cannot fill a batch of {BATCH_SIZE}"
    )


def loader_for(rank, count):
    """Return the loader of one process, and the sampler that it follows."""
    sampler = DistributedSampler(
        train, num_replicas=count, rank=rank, seed=SEED, drop_last=True
    )
    loader = DataLoader(
        train, BATCH_SIZE // count, sampler=sampler, drop_last=True
    )
    return loader, sampler


loader, sampler = loader_for(rank, count)

# %% model
#
# The model
# ---------
#
# Put yours in its place. With ``BatchNorm`` or ``Dropout``, the results depend
# on the number of processes, since each process sees its part of a batch only.

from torch import nn, optim

torch.manual_seed(SEED)
model = nn.Sequential(
    nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10)
).to(device)
optimizer = optim.AdamW(model.parameters(), lr=RATE)

# %% resume
#
# Go on from a checkpoint
# -----------------------
#
# .. _all-processes-read-the-checkpoint:
#
# All processes read the checkpoint, so all begin with the same weights and the
# same state of the optimizer.
#
# .. _other-settings-are-refused:
#
# A checkpoint of another batch size, rate or seed is refused.

from pathlib import Path

settings = {"batch size": BATCH_SIZE, "rate": RATE, "seed": SEED}
history = []  # of each epoch: its loss, and the share of right answers
best = {"share": -1.0, "model": None}

if CHECKPOINT and Path(CHECKPOINT).exists():
    saved = torch.load(CHECKPOINT, map_location=device)
    if saved["settings"] != settings:
        raise SystemExit(f"{CHECKPOINT} was made with {saved['settings']}")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    history, best = saved["history"], saved["best"]
    if rank == 0:
        print(f"{CHECKPOINT}: going on after epoch {len(history)}")


def save():
    """Write the checkpoint, in the first process alone."""
    if rank or not CHECKPOINT:
        return
    parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    rest = {"settings": settings, "history": history, "best": best}
    Path(CHECKPOINT).parent.mkdir(parents=True, exist_ok=True)
    torch.save(parts | rest, f"{CHECKPOINT}.partial")
    Path(f"{CHECKPOINT}.partial").replace(CHECKPOINT)


# %% epoch
#
# Train and validate
# ------------------
#
# .. _each-digit-counts-once:
#
# In validation, each digit counts once. ``DistributedSampler`` would repeat
# some of them, so that all processes get equally many.
#
# .. _the-loss-is-that-of-all-processes:
#
# The loss that is printed is the mean over all digits of the epoch, and not
# over those of one process.

from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

together = DistributedDataParallel(model) if "RANK" in os.environ else model


def total(*numbers):
    """Return numbers of this process, added up over all processes."""
    sums = torch.tensor(numbers, dtype=torch.float64, device=device)
    if dist.is_initialized():
        dist.all_reduce(sums)
    return sums.tolist()


def train_epoch(epoch):
    """Train for one epoch; return the mean loss."""
    sampler.set_epoch(epoch)
    model.train()
    losses, taken = 0.0, 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = F.cross_entropy(together(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses += loss.item() * len(labels)
        taken += len(labels)
    losses, taken = total(losses, taken)
    return losses / taken


@torch.inference_mode()
def right_share():
    """Return the share of the validation digits with a right answer."""
    mine = Subset(valid, range(rank, len(valid), count))
    model.eval()
    right = 0
    for images, labels in DataLoader(mine, BATCH_SIZE):
        answers = model(images.to(device)).argmax(dim=1)
        right += (answers.cpu() == labels).sum().item()
    [right] = total(right)
    return right / len(valid)


# %% train
#
# .. _the-same-model-with-any-number-of-processes:
#
# Two processes, or four, end with the weights of one, up to rounding.
#
# .. _it-goes-on-with-another-number:
#
# So does a training that stops after an epoch, and goes on with another number
# of processes.
#
# .. _the-checkpoint-holds-the-best-epoch:
#
# The checkpoint holds the last epoch, to go on from, and the best one.
#
# .. _one-process-writes-and-prints:
#
# The first process alone prints, and writes the checkpoint.
#
# .. _a-failed-write-keeps-the-last-checkpoint:
#
# If writing fails halfway, the last checkpoint stays as it was.

import copy

while len(history) < EPOCHS:
    loss, share = train_epoch(len(history)), right_share()
    history.append((loss, share))
    if share > best["share"]:
        best = {"share": share, "model": copy.deepcopy(model.state_dict())}
    save()
    if rank == 0:
        print(f"epoch {len(history)}: loss {loss:.3f}, {share:.1%} right")

if dist.is_initialized():
    dist.destroy_process_group()

# %% picture
#
# How two processes would share the first step: each takes every second digit
# of its 100. The picture shows the first 24.

if rank == 0 and BATCH_SIZE >= 24:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 12, figsize=(9, 2), layout="constrained")
    for half, row in enumerate(axes):
        shared, _ = loader_for(half, 2)
        digits, _ = next(iter(shared))
        row[0].set_title(f"process {half}", loc="left")
        for axis, digit in zip(row, digits, strict=False):
            axis.imshow(digit.view(8, 8), cmap=["Blues", "Oranges"][half])
            axis.set_axis_off()
    figure.suptitle("Two processes share the first step")
    plt.show()
