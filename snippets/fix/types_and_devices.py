"""
The wrong device or dtype
=========================

Errors about types, each with a line that mends it.
"""

# %% doubles
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

convolution, batch = nn.Conv1d(64, 1, 1), torch.rand(64, 3)
try:
    convolution(batch.double())
except RuntimeError as error:
    print(error)

output = convolution(batch.double().float())

# %% integers
numbers = torch.tensor([70, 3, 20])
try:
    nn.Linear(3, 1)(numbers)
except RuntimeError as error:
    print(error)

# %% halves
half, full = torch.rand(2, 3, 4).half(), torch.rand(2, 4, 5)
try:
    half @ full
except RuntimeError as error:
    print(error)

with torch.autocast("cpu", dtype=torch.bfloat16):
    mixed = half @ full
product = half.float() @ full

# %% class-weights
scores, labels = torch.rand(6, 3), torch.tensor([0, 2, 1, 1, 0, 2])
weight = torch.from_numpy(1 / np.bincount(labels))  # NumPy makes float64
try:
    F.cross_entropy(scores, labels, weight=weight)
except RuntimeError as error:
    print(error)

loss = F.cross_entropy(scores, labels, weight=weight.float())

# %% half-on-the-cpu
matrix = torch.rand(3, 3).half()
try:
    torch.linalg.svd(matrix)
except RuntimeError as error:
    print(error)

squared = matrix @ matrix
parts = torch.linalg.svd(matrix.float())

# %% swapped-classes
scores, classes = torch.randn(3, 2), torch.tensor([1, 0, 1])
try:
    F.cross_entropy(classes, scores)
except RuntimeError as error:
    print(error)

in_order = F.cross_entropy(scores, classes)

# %% averaged
norm = nn.BatchNorm1d(3)
state, average = norm.state_dict(), nn.BatchNorm1d(3).state_dict()
try:
    for name, value in average.items():
        value.mul_(0.9).add_(0.1 * state[name])
except RuntimeError as error:
    print(error)

for name, value in average.items():
    if value.is_floating_point():
        value.mul_(0.9).add_(0.1 * state[name])
    else:  # a counter
        value.copy_(state[name])

# %% masks
mask = torch.tensor([True, False, True])
try:
    1 - mask
except RuntimeError as error:
    print(error)

inverted = ~mask

# %% stft
sound, window = torch.arange(2000.0).sin(), torch.hann_window(64)
try:
    torch.stft(sound, 64, window=window)
except RuntimeError as error:
    print(error)

spectrum = torch.stft(sound, 64, window=window, return_complex=True)
as_before = torch.view_as_real(spectrum)

# %% arrays
from torch.utils.data import DataLoader

rows = [np.ones(3, dtype=np.float32) for _ in range(4)]
(batch,) = DataLoader(rows, batch_size=4, collate_fn=np.stack)
try:
    batch.to("cpu")
except AttributeError as error:
    print(error)

(moved,) = [x.to("cpu") for x in DataLoader(rows, batch_size=4)]

# %% pillow
from PIL import Image

image = Image.new("RGB", (6, 4))
for call in (torch.Tensor, torch.tensor, torch.from_numpy):
    try:
        call(image)
    except (RuntimeError, TypeError) as error:
        print(error)

pixels = torch.from_numpy(np.array(image))
print(pixels.shape, pixels.dtype)


# %% one-argument
class Add(nn.Module):
    def forward(self, x, skip):
        return x + skip


x = torch.rand(4, 3)
try:
    nn.Sequential(nn.Linear(3, 3), Add())(x)
except TypeError as error:
    print(error)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.add = nn.Linear(3, 3), Add()

    def forward(self, x):
        return self.add(self.linear(x), x)


added = Block()(x)
