"""
Add up the loss
===============

A running mean that keeps no graph, and one that does not wait for the GPU.
"""

# %% imports
import warnings

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


# %% train
def train(model, loader, optimizer, device):
    total, samples = 0.0, 0
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(inputs)
        samples += len(inputs)
    return total / samples


# %% running-mean
class RunningMean:
    def __init__(self):
        self.total, self.recent, self.samples = 0.0, 0.0, 0

    def add(self, loss, samples):
        self.recent += loss.detach().float() * samples  # stays on the device
        self.samples += samples

    def read(self):
        self.total += float(self.recent)  # waits for the device
        self.recent = 0.0
        return self.total / self.samples


# %% train-logged
def train_logged(model, loader, optimizer, device, every=100):
    mean = RunningMean()
    for step, (inputs, targets) in enumerate(loader, 1):
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        mean.add(loss, len(inputs))
        if step % every == 0:
            print(f"step {step}: mean loss {mean.read():.4f}")
    return mean.read()


# %% days
torch.manual_seed(0)
readings = torch.randn(200, 8)  # of 200 days, by 8 stations
temperatures = readings.sum(1, keepdim=True)  # of the days after
days = TensorDataset(readings, temperatures)
loader = DataLoader(days, batch_size=64)


def fresh(device="cpu"):
    torch.manual_seed(0)
    layers = nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)
    model = nn.Sequential(*layers).to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


# %% use
if torch.accelerator.is_available():
    device = torch.accelerator.current_accelerator()
else:
    device = torch.device("cpu")

model, optimizer = fresh(device)
print(f"epoch 1: {train(model, loader, optimizer, device):.4f}")
loss = train_logged(model, loader, optimizer, device, every=2)
print(f"epoch 2: {loss:.4f}")


# %% behind
def behind(values):
    found, waiting = set(), [getattr(each, "grad_fn", None) for each in values]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.add(node)
            waiting += [before for before, _ in node.next_functions]
    return found


# %% three-steps
# Wrong on purpose: do not copy.
model, optimizer = fresh()
total = 0.0
for inputs, targets in list(loader)[:3]:
    optimizer.zero_grad()
    loss = F.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    total += loss

print(total, "with", len(behind([total])), "nodes")


# %% place
def place(node, x=3, y=0, origin=(4, 0)):
    yield node.name().removesuffix("Backward0"), (x, y), origin
    for before, _ in node.next_functions:
        inner = before and before.next_functions  # not a parameter
        if inner and before.name() != "TBackward0":
            left = before.name() == node.name()
            there = (x - 1, y) if left else (x, y - 1)
            yield from place(before, *there, origin=(x, y))


# %% chain
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
axis.set_title("What total leads to after three steps")
axis.set(xlim=(0.5, 4.5), ylim=(-5.3, 0.4))
axis.axis("off")
steps = [(f"step {n}", (n, -4.8), (n, -4.8)) for n in (1, 2, 3)]
for name, (x, y), origin in (*place(total.grad_fn), *steps):
    axis.plot(*zip(origin, (x, y), strict=True), "black", linewidth=1)
    color = "white" if name.startswith("step") else "#0072B2"
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": color}
    axis.text(x, y, name, bbox=box, ha="center", va="center")
axis.text(4.02, 0, "total", color="#D55E00", va="center")
plt.show()


# %% kept
def kept(step, steps, total=0.0):
    seen = []

    def note(layer, inputs, output):
        seen.append((StorageWeakRef(output.untyped_storage()), output.nbytes))

    hooks = [layer.register_forward_hook(note) for layer in model]
    for _ in range(steps):
        total = total + step()
    for hook in hooks:
        hook.remove()
    values = total if isinstance(total, list) else [total]
    alive = sum(size for storage, size in seen if not storage.expired())
    return {"nodes": len(behind(values)), "bytes": alive}


# %% training
def training(keep, **options):
    optimizer.zero_grad()
    loss = F.mse_loss(model(readings), temperatures)
    loss.backward(**options)
    optimizer.step()
    return keep(loss)


# %% ways
ways = {
    "total += loss": lambda: training(lambda loss: loss),
    "total += loss.detach()": lambda: training(lambda loss: loss.detach()),
    "total += loss.item()": lambda: training(lambda loss: loss.item()),
}
rows = {name: (kept(way, 10), kept(way, 20)) for name, way in ways.items()}

# %% ways-tabulated
import pandas as pd

pd.DataFrame.from_dict(
    {
        name: {
            "nodes after 10 steps": ten["nodes"],
            "after 20": twenty["nodes"],
            "bytes of layer outputs": twenty["bytes"],
        }
        for name, (ten, twenty) in rows.items()
    },
    orient="index",
)

# %% acts
if torch.cuda.is_available():
    large = torch.ones(8192, 8192, device="cuda")
    loss, mean = torch.ones((), device="cuda"), RunningMean()
    acts = {
        "detach": lambda: loss.detach(),
        "add": lambda: mean.add(loss, 64),
        "item": lambda: loss.item(),
        "print": lambda: str(loss),
        "if": lambda: bool(loss > 2),
        "cpu": lambda: loss.cpu(),
        "nonzero": lambda: loss.nonzero(),
    }

# %% waits
if torch.cuda.is_available():
    waited = {}
    for name, act in acts.items():
        act()  # the first time may wait for other reasons
        large @ large
        torch.cuda.synchronize()
        for _ in range(10):
            large @ large
        earlier = torch.cuda.current_stream().record_event()
        act()
        waited[name] = earlier.query()
        print(name, "has waited" if waited[name] else "has not waited")

# %% find-waits
if torch.cuda.is_available():
    warned = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        for name, act in acts.items():
            caught.clear()
            act()
            said = [str(each.message) for each in caught]
            warned[name] = any("synchronizing" in each for each in said)
        torch.cuda.set_sync_debug_mode("default")
    print("warned of:", *[name for name in warned if warned[name]])


# %% validation
def validation():
    return F.mse_loss(model(readings), temperatures)


# %% with-graph
# Wrong on purpose: do not copy.
validated = kept(validation, 10), kept(validation, 20)
print(*validated, sep="\n")

# %% without-graph
with torch.no_grad():
    without_graph = kept(validation, 10), kept(validation, 20)

print(*without_graph, sep="\n")


# %% collect
def collect(keep):
    optimizer.zero_grad()
    outputs = model(readings)
    F.mse_loss(outputs, temperatures).backward()
    optimizer.step()
    return keep(outputs)


# %% list
# Wrong on purpose: do not copy.
listed = [kept(lambda: collect(lambda out: [out]), n, []) for n in (10, 20)]
print(*listed, sep="\n")


# %% count
def hits(outputs):
    return ((outputs - temperatures).abs() < 1).sum()


counted = [kept(lambda: collect(hits), steps) for steps in (10, 20)]
print(*counted, sep="\n")

# %% retained
# Wrong on purpose: do not copy.
again = {"retain_graph": True}
retained = [
    kept(lambda: training(lambda loss: loss, **again), n) for n in (10, 20)
]
print(*retained, sep="\n")


# %% square
# Wrong on purpose: do not copy.
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, slope):
        return 2 * ctx.x * slope


# %% squared
# Wrong on purpose: do not copy.
def squared():
    loss = F.mse_loss(Square.apply(model(readings)), temperatures)
    loss.backward()
    return loss


own = kept(squared, 10), kept(squared, 20)
print(*own, sep="\n")

# %% alias
# Wrong on purpose: do not copy.
loss = torch.tensor(2.0)
total = loss.detach()
total += 3
print(loss)

# %% shares
with torch.no_grad():
    losses = [F.mse_loss(model(x), y).item() for x, y in loader]
    whole = F.mse_loss(model(readings), temperatures).item()

sizes = [len(inputs) for inputs, _ in loader]
products = [n * loss for n, loss in zip(sizes, losses, strict=True)]
mean_of_means = sum(losses) / len(losses)
weighted = sum(products) / sum(sizes)

print(f"batches of {sizes} days; over all days {whole:.4f}")
print(f"mean of means {mean_of_means:.4f}, weighted {weighted:.4f}")

# %% ignored
scores = torch.randn(3, 4, 5)  # of 3 batches of 4 words, for 5 classes
goals = torch.tensor([[0, 1, 2, 3], [4, 0, 1, -100], [-100] * 4])

total, words = 0.0, 0
for score, goal in zip(scores, goals, strict=True):
    if counted := (goal != -100).sum().item():
        total += F.cross_entropy(score, goal).item() * counted
        words += counted
mean_of_words = total / words
print(mean_of_words, F.cross_entropy(scores.flatten(0, 1), goals.flatten()))

# %% empty
none = DataLoader(days, batch_size=256, drop_last=True)
model, optimizer = fresh()
try:
    train(model, none, optimizer, "cpu")
except ZeroDivisionError as error:
    refused = f"ZeroDivisionError: {error}"
    print(refused)


# %% by-length
# Wrong on purpose: do not copy.
def by_length(model, loader):
    total = 0.0
    for inputs, targets in loader:
        loss = F.mse_loss(model(inputs), targets)
        total += loss.item() * len(inputs)
    return total / len(loader.dataset)


for size in (256, 150):
    dropping = DataLoader(days, batch_size=size, drop_last=True)
    print("batches of", size, "days:", by_length(model, dropping))

# %% sums
sums = {"bfloat16": torch.tensor(0.0, dtype=torch.bfloat16)}
sums |= {"float32": torch.tensor(0.0), "Python": 0.0}
for _ in range(20_000):
    for name in sums:
        sums[name] += 0.1

print({name: float(each) for name, each in sums.items()})

# %% after-the-model
import weakref


def outlives_the_model(read):
    model = nn.Linear(1000, 1)
    total = 0.0
    for _ in range(3):
        loss = model(torch.ones(4, 1000)).square().mean()
        loss.backward()
        total += read(loss)
    weight = weakref.ref(model.weight)
    del model, loss
    return weight() is not None


reads = {"loss": lambda each: each, "loss.item()": lambda each: each.item()}
for name, read in reads.items():
    print(f"total += {name:11}", outlives_the_model(read))
