"""The claims of docs/data/storage.md."""

import importlib
import io
import itertools
import os
import pickle
import signal
import sys
import tarfile
import traceback
import zlib
from collections import Counter
from multiprocessing import util
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after
from tests.helpers import spawns

h5py = pytest.importorskip("h5py")
lmdb = pytest.importorskip("lmdb")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("tfrecord")
webdataset = pytest.importorskip("webdataset")

pytestmark = [
    # webdataset and tfrecord leave it to the collector to close their files.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    # From Python 3.12 on: pyarrow has threads of its own.
    pytest.mark.filterwarnings(
        "ignore:This process .* is multi-threaded:DeprecationWarning"
    ),
    pytest.mark.usefixtures("collected", "crash_in_silence"),
]


HDF5 = ("imports", "days", "stored", "from-hdf5", "to-hdf5")
INDEXED = (*HDF5, "lmdb", "from-lmdb")
STREAMS = ("parquet", "from-parquet", "tfrecord", "from-tfrecord")
DEFINED = (*INDEXED, *STREAMS, "webdataset", "from-webdataset")
WRITTEN = (*DEFINED, "write-all")
FORMATS = ("HDF5", "LMDB", "Parquet", "TFRecord", "WebDataset")
FORK = {"num_workers": 2, "multiprocessing_context": "fork"}


def batches_of(dataset, size=20):
    """Read with two forked workers, and let them go if one fails."""
    try:
        return [*DataLoader(dataset, batch_size=size, **FORK)]
    except Exception as error:
        traceback.clear_frames(error.__traceback__)
        pytest.fail(f"{type(error).__name__}: {error}")


# Do this


KEPT = "for array in self.arrays)"


def test_each_epoch_is_shuffled(snippet):
    run = after(snippet, *HDF5, "do-this")
    orders = []
    for _ in range(2):
        batches = [*run.loader]
        assert [len(days) for _, days in batches] == [20] * 5
        for temperatures, days in batches:
            assert np.array_equal(temperatures, run.temperature[days])
        orders.append([day for _, days in batches for day in days.tolist()])
        assert sorted(orders[-1]) == [*range(100)] != orders[-1]
    assert orders[0] != orders[1]


@edits(
    ("without shuffle", "shuffle=True, **two", "**two"),
    ("in other batches", "batch_size=20, shuffle", "batch_size=30, shuffle"),
    ("with days twice", KEPT, "for array in (self.arrays[0], [7] * 100))"),
    ("with others' temperatures", KEPT, "for array in ([7] * 100,) * 2)"),
)
def test_each_epoch_is_shuffled__but_not(snippet, fails, old, new):
    """Without `shuffle`, the days come in order; the other edits change the
    batches, the days or the temperatures.
    """
    fails(test_each_epoch_is_shuffled, snippet.edit(old, new))


def readers(run):
    """Write two files, and return what makes a reader of each by its class."""
    run.to_lmdb(run.folder / "days.lmdb", run.temperature)
    return {
        "FromHDF5": lambda: run.FromHDF5(run.folder / "days.h5"),
        "FromLMDB": lambda: run.FromLMDB(run.folder / "days.lmdb"),
    }


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Note which process opens files, and looks for arrays in them."""
    log = tmp_path / "log"

    def noted(word, call):
        def wrapped(*inputs, **options):
            with log.open("a") as file:
                print(word, os.getpid(), file=file)
            return call(*inputs, **options)

        return wrapped

    monkeypatch.setattr(h5py, "File", noted("open", h5py.File))
    lookup = noted("array", h5py.Group.__getitem__)
    monkeypatch.setattr(h5py.Group, "__getitem__", lookup)
    monkeypatch.setattr(lmdb, "open", noted("open", lmdb.open))

    def read():
        lines = log.read_text().splitlines() if log.exists() else []
        log.write_text("")
        return Counter(tuple(line.split()) for line in lines)

    return read


def test_a_reader_opens_once(snippet, opened, name="FromHDF5"):
    with no_error():
        run = after(snippet, *INDEXED)
        dataset = readers(run)[name]()
        opened()
        assert not opened()
        for index in (57, 3, 57, 99, *range(100)):
            dataset[index]
    main = opened()
    batches_of(dataset, 5)
    workers = opened()

    arrays = {"FromHDF5": 2, "FromLMDB": 0}[name]
    pid = str(os.getpid())
    assert main == +Counter({("open", pid): 1, ("array", pid): arrays})
    pids = {pid for _, pid in workers}
    assert len(pids) == 2
    for pid in pids:
        assert workers["open", pid] == 1
        assert workers["array", pid] == arrays


def test_a_reader_opens_once__also_lmdb(snippet, opened):
    test_a_reader_opens_once(snippet, opened, "FromLMDB")


LOOKED_UP = 'for array in (self.file["temperature"], self.file["day"]))'


def test_a_reader_opens_once__but_not_with_a_lookup_for_each_sample(
    snippet, opened, fails
):
    """`self.file["temperature"]` opens the array again for each sample."""
    fails(test_a_reader_opens_once, snippet.edit(KEPT, LOOKED_UP), opened)


@pytest.mark.parametrize("name", ["FromHDF5", "FromLMDB"])
def test_a_reader_opens_once__but_not_if_each_sample_opens(
    snippet, opened, fails, name
):
    """With `if True`, each sample opens the file anew."""
    edited = snippet.edit("if self.process != os.getpid():", "if True:")
    fails(test_a_reader_opens_once, edited, opened, name)


def test_a_reader_opens_once__but_not_if_it_opens_when_it_is_made(
    snippet, opened, fails
):
    """Opened in `__init__`, the file is open before anybody asks for a
    sample.
    """
    old = 'super().__init__(path, len(file["day"]))\n'
    new = f"{old}        self.ready()\n"
    fails(test_a_reader_opens_once, snippet.edit(old, new), opened)


def test_a_used_reader_reaches_workers(
    snippet, opened, monkeypatch, name="FromHDF5"
):
    run = after(snippet, *INDEXED)
    dataset = readers(run)[name]()
    first, _ = dataset[0]
    opened()
    batches = batches_of(dataset)
    pids = {pid for word, pid in opened() if word == "open"}
    cls = type(dataset)
    monkeypatch.setattr(sys.modules["__main__"], name, cls, raising=False)
    with no_error():
        copied = pickle.dumps(dataset)
    dataset.file.close()
    last, number = pickle.loads(copied)[99]

    days = torch.cat([days for _, days in batches])
    hours = torch.cat([hours for hours, _ in batches])
    assert len(pids - {str(os.getpid())}) == 2
    assert days.tolist() == [*range(100)]
    assert np.array_equal(hours, run.temperature)
    assert np.array_equal(first, run.temperature[0])
    assert np.array_equal(last, run.temperature[99])
    assert number == 99


def test_a_used_reader_reaches_workers__also_lmdb(
    snippet, opened, monkeypatch
):
    test_a_used_reader_reaches_workers(
        snippet, opened, monkeypatch, "FromLMDB"
    )


def test_a_used_reader_reaches_workers__but_not_with_an_open_file(
    snippet, opened, monkeypatch, fails
):
    """With the open file among its attributes, the reader cannot be
    pickled.
    """
    edited = snippet.edit("return vars(self) | closed", "return vars(self)")
    fails(test_a_used_reader_reaches_workers, edited, opened, monkeypatch)


@edits(
    (
        "if it is not opened anew",
        "self.process != os.getpid()",
        "not self.file",
    ),
    ("if the copy stays open", "self.file.close()  # a copy", "pass  #"),
)
def test_a_used_reader_reaches_workers__but_not(
    snippet, opened, monkeypatch, fails, old, new
):
    """A forked worker has to close its copy and open the file itself."""
    edited = snippet.edit(old, new)
    name = "FromLMDB" if new.startswith("pass") else "FromHDF5"
    inputs = edited, opened, monkeypatch, name
    fails(test_a_used_reader_reaches_workers, *inputs)


# The other four


def test_from_lmdb_writes_nothing(snippet):
    run = after(snippet, *INDEXED)
    stored, missing = run.folder / "alone.lmdb", run.folder / "missing.lmdb"
    run.to_lmdb(stored, run.temperature)
    (stored / "lock.mdb").unlink()
    before = (stored / "data.mdb").read_bytes()
    beside = {*run.folder.iterdir()}
    dataset = run.FromLMDB(stored)
    dataset[57]
    names = [path.name for path in stored.iterdir()]
    dataset.file.close()

    assert names == ["data.mdb"]
    assert (stored / "data.mdb").read_bytes() == before
    with pytest.raises(lmdb.Error):
        run.FromLMDB(missing)
    assert {*run.folder.iterdir()} == beside


@edits(
    ("with a lock", "readonly=True, lock=False", "readonly=True"),
    ("if it may write", "readonly=True, lock=False", "lock=False"),
)
def test_from_lmdb_writes_nothing__but_not(snippet, fails, old, new):
    """With the lock, LMDB writes a lock file; without `readonly`, it makes the
    missing folder.
    """
    fails(test_from_lmdb_writes_nothing, snippet.edit(old, new))


def test_one_lmdb_reader_for_each_file(snippet):
    run = after(snippet, *INDEXED)
    path = run.folder / "once.lmdb"
    run.to_lmdb(path, run.temperature)
    dataset = run.FromLMDB(path)
    with no_error():
        run.FromLMDB(path)  # before the first sample
        dataset[57]

    with pytest.raises(lmdb.Error, match="already open in this process"):
        run.FromLMDB(path)
    dataset.file.close()
    with no_error():
        run.FromLMDB(path)


@edits(
    (
        "if each sample closes the file",
        "return np.frombuffer(bytearray(value)",
        "self.file.close(); self.process = 0\n"
        "        return np.frombuffer(bytearray(value)",
    ),
    (
        "if it is open from the start",
        '["entries"]\n        self.file.close()',
        '["entries"]',
    ),
)
def test_one_lmdb_reader_for_each_file__but_not(snippet, fails, old, new):
    """Closed after each sample, the file is free for others; left open in
    `__init__`, not even the first reads it.
    """
    fails(test_one_lmdb_reader_for_each_file, snippet.edit(old, new))


def test_parts_share_a_reader(snippet):
    run = after(snippet, *INDEXED)
    path = run.folder / "parts.lmdb"
    run.to_lmdb(path, run.temperature)
    dataset = run.FromLMDB(path)
    with no_error():
        parts = torch.utils.data.random_split(dataset, [80, 20])
        days = [day for part in parts for _, day in part]
        for part in parts:
            days += [day for _, day in batches_of(part)]
    dataset.file.close()

    assert sorted(days[:100]) == [*range(100)]
    assert sorted(torch.cat(days[100:]).tolist()) == [*range(100)]


def test_parts_share_a_reader__but_not_if_each_sample_opens(snippet, fails):
    """Opened by each sample and never closed, the file is open already when
    the next one comes.
    """
    edited = snippet.edit("if self.process != os.getpid():", "if True:")
    edited = edited.edit("self.file.close()  # a copy", "pass  #")
    fails(test_parts_share_a_reader, edited)


def complete(samples, temperature):
    """Whether samples are each day once, with its temperatures."""
    whole = [*enumerate(temperature.tolist())]
    return sorted(samples) == whole


def test_each_format_gives_each_day_once(snippet, names=FORMATS):
    with no_error():
        run = after(snippet, *WRITTEN)
        for name in names:
            samples = [
                (day.item(), row.tolist())
                for hours, days in batches_of(run.datasets[name])
                for row, day in zip(hours, days, strict=True)
            ]
            assert complete(samples, run.temperature), name


def test_each_format_gives_each_day_once__also_in_the_counts_of_the_page(
    snippet,
):
    run = after(snippet, *WRITTEN, "do-this", "counts")
    first, second = torch.from_numpy(run.temperature[:2])
    batches = [
        (torch.stack([first, first - 3]), torch.tensor([0, 0])),
        (second[None] + 2, torch.tensor([1])),
    ]

    good = {"days": 100, "different days": 100, "largest error": 0.0}
    assert run.read == dict.fromkeys(FORMATS, good)
    found = run.counts(batches)
    error = found.pop("largest error")
    assert type(error) is float
    assert error == pytest.approx(3)
    assert found == {"days": 3, "different days": 2}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("HDF5", "array[index] for", "array[index // 2] for"),
        ("LMDB", "np.frombuffer(bytearray(value)", "1 + np.frombuffer(value"),
        ("Parquet", "range(first, file.num_row_groups, step)", "range(10)"),
        ("TFRecord", "str(path), index, fields", "str(path), None, fields"),
        (
            "WebDataset",
            '"temperature.npy": hours',
            '"temperature.npy": 2 * hours',
        ),
    ],
    ids=[
        "HDF5 at half the index",
        "LMDB plus one",
        "Parquet with all groups for each worker",
        "TFRecord without an index",
        "WebDataset of doubled numbers",
    ],
)
def test_each_format_gives_each_day_once__but_not(
    snippet, fails, name, old, new
):
    """`index // 2` gives half of the days, each twice; the other edits break
    the numbers, or what each worker reads.
    """
    names = {name}  # not plain, so nothing is read for its output
    fails(test_each_format_gives_each_day_once, snippet.edit(old, new), names)


PARQUET = ("imports", "days", "parquet", "from-parquet")


class Told(IterableDataset):
    """The days of a stream, each with the worker that reads it."""

    def __init__(self, stream):
        self.stream = stream

    def __iter__(self):
        for _, day in self.stream:
            yield get_worker_info().id, day


def test_a_group_goes_to_one_worker(
    snippet, tmp_path, workers=2, count=100, size=10
):
    old = "row_group_size=10"
    if old in snippet.text:
        snippet = snippet.edit(old, f"row_group_size={size}")
    run = after(snippet, *PARQUET)
    path = tmp_path / "days.parquet"
    run.to_parquet(path, np.resize(run.temperature, (count, 24)))
    sizes = []
    with parquet.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            sizes.append(file.metadata.row_group(group).num_rows)
    readers = dict.fromkeys(range(count), ())
    options = FORK | {"num_workers": workers, "batch_size": None}
    for worker, day in DataLoader(Told(run.FromParquet(path)), **options):
        readers[day] += (worker,)

    assert [day for _, day in run.FromParquet(path)] == [*range(count)]
    assert len(sizes) == -(-count // size)
    of_groups = [
        {readers[day] for day in range(end - size, end)}
        for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)
    ]
    for found in of_groups:
        assert [len(each) for each in found] == [1]
    assert set.union(*of_groups) == {(each,) for each in range(workers)}


@pytest.mark.parametrize("workers", [3])
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
def test_a_group_goes_to_one_worker__also_with(snippet, tmp_path, workers):
    test_a_group_goes_to_one_worker(snippet, tmp_path, workers)


@pytest.mark.parametrize("size", [60], ids="groups of {}".format)
def test_a_group_goes_to_one_worker__also_a_smaller_last_group(
    snippet, tmp_path, size
):
    test_a_group_goes_to_one_worker(snippet, tmp_path, 2, 250, size)


def test_a_group_goes_to_one_worker__ends_with_fewer_groups_than_workers(
    snippet, tmp_path, fails
):
    """With fewer groups than workers: some workers get nothing."""
    inputs = snippet, tmp_path, 2, 100, 100
    fails(test_a_group_goes_to_one_worker, *inputs)


@edits(
    ("each to all", "(worker.id, worker.num_workers)", "(0, 1)"),
    (
        "row by row",
        "for group in range(first, file.num_row_groups, step):\n"
        "                for row in file.read_row_group(group).to_pylist():",
        "for group in range(1):\n"
        "                for row in file.read().to_pylist()[first::step]:",
    ),
)
def test_a_group_goes_to_one_worker__but_not(
    snippet, tmp_path, fails, old, new
):
    """With `(0, 1)`, every worker reads every group; row by row, both read
    parts of each.
    """
    edited = snippet.edit(old, new)
    fails(test_a_group_goes_to_one_worker, edited, tmp_path)


ALL_SHARDS = (
    "list(itertools.takewhile(os.path.exists, names))",
    'sorted(str(each) for each in path.parent.glob("*.tar*"))',
)


def days_of(run, path):
    """Return the days that a reader of shards gives, in their order."""
    return [int(day) for _, day in run.from_webdataset(path)]


def test_shards_are_found_by_name(
    snippet, tmp_path, name="train-%d.tar", other="val-%d.tar", count=75
):
    run = after(snippet, *DEFINED)
    many = np.resize(run.temperature, (count, 24))
    run.to_webdataset(tmp_path / other, run.temperature[:30] + 1)
    run.to_webdataset(tmp_path / name, many)
    with no_error():
        found = [*run.from_webdataset(tmp_path / name)]

    assert [int(day) for _, day in found] == [*range(count)]
    assert np.array_equal([hours for hours, _ in found], many)
    assert days_of(run, tmp_path / other) == [*range(30)]
    with pytest.raises(FileNotFoundError, match="none-0"):
        run.from_webdataset(tmp_path / "none-%d.tar")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("days%d.tar", "more_days%d.tar"),
        ("%d.tar", "0-%d.tar"),
        ("train-%d.tar", "train-0-%d.tar"),
        ("train-%06d.tar", "train-%d.tar"),
        ("train-%d.tar", "train-%d.tar.gz"),
    ],
    ids=[
        "a longer name",
        "a number in front",
        "a number inside",
        "fewer digits",
        "another ending",
    ],
)
def test_shards_are_found_by_name__also_beside_files_with(
    snippet, tmp_path, name, other
):
    test_shards_are_found_by_name(snippet, tmp_path, name, other)


def test_shards_are_found_by_name__also_in_the_order_of_their_numbers(
    snippet, tmp_path
):
    count = 11 * 25 + 1
    test_shards_are_found_by_name(snippet, tmp_path, count=count)


@edits(
    ("if all shards are read", *ALL_SHARDS),
    (
        "if none is an empty dataset",
        "raise FileNotFoundError(str(path) % 0)",
        "return []",
    ),
)
def test_shards_are_found_by_name__but_not(snippet, fails, tmp_path, old, new):
    """`*.tar*` also finds other names, and an empty list hides that there is
    no shard.
    """
    fails(test_shards_are_found_by_name, snippet.edit(old, new), tmp_path)


def test_a_missing_shard_ends_the_reading(snippet, tmp_path, missing=1):
    run = after(snippet, *DEFINED)
    run.to_webdataset(tmp_path / "days-%d.tar", run.temperature)
    (tmp_path / f"days-{missing}.tar").unlink()
    with no_error():
        days = days_of(run, tmp_path / "days-%d.tar")

    assert days == [*range(25 * missing)]


@pytest.mark.parametrize("shard", [2, 3])
def test_a_missing_shard_ends_the_reading__also_for_shards(
    snippet, tmp_path, shard
):
    test_a_missing_shard_ends_the_reading(snippet, tmp_path, shard)


def test_a_missing_shard_ends_the_reading__but_not_if_all_shards_are_read(
    snippet, tmp_path, fails
):
    """`*.tar*` also finds the shards behind the gap."""
    edited = snippet.edit(*ALL_SHARDS)
    fails(test_a_missing_shard_ends_the_reading, edited, tmp_path)


def test_a_missing_shard_ends_the_reading__ends_with_the_first(
    snippet, tmp_path, fails
):
    """If the first shard is missing: a `FileNotFoundError` says so."""
    fails(test_a_missing_shard_ends_the_reading, snippet, tmp_path, 0)


def test_two_writers_keep_old_days(snippet, tmp_path):
    run = after(snippet, *DEFINED)
    new = run.temperature[:50] + 1
    found = {}
    for name, write, read, path in (
        ("HDF5", run.to_hdf5, run.FromHDF5, "days.h5"),
        ("LMDB", run.to_lmdb, run.FromLMDB, "days.lmdb"),
        ("Parquet", run.to_parquet, run.FromParquet, "days.parquet"),
        ("TFRecord", run.to_tfrecord, run.from_tfrecord, "days.tfrecord"),
        ("WebDataset", run.to_webdataset, run.from_webdataset, "days-%d.tar"),
    ):
        for temperature in (run.temperature, new):
            write(tmp_path / path, temperature)
        with no_error():
            pairs = [*read(tmp_path / path)]
        samples = [(int(day), hours.tolist()) for hours, day in pairs]
        found[name] = sorted(samples)
    first = [*enumerate(new.tolist())]
    kept = first + [*enumerate(run.temperature.tolist())][50:]

    assert found == dict.fromkeys(FORMATS, first) | dict.fromkeys(
        ("LMDB", "WebDataset"), kept
    )


@edits(
    (
        "in LMDB, if it is emptied",
        "(temperature):\n            transaction.put",
        "(temperature):\n            if day == 0:\n"
        "                old = environment.open_db(txn=transaction)\n"
        "                transaction.drop(old, delete=False)"
        "\n            transaction.put",
    ),
    (
        "in shards, if they are removed",
        "    with webdataset.ShardWriter(",
        "    for old in path.parent.glob('*.tar'):\n        old.unlink()\n"
        "    with webdataset.ShardWriter(",
    ),
    (
        "in TFRecord, if it adds records",
        "    writer = tfrecord.TFRecordWriter(str(path))",
        "    old = path.read_bytes() if path.exists() else b''\n"
        "    writer = tfrecord.TFRecordWriter(str(path))\n"
        "    writer.file.write(old)",
    ),
)
def test_two_writers_keep_old_days__but_not(
    snippet, fails, tmp_path, old, new
):
    """Emptied or removed first, no old days are left; and a TFRecord file that
    you add to keeps them as well.
    """
    fails(test_two_writers_keep_old_days, snippet.edit(old, new), tmp_path)


# How it works


class Noted(io.BytesIO):
    """A file in memory that notes which of its bytes are read."""

    def __init__(self, content):
        super().__init__(content)
        self.read_bytes = np.zeros(len(content), bool)

    def readinto(self, buffer):
        """Note what is read into a buffer."""
        start = self.tell()
        count = super().readinto(buffer)
        self.read_bytes[start : start + count] = True
        return count


@pytest.mark.parametrize("day", [57])
def test_a_chunk_is_read_whole(snippet, day):
    run = after(snippet, *WRITTEN, "content", "places", "places-in-shards")
    file = Noted(run.content["HDF5"])
    hours = h5py.File(file)["temperature"][day]
    chunks = run.places["HDF5"]

    assert np.array_equal(hours, run.temperature[day])
    assert len(chunks) == 10
    for i, (start, size) in enumerate(chunks):
        part = slice(start, start + size)
        with no_error():
            packed = zlib.decompress(run.content["HDF5"][part])
        ten = run.temperature[10 * i : 10 * i + 10]
        # By default the bytes of numbers are not shuffled before.
        assert packed == ten.tobytes()
        assert file.read_bytes[part].all() == (i == day // 10)
        assert file.read_bytes[part].any() == (i == day // 10)


@pytest.mark.parametrize("day", [0, 59, 99])
def test_a_chunk_is_read_whole__also_for(snippet, day):
    test_a_chunk_is_read_whole(snippet, day)


@edits(
    ("of five days", "chunks=(10, 24)", "chunks=(5, 24)"),
    ("of all days", "chunks=(10, 24)", "chunks=(100, 24)"),
    (
        "uncompressed",
        'chunks=(10, 24), compression="gzip"',
        "chunks=(10, 24), compression=None",
    ),
)
def test_a_chunk_is_read_whole__but_not(snippet, fails, old, new):
    """Chunks of another size hold other days, and without compression there is
    nothing to unpack.
    """
    fails(test_a_chunk_is_read_whole, snippet.edit(old, new), 57)


def test_lmdb_keeps_values_in_pages__also_in_more_than_ten_megabytes(snippet):
    run = after(snippet, *INDEXED)
    many = np.arange(120_000 * 24, dtype=np.float32).reshape(-1, 24)
    with no_error():
        run.to_lmdb(run.folder / "many.lmdb", many)
    dataset = run.FromLMDB(run.folder / "many.lmdb")

    assert len(dataset) == 120_000
    for day in (0, 31_415, 119_999):
        assert np.array_equal(dataset[day][0], many[day])
    dataset.file.close()
    size = (run.folder / "many.lmdb" / "data.mdb").stat().st_size
    assert size > 10_485_760


def test_lmdb_keeps_values_in_pages(snippet):
    run = after(snippet, *WRITTEN, "content", "places", "places-in-shards")
    content = run.content["LMDB"]
    path = str(run.folder / "days.lmdb")
    with lmdb.open(path, readonly=True, lock=False) as file:
        page = file.stat()["psize"]
        with file.begin() as transaction:
            values = [transaction.get(f"{i:08}".encode()) for i in range(100)]

    assert len(content) % page == 0
    assert len(run.places["LMDB"]) == 100
    for day, (start, size) in enumerate(run.places["LMDB"]):
        hours = run.temperature[day].tobytes()
        assert values[day] == hours == content[start : start + size]
        assert start // page == (start + size - 1) // page


@edits(
    ("if a day is larger than a page", "(100, 24)", "(100, 2400)"),
    (
        "if the bytes are changed",
        "(), hours.tobytes()",
        "(), hours[::-1].tobytes()",
    ),
    ("by another key", 'put(f"{day:08}"', 'put(f"{99 - day:08}"'),
)
def test_lmdb_keeps_values_in_pages__but_not(snippet, fails, old, new):
    """A day larger than a page spans several; and other bytes, or another key,
    are not what was stored for that day.
    """
    edited = snippet.edit(old, new)
    if "2400" in new:
        edited = edited.edit("chunks=(10, 24)", "chunks=(10, 2400)")
    fails(test_lmdb_keeps_values_in_pages, edited)


def test_columns_stand_apart(snippet):
    run = after(snippet, *WRITTEN, "content", "places", "places-in-shards")
    groups, content = run.groups, bytearray(run.content["Parquet"])

    assert groups.num_row_groups == len(run.places["Parquet"]) == 10
    end = 0
    for i, (start, size) in enumerate(run.places["Parquet"]):
        hours, day = (groups.row_group(i).column(j) for j in (0, 1))
        assert groups.row_group(i).num_rows == 10
        assert hours.path_in_schema.startswith("temperature")
        assert (start, size) == (
            hours.dictionary_page_offset,
            hours.total_compressed_size,
        )
        assert end <= start
        assert start + size <= day.dictionary_page_offset
        end = day.dictionary_page_offset + day.total_compressed_size
        content[start : start + size] = bytes(size)
    with no_error():
        wiped = pyarrow.BufferReader(bytes(content))
        days = parquet.read_table(wiped, columns=["day"])
    assert days["day"].to_pylist() == [*range(100)]


@edits(
    ("in groups of twenty", "row_group_size=10", "row_group_size=20"),
    (
        "in another order",
        '{"temperature": list(temperature), "day": days}',
        '{"day": days, "temperature": list(temperature)}',
    ),
)
def test_columns_stand_apart__but_not(snippet, fails, old, new):
    """Groups of twenty days make five groups, and in the other order the
    numbers come first.
    """
    fails(test_columns_stand_apart, snippet.edit(old, new))


def test_records_follow_each_other(snippet):
    run = after(snippet, *WRITTEN, "content", "places", "places-in-shards")

    for name in ("TFRecord", "WebDataset"):
        end = 0
        assert len(run.places[name]) == 100
        for day, (start, size) in enumerate(run.places[name]):
            assert start >= end
            end = start + size
            part = run.content[name][start:end]
            assert run.temperature[day].tobytes() in part
        assert end <= len(run.content[name])
        if name == "TFRecord":
            assert end == len(run.content[name])


@edits(
    ("in TFRecord", "path))\n    for day, hours in enumerate(", ""),
    (
        "in a shard",
        "verbose=0) as writer:\n        for day, hours in enumerate(",
        "",
    ),
)
def test_records_follow_each_other__but_not_if_written_backward(
    snippet, fails, old, new
):
    """Written backward, day 0 comes last."""
    new = old.replace(
        "in enumerate(", "in reversed([*enumerate(temperature)]):"
    )
    edited = snippet.edit(f"{old}temperature):", new)
    fails(test_records_follow_each_other, edited)


def test_a_tar_fills_up(snippet):
    run = after(snippet, *WRITTEN, "content", "places", "places-in-shards")

    assert run.temperature[0].nbytes == 96
    assert {size for _, size in run.places["WebDataset"]} == {4096}
    assert len(run.files["WebDataset"]) == 4
    for path in run.files["WebDataset"]:
        end = 0
        with tarfile.open(path) as tar:
            for member in tar:
                assert member.offset == end  # where the one before is full
                assert member.offset_data - member.offset >= 512
                end = member.offset_data + -(-member.size // 512) * 512
    for day, (start, size) in enumerate(run.places["WebDataset"]):
        part = run.content["WebDataset"][start : start + size]
        assert f"{day:08}.day.cls".encode() in part


def test_a_tar_fills_up__but_not_with_larger_days(snippet, fails):
    """A day of 960 bytes needs two more blocks of 512."""
    edited = snippet.edit("(100, 24)", "(100, 240)")
    edited = edited.edit("chunks=(10, 24)", "chunks=(10, 240)")
    fails(test_a_tar_fills_up, edited)


# Choose a format


def test_streams_cannot_shuffle(snippet):
    run = after(snippet, *WRITTEN)
    torch.manual_seed(1)

    for name, dataset in run.datasets.items():
        try:
            loader = DataLoader(dataset, shuffle=True, batch_size=None)
            refused = None
        except Exception as error:
            refused = type(error)
        if name not in ("HDF5", "LMDB"):
            assert refused is ValueError
            continue
        assert refused is None
        samples = [(int(day), hours.tolist()) for hours, day in loader]
        days = [day for day, _ in samples]
        assert days != sorted(days)
        assert complete(samples, run.temperature)


@edits(
    (
        "as a dataset by index",
        "class FromParquet(IterableDataset)",
        "class FromParquet(Dataset)",
    ),
    ("by another index", "array[index] for", "array[0] for"),
    ("by another key", 'get(f"{index:08}"', 'get(f"{7:08}"'),
)
def test_streams_cannot_shuffle__but_not(snippet, fails, old, new):
    """As a `Dataset` without a length, `FromParquet` raises a `TypeError`; the
    other edits always read one day.
    """
    fails(test_streams_cannot_shuffle, snippet.edit(old, new))


@pytest.mark.parametrize("name", ["FromHDF5", "FromLMDB"])
def test_a_loop_over_a_reader_ends(snippet, name):
    run = after(snippet, *INDEXED)
    dataset = readers(run)[name]()
    with no_error():
        some = itertools.islice(dataset, 150)
        samples = [(int(day), hours.tolist()) for hours, day in some]
    with pytest.raises(IndexError):
        dataset[100]
    last = [int(dataset[index][1]) for index in (-1, torch.tensor(99))]
    dataset.file.close()

    assert samples == [*enumerate(run.temperature.tolist())]
    assert last == [99, 99]


@edits(
    ("FromHDF5", "array[index] for", "array[index % 100] for"),
    ("FromLMDB", "range(len(self))[index]", "index"),
)
def test_a_loop_over_a_reader_ends__but_not(snippet, fails, old, new):
    """`index % 100` starts over, and LMDB gives `None` past the end: there is
    no `IndexError`.
    """
    name = "FromHDF5" if old.startswith("array") else "FromLMDB"
    fails(test_a_loop_over_a_reader_ends, snippet.edit(old, new), name)


def size_of(run, name, which=0):
    """Return the bytes of the zeros in a format."""
    return run.sizes[name][which]


def test_hdf5_compresses_if_told(snippet):
    run = after(snippet, *DEFINED, "zeros", "sizes")

    assert size_of(run, "HDF5") >= 1_000_000
    assert size_of(run, "HDF5", 1) < 100_000
    assert run.zeros.tobytes() in (run.folder / "zeros.h5").read_bytes()
    for name in ("zeros.h5", "packed.h5"):
        with h5py.File(run.folder / name) as file:
            assert np.array_equal(file["temperature"], run.zeros)
            told = "gzip" if name == "packed.h5" else None
            assert file["temperature"].compression == told
    run.to_hdf5(run.folder / "plain.h5", run.temperature)
    with h5py.File(run.folder / "plain.h5") as file:
        assert file["temperature"].compression is None
    plain = (run.folder / "plain.h5").read_bytes()
    assert run.temperature.tobytes() in plain
    run.to_hdf5(run.folder / "chunks.h5", run.temperature, chunks=(10, 24))
    with h5py.File(run.folder / "chunks.h5") as file:
        assert file["temperature"].chunks == (10, 24)
        assert file["temperature"].compression is None
    chunks = (run.folder / "chunks.h5").read_bytes()
    for first in range(0, 100, 10):
        assert run.temperature[first : first + 10].tobytes() in chunks


@edits(
    ("untold", 'zeros, compression="gzip")', "zeros)"),
    (
        "as it is if told",
        '"zeros.h5", zeros)',
        '"zeros.h5", zeros, compression="lzf")',
    ),
)
def test_hdf5_compresses_if_told__but_not(snippet, fails, old, new):
    """Without the argument, nothing is compressed; with `"lzf"`, the plain
    file shrinks as well.
    """
    fails(test_hdf5_compresses_if_told, snippet.edit(old, new))


def test_parquet_compresses_by_itself(snippet):
    run = after(snippet, *DEFINED, "zeros", "sizes")
    run.to_parquet(run.folder / "days.parquet", run.temperature)

    assert size_of(run, "Parquet") < 10_000
    for name in ("zeros.parquet", "days.parquet"):
        groups = parquet.read_metadata(run.folder / name)
        for i in range(groups.num_row_groups):
            for j in range(groups.num_columns):
                column = groups.row_group(i).column(j)
                assert column.compression == "SNAPPY"


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_parquet_compresses_by_itself__but_not_if_told(snippet, fails, codec):
    """The argument `compression` turns it off, or chooses another method."""
    new = f'path, row_group_size=10, compression="{codec}"'
    edited = snippet.edit("path, row_group_size=10", new)
    fails(test_parquet_compresses_by_itself, edited)


def test_three_formats_store_bytes_as_they_are(snippet):
    run = after(
        snippet,
        *WRITTEN,
        "content",
        "places",
        "places-in-shards",
        "zeros",
        "sizes",
    )

    for name in ("LMDB", "TFRecord", "WebDataset"):
        assert size_of(run, name) >= 1_000_000
        for hours in run.temperature:
            assert hours.tobytes() in run.content[name]
        whole = (run.folder / run.zeros_in[name][0]).read_bytes()
        assert run.zeros[0].tobytes() in whole


@edits(
    (
        "in LMDB",
        "encode(), hours.tobytes())",
        "encode(), zlib.compress(hours.tobytes()))",
    ),
    (
        "in TFRecord",
        '(hours.tobytes(), "byte")',
        '(zlib.compress(hours.tobytes()), "byte")',
    ),
    (
        "in a shard",
        '"temperature.npy": hours,',
        '"temperature.pyd": zlib.compress(hours.tobytes()),',
    ),
)
def test_three_formats_store_bytes_as_they_are__but_not_if_packed(
    snippet, fails, old, new
):
    """If you compress a value before you write it, its file is small."""
    edited = snippet.edit(old, new).edit(
        "import atexit\n", "import atexit\nimport zlib\n"
    )
    fails(test_three_formats_store_bytes_as_they_are, edited)


def test_a_gz_shard_is_compressed(snippet):
    run = after(snippet, *WRITTEN, "zeros", "sizes")

    assert size_of(run, "WebDataset") >= 1_000_000
    assert size_of(run, "WebDataset", 1) < 20_000
    for path in ("zeros-%d.tar", "packed-%d.tar.gz"):
        with no_error():
            pairs = [*run.from_webdataset(run.folder / path)]
        hours, days = zip(*pairs, strict=True)
        assert np.array_equal(hours, run.zeros)
        assert [*days] == [*range(10)]


def test_a_gz_shard_is_compressed__but_not_if_all_shards_are_read(
    snippet, fails
):
    """`*.tar*` also finds the shards of other days."""
    fails(test_a_gz_shard_is_compressed, snippet.edit(*ALL_SHARDS))


def test_a_gz_shard_is_compressed__but_not_by_another_name(snippet, fails):
    """Only `gz` at the end of the name compresses; `.gz.tar` does not."""
    edited = snippet.edit("packed-%d.tar.gz", "packed-%d.gz.tar")
    edited = edited.edit("packed-0.tar.gz", "packed-0.gz.tar")
    fails(test_a_gz_shard_is_compressed, edited)


def counted(samples):
    """Return the days that come before an error, and its class."""
    days = []
    try:
        for _, day in samples:
            days.append(int(day))
    except Exception as error:
        return days, type(error).__name__
    return days, None


def cut(run, path, length):
    """Write the first bytes of a file into a folder of their own."""
    folder = run.folder / "shorter"
    folder.mkdir(exist_ok=True)
    (folder / path).write_bytes((run.folder / path).read_bytes()[:length])
    return folder / path


def test_a_cut_tfrecord_gives_whole_records(snippet):
    run = after(snippet, *WRITTEN, "cut", "count", "in-a-process", "halves")
    index = np.loadtxt(run.folder / "days.tfrecord.index", int)
    half = run.half / "days.tfrecord"

    assert run.halves["TFRecord"] == (50, "no error")
    assert half.stat().st_size == index[50, 0]
    days, error = counted(run.without_index(half))
    assert (days, error) == ([*range(50)], None)
    for whole, more in ((0, 5), (0, 60), (50, 1), (66, 11), (99, 149)):
        path = cut(run, "days.tfrecord", index[whole, 0] + more)
        days, error = counted(run.without_index(path))
        assert (days, error) == ([*range(whole)], "RuntimeError")


@edits(
    ("of one byte more", "len(whole) // 2", "len(whole) // 2 + 1"),
    ("of a quarter", "len(whole) // 2", "len(whole) // 4"),
)
def test_a_cut_tfrecord_gives_whole_records__but_not(snippet, fails, old, new):
    """One byte further, the cut is within a record and raises; a quarter of
    the file holds only 25 records.
    """
    fails(test_a_cut_tfrecord_gives_whole_records, snippet.edit(old, new))


def cut_shards(run):
    """Cut a shard in and between days; return the days, and the error."""
    found = {}
    for day in (1, 13, 24):
        for more in (0, 1, 511, 512, 513, 2570, 4090):
            length = 4096 * day + more
            path = cut(run, "days-0.tar", length).with_name("days-%d.tar")
            found[day, more] = counted(run.from_webdataset(path))
    return found


def test_a_cut_shard_gives_whole_days(snippet, most=512):
    run = after(snippet, *WRITTEN, "cut", "count", "in-a-process", "halves")
    found = cut_shards(run)

    for (day, more), samples in found.items():
        if more < most:
            assert samples == ([*range(day)], None)


def test_a_cut_shard_gives_whole_days__but_not_if_days_take_half(
    snippet, fails
):
    """With days of 960 bytes, a cut after 4,096 bytes is still inside the
    first one.
    """
    edited = snippet.edit("(100, 24)", "(100, 240)")
    edited = edited.edit("chunks=(10, 24)", "chunks=(10, 240)")
    fails(test_a_cut_shard_gives_whole_days, edited)


def test_a_cut_shard_gives_whole_days__ends_behind_the_first_header(
    snippet, fails
):
    """Cut behind the first 512 bytes of a sample: it raises an error."""
    fails(test_a_cut_shard_gives_whole_days, snippet, 513)


def test_a_shard_cut_in_a_day_raises(snippet, least=512):
    run = after(snippet, *WRITTEN, "cut", "count", "in-a-process", "halves")
    found = cut_shards(run)

    assert run.halves["WebDataset"] == (13, "ReadError")
    for (day, more), (days, error) in found.items():
        if more >= least:
            assert error in ("ReadError", "ValueError")
            assert days in ([*range(day)], [*range(day - 1)])
    assert found[13, 513] == ([*range(12)], "ReadError")


def test_a_shard_cut_in_a_day_raises__but_not_a_whole_one(snippet, fails):
    """A whole shard has all its days, and raises nothing."""
    edited = snippet.edit("whole[: len(whole) // 2]", "whole")
    fails(test_a_shard_cut_in_a_day_raises, edited)


def test_a_shard_cut_in_a_day_raises__but_not_between_days(snippet, fails):
    """A cut at a multiple of 4,096 bytes is between two days."""
    edited = snippet.edit("whole[: len(whole) // 2]", "whole[: 13 * 4096]")
    fails(test_a_shard_cut_in_a_day_raises, edited)


def test_a_shard_cut_in_a_day_raises__ends_in_the_first_header(snippet, fails):
    """Cut in the first 512 bytes of a sample: it raises nothing."""
    fails(test_a_shard_cut_in_a_day_raises, snippet, 511)


def test_hdf5_and_parquet_need_the_end(snippet):
    run = after(snippet, *WRITTEN, "cut", "count", "in-a-process", "halves")

    assert run.halves["HDF5"] == (0, "OSError")
    assert run.halves["Parquet"] == (0, "ArrowInvalid")
    for path in ("days.h5", "days.parquet"):
        size = (run.folder / path).stat().st_size
        for length in (size // 4, size // 2, size - 1):
            shorter = cut(run, path, length)
            if path == "days.h5":
                with pytest.raises(OSError, match="truncated file"):
                    run.FromHDF5(shorter)
            else:
                days, error = counted(run.FromParquet(shorter))
                assert (days, error) == ([], "ArrowInvalid")


def test_hdf5_and_parquet_need_the_end__but_read_it_then(snippet, fails):
    """Copied whole, both can be read."""
    edited = snippet.edit("whole[: len(whole) // 2]", "whole")
    fails(test_hdf5_and_parquet_need_the_end, edited)


def test_half_an_lmdb_file_crashes(snippet):
    run = after(snippet, *WRITTEN, "cut", "count", "in-a-process", "halves")
    path = str(run.folder / "half" / "days.lmdb")
    with no_error(), lmdb.open(path, readonly=True, lock=False) as file:
        assert file.stat()["entries"] == 100

    whole = (run.folder / "days.lmdb" / "data.mdb").stat().st_size
    half = (run.folder / "half" / "days.lmdb" / "data.mdb").stat().st_size
    assert half == whole // 2
    _, crash = run.halves["LMDB"]
    assert crash == signal.SIGBUS.name


def test_half_an_lmdb_file_crashes__but_not_the_whole(snippet, fails):
    """Here the file is copied whole, so nothing is missing."""
    edited = snippet.edit("whole[: len(whole) // 2]", "whole")
    edited = edited.edit('/ "half").mkdir()', '/ "half").mkdir()\nhalf = 0')
    fails(test_half_an_lmdb_file_crashes, edited)


def test_a_missing_field_raises(snippet):
    run = after(snippet, *WRITTEN, "missing-field", "rain", "ask-for-rain")

    errors = {"HDF5": KeyError, "TFRecord": KeyError, "WebDataset": ValueError}
    for name, error in errors.items():
        with pytest.raises(error, match="rain"):
            run.attempts[name]()
        assert run.asked[name].startswith(f"{error.__name__}: ")
        assert "rain" in run.asked[name]


@edits(
    ("in HDF5", '"days.h5")["rain"]', '"days.h5")["day"]'),
    ("in TFRecord", '{"rain": "float"}', '{"day": "int"}'),
    ("in a shard", 'to_tuple("rain.npy")', 'to_tuple("day.cls")'),
    (
        "in a shard that may lack it",
        'to_tuple("rain.npy")',
        'to_tuple("rain.npy", missing_is_error=False)',
    ),
)
def test_a_missing_field_raises__but_not_one_that_is_there(
    snippet, fails, old, new
):
    """A field that is there is read; and `missing_is_error=False` keeps
    WebDataset quiet.
    """
    fails(test_a_missing_field_raises, snippet.edit(old, new))


def test_lmdb_gives_none(snippet):
    run = after(snippet, *WRITTEN, "missing-field", "rain", "ask-for-rain")

    assert run.attempts["LMDB"]() is None
    assert run.asked["LMDB"] == "None"


@edits(
    ("for a key it has", 'get(b"rain")', 'get(b"00000007")'),
    ("with a default", 'get(b"rain")', 'get(b"rain", b"dry")'),
)
def test_lmdb_gives_none__but_not(snippet, fails, old, new):
    """A key that is there has a value, and a default takes the place of
    `None`.
    """
    fails(test_lmdb_gives_none, snippet.edit(old, new))


def test_parquet_fills_a_new_column(snippet):
    run = after(snippet, *WRITTEN, "missing-field", "rain", "ask-for-rain")

    assert run.table.column_names == ["day", "rain"]
    assert run.table["rain"].null_count == 100
    assert run.table["day"].to_pylist() == [*range(100)]
    assert run.attempts["Parquet"]() is None


def test_parquet_fills_a_new_column__but_not_unnamed(snippet, fails):
    """Without a schema, the table has only the columns of the file."""
    edited = snippet.edit('"days.parquet", schema=newer', '"days.parquet"')
    edited = edited.edit('table["rain"].to', 'table["day"].to')
    fails(test_parquet_fills_a_new_column, edited)


def test_parquet_file_leaves_a_column_out(snippet):
    run = after(snippet, *WRITTEN)
    with parquet.ParquetFile(run.folder / "days.parquet") as file:
        for columns, found in ((["rain"], []), (["day", "rain"], ["day"])):
            assert file.read(columns=columns).column_names == found


def test_parquet_file_leaves_a_column_out__but_not_one_it_has(snippet, fails):
    """This file has a column `rain`, so it is read."""
    edited = snippet.edit('(temperature), "day"', '(temperature), "rain"')
    fails(test_parquet_file_leaves_a_column_out, edited)


# What goes wrong


def test_open_files_cannot_be_pickled(snippet):
    run = after(snippet, *WRITTEN, "missing-field", "open-handles")

    assert len(run.refused) == 4
    for handle in run.handles[:3]:
        with pytest.raises(TypeError):
            pickle.dumps(handle)
    with (
        h5py.File(run.folder / "days.h5") as file,
        pytest.raises(TypeError),
    ):
        pickle.dumps(file["temperature"])


@edits(
    (
        "in HDF5",
        '    h5py.File(folder / "days.h5"),',
        '    folder / "days.h5",',
    ),
    (
        "in LMDB",
        "    lmdb_days.file,",
        "    lmdb_days.path,",
    ),
    (
        "in Parquet",
        '    pyarrow.parquet.ParquetFile(folder / "days.parquet"),',
        '    folder / "days.parquet",',
    ),
)
def test_open_files_cannot_be_pickled__but_their_paths_can(
    snippet, fails, old, new
):
    """A path in place of the open file can be pickled."""
    fails(test_open_files_cannot_be_pickled, snippet.edit(old, new))


def test_tfrecord_needs_a_transform(snippet):
    run = after(snippet, *WRITTEN, "missing-field", "open-handles")

    with pytest.raises(AttributeError, match="local object"):
        pickle.dumps(run.handles[3])
    main = sys.modules[run.decode.__module__]
    with no_error(), patch.object(main, "decode", run.decode, create=True):
        pickle.dumps(run.TFRecordDataset("days", None, transform=len))
        pickle.dumps(run.from_tfrecord(run.folder / "days.tfrecord"))


def test_tfrecord_needs_a_transform__but_not_if_it_has_one(snippet, fails):
    """`transform=len` takes the place of a local function that cannot be
    pickled.
    """
    old = 'TFRecordDataset(str(folder / "days.tfrecord"), None),'
    new = old.replace("None)", "None, transform=len)")
    fails(test_tfrecord_needs_a_transform, snippet.edit(old, new))


# In spawned workers

TOGETHER = '''

class Together(IterableDataset):
    """All datasets, one after the other, so that workers start once."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        worker = get_worker_info()
        for name, dataset in self.datasets.items():
            if not isinstance(dataset, IterableDataset):
                mine = range(worker.id, len(dataset), worker.num_workers)
                dataset = map(dataset.__getitem__, mine)
            hours, days = zip(*dataset, strict=True)
            yield name, np.stack(hours), np.array(days)
'''


def forget(module):
    """Let a worker import a module anew, as one does that starts without.

    LMDB would refuse to open in it what is open already.
    """
    module.datasets["LMDB"].file.close()
    sys.modules.pop(module.__name__, None)


def spawned(snippet, folder, monkeypatch):
    """Read the datasets in spawned workers, which import a module."""
    cells = snippet.cells()
    text = "".join(f"{cells[name].source}\n\n" for name in DEFINED)
    (folder / "stored_days.py").write_text(text + TOGETHER)
    monkeypatch.syspath_prepend(folder)
    module = importlib.import_module("stored_days")
    sys.modules.pop("stored_days")
    monkeypatch.setitem(sys.modules, "stored_days", module)
    exec(cells["write-all"].source, vars(module))
    for name in ("HDF5", "LMDB"):
        module.datasets[name][0]  # used before
    loader = DataLoader(
        module.Together(module.datasets),
        batch_size=None,
        num_workers=1,
        multiprocessing_context="spawn",
    )
    util.register_after_fork(module, forget)
    monkeypatch.setattr("tempfile.tempdir", str(folder))  # of the worker
    found = {name: [] for name in FORMATS}
    with spawns.with_torch():
        for name, hours, days in loader:
            found[name] += zip(days.tolist(), hours.tolist(), strict=True)
    return found, module.temperature


def test_each_format_gives_each_day_once__also_to_spawned_workers(
    snippet, tmp_path, monkeypatch
):
    found, temperature = spawned(snippet, tmp_path, monkeypatch)

    for samples in found.values():
        assert complete(samples, temperature)
