"""
Write the training loop
=======================

The loop whole, and then with one line left out or in the wrong place.
"""

# %% data
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
centers = 2.5 * torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]])
labels = torch.arange(400) % 4
points = centers[labels] + torch.randn(400, 2)

training = DataLoader(
    TensorDataset(points[:300], labels[:300]), batch_size=64, shuffle=True
)
validation = DataLoader(
    TensorDataset(points[300:], labels[300:]), batch_size=64
)


# %% model
def new_model():
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4)
    )
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


# %% train-epoch
def train_epoch(model, optimizer):
    model.train()
    for inputs, targets in training:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = F.cross_entropy(outputs, targets)
        loss.backward()
        optimizer.step()


# %% evaluate
def evaluate(model):
    model.eval()
    total, right = 0.0, 0
    with torch.no_grad():
        for inputs, targets in validation:
            outputs = model(inputs)
            loss = F.cross_entropy(outputs, targets)
            total += loss.item() * len(targets)
            right += (outputs.argmax(dim=1) == targets).sum().item()
    samples = len(validation.dataset)
    return total / samples, right / samples


# %% run
model, optimizer = new_model()
history = [evaluate(model)]
for _ in range(10):
    train_epoch(model, optimizer)
    history.append(evaluate(model))

print("before:", history[0][1], "after:", history[-1][1])


# %% without
def epoch_without(left_out, model, optimizer):
    for inputs, targets in training:
        if left_out != "zero_grad":
            optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        if left_out == "order":
            optimizer.step()
        if left_out != "backward":
            loss.backward()
        if left_out not in ("step", "order"):
            optimizer.step()


# %% left-out
rows = {}
for left_out in ("nothing", "backward", "step", "order"):
    model, optimizer = new_model()
    before = model[0].weight.detach().clone()
    for _ in range(5):
        epoch_without(left_out, model, optimizer)
    rows[left_out] = {
        "weights changed": not torch.equal(model[0].weight, before),
        "accuracy": round(evaluate(model)[1], 2),
    }

# %% left-out-table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% no-train
model, optimizer = new_model()
train_epoch(model, optimizer)
evaluate(model)
epoch_without("nothing", model, optimizer)
mode_in_second_epoch = model.training

print(mode_in_second_epoch)

# %% no-eval
model.train()
inputs, targets = next(iter(validation))
same_in_training = torch.equal(model(inputs), model(inputs))
model.eval()
same_in_evaluation = torch.equal(model(inputs), model(inputs))

print(same_in_training, same_in_evaluation)

# %% no-no-grad
kept = F.cross_entropy(model(inputs), targets)
with torch.no_grad():
    dropped = F.cross_entropy(model(inputs), targets)

print(kept.grad_fn is not None, dropped.grad_fn is not None)

# %% swapped
predicted = torch.tensor([0.9, 0.2, 0.8])
actual = torch.tensor([1.0, 0.0, 1.0])
right_way = F.binary_cross_entropy(predicted, actual)
swapped = F.binary_cross_entropy(actual, predicted)

print(round(right_way.item(), 2), round(swapped.item(), 2))

# %% swapped-quietly
same = F.mse_loss(predicted, actual) == F.mse_loss(actual, predicted)

try:
    F.cross_entropy(targets, model(inputs))
except RuntimeError as error:
    print(same.item(), isinstance(error, RuntimeError))

# %% softmax-twice
perfect = torch.eye(4)  # a probability of one for the right class
floor = F.cross_entropy(perfect, torch.arange(4)).item()
confident = F.cross_entropy(100 * perfect, torch.arange(4)).item()

print(round(floor, 3), round(confident, 3))

# %% mean-of-means
losses = [
    F.cross_entropy(model(inputs), targets).item()
    for inputs, targets in validation
]
sizes = [len(targets) for _, targets in validation]
mean_of_means = sum(losses) / len(losses)
mean = sum(loss * size for loss, size in zip(losses, sizes, strict=True)) / 100
with torch.no_grad():
    whole = F.cross_entropy(model(points[300:]), labels[300:]).item()

print(sizes, abs(mean - whole) < 1e-6, abs(mean_of_means - whole) < 1e-6)
