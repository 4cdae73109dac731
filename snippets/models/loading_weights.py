"""
Load weights
============

Weights from a file go into a model that may differ from the saved one.
"""

# %% trained
import argparse
import io
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
from torch import nn


def classifier(classes):
    layers = {"body": nn.Linear(64, 32), "relu": nn.ReLU()}
    layers["head"] = nn.Linear(32, classes)
    return nn.Sequential(OrderedDict(layers))


# %% saved
def saved(content):
    file = io.BytesIO()  # a file in memory
    torch.save(content, file)
    file.seek(0)
    return file


torch.manual_seed(0)
trained = classifier(classes=10)
file = saved(trained.state_dict())

# %% same-classes
weights = torch.load(file, map_location="cpu")
same = classifier(classes=10)

print(same.load_state_dict(weights))


# %% load-what-fits
def load_what_fits(model, weights):
    own = model.state_dict()
    both = [name for name in own if name in weights]
    fits = [name for name in both if own[name].shape == weights[name].shape]
    model.load_state_dict({name: weights[name] for name in fits}, strict=False)
    return {
        "missing": [name for name in own if name not in weights],
        "unexpected": [name for name in weights if name not in own],
        "other shape": [name for name in both if name not in fits],
    }


# %% three-classes
letters = classifier(classes=3)
report = load_what_fits(letters, weights)

for what, names in report.items():
    print(f"{what}: {names}")

# %% names
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
mine = letters.state_dict()
for y, (name, tensor) in enumerate(weights.items()):
    color = "#D55E00" if name in report["other shape"] else "#0072B2"
    axes.plot([0, 1], [y, list(mine).index(name)], color=color, marker="o")
    label = f"{name} {tuple(tensor.shape)}  "
    axes.text(0, y, label, ha="right", va="center")
for y, (name, tensor) in enumerate(mine.items()):
    axes.text(1, y, f"  {name} {tuple(tensor.shape)}", va="center")
axes.set(xlim=(-0.9, 1.9), ylim=(3.5, -0.5))
axes.axis("off")
axes.set_title("File, left, and model: blue fits, orange has another shape")
plt.show()

# %% backwards
backwards = {name: weights[name].clone() for name in reversed(weights)}
reader = classifier(classes=10)
layer = reader.body.weight
reader.load_state_dict(backwards)
backwards["body.weight"].zero_()

print(list(backwards))
print(layer.data[0, :3], backwards["body.weight"][0, :3], sep="\n")


# %% refusal
def refusal(content):
    try:
        torch.load(saved(content))
    except pickle.UnpicklingError as error:
        return str(error).replace("\33[1m", "").replace("\33[0m", "")


# %% refused
loss, settings = np.float64(0.5), argparse.Namespace(classes=10)
refused = {
    "a whole model": refusal(trained),
    "a NumPy number": refusal({"loss": loss}),
    "a NumPy array": refusal({"mean": np.zeros(64)}),
    "settings": refusal({"settings": settings}),
    "a path": refusal({"folder": Path("runs")}),
}

print(refused["a whole model"])

# %% refused-globals
for what, text in refused.items():
    print(f"{what}: {text.partition('error: ')[2].partition('. ')[0]}")

# %% plain
checkpoint = {"weights": trained.state_dict()}
checkpoint |= {"loss": float(loss), "settings": vars(settings)}
loaded = torch.load(saved(checkpoint))

print(loaded["loss"], loaded["settings"])

# %% allowed
old = {"loss": loss, "settings": settings}
look = torch.serialization.get_unsafe_globals_in_checkpoint
wants = sorted(look(saved(old)))

number = [np._core.multiarray.scalar, np.dtype, np.dtypes.Float64DType]
with torch.serialization.safe_globals([argparse.Namespace, *number]):
    allowed = torch.load(saved(old))

print(wants, allowed, sep="\n")


# %% runs-code
# Wrong on purpose: do not copy.
class Harmless:
    def __reduce__(self):
        return print, ("the file printed this line",)


torch.load(saved(Harmless()), weights_only=False)

# %% prefixes
parallel = nn.DataParallel(classifier(classes=10))
original = classifier(classes=10)
compiled = torch.compile(original)
in_place = classifier(classes=10)
in_place.compile()

for model in (parallel, compiled, in_place):
    print(list(model.state_dict()))

# %% prefixed
prefixed = compiled.state_dict()
fresh = classifier(classes=10)
try:
    fresh.load_state_dict(prefixed)
except RuntimeError as error:
    told = str(error)

print(told)

# %% silent
# Wrong on purpose: do not copy.
skipped = fresh.load_state_dict(prefixed, strict=False)

print(skipped)

# %% without-prefix
plain = {
    name.replace("_orig_mod.", "").removeprefix("module."): tensor
    for name, tensor in prefixed.items()
}

print(fresh.load_state_dict(plain))

# %% inside
inside = parallel.module.state_dict(), original.state_dict()

for state in inside:
    print(list(state))

# %% size-mismatch
# Wrong on purpose: do not copy.
other = classifier(classes=3)
try:
    other.load_state_dict(weights, strict=False)
except RuntimeError as error:
    mismatch = str(error)
    print(mismatch)

print(other.body.bias.data[:3], weights["body.bias"][:3], sep="\n")

# %% from-a-gpu
from zipfile import ZipFile

moved = io.BytesIO()
with ZipFile(saved(weights)) as ours, ZipFile(moved, "w") as theirs:
    for name in ours.namelist():
        content = ours.read(name).replace(b"\3\0\0\0cpu", b"\6\0\0\0cuda:0")
        theirs.writestr(name, content)

# %% no-gpu
try:
    torch.load(io.BytesIO(moved.getvalue()))
except RuntimeError as error:
    asked_for = str(error)
    print(asked_for)

here = torch.load(io.BytesIO(moved.getvalue()), map_location="cpu")
print(here["body.weight"].device)

# %% casts
scores = nn.Linear(2, 1, bias=False).half()
wide = {"weight": torch.tensor([[70_000.0, 1 / 3]], dtype=torch.float64)}
scores.load_state_dict(wide)

print(wide["weight"], scores.weight.data, sep="\n")

# %% assign
# Wrong on purpose: do not copy.
optimizer = torch.optim.SGD(scores.parameters(), lr=0.1)
scores.load_state_dict(wide, assign=True)
scores(torch.ones(2, dtype=torch.float64)).backward()
optimizer.step()

print(scores.weight.data, scores.weight.grad, sep="\n")

# %% sizes
table = torch.zeros(1000, 250)  # a megabyte
parts = {"table": table, "row": table[0], "own row": table[0].clone()}
sizes = {name: len(saved(part).getvalue()) for name, part in parts.items()}

print(sizes)

# %% safetensors
import json

from safetensors.torch import load, save

content = save(trained.state_dict())
again = load(content)
start = 8 + int.from_bytes(content[:8], "little")
header = json.loads(content[8:start])

print(sorted(again), header["head.bias"], sep="\n")

# %% safetensors-refuses
tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
tied[1].weight = tied[0].weight

states, told = [{"loss": 0.5}, tied.state_dict()], []
for state in states:
    try:
        save(state)
    except (ValueError, RuntimeError) as error:
        told.append(str(error).strip().partition(": [")[0])

print(*told, sep="\n")
