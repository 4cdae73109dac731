"""How tests of attention compare outputs, and find what reads what."""

import torch


def close(found, expected, dtype=torch.float32):
    """Check that two tensors are equal, up to the rounding of a type."""
    size = {torch.bfloat16: 4e-2, torch.float16: 5e-3}.get(dtype, 1e-5)
    torch.testing.assert_close(
        found.double(), expected.double(), atol=size, rtol=size
    )


def changed(call, inputs, place):
    """Return whether each output moves when the input at a place does."""
    other = inputs.clone()
    other[place] += 1
    moved = (call(inputs) - call(other)).abs().sum(dim=-1) > 1e-6
    return moved.tolist()
