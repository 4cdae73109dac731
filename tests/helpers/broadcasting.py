"""What PyTorch prints of the sums of hundreds of pairs of tensors.

A test in ``tests/browser/``, where no torch is installed, compares a script
with it. ``python -m tests.helpers.broadcasting`` writes it again.
"""

import json
from itertools import product

import torch

from extensions.core.files import write
from extensions.core.topics import ROOT

PRINTED = ROOT / "tests/browser/broadcasting.json"
SHAPES = [
    *(shape for axes in range(3) for shape in product(range(4), repeat=axes)),
    *[(1, 1, 2), (2, 1, 3), (3, 2, 1), (1, 3, 1, 2)],
]


def printed(a, b):
    """Return what Python prints of the shape of a sum, or its error."""
    try:
        return f"{(torch.ones(a) + torch.ones(b)).shape}"
    except RuntimeError as error:
        return f"RuntimeError: {error}"


def as_text():
    """Return two shapes and what comes of them in each line, as JSON."""
    rows = [
        json.dumps([f"{a}", f"{b}", printed(a, b).strip()])
        for a, b in product(SHAPES, repeat=2)
    ]
    return "[\n" + ",\n".join(rows) + "\n]\n"


if __name__ == "__main__":
    write(PRINTED, as_text())
