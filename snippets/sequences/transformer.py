"""
Build a small language model
============================

A transformer learns to continue Python's own help texts, letter by letter.
"""

# %% text
from pydoc_data.topics import topics

import torch
from torch import nn, optim
from torch.nn import functional as F

letters = "\n" + "".join(map(chr, range(32, 127)))  # 96 of them
code_of = {letter: code for code, letter in enumerate(letters)}


def encode(text):
    return torch.tensor([code_of[c] for c in text if c in code_of])


text = "\n\n".join(topics[name] for name in sorted(topics))
text = "\n\n".join(dict.fromkeys(text.split("\n\n")))  # no paragraph twice
codes = encode(text[:200_000])
train, test = codes[:-20000], codes[-20000:]

# %% batch
context = 32  # how many letters the model reads at once


def draw_batch(size=16):
    starts = torch.randint(len(train) - context, (size, 1))
    pieces = train[starts + torch.arange(context + 1)]
    return pieces[:, :-1], pieces[:, 1:]  # the target is the next letter


# %% loss-of
def loss_of(model, inputs, targets):
    scores = model(inputs)  # pieces x positions x letters
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


# %% block
class Block(nn.Module):
    def __init__(self, width, heads=4, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.hidden = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)

    def forward(self, x):
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.project(self.norm1(x)).chunk(3, dim=-1)
        )
        places = x.shape[1]
        mask = torch.ones(places, places, dtype=torch.bool, device=x.device)
        if self.causal:
            mask = mask.tril()  # no letter reads a later one
        mixed = F.scaled_dot_product_attention(query, key, value, mask)
        x = x + self.join(mixed.transpose(1, 2).flatten(2))
        return x + self.shrink(F.gelu(self.hidden(self.norm2(x))))


# %% model
class LanguageModel(nn.Module):
    def __init__(self, width=48, layers=2, causal=True):
        super().__init__()
        self.letter = nn.Embedding(len(letters), width)
        self.position = nn.Embedding(context, width)
        blocks = [Block(width, causal=causal) for _ in range(layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(width, len(letters))

    def forward(self, inputs):
        places = torch.arange(inputs.shape[1], device=inputs.device)
        x = self.letter(inputs) + self.position(places)
        for block in self.blocks:
            x = block(x)
        return self.score(self.norm(x))


# %% untrained
torch.manual_seed(0)
model = LanguageModel()
inputs, targets = draw_batch()

same_score = torch.zeros(16, context, 96)
guessing = loss_of(lambda _: same_score, inputs, targets)
untrained = loss_of(model, inputs, targets)
print(f"the same score for all: {guessing:.3f}")
print(f"untrained: {untrained:.2f}")


# %% train
def fit(model, steps=120, loss_of=loss_of):
    torch.manual_seed(1)  # the same batches for each model
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        loss = loss_of(model, *draw_batch())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


# %% held-out
pieces = test[: 600 * (context + 1)].view(600, context + 1)
pieces = pieces[::6]  # 100 of them, from all parts of the text


def losses_by_position(model):
    with torch.no_grad():
        scores = model(pieces[:, :-1]).transpose(1, 2)
    losses = F.cross_entropy(scores, pieces[:, 1:], reduction="none")
    return losses.mean(dim=0)  # one for each position


# %% trained
fit(model)
trained = losses_by_position(model)
print(f"trained: {trained.mean():.2f}")


# %% last-only
def last_loss(model, inputs, targets):
    return F.cross_entropy(model(inputs)[:, -1], targets[:, -1])


torch.manual_seed(0)
last_model = LanguageModel()
fit(last_model, loss_of=last_loss)
last_only = losses_by_position(last_model)
print(f"all positions: {trained.mean():.2f}")
print(f"the last position only: {last_only.mean():.2f}")
print(f"there, it is {trained[-1]:.2f} against {last_only[-1]:.2f}")

# %% order
torch.manual_seed(0)
one_layer = LanguageModel(layers=1)
nn.init.zeros_(one_layer.position.weight)  # no positions
turned = torch.cat([inputs[:, :-1].flip(1), inputs[:, -1:]], dim=1)

with torch.no_grad():
    change = one_layer(inputs)[:, -1] - one_layer(turned)[:, -1]
print(f"largest change: {change.abs().max():.6f}")


# %% moved
def moved(model, inputs):
    changed = inputs.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 96  # another last letter
    with torch.no_grad():
        difference = model(changed) - model(inputs)
    earlier = difference.abs().amax(dim=(0, 2))[:-1]
    return (earlier > 1e-5).sum().item()


# %% check
print("earlier outputs that move:", moved(model, inputs))


# %% write
def write(model, start, count, temperature=1.0):
    written = encode(start)[None]
    for _ in range(count):
        with torch.no_grad():
            scores = model(written[:, -context:])[0, -1]
        chances = (scores / temperature).softmax(dim=0)
        letter = torch.multinomial(chances, 1)
        written = torch.cat([written, letter[None]], dim=1)
    return "".join(letters[code] for code in written[0])


# %% sample
torch.manual_seed(0)
sample = write(model, "The ", 100)
print(sample)

# %% no-mask
# Wrong on purpose: do not copy.
torch.manual_seed(0)
unmasked = LanguageModel(causal=False)
fit(unmasked)
leaked = losses_by_position(unmasked)
print(f"without the mask: {leaked.mean():.2f}")
print("earlier outputs that move:", moved(unmasked, inputs))

# %% by-position
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for losses, label, color in (
    (trained, "with the mask", "#0072B2"),
    (leaked, "without", "#D55E00"),
):
    axes.plot(range(1, context + 1), losses, label=label, color=color)
axes.set(xlabel="letters read", ylabel="loss", ylim=(0, None))
axes.set_title("Without the mask, only the last letter is a real question")
axes.legend()
plt.show()


# %% while-writing
def loss_while_writing(model):
    losses = []
    for read in range(1, context + 1):
        with torch.no_grad():
            scores = model(pieces[:, :read])[:, -1]
        losses.append(F.cross_entropy(scores, pieces[:, read]))
    return torch.stack(losses).mean().item()


honest = loss_while_writing(model)
cheating = loss_while_writing(unmasked)
print(f"with the mask: {honest:.2f}, and at once {trained.mean():.2f}")
print(f"without: {cheating:.2f}, and at once {leaked.mean():.2f}")

# %% no-mask-sample
torch.manual_seed(0)
print(write(unmasked, "The ", 100))


# %% not-shifted
# Wrong on purpose: do not copy.
def same_loss(model, inputs, targets):
    return loss_of(model, inputs, inputs)


torch.manual_seed(0)
copier = LanguageModel()
copied = fit(copier, steps=50, loss_of=same_loss)
copies = write(copier, "The", 40, temperature=0.01)  # the likeliest
print(f"loss in training: {copied:.2f}")
print(f"on next letters: {losses_by_position(copier).mean():.2f}")
print(copies)

# %% too-long
try:
    model(torch.zeros(1, context + 1, dtype=torch.long))
except IndexError as error:
    print(error)

# %% encoder
layer = nn.TransformerEncoderLayer(
    48, nhead=4, dim_feedforward=192, batch_first=True, norm_first=True
)
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
encoder.eval()
future = torch.ones(context, context, dtype=torch.bool).triu(1)


def outputs_of(inputs):
    return encoder(model.letter(inputs), mask=future, is_causal=True)


print("earlier outputs that move:", moved(outputs_of, inputs))


# %% only-a-hint
# Wrong on purpose: do not copy.
def hinted(inputs):
    return encoder(model.letter(inputs), is_causal=True)  # no mask


try:
    hinted(inputs)
except RuntimeError as error:
    print(error)
print("earlier outputs that move:", moved(hinted, inputs))

# %% window
# Wrong on purpose: do not copy.
window = future | torch.ones_like(future).tril(-4)  # hides what is far, too
vectors = model.letter(inputs)
windowed = encoder(vectors, mask=window)
with_hint = encoder(vectors, mask=window, is_causal=True)
causal_only = encoder(vectors, mask=future)
for name, other in {"window": windowed, "causal": causal_only}.items():
    distance = (with_hint - other).abs().max().item()
    print(f"from the {name} mask: {distance:.2f} away")

# %% warning
import warnings

with warnings.catch_warnings(record=True) as met:
    warnings.simplefilter("always")
    warned = nn.TransformerEncoder(layer, 2)
print(met[0].message)

# %% batch-second
# Wrong on purpose: do not copy.
second = nn.TransformerEncoderLayer(64, nhead=4, dropout=0.0)
vectors = torch.rand(2, 5, 64)  # two texts of five letters
other = torch.stack([vectors[0], torch.rand(5, 64)])  # another second text
mixing = (second(vectors)[0] - second(other)[0]).abs().max().item()
print(f"the first text changes by {mixing:.2f}")

# %% padded
layer = nn.TransformerEncoderLayer(64, nhead=4, batch_first=True)
reader = nn.TransformerEncoder(layer, 2).eval()
padding = torch.zeros(2, 5, dtype=torch.bool)
padding[1, 2:] = True  # the second text has two letters

with_grad = reader(vectors, src_key_padding_mask=padding)
with warnings.catch_warnings(), torch.no_grad():
    warnings.simplefilter("ignore")  # "nested tensors is in prototype stage"
    without_grad = reader(vectors, src_key_padding_mask=padding)

print("with gradients:", with_grad[1, :, 0].detach())
print("without:", without_grad[1, :, 0])

# %% translate
both = nn.Transformer(64, 4, 1, 1, 128, batch_first=True).eval()
source, target = torch.randn(1, 5, 64), torch.randn(1, 3, 64)
source[:, 3:] = 0.0  # the last two places are padding
padding = torch.tensor([[False, False, False, True, True]])
later = torch.ones(3, 3, dtype=torch.bool).triu(1)


def decoded(source, **masks):
    return both(source, target, tgt_mask=later, **masks)


alone = decoded(source[:, :3])
one_mask = decoded(source, src_key_padding_mask=padding)
two_masks = decoded(
    source, src_key_padding_mask=padding, memory_key_padding_mask=padding
)
for name, outputs in {"one mask": one_mask, "two": two_masks}.items():
    print(f"{name}: {(outputs - alone).abs().max():.2f} away")


# %% reverser
class Reverser(nn.Module):
    def __init__(self):
        super().__init__()
        self.digit = nn.Embedding(11, 32)  # ten digits, and 10 for the start
        self.place = nn.Embedding(5, 32)
        options = {"dropout": 0.0, "batch_first": True}
        self.transformer = nn.Transformer(32, 4, 1, 1, 64, **options)
        self.score = nn.Linear(32, 10)

    def forward(self, source, target):
        source, target = (
            self.digit(part) + self.place.weight[: part.shape[1]]
            for part in (source, target)
        )
        places = target.shape[1]
        later = torch.ones(places, places, dtype=torch.bool).triu(1)
        return self.score(self.transformer(source, target, tgt_mask=later))


# %% teacher-forcing
def draw_digits(count):
    source = torch.randint(10, (count, 4))
    start = torch.full((count, 1), 10)
    return source, torch.cat([start, source.flip(1)], dim=1)


torch.manual_seed(0)
reverser = Reverser()
optimizer = optim.Adam(reverser.parameters(), lr=0.01)
for _ in range(60):
    source, target = draw_digits(64)
    scores = reverser(source, target[:, :-1])  # all but the last
    loss = F.cross_entropy(scores.transpose(1, 2), target[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


# %% write-digits
def write_digits(model, source):
    written = torch.full((len(source), 1), 10)  # the start alone
    for _ in range(4):
        with torch.no_grad():
            scores = model(source, written)[:, -1]  # of the next digit
        written = torch.cat([written, scores.argmax(1, keepdim=True)], dim=1)
    return written[:, 1:]


source, target = draw_digits(300)
answers = write_digits(reverser, source)
reversed_right = (answers == target[:, 1:]).all(dim=1).float().mean().item()
print(source[0], "becomes", answers[0])
print(f"right: {reversed_right:.0%}")

# %% first-loss
print(f"{torch.tensor(50257.0).log():.2f}")
