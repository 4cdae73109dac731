"""The claims of docs/data/loading.md."""

import functools
import multiprocessing
import random
import sys
import time
import traceback
import types
import warnings
from contextlib import contextmanager
from itertools import chain, islice
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
    Subset,
    get_worker_info,
)
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from extensions.evidence.counterexamples import edits
from extensions.programs.snippet import after
from tests.helpers import spawns
from tests.helpers.alarms import alarm
from tests.helpers.forks import import_once

import_once("numpy.random")  # each worker seeds it

# From Python 3.12 on; a thread may be left from the tests of another module.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:This process .* is multi-threaded:DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore:This DataLoader will:UserWarning"),
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


@contextmanager
def running(main):
    """Let this module be the one that Python was started with."""
    with pytest.MonkeyPatch.context() as patched, POLLED:
        # `patch.dict` empties `sys.modules` for a moment, in which another
        # thread may import `io` once more.
        patched.setitem(sys.modules, "__main__", main)
        yield


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


def plain(batch):
    """Return what a batch holds, with the dtypes of its tensors."""
    if isinstance(batch, torch.Tensor):
        return str(batch.dtype), batch.tolist()
    if isinstance(batch, dict):
        return {name: plain(each) for name, each in batch.items()}
    if isinstance(batch, list | tuple):
        return [plain(each) for each in batch]
    return batch


# Do this


LOADERS = ("digits", "do-this")


def test_workers_change_no_batch(
    snippet, epochs=1, seeds=(5, 5), workers=2, data=None
):
    fresh = snippet.edit("in range(2):  # epochs", "in range(0):")
    more = '50, "num_workers": 2, "persistent_workers": True'
    others = more.replace("2", str(workers)), '50, "num_workers": 0'
    found = []
    for other, seed in zip(others, seeds, strict=True):
        run = fresh.edit(more, other).only(*LOADERS).after("do-this")
        loaders = [run.train_loader, run.val_loader]
        if data is not None:
            options = {"shuffle": not isinstance(data, IterableDataset)}
            options["num_workers"] = loaders[0].num_workers
            loaders = [DataLoader(data, 7, **options)]
        torch.manual_seed(seed)
        for loader in loaders:
            if loader.num_workers:
                loader.multiprocessing_context = "fork"
            found.append([plain([*loader]) for _ in range(epochs)])
            loader._iterator = None  # its workers end
        if data is None:
            assert [len(batches) for batches, *_ in found[-2:]] == [30, 6]

    assert found[: len(loaders)] == found[len(loaders) :]


@pytest.mark.parametrize("count", [1, 5], ids="{} workers".format)
def test_workers_change_no_batch__also_with(snippet, count):
    test_workers_change_no_batch(snippet, workers=count)


def test_workers_change_no_batch__also_in_later_epochs_by_default(snippet):
    test_workers_change_no_batch(snippet, 3, data=range(100))


def test_workers_change_no_batch__ends_for_a_stream(snippet, fails):
    """For an `IterableDataset`: each worker reads all of it."""
    inputs = 1, (5, 5), 2, Stream()
    fails(test_workers_change_no_batch, snippet, *inputs)


def test_workers_change_no_batch__ends_in_later_epochs(snippet, fails):
    """With persistent workers, later epochs have another order."""
    fails(test_workers_change_no_batch, snippet, 2)


def test_workers_change_no_batch__ends_after_another_seed(snippet, fails):
    """After another seed, the order is another."""
    fails(test_workers_change_no_batch, snippet, 1, (5, 6))


RANDOM = """\
class Random(TensorDataset):
    def __getitem__(self, index):
        return self.tensors[0][index] + torch.rand(8, 8), index


digits = Random(pixels, digits.tensors[1])
train_set, val_set"""


@edits(
    ("with random noise", "train_set, val_set", RANDOM),
    (
        "of samples that a worker knows",
        "train_set, val_set",
        RANDOM.replace("torch.rand(8, 8)", "(get_worker_info() is None)"),
    ),
)
def test_workers_change_no_batch__but_not(snippet, old, new, fails):
    """A dataset that draws has other numbers in a worker, and a dataset may
    ask which worker reads it.
    """
    fails(test_workers_change_no_batch, snippet.edit(old, new))


# How it works


class Samples(Dataset):
    """Twenty samples, of which a function makes each from its index."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return self.make(index)


def drawn(index):
    """Return a sample with numbers that torch draws."""
    image = index + torch.randn(3, 3, dtype=torch.float64)
    return {"image": image, "index": index, "drawn": torch.rand(()).item()}


def taken(batches, most, seconds=20):
    """Return what a loop takes, and the error that ends it."""
    found = []
    with alarm(seconds):
        try:
            found.extend(plain(batch) for batch in islice(batches, most))
        except Exception as error:
            traceback.clear_frames(error.__traceback__)
            found.append(type(error).__name__)
    return found


def left(before, seconds):
    """Return how many workers stay, and end them."""
    end = time.monotonic() + seconds
    while len(multiprocessing.active_children()) > before:
        if time.monotonic() > end:
            break
        time.sleep(0.01)
    count = len(multiprocessing.active_children()) - before
    for each in multiprocessing.active_children() if count else ():
        each.terminate()
        each.join()
    return count


def ahead(start, workers):
    """Return how many samples have been read at each batch."""
    read = torch.zeros(20).share_memory_()
    data = Samples(lambda index: read[index].fill_(1).item())
    batches = start(data, [[index] for index in range(20)], workers)
    counts, end = [], time.monotonic() + 20
    for number, _ in enumerate(batches):
        expected = min(20, 2 * workers + number + 1)
        while read.sum() < expected and time.monotonic() < end:
            time.sleep(0.005)
        if number < 2:
            time.sleep(0.05)  # would more come?
        counts.append(int(read.sum()))
    return counts


BATCHES = [[3, 1], [4, 1], [5, 9], [2, 6], [5, 3], [5, 8], [9, 7], [9, 0]]


def test_seventeen_lines_are_a_loader(
    snippet,
    make=drawn,
    batches=BATCHES,
    workers=2,
    most=99,
    options=(),
    patience=20,
    epochs=1,
):
    load = after(snippet, "digits", "by-hand").load
    data = make if isinstance(make, Dataset) else Samples(make)

    def real(data, batches, workers):
        chosen = {"batch_sampler": batches, **FORK, **dict(options)}
        return DataLoader(data, num_workers=workers, **chosen)

    found = []
    for start in (load, real):
        before = len(multiprocessing.active_children())
        torch.manual_seed(3)
        seconds = patience if start is load else 20
        given = [
            taken(start(data, batches, workers), most, seconds)
            for _ in range(epochs)
        ]
        found.append([given, torch.rand(1).item(), left(before, seconds)])
    assert found[0] == found[1]
    if (batches, make, epochs) == (BATCHES, drawn, 1):
        assert ahead(load, workers) == ahead(real, workers)


def test_seventeen_lines_are_a_loader__also_for_digits(snippet):
    run = after(snippet, "digits", "by-hand", "compare")
    assert run.equal == [True] * 36


def test_seventeen_lines_are_a_loader__also_in_a_second_epoch(snippet):
    inputs = drawn, BATCHES, 2, 99, (), 20, 2
    test_seventeen_lines_are_a_loader(snippet, *inputs)


MADE = {
    "tensors": torch.tensor,
    "numbers": float,
    "texts": str,
    "pairs": lambda index: (torch.zeros(2, dtype=torch.int8), [index, "a"]),
    "no numbers": lambda index: torch.empty(0, 3),
    "a Subset": Subset(Samples(drawn), [*range(10, 20)]),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_seventeen_lines_are_a_loader__also_for(snippet, make):
    test_seventeen_lines_are_a_loader(snippet, make)


@pytest.mark.parametrize("workers", [1, 5], ids="{} workers".format)
def test_seventeen_lines_are_a_loader__also_with(snippet, workers):
    test_seventeen_lines_are_a_loader(snippet, drawn, BATCHES, workers)


OTHERS = {
    "none": [],
    "one": [[7]],
    "sixty": [[index % 10] for index in range(60)],
    "of different sizes": [[1], [2, 3, 4], [5], [6, 7], [8]],
}


@pytest.mark.parametrize("batches", OTHERS.values(), ids=OTHERS)
def test_seventeen_lines_are_a_loader__also_for_batches(snippet, batches):
    test_seventeen_lines_are_a_loader(snippet, drawn, batches)


def test_seventeen_lines_are_a_loader__also_beside_threads(snippet):
    torch.set_num_threads(2)
    torch.randn(600, 600) @ torch.randn(600, 600)
    try:
        test_seventeen_lines_are_a_loader(
            snippet, lambda index: torch.randn(400, 400), BATCHES[:3]
        )
    finally:
        torch.set_num_threads(1)


def test_seventeen_lines_are_a_loader__ends_for_an_error(snippet, fails):
    """The real one passes on the error of a worker; ours waits forever."""
    inputs = (lambda index: 1 / (index - 5)), BATCHES, 2, 99, (), 0.5
    fails(test_seventeen_lines_are_a_loader, snippet, *inputs)


def other_random(index):
    """Return a number of a library that only the real one seeds."""
    return np.random.random()


def told(index):
    """Return whether a worker is told who it is."""
    return get_worker_info() is not None


@pytest.mark.parametrize("make", [other_random, told])
def test_seventeen_lines_are_a_loader__ends_for(snippet, make, fails):
    """The real one also seeds `numpy.random` and `random`, and tells a worker
    who it is.
    """
    fails(test_seventeen_lines_are_a_loader, snippet, make)


class Stream(IterableDataset):
    """Twelve samples, one after the other, in each worker."""

    def __iter__(self):
        for index in range(12):
            worker = get_worker_info()
            yield index, worker.id if worker else 0


def test_seventeen_lines_are_a_loader__ends_for_a_stream(snippet, fails):
    """The real one takes an `IterableDataset`, which has no index."""
    inputs = Stream(), BATCHES, 2, 99, {"batch_sampler": None}, 0.5
    fails(test_seventeen_lines_are_a_loader, snippet, *inputs)


def test_seventeen_lines_are_a_loader__ends_with_spawn(snippet, fails):
    """The real one can start workers by `spawn`, which takes no lambda."""
    spawn = {"multiprocessing_context": "spawn"}
    inputs = (lambda index: index), BATCHES, 2, 99, spawn
    with warnings.catch_warnings(action="ignore"):
        fails(test_seventeen_lines_are_a_loader, snippet, *inputs)


def test_seventeen_lines_are_a_loader__ends_after_a_break(snippet, fails):
    """The real one ends its workers when you `break` out of the loop."""
    inputs = drawn, BATCHES, 2, 1, (), 0.5
    fails(test_seventeen_lines_are_a_loader, snippet, *inputs)


@edits(
    ("1", "fork.Queue(1)", "fork.Queue()"),
    ("2", "[worker::num_workers]  #", "[worker::num_workers][::-1]  #"),
    ("3", "mine, seed + worker,", "mine, seed,"),
    ("4", "queues[number %", "queues[-1 - number %"),
    ("5", "torch.manual_seed(seed)", "torch.manual_seed(0)"),
    ("6", "index in indices]", "index in indices[::-1]]"),
    ("7", "default_collate(samples))  #", "samples)  #"),
    ("the seed", "torch.tensor(0).random_()", "torch.tensor(0)"),
)
def test_seventeen_lines_are_a_loader__but_not_with_another_line(
    snippet, old, new, fails
):
    """Each of the numbered lines counts; with the same seed in all workers,
    for example, they would all draw the same numbers.
    """
    fails(test_seventeen_lines_are_a_loader, snippet.edit(old, new))


RECORD = ("digits", "record")


def test_workers_take_turns(snippet, given=(), size=2, workers=2):
    given = given or after(snippet, *RECORD).given
    count = sum(len(indices) for indices, *_ in given)

    for k, (indices, ids, *_) in enumerate(given):
        assert indices == [*range(count)][k * size : (k + 1) * size]
        assert ids == [k % workers] * len(indices)


SPLITS = [(1, 5, None), (3, 2, 3), (3, 1, 1)]


@pytest.mark.parametrize(("workers", "size", "factor"), SPLITS)
def test_workers_take_turns__also_for(snippet, workers, size, factor):
    batches = [each.tolist() for each in torch.arange(17).split(size)]
    options = {"num_workers": workers, "prefetch_factor": factor}
    given = after(snippet, *RECORD).read(batches, **options)
    test_workers_take_turns(snippet, given, size, workers)


def test_workers_take_turns__also_in_later_epochs(snippet):
    signed = after(snippet, *RECORD).Signed()
    batches = [[0, 1], [2, 3], [4, 5]]
    options = {"num_workers": 2, "persistent_workers": True, **FORK}
    loader = DataLoader(signed, batch_sampler=batches, **options)
    for _ in range(2):
        given = [[each.tolist() for each in batch] for batch in loader]
        test_workers_take_turns(snippet, given)


def test_workers_take_turns__ends_for_a_stream(snippet, fails):
    """For an `IterableDataset`: each worker reads all of it."""
    loader = DataLoader(Stream(), 2, num_workers=2, **FORK)
    given = [[each.tolist() for each in batch] for batch in loader]
    fails(test_workers_take_turns, snippet, given)


class Held(Dataset):
    """Eight samples, the first of which waits until another is read."""

    def __init__(self, until, seconds=20):
        self.until = until
        self.seconds = seconds
        self.read = torch.zeros(1).share_memory_()
        self.handed_over = torch.zeros(1).share_memory_()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        end = time.monotonic() + self.seconds
        while not (index or getattr(self, self.until)):
            time.sleep(0.01)
            if time.monotonic() > end:
                break
        if index == 7:
            self.read.fill_(1)
        return index, get_worker_info().id


def given_by(held, workers=2, in_order=True):
    """Return the batches of a loader, the first of which comes late."""
    given = []
    options = {"num_workers": workers, "in_order": in_order, **FORK}
    for batch in DataLoader(held, 2, **options):
        given.append([each.tolist() for each in batch])
        held.handed_over.fill_(1)
    return given


def test_workers_take_turns__also_if_one_is_slow(snippet):
    test_workers_take_turns(snippet, given_by(Held("read")))


def test_workers_take_turns__ends_with_in_order_false(snippet, fails):
    """With `in_order=False`: a batch that is ready overtakes a slow one."""
    given = given_by(Held("handed_over"), in_order=False)
    fails(test_workers_take_turns, snippet, given)


def test_workers_take_turns__but_not_from_last_to_first(snippet, fails):
    """A list of the batches that is turned around has another order."""
    old = "workers in loader:"
    turned = snippet.edit(old, "workers in [*loader][::-1]:")
    fails(test_workers_take_turns, turned)


def test_batches_are_asked_for_ahead(snippet, given=(), ahead=4):
    given = given or after(snippet, *RECORD).given
    total = len(given)

    counts = [count for *_, count in given]
    assert counts == [min(total, ahead + k + 1) for k in range(total)]


@pytest.mark.parametrize(("workers", "size", "factor"), SPLITS)
def test_batches_are_asked_for_ahead__also_for(snippet, workers, size, factor):
    batches = [each.tolist() for each in torch.arange(17).split(size)]
    options = {"num_workers": workers, "prefetch_factor": factor}
    given = after(snippet, *RECORD).read(batches, **options)
    ahead = workers * (factor or 2)
    test_batches_are_asked_for_ahead(snippet, given, ahead)


def test_batches_are_asked_for_ahead__also_if_workers_stay(snippet):
    batches = [[each] for each in range(9)]
    options = {"num_workers": 2, "persistent_workers": True}
    given = after(snippet, *RECORD).read(batches, **options)
    test_batches_are_asked_for_ahead(snippet, given)


def test_batches_are_asked_for_ahead__ends_for_a_whole_list(snippet, fails):
    """`list(loader)` takes every batch at once."""
    edited = snippet.edit("workers in loader:", "workers in list(loader):")
    fails(test_batches_are_asked_for_ahead, edited)


@edits(
    ("with one ahead", "num_workers=2)\nfor", "num_workers=2, **ONE)\nfor"),
    ("with three workers", "num_workers=2)\nfor", "num_workers=3)\nfor"),
)
def test_batches_are_asked_for_ahead__but_not(snippet, old, new, fails):
    """`prefetch_factor=1` orders one batch of each worker, and a third worker
    has two more on order.
    """
    one = snippet.edit(
        "# %% record\n", "# %% record\nONE = {'prefetch_factor': 1}\n"
    )
    fails(test_batches_are_asked_for_ahead, one.edit(old, new))


# How many workers

WAITS = ("digits", "waits")


def test_too_few_workers_wait_again_and_again(snippet):
    waited = after(snippet, *WAITS).waited

    assert waited[2] == [3, 0] + [1, 0] * 4
    assert waited[3] == [3] + [0] * 9


@pytest.mark.parametrize(
    ("workers", "factor"), [(1, None), (2, None), (4, 1)], ids=str
)
def test_too_few_workers_wait_again_and_again__also_for(
    snippet, workers, factor
):
    run = after(snippet, *WAITS)
    for loading in (0.5, 2.5, 4, 9):
        waited = run.waits(workers, loading, prefetch_factor=factor)
        late = [k for k, steps in enumerate(waited) if steps]
        every = workers if workers < loading else len(waited)
        assert late == [*range(0, len(waited), every)]
        assert {waited[k] for k in late[1:]} <= {loading - workers}


@edits(
    (
        "self.loading\n        return",
        "self.loading * (1 + self.free)\n        return",
    ),
    ("ready.item()) + step", "ready.item()) + step * len(waited)"),
    ("max(self.free, ordered) +", "ordered +"),
)
def test_too_few_workers_wait_again_and_again__but_not(
    snippet, old, new, fails
):
    """The rule assumes equal loading times and steps, and workers that load
    one batch at a time.
    """
    fails(test_too_few_workers_wait_again_and_again, snippet.edit(old, new))


# The arguments


def test_a_ready_batch_does_not_wait(workers=2, in_order=False, seconds=20):
    """No counter-example can edit the page, which has no cell of this."""
    held = Held("handed_over", seconds)
    given = [indices for indices, _ in given_by(held, workers, in_order)]

    assert sorted(flat(given)) == [*range(8)]
    assert 0 not in given[0]


def test_a_ready_batch_does_not_wait__also_with_three_workers():
    test_a_ready_batch_does_not_wait(3)


@pytest.mark.parametrize(
    ("workers", "in_order"),
    [(2, True), (1, False)],
    ids=["in order", "with one worker"],
)
def test_a_ready_batch_does_not_wait__ends_if(workers, in_order, fails):
    """With `in_order=True`, or with a single worker: a ready batch waits for
    the one before it.
    """
    fails(test_a_ready_batch_does_not_wait, workers, in_order, 0.2)


# The same random numbers in each worker

DRAW = ("digits", "noise", "drawn")
SOURCES = ("torch", "random", "np.random")


def drawn_by(batches, name):
    """Return the numbers of a source: of two workers, in two epochs."""
    assert len(batches) == 4
    return [each[name].tolist() for each in batches]


def test_workers_have_seeds_of_their_own(snippet, drawn=None):
    drawn = drawn or after(snippet, *DRAW).drawn

    for name in SOURCES:
        assert len(set(flat(drawn_by(drawn, name)))) == 12


def test_workers_have_seeds_of_their_own__also_if_they_stay(snippet):
    draw = after(snippet, *DRAW).draw
    drawn = draw(2, persistent_workers=True, shuffle=True)
    test_workers_have_seeds_of_their_own(snippet, drawn)


class Draws(Dataset):
    """Six samples of three numbers that are drawn."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        numbers = torch.rand(()).item(), random.random(), np.random.random()
        return dict(zip(SOURCES, numbers, strict=True))


def test_workers_have_seeds_of_their_own__also_in_a_new_python(snippet):
    options = {"num_workers": 2, "multiprocessing_context": "forkserver"}
    loader = DataLoader(Draws(), 3, **options)
    drawn = [batch for _ in range(2) for batch in loader]
    test_workers_have_seeds_of_their_own(snippet, drawn)


def test_workers_have_seeds_of_their_own__ends_if_each_epoch_sets_the_seed(
    snippet, fails
):
    """If you set the seed before each epoch: the same numbers come again."""
    old = "for epoch in range(epochs) for batch in loader]"
    new = old.replace(" for batch", " if torch.manual_seed(0) for batch")
    fails(test_workers_have_seeds_of_their_own, snippet.edit(old, new))


@edits(
    (
        '"random": random.random()',
        '"random": random.Random(index % 3).random()',
    ),
    ("np.random.random()", "np.random.RandomState(index).random()"),
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
    drawn = after(snippet, *DRAW).drawn
    first, *others = drawn_by(drawn, "self.rng")

    assert len(set(first)) == 3
    assert others == [first] * 3
    if "self.rng = np.random.default_rng(0)" in snippet.text:
        rng = np.random.default_rng(0)
        assert first == [rng.random() for _ in range(3)]


MAKE = "self.rng = np.random.default_rng(0)"


@pytest.mark.parametrize(
    "made", ["random.Random()", "np.random.RandomState()"]
)
def test_a_copied_generator_repeats__also_of(snippet, made):
    test_a_copied_generator_repeats(snippet.edit(MAKE, f"self.rng = {made}"))


def test_a_copied_generator_repeats__also_of_torch(snippet):
    made = "self.rng = torch.Generator().manual_seed(7)"
    drawn = '"self.rng": torch.rand((), generator=self.rng).item()'
    pairs = (MAKE, made), ('"self.rng": self.rng.random()', drawn)
    test_a_copied_generator_repeats(edited(snippet, *pairs))


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


@edits(
    ("made anew", "self.rng.random()}", "np.random.default_rng().random()}"),
    ("drawn by torch", "self.rng.random()}", "torch.rand(()).item()}"),
)
def test_a_copied_generator_repeats__but_not_if(snippet, old, new, fails):
    """A generator that is made for each sample is no copy, and that of torch
    is seeded in each worker.
    """
    fails(test_a_copied_generator_repeats, snippet.edit(old, new))


SEED = (*DRAW, "seed-worker")
SEEDED = "info.dataset.rng = np.random.default_rng(info.seed)"


def test_a_generator_of_the_worker_does_not_repeat(snippet, seeded=None):
    seeded = seeded or after(snippet, *SEED).seeded

    assert len(set(flat(drawn_by(seeded, "self.rng")))) == 12


def test_a_generator_of_the_worker_does_not_repeat__also_if_it_stays(snippet):
    run = after(snippet, *SEED)
    options = {"persistent_workers": True, "shuffle": True}
    seeded = run.draw(2, worker_init_fn=run.seed_worker, **options)
    test_a_generator_of_the_worker_does_not_repeat(snippet, seeded)


def test_a_generator_of_the_worker_does_not_repeat__also_behind_subsets(
    snippet,
):
    run = after(snippet, *SEED, "seed-inner")
    data = Subset(Subset(run.Noise(), [*range(6)]), [*range(6)])
    options = {"worker_init_fn": run.seed_inner, **FORK}
    loader = DataLoader(data, 3, num_workers=2, **options)
    seeded = [batch for _ in range(2) for batch in loader]
    test_a_generator_of_the_worker_does_not_repeat(snippet, seeded)


def test_a_generator_of_the_worker_does_not_repeat__ends_in_a_subset(
    snippet, fails
):
    """In a `Subset`, such as `random_split` makes, `seed_worker` misses the
    generator, which is `info.dataset.dataset.rng` there.
    """
    old = "DataLoader(Noise(), batch_size=3"
    new = "DataLoader(random_split(Noise(), [6])[0], batch_size=3"
    subset = snippet.edit(old, new)
    fails(test_a_generator_of_the_worker_does_not_repeat, subset)


@edits(
    (SEEDED, SEEDED.replace("info.seed", "worker_id")),
    (SEEDED, SEEDED.replace("info.seed", "info.seed - worker_id")),
    (SEEDED, SEEDED.replace(".rng =", ".other =")),
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


# Copies

COPIES = ("digits", "copies")


def test_workers_have_copies(snippet, reads="", start=""):
    if start:
        assert program(GUARD, start, "torch.ones(3)")[1] == [1, 1, 1]
        return
    if reads:
        snippet = edited(
            snippet,
            ("    reads = 0", f"    reads = {reads}"),
            ("self.reads += 1", "self.reads[0] += 1"),
            ("return self.reads", "return self.reads[0]"),
        )
    counted = snippet.only(*COPIES).after("copies").counted

    seen = counted.reads[0] if reads else counted.reads
    assert seen == 0
    assert counted[0] == 1


@pytest.mark.parametrize("reads", ["torch.zeros(1)", "[0]"])
def test_workers_have_copies__also_of(snippet, reads):
    test_workers_have_copies(snippet, reads)


def test_workers_have_copies__also_of_a_tensor_of_ones(snippet):
    test_workers_have_copies(snippet, start="fork")


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_workers_have_copies__ends_with(snippet, start, fails):
    """With `spawn` or `forkserver`, CPU tensors of the dataset are in shared
    memory: the main process sees it.
    """
    fails(test_workers_have_copies, snippet, "", start)


def test_workers_have_copies__but_the_main_process_has_none(snippet, fails):
    """Without workers, the main process reads the samples itself, and counts
    all twelve.
    """
    old = "DataLoader(counted, batch_size=6, **two)"
    edited = snippet.edit(old, "DataLoader(counted, batch_size=6)")
    fails(test_workers_have_copies, edited)


@pytest.mark.parametrize(
    "reads",
    [
        "torch.zeros(1).share_memory_()",
        "torch.from_file('reads', True, 1); __import__('os').unlink('reads')",
    ],
)
def test_workers_have_copies__ends_in_shared_memory_and_files(
    snippet, reads, fails
):
    """In shared memory, or in a mapped file: the main process sees it."""
    fails(test_workers_have_copies, snippet, reads)


STALE = ("digits", "stale")


def test_persistent_workers_are_stale(snippet):
    run = snippet.only(*STALE).after("stale")
    run.loader._iterator = None  # its workers end

    assert run.seen == {False: [3, 2, 1], True: [3, 3, 3]}


TENSOR = [
    ("    noise = 0\n", "    noise = torch.zeros(1)\n"),
    ("fading.noise = 4 - epoch", "fading.noise.fill_(4 - epoch)"),
]


def test_persistent_workers_are_stale__also_with_a_tensor(snippet):
    test_persistent_workers_are_stale(edited(snippet, *TENSOR))


def test_persistent_workers_are_stale__also_with_a_transform(snippet):
    set_it = "fading.noise = 4 - epoch"
    swapped = f"fading.noise = functools.partial(int, {set_it[-9:]})"
    start = "# %% stale\nimport functools\n\n\n"
    program = snippet.edit("# %% stale\n", start).edit(set_it, swapped)
    old, new = "return int(self.noise)", "return self.noise()"
    test_persistent_workers_are_stale(program.edit(old, new))


def test_persistent_workers_are_stale__but_not_in_shared_memory(
    snippet, fails
):
    """In shared memory, the workers see the change."""
    (old, new), fill = TENSOR
    shared = old, new.replace("zeros(1)", "zeros(1).share_memory_()")
    fails(test_persistent_workers_are_stale, edited(snippet, shared, fill))


def test_persistent_workers_are_stale__but_new_ones_are_not(snippet, fails):
    """New workers are forked in each epoch, and see the dataset as it is
    then.
    """
    old = "persistent_workers=stay)"
    edited = snippet.edit(old, "persistent_workers=False)")
    fails(test_persistent_workers_are_stale, edited)


def test_persistent_workers_are_stale__ends_before_the_first_epoch(
    snippet, fails
):
    """What you set before the first batch arrives: the workers start then."""
    old = "for epoch in (1, 2, 3):"
    fails(
        test_persistent_workers_are_stale,
        snippet.edit(old, "for epoch in [3]:"),
    )


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
    run = after(snippet, "digits", "compare-starts")

    def read(start):
        if way is None:
            return run.load_by(start)
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


def test_starting_needs_a_guard(snippet, guard=GUARD, start="forkserver"):
    run = after(snippet, "program", "guard")

    assert "An attempt has been made to start a new process" in run.unguarded
    guarded = said(run.run, guard)
    assert (guarded.returncode, guarded.stderr) == (0, "")
    check_program(guard, start)


def test_starting_needs_a_guard__also_the_other_way(snippet, capfd):
    edited = snippet.edit('get_context("spawn")', 'get_context("forkserver")')
    test_starting_needs_a_guard(edited, GUARD, "spawn")
    said = capfd.readouterr().err
    assert "An attempt has been made to start a new process" in said


def test_starting_needs_a_guard__also_since_the_file_runs_again(snippet):
    run = after(snippet, "program", "guard").run
    under = f"{NOTED}{GUARD}:\n    {NOTED.splitlines()[1]}\n{GUARD}"

    assert said(run, f"{NOTED}{GUARD}").stderr == "top\n" * 2
    assert said(run, under).stderr == "top\n" * 3


def test_starting_needs_a_guard__ends_in_a_folder_with_main(snippet, fails):
    """In a folder with `__main__.py`: that file isn't run again."""
    edited = snippet.edit('"program.py"', '"__main__.py"')
    edited = edited.edit("[sys.executable, path]", "[sys.executable, folder]")
    fails(test_starting_needs_a_guard, edited)


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
