"""
Attention, masks and their traps
================================

Four words attend to each other, by hand and with both of PyTorch's ways.
"""

# %% words
import torch
from torch import nn
from torch.nn import functional as F

words = ["black", "cats", "purr", "softly"]
vectors = torch.tensor(
    [[1.0, 0, 2, 0], [2, 0, 0, 0], [1, 2, 0, 0], [0, 1, 0, 2]]
)

batch = torch.zeros(2, 4, 4)  # 2 sentences, 4 words, 4 numbers for a word
batch[0] = vectors
batch[1, :2] = vectors[1:3]  # cats purr, and two places of padding
lengths = torch.tensor([4, 2])

# %% do-this
keep = torch.arange(4) < lengths[:, None]  # True for a word, not for padding

query = key = value = batch[:, None]  # sentences x heads x words x numbers
mask = keep[:, None, None]  # True takes part
mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

torch.manual_seed(0)
layer = nn.MultiheadAttention(4, num_heads=2, batch_first=True)
output, _ = layer(batch, batch, batch, key_padding_mask=~keep)  # True is out

# %% by-hand
scores = vectors @ vectors.T / 4**0.5  # 4 numbers in each vector
weights = scores.softmax(dim=1)
by_hand = weights @ vectors

print("scores of cats:", scores[1])
print("weights of cats:", weights[1])
print("new vector of cats:", by_hand[1])

# %% one-call
one_call = F.scaled_dot_product_attention(vectors, vectors, vectors)
sharper = F.scaled_dot_product_attention(vectors, vectors, vectors, scale=1.0)
print("one call:", one_call[1])
print("scale=1.0:", sharper[1])


# %% weights-of
def weights_of(query, key, **options):
    identity = torch.eye(key.shape[-2]).to(key)  # a row for each key
    return F.scaled_dot_product_attention(query, key, identity, **options)


# %% causal
causal = torch.ones(4, 4, dtype=torch.bool).tril()  # word i: words 0 to i
past = weights_of(vectors, vectors, is_causal=True)
print(past)

# %% masked
padded = weights_of(query, key, attn_mask=mask)
inverted = weights_of(query, key, attn_mask=~mask)

# %% draw
import matplotlib.pyplot as plt

pair = [*words[1:3], "pad", "pad"]
shown = [
    ("No mask", weights, words),
    ("is_causal=True", past, words),
    ("Padding masked", padded[1, 0], pair),
    ("Mask inverted", inverted[1, 0], pair),
]
_, panels = plt.subplots(2, 2, figsize=(6.4, 6), layout="constrained")
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
projected = F.linear(batch, layer.in_proj_weight, layer.in_proj_bias)
parts = [
    part.unflatten(2, (2, 2)).transpose(1, 2)  # 2 heads of 2 numbers
    for part in projected.chunk(3, dim=2)
]
mixed_heads = F.scaled_dot_product_attention(*parts, mask)
by_parts = layer.out_proj(mixed_heads.transpose(1, 2).flatten(2))

print("largest difference:", (by_parts - output).abs().max().item())

# %% maps
block = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
maps = []


def ask_for_weights(attention, inputs, options):
    return inputs, {**options, "need_weights": True}


def store_weights(attention, inputs, result):
    maps.append(result[1])


block.self_attn.register_forward_pre_hook(ask_for_weights, with_kwargs=True)
block.self_attn.register_forward_hook(store_weights)

with torch.no_grad():
    block(batch, src_key_padding_mask=~keep)
print("sentence 1:", maps[0][1], sep="\n")

# %% inverted
# Wrong on purpose: do not copy.
print("SDPA, sentence 0:", inverted[0, 0], sep="\n")
print("SDPA, sentence 1:", inverted[1, 0], sep="\n")

wrong_output, _ = layer(batch, batch, batch, key_padding_mask=keep)
print("nan for each sentence:", wrong_output.isnan().sum(dim=(1, 2)))

# %% inverted-causal
# Wrong on purpose: do not copy.
hidden_future = torch.ones(4, 4, dtype=torch.bool).triu(diagonal=1)
cheating = weights_of(vectors, vectors, attn_mask=hidden_future)
print("SDPA with the mask of MultiheadAttention:", cheating, sep="\n")

_, spoiled = layer(batch, batch, batch, attn_mask=causal)
print("MultiheadAttention with the mask of SDPA:", spoiled[0], sep="\n")

# %% float-mask
# Wrong on purpose: do not copy.
added = weights_of(query, key, attn_mask=mask.float())
print("to the padding:", added[1, 0, 0, 2:].sum().item())


# %% error-of
def error_of(call, *inputs, **options):
    try:
        call(*inputs, **options)
    except (RuntimeError, AssertionError) as error:
        return str(error)
    return "no error"


# %% mask-types
# Wrong on purpose: do not copy.
short = torch.zeros(2, 1, 1, 4).masked_fill(~mask, -torch.inf).bfloat16()
integers = error_of(weights_of, query, key, attn_mask=mask.long())
short_floats = error_of(weights_of, query, key, attn_mask=short)
in_layer = error_of(layer, *[batch] * 3, key_padding_mask=keep.long())
print(integers, short_floats, in_layer, sep="\n")

# %% cast
cast = weights_of(query, key, attn_mask=short.to(query.dtype))
upside_down = weights_of(query, key, attn_mask=short.bool())  # wrong
print("to(query.dtype):", cast[1, 0, 0])
print("bool():", upside_down[1, 0, 0])

# %% no-axes
# Wrong on purpose: do not copy.
four = query.repeat(2, 1, 1, 1)  # 4 sentences of 4 words
four_masks = keep.repeat(2, 1)
without_axes = weights_of(four, four, attn_mask=four_masks)
other_sizes = error_of(weights_of, query, key, attn_mask=keep)
print("four sentences:", without_axes[1, 0], sep="\n")
print("two sentences:", other_sizes)

# %% left-padding
# Wrong on purpose: do not copy.
left = batch[1:].roll(2, dims=1)  # two places of padding, cats purr
allowed = causal & torch.tensor([False, False, True, True])

first, _ = layer(left, left, left, attn_mask=~allowed)
second, _ = layer(first, first, first, attn_mask=~allowed)
print("after one layer:", first.isnan().any(dim=2)[0])
print("after two:", second.isnan().any(dim=2)[0])

# %% diagonal
safe = allowed | torch.eye(4, dtype=torch.bool)  # each place sees itself
first_safe, _ = layer(left, left, left, attn_mask=~safe)
second_safe, _ = layer(first_safe, first_safe, first_safe, attn_mask=~safe)
print("nan after two:", second_safe.isnan().any().item())

# %% cache
# Wrong on purpose: do not copy.
newest = vectors[3:]  # softly; the keys of all four words are in the cache
from_first = weights_of(newest, vectors, is_causal=True)
print(from_first)

# %% shifted
alone = weights_of(newest, vectors)  # one new word needs no mask
shifted = torch.ones(2, 4, dtype=torch.bool).tril(diagonal=4 - 2)
last_two = weights_of(vectors[2:], vectors, attn_mask=shifted)
print("one new word:", alone)
print("two new words:", last_two, sep="\n")

# %% documents
ids = torch.tensor([0, 0, 1, 1])  # the document of each word
apart = (ids[:, None] == ids) & causal
separate = weights_of(vectors, vectors, attn_mask=apart)
print(separate)

# %% both
from torch.nn.attention import SDPBackend, sdpa_kernel

attend = F.scaled_dot_product_attention
both = {"attn_mask": mask, "is_causal": True}
default_error = error_of(attend, query, key, value, **both)
with sdpa_kernel(SDPBackend.MATH):
    math_error = error_of(attend, query, key, value, **both)

print("by default:", default_error)
print("math kernel:", math_error)

# %% hint
hint_error = error_of(layer, batch, batch, batch, is_causal=True)
print(hint_error)

evaluated = nn.MultiheadAttention(4, num_heads=2, batch_first=True).eval()
with torch.no_grad():
    _, unmasked = evaluated(batch, batch, batch, is_causal=True)
print("in evaluation:", unmasked[0], sep="\n")

# %% mask-for-each
out = ~keep[:, None].expand(2, 4, 4)  # a mask for each of 2 sentences
too_few = error_of(layer, batch, batch, batch, attn_mask=out)
in_turn = out.repeat_interleave(2, dim=0)  # for 2 heads of each
right, _ = layer(batch, batch, batch, attn_mask=in_turn)
swapped, _ = layer(batch, batch, batch, attn_mask=out.repeat(2, 1, 1))

print(too_few)
print("repeat_interleave:", torch.allclose(right, output))
print("repeat:           ", torch.allclose(swapped, output))

# %% mismatched
import warnings

floats = nn.Transformer.generate_square_subsequent_mask(4)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    layer(*[batch] * 3, attn_mask=floats, key_padding_mask=~keep)
print(*(each.message for each in caught))

# %% dropout
dropping = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True).eval()
tries = [dropping(batch, batch, batch)[0] for _ in range(2)]
still = [attend(query, key, value, dropout_p=0.5) for _ in range(2)]
print("MultiheadAttention:", (tries[0] - tries[1]).abs().max().item())
print("SDPA:", (still[0] - still[1]).abs().max().item())

# %% batch-first
# Wrong on purpose: do not copy.
mixing = nn.MultiheadAttention(4, num_heads=2)
before, across = mixing(batch, batch, batch)
other = batch.clone()
other[1] += 1  # another second sentence
after, _ = mixing(other, other, other)
print("weights:", across.shape)
print("the first sentence moves by", (after - before)[0].abs().max().item())

swapped = error_of(mixing, batch, batch, batch, key_padding_mask=~keep)
print(swapped)

# %% other-lengths
# Wrong on purpose: do not copy.
longer = torch.rand(2, 6, 4)  # two sentences of six words
crossed = error_of(mixing, batch, longer, longer)
print(crossed)

# %% kernel
from torch.profiler import profile


def kernels(call, *inputs, **options):
    with profile() as seen:
        call(*inputs, **options)
    names = {row.key for row in seen.key_averages()}
    return sorted(name for name in names if "aten::_scaled_dot" in name)


heads, words_only = (query, key, value), (batch, batch, batch)
taken = {
    "four axes": kernels(attend, *heads),
    "three axes": kernels(attend, *words_only),
    "dropout": kernels(attend, *heads, dropout_p=0.1),
    "layer": kernels(layer, *words_only),
    "need_weights=False": kernels(layer, *words_only, need_weights=False),
}
layer.eval()
with torch.no_grad():
    found = kernels(layer, *words_only, need_weights=False)
taken["in evaluation"] = found

for name, found in taken.items():
    print(f"{name}: {found or 'no call'}")

# %% one-kernel
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        no_kernel = error_of(attend, query, key, value, dropout_p=0.1)
reasons = [str(each.message).partition(" (")[0] for each in caught]
with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):  # only on GPUs
    not_here = error_of(attend, query, key, value)

print(no_kernel, *reasons, sep="\n")
print(not_here)

# %% zero-query
even = weights_of(torch.zeros(1, 4), vectors)
print(even)


# %% mask-for
def mask_for(lengths, size):
    keep = torch.arange(size, device=lengths.device) < lengths[:, None]
    causal = torch.ones(size, size).tril().to(keep)
    return keep[:, None, None] & causal


# %% mask-for-checked
table = weights_of(query, key, attn_mask=mask_for(lengths, 4))[:, 0]
later, padding = table.triu(diagonal=1).any(), table[1, :, 2:].any()
missed = table.count_nonzero() < 17  # 10 and 7 pairs of words
if later or padding:
    print("Not yet: a word takes from a later one, or from padding.", table)
elif missed:
    print("Not yet: a word takes nothing from one that came before.", table)
else:
    print("Right: each word takes from itself and from the words before it.")
