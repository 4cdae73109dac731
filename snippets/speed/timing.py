"""
Time a program
==============

What a timer must do, and what torch.utils.benchmark does for you.
"""

# %% imports
import statistics
import time

import torch
from torch import nn
from torch.utils.benchmark import Timer

# %% timer
x = torch.ones(8)
measurement = Timer("x + x", globals={"x": x}).blocked_autorange(
    min_run_time=0.05
)

print(measurement.number_per_run > 1)

# %% statistics
times = measurement.times
own_median = statistics.median(times)
spread = measurement.iqr

print(measurement.median == own_median, spread >= 0)

# %% one-thread
seen = []
timer = Timer("seen.append(torch.get_num_threads())", globals={"seen": seen})
timer.timeit(number=3)
before_and_after = torch.get_num_threads()

print(seen, Timer("pass", num_threads=2).timeit(1).task_spec.num_threads)

# %% globals
try:
    Timer("x + y", globals={"x": x}).timeit(1)
except NameError as error:
    print(error)

# %% setup
counts = {"setup": 0, "statement": 0}
Timer(
    "counts['statement'] += 1",
    setup="counts['setup'] += 1",
    globals={"counts": counts},
).timeit(number=100)

print(counts)

# %% first-call
layer = nn.LazyLinear(8)
optimizer = torch.optim.Adam(nn.Linear(4, 1).parameters())
parameters_before = isinstance(layer.weight, nn.UninitializedParameter)
layer(torch.ones(1, 4))
parameters_after = isinstance(layer.weight, nn.UninitializedParameter)

print(parameters_before, parameters_after)

# %% outlier
steady = [1.0, 1.1, 1.0, 0.9, 1.0, 1.1, 0.9, 1.0, 1.0]
disturbed = [*steady, 50.0]

print(
    f"mean {statistics.mean(steady):.2f} to {statistics.mean(disturbed):.2f},",
    f"median {statistics.median(steady)} to {statistics.median(disturbed)}",
)

# %% drift
pace = [1.0, 1.2, 1.5, 2.0]  # another program slows the machine down
one_after_the_other = (pace[2] + pace[3]) / (pace[0] + pace[1])
in_turn = (pace[1] + pace[3]) / (pace[0] + pace[2])

print(round(one_after_the_other, 2), round(in_turn, 2))

# %% asynchronous
if torch.cuda.is_available():
    large = torch.ones(8192, 8192, device="cuda")
    large @ large  # warm up
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        large @ large
    launched = time.perf_counter() - start
    still_busy = not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    finished = time.perf_counter() - start
    print(still_busy, finished > 2 * launched)

# %% events
if torch.cuda.is_available():
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    large @ large
    end.record()
    ended_at_once = end.query()
    end.synchronize()
    milliseconds = begin.elapsed_time(end)
    print(ended_at_once, milliseconds > 0)
