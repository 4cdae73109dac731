"""The claims of docs/data/loading.md."""

import functools
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
import types
import warnings
from contextlib import ExitStack, contextmanager
from itertools import chain, islice, pairwise
from multiprocessing import forkserver
from pathlib import Path
from pickle import PicklingError
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    get_worker_info,
    random_split,
)
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from extensions.evidence.counterexamples import edits
from extensions.evidence.versions import older
from tests.helpers import spawns
from tests.helpers.forks import import_once

import_once("numpy.random")  # each worker seeds it

# From Python 3.12 on; a thread may be left from the tests of another module.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:This process .* is multi-threaded:DeprecationWarning"
    ),
    pytest.mark.usefixtures("uncollected"),
]

FORK = {"multiprocessing_context": "fork"}


@pytest.fixture(scope="module", autouse=True)
def with_torch():
    """Let no process import torch again, and end the one that forks."""
    with spawns.with_torch():
        yield
    forkserver._forkserver._stop()


# Ask whether the workers live each moment, not after five seconds.
POLLED = patch.object(
    _MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.1,)
)
FUNCTION = types.FunctionType
RUNS = {}


@contextmanager
def running(main):
    """Let this module be the one that Python was started with."""
    with pytest.MonkeyPatch.context() as patched, POLLED:
        # `patch.dict` empties `sys.modules` for a moment, in which another
        # thread may import `io` once more.
        patched.setitem(sys.modules, "__main__", main)
        yield


def after(snippet, *names, again=False):
    """Run some cells of a snippet without the others, once for all tests."""
    program = snippet.only(*names)
    if again or program not in RUNS:
        while len(RUNS) > 7:
            end(RUNS.pop(next(iter(RUNS))))
        RUNS[program] = program.after(names[-1])
    return RUNS[program]


def end(run):
    """Drop the variables of a run, and with them the workers that stayed."""
    for each in [*vars(run).values()]:
        parts = [each, *vars(each).values()] if type(each) is type else [each]
        for part in parts:
            found = part.__globals__ if isinstance(part, FUNCTION) else {}
            if found.get("__name__") == "__main__":
                found.clear()
    vars(run).clear()


def edited(snippet, *pairs):
    """Return a snippet after several edits."""
    for old, new in pairs:
        snippet = snippet.edit(old, new)
    return snippet


def error_of(call):
    """Return the error of a call, or None, and end the workers it left."""
    try:
        call()
    except Exception as error:
        traceback.clear_frames(error.__traceback__)
        return error
    return None


def flat(lists):
    """Return the members of some lists."""
    return [*chain.from_iterable(lists)]


def many_workers(call, *inputs, **options):
    """Call what may start more workers than there are cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will")
        return call(*inputs, **options)


# What a worker is


class Stream(IterableDataset):
    """The twelve days, one after the other, in each worker."""

    def __iter__(self):
        for day in range(12):
            yield day, get_worker_info().id


RECORD = ("days", "recorded", "record")


def test_workers_take_turns(snippet, workers=2, size=2, factor=None, kind=""):
    run = after(snippet, *RECORD)
    given = run.runs[2][1]
    if (workers, size, factor, kind) != (2, 2, None, ""):
        loader = DataLoader(
            Stream() if kind else run.Days(),
            num_workers=workers,
            batch_size=size,
            prefetch_factor=factor,
            **FORK,
        )
        given = list(loader)

    assert len(given) == -(-12 // size)
    for k, (days, ids) in enumerate(given):
        assert days.tolist() == [*range(12)][k * size : (k + 1) * size]
        assert ids.tolist() == [k % workers] * len(days)


@pytest.mark.parametrize(
    ("workers", "size", "factor"), [(1, 5, None), (3, 2, 3)]
)
def test_workers_take_turns__also_for(snippet, workers, size, factor):
    many_workers(test_workers_take_turns, snippet, workers, size, factor)


def test_workers_take_turns__ends_for_a_stream(snippet, fails):
    """For an `IterableDataset`: each worker reads all of it."""
    fails(test_workers_take_turns, snippet, 2, 2, 1, "stream")


def test_workers_take_turns__also_in_later_epochs(snippet):
    run = after(snippet, *RECORD)
    loader = DataLoader(run.Days(), **run.fork, persistent_workers=True)

    for _ in range(2):
        assert [ids.tolist() for _, ids in loader] == [[0, 0], [1, 1]] * 3


SLOW = [
    (
        "    reads = 0\n",
        "    reads = 0\n    read = torch.zeros(12).share_memory_()\n",
    ),
    (
        "        self.reads += 1\n",
        "        self.reads += 1\n"
        "        self.read[day] = get_worker_info() is not None\n"
        "        import time\n\n"
        "        end = time.monotonic() + 30\n"
        "        while get_worker_info() and not (day or self.read[6]):\n"
        "            time.sleep(0.1)  # until days 2 and 3 were read\n"
        "            if time.monotonic() > end:\n"
        "                break\n",
    ),
]
UNORDERED = [
    ("num_workers=workers, **o", "num_workers=workers, in_order=False, **o"),
    # Worker 0 waits until the main process has days 2 and 3. The run without
    # workers comes first, and says nothing.
    ("        self.read[day] = get_worker_info() is not None\n", ""),
    ("(len(asked)))[0]", "(len(asked)), dataset.read.fill_(workers))[0]"),
]


def test_workers_take_turns__also_if_one_is_slow(snippet):
    test_workers_take_turns(edited(snippet, *SLOW))


def test_workers_take_turns__ends_with_in_order_false(snippet, fails):
    """With `in_order=False`: a batch that is ready overtakes a slow one."""
    fails(test_workers_take_turns, edited(snippet, *SLOW, *UNORDERED))


def test_workers_take_turns__but_not_with_another_sampler(snippet, fails):
    """This sampler repeats the first day of each batch, so other batches come
    back.
    """
    turned = (
        "yield [*range(len",
        "yield [*range(12)][first:first + 1] + [*range(len",
    )
    fails(test_workers_take_turns, edited(snippet, turned))


def test_batches_are_asked_for_ahead(snippet, workers=2, size=2, factor=None):
    run = after(snippet, *RECORD)
    counts = run.runs[2][0]
    if (workers, size, factor) != (2, 2, None):
        days = run.Days()
        counts, _ = run.recorded(days, workers, size, prefetch_factor=factor)

    total, ahead = -(-12 // size), workers * (factor or 2)
    assert counts == [min(total, ahead + k) for k in range(total + 1)]


@pytest.mark.parametrize(("workers", "size", "factor"), [(1, 5, 3), (3, 1, 1)])
def test_batches_are_asked_for_ahead__also_for(snippet, workers, size, factor):
    many_workers(
        test_batches_are_asked_for_ahead, snippet, workers, size, factor
    )


class Marked(Dataset):
    """Twenty samples that note that they were read."""

    def __init__(self):
        self.read = torch.zeros(20).share_memory_()

    def __len__(self):
        return 20

    def __getitem__(self, index):
        self.read[index] = 1
        return index


def test_batches_are_asked_for_ahead__also_in_fact_and_later_epochs():
    loader = DataLoader(
        Marked(),
        num_workers=2,
        prefetch_factor=3,
        persistent_workers=True,
        **FORK,
    )
    for _ in range(2):
        loader.dataset.read.zero_()
        batches = iter(loader)
        wanted = 6
        for _ in range(2):
            end = time.monotonic() + 20
            while loader.dataset.read.sum() < wanted:
                assert time.monotonic() < end
                time.sleep(0.01)
            time.sleep(0.05)  # would more come?
            assert loader.dataset.read.sum() == wanted
            next(batches)
            wanted += 1
        list(batches)


@edits(
    (
        "**options\n    )",
        "prefetch_factor=1 if workers else None, **options\n    )",
    ),
    ("batches = iter(loader)", "batches = iter(list(loader))"),
)
def test_batches_are_asked_for_ahead__but_not(snippet, old, new, fails):
    """`prefetch_factor=1` asks each worker for one batch ahead, and
    `list(loader)` reads everything at once.
    """
    fails(test_batches_are_asked_for_ahead, snippet.edit(old, new))


@functools.cache
def records(program, workers, factor):
    run = after(program, *RECORD)
    options = {"prefetch_factor": factor, "batch_size": 1}
    return many_workers(run.recorded, run.Days(), workers, **options)


def test_too_few_workers_wait_again_and_again(
    snippet, workers=0, loading=3, factor=None
):
    if not workers:  # too few, and enough
        test_too_few_workers_wait_again_and_again(snippet, 2)
        workers, factor = 3, 2
    schedule = after(snippet, "schedule").schedule
    record = after(snippet, *RECORD).runs[2]
    if (workers, factor) != (2, None):
        record = records(snippet.only(*RECORD), workers, factor)
    rows = schedule(*record, loading, 1)
    if loading == 3:
        assert rows == schedule(*record)
    loads, trains, waits = (
        [row for row in rows if row[0] == what]
        for what in ("load", "train", "wait")
    )

    assert len(loads) == len(trains) == len(record[1])
    for _, worker, batch, start, end in loads:
        assert (worker, end - start) == (batch % workers, loading)
        assert trains[batch][3] >= end
    for row, later in pairwise(trains):
        assert (row[1], row[4] - row[3]) == (-1, 1)
        assert later[3] >= row[4]
    every = workers if workers < loading else len(loads)
    assert [row[2] for row in waits] == [*range(0, len(loads), every)]
    for _, process, batch, start, end in waits:
        assert process == -1
        assert start == (trains[batch - 1][4] if batch else 0)
        assert end == loads[batch][4] == trains[batch][3]


@pytest.mark.parametrize(("workers", "factor"), [(1, None), (4, 1)])
def test_too_few_workers_wait_again_and_again__also_for(
    snippet, workers, factor
):
    for loading in (0.5, 1, 2, 2.5, 4, 5, 9):
        test_too_few_workers_wait_again_and_again(
            snippet, workers, loading, factor
        )


@edits(
    ("start + loading\n", "start + loading * (1 + batch % 3)\n"),
    ("handed_over[-1] + step\n", "handed_over[-1] + step * batch\n"),
    ("start = max(asked, ends.get(int(worker), 0))", "start = asked"),
)
def test_too_few_workers_wait_again_and_again__but_not(
    snippet, old, new, fails
):
    """The rule assumes equal loading times and steps, and workers that load
    one batch at a time.
    """
    fails(test_too_few_workers_wait_again_and_again, snippet.edit(old, new))


COPIES = ("days", "copies")


def test_workers_have_copies(snippet, reads=""):
    if reads:
        snippet = edited(
            snippet,
            ("reads = 0", f"reads = {reads}"),
            ("reads += 1", "reads[0] += 1"),
        )
    run = after(snippet, *COPIES, again=True)

    seen = run.days.reads[0] if reads else run.days.reads
    assert (len(run.given), seen) == (6, 0)
    run.days[0]
    assert (run.days.reads[0] if reads else run.days.reads) == 1


@pytest.mark.parametrize("reads", ["torch.zeros(1)", "[0]"])
def test_workers_have_copies__also_of(snippet, reads):
    test_workers_have_copies(snippet, reads)


def test_workers_have_copies__but_the_main_process_has_none(snippet, fails):
    """Without workers, the main process reads the days itself, and counts all
    twelve.
    """
    edited = snippet.edit(
        "DataLoader(days, **fork)", "DataLoader(days, batch_size=2)"
    )
    fails(test_workers_have_copies, edited)


@pytest.mark.parametrize(
    "reads",
    [
        "torch.zeros(1).share_memory_()",
        "torch.from_file('days', True, 1); __import__('os').unlink('days')",
    ],
)
def test_workers_have_copies__ends_in_shared_memory_and_files(
    snippet, reads, fails
):
    """In shared memory, or in a mapped file: the main process sees it."""
    fails(test_workers_have_copies, snippet, reads)


def test_batches_come_in_shared_memory(snippet, options=()):
    run = after(snippet, *COPIES)
    given = run.given
    if options:
        loader = DataLoader(torch.ones(4, 2).to(options[0]), **options[1])
        given = [loader]

    assert all(tensor.is_shared() for batch in given for tensor in batch)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float64])
def test_batches_come_in_shared_memory__also_of(snippet, dtype):
    loaded = {"num_workers": 1, "batch_size": None, **FORK}
    test_batches_come_in_shared_memory(snippet, (dtype, loaded))


def test_batches_come_in_shared_memory__also_of_one_number(snippet):
    after(snippet, *COPIES)
    loader = DataLoader(torch.ones(3), num_workers=1, batch_size=1, **FORK)

    assert all(batch.is_shared() for batch in loader)


def test_batches_come_in_shared_memory__but_not_without_workers(
    snippet, fails
):
    """Without workers, nothing has to be handed over."""
    edited = snippet.edit(
        "DataLoader(days, **fork)", "DataLoader(days, batch_size=2)"
    )
    fails(test_batches_come_in_shared_memory, edited)


def test_batches_come_in_shared_memory__but_no_empty_tensor(snippet, fails):
    """An empty tensor has no memory to share."""
    edited = snippet.edit(
        "return day, worker.id", "return torch.ones(0), worker.id"
    )
    fails(test_batches_come_in_shared_memory, edited)


# Do this


def test_both_loaders_give_each_day_once(snippet):
    run = after(snippet, "days", "do-this", "read-both")
    epochs = [flat(epoch) for epoch in run.trained]

    assert epochs[0] != epochs[1]
    for epoch in epochs:
        assert len(epoch) == 12
        assert {*epoch} == {*range(12)}
        assert epoch != [*range(12)]
    assert {tuple(flat(run.evaluated))} == {(*range(12),)}


def test_both_loaders_give_each_day_once__also_with_another_seed(snippet):
    edited = snippet.edit(
        "    torch.manual_seed(0)\n    training",
        "    torch.manual_seed(1)\n    training",
    )
    test_both_loaders_give_each_day_once(edited)


@edits(
    ("(degrees, shuffle=True, **common)", "(degrees, **common)"),
    ("(degrees, **common)", "(degrees, shuffle=True, **common)"),
    (
        "(degrees, shuffle=True, **common)",
        "(degrees, sampler=torch.randint(12, (12,)), **common)",
    ),
)
def test_both_loaders_give_each_day_once__but_not(snippet, old, new, fails):
    """Without `shuffle`, all epochs have one order; the others shuffle the
    evaluation, or give days more than once.
    """
    fails(test_both_loaders_give_each_day_once, snippet.edit(old, new))


# The arguments

EPOCHS = ("days", "three-epochs", "epochs-seen")


def test_persistent_workers_stay(snippet):
    processes = after(snippet, *EPOCHS).processes

    assert processes == {False: 3, True: 1}


def test_persistent_workers_stay__also_two_of_them(snippet):
    two = ('1, "batch_size": 12', '2, "batch_size": 1')
    run = after(edited(snippet, two, ("range(3)", "range(2)")), *EPOCHS)

    assert len(run.rows) == 24
    assert run.processes == {False: 4, True: 2}


@edits(
    ("persistent_workers=stay", "persistent_workers=True"),
    ("persistent_workers=stay", "persistent_workers=False"),
)
def test_persistent_workers_stay__but_not_otherwise(snippet, old, new, fails):
    """Always `True`, one process serves all epochs; always `False`, each epoch
    starts a new one.
    """
    fails(test_persistent_workers_stay, snippet.edit(old, new))


def test_persistent_workers_are_stale(snippet):
    seen = after(snippet, *EPOCHS).seen

    found = {(stay, *epochs) for stay, epochs in seen.items()}
    assert found == {(False, 0, 1, 2), (True, 0, 0, 0)}


SHARED = [
    ("    epoch = 0\n", "    epoch = torch.zeros(1).share_memory_()\n"),
    ("return self.epoch, os", "return int(self.epoch), os"),
    (
        "for dataset.epoch in range(3):\n",
        "for epoch in range(3):\n        dataset.epoch.fill_(epoch)\n",
    ),
]


def test_persistent_workers_are_stale__also_with_a_tensor(snippet):
    pairs = [(old, new.replace(".share_memory_()", "")) for old, new in SHARED]
    test_persistent_workers_are_stale(edited(snippet, *pairs))


def test_persistent_workers_are_stale__ends_in_shared_memory(snippet, fails):
    """In shared memory: the workers see the change."""
    fails(test_persistent_workers_are_stale, edited(snippet, *SHARED))


def test_persistent_workers_are_stale__but_new_ones_are_not(snippet, fails):
    """New workers are forked in each epoch, and see the dataset as it is
    then.
    """
    edited = snippet.edit(
        "persistent_workers=stay", "persistent_workers=False"
    )
    fails(test_persistent_workers_are_stale, edited)


def test_some_arguments_need_workers(snippet):
    run = after(snippet, "days", "without-workers")

    for name in ("prefetch_factor", "persistent_workers"):
        assert run.texts.get(name, "").startswith("ValueError: ")
        assert f"{name} option" in run.texts[name]
    text = run.texts.get("multiprocessing_context", "")
    assert text.startswith("ValueError: multiprocessing_context can only be")
    text = run.texts.get("timeout", "")
    assert text.startswith("AssertionError: ")
    said = "" if older(torch.__version__, "2.10") else "requires timeout == 0"
    assert text.endswith(said)

    DataLoader(run.Days(), timeout=60)
    for name in set(run.needs) - {"timeout"}:
        with pytest.raises(ValueError, match=name):
            DataLoader(run.Days(), num_workers=0, **{name: run.needs[name]})


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_some_arguments_need_workers__also_for(snippet, start):
    old = 'needs["multiprocessing_context"] = "fork"'
    edited = snippet.edit(old, old.replace("fork", start))
    test_some_arguments_need_workers(edited)


@edits(
    ("**{name: value})", "num_workers=1, **{name: value})"),
    (
        '"persistent_workers": True, "timeout"',
        '"persistent_workers": False, "timeout"',
    ),
    ('{"prefetch_factor": 2', '{"prefetch_factor": None'),
    ('"timeout": 60', '"timeout": 0'),
    (
        '["multiprocessing_context"] = "fork"',
        '["multiprocessing_context"] = None',
    ),
)
def test_some_arguments_need_workers__but_not(snippet, old, new, fails):
    """With a worker, or with the value that stands for "not set", nothing
    raises.
    """
    fails(test_some_arguments_need_workers, snippet.edit(old, new))


class Held(Dataset):
    """Eight samples, the first of which waits until another is given."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.handed_over = torch.zeros(1).share_memory_()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        end = time.monotonic() + self.seconds
        while not (index or self.handed_over):
            time.sleep(0.01)
            if time.monotonic() > end:
                break
        return index


def test_a_ready_batch_does_not_wait(
    workers=2, size=1, in_order=False, seconds=20
):
    """No counter-example can edit the page, which has no cell of this."""
    held, given = Held(seconds), []
    options = {"num_workers": workers, "in_order": in_order, **FORK}
    for batch in DataLoader(held, size, **options):
        given.append(batch.tolist())
        held.handed_over.fill_(1)

    assert sorted(flat(given)) == [*range(8)]
    assert 0 not in given[0]


def test_a_ready_batch_does_not_wait__also_with_three_workers():
    many_workers(test_a_ready_batch_does_not_wait, 3, 2)


@pytest.mark.parametrize(
    ("workers", "in_order"),
    [(2, True), (1, False)],
    ids=["in order", "with one worker"],
)
def test_a_ready_batch_does_not_wait__ends_if(workers, in_order, fails):
    """With `in_order=True`, or with a single worker: a ready batch waits for
    the one before it.
    """
    fails(test_a_ready_batch_does_not_wait, workers, 1, in_order, 0.2)


# How many workers

CORES = ("days", "three-epochs", "without-numbers", "too-many-workers")


def test_more_workers_than_cores_warn(snippet):
    run = after(snippet, *CORES)

    assert len(run.caught) == 1
    text = run.without_numbers(run.caught[0].message)
    assert text.startswith(
        "This DataLoader will create N worker processes in total. Our"
        " suggested max number of worker in current system is N, which is"
    )


def test_more_workers_than_cores_warn__also_if_few_are_allowed():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, [min(allowed)])
        DataLoader(range(3), num_workers=1)
        with pytest.warns(UserWarning, match="suggested max number"):
            DataLoader(range(3), num_workers=2)
    finally:
        os.sched_setaffinity(0, allowed)


def test_more_workers_than_cores_warn__but_not_with_one_worker(snippet, fails):
    """One worker is not more than the cores, so nothing warns."""
    edited = snippet.edit("os.cpu_count() + 1", "1")
    fails(test_more_workers_than_cores_warn, edited)


def test_more_workers_than_cores_warn__but_not_as_many(snippet, fails):
    """As many workers as cores are not too many."""
    edited = snippet.edit("os.cpu_count() + 1", "len(os.sched_getaffinity(0))")
    fails(test_more_workers_than_cores_warn, edited)


class Slow(Dataset):
    """A sample that takes a third of a second."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        time.sleep(0.33)
        return index


def test_slow_batches_time_out(seconds=0.1):
    """No counter-example can edit the page, which has no cell of this."""
    error = raised(Slow(), timeout=seconds)

    assert type(error) is RuntimeError
    assert str(error) == f"DataLoader timed out after {seconds} seconds"


def test_slow_batches_time_out__ends_within_the_timeout(fails):
    """For a batch that comes within the timeout: nothing is raised."""
    fails(test_slow_batches_time_out, 20)


def test_slow_batches_time_out__ends_without_one(fails):
    """With `timeout=0`, the default: the loader waits as long as it takes."""
    fails(test_slow_batches_time_out, 0)


# Random numbers in workers

DRAW = ("days", "three-epochs", "noise", "seed-worker", "draw")
SOURCES = ("torch", "random", "np.random")


def drawn_by(batches, name):
    """Return the numbers of a source: of two workers, in two epochs."""
    assert len(batches) == 4
    return [each[name].tolist() for each in batches]


def test_workers_have_seeds_of_their_own(snippet):
    drawn = after(snippet, *DRAW, "drawn").drawn

    for name in SOURCES:
        assert len(set(flat(drawn_by(drawn, name)))) == 24


def test_workers_have_seeds_of_their_own__also_if_they_stay(snippet):
    run = after(snippet, *DRAW)
    drawn = run.draw(2, persistent_workers=True, shuffle=True)

    for name in SOURCES:
        assert len(set(flat(drawn_by(drawn, name)))) == 24


def test_workers_have_seeds_of_their_own__ends_if_each_epoch_sets_the_seed(
    snippet, fails
):
    """If you set the seed before each epoch: the same numbers come again."""
    old = "for epoch in range(epochs) for batch in loader]"
    new = old.replace(" for batch", " if torch.manual_seed(0) for batch")
    fails(test_workers_have_seeds_of_their_own, snippet.edit(old, new))


@edits(
    ('"random": random.random()', '"random": random.Random(day % 6).random()'),
    ("np.random.random()", "np.random.RandomState(day).random()"),
    ("drawn = draw(2)", "drawn = draw(2, worker_init_fn=torch.manual_seed)"),
)
def test_workers_have_seeds_of_their_own__but_not_if_set(
    snippet, old, new, fails
):
    """With a seed that you set, numbers come again in each worker or each
    epoch.
    """
    fails(test_workers_have_seeds_of_their_own, snippet.edit(old, new))


def test_a_copied_generator_repeats(snippet):
    drawn = after(snippet, *DRAW, "drawn").drawn
    first, *others = drawn_by(drawn, "self.rng")

    assert len(set(first)) == 6
    assert others == [first] * 3
    if "self.rng = np.random.default_rng(0)" in snippet.text:
        rng = np.random.default_rng(0)
        assert first == [rng.random() for _ in range(6)]


@pytest.mark.parametrize("made", ["random.Random()"])
def test_a_copied_generator_repeats__also_of(snippet, made):
    edited = snippet.edit("np.random.default_rng(0)", made)
    test_a_copied_generator_repeats(edited)


def test_a_copied_generator_repeats__ends_if_the_main_process_draws(
    snippet, fails
):
    """If the main process draws from it between epochs: new workers copy what
    comes after.
    """
    old = "epoch in range(epochs) for batch in loader]"
    draws = "(loader.dataset.rng.random(), loader)[1]]"
    new = old.replace("loader]", draws)
    fails(test_a_copied_generator_repeats, snippet.edit(old, new))


def test_a_copied_generator_repeats__ends_after_an_epoch_if_workers_stay(
    snippet, fails
):
    """If the workers stay: in the next epoch, they go on drawing."""
    old = "drawn = draw(2)"
    new = "drawn = draw(2, persistent_workers=True)"
    fails(test_a_copied_generator_repeats, snippet.edit(old, new))


def test_a_copied_generator_repeats__but_not_if_made_anew(snippet, fails):
    """A generator that is made for each sample is no copy."""
    edited = snippet.edit(
        '"self.rng": self.rng.random()}',
        '"self.rng": np.random.default_rng().random()}',
    )
    fails(test_a_copied_generator_repeats, edited)


def test_a_generator_of_the_worker_does_not_repeat(snippet, options=()):
    if options:
        run = after(snippet, *DRAW)
        draw = functools.partial(run.draw, 2, **dict(options))
        seeded = draw(worker_init_fn=run.seed_worker)
    else:
        seeded = after(snippet, *DRAW, "seeded").seeded

    assert len(set(flat(drawn_by(seeded, "self.rng")))) == 24


def test_a_generator_of_the_worker_does_not_repeat__also_from_its_seed(
    snippet,
):
    run = after(snippet, *DRAW)
    info = types.SimpleNamespace(seed=7, dataset=types.SimpleNamespace())
    known = run.seed_worker.__globals__
    with patch.dict(known, get_worker_info=lambda: info):
        run.seed_worker(0)

    assert info.dataset.rng.random() == np.random.default_rng(7).random()


def test_a_generator_of_the_worker_does_not_repeat__also_if_it_stays(snippet):
    test_a_generator_of_the_worker_does_not_repeat(
        snippet, (("persistent_workers", True), ("shuffle", True))
    )


@edits(
    ("default_rng(info.seed)", "default_rng(worker_id)"),
    ("default_rng(info.seed)", "default_rng(info.seed - worker_id)"),
    ("info.dataset.rng =", "info.dataset.other ="),
)
def test_a_generator_of_the_worker_does_not_repeat__but_not(
    snippet, old, new, fails
):
    """The seed must be new in each worker and epoch, and the generator must
    have the name that the dataset uses.
    """
    fails(
        test_a_generator_of_the_worker_does_not_repeat, snippet.edit(old, new)
    )


SIXES = {"batch_size": 6, "num_workers": 2, **FORK}


def test_seed_worker_misses_a_subset(snippet):
    run = after(snippet, *DRAW)

    def seed_the_inner_one(worker_id):
        info = get_worker_info()
        info.dataset.dataset.rng = np.random.default_rng(info.seed)

    [subset] = random_split(run.Noise(), [12])
    for seed in (run.seed_worker, seed_the_inner_one):
        loader = DataLoader(subset, worker_init_fn=seed, **SIXES)
        first, second = (each["self.rng"].tolist() for each in loader)
        missed = seed == run.seed_worker
        assert (first == second) == missed
        assert len({*first, *second}) == (6 if missed else 12)


def test_seed_worker_misses_a_subset__but_not_one_step_deeper(snippet, fails):
    """One step deeper, at `info.dataset.dataset`, it reaches the generator."""
    edited = snippet.edit("info.dataset.rng =", "info.dataset.dataset.rng =")
    fails(test_seed_worker_misses_a_subset, edited)


def test_seed_worker_misses_a_subset__but_not_under_another_name(
    snippet, fails
):
    """Under the name `own`, `seed_worker` misses the generator even without a
    `Subset`.
    """
    edited = snippet.edit("self.rng = np", "self.own = np").edit(
        "self.rng.random()", "self.own.random()"
    )
    fails(test_seed_worker_misses_a_subset, edited)


def numbers_of(batches):
    return [
        {name: numbers.tolist() for name, numbers in batch.items()}
        for batch in batches
    ]


def test_a_generator_repeats_the_run(snippet, epochs=1):
    run = after(snippet, *DRAW, "again")
    first, second = map(numbers_of, run.twice)
    assert first == second

    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    state = torch.get_rng_state()
    third = numbers_of(run.again())
    assert torch.equal(torch.get_rng_state(), state)  # nor seeds it anew
    assert len(first) == 2 * epochs
    assert first == third
    order = flat(batch["day"] for batch in first)
    assert sorted(order[:12]) == [*range(12)] != order[:12]
    assert order[:12] != order[12:]
    assert set(first[0]) == {"day", "self.rng", *SOURCES}


@pytest.mark.parametrize("stay", [False, True])
def test_a_generator_repeats_the_run__also_in_later_epochs(snippet, stay):
    options = f"num_workers=1, persistent_workers={stay},"
    edited = snippet.edit("draw(1,", f"draw(2, {options}")
    test_a_generator_repeats_the_run(edited, 2)


@edits(
    (".manual_seed(1)", ".manual_seed(time.monotonic_ns())"),
    (
        'options = {"generator": generator,',
        "torch.manual_seed(1)\n    options = {",
    ),
    ("draw(1,", "draw(1, num_workers=next(TURNS),"),
    ('"worker_init_fn": seed_worker}', '"worker_init_fn": unseed}'),
)
def test_a_generator_repeats_the_run__but_not(snippet, old, new, fails):
    """Runs repeat with one seed for the loader's generator, as many workers,
    and no other seeding in them.
    """
    start = "# %% again\nimport time\n\nTURNS = iter([2, 1, 2])\n\n"
    start += "def unseed(worker_id):\n    np.random.seed()\n\n"
    edited = snippet.edit("# %% again\n", start).edit(old, new)
    fails(test_a_generator_repeats_the_run, edited)


def test_a_generator_repeats_the_run__ends_with_a_sampler_that_draws(
    snippet, fails
):
    """With a sampler that draws from torch's generator: the loader's own does
    not reach it.
    """
    start = "# %% again\nfrom torch.utils.data import RandomSampler\n\n\n"
    edited = snippet.edit("# %% again\n", start).edit(
        "shuffle=True, **options",
        "sampler=RandomSampler(range(12)), **options",
    )
    fails(test_a_generator_repeats_the_run, edited)


# How workers start


class OfClass(Dataset):
    """A class that has a lambda, which its objects do not hold."""

    functions = (lambda number: 2 * number,)

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.functions[0](index)


def local(given):
    """Be at the top level, in spite of the name."""
    return given


def local_ways():
    """Return what is local in five ways."""

    def local(given):
        return given

    class Local(Dataset):
        __len__, __getitem__ = OfClass.__len__, OfClass.__getitem__
        functions = OfClass.functions

    held = OfClass()
    held.functions = (lambda number: 3 * number,)
    return {
        "collate_fn": (range(2), {"collate_fn": local}),
        "worker_init_fn": (range(2), {"worker_init_fn": local}),
        "lambda of a worker": (range(2), {"worker_init_fn": lambda _: None}),
        "attribute": (held, {}),
        "class": (Local(), {}),
    }


def test_other_starts_take_no_local_functions(snippet, way=None):
    run = after(snippet, "days", "local-function")

    def read(start):
        if way is None:
            return run.read(start)
        data, options = way
        options = {"multiprocessing_context": start, **options}
        return list(DataLoader(data, num_workers=1, **options))

    assert len(read("fork")) == 2
    for start in ("forkserver", "spawn"):
        with warnings.catch_warnings(action="ignore"):
            error = error_of(functools.partial(read, start))
        assert isinstance(error, AttributeError | PicklingError)
        assert "local" in str(error) or "lambda" in str(error)


@pytest.mark.parametrize("way", local_ways())
def test_other_starts_take_no_local_functions__also_as(snippet, way):
    test_other_starts_take_no_local_functions(snippet, local_ways()[way])


def test_other_starts_take_no_local_functions__also_in_what_the_page_prints(
    snippet, capsys
):
    cells = "days", "three-epochs", "without-numbers", "too-many-workers"
    after(snippet, *cells, "local-function", "compare-starts", again=True)
    shown = capsys.readouterr().out.splitlines()

    assert shown[-2] == "fork: [[7.0], [9.0]]"
    assert shown[-1].startswith("spawn: AttributeError: Can't pickle local")


def test_other_starts_take_no_local_functions__but_those_of_a_module(
    snippet, fails
):
    """`list` can be imported, so a spawned worker can load it."""
    edited = snippet.edit("lambda samples: samples", "list")
    fails(test_other_starts_take_no_local_functions, edited)


@pytest.mark.parametrize(
    ("data", "options"),
    [(range(2), {"worker_init_fn": local}), (OfClass(), {})],
    ids=["init", "lambda of the class"],
)
def test_other_starts_take_no_local_functions__ends_for_what_can_be_imported(
    snippet, data, options, fails
):
    """For a function or class at the top level of a module: it can be imported
    by its name.
    """
    fails(test_other_starts_take_no_local_functions, snippet, (data, options))


PROGRAM = """
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

class Written(Dataset):
    degrees = torch.ones(3)

    def __init__(self, degrees):
        if degrees is not None:
            self.degrees = degrees

    def __len__(self):
        return 3

    def __getitem__(self, index):
        self.degrees[index] = 7
        return index

{guard}:
    days = Written({data})
    options = dict(num_workers=1, multiprocessing_context="{start}")
    given = [each.item() for each in DataLoader(days, **options)]
    written = days.degrees.tolist()
"""
GUARD = 'if __name__ == "__main__"'


@functools.cache
def program(guard, start, data):
    """Run a program as one that Python was started with."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        text = PROGRAM.format(guard=guard, start=start, data=data)
        path.write_text(text)
        main = types.ModuleType("__main__")
        main.__file__ = str(path)
        with running(main):
            error = error_of(lambda: exec(text, vars(main)))
    return getattr(main, "given", error), getattr(main, "written", None)


def check_program(guard, start):
    assert program(guard, start, "torch.ones(3)")[0] == [0, 1, 2]
    error, _ = program("if True", start, "torch.ones(3)")
    assert isinstance(error, RuntimeError)
    assert "exited unexpectedly" in str(error)


said = functools.cache(lambda run, guard: run(guard))  # once for all tests
NOTED = 'import sys\nprint("top", file=sys.stderr)\n'


def test_spawned_processes_run_the_top_level(snippet, guard=GUARD):
    run = after(snippet, "program", "run-program")
    under = f"{NOTED}{guard}:\n    {NOTED.splitlines()[1]}\n{guard}"

    assert said(run.run, f"{NOTED}{GUARD}").stderr == "top\n" * 2
    assert said(run.run, under).stderr == "top\n" * 3


def test_spawned_processes_run_the_top_level__also_each_of_two(snippet):
    start = "    process.start()\n"
    another = '    multiprocessing.get_context("spawn").Process().start()\n'
    edited = snippet.edit(start, start + another)
    run = after(edited, "program", "run-program")

    assert run.run(f"{NOTED}{GUARD}").stderr.count("top") == 3


def test_spawned_processes_run_the_top_level__ends_in_a_folder_with_main(
    snippet, fails
):
    """In a folder with `__main__.py`: the top level runs only once."""
    edited = snippet.edit('"program.py"', '"__main__.py"')
    edited = edited.edit("[sys.executable, path]", "[sys.executable, folder]")
    fails(test_spawned_processes_run_the_top_level, edited)


def test_spawned_processes_run_the_top_level__but_not_by_fork(snippet, fails):
    """A forked process is a copy that goes on; it does not run the file
    again.
    """
    edited = snippet.edit('get_context("spawn")', 'get_context("fork")')
    fails(test_spawned_processes_run_the_top_level, edited)


def test_spawned_processes_run_the_top_level__but_not_of_no_file(
    snippet, fails
):
    """A program given by `-c` has no file that could run again."""
    edited = snippet.edit(
        "[sys.executable, path]", '[sys.executable, "-c", path.read_text()]'
    )
    fails(test_spawned_processes_run_the_top_level, edited)


def test_spawned_processes_run_the_top_level__but_not_under_another_condition(
    snippet, fails
):
    """In no process is `__name__` equal to `"x"`, so what is under this
    condition runs in all of them.
    """
    fails(
        test_spawned_processes_run_the_top_level, snippet, 'if __name__ != "x"'
    )


def test_starting_needs_a_guard(snippet, guard=GUARD, start="forkserver"):
    run = after(snippet, "program", "run-program", "guard")

    assert "An attempt has been made to start a new process" in run.unguarded
    guarded = said(run.run, guard)
    assert (guarded.returncode, guarded.stderr) == (0, "")
    check_program(guard, start)


def test_starting_needs_a_guard__also_the_other_way(snippet, capfd):
    edited = snippet.edit('get_context("spawn")', 'get_context("forkserver")')
    test_starting_needs_a_guard(edited, GUARD, "spawn")
    said = capfd.readouterr().err
    assert "An attempt has been made to start a new process" in said


def test_starting_needs_a_guard__but_forking_does_not(snippet, fails):
    """`fork` does not run the file again, so it needs no guard."""
    edited = snippet.edit('get_context("spawn")', 'get_context("fork")')
    fails(test_starting_needs_a_guard, edited)


def test_starting_needs_a_guard__ends_for_a_forking_loader(snippet, fails):
    """For a loader that forks its workers: it needs no guard."""
    fails(test_starting_needs_a_guard, snippet, GUARD, "fork")


def test_starting_needs_a_guard__but_not_one_of_another_name(snippet, fails):
    """Every process passes `if __name__ != "other"`, so it guards nothing."""
    fails(test_starting_needs_a_guard, snippet, 'if __name__ != "other"')


def test_other_starts_share_tensors(start="forkserver", data="torch.ones(3)"):
    """No counter-example can edit the page, which has no cell of this."""
    given, written = program(GUARD, start, data)

    assert given == [0, 1, 2]
    assert written == [7, 7, 7]


def test_other_starts_share_tensors__also_with_spawn():
    test_other_starts_share_tensors("spawn")


def test_other_starts_share_tensors__ends_with_fork(fails):
    """With `fork`: a worker writes into its own copy."""
    fails(test_other_starts_share_tensors, "fork")


def test_other_starts_share_tensors__ends_for_arrays(fails):
    """For a NumPy array: it is copied into the worker."""
    fails(test_other_starts_share_tensors, "forkserver", "np.ones(3)")


def test_other_starts_share_tensors__ends_for_tensors_of_the_class(fails):
    """For tensors of the class instead of the object: each process has its
    own.
    """
    fails(test_other_starts_share_tensors, "forkserver", "None")


# What goes wrong


class OfText(Exception):
    """An error whose class takes a text."""


class OfTwo(Exception):
    """An error whose class takes two numbers."""

    def __init__(self, day, hour):
        super().__init__(f"day {day}, hour {hour}")


class WithMessage(Exception):
    """An error whose class has a message."""

    message = "no such day"


class Raising(Dataset):
    """Five samples, of which one is never there."""

    def __init__(self, make, missing=0):
        self.make = make
        self.missing = missing

    def __len__(self):
        return 5

    def __getitem__(self, index):
        if index == self.missing:
            raise self.make()
        return index


def raised(dataset, **options):
    """Return the error that comes from workers, which must come."""
    options = {**FORK, "num_workers": 1, **options}
    return error_of(lambda: list(DataLoader(dataset, **options)))


def test_errors_keep_their_class(snippet, make=None, timeout=60):
    dataset = after(snippet, "days", "failing").Failing()
    kind = ZeroDivisionError
    if make:
        dataset, kind = Raising(make), type(make())
    error = raised(dataset, timeout=timeout, worker_init_fn=mute)

    assert type(error) is kind
    check_text(error, kind)


def check_text(error, kind):
    text = str(error)
    assert text.startswith(f"Caught {kind.__name__} in DataLoader worker")
    assert "\nOriginal Traceback (most recent call last):\n" in text
    assert "in __getitem__\n" in text
    last = text.splitlines()[-1]
    assert last.partition(":")[0].endswith(kind.__name__)


def undecodable():
    """Return an error of Python whose class takes five arguments."""
    return UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no start byte")


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(OfText, "no such day"),
        functools.partial(KeyError, "no such day"),
        functools.partial(OSError, 2, "no such file"),
    ],
    ids=["a class of your own", "a KeyError", "an OSError"],
)
def test_errors_keep_their_class__also_for(snippet, make):
    test_errors_keep_their_class(snippet, make)


MORE = {
    "UnicodeDecodeError": undecodable,
    "one of two numbers": functools.partial(OfTwo, 5, 7),
}


@pytest.mark.parametrize("name", MORE)
def test_errors_keep_their_class__ends_for(snippet, name, fails):
    """For a class that cannot be made from one text: a `RuntimeError` arrives
    instead.
    """
    fails(test_errors_keep_their_class, snippet, MORE[name])


@pytest.mark.parametrize("name", MORE)
def test_other_errors_become_runtime_errors(name, make=None):
    """No cell decides it: the loader itself wraps the error."""
    make = make or MORE[name]
    error = raised(Raising(make), timeout=60)

    assert type(error) is RuntimeError
    check_text(error, type(make()))


def test_other_errors_become_runtime_errors__ends_for_one_of_a_text(fails):
    """For a class that can be made from one text: the error arrives as it
    is.
    """
    make = functools.partial(OfText, "no such day")
    fails(test_other_errors_become_runtime_errors, "one of a text", make)


def test_errors_keep_their_class__also_in_what_the_page_prints(
    snippet, capsys
):
    before = len(multiprocessing.active_children())
    cells = "days", "three-epochs", "without-numbers", "failing"
    after(snippet, *cells, "report", again=True)
    text = capsys.readouterr().out

    assert len(multiprocessing.active_children()) <= before
    assert "Caught ZeroDivisionError in DataLoader worker process 0." in text
    assert text.count('File ".../') == 4


@edits(
    ("return 1 / (day - 5)", "raise SystemExit"),
    (
        "return 1 / (day - 5)",
        "raise type('ZeroDivisionError', (Exception,), {})",
    ),
)
def test_errors_keep_their_class__but_not(snippet, old, new, fails):
    """`SystemExit` ends the worker, and a class that is made on the spot
    cannot be pickled.
    """
    fails(test_errors_keep_their_class, snippet.edit(old, new), None, 0.3)


def test_errors_keep_their_class__ends_for_those_with_a_message(
    snippet, fails
):
    """For a class with an attribute `message`: the text is passed by that
    name, and this class raises a `TypeError`.
    """
    fails(test_errors_keep_their_class, snippet, WithMessage)


def test_stop_iteration_ends_the_epoch(workers=1, error=StopIteration):
    """No counter-example can edit the page, which has no cell of this."""
    options = {"num_workers": workers, **(FORK if workers else {})}
    batches = iter(DataLoader(Raising(error, 3), batch_size=None, **options))
    given = []
    raised = error_of(lambda: given.extend(batches))
    if workers:
        batches._shutdown_workers()

    assert raised is None
    assert given == [0, 1, 2]


@pytest.mark.parametrize("workers", [0, 2])
def test_stop_iteration_ends_the_epoch__also_with(workers):
    test_stop_iteration_ends_the_epoch(workers)


def test_stop_iteration_ends_the_epoch__ends_for_another_error(fails):
    """For another error, such as a `LookupError`: it is raised in the main
    process.
    """
    fails(test_stop_iteration_ends_the_epoch, 1, LookupError)


HANG = ("days", "three-epochs", "program", "unpicklable", "quiet")


class FirstOf(Dataset):
    """Four samples, the first of which is of another dataset."""

    def __init__(self, other):
        self.other = other

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index or self.other[index]


def local_or(batch):
    """Return a batch, but for the first one, which cannot be pickled."""
    return batch if batch[0] else lambda: batch


def test_what_cannot_be_pickled_hangs(
    snippet, data=None, collate_fn=None, start=60, seconds=0.2
):
    run = after(snippet, *HANG, again=True)
    given, began = [], []
    loader = DataLoader(
        FirstOf(data or run.Unpicklable()),
        num_workers=1,
        timeout=start,
        in_order=False,
        collate_fn=collate_fn,
        worker_init_fn=run.quiet,
        **FORK,
    )
    batches = iter(loader)

    def take():
        given.extend(islice(batches, 3))  # the worker goes on
        batches._timeout = seconds
        began.append(time.monotonic())
        next(batches)

    error = error_of(take)
    waited = time.monotonic() - began[0] if began else 0
    batches._shutdown_workers()
    text = os.pread(run.said, 9999, 0).decode()
    os.close(run.said)

    assert type(error) is RuntimeError
    assert str(error) == f"DataLoader timed out after {seconds} seconds"
    assert waited >= seconds
    assert "Traceback (most recent call last):" in text
    assert "pickle local object" in text
    assert len(given) == 3


def test_what_cannot_be_pickled_hangs__also_batches(snippet):
    test_what_cannot_be_pickled_hangs(snippet, [0], local_or)


def test_what_cannot_be_pickled_hangs__also_without_a_timeout(snippet):
    def ring(number, frame):
        raise TimeoutError

    run = after(snippet, *HANG)
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        error = raised(run.Unpicklable(), worker_init_fn=mute)
    finally:
        signal.signal(signal.SIGALRM, before)

    assert type(error) is TimeoutError


def test_what_cannot_be_pickled_hangs__also_in_what_the_page_prints(
    snippet, capfd
):
    names = "days", "three-epochs", "without-numbers", "program"
    cells = "unpicklable", "quiet", "hang", "said"
    sooner = snippet.edit("timeout=1,", "timeout=0.3,")
    after(sooner, *names, *cells, again=True)
    timed_out, said = capfd.readouterr().out.splitlines()

    assert timed_out == "DataLoader timed out after N.N seconds"
    assert "Can't pickle local object" in said


def test_what_cannot_be_pickled_hangs__but_not_with_a_class_of_python(
    snippet, fails
):
    """`LookupError` can be pickled, so it arrives."""
    edited = snippet.edit("raise MissingDay(day)", "raise LookupError(day)")
    fails(test_what_cannot_be_pickled_hangs, edited)


def test_what_cannot_be_pickled_hangs__but_not_if_the_worker_ends(
    snippet, fails
):
    """If the worker ends, the main process notices, and says so."""
    edited = snippet.edit("raise MissingDay(day)", "raise SystemExit")
    fails(test_what_cannot_be_pickled_hangs, edited, None, None, 0.3)


KILL = ("days", "three-epochs", "killed")
KILLED = {"SIGKILL": "Killed", "SIGBUS": "Bus error"}


def mute(worker_id):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def killed_by(name, start):
    """Return the error of a worker that raises a signal in itself."""
    main = types.ModuleType("__main__")  # nothing to import
    with running(main):
        return raised(
            [getattr(signal, name)],
            batch_size=None,
            collate_fn=signal.raise_signal,
            multiprocessing_context=start,
        )


def test_a_killed_worker_raises(snippet, name="SIGKILL"):
    run = after(snippet, *KILL)
    error = raised(run.Killed(name), worker_init_fn=mute)
    said = f"{error} {error.__cause__}"

    assert type(error) is RuntimeError
    assert f"is killed by signal: {KILLED[name]}" in said
    assert ("raise your shared memory" in said) == (name == "SIGBUS")


@pytest.mark.parametrize("name", ["SIGBUS"])
def test_a_killed_worker_raises__also_by(snippet, name):
    test_a_killed_worker_raises(snippet, name)


def test_a_forkserver_names_no_signal(start="forkserver"):
    """No cell decides it: the loader itself writes this text."""
    error = killed_by("SIGKILL", start)

    assert type(error) is RuntimeError
    assert "exited unexpectedly" in str(error)
    assert "signal" not in f"{error} {error.__cause__}"


def test_a_forkserver_names_no_signal__ends_with_fork(fails):
    """With `fork`: the error names the signal."""
    fails(test_a_forkserver_names_no_signal, "fork")


def test_a_killed_worker_raises__also_in_what_the_page_prints(snippet, capfd):
    names = "days", "three-epochs", "without-numbers", "program", "quiet"
    after(snippet, *names, "killed", "kill", again=True)
    out, err = capfd.readouterr()

    first, _, second, _ = out.splitlines()[-4:]
    said = "DataLoader worker (pid N) is killed by signal: "
    assert first.startswith(f"{said}K")
    assert second.startswith(f"{said}B")
    assert err == ""


@edits(
    ("os.kill(os.getpid(), self.signal)", "os._exit(1)"),
    ("getattr(signal, name)", "signal.SIGCHLD"),
)
def test_a_killed_worker_raises__but_not_otherwise(snippet, old, new, fails):
    """`os._exit(1)` is no signal, and `SIGCHLD` does not kill."""
    fails(test_a_killed_worker_raises, snippet.edit(old, new))


FILES = ("days", "three-epochs", "program", "few-files")
# Still more batches than there is room for files.
FEWER = ("torch.arange(400.0)", "torch.arange(100.0)")


def open_tensors():
    found = Path("/proc/self/fd").iterdir()
    files = [str(each.readlink()) for each in found if each.is_symlink()]
    return sum(each.startswith("/dev/shm/torch") for each in files)


def kept_by(run, what):
    """Return how many tensors are kept, or the error."""
    kept = []
    error = error_of(lambda: kept.extend(run.keep(what)))
    return error or len(kept)


def test_kept_tensors_keep_files_open(snippet, copy=torch.Tensor.clone):
    run = after(snippet, *FILES)
    error = kept_by(run, torch.Tensor.detach)

    assert isinstance(error, RuntimeError)
    assert str(error).startswith("Too many open files.")
    assert kept_by(run, copy) == 200


@pytest.mark.parametrize(
    ("row", "files"),
    [
        (lambda _: (torch.ones(2), torch.ones(3)), 10),
        (lambda _: [*torch.ones(2, 2)], 5),
    ],
    ids=["two", "of one memory"],
)
def test_kept_tensors_keep_files_open__also_each_of(row, files):
    before = open_tensors()
    loader = DataLoader(range(5), num_workers=1, collate_fn=row, **FORK)
    kept = list(loader)
    assert (len(kept), open_tensors()) == (5, before + files)


def test_kept_tensors_keep_files_open__also_with_room_for_40_files(snippet):
    run = after(snippet.edit(*FEWER), *FILES)
    with ExitStack() as stack:
        null = Path(os.devnull)
        files = [stack.enter_context(null.open()) for _ in range(40)]
        last = max(file.fileno() for file in files)

    few = functools.partial(run.resource.getrlimit, run.resource.RLIMIT_NOFILE)
    assert {room for room, _ in run.keep(lambda _: few())} == {last + 1}


def test_kept_tensors_keep_files_open__ends_in_the_file_system(snippet, fails):
    """With the sharing strategy `file_system`: no file stays open."""
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        fails(test_kept_tensors_keep_files_open, snippet.edit(*FEWER))
    finally:
        torch.multiprocessing.set_sharing_strategy("file_descriptor")


def test_kept_tensors_keep_files_open__but_not_without_workers(snippet, fails):
    """Without workers, no tensor comes through a file."""
    edited = snippet.edit(
        '"num_workers": 2, "multiprocessing_context": "fork"',
        '"num_workers": 0',
    )
    fails(test_kept_tensors_keep_files_open, edited)


def test_kept_tensors_keep_files_open__ends_for_empty_tensors(snippet, fails):
    """For empty tensors: they take no memory, and so no file."""
    edited = snippet.edit("torch.arange(400.0)", "torch.empty(100, 0)")
    fails(test_kept_tensors_keep_files_open, edited)


def test_kept_tensors_keep_files_open__but_not_free_by_detach(snippet, fails):
    """`detach()` shares the memory with the tensor, so the file stays open."""
    fewer = snippet.edit(*FEWER)
    fails(test_kept_tensors_keep_files_open, fewer, torch.Tensor.detach)


def test_kept_tensors_keep_files_open__also_in_what_the_page_prints(
    snippet, capsys
):
    fewer = snippet.edit(*FEWER)
    after(fewer, *FILES, "too-many-files", "clones", again=True)
    text, kept = capsys.readouterr().out.splitlines()[-2:]

    assert text.startswith("Too many open files. Communication with the")
    assert kept == "kept: 50"
