"""
How fine numbers are
====================

Which of your numbers overflow, underflow or lose digits in 16 or 8 bits? See
how far apart the numbers of a format are, where they end, what that does to a
sum, and which formats can store your own.

The rule: **near 1, look at the step; for tiny and huge numbers, look at where
the format ends**. See :doc:`/tensors/dtypes` for what each format is for.

Give the script your own numbers, and which part of each may be lost::

    python number_formats.py --numbers 3.14 1e-7 250000 --off-by 0.01

It needs ``torch``, ``matplotlib``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.

NUMBERS = [19.99, 255.0, 70_000.0, 1e-8, 1e39]
OFF_BY = 0.003  # at most this part of a number may be lost: 0 to below 1
FORMATS = ["float32", "float16", "bfloat16", "float8_e4m3fn"]

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.
#
# .. _a-senseless-setting-is-refused:
#
# Numbers that are not finite, and an ``OFF_BY`` below 0 or from 1 on, end the
# program with one line.

import argparse
import math

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="See how fine numbers are, and what stores yours.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--numbers", type=float, nargs="+", default=NUMBERS, help="unsigned")
    add("--off-by", type=float, default=OFF_BY, help="part that may be lost")
    add("--formats", nargs="+", default=FORMATS, help="names of torch dtypes")
    options = parser.parse_args()
    NUMBERS, OFF_BY = options.numbers, options.off_by
    FORMATS = options.formats
if not all(map(math.isfinite, NUMBERS)) or not 0 <= OFF_BY < 1:
    raise SystemExit("numbers are finite, and off-by is from 0 to below 1")

# %% limits
#
# Where they end
# --------------
#
# Ask ``torch.finfo`` for the largest number of a format. The program runs on a
# CPU.
#
# .. _an-unknown-format-is-refused:
#
# A name in ``FORMATS`` that is no signed floating-point format ends the
# program with one line, which lists those that it knows.
#
# .. _float16-ends-at-65504:
#
# The largest number of ``float16`` is 65,504: what is larger overflows.
#
# .. _bfloat16-reaches-as-far-as-float32:
#
# ``bfloat16`` ends less than 1 percent below ``float32``.

import torch

known = {
    name: dtype
    for name, dtype in vars(torch).items()
    if isinstance(dtype, torch.dtype)
    and dtype.is_floating_point
    and not name.endswith(("_x2", "fnu"))  # pairs, and without a sign
}
for name in FORMATS:
    if name not in known:
        raise SystemExit(f"no format {name!r}; there are: {', '.join(known)}")
formats = {name: known[name] for name in FORMATS}
limits = {name: torch.finfo(dtype) for name, dtype in formats.items()}

for name, limit in limits.items():
    print(f"{name:14} {limit.bits:2} bits, largest {limit.max:.4g}")

# %% spacing
#
# How far apart they lie
# ----------------------
#
# How do you find the next number of a format?
#
# .. _one-more-in-the-bits-is-the-next-number:
#
# Read the bits of a positive number as an integer and add 1: these are the
# bits of the next larger number, if any.


def spacing(values, dtype):
    """Return how far it is from each value, once stored, to the next number.

    ``values`` is a float64 tensor of shape (N,); the result has its shape, and
    holds nan where what is stored is not above 0, or has no number above it.
    """
    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    here = values.to(dtype)
    after = (here.view(sizes[dtype.itemsize]) + 1).view(dtype).double()
    here = here.double()
    good = after.isfinite() & (here > 0)
    return torch.where(good, after - here, torch.nan)


exponents = torch.arange(-30, 31, dtype=torch.float64)
powers = 2.0**exponents
spacings = {name: spacing(powers, dtype) for name, dtype in formats.items()}
relative = {name: spacings[name] / powers for name in formats}

# %% near-one
#
# .. _near-one-bfloat16-has-steps-of-a-128th:
#
# From 1, the next number of ``bfloat16`` is 1/128 away, that of ``float16``
# 1/1024, that of ``float32`` 1/8388608.

at_one = {name: spacings[name][exponents == 0].item() for name in formats}

for name, step in at_one.items():
    print(f"{name:14} 1/{1 / step:.0f}")

# %% picture
#
# The *relative step* is the step divided by the number.
#
# .. _the-relative-step-is-the-same-everywhere:
#
# At all powers of two from 2⁻³⁰ to 2³⁰, ``float32`` has the same relative
# step, and so does ``bfloat16``.
#
# .. _small-numbers-of-float16-have-few-digits:
#
# ``float16`` has the same relative step only down to 2⁻¹⁴. Below, its numbers
# are 2⁻²⁴ apart, so they lose a bit with each power of two.
#
# .. _the-line-ends-where-the-format-ends:
#
# The line of ``float16`` reaches from 2⁻²⁴ to 2¹⁵, and that of
# ``float8_e4m3fn`` from 2⁻⁹ to 2⁸: what is smaller underflows to 0.

import matplotlib.pyplot as plt

colors = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for number, name in enumerate(formats):
    style = {"color": colors[number % 5], "marker": "os^Dv"[number % 5]}
    axis.plot(exponents, relative[name], markersize=3, label=name, **style)
axis.set_yscale("log", base=2)
axis.set_xlabel("size of the number, as a power of two")
axis.set_ylabel("distance to the next, relative")
axis.set_title("How fine the numbers of each format are")
figure.legend(loc="outside right center")
plt.show()

# %% sum
#
# What it does to a sum
# ---------------------
#
# .. _a-bfloat16-sum-of-ones-stops-at-256:
#
# Ones that are added one by one in ``bfloat16`` stop at 256, because the next
# number is 258, and 257 is rounded back to 256.
#
# .. _a-float16-sum-of-ones-stops-at-2048:
#
# In ``float16`` they stop at 2,048, because the next number is 2,050.
#
# .. _sum-does-not-stop:
#
# ``sum()`` does not stop: it gives the number of ones, rounded once.
#
# So let one call add up, or keep a running total in ``float32``.

stops, called = {}, {}
for name in ("bfloat16", "float16"):
    dtype = getattr(torch, name)
    total = torch.tensor(0.0, dtype=dtype)
    while (total + 1) != total:
        total = total + 1
    stops[name] = total.item()
    called[name] = torch.ones(4096, dtype=dtype).sum().item()

print("one by one:", stops)
print("4096 ones by sum():", called)

# %% answer
#
# What stores your numbers
# ------------------------
#
# .. _the-answer-has-the-fewest-bits:
#
# For each number, the program names the formats of the fewest bits that store
# it with at most the part ``OFF_BY`` lost.
#
# .. _the-answer-may-be-not-here:
#
# If no format does, it says "not here".


def smallest(number):
    """Return the formats of fewest bits that can store a number."""
    exact = torch.tensor(number, dtype=torch.float64)
    good = {}
    for name, dtype in formats.items():
        error = (exact.to(dtype).double() - exact).abs()
        if error <= OFF_BY * exact.abs():
            good.setdefault(limits[name].bits, []).append(name)
    return good[min(good)] if good else ["not here"]


answers = {number: smallest(number) for number in NUMBERS}

for number, names in answers.items():
    print(f"{number:<8}", ", ".join(names))
