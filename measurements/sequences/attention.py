"""Attention over 256 to 1,024 words

One sentence, 4 heads of 64 numbers, float32, without a mask.
One repetition is a forward pass without gradients. The peak is what it holds
besides its inputs. "Layer, with weights" is nn.MultiheadAttention as it is by
default; its peak also holds the queries, the keys and the values.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def cases(device):
    """Return what is timed, by name; the first of a length is the base."""
    layer = nn.MultiheadAttention(256, 4, batch_first=True).to(device)
    evaluated = nn.MultiheadAttention(256, 4, batch_first=True).to(device)
    evaluated.eval()

    def math(heads):
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(heads, heads, heads)

    def chosen(heads):
        with torch.no_grad():
            F.scaled_dot_product_attention(heads, heads, heads)

    def multihead(layer, words, need_weights):
        with torch.no_grad():
            layer(words, words, words, need_weights=need_weights)

    found = {}
    for length in (256, 512, 1024):
        heads = torch.randn(1, 4, length, 64, device=device)
        words = torch.randn(1, length, 256, device=device)
        found |= {
            f"{length} words: math kernel": partial(math, heads),
            f"{length} words: kernel by default": partial(chosen, heads),
        }
        layers = {
            "layer, with weights": (layer, True),
            "layer, need_weights=False": (layer, False),
            "layer after eval(), need_weights=False": (evaluated, False),
        }
        for name, (each, needed) in layers.items():
            found[f"{length} words: {name}"] = partial(
                multihead, each, words, needed
            )
    return found
