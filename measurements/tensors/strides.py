"""A convolutional net in two memory formats

A small residual net: a first convolution of 32 channels, then two blocks of 64
and of 128, with BatchNorm, for 8 images of 64 by 64; on CUDA, where that is
done before it is launched, 256 images of 128 by 128.
One repetition is a forward pass, a backward pass and a step of SGD, or in
inference a forward pass alone. Model and images were converted before.
"""

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions, of which the first halves the picture."""

    def __init__(self, before, after):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, 2, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.past = nn.Conv2d(before, after, 1, 2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(3))

    def forward(self, images):
        """Return smaller pictures with more channels."""
        one, two, three = self.norms
        found = two(self.second(one(self.first(images)).relu()))
        return (found + three(self.past(images))).relu()


def cases(device):
    """Return what is timed, by name; the first of a kind is the base."""
    number, size = (256, 128) if device == "cuda" else (8, 64)
    formats = {
        "contiguous": torch.contiguous_format,
        "channels_last": torch.channels_last,
    }

    def case(form, dtype, training):
        stem = nn.Conv2d(3, 32, 3, padding=1)
        ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)
        model = nn.Sequential(stem, Block(32, 64), Block(64, 128), *ends)
        model.train(training).to(device, memory_format=form)
        images = torch.randn(number, 3, size, size)
        images = images.to(device, memory_format=form)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        mixed = dtype != torch.float32

        def run():
            optimizer.zero_grad()
            with (
                torch.autocast(device, dtype, mixed),
                torch.set_grad_enabled(training),
            ):
                loss = model(images).square().mean()
            if training:
                loss.backward()
                optimizer.step()

        return run

    return {
        f"{kind} in {dtype}: {name}": case(form, dtype, kind == "training")
        for kind in ("training", "inference")
        for dtype in (torch.float32, torch.bfloat16)
        for name, form in formats.items()
    }
