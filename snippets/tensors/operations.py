"""
Sum, multiply and join tensors
==============================

Average images of digits, stack them, multiply, compare and count.
"""

# %% load
import torch
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)  # 1797 x 8 x 8
labels = torch.tensor(digits.target)

# %% do-this
mean_image = images.mean(dim=0)  # over the images: 8 x 8
ink = images.mean(dim=(1, 2))  # over the pixels: 1797 numbers

print(mean_image.shape, ink.shape)

# %% by-hand
x = torch.tensor([[1.0, 2.0, 6.0], [3.0, 4.0, 5.0]])  # 2 x 3
of_columns = x.mean(dim=0)  # 3 numbers
of_rows = x.mean(dim=1)  # 2 numbers

print(of_columns, of_rows)

# %% arrows
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(5, 2.8), layout="constrained")
style = {"ha": "center", "va": "center", "size": 12}
for row, numbers in enumerate(x.tolist()):
    for column, number in enumerate(numbers):
        axes.text(column - 0.15, row - 0.15, f"{number:g}", **style)
down, along = (
    {"arrowstyle": "<-", "color": c} for c in ("#0072B2", "#D55E00")
)
for i, mean in enumerate(of_columns):
    axes.annotate(f"{mean:g}", (i, -0.6), (i, 2), arrowprops=down, **style)
for i, mean in enumerate(of_rows):
    axes.annotate(f"{mean:g}", (-0.6, i), (3, i), arrowprops=along, **style)
axes.set(xlim=(-0.7, 3.3), ylim=(2.3, -0.7), xticks=(), yticks=())
axes.set_title("mean(dim=0) goes down, mean(dim=1) to the right")
plt.show()

# %% keepdim
row_means = x.mean(dim=1, keepdim=True)
centered = x - row_means

print(row_means.shape)
print(centered)

# %% stack
means = [images[labels == digit].mean(dim=0) for digit in range(10)]
mean_images = torch.stack(means)  # ten images of 8 x 8: 10 x 8 x 8

print(mean_images.shape)

# %% mean-images
import matplotlib.pyplot as plt

figure, panels = plt.subplots(2, 5, figsize=(5, 2.4), layout="constrained")
for digit, panel in enumerate(panels.flat):
    panel.imshow(mean_images[digit], cmap="gray_r")
    panel.set(xticks=(), yticks=())
figure.suptitle("The mean image of each digit")
plt.show()

# %% cat
more = torch.cat([images, mean_images])  # 1797 + 10 images

print(more.shape)

# %% product
w = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])  # 3 x 2
product = x @ w  # 2 x 2

print(product)

# %% scores
flat = images.flatten(1)  # 1797 x 64
weight = mean_images.flatten(1)  # 10 x 64
bias = -weight.square().sum(dim=1) / 2  # 10

scores = flat @ weight.T + bias  # 1797 x 10
print(scores[0].round())

# %% largest
guesses = scores.argmax(dim=1)
highest = scores.max(dim=1)
best_two = scores.topk(2)

print(guesses[:3])
print(highest.values[:3], highest.indices[:3])
print(best_two.indices[:3])

# %% count
right = guesses == labels
number_right = right.sum()
share_right = right.float().mean()

print(guesses[:3], labels[:3], right[:3])
print(number_right, share_right)

# %% wrong-inner
# Wrong on purpose: do not copy.
try:
    flat @ weight
except RuntimeError as error:
    cannot_multiply = str(error)
    print(cannot_multiply)

# %% wrong-dim
# Wrong on purpose: do not copy.
one_image = scores[0]  # ten scores, without a batch axis
try:
    one_image.argmax(dim=1)
except IndexError as error:
    out_of_range = str(error)
    print(out_of_range)

# %% argmax-of-all
# Wrong on purpose: do not copy.
position = scores.argmax()

print(position, torch.unravel_index(position, scores.shape))

# %% lost-keepdim
# Wrong on purpose: do not copy.
image = images[0]
wrong = image - image.mean(dim=1)
centered_image = image - image.mean(dim=1, keepdim=True)

print("should be 0:", centered_image.mean(dim=1)[:4])
print("is:         ", wrong.mean(dim=1)[:4])

# %% wrong-mean
# Wrong on purpose: do not copy.
for tensor in (right, labels):
    try:
        tensor.mean()
    except RuntimeError as error:
        no_mean = str(error)
        print(no_mean)

# %% wrong-if
# Wrong on purpose: do not copy.
try:
    if guesses == labels:
        print("all right")
except RuntimeError as error:
    ambiguous = str(error)
    print(ambiguous)

# %% quiz
print(x.sum(dim=0))
print(images.amax(dim=2).mean(dim=0).shape)

# %% shares
hits = [right[labels == digit].float().mean() for digit in range(10)]
shares = torch.stack(hits)

# %% shares-checked
expected = labels[right].bincount() / labels.bincount()
if shares.shape != expected.shape:
    print("Not yet: expected ten numbers, not", tuple(shares.shape))
elif not shares.allclose(expected):
    print("Not yet: expected", expected, "not", shares, sep="\n")
else:
    print("Right: the hardest digit is", shares.argmin())
