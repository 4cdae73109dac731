"""Resetting gradients to None or to zeros

A perceptron of four layers of 1,024 units, on CUDA of 8,192, and a batch of 32
rows. One repetition is a training step of SGD, and the reset.
"""

import torch
from torch import nn


def cases(device):
    """Return what is timed, by name; the first is what all are held to."""
    units = 8192 if device == "cuda" else 1024

    def step(**options):
        layers = [nn.Linear(units, units) for _ in range(4)]
        model = nn.Sequential(*layers).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        inputs = torch.randn(32, units, device=device)

        def run():
            model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(**options)

        return run

    return {
        "None, the default": step(),
        "zeros": step(set_to_none=False),
    }
