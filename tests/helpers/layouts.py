"""Tensors of one shape whose numbers lie in memory in different ways.

Use them where a claim is about every tensor of a shape::

    @LAYOUTS
    def test_x__also_if_the_tensor_is(layout):
        x = layout(2, 3, 4)
"""

from itertools import chain, permutations
from math import prod

import pytest
import torch


def numbered(*shape, dtype=torch.float32):
    """Return a contiguous tensor of numbers that all differ."""
    return torch.arange(prod(shape)).to(dtype).reshape(shape)


def permuted(*shape):
    """Return a tensor whose axes lie in memory in reverse order."""
    reverse = tuple(reversed(range(len(shape))))
    return numbered(*reversed(shape)).permute(reverse)


def sliced(*shape):
    """Return a piece out of the middle of a larger tensor."""
    larger = numbered(*(2 * size for size in shape))
    return larger[tuple(slice(1, 1 + size) for size in shape)]


def with_gaps(*shape):
    """Return every second number of a larger tensor."""
    larger = numbered(*(2 * size for size in shape))
    return larger[tuple(slice(None, None, 2) for _ in shape)]


def several(*shape, dtype=torch.float32):
    """Return a contiguous, a permuted and two sliced tensors of one shape."""
    makers = (numbered, permuted, sliced, with_gaps)
    return [_cast(make(*shape), dtype) for make in makers]


def _cast(x, dtype):
    """Return a tensor in another dtype, with the same strides and gaps."""
    if x.dtype == dtype:
        return x
    size = x.untyped_storage().nbytes() // x.element_size()
    held = torch.empty(0).set_(x.untyped_storage(), 0, (size,))
    held = held.to(dtype)
    return held.as_strided(x.shape, x.stride(), x.storage_offset())


def unlike():
    """Yield tensors of three axes that lie in memory in many ways."""
    for order in permutations(range(3)):
        for shape in ((2, 3, 4), (2, 1, 3), (1, 1, 2), (3, 3, 3)):
            for each in several(*shape):
                yield each.permute(order)
        yield torch.arange(4.0).expand(2, 3, 4).permute(order)
        yield torch.arange(2.0)[:, None, None].expand(2, 3, 4).permute(order)


def read(x):
    """Return the numbers of a tensor row by row."""
    found = [x.tolist()]
    for _ in range(x.dim()):
        found = [*chain.from_iterable(found)]
    return found


def memory(x):
    """Return where the memory of a tensor is, and where in it x begins."""
    return x.untyped_storage().data_ptr(), x.storage_offset()


LAYOUTS = pytest.mark.parametrize(
    "layout",
    [
        numbered,
        permuted,
        sliced,
        with_gaps,
        lambda *shape: numbered(*shape, dtype=torch.int64),
        lambda *shape: numbered(*shape, dtype=torch.bfloat16),
        lambda *shape: numbered(*shape, dtype=torch.bool),
    ],
    ids=[
        "contiguous",
        "permuted",
        "sliced",
        "with gaps",
        "int64",
        "bfloat16",
        "boolean",
    ],
)
