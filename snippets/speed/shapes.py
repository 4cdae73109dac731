"""
Choose sizes: multiples of 8
============================

Round sizes up for Tensor Cores, and keep outputs and loss what they were.
"""

# %% imports
import torch
from torch import nn
from torch.nn import functional as F


# %% round-up
def round_up(size, multiple):
    return -(-size // multiple) * multiple


print(round_up(27, 8), round_up(50257, 8), round_up(50257, 64))


# %% multiples
types = (torch.float16, torch.bfloat16, torch.float32, torch.int8)
multiples = {
    str(dtype): {
        "bytes of a number": dtype.itemsize,
        "numbers in 16 bytes": 16 // dtype.itemsize,
        "numbers in 128 bytes": 128 // dtype.itemsize,
    }
    for dtype in types
}

# %% multiples-tabulated
import pandas as pd

pd.DataFrame.from_dict(multiples, orient="index")


# %% next-letter
class NextLetter(nn.Module):
    def __init__(self, letters=27, width=16, multiple=8):
        super().__init__()
        self.letters, rows = letters, round_up(letters, multiple)
        self.embedding = nn.Embedding(rows, width)
        self.head = nn.Linear(width, rows)

    def forward(self, x):
        return self.head(self.embedding(x))[..., : self.letters]


# %% rows
def beyond(width, dtype, count=10):
    matrix = torch.empty(count, width, dtype=dtype)
    return [row.data_ptr() % 16 for row in matrix]


for width in (27, 32):
    print(width, "numbers to a row:", beyond(width, torch.float16))


# %% tiles
def tiles(columns, tile=128):
    return round_up(columns, tile) // tile


def empty_share(columns, tile=128):
    return 1 - columns / (tile * tiles(columns, tile))


for columns in (27, 1024, 1025, 50257, 50304):
    share = round(empty_share(columns), 4)
    print(columns, "columns:", tiles(columns), "tiles, empty:", share)

# %% tiles-drawn
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
left.bar([64, 192], 256, 128, color="#0072B2", edgecolor="white", lw=2)
left.bar(278, 256, 44, color="#0072B2")
left.bar(342, 256, 84, color="#E69F00", hatch="//", edgecolor="white")
left.axhline(128, color="white", lw=2)
left.set_title("300 columns in tiles of 128")
left.set_xlabel("columns: 84 of the last tile are empty")
left.set_ylabel("rows")
sizes = range(64, 2049)
shares = [100 * empty_share(columns) for columns in sizes]
right.plot(sizes, shares, color="#D55E00")
right.set_title("Share of the work that is empty")
right.set_xlabel("columns")
right.set_ylabel("percent")
figure.tight_layout()
plt.show()

# %% text
torch.manual_seed(0)
model = NextLetter()
x, y = torch.randint(27, (2, 64))  # letters, and those behind them
loss = F.cross_entropy(model(x), y)

# %% uncut
# Wrong on purpose: do not copy.
outputs = model.head(model.embedding(x))
wrong_loss = F.cross_entropy(outputs, y)
guesses = outputs.argmax(1)

print(f"cut off: {loss:.4f} uncut: {wrong_loss:.4f}")
print("guesses that are no letters:", guesses[guesses >= 27].tolist())

# %% masked
masked = outputs.clone()
masked[:, 27:] = -torch.inf
masked_loss = F.cross_entropy(masked, y)

print(f"cut off: {loss:.4f} masked: {masked_loss:.4f}")

# %% smoothed
# Wrong on purpose: do not copy.
wrong_smoothed = F.cross_entropy(masked, y, label_smoothing=0.1)
likely = F.one_hot(y, 32).float()  # probabilities as targets
wrong_likely = F.cross_entropy(masked, likely)

print(wrong_smoothed.item(), wrong_likely.item())

# %% cut
smoothed = F.cross_entropy(model(x), y, label_smoothing=0.1)
likely_loss = F.cross_entropy(model(x), likely[:, :27])

print(f"{smoothed:.4f} {likely_loss:.4f}")

# %% mismatch
old = NextLetter(multiple=1)  # trained before you rounded up
try:
    model.load_state_dict(old.state_dict())
except RuntimeError as error:
    refused = str(error)
    print("RuntimeError:", refused)

# %% load-rows
PADDED = ("embedding.weight", "head.weight", "head.bias")


def load_rows(model, state):
    fresh = model.state_dict()
    for name in PADDED:
        rows = state[name][: model.letters]
        padding = fresh[name][model.letters :].to(rows)
        state = {**state, name: torch.cat([rows, padding])}
    model.load_state_dict(state)


load_rows(model, old.state_dict())
print([round(value, 4) for value in old(x)[0, :3].tolist()])
print([round(value, 4) for value in model(x)[0, :3].tolist()])

# %% heads
attention = nn.MultiheadAttention(320, 10)
print("each head has a width of", attention.head_dim)

try:
    nn.MultiheadAttention(300, 8)
except AssertionError as error:
    undivided = str(error)
    print("AssertionError:", undivided)

# %% batch
layer = nn.Linear(16, 3)
batch = torch.randn(4, 10, 16)  # 4 texts of 10 letters
apart = layer(batch)
joined = layer(batch.reshape(40, 16))

print([round(value, 4) for value in apart[2, 5].tolist()])
print([round(value, 4) for value in joined[25].tolist()])

# %% cost
embed = nn.Embedding.from_pretrained
plain = embed(torch.empty(50257, 768))
padded = embed(torch.empty(round_up(50257, 64), 768))
more = padded.weight.nbytes - plain.weight.nbytes

print(len(padded.weight) - len(plain.weight), "rows more:", more, "bytes")
