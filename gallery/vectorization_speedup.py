"""
What a loop over a tensor costs
===============================

Compute the same distances with a loop over pairs, with a loop over rows, and
without a loop. Count what each costs in calls and in memory, and see which one
pays off on your machine.

The rule: **one call for all numbers, unless an intermediate tensor is too
large**. See :doc:`/tensors/vectorization` for more loops, and the calls that
replace them.

Give the script sizes like yours::

    python vectorization_speedup.py --sizes 16 64 256 --dimensions 3

It needs ``torch``, ``matplotlib``.
"""

# %% settings
#
# In the notebook, change these lines. As a script, give arguments instead.
# Raise the sizes in small steps, because of the loop over pairs.

SIZES = [8, 16, 32, 64]  # how many points
DIMENSIONS = 16  # how many coordinates a point has

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.
#
# .. _a-senseless-setting-is-refused:
#
# Sizes and dimensions below 1 end the program with one line.

import argparse

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="See what a loop over a tensor costs.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--sizes", type=int, nargs="+", default=SIZES, help="of points")
    add("--dimensions", type=int, default=DIMENSIONS, help="of each point")
    options = parser.parse_args()
    SIZES, DIMENSIONS = options.sizes, options.dimensions
if min(*SIZES, DIMENSIONS) < 1:
    raise SystemExit("sizes and dimensions: from 1")

# %% ways
#
# Five ways
# ---------
#
# How far is every point from every other? Each way takes points of shape
# (N, D) and returns distances of shape (N, N).

from statistics import median

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer


def pair_by_pair(points):
    distances = torch.empty(len(points), len(points), device=points.device)
    for i in range(len(points)):
        for j in range(len(points)):
            distances[i, j] = (points[i] - points[j]).square().sum().sqrt()
    return distances


def row_by_row(points):
    rows = [(points - point).square().sum(dim=1).sqrt() for point in points]
    return torch.stack(rows)


def all_at_once(points):
    differences = points[:, None] - points[None, :]
    return differences.square().sum(dim=2).sqrt()


def exact_cdist(points):
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(points, points, compute_mode=mode)


ways = {
    "pair by pair": pair_by_pair,
    "row by row": row_by_row,
    "all at once": all_at_once,
    "torch.cdist": lambda points: torch.cdist(points, points),
    "cdist, exact": exact_cdist,
}

# %% equal
#
# The same distances?
# -------------------
#
# Look at the distance of each point from itself, which is 0.
#
# .. _four-ways-give-the-same-distances:
#
# All ways but the default ``torch.cdist`` give the same distances to five
# digits, and 0 for each point from itself.
#
# .. _cdist-as-it-is-does-not:
#
# From 26 points on, the default ``torch.cdist`` finds some more than 0.0005
# away from themselves, and more than 0.1 if all are shifted by 1000.
#
# .. _the-first-three-give-no-gradient:
#
# The first three ways give ``nan`` as the gradient of each point, because of
# the root of 0. Both ``cdist`` give a finite one, and so does
# ``differences.norm(dim=2)``.
#
# So to train on distances, take one of these.

torch.manual_seed(0)
device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)
size = max(SIZES)
points = torch.randn(size, DIMENSIONS, device=device)
results = {name: way(points) for name, way in ways.items()}

exact = {name: not each.diagonal().any() for name, each in results.items()}

for name, zero in exact.items():
    print(f"{name:12} {'all' if zero else 'not all'} at 0 from themselves")


# %% count
#
# What it costs
# -------------
#
# Count the calls of torch, and note the largest tensor that any of them
# returns.
#
# .. _calls-grow-with-pairs-or-points-or-not:
#
# The loop over pairs makes nine calls for each pair and one more, the loop
# over rows four for each point and two more, and ``all_at_once`` six in all.
#
# .. _all-at-once-makes-a-larger-tensor:
#
# ``all_at_once`` makes an intermediate tensor of N · N · D numbers. The loops
# make none that is larger than the distances or the points.


class Calls(TorchDispatchMode):
    """Count the operations that reach torch; note the largest result."""

    number, largest = 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        self.number += 1
        if isinstance(made, torch.Tensor):
            self.largest = max(self.largest, made.numel())
        return made


costs = {name: [] for name in ways}
for number in SIZES:
    some = points[:number]
    for name, way in ways.items():
        with Calls() as counter:
            way(some)
        costs[name].append((counter.number, counter.largest))

# %% answer
#
# The answer
# ----------
#
# .. _the-choice-is-exact-and-small:
#
# The program takes the way of the fewest calls that finds each point at
# distance 0 from itself and makes no large tensor.
#
# If torch has no such call for what you compute, take ``all_at_once`` while
# its tensor fits into memory, and otherwise the loop over rows. Then time it.

good = {}
for name, found in costs.items():
    calls, largest = found[SIZES.index(size)]
    print(f"{name:12} {calls:6} calls, largest tensor {largest} numbers")
    if exact[name] and largest <= max(size**2, points.numel()):
        good[name] = calls
choice = min(good, key=good.get)

print("take:", choice)

# %% picture

import matplotlib.pyplot as plt

colors = ["#D55E00", "#E69F00", "#0072B2", "#009E73", "#CC79A7"]
styles = dict(zip(ways, zip(colors, "xso^D", strict=True), strict=True))
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for name, (color, marker) in styles.items():
    heights = [calls for calls, _ in costs[name]]
    axis.plot(SIZES, heights, color=color, marker=marker, label=name)
axis.set_xscale("log", base=2)
axis.set_yscale("log")
axis.set_xlabel("points")
axis.set_ylabel("calls of torch")
axis.set_title("The calls for all distances, in five ways")
figure.legend(loc="outside right center")
plt.show()

# %% time
#
# What it buys
# ------------
#
# .. _each-way-is-timed-three-times:
#
# The program times each way for each number of points, three times or more.
#
# See :doc:`/speed/timing` for how to time.
#
# .. _a-clear-winner-or-not-here:
#
# The title names the fastest exact way if the third quartile of its times is
# below the first quartile of every slower way, otherwise "not here".


def verdict(times):
    """Return which way is the fastest, from the seconds of repetitions."""
    quarters = torch.tensor([0.25, 0.75], dtype=torch.float64)
    spans = {
        name: torch.tensor(seconds).double().quantile(quarters).tolist()
        for name, seconds in times.items()
    }
    best = min(spans, key=spans.get)  # who wins does so in both quartiles
    if all(spans[best][1] < spans[name][0] for name in spans if name != best):
        return f"for {size} points, {best} is the fastest"
    return f"not here: for {size} points, no way is clearly the fastest"


times = {name: [] for name in ways}
for number in SIZES:
    for name, way in ways.items():
        given = {"way": way, "points": points[:number]}
        timer = Timer("way(points)", globals=given)
        seconds = []
        while len(seconds) < 3:
            seconds += timer.blocked_autorange(min_run_time=0.02).times
        times[name].append(seconds)
last = {
    name: found[SIZES.index(size)]
    for name, found in times.items()
    if exact[name]
}

# %% time-picture

import matplotlib.pyplot as plt

figure, axis = plt.subplots(
    num="timings", figsize=(7, 4), layout="constrained"
)
for name, (color, marker) in styles.items():
    heights = [1000 * median(seconds) for seconds in times[name]]
    axis.plot(SIZES, heights, color=color, marker=marker, label=name)
axis.set_xscale("log", base=2)
axis.set_yscale("log")
axis.set_xlabel("points")
axis.set_ylabel("time, ms")
axis.set_title(f"The time for all distances: {verdict(last)}", fontsize=10)
figure.legend(loc="outside right center")
plt.show()
