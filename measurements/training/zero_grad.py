"""Resetting gradients to None or to zeros

A perceptron of four layers of 1,024 units. One repetition is a training step
of SGD on a batch of 32, and the reset.
"""

import torch
from torch import nn


def cases(device):
    """Return what is timed, by name; the first is what all are held to."""

    def step(**options):
        layers = [nn.Linear(1024, 1024) for _ in range(4)]
        model = nn.Sequential(*layers).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        inputs = torch.randn(32, 1024, device=device)

        def run():
            model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(**options)

        return run

    return {
        "zeros": step(set_to_none=False),
        "None, the default": step(),
    }
