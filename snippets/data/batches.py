"""
Batches
=======

How samples are ordered, grouped and joined to batches.
"""

# %% reviews
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

words = [[5, 2], [7], [4, 4, 9], [8, 1], [3], [6, 2, 2], [9], [1, 8], [5], [2]]
stars = [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]
reviews = [
    (torch.tensor(word), star) for word, star in zip(words, stars, strict=True)
]


# %% do-this
def pad(samples):
    reviews, stars = zip(*samples, strict=True)
    lengths = torch.tensor([len(each) for each in reviews])
    padded = pad_sequence(reviews, batch_first=True)
    return padded, lengths, torch.tensor(stars)


training = DataLoader(
    reviews, batch_size=4, shuffle=True, drop_last=True, collate_fn=pad
)
evaluation = DataLoader(reviews, batch_size=4, collate_fn=pad)

padded, lengths, labels = next(iter(evaluation))
print(padded, lengths, labels, sep="\n")


# %% by-hand
def by_hand(loader):
    for indices in loader.batch_sampler:
        samples = [loader.dataset[index] for index in indices]
        yield loader.collate_fn(samples)


for batch, *_ in by_hand(evaluation):
    print(batch.tolist())

# %% orders
torch.manual_seed(0)
three_epochs = range(3)
orders = {
    "as they come": [list(evaluation.batch_sampler) for _ in three_epochs],
    "training": [list(training.batch_sampler) for _ in three_epochs],
}

# %% orders-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 2, figsize=(6, 2.2), layout="constrained")
colors = "#0072B2", "#D55E00", "k"
for axes, (name, epochs) in zip(panels, orders.items(), strict=True):
    for epoch, batches in enumerate(epochs):
        place = 0
        for batch, color in zip(batches, colors, strict=False):
            for index in batch:
                axes.text(place, -epoch, index, color=color, ha="center")
                place += 1
    axes.set(xlim=(-1, 10), ylim=(-2.5, 0.7), xticks=(), yticks=())
    axes.set_title(f"{name}: three epochs")
plt.show()


# %% joined
def join(*samples):
    return next(iter(DataLoader(samples, batch_size=len(samples))))


joined = {
    "tensors": join(torch.zeros(3), torch.ones(3)),
    "floats": join(0.5, 1.5),
    "integers": join(7, 8),
    "strings": join("good", "bad"),
    "tuples": join((torch.zeros(3), 7), (torch.ones(3), 8)),
    "dicts": join({"stars": 1}, {"stars": 0}),
}
print(*joined.items(), sep="\n")

# %% quiet-surprises
# Wrong on purpose: do not copy.
mixed = join(3, 2.5), join(2.5, 3)
fewer = join({"stars": 1}, {"stars": 0, "author": "Ada"})

print(*mixed, fewer, sep="\n")

# %% unequal
# Wrong on purpose: do not copy.
try:
    next(iter(DataLoader(reviews, batch_size=4)))
except RuntimeError as error:
    unequal = str(error)

print(unequal)


# %% boxes
def keep_boxes_apart(samples):
    images, boxes = zip(*samples, strict=True)
    return torch.stack(images), list(boxes)


photos = [
    (torch.zeros(3, 8, 8), torch.tensor([[0, 0, 4, 4], [2, 2, 8, 8]])),
    (torch.ones(3, 8, 8), torch.tensor([[1, 1, 3, 3]])),
]
images, boxes = next(iter(DataLoader(photos, 2, collate_fn=keep_boxes_apart)))
print(images.shape, [len(each) for each in boxes])

# %% missing
# Wrong on purpose: do not copy.
missing = []
for samples in ((None, torch.zeros(3)), (torch.zeros(3), None)):
    try:
        join(*samples)
    except TypeError as error:
        missing.append(str(error))

print(*missing, sep="\n")


# %% without-missing
def join_those_there(samples):
    return pad([each for each in samples if each is not None])


some = DataLoader(
    [reviews[0], None, reviews[2]], 3, collate_fn=join_those_there
)
print(next(iter(some))[0])

# %% padded-mean
# Wrong on purpose: do not copy.
table = torch.arange(10.0)[:, None] + 100  # a vector for each word
vectors = table[padded]
wrong_mean = vectors.mean(dim=1)[:, 0]

print(wrong_mean)

# %% masked-mean
mask = torch.arange(padded.shape[1]) < lengths[:, None]
sums = torch.where(mask[..., None], vectors, 0).sum(dim=1)
right_mean = (sums / lengths[:, None])[:, 0]

print(mask)
print(right_mean)


# %% shuffled-after
def shuffled_after(draw, generator=None):
    torch.manual_seed(0)
    draw()
    loader = DataLoader(range(10), 10, shuffle=True, generator=generator)
    return next(iter(loader)).tolist()


# %% same-order
before = {
    "nothing": lambda: None,
    "one number": lambda: torch.rand(1),
    "an evaluation": lambda: list(evaluation),
}
shared = {name: shuffled_after(draw) for name, draw in before.items()}
own = {
    name: shuffled_after(draw, torch.Generator().manual_seed(1))
    for name, draw in before.items()
}
print(*shared.items(), "with its own generator:", sep="\n")
print(*own.items(), sep="\n")


# %% dropped
def left_out(epoch):
    return sorted(set(range(10)) - {i for batch in epoch for i in batch})


in_order = DataLoader(range(10), 4, drop_last=True)
always_dropped = [left_out(in_order.batch_sampler) for _ in range(3)]
dropped = [left_out(epoch) for epoch in orders["training"]]

print("in order:", always_dropped)
print("shuffled:", dropped)

# %% batch-of-one
# Wrong on purpose: do not copy.
numbers = DataLoader(torch.randn(9, 3), batch_size=4)
norm, sizes, refusal = nn.BatchNorm1d(3), [], None
try:
    for batch in numbers:
        norm(batch)
        sizes.append(len(batch))
except ValueError as error:
    refusal = error

print(sizes, refusal)

# %% vanishing
# Wrong on purpose: do not copy.
few = reviews[7:]
vanished = list(DataLoader(few, batch_size=4, drop_last=True))
print(vanished)

# %% rare
classes = torch.tensor(stars)
weights = 1 / classes.bincount()[classes]
balanced = torch.utils.data.WeightedRandomSampler(weights, num_samples=1000)
torch.manual_seed(0)
drawn = classes[list(balanced)]

print(f"ones: {sum(stars)} of 10 reviews, {drawn.sum()} of 1000 draws")

# %% sampler-and-shuffle
# Wrong on purpose: do not copy.
try:
    DataLoader(reviews, sampler=balanced, shuffle=True)
except ValueError as error:
    exclusive = error

print(exclusive)


# %% by-length
class ByLength(torch.utils.data.Sampler):
    def __init__(self, lengths, batch_size):
        self.lengths, self.batch_size = torch.tensor(lengths), batch_size

    def __iter__(self):
        mixed = torch.randperm(len(self.lengths))
        order = mixed[self.lengths[mixed].argsort()]
        batches = order.split(self.batch_size)
        return iter(
            [batches[i].tolist() for i in torch.randperm(len(batches))]
        )

    def __len__(self):
        return -(-len(self.lengths) // self.batch_size)


# %% less-padding
by_length = DataLoader(
    reviews, batch_sampler=ByLength(list(map(len, words)), 4), collate_fn=pad
)


def zeros(loader):
    return sum(int((batch == 0).sum()) for batch, *_ in loader)


padding = {"as they come": zeros(evaluation), "by length": zeros(by_length)}
print(padding)


# %% whole-batches
class Table(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows, self.asked = rows, []

    def __len__(self):
        return len(self.rows)

    def __getitems__(self, indices):
        self.asked.append(indices)
        return list(self.rows[indices])


# %% whole-batches-read
table = Table(torch.arange(20.0).reshape(10, 2))
wholes = list(DataLoader(table, batch_size=4))

print(table.asked)

# %% in-a-worker
# Wrong on purpose: do not copy.
in_worker = {"num_workers": 1, "multiprocessing_context": "fork"}
try:
    next(iter(DataLoader(reviews[2:], batch_size=4, **in_worker)))
except RuntimeError as error:
    error.with_traceback(None)  # which still holds the worker
    not_resizable = str(error).splitlines()[-1]

print(not_resizable)
