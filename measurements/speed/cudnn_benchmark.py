"""Convolutions with cudnn.benchmark off and on

Three convolutions of 256 channels on a batch of 64 images, forward and
backward. The images are 64 by 64, or of a new size at every repetition.
"""

import itertools

import torch
from torch import nn

NEEDS = "cuda"


def cases(device):
    """Return what is timed, by name; the first of a kind is the base."""
    layers = [nn.Conv2d(256, 256, 3, padding=1) for _ in range(3)]
    model = nn.Sequential(*layers).to(device)
    images = torch.randn(64, 256, 64, 64, device=device)

    def new_sizes():
        # Of 31 widths and 29 heights, 899 sizes come before one repeats.
        widths = itertools.cycle(range(33, 64))
        return zip(widths, itertools.cycle(range(35, 64)), strict=False)

    # Each of the two meets the same sizes, in the same order.
    sizes = {False: new_sizes(), True: new_sizes()}

    def run(benchmark, changing):
        width, height = next(sizes[benchmark]) if changing else (64, 64)
        chosen = images[..., :height, :width].contiguous()
        with torch.backends.cudnn.flags(enabled=True, benchmark=benchmark):
            model.zero_grad()
            model(chosen).square().mean().backward()

    return {
        "one size: off": lambda: run(False, changing=False),
        "one size: on": lambda: run(True, changing=False),
        "changing sizes: off": lambda: run(False, changing=True),
        "changing sizes: on": lambda: run(True, changing=True),
    }
