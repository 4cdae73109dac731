"""
Load weights: load_state_dict() and strict=False
================================================

Weights from a file, and load_state_dict in thirteen lines.
"""

# %% digits
import atexit
import shutil
import tempfile
from collections import OrderedDict
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16
labels = torch.tensor(data.target)


def build(classes):
    layers = {"body": nn.Linear(64, 32), "relu": nn.ReLU()}
    layers["head"] = nn.Linear(32, classes)
    return nn.Sequential(OrderedDict(layers))


def accuracy(model):
    with torch.no_grad():
        guesses = model(pixels[1500:]).argmax(dim=1)
    return f"accuracy {(guesses == labels[1500:]).float().mean():.1f}"


trained = build(classes=10)
optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
for _ in range(50):
    optimizer.zero_grad()
    F.cross_entropy(trained(pixels[:1500]), labels[:1500]).backward()
    optimizer.step()
print("trained:", accuracy(trained))

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
path = folder / "weights.pt"
torch.save(trained.state_dict(), path)

# %% same-classes
weights = torch.load(path, map_location="cpu")
model = build(classes=10)
print(model.load_state_dict(weights))

# %% what-fits
parity = build(classes=2)  # even or odd
own = parity.state_dict()
fits = {
    name: tensor
    for name, tensor in weights.items()
    if name in own and tensor.shape == own[name].shape
}
print(parity.load_state_dict(fits, strict=False))


# %% by-hand
def load_state_dict(model, state, strict=True):
    own, missing, mismatched = model.state_dict(), [], []
    for name in own:
        if name not in state:
            missing.append(name)  # 1
        elif own[name].shape != state[name].shape:
            mismatched.append(name)  # 2
        else:
            own[name].copy_(state[name])  # 3
    unexpected = [name for name in state if name not in own]  # 4
    if mismatched or (strict and (missing or unexpected)):  # 5
        raise RuntimeError(f"{missing} {unexpected} {mismatched}")
    return missing, unexpected


# %% compare
def outcome(load, file, strict):
    torch.manual_seed(1)  # so that both models start alike
    fresh = build(classes=10)
    try:
        names = [list(each) for each in load(fresh, file, strict)]
    except RuntimeError:
        names = "RuntimeError"
    return names, torch.cat([each.flatten() for each in fresh.parameters()])


bias = {"head.bias": torch.ones(10)}
files = {"its own": weights, "bias": bias, "wider": {"head.bias": labels}}
files["renamed"] = {f"old.{name}": each for name, each in weights.items()}
for what, file in files.items():
    for strict in (True, False):
        ours, theirs = (
            outcome(load, file, strict)
            for load in (load_state_dict, nn.Module.load_state_dict)
        )
        names = ours[0] == theirs[0]
        numbers = ours[1].equal(theirs[1])
        print(f"{what:8} strict={strict!s:6}", end="")
        print(f"same names: {names}, same numbers: {numbers}")

# %% names
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
for y, (name, tensor) in enumerate(weights.items()):
    color = "#0072B2" if name in fits else "#D55E00"
    axes.plot([0, 1], [y, y], color=color, marker="o")
    label = f"{name} {tuple(tensor.shape)}  "
    axes.text(0, y, label, ha="right", va="center")
    axes.text(1, y, f"  {name} {tuple(own[name].shape)}", va="center")
axes.set(xlim=(-0.9, 1.9), ylim=(3.5, -0.5))
axes.axis("off")
axes.set_title("File, left, and model: blue fits, orange has another shape")
plt.show()

# %% prefixes
parallel = nn.DataParallel(build(classes=10))
compiled = torch.compile(trained)
in_place = build(classes=10)
in_place.compile()

inside = parallel.module
for each in (parallel, inside, compiled, trained, in_place):
    print(next(iter(each.state_dict())))

# %% prefixed
prefixed = compiled.state_dict()
fresh = build(classes=10)
try:
    fresh.load_state_dict(prefixed)
except RuntimeError as error:
    print(error)

# %% silent
# Wrong on purpose: do not copy.
skipped = fresh.load_state_dict(prefixed, strict=False)
print(skipped)
print(accuracy(fresh))

# %% without-prefix
plain = {
    name.replace("_orig_mod.", "").removeprefix("module."): tensor
    for name, tensor in prefixed.items()
}
cured = build(classes=10)
print(cured.load_state_dict(plain), accuracy(cured))

# %% size-mismatch
# Wrong on purpose: do not copy.
other = build(classes=2)
try:
    other.load_state_dict(weights, strict=False)
except RuntimeError as error:
    print(error)
print("body loaded:", other.body.weight.equal(weights["body.weight"]))

# %% casts
half = build(classes=10).half()
large = torch.load(path) | {"head.bias": torch.full((10,), 70_000.0)}
half.load_state_dict(large)
print(half.head.bias.data[:3])

# %% assign
# Wrong on purpose: do not copy.
optimizer = torch.optim.SGD(half.parameters(), lr=0.1)
half.load_state_dict(large, assign=True)
start = half.head.weight.detach().clone()
F.cross_entropy(half(pixels), labels).backward()
optimizer.step()
print(half.head.bias.data[:3])
print("has a gradient:", half.head.weight.grad.ne(0).any().item())
print("changed by the step:", not half.head.weight.equal(start))

# %% meta
with torch.device("meta"):
    empty = build(classes=10)
empty.load_state_dict(weights, assign=True)
print(empty.body.weight.device, accuracy(empty))

# %% refused
import pickle

torch.save(trained, folder / "model.pt")
try:
    torch.load(folder / "model.pt")
except pickle.UnpicklingError as error:
    print(str(error).replace("\33[1m", "").replace("\33[0m", ""))

# %% refused-globals
import argparse

import numpy as np

loss, mean = np.float64(0.5), np.zeros(64)
settings = argparse.Namespace(classes=10)
objects = {"model": trained, "loss": loss, "mean": mean}
objects |= {"settings": settings, "folder": Path("runs")}
for what, value in objects.items():
    torch.save({what: value}, folder / "object.pt")
    try:
        told = torch.load(folder / "object.pt")
    except pickle.UnpicklingError as error:
        told = str(error).partition("error: ")[2].partition(" was")[0]
    print(f"{what}: {told}")

# %% plain
checkpoint = {
    "model": trained.state_dict(),
    "loss": float(loss),
    "mean": torch.from_numpy(mean),
    "settings": vars(settings),
    "folder": str(Path("runs")),
}
torch.save(checkpoint, folder / "plain.pt")
loaded = torch.load(folder / "plain.pt")
print(loaded["loss"], loaded["settings"], loaded["folder"])

# %% allowed
old = folder / "old.pt"
torch.save({"loss": loss, "settings": settings}, old)
wants = sorted(torch.serialization.get_unsafe_globals_in_checkpoint(old))
print(wants)

number = [np._core.multiarray.scalar, np.dtype, np.dtypes.Float64DType]
with torch.serialization.safe_globals([argparse.Namespace, *number]):
    allowed = torch.load(old)
print(allowed)


# %% runs-code
# Wrong on purpose: do not copy.
class Harmless:
    def __reduce__(self):
        return print, ("the file printed this line",)


torch.save(Harmless(), folder / "harmless.pt")
torch.load(folder / "harmless.pt", weights_only=False)

# %% from-a-gpu
from zipfile import ZipFile

moved = folder / "moved.pt"
with ZipFile(path) as ours, ZipFile(moved, "w") as theirs:
    for name in ours.namelist():
        content = ours.read(name).replace(b"\3\0\0\0cpu", b"\6\0\0\0cuda:0")
        theirs.writestr(name, content)

# %% no-gpu
try:
    torch.load(moved)
except RuntimeError as error:
    asked_for = str(error)
    print(asked_for)

here = torch.load(moved, map_location="cpu")
print(here["body.weight"].device)

# %% sizes
table = torch.zeros(1000, 250)  # a megabyte
parts = {"table": table, "row": table[0], "own row": table[0].clone()}
sizes = {}
for what, part in parts.items():
    torch.save(part, folder / "part.pt")
    sizes[what] = (folder / "part.pt").stat().st_size
print(sizes)

# %% safetensors
from safetensors.torch import load_file, load_model, save_file, save_model

safe = folder / "weights.safetensors"
save_file(trained.state_dict(), safe)
again = load_file(safe)
print(build(classes=10).load_state_dict(again))

twice = nn.ModuleList([trained.body, trained.body])  # one layer, two names
try:
    save_file(twice.state_dict(), safe)
except RuntimeError as error:
    print(str(error).strip().partition(": [")[0])
save_model(twice, safe)
print(load_model(twice, safe))

# %% capital
layer = nn.Linear(2, 1)
nn.init.ones_(layer.weight)
nn.init.zeros_(layer.bias)
state = {"weight": torch.tensor([[5.0, 5.0]]), "Bias": torch.tensor([7.0])}
layer.load_state_dict(state, strict=False)
print(layer(torch.ones(1, 2)).item())


# %% all-or-nothing
def load_all_or_nothing(model, state):
    shapes = [
        {name: tensor.shape for name, tensor in each.items()}
        for each in (model.state_dict(), state)
    ]
    if shapes[0] != shapes[1]:
        raise RuntimeError("Names or shapes differ.")
    model.load_state_dict(state)


# %% all-or-nothing-checked
two, ten = build(classes=2), build(classes=10)
before = two.body.weight.tolist(), ten.body.weight.tolist()
more = weights | {"scale": torch.ones(1)}
raised = 0
for model, state in ((two, weights), (two, fits), (ten, more)):
    try:
        load_all_or_nothing(model, state)
    except RuntimeError:
        raised += 1
untouched = (two.body.weight.tolist(), ten.body.weight.tolist()) == before
load_all_or_nothing(ten, weights)
if raised < 3:
    print("Another shape, a missing name or one more raised no error.")
elif not untouched:
    print("It raised, but the body was loaded before.")
elif not ten.head.weight.equal(weights["head.weight"]):
    print("The head that fits was not loaded.")
else:
    print("Right: what fits loads, and what differs changes nothing.")
