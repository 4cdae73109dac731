"""
Index and slice a tensor
========================

Pick images, pixels and scores, change them, and tell a view from a copy.
"""

# %% load
import torch
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)  # 1797 x 8 x 8
labels = torch.tensor(digits.target)

# %% do-this
image = images[0]  # one image
crops = images[:, 2:6, 1:7]  # rows 2 to 5, columns 1 to 6 of each image
small = images[:, ::2, ::2]  # every second pixel
threes = images[labels == 3]  # the images of a 3

print(image.shape, crops.shape, small.shape, threes.shape, sep="\n")

# %% per-row
means = torch.stack([images[labels == k].mean(dim=0) for k in range(10)])
scores = -torch.cdist(images.flatten(1), means.flatten(1))
rows = torch.arange(len(scores))
picked = scores[rows, labels]

print(scores.shape, picked.shape)

# %% picks-drawn
import matplotlib.pyplot as plt

ways = ["x[3]", "x[:, -2]", "x[2:6, 1:7]", "x[::2, ::2]", "x[[6, 1, 6]]"]
ways += ["x[i, j]", "x[i[:, None], j]", "x[x > 8]", "x[x[:, 6] > 7]"]
names = {"i": torch.tensor([1, 6]), "j": torch.tensor([2, 5]), "x": image}
places = torch.arange(64).view(8, 8)
blue, orange = torch.tensor([[0, 0.45, 0.7], [0.84, 0.37, 0]])
_, panels = plt.subplots(3, 3, figsize=(5, 5.8), layout="constrained")
for panel, way in zip(panels.flat, ways, strict=True):
    chosen = eval(way.replace("x", "places", 1), {**names, "places": places})
    kept = torch.isin(places, chosen.flatten())[..., None]
    ink = 0.1 + 0.9 * image[..., None] / 16
    panel.imshow(torch.cat([torch.where(kept, orange, blue), ink], dim=-1))
    for row, column in kept[..., 0].nonzero().tolist():
        box = plt.Rectangle((column - 0.5, row - 0.5), 1, 1)
        panel.add_patch(box).set(fill=False, edgecolor="#D55E00")
    panel.set_title(f"{way}\n{tuple(chosen.shape)}", size=11)
    panel.set(xticks=[], yticks=[])
plt.suptitle("What an index picks from an image x (orange)")
plt.show()

# %% by-position
row = image[3]
column = image[:, -2]
window = image[2:6, 1:7]

print(row, column, window.shape, sep="\n")

# %% by-list
i, j = torch.tensor([1, 6]), torch.tensor([2, 5])
three_rows = image[[6, 1, 6]]
points = image[i, j]
block = image[i[:, None], j]

print(three_rows.shape, points, block, sep="\n")

# %% by-mask
dark = image[image > 8]
gray = image[(image > 4) & (image <= 8)]
inked_rows = image[image[:, 6] > 7]

print(dark, gray, inked_rows.shape, sep="\n")

# %% scores-drawn
import matplotlib.pyplot as plt

_, panel = plt.subplots(figsize=(5, 2), layout="constrained")
for row, place in enumerate(range(30, 34)):
    own = labels[place].item()
    for column, score in enumerate(scores[place].tolist()):
        panel.text(column, row, f"{score:.0f}", ha="center", va="center")
    box = plt.Rectangle((own - 0.5, row - 0.5), 1, 1)
    panel.add_patch(box).set(fill=False, edgecolor="#D55E00", linewidth=2)
panel.set(xlim=(-0.5, 9.5), ylim=(3.5, -0.5), xticks=range(10))
panel.set_yticks(range(4), [f"label {k}" for k in labels[30:34].tolist()])
panel.set_title("Scores of four images, and the one of each label")
plt.show()

# %% gather
index = labels[:, None]
gathered = scores.gather(1, index)

print(index.shape, gathered.shape)

# %% view-or-copy
board = torch.zeros(3, 4)
sliced = board[0:1]
sliced += 1
listed = board[[2]]
listed += 5

print(board)

# %% assign
cleaned = image.clone()
cleaned[cleaned < 8] = 0
cleaned[:, [0, -1]] = 1
cleaned[i, j] += 50

print(cleaned.int())

# %% colon
# Wrong on purpose: do not copy.
wrong = scores[:, labels]

print("should be:", picked.shape)
print("is:       ", wrong.shape)

# %% train
from torch import nn

pixels, own = images.flatten(1) / 16, labels[:200]


def train(loss_of):
    torch.manual_seed(0)
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(100):
        loss = loss_of(model(pixels[:200]).log_softmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = model(pixels[200:]).argmax(dim=1) == labels[200:]
    return loss.item(), right.float().mean()


# %% losses
# Wrong on purpose: do not copy.
with_rows = train(lambda log_probs: -log_probs[rows[:200], own].mean())
with_colon = train(lambda log_probs: -log_probs[:, own].mean())

print(f"should be: loss {with_rows[0]:.2f}, {with_rows[1]:.0%} right")
print(f"is:        loss {with_colon[0]:.2f}, {with_colon[1]:.0%} right")

# %% count-once
# Wrong on purpose: do not copy.
once = torch.zeros(10)
once[labels] += 1

print(once)

# %% count-all
counts = torch.zeros(10)
counts.index_add_(0, labels, torch.ones(len(labels)))

print(counts)

# %% two-brackets
# Wrong on purpose: do not copy.
lost, kept = images.clone(), images.clone()
lost[labels == 3][:, 0] = 16
kept[labels == 3, 0] = 16

print("should be:", (kept[:, 0] == 16).all(dim=1).sum().item(), "lines")
print("is:       ", (lost[:, 0] == 16).all(dim=1).sum().item(), "lines")

# %% integer-mask
# Wrong on purpose: do not copy.
is_three = (labels == 3).long()  # 0 or 1, as files often hold it
by_numbers = images[is_three]
by_mask = images[is_three.bool()]

print("should be:", by_mask.shape)
print("is:       ", by_numbers.shape)

# %% backwards
try:
    image[:, ::-1]
except ValueError as error:
    said = str(error)
    print(said)
mirrored = image.flip(1)
print(image[0], mirrored[0], sep="\n")

# %% pairs
x = torch.tensor([[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]])

print(x[[0, 2], 1:3])
print(x[[0, 2], [1, 3]])

# %% margins
others = scores.clone()
others[rows, labels] = -torch.inf
margins = picked - others.amax(dim=1)

# %% margins-checked
best, second = scores.topk(2).values.T
expected = picked - torch.where(picked == best, second, best)
right = margins.shape == expected.shape and margins.allclose(expected)
if right:
    print("Right: above 0 for", (margins > 0).sum().item(), "of 1797 images")
else:
    print("Not yet: the first five should be", expected[:5])
