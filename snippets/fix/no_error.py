"""
Wrong without an error
======================

Faults that raise nothing, each beside what shows or mends it.
"""

# %% better-in-validation
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
inputs = torch.randn(1000, 20)
labels = (inputs[:, 0] + inputs[:, 1] > 0).long()
model = nn.Sequential(
    nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2)
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def loss_on(part):
    """Return the mean loss on a part of the data."""
    return F.cross_entropy(model(inputs[part]), labels[part])


in_the_loop = 0.0
for start in range(0, 320, 32):  # one epoch of ten batches
    loss = loss_on(slice(start, start + 32))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    in_the_loop += loss.item() / 10

model.eval()
with torch.no_grad():
    validation = loss_on(slice(320, 1000)).item()
    afterwards = loss_on(slice(0, 320)).item()
print(f"training, in the loop: {in_the_loop:.2f}")
print(f"validation:            {validation:.2f}")
print(f"training, afterwards:  {afterwards:.2f}")


# %% same-class
def trained(inputs, labels):
    """Train a small classifier, and return the class of each input."""
    torch.manual_seed(0)
    size = inputs.shape[1]
    model = nn.Sequential(nn.Linear(size, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model(inputs).argmax(dim=1)


rooms = 1000 + torch.randn(200, 4)  # numbers around 1000, that differ by 1
warm = (rooms[:, 0] > 1000).long()
as_they_are = trained(rooms, warm)
scaled = trained((rooms - rooms.mean(dim=0)) / rooms.std(dim=0), warm)

print("labels:     ", warm.bincount(minlength=2).tolist())
print("as they are:", as_they_are.bincount(minlength=2).tolist())
print("scaled:     ", scaled.bincount(minlength=2).tolist())


# %% deep-lstm
def spread_of(layers):
    """Return how far the outputs of a new LSTM differ between inputs."""
    torch.manual_seed(0)
    lstm = nn.LSTM(4, 32, num_layers=layers, batch_first=True)
    outputs, _ = lstm(torch.randn(64, 20, 4))
    return outputs[:, -1].std(dim=0).mean().item()


spreads = {layers: spread_of(layers) for layers in (1, 2, 4, 8)}
for layers, spread in spreads.items():
    print(f"{layers} layers: {spread:.6f}")


# %% flat
class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 16, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, windows):
        outputs, _ = self.lstm(windows)
        return self.head(outputs[:, -1])


def forecast(series):
    """Train on windows of 12 steps, and return the forecasts."""
    torch.manual_seed(0)
    windows = series.unfold(0, 13, 1)[..., None]
    past, future = windows[:, :-1], windows[:, -1]
    model = Forecast()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        loss = F.mse_loss(model(past), future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model(past).detach()


months = torch.arange(120)
sales = 500 + 100 * torch.sin(months * 2 * torch.pi / 12)
mean, deviation = sales.mean(), sales.std()
unscaled = forecast(sales)
rescaled = forecast((sales - mean) / deviation) * deviation + mean

for name, values in [
    ("sales", sales),
    ("as they are", unscaled),
    ("scaled", rescaled),
]:
    print(f"{name}: {values.min():.0f} to {values.max():.0f}")


# %% compare
@torch.no_grad()
def outputs_of(model, inputs, there):
    """Return what each layer of a copy of the model gives, by its name."""
    model, found = copy.deepcopy(model).eval().to(there), {}
    for name, layer in model.named_modules():

        def keep(layer, args, output, name=name):
            if isinstance(output, tuple):  # as of an LSTM
                output = output[0]
            found.setdefault(name, output.cpu().double())  # its first call

        if not list(layer.children()):
            layer.register_forward_hook(keep)
    model(inputs.to(there))
    return found


def compare(model, inputs, there):
    """Return how far the output of each layer is off, as a share of it."""
    here = outputs_of(model, inputs, "cpu")
    other = outputs_of(model, inputs, there)
    return {
        name: ((other[name] - right).abs().max() / right.abs().max()).item()
        for name, right in here.items()
    }


# On your machine, "cuda" or "mps"; here another dtype gives other digits.
for name, off in compare(model, inputs, torch.bfloat16).items():
    print(f"layer {name}: {off:.0e}")


# %% graph-grows
def size_of_graph(tensor):
    """Return how many operations the graph of a tensor has."""
    seen, todo = set(), [tensor.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [parent for parent, _ in node.next_functions]
    return len(seen)


layer = nn.Linear(3, 3)
sizes = {}
for detached in (False, True):
    state, sizes[detached] = torch.zeros(1, 3), []
    for _ in range(4):
        if detached:
            state = state.detach()
        state = torch.tanh(layer(state))
        sizes[detached].append(size_of_graph(state.sum()))

print("carried: ", sizes[False])
print("detached:", sizes[True])
