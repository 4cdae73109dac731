"""
Shapes do not fit
=================

Errors about shapes, each with a line that mends it.
"""

# %% gray-batch
import torch
from torch import nn
from torch.nn import functional as F

conv = nn.Conv2d(1, 8, 3)
images = torch.rand(100, 28, 28)  # 100 gray images
try:
    conv(images)
except RuntimeError as error:
    print(error)

features = conv(images[:, None])

# %% flat-images
rows = torch.rand(32, 784)  # 32 images of 28 x 28, flattened
try:
    conv(rows)
except RuntimeError as error:
    print(error)

features = conv(rows.reshape(-1, 1, 28, 28))

# %% too-small
image = torch.rand(1, 1, 5, 5)
shrinking = nn.Sequential(*[nn.Conv2d(1, 1, 3) for _ in range(3)])
try:
    shrinking(image)  # from 5 x 5 to 3 x 3 to 1 x 1
except RuntimeError as error:
    print(error)

keeping = [nn.Conv2d(1, 1, 3, padding="same") for _ in range(3)]
kept = nn.Sequential(*keeping)(image)

# %% vectors
model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
try:
    torch.optim.Muon(model.parameters())  # biases are no matrices
except ValueError as error:
    print(error)

matrices = [p for p in model[0].parameters() if p.ndim == 2]
rest = [model[0].bias, *model[2].parameters()]
muon, adamw = torch.optim.Muon(matrices), torch.optim.AdamW(rest)

# %% too-long
positions = torch.zeros(1, 512, 8)  # the model was made for 512 tokens


def add_positions(tokens):
    return tokens + positions[:, : tokens.shape[1]]


tokens = torch.rand(4, 600, 8)
try:
    add_positions(tokens)
except RuntimeError as error:
    print(error)

placed = add_positions(tokens[:, :512])

# %% last-batch
found = torch.zeros(32, 10)  # made for a full batch
scores = torch.rand(17, 10)  # the last batch is smaller
try:
    found[:] = scores
except RuntimeError as error:
    print(error)

found[: len(scores)] = scores

# %% skip-connection
skip = torch.rand(1, 8, 50, 50)
pooled = F.max_pool2d(skip, 4)
try:
    torch.cat([skip, F.interpolate(pooled, scale_factor=4)], dim=1)
except RuntimeError as error:
    print(error)

upsampled = F.interpolate(pooled, size=skip.shape[-2:])
joined = torch.cat([skip, upsampled], dim=1)

# %% nothing-found
boxes, sure = torch.rand(5, 4), torch.tensor([0.1, 0.3, 0.2, 0.5, 0.4])
chosen = [box for box, score in zip(boxes, sure, strict=True) if score > 0.9]
for join in (torch.stack, torch.cat):
    try:
        join(chosen)
    except (RuntimeError, ValueError) as error:
        print(error)

kept_boxes = torch.stack(chosen) if chosen else torch.empty(0, 4)

# %% more-rows
maps = torch.rand(4, 16, 8, 8)  # of 4 images: 1024 numbers each
labels = torch.tensor([1, 0, 3, 9])
rows = maps.view(-1, 256)
try:
    F.cross_entropy(nn.Linear(256, 10)(rows), labels)
except ValueError as error:
    print(error)

samples = maps.flatten(1)
loss = F.cross_entropy(nn.Linear(1024, 10)(samples), labels)

# %% column
scores = torch.rand(4, 10)
column = labels[:, None]  # as a table has them: (4, 1)
try:
    F.cross_entropy(scores, column)
except RuntimeError as error:
    print(error)

loss = F.cross_entropy(scores, column.squeeze(1))

# %% mask-channel
pixel_scores = torch.rand(2, 3, 8, 8)  # two pictures, three classes
masks = torch.randint(3, (2, 1, 8, 8))  # a class for each pixel
try:
    F.cross_entropy(pixel_scores, masks)
except RuntimeError as error:
    print(error)

loss = F.cross_entropy(pixel_scores, masks.squeeze(1))

# %% mask-colors
palette = torch.tensor([[255, 255, 0], [0, 0, 255], [255, 255, 255]])
colored = palette[masks.squeeze(1)]  # 2 x 8 x 8 x 3, as a PNG is read
same = (colored[..., None, :] == palette).all(dim=-1)  # 2 x 8 x 8 x 3 classes
numbers = same.int().argmax(dim=-1)

# %% counted-from-1
chosen_columns = torch.tensor([1, 2, 3])  # counted from 1
table = torch.rand(5, 3)
try:
    table[:, chosen_columns]
except IndexError as error:
    print(error)

picked = table[:, chosen_columns - 1]

# %% other-batch
scores = torch.rand(32, 5)
actions = torch.randint(5, (128, 1))  # of another, larger batch
try:
    scores.gather(1, actions)
except RuntimeError as error:
    print(error)

of_these = scores.gather(1, actions[:32])
fewer = scores.gather(1, actions[:8])  # no error: the first 8 rows

# %% image-tokens
embedded = torch.zeros(10, 8)  # a text of 10 tokens
is_image = torch.arange(10) < 3  # 3 of them are places for an image
patches = torch.rand(5, 8)  # but it has 5 patches
try:
    embedded[is_image] = patches
except RuntimeError as error:
    print(error)

is_image = torch.arange(10) < len(patches)
embedded[is_image] = patches

# %% meshgrid
import warnings

down, right = torch.arange(2), torch.arange(3)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    unnamed = torch.meshgrid(down, right)
print(str(caught[0].message).partition(" (Triggered")[0])

named = torch.meshgrid(down, right, indexing="ij")
