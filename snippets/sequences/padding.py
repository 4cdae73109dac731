"""
Pad, mask and pack sequences
============================

An LSTM reads names of different lengths in one batch.
"""

# %% names
import importlib
import string
from types import ModuleType

import torch
from torch import nn
from torch.nn import functional as F

MODULES = """argparse ast asyncio builtins collections ctypes datetime decimal
email.message errno http inspect io itertools json logging math os pathlib
random re select signal socket ssl statistics string subprocess threading
time tokenize unittest urllib.request xml.dom zipfile"""
KINDS = ["constant", "function", "class"]

found = {}
for module in map(importlib.import_module, MODULES.split()):
    for name, value in vars(module).items():
        if not name.startswith("_") and not isinstance(value, ModuleType):
            found[name] = (
                2 if isinstance(value, type) else int(callable(value))
            )

letters = string.ascii_letters + string.digits + "_"
names = sorted(found)
words = [torch.tensor([letters.index(c) + 1 for c in name]) for name in names]
labels = torch.tensor([found[name] for name in names])

# %% three
three = [words[names.index(name)] for name in ("pi", "tau", "e")]

torch.manual_seed(0)
embedding = nn.Embedding(64, 16)
lstm = nn.LSTM(16, 32, batch_first=True)

# %% do-this
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

batch = pad_sequence(three, batch_first=True)  # 3 names x 3 letters
lengths = torch.tensor([len(word) for word in three])

output, _ = lstm(embedding(batch))  # 3 names x 3 letters x 32
last = output[torch.arange(len(batch)), lengths - 1]

print(batch, lengths, sep="\n")

# %% pack
packed = pack_padded_sequence(
    embedding(batch), lengths, batch_first=True, enforce_sorted=False
)
_, (state, _) = lstm(packed)

print("the same:", torch.allclose(state[-1], last, atol=1e-6))

# %% mask
mask = torch.arange(batch.shape[1]) < lengths[:, None]

print(mask)

# %% by-hand
rows = pack_padded_sequence(
    batch, lengths, batch_first=True, enforce_sorted=False
)

print("rows:", " ".join(letters[number - 1] for number in rows.data))
print("names at each step:", rows.batch_sizes.tolist())
print("where each name went:", rows.unsorted_indices.tolist())

# %% products
from torch.utils.flop_counter import FlopCounterMode


def products(read, *inputs):
    with FlopCounterMode(display=False) as counter:
        read(*inputs)
    return counter.get_total_flops() // 2  # it counts each sum, too


in_float64 = nn.LSTM(16, 32, batch_first=True).double()
padded_products = products(in_float64, embedding(batch).double())
packed_products = products(in_float64, packed.to(torch.float64))

print(f"padded: {padded_products}, packed: {packed_products}")

# %% unpack
from torch.nn.utils.rnn import pad_packed_sequence

packed_output, _ = lstm(packed)
unpacked, their_lengths = pad_packed_sequence(packed_output, batch_first=True)

print(unpacked.shape, their_lengths.tolist())

# %% total-length
wide = nn.functional.pad(embedding(batch), (0, 0, 0, 2))  # 5 steps
packed_wide = pack_padded_sequence(
    wide, lengths, batch_first=True, enforce_sorted=False
)
short, _ = pad_packed_sequence(packed_wide, batch_first=True)
full, _ = pad_packed_sequence(packed_wide, batch_first=True, total_length=5)

print(wide.shape, short.shape, full.shape)


# %% readings
def at_the_last_step(output, lengths):  # wrong
    return output[:, -1]


def at_the_last_letter(output, lengths):
    return output[torch.arange(len(output)), lengths - 1]


def mean_of_letters(output, lengths):
    lengths = lengths.to(output.device)[:, None]
    mask = torch.arange(output.shape[1], device=output.device) < lengths
    return (output * mask[..., None]).sum(dim=1) / lengths


# %% train
class Model(nn.Module):
    def __init__(self, reading):
        super().__init__()
        self.reading = reading
        self.embedding = nn.Embedding(64, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.linear = nn.Linear(32, 3)

    def forward(self, batch, lengths):
        output, _ = self.lstm(self.embedding(batch))
        return self.linear(self.reading(output, lengths))


all_names = pad_sequence(words, batch_first=True)
all_lengths = torch.tensor([len(word) for word in words])


def padded(part, width):
    width = width or all_lengths[part].max()
    return all_names[part, :width], all_lengths[part]


def train(reading, width, seed=0):
    torch.manual_seed(seed)
    order = torch.randperm(len(names))
    train, valid = order[:-500], order[-500:]
    model = Model(reading)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(3):
        for part in train[torch.randperm(len(train))].split(64):
            loss = F.cross_entropy(model(*padded(part, width)), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        scores = [model(*padded(part, width)) for part in valid.split(64)]
    return torch.cat(scores).argmax(dim=1), labels[valid]


# %% compare
longest = all_lengths.max().item()
ways = {
    f"last step, all padded to {longest}": (at_the_last_step, longest),
    "last step, padded batch by batch": (at_the_last_step, None),
    "last letter": (at_the_last_letter, None),
    "mean of letters": (mean_of_letters, None),
}

results = []
for way, (reading, width) in ways.items():
    answers, right = train(reading, width)
    results.append((answers, right))
    print(f"{way}: {(answers == right).float().mean():.0%} right")

# %% constant
answers, right = results[0]  # the last step of them all
for kind, name in enumerate(KINDS):
    count, answered = (right == kind).sum(), (answers == kind).sum()
    print(f"{name}: {count} names, answered {answered} times")

# %% wear
steps = torch.arange(21)
longer = F.pad(all_names, (0, 20))
with torch.no_grad():
    states, _ = lstm(embedding(longer))

each = torch.arange(len(names))[:, None]
states = states[each, all_lengths[:, None] - 1 + steps]  # names x steps x 32
spread = states.std(dim=0).mean(dim=1)
closer = spread[0] / spread

print(f"after 10 steps of padding: {closer[10]:.0f} times closer together")

# %% wear-drawn
import matplotlib.pyplot as plt

_, panel = plt.subplots(figsize=(5, 3), layout="constrained")
panel.semilogy(steps[1:], spread[1:], "o", color="#D55E00")
panel.semilogy(0, spread[0], "o", color="#0072B2")
panel.annotate("last letter", (0.5, spread[0].item()), va="center")
panel.annotate("padding", (10.5, spread[10].item()), va="center")
panel.set_xlabel("steps of padding read")
panel.set_xticks(range(0, 21, 5))
panel.set_ylabel("spread of the states")
panel.set_title("An LSTM forgets a name while it reads padding")
plt.show()

# %% neighbors
alone = embedding(three[0][None])  # "pi": 1 name x 2 letters x 16
beside = embedding(batch)  # "pi", "tau" and "e": 3 names x 3 letters x 16

moved = {}
for reading in (at_the_last_step, at_the_last_letter, mean_of_letters):
    before = reading(lstm(alone)[0], lengths[:1])[0]
    after = reading(lstm(beside)[0], lengths)[0]
    moved[reading.__name__] = (after - before).abs().max().item()
    print(f"{reading.__name__}: {moved[reading.__name__]:.3f}")

# %% left
at_the_front = pad_sequence(three, batch_first=True, padding_side="left")
after = lstm(embedding(at_the_front))[0][0, -1]
moved["left"] = (after - lstm(alone)[0][0, -1]).abs().max().item()

print(f"padded on the left: {moved['left']:.3f}")

# %% backward
both = nn.LSTM(16, 32, batch_first=True, bidirectional=True)
_, (alone_state, _) = both(alone)

for way, inputs in {"padded": beside, "packed": packed}.items():
    _, (state, _) = both(inputs)  # 2 directions x 3 names x 32
    moved[way] = (state[1, 0] - alone_state[1, 0]).abs().max().item()
    print(f"backward, {way}: {moved[way]:.3f}")

# %% padding-idx
with_padding = nn.Embedding(64, 16, padding_idx=0)
read, (state, _) = lstm(with_padding(batch))
read.sum().backward()

print("embedding of 0:", with_padding.weight[0].abs().sum().item())
print("its gradient:", with_padding.weight.grad[0].abs().sum().item())
print("state at the end:", state[-1, 0, :3].tolist())
print("at the last letter:", read[0, 1, :3].tolist())

# %% guess
targets = all_names[:, 1:].flatten()  # the next letters, and padding
scores = torch.zeros(len(targets), 64)
scores[:, 0] = 5  # the answer is always padding

right = scores.argmax(dim=1) == targets
share_right = right.float().mean().item()
share_of_letters = right[targets > 0].float().mean().item()
counted = F.cross_entropy(scores, targets).item()
ignored = F.cross_entropy(scores, targets, ignore_index=0).item()

print(f"with padding: {share_right:.0%} right, loss {counted:.2f}")
print(f"letters only: {share_of_letters:.0%} right, loss {ignored:.2f}")

# %% three-means
losses = torch.tensor([[1.0, 1, 1], [3, 7, 7]])  # the 7s are padding
real = torch.arange(3) < torch.tensor([[3], [1]])

kept = losses * real
over_all = kept.mean()
over_letters = kept.sum() / real.sum()
over_names = (kept.sum(dim=1) / real.sum(dim=1)).mean()

print("all places:", over_all, "letters:", over_letters, "names:", over_names)

# %% unsorted
try:
    pack_padded_sequence(batch, lengths, batch_first=True)
except RuntimeError as error:
    print(error)

# %% on-a-device
on_device = lengths.to("meta")
try:
    pack_padded_sequence(
        batch.to("meta"), on_device, batch_first=True, enforce_sorted=False
    )
except RuntimeError as error:
    print(error)

# %% empty
with_an_empty_one = torch.tensor([2, 3, 0])
try:
    pack_padded_sequence(
        batch, with_an_empty_one, batch_first=True, enforce_sorted=False
    )
except RuntimeError as error:
    print(error)

# %% empty-silent
# Wrong on purpose: do not copy.
wrong = at_the_last_letter(output, with_an_empty_one)[2]
means = mean_of_letters(output, with_an_empty_one)[2]

print("the last step:", torch.equal(wrong, output[2, -1]))
print("the mean:", means[:3].tolist())

# %% cut
cut = pack_padded_sequence(
    embedding(batch[:, :2]), lengths, batch_first=True, enforce_sorted=False
)
try:
    lstm(cut)
except RuntimeError as error:
    print(error)

# %% which-step
print(output[:, lengths - 1].shape)


# %% largest
def largest(output, lengths):
    lengths = lengths.to(output.device)[:, None]
    mask = torch.arange(output.shape[1], device=output.device) < lengths
    return output.masked_fill(~mask[..., None], -torch.inf).amax(dim=1)


# %% largest-checked
below_zero = torch.tensor([[-3.0, -2, 0], [-5, -1, -4]])[..., None]
found_largest = largest(below_zero, torch.tensor([2, 3])).flatten().tolist()
if found_largest == [-2, -1]:
    print("Right: the padding never wins.")
else:
    print("Not yet: they should be -2 and -1, and are", found_largest)
