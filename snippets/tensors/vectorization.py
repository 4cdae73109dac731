"""
Vectorization: write without a loop
===================================

Find the nearest neighbor of each digit with a loop, and with a few calls.
"""

# %% load
import torch
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)  # 1797 x 8 x 8
labels = torch.tensor(digits.target)
flat = images.flatten(1)  # 1797 x 64

# %% do-this
distances = torch.cdist(flat, flat)  # each to each: 1797 x 1797
distances.fill_diagonal_(torch.inf)  # no image is its own neighbor
nearest = distances.argmin(dim=1)  # 1797 positions

print(nearest[:8])

# %% neighbors-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(2, 8, figsize=(6, 2), layout="constrained")
for place, (above, below) in enumerate(panels.T):
    above.imshow(images[place], cmap="gray_r")
    below.imshow(images[nearest[place]], cmap="gray_r")
for panel in panels.flat:
    panel.set(xticks=(), yticks=())
figure.suptitle("Eight digits, and below each its nearest neighbor")
plt.show()

# %% by-hand
points = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])  # 3 x 2
differences = points[:, None] - points  # 3 x 3 x 2
apart = differences.square().sum(dim=2).sqrt()  # 3 x 3

print(apart)


# %% loop
# Wrong on purpose: do not copy.
def nearest_by_loop(flat):
    n, places = len(flat), []
    for i in range(n):
        best, place = torch.inf, -1
        for j in range(n):
            distance = (flat[i] - flat[j]).square().sum().sqrt()
            if i != j and distance < best:
                best, place = distance, j
        places.append(place)
    return torch.tensor(places)


print(nearest_by_loop(flat[:50])[:8])


# %% at-once
def nearest_at_once(flat):
    differences = flat[:, None] - flat
    distances = differences.square().sum(dim=2).sqrt()
    return distances.fill_diagonal_(torch.inf).argmin(dim=1)


def nearest_by_cdist(flat):
    distances = torch.cdist(flat, flat)
    return distances.fill_diagonal_(torch.inf).argmin(dim=1)


print(nearest_at_once(flat[:50])[:8])

# %% watch
from torch.overrides import TorchFunctionMode


class Watch(TorchFunctionMode):
    def __enter__(self):
        self.calls, self.bytes = [], []
        return super().__enter__()

    def __torch_function__(self, call, types, args=(), kwargs=None):
        result = call(*args, **(kwargs or {}))
        self.calls.append(call.__name__)
        self.bytes.append(getattr(result, "nbytes", 0))
        return result


def watched(way, *tables):
    with Watch() as watch:
        way(*tables)
    return watch


# %% calls
for n in (10, 20, 40):
    loop = len(watched(nearest_by_loop, flat[:n]).calls)
    once = len(watched(nearest_at_once, flat[:n]).calls)
    print(f"{n} images: {loop:6,} calls by the loop, {once} at once")


# %% chunks
def nearest_in_chunks(flat, size=20):
    places = []
    for start in range(0, len(flat), size):
        rows = flat[start : start + size]
        distances = (rows[:, None] - flat).square().sum(dim=2).sqrt()
        i = torch.arange(len(rows))
        distances[i, start + i] = torch.inf  # each to itself
        places.append(distances.argmin(dim=1))
    return torch.cat(places)


few = flat[:200]
for way in (nearest_at_once, nearest_in_chunks, nearest_by_cdist):
    largest = max(watched(way, few).bytes)
    print(f"{largest:10,} bytes  {way.__name__}")

# %% choose
clean = torch.where(images > 8, 16.0, 0.0)  # black and white

print(clean[0, :2])

# %% running
rows = images.sum(dim=2)  # ink of each row of pixels: 1797 x 8
so_far = rows.cumsum(dim=1)
most_so_far, at_row = rows.cummax(dim=1)
of_three = rows.unfold(1, 3, 1).sum(dim=2)  # 1797 x 6

print(rows[0], so_far[0], most_so_far[0], of_three[0], sep="\n")

# %% groups
ink = images.sum(dim=(1, 2))  # 1797 numbers
ink_of_class = torch.zeros(10).index_add(0, labels, ink)
count_of_class = labels.bincount(minlength=10)

print(ink_of_class / count_of_class)

# %% einsum
products = torch.einsum("ip,jp->ij", flat, flat)  # 1797 x 1797
squares = torch.einsum("ip,ip->i", flat, flat)  # 1797 numbers

print(products.shape, squares.shape)


# %% vmap
def top_share(image):  # of the ink, written for one image
    return image[:4].sum() / image.sum()


shares = torch.vmap(top_share)(images)
print(shares[:4])

# %% too-many-pairs
# Wrong on purpose: do not copy.
many = flat[:1].expand(100_000_000, 64)
try:
    nearest_at_once(many)
except RuntimeError as error:
    print(error)

# %% from-itself
centered = flat - flat.mean(dim=0)
c25, c26, exact = centered[:25], centered[:26], "donot_use_mm_for_euclid_dist"
from_25 = torch.cdist(c25, c25).diagonal()
from_26 = torch.cdist(c26, c26).diagonal()
from_exact = torch.cdist(c26, c26, compute_mode=exact).diagonal()

print(from_25.max(), from_26.max(), from_exact.max())

# %% torn
# Wrong on purpose: do not copy.
torn = few.clone()
torn[7, 3] = torch.nan  # one pixel of image 7

print(nearest_by_cdist(torn)[:8])

# %% mended
gaps = torch.cdist(torn, torn).fill_diagonal_(torch.inf)
mended = gaps.masked_fill(gaps.isnan(), torch.inf).argmin(dim=1)

print(mended[:8])

# %% quiz
x = torch.tensor([[3, 1, 4], [1, 5, 9]])
print(x.cumsum(dim=1))
print(x.cummax(dim=1).values)

# %% table
table = torch.zeros(10, 10, dtype=torch.int64)
for label, place in zip(labels.tolist(), nearest.tolist(), strict=True):
    table[label, labels[place]] += 1

# %% solution
pairs = 10 * labels + labels[nearest]
confusion = pairs.bincount(minlength=100).reshape(10, 10)

# %% solution-checked
if confusion.shape != table.shape:
    print("Not yet: expected shape (10, 10), not", tuple(confusion.shape))
elif not confusion.equal(table):
    print("Not yet: expected", table, "not", confusion, sep="\n")
else:
    right = confusion.diagonal().sum()
    print(f"Right: the neighbor of {right} digits shows the same digit")
