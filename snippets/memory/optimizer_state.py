"""
The optimizer's state
=====================

Count what an optimizer keeps, before the training and after its first step.
"""

# %% imports
import itertools
import json
import tempfile
import weakref
from pathlib import Path

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile


# %% held
def held(optimizer):
    found, waiting = {}, [optimizer.state]
    while waiting:
        one = waiting.pop()
        if torch.is_tensor(one):
            found[id(one)] = one.nbytes
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, (list, tuple)):
            waiting += one
    return sum(found.values())


# %% state-bytes
def state_bytes(parameters, kind, device="meta", **options):
    total = 0
    for parameter in parameters:
        twin = torch.zeros_like(parameter, device=device)
        optimizer = kind([twin], **options)
        if parameter.requires_grad:
            twin.grad = torch.zeros_like(twin)
        optimizer.step()
        total += held(optimizer)
    return total


# %% digit-reader
def digit_reader(dtype=torch.float32):
    torch.manual_seed(0)
    layers = nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)
    return nn.Sequential(*layers).to(dtype)


torch.manual_seed(1)
images, digits = torch.randn(64, 784), torch.randint(10, (64,))


# %% train
def train(model, optimizer, autocast=False):
    optimizer.zero_grad()
    inputs = images.to(model[0].weight.dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = F.cross_entropy(model(inputs), digits)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% count
model = digit_reader()
print("parameters:", sum(p.nbytes for p in model.parameters()))
print("AdamW, forecast:", state_bytes(model.parameters(), optim.AdamW))

optimizer = optim.AdamW(model.parameters())
train(model, optimizer)
print("AdamW, counted:", held(optimizer))


# %% before-it-exists
with torch.device("meta"):
    large = nn.ModuleList(nn.Linear(8192, 8192) for _ in range(100))

gigabytes = {
    "parameters": sum(p.nbytes for p in large.parameters()) / 1e9,
    "AdamW": state_bytes(large.parameters(), optim.AdamW) / 1e9,
    "SGD": state_bytes(large.parameters(), optim.SGD, momentum=0.9) / 1e9,
}
print(gigabytes)


# %% needs-numbers
try:
    state_bytes(model.parameters(), optim.Adafactor)
except RuntimeError as error:
    refused = str(error)
    print("RuntimeError:", refused)

adafactor = state_bytes(model.parameters(), optim.Adafactor, device="cpu")
print("Adafactor:", adafactor)


# %% kinds
kinds = {
    "SGD": (optim.SGD, {}),
    "SGD, momentum": (optim.SGD, {"momentum": 0.9}),
    "Adafactor": (optim.Adafactor, {}),
}
if hasattr(optim, "Muon"):  # since torch 2.9
    kinds["Muon, matrices"] = (optim.Muon, {})
kinds |= {
    "Adagrad": (optim.Adagrad, {}),
    "RMSprop": (optim.RMSprop, {}),
    "RMSprop, momentum": (optim.RMSprop, {"momentum": 0.9}),
    "RMSprop, centered": (optim.RMSprop, {"centered": True}),
    "Adam": (optim.Adam, {}),
    "AdamW": (optim.AdamW, {}),
}


# %% more-kinds
kinds |= {
    "RMSprop, both": (optim.RMSprop, {"momentum": 0.9, "centered": True}),
    "Adam, amsgrad": (optim.Adam, {"amsgrad": True}),
    "AdamW, amsgrad": (optim.AdamW, {"amsgrad": True}),
    "Adadelta": (optim.Adadelta, {}),
    "Adamax": (optim.Adamax, {}),
    "NAdam": (optim.NAdam, {}),
    "RAdam": (optim.RAdam, {}),
    "Rprop": (optim.Rprop, {}),
    "ASGD": (optim.ASGD, {}),
}


# %% make
def make(model, kind, options):
    only_matrices = kind.__name__ == "Muon"
    parameters = [
        parameter
        for parameter in model.parameters()
        if parameter.ndim == 2 or not only_matrices
    ]
    return kind(parameters, **options), parameters


# %% bill
def bill(kind, options, dtype=torch.float32, autocast=False):
    model = digit_reader(dtype)
    optimizer, trained = make(model, kind, options)
    sizes = {"state at first": held(optimizer)}
    train(model, optimizer, autocast)
    sizes["weights"] = sum(p.nbytes for p in trained)
    sizes["gradients"] = sum(p.grad.nbytes for p in trained)
    sizes["state"] = held(optimizer)
    numbers = sum(p.numel() for p in trained)
    sizes = {name: size / numbers for name, size in sizes.items()}
    return sizes | {"keeps": list(optimizer.state.get(trained[0], []))}


# %% multiples
bills = {name: bill(*kind) for name, kind in kinds.items()}
print(bills["AdamW"])


# %% multiples-drawn
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 5.5))
left = [0.0] * len(bills)
colors = {"weights": "#0072B2", "gradients": "#E69F00", "state": "#D55E00"}
for part, color in colors.items():
    widths = [each[part] for each in bills.values()]
    axis.barh(list(bills), widths, left=left, color=color, label=part)
    left = [start + width for start, width in zip(left, widths, strict=True)]
axis.set_title("What each parameter takes after the first step")
axis.set(xlabel="bytes", xticks=range(0, 21, 4))
axis.invert_yaxis()
axis.legend()
plt.show()


# %% multiples-tabulated
import pandas as pd

table = {
    name: {
        "before a step": round(each["state at first"] / 4, 2),
        "after it": round(each["state"] / 4, 2),
        "keeps": ", ".join(each["keeps"]),
    }
    for name, each in bills.items()
}
pd.DataFrame.from_dict(table, orient="index")


# %% first-steps
model = digit_reader()
optimizer = optim.AdamW(model.parameters())
sizes = [held(optimizer)]
for _ in range(3):
    train(model, optimizer)
    sizes.append(held(optimizer))

print(sizes)


# %% sixteen-bits
ways = {
    "float32": {},
    "float32, autocast": {"autocast": True},
    "bfloat16": {"dtype": torch.bfloat16},
}
small = {
    f"{name} in {way}": bill(*kinds[name], **options)
    for name in ("AdamW", "SGD, momentum", "Adafactor")
    for way, options in ways.items()
}


# %% sixteen-bits-tabulated
import pandas as pd

parts = ("weights", "gradients", "state")
table = {
    name: {part: round(each[part], 2) for part in parts}
    | {"together": round(sum(each[part] for part in parts), 2)}
    for name, each in small.items()
}
pd.DataFrame.from_dict(table, orient="index")


# %% frozen-first
model = digit_reader()
model[0].requires_grad_(False)
trained = [p for p in model.parameters() if p.requires_grad]
given = {"all": list(model.parameters()), "trained": trained}
frozen = {
    kind.__name__: {
        name: state_bytes(some, kind) for name, some in given.items()
    }
    for kind in (optim.AdamW, optim.Adagrad)
}
print(frozen)


# %% frozen-later
# Wrong on purpose: do not copy.
model = digit_reader()
optimizer = optim.AdamW(model.parameters())
train(model, optimizer)
before = held(optimizer)
model[0].requires_grad_(False)
train(model, optimizer)

print("before freezing:", before)
print("after it:", held(optimizer))


# %% forget-the-frozen
for parameter in model[0].parameters():
    parameter.grad = None
    optimizer.state.pop(parameter, None)

print("without the frozen layer:", held(optimizer))


# %% converted
# Wrong on purpose: do not copy.
model = digit_reader()
optimizer = optim.AdamW(model.parameters())
train(model, optimizer)
model.to(torch.bfloat16)
as_before = held(optimizer)
try:
    train(model, optimizer)
except RuntimeError as error:
    print("RuntimeError:", error)


# %% convert-the-state
optimizer.load_state_dict(optimizer.state_dict())
converted = held(optimizer)
train(model, optimizer)

print(as_before, converted)


# %% convolutions
shapes = (128, 784), (64, 64, 7, 7), (64, 64, 3, 3), (64, 64, 1, 1)
shares = {}
for shape in shapes:
    weight = torch.zeros(shape, requires_grad=True)
    state = state_bytes([weight], optim.Adafactor, device="cpu")
    shares[shape] = round(state / weight.nbytes, 2)

print(shares)


# %% biases
try:
    optim.Muon(digit_reader().parameters())
except ValueError as error:
    two_dimensions = str(error)
    print("ValueError:", two_dimensions)


# %% still-held
model = digit_reader()
optimizer = optim.AdamW(model.parameters())
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=10)
train(model, optimizer)
optimizer.zero_grad()
after_zero_grad = held(optimizer)
weight = weakref.ref(model[0].weight)
average = weakref.ref(optimizer.state[model[0].weight]["exp_avg"])

print("after zero_grad:", after_zero_grad)


# %% deleted
alive = {}
del model
alive["model deleted"] = weight() is not None, average() is not None
del optimizer
alive["and optimizer"] = weight() is not None, average() is not None
del scheduler
alive["and scheduler"] = weight() is not None, average() is not None

print(alive)


# %% cleared
# Wrong on purpose: do not copy.
def losses(kind, steps=50):
    model = digit_reader()
    optimizer = kind(model.parameters())
    before = [train(model, optimizer) for _ in range(steps)]
    optimizer.state.clear()
    return before[-1], max(train(model, optimizer) for _ in range(3))


jumps = [losses(kind) for kind in (optim.RMSprop, optim.Adam)]
for name, (before, behind) in zip(("RMSprop", "Adam"), jumps, strict=True):
    print(f"{name}: {before:.6f}, then up to {behind:.6f}")


# %% highest
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
def extra(**how):
    model = digit_reader()
    optimizer = optim.AdamW(model.parameters(), **how)
    train(model, optimizer)
    return highest(optimizer.step)


extras = {
    "one by one": extra(foreach=False),
    "foreach": extra(foreach=True),
    "fused": extra(fused=True),
}
print(extras)


# %% history
weights = torch.ones(1000, requires_grad=True)
optimizer = optim.LBFGS([weights], max_iter=40, history_size=5)


def closure():
    optimizer.zero_grad()
    loss = (torch.arange(1, 1001) * weights**4).sum()
    loss.backward()
    return loss


optimizer.step(closure)
times = held(optimizer) / weights.nbytes
print(round(times, 2), "times the weights")
