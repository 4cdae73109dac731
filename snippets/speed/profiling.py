"""
Find the slow line: torch.profiler
==================================

Is it the data or the model, which part of the step, and which call in it?
"""

# %% imports
import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import profile, record_function, schedule


# %% profiled
def profiled(train_step, *inputs, steps=3):
    plan = schedule(wait=1, warmup=1, active=steps, repeat=1)
    with profile(schedule=plan) as profiler:
        for _ in range(2 + steps):
            train_step(*inputs)
            profiler.step()
    return profiler


# %% model
torch.manual_seed(0)
days = torch.rand(64, 24)  # 64 days, of 24 hours each
tomorrow = torch.rand(len(days), 1)
model = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


# %% labels
def train_step(scale):
    with record_function("scale"):
        inputs = scale(days)
    with record_function("forward"):
        loss = F.mse_loss(model(inputs), tomorrow)
    with record_function("backward"):
        optimizer.zero_grad()
        loss.backward()
    with record_function("update"):
        optimizer.step()


# %% by-row
# Wrong on purpose: do not copy.
def by_row(days):
    rows = []
    for day in days:
        rows.append(day / day.max().item())
    return torch.stack(rows)


# %% slow
slow = profiled(train_step, by_row)
table = slow.key_averages().table(sort_by="count", row_limit=12)


# %% without-times
def without_times(table):
    ruler, _, _, *lines = table.splitlines()
    width = len(ruler.split()[0])
    rows = [f"{'Name':>{width}}  Calls"]
    for line in lines[: lines.index(ruler)]:
        rows.append(f"{line[:width]}  {line.split()[-1]:>5}")
    return "\n".join(rows)


# %% table
print(without_times(table))


# %% waits
import time


def wait_for_device():
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def waits(loader, train_step, clock=time.perf_counter):
    waited, computed = [], []
    start = clock()
    for batch in loader:
        arrived = clock()
        train_step(batch)
        wait_for_device()
        done = clock()
        waited.append(arrived - start)
        computed.append(done - arrived)
        start = done
    return waited, computed


# %% late-batches
class Clock:
    now = 0

    def __call__(self):
        return self.now


def loaded(clock, workers, load=10, batches=6):
    """Load batches by workers in turn, each one batch after the other."""
    ready = [0] * workers
    for batch in range(batches):
        ready[batch % workers] += load
        clock.now = max(clock.now, ready[batch % workers])
        yield batch


# %% data-or-model
def compute(batch):
    clock.now += 2


clock = Clock()
waited, computed = waits(loaded(clock, workers=2), compute, clock)
share = sum(waited) / (sum(waited) + sum(computed))

print("waited:  ", waited)
print("computed:", computed)
print("share of waiting:", round(share, 2))


# %% loader-row
from torch.utils.data import DataLoader

with profile() as profiler:
    for batch in DataLoader(days, batch_size=16):
        model(batch)

for row in profiler.key_averages():
    if "DataLoader" in row.key:
        print(row.count, "calls of", row.key)


# %% in-parts
names = ["scale", "forward", "backward", "update"]


def within(event, depth=0):
    """Yield each operation in an event: its depth, and how many it holds."""
    for each in sorted(event.cpu_children, key=lambda e: e.time_range.start):
        counts = each.name.startswith("aten::")
        inside = list(within(each, depth + counts))
        if counts:
            yield depth, 1 + len(inside)
        yield from inside


def operations(profiler):
    step = next(e for e in profiler.events() if e.name == "ProfilerStep*")
    named = {each.name: each for each in step.cpu_children}
    return {name: list(within(named[name])) for name in names}


print({name: len(found) for name, found in operations(slow).items()})


# %% at-once
def at_once(days):
    return days / days.amax(dim=1, keepdim=True)


fast = profiled(train_step, at_once)


# %% calls
def calls(profiler):
    return {row.key: row.count for row in profiler.key_averages()}


for name in ("aten::max", "aten::amax", "aten::item", "aten::div"):
    print(f"{name:>10}: {calls(slow).get(name, 0)} calls before,", end=" ")
    print(calls(fast).get(name, 0), "after")


# %% by-hand
def rows_of(events):
    rows = {}
    for event in events:
        total = event.time_range.elapsed_us()  # 1
        own = total
        for child in event.cpu_children:
            own -= child.time_range.elapsed_us()  # 2
        count, self_cpu, cpu_total = rows.get(event.name, (0, 0, 0))
        rows[event.name] = count + 1, self_cpu + own, cpu_total + total  # 3
    return rows


rows = rows_of(slow.events())
item = next(event for event in slow.events() if event.name == "aten::item")
inside = [child.name for child in item.cpu_children]
print(rows["aten::item"][0], "calls of aten::item, and each calls", *inside)


# %% drawn
import matplotlib.pyplot as plt

colors = ("#D55E00", "#0072B2", "#009E73", "#E69F00")
figure, axes = plt.subplots(2, 1, figsize=(7, 4), layout="constrained")
for axis, (name, profiler) in zip(
    axes, {"by row": slow, "at once": fast}.items(), strict=True
):
    left = 0
    for color, (label, found) in zip(
        colors, operations(profiler).items(), strict=True
    ):
        axis.barh(0, len(found), left=left, color=color, label=label)
        for place, (depth, width) in enumerate(found, left):
            axis.barh(
                1.1 + depth, width, left=place, color=color, align="edge"
            )
        left += len(found)
    axis.set(title=f"scaled {name}", xlim=(0, 900), yticks=[0, 3.5])
    axis.set_yticklabels(["parts", "operations"])
    axis.invert_yaxis()
axes[1].set_xlabel("operations, in the order in which they begin")
axes[1].legend()
plt.show()


# %% trace
import json
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "trace.json")
    slow.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())["traceEvents"]

print([event["name"] for event in trace if event["name"] in names])


# %% stack-right
from torch._C._profiler import _ExperimentalConfig

verbose = _ExperimentalConfig(verbose=True)
with profile(with_stack=True, experimental_config=verbose) as profiler:
    train_step(by_row)

rows = profiler.key_averages(group_by_stack_n=3)
items = [row for row in rows if row.key == "aten::item"]


# %% stack-read
for row in items:
    named = [frame for frame in row.stack if "built-in" not in frame]
    print(row.count, "calls in", [each.split(": ")[-1] for each in named])
late = [row for row in rows if row.key.endswith("Backward0")]
print("in by_row:", [row.key for row in late if "by_row" in str(row.stack)])


# %% stack-wrong
# Wrong on purpose: do not copy.
with profile(with_stack=True) as profiler:
    train_step(by_row)

rows = profiler.key_averages(group_by_stack_n=3)
print([row.stack for row in rows if row.key == "aten::item"])


# %% no-step
# Wrong on purpose: do not copy.
plan = schedule(wait=1, warmup=1, active=3)
with profile(schedule=plan) as profiler:
    for _ in range(5):
        train_step(at_once)

try:
    profiler.key_averages()
except AssertionError as error:
    print("AssertionError:", error)


# %% no-repeat
# Wrong on purpose: do not copy.
import warnings

plan, found = schedule(wait=1, warmup=1, active=3), {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for steps in (5, 7):
        with profile(schedule=plan) as profiler:
            for _ in range(steps):
                train_step(at_once)
                profiler.step()
        found[steps] = calls(profiler).get("scale", 0)

print("of so many steps, so many are in the table:", found)
print(*{str(each.message) for each in caught})


# %% saved-twice
again = str(path.with_name("again.json"))
try:
    slow.export_chrome_trace(again)
except RuntimeError as error:
    print("RuntimeError:", error)


# %% part
from contextlib import contextmanager


@contextmanager
def part(name):
    with record_function(name):
        yield
        wait_for_device()


# %% python-alone
text = " ".join(["21.5"] * 100)


def read(text):
    with record_function("read"):
        return [float(word) for word in text.split()]


reading = profiled(read, text)
print({row.key: row.count for row in reading.key_averages()})


# %% predict-calls
ten = calls(profiled(by_row, days[:10], steps=2))
print({name: ten[f"aten::{name}"] for name in ("item", "stack")})


# %% shares
def shares(profiler, names):
    taken = {
        row.key: row.cpu_time_total
        for row in profiler.key_averages()
        if row.key in names
    }
    whole = sum(taken.values())
    return {name: taken[name] / whole for name in names}


# %% shares-checked
from types import SimpleNamespace as Row

made = [
    Row(key="train", cpu_time_total=9, self_cpu_time_total=1, count=3),
    Row(key="read", cpu_time_total=3, self_cpu_time_total=3, count=9),
    Row(key="aten::mm", cpu_time_total=8, self_cpu_time_total=8, count=3),
]
shown = shares(Row(key_averages=lambda: made), ["read", "train"])
if shown["train"] == 0.25:
    print("The own time of a part leaves out what it calls.")
elif sum(shown.values()) != 1:
    print("The shares do not add up to 1: divide by the sum of the parts.")
elif shown != {"read": 0.25, "train": 0.75}:
    print("In 12, train takes 9, however often it runs.")
else:
    print("Right: read takes a quarter, and train the rest.")
