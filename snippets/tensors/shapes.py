"""
Shapes
======

What each change of shape does to the numbers of a tensor, and what it raises.
"""

# %% do-this
import torch
from torch import nn

flag = torch.zeros(4, 6, 3)  # rows, columns, colours
flag[:, :3] = torch.tensor([0.0, 0.45, 0.70])  # left half blue
flag[:, 3:] = torch.tensor([0.84, 0.37, 0.0])  # right half orange

channels = flag.permute(2, 0, 1)  # another order of the dimensions
batch = channels.unsqueeze(0)  # one more dimension, of size 1
rows = batch.flatten(1)  # all dimensions from 1 on joined into one

print(*(tuple(each.shape) for each in (flag, channels, batch, rows)))


# %% walk
from itertools import product


def walk(x):
    places = []
    for index in product(*map(range, x.shape)):
        steps = zip(index, x.stride(), strict=True)
        places.append(sum(i * stride for i, stride in steps))
    return places


# %% strides
grey = torch.arange(6).reshape(2, 3)
for x in (grey, grey.mT):
    print("shape", tuple(x.shape), "strides", x.stride(), end=" ")
    print("goes through", walk(x), "contiguous:", x.is_contiguous())

# %% walks-drawn
import matplotlib.pyplot as plt

_, axes = plt.subplots(2, figsize=(5.4, 3), layout="constrained")
for ax, name in zip(axes, ("grey", "grey.mT"), strict=True):
    x = grey.mT if "mT" in name else grey
    for place in range(6):
        square = {"fc": "none", "boxstyle": "square,pad=0.6"}
        ax.text(place, 0, place, bbox=square, ha="center", va="center")
    for start, end in zip(walk(x), walk(x)[1:], strict=False):
        arrow = {"arrowstyle": "->", "shrinkA": 12, "shrinkB": 12}
        arrow["color"] = "#D55E00" if "mT" in name else "#0072B2"
        arrow["connectionstyle"] = "arc3,rad=-0.4"
        ax.annotate("", (end, 0), (start, 0), arrowprops=arrow)
    ax.set(title=f"{name}: shape {tuple(x.shape)}, strides {x.stride()}")
    ax.set(xlim=(-0.6, 5.6), ylim=(-2, 2), xticks=[], yticks=[])
    ax.set(frame_on=False)
plt.show()

# %% reorder
reorder = {
    "permute(0, 2, 3, 1)": lambda x: x.permute(0, 2, 3, 1),
    "movedim(1, -1)": lambda x: x.movedim(1, -1),
    "transpose(-2, -1)": lambda x: x.transpose(-2, -1),
    "mT": lambda x: x.mT,
}

# %% regroup
regroup = {
    "unsqueeze(0)": lambda x: x.unsqueeze(0),
    "squeeze(0)": lambda x: x.squeeze(0),
    "unflatten(2, (2, 2))": lambda x: x.unflatten(2, (2, 2)),
    "view(1, 3, -1)": lambda x: x.view(1, 3, -1),
    "reshape(1, 3, -1)": lambda x: x.reshape(1, 3, -1),
    "flatten(1)": lambda x: x.flatten(1),
    "contiguous()": lambda x: x.contiguous(),
}


# %% kind
def kind(call, x):
    x = x.clone()  # with the same strides
    before = x.clone()
    result = call(x).add_(1)
    if result is x:
        return "itself"
    return "copy" if x.equal(before) else "view"


# %% calls
kinds = {}
print(f"{'':38} batch contiguous copy")
for name, call in (reorder | regroup).items():
    kinds[name] = kind(call, batch), kind(call, batch.contiguous())
    print(f"{name:21}{tuple(call(batch).shape)!s:17}", *kinds[name])

# %% scrambled
# Wrong on purpose: do not copy.
scrambled = flag.reshape(3, 4, 6)
right = (scrambled == channels).all(0)

print(tuple(scrambled.shape), right.sum().item(), "right of", right.numel())

# %% scrambled-drawn
import matplotlib.pyplot as plt

shown = {"flag.permute(2, 0, 1)": channels, "flag.reshape(3, 4, 6)": scrambled}
_, axes = plt.subplots(1, 2, figsize=(7, 2.4), layout="constrained")
for ax, (name, picture) in zip(axes, shown.items(), strict=True):
    ax.imshow(picture.permute(1, 2, 0))
    ax.set(title=name, xticks=[], yticks=[])
plt.show()


# %% refusal
def refusal(attempt):
    try:
        attempt()
    except (RuntimeError, TypeError) as error:
        return str(error)


# %% view-refused
# Wrong on purpose: do not copy.
refused = {
    "permuted": refusal(lambda: batch.view(1, -1)),
    "transposed": refusal(lambda: grey.mT.view(-1)),
    "columns": refusal(lambda: grey[:, :2].view(-1)),
}
print(refused["permuted"])


# %% needed
def needed(x, dim):
    return x.size(dim + 1) * x.stride(dim + 1)


for dim, names in enumerate(("colours and rows:", "rows and columns:")):
    print(names, channels.stride(dim), "needed:", needed(channels, dim))

# %% view-fixed
fixes = {
    "reshape": lambda x, *shape: x.reshape(*shape),
    "contiguous": lambda x, *shape: x.contiguous().view(*shape),
}
for name, fix in fixes.items():
    print(name, tuple(fix(batch, 1, -1).shape))

# %% wrong-count
# Wrong on purpose: do not copy.
misfits = [
    refusal(lambda: flag.reshape(3, 5, 6)),
    refusal(lambda: flag.reshape(-1, 5)),
]
print(*misfits, sep="\n")

# %% wrong-rows
# Wrong on purpose: do not copy.
halves = batch.reshape(-1, 36)
print(len(batch), "flag became", len(halves), "rows")

# %% not-flattened
# Wrong on purpose: do not copy.
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Linear(64, 2))
said = refusal(lambda: model(batch))
print("from the convolution:", tuple(model[0](batch).shape))
print(said)

# %% flattened
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(64, 2))
unbatched = refusal(lambda: model(channels))
print("a batch:   ", tuple(model(batch).shape))
print("a picture: ", unbatched)
print("batched:   ", tuple(model(channels.unsqueeze(0)).shape))

# %% channels-elsewhere
# Wrong on purpose: do not copy.
conv = nn.Conv2d(3, 8, 3)
missed = refusal(lambda: conv(flag))
print(missed)

# %% three-channels
to_rgb = {
    "gray (N, 1, H, W)": lambda images: images.expand(-1, 3, -1, -1),
    "gray (N, H, W)": lambda images: images[:, None].expand(-1, 3, -1, -1),
    "RGBA (N, 4, H, W)": lambda images: images[:, :3],  # without alpha
    "RGB (N, H, W, 3)": lambda images: images.permute(0, 3, 1, 2),
}

pictures = torch.arange(120.0).reshape(2, 4, 3, 5)  # red, green, blue, alpha
colours = pictures[:, :3]
kinds = [pictures[:, :1], pictures[:, 0], pictures, colours.movedim(1, -1)]
for (name, convert), images in zip(to_rgb.items(), kinds, strict=True):
    print(f"{name:17}", tuple(convert(images).shape))

# %% squeezed
# Wrong on purpose: do not copy.
scores = nn.Linear(72, 1)(rows)  # one score for each flag
squeezed = scores.squeeze()
looped = refusal(lambda: list(squeezed))
print(tuple(scores.shape), "became", tuple(squeezed.shape))
print(looped)

# %% squeezed-with-a-dimension
one_each = {n: scores.repeat(n, 1).squeeze(1) for n in (1, 3)}
for n, each in one_each.items():
    print((n, 1), "became", tuple(each.shape))

# %% channels-last
photos = torch.arange(144.0).reshape(2, 3, 4, 6)
last = photos.to(memory_format=torch.channels_last)
conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
maps = conv(last)
flags = flag.unsqueeze(0).permute(0, 3, 1, 2)

shown = {"photos": photos, "last": last, "maps": maps, "flags": flags}
for name, x in shown.items():
    print(f"{name:7}", tuple(x.shape), x.stride())

# %% t-warns
import warnings

with warnings.catch_warnings(record=True, action="always") as caught:
    turned = [grey.T, channels.T]

print(*(tuple(each.shape) for each in turned))
print(str(caught[0].message).partition(" (Triggered")[0])
