"""The claims of docs/data/storage_failures.md."""

import errno
import json
import subprocess
import sys
from functools import partial
from http.client import IncompleteRead
from itertools import takewhile
from types import MappingProxyType
from unittest.mock import patch
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

pytestmark = [
    # webdataset leaves it to the collector to close its files.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings(
        "ignore:This process .* is multi-threaded:DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore:This DataLoader will:UserWarning"),
    pytest.mark.usefixtures("collected"),
]

FORK = MappingProxyType({"multiprocessing_context": "fork"})
WAITS = [1, 2, 4, 8]  # seconds, 15 of them
BASE = ("days", "retry", "epoch", "do-this")
BY_HAND = (*BASE, "by-hand", "compare")


def workers(count):
    """Return the options of a loader with some forked workers."""
    return {"num_workers": count, **(FORK if count else {})}


# Do this


def test_a_retry_loses_no_day(
    snippet,
    error=OSError(errno.EIO, "Input/output error"),  # noqa: B008
    failures=range(5),
    waits=(0, 0, 0, 0),
    timeout=0,
):
    run = after(snippet, *BASE)
    days, errors = run.retried
    assert (sorted(days), errors) == ([*range(100)], [])
    assert (run.once[0], len(run.once[1])) == ([], 5)

    for count in failures:
        calls = []

        def read(path, calls=calls, count=count):
            calls.append(path)
            if len(calls) <= count:
                raise error
            return path

        with patch.object(run.time, "sleep") as sleep, no_error():
            assert run.retry(read, "day") == "day"
        assert [call.args[0] for call in sleep.mock_calls] == WAITS[:count]
        assert calls == ["day"] * (count + 1)

    for number in (2,) if timeout else (0, 2):
        tried = []

        def fourth(path, tried=tried):
            tried.append(path)
            if len(tried) % 5:
                raise error
            return np.load(path)

        dataset = run.Days(partial(run.retry, fourth, waits=waits))
        options = {"timeout": timeout, **workers(number)}
        days, errors = run.epoch(DataLoader(dataset, 25, **options))
        assert (sorted(days), errors) == ([*range(100)], [])


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("timed out"),
        ConnectionResetError(errno.ECONNRESET, "reset by peer"),
        OSError(errno.ESTALE, "Stale file handle"),
        URLError("no route"),
        HTTPError("https://a", 503, "Service Unavailable", {}, None),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_retry_loses_no_day__also_after(snippet, error):
    test_a_retry_loses_no_day(snippet, error)


@edits(
    ("with three tries", "waits=(1, 2, 4, 8)", "waits=(1, 2)"),
    ("here", "waits=[0.01] * 4", "waits=[]"),
    ("another class", "except OSError:", "except ConnectionError:"),
)
def test_a_retry_loses_no_day__but_not(snippet, fails, old, new):
    """With fewer tries, or for another class of errors, it raises the error
    earlier.
    """
    fails(test_a_retry_loses_no_day, snippet.edit(old, new))


def test_a_retry_loses_no_day__ends_after_five_failures(snippet, fails):
    """If a read fails five times in a row: you get the fifth error."""
    fails(test_a_retry_loses_no_day, snippet, OSError(5, "broken"), [5])


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("gone"), IncompleteRead(b"half")],
    ids=["a file that does not exist", "a download that breaks off"],
)
def test_a_retry_loses_no_day__ends_with(snippet, fails, error):
    """With an error of these classes: it is raised at once."""
    fails(test_a_retry_loses_no_day, snippet, error)


def test_a_retry_loses_no_day__ends_with_a_shorter_timeout(snippet, fails):
    """If the loader's `timeout` is shorter than the waits: it raises a
    `RuntimeError`.
    """
    inputs = OSError(5, "broken"), [], (0.005,) * 4, 0.1
    fails(test_a_retry_loses_no_day, snippet, *inputs)


# How it works


class OfText(Exception):
    """An error whose class takes a text."""


class OfTwoNumbers(Exception):
    """An error whose class takes two numbers."""

    def __init__(self, day, hour):
        super().__init__(f"day {day}, hour {hour}")


class WithMessage(Exception):
    """An error whose class has a message, and takes one by name."""

    message = "no such day"

    def __init__(self, text="", message=""):
        super().__init__(message or "no text")


ERRORS = (
    OSError(errno.EIO, "Input/output error", "046.npy"),
    BlockingIOError(errno.EAGAIN, "unable to lock file"),
    FileNotFoundError(errno.ENOENT, "No such file", "047.npy"),
    HTTPError("https://a", 503, "Service Unavailable", {}, None),
    URLError("no route"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no start byte"),
    json.JSONDecodeError("no value", "{", 1),
    ValueError("two\nlines"),
    IndexError(7),
    ZeroDivisionError(),
    MemoryError("no room"),
    StopAsyncIteration("the end"),
    OfText("no such day"),
    OfTwoNumbers(4, 6),
)


class Raising(Dataset):
    """Numbers, of which some can't be read, and one has another shape."""

    def __init__(self, errors, every=3):
        self.errors = dict(enumerate(errors))
        self.every = every

    def __len__(self):
        return self.every * len(self.errors) + 2

    def __getitem__(self, index):
        if index % self.every == 0 and index // self.every in self.errors:
            raise self.errors[index // self.every]
        return index, torch.zeros(2 if index + 1 == len(self) else 1)


def outcomes(batches):
    """Return each batch, or the class and the last line of its error."""
    batches, found = iter(batches), []
    while True:
        try:
            found.append(next(batches)[0].tolist())
        except StopIteration:
            return found
        except Exception as error:
            found.append((type(error).__name__, str(error).splitlines()[-1]))


def test_seventeen_lines_fail_like_a_loader(snippet, errors=ERRORS):
    run = after(snippet, *BY_HAND)

    assert run.by_hand[0] == run.real[0]
    for size in (1, 2, 3, 20):
        dataset = Raising(errors)
        numbers = range(len(dataset))
        batches = [numbers[i : i + size] for i in numbers[::size]]
        with no_error():
            by_hand = outcomes(run.load(dataset, batches))
        assert len(by_hand) == len(batches)
        for count in (1, 2):
            options = {"batch_size": size, **workers(count)}
            assert outcomes(DataLoader(dataset, **options)) == by_hand


def test_seventeen_lines_fail_like_a_loader__also_in_any_order(snippet):
    run = after(snippet, *BY_HAND)
    dataset = Raising(ERRORS)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(dataset))
        batches = [order[:7], order[7:9], order[9:20], order[20:]]
        loader = DataLoader(dataset, batch_sampler=batches, **workers(3))
        assert outcomes(run.load(dataset, batches)) == outcomes(loader)


@edits(
    ("line 2, without a traceback", "traceback.format_exc()", "str(error)"),
    ("line 2, for some", "except Exception as error:\n        return", "ONE"),
    ("line 3, another class", "error = kind(text)", "error = OSError(text)"),
    ("line 4, another class", "RuntimeError(text)", "ValueError(text)"),
    (
        "line 1, one by one",
        "for i in indices])  # 1",
        "for i in indices[:1]])",
    ),
)
def test_seventeen_lines_fail_like_a_loader__but_not(snippet, fails, old, new):
    """A change of any of the four lines gives other errors or batches."""
    if new == "ONE":
        new = "except OSError as error:\n        return"
    fails(test_seventeen_lines_fail_like_a_loader, snippet.edit(old, new))


@pytest.mark.parametrize(
    "error",
    [KeyError("no such day"), WithMessage("no such day")],
    ids=["a KeyError", "a class with a message"],
)
def test_seventeen_lines_fail_like_a_loader__ends_for(snippet, fails, error):
    """For these, the real one has special cases: a `KeyError` keeps its lines,
    and a class with a `message` gets the text by that name.
    """
    fails(test_seventeen_lines_fail_like_a_loader, snippet, (error,))


def test_an_error_loses_its_number(snippet):
    run = after(snippet, *BY_HAND)
    codes = (errno.EIO, errno.ESTALE, errno.ENOENT, errno.ECONNRESET)
    errors = [OSError(code, "failed", "046.npy") for code in codes]
    found = run.real[1][:1]
    for count in (1, 2, 3):
        loader = DataLoader(Raising(errors), 3, **workers(count))
        found += run.epoch(loader)[1][:4]

    assert [error.errno for error in found] == [None] * 13
    assert [error.filename for error in found] == [None] * 13
    for error, code in zip(found[1:], codes * 3, strict=True):
        assert f"[Errno {code}] failed: '046.npy'" in str(error)


def test_an_error_loses_its_number__but_not_without_workers(snippet, fails):
    """Without workers, you get the error itself, with its `errno`."""
    old = '"num_workers": 2, "multiprocessing_context": "fork"'
    edited = snippet.edit(old, '"num_workers": 0')
    fails(test_an_error_loses_its_number, edited)


def test_a_failed_batch_is_lost(snippet):
    run = after(snippet, *BY_HAND)
    expected = [day for day in range(100) if not 40 <= day < 80]
    assert (run.real[0], len(run.real[1])) == (expected, 2)

    for count, size in ((1, 1), (2, 7), (3, 30), (2, 100)):
        options = {"batch_size": size, **workers(count)}
        days, errors = run.epoch(DataLoader(run.Days(run.broken), **options))
        failed = {46 // size, 70 // size}
        rest = [day for day in range(100) if day // size not in failed]
        assert (days, len(errors)) == (rest, len(failed))


def test_a_failed_batch_is_lost__but_not_in_a_generator(snippet, fails):
    """A generator around the loader is finished after the first error, so the
    next batch doesn't come.
    """
    old = "real = epoch(DataLoader(Days(broken), **two))"
    new = "real = epoch(e for e in DataLoader(Days(broken), **two))"
    fails(test_a_failed_batch_is_lost, snippet.edit(old, new))


def test_a_failed_batch_is_lost__but_not_if_the_dataset_catches(
    snippet, fails
):
    """Caught in the dataset, an error costs no other sample."""
    old = "        return self.read(paths[day]), day\n"
    new = (
        f"        try:\n    {old}        except OSError:\n            return "
    )
    edited = snippet.edit(old, f"{new}np.zeros(24), day\n")
    fails(test_a_failed_batch_is_lost, edited)


class Share(IterableDataset):
    """Numbers, shared among workers, of which one can't be read."""

    def __init__(self, broken):
        self.broken = broken

    def read(self, number):
        """Return a number, unless it can't be read."""
        if number == self.broken:
            raise OSError(errno.EIO, "Input/output error")
        return 0, number

    def share(self):
        """Return what this worker reads."""
        worker = torch.utils.data.get_worker_info()
        return map(self.read, range(worker.id, 60, worker.num_workers))

    def __iter__(self):
        yield from self.share()


class GoesOn(Share):
    """The same with `map`, which is not finished after an error."""

    def __iter__(self):
        return self.share()


def test_a_failed_stream_ends(snippet, share=Share):
    run = after(snippet, *BY_HAND, "stream")
    days, errors = run.streamed
    assert sorted(days) == sorted([*range(0, 40, 2), *range(1, 100, 2)])
    assert len(errors) == 1

    for count, size, broken in ((1, 4, 23), (2, 20, 0), (3, 1, 59), (3, 4, 2)):
        loader = DataLoader(share(broken), size, **workers(count))
        days, errors = run.epoch(loader)
        mine = [*range(broken % count, 60, count)]
        lost = mine[mine.index(broken) // size * size :]
        assert sorted(days) == sorted({*range(60)} - {*lost})
        assert len(errors) == 1


YIELD = "            yield broken(path), int(path.stem)\n"


def test_a_failed_stream_ends__but_not_if_it_catches(snippet, fails):
    """If `__iter__` catches the error of a read, only that sample is lost."""
    new = f"            try:\n    {YIELD}            except OSError:\n"
    edited = snippet.edit(YIELD, f"{new}                continue\n")
    fails(test_a_failed_stream_ends, edited)


def test_a_failed_stream_ends__ends_if_it_is_no_generator(snippet, fails):
    """If `__iter__` returns a `map`: the next sample comes."""
    fails(test_a_failed_stream_ends, snippet, GoesOn)


# LMDB

LMDB = (*BASE, "lmdb")


def forked(function, *inputs):
    """Return what a function returns, or the error it raises, in a fork."""
    fork = torch.multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()

    def answer():
        try:
            queue.put(function(*inputs))
        except Exception as error:
            queue.put(f"{type(error).__name__}: {error}")

    process = fork.Process(target=answer)
    process.start()
    said = queue.get()
    process.join()
    return said


def reads(file, full, most=400):
    """Read two days at once, again and again; return how often it works."""
    for count in range(most):
        try:
            with file.begin() as transaction:
                for day in (b"000.npy", b"001.npy"):
                    transaction.get(day)
        except full:
            return count
    return most


def test_each_read_takes_a_place(snippet, asked=MappingProxyType({})):
    cells = (*LMDB, "readers-full")
    run = snippet.only(*cells).after(cells[-1])  # its file is opened anew
    full = run.lmdb.ReadersFullError
    (first, errors), (second, others) = run.locked

    assert (sorted(first), errors) == ([*range(100)], [])
    assert len(second) < 26
    assert {type(error) for error in others} == {full}
    assert {"MDB_READERS_FULL" in str(error) for error in others} == {True}
    for _ in range(2):  # all places are free again once it was closed
        with run.lmdb.open(run.database, **asked) as file:
            assert forked(reads, file, full, 20) == 20
            assert forked(reads, file, full) == 106
            assert forked(reads, file, full) == 0


OPENED = "with lmdb.open(database) as file:  # before the fork\n"
LOADER = "    loader = DataLoader(Days(partial(look_up, lambda: file)), **two)"


def test_each_read_takes_a_place__but_not_without_the_lock(snippet, fails):
    """With `lock=False`, transactions take no places, and all epochs pass."""
    edited = snippet.edit(OPENED, OPENED.replace("se)", "se, lock=False)"))
    fails(test_each_read_takes_a_place, edited)


def test_each_read_takes_a_place__but_not_in_the_worker(snippet, fails):
    """If the worker opens the environment, transactions give places back."""
    new = "if file := cache(lambda: lmdb.open(database)):\n"
    new += LOADER.replace("lambda: ", "")
    fails(test_each_read_takes_a_place, snippet.edit(OPENED + LOADER, new))


def test_each_read_takes_a_place__ends_with(snippet, fails):
    """With `max_readers=150`: there are 150 places."""
    fails(test_each_read_takes_a_place, snippet, {"max_readers": 150})


def test_each_read_takes_a_place__also_for_what_the_page_shows(snippet):
    cells = (*LMDB, "from-lmdb")
    run = snippet.only(*cells).after(cells[-1])
    for days, errors in run.free:
        assert (sorted(days), errors) == ([*range(100)], [])
    hours, _ = run.Days(partial(run.look_up, run.environment))[57]
    file = run.environment()
    assert run.environment() is file
    file.close()
    assert np.array_equal(hours, np.load(run.paths[57]))
    assert hours.flags.writeable


def open_and_close(run):
    run.lmdb.open(run.database, readonly=True, lock=False).close()
    return "opened"


def test_lmdb_opens_once(snippet, close=False):
    """No cell decides it: LMDB itself refuses."""
    run = after(snippet, *LMDB)

    again = "is already open in this process."
    for options in ({}, {"readonly": True}, {"readonly": True, "lock": False}):
        with run.lmdb.open(run.database, **options) as file:
            if close:
                file.close()
            with pytest.raises(run.lmdb.Error, match=again):
                open_and_close(run)
            assert again in forked(open_and_close, run)
        with no_error():
            assert open_and_close(run) == "opened"
            assert forked(open_and_close, run) == "opened"


def test_lmdb_opens_once__ends_once_it_is_closed(snippet, fails):
    """Once it is closed: it can be opened again."""
    fails(test_lmdb_opens_once, snippet, True)


def test_lmdb_is_small_by_default(snippet):
    cells = (*LMDB, "map-full")
    with no_error():
        run = snippet.only(*cells).after(cells[-1])

    assert "MDB_MAP_FULL" in vars(run).get("full", "")
    path = str(run.folder / "another.lmdb")
    with run.lmdb.open(path) as file:
        assert file.info()["map_size"] == 10_485_760
        with file.begin(write=True) as transaction:
            transaction.put(b"first", bytes(5_000_000))
        full = pytest.raises(run.lmdb.MapFullError)
        with full, file.begin(write=True) as transaction:
            transaction.put(b"second", bytes(6_000_000))


@edits(
    ("if told", "6_000_000)\nexcept", "6_000_000, map_size=2**25)\nexcept"),
    ("for a smaller value", "6_000_000)\nexcept", "4_000_000)\nexcept"),
)
def test_lmdb_is_small_by_default__but_not(snippet, fails, old, new):
    """A larger `map_size` holds both values, and 10 MB hold one of 5 MB and
    one of 4 MB.
    """
    fails(test_lmdb_is_small_by_default, snippet.edit(old, new))


def test_a_larger_map_keeps_what_was_stored(snippet):
    with no_error():
        run = after(snippet, *LMDB, "map-full")

    assert run.stored == {b"first": 5_000_000, b"second": 6_000_000}
    path = str(run.folder / "small.lmdb")
    with run.lmdb.open(path) as file, file.begin() as transaction:
        assert transaction.get(b"first") == bytes(5_000_000)


@edits(
    ("with the same size", ", map_size=2**30", ""),
    (
        "without a commit",
        "transaction.put(key, bytes(size))\n        return",
        "transaction.put(key, bytes(size))\n        return "
        "transaction.abort() if size == 5_000_000 else",
    ),
)
def test_a_larger_map_keeps_what_was_stored__but_not(snippet, fails, old, new):
    """With the same size, it is full again; and what was aborted is not
    stored.
    """
    fails(test_a_larger_map_keeps_what_was_stored, snippet.edit(old, new))


# HDF5

# Another process that opens files, once for all tests: each forks this one,
# so that none but the first imports h5py.
OPENER = """
import os, sys, traceback, h5py

for program in sys.stdin:
    if not (child := os.fork()):
        try:
            exec(program)
        except Exception:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    print(flush=True, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def opener():
    """Let a process that is there already open files in place of a new one."""
    pytest.importorskip("h5py")
    pipes = dict.fromkeys(("stdin", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", OPENER]

    def run(command, **_):
        print(command[-1], file=process.stdin, flush=True)
        lines = takewhile(str.strip, process.stderr)
        return subprocess.CompletedProcess(command, 0, stderr="".join(lines))

    with (
        subprocess.Popen(command, text=True, **pipes) as process,
        patch.object(subprocess, "run", run),
    ):
        yield


hdf5 = pytest.mark.usefixtures("opener")


def blocked(said):
    """Whether another process could not lock the file."""
    return said.startswith("BlockingIOError: ") and "unable to lock" in said


@hdf5
def test_hdf5_locks_others_out(snippet, locking=None):
    run = after(snippet, *BASE, "hdf5-locked")
    path, opened = run.folder / f"{locking}.h5", run.h5py.File

    assert blocked(run.while_written)
    assert run.while_read["r"] == "opened"
    assert blocked(run.while_read["a"])
    for mine in ("w", "r+", "a"):
        with opened(path, mine, locking=locking):
            for mode in ("r", "r+", "a"):
                assert blocked(run.elsewhere(path, mode))
    with opened(path, locking=locking):
        assert run.elsewhere(path, "r") == "opened"
        for mode in ("r+", "a"):
            assert blocked(run.elsewhere(path, mode))
    for mode in ("r", "r+", "a"):
        assert run.elsewhere(path, mode) == "opened"


@hdf5
@edits(
    ("without the lock", 'days_h5, "w")', 'days_h5, "w", locking=False)'),
    ("while it writes", "h5py.File(days_h5):", 'h5py.File(days_h5, "a"):'),
    ("with open", "with h5py.File(days_h5):", "with open(days_h5):"),
)
def test_hdf5_locks_others_out__but_not(snippet, fails, old, new):
    """With `locking=False`, a reader gets what is half written, or another
    error; Python's own `open` locks nothing; in mode `a`, nobody can read.
    """
    fails(test_hdf5_locks_others_out, snippet.edit(old, new))


@hdf5
def test_hdf5_locks_others_out__ends_without_locking(snippet, fails):
    """With `locking=False`: others get in, and may read what is half
    written, or get another error.
    """
    fails(test_hdf5_locks_others_out, snippet, False)


@hdf5
def test_a_blocked_w_empties_the_file(snippet, mode="w"):
    run = after(snippet, *BASE, "hdf5-locked")
    assert blocked(run.while_read["w"])
    assert run.left == 0

    for mine in ("r", "a"):
        path = run.folder / f"emptied-{mine}.h5"
        with run.h5py.File(path, "w") as file:
            file["day"] = 1
        with run.h5py.File(path, mine):
            assert blocked(run.elsewhere(path, mode))
            assert path.stat().st_size == 0


@hdf5
def test_a_blocked_w_empties_the_file__but_not_in_another_mode(snippet, fails):
    """In mode `r+`, nothing is emptied."""
    edited = snippet.edit("{mode!r}", "{mode.replace('w', 'r+')!r}")
    fails(test_a_blocked_w_empties_the_file, edited)


@hdf5
def test_a_blocked_w_empties_the_file__ends_in_mode_a(snippet, fails):
    """In mode `a`: the file stays as it was."""
    fails(test_a_blocked_w_empties_the_file, snippet, "a")


# WebDataset


def test_a_worker_needs_a_shard(snippet, shards=1, number=2):
    run = after(snippet, *BASE, "one-shard")
    days, errors = run.served
    if shards > 1:
        given = [run.shard] * shards
        dataset = run.webdataset.WebDataset(given, shardshuffle=False)
        days = dataset.decode().to_tuple("npy", "cls")
        days, errors = run.epoch(DataLoader(days, 20, **workers(number)))

    assert sorted(days) == sorted([*range(100)] * shards)
    assert [type(error) for error in errors] == [ValueError]
    assert "perhaps you have fewer shards than workers." in str(errors[0])


def test_a_worker_needs_a_shard__also_two_shards_for_three(snippet):
    test_a_worker_needs_a_shard(snippet, 2, 3)


def test_a_worker_needs_a_shard__ends_with_enough(snippet, fails):
    """With as many shards as workers: each has one."""
    fails(test_a_worker_needs_a_shard, snippet, 2, 2)


@edits(
    ("with two", "WebDataset(shard,", "WebDataset([shard, shard],"),
    ("unchecked", "shardshuffle=False)", "shardshuffle=0, empty_check=False)"),
    (
        "resampled",
        "shardshuffle=False).decode()",
        "shardshuffle=False, resampled=True).with_epoch(10).decode()",
    ),
)
def test_a_worker_needs_a_shard__but_not(snippet, fails, old, new):
    """With two shards, or `resampled=True`, each worker has one; with
    `empty_check=False`, nobody checks.
    """
    fails(test_a_worker_needs_a_shard, snippet.edit(old, new))
