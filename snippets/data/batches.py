"""
Make batches: shuffle, drop_last and collate_fn
===============================================

A DataLoader in ten lines, default_collate in fourteen, and what follows.
"""

# %% names
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, WeightedRandomSampler, default_collate

CONSTANTS = {"e", "inf", "pi", "tau"}


def sample_of(name):
    word = [ord(letter) - ord("a") + 1 for letter in name]
    return torch.tensor(word), int(name in CONSTANTS)


names = ["acos", "e", "exp", "floor", "fsum", "gcd", "hypot"]
names += ["pi", "sin", "tau"]
train_set = [sample_of(name) for name in names]
val_set = [sample_of(name) for name in ("inf", "atan", "log")]


# %% do-this
def pad(samples):
    words, labels = zip(*samples, strict=True)
    lengths = torch.tensor([len(word) for word in words])
    padded = pad_sequence(words, batch_first=True)
    return padded, lengths, torch.tensor(labels)


train_loader = DataLoader(train_set, 4, shuffle=True, collate_fn=pad)
val_loader = DataLoader(val_set, 4, collate_fn=pad)

for words, lengths, labels in val_loader:
    print(words, lengths, labels, sep="\n")


# %% by-hand
def load(dataset, size, shuffle=False, drop_last=False, join=default_collate):
    torch.tensor(0).random_()  # 1: a seed for workers, even if there are none
    order = list(range(len(dataset)))
    if shuffle:
        own = torch.Generator().manual_seed(torch.tensor(0).random_().item())
        order = torch.randperm(len(order), generator=own).tolist()  # 2
    if drop_last:
        order = order[: len(order) // size * size]  # 3
    for start in range(0, len(order), size):
        yield join([dataset[i] for i in order[start : start + size]])  # 4


# %% compare
from itertools import product


def three_epochs(make, size, shuffle, drop_last):
    torch.manual_seed(0)
    epochs = []
    for _ in range(3):
        batches = make(range(10), size, shuffle, drop_last=drop_last)
        epochs.append([batch.tolist() for batch in batches])
    return epochs, torch.rand(()).item()


yes_no = (False, True)
equal = [
    three_epochs(load, *options) == three_epochs(DataLoader, *options)
    for options in product((1, 3, 4, 10, 11), yes_no, yes_no)
]
print(f"{sum(equal)} of {len(equal)} settings give equal batches")

# %% epochs
torch.manual_seed(0)
for _ in range(3):
    print([batch.tolist() for batch in load(range(10), 4, shuffle=True)])


# %% join
def join(samples):
    first = samples[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(samples)  # 5
    if isinstance(first, (int, float)):
        dtype = torch.float64 if isinstance(first, float) else None
        return torch.tensor(samples, dtype=dtype)  # 6
    if isinstance(first, dict):
        return {k: join([each[k] for each in samples]) for k in first}  # 7
    if isinstance(first, (tuple, list)):
        return [join(part) for part in zip(*samples, strict=True)]  # 8
    if isinstance(first, str):
        return samples
    raise TypeError(f"cannot join samples of {type(first)}")  # 9


# %% joined
examples = [
    [torch.zeros(2), torch.ones(2)],
    [0.5, 1.5],
    [7, 8],
    ["pi", "e"],
    [(torch.tensor([1, 2]), 7), (torch.tensor([3, 4]), 8)],
    [{"name": "pi", "value": 3.14}, {"name": "e", "value": 2.72}],
]
joined = [default_collate(samples) for samples in examples]
for batch, samples in zip(joined, examples, strict=True):
    print(batch, "as ours:", repr(batch) == repr(join(samples)))

# %% rare
kinds = torch.tensor([label for _, label in train_set])
weights = 1 / kinds.bincount()[kinds]
sampler = WeightedRandomSampler(weights, num_samples=1000)
balanced = DataLoader(train_set, 4, sampler=sampler, collate_fn=pad)

torch.manual_seed(0)
drawn = torch.cat([labels for *_, labels in balanced])
print(f"constants: {sum(kinds)} of 10 names, {sum(drawn)} of 1000 draws")

# %% by-length
by_length = torch.tensor([len(word) for word, _ in train_set]).argsort()
batches = [batch.tolist() for batch in by_length.split(4)]
similar = DataLoader(train_set, batch_sampler=batches, collate_fn=pad)

for loader in (DataLoader(train_set, 4, collate_fn=pad), similar):
    print("zeros:", [(words == 0).sum().item() for words, *_ in loader])

# %% unequal
# Wrong on purpose: do not copy.
try:
    next(iter(DataLoader(train_set, 4)))
except RuntimeError as error:
    print(error)


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
for samples in ([None, torch.zeros(2)], [torch.zeros(2), None]):
    try:
        print(next(iter(DataLoader(samples, 2))))
    except TypeError as error:
        print(error)


# %% without-missing
def pad_those_there(samples):
    return pad([sample for sample in samples if sample is not None])


damaged = [train_set[0], None, train_set[2]]
words, _, _ = next(iter(DataLoader(damaged, 3, collate_fn=pad_those_there)))
print(len(words), "rows")

# %% padded-mean
# Wrong on purpose: do not copy.
words, lengths, _ = pad(train_set[7:])  # pi, sin and tau
vectors = 100.0 + words[..., None]  # an embedding with one number

print(words)
print(vectors.mean(dim=1)[:, 0])

# %% masked-mean
mask = torch.arange(words.shape[1]) < lengths[:, None]
sums = torch.where(mask[..., None], vectors, 0).sum(dim=1)
means = sums / lengths[:, None]

print(mask)
print(means[:, 0])

# %% same-seed
for evaluate_first in (False, True):
    torch.manual_seed(0)
    if evaluate_first:
        print("after an evaluation:")
        list(val_loader)
    own = torch.Generator().manual_seed(0)
    for generator in (None, own):
        loader = DataLoader(range(10), 10, shuffle=True, generator=generator)
        print(next(iter(loader)).tolist())

# %% dropped
torch.manual_seed(0)
for shuffle in (False, True):
    loader = DataLoader(range(10), 4, shuffle, drop_last=True)
    left_out = [
        sorted(set(range(10)) - set(torch.cat(list(loader)).tolist()))
        for _ in range(3)
    ]
    print(f"shuffle={shuffle}: three epochs leave out {left_out}")

# %% vanishing
# Wrong on purpose: do not copy.
loader = DataLoader(val_set, 4, drop_last=True, collate_fn=pad)
print(len(val_set), "samples,", len(list(loader)), "batches")

# %% first-decides
apartments = [{"rooms": 3}, {"rooms": 2.5, "rent": 900}]
print(next(iter(DataLoader(apartments, 2))))


# %% similar-lengths
class SimilarLengths:
    def __init__(self, lengths, batch_size):
        self.lengths, self.batch_size = torch.tensor(lengths), batch_size

    def __iter__(self):
        mixed = torch.randperm(len(self.lengths))
        order = mixed[self.lengths[mixed].argsort()]
        batches = order.split(self.batch_size)
        for index in torch.randperm(len(batches)):
            yield batches[index].tolist()

    def __len__(self):
        return -(-len(self.lengths) // self.batch_size)


# %% similar-lengths-checked
sizes = [len(word) for word, _ in train_set]
batch_sampler = SimilarLengths(sizes, 4)
epochs, zeros = [], []
for _ in range(20):
    epoch = list(batch_sampler)
    epochs.append([index for batch in epoch for index in batch])
    padded = [max(sizes[i] for i in batch) * len(batch) for batch in epoch]
    zeros.append(sum(padded) - sum(sizes))
if any(sorted(epoch) != list(range(10)) for epoch in epochs):
    print("In each epoch, each index should come once.")
elif max(zeros) > 5:
    print(f"There are still up to {max(zeros)} zeros instead of 5.")
elif epochs == epochs[:1] * 20:
    print("All epochs are the same: draw in __iter__, not in __init__.")
elif len(DataLoader(train_set, batch_sampler=batch_sampler)) != 3:
    print("How many batches does __len__ count?")
else:
    print("Right: 5 zeros in each epoch, and the batches change.")
