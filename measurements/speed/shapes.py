"""A matrix product whose sizes are odd, or multiples of a power of two

A matrix of 1,024 by 1,024 times one of 1,024 rows and about as many columns.
One repetition is one product; its work differs by 2 percent at most.
"""

import torch


def cases(device):
    """Return what is timed, by name; the first of a type is the base."""

    def product(dtype, columns):
        left = torch.randn(1024, 1024, device=device).to(dtype)
        right = torch.randn(1024, columns, device=device).to(dtype)
        return lambda: left @ right

    columns = {
        1021: "1021 columns",
        1022: "1022, of 2",
        1020: "1020, of 4",
        1016: "1016, of 8",
        1008: "1008, of 16",
        1024: "1024, of 1024",
    }
    dtypes = [torch.float32, torch.bfloat16]
    if device == "cuda":
        dtypes.append(torch.float16)
    return {
        f"{dtype}: {name}": product(dtype, number)
        for dtype in dtypes
        for number, name in columns.items()
    }
