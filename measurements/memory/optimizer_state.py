"""One step of an optimizer, in three implementations

A layer of 4,096 units: 67 MB of parameters, and as much of gradients. On CUDA
there are eight such layers: 537 MB.
One repetition is a step; the first one also computes the gradients.
"""

import torch
from torch import nn, optim


def cases(device):
    """Return what is timed, by name; the first of a kind is the base."""
    units, number = 4096, 8 if device == "cuda" else 1
    kinds = {
        "SGD": (optim.SGD, {}),
        "SGD with momentum": (optim.SGD, {"momentum": 0.9}),
        "Adam": (optim.Adam, {}),
        "AdamW": (optim.AdamW, {}),
    }
    ways = {
        "one by one": {"foreach": False},
        "foreach": {"foreach": True},
        "fused": {"fused": True},
    }

    def step(make, **options):
        layers = [nn.Linear(units, units) for _ in range(number)]
        model = nn.Sequential(*layers).to(device)
        optimizer = make(model.parameters(), lr=1e-6, **options)
        row = torch.ones(1, units, device=device)

        def run():
            if layers[0].weight.grad is None:
                model(row).sum().backward()
            optimizer.step()

        return run

    return {
        f"{kind}: {way}": step(make, **options, **implementation)
        for kind, (make, options) in kinds.items()
        for way, implementation in ways.items()
    }
