"""
Evaluate a model
================

A whole evaluation, and what eval and no_grad switch off.
"""

# %% flowers
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
kinds = torch.arange(300) % 3
petals = torch.randn(300, 4) + 2 * F.one_hot(kinds, 4) + 3
train_set = TensorDataset(petals[::2], kinds[::2])
val_set = TensorDataset(petals[1::2], kinds[1::2])


# %% evaluating
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


# %% evaluate
def evaluate(model, loader):
    loss, right, count = 0.0, 0, 0
    with evaluating(model):
        for inputs, labels in loader:
            scores = model(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            right += (scores.argmax(dim=1) == labels).sum().item()
            count += len(labels)
    return loss / count, right / count


# %% train
def new_model():
    norm, dropout = nn.BatchNorm1d(8), nn.Dropout(0.5)
    return nn.Sequential(nn.Linear(4, 8), norm, dropout, nn.Linear(8, 3))


model, history = new_model(), []
optimizer = torch.optim.Adam(model.parameters(), lr=0.04)
for epoch in range(4):
    for inputs, labels in DataLoader(train_set, batch_size=50, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    history.append(evaluate(model, DataLoader(val_set, 64)))
    print("epoch {}: loss {:.3f}, accuracy {:.3f}".format(epoch, *history[-1]))


# %% look
def look(training, recording):
    model = new_model().train(training)
    norm = model[1]
    mean, variance = norm.running_mean.clone(), norm.running_var.clone()
    with recording():
        first, second = model(petals), model(petals)
    return {
        "dropout drops": not first.equal(second),
        "running mean moves": not norm.running_mean.equal(mean),
        "running variance moves": not norm.running_var.equal(variance),
        "a graph is recorded": first.grad_fn is not None,
    }


# %% switches
switches = {
    "train()": look(True, torch.enable_grad),
    "train(), no_grad()": look(True, torch.no_grad),
    "eval()": look(False, torch.enable_grad),
    "eval(), no_grad()": look(False, torch.no_grad),
}

# %% switches-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for y, happens in enumerate(switches.values()):
    for x, yes in enumerate(happens.values()):
        axes.barh(y, 0.94, 0.9, x - 0.47, color=("#0072B2", "#D55E00")[yes])
        axes.text(
            x, y, ("no", "yes")[yes], ha="center", va="center", color="w"
        )
labels = ["\n".join(name.rsplit(" ", 1)) for name in happens]
axes.set_xticks(range(4), labels)
axes.set_yticks(range(4), list(switches))
axes.invert_yaxis()
axes.set_title("What happens in a forward pass")
plt.show()

# %% layers
inputs = torch.randn(6, 4, 8)
batch_norm, tracks = nn.BatchNorm1d(4), {"track_running_stats": True}
layers = [nn.Dropout(), nn.AlphaDropout(), nn.RReLU(), batch_norm]
layers += [nn.InstanceNorm1d(4, **tracks), nn.LSTM(8, 5, 2, dropout=0.5)]
layers += [nn.InstanceNorm1d(4), nn.LayerNorm(8), nn.GroupNorm(2, 4)]
layers += [nn.LSTM(8, 5, 2), nn.Linear(8, 3), nn.Conv1d(4, 2, 3), nn.GELU()]


# %% changed-by-eval
def changed_by_eval(layer, inputs):
    trained, evaluated = layer.train()(inputs), layer.eval()(inputs)
    if isinstance(layer, nn.RNNBase):
        trained, evaluated = trained[0], evaluated[0]
    return not trained.equal(evaluated)


for layer in layers:
    print("changes" if changed_by_eval(layer, inputs) else "same   ", layer)

# %% lag
norm, batches = nn.BatchNorm1d(1), 2 * torch.randn(60, 5_000, 1) + 7
running, evaluated = [], []
for batch in batches:
    standardized = norm.train()(batch)
    running.append(norm.running_mean.item())
    evaluated.append(norm.eval()(batch).mean().item())

for seen in (1, 10, 60):
    row = f"{running[seen - 1]:.2f}, output mean {evaluated[seen - 1]:.2f}"
    print(f"batches seen: {seen:2}, running mean {row}")

# %% lag-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
seen = range(1, len(running) + 1)
axes.plot(seen, running, color="#0072B2", label="running mean")
axes.plot(
    seen, evaluated, color="#D55E00", label="mean of the output in evaluation"
)
axes.set_xlabel("batches of mean 7 seen in training")
axes.legend()
axes.set_title("BatchNorm follows slowly")
plt.show()

# %% forgotten-eval
# Wrong on purpose: do not copy.
flowers, _ = next(iter(DataLoader(val_set, 9)))
with torch.no_grad():
    first, second = model(flowers), model(flowers)

print(first[0], second[0], sep="\n")

# %% with-eval
with evaluating(model):
    once, again = model(flowers), model(flowers)

print(once[0], again[0], sep="\n")

# %% forgotten-train
# Wrong on purpose: do not copy.
fresh, modes = new_model(), []
for _ in range(3):
    for inputs, labels in DataLoader(train_set, batch_size=75):
        F.cross_entropy(fresh(inputs), labels).backward()
        modes.append({layer.training for layer in fresh})
    fresh.eval()  # to validate, and never back

print(modes)


# %% mean-of-means
# Wrong on purpose: do not copy.
def mean_of_means(model, loader):
    means = []
    with evaluating(model):
        for inputs, labels in loader:
            means.append(F.cross_entropy(model(inputs), labels).item())
    return sum(means) / len(means)


# %% batch-sizes
losses = {}
for size in (150, 50, 64, 149):
    loader = DataLoader(val_set, size)
    loss, accuracy = evaluate(model, loader)
    losses[size] = loss, mean_of_means(model, loader)

for size, (per_flower, per_batch) in losses.items():
    print(f"{size} a batch: {per_flower:.4f}, per batch {per_batch:.4f}")


# %% one-sample
def attempt(layer):
    try:
        return layer(petals[:1])
    except ValueError as error:
        return error


forgets = nn.BatchNorm1d(4, track_running_stats=False)
alone = [attempt(nn.BatchNorm1d(4)), attempt(nn.BatchNorm1d(4).eval())]
alone += [attempt(forgets.eval())]

print(*alone, sep="\n")

# %% comes-back
learned = {}
for mode in (torch.no_grad, torch.inference_mode):
    head = nn.Linear(8, 3)
    with mode():
        features = model[0](petals)
    try:
        head(features).sum().backward()
    except RuntimeError as error:
        print(mode.__name__, error, sep=": ")
    learned[mode.__name__] = head.weight.grad


# %% functions
class Functions(nn.Module):
    def forward(self, x):
        tied = F.dropout(x, training=self.training)
        attention = F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
        return F.dropout(x), tied, attention


scaled = nn.Dropout(0.4)(torch.ones(8, 1))
loose, tied, attention = Functions().eval()(torch.ones(8, 1))

print(loose.T, tied.T, attention.T, scaled.T, sep="\n")


# %% collect
def precision(guesses, labels):
    return (labels[guesses == 1] == 1).double().mean()


with evaluating(model):
    pairs = [(model(x).argmax(dim=1), y) for x, y in DataLoader(val_set, 64)]
whole = precision(*(torch.cat(each) for each in zip(*pairs, strict=True)))
parts = [precision(*pair) for pair in pairs]

print(f"precision {whole:.4f}, mean of three {sum(parts) / 3:.4f}")
