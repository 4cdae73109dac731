"""
From an array to a tensor
=========================

Which calls copy the numbers of a NumPy array, and which share them.
"""

# %% do-this
import numpy as np
import torch

readings = np.array([20.5, 21.0, 19.5])  # degrees, as float64
own = torch.tensor(readings, dtype=torch.float32)  # copies
shared = torch.from_numpy(readings)  # shares
back = own.detach().cpu().numpy()  # the way back

readings[0] = 99.0  # a faulty sensor
print("own:   ", own)
print("shared:", shared)

# %% owners
places = {
    "readings": readings.ctypes.data,
    "shared": shared.data_ptr(),
    "own": own.data_ptr(),
    "back": back.ctypes.data,
}
numbers = {each.data_ptr(): each.tolist() for each in (shared, own)}

# %% owners-drawn
import matplotlib.pyplot as plt

plt.figure(figsize=(6, 2.2))
for place, color in zip(numbers, ["#D55E00", "#0072B2"], strict=True):
    rows = {n: -row for row, n in enumerate(places) if places[n] == place}
    memory = (1, sum(rows.values()) / len(rows))
    for name, row in rows.items():
        plt.annotate(name, memory, (0, row), arrowprops={"arrowstyle": "->"})
    box = {"facecolor": "none", "edgecolor": color}
    plt.text(*memory, f"  {numbers[place]}  ", va="center", bbox=box)
plt.axis((-0.1, 2, -3.5, 0.5))
plt.axis("off")
plt.title("Two memories with two owners each")
plt.show()

# %% both-ways
shared[1] = -1.0
print(readings)


# %% outcome
import warnings


def outcome(call, source):
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            tensor = call(source)
        except (AttributeError, RuntimeError, TypeError) as error:
            return type(error).__name__
    source[0] += 1
    found = "shares" if tensor[0] == source[0] else "copies"
    return f"{found}, warns" if caught else found


# %% outcomes
outcomes = {}
for name in ("tensor", "as_tensor", "asarray", "from_numpy", "from_dlpack"):
    call = getattr(torch, name)
    outcomes[f"torch.{name}"] = {
        "an array": outcome(call, np.ones(3)),
        "a tensor": outcome(call, torch.ones(3)),
        "a list": outcome(call, [1.0, 1.0, 1.0]),
    }

# %% outcomes-table
import pandas as pd

pd.DataFrame.from_dict(outcomes, orient="index")


# %% told
def told(call, source):
    with warnings.catch_warnings(record=True, action="always") as caught:
        result = call(source)
    texts = [str(each.message).partition(" (Trigg")[0] for each in caught]
    return result, texts


# %% copy-of-a-tensor
# Wrong on purpose: do not copy.
copied, texts = told(torch.tensor, own)
print(*texts)

# %% another-type
single = torch.as_tensor(readings, dtype=torch.float32)
readings[2] = 18.0
print(single[2], readings[2])


# %% error-of
def error_of(call, *inputs):
    try:
        call(*inputs)
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)


# %% without-a-copy
def without_a_copy(source, dtype=None):
    return torch.asarray(source, dtype=dtype, copy=False)


not_aliased = error_of(without_a_copy, readings, torch.float32)
print(not_aliased)

# %% buffer
# Wrong on purpose: do not copy.
buffer, hours = np.zeros(2), []
for hour in (1, 2, 3):
    buffer[:] = hour
    hours.append(torch.from_numpy(buffer))
print(torch.stack(hours))

# %% buffer-copied
copies = []
for hour in (1, 2, 3):
    buffer[:] = hour
    copies.append(torch.tensor(buffer))
print(torch.stack(copies))

# %% double
layer = torch.nn.Linear(3, 1)
other_dtype = error_of(layer, torch.from_numpy(readings))
print(other_dtype)
print(layer(torch.from_numpy(readings).float()).dtype)

# %% refused
arrays = {
    "reversed": readings[::-1],
    "byte order": readings.astype(readings.dtype.newbyteorder()),
    "objects": np.array([20.5, None]),
}
refused = {}
for name, array in arrays.items():
    refused[name] = error_of(torch.from_numpy, array)
    print(f"{name}: {refused[name]}\n")

# %% accepted
forwards = torch.from_numpy(arrays["reversed"].copy())
native = torch.from_numpy(arrays["byte order"].astype(np.float64))
filled = torch.from_numpy(arrays["objects"].astype(np.float64))
print(forwards, native, filled, sep="\n")

# %% list-of-arrays
# Wrong on purpose: do not copy.
days = [np.array([20.5, 21.0]), np.array([19.5, 18.0])]
slow, texts = told(torch.tensor, days)
print(*texts[:1])

# %% stacked
fast = torch.from_numpy(np.stack(days))
print(fast)

# %% back-refused
weight = torch.tensor([0.5, 1.5], requires_grad=True)
half = torch.tensor([20.5, 21.0], dtype=torch.bfloat16)
elsewhere = torch.ones(2, device="meta")
kept = [error_of(each.numpy) for each in (weight, half, elsewhere)]
print(*kept, sep="\n")

# %% back-accepted
detached = weight.detach().numpy()
floats = half.float().numpy()
print(detached, floats)

# %% forced
forced = weight.numpy(force=True)
forced[0] = -7.0
print(weight)

# %% read-only
# Wrong on purpose: do not copy.
limits = np.array([-40.0, 85.0])
limits.flags.writeable = False
unlimited, texts = told(torch.from_numpy, limits)
unlimited[1] = 0.0
print(*texts, limits, sep="\n")


# %% crash
# Wrong on purpose: do not copy.
def write_to_map(path):
    mapped = np.memmap(path, "float32", mode="r")
    tensor = torch.from_numpy(mapped)
    try:
        tensor[0] = 99.0
    except BaseException as error:
        print("caught:", error)


# %% crash-run
import multiprocessing
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the array, and of the fork
    path = Path(folder, "readings")
    np.float32([20.5, 21.0]).tofile(path)
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=write_to_map, args=[path])
    process.start()
    process.join()

print("exit code:", process.exitcode)

# %% maps
maps = {
    "mode='c'": lambda path: torch.from_numpy(np.memmap(path, "f4", "c")),
    "a copy": lambda path: torch.tensor(np.memmap(path, "f4", "r")),
    "from_file": lambda path: torch.from_file(path, shared=False, size=2),
}

# %% maps-tried
results = {}
for name, read in maps.items():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = str(Path(folder, "readings"))
        np.float32([20.5, 21.0]).tofile(path)
        tensor = read(path)
        tensor[0] = 99.0
        results[name] = tensor.tolist(), np.fromfile(path, "f4").tolist()

for name, (written, on_disk) in results.items():
    print(f"{name:10} tensor: {written} file: {on_disk}")
