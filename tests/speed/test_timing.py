"""The claims of docs/speed/timing.md."""

import importlib.util
import itertools
import statistics
import time

import pytest
import torch
from torch.utils import benchmark

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import older, true_since
from extensions.programs.snippet import after

COMPARE = ("imports", "compare", "verdict", "pretended-clock")


# Do this

SHORT = {"rounds": 3, "seconds": 0.02}


def called(run, ways="ab", **options):
    """Compare ways by a clock of their own, and return who was called when."""
    clock, calls = run.Clock(), []

    def work(name):
        calls.append((name, torch.get_num_threads()))
        clock.work(0.01)

    found = run.compare(
        {name: f"work('{name}')" for name in ways},
        timer=clock,
        globals={"work": work},
        **options,
    )
    return found, calls


def test_the_ways_take_turns(snippet, ways="ab", rounds=3, num_threads=None):
    options = {"rounds": rounds, "seconds": 0.02}
    if num_threads is not None:
        options["num_threads"] = num_threads
    run = after(snippet, *COMPARE)
    before = torch.get_num_threads()
    own = 5 if torch.get_num_interop_threads() == 2 else 2
    try:
        torch.set_num_threads(own)
        found, calls = called(run, ways, **options)
    finally:
        torch.set_num_threads(before)

    threads = num_threads or own
    assert {each for _, each in calls} == {threads}
    turns = [name for name, _ in itertools.groupby(calls, lambda c: c[0])]
    assert turns == [*ways] * rounds
    assert list(found) == [*ways]


def test_the_ways_take_turns__also_five_times_unless_told(snippet):
    _, calls = called(after(snippet, *COMPARE), "ab", seconds=0.02)
    turns = [name for name, _ in itertools.groupby(calls, lambda c: c[0])]
    assert turns == ["a", "b"] * 5


@pytest.mark.parametrize(
    "options",
    [
        {"rounds": 1},
        {"rounds": 7},
        {"num_threads": 1},
        {"num_threads": 3},
        {"ways": "cab"},
    ],
    ids=[
        "one round",
        "seven rounds",
        "one thread",
        "three threads",
        "three ways",
    ],
)
def test_the_ways_take_turns__also_with(snippet, options):
    test_the_ways_take_turns(snippet, **options)


@edits(
    (
        "one after the other",
        "        for _ in range(rounds)\n        for timer in timers\n",
        "        for timer in timers\n        for _ in range(rounds)\n",
    ),
    ("in range(rounds)", "in range(5)"),
    ('{"num_threads": torch.get_num_threads(), **options}', "options"),
    ("in ways.items()\n", "in sorted(ways.items(), reverse=True)\n"),
)
def test_the_ways_take_turns__but_not(snippet, fails, old, new):
    """With the loops swapped, each way runs all its rounds before the next;
    the other edits change rounds, threads or order.
    """
    fails(test_the_ways_take_turns, snippet.edit(old, new))


def test_the_ways_take_turns__but_not_on_threads_nobody_set(snippet, fails):
    """Put last, the program's number of threads overrides the `num_threads`
    that you pass.
    """
    edited = snippet.edit(
        '{"num_threads": torch.get_num_threads(), **options}',
        '{**options, "num_threads": torch.get_num_threads()}',
    )
    fails(test_the_ways_take_turns, edited, "ab", 3, 1)


def test_a_way_gets_all_its_rounds(snippet, **options):
    run = after(snippet, *COMPARE)
    options = SHORT | options
    found, calls = called(run, **options)

    for name, each in found.items():
        assert (each.sub_label, each.number_per_run) == (name, 1)
        # two calls take 0.02, and one before them finds the size of a block
        assert len(each.times) >= options["rounds"] * 2
        assert each.times == pytest.approx([0.01] * len(each.times))
        counted = [who for who, _ in calls].count(name) - options["rounds"]
        assert len(each.times) == counted


@pytest.mark.parametrize("rounds", [1, 6], ids=["one round", "six rounds"])
def test_a_way_gets_all_its_rounds__also_with(snippet, rounds):
    test_a_way_gets_all_its_rounds(snippet, rounds=rounds)


@edits(
    ("the last rounds alone", "merge(runs)}", "merge(runs[-2:])}"),
    ("one round a way", "in Measurement.merge(runs)}", "in runs}"),
)
def test_a_way_gets_all_its_rounds__but_not(snippet, fails, old, new):
    """From the last two runs alone, or without `merge`, each way has the times
    of a single round.
    """
    fails(test_a_way_gets_all_its_rounds, snippet.edit(old, new))


def test_a_way_gets_all_its_rounds__also_for_the_ways_of_the_page(snippet):
    run = snippet.only("imports", "compare", "fahrenheit").after("fahrenheit")
    names = {"torch": torch, "celsius": torch.tensor([-40.0, 0, 100])}
    for measurement in run.measured.values():
        found = eval(measurement.stmt, names)
        torch.testing.assert_close(found, torch.tensor([-40.0, 32, 212]))
        assert len(measurement.times) >= 3


def judged(run, **ways):
    """Return the verdict on ways with these times."""
    measured = {
        name: run.Measurement(1, times, run.Timer(sub_label=name)._task_spec)
        for name, times in ways.items()
    }
    return run.verdict(measured)


def test_the_verdict_asks_for_a_gap(snippet):
    run = after(snippet, *COMPARE)
    steady, wide = [4.0] * 5, [4.0, 4, 5, 6, 6]  # with an iqr of 0 and of 2

    assert judged(run, a=steady, b=[5.0] * 5) == "a is faster"
    assert judged(run, b=[5.0] * 5, a=steady) == "a is faster"
    assert judged(run, a=[6.0] * 5, b=steady, c=[9.0] * 5) == "b is faster"
    assert judged(run, a=steady, b=steady) == "too close to call"
    for close in ([6.5] * 5, [7.0] * 5):
        assert judged(run, a=wide, b=close) == "too close to call"
        more = [each + 1.5 for each in wide]
        assert judged(run, a=[4.0] * 5, b=more) != "too close to call"
    assert judged(run, a=wide, b=[7.5] * 5) == "a is faster"
    apart = [each + 3.5 for each in wide]
    assert judged(run, a=wide, b=apart) == "too close to call"
    apart = [each + 4.5 for each in wide]
    assert judged(run, a=wide, b=apart) == "a is faster"
    # of three, the next one counts
    assert judged(run, a=steady, b=steady, c=[9.0] * 5) == "too close to call"
    # one stall is no reason
    assert judged(run, a=steady, b=[3.9, 3.9, 3.9, 3.9, 99]) == "b is faster"


@edits(
    ("<= first.iqr + second.iqr", "<= first.iqr"),
    ("<= first.iqr + second.iqr", "<= second.iqr"),
    ("<= first.iqr + second.iqr", "< 0"),
    ("<= first.iqr + second.iqr", "< first.iqr + second.iqr"),
    ("key=lambda m: m.median)\n    if", "key=lambda m: -m.median)\n    if"),
    ("key=lambda m: m.median)\n    if", "key=lambda m: m.mean)\n    if"),
    ("{first.sub_label} is", "{second.sub_label} is"),
)
def test_the_verdict_asks_for_a_gap__but_not(snippet, fails, old, new):
    """With the `iqr` of one way alone, a small gap already makes a winner; the
    other edits judge wrongly, too.
    """
    fails(test_the_verdict_asks_for_a_gap, snippet.edit(old, new))


def test_one_time_has_no_iqr(snippet, count=1):
    run = after(snippet, *COMPARE)
    for first, second in ((1.0, 1.0001), (2.0, 9.0)):
        times = ([first, 3 * first][:count], [second, 3 * second][:count])
        for each in times:
            assert run.Measurement(1, each, run.Timer()._task_spec).iqr == 0
        assert judged(run, b=times[1], a=times[0]) == "a is faster"


def test_one_time_has_no_iqr__but_not_by_another_rule(snippet, fails):
    """If the rule is a hundredth of the median instead, a small difference no
    longer passes.
    """
    edited = snippet.edit(
        "<= first.iqr + second.iqr:",
        "<= 0.01 * first.median:",
    )
    fails(test_one_time_has_no_iqr, edited)


def test_one_time_has_no_iqr__ends_with_two(snippet, fails):
    """With two different times: the `iqr` is above 0."""
    fails(test_one_time_has_no_iqr, snippet, 2)


# How it works

BLOCKS = ("imports", "pretended-clock", "blocks")


def blocks(snippet, amount, seconds=0.2):
    """Measure a statement that takes so long by the pretended clock."""
    if amount != 0.00005:
        snippet = snippet.edit("work(0.00005)", f"work({amount!r})")
    if seconds != 0.2:
        snippet = snippet.edit(
            "measurement = timer.blocked_autorange(min_run_time=0.2)",
            f"measurement = timer.blocked_autorange(min_run_time={seconds})",
        )
    return after(snippet, *BLOCKS)


def test_the_clock_is_read_around_a_block(
    snippet, measure="blocked_autorange(min_run_time=0.2)", amount=0.00005
):
    """No cell decides it: `Timer` itself reads the clock."""
    run = after(snippet, "imports", "pretended-clock")
    clock, noted = run.Clock(), []

    def read():
        noted.append("read")
        return clock()

    def work():
        noted.append("work")
        clock.work(amount)

    timer = benchmark.Timer("work()", timer=read, globals={"work": work})
    measured = eval(f"timer.{measure}", {"timer": timer})

    runs = [(what, len([*all_])) for what, all_ in itertools.groupby(noted)]
    blocks = [count for what, count in runs if what == "work"]
    number = measured.number_per_run
    assert number > 1
    assert blocks[-len(measured.times) :] == [number] * len(measured.times)
    between = [count for what, count in runs if what == "read"]
    assert between[0] % 2 == between[-1] == 1
    assert between[1:-1] == [2] * (len(blocks) - 1)


@pytest.mark.parametrize(
    ("measure", "amount"),
    [
        ("timeit(20)", 1.0),
        ("blocked_autorange(min_run_time=0.01)", 0.000002),
        ("adaptive_autorange(max_run_time=0.1)", 0.00002),
    ],
    ids=["timeit", "blocked_autorange", "adaptive_autorange"],
)
def test_the_clock_is_read_around_a_block__also_by(snippet, measure, amount):
    test_the_clock_is_read_around_a_block(snippet, measure, amount)


@pytest.mark.parametrize(
    ("measure", "amount"),
    [("timeit(1)", 0.00005), ("blocked_autorange(min_run_time=0.2)", 0.3)],
    ids=["if told to run once", "of a long statement"],
)
def test_the_clock_is_read_around_a_block__ends(
    snippet, measure, amount, fails
):
    """With `timeit(1)`, or for a statement that takes 0.3 seconds: the
    statement is not repeated within a block.
    """
    fails(test_the_clock_is_read_around_a_block, snippet, measure, amount)


def test_autorange_chooses_the_number(snippet):
    numbers = [
        blocks(snippet, amount).measurement.number_per_run
        for amount in (0.00005, 1.1e-5, 1e-3, 1.0, 1.1e-6)
    ]
    assert numbers == [10, 100, 1, 1, 1000]


@edits(
    (
        'blocked_autorange(min_run_time=0.2)\n\nprint("rep',
        'timeit(1)\n\nprint("rep',
    )
)
def test_autorange_chooses_the_number__but_timeit_does_not(
    snippet, fails, old, new
):
    """`timeit(1)` runs the statement once in a block, however short it is."""
    fails(test_autorange_chooses_the_number, snippet.edit(old, new))


def test_autorange_uses_up_its_time(snippet, amount=0.00005, seconds=0.2):
    measurement = blocks(snippet, amount, seconds).measurement
    block = measurement.number_per_run * amount

    spent = sum(measurement.raw_times)
    assert len(measurement.times) >= 1
    assert spent > seconds - block / 100
    assert spent - measurement.raw_times[-1] < seconds + block / 100


@pytest.mark.parametrize(
    ("amount", "seconds"),
    [(0.01, 0.2), (0.003, 0.1), (7.0, 0.2), (0.01, 1e-9)],
    ids=[
        "10 ms in 200 ms",
        "3 ms in 100 ms",
        "7 s in 200 ms",
        "10 ms in a nanosecond",
    ],
)
def test_autorange_uses_up_its_time__also_with(snippet, amount, seconds):
    test_autorange_uses_up_its_time(snippet, amount, seconds)
    if amount > seconds:
        times = blocks(snippet, amount, seconds).measurement.times
        assert len(times) == 1


@edits(
    (
        'blocked_autorange(min_run_time=0.2)\n\nprint("rep',
        'timeit(10)\n\nprint("rep',
    ),
    (
        'min_run_time=0.2)\n\nprint("rep',
        'min_run_time=0.3)\n\nprint("rep',
    ),
)
def test_autorange_uses_up_its_time__but_not(snippet, fails, old, new):
    """`timeit(10)` stops after ten repetitions; `min_run_time=0.3` goes on
    beyond 0.2 seconds.
    """
    fails(test_autorange_uses_up_its_time, snippet.edit(old, new))


PACES = "pace=lambda now: 1.0 + 9 * (now > 0.1) + int(1e6 * now) % 3"


def test_the_median_is_of_the_blocks(snippet):
    edited = snippet.edit("pace=lambda now: 1.0)", f"{PACES})")
    for each in (snippet, edited):
        run = after(each, *BLOCKS)
        raw = run.measurement.raw_times
        number = run.measurement.number_per_run

        assert number > 1
        assert run.measurement.times == [block / number for block in raw]
        middle = statistics.median(block / number for block in raw)
        assert run.measurement.median == pytest.approx(middle)
    assert max(raw) > 2 * min(raw)


def test_the_median_is_of_the_blocks__but_with_a_single_run_in_each(
    snippet, fails
):
    """A statement of 5 milliseconds runs once in each block, so there is
    nothing to divide by.
    """
    edited = snippet.edit("work(0.00005)", "work(0.005)")
    fails(test_the_median_is_of_the_blocks, edited)


QUEUE = ("imports", "queue")


def readings(snippet, works):
    """Return what the clock shows at once, and what after synchronize."""
    if works != [5] * 4:
        snippet = snippet.edit("for _ in range(4):", f"for work in {works}:")
        snippet = snippet.edit("work=5", "work=work")
    run = after(snippet, *QUEUE, "too-early")
    return run.at_once, run.waited_for


def test_a_launch_is_not_the_work_here(snippet):
    for works in ([5] * 4, [50] * 4, [9, 2, 3, 30], [500]):
        at_once, waited_for = readings(snippet, works)

        assert at_once == len(works)
        assert waited_for == 1 + sum(works)
    device = after(snippet, *QUEUE, "too-early").device
    assert device.launches == [(start, 1) for start in range(4)]
    assert device.work == [(start, 5) for start in (1, 6, 11, 16)]
    late = device.__class__()
    late.launch(2)
    late.now = 10
    late.launch(3, launching=4)
    assert (late.launches[1], late.work[1]) == ((10, 4), (14, 3))
    late.now = 30
    late.synchronize()
    assert late.now == 30


def test_a_launch_is_not_the_work_here__but_not_once_synchronized(
    snippet, fails
):
    """If `synchronize()` comes before the first reading, both readings are
    equal.
    """
    edited = snippet.edit(
        "at_once = device.now\n",
        "device.synchronize(); at_once = device.now\n",
    )
    fails(test_a_launch_is_not_the_work_here, edited)


@edits(
    ("self.ready = start + work", "self.ready = self.now = start + work"),
    (
        "max(self.now, self.ready)\n        self.work",
        "self.now\n        self.work",
    ),
    ("self.now = max(self.now, self.ready)", "pass"),
)
def test_a_launch_is_not_the_work_here__but_not(snippet, fails, old, new):
    """If each launch waits for its work, the first reading includes it;
    without a queue or a wait, the second is too early.
    """
    fails(test_a_launch_is_not_the_work_here, snippet.edit(old, new))


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
    edited = snippet.edit(
        "    launched = time",
        "    torch.cuda.synchronize()\n    launched = time",
    )
    fails(test_a_launch_is_not_the_work, edited)


EVENTS = ("imports", "asynchronous", "events")


@pytest.mark.cuda
def test_events_happen_on_the_device(snippet):
    run = snippet.only(*EVENTS).after("events")

    assert (run.ended_at_once, run.end.query()) == (False, True)
    assert run.milliseconds > 0


@pytest.mark.cuda
def test_events_happen_on_the_device__but_not_later(snippet, fails):
    """With this edit, the program synchronizes before it asks whether the
    event has happened.
    """
    edited = snippet.edit(
        "    ended_at_once", "    torch.cuda.synchronize()\n    ended_at_once"
    )
    fails(test_events_happen_on_the_device, edited)


FIRST = ("imports", "pretended-clock", "first-call")


def test_the_first_call_is_left_out(snippet, first=1.0, setup="pass"):
    if first != 1.0:
        snippet = snippet.edit("ready else 1.0)", f"ready else {first})")
    run = after(snippet, *FIRST)
    clock = run.Clock()
    model = run.Model(clock)
    took = [(model(), clock.now)[1] for _ in range(3)]
    assert took == pytest.approx([first, first + 0.01, first + 0.02])

    found = [run.warm.times]
    for number in (1, 10, 1000):
        clock = run.Clock()
        model = {"model": run.Model(clock)}
        options = {"timer": clock, "globals": model}
        timer = run.Timer("model()", setup, **options)
        found.append(timer.timeit(number).times)

    for times in found:
        assert times == pytest.approx([0.01] * len(times))


def test_the_first_call_is_left_out__also_of_what_setup_keeps(snippet):
    run = after(snippet, *FIRST)
    for setup, slow in (
        ("made = model", False),
        ("made = Model(clock)", True),
    ):
        clock = run.Clock()
        names = {"Model": run.Model, "clock": clock, "model": run.Model(clock)}
        timer = run.Timer("made()", setup, timer=clock, globals=names)
        for found in (timer.timeit(10), timer.blocked_autorange(None, 0.2)):
            once = (1 - 0.01) / found.number_per_run if slow else 0
            expected = [0.01 + once] * len(found.times)
            assert found.times == pytest.approx(expected)


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
        "Python's own timer",
        "from torch.utils.benchmark import Measurement, Timer",
        "import timeit\n\n\nclass Timer(timeit.Timer):\n"
        "    blocked_autorange = timeit = lambda self, *_, **__: type(\n"
        "        'Once', (), {'times': [timeit.Timer.timeit(self, 1)]}\n"
        "    )\n",
    ),
    ("each call", "self.ready = True\n\n\nclock", "pass\n\n\nclock"),
)
def test_the_first_call_is_left_out__but_not(snippet, fails, old, new):
    """Python's own `timeit.Timer` does not warm up; and if every call is slow,
    no warm-up helps.
    """
    fails(test_the_first_call_is_left_out, snippet.edit(old, new))


THREADS = ("imports", "threads")


def test_two_runs_warm_up(snippet):
    run = after(snippet, *THREADS)
    for number, before in ((1, 2), (3, 2), (200, 2), (350, 3), (1000, 10)):
        run.seen.clear()
        run.Timer("see()", globals=run.see).timeit(number)
        assert len(run.seen) == before + number


def test_two_runs_warm_up__but_pythons_own_timer_does_not(snippet, fails):
    """Python's own `timeit.Timer` makes no warm-up runs."""
    edited = snippet.edit(
        "from torch.utils.benchmark import Measurement, Timer",
        "import timeit\n\nTimer = lambda *a, globals, **_: timeit.Timer("
        "*a, globals=globals)",
    )
    fails(test_two_runs_warm_up, edited)


SETUP = ("imports", "setup-wrong")


def test_setup_runs_per_block(snippet):
    run = after(snippet, *SETUP)
    # two blocks: one of two repetitions that warm up, and one of a hundred
    changed = ["unsorted", "sorted", "unsorted", *["sorted"] * 99]
    assert run.met[:102] == changed

    for number, block in ((1, 2), (7, 2), (1000, 10)):
        blocks = []
        setup, count = "blocks.append(0)", "blocks[-1] += 1"
        names = {"blocks": blocks}
        run.Timer(count, setup, globals=names).timeit(number)
        assert blocks == [block, number]
    blocks.clear()
    timer = run.Timer(count, setup, globals=names)
    timer.blocked_autorange(min_run_time=1e-6)
    # five blocks without repetitions time the clock itself
    assert blocks[:5] == [0] * 5
    assert all(each >= 1 for each in blocks[5:])
    assert len(blocks) > 6

    # each repetition on a copy of its own
    right = after(snippet, *SETUP, "setup-right")
    assert right.met == ["unsorted"] * 102


def test_globals_are_yours(snippet):
    run = after(snippet, *SETUP)
    prices, model = [3, 1, 2], torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.detach().clone()

    def train_step(model):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    names = {"prices": prices, "train_step": train_step, "model": model}
    run.Timer("prices.sort()", globals=names).timeit(1)
    run.Timer("train_step(model)", globals=names).timeit(10)
    assert prices == [1, 2, 3]
    # two steps that warm up, and ten
    torch.testing.assert_close(model.weight, before - 12 * 0.1)


def test_globals_are_yours__also_in_compare(snippet):
    run = after(snippet, *COMPARE)
    prices, model = [3, 1, 2], torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trained = []

    def train_step(model):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        trained.append(model)

    before = model.weight.detach().clone()
    names = {"prices": prices, "train_step": train_step, "model": model}
    ways = {"sort": "prices.sort()", "train": "train_step(model)"}
    run.compare(ways, rounds=2, seconds=0.001, globals=names)
    assert prices == [1, 2, 3]
    assert all(each is model for each in trained)
    assert (model.weight < before).all()


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


@edits(
    (
        "before each repetition",
        '"sort_in_place(prices)", "prices = [3, 1, 2]",',
        '"prices = [3, 1, 2]; sort_in_place(prices)",',
    ),
    (
        "nothing changed",
        "    prices.sort()\n",
        "    sorted(prices)\n",
    ),
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


def test_one_thread_unless_told(snippet):
    before = torch.get_num_threads()
    try:
        for program in (1, 2, 3):
            torch.set_num_threads(program)
            run = snippet.only(*THREADS).after("threads")

            assert (run.alone, set(run.seen)) == ({1}, {2})
            assert torch.get_num_threads() == program
            run.seen.clear()
            timer = run.Timer("see()", globals=run.see)
            timer.blocked_autorange(min_run_time=1e-6)
            assert set(run.seen) == {1}
            assert torch.get_num_threads() == program
            with pytest.raises(ZeroDivisionError):  # also after an error
                run.Timer("1 / 0", num_threads=2).timeit(1)
            assert torch.get_num_threads() == program
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


@edits(
    (
        "Python's own timer, which knows no torch",
        "from torch.utils.benchmark import Measurement, Timer",
        "from timeit import Timer",
    ),
    (
        "a Timer that sees all",
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


def test_the_statement_sees_its_globals__also_in_what_the_page_prints(
    snippet, capsys
):
    after(snippet, *GLOBALS, "assign")

    said = capsys.readouterr().out
    assert said.index("name 'y' is not defined") < said.index("'x'")


def test_a_statement_cannot_assign(snippet, first=""):
    run = after(snippet, *ASSIGN)
    for statement in ("x += 1", "x = x + 1", "x *= 2", "print(x); x = 3"):
        for x in (1, 2.5, torch.ones(2)):
            with pytest.raises(UnboundLocalError, match="'x'"):
                run.Timer(first + statement, globals={"x": x}).timeit(1)
    with no_error():
        run.Timer("x += 1", "x = 1", globals={"x": 1}).timeit(1)
        run.Timer("x = 1", globals={"x": 1}).timeit(1)
        run.Timer("y = x + 1", globals={"x": 1}).timeit(1)


@edits(
    (
        "a Timer that declares its names",
        "from torch.utils.benchmark import Measurement, Timer",
        "from torch.utils import benchmark\n\n\n"
        "def Timer(stmt, *a, **b):\n"
        "    return benchmark.Timer(f'global x\\n{stmt}', *a, **b)\n",
    ),
)
def test_a_statement_cannot_assign__but_not(snippet, fails, old, new):
    """A `Timer` that puts `global x` before a statement lets it assign `x`."""
    fails(test_a_statement_cannot_assign, snippet.edit(old, new))


def test_a_statement_cannot_assign__ends_if_it_declares_global(snippet, fails):
    """With `global x` in the statement: it may then assign the name."""
    fails(test_a_statement_cannot_assign, snippet, "global x; ")


STALL = ("imports", "pretended-clock", "stall")


def test_the_median_ignores_one_stall(snippet, pace=300.0, amount=0.01):
    if pace != 300.0:
        snippet = snippet.edit("300.0 if", f"{pace} if")
    run = after(snippet, *STALL)
    times = run.stalled.times
    slow = [each for each in times if each > 1.5 * amount]

    assert len(slow) == 1
    assert len(times) > 20
    assert run.stalled.median == pytest.approx(amount)
    assert run.stalled.mean > 1.05 * amount


@pytest.mark.parametrize("factor", [20.0, 1000.0])
def test_the_median_ignores_one_stall__also_if_slower_by_a_factor_of(
    snippet, factor
):
    test_the_median_ignores_one_stall(snippet, factor)


@edits(
    ("300.0 if", "1.0 if"),
    ("300.0 if 0.5 <= now < 0.51", "5.0 if 0.5 <= now"),
)
def test_the_median_ignores_one_stall__but_not(snippet, fails, old, new):
    """Without the stall, no block is slow; if the machine stays slow, more
    than one is.
    """
    fails(test_the_median_ignores_one_stall, snippet.edit(old, new))


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
        clock = run.Clock(pace)
        again = run.compare(
            {"a": "work(0.01)", "b": "work(0.01)"},
            1,
            2.0,
            timer=clock,
            globals={"work": clock.work},
        )
        ratio = again["b"].median / again["a"].median
        assert run.same_twice(1, 2.0, pace) == ratio
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
