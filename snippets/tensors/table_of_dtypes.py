"""
Table of dtypes
===============

What each dtype holds, how to convert, and which one wins when two meet.
"""

# %% bits
from math import log2, log10

import torch
from torch import nn

bits = {}
for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
    fraction = round(-log2(torch.finfo(dtype).eps))
    bits[dtype] = 1, 8 * dtype.itemsize - 1 - fraction, fraction

# %% floats-shown
import pandas as pd

shown = {}
for dtype, (_, exponent, fraction) in bits.items():
    info, digits = torch.finfo(dtype), int(fraction * log10(2))
    row = {"bytes": dtype.itemsize, "exponent": exponent, "fraction": fraction}
    row |= {"largest": f"{info.max:.2e}", "digits": digits}
    row |= {"smallest normal": f"{info.smallest_normal:.2e}"}
    shown[str(dtype)[6:]] = row | {"step after 1": f"{info.eps:.2e}"}
pd.DataFrame(shown)

# %% amounts
numbers = [1e-8, 0.1, 257, 70_000]
amounts = torch.tensor(numbers, dtype=torch.float64)
stored = {dtype: amounts.to(dtype).tolist() for dtype in bits}

# %% amounts-shown
import pandas as pd

columns = ["0.00000001", "0.1", "257", "70,000"]
rows = {str(dtype)[6:]: each for dtype, each in stored.items()}
table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
table.map("{:.10g}".format)

# %% integers
integers = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
ranges = {}
for dtype in integers:
    info = torch.iinfo(dtype)
    ranges[dtype] = dtype.itemsize, info.min, info.max

# %% integers-shown
import pandas as pd

columns = ["bytes", "smallest", "largest"]
rows = {str(dtype)[6:]: limits for dtype, limits in ranges.items()}
table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
table.map("{:,}".format)

# %% counted
counted = torch.tensor([16_777_216, 16_777_217]).float().long()
print(counted)

# %% methods
methods = ["float", "double", "half", "bfloat16", "long", "int", "short"]
methods += ["char", "byte", "bool"]
named = {name: getattr(torch.zeros(3), name)().dtype for name in methods}

# %% methods-shown
import pandas as pd

columns = ["dtype"]
rows = {f"x.{name}()": [str(dtype)[6:]] for name, dtype in named.items()}
pd.DataFrame.from_dict(rows, orient="index", columns=columns)

# %% same
same = amounts.to(torch.float64)
print(same is amounts)

# %% truth
truth = torch.tensor([-0.5, 0.0, 2.0, torch.nan]).bool()
print(truth)

# %% conversion
converted = torch.tensor([300, -1]).to(torch.uint8)
print(converted)

# %% meet
met = [torch.bool, torch.uint8, torch.int64, *bits]
ones = [torch.ones(3, dtype=each) for each in met]
sums = {a.dtype: {b.dtype: (a + b).dtype for b in ones} for a in ones}

# %% meet-shown
import pandas as pd

short = {dtype: str(dtype)[6:] for dtype in sums}
table = pd.DataFrame.from_dict(sums, orient="index").replace(short)
table.rename(index=short, columns=short)

# %% divide
debts = torch.tensor([-7, 7])
shares = [debts / 2, debts // 2, debts.div(2, rounding_mode="trunc")]

print(*shares, sep="\n")

# %% default
torch.set_default_dtype(torch.float64)
wide = [debts / 2, debts * 0.5]
torch.set_default_dtype(torch.float32)

print(*wide, sep="\n")

# %% total
photo = torch.tensor([[0, 100, 200]], dtype=torch.uint8)
total = photo.sum()

print(total, total.dtype)


# %% error-of
def error_of(call, *inputs):
    try:
        call(*inputs)
    except RuntimeError as error:
        return str(error)


# %% linear
# Wrong on purpose: do not copy.
layers = nn.Linear(3, 1), nn.Linear(3, 1, bias=False)
no_output = [error_of(layer, photo) for layer in layers]

print(*no_output, sep="\n")

# %% too-large
# Wrong on purpose: do not copy.
no_tensor = error_of(lambda: torch.tensor([300], dtype=torch.uint8))
print(no_tensor)

# %% lost
# Wrong on purpose: do not copy.
counts = torch.tensor([257, 70_000])
in_float16 = counts + torch.zeros(2, dtype=torch.float16)
in_bfloat16 = counts + torch.zeros(2, dtype=torch.bfloat16)

print(in_float16, in_bfloat16, sep="\n")

# %% in-place
# Wrong on purpose: do not copy.
counts[0] = 1.7
no_product = error_of(counts.mul_, 0.9)

print(counts, no_product, sep="\n")

# %% compare
# Wrong on purpose: do not copy.
tenths, exact = torch.tensor([0.1]), torch.tensor([0.1], dtype=torch.float64)
print(tenths == exact, tenths == 0.1, tenths == exact.float())

# %% close
# Wrong on purpose: do not copy.
comparisons = torch.isclose, torch.allclose
no_answer = [error_of(each, tenths, exact) for each in comparisons]

print(*no_answer, sep="\n")

# %% unsigned
# Wrong on purpose: do not copy.
depths = torch.tensor([40_000, 65_535], dtype=torch.uint16)
no_depths = error_of(lambda: depths + counts)
print(no_depths)

# %% float8
tiny = amounts.to(torch.float8_e5m2)
no_sum = error_of(lambda: tiny + tiny)

print(tiny.nbytes, no_sum)
