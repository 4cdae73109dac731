"""
Time a program: Timer, warm-up and synchronize
==============================================

Compare two ways of doing the same, and see what makes a timing wrong.
"""

# %% imports
import time
from statistics import median

import torch
from torch.utils.benchmark import Measurement, Timer

# %% timer
celsius = torch.linspace(-20, 40, 500)
timer = Timer(
    "celsius * 1.8 + 32",
    globals={"celsius": celsius},
    num_threads=torch.get_num_threads(),
)
measurement = timer.blocked_autorange()


# %% compare
def compare(ways, rounds=5, seconds=0.2, **options):
    options = {"num_threads": torch.get_num_threads(), **options}
    timers = [
        Timer(way, sub_label=name, **options) for name, way in ways.items()
    ]
    runs = [
        timer.blocked_autorange(min_run_time=seconds)
        for _ in range(rounds)
        for timer in timers
    ]
    return {each.sub_label: each for each in Measurement.merge(runs)}


# %% fahrenheit
measured = compare(
    {
        "one by one": "torch.stack([c * 1.8 + 32 for c in celsius])",
        "all at once": "celsius * 1.8 + 32",
    },
    rounds=3,
    seconds=0.02,
    globals={"celsius": celsius},
)
print("fastest first:", sorted(measured, key=lambda m: measured[m].median))


# %% by-hand
def measure(work, clock, setup=lambda: None, min_run_time=0.2):
    def block(repetitions):
        setup()  # 1
        start = clock()  # 2
        for _ in range(repetitions):
            work()
        return clock() - start  # 3

    number = 1
    while block(number) < min_run_time / 1000:  # 4
        number *= 10
    times, total = [], 0.0
    while total < min_run_time:  # 5
        times.append(block(number))
        total += times[-1]
    return [each / number for each in times]  # 6


# %% pretended-clock
class Clock:
    """A clock that only work moves on, at a pace that may change."""

    def __init__(self, pace=lambda now: 1.0):
        self.now, self.pace = 0.0, pace

    def __call__(self):
        return self.now

    def work(self, amount):
        self.now += amount * self.pace(self.now)


# %% blocks
clock = Clock()
times = measure(lambda: clock.work(0.00003), clock)
print("by hand:", len(times), "blocks, a median of", f"{median(times):.5f}")

clock = Clock()
timer = Timer("work(0.00003)", timer=clock, globals={"work": clock.work})
real = timer.blocked_autorange()
print("Timer:  ", len(real.times), "blocks, a median of", f"{real.median:.5f}")
print("repetitions in a block:", real.number_per_run)


# %% queue
class Device:
    """A device that works through a queue, and the clock of a program."""

    def __init__(self):
        self.now = self.ready = 0
        self.launches, self.work = [], []

    def launch(self, work, launching=1):
        self.launches.append((self.now, launching))
        self.now += launching
        start = max(self.now, self.ready)
        self.work.append((start, work))
        self.ready = start + work

    def synchronize(self):
        self.now = max(self.now, self.ready)


# %% too-early
device = Device()
for _ in range(4):
    device.launch(work=5)
at_once = device.now
device.synchronize()
waited_for = device.now

print("read at once:", at_once)
print("read after synchronize:", waited_for)

# %% timeline
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 2.4), layout="constrained")
white = {"edgecolor": "white", "height": 0.6}
for (start, cost), (begin, length) in zip(
    device.launches, device.work, strict=True
):
    axis.barh("program", cost, left=start, color="#0072B2", **white)
    axis.barh("device", length, left=begin, color="#E69F00", **white)
for now, name in ((at_once, "read at once"), (waited_for, "synchronized")):
    axis.axvline(now, color="#D55E00", linestyle="--")
    axis.text(now, -0.45, f" {name}", color="#D55E00", va="bottom")
axis.set(xticks=[], xlim=(0, 26), ylim=(1.5, -0.9))
axis.set_title("Four launches, and the work behind them")
plt.show()

# %% asynchronous
if torch.cuda.is_available():
    large = torch.ones(8192, 8192, device="cuda")
    large @ large  # warm up
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        large @ large
    launched = time.perf_counter() - start  # wrong: only the launches
    busy = not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    finished = time.perf_counter() - start  # right: the work, too
    print("the device still worked at the first reading:", busy)

# %% events
if torch.cuda.is_available():
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(20):
        large @ large
    end.record()
    ended_at_once = end.query()
    end.synchronize()  # waits for what was queued before `end`
    milliseconds = begin.elapsed_time(end)
    print("had happened when `record` returned:", ended_at_once)


# %% first-call
class Model:
    def __init__(self, clock):
        self.clock, self.ready = clock, False

    def __call__(self):
        self.clock.work(0.00001 if self.ready else 1.0)
        self.ready = True


clock = Clock()
timer = Timer("model()", timer=clock, globals={"model": Model(clock)})
cold, warm = (timer.blocked_autorange() for _ in range(2))
for name, found in {"cold": cold, "warm": warm}.items():
    print(f"{name}: slowest {max(found.times):.5f},", end=" ")
    print("calls in a block:", found.number_per_run)

# %% setup-wrong
# Wrong on purpose: do not copy.
met = []


def sort_in_place(prices):
    met.append("sorted" if prices == sorted(prices) else "unsorted")
    prices.sort()


names = {"sort_in_place": sort_in_place}
Timer("sort_in_place(prices)", "prices = [3, 1, 2]", globals=names).timeit(100)

print({state: met.count(state) for state in ("unsorted", "sorted")})

# %% setup-right
met.clear()
Timer(
    "sort_in_place(prices.copy())", "prices = [3, 1, 2]", globals=names
).timeit(100)

print({state: met.count(state) for state in ("unsorted", "sorted")})

# %% threads
seen = []
see = {"see": lambda: seen.append(torch.get_num_threads())}
Timer("see()", globals=see).timeit(3)
alone = set(seen)
seen.clear()
Timer("see()", num_threads=2, globals=see).timeit(3)

print("threads:", alone, "and with num_threads=2:", set(seen))

# %% globals
try:
    Timer("x + y", globals={"x": 1}).timeit(1)
except NameError as error:
    print("NameError:", error)

# %% assign
names = {"x": torch.ones(3)}
try:
    Timer("x += 1", globals=names).timeit(1)
except UnboundLocalError as error:
    print("UnboundLocalError:", error)

right = Timer("y += 1", "y = x.clone()", globals=names).timeit(1)

# %% stall
clock = Clock(pace=lambda now: 300.0 if 0.5 <= now < 0.51 else 1.0)
timer = Timer("work(0.01)", timer=clock, globals={"work": clock.work})
stalled = timer.blocked_autorange(min_run_time=2)

print("mean:", round(stalled.mean, 3), "median:", round(stalled.median, 3))


# %% drift
def same_twice(rounds, seconds, pace=lambda now: 1 + now / 4):
    clock = Clock(pace)
    again = compare(
        {"first": "work(0.01)", "second": "work(0.01)"},
        rounds,
        seconds,
        timer=clock,
        globals={"work": clock.work},
    )
    return again["second"].median / again["first"].median


print("one after the other:", round(same_twice(1, 2.0), 2))
print("in ten turns:", round(same_twice(10, 0.2), 2))


# %% predict-queue
device = Device()
for work in (2, 2, 9):
    device.launch(work)
print("read at once:", device.now)
device.synchronize()
print("read after synchronize:", device.now)


# %% verdict
def verdict(measured):
    first, second, *_ = sorted(measured.values(), key=lambda m: m.median)
    if second.median - first.median <= first.iqr + second.iqr:
        return "too close to call"
    return f"{first.sub_label} is faster"


# %% verdict-checked
def made(**ways):
    return {
        name: Measurement(1, times, Timer(sub_label=name)._task_spec)
        for name, times in ways.items()
    }


steady = [4.0] * 5
low, high = [4.0, 4.0, 4.5, 5.0, 5.0], [5.5, 5.5, 6.0, 6.5, 6.5]
found = [
    verdict(made(a=steady, b=[5.0] * 5)),
    verdict(made(a=[5.0] * 5, b=steady, c=[9.0] * 5)),
    verdict(made(a=low, b=high)),
    verdict(made(a=steady, b=[3.9, 3.9, 3.9, 3.9, 99.0])),
]
if found[:2] != ["a is faster", "b is faster"]:
    print("Times of 4 are faster than times of 5, whichever way has them.")
elif found[2] != "too close to call":
    print("The medians 4.5 and 6 differ by 1.5, and each iqr is 1.")
elif found[3] != "b is faster":
    print("A single stall of 99 should not decide.")
else:
    print("Right: a winner needs a gap that is wider than both spreads.")
