"""The largest number of each row

A matrix of 1,000 rows and 100 columns.
One repetition finds the largest number of every row. On CUDA, the ways differ
in how often they launch something, not in how long it computes.
"""

import torch


def cases(device):
    """Return what is timed, by name; the first is what all are held to."""
    x = torch.randn(1000, 100, device=device)

    def loop():
        largest = torch.empty(1000, device=device)
        for i in range(1000):
            largest[i] = x[i].max()
        return largest

    def composed():
        return x.gather(1, x.argmax(dim=1, keepdim=True)).squeeze(1)

    return {
        "a loop over the rows": loop,
        "gather of argmax": composed,
        "max(dim=1)": lambda: x.max(dim=1).values,
        "amax(dim=1)": lambda: x.amax(dim=1),
    }
