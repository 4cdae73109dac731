"""
Strides, views and contiguous memory
====================================

How a tensor finds its numbers in memory, and when it shares or copies them.
"""

# %% load
import torch
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)  # 1797 x 8 x 8
ink = images.unsqueeze(3) / 16  # 0 for paper, 1 for ink
photos = 1 - ink * torch.tensor([1.0, 0.55, 0.3])  # 1797 x 8 x 8 x 3

# %% do-this
moved = photos.permute(0, 3, 1, 2)  # colors first: no number is copied
rows = moved.reshape(1797, -1)  # copies, where view would raise an error
own = moved.clone()  # a copy that you can write into safely

print(moved.stride(), moved.is_contiguous())
print(rows.stride(), rows.is_contiguous())

# %% digit-in-memory
memory = images.flatten()
place = 2 * 64 + 5 * 8 + 3 * 1

print(images.stride(), place, images[2, 5, 3], memory[place])


# %% walk
from itertools import product


def walk(x):
    places = []
    for index in product(*map(range, x.shape)):
        steps = zip(index, x.stride(), strict=True)
        places.append(sum(i * stride for i, stride in steps))
    return places


# %% strides
x = torch.tensor([[0, 1, 2], [3, 4, 5]])
transposed = x.mT

print(x.stride(), walk(x), x.is_contiguous())
print(transposed.stride(), walk(transposed), transposed.is_contiguous())

# %% walks-drawn
import matplotlib.pyplot as plt

_, axes = plt.subplots(2, figsize=(5, 3), layout="constrained")
for ax, name in zip(axes, ("x", "x.mT"), strict=True):
    each, color = (x.mT, "#D55E00") if "mT" in name else (x, "#0072B2")
    for place in range(6):
        square = {"fc": "none", "boxstyle": "square,pad=0.6"}
        ax.text(place, 0, place, bbox=square, ha="center", va="center")
    for start, end in zip(walk(each), walk(each)[1:], strict=False):
        arrow = {"arrowstyle": "->", "shrinkA": 12, "shrinkB": 12}
        arrow |= {"connectionstyle": "arc3,rad=-0.4", "color": color}
        ax.annotate("", (end, 0), (start, 0), arrowprops=arrow)
    ax.set(title=f"{name}: shape {tuple(each.shape)}, stride {each.stride()}")
    ax.set(xlim=(-0.6, 5.6), ylim=(-2, 2), xticks=[], yticks=[])
    ax.set(frame_on=False)
plt.show()

# %% reorder
batch = moved[:1]  # one photo: 1 x 3 x 8 x 8

calls = {
    "permute(0, 2, 3, 1)": lambda x: x.permute(0, 2, 3, 1),
    "movedim(1, -1)": lambda x: x.movedim(1, -1),
    "transpose(-2, -1)": lambda x: x.transpose(-2, -1),
    "mT": lambda x: x.mT,
    "unsqueeze(0)": lambda x: x.unsqueeze(0),
    "squeeze(0)": lambda x: x.squeeze(0),
}
# %% regroup
calls |= {
    "unflatten(2, (2, -1))": lambda x: x.unflatten(2, (2, -1)),
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


# %% kinds
kinds = {}
print(f"{'':22}batch  batch.contiguous()")
for name, call in calls.items():
    kinds[name] = kind(call, batch), kind(call, batch.contiguous())
    print(f"{name:22}{kinds[name][0]:7}{kinds[name][1]}")


# %% error-of
def error_of(attempt):
    try:
        attempt()
    except RuntimeError as error:
        return str(error)


# %% view-refused
# Wrong on purpose: do not copy.
refused = {
    "permuted": error_of(lambda: batch.view(1, -1)),
    "transposed": error_of(lambda: x.mT.view(-1)),
    "columns": error_of(lambda: x[:, :2].view(-1)),
}
print(refused["permuted"])


# %% view-fixed
reshaped = batch.reshape(1, -1)
viewed = batch.contiguous().view(1, -1)

print(reshaped.shape, viewed.shape)


# %% needed
def needed(x, dim):
    return x.size(dim + 1) * x.stride(dim + 1)


print("colors and rows: ", batch.stride(1), "needed:", needed(batch, 1))
print("rows and columns:", batch.stride(2), "needed:", needed(batch, 2))

# %% channels-last
from torch import nn

two = moved[:2].contiguous()
last = two.to(memory_format=torch.channels_last)
conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
maps = conv(last)

for name, each in {"two": two, "last": last, "maps": maps}.items():
    print(f"{name:5}", tuple(each.shape), each.stride())

# %% predict
a = torch.zeros(2, 3)
a.mT[0] = 1
a.mT.reshape(-1)[1] = 5

print(a)


# %% strides-of
def strides_of(shape):
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides)


# %% strides-of-checked
missed = []
for shape in ((2, 3), (1797, 8, 8), (2, 3, 4, 6), (5,)):
    expected = torch.zeros(shape).stride()
    if strides_of(shape) != expected:
        missed.append(f"Not yet: {shape} has the strides {expected}.")

print(*(missed or ["Right: these are the strides of contiguous tensors."]))
