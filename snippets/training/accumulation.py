"""
Gradient accumulation: train with a batch that does not fit
===========================================================

One step for a batch in parts, ten lines that explain it, and seven ways to get
it wrong.
"""

# %% digits
from itertools import islice
from weakref import WeakSet

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16
digits = TensorDataset(pixels, torch.tensor(data.target))
loader = DataLoader(digits, batch_size=100, shuffle=True)
part_loader = DataLoader(digits, batch_size=20, shuffle=True)


def new_model(*norm):
    torch.manual_seed(1)
    layers = nn.Linear(64, 32), *norm, nn.ReLU(), nn.Linear(32, 10)
    return nn.Sequential(*layers)


model = new_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.25)

# %% do-this
for images, labels in loader:  # 100 digits, of which 25 fit at once
    optimizer.zero_grad()
    batch_loss = 0.0
    for x, y in zip(images.split(25), labels.split(25), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward()  # adds to .grad, and frees what the pass has kept
        batch_loss += loss.item()
    optimizer.step()
print(f"loss of the last batch: {batch_loss:.3f}")


# %% by-hand
def gradients_in_parts(model, images, labels, size):
    parameters = list(model.parameters())
    sums = [0.0] * len(parameters)  # 1
    for x, y in zip(images.split(size), labels.split(size), strict=True):
        loss = F.cross_entropy(model(x), y)  # 2
        gradients = torch.autograd.grad(loss, parameters)  # 3
        share = len(y) / len(labels)  # 4
        for i, gradient in enumerate(gradients):
            sums[i] = sums[i] + share * gradient  # 5
    return sums


# %% compare
whole, in_parts = new_model(), new_model()
sgd = [torch.optim.SGD(m.parameters(), lr=0.25) for m in (whole, in_parts)]
for _ in range(5):
    for images, labels in loader:
        sgd[0].zero_grad()
        F.cross_entropy(whole(images), labels).backward()
        sgd[0].step()

        sums = gradients_in_parts(in_parts, images, labels, 40)
        for p, gradient in zip(in_parts.parameters(), sums, strict=True):
            p.grad = gradient
        sgd[1].step()
for name, weight in whole.named_parameters():
    other = in_parts.get_parameter(name)
    apart = (weight - other).abs().max()
    grads_apart = (weight.grad - other.grad).abs().max()
    print(f"{name:8}: {apart:.4f} apart, gradients {grads_apart:.4f} apart")

# %% walk
targets = torch.tensor([3.0, 3.0, 3.0, 7.0])
for shares in ([3 / 4, 1 / 4], [1 / 2, 1 / 2], [1, 1]):
    weight = torch.tensor(1.0, requires_grad=True)
    for part, share in zip(targets.split(3), shares, strict=True):
        (share * (weight - part).square().mean()).backward()
    print(f"shares {shares}: gradient {weight.grad.item()}")


# %% kept
class Kept:
    def __init__(self, tensor):
        self.tensor = tensor


def most_kept(model, step):
    """Return the most bytes that autograd keeps at once, weights aside."""
    weights = {p.data_ptr() for p in model.parameters()}
    alive, counts = WeakSet(), [0]

    def pack(tensor):
        kept = Kept(tensor)
        alive.add(kept)  # until autograd lets go of it
        sizes = {k.tensor.data_ptr(): k.tensor.nbytes for k in alive}
        counts.append(sum(sizes[at] for at in sizes.keys() - weights))
        return kept

    with saved_tensors_hooks(pack, lambda kept: kept.tensor):
        step()
    return max(counts)


many = digits[:1600]


def memory(n):
    model, (images, labels) = new_model(), many
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        parts = images.split(1600 // n), labels.split(1600 // n)
        for x, y in zip(*parts, strict=True):
            loss = F.cross_entropy(model(x), y, reduction="sum") / 1600
            loss.backward()
        optimizer.step()

    kept = most_kept(model, step)
    held = [*model.parameters(), *(p.grad for p in model.parameters())]
    for state in optimizer.state.values():
        held += state["exp_avg"], state["exp_avg_sq"]
    return kept / 1000, sum(tensor.nbytes for tensor in held) / 1000


# %% memory
print("parts  kept for backward()  weights, gradients, averages")
for n in (1, 4, 16):
    kept, fixed = memory(n)
    print(f"{n:5} {kept:17.1f} kB {fixed:23.1f} kB")


# %% train
def train(kind, lr, divisor):
    model = new_model()
    optimizer = kind(model.parameters(), lr=lr)
    for _ in range(2):
        for images, labels in loader:
            optimizer.zero_grad()
            for x, y in zip(images.split(25), labels.split(25), strict=True):
                loss = F.cross_entropy(model(x), y) / divisor
                loss.backward()
            optimizer.step()
    with torch.no_grad():
        return F.cross_entropy(model(pixels), digits[:][1]).item()


# %% undivided
# Wrong on purpose: do not copy.
sgd, adamw = torch.optim.SGD, torch.optim.AdamW
for kind, lr in ((sgd, 0.2), (sgd, 0.8), (adamw, 0.01)):
    right = train(kind, lr, divisor=4)
    wrong = train(kind, lr, divisor=1)
    print(f"{kind.__name__}, rate {lr}: {right:.3f}, undivided {wrong:.3f}")

# %% common-loop
# Wrong on purpose: do not copy.
optimizer.zero_grad()
for _ in range(2):
    steps = 0
    for i, (x, y) in enumerate(part_loader, start=1):
        loss = F.cross_entropy(model(x), y) / 4
        loss.backward()
        if i % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    left_over = model[0].weight.grad is not None
    print(f"{i} parts, {steps} steps, gradients left over: {left_over}")

# %% groups
batches = iter(part_loader)
while parts := list(islice(batches, 4)):
    count = sum(len(y) for _, y in parts)
    optimizer.zero_grad()
    for x, y in parts:
        loss = F.cross_entropy(model(x), y, reduction="sum") / count
        loss.backward()
    optimizer.step()
print(f"the last step was for {count} digits")


# %% accumulated
def accumulated(model, images, labels, loss_of, size=25):
    model.zero_grad()
    for x, y in zip(images.split(size), labels.split(size), strict=True):
        loss_of(model(x), y).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def off(found, right):
    return ((found - right).norm() / right.norm()).item()


images, labels = digits[:100]

# %% ignored
some_labels = labels.clone()
some_labels[60:95] = -100  # nobody could read these 35
count = (some_labels != -100).sum()
ways = {
    "mean / 4": lambda s, y: F.cross_entropy(s, y) / 4,
    "sum / 100": lambda s, y: F.cross_entropy(s, y, reduction="sum") / 100,
    "sum / 65": lambda s, y: F.cross_entropy(s, y, reduction="sum") / count,
}
trial = new_model()
right = accumulated(trial, images, some_labels, F.cross_entropy, size=100)
for name, loss_of in ways.items():
    found = accumulated(trial, images, some_labels, loss_of)
    print(f"{name:9}: {off(found, right):.1%} off")

# %% norms
frozen = nn.BatchNorm1d(32).eval()
norms = [nn.BatchNorm1d(32), frozen, nn.GroupNorm(4, 32), nn.LayerNorm(32)]
for norm in norms:
    trial = new_model(norm)
    right = accumulated(trial, images, labels, F.cross_entropy, size=100)
    found = accumulated(
        trial, images, labels, lambda s, y: F.cross_entropy(s, y) / 4
    )
    name = "BatchNorm1d in eval()" if norm is frozen else type(norm).__name__
    print(f"{name:21}: {off(found, right):.1%} off")


# %% clip
def clipped(each_part, max_norm=0.1):
    model = new_model()
    for x, y in zip(images.split(25), labels.split(25), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward()
        if each_part:  # wrong
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return torch.cat([p.grad.flatten() for p in model.parameters()])


right = accumulated(new_model(), images, labels, F.cross_entropy, size=100)
right *= 0.1 / right.norm()
for each_part in (False, True):
    name = "in each part" if each_part else "after the last part"
    print(f"clipped {name}: {off(clipped(each_part), right):.1%} off")


# %% rates
def rates(calls_per_step, steps=20):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for _ in range(calls_per_step):
            schedule.step()
    return found


for calls in (1, 4):
    print(f"{calls} a step:", *(f"{rate:.3f}" for rate in rates(calls)[::5]))


# %% at-once
# Wrong on purpose: do not copy.
def at_once(model, images, labels, size):
    losses = []
    for x, y in zip(images.split(size), labels.split(size), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        losses.append(loss)
    sum(losses).backward()


trial = new_model()
kept = most_kept(trial, lambda: at_once(trial, *many, 100))
print(f"16 parts: {kept / 1000:.1f} kB kept for backward()")

# %% two-and-two
weight = torch.tensor(1.0, requires_grad=True)
for part in targets.split(2):
    (weight - part).square().mean().backward()
print(weight.grad.item())


# %% weighted
def weighted_gradients(model, images, labels, size, weights):
    model.zero_grad()
    total = weights[labels].sum()
    for x, y in zip(images.split(size), labels.split(size), strict=True):
        loss = F.cross_entropy(model(x), y, weights, reduction="sum")
        (loss / total).backward()


# %% weighted-checked
rare = torch.tensor([1.0] * 9 + [5.0])  # the nines count five times
trial = new_model()
weighted_gradients(trial, images, labels, 30, rare)
found = torch.cat([p.grad.flatten() for p in trial.parameters()])
trial.zero_grad()
F.cross_entropy(trial(images), labels, rare).backward()
right = torch.cat([p.grad.flatten() for p in trial.parameters()])
if off(found, right) < 1e-4:
    print("Right: 30, 30, 30 and 10 digits give the gradient of all 100.")
else:
    print(f"{off(found, right):.0%} off: by what does the mean divide?")
