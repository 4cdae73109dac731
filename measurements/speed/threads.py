"""One operation and one small model on 1, 2 and more threads

A product of two square matrices of 1,024 float32 numbers. A training step of a
perceptron with two layers of 32 units on 16 rows. A forward and backward pass
of a convolution of 16 channels on 16 images of 64 by 64. Each with 1 thread,
2, as many as this process has cores, and twice that.
"""

import os

import torch
from torch import nn


def cases(device):
    """Return what is timed, by name; the first of a kind is the base."""
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )
    counts = sorted({1, 2, cores, 2 * cores})
    matrix = torch.randn(1024, 1024, device=device)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    model, rows = model.to(device), torch.randn(16, 32, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    layer = nn.Conv2d(16, 16, 3).to(device)
    images = torch.randn(16, 16, 64, 64, device=device)

    def product():
        return matrix @ matrix

    def small_model():
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()

    def convolution():
        layer.zero_grad()
        layer(images).square().mean().backward()

    def case(operation, count):
        def run():
            torch.set_num_threads(count)
            operation()

        return run

    kinds = {
        "product": product,
        "convolution": convolution,
        "small model": small_model,
    }
    return {
        f"{name}: {count} thread{'s' if count > 1 else ''}": case(each, count)
        for name, each in kinds.items()
        for count in counts
    }
