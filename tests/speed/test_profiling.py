"""The claims of docs/speed/profiling.md."""

import json
import linecache
import tempfile
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since, older
from extensions.programs.snippet import after
from tests.helpers import worlds

STEP = ("imports", "model", "labels", "by-row")
PROFILED = (*STEP, "profiled", "slow")
FIXED = (*PROFILED, "at-once")
NAMES = ["scale", "forward", "backward", "update"]
WAITS = ("imports", "waits", "late-batches", "data-or-model")


def of_days(snippet, rows):
    """Return the snippet with so many days."""
    return snippet.edit("torch.rand(64, 24)", f"torch.rand({rows}, 24)")


def counted(profiler):
    return {row.key: row.count for row in profiler.key_averages()}


# Do this


def test_two_steps_are_left_out(snippet, steps=None):
    run = after(of_days(snippet, 2), *PROFILED)
    calls = []

    def train_step(number, other):
        calls.append((number, other))
        with run.record_function(f"call {len(calls)}"):
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


def late_batches(snippet, workers=2, load=10, step=2, batches=24):
    """Return which batches came late, of workers that load so long."""
    run = snippet.only(*WAITS).after("data-or-model")
    clock, met = run.Clock(), []

    def train_step(batch):
        met.append(batch)
        clock.now += step

    loader = run.loaded(clock, workers, load, batches)
    waited, computed = run.waits(loader, train_step, clock)
    assert met == list(range(batches))
    assert computed == [step] * batches
    assert clock.now == sum(waited) + sum(computed)
    return [number for number, wait in enumerate(waited) if wait > 0]


@pytest.mark.simulates("workers")
def test_every_nth_batch_is_late(snippet):
    for workers in (1, 2, 3, 7):
        for load in (2 * workers + 1, 3 * workers, 100):
            found = late_batches(snippet, workers, load)
            assert found == list(range(0, 24, workers))
        for load in (1, 2 * workers - 1):
            assert late_batches(snippet, workers, load) == [0]


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


@pytest.mark.simulates("an accelerator")
def test_every_nth_batch_is_late__also_with_steps_that_a_device_finishes(
    snippet, monkeypatch
):
    run = snippet.only(*WAITS).after("data-or-model")
    assert run.waited == [10, 0, 6, 0, 6, 0]
    clock = run.Clock()

    def finish():
        clock.now += 2

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "synchronize", finish)
    loader = run.loaded(clock, 2)
    assert run.waits(loader, str, clock) == (run.waited, run.computed)


def calls_of(snippet, scale, rows, steps):
    """Return how often scaling calls what, in so many steps."""
    run = after(of_days(snippet, rows) if rows != 64 else snippet, *FIXED)
    found = counted(run.profiled(getattr(run, scale), run.days, steps=steps))
    names = ("max", "amax", "item", "div")
    return {name: found.get(f"aten::{name}", 0) for name in names}


def test_a_loop_calls_once_a_row(snippet, more=()):
    for rows, steps in ((8, 3), (5, 1), (1, 2)):
        once = rows * steps
        calls = calls_of(snippet, "by_row", rows, steps)
        assert calls == {"max": once, "amax": 0, "item": once, "div": once}
        calls = calls_of(snippet, "at_once", rows, steps)
        assert calls == {"max": 0, "amax": steps, "item": 0, "div": steps}
    run = after(snippet, *FIXED)
    for days in (*more, 40 * torch.randn(64, 24), torch.randn(7, 1)):
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
def test_a_loop_calls_once_a_row__also_for_days(snippet, days):
    test_a_loop_calls_once_a_row(snippet, [days()])


def test_a_loop_calls_once_a_row__ends_without_a_day(snippet, fails):
    """Without a single day: `by_row` has nothing to stack, and raises an
    error.
    """
    fails(test_a_loop_calls_once_a_row, snippet, [torch.empty(0, 24)])


@edits(
    ("max twice", "day.max().item()", "day.max().max().item()"),
    ("no div", "day / day.max().item()", "day * (1 / day.max().item())"),
    ("no max", "day / day.max().item()", "day / max(day.tolist())"),
    ("max, not amax", "amax(dim=1, keepdim=True)", "max(1, True).values"),
    ("of the columns", "amax(dim=1", "amax(dim=0"),
    ("days / days.amax(dim=1, keepdim=True)", "by_row(days)"),
)
def test_a_loop_calls_once_a_row__but_not(snippet, fails, old, new):
    """A second `max()` for each day doubles its calls; the other edits change
    what is called, how often, or the result.
    """
    fails(test_a_loop_calls_once_a_row, snippet.edit(old, new))


def test_a_loop_calls_once_a_row__but_not_without_item(snippet, fails):
    """Without `item()`, the loop stays, but `item` is never called."""
    edited = snippet.edit("day.max().item()", "day.max()")
    fails(test_a_loop_calls_once_a_row, edited)


def test_a_loop_calls_once_a_row__also_in_the_table_of_the_page(snippet):
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


def test_a_loader_has_a_row(snippet, workers=0):
    run = after(snippet, *STEP, "loader-row")
    loader = DataLoader(range(5), 2, num_workers=workers)
    with run.profile() as profiler:
        batches = [batch.tolist() for batch in loader]
    assert batches == [[0, 1], [2, 3], [4]]

    start = "enumerate(DataLoader)#"
    for found, count in ((run.profiler, 5), (profiler, 4)):
        rows = found.key_averages()
        named = [row.count for row in rows if row.key.startswith(start)]
        lines = [each for each in rows.table().splitlines() if start in each]
        assert (named, len(lines)) == ([count], 1)
        assert lines[0].split()[-1] == str(count)


def test_a_loader_has_a_row__also_with_workers(snippet):
    test_a_loader_has_a_row(snippet, 1)


@edits(
    ("in DataLoader(days, batch_size=16):", "in days.split(16):"),
    (
        "with profile() as profiler:\n    for batch in DataLoader(",
        "loader = [*DataLoader(days, batch_size=16)]\n"
        "with profile() as profiler:\n    for batch in loader or DataLoader(",
    ),
)
def test_a_loader_has_a_row__but_not(snippet, fails, old, new):
    """Batches that no `DataLoader` makes, or that it has made before, are not
    waited for.
    """
    fails(test_a_loader_has_a_row, snippet.edit(old, new))


# How it works


def test_these_lines_are_key_averages(snippet, name="a"):
    run = after(of_days(snippet, 4), *FIXED, "by-hand")
    label = run.record_function
    options = {"record_shapes": True, "profile_memory": True}
    with run.profile(**options) as nested, label(name):
        with label("b"), label(name):
            torch.ones(2)
        torch.ones(3).add(1)
    fast = run.profiled(run.train_step, run.at_once)
    for profiler in (run.slow, fast, nested):
        rows = run.rows_of(profiler.events())
        real = {
            row.key: (row.count, row.self_cpu_time_total, row.cpu_time_total)
            for row in profiler.key_averages()
        }
        assert [*rows] == [*real]
        for key, expected in real.items():
            assert rows[key] == pytest.approx(expected, abs=0.01)


@edits(
    ("line 1", "event.time_range.elapsed_us()  # 1", "0  # 1"),
    ("line 2", "own -= child", "own += child"),
    ("line 3", "count + 1, self_cpu + own", "count + 1, own"),
    ("the total", "cpu_total + total  # 3", "total  # 3"),
)
def test_these_lines_are_key_averages__but_not(snippet, fails, old, new):
    """If a child's time is not taken away, an event has it twice; the other
    edits lose a time.
    """
    fails(test_these_lines_are_key_averages, snippet.edit(old, new))


def test_these_lines_are_key_averages__ends_with_a_name_of_an_operation(
    snippet, fails
):
    """If you call a part `aten::add`: the table keeps it apart from the
    operation.
    """
    fails(test_these_lines_are_key_averages, snippet, "aten::add")


def test_these_lines_are_key_averages__also_as_counted_and_drawn(snippet):
    run = after(of_days(snippet, 4), *PROFILED, "in-parts", "at-once")
    for profiler in (run.slow, run.fast):
        for name, bars in run.operations(profiler).items():
            part = next(e for e in profiler.events() if e.name == name)
            begin, end = part.time_range.start, part.time_range.end
            inside = [
                each
                for each in profiler.events()
                if each.name.startswith("aten::")
                and begin <= each.time_range.start
                and each.time_range.end <= end
            ]
            assert len(bars) == len(inside)
            assert sum(width for depth, width in bars if not depth) == len(
                bars
            )
            assert sum(depth for depth, _ in bars) == sum(
                width - 1 for _, width in bars
            )


def test_these_lines_are_key_averages__also_in_the_exercise(snippet):
    cells = (*PROFILED, "shares", "shares-checked")
    run = after(of_days(snippet, 4), *cells)
    assert run.shown == {"read": 0.25, "train": 0.75}
    shown = run.shares(run.slow, NAMES)
    assert [*shown] == NAMES
    assert sum(shown.values()) == pytest.approx(1)
    for old, wrong in (
        ("row.key: row.cpu_time_total", "row.key: row.self_cpu_time_total"),
        ("        if row.key in names\n", ""),
        ("/ whole for", "/ 1 for"),
    ):
        stopped = after(of_days(snippet, 4).edit(old, wrong), *cells)
        assert stopped.shown != run.shown


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

    @torch.no_grad()
    def far():
        pass
        torch.ones(1).item()

    options = {"with_stack": True, "experimental_config": run.verbose}
    with run.profile(**options) as profiler:
        far()
    first = far.__wrapped__.__code__.co_firstlineno
    assert linecache.getline(__file__, first).strip() == "@torch.no_grad()"
    [row] = [
        row
        for row in profiler.key_averages(group_by_stack_n=3)
        if row.key == "aten::item"
    ]
    frames = [each.rpartition("(")[2] for each in row.stack]
    assert f"{first + further}): far" in frames


def test_a_frame_names_its_def__but_not_the_line_of_the_call(snippet, fails):
    """The call is three lines below the decorator, but the frame does not name
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
        "verbose) as profiler:\n    train_step(by_row)",
        "verbose) as profiler:\n    train_step(lambda days: days)",
    ),
    ("day.max().item()", "day.max().item() * model[0].weight.sum()"),
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
        assert [row.stack for row in rows if row.stack] == []
    events = run.profiler.events()
    assert [each.stack for each in events if each.stack] == []


def test_stacks_need_verbose__but_not_with_verbose(snippet, fails):
    """With `verbose=True` as well, the stacks are filled."""
    edited = snippet.edit(
        "with profile(with_stack=True) as",
        "with profile(with_stack=True, experimental_config="
        "torch._C._profiler._ExperimentalConfig(verbose=True)) as",
    )
    fails(test_stacks_need_verbose, edited)


NO_STEP = (*FIXED, "no-step")
# The error had no text before torch 2.10.
HAS_TEXT = not older(torch.__version__, "2.10")
SAID = "Profiler must be initialized before getting key averages" * HAS_TEXT


def test_without_step_nothing_is_recorded(snippet, plans=((1, 0), (3, 2))):
    run = after(of_days(snippet, 4), *NO_STEP)
    for wait, calls in plans:
        plan = run.schedule(wait=wait, warmup=1, active=3)
        with run.profile(schedule=plan) as profiler:
            for number in range(9):
                run.train_step(run.at_once)
                if number < calls:
                    profiler.step()
        for each in (profiler, run.profiler):
            with pytest.raises(AssertionError) as caught:
                each.key_averages()
            assert str(caught.value) == SAID


@pytest.mark.parametrize("wait", [0, 3], ids="after a wait of {}".format)
def test_without_step_nothing_is_recorded__ends(snippet, fails, wait):
    """Once the profiler warms up, or if it needs no wait: without further
    calls of `step()`, the table is empty, and no error tells you.
    """
    plans = [(wait, wait)]
    fails(test_without_step_nothing_is_recorded, snippet, plans)


@edits(
    ("active=3)\nwith profile(schedule=plan)", "active=3)\nwith profile()"),
    (
        "range(5):\n        train_step(at_once)\n",
        "range(5):\n        train_step(at_once); profiler.step()\n",
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
    found = []
    options = {"on_trace_ready": lambda each: found.append(counted(each))}
    for repeat, kept, saved in (
        (0, False, [2, 2, 1]),
        (2, False, [2, 2]),
        (1, False, [2]),
        (0, True, [2, 4, 5]),
    ):
        plan = run.schedule(wait=0, warmup=1, active=2, repeat=repeat)
        found.clear()
        with run.profile(
            schedule=plan, acc_events=kept, **options
        ) as profiler:
            for _ in range(8):
                run.train_step(run.at_once)
                profiler.step()
        assert [each["scale"] for each in found] == saved
        assert counted(profiler) == found[-1]


@edits(
    ("in a longer cycle", "active=3), {}", "active=6), {}"),
    (
        "all cycles kept",
        "(schedule=plan) as profiler:\n            for",
        "(schedule=plan, acc_events=True) as profiler:\n            for",
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
def test_a_trace_is_saved_once(snippet, missing="", handler=None):
    run = after(of_days(snippet, 4), *PROFILED)
    with run.profile(on_trace_ready=handler) as whole:
        run.train_step(run.by_row)
    with run.profile() as python:
        run.train_step(run.by_row)
    with tempfile.TemporaryDirectory() as folder, no_error():
        python.export_chrome_trace(str(Path(folder, "a.json")), True)
    for profiler in (run.profiled(run.train_step, run.by_row), whole, python):
        with tempfile.TemporaryDirectory() as folder:
            first = Path(folder, missing, "a.json")
            second = Path(folder, "b.json")
            with no_error():
                profiler.export_chrome_trace(str(first))
            with pytest.raises(RuntimeError, match="already saved"):
                profiler.export_chrome_trace(str(second))
            assert (first.exists(), second.exists()) == (True, False)
            assert json.loads(first.read_text())["traceEvents"]
            with no_error():
                for _ in range(2):
                    profiler.export_chrome_trace(str(second), True)
            assert json.loads(second.read_text())["traceEvents"]


def test_a_trace_is_saved_once__ends_in_a_missing_folder(snippet, fails):
    """In a folder that does not exist: nothing is saved, no error says so, and
    yet a second call raises one.
    """
    fails(test_a_trace_is_saved_once, snippet, "missing")


def test_a_trace_is_saved_once__ends_with_a_handler(snippet, fails, tmp_path):
    """With `on_trace_ready=tensorboard_trace_handler(folder)`: it saves the
    trace, so your first call raises the error.
    """
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path))
    fails(test_a_trace_is_saved_once, snippet, "", handler)


def test_a_trace_is_saved_once__also_in_what_the_page_prints(snippet, capsys):
    after(of_days(snippet, 5), *PROFILED, "in-parts", "trace", "saved-twice")

    assert "Trace is already saved" in capsys.readouterr().out


def test_a_trace_is_saved_once__but_not_if_kept(snippet, fails):
    """An `export_chrome_trace` that writes a kept text instead raises no error
    the second time.
    """
    edited = snippet.edit(
        "    return profiler\n",
        "    kept = '{\"traceEvents\": [1]}'\n"
        "    import pathlib\n"
        "    write = lambda path: pathlib.Path(path).write_text(kept)\n"
        "    profiler.export_chrome_trace = write\n    return profiler\n",
    )
    fails(test_a_trace_is_saved_once, edited)


@pytest.mark.simulates("an accelerator")
def test_a_part_waits(snippet, monkeypatch):
    run = after(snippet, "imports", "waits", "part")
    waits, order = [], []
    accelerator = torch.accelerator
    monkeypatch.setattr(accelerator, "is_available", lambda: True)
    monkeypatch.setattr(accelerator, "synchronize", lambda: waits.append(1))

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
    ("yield\n        wait_for_device()", "yield"),
    ("yield\n        wait_for_device()", "wait_for_device()\n        yield"),
    ("yield\n        wait_for_device()", "yield\n    wait_for_device()"),
)
def test_a_part_waits__but_not(snippet, monkeypatch, fails, old, new):
    """Without `wait_for_device()`, or with it before or after the part, the
    part ends without waiting.
    """
    fails(test_a_part_waits, snippet.edit(old, new), monkeypatch)


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
    ("float(word) for", "torch.tensor(float(word)).item() for"),
    ('record_function("read")', 'record_function("parse")'),
)
def test_python_alone_has_no_row__but_not(snippet, fails, old, new):
    """`torch.tensor()` calls operations, which have rows in the table; a part
    of another name leaves no row `read`.
    """
    fails(test_python_alone_has_no_row, snippet.edit(old, new))
