"""
Measure a classifier
====================

Count what a model gets right, class by class, and log it.
"""

# %% load
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

data = load_digits()
images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
digits = TensorDataset(images, torch.tensor(data.target))  # 1797 x 1 x 8 x 8
seed = torch.Generator().manual_seed(0)
train, valid, test = random_split(digits, [1200, 300, 297], seed)

# %% model
pixels, kinds = digits[train.indices]
flat = pixels.flatten(1)
means = torch.stack([flat[kinds == c].mean(dim=0) for c in range(10)])

model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
with torch.no_grad():
    model[1].weight.copy_(means)
    model[1].bias.copy_(-means.square().sum(dim=1) / 2)


# %% collect
@torch.no_grad()
def collect(model, loader):
    scores, labels = [], []
    model.eval()
    for inputs, answers in loader:  # on a GPU: model(inputs.to("cuda"))
        scores.append(model(inputs).cpu())
        labels.append(answers.cpu())
    return torch.cat(scores), torch.cat(labels)


# %% accuracy
scores, labels = collect(model, DataLoader(valid, batch_size=64))
guesses = scores.argmax(dim=1)

accuracy = (guesses == labels).double().mean().item()

print("accuracy:", accuracy)


# %% confusion
def confusion_matrix(labels, guesses, classes):
    cells = classes * labels + guesses
    counts = torch.bincount(cells, minlength=classes**2)
    return counts.reshape(classes, classes)


confusion = confusion_matrix(labels, guesses, classes=10)


# %% by-class
def by_class(confusion):
    right = confusion.diagonal()
    labeled, guessed = confusion.sum(dim=1), confusion.sum(dim=0)
    precision = right / guessed.clamp(min=1)
    recall = right / labeled.clamp(min=1)
    f1 = 2 * right / (labeled + guessed).clamp(min=1)
    return precision, recall, f1


precision, recall, f1 = by_class(confusion)
for c in (0, 1, 8):
    shown = f"precision {precision[c]:.3f}, recall {recall[c]:.3f}"
    print(f"{c}: {shown}, F1 {f1[c]:.3f}")

# %% confusion-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(4.6, 4.6), layout="constrained")
axes.imshow(confusion, cmap="Blues", vmax=60)
for i, j in confusion.nonzero().tolist():
    ink = "#FFF3C4" if confusion[i, j] > 30 else "#08306B"
    count = confusion[i, j].item()
    axes.text(j, i, count, ha="center", va="center", color=ink)
axes.set(xlabel="the guess", ylabel="the label")
axes.set(xticks=range(10), yticks=range(10))
axes.set_title("How often is each digit taken for which?")
plt.show()

# %% cell-by-hand
eights = guesses[labels == 8]

print("guesses for the eights:", eights.bincount(minlength=10))
print("row 8 of the matrix:   ", confusion[8])


# %% means
def means_of_f1(confusion):
    f1 = by_class(confusion)[2]
    labeled = confusion.sum(dim=1)
    macro, weighted = f1.mean(), (f1 * labeled).sum() / labeled.sum()
    micro = 2 * confusion.diagonal().sum() / (2 * confusion.sum())
    return macro.item(), weighted.item(), micro.item()


three = means_of_f1(confusion)
print("macro {:.4f}, weighted {:.4f}, micro {:.4f}".format(*three))

# %% judge
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

options = {"labels": range(10), "zero_division": 0}
judged = precision_recall_fscore_support(labels, guesses, **options)

for own, other in zip(by_class(confusion), judged[:3], strict=True):
    print(f"the 8: {own[8]:.6f} here, {other[8]:.6f} by scikit-learn")

# %% always-no
is_eight = labels == 8
never = torch.zeros_like(is_eight)  # "this is no 8", whatever the image

print("accuracy:", round((never == is_eight).double().mean().item(), 3))
print("eights found:", (never & is_eight).sum().item(), "of", end=" ")
print(is_eight.sum().item())


# %% auc
def auc(scores, is_positive):
    is_positive = is_positive.bool()  # integers would be taken for indices
    others = scores[~is_positive].sort().values
    positive = scores[is_positive]
    below = torch.searchsorted(others, positive)
    not_above = torch.searchsorted(others, positive, right=True)
    return ((below + not_above).double() / (2 * len(others))).mean()


chance = scores.softmax(dim=1)[:, 8]  # how sure is the model of an 8?

print(f"AUC: {auc(chance, is_eight):.4f}")

# %% pairs
a, b = chance[is_eight][:, None], chance[~is_eight][None, :]  # 32, 268
wins = (a > b).double() + (a == b).double() / 2  # 32 x 268

print(f"{wins.sum():.0f} of {wins.numel()} pairs: {wins.mean():.4f}")
print(f"scikit-learn: {roc_auc_score(is_eight, chance):.4f}")

# %% thresholds
found = {t: chance >= t for t in (0.1, 0.2, 0.3, 0.5)}

for threshold, taken in found.items():
    hits = (taken & is_eight).sum().item()
    print(f"{threshold}: {hits:2} of 32 eights, in {taken.sum():3} images")

# %% thresholds-drawn
import matplotlib.pyplot as plt

steps = torch.linspace(0.05, 0.37, 65)
hits = torch.stack([(chance[is_eight] >= t).sum() for t in steps])
taken = torch.stack([(chance >= t).sum() for t in steps])
figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
axes.plot(steps, hits / 32, color="#0072B2", label="recall")
axes.plot(steps, hits / taken, "--", color="#D55E00", label="precision")
axes.set(xlabel="threshold for the probability of an 8")
axes.legend()
axes.set_title("A higher threshold misses more eights")
plt.show()


# %% append-row
import csv


def append_row(path, row):
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, row)
        if is_new:
            writer.writeheader()
        writer.writerow(row)


# %% log-folder
import atexit
import shutil
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
log = folder / "log.csv"  # one file for each run

torch.manual_seed(0)
learner = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(learner.parameters(), lr=0.02)

# %% log
for epoch in range(1, 13):
    learner.train()
    for inputs, answers in DataLoader(train, batch_size=200, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(learner(inputs), answers).backward()
        optimizer.step()
    outputs, targets = collect(learner, DataLoader(valid, batch_size=64))
    counts = confusion_matrix(targets, outputs.argmax(dim=1), classes=10)
    row = {"epoch": epoch, "loss": F.cross_entropy(outputs, targets).item()}
    append_row(log, row | {"F1": by_class(counts)[2].mean().item()})

# %% read
with log.open(newline="") as file:
    rows = list(csv.DictReader(file))
epochs = [int(row["epoch"]) for row in rows]
losses = [float(row["loss"]) for row in rows]

print(f"{len(rows)} rows; loss {losses[0]:.1f} first, {losses[-1]:.1f} last")

# %% log-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.plot(epochs, losses, "o-", color="#0072B2", label="loss")
f1_of = [float(row["F1"]) for row in rows]
axes.plot(epochs, f1_of, "s--", color="#D55E00", label="macro F1")
axes.set(xlabel="epoch", ylim=(0, None))
axes.legend()
axes.set_title("The log of a run, read back from its CSV file")
plt.show()


# %% batches
# Wrong on purpose: do not copy.
def measured(labels, guesses, chance):
    accuracy = (guesses == labels).double().mean()
    f1 = by_class(confusion_matrix(labels, guesses, classes=10))[2]
    return torch.stack([accuracy, f1[8], auc(chance, labels == 8)])


averages = {}
for size in (300, 128, 32, 16):
    split = (x.split(size) for x in (labels, guesses, chance))
    parts = [measured(*part) for part in zip(*split, strict=True)]
    averages[size] = torch.stack(parts).mean(dim=0).tolist()
    shown = "accuracy {:.3f}, F1 of the 8 {:.3f}, AUC {:.3f}"
    print(f"{size:3} a batch:", shown.format(*averages[size]))

# %% add-up
total = torch.zeros_like(confusion)
for part, guess in zip(labels.split(32), guesses.split(32), strict=True):
    total += confusion_matrix(part, guess, classes=10)

print(f"F1 of 8: {by_class(total)[2][8]:.3f}")

# %% half
# Wrong on purpose: do not copy.
found_at_half = (chance >= 0.5) & is_eight

print("eights found:", found_at_half.sum().item())
print(f"highest probability of an 8: {chance.max():.2f}")

# %% plain-scores
# Wrong on purpose: do not copy.
plain = auc(scores[:, 8], is_eight)

print(f"AUC of the plain scores: {plain:.4f}")

# %% of-guesses
# Wrong on purpose: do not copy.
of_guesses = auc((guesses == 8).float(), is_eight)

print(f"AUC of the guesses: {of_guesses:.4f}")

# %% no-minlength
# Wrong on purpose: do not copy.
try:
    torch.bincount(10 * labels[:4] + guesses[:4]).reshape(10, 10)
except RuntimeError as error:
    print(error)

# %% nobody-guessed
# Wrong on purpose: do not copy.
only_ones = confusion_matrix(labels, torch.ones_like(labels), classes=10)
divided = only_ones.diagonal() / only_ones.sum(dim=0)

print("divided:", divided)
print("clamped:", by_class(only_ones)[0])

# %% memory
# Wrong on purpose: do not copy.
nonsense = kinds[torch.randperm(len(kinds), generator=seed)]  # shuffled


def remember(inputs):  # the label of the training image that is nearest
    return nonsense[torch.cdist(inputs.flatten(1), flat).argmin(dim=1)]


new_pixels, new_kinds = digits[valid.indices]
on_training = (remember(pixels) == nonsense).double().mean().item()
on_validation = (remember(new_pixels) == new_kinds).double().mean().item()

print(f"training: {on_training:.2f}, validation: {on_validation:.2f}")


# %% strings
# Wrong on purpose: do not copy.
last = max(row["epoch"] for row in rows)

print("last epoch:", last)

# %% tensor-in-the-log
# Wrong on purpose: do not copy.
other_log = folder / "tensors.csv"
append_row(other_log, {"loss": torch.tensor(0.25)})
with other_log.open(newline="") as file:
    written = next(csv.DictReader(file))["loss"]
try:
    float(written)
except ValueError as error:
    print(error)

# %% tensorboard
try:
    from torch.utils.tensorboard import SummaryWriter
except ModuleNotFoundError as error:
    print(error)
else:
    print("installed:", SummaryWriter)

# %% quiz
table = torch.tensor([[8, 2], [4, 6]])
print(table.diagonal() / table.sum(dim=1))
print(table.diagonal() / table.sum(dim=0))


# %% solution
def top_k(scores, labels, k):
    best = scores.topk(k, dim=1).indices
    return (best == labels[:, None]).any(dim=1).double().mean().item()


# %% solution-checked
own = scores.gather(1, labels[:, None])  # the score of the right class
ranks = (scores > own).sum(dim=1)
for k in (1, 3, 10):
    expected = (ranks < k).double().mean().item()
    answer = top_k(scores, labels, k)
    if abs(answer - expected) > 1e-6:
        print(f"Not yet: for k={k}, expected {expected:.4f}, not {answer}")
        break
else:
    print("Right: the label is among the ten best scores of every image")
