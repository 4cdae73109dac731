"""
What a loop over a tensor costs
===============================

Compute the same distances with a loop over pairs, a loop over rows, and
without a loop, count the calls of torch, and see how the time grows.

The rule: **one call for all numbers**. Section 3.4 of *PyTorch Basics* and the
first of the *Three Basic Tips* say so; here is by how much.

It needs ``torch``, ``matplotlib``.
"""

# %% setup
#
# The distance of every point to every other. The program uses a CUDA device
# if there is one.

import torch
from torch.utils.benchmark import Timer

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
sizes = (8, 16, 32, 64)

# %% ways
#
# Three ways
# ----------
#
# Each takes points of shape (N, D) and gives distances of shape (N, N).


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


ways = {
    "pair by pair": pair_by_pair,
    "row by row": row_by_row,
    "all at once": all_at_once,
    "torch.cdist": lambda points: torch.cdist(points, points),
}

# %% equal
#
# .. _all-ways-give-the-same-distances:
#
# All four give the same distances, to two digits behind the point.
#
# .. _all-at-once-makes-a-larger-tensor:
#
# The way without a loop makes a tensor on the way that is as many times as
# large as the result as the points have dimensions.
#
# .. _a-loop-calls-torch-for-every-pair:
#
# For 64 points, the loop over pairs calls torch over ten thousand times, and
# the way without a loop fewer than ten times.

points = torch.randn(64, 16, device=device)
results = {name: way(points) for name, way in ways.items()}
differences = points[:, None] - points[None, :]

print({name: tuple(result.shape) for name, result in results.items()})
print(differences.numel() // results["all at once"].numel())


# %% count-calls
class Calls(torch.utils._python_dispatch.TorchDispatchMode):
    """Count the operations that reach torch."""

    def __init__(self):
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.number += 1
        return function(*args, **(kwargs or {}))


def calls_of(way, points):
    with Calls() as counter:
        way(points)
    return counter.number


calls = {name: calls_of(way, points) for name, way in ways.items()}

print(calls)

# %% picture

import matplotlib.pyplot as plt

styles = {
    "pair by pair": ("#D55E00", "x"),
    "row by row": ("#E69F00", "s"),
    "all at once": ("#0072B2", "o"),
    "torch.cdist": ("#009E73", "^"),
}
figure, axis = plt.subplots(figsize=(7, 4))
for name, (color, marker) in styles.items():
    numbers = [
        calls_of(ways[name], torch.randn(size, 16, device=device))
        for size in sizes
    ]
    axis.plot(sizes, numbers, color=color, marker=marker, label=name)
axis.set_xscale("log", base=2)
axis.set_yscale("log")
axis.set_xlabel("points")
axis.set_ylabel("calls of torch")
axis.set_title("The calls for all distances, in four ways")
axis.legend()
plt.show()

# %% time
#
# What it buys
# ------------
#
# The program times all ways on your machine. ``Timer`` warms up, repeats, and
# waits for the device.

times = {name: [] for name in ways}
for size in sizes:
    points = torch.randn(size, 16, device=device)
    for name, way in ways.items():
        timer = Timer("way(points)", globals={"way": way, "points": points})
        measurement = timer.blocked_autorange(min_run_time=0.02)
        times[name].append(measurement.median)

# %% time-picture

import matplotlib.pyplot as plt

colors = ["#D55E00", "#E69F00", "#0072B2", "#009E73"]
markers = ["x", "s", "o", "^"]
figure, axis = plt.subplots(num="timings", figsize=(7, 4))
for name, color, marker in zip(ways, colors, markers, strict=True):
    milliseconds = [1000 * seconds for seconds in times[name]]
    axis.plot(sizes, milliseconds, color=color, marker=marker, label=name)
axis.set_xscale("log", base=2)
axis.set_yscale("log")
axis.set_xlabel("points")
axis.set_ylabel("time, ms")
axis.set_title("The time for all distances, in four ways")
axis.legend()
plt.show()
