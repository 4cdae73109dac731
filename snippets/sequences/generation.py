"""
Generate text
=============

A small language model completes names: one or several at once, to their ends.
"""

# %% names
from calendar import day_name, month_name

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

names = [*month_name[1:], *day_name]
letters = ["\n", *sorted(set("".join(names)))]  # \n ends a name
code_of = {letter: code for code, letter in enumerate(letters)}
end = code_of["\n"]


def encode(text):
    return torch.tensor([code_of[letter] for letter in text])


def decode(codes):
    return "".join(letters[code] for code in codes)


# %% block
class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.hidden = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)

    def forward(self, x, mask, cache):
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.project(self.norm1(x)).chunk(3, dim=-1)
        )
        if cache is not None:
            if self in cache:
                key = torch.cat([cache[self][0], key], dim=2)
                value = torch.cat([cache[self][1], value], dim=2)
            cache[self] = key, value
        mixed = F.scaled_dot_product_attention(query, key, value, mask)
        x = x + self.join(mixed.transpose(1, 2).flatten(2))
        return x + self.shrink(F.gelu(self.hidden(self.norm2(x))))


# %% model
class LanguageModel(nn.Module):
    def __init__(self, width=32, layers=2, longest=32):
        super().__init__()
        self.letter = nn.Embedding(len(letters), width)
        self.position = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(width, len(letters))

    def forward(self, inputs, real=None, cache=None):
        if real is None:
            real = torch.ones_like(inputs, dtype=torch.bool)  # no padding
        new, seen = inputs.shape[1], real.shape[1]  # seen: with the cache
        places = (real.cumsum(dim=1) - 1).clamp(min=0)[:, -new:]
        causal = real.new_ones(new, seen).tril(seen - new)
        itself = causal.triu(seen - new)  # else, padding would see nothing
        mask = real[:, None] & causal | itself  # texts x new x seen

        x = self.letter(inputs) + self.position(places)
        for block in self.blocks:
            x = block(x, mask[:, None], cache)
        return self.score(self.norm(x))


# %% fit
codes = [encode(name + "\n") for name in names]
inputs = pad_sequence([text[:-1] for text in codes], batch_first=True)
targets = [text[1:] for text in codes]
targets = pad_sequence(targets, batch_first=True, padding_value=-100)

torch.manual_seed(0)
model = LanguageModel()
optimizer = optim.Adam(model.parameters(), lr=0.003)
for _ in range(200):
    loss = F.cross_entropy(model(inputs).transpose(1, 2), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss: {loss.item():.2f}")


# %% write
@torch.no_grad()
def write(model, start, most=12, temperature=1.0):
    written = encode(start)
    for _ in range(most):
        scores = model(written[None])[0, -1]
        chances = (scores / temperature).softmax(dim=0)
        new = torch.multinomial(chances, 1)
        if new == end:
            break
        written = torch.cat([written, new])
    return decode(written)


# %% do-this
torch.manual_seed(0)
drawn = [write(model, "J") for _ in range(8)]
print(drawn)

# %% hot-and-cold
chances = torch.tensor([0.8, 0.2])
hot_and_cold = {
    temperature: (chances.log() / temperature).softmax(dim=0)
    for temperature in (0.5, 1, 2)
}
for temperature, found in hot_and_cold.items():
    print(temperature, found)


# %% chance-of
@torch.no_grad()
def chance_of(name, temperature):
    text = encode(name + "\n")
    scores = model(text[None, :-1])[0] / temperature
    chosen = scores.log_softmax(dim=1).gather(1, text[1:, None])
    return chosen.sum().exp().item()  # all of them, one after the other


heat = {
    name: [chance_of(name, temperature) for temperature in (0.5, 1, 2)]
    for name in ("January", "June", "July")  # all that start with J
}
no_name = (1 - torch.tensor([*heat.values()]).sum(dim=0)).tolist()

# %% heat-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
left = torch.zeros(3)
for label, color, sizes in (
    ("January", "#0072B2", heat["January"]),
    ("June", "#56B4E9", heat["June"]),
    ("July", "#009E73", heat["July"]),
    ("no name", "#D55E00", no_name),
):
    axes.barh(["0.5", "1", "2"], sizes, left=left, label=label, color=color)
    left += torch.tensor(sizes)
axes.set(xlabel="part of the texts", ylabel="temperature")
axes.set_title("The hotter, the more often J becomes no name")
figure.legend(loc="outside lower center", ncols=4)
plt.show()


# %% top-p
def top_p(scores, p):
    chances, order = scores.softmax(dim=-1).sort(descending=True)
    likelier = chances.cumsum(dim=-1) - chances  # all likelier letters
    cut = likelier >= p
    return scores.masked_fill(cut.scatter(-1, order, cut), -torch.inf)


scores = torch.tensor([0.15, 0.5, 0.05, 0.3]).log()
kept = top_p(scores, 0.7).softmax(dim=0)
print(kept)


# %% left-padded
def left_padded(starts):
    texts = [encode(start) for start in starts]
    real = [torch.ones_like(text, dtype=torch.bool) for text in texts]
    left = {"batch_first": True, "padding_side": "left"}
    return pad_sequence(texts, **left), pad_sequence(real, **left)


starts = ["O", "We", "Ap", "Septem"]
_, real = left_padded(starts)
print(real.int())


# %% greedy
@torch.no_grad()
def greedy(model, starts, most=12, cached=False, device="cpu"):
    written, real = (each.to(device) for each in left_padded(starts))
    new, cache = written, {} if cached else None
    ended = torch.zeros(len(starts), 1, dtype=torch.bool, device=device)
    for _ in range(most):
        scores = model(new if cached else written, real, cache)
        new = scores[:, -1:].argmax(dim=-1)
        new[ended] = end  # a text that has ended gets nothing else
        written = torch.cat([written, new], dim=1)
        real = F.pad(real, (0, 1), value=True)
        ended |= new == end
        if ended.all():
            break
    rows = zip(written, real, strict=True)
    return [decode(row[is_letter]).rstrip("\n") for row, is_letter in rows]


# %% together
together = greedy(model, starts)
alone = [greedy(model, [start])[0] for start in starts]
print("together:", together)
print("alone:", alone)


# %% count
def positions_computed(start, **options):
    counts = []
    hook = model.blocks[0].register_forward_pre_hook(
        lambda _, inputs: counts.append(inputs[0].shape[1])
    )
    written = greedy(model, [start], **options)
    hook.remove()
    return written, sum(counts)


plain, plain_count = positions_computed("We")
cached, cached_count = positions_computed("We", cached=True)
print("the same letters:", plain == cached)
print("positions computed:", plain_count, "and", cached_count)


# %% fixed-cache
def with_growing(query, key, value, cache, place):
    keys = torch.cat([cache[0], key], dim=2)
    values = torch.cat([cache[1], value], dim=2)
    mixed = F.scaled_dot_product_attention(query, keys, values)
    return mixed, (keys, values)


def with_fixed(query, key, value, cache, place):
    keys, values = cache
    keys.index_copy_(2, place, key)
    values.index_copy_(2, place, value)
    # What is empty is hidden.
    filled = torch.arange(keys.shape[2], device=keys.device) <= place
    mixed = F.scaled_dot_product_attention(query, keys, values, filled[None])
    return mixed, cache


# %% graphs
graphs = []


def keep_graph(graph, inputs):
    graphs.append(graph)
    return graph.forward  # as it is, no faster


def read_compiled(attend, size):  # of the cache, at first
    torch.compiler.reset()  # forget what was compiled before
    graphs.clear()
    compiled = torch.compile(attend, backend=keep_graph)
    cache, read = tuple(torch.zeros(2, 1, 4, size, 8)), []
    for place, part in enumerate(parts):
        mixed, cache = compiled(*part, cache, torch.tensor([place]))
        read.append(mixed)
    return torch.cat(read), len(graphs)


parts = torch.rand(20, 3, 1, 4, 1, 8)  # the query, key and value of each
from_growing, growing_count = read_compiled(with_growing, 0)
from_fixed, fixed_count = read_compiled(with_fixed, 32)
print("graphs:", growing_count, "and", fixed_count)


# %% careless
# Wrong on purpose: do not copy.
def careless(inputs, real, cache):
    return model(inputs)  # as if all were letters


print(greedy(careless, starts))


# %% how-many
_, few = positions_computed("Octob")
_, fewer = positions_computed("Octob", cached=True)
print(few, "and", fewer)


# %% top-k
def top_k(scores, k):
    lowest = scores.topk(k).values[..., -1:]
    return scores.masked_fill(scores < lowest, -torch.inf)


# %% top-k-checked
best = top_k(torch.tensor([1.0, 3.0, 2.0, 0.0, -1.0]), 2).softmax(dim=0)
if (best > 0).tolist() == [False, True, True, False, False]:
    print("Right: only the two best letters can be drawn", best)
else:
    print("Not yet: letters 1 and 2 should be left, and the chances are", best)
