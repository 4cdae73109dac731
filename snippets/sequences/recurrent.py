"""
Read a sequence with an LSTM or GRU
===================================

A recurrent network reads names letter by letter, and says what they name.
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

# %% starts
places = {name[:8]: i for i, name in enumerate(names) if len(name) >= 8}
long = list(places.values())  # one name for each beginning
starts = torch.stack([words[place][:8] for place in long])  # N x 8 letters
kinds = labels[long]

torch.manual_seed(0)
shuffled = torch.randperm(len(long))
valid, train = shuffled[:300], shuffled[300:]


# %% model
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 8)
        self.lstm = nn.LSTM(8, 32, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, batch):  # N x L: names x letters
        _, (h_n, _) = self.lstm(self.embedding(batch))
        return self.head(h_n[-1])  # the state after the last letter


# %% fit
def right_answers(model):
    with torch.no_grad():
        answers = model(starts[valid]).argmax(dim=1)
    return (answers == kinds[valid]).float().mean().item()


def fit(make_model, seed=0):
    torch.manual_seed(seed)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        for batch in train[torch.randperm(len(train))].split(32):
            loss = F.cross_entropy(model(starts[batch]), kinds[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


# %% learned
model = fit(Reader)
largest = kinds[valid].bincount().max().item() / 300

print(f"right: {right_answers(model):.0%}")
print(f"if it always said the most frequent kind: {largest:.0%}")

# %% shapes
x = torch.rand(5, 7, 4)  # 5 names of 7 letters, 4 numbers for each letter
settings = [(1, False), (2, False), (1, True), (2, True)]
shapes = {}
for layers, bidirectional in settings:
    lstm = nn.LSTM(4, 6, layers, batch_first=True, bidirectional=bidirectional)
    output, (h_n, c_n) = lstm(x)
    shapes[layers, bidirectional] = output.shape, h_n.shape, c_n.shape

# %% shapes-table
import pandas as pd

rows = [
    [layers, 1 + bidirectional, *(tuple(shape) for shape in each)]
    for (layers, bidirectional), each in shapes.items()
]
columns = ["layers", "directions", "output", "h_n", "c_n"]
pd.DataFrame(rows, columns=columns).style.hide()

# %% returns
lstm, gru = nn.LSTM(4, 6, batch_first=True), nn.GRU(4, 6, batch_first=True)
output, (h_n, c_n) = lstm(x)
output, h_n = gru(x)  # the same of an RNN

# %% by-hand
rnn = nn.RNN(1, 1, bias=False)
nn.init.constant_(rnn.weight_ih_l0, 1.0)  # for the number that comes in
nn.init.constant_(rnn.weight_hh_l0, 0.5)  # for the old state

by_hand, _ = rnn(torch.tensor([[1.0], [0.0], [0.0]]))
print(by_hand.flatten())

# %% gate
gru = nn.GRU(1, 1)
with torch.no_grad():
    for parameter in gru.parameters():
        parameter.zero_()  # the candidate is tanh(0) = 0
    gru.bias_ih_l0[1] = torch.tensor(0.9).logit()  # z = 0.9

faded, _ = gru(torch.zeros(3, 1), torch.ones(1, 1))  # the old state is 1
print(faded.flatten())

# %% one-direction
output, (h_n, c_n) = model.lstm(model.embedding(starts))
print(torch.equal(output[:, -1], h_n[-1]))

# %% two-directions
both = nn.LSTM(8, 32, batch_first=True, bidirectional=True)
output, (h_n, c_n) = both(model.embedding(starts))
summary = torch.cat([h_n[-2], h_n[-1]], dim=1)  # forward, backward

print("output[:, -1] is the summary:", torch.equal(output[:, -1], summary))
print("its forward half is:", torch.equal(output[:, -1, :32], h_n[-2]))
print("backward, at step 0:", torch.equal(output[:, 0, 32:], h_n[-1]))

# %% count-letters
datetime = words[names.index("datetime")]
read = model.embedding(datetime)
steps, _ = both(read)


def count_letters(state):  # how many letters does this state depend on?
    [gradient] = torch.autograd.grad(state.sum(), read, retain_graph=True)
    return gradient.any(dim=1).sum().item()


read_forward = [count_letters(step[:32]) for step in steps]
read_backward = [count_letters(step[32:]) for step in steps]

# %% directions-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(6, 2.2), layout="constrained")
for row, counts in enumerate((read_backward, read_forward)):
    for step, count in enumerate(counts):
        color = "#D55E00" if count == 8 else "#0072B2"
        box = {"boxstyle": "square,pad=0.5", "fc": "none", "ec": color}
        look = {"ha": "center", "va": "center", "color": color}
        ax.text(step, row, count, bbox=box, **look)
    for step in range(7):
        left, right = (step + 0.3, row), (step + 0.7, row)
        to, start = (right, left) if row == 1 else (left, right)
        arrow = {"arrowstyle": "->", "color": "#0072B2"}
        ax.annotate("", to, start, arrowprops=arrow)
ax.set_xticks(range(8), "datetime")
ax.set_yticks(range(2), ["backward", "forward"])
ax.set(title="How many letters each state has read")
ax.set(xlim=(-0.5, 7.5), ylim=(-0.5, 1.5))
ax.spines[:].set_visible(False)
ax.tick_params(length=0)
plt.show()

# %% stream
stream = torch.cat([F.pad(word, (0, 1)) for word in words])  # 0 ends a name
stream = stream[:2404].reshape(4, 601)  # 4 rows of text
inputs, targets = stream[:, :-1], stream[:, 1:]  # the next letter

# %% carry
embedding, head = nn.Embedding(64, 8), nn.Linear(32, 64)
lstm = nn.LSTM(8, 32, batch_first=True)
layers = nn.ModuleList([embedding, lstm, head])
optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)

state = None  # zeros
for x, y in zip(inputs.split(50, 1), targets.split(50, 1), strict=True):
    output, state = lstm(embedding(x), state)
    loss = F.cross_entropy(head(output).transpose(1, 2), y)  # N x 64 x L
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    state = tuple(part.detach() for part in state)  # without its graph

# %% in-chunks
with torch.no_grad():
    text = embedding(inputs)
    whole, _ = lstm(text)
    first, state = lstm(text[:, :300])
    second, _ = lstm(text[:, 300:], state)
    afresh, _ = lstm(text[:, 300:])

print("with the state:", torch.allclose(second, whole[:, 300:], atol=1e-6))
print("without:", torch.allclose(afresh, whole[:, 300:], atol=1e-6))


# %% forgotten
# Wrong on purpose: do not copy.
class WithoutBatchFirst(Reader):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 32)

    def forward(self, batch):
        output, _ = self.lstm(self.embedding(batch))
        return self.head(output[:, -1])


# %% forgotten-learned
wrong = fit(WithoutBatchFirst)
print(f"right: {right_answers(wrong):.0%}")


# %% in-company
def last_name(model, batch):  # the probabilities of its kinds
    with torch.no_grad():
        return model(batch)[-1].softmax(dim=0)


batch = starts[valid]
for what, each in {"batch_first=True": model, "forgotten": wrong}.items():
    print(f"{what}, in the batch:", last_name(each, batch))
    print(f"{what}, alone:", last_name(each, batch[-1:]))

seven_lost = batch.clone()
seven_lost[:, :7] = 1  # "aaaaaaa" in place of the first seven letters
print("forgotten, seven letters lost:", last_name(wrong, seven_lost))

# %% two-axes
samples = torch.rand(32, 8)  # meant as 32 samples
lstm = nn.LSTM(8, 32, batch_first=True)
chained, (chained_h_n, _) = lstm(samples)  # one sequence of 32 steps
single, _ = lstm(samples.unsqueeze(1))  # 32 sequences of one step

print("output:", tuple(chained.shape), "h_n:", tuple(chained_h_n.shape))


# %% series
torch.manual_seed(1)
moves = torch.zeros(600)
for day in range(1, 600):
    moves[day] = 0.7 * moves[day - 1] + torch.randn(())
prices = moves.cumsum(dim=0)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 16, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, batch):  # N x 10 numbers
        _, (h_n, _) = self.lstm(batch.unsqueeze(2))
        return self.head(h_n[-1]).squeeze(1)


def forecast(series, seed=0):  # the last 200 numbers, each from ten before it
    torch.manual_seed(seed)
    mean, std = series[:-200].mean(), series[:-200].std()
    pieces = ((series - mean) / std).unfold(0, 11, 1)
    x, y = pieces[:, :-1], pieces[:, -1]
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(60):
        loss = F.mse_loss(model(x[:-200]), y[:-200])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return model(x[-200:]) * std + mean


# %% forecasts
last_prices, next_prices = prices[-201:-1], prices[-200:]
from_prices = forecast(prices)
forecasts = {
    "the last price": last_prices,
    "LSTM fed with prices": from_prices,
    "LSTM fed with changes": last_prices + forecast(prices.diff()),
}
misses = {
    name: (each - next_prices).square().mean().sqrt().item()
    for name, each in forecasts.items()
}
for name, miss in misses.items():
    print(f"{name}: misses by {miss:.2f}")

curves = torch.stack([from_prices, last_prices, next_prices])
with_last, with_next = torch.corrcoef(curves)[0, 1:].tolist()
print(f"fed with prices, it correlates with the last price: {with_last:.3f}")
print(f"with the next price: {with_next:.3f}")


# %% reads-ahead
# Wrong on purpose: do not copy.
def miss_noise(bidirectional, seed=0):
    torch.manual_seed(seed)
    lstm = nn.LSTM(1, 16, batch_first=True, bidirectional=bidirectional)
    head = nn.Linear(32 if bidirectional else 16, 1)
    parameters = [*lstm.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.02)
    for _ in range(120):
        noise = torch.randn(64, 6, 1)
        loss = F.mse_loss(head(lstm(noise[:, :-1])[0]), noise[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    noise = torch.randn(1000, 6, 1)  # new
    with torch.no_grad():
        guess = head(lstm(noise[:, :-1])[0])
    return (guess - noise[:, 1:]).square().mean(dim=(0, 2))


both_ways, one_way = miss_noise(True), miss_noise(False)
print("both directions:", both_ways)
print("one direction:  ", one_way)


# %% windows
from torch.utils.data import random_split

days = torch.arange(600)  # each stands for the number of its day
windows = days.unfold(0, 11, 1)
generator = torch.Generator().manual_seed(0)
drawn = [part[:] for part in random_split(windows, [0.8, 0.2], generator)]
cut = [part.unfold(0, 11, 1) for part in days.split([480, 120])]


def share_seen(train, valid):  # of the numbers in validation windows
    return torch.isin(valid, train).float().mean().item()


print(f"windows drawn at random: {share_seen(*drawn):.1%} seen in training")
print(f"series cut first: {share_seen(*cut):.1%}")


# %% cat
class WithCat(Reader):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 3)

    def forward(self, batch):
        _, (h_n, _) = self.lstm(self.embedding(batch))
        return self.head(torch.cat([h_n[-2], h_n[-1]], dim=1))


# %% view
# Wrong on purpose: do not copy.
class WithView(WithCat):
    def forward(self, batch):
        _, (h_n, _) = self.lstm(self.embedding(batch))
        return self.head(h_n.view(len(batch), 64))


# %% view-learned
with_cat, with_view = fit(WithCat), fit(WithView)
print(f"cat: {right_answers(with_cat):.0%} right")
print(f"view: {right_answers(with_view):.0%} right")


# %% error-of
def error_of(call, *inputs):
    try:
        call(*inputs)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


# %% convolution
conv = nn.Conv1d(8, 32, kernel_size=3)
embedded = model.embedding(starts[:5])  # 5 names x 8 letters x 8 numbers
over_letters = conv(embedded.transpose(1, 2))  # right
over_numbers = conv(embedded)  # wrong
print("shapes:", tuple(over_letters.shape), tuple(over_numbers.shape))

other_length = error_of(conv, embedded[:, :7])
print(other_length)


# %% carried
def carry(detach, layer=lstm):
    state = None
    for x in inputs.split(300, dim=1):
        output, state = layer(embedding(x), state)
        output.sum().backward()
        state = detach(state)


for detach in (
    lambda state: state.detach(),
    lambda state: (state[0].detach(), state[1]),
    lambda state: tuple(part.detach() for part in state),
):
    print(error_of(carry, detach))

# %% misfits
x = torch.rand(4, 7, 8)  # 4 names of 7 letters, 8 numbers each
state = torch.zeros(1, 32, 32), torch.zeros(1, 32, 32)  # of 32 names
misfits = {
    "9 features": (torch.rand(4, 7, 9),),
    "four axes": (x[None],),
    "a state of 32 names": (x, state),
    "letters, not embedded": (torch.tensor([[1, 26, 5]]),),
}
for what, given in misfits.items():
    print(f"{what}: {error_of(lstm, *given)}")

# %% sequential
stack = nn.Sequential(lstm, nn.Linear(32, 3))
in_sequence = error_of(stack, x)
print(in_sequence)

# %% dropout
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    dropped = nn.LSTM(8, 32, batch_first=True, dropout=0.5)
for warning in caught:
    print(warning.message)
print("twice the same:", torch.equal(dropped(x)[0], dropped(x)[0]))

# %% three-layers
gru = nn.GRU(8, 20, num_layers=3, batch_first=True, bidirectional=True)
output, h_n = gru(x)
print(tuple(h_n.shape))


# %% read-in-chunks
def read_in_chunks(lstm, chunks):
    outputs, state = [], None
    for chunk in chunks:
        output, state = lstm(chunk, state)
        outputs.append(output)
    return torch.cat(outputs, dim=1)


# %% read-in-chunks-checked
x = torch.rand(4, 60, 8)
chunks = x.split(7, dim=1)
read_whole, read_parts = lstm(x)[0], read_in_chunks(lstm, chunks)
if read_parts.shape != read_whole.shape:
    print("Not yet: join the outputs along the axis of the letters")
elif not torch.allclose(read_parts, read_whole, atol=1e-6):
    print("Not yet: each chunk has to start from the state of the last one")
else:
    print("Right: nine chunks read like one text")
