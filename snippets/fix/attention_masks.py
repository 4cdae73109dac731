"""
Fix an attention mask
=====================

Masks that raise an error, and masks that hide the wrong words.
"""

# %% words
import warnings

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.manual_seed(0)
vectors = torch.tensor(
    [[1.0, 0, 2, 0], [2, 0, 0, 0], [1, 2, 0, 0], [0, 1, 0, 2]]
)
batch = torch.zeros(2, 4, 4)  # 2 sentences, 4 places, 4 numbers for a word
batch[0] = vectors
batch[1, :2] = vectors[1:3]  # two words, and two places of padding
keep = torch.arange(4) < torch.tensor([4, 2])[:, None]  # True for a word
causal = torch.ones(4, 4, dtype=torch.bool).tril()  # word i: words 0 to i

query = key = value = batch[:, None]  # sentences x heads x words x numbers
mask = keep[:, None, None]
attend = F.scaled_dot_product_attention
layer = nn.MultiheadAttention(4, num_heads=2, batch_first=True)
output, _ = layer(batch, batch, batch, key_padding_mask=~keep)


def weights_of(query, key, **options):
    identity = torch.eye(key.shape[-2]).to(key)  # a row for each key
    return F.scaled_dot_product_attention(query, key, identity, **options)


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

# %% mask-for-each
out = ~keep[:, None].expand(2, 4, 4)  # a mask for each of 2 sentences
too_few = error_of(layer, batch, batch, batch, attn_mask=out)
in_turn = out.repeat_interleave(2, dim=0)  # for 2 heads of each
right, _ = layer(batch, batch, batch, attn_mask=in_turn)
swapped, _ = layer(batch, batch, batch, attn_mask=out.repeat(2, 1, 1))

print(too_few)
print("repeat_interleave:", torch.allclose(right, output))
print("repeat:           ", torch.allclose(swapped, output))

# %% both
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

# %% one-kernel
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        no_kernel = error_of(attend, query, key, value, dropout_p=0.1)
reasons = [str(each.message).partition(" (")[0] for each in caught]
with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):  # only on GPUs
    not_here = error_of(attend, query, key, value)

print(no_kernel, *reasons, sep="\n")
print(not_here)

# %% mismatched
floats = nn.Transformer.generate_square_subsequent_mask(4)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    layer(*[batch] * 3, attn_mask=floats, key_padding_mask=~keep)
print(*(each.message for each in caught))

# %% other-lengths
# Wrong on purpose: do not copy.
mixing = nn.MultiheadAttention(4, num_heads=2)
longer = torch.rand(2, 6, 4)  # two sentences of six words
crossed = error_of(mixing, batch, longer, longer)
print(crossed)

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

# %% documents
ids = torch.tensor([0, 0, 1, 1])  # the document of each word
apart = (ids[:, None] == ids) & causal
separate = weights_of(vectors, vectors, attn_mask=apart)
print(separate)

# %% dropout
dropping = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True).eval()
tries = [dropping(batch, batch, batch)[0] for _ in range(2)]
still = [attend(query, key, value, dropout_p=0.5) for _ in range(2)]
print("MultiheadAttention, equal outputs:", torch.equal(*tries))
print("SDPA, equal outputs:", torch.equal(*still))
