"""
Replace a loop over rows
========================

Compare each digit with the mean of its class, with a loop and with one call.
"""

# %% load
import torch
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)  # 1797 x 8 x 8
labels = torch.tensor(digits.target)
flat = images.flatten(1)  # 1797 x 64

means = torch.stack([flat[labels == c].mean(dim=0) for c in range(10)])
typical = means[labels]  # the mean image of each one's class: 1797 x 64

# %% do-this
alike = torch.cosine_similarity(flat, typical, dim=1)  # 1797 numbers

print(alike[:4])

# %% least-drawn
import matplotlib.pyplot as plt

oddest = alike.argsort()[:8]
figure, panels = plt.subplots(2, 8, figsize=(6, 2), layout="constrained")
for place, (above, below) in zip(oddest, panels.T, strict=True):
    above.imshow(flat[place].reshape(8, 8), cmap="gray_r")
    below.imshow(typical[place].reshape(8, 8), cmap="gray_r")
for panel in panels.flat:
    panel.set(xticks=(), yticks=())
figure.suptitle("The eight oddest digits, and the mean of each one's class")
plt.show()


# %% loop
# Wrong on purpose: do not copy.
def alike_by_loop(flat, typical):
    alike = []
    for i in range(len(flat)):
        pair = flat[i], typical[i]
        alike.append(torch.cosine_similarity(*pair, dim=0))
    return torch.stack(alike)


print(alike_by_loop(flat[:4], typical[:4]))


# %% at-once
def alike_at_once(flat, typical):
    return torch.cosine_similarity(flat, typical, dim=1)


print(alike_at_once(flat[:4], typical[:4]))

# %% watch
from torch.overrides import TorchFunctionMode


class Watch(TorchFunctionMode):
    def __enter__(self):
        self.calls = []
        return super().__enter__()

    def __torch_function__(self, call, types, args=(), kwargs=None):
        self.calls.append(call.__name__)
        return call(*args, **(kwargs or {}))


def calls_of(way, *tables):
    with Watch() as watch:
        way(*tables)
    return len(watch.calls)


# %% calls
for n in (10, 100):
    pair = flat[:n], typical[:n]
    looped = calls_of(alike_by_loop, *pair)
    print(f"{n:4} images: {looped:5,} calls by the loop,", end=" ")
    print(f"{calls_of(alike_at_once, *pair)} at once")

# %% dims
image = images[0]  # 8 x 8: what a loop over the images sees
alone = image.sum(dim=0)  # down the columns of this image
of_all = images.sum(dim=1)  # down the columns of each image

print(alone, of_all[0], sep="\n")


# %% carry
def smoothed(images):  # half of what came before, and at most 20
    state, states = torch.zeros_like(images[:, 0]), []
    for row in images.unbind(dim=1):  # eight steps, each for all images
        state = (0.5 * state + row).clamp(max=20)
        states.append(state)
    return torch.stack(states, dim=1)


for n in (10, 1797):
    print(f"{n:4} images: {calls_of(smoothed, images[:n])} calls")


# %% one-by-one
# Wrong on purpose: do not copy.
def added_one_by_one(numbers):
    total = torch.tensor(0.0)
    for number in numbers:
        total += number
    return total


shares = flat / flat.sum(dim=1, keepdim=True)  # each image adds up to 1
numbers = shares[:200].flatten()  # 12,800 numbers, which add up to 200

print("one by one:", added_one_by_one(numbers).item())
print("sum():     ", numbers.sum().item())

# %% wrong-dim
# Wrong on purpose: do not copy.
wrong = torch.cosine_similarity(flat, typical, dim=0)

print("should be:", alike.shape)
print("is:       ", wrong.shape)

# %% default-dim
# Wrong on purpose: do not copy.
blocks = typical.reshape(images.shape)  # 1797 x 8 x 8
by_default = torch.cosine_similarity(images, blocks)  # dim=1

print(by_default.shape)

# %% old-values
x = torch.tensor([1, 2, 3, 4])
looped, called = x.clone(), x.clone()

for i in range(1, 4):
    looped[i] = looped[i] + looped[i - 1]
called[1:] = called[1:] + called[:-1]

print(looped, called, sep="\n")

# %% overlap
# Wrong on purpose: do not copy.
try:
    x[1:] += x[:-1]
except RuntimeError as error:
    print(error)

# %% gaps
# Wrong on purpose: do not copy.
table = torch.ones(3, 40)
table[:, 1:] += table[:, :-1]

print(table[0].int())


# %% ids
# Wrong on purpose: do not copy.
def latest_by_loop(ids, labels):
    latest = torch.zeros(10)
    for number, label in zip(ids, labels, strict=True):
        if number > latest[label]:
            latest[label] = number
    return latest


ids = 20_000_001 + torch.arange(1797)  # int64, in the order of the images
looped_ids = latest_by_loop(ids, labels)

print(looped_ids[:4].long())

# %% ids-kept
zeros = torch.zeros(10, dtype=ids.dtype)
latest = zeros.scatter_reduce(0, labels, ids, "amax")

print(latest[:4])

# %% quiz
x = torch.tensor([[1, 2], [3, 4]])
print(torch.stack([row.cumsum(dim=0) for row in x]))
print(x.cumsum(dim=0))


# %% task
# Wrong on purpose: do not copy.
def centered_by_loop(images):
    return torch.stack([image - image.mean() for image in images])


# %% solution
def centered(images):
    return images - images.mean(dim=(1, 2), keepdim=True)


# %% solution-checked
expected, found = centered_by_loop(images), centered(images)
if found.shape != expected.shape:
    print("Not yet: expected shape", expected.shape, "not", found.shape)
elif not torch.allclose(found, expected, atol=1e-4):
    print("Not yet: the first image is", found[0], sep="\n")
elif calls_of(centered, images) > 9:
    print("Not yet:", calls_of(centered, images), "calls: is there a loop?")
else:
    print("Right: each image has lost its mean, in", end=" ")
    print(calls_of(centered, images), "calls")
