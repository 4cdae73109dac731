"""
How much memory does Adam need?
===============================

Forecast the bytes of weights, gradients and optimizer state, and Adam in
seventeen lines.
"""

# %% digits
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

data = load_digits()
images = torch.tensor(data.data[:300], dtype=torch.float32) / 16
labels = torch.tensor(data.target[:300])


def reader(width=32):
    torch.manual_seed(0)
    layers = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(width, 10))


def train(model, optimizer, autocast=False):
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        scores = model(images.to(model[0].weight.dtype))
        loss = F.cross_entropy(scores, labels)
    loss.backward()
    optimizer.step()


def state_bytes(optimizer):
    kept = [each.values() for each in optimizer.state.values()]
    return sum(tensor.nbytes for tensors in kept for tensor in tensors)


# %% forecast
with torch.device("meta"):  # shapes without numbers take no memory
    model = reader(32_000)  # your model
weights = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(weights)
for weight in weights:
    weight.grad = torch.zeros_like(weight)
optimizer.step()  # makes the state
state = [t for kept in optimizer.state.values() for t in kept.values()]
for held in (model.parameters(), [w.grad for w in weights], state):
    print(f"{sum(tensor.nbytes for tensor in held) / 1e9:.2f} GB")


# %% by-hand
class Adam:
    def __init__(self, parameters, lr=0.001):
        self.parameters, self.lr, self.state = list(parameters), lr, {}  # 1

    @torch.no_grad()
    def step(self):
        for p in self.parameters:
            if p.grad is None:  # 2
                continue
            if p not in self.state:  # 3
                averages = torch.zeros_like(p), torch.zeros_like(p)  # 4
                self.state[p] = torch.tensor(0.0), *averages
            steps, mean, square = self.state[p]
            t = steps.add_(1).item()
            mean.lerp_(p.grad, 1 - 0.9)  # 5
            square.mul_(0.999).addcmul_(p.grad, p.grad, value=1 - 0.999)
            size = square.sqrt() / (1 - 0.999**t) ** 0.5 + 1e-8  # 6
            p.addcdiv_(mean, size, value=-self.lr / (1 - 0.9**t))


# %% compare
def trained(kind, steps=50):
    model = reader()
    optimizer = kind(model.parameters())
    for _ in range(steps):
        train(model, optimizer)
    return model, optimizer


(model, ours), (twin, theirs) = trained(Adam), trained(torch.optim.Adam)
for p, q in zip(model.parameters(), twin.parameters(), strict=True):
    pairs = zip(ours.state[p], theirs.state[q].values(), strict=True)
    same = p.equal(q), *(mine.equal(yours) for mine, yours in pairs)
    print(f"{tuple(p.shape)!s:9} weights and state equal: {all(same)}")

# %% first-weight
weight = model[0].weight
steps, mean, square = ours.state[weight]
for tensor in (weight, weight.grad, mean, square, steps):
    print(f"{tuple(tensor.shape)!s:8} {tensor.nbytes:,} bytes")

# %% kinds
optim = torch.optim
kinds = {
    "SGD": (optim.SGD, {}),
    "SGD, momentum": (optim.SGD, {"momentum": 0.9}),
    "Adafactor": (optim.Adafactor, {}),
    "Adagrad": (optim.Adagrad, {}),
    "RMSprop": (optim.RMSprop, {}),
    "RMSprop, momentum": (optim.RMSprop, {"momentum": 0.9}),
    "RMSprop, centered": (optim.RMSprop, {"centered": True}),
    "Adam": (optim.Adam, {}),
    "AdamW": (optim.AdamW, {}),
    "AdamW, amsgrad": (optim.AdamW, {"amsgrad": True}),
    "Adadelta": (optim.Adadelta, {}),
    "Adamax": (optim.Adamax, {}),
    "NAdam": (optim.NAdam, {}),
    "RAdam": (optim.RAdam, {}),
    "Rprop": (optim.Rprop, {}),
    "ASGD": (optim.ASGD, {}),
}
if hasattr(optim, "Muon"):  # since torch 2.9
    kinds["Muon, matrices"] = (optim.Muon, {})
other_types = {
    "AdamW, autocast": {"autocast": True},
    "AdamW, bfloat16": {"dtype": torch.bfloat16},
}


def spent(kind, options, dtype=torch.float32, autocast=False):
    model = reader().to(dtype)
    only = 2 if kind.__name__ == "Muon" else None
    given = [p for p in model.parameters() if only in (None, p.ndim)]
    optimizer = kind(given, **options)
    before = state_bytes(optimizer)
    train(model, optimizer, autocast)
    sizes = {
        "weights": sum(p.nbytes for p in given),
        "gradients": sum(p.grad.nbytes for p in given),
        "state": state_bytes(optimizer),
        "state before a step": before,
    }
    numbers = sum(p.numel() for p in given)
    each = {name: size / numbers for name, size in sizes.items()}
    return each | {"keeps": ", ".join(optimizer.state.get(given[0], []))}


table = {name: spent(*kind) for name, kind in kinds.items()}
for name, options in other_types.items():
    table[name] = spent(optim.AdamW, {}, **options)

# %% bytes-per-parameter
import pandas as pd

pd.DataFrame.from_dict(table, orient="index").round(1)

# %% first-steps
model = reader()
optimizer = torch.optim.AdamW(model.parameters())
sizes = [state_bytes(optimizer)]
for _ in range(3):
    train(model, optimizer)
    sizes.append(state_bytes(optimizer))
print(sizes)


# %% highest
import itertools
import json
import tempfile
from pathlib import Path

from torch.profiler import ProfilerActivity, profile


def highest(call):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        p.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    events.sort(key=lambda event: event.get("ts", 0))
    sizes = [event.get("args", {}).get("Bytes", 0) for event in events]
    return max(itertools.accumulate(sizes))


# %% while-it-runs
deep = nn.Sequential(*[nn.Linear(64, 64) for _ in range(20)])
deep(torch.ones(1, 64)).sum().backward()
whole = sum(p.nbytes for p in deep.parameters())
ways = {
    "one by one": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
extra = {}
for name, way in ways.items():
    optimizer = torch.optim.AdamW(deep.parameters(), **way)
    optimizer.step()  # makes the state
    extra[name] = highest(optimizer.step)
    print(f"{name:10} {extra[name] / whole:.1%} of the weights")

# %% frozen-later
# Wrong on purpose: do not copy.
model = reader()
optimizer = torch.optim.AdamW(model.parameters())
train(model, optimizer)
before = state_bytes(optimizer)
model[0].requires_grad_(False)
train(model, optimizer)
print("before freezing:", before, "after it:", state_bytes(optimizer))

# %% forget-the-frozen
for parameter in model[0].parameters():
    parameter.grad = None
    optimizer.state.pop(parameter, None)
print("without the frozen layer:", state_bytes(optimizer))

# %% converted
# Wrong on purpose: do not copy.
model = reader()
optimizer = torch.optim.AdamW(model.parameters())
train(model, optimizer)
model.to(torch.bfloat16)
as_before = state_bytes(optimizer)
try:
    train(model, optimizer)
except RuntimeError as error:
    print("RuntimeError:", error)

# %% convert-the-state
optimizer.load_state_dict(optimizer.state_dict())
converted = state_bytes(optimizer)
train(model, optimizer)
print(as_before, converted)

# %% needs-numbers
for device in ("cpu", "meta"):
    weight = torch.zeros(32, 64, device=device, requires_grad=True)
    weight.grad = torch.zeros_like(weight)
    optimizer = torch.optim.Adafactor([weight])
    try:
        optimizer.step()
        print(f"on the {device}: {state_bytes(optimizer)} bytes")
    except RuntimeError as error:
        print("RuntimeError:", error)

# %% adafactor-shapes
for shape in ((128, 784), (64, 64, 7, 7), (64, 64, 3, 3), (64, 64, 1, 1)):
    weight = torch.zeros(shape, requires_grad=True)
    weight.grad = torch.zeros(shape)
    adafactor = optim.Adafactor([weight])
    adafactor.step()
    print(shape, round(state_bytes(adafactor) / weight.nbytes, 2))

# %% deleted
import weakref

model = reader()
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
train(model, optimizer)
optimizer.zero_grad()
weight = weakref.ref(model[0].weight)
average = weakref.ref(optimizer.state[model[0].weight]["exp_avg"])


def alive():
    return [tensor() is not None for tensor in (weight, average)]


del model
print("without the model:    ", alive())
del optimizer
print("without the optimizer:", alive())
del scheduler
print("without the scheduler:", alive())

# %% embedding
words = nn.Embedding(1000, 64, dtype=torch.bfloat16)
words.weight.grad = torch.ones_like(words.weight)
optimizer = torch.optim.AdamW(words.parameters())
print(state_bytes(optimizer))
optimizer.step()
print(state_bytes(optimizer))


# %% small-adam
class SmallAdam(Adam):
    def step(self):
        for p, (steps, *averages) in self.state.items():
            self.state[p] = steps, *(each.to(p.dtype) for each in averages)
        super().step()
        for p, (steps, *averages) in self.state.items():
            self.state[p] = steps, *(each.bfloat16() for each in averages)


# %% small-adam-checked
losses, sizes = [], []
for kind in (Adam, SmallAdam):
    model, optimizer = trained(kind)
    losses.append(F.cross_entropy(model(images), labels).item())
    kept = [each[1:] for each in optimizer.state.values()]
    sizes.append(sum(each.nbytes for averages in kept for each in averages))
if 2 * sizes[1] != sizes[0]:
    print(f"The averages take {sizes[1]:,} bytes, Adam's {sizes[0]:,}.")
elif losses[1] > 1.1 * losses[0]:
    print(f"Its loss is {losses[1]:.2f}, and Adam's is {losses[0]:.2f}.")
else:
    print("Right: the averages take half as much, and it learns as well.")
