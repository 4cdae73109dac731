"""
Memory grows with every step: total += loss
===========================================

The mean loss of an epoch without a graph, and a graph in fourteen lines.
"""

# %% digits
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16
digits = TensorDataset(pixels, torch.tensor(data.target))
loader = DataLoader(digits, batch_size=64, shuffle=True)

model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

# %% add-up
total, count = 0.0, 0
for images, labels in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    total += loss.item() * len(labels)  # a number, not a tensor
    count += len(labels)
print(f"mean loss {total / count:.3f}")


# %% by-hand
class Value:
    def __init__(self, data, node=None):
        self.data, self.node = data, node  # 1

    def __add__(self, other):
        return Value(self.data + other.data, [self.node, other.node])  # 2

    def square(self):
        return Value(self.data**2, [self.node, self.data])  # 3

    def item(self):
        return self.data.item()  # 4

    def backward(self):
        nodes = [self.node]
        for node in nodes:
            node[:] = [each for each in node if isinstance(each, list)]  # 5
            nodes += node


# %% walk
weight = Value(torch.tensor(1.0), node=[])
total = Value(torch.tensor(0.0))
for _ in range(2):
    loss = (weight + Value(torch.tensor(-3.0))).square()
    print("before backward():", loss.node)
    loss.backward()
    print("after backward(): ", loss.node)
    total += loss
print("the sum:", total.item(), total.node)

# %% kept
import weakref
from functools import partial

saved = weakref.WeakSet()  # what nodes of PyTorch hold at the moment


class Saved:
    def __init__(self, tensor):
        self.tensor = tensor.detach()
        saved.add(self)


def before(node):
    if isinstance(node, list):  # one of ours
        return [each for each in node if isinstance(each, list)]
    return [each for each, _ in node.next_functions if each is not None]


def nodes_behind(value):
    node = getattr(value, "node", getattr(value, "grad_fn", None))
    found, waiting = {}, [] if node is None else [node]
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += before(node)
    return list(found.values())


def held_by(nodes):
    tensors = [held.tensor for held in saved]
    for node in nodes:
        if isinstance(node, list):
            tensors += [each for each in node if torch.is_tensor(each)]
    return tensors


def kept(step, steps=20, add=lambda total, loss: total + loss):
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(Saved, lambda held: held.tensor):
        total = step()
        for _ in range(steps - 1):
            total = add(total, step())
    nodes = nodes_behind(total)
    memory = {each.data_ptr(): each.nbytes for each in held_by(nodes)}
    for parameter in model.parameters():
        memory.pop(parameter.data_ptr(), None)  # it is there anyway
    return len(nodes), sum(memory.values())


# %% compare
ours = Value(torch.tensor(1.0), node=[]), Value(torch.tensor(-3.0))
theirs = torch.tensor(1.0, requires_grad=True), torch.tensor(-3.0)


def one_step(values, backward, item):
    weight, minus_three = values
    loss = (weight + minus_three).square()
    if backward:
        loss.backward()
    return loss.item() if item else loss


for backward in (False, True):
    for item in (False, True):
        print(f"backward={backward!s:5} item={item!s:5}", end="")
        for name, values in (("ours", ours), ("PyTorch", theirs)):
            nodes, size = kept(partial(one_step, values, backward, item))
            print(f"   {name}: {nodes:2} nodes, {size:2} bytes", end="")
        print()


# %% ways
def trained(read):
    images, labels = next(iter(loader))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return read(loss)


ways = {
    "loss": lambda loss: loss,
    "loss.detach()": lambda loss: loss.detach(),
    "loss.item()": lambda loss: loss.item(),
}
for name, read in ways.items():
    for steps in (10, 20):
        nodes, size = kept(partial(trained, read), steps)
        print(
            f"total += {name:13} {steps} steps: {nodes:3} nodes, {size} bytes"
        )


# %% validation
def validated(read):
    images, labels = next(iter(loader))
    return read(F.cross_entropy(model(images), labels))


# Wrong on purpose: do not copy.
for steps in (10, 20):
    nodes, size = kept(partial(validated, ways["loss"]), steps)
    print(f"{steps} batches: {nodes} nodes, {size:,} bytes")

with torch.no_grad():
    without_graph = kept(partial(validated, ways["loss"]))
print("under no_grad():", without_graph)


# %% list
# Wrong on purpose: do not copy.
outputs = []
for images, labels in loader:
    optimizer.zero_grad()
    scores = model(images)
    F.cross_entropy(scores, labels).backward()
    optimizer.step()
    outputs.append(scores)

nodes = {node for each in outputs for node in nodes_behind(each)}
size = sum(each.nbytes for each in outputs)
print(f"{len(outputs)} outputs: {len(nodes)} nodes, {size:,} bytes")


# %% retained
# Wrong on purpose: do not copy.
def retained(read):
    images, labels = next(iter(loader))
    loss = F.cross_entropy(model(images), labels)
    loss.backward(retain_graph=True)
    return read(loss)


for steps in (10, 20):
    nodes, size = kept(partial(retained, ways["loss"]), steps)
    print(f"{steps} steps: {nodes} nodes, {size:,} bytes")

# %% means
batches = list(DataLoader(digits, batch_size=896))
with torch.no_grad():
    losses = [F.cross_entropy(model(x), y).item() for x, y in batches]
    whole = F.cross_entropy(model(pixels), digits[:][1]).item()

sizes = [len(images) for images, _ in batches]
total = sum(loss * n for loss, n in zip(losses, sizes, strict=True))
print("batches of", *sizes, "digits")
print(f"over all digits   {whole:.3f}")
print(f"weighted by size  {total / sum(sizes):.3f}")
print(f"mean of the means {sum(losses) / len(losses):.3f}")

# %% ignored
torch.manual_seed(0)
scores = torch.randn(3, 4, 5)  # 3 batches of 4 words, 5 classes
words = torch.tensor([[0, 1, 2, 3], [4, 0, 1, -100], [-100] * 4])

total, count = 0.0, 0
for score, word in zip(scores, words, strict=True):
    loss, counted = F.cross_entropy(score, word), (word != -100).sum().item()
    print(f"{counted} words: {loss.item():.3f}")
    if counted:
        total += loss.item() * counted
        count += counted
print(f"mean {total / count:.3f}")

# %% empty
none = DataLoader(digits, batch_size=2000, drop_last=True)
total, count = 0.0, 0
for images, labels in none:
    total += F.cross_entropy(model(images), labels).item() * len(labels)
    count += len(labels)
try:
    print(total / count)
except ZeroDivisionError as error:
    print(f"ZeroDivisionError: {error}")

# %% on-the-device
total, count = 0.0, 0
for images, labels in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    total += loss.detach().float() * len(labels)  # stays on the GPU
    count += len(labels)
print(f"mean loss {float(total) / count:.3f}")  # waits once

# %% sums
for dtype in (torch.bfloat16, torch.float32):
    total = torch.tensor(0.0, dtype=dtype)
    for _ in range(20_000):
        total += 0.1
    print(f"{dtype}: {total.item():.2f}")

# %% acts
if torch.cuda.is_available():
    large = torch.ones(8192, 8192, device="cuda")
    loss, running = torch.ones((), device="cuda"), 0.0
    acts = {
        "detach": lambda: loss.detach(),
        "add": lambda: running + loss.detach().float() * 50,
        "item": lambda: loss.item(),
        "print": lambda: str(loss),
        "if": lambda: bool(loss > 2),
        "cpu": lambda: loss.cpu(),
        "nonzero": lambda: loss.nonzero(),
    }
    waited = {}
    for name, act in acts.items():
        act()  # the first time may wait for different reasons
        large @ large
        torch.cuda.synchronize()
        for _ in range(10):
            large @ large
        earlier = torch.cuda.current_stream().record_event()
        act()
        waited[name] = earlier.query()
        print(name, "has waited" if waited[name] else "has not waited")

# %% average
smoothed = kept(
    partial(trained, ways["loss"]),
    add=lambda average, loss: 0.9 * average + 0.1 * loss,
)
print("nodes of the sum:    ", kept(partial(trained, ways["loss"]))[0])
print("nodes of the average:", smoothed[0])


# %% mean
class Mean:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, loss, samples):
        if torch.is_tensor(loss):
            loss = loss.detach().float()
        self.total += loss * samples
        self.count += samples

    def read(self):
        return float(self.total) / self.count


# %% mean-checked
weights = torch.tensor([3.0, 3.0, 9.0], requires_grad=True)
mean = Mean()
for loss, samples in ((weights[0], 2), (weights[1].half(), 1), (9.0, 1)):
    mean.add(loss, samples)

found = mean.read()
if getattr(mean.total, "grad_fn", None) is not None:
    print("The sum still has a graph.")
elif found != 4.5:
    print(f"(3 · 2 + 3 · 1 + 9 · 1) / 4 is 4.5, not {found}.")
else:
    print("Right: 4.5, from tensors and numbers, and no graph.")
