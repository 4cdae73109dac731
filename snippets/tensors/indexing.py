"""
Indexing
========

Pick elements of a tensor, overwrite them, and tell a view from a copy.
"""

# %% do-this
import torch

scores = torch.tensor(
    [[2.0, 0.5, 1.0], [0.1, 0.3, 3.0], [2.5, 1.5, 0.2], [0.4, 0.6, 1.2]]
)
labels = torch.tensor([0, 2, 1, 2])
rows = torch.arange(len(scores))
picked = scores[rows, labels]
gathered = scores.gather(1, labels[:, None]).squeeze(1)

print(picked, gathered, sep="\n")

# %% sources
cells = torch.arange(scores.numel()).reshape(scores.shape)
sources = cells.gather(1, labels[:, None])

# %% gather-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
for left, part in {
    0: labels[:, None],
    2: scores,
    6: gathered[:, None],
}.items():
    for i, row in enumerate(part.tolist()):
        for j, each in enumerate(row):
            ax.text(left + j, -i, f"{each:.2g}", ha="center", va="center")
look = {"arrowstyle": "->", "connectionstyle": "arc3,rad=0.15"}
for i, [source] in enumerate(sources.tolist()):
    ends = (5.8, -i - 0.2), (source % 3 + 2, -(source // 3) - 0.2)
    ax.annotate("", *ends, arrowprops={"ec": "#D55E00", **look})
ax.set(xlim=(-1, 6.5), ylim=(-3.7, 0.5), yticks=[], frame_on=False)
ax.set_xticks([0, 3, 6], ["labels[:, None]", "scores", "result"])
ax.set_title("What gather takes from each row")
plt.show()

# %% plain
plain = {
    "x[1]": lambda x: x[1],
    "x[1:2]": lambda x: x[1:2],
    "x[:, -1]": lambda x: x[:, -1],
    "x[::2]": lambda x: x[::2],
    "x[..., 0]": lambda x: x[..., 0],
    "x[:, None]": lambda x: x[:, None],
}

# %% listed
i, j = torch.tensor([0, 3]), torch.tensor([1, 2])
listed = {
    "x[[3, 0]]": lambda x: x[[3, 0]],
    "x[:, [2, 0]]": lambda x: x[:, [2, 0]],
    "x[i, j]": lambda x: x[i, j],
    "x[i[:, None], j]": lambda x: x[i[:, None], j],
    "x[scores > 1]": lambda x: x[scores > 1],
    "x[scores[:, 0] > 1]": lambda x: x[scores[:, 0] > 1],
}


# %% view-or-copy
def view_or_copy(part, x):
    same = part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    return "view" if same else "copy"


# %% picks-drawn
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

inks = {"view": "#0072B2", "copy": "#D55E00"}
_, axes = plt.subplots(2, 6, figsize=(8, 3.6), layout="constrained")
for ax, (name, pick) in zip(axes.flat, (plain | listed).items(), strict=True):
    ink = ListedColormap(["none", inks[view_or_copy(pick(scores), scores)]])
    chosen = torch.isin(cells, pick(cells).flatten())
    ax.pcolormesh(chosen, cmap=ink, edgecolors="gray", vmin=0, vmax=1)
    ax.set_title(f"{name}\n{tuple(pick(scores).shape)}", size=8)
    ax.set(xticks=[], yticks=[], aspect="equal", ylim=(4, 0))
plt.suptitle("What an index picks, and its shape: views blue, copies orange")
plt.show()

# %% kinds
kinds = {}
for name, pick in (plain | listed).items():
    kinds[name] = view_or_copy(pick(scores), scores)
    print(f"{name:20} {kinds[name]}")

# %% assign
others, clipped, refilled = scores.clone(), scores.clone(), scores.clone()
others[rows, labels] = -torch.inf  # without the right class
clipped[clipped > 1] = 1
refilled[refilled > 1] = torch.tensor([10.0, 20, 30, 40, 50])

print(others, clipped, refilled, sep="\n")

# %% colon
# Wrong on purpose: do not copy.
log_probabilities = scores.log_softmax(dim=1)
right = -log_probabilities[rows, labels]
wrong = -log_probabilities[:, labels]

print("should be:", right.mean(), right.shape)
print("is:       ", wrong.mean(), wrong.shape)

# %% count-once
# Wrong on purpose: do not copy.
once = torch.zeros(3)
once[labels] += 1

print(once)

# %% count-all
added = torch.zeros(3).index_add_(0, labels, torch.ones(4))

print(added)

# %% two-brackets
# Wrong on purpose: do not copy.
lost, kept = scores.clone(), scores.clone()
lost[[0, 3]][:, 1] = 9
kept[[0, 3], 1] = 9

print("should be:", kept[:, 1])
print("is:       ", lost[:, 1])


# %% outcomes
def outcomes(attempts):
    for name, attempt in attempts.items():
        yield name
        try:
            yield attempt()
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            yield f"    {type(error).__name__}: {error}"


# %% beyond
# Wrong on purpose: do not copy.
from torch.nn import functional

beyond = {
    "scores[5]": lambda: scores[5],
    "scores[:, [0, 5]]": lambda: scores[:, [0, 5]],
    "embedding": lambda: functional.embedding(labels + 4, scores),
    "cross_entropy": lambda: functional.cross_entropy(scores, labels + 1),
}
print(*outcomes(beyond), sep="\n")

# %% wraps
# Wrong on purpose: do not copy.
late = labels[:, None] + 1  # classes counted from 1
wraps = {
    "gather": lambda: scores.gather(1, late),
    "take_along_dim": lambda: scores.take_along_dim(late, dim=1),
}
print(*outcomes(wraps), sep="\n")

# %% unfit
# Wrong on purpose: do not copy.
large = scores > 1
unfit = {
    "scores[:, :, 0]": lambda: scores[:, :, 0],
    "scores[large[:3]]": lambda: scores[large[:3]],
    "scores[rows, labels[:3]]": lambda: scores[rows, labels[:3]],
    "scores.gather(1, labels)": lambda: scores.gather(1, labels),
}
print(*outcomes(unfit), sep="\n")

# %% values
# Wrong on purpose: do not copy.
from operator import setitem

values = {
    "two values for five": lambda: setitem(scores, large, torch.ones(2)),
    "a list": lambda: setitem(scores, large, [1, 2, 3, 4, 5]),
    "integers": lambda: setitem(scores, large, torch.arange(5)),
}
print(*outcomes(values), sep="\n")

# %% types
# Wrong on purpose: do not copy.
types = {
    "scores[1.0]": lambda: scores[1.0],
    "scores[labels.float()]": lambda: scores[labels.float()],
    "gather": lambda: scores.gather(1, labels.float()[:, None]),
    "scores[[0.9, 1.9]]": lambda: scores[[0.9, 1.9]],
}
print(*outcomes(types), sep="\n")

# %% backwards
backwards = {
    "scores[::-1]": lambda: scores[::-1],
    "scores.flip(0)": lambda: scores.flip(0),
}
print(*outcomes(backwards), sep="\n")

# %% apart
both = torch.stack([scores, -scores])  # of two models
in_torch = both[0, :, [1, 2]]
in_numpy = both.numpy()[0, :, [1, 2]]

print(in_torch.shape, in_numpy.shape)
