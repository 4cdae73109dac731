"""
Turn pictures into tensors
==========================

From a picture file to the batch that a model takes: axes, range and size.
"""

# %% read
import numpy as np
import torch
from PIL import Image, ImageOps


def read(path):
    with Image.open(path) as file:
        upright = ImageOps.exif_transpose(file)  # a photo from a phone
        pixels = np.array(upright.convert("RGB"))  # (height, width, 3), uint8
    channels_first = torch.from_numpy(pixels).permute(2, 0, 1)
    return channels_first / 255  # float32, from 0 to 1


# %% photo
from sklearn.datasets import load_digits, load_sample_images

temple, flower = load_sample_images().filenames
image = read(flower)
batch = image[None]  # a batch of one

print(image.shape, image.dtype)
print(batch.shape)

# %% digit
digit = torch.tensor(load_digits().images[0], dtype=torch.float32) / 16

from matplotlib.figure import Figure

axes = Figure().subplots()  # draws without a window

# %% show
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(
    1, 2, figsize=(6, 2.6), layout="constrained"
)
left.imshow(image.permute(1, 2, 0))
left.set_title("permute(1, 2, 0)")
right.imshow(digit, cmap="gray", vmin=0, vmax=1)
right.set_title('cmap="gray"')
figure.suptitle("A photo and a gray picture")
plt.show()

# %% not-shown
# Wrong on purpose: do not copy.
message = None
try:
    axes.imshow(image)
except TypeError as error:
    message = str(error)

print(message)

# %% stretched
bright = axes.imshow(digit, cmap="gray")
dim = axes.imshow(digit / 2, cmap="gray")
colored = axes.imshow(digit)

print("white is", bright.get_clim()[1], "and", dim.get_clim()[1])
print("without cmap:", colored.cmap.name)

# %% pixel
with Image.open(flower) as file:
    size, pixels = file.size, np.array(file)

print("Pillow:", size, "NumPy:", pixels.shape)
print(pixels[200, 320], "/ 255 =", image[:, 200, 320])

# %% logo
from PIL import ImageDraw

logo = Image.new("RGBA", (64, 64))  # every pixel is 0, 0, 0, 0
ImageDraw.Draw(logo).ellipse((8, 8, 56, 56), fill=(255, 0, 0, 128))
white = Image.new("RGBA", logo.size, "white")

dropped = logo.convert("RGB")
applied = Image.alpha_composite(white, logo).convert("RGB")
for name, spot in {"corner": (0, 0), "disk": (32, 32)}.items():
    colors = [each.getpixel(spot) for each in (logo, dropped, applied)]
    print(name, *colors)

# %% logo-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 2, figsize=(5, 2.8), layout="constrained")
titles = ['convert("RGB")', "on white"]
for ax, each, title in zip(panels, [dropped, applied], titles, strict=True):
    ax.imshow(np.array(each), extent=(0, 64, 64, 0))
    ax.set_title(title)
figure.suptitle("A half transparent disk on nothing")
plt.show()


# %% tiles
def cut(photo):  # into 6 rows of 10 tiles
    rows = photo[:, :384].split(64, dim=1)
    return [tile for row in rows for tile in row.split(64, dim=2)]


tiles = torch.stack(cut(read(temple)) + cut(image))
labels = torch.arange(2).repeat_interleave(60)  # 0: temple, 1: flower
order = torch.randperm(120, generator=torch.Generator().manual_seed(0))
train, valid = order.split([80, 40])

print(tiles.shape)

# %% normalize
mean = tiles[train].mean(dim=(0, 2, 3))
std = tiles[train].std(dim=(0, 2, 3))


def normalize(images):
    return (images - mean[:, None, None]) / std[:, None, None]


print("mean", mean)
print("std ", std)

# %% by-hand
black, white_tile = torch.zeros(1, 4, 4), torch.ones(1, 4, 4)
two = torch.stack([black, white_tile])

print("each by itself:", two.std(dim=(1, 2, 3)))
print("all 32 pixels:", two.std(correction=0))

# %% too-small
# Wrong on purpose: do not copy.
mean_of_stds = tiles[train].std(dim=(2, 3)).mean(dim=0)

print("mean of 80 deviations:", mean_of_stds)
print("of what it should be: ", mean_of_stds / std)

# %% sums
count, total, squares = 0, 0.0, 0.0
for part in tiles[train].split(32):  # or the batches of a DataLoader
    part = part.double()
    count += part[:, 0].numel()  # pixels
    total += part.sum(dim=(0, 2, 3))
    squares += part.square().sum(dim=(0, 2, 3))

mean_of_sums = total / count
std_of_sums = (squares / count - mean_of_sums.square()).sqrt()
print(mean_of_sums.float(), std_of_sums.float())

# %% imagenet
imagenet_mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
imagenet_std = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
prepared = (image - imagenet_mean) / imagenet_std

print(f"from {prepared.amin():.2f} to {prepared.amax():.2f}")

# %% resize
import torch.nn.functional as F

options = {"size": (8, 8), "mode": "bilinear"}
small = F.interpolate(tiles, **options, antialias=True)

print(tiles.shape, "->", small.shape)


# %% pixels-read
def pixels_read(**options):
    tile = torch.zeros(1, 1, 64, 64, requires_grad=True)
    F.interpolate(tile, **options).sum().backward()
    return (tile.grad != 0).sum().item()


print("nearest:  ", pixels_read(size=(8, 8)))
print("bilinear: ", pixels_read(**options))
print("antialias:", pixels_read(**options, antialias=True))

# %% resized-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 2, figsize=(6, 2.4), layout="constrained")
for ax, smooth in zip(panels, [False, True], strict=True):
    shrunk = F.interpolate(
        read(temple)[None], (53, 80), mode="bilinear", antialias=smooth
    )
    ax.imshow(shrunk[0].permute(1, 2, 0))
    ax.set(title=f"antialias={smooth}", xticks=[], yticks=[])
figure.suptitle("The temple, shrunk to an eighth")
plt.show()

# %% layers
from torch import nn

conv = nn.Conv2d(3, 16, kernel_size=5, stride=2, padding=1)
pool = nn.MaxPool2d(2)
pool_up = nn.MaxPool2d(2, ceil_mode=True)

hidden = conv(tiles)
print("conv:     ", hidden.shape)
print("pool:     ", pool(hidden).shape)
print("ceil_mode:", pool_up(hidden).shape)


# %% out-size
def out_size(n, kernel, stride, padding=0, dilation=1, ceil_mode=False):
    room = n + 2 * padding - dilation * (kernel - 1) - 1
    steps = room // stride
    if ceil_mode and room % stride:
        # One more, if that window starts before the padding at the end.
        steps += (steps + 1) * stride < n + padding
    return steps + 1


print(out_size(64, 5, stride=2, padding=1))
print(out_size(31, 2, stride=2), out_size(31, 2, stride=2, ceil_mode=True))

# %% features
features = nn.Sequential(conv, nn.ReLU(), pool, nn.Flatten())
with torch.no_grad():
    in_features = features(torch.zeros(1, 3, 64, 64)).shape[1]
model = nn.Sequential(features, nn.Linear(in_features, 2))

print("in_features:", in_features, "scores:", model(tiles).shape)

# %% any-size
for_any_size = nn.Sequential(
    conv, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2)
)
print(for_any_size(tiles).shape, for_any_size(batch).shape)

# %% scrambled
# Wrong on purpose: do not copy.
height, width, _ = pixels.shape
scrambled = torch.from_numpy(pixels).reshape(3, height, width) / 255

share = (scrambled == image).float().mean().item()
print(scrambled.shape, f"{share:.1%} of the numbers are right")

# %% scrambled-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 2, figsize=(6, 2.4), layout="constrained")
titles = ["permute(2, 0, 1)", "reshape(3, 427, 640)"]
for ax, each, title in zip(panels, [image, scrambled], titles, strict=True):
    ax.imshow(each.permute(1, 2, 0))
    ax.set(title=title, xticks=[], yticks=[])
figure.suptitle("The same numbers, in the right and the wrong order")
plt.show()

# %% turned
from io import BytesIO

exif = Image.Exif()
exif[0x0112] = 6  # orientation: turn it by 90 degrees, clockwise
phone = BytesIO()  # in place of a file
with Image.open(flower) as file:
    file.save(phone, "PNG", exif=exif)

with Image.open(phone) as file:
    opened, upright = np.array(file), np.array(ImageOps.exif_transpose(file))

print("opened:", opened.shape, "upright:", upright.shape)

# %% wrapped
# Wrong on purpose: do not copy.
raw = torch.tensor([10, 100, 200], dtype=torch.uint8)
brighter = raw + 100
darker = raw - 20

print("brighter:", brighter)
print("darker:  ", darker)


# %% fit
def fit(inputs, seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 2)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        loss = F.cross_entropy(model(inputs), labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# %% wrong-range
def accuracy(model, inputs):
    with torch.no_grad():
        return (model(inputs).argmax(1) == labels[valid]).float().mean()


trained = fit(normalize(small[train]))
unseen = small[valid]
fed = {
    "normalized": normalize(unseen),
    "normalized twice": normalize(normalize(unseen)),
    "0 to 1": unseen,
    "0 to 255": unseen * 255,
}
for name, inputs in fed.items():
    print(f"{name:17}accuracy {accuracy(trained, inputs):.1f}")

# %% look
for name, inputs in fed.items():
    red = inputs[:, 0]
    numbers = red.mean(), red.std(), red.amin(), red.amax()
    print(f"{name:17}", *(f"{number:7.2f}" for number in numbers))

# %% quiz
tile = torch.tensor([0, 100, 250], dtype=torch.uint8)
print(tile + 10, tile / 250)

# %% shown
inputs = normalize(tiles[0])
shown = inputs * std[:, None, None] + mean[:, None, None]
shown = shown.permute(1, 2, 0)

# %% shown-checked
expected = tiles[0].permute(1, 2, 0)
fits = shown.shape == expected.shape
is_back = fits and torch.allclose(shown, expected, atol=1e-5)
if is_back:
    print("Right: the tile is back, and imshow can draw it")
elif fits:
    print("Not yet: the first pixel should be", expected[0, 0])
else:
    print("Not yet: imshow needs the shape", tuple(expected.shape))
