"""
Turn tables and text into tensors
=================================

A table has gaps, letters and names; a model takes numbers.
"""

# %% file
import gzip
import re
from collections import Counter
from io import StringIO
from pathlib import Path

import pandas as pd
import sklearn
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

titanic = "datasets/tests/data/openml/id_40945/data*.gz"
file = next(Path(sklearn.__file__).parent.glob(titanic), None)
if file is not None:  # scikit-learn brings it for its own tests
    head, lines = gzip.decompress(file.read_bytes()).decode().split("@data\n")
    columns = re.findall(r"@attribute '([\w.]+)'", head)
    csv_file = StringIO(",".join(columns) + "\n" + lines)
else:  # a copy without its tests: download the same table
    from sklearn.datasets import fetch_openml

    bunch = fetch_openml("titanic", version=1, parser="liac-arff")
    csv_file = StringIO(bunch.frame.to_csv(index=False))

# %% read
table = pd.read_csv(csv_file, na_values="?")  # or the name of your file
table["deck"] = table["cabin"].str[0]  # cabin C85 was on deck C

torch.manual_seed(8)
order = torch.randperm(len(table)).numpy()
train, valid = table.iloc[order[:1000]], table.iloc[order[1000:]]

# %% table-shown
import pandas as pd

shown = ["survived", "name", "pclass", "age", "fare", "deck"]
train[shown].head(4).style.hide().format(precision=1, na_rep="nan")

# %% to-tensors
numeric = ["pclass", "age", "fare", "sibsp", "parch"]
mean, std = train[numeric].mean(), train[numeric].std()
known = sorted(train["deck"].dropna().unique())
decks = {deck: code for code, deck in enumerate(known, start=1)}


def to_tensors(rows):
    scaled = ((rows[numeric] - mean) / std).fillna(0)  # the mean is now 0
    codes = rows["deck"].map(decks).fillna(0)  # 0: missing, or never seen
    numbers = torch.tensor(scaled.to_numpy("float32"))
    return numbers, torch.tensor(codes.to_numpy("int64"))


# %% vocabulary
def split(text):
    return re.findall(r"\w+", text.lower())


counts = Counter(word for name in train["name"] for word in split(name))
frequent = [word for word, count in counts.items() if count >= 5]
vocabulary = {"<pad>": 0, "<unk>": 1}
vocabulary |= {word: code for code, word in enumerate(frequent, start=2)}


def encode(text):
    return torch.tensor([vocabulary.get(word, 1) for word in split(text)])


def pad(texts):
    return pad_sequence([encode(text) for text in texts], batch_first=True)


# %% model
class Survival(nn.Module):
    def __init__(self):
        super().__init__()
        self.deck = nn.Embedding(len(decks) + 1, 4)
        self.words = nn.EmbeddingBag(len(vocabulary), 8, padding_idx=0)
        self.head = nn.Linear(len(numeric) + 4 + 8, 1)

    def forward(self, numbers, codes, names):
        parts = [numbers, self.deck(codes), self.words(names)]
        return self.head(torch.cat(parts, dim=1)).squeeze(1)


# %% fit
def inputs(rows):
    return *to_tensors(rows), pad(rows["name"])


def labels(rows):
    return torch.tensor(rows["survived"].to_numpy("float32"))


def minimize(model, batch, labels, optimizer, steps):
    for _ in range(steps):
        loss = F.binary_cross_entropy_with_logits(model(*batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def fit(rows, seed=0):
    torch.manual_seed(seed)
    model = Survival()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    minimize(model, inputs(rows), labels(rows), optimizer, steps=60)
    return model


# %% learned
model = fit(train)
with torch.no_grad():
    right = (model(*inputs(valid)) > 0) == labels(valid)

print(f"right: {right.float().mean():.0%}")
print(f"if nobody survived: {1 - labels(valid).mean():.0%}")

# %% by-hand
first = train.iloc[0]
age, center, spread = first["age"], mean["age"], std["age"]
print(f"({age:.1f} - {center:.1f}) / {spread:.1f} = ", end="")
print(f"{to_tensors(train)[0][0, 1]:.2f}")


# %% raw
def loss_after(numbers):
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(len(numeric), 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    return minimize(layer, [numbers], labels(train), optimizer, steps=100)


raw = torch.tensor(train[numeric].fillna(mean).to_numpy("float32"))
loss_scaled, loss_raw = loss_after(to_tensors(train)[0]), loss_after(raw)
print(f"scaled: {loss_scaled:.2f}, raw: {loss_raw:.2f}")

# %% lookup
codes = torch.tensor([decks["C"], 0, decks["A"]])
one_hot = F.one_hot(codes, num_classes=len(decks) + 1).float()
product = one_hot @ model.deck.weight

print(one_hot)
print("the same rows:", torch.equal(product, model.deck(codes)))

# %% pulls
with torch.no_grad():
    pulls = model.words.weight @ model.head.weight[0, -8:]

titles = ["mr", "mrs", "miss", "master"]
pull_of = {word: pulls[vocabulary[word]].item() for word in titles}

# %% pulls-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(6, 2.2), layout="constrained")
colors = ["#0072B2" if pull > 0 else "#D55E00" for pull in pull_of.values()]
bars = ax.barh([*pull_of], [*pull_of.values()], color=colors)
ax.bar_label(bars, fmt="%+.1f", padding=4)
ax.axvline(0, color="gray", linewidth=1)
ax.set(title="How far each title pulls the score up or down")
ax.invert_yaxis()
ax.margins(x=0.2)
plt.show()

# %% mean
embedding = nn.Embedding(len(vocabulary), 8, padding_idx=0)
bag = nn.EmbeddingBag.from_pretrained(embedding.weight, padding_idx=0)
short = pad(valid["name"][:1])
long = F.pad(short, (0, 6))  # beside a longer name

print("mean:", embedding(short).mean(1)[0, 0], embedding(long).mean(1)[0, 0])
print("bag: ", bag(short)[0, 0], bag(long)[0, 0])


# %% error-of
def error_of(call, *inputs):
    try:
        call(*inputs)
    except (TypeError, ValueError, LookupError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


# %% objects
mixed = train[["age", "sex"]]
in_objects = error_of(torch.tensor, mixed.to_numpy())
in_float32 = error_of(mixed.to_numpy, "float32")
print(in_objects)
print(in_float32)

# %% frames
adults = table.loc[table["age"] > 40, "age"]
from_frame = error_of(torch.tensor, table[["age", "fare"]])
from_filtered = error_of(torch.tensor, adults)
from_dropped = error_of(torch.tensor, table["age"].dropna())
from_numpy = error_of(torch.from_numpy, adults)
print(from_frame, from_filtered, from_dropped, from_numpy, sep="\n")

# %% gap
# Wrong on purpose: do not copy.
ages = torch.tensor(train[["age"]].to_numpy("float32"))
layer = nn.Linear(1, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
loss = F.binary_cross_entropy_with_logits(layer(ages)[:, 0], labels(train))
loss.backward()
optimizer.step()

print("missing:", ages.isnan().sum().item(), "of", len(ages))
print("loss:", loss.item(), "weight:", layer.weight.item())

floats = torch.tensor(train["deck"].map(decks).to_numpy())
print("codes:", floats.long().unique())

# %% minus-one
# Wrong on purpose: do not copy.
codes = train["deck"].astype("category").cat.codes
codes = torch.tensor(codes.to_numpy("int64"))
print("codes:", codes.unique())

rows = nn.Embedding(len(known), 4)
taken = rows.weight[codes]  # raises no error
lost = taken[codes == -1]
of_deck_g = (lost == rows.weight[-1]).all(dim=1)
print("without a deck:", len(lost), "in the last row:", of_deck_g.sum().item())

# %% in-a-layer
too_small, too_large = torch.tensor([-1]), torch.tensor([len(known)])
in_a_layer = [
    error_of(rows, given) for given in (too_small, too_large, codes.float())
]
print(*in_a_layer, sep="\n")

# %% own-codes
# Wrong on purpose: do not copy.
new = pd.Series(["E", "C", "E"])
own = new.astype("category").cat.codes
print("codes of their own:", own.tolist())
print("the model's:", new.map(decks).tolist())

# %% alone
# Wrong on purpose: do not copy.
one = valid.iloc[[1]]
by_itself = (one[numeric] - one[numeric].mean()) / one[numeric].std()
print(by_itself.to_numpy(), by_itself.fillna(0).to_numpy())

# %% whole-table
# Wrong on purpose: do not copy.
typo = table["fare"].copy()
typo.iloc[order[1000]] *= 10_000  # one validation fare has lost its point


def scaled_with(fares):
    scaled = (train["fare"] - fares.mean()) / fares.std()
    print(f"training fares: mean {scaled.mean():.2f}, std {scaled.std():.2f}")
    return scaled


without_typo, with_typo = scaled_with(table["fare"]), scaled_with(typo)

# %% constant
# Wrong on purpose: do not copy.
deck_t = (train["deck"] == "T").to_numpy("float32")  # zeros alone
new_t = (valid["deck"] == "T").to_numpy("float32")
column, new_column = torch.tensor(deck_t), torch.tensor(new_t)
scaled_t = (column - column.mean()) / column.std()
new_scaled_t = (new_column - column.mean()) / column.std()

print("training:", scaled_t[:3], "new:", new_scaled_t[new_column == 1])

# %% scaled-back
from sklearn.preprocessing import StandardScaler

forecast = torch.tensor([-0.5, 0.0, 2.0]).numpy()  # three fares, scaled
scaler = StandardScaler().fit(train[numeric])

of_scaler = error_of(scaler.inverse_transform, forecast[:, None])
of_columns = error_of(lambda: forecast * std.to_numpy() + mean.to_numpy())
print(of_scaler)
print(of_columns)

fares = forecast * std["fare"] + mean["fare"]
print("the fares:", fares.round(2))

# %% untrained
# Wrong on purpose: do not copy.
every = {"<pad>": 0, "<unk>": 1}
every |= {word: code for code, word in enumerate(counts, start=2)}


def gradient_of_unk(vocabulary):
    numbers = [vocabulary.get(word, 1) for word in counts.elements()]
    embedding = nn.Embedding(len(vocabulary), 8)
    embedding(torch.tensor(numbers)).sum().backward()
    return embedding.weight.grad[1, 0].item()


words = [word for name in valid["name"] for word in split(name)]
unknown = sum(word not in every for word in words)
print("all words:", gradient_of_unk(every))
print("frequent words:", gradient_of_unk(vocabulary))
print(f"new words: {unknown} of {len(words)}")


# %% moved
def moved(make_optimizer, sparse=False):
    torch.manual_seed(0)
    embedding = nn.Embedding(len(vocabulary), 8, sparse=sparse)
    optimizer = make_optimizer(embedding.parameters())
    for name in ("Miss. Mary", "Mr. William"):  # two steps
        before = embedding.weight.detach().clone()
        optimizer.zero_grad()
        embedding(encode(name)).sum().backward()
        optimizer.step()
    return (embedding.weight != before).any(dim=1)


optim = torch.optim
rows_moved = {
    "SGD": moved(lambda rows: optim.SGD(rows, 0.1)),
    "SGD, momentum": moved(lambda rows: optim.SGD(rows, 0.1, momentum=0.9)),
    "Adam": moved(optim.Adam),
    "AdamW": moved(optim.AdamW),
    "SparseAdam": moved(optim.SparseAdam, sparse=True),
}

# %% moved-table
import pandas as pd

told = {"mr": "this batch", "miss": "an earlier one", "mrs": "neither"}
moves = {
    optimizer: ["moves" if rows[vocabulary[word]] else "" for word in told]
    for optimizer, rows in rows_moved.items()
}
pd.DataFrame(moves, [f"in {what}" for what in told.values()]).T

# %% refused
refused = error_of(moved, optim.AdamW, True)
print(refused)

# %% padding-row
# Wrong on purpose: do not copy.
embedding = nn.Embedding(len(vocabulary), 8, padding_idx=0)
nn.init.normal_(embedding.weight)
filled = embedding.weight[0].norm().item()

optimizer = torch.optim.AdamW(embedding.parameters(), lr=0.1)
for _ in range(100):
    optimizer.zero_grad()
    embedding(pad(valid["name"][:8])).sum().backward()
    optimizer.step()
decayed = embedding.weight[0].norm().item()
gradient = embedding.weight.grad[0].norm().item()
print(f"norm {filled:.2f}, then {decayed:.2f}; gradient {gradient}")

# %% pretrained
vectors = torch.randn(len(vocabulary), 8)  # such as word vectors of GloVe
kept = nn.Embedding.from_pretrained(vectors)
learning = nn.Embedding.from_pretrained(vectors, freeze=False)
print(kept.weight.requires_grad, learning.weight.requires_grad)

# %% deck-t
passenger = pd.DataFrame({"deck": ["B", "T", None]})
looked_up = passenger["deck"].map(decks).fillna(0).tolist()
print(looked_up)


# %% with-flag
def with_flag(column):
    missing = column.isna()
    filled = column.fillna(column.mean())
    both = pd.DataFrame({"value": filled, "missing": missing})
    return torch.tensor(both.to_numpy("float32"))


# %% with-flag-checked
flagged = with_flag(train["age"])
if flagged.shape != (1000, 2) or flagged.dtype != torch.float32:
    print("Not yet: return a float32 tensor with two columns")
elif flagged.isnan().any():
    print("Not yet: fill the gaps of the first column")
elif flagged[:, 1].sum() != train["age"].isna().sum():
    print("Not yet: the second column is 1 where the age was missing, else 0")
else:
    print(f"Right: {flagged[:, 1].sum():.0f} ages were missing")
