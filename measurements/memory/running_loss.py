"""Adding up the loss of 50 training steps

A perceptron of two layers of 256 units, and batches of 64 rows.
One repetition is 50 forward and backward passes, and the sum of the losses.
On CUDA, these steps take longer to launch than to compute.
"""

import torch
from torch import nn


def cases(device):
    """Return what is timed, by name; the first is what all are held to."""
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    model.to(device)
    inputs = torch.randn(64, 256, device=device)

    def run(number):
        total = 0.0
        for _ in range(50):
            model.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            total += number(loss)
        return float(total)

    return {
        "total += loss": lambda: run(lambda loss: loss),
        "total += loss.detach()": lambda: run(torch.Tensor.detach),
        "total += loss.item()": lambda: run(torch.Tensor.item),
    }
