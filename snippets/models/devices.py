"""
Choose a device
===============

Train where the machine is fastest, and find what was left behind.
"""

# %% apartments
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
apartments = torch.rand(64, 3)  # area, rooms, age
prices = apartments @ torch.tensor([[4.0], [1.0], [-2.0]])
loader = DataLoader(TensorDataset(apartments, prices), batch_size=16)

# %% choose
device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)
print(device)

# %% train
model = nn.Linear(3, 1).to(device)  # first move, then make the optimizer
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
total = torch.zeros(1, device=device)
for batch, target in loader:
    batch, target = batch.to(device), target.to(device)
    loss = nn.functional.mse_loss(model(batch), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach()
print("mean loss", total / len(loader))

# %% argument
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--device", type=torch.device, default=device)
forced = parser.parse_args(["--device", "cuda:1"])
print(forced.device)

# %% copies
apartment = torch.tensor([70.0, 3, 20])
there = apartment.to("meta")
same = apartment.to(apartment.device)
same[0] = 71

print(apartment, there, sep="\n")


# %% careless
# Wrong on purpose: do not copy.
class Careless(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.full((3,), 0.5)  # a plain tensor
        self.layers = [nn.Linear(3, 1)]  # a plain list

    def forward(self, apartments):
        return self.layers[0](apartments - self.mean)


# %% careful
class Careful(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.full((3,), 0.5))
        self.layers = nn.ModuleList([nn.Linear(3, 1)])

    def forward(self, apartments):
        return self.layers[0](apartments - self.mean)


# %% moved
careful, careless = Careful(), Careless()
careful(apartments).sum().backward()
both = nn.Sequential(careful, careless)
returned = both.to("meta")

# %% places
places = {
    "a registered weight": careful.layers[0].weight,
    "its gradient": careful.layers[0].weight.grad,
    "a buffer": careful.mean,
    "a plain tensor": careless.mean,
    "a weight in a plain list": careless.layers[0].weight,
}

# %% moved-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
for y, tensor in enumerate(places.values()):
    end = ("cpu", "meta").index(tensor.device.type)
    axes.plot([0, end], [y, y], color="#0072B2")
    axes.plot(0, y, "o", color="white", markeredgecolor="#0072B2")
    axes.plot(end, y, "o", color=("#D55E00", "#0072B2")[end])
axes.set_xticks([0, 1], ["cpu", "meta"])
axes.set_yticks(range(len(places)), list(places))
axes.invert_yaxis()
axes.set_title("Where each tensor is after model.to('meta')")
plt.show()

# %% pretend
from torch._subclasses.fake_tensor import FakeTensorMode


def pretend(attempt, model):
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        try:
            return f"works on {attempt(model, 'cuda:0').device}"
        except RuntimeError as error:
            return str(error)


# %% batch-left
# Wrong on purpose: do not copy.
def batch_left(model, device):
    model.to(device)
    apartments.to(device)  # a copy that nobody keeps
    return model(apartments)


print(pretend(batch_left, nn.Linear(3, 1)))


# %% batch-moved
def batch_moved(model, device):
    model.to(device)
    batch = apartments.to(device)
    return model(batch)


print(pretend(batch_moved, nn.Linear(3, 1)))


# %% made-in-forward
# Wrong on purpose: do not copy.
class MadeHere(nn.Linear):
    def forward(self, apartments):
        mean = torch.full((3,), 0.5)
        return super().forward(apartments - mean)


print(pretend(batch_moved, MadeHere(3, 1)))


# %% made-beside
class MadeBeside(nn.Linear):
    def forward(self, apartments):
        mean = torch.full((3,), 0.5, device=apartments.device)
        return super().forward(apartments - mean)


print(pretend(batch_moved, MadeBeside(3, 1)))

# %% not-registered
print("Careless:", pretend(batch_moved, Careless()))
print("Careful: ", pretend(batch_moved, Careful()))


# %% loss-left
# Wrong on purpose: do not copy.
kinds = torch.arange(64) % 3


def loss_left(model, device):
    criterion = nn.CrossEntropyLoss(weight=torch.ones(3))
    return criterion(batch_moved(model, device), kinds.to(device))


print(pretend(loss_left, nn.Linear(3, 3)))


# %% loss-moved
def loss_moved(model, device):
    criterion = nn.CrossEntropyLoss(weight=torch.ones(3)).to(device)
    return criterion(batch_moved(model, device), kinds.to(device))


print(pretend(loss_moved, nn.Linear(3, 3)))


# %% sum-left
# Wrong on purpose: do not copy.
def sum_left(model, device):
    total = torch.zeros(1)
    total += batch_moved(model, device).mean()
    return total


print(pretend(sum_left, nn.Linear(3, 1)))


# %% refusal
def refusal(attempt):
    try:
        attempt()
    except (AssertionError, IndexError, RuntimeError, TypeError) as error:
        return str(error)


# %% resume
def resume(move_first):
    model = nn.Linear(3, 1)
    if move_first:
        model.double()
    resumed = torch.optim.Adam(model.parameters())
    resumed.load_state_dict(optimizer.state_dict())
    model.double()
    model(apartments.double()).mean().backward()
    resumed.step()
    return resumed.state[model.weight]["exp_avg"].dtype


# %% moved-late
# Wrong on purpose: do not copy.
print(refusal(lambda: resume(move_first=False)))

# %% moved-first
print(resume(move_first=True))


# %% tensors-of
def tensors_of(model, path="model", seen=()):
    seen = {*seen, *model.modules()}
    yield from model.named_parameters(path)
    yield from model.named_buffers(path)
    for at, module in model.named_modules(prefix=path):
        for name, value in vars(module).items():
            for part in value if type(value) in (list, tuple) else [value]:
                if isinstance(part, torch.Tensor):
                    yield f"{at}.{name} (plain)", part
                elif isinstance(part, nn.Module) and part not in seen:
                    yield from tensors_of(part, f"{at}.{name} (plain)", seen)


# %% find
for name, tensor in [("batch", apartments), *tensors_of(both)]:
    print(f"{tensor.device!s:5}", name)

# %% read-on-the-cpu
# Wrong on purpose: do not copy.
looked_up = refusal(lambda: nn.Embedding(3, 2)(torch.tensor([3])))
scores, classes = torch.zeros(1, 3), torch.tensor([3])
scored = refusal(lambda: nn.CrossEntropyLoss()(scores, classes))

print(looked_up, scored, sep="\n")

# %% without-cuda
answer = refusal(lambda: torch.zeros(1, device="cuda"))

print(torch.__version__, torch.version.cuda, answer, sep="\n")

# %% to-numpy
# Wrong on purpose: do not copy.
as_numpy = refusal(there.numpy)
print(as_numpy)

# %% doubles
# Wrong on purpose: do not copy.
convolution = nn.Conv1d(64, 1, 1)
refused = refusal(lambda: convolution(apartments.double()))
print(refused)

# %% floats
print(convolution(apartments.double().float()).dtype)

# %% integers
# Wrong on purpose: do not copy.
counted = refusal(lambda: nn.Linear(3, 1)(torch.tensor([70, 3, 20])))
print(counted)


# %% one-number
def discounted(model, device):
    return batch_moved(model, device) * torch.tensor(0.9)


print(pretend(discounted, nn.Linear(3, 1)))

# %% overlooked
# Wrong on purpose: do not copy.
faked = pretend(batch_left, nn.Conv1d(64, 1, 1))
weight = torch.ones(3, 1, device="meta")
product = apartments @ weight

print("fake:", faked)
print("meta: works on", product.device)

# %% on-cuda
if torch.cuda.is_available():
    for layer in (nn.Linear(3, 1), nn.Conv1d(64, 1, 1)):
        weight = layer.weight
        layer.to("cuda")
        print(refusal(lambda layer=layer: layer(apartments)))
        print(layer(apartments.to("cuda")).device)
        print("the same weight" if layer.weight is weight else "a new one")
