"""
Save and resume
===============

A training that goes on from its file as if it had never stopped.
"""

# %% imports
import atexit
import copy
import math
import random
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


# %% write
def write(content, path):
    partial = Path(f"{path}.partial")
    torch.save(content, partial)
    partial.replace(path)  # until here, the old file stays whole


# %% save
def save(path, parts, generator, **progress):
    states = {name: part.state_dict() for name, part in parts.items()}
    write(dict(**states, **random_states(generator), progress=progress), path)


# %% resume
def resume(path, parts, generator):
    if not Path(path).exists():
        return {}
    saved = torch.load(path, map_location="cpu")
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    set_random_states(saved, generator)
    return saved["progress"]


# %% random-states
def random_states(generator):
    module, count = torch.get_device_module(), torch.accelerator.device_count()
    name, words, *rest = np.random.get_state()
    return {
        "loader": generator.get_state(),
        "torch": torch.get_rng_state(),
        "devices": [module.get_rng_state(i) for i in range(count)],
        "python": random.getstate(),
        "numpy": (name, words.tolist(), *rest),
    }


# %% set-random-states
def set_random_states(states, generator):
    module, count = torch.get_device_module(), torch.accelerator.device_count()
    generator.set_state(states["loader"])
    torch.set_rng_state(states["torch"])
    for i, state in enumerate(states["devices"][:count]):
        module.set_rng_state(state, i)
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])


# %% days
torch.manual_seed(0)
sensors = torch.randn(96, 4)  # four sensors, in degrees above 20
room = sensors.mean(dim=1, keepdim=True)
days = TensorDataset(sensors[:64], room[:64])


# %% build
def build():
    layers = nn.Linear(4, 16), nn.Dropout(0.2), nn.Linear(16, 1)
    model = nn.Sequential(*layers)  # and .to(device), before the optimizer
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler}


# %% one-epoch
def one_epoch(model, optimizer, scheduler, loader):
    model.train()
    for inputs, targets in loader:
        inputs = inputs + np.random.normal(scale=0.1)  # a draught
        inputs[:, random.randrange(4)] = 0  # a sensor fails
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()


# %% error-of
def error_of(model):
    model.eval()
    with torch.no_grad():
        return nn.functional.mse_loss(model(sensors[64:]), room[64:]).item()


# %% train
def train(path, epochs):
    parts, generator = build(), torch.Generator()
    loader = DataLoader(days, 32, shuffle=True, generator=generator)
    errors = resume(path, parts, generator).get("errors", [])
    for _ in range(len(errors), epochs):
        one_epoch(**parts, loader=loader)
        errors.append(error_of(parts["model"]))
        finite = [error for error in errors if math.isfinite(error)]
        if errors[-1] == min(finite, default=None):
            write(parts["model"].state_dict(), f"{path}.best")
        save(path, parts, generator, errors=errors)
    return parts["model"], errors


# %% seed
folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends


def seed(number):
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


# %% go-on
seed(11)
model, errors = train(folder / "whole.pt", epochs=6)
seed(11)
train(folder / "half.pt", epochs=3)

seed(12)  # another process has other random numbers
shutil.copy(folder / "half.pt", folder / "rest.pt")
resumed, later_errors = train(folder / "rest.pt", epochs=6)
print("not stopped:", *(f"{error:.6f}" for error in errors[3:]))
print("resumed:    ", *(f"{error:.6f}" for error in later_errors[3:]))

# %% leave-out
save(folder / "new.pt", build(), torch.Generator())
half, new = torch.load(folder / "half.pt"), torch.load(folder / "new.pt")


def resume_without(*names):
    write(half | {name: new[name] for name in names}, folder / "part.pt")
    other, its_errors = train(folder / "part.pt", epochs=6)
    pairs = zip(other.parameters(), model.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs), its_errors


# %% rows
others = ["optimizer", "scheduler", "loader", "torch", "python", "numpy"]
rows = {"nothing": resume_without()}
for name in ["model", *others, "progress"]:
    rows[name] = resume_without(name)
rows["all but model and progress"] = resume_without(*others)

# %% table
import pandas as pd

column = "largest difference of a weight"
table = {name: {column: far} for name, (far, _) in rows.items()}
pd.DataFrame.from_dict(table, orient="index")

# %% curves
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
(_, same), (_, alone) = rows["nothing"], rows["all but model and progress"]
axes.plot(range(1, 7), errors, label="not stopped")
axes.plot(range(4, 7), same[3:], "o", color="#0072B2", label="all loaded")
axes.plot(range(3, 7), alone[2:], "#D55E00", label="only the model loaded")
axes.set_xlabel("epochs")
axes.set_ylabel("validation error")
axes.legend(loc="lower left")
axes.set_title("A training that was stopped after three epochs")
plt.show()

# %% scaler
scaler = torch.amp.GradScaler("cpu")
scaler.scale(torch.tensor(1.0))
scaler.update(new_scale=1024.0)  # where a long training has come to
save(folder / "scaled.pt", {"scaler": scaler}, torch.Generator())

# %% scaler-resumed
fresh = torch.amp.GradScaler("cpu")
start_scale = fresh.get_scale()
resume(folder / "scaled.pt", {"scaler": fresh}, torch.Generator())
print(start_scale, fresh.get_scale())


# %% refusal
def refusal(attempt, *given):
    try:
        attempt(*given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


# %% cut
# Wrong on purpose: do not copy.
content = (folder / "half.pt").read_bytes()
(folder / "cut.pt").write_bytes(content[:2000])  # killed in torch.save

cut_said = refusal(torch.load, folder / "cut.pt")
print(cut_said)


# %% interrupt
class Interrupt:
    def __reduce__(self):  # called in the middle of torch.save
        raise KeyboardInterrupt


try:
    save(folder / "half.pt", {}, torch.Generator(), note=Interrupt())
except KeyboardInterrupt:
    kept = torch.load(folder / "half.pt")

print(*sorted(path.name for path in folder.glob("half.pt*")))
print("epochs in half.pt:", len(kept["progress"]["errors"]))


# %% shares
saved, parts = torch.load(folder / "half.pt"), build()
for name, part in parts.items():
    part.load_state_dict(saved[name])
weight = saved["model"]["0.weight"]
average = saved["optimizer"]["state"][0]["exp_avg"]

print("before:", weight[0], average[0])
one_epoch(**parts, loader=DataLoader(days, 32))
print("after: ", weight[0], average[0])


# %% keep-best
def keep_best(copied):
    seed(32)
    parts, best = build(), float("inf")
    for _ in range(6):
        one_epoch(**parts, loader=DataLoader(days, 32))
        error = error_of(parts["model"])
        if error < best:
            best, state = error, copied(parts["model"].state_dict())
    parts["model"].load_state_dict(state)
    return best, error_of(parts["model"]), error


# %% best-wrong
# Wrong on purpose: do not copy.
wrong = keep_best(lambda state: state)
print("best {:.4f}, kept {:.4f}, last {:.4f}".format(*wrong))

# %% best
right = keep_best(copy.deepcopy)
print("best {:.4f}, kept {:.4f}, last {:.4f}".format(*right))

# %% assign
# Wrong on purpose: do not copy.
parts = build()
parts["model"].load_state_dict(half["model"], assign=True)
print("error before:", error_of(parts["model"]))
one_epoch(**parts, loader=DataLoader(days, 32))
print("error after: ", error_of(parts["model"]))


# %% moved
def step_after(load_first):
    parts, saved = build(), torch.load(folder / "half.pt")
    model, optimizer = parts["model"], parts["optimizer"]
    if load_first:
        optimizer.load_state_dict(saved["optimizer"])
    model.double()  # leaves the optimizer behind, as .to("cuda") does
    if not load_first:
        optimizer.load_state_dict(saved["optimizer"])
    model(sensors.double()).sum().backward()
    optimizer.step()
    return optimizer.state_dict()["state"][0]


# %% moved-too-late
# Wrong on purpose: do not copy.
late_said = refusal(step_after, True)
print(late_said)

# %% moved-first
state = step_after(load_first=False)
print(*(f"{name}: {each.dtype}" for name, each in state.items()))

# %% map
elsewhere = torch.load(folder / "half.pt", map_location="meta")
states_said = refusal(set_random_states, elsewhere, torch.Generator())
print(states_said)

# %% middle
generator = torch.Generator()
loader = DataLoader(range(8), 4, shuffle=True, generator=generator)
states, order = [generator.get_state()], []
for batch in loader:
    order.append(batch.tolist())
    states.append(generator.get_state())

# %% order
again = []
for state in states[:2]:
    generator.set_state(state)
    again.append([batch.tolist() for batch in loader])

print("not stopped:    ", order)
print("from the start: ", again[0])
print("from the middle:", again[1])

# %% rate
optimizer = torch.optim.Adam(build()["model"].parameters(), lr=0.3)
optimizer.load_state_dict(half["optimizer"])
print(optimizer.param_groups[0]["lr"])

# %% groups
frozen = torch.optim.Adam(build()["model"][2].parameters())
frozen_said = refusal(frozen.load_state_dict, half["optimizer"])
print(frozen_said)
