"""
Change the shape of a tensor
============================

What each change of shape does to a picture, and the errors it can raise.
"""

# %% load
import torch
from sklearn.datasets import load_digits
from torch import nn

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)  # 1797 x 8 x 8

ink = images.unsqueeze(3) / 16  # 0 for paper, 1 for ink
photos = 1 - ink * torch.tensor([1.0, 0.55, 0.3])  # blue ink on white paper
print(images.shape, photos.shape, sep="\n")

# %% do-this
batch = images.unsqueeze(1)  # add an axis of size 1, for the channel
rows = images.flatten(1)  # make each image one row of 64 numbers
moved = photos.permute(0, 3, 1, 2)  # move the colors from the end to axis 1

print(batch.shape, rows.shape, moved.shape, sep="\n")

# %% by-hand
x = torch.tensor([[0, 1, 2], [3, 4, 5]])
reshaped = x.reshape(3, 2)
permuted = x.permute(1, 0)

print(x, reshaped, permuted, sep="\n")

# %% by-hand-drawn
import matplotlib.pyplot as plt

shown = {"x": x, "x.reshape(3, 2)": reshaped, "x.permute(1, 0)": permuted}
_, panels = plt.subplots(1, 3, figsize=(4.4, 2.1), layout="constrained")
for panel, (name, each) in zip(panels, shown.items(), strict=True):
    for (row, column), number in zip(
        torch.ones_like(each).nonzero().tolist(), each.flatten(), strict=True
    ):
        color = "#0072B2" if number < 3 else "#D55E00"  # by the row in x
        square = {"fc": color, "ec": "white", "boxstyle": "square,pad=0.5"}
        panel.text(column, row, number.item(), bbox=square, color="white")
    panel.set(xlim=(-0.5, 2.8), ylim=(2.6, -0.6), aspect="equal")
    panel.set_axis_off()
    panel.set_title(name, size=11)
plt.suptitle("Six numbers reshaped and permuted")
plt.show()

# %% reorder
to_the_end = batch.permute(0, 2, 3, 1)
also_to_the_end = batch.movedim(1, -1)
mirrored = images.transpose(-2, -1)
also_mirrored = images.mT

print(to_the_end.shape, mirrored.shape)

# %% regroup
halves = images.reshape(1797, 2, -1)  # top and bottom half of each image
again = rows.unflatten(1, (8, 8))  # rows of 64 back to images
one_row = images.view(-1)  # all images in one row

print(halves.shape, again.shape, one_row.shape, sep="\n")

# %% size-one
three = images[3]  # 8 x 8
as_batch = three.unsqueeze(0)  # 1 x 8 x 8, as with three[None]
back = as_batch.squeeze(0)  # 8 x 8

print(as_batch.shape, back.shape)

# %% scrambled
# Wrong on purpose: do not copy.
photo = photos[0]
right = photo.permute(2, 0, 1)
scrambled = photo.reshape(3, 8, 8)
kept = (scrambled == right).all(dim=0)

print(scrambled.shape, kept.sum().item(), "of 64 pixels are right")

# %% scrambled-drawn
import matplotlib.pyplot as plt

shown = {"permute(2, 0, 1)": right, "reshape(3, 8, 8)": scrambled}
_, panels = plt.subplots(1, 2, figsize=(5, 2.9), layout="constrained")
for panel, (name, each) in zip(panels, shown.items(), strict=True):
    panel.imshow(each.permute(1, 2, 0))  # imshow wants the colors last
    panel.set(xticks=[], yticks=[])
    panel.set_title(name, size=11)
plt.suptitle("One shape, two pictures")
plt.show()


# %% error-of
def error_of(attempt):
    try:
        attempt()
    except (RuntimeError, TypeError) as error:
        return str(error)


# %% not-flattened
# Wrong on purpose: do not copy.
torch.manual_seed(0)
five = batch[:5]
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Linear(144, 10))
said = error_of(lambda: model(five))

print("from the convolution:", model[0](five).shape)
print(said)

# %% flattened
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 10))

print(model(five).shape)

# %% one-image
single = batch[0]
unbatched = error_of(lambda: model(single))

print(single.shape, unbatched)
print(model(single.unsqueeze(0)).shape)

# %% channels-elsewhere
# Wrong on purpose: do not copy.
conv = nn.Conv2d(3, 8, 3)
missed = error_of(lambda: conv(photos[:5]))
too_few = error_of(lambda: conv(images[0]))

print(missed)
print(too_few)

# %% three-channels
to_rgb = {
    "gray (N, 1, H, W)": lambda images: images.expand(-1, 3, -1, -1),
    "gray (N, H, W)": lambda images: images[:, None].expand(-1, 3, -1, -1),
    "RGBA (N, 4, H, W)": lambda images: images[:, :3],  # without alpha
    "RGB (N, H, W, 3)": lambda images: images.permute(0, 3, 1, 2),
}

with_alpha = torch.cat([moved, torch.ones(1797, 1, 8, 8)], dim=1)
kinds = [batch, images, with_alpha, photos]
for (name, convert), each in zip(to_rgb.items(), kinds, strict=True):
    print(f"{name:17}", tuple(convert(each).shape))

# %% wrong-count
# Wrong on purpose: do not copy.
misfits = [
    error_of(lambda: images.reshape(1797, 63)),
    error_of(lambda: images.reshape(-1, 63)),
]
print(*misfits, sep="\n")

# %% wrong-rows
# Wrong on purpose: do not copy.
split = images.reshape(-1, 32)

print(len(images), "images became", len(split), "rows")

# %% squeezed
# Wrong on purpose: do not copy.
last = rows.split(4)[-1]  # the last batch of 4 holds one image
scores = nn.Linear(64, 1)(last)
squeezed = scores.squeeze()
looped = error_of(lambda: list(squeezed))

print(scores.shape, "became", squeezed.shape)
print(looped)

# %% squeezed-with-an-axis
one_each = [scores.repeat(n, 1).squeeze(1) for n in (1, 3)]

print(*(each.shape for each in one_each))

# %% t-warns
import warnings

with warnings.catch_warnings(record=True, action="always") as caught:
    reversed_axes = [x.T, right.T]

print(*(tuple(each.shape) for each in reversed_axes))
print(str(caught[0].message).partition(" (Triggered")[0])

# %% predict
y = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])

print(y.reshape(4, 2)[1].tolist(), y.permute(1, 0)[1].tolist())

# %% sheet
sheet = images[:10].permute(1, 0, 2).reshape(8, 80)

# %% sheet-checked
expected = torch.cat(list(images[:10]), dim=1)
if sheet.shape != (8, 80):
    print("Not yet: the shape is", tuple(sheet.shape))
elif sheet.equal(expected):
    print("Right: now the ten digits are side by side.")
else:
    right_digits = sum(
        sheet[:, 8 * n : 8 * n + 8].equal(images[n]) for n in range(10)
    )
    print("The shape is right, but only", right_digits, "of 10 digits are.")
