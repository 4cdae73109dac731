"""
Choose an optimizer: SGD, Adam or AdamW
=======================================

AdamW in two groups, a sweep of rates, and three optimizers in fifteen lines.
"""

# %% digits
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

data = load_digits()
images = torch.tensor(data.data, dtype=torch.float32) / 16
labels = torch.tensor(data.target)


def new_model():
    torch.manual_seed(0)
    norm = nn.LayerNorm(32)
    return nn.Sequential(nn.Linear(64, 32), norm, nn.ReLU(), nn.Linear(32, 10))


model = new_model()

# %% groups
weights = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() <= 1]  # biases and norms
groups = [{"params": weights}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=0.001, weight_decay=0.01)

for group in optimizer.param_groups:
    shapes = [tuple(p.shape) for p in group["params"]]
    print(f"decay {group['weight_decay']}:", *shapes)


# %% sweep
def train(kind, **options):
    model = new_model()
    optimizer = kind(model.parameters(), **options)
    for first in [*range(0, 1500, 50)] * 3:
        batch = slice(first, first + 50)
        optimizer.zero_grad()
        F.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        return F.cross_entropy(model(images[1500:]), labels[1500:]).item()


rates = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
kinds = {
    "SGD": {"kind": torch.optim.SGD},
    "SGD with momentum": {"kind": torch.optim.SGD, "momentum": 0.9},
    "AdamW": {"kind": torch.optim.AdamW},
}
losses = {
    name: [train(**options, lr=rate) for rate in rates]
    for name, options in kinds.items()
}
print("rate              ", *(f"{rate:5}" for rate in rates))
for name, row in losses.items():
    print(f"{name:18}", *(f"{loss:5.2f}" for loss in row))


# %% by-hand
def sgd(w, memory, lr, momentum=0.0, weight_decay=0.0):
    grad = w.grad + weight_decay * w  # 1
    memory[w] = momentum * memory.get(w, 0.0) + grad  # 2
    w -= lr * memory[w]  # 3


def adam(w, memory, lr, weight_decay=0.0):
    grad = w.grad + weight_decay * w  # 4
    mean, square, t = memory.get(w, (0.0, 0.0, 0))
    mean = 0.9 * mean + 0.1 * grad  # 5
    square, t = 0.999 * square + 0.001 * grad**2, t + 1  # 6
    memory[w] = mean, square, t
    size = (square / (1 - 0.999**t)) ** 0.5  # 7
    w -= lr * mean / (1 - 0.9**t) / (size + 1e-8)  # 8


def adamw(w, memory, lr, weight_decay=0.01):
    w *= 1 - lr * weight_decay  # 9
    adam(w, memory, lr)  # 10


# %% step
class Optimizer:
    def __init__(self, update, groups, **call):
        self.update, self.memory = update, {}
        self.param_groups = [{**call, **group} for group in groups]  # 11

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            options = {k: group[k] for k in group if k != "params"}  # 12
            for w in group["params"]:
                if w.grad is not None:  # 13
                    self.update(w, self.memory, **options)


# %% compare
def trained(make, update, **options):
    model = new_model().double()
    layers = [list(layer.parameters()) for layer in model]
    groups = [{"params": layers[0], "weight_decay": 0.1}]
    groups += [{"params": layers[1] + layers[3]}]
    optimizer = make(update, groups, **options)
    for first in range(0, 1500, 50):
        batch = slice(first, first + 50)
        model.zero_grad()
        scores = model(images[batch].double())
        F.cross_entropy(scores, labels[batch]).backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters())


def of_torch(update, groups, **options):
    names = {sgd: "SGD", adam: "Adam", adamw: "AdamW"}
    return getattr(torch.optim, names[update])(groups, **options)


for update, options in (
    (sgd, {"lr": 0.1}),
    (sgd, {"lr": 0.03, "momentum": 0.9}),
    (adam, {"lr": 0.01}),
    (adamw, {"lr": 0.01}),
):
    ours, real = (trained(m, update, **options) for m in (Optimizer, of_torch))
    apart = (ours - real).abs().max().item()
    print(f"{update.__name__:5} {options}: {apart:.6f} apart")


# %% how-far
def moves(gradients, kind, **options):
    w = torch.zeros(1, dtype=torch.float64)
    optimizer, lengths = kind([w], lr=0.1, **options), []
    for gradient in gradients:
        before = w.item()
        w.grad = torch.full_like(w, gradient)
        optimizer.step()
        lengths.append(before - w.item())
    return lengths


strides = {
    "SGD": {"kind": torch.optim.SGD},
    "momentum 0.9": {"kind": torch.optim.SGD, "momentum": 0.9},
    "Adam": {"kind": torch.optim.Adam},
}
gradients = {
    "2, 2, ...": [2.0] * 80,
    "200, 200, ...": [200.0] * 80,
    "2, -2, ...": [2.0, -2.0] * 40,
}

print("                gradients        step 1  step 2  step 3  step 80")
for name, options in strides.items():
    for given, numbers in gradients.items():
        steps = moves(numbers, **options)
        shown = [f"{steps[at]:7.3f}" for at in (0, 1, 2, 79)]
        print(f"{name:15} {given:15}", *shown)

# %% two-rates
body, head = model[:3].parameters(), model[3].parameters()
optimizer = torch.optim.AdamW(
    [{"params": body, "lr": 0.0001}, {"params": head}], lr=0.001
)

for group in optimizer.param_groups:
    print(len(group["params"]), group["lr"], group["weight_decay"])

# %% rents
torch.manual_seed(0)
sizes = 70 + 20 * torch.randn(100, 1)
rents = 300 + 15 * sizes + 50 * torch.randn(100, 1)


def fit(kind, inputs, targets, lr):
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    optimizer = kind(model.parameters(), lr=lr)
    for _ in range(300):
        optimizer.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return model(inputs).detach()


def scaled(numbers):
    return (numbers - numbers.mean()) / numbers.std()


# %% unscaled
# Wrong on purpose: do not copy.
by_sgd = fit(torch.optim.SGD, sizes, rents, lr=0.001)
print("SGD, sizes as they are:", by_sgd[0].item())

by_sgd = fit(torch.optim.SGD, scaled(sizes), rents, lr=0.1)
print(f"SGD, scaled sizes: ${(by_sgd - rents).abs().mean():.0f} off")

# %% too-far
# Wrong on purpose: do not copy.
by_adam = fit(torch.optim.Adam, scaled(sizes), rents, lr=0.01)
print(f"Adam, rents as they are: ${(by_adam - rents).abs().mean():.0f} off")

by_adam = fit(torch.optim.Adam, scaled(sizes), scaled(rents), lr=0.01)
by_adam = by_adam * rents.std() + rents.mean()
print(f"Adam, scaled rents: ${(by_adam - rents).abs().mean():.0f} off")


# %% two-decays
def decayed(sizes, kind, weight_decay):
    w = torch.ones(2)
    optimizer = kind([w], lr=0.02, weight_decay=weight_decay)
    for step in range(100):
        w.grad = torch.tensor(sizes) * (-1) ** step
        optimizer.step()
    return w.tolist()


both = [0.01, 100.0]
decays = {
    "without decay": {"kind": torch.optim.Adam, "weight_decay": 0.0},
    "Adam": {"kind": torch.optim.Adam, "weight_decay": 0.1},
    "AdamW": {"kind": torch.optim.AdamW, "weight_decay": 0.1},
}
left = {name: decayed(both, **given) for name, given in decays.items()}
print("gradients of        ±0.01    ±100")
for name, numbers in left.items():
    print(f"{name:17}", *(f"{number:7.3f}" for number in numbers))


# %% learn
def learn(model, optimizer):
    before = [p.detach().clone() for p in model.parameters()]
    model.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()
    pairs = zip(model.named_parameters(), before, strict=True)
    return {name: (p - old).abs().max().item() for (name, p), old in pairs}


# %% replaced
# Wrong on purpose: do not copy.
model = new_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model[3] = nn.Linear(32, 10)  # a new head
lost = learn(model, optimizer)
print({name: round(move, 4) for name, move in lost.items()})

# %% added
optimizer.add_param_group({"params": model[3].parameters()})
found = learn(model, optimizer)
print({name: round(move, 4) for name, move in found.items()})

# %% attribute
# Wrong on purpose: do not copy.
optimizer.lr = 0.0
moving = learn(model, optimizer)
print(f"{max(moving.values()):.4f}")

# %% every-group
for group in optimizer.param_groups:
    group["lr"] = 0.0
resting = learn(model, optimizer)
print(f"{max(resting.values()):.4f}")

# %% once
print(*(round(far, 3) for far in moves([2.0, 0.0], torch.optim.Adam)))


# %% nesterov
def nesterov(w, memory, lr, momentum):
    memory[w] = momentum * memory.get(w, 0.0) + w.grad
    w -= lr * (w.grad + momentum * memory[w])


# %% nesterov-checked
w, real, memory = torch.zeros(3), torch.zeros(3), {}
sgd_of_torch = torch.optim.SGD([real], lr=0.1, momentum=0.9, nesterov=True)
for step in range(20):
    w.grad = real.grad = torch.tensor([2.0, -200.0, 0.1]) * (step + 1)
    nesterov(w, memory, lr=0.1, momentum=0.9)
    sgd_of_torch.step()
    if not torch.allclose(w, real):
        print(f"After step {step + 1}: {w.tolist()}, not {real.tolist()}")
        break
else:
    print("Right: twenty steps, and the weights are those of torch.optim.")
