"""
Attention: scaled_dot_product_attention and nn.MultiheadAttention
=================================================================

Four words attend to each other, by ten lines and by both of PyTorch's ways.
"""

# %% words
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
words = ["black", "cats", "purr", "softly"]
vectors = torch.tensor(
    [[1.0, 0, 2, 0], [2, 0, 0, 0], [1, 2, 0, 0], [0, 1, 0, 2]]
)

batch = torch.zeros(2, 4, 4)  # 2 sentences, 4 places, 4 numbers for a word
batch[0] = vectors
batch[1, :2] = vectors[1:3]  # cats purr, and two places of padding
lengths = torch.tensor([4, 2])

# %% do-this
keep = torch.arange(4) < lengths[:, None]  # True for a word, not for padding

query = key = value = batch[:, None]  # sentences x heads x words x numbers
mask = keep[:, None, None]  # here, True takes part
mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

layer = nn.MultiheadAttention(4, num_heads=2, batch_first=True)
output, _ = layer(batch, batch, batch, key_padding_mask=~keep)  # True is out


# %% by-hand
def attention(query, key, value, attn_mask=None, is_causal=False):
    scores = query @ key.mT / key.shape[-1] ** 0.5  # 1
    if is_causal:
        attn_mask = torch.ones_like(scores).tril().bool()  # 2
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)  # 3
    elif attn_mask is not None:
        scores = scores + attn_mask  # 4
    weights = scores.softmax(dim=-1)  # 5
    return weights @ value, weights  # 6


# %% compare
def apart(**options):
    results = []
    for call in (attention, F.scaled_dot_product_attention):
        leaf = query.clone().requires_grad_()
        found = call(leaf, leaf, leaf, **options)
        found = found[0] if call is attention else found
        found.pow(3).sum().backward()
        results.append(torch.stack([found.detach(), leaf.grad]))
    return (results[0] - results[1]).abs().max().item()


floats = torch.zeros(2, 1, 1, 4).masked_fill(~mask, -torch.inf)
print(f"no mask: {apart():.3f} apart")
print(f"a mask of booleans: {apart(attn_mask=mask):.3f} apart")
print(f"a mask of floats: {apart(attn_mask=floats):.3f} apart")
print(f"is_causal=True: {apart(is_causal=True):.3f} apart")

# %% cats
gathered, weights = attention(vectors, vectors, vectors)
print("scores of cats:", vectors[1] @ vectors.T / 4**0.5)
print("weights of cats:", weights[1])
print("new vector of cats:", gathered[1])

# %% spread
for size in (4, 64, 1024):
    queries, keys = torch.randn(2, 1000, size)
    products = queries @ keys.T
    scores = products / size**0.5
    print(
        f"{size:4} numbers: products spread by {products.std():4.1f},",
        f"largest weight {products.softmax(dim=1).amax(dim=1).mean():.2f};",
        f"divided, {scores.std():.1f}",
        f"and {scores.softmax(dim=1).amax(dim=1).mean():.2f}",
    )

# %% draw
import matplotlib.pyplot as plt

pair = [*words[1:3], "pad", "pad"]
_, past = attention(vectors, vectors, vectors, is_causal=True)
_, padded = attention(query, key, value, mask)
shown = [
    ("No mask", weights, words),
    ("is_causal=True", past, words),
    ("Padding masked", padded[1, 0], pair),
]
_, panels = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
for panel, (title, table, names) in zip(panels.flat, shown, strict=True):
    panel.imshow(table, cmap="Blues", vmin=0, vmax=1)
    panel.set_xticks(range(4), names)
    panel.set_yticks(range(4), names)
    panel.set_title(title)
    for i in range(4):
        for j in range(4):
            color = "white" if table[i, j] > 0.6 else "black"
            panel.text(j, i, f"{table[i, j]:.2f}", ha="center", color=color)
plt.suptitle("How much each word (row) takes from each word (column)")
plt.show()

# %% by-parts
weight, bias = layer.in_proj_weight, layer.in_proj_bias
heads = [
    part.unflatten(2, (2, 2)).transpose(1, 2)  # 2 heads of 2 numbers
    for part in F.linear(batch, weight, bias).chunk(3, dim=2)
]
by_head, _ = attention(*heads, mask)
by_parts = layer.out_proj(by_head.transpose(1, 2).flatten(2))

print("equal:", torch.allclose(by_parts, output, atol=1e-6))

# %% maps
block = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
maps = []


def ask_for_weights(attention, inputs, options):
    return inputs, {**options, "need_weights": True}


def store_weights(attention, inputs, result):
    maps.append(result[1].detach())


block.self_attn.register_forward_pre_hook(ask_for_weights, with_kwargs=True)
block.self_attn.register_forward_hook(store_weights)

with torch.no_grad():
    block(batch, src_key_padding_mask=~keep)
print("sentence 1:", maps[0][1], sep="\n")

# %% inverted
# Wrong on purpose: do not copy.
_, inverted = attention(query, key, value, ~mask)
print("weights of sentence 1:", inverted[1, 0], sep="\n")

wrong_output, _ = layer(batch, batch, batch, key_padding_mask=keep)
print("nan for each sentence:", wrong_output.isnan().sum(dim=(1, 2)))

# %% inverted-causal
# Wrong on purpose: do not copy.
hidden_future = torch.ones(4, 4, dtype=torch.bool).triu(diagonal=1)
_, cheating = attention(vectors, vectors, vectors, hidden_future)
print(cheating)

attend = F.scaled_dot_product_attention
changed = vectors.clone()
changed[3] = vectors[0]  # not + 1, which a LayerNorm takes back
for name, triangle in [("wrong", hidden_future), ("right", ~hidden_future)]:
    shift = attend(*[changed] * 3, triangle) - attend(*[vectors] * 3, triangle)
    print(f"{name} mask: earlier words move by {shift[:3].abs().max():.2f}")

# %% float-mask
# Wrong on purpose: do not copy.
_, added = attention(query, key, value, mask.float())
print("cats to each place:", added[1, 0, 0])

# %% cache
# Wrong on purpose: do not copy.
newest = vectors[3:]  # softly; the keys of all four words are in the cache
_, from_first = attention(newest, vectors, vectors, is_causal=True)
print(from_first)

# %% shifted
shifted = torch.ones(2, 4, dtype=torch.bool).tril(diagonal=4 - 2)
_, alone = attention(newest, vectors, vectors)  # one word needs no mask
_, last_two = attention(vectors[2:], vectors, vectors, shifted)
print("one new word:", alone)
print("two new words:", last_two, sep="\n")

# %% batch-first
# Wrong on purpose: do not copy.
mixing = nn.MultiheadAttention(4, num_heads=2)
before, across = mixing(batch, batch, batch)
other = batch.clone()
other[1] += 1  # another second sentence
after, _ = mixing(other, other, other)
moved = (after - before)[0].abs().max().item()
print("weights:", list(across.shape))
print(f"the first sentence moves by {moved:.2f}")

# %% kernel
from torch.profiler import profile


def kernels(call, *inputs, **options):
    with profile() as seen:
        call(*inputs, **options)
    names = {row.key for row in seen.key_averages()}
    return sorted(name for name in names if "aten::_scaled_dot" in name)


three_axes, four_axes = (batch, batch, batch), (query, key, value)
taken = {
    "function": kernels(attend, *four_axes),
    "function, dropout_p=0.1": kernels(attend, *four_axes, dropout_p=0.1),
    "layer": kernels(layer, *three_axes),
    "layer, need_weights=False": kernels(
        layer, *three_axes, need_weights=False
    ),
}
layer.eval()
with torch.no_grad():
    found = kernels(layer, *three_axes, need_weights=False)
taken["the same in evaluation, no_grad"] = found
layer.train()

for name, found in taken.items():
    print(f"{name}: {found or 'no call'}")

# %% zero-query
_, even = attention(torch.zeros(1, 4), vectors, vectors)
print(even)


# %% mask-for
def mask_for(lengths, size):
    keep = torch.arange(size, device=lengths.device) < lengths[:, None]
    causal = torch.ones(size, size).tril().to(keep)
    return keep[:, None, None] & causal


# %% mask-for-checked
_, table = attention(query, key, value, mask_for(lengths, 4))
table = table[:, 0]
later, padding = table.triu(diagonal=1).any(), table[1, :, 2:].any()
missed = table.count_nonzero() < 17  # 10 and 7 pairs of words
if later or padding:
    print("Not yet: a word takes from a later one, or from padding.", table)
elif missed:
    print("Not yet: a word takes nothing from one that came before.", table)
else:
    print("Right: each word takes from itself and from the words before it.")
