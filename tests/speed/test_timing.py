"""The claims of docs/speed/timing.md."""

import importlib.util
import statistics
import time

import pytest
import torch
from torch.utils import benchmark

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older, true_since
from extensions.programs.snippet import after
from tests.helpers import worlds

COMPARE = ("imports", "compare", "pretended-clock")
THREADS = ("imports", "threads")


# Do this


def test_one_thread_unless_told(snippet):
    before = torch.get_num_threads()
    try:
        for program in (1, 2, 3):
            torch.set_num_threads(program)
            run = snippet.only(*THREADS).after("threads")

            assert (run.alone, set(run.seen)) == ({1}, {2})
            run.seen.clear()
            timer = run.Timer("see()", globals=run.see)
            timer.blocked_autorange(min_run_time=1e-6)
            assert set(run.seen) == {1}
            with pytest.raises(ZeroDivisionError):  # also after an error
                run.Timer("1 / 0", num_threads=2).timeit(1)
            assert torch.get_num_threads() == program
    finally:
        torch.set_num_threads(before)


def test_one_thread_unless_told__also_by_compare(snippet):
    run, seen = after(snippet, *COMPARE), []
    see = {"see": lambda: seen.append(torch.get_num_threads())}
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        ways = dict.fromkeys("ab", "see()")
        two = run.compare(ways, 3, 1e-6, globals=see)
        assert min(len(each.times) for each in two.values()) >= 3
        run.compare(ways, 1, 1e-6, globals=see, num_threads=9)
        assert set(seen) == {before + 1, 9}
        first = snippet.only("imports", "timer").after("timer").measurement
        assert first.num_threads == before + 1
    finally:
        torch.set_num_threads(before)


@edits(
    (
        'Timer("see()", globals=see).',
        "Timer('see()', num_threads=3, globals=see).",
    ),
    ('Timer("see()", num_threads=2, ', 'Timer("see()", num_threads=1, '),
    ("seen.clear()\nTimer", "seen.clear()\ntorch.set_num_threads(5)\nTimer"),
)
def test_one_thread_unless_told__but_not(snippet, fails, old, new):
    """With `num_threads=3`, the first `Timer` uses three threads; with 1, the
    second uses one; your own `set_num_threads(5)` stays.
    """
    fails(test_one_thread_unless_told, snippet.edit(old, new))


# How it works

BY_HAND = ("imports", "by-hand", "pretended-clock")


def test_these_lines_are_blocked_autorange(
    snippet, amount=0.00003, seconds=0.2, pace=lambda now: 1.0, reading=0.0
):
    run = after(snippet, *BY_HAND)

    class Measured(run.Clock):
        """A clock, and work that is slow when `setup` has just run."""

        fresh = False

        def __call__(self):
            self.now += reading
            return self.now

        def setup(self):
            self.fresh = True

        def step(self):
            self.work(amount * (3 if self.fresh else 1))
            self.fresh = False

    clock, again = Measured(pace), Measured(pace)
    names = {"clock": clock}
    timer = benchmark.Timer(
        "clock.step()", "clock.setup()", timer=clock, globals=names
    )
    real = timer.blocked_autorange(min_run_time=seconds)
    times = run.measure(again.step, again, again.setup, seconds)

    assert len(times) == len(real.times)
    assert times == real.times
    assert statistics.median(times) == pytest.approx(real.median)


@pytest.mark.parametrize(
    ("amount", "seconds"),
    [(1.1e-6, 0.2), (0.0007, 0.2), (7.0, 0.2), (0.0003, 0.05), (0.1, 1)],
)
def test_these_lines_are_blocked_autorange__also_with(
    snippet, amount, seconds
):
    test_these_lines_are_blocked_autorange(snippet, amount, seconds)


PACES = {
    "stalls once": lambda now: 300.0 if 0.05 <= now < 0.051 else 1.0,
    "slows down": lambda now: 1 + now,
    "jitters": lambda now: 1.0 + int(1e6 * now) % 3,
}


@worlds.each("pace", PACES)
def test_these_lines_are_blocked_autorange__also_if_the_machine(snippet, pace):
    test_these_lines_are_blocked_autorange(snippet, pace=pace)


def test_these_lines_are_blocked_autorange__also_as_the_page_prints(snippet):
    run = snippet.only(*BY_HAND, "blocks", "stall").after("stall")
    assert run.times == run.real.times
    assert (len(run.times), run.real.number_per_run) == (667, 10)
    blocks = sorted(run.stalled.raw_times)
    assert blocks == pytest.approx([*[0.01] * 49, 3])


@edits(
    ("without line 1", "        setup()  # 1\n", ""),
    ("a thousandth", "min_run_time / 1000:", "min_run_time / 10:"),
    ("tenfold", "number *= 10", "number *= 2"),
    ("line 5", "while total < min_run_time:", "for _ in range(5):"),
    ("line 6", "each / number for", "each for"),
)
def test_these_lines_are_blocked_autorange__but_not(snippet, fails, old, new):
    """Without a `setup` before each block, the slow repetition is missing;
    the other edits change blocks, their number, or the division.
    """
    fails(test_these_lines_are_blocked_autorange, snippet.edit(old, new))


@pytest.mark.parametrize(
    ("amount", "seconds", "reading"),
    [(0.00003, 0.2, 1e-6), (1.1e-6, 0.0005, 0.0)],
    ids=["if reading the clock takes time", "in half a millisecond"],
)
def test_these_lines_are_blocked_autorange__ends(
    snippet, fails, amount, seconds, reading
):
    """If reading the clock takes time, or for less than a hundredth of a
    second in all: the real one makes longer blocks.
    """
    inputs = (amount, seconds, lambda now: 1.0, reading)
    fails(test_these_lines_are_blocked_autorange, snippet, *inputs)


def load_again(monkeypatch):
    """Load `Timer` where there seems to be an accelerator.

    Before torch 2.13, it looked for one as it was loaded.
    """
    name = "torch.utils.benchmark.utils.timer"
    spec = importlib.util.find_spec(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(benchmark, "Timer", module.Timer)


@pytest.mark.simulates("an accelerator")
@true_since("2.9", "it waited for those that it knew by name")
def test_timer_waits_for_the_device(snippet, monkeypatch, other=None):
    """No cell decides it: `Timer` itself synchronizes."""
    options = {} if other is None else {"timer": other}
    waits, waited = [], []
    accelerator = torch.accelerator
    monkeypatch.setattr(accelerator, "is_available", lambda: True)
    monkeypatch.setattr(accelerator, "synchronize", lambda: waits.append(1))
    clock = time.perf_counter

    def reading():
        waited.append(len(waits))
        return clock()

    monkeypatch.setattr("timeit.default_timer", reading)
    if older(torch.__version__, "2.13"):
        load_again(monkeypatch)
    timer = after(snippet, "imports").Timer("pass", **options)
    timer.timeit(10)
    timer.blocked_autorange(min_run_time=1e-6)

    assert len(waits) >= 4
    # each reading has a synchronize of its own before it
    assert waited == list(range(1, len(waits) + 1))


def test_timer_waits_for_the_device__ends_with_another_clock(
    snippet, monkeypatch, fails
):
    """With a clock passed as `timer=`: it never synchronizes."""
    other = time.perf_counter
    fails(test_timer_waits_for_the_device, snippet, monkeypatch, other)


# What goes wrong


@pytest.mark.cuda
def test_a_launch_is_not_the_work(snippet):
    run = snippet.only("imports", "asynchronous").after("asynchronous")

    finished = torch.cuda.current_stream().query()
    assert (run.busy, finished) == (True, True)


@pytest.mark.cuda
def test_a_launch_is_not_the_work__but_synchronized_it_is(snippet, fails):
    """With this edit, the program synchronizes before the first reading, not
    only after it.
    """
    wait = "    torch.cuda.synchronize()\n    launched"
    fails(test_a_launch_is_not_the_work, snippet.edit("    launched", wait))


EVENTS = ("imports", "asynchronous", "events")


@pytest.mark.cuda
def test_events_happen_on_the_device(snippet):
    run = snippet.only(*EVENTS).after("events")

    assert (run.ended_at_once, run.end.query()) == (False, True)
    # the same work, between two readings that wait for it
    assert run.milliseconds == pytest.approx(1000 * run.finished, rel=0.5)


@pytest.mark.cuda
@edits(
    ("    ended_at_", "    torch.cuda.synchronize()\n    ended_at_"),
    ("begin.elapsed_time(end)", "1000 * launched"),
)
def test_events_happen_on_the_device__but_not(snippet, fails, old, new):
    """Asked after a `synchronize`, the event has happened; and the launches
    take less time than the device.
    """
    fails(test_events_happen_on_the_device, snippet.edit(old, new))


FIRST = ("imports", "pretended-clock", "first-call")


def test_the_first_call_is_left_out(snippet, first=1.0, setup="pass", slow=1):
    if first != 1.0:
        snippet = snippet.edit("ready else 1.0)", f"ready else {first})")
    if slow != 1:
        snippet = snippet.edit("self.ready else", f"self.ready >= {slow} else")
        snippet = snippet.edit("self.ready = True", "self.ready += 1")
    run = after(snippet, *FIRST)
    clock = run.Clock()
    run.Model(clock)()
    assert clock.now == first

    found = [run.cold.times, run.warm.times]
    for number in (1, 10, 1000):
        clock = run.Clock()
        model = {"model": run.Model(clock)}
        options = {"timer": clock, "globals": model}
        timer = run.Timer("model()", setup, **options)
        found.append(timer.timeit(number).times)

    for times in found:
        assert times == pytest.approx([0.00001] * len(times))
    # a slow call has filled the first block, but no later one
    assert [run.cold.number_per_run, run.warm.number_per_run] == [1, 100]


def test_the_first_call_is_left_out__ends_if_the_second_is_slow_too(
    snippet, fails
):
    """If the second call is slow, too: where the first one fills a block,
    nothing else warms up.
    """
    fails(test_the_first_call_is_left_out, snippet, 1.0, "pass", 2)


def test_the_first_call_is_left_out__ends_if_setup_makes_the_model_anew(
    snippet, fails
):
    """With a `setup` that makes the model slow again: it runs before each
    block, so each has a slow call.
    """
    setup = "model.ready = False"
    fails(test_the_first_call_is_left_out, snippet, 1.0, setup)


@pytest.mark.parametrize(
    "first", [0.05, 100.0], ids=["50 milliseconds", "100 seconds"]
)
def test_the_first_call_is_left_out__also_if_it_takes(snippet, first):
    test_the_first_call_is_left_out(snippet, first)


@edits(
    (
        "no warm-up",
        "timer.blocked_autorange() for _",
        "Measurement(1, [timer._timeit(1)], timer._task_spec) for _",
    ),
    ("each call", "self.ready = True\n\n\nclock", "pass\n\n\nclock"),
)
def test_the_first_call_is_left_out__but_not(snippet, fails, old, new):
    """A single run without a warm-up has the slow call; and if every call is
    slow, no warm-up helps.
    """
    fails(test_the_first_call_is_left_out, snippet.edit(old, new))


SETUP = ("imports", "setup-wrong")


def test_setup_runs_per_block(snippet):
    run = after(snippet, *SETUP)
    # one block of two repetitions that warm up, and one of a hundred
    changed = ["unsorted", "sorted", "unsorted", *["sorted"] * 99]
    assert run.met[:102] == changed

    blocks = []
    timer = run.Timer("b[-1] += 1", "b.append(0)", globals={"b": blocks})
    for number, warm in ((1, 2), (7, 2), (1000, 10)):
        blocks.clear()
        timer.timeit(number)
        assert blocks == [warm, number]
    blocks.clear()
    found = timer.blocked_autorange(min_run_time=1e-6)
    last = len(found.times)
    assert blocks[-last:] == [found.number_per_run] * last

    # each repetition on a copy of its own
    right = after(snippet, *SETUP, "setup-right")
    assert right.met == ["unsorted"] * 102


def test_globals_are_yours(snippet, anew=False):
    run = after(snippet, *SETUP)
    prices, model = [3, 1, 2], torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.detach().clone()

    def train_step(model):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    names = {"prices": prices, "train_step": train_step, "model": model}
    timer = run.Timer("prices.sort()", globals=names)
    if anew:
        names["prices"] = prices = [6, 5, 4]
    timer.timeit(1)
    run.Timer("train_step(model)", globals=names).timeit(10)
    assert prices == sorted(prices)
    # two steps that warm up, and ten
    torch.testing.assert_close(model.weight, before - 12 * 0.1)
    names = {"model": model}
    timer = run.Timer("model.weight.data.zero_()", globals=names)
    timer.blocked_autorange(min_run_time=1e-6)
    assert not model.weight.any()


@edits(
    (
        "a Timer that copies",
        "from torch.utils.benchmark import Measurement, Timer",
        "from copy import deepcopy\nfrom torch.utils import benchmark\n\n\n"
        "def Timer(*a, globals, **b):\n"
        "    names = {k: deepcopy(v) for k, v in globals.items()}\n"
        "    return benchmark.Timer(*a, globals=names, **b)\n",
    ),
)
def test_globals_are_yours__but_not(snippet, fails, old, new):
    """A `Timer` that copies its `globals` sorts the copy, and your list stays
    as it was.
    """
    fails(test_globals_are_yours, snippet.edit(old, new))


def test_globals_are_yours__ends_with_a_name_assigned_anew(snippet, fails):
    """If you assign a new object to a name after you have made the `Timer`: it
    keeps the first one.
    """
    fails(test_globals_are_yours, snippet, True)


@edits(
    (
        "before each repetition",
        '"sort_in_place(prices)", "prices = [3, 1, 2]",',
        '"prices = [3, 1, 2]; sort_in_place(prices)",',
    ),
    ("nothing changed", "    prices.sort()\n", "    sorted(prices)\n"),
)
def test_setup_runs_per_block__but_not(snippet, fails, old, new):
    """Assigned in the statement, the list is new in each repetition; with
    `sorted(prices)`, it never changes.
    """
    fails(test_setup_runs_per_block, snippet.edit(old, new))


def test_setup_runs_per_block__but_not_on_a_copy(snippet, fails):
    """The statement sorts a copy, so it never meets a sorted list."""
    edited = snippet.edit(
        '"sort_in_place(prices)", "prices',
        '"sort_in_place([*prices])", "prices',
    )
    fails(test_setup_runs_per_block, edited)


GLOBALS = ("imports", "globals")


def test_the_statement_sees_its_globals(snippet):
    run = after(snippet, *GLOBALS)
    y = 2  # which a statement does not see

    with pytest.raises(NameError, match="'y'"):
        run.Timer("x + y", globals={"x": 1}).timeit(1)
    with no_error():
        run.Timer("x + y", globals={"x": 1, "y": y}).timeit(1)
        run.Timer("x + y", "y = 2", globals={"x": 1}).timeit(1)
        run.Timer("torch.ones(len('a'))").timeit(1)
        names = {**globals(), **locals()}
        run.Timer("pytest, y", globals=names).timeit(1)


@edits(
    ("torch.utils.benchmark import Measurement, Timer", "timeit import Timer"),
    (
        "from torch.utils.benchmark import Measurement, Timer",
        "from torch.utils import benchmark\n\n\n"
        "def Timer(*a, globals=None, **b):\n"
        "    names = {'x': 1, 'y': 2, **(globals or {})}\n"
        "    return benchmark.Timer(*a, globals=names, **b)\n",
    ),
)
def test_the_statement_sees_its_globals__but_not(snippet, fails, old, new):
    """Python's own `Timer` does not know `torch`; one that also passes `y`
    raises no error.
    """
    fails(test_the_statement_sees_its_globals, snippet.edit(old, new))


ASSIGN = ("imports", "assign")


def test_a_statement_cannot_assign(snippet, first=""):
    run = after(snippet, *ASSIGN)
    for statement in ("x += 1", "x = x + 1", "x *= 2", "print(x); x = 3"):
        for x in (1, 2.5, torch.ones(2)):
            for lines in ([first + statement], ["pass", first + statement]):
                with pytest.raises(UnboundLocalError, match="'x'"):
                    run.Timer(*lines, globals={"x": x}).timeit(1)
    with no_error():
        run.Timer("x += 1", "x = 1", globals={"x": 1}).timeit(1)
        run.Timer("x = 1", globals={"x": 1}).timeit(1)
        run.Timer("y = x + 1", globals={"x": 1}).timeit(1)
        run.Timer("x = 3; y = x + 1", globals={"x": 1}).timeit(1)
        run.Timer(
            "y += 1; x.add_(1)", "y = x", globals={"x": torch.ones(2)}
        ).timeit(1)


@edits(
    (
        "a Timer that declares its names",
        "from torch.utils.benchmark import Measurement, Timer",
        "from torch.utils import benchmark\n\n\n"
        "def Timer(stmt, setup='pass', **b):\n"
        "    return benchmark.Timer(stmt, f'global x\\n{setup}', **b)\n",
    ),
)
def test_a_statement_cannot_assign__but_not(snippet, fails, old, new):
    """A `Timer` that puts `global x` before both lets them assign `x`."""
    fails(test_a_statement_cannot_assign, snippet.edit(old, new))


def test_a_statement_cannot_assign__ends_if_it_declares_global(snippet, fails):
    """With `global x` in the statement: it may then assign the name."""
    fails(test_a_statement_cannot_assign, snippet, "global x; ")


DRIFT = ("imports", "compare", "pretended-clock", "drift")
SLOWING = (
    lambda now: 1 + now / 4,
    lambda now: 1 + now,
    lambda now: 1 + now / 50,
    lambda now: 1 + 4.9 * now,
    lambda now: 1.2**now,
)


@pytest.mark.simulates("a machine that slows down")
def test_turns_lessen_the_drift(snippet, paces=SLOWING):
    run = after(snippet, *DRIFT)
    assert run.same_twice(1, 2.0) == run.same_twice(1, 2.0, SLOWING[0])
    for pace in paces:
        one_after_the_other = run.same_twice(1, 2.0, pace)
        in_turn = run.same_twice(10, 0.2, pace)

        assert one_after_the_other > 1
        assert abs(in_turn - 1) < abs(one_after_the_other - 1) / 2


def test_turns_lessen_the_drift__ends_if_it_slows_down_to_half_in_a_turn(
    snippet, fails
):
    """On a machine that becomes several times slower within one turn: the
    difference does not shrink.
    """
    fails(test_turns_lessen_the_drift, snippet, [lambda now: 1 + 20 * now])


def test_turns_lessen_the_drift__ends_on_a_steady_machine(snippet, fails):
    """On a steady machine: both measurements are the same."""
    steady = [lambda now: 1]
    fails(test_turns_lessen_the_drift, snippet, steady)


@edits(
    (
        "not in turn",
        "        for _ in range(rounds)\n        for timer in timers\n",
        "        for timer in timers\n        for _ in range(rounds)\n",
    ),
    ("faster and faster", "1 + now / 4", "1 / (1 + now / 4)"),
)
def test_turns_lessen_the_drift__but_not(snippet, fails, old, new):
    """With the loops swapped, there are no turns; on a machine that gets
    faster, the second measurement seems faster.
    """
    fails(test_turns_lessen_the_drift, snippet.edit(old, new))


def test_turns_lessen_the_drift__also_in_the_exercise(snippet):
    cells = ("imports", "verdict", "verdict-checked")
    right = after(snippet, *cells).found
    assert right == [
        "a is faster",
        "b is faster",
        "too close to call",
        "b is faster",
    ]
    for old, wrong in (
        ("first.iqr + second.iqr", "first.iqr"),
        ("first.iqr + second.iqr", "second.iqr"),
        ("lambda m: m.median)\n    if", "lambda m: m.mean)\n    if"),
        ("{first.sub_label}", "a"),
    ):
        assert after(snippet.edit(old, wrong), *cells).found != right
