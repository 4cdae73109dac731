"""The dtypes that tests try, and the bits of their numbers."""

import torch

SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
INTEGERS = [torch.uint8, *SIGNED]
SIXTEEN_BIT = [torch.float16, torch.bfloat16]
FLOATS = [*SIXTEEN_BIT, torch.float32, torch.float64]
ALL = [torch.bool, *INTEGERS, *FLOATS]

METHODS = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "long": torch.int64,
    "int": torch.int32,
    "short": torch.int16,
    "char": torch.int8,
    "byte": torch.uint8,
    "bool": torch.bool,
}

# The integer type as wide as a floating-point number of so many bytes.
PATTERNS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def name_of(value):
    """Name a dtype as the pages do: float16, not torch.float16."""
    return str(value)[6:] if isinstance(value, torch.dtype) else None


def category(dtype):
    """Return the place of a dtype in the order of promotion."""
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype != torch.bool)


def pattern(number, dtype):
    """Return the bits of a number, read as one integer."""
    tensor = torch.tensor([number], dtype=torch.float64).to(dtype)
    return tensor.view(PATTERNS[dtype.itemsize]).item()


def number_of(bits, dtype):
    """Return the number that some bits, read as one integer, stand for."""
    tensor = torch.tensor([bits], dtype=PATTERNS[dtype.itemsize])
    return tensor.view(dtype).item()


def conversions(x, dtype):
    """Yield what each way to convert to a dtype returns."""
    yield x.to(dtype)
    yield x.type(dtype)
    for name, named in METHODS.items():
        if named == dtype:
            yield getattr(x, name)()


def both(one, other):
    """Yield the sum and the product of ones of two dtypes, in each order."""
    x, y = torch.ones(3, dtype=one), torch.ones(3, dtype=other)
    yield from (x + y, y + x, x * y, y * x)
