"""
Look at the data
================

1,797 handwritten digits become one block of numbers.
"""

# %% load
import torch
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)

print(images.shape, images.dtype)
print(labels.shape, labels.dtype)

# %% numbers
print(digits.images[0])

# %% drawn
import matplotlib.pyplot as plt

_, panels = plt.subplots(1, 10, figsize=(7, 1.3), layout="constrained")
for panel, image, label in zip(panels, images, labels, strict=False):
    panel.imshow(image[0], cmap="gray_r")
    panel.set_title(label.item(), size=10)
    panel.axis("off")
plt.suptitle("The first ten pictures, with their labels")
plt.show()

# %% scale
pixels = torch.tensor(digits.images, dtype=torch.float32)
scaled = pixels / 16

print(pixels[0, 0])  # the top row of the first picture
print(scaled[0, 0])

# %% channel
with_channel = scaled[:, None]

print(scaled.shape, "becomes", with_channel.shape)

# %% pick
picture = images[0]  # the first one
gray = images[0, 0]  # its only channel
row = images[0, 0, 0]  # the top row of that
pixel = images[0, 0, 0, 3]

print(picture.shape, gray.shape)
print(row)
print(pixel)

# %% mean
ink = images.mean(dim=(1, 2, 3))
average = images.mean(dim=0)

print("top row:", row.mean())
print("ink:", ink.shape, "average:", average.shape)

# %% threes
threes = images[labels == 3]

print(labels[:6] == 3)  # for the first six
print(threes.shape)

# %% averages
import matplotlib.pyplot as plt

_, panels = plt.subplots(1, 10, figsize=(7, 1.3), layout="constrained")
for digit, panel in enumerate(panels):
    panel.imshow(images[labels == digit].mean(dim=0)[0], cmap="gray_r")
    panel.set_title(digit, size=10)
    panel.axis("off")
plt.suptitle("The average picture of each digit")
plt.show()

# %% no-channel
# Wrong on purpose: do not copy.
from torch import nn

layer = nn.Conv2d(1, 16, 3)  # takes pictures with 1 channel
pictures = torch.tensor(digits.images, dtype=torch.float32) / 16

try:
    print(layer(pictures).shape)
except RuntimeError as error:
    print(error)

# %% quiz
print(images[5].shape)
print(images[5:8].shape)
print(images[:, 0, 0, 0].shape)


# %% most-ink
def most_ink(images):
    return images.mean(dim=(1, 2, 3)).argmax().item()


# %% most-ink-checked
found = most_ink(images), most_ink(images[:9])
if found == (818, 8):
    print("Right: picture 818 has the most ink, a", labels[818].item())
else:
    print("Not yet: they should be 818 and 8, and are", found)
