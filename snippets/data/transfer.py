"""
Move batches to the GPU: pin_memory and non_blocking
====================================================

A loop that does not wait for its copies, and a GPU's queue in ten lines.
"""

# %% digits
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)
data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16
digits = TensorDataset(pixels, torch.tensor(data.target))
model = nn.Linear(64, 10).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

# %% loader
pin = device.type not in ("cpu", "mps")
loader = DataLoader(digits, batch_size=64, shuffle=True, pin_memory=pin)

# %% train
total = 0.0
for images, labels in loader:
    images = images.to(device, non_blocking=pin)
    labels = labels.to(device, non_blocking=pin)
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach() * len(labels)  # .item() here would wait
print(f"loss {total.item() / len(digits):.3f}")

# %% by-hand
from concurrent.futures import ThreadPoolExecutor

gpu = ThreadPoolExecutor(max_workers=1)  # 1


def to(source, non_blocking=False):
    target = torch.zeros_like(source)  # 2
    copied = gpu.submit(target.copy_, source)  # 3
    if not non_blocking:
        copied.result()  # 4
    return target


def read(tensor):
    return gpu.submit(tensor.tolist).result()  # 5


# %% compare
import copy


def step(model, optimizer, images, labels, losses):
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())


def train(model, batches, queued, non_blocking=False):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for images, labels in batches:
        if queued:
            images, labels = to(images, non_blocking), to(labels, non_blocking)
            gpu.submit(step, model, optimizer, images, labels, losses)
        else:
            step(model, optimizer, images, labels, losses)
    read(torch.zeros(()))  # wait for the last step
    return torch.stack(losses).mean().item()


batches, start = list(DataLoader(digits, batch_size=64)), nn.Linear(64, 10)
plain, queued = copy.deepcopy(start), copy.deepcopy(start)
print(f"plain loop: loss {train(plain, batches, queued=False):.6f}")
print(f"the queue:  loss {train(queued, batches, True, True):.6f}")
apart = (plain.weight - queued.weight).abs().max().item()
print("the weights are", apart, "apart")

# %% who-waits
import threading


def keep_busy():
    ended = threading.Event()  # the step takes a second, or until this is set
    return gpu.submit(ended.wait, 1), ended


first = digits.tensors[1][:4]
there, waited = to(first), {}
acts = {
    "to(first, non_blocking=True)": lambda: to(first, non_blocking=True),
    "to(first)": lambda: to(first),
    "read(there)": lambda: read(there),
}
for name, act in acts.items():
    earlier, ended = keep_busy()
    act()
    waited[name] = earlier.done()
    ended.set()
    print(name, "waited" if waited[name] else "went on")


# %% timeline
def timeline(load, copy, step, waits, batches=10):
    program = queue = 0
    for _ in range(batches):
        program += load
        queue = max(program, queue) + copy  # line 3
        if waits:
            program = queue  # line 4
        queue += step
    return queue


print("waiting:    ", timeline(5, 2, 3, waits=True))
print("not waiting:", timeline(5, 2, 3, waits=False))

# %% changed-source
# Wrong on purpose: do not copy.
buffer = digits.tensors[1][:4].clone()
_, ended = keep_busy()
arrived = to(buffer, non_blocking=True)
buffer.copy_(digits.tensors[1][4:8])  # the next batch, in the same memory
ended.set()
changed = read(arrived)
print("sent [0, 1, 2, 3], arrived", changed)

# %% new-source
buffer = digits.tensors[1][:4].clone()
_, ended = keep_busy()
arrived = to(buffer, non_blocking=True)
buffer = digits.tensors[1][4:8].clone()
ended.set()
kept = read(arrived)
print("sent [0, 1, 2, 3], arrived", kept)

# %% read-early
# Wrong on purpose: do not copy.
_, ended = keep_busy()
back = to(there, non_blocking=True)
early = back.tolist()
ended.set()
print("on the GPU [0, 1, 2, 3], read", early)

# %% read-late
late = to(there).tolist()
print("on the GPU [0, 1, 2, 3], read", late)

# %% on-cuda
if torch.cuda.is_available():
    matrix = torch.ones(8192, 8192, device="cuda")
    pinned = torch.ones(2**20, pin_memory=True)
    on_gpu, said = pinned.to("cuda"), {}

    def keep_gpu_busy():
        torch.cuda.synchronize()
        for _ in range(20):
            matrix @ matrix
        return torch.cuda.current_stream().record_event()

    acts = {
        "non_blocking=True": lambda: pinned.to("cuda", non_blocking=True),
        "to('cuda')": lambda: pinned.to("cuda"),
        "item()": lambda: on_gpu[0].item(),
    }
    for name, act in acts.items():
        earlier = keep_gpu_busy()
        act()
        said[name] = "waited" if earlier.query() else "went on"

    buffer = torch.zeros(2**20, pin_memory=True)
    keep_gpu_busy()
    arrived = buffer.to("cuda", non_blocking=True)
    buffer.fill_(1)
    said["sent 0, then filled with 1"] = arrived.mean().item()

    buffer = torch.zeros(2**20, pin_memory=True)
    keep_gpu_busy()
    arrived = buffer.to("cuda", non_blocking=True)
    buffer = torch.ones(2**20, pin_memory=True)
    said["sent 0, then a new tensor"] = arrived.mean().item()

    back = torch.zeros(2**20, pin_memory=True)
    keep_gpu_busy()
    back.copy_(on_gpu, non_blocking=True)
    said["on the GPU 1, read early"] = back.mean().item()
    torch.cuda.synchronize()
    said["on the GPU 1, read after synchronize()"] = back.mean().item()
    for name, answer in said.items():
        print(f"{name}: {answer}")

# %% nothing-to-do
given = {}
asked = {
    "no device": {},
    "the same device": {"device": "cpu"},
    "copy=True": {"device": "cpu", "copy": True},
}
for name, options in asked.items():
    given[name] = pixels.to(non_blocking=True, **options)
    print(f"{name:16}", "itself" if given[name] is pixels else "a new tensor")

# %% fast-loader
print("waiting:    ", timeline(2, 2, 3, waits=True))
print("not waiting:", timeline(2, 2, 3, waits=False))


# %% move
def move(batch, device, pin):
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=pin)
    if isinstance(batch, dict):
        return {name: move(part, device, pin) for name, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):  # is named
        return type(batch)(*(move(part, device, pin) for part in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(move(part, device, pin) for part in batch)
    return batch


# %% move-checked
from collections import namedtuple

Pair = namedtuple("Pair", ["left", "right"])
nested = {"image": torch.ones(2), "boxes": [torch.ones(1), ("7.png", 3)]}
nested["pair"] = Pair(torch.ones(1), None)
moved = move(nested, "meta", False)
if not isinstance(moved, dict) or not moved["image"].is_meta:
    print("The tensor in the dict is not on the device.")
elif not moved["boxes"][0].is_meta:
    print("The tensor in the list in the dict stayed where it was.")
elif moved["boxes"] != [moved["boxes"][0], ("7.png", 3)]:
    print("Lists, tuples, names and numbers should come back as they were.")
elif not isinstance(moved["pair"], Pair) or not moved["pair"].left.is_meta:
    print("The named tuple is no Pair any more, or its tensor stayed.")
else:
    print("Right: the three tensors moved, and the rest is as it was.")
