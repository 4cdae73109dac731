"""
How fine numbers are
====================

See how far apart the numbers of a format lie, where they end, and what that
does to a sum.

The rule: **near 1 look at the bits of precision, far from 1 at the bits of
range**. ``bfloat16`` has the range of ``float32`` with few digits,
``float16`` more digits with a small range.

It needs ``torch``, ``matplotlib``.
"""

# %% setup
#
# Four formats. The program runs on a CPU.

import torch

formats = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
}

# %% limits
#
# Where they end
# --------------
#
# ``torch.finfo`` knows the limits of a format.
#
# .. _float16-ends-at-65504:
#
# The largest number of ``float16`` is 65,504.
#
# .. _bfloat16-reaches-as-far-as-float32:
#
# The largest number of ``bfloat16`` is within 1 percent of that of
# ``float32``.

limits = {name: torch.finfo(dtype) for name, dtype in formats.items()}

for name, limit in limits.items():
    print(f"{name:14} {limit.bits:2} bits, largest {limit.max:.4g}")

# %% spacing
#
# How far apart they lie
# ----------------------
#
# From any number, ask for the next one above it. The integers that have the
# same bits are consecutive, which makes that one addition.


def spacing(values, dtype):
    """Return the distance from each positive value to the next of a format.

    ``values`` is a float64 tensor of shape (N,); the result has its shape, and
    holds nan where the format ends.
    """
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    here = values.to(dtype)
    bits = here.view(whole).clone()
    after = (bits + 1).view(dtype).double()
    here = here.double()
    good = here.isfinite() & after.isfinite() & (here > 0)
    return torch.where(good, after - here, torch.nan)


exponents = torch.arange(-30, 31, dtype=torch.float64)
powers = 2.0**exponents
spacings = {name: spacing(powers, dtype) for name, dtype in formats.items()}

# %% near-one
#
# .. _near-one-bfloat16-has-steps-of-a-128th:
#
# From 1, the next number of ``bfloat16`` is 1/128 away, that of ``float16``
# 1/1024.
#
# .. _the-relative-step-is-the-same-everywhere:
#
# Relative to the number, the step of ``float32`` is the same at every power
# of two here.

at_one = {name: spacings[name][30].item() for name in formats}

for name, step in at_one.items():
    print(f"{name:14} 1/{1 / step:.0f}")

# %% picture
#
# The picture shows the relative step. A line that rises to the left loses its
# digits there; a line that ends has no numbers beyond.

import matplotlib.pyplot as plt

colors = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
markers = ["o", "s", "^", "D"]
figure, axis = plt.subplots(figsize=(7, 4))
for name, color, marker in zip(formats, colors, markers, strict=True):
    axis.plot(
        exponents,
        spacings[name] / powers,
        color=color,
        marker=marker,
        markersize=3,
        label=name,
    )
axis.set_yscale("log", base=2)
axis.set_xlabel("size of the number, as a power of two")
axis.set_ylabel("distance to the next, relative")
axis.set_title("How fine the numbers of four formats are")
axis.legend()
plt.show()

# %% sum
#
# What it does to a sum
# ---------------------
#
# .. _a-bfloat16-sum-of-ones-stops-at-256:
#
# Ones added one by one in ``bfloat16`` stop at 256.
#
# .. _a-float16-sum-of-ones-stops-at-2048:
#
# In ``float16`` they stop at 2,048.

stops = {}
for name in ("bfloat16", "float16"):
    total = torch.tensor(0.0, dtype=formats[name])
    while (total + 1) != total:
        total = total + 1
    stops[name] = total.item()

print(stops)
