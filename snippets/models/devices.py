"""
Use the GPU: model.to(device) and batch.to(device)
==================================================

Train where the machine is fastest, and find what was left behind.
"""

# %% apartments
import torch
from torch import nn
from torch.nn import functional as F
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
for batch, target in loader:
    batch, target = batch.to(device), target.to(device)
    optimizer.zero_grad()
    loss = F.mse_loss(model(batch), target)
    loss.backward()
    optimizer.step()
print(f"last loss {loss.item():.2f}, on {loss.device}")

# %% copies
apartment = torch.tensor([70.0, 3, 20])
there = apartment.to("meta")
same = apartment.to(apartment.device)
same[0] = 71

print(apartment, there, sep="\n")


# %% by-hand
def move(model, place):
    for weight in model.parameters():  # 1
        weight.data = weight.data.to(place)  # 2
        if weight.grad is not None:
            weight.grad.data = weight.grad.data.to(place)
    for module in model.modules():  # 3
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, buffer.to(place))  # 4
    return model  # 5


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


# %% compare
def new_pair():
    pair = nn.ModuleList([Careful(), Careless()])
    pair[0](apartments).sum().backward()
    return pair


by_hand = move(new_pair(), torch.float64)
by_torch = new_pair().to(torch.float64)

for careful, careless in (by_hand, by_torch):
    weight = careful.layers[0].weight
    print("registered:", weight.dtype, weight.grad.dtype, careful.mean.dtype)
    print("plain:     ", careless.layers[0].weight.dtype, careless.mean.dtype)

# %% on-cuda
if torch.cuda.is_available():
    layer = nn.Linear(3, 1)
    weight = layer.weight
    layer.to("cuda")
    print("the same weight" if layer.weight is weight else "a new one")

# %% pretend
from torch._subclasses.fake_tensor import FakeTensorMode


def pretend(attempt, *models):
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        try:
            return f"works on {attempt('cuda:0', *models).device}"
        except RuntimeError as error:
            return str(error)


# %% batch-left
# Wrong on purpose: do not copy.
def batch_left(device, model):
    model.to(device)
    apartments.to(device)  # a copy that nobody keeps
    return model(apartments)


print(pretend(batch_left, nn.Linear(3, 1)))


# %% batch-moved
def batch_moved(device, model):
    model.to(device)
    batch = apartments.to(device)
    return model(batch)


print(pretend(batch_moved, nn.Linear(3, 1)))


# %% left
# Wrong on purpose: do not copy.
def made_in_forward(device):
    batch = apartments.to(device)
    return batch - torch.full((3,), 0.5)


def class_weights(device):
    scores = apartments.to(device)
    criterion = nn.CrossEntropyLoss(weight=torch.ones(3))
    return criterion(scores, scores.argmax(dim=1))


def running_sum(device):
    total = torch.zeros(1)
    total += apartments.to(device).mean()
    return total


left = {
    "a tensor and a layer on self": (batch_moved, Careless()),
    "a tensor made in forward": (made_in_forward,),
    "the weights of the classes": (class_weights,),
    "a sum over batches": (running_sum,),
}
for name, attempt in left.items():
    print(f"{name}: {pretend(*attempt).partition(',')[0]}")


# %% brought
def made_beside(device):
    batch = apartments.to(device)
    return batch - torch.full((3,), 0.5, device=batch.device)


def weights_moved(device):
    scores = apartments.to(device)
    criterion = nn.CrossEntropyLoss(weight=torch.ones(3)).to(device)
    return criterion(scores, scores.argmax(dim=1))


def sum_beside(device):
    total = torch.zeros(1, device=device)
    total += apartments.to(device).mean()
    return total


brought = {
    "a tensor and a layer on self": (batch_moved, Careful()),
    "a tensor made in forward": (made_beside,),
    "the weights of the classes": (weights_moved,),
    "a sum over batches": (sum_beside,),
}
for name, attempt in brought.items():
    print(f"{name}: {pretend(*attempt)}")

# %% moved-late
# Wrong on purpose: do not copy.
late = nn.Linear(3, 1)
resumed = torch.optim.Adam(late.parameters())
resumed.load_state_dict(optimizer.state_dict())
late.to(torch.float64)
late(apartments.double()).mean().backward()
try:
    resumed.step()
except RuntimeError as error:
    print(error)

# %% moved-first
early = nn.Linear(3, 1).to(torch.float64)
resumed = torch.optim.Adam(early.parameters())
resumed.load_state_dict(optimizer.state_dict())
print(resumed.state[early.weight]["exp_avg"].dtype)

# %% find
pair = new_pair().to("meta")
for name, tensor in [*pair.named_parameters(), *pair.named_buffers()]:
    print(tensor.device, name)

# %% two-names
scaler = Careful()
weight, mean = scaler.layers[0].weight, scaler.mean
scaler.to(torch.float64)
print(weight.dtype, mean.dtype)


# %% plain-tensors
def plain_tensors(model):
    return [
        f"{path}.{name}".removeprefix(".")
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor)
    ]


# %% plain-tensors-checked
trial = nn.ModuleDict({"careful": Careful(), "careless": Careless()})
trial["careless"].note = "two rooms"
found = plain_tensors(trial)
if [name for name in found if name.startswith("careful.")]:
    print("What Careful holds is registered, and moves:", found)
elif found != ["careless.mean"]:
    print("Only careless.mean is a plain tensor, not", found)
else:
    print("Right: model.to(device) would leave", *found, "behind.")
