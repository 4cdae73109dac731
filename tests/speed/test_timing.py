"""The claims of docs/speed/timing.md."""

import statistics

import pytest
import torch


def test_autorange_chooses_the_number(snippet):
    assert snippet.after("timer").measurement.number_per_run > 1


def test_autorange_chooses_the_number__but_timeit_does_not(snippet, fails):
    edited = snippet.edit(
        "blocked_autorange(\n    min_run_time=0.05\n)", "timeit(1)"
    )
    fails(test_autorange_chooses_the_number, edited)


def blocks(snippet, seconds):
    """Measure a statement that takes so long by a clock of its own."""
    now = [0.0]

    def work():
        now[0] += seconds

    timer = snippet.after("imports").Timer(
        "work()", globals={"work": work}, timer=lambda: now[0]
    )
    return timer.blocked_autorange(min_run_time=0.05)


def test_autorange_uses_up_its_time(snippet, seconds=1e-5):
    measurement = blocks(snippet, seconds)
    spent = measurement.number_per_run * sum(measurement.times)
    assert len(measurement.times) > 1
    assert 0.05 <= spent < 0.06


def test_autorange_uses_up_its_time__but_ends_after_one_long_run(
    snippet, fails
):
    fails(test_autorange_uses_up_its_time, snippet, 1)


def test_the_median_is_of_the_blocks(snippet):
    run = snippet.after("statistics")

    assert run.measurement.median == pytest.approx(run.own_median)


def test_the_median_is_of_the_blocks__but_for_one_repetition(snippet, fails):
    edited = snippet.edit("measurement.times\n", "measurement.raw_times\n")
    fails(test_the_median_is_of_the_blocks, edited)


def test_one_thread_unless_told(snippet):
    run = snippet.after("one-thread")

    assert set(run.seen) == {1}
    assert torch.get_num_threads() == run.before_and_after


def test_one_thread_unless_told__but_not_if_told(snippet, fails):
    edited = snippet.edit(
        'globals={"seen": seen}', 'globals={"seen": seen}, num_threads=2'
    )
    fails(test_one_thread_unless_told, edited)


def test_two_runs_warm_up(snippet):
    assert len(snippet.after("one-thread").seen) == 2 + 3


def test_two_runs_warm_up__but_pythons_own_timer_does_not(snippet, fails):
    edited = (
        snippet.edit("timer = Timer(", "timer = timeit.Timer(")
        .edit("import time\n", "import time\nimport timeit\n")
        .edit('globals={"seen": seen}', "globals=globals()")
    )
    fails(test_two_runs_warm_up, edited)


def test_the_statement_sees_its_globals(snippet, capsys):
    snippet.after("globals")

    assert capsys.readouterr().out.endswith("name 'y' is not defined\n")


def test_the_statement_sees_its_globals__but_only_those(
    snippet, capsys, fails
):
    edited = snippet.edit(
        'Timer("x + y", globals={"x": x})',
        'Timer("x + y", globals={"x": x, "y": x})',
    )
    fails(test_the_statement_sees_its_globals, edited, capsys)


def test_setup_runs_per_block(snippet):
    counts = snippet.after("setup").counts

    assert counts == {"setup": 2, "statement": 2 + 100}


def test_setup_runs_per_block__but_the_statement_each_time(snippet, fails):
    edited = snippet.edit(
        "\"counts['statement'] += 1\"", "\"counts['setup'] += 1\""
    )
    fails(test_setup_runs_per_block, edited)


def test_lazy_layers_are_made_in_the_first_call(snippet):
    run = snippet.after("first-call")

    assert run.parameters_before
    assert not run.parameters_after


def test_lazy_layers_are_made_in_the_first_call__but_not_others(
    snippet, fails
):
    edited = snippet.edit("nn.LazyLinear(8)", "nn.Linear(4, 8)")
    fails(test_lazy_layers_are_made_in_the_first_call, edited)


def test_the_median_ignores_one_bad_run(snippet):
    run = snippet.after("outlier")

    assert statistics.mean(run.steady) == pytest.approx(1)
    assert statistics.mean(run.disturbed) == pytest.approx(5.9)
    assert statistics.median(run.disturbed) == 1


def test_the_median_ignores_one_bad_run__but_not_ten(snippet, fails):
    edited = snippet.edit("[*steady, 50.0]", "[*steady, *10 * [50.0]]")
    fails(test_the_median_ignores_one_bad_run, edited)


def test_taking_turns_halves_the_drift(snippet):
    run = snippet.after("drift")

    assert run.one_after_the_other == pytest.approx(1.6, abs=0.01)
    assert run.in_turn == pytest.approx(1.28)


def test_taking_turns_halves_the_drift__but_not_without_any(snippet, fails):
    edited = snippet.edit("[1.0, 1.2, 1.5, 2.0]", "[1.0, 1.0, 1.0, 1.0]")
    fails(test_taking_turns_halves_the_drift, edited)


@pytest.mark.cuda
def test_a_launch_is_not_the_work(snippet):
    run = snippet.after("asynchronous")

    assert run.still_busy
    assert run.launched < run.finished / 2


@pytest.mark.cuda
def test_a_launch_is_not_the_work__but_synchronized_it_is(snippet, fails):
    edited = snippet.edit(
        "    launched = time",
        "    torch.cuda.synchronize()\n    launched = time",
    )
    fails(test_a_launch_is_not_the_work, edited)


@pytest.mark.cuda
def test_events_happen_on_the_device(snippet):
    run = snippet.after("events")

    assert not run.ended_at_once
    assert run.milliseconds > 0


@pytest.mark.cuda
def test_events_happen_on_the_device__but_not_later(snippet, fails):
    edited = snippet.edit(
        "    ended_at_once", "    torch.cuda.synchronize()\n    ended_at_once"
    )
    fails(test_events_happen_on_the_device, edited)
