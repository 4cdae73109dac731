"""From an array to a tensor

An array of a million float32 numbers, a list of 10,000 numbers, and a list of
100 arrays of 100 float32 numbers each.
One repetition makes a tensor on the device.
The peak counts the memory of tensors alone: an array that a repetition makes
with np.array or np.stack, here one of 40,000 bytes, comes on top.
"""

import numpy as np
import torch


def cases(device):
    """Return what is timed, by name; the first of a kind is the base."""
    array = np.ones(1_000_000, np.float32)
    numbers = array[:10_000].tolist()
    arrays = [*array[:10_000].reshape(100, 100)]
    return {
        "an array: tensor": lambda: torch.tensor(array, device=device),
        "an array: as_tensor": lambda: torch.as_tensor(array, device=device),
        "an array: from_numpy": lambda: torch.from_numpy(array).to(device),
        "a list: tensor": lambda: torch.tensor(numbers, device=device),
        "a list: as_tensor": lambda: torch.as_tensor(numbers, device=device),
        "a list: from_numpy(np.array)": lambda: torch.from_numpy(
            np.array(numbers, np.float32)
        ).to(device),
        "a list of arrays: tensor": lambda: torch.tensor(
            arrays, device=device
        ),
        "a list of arrays: from_numpy(np.stack)": lambda: torch.from_numpy(
            np.stack(arrays)
        ).to(device),
    }
