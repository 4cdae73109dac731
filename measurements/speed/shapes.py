"""A matrix product by the number of columns

A matrix of 1,024 by 1,024 times one of 1,024 rows and 1,009 to 1,032 columns.
One repetition is one product; its work differs by 2.3 percent at most.
"""

import torch


def cases(device):
    """Return what is timed, by name; the first of a type is the base."""

    def product(dtype, columns):
        left = torch.randn(1024, 1024, device=device).to(dtype)
        right = torch.randn(1024, columns, device=device).to(dtype)
        return lambda: left @ right

    dtypes = [torch.float32, torch.bfloat16]
    if device == "cuda":
        dtypes.append(torch.float16)
    return {
        f"{dtype}: {columns}": product(dtype, columns)
        for dtype in dtypes
        for columns in range(1009, 1033)
    }
