"""
See it overfit, and stop it
===========================

A network learns 100 digits by heart, and three remedies are tried.
"""

# %% so-far
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid, test = order.split([1200, 300, 297])


def train_epoch(model, loader, optimizer):
    model.train()
    for batch, targets in loader:
        loss = F.cross_entropy(model(batch), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(model, images, labels):
    model.eval()
    with torch.no_grad():
        scores = model(images)
    loss = F.cross_entropy(scores, labels)
    right = (scores.argmax(dim=1) == labels).double().mean()
    return loss.item(), right.item()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.linear = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)
        return self.linear(x.flatten(1))


# %% few
few = train[:100]


def make_loader(part):
    pictures = TensorDataset(images[part], labels[part])
    return DataLoader(pictures, batch_size=100, shuffle=True)


loader = make_loader(few)

# %% overfit
torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

train_losses, valid_losses = [], []
for _ in range(60):
    train_epoch(model, loader, optimizer)
    train_losses.append(evaluate(model, images[few], labels[few])[0])
    valid_losses.append(evaluate(model, images[valid], labels[valid])[0])

# %% curves
import matplotlib.pyplot as plt

_, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
axes.plot(train_losses, color="#0072B2", label="100 training pictures")
axes.plot(valid_losses, color="#D55E00", label="300 validation pictures")
low = valid_losses.index(min(valid_losses))
axes.plot(low, valid_losses[low], "o", color="#D55E00")
axes.set(xlabel="epoch", ylabel="loss", ylim=(0, None))
axes.set_title("The two losses part")
axes.legend()
plt.show()

# %% last
for name, part in {"training": few, "validation": valid}.items():
    loss, right = evaluate(model, images[part], labels[part])
    print(f"{name}: loss {loss:.4f}, {right:.1%} right")

# %% stop-early
import copy


def stop_early(model, optimizer, watched=valid, patience=15):
    best_loss = float("inf")
    for epoch in range(60):
        train_epoch(model, loader, optimizer)
        loss, _ = evaluate(model, images[watched], labels[watched])
        if loss < best_loss:
            best_loss, best_epoch = loss, epoch
            best_state = copy.deepcopy(model.state_dict())
        elif epoch - best_epoch == patience:
            break
    model.load_state_dict(best_state)
    return epoch, best_epoch


# %% stopped
torch.manual_seed(0)
stopped = Net()
optimizer = torch.optim.Adam(stopped.parameters(), lr=0.01)
epoch, best_epoch = stop_early(stopped, optimizer)

loss, right = evaluate(stopped, images[valid], labels[valid])
print(f"stopped in epoch {epoch}, back to epoch {best_epoch}")
print(f"validation: loss {loss:.4f}, {right:.1%} right")


# %% dropout
def with_dropout():
    model = Net()
    model.linear = nn.Sequential(nn.Dropout(0.5), model.linear)
    return model


# %% try-out
def try_out(make=Net, part=few, epochs=60, early=False):
    batches, results = make_loader(part), []
    for seed in (0, 1, 2):
        torch.manual_seed(seed)
        model = make()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        if early:
            stop_early(model, optimizer)
        else:
            for _ in range(epochs):
                train_epoch(model, batches, optimizer)
        results.append(evaluate(model, images[valid], labels[valid]))
    return results


# %% ways
ways = {
    "no remedy": {},
    "1,200 pictures": {"part": train, "epochs": 5},
    "early stopping": {"early": True},
    "dropout": {"make": with_dropout},
}
results = {}
for name, way in ways.items():
    results[name] = try_out(**way)
    for loss, right in results[name]:
        print(f"{name:>14}: loss {loss:.2f}, {right:.1%} right")

# %% watch-training
# Wrong on purpose: do not copy.
torch.manual_seed(0)
late = Net()
optimizer = torch.optim.Adam(late.parameters(), lr=0.01)
late_epoch, _ = stop_early(late, optimizer, watched=few)

loss, _ = evaluate(late, images[valid], labels[valid])
print(f"stopped in epoch {late_epoch}, validation loss {loss:.4f}")

# %% quiz
losses = [0.9, 0.5, 0.6, 0.7, 0.4, 0.3]
best_loss = float("inf")
for number, loss in enumerate(losses):
    if loss < best_loss:
        best_loss, best_number = loss, number
    elif number - best_number == 2:
        break
print(number, best_number, best_loss)


# %% gap
def gap(model):
    train_loss, _ = evaluate(model, images[few], labels[few])
    valid_loss, _ = evaluate(model, images[valid], labels[valid])
    return valid_loss - train_loss


# %% gap-checked
wanted = valid_losses[-1] - train_losses[-1]
found = gap(model)
if abs(found - wanted) < 1e-4:
    print(f"Right: the gap is {found:.2f}, and {gap(Net()):.2f} untrained")
else:
    print(f"Not yet: the gap should be {wanted:.4f}, and you have {found:.4f}")
