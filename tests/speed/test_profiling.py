"""The claims of docs/speed/profiling.md."""

import itertools
import json
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since, older, true_since
from extensions.programs.snippet import after
from tests.helpers import worlds

WAITS = ("imports", "wait", "waits", "late-batches", "data-or-model")
STEP = ("imports", "wait", "part", "model", "labels", "by-row")
PROFILED = (*STEP, "profiled")
FIXED = (*PROFILED, "at-once")
NAMES = ["scale", "forward", "backward", "update"]


def of_days(snippet, rows):
    """Return the snippet with so many days."""
    return snippet.edit("torch.rand(64, 24)", f"torch.rand({rows}, 24)")


def count_waiting(monkeypatch):
    """Pretend an accelerator, and return what grows with each wait for it."""
    waits = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.accelerator, "synchronize", lambda: waits.append(1)
    )
    return waits


# Is it the data or the model?


def test_waits_splits_each_batch(snippet, loads=(8, 0, 8, 0), step=2):
    run = after(snippet, *WAITS)
    clock, met = run.Clock(), []

    def loader():
        for number, load in enumerate(loads):
            clock.now += load
            yield number

    def train_step(batch):
        met.append(batch)
        clock.now += step * (batch + 1)

    with no_error():
        waited, computed = run.waits(loader(), train_step, clock)

    assert met == list(range(len(loads)))
    assert waited == list(loads)
    assert computed == [step * (number + 1) for number in met]


@pytest.mark.parametrize(
    "loads",
    [(), (1, 2, 3), (0, 0, 5)],
    ids=["no batches", "slower and slower batches", "one slow batch"],
)
def test_waits_splits_each_batch__also_with(snippet, loads):
    test_waits_splits_each_batch(snippet, loads)
    test_waits_splits_each_batch(snippet, loads, 0)


def test_waits_splits_each_batch__also_with_other_loaders_and_its_own_clock(
    snippet,
):
    run = after(snippet, *WAITS)

    assert run.waited == [10, 0, 6, 0, 6, 0]
    assert run.computed == [2] * 6
    assert run.share == 22 / 34
    # it has a clock, if you hand it none
    for loader in (
        [1, 2],
        DataLoader(range(5), batch_size=2),
        itertools.islice(DataLoader(range(9)), 4),
        iter(()),
    ):
        met = []
        waited, computed = run.waits(loader, met.append)
        assert len(waited) == len(computed) == len(met)
        assert all(each >= 0 for each in waited + computed)
    _, computed = run.waits([1, 2], lambda batch: time.sleep(0.002))
    assert all(each > 0.001 for each in computed)


def test_waits_splits_each_batch__also_if_the_loader_starts_late(snippet):
    run = after(snippet, *WAITS)
    clock = run.Clock()

    class Loader:
        def __iter__(self):
            clock.now += 30  # as workers that start
            return run.loaded(clock, 1, 10, 2)

    def train_step(batch):
        clock.now += 20

    for _ in range(2):
        clock.now = 0
        assert run.waits(Loader(), train_step, clock) == ([30, 0], [20, 20])


def test_waits_splits_each_batch__also_before_an_error(snippet):
    run = after(snippet, *WAITS)

    def loader():
        yield 1
        raise KeyError("of the loader")

    met = []
    with pytest.raises(KeyError, match="of the loader"):
        run.waits(loader(), met.append)
    assert met == [1]


@edits(
    ("append(arrived - start)", "append(done - start)"),
    ("append(done - arrived)", "append(done - start)"),
    ("        start = done\n", ""),
    ("        train_step(batch)\n", ""),
    ("train_step(batch)", "train_step(None or 0)"),
)
def test_waits_splits_each_batch__but_not(snippet, fails, old, new):
    """Measured up to `done`, the wait includes the step; the other edits mix
    up other times, or lose the batches.
    """
    fails(test_waits_splits_each_batch, snippet.edit(old, new))


@pytest.mark.simulates("an accelerator")
def test_waits_waits_for_the_device(snippet, monkeypatch):
    run = after(snippet, *WAITS)
    waits = count_waiting(monkeypatch)
    order = []

    def clock():
        order.append(("clock", len(waits)))
        return 0

    def train_step(batch):
        order.append(("step", len(waits)))

    run.waits([1, 2, 3], train_step, clock)

    # the start, and then arrival, step and end of each batch
    steps = [("clock", 1)]
    for met in (2, 4, 6):
        steps += [("clock", met), ("step", met), ("clock", met + 1)]
    assert order == steps


@edits(
    ("start = now(clock)", "start = clock()"),
    ("arrived = now(clock)", "arrived = clock()"),
    ("done = now(clock)", "done = clock()"),
    (
        "    wait_for_device()\n    return clock()\n",
        "    read = clock()\n    wait_for_device()\n    return read\n",
    ),
)
def test_waits_waits_for_the_device__but_not(
    snippet, monkeypatch, fails, old, new
):
    """With `clock()` instead of `now(clock)`, a reading does not wait for the
    device; nor does one made before the wait.
    """
    edited = snippet.edit(old, new)
    fails(test_waits_waits_for_the_device, edited, monkeypatch)


def late_batches(snippet, workers=2, load=10, step=2, batches=24):
    """Return which batches came late, of workers that load so long."""
    run = after(snippet, *WAITS)
    clock = run.Clock()

    def train_step(batch):
        assert batch == len(met)
        met.append(batch)
        clock.now += step

    met = []
    loader = run.loaded(clock, workers, load, batches)
    waited, _ = run.waits(loader, train_step, clock)
    assert len(met) == batches
    return [number for number, wait in enumerate(waited) if wait > 0]


@pytest.mark.simulates("workers")
def test_every_nth_batch_is_late(snippet, step=2):
    for workers in (1, 2, 3, 7):
        for load in (2 * workers + 1, 3 * workers, 100):
            found = late_batches(snippet, workers, load, step)
            assert found == list(range(0, 24, workers))


def test_every_nth_batch_is_late__ends_if_the_step_is_slower(snippet, fails):
    """With slower steps: the workers keep up, and only the first batch is
    late.
    """
    fails(test_every_nth_batch_is_late, snippet, 3)


@edits(
    ("one does all", "ready = [0] * workers", "workers = 1; ready = [0]"),
    ("one starts late", "[0] * workers", "[*range(0, 4 * workers, 4)]"),
    ("one is slow", "] += load", "] += load * (1 + batch % workers)"),
    ("max(clock.now, ready[batch % workers])", "clock.now + load"),
)
def test_every_nth_batch_is_late__but_not(snippet, fails, old, new):
    """If one worker does everything, or nothing is loaded ahead, every batch
    is late; unequal workers delay other batches.
    """
    fails(test_every_nth_batch_is_late, snippet.edit(old, new))


@pytest.mark.simulates("workers")
def test_the_first_batch_alone_is_late(snippet, step=2):
    for workers in (1, 2, 3, 7):
        for load in (1, 2 * workers - 1):
            assert late_batches(snippet, workers, load, step) == [0]


def test_the_first_batch_alone_is_late__ends_if_the_step_is_faster(
    snippet, fails
):
    """With faster steps: the workers cannot keep up, and later batches are
    late, too.
    """
    fails(test_the_first_batch_alone_is_late, snippet, 1)


def test_the_first_batch_alone_is_late__but_not_if_loaded_on_demand(
    snippet, fails
):
    """If loading begins when a batch is asked for, every batch is late."""
    edited = snippet.edit(
        "max(clock.now, ready[batch % workers])", "clock.now + load"
    )
    fails(test_the_first_batch_alone_is_late, edited)


# Which part of the step?


def counted(profiler):
    return {row.key: row.count for row in profiler.key_averages()}


def test_two_steps_are_left_out(snippet, steps=None):
    run = after(of_days(snippet, 2), *PROFILED)
    calls = []

    def train_step(number, other):
        calls.append((number, other))
        with run.part(f"call {len(calls)}"):
            torch.ones(1)

    options = {} if steps is None else {"steps": steps}
    profiler = run.profiled(train_step, 1, 2, **options)

    recorded = 3 if steps is None else steps
    assert calls == [(1, 2)] * (2 + recorded)
    found = counted(profiler)
    assert found["ProfilerStep*"] == recorded
    named = [name for name in found if name.startswith("call")]
    assert named == [f"call {3 + number}" for number in range(recorded)]


@pytest.mark.parametrize("steps", [1, 5])
def test_two_steps_are_left_out__also_of(snippet, steps):
    test_two_steps_are_left_out(snippet, steps)


@edits(
    ("wait=1, warmup=1, active=steps", "wait=0, warmup=1, active=steps"),
    ("wait=1, warmup=1, active=steps", "wait=2, warmup=1, active=steps"),
    ("active=steps", "active=2"),
    ("range(2 + steps)", "range(3 + steps)"),
    ("*inputs, steps=3", "*inputs, steps=4"),
    ("            train_step(*inputs)\n            prof", "            prof"),
)
def test_two_steps_are_left_out__but_not(snippet, fails, old, new):
    """With `wait=0`, only one step runs before the recording; the other edits
    change how many run, or how many are recorded.
    """
    fails(test_two_steps_are_left_out, snippet.edit(old, new))


def row(name, taken, device="CPU"):
    return SimpleNamespace(
        key=name,
        count=3 if name == "a" else 1,
        cpu_time_total=taken,
        self_cpu_time_total=taken / 4 if name == "a" else taken,
        device_type=SimpleNamespace(name=device),
    )


def test_shares_adds_up_each_part(snippet):
    run = after(of_days(snippet, 2), *PROFILED, "shares")
    rows = [row("a", 9.0), row("b", 1.0), row("c", 6.0), row("a::b", 80.0)]
    # what a device names with the same words is no time of the program
    rows += [row("a", 0.5, "CUDA"), row("b", 70.0, "CUDA")]
    profiler = SimpleNamespace(key_averages=lambda: rows)
    assert run.shares(profiler, ["b", "a"]) == {"b": 0.1, "a": 0.9}
    assert list(run.shares(profiler, ["b", "a"])) == ["b", "a"]
    assert run.shares(profiler, ["a", "c"]) == {"a": 0.6, "c": 0.4}

    def train_step():
        for _ in range(3):
            with run.part("often"):
                torch.ones(1)
        with run.part("once"):
            torch.ones(1)

    profiler = run.profiled(train_step)
    taken = {
        name: [
            each.time_range.elapsed_us()
            for each in profiler.events()
            if each.name == name
        ]
        for name in ("often", "once")
    }
    assert {name: len(each) for name, each in taken.items()} == {
        "often": 9,
        "once": 3,
    }
    whole = sum(map(sum, taken.values()))
    for name, share in run.shares(profiler, ["once", "often"]).items():
        assert share == pytest.approx(sum(taken[name]) / whole)
    assert list(run.parts) == NAMES
    assert sum(run.parts.values()) == pytest.approx(1)


@edits(
    (
        "the mean of its runs",
        "row.cpu_time_total",
        "row.cpu_time_total / row.count",
    ),
    ("selves", "row.cpu_time_total", "row.self_cpu_time_total"),
    (' and row.device_type.name == "CPU"', ""),
    ("row.key in labels and", "row.key[0] in str(labels) and"),
    ("taken[label] / whole", "taken[label]"),
    ("whole = sum(", "whole = max("),
)
def test_shares_adds_up_each_part__but_not(snippet, fails, old, new):
    """Divided by `row.count`, a part that runs often counts too little; the
    other edits take wrong times, rows or divisors.
    """
    fails(test_shares_adds_up_each_part, snippet.edit(old, new))


def trains(run, scale):
    """Check that the profiled step is one of a training."""
    before = [each.detach().clone() for each in run.model.parameters()]
    inputs = run.days / run.days.amax(1, keepdim=True)
    loss = torch.nn.functional.mse_loss(run.model(inputs), run.tomorrow)
    gradients = torch.autograd.grad(loss, run.model.parameters())
    run.train_step(scale)
    for old, new, gradient in zip(
        before, run.model.parameters(), gradients, strict=True
    ):
        torch.testing.assert_close(new.grad, gradient)
        torch.testing.assert_close(new, old - 0.01 * gradient)


def called_within(profiler, name):
    """Return what callers each operation in a part of a step has, in order."""
    label = next(e for e in profiler.events() if e.name == name)
    begin, end = label.time_range.start, label.time_range.end
    found = [
        (each.time_range.start, -each.time_range.end)
        for each in profiler.events()
        if each.name.startswith("aten::")
        and begin <= each.time_range.start
        and each.time_range.end <= end
    ]
    depths, open_ends = [], []
    for start, minus_end in sorted(found):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        depths.append(len(open_ends))
        open_ends.append(-minus_end)
    return depths


DRAWN = (*PROFILED, "shares", "within", "in-parts")


def test_scaling_calls_the_most(snippet):
    run = after(snippet, *DRAWN)
    trains(run, run.by_row)
    counts = {name: len(called_within(run.slow, name)) for name in NAMES}

    assert all(counts.values())
    scale = counts.pop("scale")
    assert scale > sum(counts.values())


def test_scaling_calls_the_most__also_as_counted_and_drawn(snippet):
    run = after(snippet, *DRAWN, "at-once")
    for profiler in (run.slow, run.fast):
        found = run.operations(profiler)

        assert list(found) == NAMES
        for name, bars in found.items():
            depths = [depth for depth, _ in bars]
            assert depths == called_within(profiler, name)
            for place, (depth, width) in enumerate(bars):
                # below it stands what it calls, and nothing else
                inside = bars[place + 1 : place + width]
                assert all(deeper > depth for deeper, _ in inside)
                beyond = bars[place + width : place + width + 1]
                assert all(other <= depth for other, _ in beyond)
        # the order is that of every step, whatever the times
        steps = [e for e in profiler.events() if e.name == "ProfilerStep*"]
        assert len({tuple(run.within(step)) for step in steps}) == 1


@edits(
    (
        "without a loop",
        "profiled(train_step, by_row)\n",
        "profiled(train_step, lambda days: days / days.amax(1, True))\n",
    ),
    ("few days", "torch.rand(64, 24)", "torch.rand(5, 24)"),
)
def test_scaling_calls_the_most__but_not(snippet, fails, old, new):
    """Without the loop, or with 5 days instead of 64, the other parts call
    more.
    """
    fails(test_scaling_calls_the_most, snippet.edit(old, new))


# Which call?


def calls_of(snippet, scale, rows, steps):
    """Return how often scaling calls what, in so many steps."""
    run = after(of_days(snippet, rows) if rows != 64 else snippet, *FIXED)

    def scaling():
        with run.part("scale"):
            getattr(run, scale)(run.days)

    found = counted(run.profiled(scaling, steps=steps))
    names = ("max", "amax", "item", "div")
    return {name: found.get(f"aten::{name}", 0) for name in names}


def test_a_loop_calls_once_a_row(snippet):
    for rows, steps in ((8, 3), (5, 1), (1, 2)):
        calls = calls_of(snippet, "by_row", rows, steps)
        once = rows * steps
        expected = {"max": once, "amax": 0, "item": once, "div": once}
        assert calls == expected


@edits(
    ("max twice", "day.max().item()", "day.max().max().item()"),
    ("div twice", "day / day.max().item()", "day / 1 / day.max().item()"),
    ("no div", "day / day.max().item()", "day * (1 / day.max().item())"),
    ("no max", "day / day.max().item()", "day / max(day.tolist())"),
    ("on one day more", "in days:", "in [*days, day]:"),
)
def test_a_loop_calls_once_a_row__but_not(snippet, fails, old, new):
    """A second `max()` for each day doubles its calls; the other edits also
    change what the loop calls, or how often.
    """
    if "[*days" in new:
        snippet = snippet.edit(
            "    rows = []\n", "    rows = []\n    day = days[0]\n"
        ).edit("torch.stack(rows)", "torch.stack(rows[:-1])")
    fails(test_a_loop_calls_once_a_row, snippet.edit(old, new))


def test_a_loop_calls_once_a_row__but_not_without_item(snippet, fails):
    """Without `item()`, the loop stays, but `item` is never called."""
    edited = snippet.edit("day.max().item()", "day.max()")
    fails(test_a_loop_calls_once_a_row, edited)


def test_no_loop_no_calls(snippet, more=()):
    for rows, steps in ((8, 3), (5, 1), (1, 2)):
        calls = calls_of(snippet, "at_once", rows, steps)
        expected = {"max": 0, "amax": steps, "item": 0, "div": steps}
        assert calls == expected
    run = after(snippet, *FIXED)
    for seed in range(3):
        torch.manual_seed(seed)
        for shape in ((64, 24), (1, 24), (7, 1)):
            days = 40 * torch.randn(shape)
            torch.testing.assert_close(run.at_once(days), run.by_row(days))
    for days in more:
        with no_error():
            slow, fast = run.by_row(days), run.at_once(days)
        torch.testing.assert_close(fast, slow, equal_nan=True)


DAYS = {
    "with nan": lambda: torch.tensor([[1.0, float("nan")], [2.0, 4.0]]),
    "of zeros": lambda: torch.zeros(2, 3),
    "of integers": lambda: torch.arange(1, 7).reshape(2, 3),
    "transposed": lambda: torch.rand(3, 5).T,
    "bfloat16": lambda: torch.rand(4, 3).bfloat16(),
}


@worlds.each("days", DAYS)
def test_no_loop_no_calls__also_for_days(snippet, days):
    test_no_loop_no_calls(snippet, [days()])


def test_no_loop_no_calls__ends_without_a_day(snippet, fails):
    """Without a single day: `by_row` has nothing to stack, and raises an
    error.
    """
    fails(test_no_loop_no_calls, snippet, [torch.empty(0, 24)])


@edits(
    ("amax(dim=1, keepdim=True)", "max(dim=1, keepdim=True).values"),
    ("amax(dim=1, keepdim=True)", "amax(dim=0, keepdim=True)"),
    ("amax(dim=1, keepdim=True)", "amax().item()"),
    ("return days / days.amax(dim=1, keepdim=True)", "return by_row(days)"),
)
def test_no_loop_no_calls__but_not(snippet, fails, old, new):
    """With `max(dim=1)`, it is `max` that is called, not `amax`; the other
    edits change the calls or the result.
    """
    fails(test_no_loop_no_calls, snippet.edit(old, new))


def test_no_loop_no_calls__also_in_the_table_of_the_page(snippet):
    shown = (*FIXED, "without-times", "table", "calls")
    run = after(of_days(snippet, 8), *shown)
    slow, fast = run.calls(run.slow), run.calls(run.fast)

    assert slow == counted(run.slow)
    assert (slow["aten::item"], fast.get("aten::item", 0)) == (24, 0)
    lines = run.without_times(run.table).splitlines()
    assert lines[0].split() == ["Name", "Calls"]
    rows = [line.split() for line in lines[1:]]
    assert len(rows) == 12
    assert all(slow[name] == int(count) for name, count in rows)
    counts = [int(count) for _, count in rows]
    assert counts == sorted(slow.values(), reverse=True)[:12]


# How it works


def test_the_total_holds_the_calls(snippet, scale="by_row"):
    run = after(of_days(snippet, 4), *FIXED)
    events = run.profiled(run.train_step, getattr(run, scale)).events()
    parents = [each for each in events if each.cpu_children]

    assert {"scale", "forward"} <= {each.name for each in parents}
    for each in events:
        begin, end = each.time_range.start, each.time_range.end
        assert each.cpu_time_total == pytest.approx(end - begin, abs=0.01)
        for child in each.cpu_children:
            assert begin <= child.time_range.start
            assert child.time_range.end <= end
        inside = sum(child.cpu_time_total for child in each.cpu_children)
        own = each.self_cpu_time_total
        assert own == pytest.approx(each.cpu_time_total - inside, abs=0.01)
        assert each.cpu_time_total >= inside - 0.01


def test_the_total_holds_the_calls__but_not_if_selves_are_totals(
    snippet, fails
):
    """With each call listed twice, the calls inside an event take longer than
    the event itself.
    """
    edited = snippet.edit(
        "    return profiler\n",
        "    for each in profiler.events():\n"
        "        vars(each)['cpu_children'] = each.cpu_children * 2\n"
        "    return profiler\n",
    )
    fails(test_the_total_holds_the_calls, edited)


def test_the_trace_holds_all(snippet, days=4):
    run = after(of_days(snippet, days), *PROFILED, "shares", "trace")
    found = [each["name"] for each in run.trace if each["ph"] == "X"]

    assert [name for name in found if name in NAMES] == NAMES * 3
    for name, count in counted(run.slow).items():
        if name.startswith("aten::"):
            assert found.count(name) >= count
    assert found.count("aten::item") == 3 * days


def test_the_trace_holds_all__also_of_as_many_rows_as_shown(snippet):
    test_the_trace_holds_all(snippet, 64)


@edits(
    ('with part("scale"):', "if True:"),
    (
        "slow.export_chrome_trace(str(path))",
        "path.write_text('{\"traceEvents\": []}')",
    ),
    ('with part("update"):', 'with part("improve"):'),
)
def test_the_trace_holds_all__but_not(snippet, fails, old, new):
    """Without `with part("scale")`, this part is missing from the file; the
    other edits write an empty file, or rename a part.
    """
    if "shares" not in new:
        snippet = snippet.edit(
            '["scale", "forward", "backward", "update"]', '["forward"]'
        )
    fails(test_the_trace_holds_all, snippet.edit(old, new))


STACKS = (*STEP, "stack-right")


def test_a_stack_names_the_functions(snippet):
    run = after(of_days(snippet, 4), *STACKS)
    names = ("by_row", "train_step")
    lines = [getattr(run, name).__code__.co_firstlineno for name in names]

    assert [row.count for row in run.items] == [4]
    stack = run.items[0].stack
    assert len(stack) == 3
    assert "item" in stack[0]
    for frame, name, line in zip(stack[1:], names, lines, strict=True):
        assert frame.endswith(f"({line}): {name}")

    def once():
        torch.ones(1).item()

    def twice():
        torch.ones(1).item()
        once()
        torch.ones(1).item()

    options = {"with_stack": True, "experimental_config": run.verbose}
    with run.profile(**options) as profiler:
        twice()
    rows = profiler.key_averages(group_by_stack_n=3)
    found = {
        tuple(each.split(": ")[-1] for each in row.stack[1:]): row.count
        for row in rows
        if row.key == "aten::item"
    }
    callers = ("twice", "test_a_stack_names_the_functions")
    # two lines of one function are one row
    assert found == {("once", "twice"): 1, callers: 2}


@edits(
    ("group_by_stack_n=3)\nitems", "group_by_stack_n=2)\nitems"),
    ("group_by_stack_n=3)\nitems", "group_by_stack_n=0)\nitems"),
    ("verbose=True", "verbose=False"),
    ("with_stack=True, experimental", "experimental"),
)
def test_a_stack_names_the_functions__but_not(snippet, fails, old, new):
    """`group_by_stack_n=2` names two functions; with 0, or without one of the
    two options, it names none.
    """
    fails(test_a_stack_names_the_functions, snippet.edit(old, new))


def test_a_frame_names_its_def(snippet, further=0):
    run = after(of_days(snippet, 4), *STACKS)

    def far():
        pass
        pass
        torch.ones(1).item()

    options = {"with_stack": True, "experimental_config": run.verbose}
    with run.profile(**options) as profiler:
        far()
    defined = far.__code__.co_firstlineno + further
    [row] = [
        row
        for row in profiler.key_averages(group_by_stack_n=3)
        if row.key == "aten::item"
    ]
    frames = [each.rpartition("(")[2] for each in row.stack]
    assert f"{defined}): far" in frames


def test_a_frame_names_its_def__but_not_the_line_of_the_call(snippet, fails):
    """The call is three lines below the `def`, but the frame does not name
    that line.
    """
    fails(test_a_frame_names_its_def, snippet, 3)


def test_backward_bears_a_wrong_stack(snippet):
    run = after(of_days(snippet, 4), *STACKS)
    late = [row for row in run.rows if row.key == "TBackward0"]
    stacks = [row.stack for row in late]

    assert stacks
    names = {frame.rpartition(": ")[2] for each in stacks for frame in each}
    assert "by_row" in names
    assert not run.days.requires_grad
    assert not run.by_row(run.days).requires_grad


@edits(
    (
        "no loop",
        "    train_step(by_row)\n\nrows = profiler.key_averages("
        "group_by_stack_n=3)\nitems",
        "    train_step(lambda days: days)\n\nrows = profiler.key_averages("
        "group_by_stack_n=3)\nitems",
    ),
    (
        "it needs gradients",
        "day.max().item()",
        "day.max().item() * model[0].weight.sum()",
    ),
)
def test_backward_bears_a_wrong_stack__but_not(snippet, fails, old, new):
    """Where the step does not call `by_row`, or gradients flow through it,
    `TBackward0` shows other functions.
    """
    fails(test_backward_bears_a_wrong_stack, snippet.edit(old, new))


# What goes wrong

WRONG = (*STEP, "stack-wrong")


def test_stacks_need_verbose(snippet):
    run = after(of_days(snippet, 4), *WRONG)
    for depth in (1, 20):
        rows = run.profiler.key_averages(group_by_stack_n=depth)
        assert "aten::item" in {row.key for row in rows}
        assert all(row.stack == [] for row in rows)
    assert all(each.stack == [] for each in run.profiler.events())


def test_stacks_need_verbose__but_not_with_verbose(snippet, fails):
    """With `verbose=True` as well, the stacks are filled."""
    edited = snippet.edit(
        "with profile(with_stack=True) as",
        "with profile(with_stack=True, experimental_config="
        "_ExperimentalConfig(verbose=True)) as",
    )
    fails(test_stacks_need_verbose, edited)


NO_STEP = (*FIXED, "no-step")
# The error had no text before torch 2.10.
HAS_TEXT = not older(torch.__version__, "2.10")
SAID = "Profiler must be initialized before getting key averages" * HAS_TEXT


def test_without_step_nothing_is_recorded(snippet):
    run = after(of_days(snippet, 4), *NO_STEP)
    for wait in (1, 4):
        plan = run.schedule(wait=wait, warmup=1, active=3)
        with run.profile(schedule=plan) as profiler:
            for _ in range(9):
                run.train_step(run.at_once)
        for each in (profiler, run.profiler):
            with pytest.raises(AssertionError) as caught:
                each.key_averages()
            assert str(caught.value) == SAID


@edits(
    (
        "no schedule that waits",
        "active=3)\nwith profile(schedule=plan) as",
        "active=3)\nwith profile() as",
    ),
    (
        "    for _ in range(5):\n        train_step(at_once)\n",
        "    for _ in range(5):\n        train_step(at_once)\n"
        "        profiler.step()\n",
    ),
)
def test_without_step_nothing_is_recorded__but_not(snippet, fails, old, new):
    """Without the schedule, or with a call of `step()` after each step,
    `key_averages()` raises no error.
    """
    fails(test_without_step_nothing_is_recorded, snippet.edit(old, new))


NO_REPEAT = (*FIXED, "calls", "no-repeat")


def test_a_new_cycle_forgets(snippet):
    run = after(of_days(snippet, 4), *NO_REPEAT)

    assert run.found == {5: 3, 7: 0}
    assert not {*NAMES} & {*counted(run.profiler)}
    plan = run.schedule(wait=0, warmup=1, active=2)
    for options, left in (({}, 1), ({"acc_events": True}, 3)):
        with run.profile(schedule=plan, **options) as profiler:
            for _ in range(5):
                run.train_step(run.at_once)
                profiler.step()
        assert counted(profiler).get("scale", 0) == left


@edits(
    (
        "in a longer cycle",
        "active=3), {}",
        "active=6), {}",
    ),
    (
        "all cycles kept",
        "with profile(schedule=plan) as profiler:\n"
        "            for _ in range(steps)",
        "with profile(schedule=plan, acc_events=True) as profiler:\n"
        "            for _ in range(steps)",
    ),
)
def test_a_new_cycle_forgets__but_not(snippet, fails, old, new):
    """With `active=6`, seven steps are not yet a whole cycle; with
    `acc_events=True`, the profiler keeps earlier cycles.
    """
    fails(test_a_new_cycle_forgets, snippet.edit(old, new))


def test_a_new_cycle_forgets__but_not_with_one_cycle(snippet, fails):
    """With `repeat=1`, the profiler stops after one cycle, and keeps what it
    recorded.
    """
    edited = snippet.edit("active=3), {}", "active=3, repeat=1), {}")
    fails(test_a_new_cycle_forgets, edited)


@api_since("2.13", "export_chrome_trace(use_python_export=)")
def test_a_trace_is_saved_once(snippet):
    run = after(of_days(snippet, 4), *PROFILED)
    with run.profile() as whole:
        run.train_step(run.by_row)
    with run.profile() as python:
        run.train_step(run.by_row)
    with tempfile.TemporaryDirectory() as folder, no_error():
        python.export_chrome_trace(str(Path(folder, "a.json")), True)
    for profiler in (run.profiled(run.train_step, run.by_row), whole, python):
        with tempfile.TemporaryDirectory() as folder:
            first, second = Path(folder, "a.json"), Path(folder, "b.json")
            with no_error():
                profiler.export_chrome_trace(str(first))
            assert json.loads(first.read_text())["traceEvents"]
            with pytest.raises(RuntimeError, match="already saved"):
                profiler.export_chrome_trace(str(second))
            with no_error():
                for _ in range(2):
                    profiler.export_chrome_trace(str(second), True)
            assert json.loads(second.read_text())["traceEvents"]


def test_a_trace_is_saved_once__also_in_what_the_page_prints(snippet, capsys):
    after(of_days(snippet, 5), *PROFILED, "shares", "trace", "saved-twice")

    assert "Trace is already saved" in capsys.readouterr().out


def test_without_step_nothing_is_recorded__also_in_what_the_page_prints(
    snippet, capsys
):
    after(of_days(snippet, 5), *NO_STEP)

    assert f"AssertionError: {SAID}\n" in capsys.readouterr().out


def test_a_trace_is_saved_once__but_not_if_kept(snippet, fails):
    """An `export_chrome_trace` that writes a kept text instead raises no error
    the second time.
    """
    edited = snippet.edit(
        "    return profiler\n",
        "    kept = '{\"traceEvents\": [1]}'\n"
        "    write = lambda path: Path(path).write_text(kept)\n"
        "    profiler.export_chrome_trace = write\n    return profiler\n",
    )
    fails(test_a_trace_is_saved_once, edited)


@pytest.mark.simulates("an accelerator")
def test_a_part_waits(snippet, monkeypatch):
    run = after(of_days(snippet, 4), *PROFILED)
    waits = count_waiting(monkeypatch)
    order = []

    class Label(run.record_function):
        def __exit__(self, *found):
            order.append(("end", len(waits)))
            return super().__exit__(*found)

    names = run.part.__wrapped__.__globals__
    monkeypatch.setitem(names, "record_function", Label)
    for _ in range(2):
        with run.part("a"):
            order.append(("inside", len(waits)))
    assert order == [("inside", 0), ("end", 1), ("inside", 1), ("end", 2)]


@edits(
    ("        yield\n        wait_for_device()\n", "        yield\n"),
    (
        "        yield\n        wait_for_device()\n",
        "        wait_for_device()\n        yield\n",
    ),
    (
        "        yield\n        wait_for_device()\n",
        "        yield\n    wait_for_device()\n",
    ),
)
def test_a_part_waits__but_not(snippet, monkeypatch, fails, old, new):
    """Without `wait_for_device()`, or with it before or after the part, the
    part ends without waiting.
    """
    fails(test_a_part_waits, snippet.edit(old, new), monkeypatch)


@true_since("2.12", "the calls were in the trace alone")
def test_stacks_add_events(snippet):
    run = after(of_days(snippet, 4), *STACKS)
    with run.profile() as plain:
        run.train_step(run.by_row)
    without = {each.name for each in plain.events()}
    named = {each.name for each in run.profiler.events()}

    called = [name for name in named if name.endswith(": by_row")]
    assert called
    with run.profile(with_stack=True) as alone:
        run.train_step(run.by_row)
    assert [e for e in alone.events() if e.name.endswith(": by_row")]
    assert not [name for name in without if "by_row" in name]
    assert len(run.profiler.events()) > len(plain.events())


@edits(
    ("with_stack=True, experimental", "experimental"),
)
def test_stacks_add_events__but_not_without(snippet, fails, old, new):
    """Without `with_stack=True`, no call of a Python function is recorded."""
    fails(test_stacks_add_events, snippet.edit(old, new))


# Where it ends

ALONE = (*PROFILED, "python-alone")


def test_python_alone_has_no_row(snippet):
    run = after(of_days(snippet, 4), *ALONE)

    assert len(run.read(run.text)) == 100
    assert set(run.read(run.text)) == {21.5}
    found = counted(run.reading)
    assert found.get("read") == 3
    assert not [name for name in found if name.startswith("aten::")]


@edits(
    ("float(word) for", "torch.tensor(float(word)) for"),
    ('    with part("read"):\n', "    with part('parse'):\n"),
)
def test_python_alone_has_no_row__but_not(snippet, fails, old, new):
    """`torch.tensor()` calls operations, which have rows in the table; a part
    of another name leaves no row `read`.
    """
    fails(test_python_alone_has_no_row, snippet.edit(old, new))
