"""
Move batches to the device
==========================

Pinned memory and non_blocking: what they do, and what they do not.
"""

# %% imports
import warnings

import torch
from torch.utils.data import DataLoader

# %% no-device
x = torch.ones(3)

print(x.to(non_blocking=True) is x)

# %% same-device
print(x.to("cpu", non_blocking=True) is x)
print(x.to("cpu", non_blocking=True, copy=True) is x)

# %% on-the-cpu
target = torch.zeros(1_000_000)
target.copy_(torch.ones(1_000_000), non_blocking=True)
arrived = int(target.sum())

print(arrived)

# %% pinned
print(x.is_pinned())

try:
    print(x.pin_memory().is_pinned())
except RuntimeError as error:
    print(error)

# %% pinning-loader
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    loader = DataLoader(torch.arange(4.0), batch_size=2, pin_memory=True)
    batch = next(iter(loader))

print(batch, batch.is_pinned())
for warning in caught:
    print(warning.message)

# %% device
has_cuda = torch.cuda.is_available()
device = torch.device("cuda" if has_cuda else "cpu")
loader = DataLoader(torch.arange(4.0), batch_size=2, pin_memory=has_cuda)


# %% move
def move(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {name: move(each, device) for name, each in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [move(each, device) for each in batch]
    return batch


# %% moved
for batch in loader:
    batch = move(batch, device)

nested = {"image": torch.ones(2), "boxes": [torch.ones(3)], "name": "cat"}
moved = move(nested, "meta")  # a device that every machine has

print(moved["image"].device, moved["boxes"][0].device, moved["name"])

# %% discarded
weight = torch.ones(3)
weight.to("meta")
kept = weight.device

print(kept)

# %% returns-early
if torch.cuda.is_available():
    large = torch.ones(2**28, pin_memory=True)  # a gigabyte
    torch.cuda.synchronize()
    there = large.to("cuda", non_blocking=True)
    done_on_return = torch.cuda.current_stream().query()
    there = large.to("cuda")
    done_when_waited_for = torch.cuda.current_stream().query()
    print(done_on_return, done_when_waited_for)

# %% changed-source
if torch.cuda.is_available():
    busy = torch.ones(8192, 8192, device="cuda")
    source = torch.zeros(2**20, pin_memory=True)
    source.to("cuda")  # finds the memory for the next one
    torch.cuda.synchronize()
    for _ in range(20):
        busy @ busy  # keeps the device from the copy
    copy = source.to("cuda", non_blocking=True)
    source.fill_(1)
    torch.cuda.synchronize()
    copied = copy.mean().item()
    print(copied)

# %% read-too-early
if torch.cuda.is_available():
    result = torch.ones(1000, device="cuda")
    host = torch.zeros(1000, pin_memory=True)
    torch.cuda.synchronize()
    for _ in range(20):
        busy @ busy
    host.copy_(result, non_blocking=True)
    read_early = host.mean().item()
    torch.cuda.synchronize()
    read_late = host.mean().item()
    print(read_early, read_late)
