"""
From an array to a tensor
=========================

Which call copies a NumPy array, and which shares its memory.
"""

# %% array
import numpy as np
import torch

array = np.array([1.0, 2.0, 3.0])

# %% calls
sources = {
    "a NumPy array": array,
    "a tensor": torch.tensor([1.0, 2.0, 3.0]),
    "a list": [1.0, 2.0, 3.0],
}
calls = {
    "from_numpy": torch.from_numpy,
    "as_tensor": torch.as_tensor,
    "asarray": torch.asarray,
    "tensor": lambda source: (
        torch.tensor(source.tolist())
        if isinstance(source, torch.Tensor)
        else torch.tensor(source)
    ),
}


# %% shares
def shares(call, source):
    try:
        tensor = call(source)
    except TypeError:
        return "error"
    before = float(source[0])
    source[0] = before + 1
    changed = float(tensor[0]) == before + 1
    source[0] = before
    return "shares" if changed else "copies"


# %% try
rows = {
    name: {kind: shares(call, source) for kind, source in sources.items()}
    for name, call in calls.items()
}

# %% table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% convert
single = torch.as_tensor(array, dtype=torch.float32)
array[0] = 100

print(single)
print(torch.from_numpy(array))

# %% both-ways
shared = torch.from_numpy(array)
shared[1] = -1

print(array)

# %% buffer
buffer = np.zeros(2)
shared_batches, copied_batches = [], []
for step in range(3):
    buffer[:] = step
    shared_batches.append(torch.from_numpy(buffer))
    copied_batches.append(torch.tensor(buffer))

print(torch.stack(shared_batches).tolist())
print(torch.stack(copied_batches).tolist())

# %% read-only
import warnings

constant = np.array([1.0, 2.0])
constant.flags.writeable = False

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.from_numpy(constant)[0] = 9

print([str(each.message).partition(",")[0] for each in caught])
print(constant)

# %% double
layer = torch.nn.Linear(3, 1)

try:
    layer(torch.from_numpy(array))
except RuntimeError as error:
    print(error)

# %% refused
arrays = {
    "reversed": array[::-1],
    "other byte order": array.astype(">f8"),
    "text": np.array(["a", "b"]),
}
for name, refused in arrays.items():
    try:
        torch.from_numpy(refused)
    except (TypeError, ValueError) as error:
        print(f"{name}: {str(error).partition('.')[0]}")

# %% mended
reversed_array = array[::-1].copy()
native = array.astype(">f8").astype(np.float64)

print(torch.from_numpy(reversed_array), torch.from_numpy(native))

# %% list-of-arrays
many = [array, array]

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    slow = torch.tensor(many)

print([str(each.message).partition(".")[0] for each in caught])
print(torch.equal(slow, torch.from_numpy(np.stack(many))))

# %% back
tensor = torch.ones(2)
as_array = tensor.numpy()
tensor += 1

print(as_array)

# %% back-with-gradients
weight = torch.ones(2, requires_grad=True)

try:
    weight.numpy()
except RuntimeError as error:
    print(error)

print(weight.detach().numpy())
