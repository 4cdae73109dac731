"""One step of an optimizer

Eight layers of 1,024 units, 34 MB of parameters with their gradients.
One repetition is a step.
"""

import torch
from torch import nn, optim


def cases(device):
    """Return what is timed, by name; the first is what all are held to."""

    def step(make, **options):
        layers = [nn.Linear(1024, 1024) for _ in range(8)]
        model = nn.Sequential(*layers).to(device)
        optimizer = make(model.parameters(), lr=1e-6, **options)
        model(torch.ones(1, 1024, device=device)).sum().backward()
        return optimizer.step

    return {
        "SGD": step(optim.SGD),
        "SGD, momentum": step(optim.SGD, momentum=0.9),
        "Adam, one by one": step(optim.Adam, foreach=False),
        "Adam, foreach": step(optim.Adam, foreach=True),
        "Adam, fused": step(optim.Adam, fused=True),
        "AdamW, fused": step(optim.AdamW, fused=True),
    }
