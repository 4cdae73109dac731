"""The largest number of each row, and attention

A matrix of 1,000 rows and 100 columns, of which a repetition finds the largest
number of every row. And attention with 8 heads of 64 numbers over a text of
256 words, of which a repetition computes the outputs, in float32.
On CUDA, the ways differ in how often they launch something, not in how long it
computes.
"""

import torch
from torch.nn import functional as F


def cases(device):
    """Return what is timed, by name; the first of a kind is the base."""
    x = torch.randn(1000, 100, device=device)
    query, key, value = torch.randn(3, 8, 256, 64, device=device)

    def loop():
        largest = torch.empty(1000, device=device)
        for i in range(1000):
            largest[i] = x[i].max()
        return largest

    def composed():
        return x.gather(1, x.argmax(dim=1, keepdim=True)).squeeze(1)

    def attend(query, key, value):
        scores = query @ key.mT / 8  # the root of 64
        return scores.softmax(dim=-1) @ value

    def head_by_head():
        heads = zip(query, key, value, strict=True)
        return torch.stack([attend(*head) for head in heads])

    return {
        "largest: a loop over the rows": loop,
        "largest: gather of argmax": composed,
        "largest: max(dim=1)": lambda: x.max(dim=1).values,
        "largest: amax(dim=1)": lambda: x.amax(dim=1),
        "attention: a loop over the heads": head_by_head,
        "attention: all heads at once": lambda: attend(query, key, value),
        "attention: scaled_dot_product_attention": (
            lambda: F.scaled_dot_product_attention(query, key, value)
        ),
    }
