"""
NumPy arrays and tensors
========================

Which calls copy the numbers of a NumPy array, and which share them.
"""

# %% do-this
import torch
from sklearn.datasets import load_digits

pixels = load_digits().images  # a NumPy array of float64, 1797 x 8 x 8
images = torch.tensor(pixels, dtype=torch.float32)  # copies
shared = torch.from_numpy(pixels)  # shares
back = images.detach().cpu().numpy()  # to NumPy again

print(images.dtype, shared.dtype, back.dtype)

# %% a-write
pixels[0, 0, 2] = 99.0  # it was 5

print("images:", images[0, 0])
print("shared:", shared[0, 0])

# %% owners
places = {
    "pixels": pixels.ctypes.data,
    "shared": shared.data_ptr(),
    "images": images.data_ptr(),
    "back": back.ctypes.data,
}
numbers = {x.data_ptr(): x[0, 0, :4].tolist() for x in (shared, images)}

# %% owners-drawn
import matplotlib.pyplot as plt

plt.figure(figsize=(5, 2.2))
for place, color in zip(numbers, ["#D55E00", "#0072B2"], strict=True):
    rows = {n: -row for row, n in enumerate(places) if places[n] == place}
    memory = (0.8, sum(rows.values()) / len(rows))
    for name, row in rows.items():
        plt.annotate(name, memory, (0, row), arrowprops={"arrowstyle": "->"})
    box = {"facecolor": "none", "edgecolor": color}
    plt.text(
        *memory, f"{numbers[place]}"[:-1] + ", ...", va="center", bbox=box
    )
plt.axis((-0.1, 2, -3.5, 0.5))
plt.axis("off")
plt.title("Four names, two blocks of memory")
plt.show()

# %% both-ways
shared[0, 0, 3] = -1.0  # it was 13

print(pixels[0, 0])


# %% outcome
import warnings

import numpy as np


def outcome(call, source):
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            tensor = call(source)
        except (AttributeError, RuntimeError, TypeError) as error:
            return type(error).__name__
    source[0] += 1
    found = "shares" if tensor[0] == source[0] else "copies"
    return f"{found}, warns" if caught else found


# %% outcomes
outcomes = {}
for name in ("tensor", "as_tensor", "asarray", "from_numpy", "from_dlpack"):
    call = getattr(torch, name)
    outcomes[f"torch.{name}"] = {
        "an array": outcome(call, np.ones(3)),
        "a tensor": outcome(call, torch.ones(3)),
        "a list": outcome(call, [1.0, 1.0, 1.0]),
    }

# %% outcomes-table
import pandas as pd

pd.DataFrame.from_dict(outcomes, orient="index")

# %% another-type
converted = torch.as_tensor(pixels, dtype=torch.float32)
pixels[0, 0, 4] = 77.0  # it was 9

print(converted[0, 0, 4], shared[0, 0, 4])


# %% error-of
def error_of(call, *inputs):
    try:
        call(*inputs)
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)


# %% without-a-copy
def without_a_copy(source, dtype=None):
    return torch.asarray(source, dtype=dtype, copy=False)


not_aliased = error_of(without_a_copy, pixels, torch.float32)
print(not_aliased)

# %% buffer
# Wrong on purpose: do not copy.
buffer, frames = np.zeros((8, 8)), []
for image in pixels[1:4]:
    buffer[:] = image
    frames.append(torch.from_numpy(buffer))

print([frame.sum().item() for frame in frames])

# %% buffer-copied
copies = []
for image in pixels[1:4]:
    buffer[:] = image
    copies.append(torch.tensor(buffer))

print([copy.sum().item() for copy in copies])

# %% frames-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(2, 3, figsize=(4, 3), layout="constrained")
for row, name, kept in zip(
    panels, ("shared", "copied"), (frames, copies), strict=True
):
    row[0].set_ylabel(name)
    for panel, frame in zip(row, kept, strict=True):
        panel.imshow(frame, cmap="gray_r")
        panel.set(xticks=(), yticks=())
figure.suptitle("Three images from one buffer")
plt.show()

# %% double
layer = torch.nn.Linear(64, 10)
flat = shared.flatten(1)  # 1797 x 64, float64
other_dtype = error_of(layer, flat)
without_bias = error_of(torch.nn.Linear(64, 10, bias=False), flat)
scores = layer(flat.float())

print(other_dtype, without_bias, scores.shape, sep="\n")

# %% refused
# Wrong on purpose: do not copy.
arrays = {
    "reversed": pixels[1, :, ::-1],
    "byte order": pixels[1].astype(pixels.dtype.newbyteorder()),
    "objects": np.array([20.5, None]),
}
refused = {}
for name, array in arrays.items():
    refused[name] = error_of(torch.from_numpy, array)
    print(f"{name}: {refused[name]}\n")

# %% accepted
mirrored = torch.from_numpy(arrays["reversed"].copy())
foreign = arrays["byte order"]
native = torch.from_numpy(foreign.astype(foreign.dtype.newbyteorder("=")))
filled = torch.from_numpy(arrays["objects"].astype(np.float64))

print(pixels[1, 0], mirrored[0], native[0], filled, sep="\n")


# %% told
def told(call, source):
    with warnings.catch_warnings(record=True, action="always") as caught:
        result = call(source)
    texts = [str(each.message).partition(" (Trigg")[0] for each in caught]
    return result, texts


# %% list-of-arrays
# Wrong on purpose: do not copy.
rows = [pixels[1, 0], pixels[2, 0]]  # two arrays of 8 numbers
slow, texts = told(torch.tensor, rows)
print(*texts[:1])

# %% stacked
fast = torch.from_numpy(np.stack(rows))
print(fast)

# %% back-refused
# Wrong on purpose: do not copy.
weight = torch.tensor([0.5, 1.5], requires_grad=True)
half = torch.tensor([20.5, 21.0], dtype=torch.bfloat16)
elsewhere = torch.ones(2, device="meta")
kept = [error_of(each.numpy) for each in (weight, half, elsewhere)]
print(*kept, sep="\n")

# %% back-accepted
detached = weight.detach().numpy()
floats = half.float().numpy()
print(detached, floats)

# %% forced
forced = weight.numpy(force=True)
forced[0] = -7.0
print(weight)

# %% quiz
counts = np.array([1, 2, 3])
first = torch.from_numpy(counts)
second = torch.tensor(counts)
third = first + 0
counts[0] = 9
print(first[0], second[0], third[0])
