"""A product of float32 matrices at three precisions

256 rows of 4,096 numbers times a square matrix of 4,096, as in a layer of a
language model; on CUDA, where that is done before it is launched, 8,192 rows
and a square matrix of 8,192. One repetition is one product.
"""

import torch


def cases(device):
    """Return what is timed, by name; the first is the base."""
    rows, units = (8192, 8192) if device == "cuda" else (256, 4096)
    inputs = torch.randn(rows, units, device=device)
    weight = torch.randn(units, units, device=device)

    def product(precision):
        def run():
            torch.set_float32_matmul_precision(precision)
            return inputs @ weight

        return run

    return {name: product(name) for name in ("highest", "high", "medium")}
