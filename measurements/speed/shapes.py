"""A matrix product by the number of columns

A square matrix of 1,024 rows times one of 1,009 to 1,032 columns; on CUDA,
where that is done before it is launched, a square matrix of 8,192 rows.
One repetition is one product; its work differs by 2.3 percent at most.
"""

import torch


def cases(device):
    """Return what is timed, by name; the first of a type is the base."""

    rows = 8192 if device == "cuda" else 1024
    dtypes = [torch.float32, torch.bfloat16]
    if device == "cuda":
        dtypes.append(torch.float16)

    def product(left, columns):
        right = torch.randn(rows, columns, device=device).to(left.dtype)
        return lambda: left @ right

    square = torch.randn(rows, rows, device=device)
    return {
        f"{left.dtype}: {columns}": product(left, columns)
        for left in map(square.to, dtypes)
        for columns in range(1009, 1033)
    }
