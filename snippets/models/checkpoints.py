"""
Save and resume a training run
==============================

A run that goes on from its file as if it had never stopped, and state dicts
in sixteen lines.
"""

# %% digits
import atexit
import copy
import random
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16
digits = TensorDataset(pixels, torch.tensor(data.target))
train_set, val_set = random_split(digits, [1500, 297])
loader = DataLoader(train_set, batch_size=100, shuffle=True)


def build():
    layers = [nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
    return model, optimizer, scheduler


def train_epoch(model, optimizer, scheduler):
    for images, labels in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    scheduler.step()


def val_loss(model):
    images, labels = val_set[:]
    model.eval()
    with torch.no_grad():
        loss = F.cross_entropy(model(images), labels).item()
    model.train()
    return loss


folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
path = folder / "checkpoint.pt"

torch.manual_seed(0)
model, optimizer, scheduler = build()
for epoch in range(4):
    train_epoch(model, optimizer, scheduler)
    print(f"epoch {epoch}: loss {val_loss(model):.4f}")

# %% save
checkpoint = {
    "epoch": epoch,
    "model": model.state_dict(),
    "optimizer": optimizer.state_dict(),
    "scheduler": scheduler.state_dict(),
    "random": torch.get_rng_state(),
    "cuda": torch.cuda.get_rng_state_all(),  # empty without CUDA
}
partial = path.with_suffix(".partial")
torch.save(checkpoint, partial)
path = partial.replace(path)  # until here, the old file stays whole

# %% resume
start = 0
model, optimizer, scheduler = build()
if path.exists():
    saved = torch.load(path, map_location="cpu")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    torch.set_rng_state(saved["random"])
    torch.cuda.set_rng_state_all(saved["cuda"])
    start = saved["epoch"] + 1

# %% go-on
for epoch in range(start, 6):
    train_epoch(model, optimizer, scheduler)
    print(f"epoch {epoch}: loss {val_loss(model):.4f}")  # then save, as above

# %% whole
torch.manual_seed(0)
whole, *its_others = build()
losses = []
for _ in range(6):
    train_epoch(whole, *its_others)
    losses.append(val_loss(whole))


def distance(one, other):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


print("without a stop:", *(f"{loss:.4f}" for loss in losses))
print("largest difference of a weight:", distance(model, whole))

# %% generators
own = np.random.default_rng(0)
name, words, *rest = np.random.get_state()
more = {
    "python": random.getstate(),
    "numpy": (name, words.tolist(), *rest),  # torch.load refuses an array
    "own": own.bit_generator.state,
}
torch.save(more, folder / "more.pt")

# %% set-generators
more = torch.load(folder / "more.pt")
random.setstate(more["python"])
np.random.set_state(more["numpy"])
own.bit_generator.state = more["own"]


# %% by-hand
def model_state(model):
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach() for name, tensor in named}  # 1


def load_model(model, state):
    for name, tensor in model_state(model).items():
        tensor.copy_(state[name])  # 2


def optimizer_state(optimizer):
    [group], kept = optimizer.param_groups, optimizer.state
    weights = dict(enumerate(group["params"]))
    state = {i: kept[w] for i, w in weights.items() if w in kept}  # 3
    return {"state": state, "param_groups": [group | {"params": [*weights]}]}


def load_optimizer(optimizer, saved):
    [group], [its_group] = optimizer.param_groups, saved["param_groups"]
    for number, state in saved["state"].items():
        optimizer.state[group["params"][number]] = state  # 4
    group.update(its_group | {"params": group["params"]})  # 5


# %% compare
def equal(one, other):
    if isinstance(one, torch.Tensor):
        return one.equal(other)
    if isinstance(one, dict):
        pairs = [(one[name], other.get(name)) for name in one]
        return one.keys() == other.keys() and all(equal(*p) for p in pairs)
    return one == other


ours, our_adam, _ = build()
first = torch.load(path)
load_model(ours, first["model"])
load_optimizer(our_adam, first["optimizer"])

theirs, their_adam, _ = build()
second = torch.load(path)
theirs.load_state_dict(second["model"])
their_adam.load_state_dict(second["optimizer"])

images, labels = digits[:200]
for step in range(31):
    if step in (0, 1, 10, 30):
        models = equal(model_state(ours), theirs.state_dict())
        adams = equal(optimizer_state(our_adam), their_adam.state_dict())
        print(f"after {step:2} steps: equal models {models}, Adams {adams}")
    for each, adam in [(ours, our_adam), (theirs, their_adam)]:
        torch.manual_seed(step)  # the same dropout
        adam.zero_grad()
        F.cross_entropy(each(images), labels).backward()
        adam.step()


# %% leave-out
def go_on(state):
    model, optimizer, scheduler = build()
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["random"])
    losses = [val_loss(model)]
    for _ in range(state["epoch"] + 1, 6):
        train_epoch(model, optimizer, scheduler)
        losses.append(val_loss(model))
    return model, losses


torch.manual_seed(1)
states = [part.state_dict() for part in build()]
new = dict(zip(("model", "optimizer", "scheduler"), states, strict=True))
new |= {"random": torch.get_rng_state(), "epoch": -1}

left_out = [[], *([name] for name in new)]
left_out.append(["optimizer", "scheduler", "random"])
rows = {}
print(f"{'left out':29}    loaded  next epoch   difference")
for names in left_out:
    replaced = copy.deepcopy({name: new[name] for name in names})
    other, its_losses = go_on(torch.load(path) | replaced)
    rows[", ".join(names)] = its_losses, distance(other, whole)
    row = *its_losses[:2], distance(other, whole)
    numbers = "   ".join(f"{number:9.3f}" for number in row)
    print(f"{', '.join(names) or 'nothing':29}", numbers)

# %% curves
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
same, alone = rows[""][0], rows["optimizer, scheduler, random"][0]
axes.plot(range(1, 7), losses, label="not stopped")
axes.plot([5, 6], same[1:], "o", color="#0072B2", label="resumed with all")
axes.plot([4, 5, 6], alone, "#D55E00", label="with the model only")
axes.set_xlabel("epochs")
axes.set_ylabel("validation loss")
axes.legend()
axes.set_title("A training run that was stopped after four epochs")
plt.show()

# %% best
best_model, adam, its_scheduler = build()
best_model.load_state_dict(whole.state_dict())
best, copied = best_model.state_dict(), copy.deepcopy(best_model.state_dict())
kept = {"best": val_loss(best_model)}
train_epoch(best_model, adam, its_scheduler)  # one epoch too many
kept["last"] = val_loss(best_model)

for name, state in [("state_dict()", best), ("deepcopy", copied)]:
    best_model.load_state_dict(state)
    kept[name] = val_loss(best_model)
print(*(f"{name}: {loss:.3f}" for name, loss in kept.items()), sep="\n")

# %% cut
# Wrong on purpose: do not copy.
half = path.read_bytes()[:2000]  # killed in torch.save(checkpoint, path)
(folder / "cut.pt").write_bytes(half)
try:
    torch.load(folder / "cut.pt")
except RuntimeError as error:
    print(error)

# %% rate
adam = torch.optim.Adam(build()[0].parameters(), lr=0.001)
adam.load_state_dict(torch.load(path)["optimizer"])
loaded_rate = adam.param_groups[0]["lr"]
for group in adam.param_groups:
    group["lr"] = 0.001
print(f"loaded {loaded_rate:.4f}, then set {adam.param_groups[0]['lr']}")

# %% two-runs
# Wrong on purpose: do not copy.
once = torch.load(path)
for run in (1, 2):
    count = once["optimizer"]["state"][0]["step"].item()
    apart = distance(go_on(once)[0], whole)
    print(f"run {run}: starts at step {count:.0f}, ends {apart:.3f} apart")

# %% groups
head = torch.optim.Adam(build()[0][3].parameters())
try:
    head.load_state_dict(torch.load(path)["optimizer"])
except ValueError as error:
    print(error)

# %% map
elsewhere = torch.load(path, map_location="meta")  # as with "cuda"
try:
    torch.set_rng_state(elsewhere["random"])
except TypeError as error:
    print(error)

# %% middle
generator = torch.Generator()
eight = DataLoader(range(8), 2, shuffle=True, generator=generator)
before = generator.get_state()
order = []
for batch in eight:
    order.append(batch.tolist())
    if len(order) == 2:
        middle = generator.get_state()

again = []
for state in (before, middle):
    generator.set_state(state)
    again.append([batch.tolist() for batch in eight])
print("not stopped:    ", order)
print("from before:    ", again[0])
print("from the middle:", again[1])

# %% one-weight
layer = nn.Linear(1, 1)
state = layer.state_dict()
five = {"weight": torch.tensor([[5.0]]), "bias": torch.zeros(1)}
layer.load_state_dict(five)
print(state["weight"].item())

# %% the-rest
from itertools import islice


def the_rest(loader, state, used):
    loader.generator.set_state(state)
    return islice(loader, used, None)


# %% the-rest-checked
generator.manual_seed(5)
before = generator.get_state()
batches = [batch.tolist() for batch in eight]
for used in range(4):
    rest_of_them = [each.tolist() for each in the_rest(eight, before, used)]
    if len(rest_of_them) != 4 - used:
        print("After", used, "batches,", len(rest_of_them), "come.")
        break
    if rest_of_them != batches[used:]:
        print("After", used, "batches, others come than without a stop.")
        break
else:
    print("Every batch comes once, in the same order as without a stop.")
