"""
Move batches to the device
==========================

A loop that does not wait for its copies, and what can go wrong with them.
"""

# %% photos
import copy
import dataclasses

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

torch.manual_seed(0)
photos = [
    {"pixels": torch.rand(3, 8, 8), "kind": n % 2, "file": f"{n}.jpg"}
    for n in range(12)
]


# %% move
def move(batch, device, pinned):
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=pinned)
    if isinstance(batch, dict):
        return {key: move(part, device, pinned) for key, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(move(part, device, pinned) for part in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(move(part, device, pinned) for part in batch)
    if dataclasses.is_dataclass(batch):
        moved = copy.copy(batch)  # replace would run __post_init__ again
        names = {each.name for each in dataclasses.fields(batch)}
        for name in names.union(getattr(batch, "__dict__", ())):
            part = move(getattr(batch, name), device, pinned)
            object.__setattr__(moved, name, part)  # even if it is frozen
        return moved
    return batch


# %% choose
device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)
pin = device.type not in ("cpu", "mps")
loader = DataLoader(photos, batch_size=4, shuffle=True, pin_memory=pin)

# %% train
model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = torch.zeros((), device=device)
for batch in loader:
    batch = move(batch, device, pin)
    loss = F.cross_entropy(model(batch["pixels"]), batch["kind"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach()

# %% read-once
print(f"mean loss {total.item() / len(loader):.3f}")
print("the last batch:", batch["file"], "on", batch["pixels"].device)


# %% schedule
def schedule(host, copy, step, waits, batches=4):
    rows, host_free, device_free = [], 0, 0
    for batch in range(batches):
        asked = host_free + host
        start = max(asked, device_free)
        arrived, device_free = start + copy, start + copy + step
        rows.append(("host", batch, host_free, asked))
        rows.append(("copy", batch, start, arrived))
        rows.append(("step", batch, arrived, device_free))
        host_free = arrived if waits else asked
    return rows


# %% schedules
schedules = {
    "to(device): the host waits": schedule(5, 2, 3, waits=True),
    "pinned, non_blocking=True": schedule(5, 2, 3, waits=False),
}

# %% schedules-drawn
import matplotlib.pyplot as plt

colours = {"host": "w", "copy": "#D55E00", "step": "#0072B2"}
sizes = {"figsize": (8, 3.4), "sharex": True, "layout": "constrained"}
figure, both = plt.subplots(2, **sizes)
for ax, (name, rows) in zip(both, schedules.items(), strict=True):
    for what, batch, start, end in rows:
        lane, colour = int(what != "host"), colours[what]
        ax.barh(lane, end - start, left=start, color=colour, edgecolor="k")
        ax.text((start + end) / 2, lane, batch, ha="center", va="center")
    ax.set(title=name, yticks=[0, 1], yticklabels=["host", "device"])
    ax.invert_yaxis()
figure.suptitle("Two schedules by these rules, not measured")
both[1].set_xlabel("units (copies orange, steps blue)")
plt.show()

# %% queue
if torch.cuda.is_available():
    matrix = torch.ones(8192, 8192, device="cuda")
    pinned = torch.ones(2**20, pin_memory=True)
    there = pinned.to("cuda")

    def keep_busy():
        torch.cuda.synchronize()
        for _ in range(20):
            matrix @ matrix
        return torch.cuda.current_stream().record_event()


# %% returns-early
if torch.cuda.is_available():
    acts = {
        "non_blocking": lambda: pinned.to("cuda", non_blocking=True),
        "blocking": lambda: pinned.to("cuda"),
        "item": lambda: there[0].item(),
    }
    waited = {}
    for name, act in acts.items():
        earlier = keep_busy()
        act()
        waited[name] = earlier.query()
        print(name, "has waited" if waited[name] else "has not waited")

# %% pinning-loader
# Wrong on purpose: do not copy.
import warnings

with warnings.catch_warnings(record=True, action="always") as caught:
    first = next(iter(DataLoader(photos, batch_size=4, pin_memory=True)))

print(*(warning.message for warning in caught))
print("pinned:", first["pixels"].is_pinned())


# %% refusal
def refusal(attempt):
    try:
        attempt()
    except RuntimeError as error:
        return str(error)


# %% no-accelerator
# Wrong on purpose: do not copy.
method = refusal(lambda: torch.ones(3).pin_memory())
argument = refusal(lambda: torch.ones(3, pin_memory=True))

print(method, argument, sep="\n")

# %% pinned-elsewhere
# Wrong on purpose: do not copy.
elsewhere = refusal(lambda: torch.ones(3, device="meta").pin_memory())

print(elsewhere)

# %% changed-source
# Wrong on purpose: do not copy.
if torch.cuda.is_available():
    buffer = torch.zeros(2**20, pin_memory=True)
    keep_busy()
    arrived = buffer.to("cuda", non_blocking=True)
    buffer.fill_(1)
    changed = arrived.mean().item()
    print("sent 0, arrived", changed)

# %% new-source
if torch.cuda.is_available():
    buffer = torch.zeros(2**20, pin_memory=True)
    keep_busy()
    arrived = buffer.to("cuda", non_blocking=True)
    del buffer
    buffer = torch.ones(2**20, pin_memory=True)
    kept = arrived.mean().item()
    print("sent 0, arrived", kept)

# %% read-early
# Wrong on purpose: do not copy.
if torch.cuda.is_available():
    host = torch.zeros(2**20, pin_memory=True)
    keep_busy()
    host.copy_(there, non_blocking=True)
    early = host.mean().item()
    print("sent 1, read", early)

# %% read-late
if torch.cuda.is_available():
    torch.accelerator.synchronize()
    late = host.mean().item()
    back = there.to("cpu", non_blocking=True)
    print("sent 1, read", late)
    print("on the way back:", "pinned" if back.is_pinned() else "not pinned")

# %% own-stream
if torch.cuda.is_available():
    side = torch.cuda.Stream()
    ahead = torch.zeros_like(there)
    earlier = keep_busy()
    with torch.cuda.stream(side):
        ahead.copy_(pinned, non_blocking=True)
        copied = torch.cuda.current_stream().record_event()
    copied.synchronize()
    overtook = not earlier.query()
    print("copied", "before" if overtook else "after", "the work in the queue")

# %% nothing-to-do
pixels, given = torch.rand(3, 8, 8), {}
asked = {
    "no device": {},
    "the same device": {"device": "cpu"},
    "copy=True": {"device": "cpu", "copy": True},
}
for name, options in asked.items():
    given[name] = pixels.to(non_blocking=True, **options)
    print(f"{name:16}", "itself" if given[name] is pixels else "a new tensor")
