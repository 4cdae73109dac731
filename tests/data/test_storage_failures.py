"""The claims of docs/data/storage_failures.md."""

import signal
import subprocess
import sys
import tarfile
import traceback
import warnings
from collections import Counter
from itertools import takewhile
from types import MappingProxyType
from unittest.mock import call, patch

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

h5py = pytest.importorskip("h5py")
lmdb = pytest.importorskip("lmdb")
pytest.importorskip("pyarrow")
pytest.importorskip("tfrecord")
pytest.importorskip("webdataset")

pytestmark = [
    # webdataset and tfrecord leave it to the collector to close their files.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    # From Python 3.12 on: pyarrow has threads of its own.
    pytest.mark.filterwarnings(
        "ignore:This process .* is multi-threaded:DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore:This DataLoader will:UserWarning"),
    pytest.mark.usefixtures("collected", "crash_in_silence", "opener"),
]


BASE = ("imports", "days", "epochs", "own-words")
LMDB = (*BASE, "from-lmdb")
WHOLE = "100 days, 100 different"
FORK = {"multiprocessing_context": "fork"}


def workers_of(snippet, *cells):
    """Run cells; return the program, and the workers of each epoch."""
    epochs = []

    class Noted(DataLoader):
        def __iter__(self):
            epochs.append(self.num_workers)
            return super().__iter__()

    with patch.object(torch.utils.data, "DataLoader", Noted):
        return snippet.only(*cells).after(cells[-1]), epochs


# Do this


def test_three_epochs_are_complete(snippet, batches=([1, 1], [7])):
    with no_error():
        run = after(snippet, *LMDB, "do-this")

    class Broken:
        epoch = 0

        def __iter__(self):
            self.epoch += 1
            yield None, torch.tensor([1])
            if self.epoch % 2:
                raise ValueError("broken\n  at a line\nthe end")

    given = [(None, torch.tensor(days)) for days in batches]
    numbers = [day for days in batches for day in days]
    expected = f"{len(numbers)} days, {len(set(numbers))} different"
    long = [(None, torch.arange(n, n + 7)) for n in range(300)]
    assert run.found == [WHOLE] * 3
    assert run.epochs(given, 2) == [expected] * 2
    assert run.epochs(long, 1) == ["2100 days, 306 different"]
    one = "1 days, 1 different"
    assert run.epochs(Broken()) == ["the end", one, "the end"]
    missing = map({}.__getitem__, "a")
    assert run.epochs(missing, 1) == ["KeyError: 'a'"]
    hours = np.stack(
        [hours for hours, _ in map(run.Days().__getitem__, range(100))]
    )
    assert np.array_equal(hours, run.temperature)
    run.environment(run.path).close()
    run.environment.cache_clear()


def test_three_epochs_are_complete__ends_if_no_batch_comes(snippet, fails):
    """If no batch comes: what you get is the error of `torch.cat`."""
    fails(test_three_epochs_are_complete, snippet, ())


@edits(
    ("if all are said to differ", "len(days.unique())", "len(days)"),
    ("without the error", "found.append(own_words(error))", "pass"),
    ("with one day less", "return 100", "return 99"),
    (
        "with a day twice",
        "bytearray(hours)), day",
        "bytearray(hours)), day // 2",
    ),
    ("in two epochs", "count=3", "count=2"),
)
def test_three_epochs_are_complete__but_not(snippet, fails, old, new):
    """`len(days)` counts days that come twice as different, too; the others
    miscount, hide an error, or read less.
    """
    fails(test_three_epochs_are_complete, snippet.edit(old, new))


# Each sample comes twice


def test_no_index_repeats_the_records(snippet, workers=2):
    run = after(snippet, *BASE, "records", "number", "orders")
    found = [run.orders["two workers, no index"]] if workers == 2 else []
    options = {"batch_size": 20, "num_workers": workers, **FORK}
    found.append(run.arrivals(None, **options))

    for days in found:
        assert Counter(days) == dict.fromkeys(range(100), workers)


def test_no_index_repeats_the_records__also_three_times(snippet):
    test_no_index_repeats_the_records(snippet, 3)


def test_no_index_repeats_the_records__but_not_with_an_index(snippet, fails):
    """With the index, the two workers share the records."""
    edited = snippet.edit("arrivals(None, **two)", "arrivals(index, **two)")
    fails(test_no_index_repeats_the_records, edited)


def few(snippet, count):
    """Return a program that defines how to read some records."""
    old = "day in range(100):"
    edited = snippet.edit(old, old.replace("100", f"{count}"))
    names = (*BASE, "records", "number")
    return edited.only(*names).after("number")


def test_an_index_divides_the_records(snippet, workers=2, count=None):
    cells = (*BASE, "records", "number", "orders")
    if count:
        run, found = few(snippet, count), []
    elif workers == 2:
        run, epochs = workers_of(snippet, *cells)
        found = [run.orders["two workers, an index"]]
        assert epochs == [2, 2, 0]
    else:
        run, found = after(snippet, *cells), []
    try:
        options = {"batch_size": 20, "num_workers": workers, **FORK}
        found.append(run.arrivals(run.index, **options))
    except IndexError as error:
        traceback.clear_frames(error.__traceback__)
        pytest.fail("IndexError")

    for days in found:
        assert sorted(days) == [*range(100 if count is None else count)]


@pytest.mark.parametrize("workers", [3])
def test_an_index_divides_the_records__also_among(snippet, workers):
    test_an_index_divides_the_records(snippet, workers)


def test_an_index_divides_the_records__also_fewer_than_workers(snippet):
    test_an_index_divides_the_records(snippet, 3, 2)


def test_an_index_divides_the_records__ends_with_a_single_record(
    snippet, fails
):
    """With a single record: it raises an `IndexError`."""
    fails(test_an_index_divides_the_records, snippet, 2, 1)


@edits(
    ("without it", "arrivals(index, **two)", "arrivals(None, **two)"),
    (
        "if the index is of another file",
        "range(100):\n    writer",
        "range(99):\n    writer",
    ),
)
def test_an_index_divides_the_records__but_not(snippet, fails, old, new):
    """Without the index, each record comes twice; and of 99 records written,
    only 99 can come.
    """
    fails(test_an_index_divides_the_records, snippet.edit(old, new))


def test_an_index_starts_anywhere(snippet):
    run = after(snippet, *BASE, "records", "number", "orders")
    orders = [run.orders["no workers, an index"]]
    for seed in (*range(8), 48):  # the last begins at the first record
        np.random.seed(seed)
        orders.append(run.arrivals(run.index, batch_size=20))

    for days in orders:
        start = days[0]
        assert days == [*range(start, 100), *range(start)]
    starts = {days[0] for days in orders}
    assert len(starts) > 5
    assert 0 in starts
    assert orders[0][0] != 0


@edits(
    ("without an index", "arrivals(index),", "arrivals(None),"),
    ("with workers", "arrivals(index),", "arrivals(index, **two),"),
)
def test_an_index_starts_anywhere__but_not(snippet, fails, old, new):
    """Without an index, it begins at the first record; and two workers each
    read a share of their own.
    """
    fails(test_an_index_starts_anywhere, snippet.edit(old, new))


# LMDB


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


def open_and_close(path):
    lmdb.open(path, readonly=True, lock=False).close()
    return "opened"


def test_lmdb_opens_once(snippet):
    run = after(snippet, *BASE, "opened-twice")

    again = "is already open in this process."
    assert vars(run).get("twice") == f"The environment 'days.lmdb' {again}"
    for options in ({}, {"readonly": True}, {"readonly": True, "lock": False}):
        with lmdb.open(run.path, **options):
            with pytest.raises(lmdb.Error, match=again):
                open_and_close(run.path)
            assert again in forked(open_and_close, run.path)
        with no_error():
            assert open_and_close(run.path) == "opened"
            assert forked(open_and_close, run.path) == "opened"


@edits(
    (
        "once closed",
        "open(path)\ntry:",
        "open(path)\ntraining.close()\ntry:",
    ),
    (
        "in another folder",
        "validation = lmdb.open(path)",
        'validation = lmdb.open(path + "2")',
    ),
)
def test_lmdb_opens_once__but_not(snippet, fails, old, new):
    """Once closed, the environment can be opened again; and another folder is
    another environment.
    """
    fails(test_lmdb_opens_once, snippet.edit(old, new))


def test_a_cached_environment_is_shared(snippet):
    run = after(snippet, *LMDB, "shared")

    one, other = run.together.datasets
    assert one is not other
    assert run.both == ["200 days, 100 different"]
    opened = run.environment(run.path)
    with no_error():
        assert opened is run.environment(run.path)
    with pytest.raises(lmdb.ReadonlyError):
        opened.begin(write=True)
    loader = DataLoader(run.together, **run.two)
    epochs = run.epochs(loader, 2)
    opened.close()
    run.environment.cache_clear()
    assert epochs == ["200 days, 100 different"] * 2


@edits(
    ("without the cache", "@functools.cache", "# @functools.cache"),
    (
        "if it can write",
        "return lmdb.open(path, readonly=True, lock=False)",
        "return lmdb.open(path, lock=False)",
    ),
    (
        "with the lock",
        "return lmdb.open(path, readonly=True, lock=False)",
        "return lmdb.open(path, readonly=True)",
    ),
)
def test_a_cached_environment_is_shared__but_not(snippet, fails, old, new):
    """Without the cache, it is opened twice; without `readonly`, it may write;
    with the lock, reads take places.
    """
    fails(test_a_cached_environment_is_shared, snippet.edit(old, new))


def test_lmdb_is_small_by_default(snippet):
    cells = (*BASE, "map-full")
    with no_error(), patch.object(lmdb, "open", wraps=lmdb.open) as opened:
        run = snippet.only(*cells).after(cells[-1])

    assert opened.mock_calls[-1] == call(run.small)  # by default
    assert "MDB_MAP_FULL" in vars(run).get("full", "")
    with lmdb.open(run.small) as file:
        assert file.info()["map_size"] == 10_485_760
        with file.begin() as transaction:
            stored = {key: len(value) for key, value in transaction.cursor()}
            assert stored == {b"first": 5_000_000}
        for size, fits in ((1_000_000, True), (6_000_000, False)):
            with file.begin(write=True) as transaction:
                try:
                    transaction.put(b"more", bytes(size))
                    assert fits
                except lmdb.MapFullError:
                    assert not fits
                    transaction.abort()


@edits(
    (
        "if told",
        "with lmdb.open(small) as file:",
        "with lmdb.open(small, map_size=2**25) as file:",
    ),
    (
        "for a smaller value",
        "bytes(6_000_000))\n    except",
        "bytes(4_000_000))\n    except",
    ),
)
def test_lmdb_is_small_by_default__but_not(snippet, fails, old, new):
    """A larger `map_size` holds both values, and 10 MB hold one of 5 MB and
    one of 4 MB.
    """
    fails(test_lmdb_is_small_by_default, snippet.edit(old, new))


def test_a_larger_map_keeps_what_was_stored(snippet):
    with no_error():
        run = after(snippet, *BASE, "map-full", "larger-map")

    assert run.stored == {b"first": 5_000_000, b"second": 6_000_000}
    with lmdb.open(run.small) as file, file.begin() as transaction:
        assert transaction.get(b"first") == bytes(5_000_000)


@edits(
    ("with the same size", "map_size=2**30", "map_size=10_485_760"),
    (
        "without a commit",
        "bytes(5_000_000))\n",
        "bytes(5_000_000))\n        transaction.abort()\n",
    ),
)
def test_a_larger_map_keeps_what_was_stored__but_not(snippet, fails, old, new):
    """With the same size, it is full again; and what was aborted is not
    stored.
    """
    fails(test_a_larger_map_keeps_what_was_stored, snippet.edit(old, new))


FULL = "lmdb.ReadersFullError: mdb_txn_begin: MDB_READERS_FULL"


def reads(file, most=400):
    """Read one day again and again; return how often it can be read."""
    for count in range(most):
        try:
            with file.begin() as transaction:
                transaction.get(b"00000000")
        except lmdb.ReadersFullError:
            return count
    return most


def test_each_read_takes_a_place(snippet, asked=MappingProxyType({})):
    cells = (*LMDB, "opened-before-the-fork", "readers-full")
    run = snippet.only(*cells).after(cells[-1])  # its file is opened anew
    places = asked.get("max_readers", 126)

    first, *others = run.locked
    assert first == WHOLE
    assert len(others) == 2
    for other in others:
        assert other.startswith(FULL)
    with lmdb.open(run.path, **asked) as file:
        assert forked(reads, file, 20) == 20
        assert forked(reads, file) == places - 20
        assert forked(reads, file) == 0


def test_each_read_takes_a_place__also_in_150_places(snippet):
    test_each_read_takes_a_place(snippet, {"max_readers": 150})


def test_each_read_takes_a_place__ends_without_the_lock(snippet, fails):
    """Without the lock: reads take no places."""
    fails(test_each_read_takes_a_place, snippet, {"lock": False})


def test_there_are_126_places(snippet, asked=MappingProxyType({})):
    """No cell decides it: LMDB itself counts its places."""
    run = snippet.only(*LMDB).after("from-lmdb")  # its file is opened anew

    for _ in range(2):  # all places are free again once it was closed
        with lmdb.open(run.path, **asked) as file:
            assert file.info()["max_readers"] == 126
            assert forked(reads, file) == 126


def test_there_are_126_places__ends_if_told(snippet, fails):
    """With `max_readers=150`: there are 150 places."""
    fails(test_there_are_126_places, snippet, {"max_readers": 150})


def test_there_are_126_places__ends_if_the_lock_file_has_more(snippet, fails):
    """If the lock file was made with more places: there are as many as it
    has.
    """
    old = "with lmdb.open(path) as file, file.begin(write=True)"
    new = old.replace("path)", "path, max_readers=150)")
    fails(test_there_are_126_places, snippet.edit(old, new))


LOCKED = "with lmdb.open(path) as file:\n    locked"


def test_each_read_takes_a_place__but_not_without_the_lock(snippet, fails):
    """With `lock=False`, reads take no places, and all three epochs pass."""
    edited = snippet.edit(LOCKED, LOCKED.replace("path)", "path, lock=False)"))
    fails(test_each_read_takes_a_place, edited)


def test_each_read_takes_a_place__but_not_in_250_places(snippet, fails):
    """With 250 places, two epochs pass, and the third fails."""
    new = LOCKED.replace("path)", "path, max_readers=250)")
    fails(test_each_read_takes_a_place, snippet.edit(LOCKED, new))


def test_without_locks_all_epochs_pass(snippet):
    cells = (*LMDB, "opened-before-the-fork", "without-locks")
    with patch.object(lmdb, "open", wraps=lmdb.open) as opened:
        run, epochs = workers_of(snippet, *cells)

    assert opened.mock_calls[-1] == call(run.path, lock=False)
    assert epochs == [2, 2, 2]
    assert run.free == [WHOLE] * 3
    with lmdb.open(run.path, lock=False) as file:
        assert forked(reads, file) == 400
        assert (
            run.epochs(DataLoader(run.OpenedBefore(file), **run.two), 2)
            == [WHOLE] * 2
        )


def test_without_locks_all_epochs_pass__but_not_with_them(snippet, fails):
    """With the lock, the places run out in the second epoch."""
    old = "with lmdb.open(path, lock=False) as file:"
    edited = snippet.edit(old, old.replace("False", "True"))
    fails(test_without_locks_all_epochs_pass, edited)


ONLY = "open(path, readonly=True, lock=False)\n    with file."


def test_writing_into_the_map_crashes(snippet):
    run = after(snippet, *BASE, "write-into-the-map", "crash")

    assert run.crash == -signal.SIGSEGV

    for change in ("mul_(2)", "zero_()", "__setitem__(0, 1.0)"):
        other = snippet.edit("add_(1)", change)
        function = after(other, *BASE, "write-into-the-map").warm
        assert run.exit_code(function) == -signal.SIGSEGV
    only = snippet.edit("open(path)\n    with file.begin(b", f"{ONLY}begin(b")
    function = after(only, *BASE, "write-into-the-map").warm
    assert run.exit_code(function) == -signal.SIGSEGV


@edits(
    ("without buffers", "file.begin(buffers=True)", "file.begin()"),
    ("out of place", ".add_(1)", ".add(1)"),
    (
        "in a copy",
        'transaction.get(b"00000000")\n        torch',
        'bytearray(transaction.get(b"00000000"))\n        torch',
    ),
    (
        "in a transaction that has written it",
        "file.begin(buffers=True) as transaction:\n",
        "file.begin(buffers=True, write=True) as transaction:\n"
        '        transaction.put(b"00000000", bytes(192))\n',
    ),
)
def test_writing_into_the_map_crashes__but_not(snippet, fails, old, new):
    """Without `buffers=True`, you change a copy; other edits change a copy, a
    new tensor, or what was just written.
    """
    edited = snippet.edit(old, new)
    if new == ".add(1)":
        run = after(edited, *BASE, "write-into-the-map", "crash")
        assert run.crash == 0
    fails(test_writing_into_the_map_crashes, edited)


def test_a_copy_can_be_changed(snippet):
    run = after(snippet, *LMDB)
    with no_error(), warnings.catch_warnings(action="error"):
        hours, _ = run.Days()[0]
        torch.from_numpy(hours).add_(1)
        again, _ = run.Days()[0]
        file = run.environment(run.path)
        with file.begin(buffers=True) as transaction:
            copied = bytearray(transaction.get(b"00000000"))
            torch.frombuffer(copied, dtype=torch.float64).add_(1)
            stored = bytes(transaction.get(b"00000000"))
    file.close()
    run.environment.cache_clear()

    assert np.array_equal(hours, run.temperature[0] + 1)
    assert np.array_equal(again, run.temperature[0])
    assert stored == run.temperature[0].tobytes()


def test_a_copy_can_be_changed__but_not_without_a_copy(snippet, fails):
    """Without the `bytearray`, the array is read-only."""
    edited = snippet.edit(
        "np.frombuffer(bytearray(hours))", "np.frombuffer(hours)"
    )
    fails(test_a_copy_can_be_changed, edited)


def test_writing_into_the_map_crashes__ends_with_writemap(snippet, fails):
    """With `writemap=True`: that memory can be written."""
    new = "open(path, writemap=True)\n    with file.begin(b"
    edited = snippet.edit("open(path)\n    with file.begin(b", new)
    fails(test_writing_into_the_map_crashes, edited)


# HDF5


def test_hdf5_wants_increasing_rows(snippet, others=([57, 3], [3, 3])):
    run = after(snippet, *BASE, "hdf5", "hdf5-order", "hdf5-sorted")

    increasing = "Indexing elements must be in increasing order"
    assert vars(run).get("unsorted") == increasing
    with h5py.File(run.folder / "days.h5") as file:
        array = file["temperature"]
        for rows in (run.wanted, *others, [0, 5, 4], np.array([99, 0])):
            with pytest.raises(TypeError, match=increasing):
                array[rows]
        for rows in ([3], [3, 57], [0, 4, 5, 99]):
            assert np.array_equal(array[rows], run.temperature[rows])


def test_hdf5_wants_increasing_rows__ends_if_minus_one_is_the_last(
    snippet, fails
):
    """If the last number is `-1`: it means the last row, and is read."""
    fails(test_hdf5_wants_increasing_rows, snippet, [[3, -1]])


def test_hdf5_wants_increasing_rows__but_takes_them_so(snippet, fails):
    """Row numbers in increasing order are read."""
    edited = snippet.edit("[57, 3, 57]", "[3, 57, 58]")
    fails(test_hdf5_wants_increasing_rows, edited)


def test_unique_restores_the_order(snippet, wanted="[57, 3, 57]"):
    snippet = snippet.edit("[57, 3, 57]", wanted)
    with no_error():
        run = after(snippet, *BASE, "hdf5", "hdf5-order", "hdf5-sorted")

    assert run.days.tolist() == sorted({*run.wanted.tolist()})
    assert np.array_equal(run.hours, run.temperature[run.wanted])


@pytest.mark.parametrize(
    "wanted",
    ["[7]", "[9, 8, 7, 9, 99, 0, 0]"],
    ids=["a single number", "repeated numbers"],
)
def test_unique_restores_the_order__also_for(snippet, wanted):
    test_unique_restores_the_order(snippet, wanted)


def test_unique_restores_the_order__ends_for_rows_counted_from_the_end(
    snippet, fails
):
    """For rows counted from the end: `-1` is sorted before 3, and HDF5 raises
    a `TypeError`.
    """
    fails(test_unique_restores_the_order, snippet, "[3, -1]")


@edits(
    ("without the places", "[days][places]", "[days]"),
    (
        "without the sorted rows",
        'file["temperature"][days]',
        'file["temperature"][:][days[::-1]]',
    ),
)
def test_unique_restores_the_order__but_not(snippet, fails, old, new):
    """Without `places`, each day comes once, and sorted; reversed, the rows
    are those of other days.
    """
    fails(test_unique_restores_the_order, snippet.edit(old, new))


HDF5 = (*BASE, "hdf5", "elsewhere", "hdf5-locked")
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


BLOCKED = "BlockingIOError: [Errno 11] Unable to synchronously "


def blocked(said):
    """Whether another process could not lock the file."""
    return said.startswith(BLOCKED) and "unable to lock file" in said


def test_hdf5_locks_while_it_writes(snippet, swmr=False):
    run = after(snippet, *HDF5)
    path = run.folder / f"locked-{swmr}.h5"

    assert blocked(run.while_written)
    assert run.closed == "opened"
    with h5py.File(path, "w", libver="latest") as file:
        file["day"] = 1
        if swmr:
            file.swmr_mode = True
        for mode in ("r", "r+", "a"):
            assert blocked(run.elsewhere(path, f"{mode!r}"))
    with h5py.File(path, "a"):
        assert blocked(run.elsewhere(path, "'r'"))
    assert run.elsewhere(path, "'r'") == "opened"


@edits(
    ("while it reads", 'File(days_h5, "a")', "File(days_h5)"),
    ("without the lock", '(days_h5, "a")', '(days_h5, "a", locking=False)'),
)
def test_hdf5_locks_while_it_writes__but_not(snippet, fails, old, new):
    """Open for reading only, or with `locking=False`, the file lets others
    in.
    """
    fails(test_hdf5_locks_while_it_writes, snippet.edit(old, new))


def test_hdf5_locks_while_it_writes__ends_in_swmr_mode(snippet, fails):
    """In SWMR mode: others get an `OSError` with another text."""
    fails(test_hdf5_locks_while_it_writes, snippet, True)


def test_hdf5_locks_while_it_reads(snippet, locking=None):
    run = after(snippet, *HDF5)

    assert blocked(run.while_read)
    old = "while_read = elsewhere(days_h5, \"'a'\")"
    edited = snippet.edit(old, old.replace("a'\"", "r'\""))
    assert after(edited, *HDF5).while_read == "opened"
    with h5py.File(run.days_h5, locking=locking):
        for mode in ("r+", "a"):
            assert blocked(run.elsewhere(run.days_h5, f"{mode!r}"))
        assert run.elsewhere(run.days_h5, "'r'") == "opened"
    assert run.elsewhere(run.days_h5, "'a'") == "opened"


@edits(
    (
        "if the other reads",
        "(days_h5, \"'a'\")\nclosed",
        "(days_h5, \"'r'\")\nclosed",
    ),
    ("once it is closed", "with h5py.File(days_h5):", "with open(days_h5):"),
)
def test_hdf5_locks_while_it_reads__but_not(snippet, fails, old, new):
    """A second reader is let in; and Python's own `open` locks nothing."""
    fails(test_hdf5_locks_while_it_reads, snippet.edit(old, new))


def test_hdf5_locks_while_it_reads__ends_without_locking(snippet, fails):
    """With `locking=False`: others can open it for writing."""
    fails(test_hdf5_locks_while_it_reads, snippet, False)


@pytest.mark.parametrize("mine", ["a", "r"], ids="mode {}".format)
def test_a_blocked_w_empties_the_file(snippet, mine, mode="w"):
    """No cell decides it: HDF5 itself empties the file."""
    run = after(snippet, *HDF5)
    path = run.folder / f"emptied-{mine}.h5"
    with h5py.File(path, "w") as file:
        file["day"] = 1
    with h5py.File(path, mine):
        said = run.elsewhere(path, f"{mode!r}")
        left = path.stat().st_size

    assert blocked(said)
    assert left == 0


@pytest.mark.parametrize("mode", ["a", "r+"])
def test_a_blocked_w_empties_the_file__ends_in_mode(snippet, fails, mode):
    """In the modes `a` and `r+`: nothing is emptied, and the file stays as it
    was.
    """
    fails(test_a_blocked_w_empties_the_file, snippet, "r", mode)


def test_swmr_lets_others_read(snippet, mode="'r', swmr=True"):
    run = after(snippet, *BASE, "hdf5", "elsewhere", "hdf5-swmr")

    assert run.shared == "opened"
    edited = snippet.edit("\"'r', swmr=True\"", "\"'r'\"")
    plain = after(edited, *BASE, "hdf5", "elsewhere", "hdf5-swmr")
    assert plain.shared != "opened"  # it is open for writing
    path = run.folder / "swmr.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["day"] = [1, 2]
        file.swmr_mode = True
        assert run.elsewhere(path, mode) == "opened"
        program = f'{mode})["day"][1].item() == 2 or 1 / 0; print('
        assert run.elsewhere(path, program) == "opened"


@edits(
    ("if the writer does not", "file.swmr_mode = True", "pass"),
    ("if the reader does not", "'r', swmr=True", "'r'"),
)
def test_swmr_lets_others_read__but_not(snippet, fails, old, new):
    """Without `swmr_mode`, the file stays locked; without `swmr=True`, the
    reader gets an error.
    """
    fails(test_swmr_lets_others_read, snippet.edit(old, new))


def test_swmr_readers_see_what_was_flushed(
    snippet, mode="'r', swmr=True", size=(None,), is_kept=True
):
    """No cell decides it: HDF5 itself passes rows on."""
    run = after(snippet, *BASE, "hdf5", "elsewhere", "hdf5-swmr")
    path = run.folder / "swmr.h5"
    program = mode + ")['day'][-1].item() == {} or 1 / 0; print("
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("day", data=[0], maxshape=size)
        kept = file["day"] if is_kept else None
        file.swmr_mode = True
        for day in range(1, 4):
            if size:
                file["day"].resize(day + 1, axis=0)
            file["day"][-1] = day
            assert run.elsewhere(path, program.format(day - 1)) == "opened"
            file.flush()
            assert run.elsewhere(path, program.format(day)) == "opened"
    assert not kept  # it was open until here


def test_swmr_readers_see_what_was_flushed__also_rows_that_are_overwritten(
    snippet,
):
    test_swmr_readers_see_what_was_flushed(snippet, size=None)


def test_swmr_readers_see_what_was_flushed__ends_for_an_ordinary_reader(
    snippet, fails
):
    """For a reader without `swmr=True`: it cannot open the file at all."""
    fails(test_swmr_readers_see_what_was_flushed, snippet, "'r'")


def test_swmr_readers_see_what_was_flushed__ends_if_a_fixed_set_is_closed(
    snippet, fails
):
    """If a dataset of a fixed size is closed: what you write is seen at
    once.
    """
    closed = "'r', swmr=True", None, False
    fails(test_swmr_readers_see_what_was_flushed, snippet, *closed)


KEPT_OPEN = """
import sys, h5py

with h5py.File(sys.argv[1], "r", swmr=True) as file:
    days = file["day"]
    for _ in sys.stdin:
        REFRESH
        print(len(days), days[-1].max(), flush=True)
"""


def test_swmr_readers_refresh(snippet, refresh="days.refresh()", row=()):
    path = after(snippet, *BASE).folder / "kept-open.h5"
    program = KEPT_OPEN.replace("REFRESH", refresh)
    command = [sys.executable, "-c", program, path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with h5py.File(path, "w", libver="latest") as file:
        data, size = np.zeros((1, *row), int), (None, *row)
        days = file.create_dataset("day", data=data, maxshape=size)
        file.swmr_mode = True
        with subprocess.Popen(command, text=True, **pipes) as reader:

            def seen():
                print("look", file=reader.stdin, flush=True)
                return reader.stdout.readline()

            assert seen() == "1 0\n"
            for day in range(1, 4):
                days.resize(day + 1, axis=0)
                days[-1] = day
                assert seen() == f"{day} {day - 1}\n"
                file.flush()
                assert seen() == f"{day + 1} {day}\n"


def test_swmr_readers_refresh__also_rows_of_24_hours(snippet):
    test_swmr_readers_refresh(snippet, row=(24,))


def test_swmr_readers_refresh__but_not_without_it(snippet, fails):
    """Without `refresh()`, an open dataset keeps the length that it had when
    it was opened.
    """
    fails(test_swmr_readers_refresh, snippet, "pass")


def test_swmr_needs_a_new_file(snippet, libver=None):
    """No cell decides it: HDF5 itself looks at the version."""
    run = after(snippet, *BASE)
    path = run.folder / "older.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["day"] = 1
    with (
        h5py.File(path, "a", libver="latest") as file,
        pytest.raises(RuntimeError, match="file superblock version"),
    ):
        file.swmr_mode = True


@pytest.mark.parametrize("libver", ["earliest", "v108"])
def test_swmr_needs_a_new_file__also_for(snippet, libver):
    test_swmr_needs_a_new_file(snippet, libver)


@pytest.mark.parametrize("libver", ["v110", "v112", "latest"])
def test_swmr_needs_a_new_file__ends_if_it_is_new(snippet, libver, fails):
    """For a file made with one of these versions: it is new enough."""
    fails(test_swmr_needs_a_new_file, snippet, libver)


def test_swmr_lets_others_read__ends_for_writers(snippet, fails):
    """For a second writer: it gets an `OSError`."""
    fails(test_swmr_lets_others_read, snippet, "'a'")


# WebDataset

NONE = "ValueError: No samples found in dataset; perhaps you have fewer shards"


def test_a_worker_needs_a_shard(snippet, workers=2):
    run = after(snippet, *BASE, "write-shards", "from-shards", "one-shard")
    said = run.one
    if workers != 2:
        shards = run.from_shards("days-0.tar", "days-1.tar")
        loader = DataLoader(shards, num_workers=workers, **FORK)
        [said] = run.epochs(loader, 1)

    assert said.startswith(f"{NONE} than workers.")


def test_a_worker_needs_a_shard__also_two_shards_for_three(snippet):
    test_a_worker_needs_a_shard(snippet, 3)


def test_a_worker_needs_a_shard__ends_if_shards_are_resampled(snippet, fails):
    """With `resampled=True`: each worker draws from all shards."""
    old = 'from_shards("days-0.tar")'
    new = 'from_shards("days-0.tar", resampled=True).with_epoch(10)'
    fails(test_a_worker_needs_a_shard, snippet.edit(old, new))


@edits(
    (
        "with two",
        'from_shards("days-0.tar")',
        'from_shards("days-0.tar", "days-1.tar")',
    ),
    (
        "unchecked",
        'from_shards("days-0.tar")',
        'from_shards("days-0.tar", empty_check=False)',
    ),
)
def test_a_worker_needs_a_shard__but_not(snippet, fails, old, new):
    """With two shards, each worker has one; with `empty_check=False`, nobody
    checks.
    """
    fails(test_a_worker_needs_a_shard, snippet.edit(old, new))


def test_two_shards_serve_two_workers(snippet):
    cells = (*BASE, "write-shards", "from-shards", "enough-shards")
    run, epochs = workers_of(snippet, *cells)

    assert epochs == [2, 2]
    assert run.served == [WHOLE, "50 days, 50 different"]
    for dataset in (run.two_shards, run.unchecked):
        found = [*DataLoader(dataset, batch_size=50, num_workers=1, **FORK)]
        assert len(found) == (2 if dataset is run.two_shards else 1)
        for hours, days in found:
            assert len(days) == 50
            assert np.array_equal(hours, run.temperature[days])


@edits(
    (
        "if one is given twice",
        'from_shards("days-0.tar", "days-1.tar")',
        'from_shards("days-0.tar", "days-0.tar")',
    ),
    ("if it is checked", "empty_check=False", "empty_check=True"),
)
def test_two_shards_serve_two_workers__but_not(snippet, fails, old, new):
    """One shard given twice brings its days twice; and with the check, the
    worker without a shard raises.
    """
    fails(test_two_shards_serve_two_workers, snippet.edit(old, new))


# Cut files


CUT = (*BASE, "records", "write-into-the-map", "crash", "hdf5")
CUT += ("write-shards", "cut", "readers", "cut-files")


def test_a_cut_map_ends_the_process(snippet):
    assert after(snippet, *CUT).lmdb_code == -signal.SIGBUS


@edits(
    ("if it is whole", "whole[: len(whole) * 3 // 4 + 7]", "whole"),
    ("if its end is not read", "return list(file.begin().cursor())", "file"),
)
def test_a_cut_map_ends_the_process__but_not(snippet, fails, old, new):
    """A whole file can be read to its end; and a cut one does no harm until it
    is read.
    """
    fails(test_a_cut_map_ends_the_process, snippet.edit(old, new))


def test_a_cut_file_says_so_late(snippet):
    run = after(snippet, *CUT)
    short = (run.folder / "cut-days.tfrecord").stat().st_size
    records = sum(np.loadtxt(run.index, int).sum(axis=1) <= short)
    short = (run.folder / "cut-days-0.tar").stat().st_size
    with tarfile.open(run.folder / "days-0.tar") as tar:
        ends = [m.offset_data + m.size for m in tar if "hours" in m.name]

    assert run.errors.get("HDF5", "").startswith("OSError: ")
    assert "truncated file" in run.errors.get("HDF5", "")
    assert run.errors.get("Parquet", "").startswith("ArrowInvalid: ")
    assert "magic bytes not found" in run.errors.get("Parquet", "")
    assert run.errors.get("TFRecord", "").startswith("RuntimeError: ")
    assert run.errors.get("WebDataset", "").startswith("ReadError: ")
    shards = sum(end <= short for end in ends)
    assert 0 < shards < 50
    assert 0 < records < 100
    assert run.read == {
        "HDF5": 0,
        "Parquet": 0,
        "TFRecord": records,
        "WebDataset": shards,
    }
    assert str(run.folder) not in "".join(run.errors.values())


@edits(
    ("whole", "whole[: len(whole) * 3 // 4 + 7]", "whole"),
    ("between two records", "* 3 // 4 + 7]", "* 3 // 4]"),
)
def test_a_cut_file_says_so_late__but_not(snippet, fails, old, new):
    """A whole file raises nothing, and nor does TFRecord if the cut falls
    between two records.
    """
    fails(test_a_cut_file_says_so_late, snippet.edit(old, new))
