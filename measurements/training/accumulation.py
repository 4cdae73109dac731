"""One big batch, or the same batch in parts

A perceptron of four layers of 512 units and a batch of 512 rows.
One repetition computes the gradient of the whole batch.
"""

import torch
from torch import nn


def cases(device):
    """Return what is timed, by name; the first is what all are held to."""
    layers = []
    for _ in range(4):
        layers += [nn.Linear(512, 512), nn.ReLU()]
    model = nn.Sequential(*layers).to(device)
    inputs = torch.randn(512, 512, device=device)

    def run(parts):
        model.zero_grad()
        for part in inputs.chunk(parts):
            (model(part).square().mean() / parts).backward()

    return {
        "1 batch of 512": lambda: run(1),
        "4 parts of 128": lambda: run(4),
        "16 parts of 32": lambda: run(16),
        "64 parts of 8": lambda: run(64),
    }
