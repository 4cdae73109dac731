"""One big batch, or the same batch in parts

A perceptron of four layers of 512 units and a batch of 512 rows; on CUDA,
where that is done before it is launched, 4,096 units and 8,192 rows.
One repetition computes the gradient of the whole batch.
"""

import torch
from torch import nn


def cases(device):
    """Return what is timed, by name; the first is what all are held to."""
    units, rows = (4096, 8192) if device == "cuda" else (512, 512)
    layers = []
    for _ in range(4):
        layers += [nn.Linear(units, units), nn.ReLU()]
    model = nn.Sequential(*layers).to(device)
    inputs = torch.randn(rows, units, device=device)

    def run(parts):
        model.zero_grad()
        for part in inputs.chunk(parts):
            (model(part).square().mean() / parts).backward()

    return {
        "1 batch": lambda: run(1),
        "4 parts": lambda: run(4),
        "16 parts": lambda: run(16),
        "64 parts": lambda: run(64),
    }
