"""
Types of numbers
================

What each dtype can hold, and what happens when two of them meet.
"""

# %% list
import torch

floats = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
integers = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def aliases(dtype):
    names = [name for name in dir(torch) if getattr(torch, name) is dtype]
    return " ".join(name for name in names if name != str(dtype)[6:])


# %% describe-floats
float_rows = {}
for dtype in floats:
    info = torch.finfo(dtype)
    float_rows[str(dtype)] = {
        "alias": aliases(dtype),
        "bits": info.bits,
        "largest": f"{info.max:.5g}",
        "smallest normal": f"{info.smallest_normal:.1e}",
        "step above 1": f"{info.eps:.1e}",
    }

# %% floats
import pandas as pd

pd.DataFrame.from_dict(float_rows, orient="index")

# %% halves
values = [0.1, 1.00390625, 257, 70_000, 1e-8]
half_rows = {
    f"{value:.7g}": {
        "float16": torch.tensor(value).to(torch.float16).item(),
        "bfloat16": torch.tensor(value).to(torch.bfloat16).item(),
    }
    for value in values
}

# %% compare-halves
import pandas as pd

pd.DataFrame.from_dict(half_rows, orient="index").map("{:.7g}".format)

# %% describe-integers
integer_rows = {}
for dtype in integers:
    info = torch.iinfo(dtype)
    integer_rows[str(dtype)] = {
        "alias": aliases(dtype),
        "bits": info.bits,
        "smallest": info.min,
        "largest": info.max,
    }
integer_rows["torch.bool"] = {
    "alias": aliases(torch.bool),
    "bits": 8 * torch.bool.itemsize,
    "smallest": False,
    "largest": True,
}

# %% integers
import pandas as pd

pd.DataFrame.from_dict(integer_rows, orient="index")

# %% wrap
bright = torch.tensor([200], dtype=torch.uint8)

dark = bright + bright
right = bright.to(torch.int64) + bright

print(dark, right)

# %% convert
single = torch.ones(2, 3)
double = single.to(torch.float64)

print(single.dtype, double.dtype)

# %% same
same = single.to(torch.float32)

print(same is single, double is single)

# %% to-integers
cut_off = torch.tensor([-1.7, 1.7]).to(torch.int64)
truth = torch.tensor([0.0, -0.5, 2.0]).to(torch.bool)
wrapped = torch.tensor([300]).to(torch.uint8)

print(cut_off, truth, wrapped, sep="\n")

# %% promote
whole = torch.tensor([1, 2, 3])

doubles = torch.ones(3, dtype=torch.float64)

with_number = whole + 1.5
with_doubles = torch.ones(3) + doubles
with_one_double = torch.ones(3) + doubles.sum()

print(with_number.dtype, with_doubles.dtype, with_one_double.dtype)

# %% divide
quotient, rounded_down = whole / 2, whole // 2

print(quotient, rounded_down)

# %% in-place
try:
    whole += 1.5
except RuntimeError as error:
    print(error)

# %% no-mean
for attempt in (torch.mean, torch.std):
    try:
        attempt(whole)
    except RuntimeError as error:
        print(error)

# %% no-layer
layer = torch.nn.Linear(3, 1)

try:
    layer(whole)
except RuntimeError as error:
    print(error)

print(whole.to(torch.float32).mean(), layer(whole.to(torch.float32)).shape)
