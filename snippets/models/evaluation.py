"""
Evaluate a model: model.eval() and no_grad()
============================================

A whole evaluation, and dropout and BatchNorm in fourteen lines.
"""

# %% digits
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
train_loader = DataLoader(train_set, batch_size=50, shuffle=True)
val_loader = DataLoader(val_set, batch_size=50)

norm, dropout = nn.BatchNorm1d(32), nn.Dropout(0.5)
model = nn.Sequential(nn.Linear(64, 32), norm, dropout, nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for images, labels in train_loader:
    optimizer.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()

# %% evaluate
model.eval()  # the layers: no dropout, no batch statistics
loss, correct, count = 0.0, 0, 0
with torch.no_grad():  # autograd: record nothing
    for images, labels in val_loader:
        scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        count += len(labels)
model.train()  # before you train on
print(f"loss {loss / count:.3f}, accuracy {correct / count:.3f}")


# %% by-hand
class Dropout(nn.Module):
    def forward(self, x):
        if not self.training:  # 1
            return x
        return x * torch.empty_like(x).bernoulli_(0.5) / 0.5  # 2


class BatchNorm(nn.Module):
    mean, var = 0.0, 1.0

    def forward(self, x):
        mean, var = self.mean, self.var  # 3
        if self.training:
            mean, var = x.mean(dim=0), x.var(dim=0, correction=0)  # 4
            self.mean += 0.1 * (mean.detach() - self.mean)  # 5
            self.var += 0.1 * (x.var(dim=0).detach() - self.var)
        return (x - mean) / (var + 1e-5) ** 0.5


# %% compare
def apart(layers, inputs):
    results = []
    for layer in layers:
        torch.manual_seed(1)  # so that both dropouts draw the same
        leaf = inputs.clone().requires_grad_()
        output = layer(leaf)
        output.pow(3).sum().backward()
        results.append(torch.stack([output.detach(), leaf.grad]))
    return (results[0] - results[1]).abs().max().item()


hidden = [model[0](images).detach() for images, _ in train_loader]
for pair in [(Dropout(), nn.Dropout()), (BatchNorm(), nn.BatchNorm1d(32))]:
    for training in (True, False):
        layers = [layer.train(training) for layer in pair]
        worst = max(apart(layers, batch) for batch in hidden)
        name = type(layers[1]).__name__
        print(f"{name}, training={training}: {worst:.3f} apart")

# %% switches
import copy

images, before = val_set[:50][0], norm.running_mean
for switch in ("train", "eval"):
    for recording in (torch.enable_grad, torch.no_grad):
        trial = getattr(copy.deepcopy(model), switch)()
        with recording():
            first, second = trial(images), trial(images)
        print(
            f"{switch:5} {recording.__name__:11}",
            f" drops: {not first.equal(second)!s:5}",
            f" mean moves: {not trial[1].running_mean.equal(before)!s:5}",
            f" graph: {first.requires_grad}",
        )

# %% layers
batch = torch.randn(6, 4, 8)
layers = [nn.Dropout(), nn.AlphaDropout(), nn.RReLU(), nn.BatchNorm1d(4)]
layers += [nn.InstanceNorm1d(4, track_running_stats=True)]
layers += [nn.LSTM(8, 5, 2, dropout=0.5), nn.InstanceNorm1d(4)]
layers += [nn.LayerNorm(8), nn.GroupNorm(2, 4), nn.LSTM(8, 5, 2)]
layers += [nn.Linear(8, 3), nn.Conv1d(4, 2, 3), nn.GELU()]


def changes(layer):
    outputs = layer.train()(batch), layer.eval()(batch)
    if isinstance(layer, nn.RNNBase):
        outputs = [output for output, _ in outputs]
    return not outputs[0].equal(outputs[1])


for layer in layers:
    print("changes" if changes(layer) else "same   ", layer)

# %% forgotten-eval
# Wrong on purpose: do not copy.
trial = copy.deepcopy(model).train()
for _ in range(3):
    with torch.no_grad():
        scores = torch.cat([trial(images) for images, _ in val_loader])
    loss = F.cross_entropy(scores, val_set[:][1])
    print(f"loss {loss:.3f}, passes so far: {trial[1].num_batches_tracked}")

# %% lag
lagging, batches = nn.BatchNorm1d(1), 2 * torch.randn(60, 5_000, 1) + 7
centers = []
for seen, batch in enumerate(batches, start=1):
    lagging.train()(batch)
    centers.append(lagging.eval()(batch).mean().item())
    if seen in (1, 10, 60):
        mean = lagging.running_mean.item()
        print(f"{seen:2} batches: running mean {mean:.2f},", end=" ")
        print(f"output in evaluation {centers[-1]:.2f}")

# %% mean-of-means
# Wrong on purpose: do not copy.
model.eval()
for size in (297, 99, 50, 296):
    with torch.no_grad():
        batches = [(model(x), y) for x, y in DataLoader(val_set, size)]
    means = [F.cross_entropy(*each).item() for each in batches]
    print(f"{size:3} a batch: mean of the means {sum(means) / len(means):.4f}")

# %% one-sample
one = nn.BatchNorm1d(4)
try:
    one.train()(torch.ones(1, 4))
except ValueError as error:
    print(error)
print(one.eval()(torch.ones(1, 4)))


# %% functions
class Functions(nn.Module):
    def forward(self, x):
        tied = F.dropout(x, training=self.training)
        attention = F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
        return F.dropout(x), tied, attention


loose, tied, attention = Functions().eval()(torch.ones(8, 1))
print(loose.T, tied.T, attention.T, sep="\n")

# %% twice-seven
seven = nn.BatchNorm1d(1)
for _ in range(2):
    seven(torch.tensor([[5.0], [9.0]]))
print(f"{seven.running_mean.item():.2f}")

# %% evaluating
from contextlib import contextmanager


@contextmanager
def evaluating(model):
    modes = {layer: layer.training for layer in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for layer, mode in modes.items():
            layer.training = mode


# %% evaluating-checked
frozen = copy.deepcopy(model).train()
frozen[1].eval()
with evaluating(frozen):
    inside = [layer.training for layer in frozen], torch.is_grad_enabled()
after = [layer.training for layer in frozen]
if inside != ([False] * 4, False):
    print("Inside the block, something is still on.")
elif after != [True, False, True, True]:
    print("Which mode had the second layer before, and which has it now?")
else:
    print("Right: after the block, the frozen BatchNorm is still frozen.")
