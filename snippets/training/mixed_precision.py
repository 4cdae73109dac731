"""
Mixed precision: autocast and GradScaler
========================================

The plain loop, autocast and GradScaler in sixteen lines, and what goes wrong.
"""

# %% digits
import math

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16 - 0.3
digits = TensorDataset(pixels, torch.tensor(data.target))
train_set, val_set = random_split(digits, [1500, 297])
train_loader = DataLoader(train_set, batch_size=50, shuffle=True)


def new_model(linear=nn.Linear):
    torch.manual_seed(0)
    return nn.Sequential(linear(64, 32), nn.ReLU(), linear(32, 10))


device = "cpu"  # on a GPU: "cuda"
model = new_model().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

# %% mixed
dtype = torch.float16  # or torch.bfloat16
scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
model.train()
for images, labels in train_loader:
    images, labels = images.to(device), labels.to(device)
    optimizer.zero_grad()
    with torch.autocast(device, dtype=dtype):
        loss = F.cross_entropy(model(images), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

# %% predict
model.eval()
images, labels = val_set[:]
with torch.no_grad(), torch.autocast(device, dtype=dtype):
    scores = model(images.to(device)).float()
accuracy = (scores.argmax(dim=1).cpu() == labels).float().mean().item()
print(f"accuracy {accuracy:.2f}, weights in {model[0].weight.dtype}")


# %% by-hand
class Linear(nn.Linear):
    def forward(self, x):
        return F.linear(x.half(), self.weight.half(), self.bias.half())  # 1


class Scaler:
    scale, good = 65536.0, 0

    def step(self, loss, optimizer, parameters):
        (loss * self.scale).backward()  # 2
        for p in parameters:
            p.grad /= self.scale  # 3
        if all(p.grad.isfinite().all() for p in parameters):
            optimizer.step()  # 4
            self.good += 1
        else:
            self.scale, self.good = self.scale / 2, 0  # 5
        if self.good == 2000:
            self.scale, self.good = self.scale * 2, 0  # 6


# %% compare
ours, theirs = new_model(Linear), new_model(nn.Linear)
our_sgd, their_sgd = (
    torch.optim.SGD(each.parameters(), lr=0.1) for each in (ours, theirs)
)
our_scaler, their_scaler = Scaler(), torch.amp.GradScaler("cpu", 2.0**20)
our_scaler.scale = 2.0**20  # too large, so that it has to fall
unequal = 0
for images, labels in train_loader:
    our_sgd.zero_grad()
    our_loss = F.cross_entropy(ours(images).float(), labels)
    our_scaler.step(our_loss, our_sgd, list(ours.parameters()))

    their_sgd.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        their_loss = F.cross_entropy(theirs(images), labels)
    their_scaler.scale(their_loss).backward()
    their_scaler.step(their_sgd)
    their_scaler.update()

    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        equal = torch.isclose(p.grad, q.grad, 0, 0, equal_nan=True)
        unequal += (p != q).sum().item() + (~equal).sum().item()
print("weights and gradients that differ in 30 steps:", unequal)
print("scales:", our_scaler.scale, their_scaler.get_scale())

# %% ranges
for each in (torch.float32, torch.bfloat16, torch.float16):
    info = torch.finfo(each)
    least = info.smallest_normal * info.eps
    print(f"{each!s:15} from {least:.1e} to {info.max:.1e},", end=" ")
    print(f"after 1 comes {1 + info.eps:.7f}")

# %% operations
x = torch.rand(4, 4)
with torch.autocast("cpu", dtype=torch.float16):
    results = {
        "linear, of float32": F.linear(x, x),
        "matmul, of float32": x @ x,
        "conv1d, of float32": F.conv1d(x[None], x[:, :, None]),
        "add, of float32": x + x,
        "add, of both": x + x.half(),
        "relu, of float16": x.half().relu(),
        "softmax, of float16": x.half().softmax(dim=1),
        "layer_norm, of float16": F.layer_norm(x.half(), (4,)),
        "mse_loss, of float16": F.mse_loss(x.half(), x.half()),
        "cross_entropy, of float16": F.cross_entropy(x.half(), x.half()),
    }
for name, result in results.items():
    print(f"{name:26}", result.dtype)

# %% blur
images = pixels.view(-1, 1, 8, 8)
blurred = F.avg_pool2d(images, 3, stride=1, padding=1)


def learn_to_blur(dtype, scaled, steps=200):
    torch.manual_seed(0)
    model = nn.Conv2d(1, 1, 3, padding=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    for _ in range(steps):
        optimizer.zero_grad()
        mixed = dtype != torch.float32
        with torch.autocast("cpu", dtype=dtype, enabled=mixed):
            outputs = model(images)
            loss = F.mse_loss(outputs, blurred)
        outputs.retain_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return loss.item(), outputs.grad


# %% blurs
blurs = {
    "float32": learn_to_blur(torch.float32, False),
    "bfloat16": learn_to_blur(torch.bfloat16, False),
    "float16": learn_to_blur(torch.float16, False),
    "float16 with a scaler": learn_to_blur(torch.float16, True),
}
for name, (loss, gradient) in blurs.items():
    zeros = (gradient == 0).float().mean().item()
    power = round(math.log10(loss**0.5))
    print(f"{name:22} off by about 1e{power}, zeros {zeros:4.0%}")

# %% whole-loop
# Wrong on purpose: do not copy.
stale = new_model()
stale_sgd = torch.optim.SGD(stale.parameters(), lr=0.1)
images, labels = train_set[:100]
stale_losses = []
with torch.autocast("cpu", dtype=torch.bfloat16):
    for _ in range(4):
        stale_sgd.zero_grad()
        stale_loss = F.cross_entropy(stale(images), labels)
        stale_loss.backward()
        stale_sgd.step()
        stale_losses.append(stale_loss.item())
print([f"{each:.3f}" for each in stale_losses])

# %% half-weights
# Wrong on purpose: do not copy.
halved = new_model().to(torch.bfloat16)
adamw = torch.optim.AdamW(halved.parameters(), lr=0.0001)
before = nn.utils.parameters_to_vector(halved.parameters()).detach()
for images, labels in train_loader:
    adamw.zero_grad()
    F.cross_entropy(halved(images.bfloat16()), labels).backward()
    adamw.step()
after = nn.utils.parameters_to_vector(halved.parameters()).detach()
large = before.abs() > 0.06
print(f"{(after != before)[large].sum()} of {large.sum()} large weights moved")

# %% overflow
sizes = torch.linspace(0.3, 1.5, 64)[:, None]  # in 100 square meters
dollars = 300_000 * sizes


def fit(prices, dtype):
    torch.manual_seed(0)
    line = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(line.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
    for _ in range(150):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = F.mse_loss(line(sizes), prices)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return loss.item(), scaler.get_scale()


half, brain = torch.float16, torch.bfloat16
fits = {}
for unit, each in ((1, half), (1000, half), (1, brain)):
    loss, scale = fits[unit, each] = fit(dollars / unit, each)
    print(f"in units of {unit:4} dollars, {each!s:14}:", end=" ")
    error = round(unit * loss**0.5, -2)
    print(f"off by about {error:,.0f} dollars, scale {scale:.0e}")

# %% clipped
images, labels = train_set[:50]
moves = []
for unscales in (False, True):
    clipped = new_model()
    before = nn.utils.parameters_to_vector(clipped.parameters()).detach()
    sgd = torch.optim.SGD(clipped.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.cross_entropy(clipped(images), labels)
    scaler.scale(loss).backward()
    if unscales:
        scaler.unscale_(sgd)
    nn.utils.clip_grad_norm_(clipped.parameters(), max_norm=0.1)
    scaler.step(sgd)
    scaler.update()
    after = nn.utils.parameters_to_vector(clipped.parameters()).detach()
    moves.append((after - before).norm().item())
    power = round(math.log10(moves[-1]))
    print(f"unscale_: {unscales}, the weights move by about 1e{power}")

# %% refused
images, labels = train_set[:50]
halved = new_model().half()
sgd = torch.optim.SGD(halved.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(halved(images.half()).float().mean()).backward()
try:
    scaler.step(sgd)
except ValueError as error:
    print(error)

# %% life
weight = nn.Parameter(torch.tensor(1.0))
sgd = torch.optim.SGD([weight], lr=0.1)
scaler = torch.amp.GradScaler("cpu", growth_interval=2)
life = []
for gradient in (1.0, 1e36, 1.0, 1.0):
    sgd.zero_grad()
    scaler.scale(gradient * weight).backward()
    scaler.step(sgd)
    scaler.update()
    life.append((round(weight.item(), 4), scaler.get_scale()))
    print(f"weight {weight.item():.1f}, scale {scaler.get_scale():,.0f}")


# %% stepped
def stepped(scaler, optimizer):
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale() >= before > 0


# %% stepped-checked
answers = []
for gradient in (1.0, 1e36, 1.0):
    sgd.zero_grad()
    scaler.scale(gradient * weight).backward()
    answers.append(stepped(scaler, sgd))
if answers == [True, False, True]:
    print("Right: it tells a skipped step from one that was taken.")
else:
    print("It says", answers, "but only the second step was skipped.")
