"""The claims of gallery/storage_formats.py."""

import tarfile
from unittest.mock import patch

import numpy as np
import pytest
from torch.utils.data import DataLoader

from extensions.files.failures import edits, no_error
from tests.gallery.conftest import as_script, constants, given, told

for library in ("h5py", "lmdb", "pyarrow", "tfrecord", "webdataset"):
    pytest.importorskip(library, reason=f"{library} is not installed")

# webdataset leaves it to the collector to close its files.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will:UserWarning"),
    pytest.mark.usefixtures("collected"),
]

ARGUMENTS = {
    "ARRAY": (["--array", "mine.npy"], "mine.npy"),
    "WORKERS": (["--workers", "7"], 7),
}
SIX = {"HDF5", "HDF5, gzip", "LMDB", "Parquet", "TFRecord", "WebDataset"}
READ = ("settings", "options", "setup", "write", "write-streams")
READ += ("by-index", "as-stream", "read")
DISCS = "np.where(distance < radius**2, 255 - i % 100, 0)"


def few(snippet, number=80):
    """Return the program with fewer discs, so that it takes less time."""
    return snippet.edit("else discs()", f"else discs()[:{number}]")


def test_each_argument_sets_its_constant(snippet):
    script, expected = as_script(snippet), constants(snippet, ARGUMENTS)
    assert told(script, [], ARGUMENTS) == expected
    for name, (words, value) in ARGUMENTS.items():
        changed = expected | {name: value}
        assert told(script, words, ARGUMENTS) == changed
        assert told(snippet, words, ARGUMENTS) == expected


@edits(
    ("ARRAY, WORKERS = options", "WORKERS, ARRAY = options"),
    ("default=WORKERS", "default=1"),
    ('"--workers", type=int', '"--workers", type=str'),
    ('if "__file__" in globals():', "if True:"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_each_worker_opens_its_own_file(snippet):
    run = few(snippet).only(*READ[:-1]).after("as-stream")
    options = {"num_workers": 2, "multiprocessing_context": "fork"}

    for kind, name in ((run.FromHDF5, "samples.h5"), (run.FromLMDB, "lmdb")):
        dataset = kind(name)
        watch = {"autospec": True, "side_effect": kind.open}
        with patch.object(kind, "open", **watch) as opened:
            list(DataLoader(dataset, batch_size=20, **options))
            assert not opened.called
            assert dataset.file is None
            for index in (0, 5, 5):
                dataset[index]
            assert opened.call_count == 1


@edits(
    ("at once", "        self.file = None", "        self.file = self.open()"),
    (
        "each time",
        "        return self.sample(index), index",
        "        self.file, sample = None, self.sample(index)\n"
        "        return sample, index",
    ),
)
def test_each_worker_opens_its_own_file__but_not(snippet, fails, old, new):
    fails(test_each_worker_opens_its_own_file, snippet.edit(old, new))


def test_every_format_gives_every_sample_once(snippet, number=90, workers=2):
    edited = few(given(snippet, WORKERS=workers), number)
    with no_error():
        run = edited.after("read")

    assert set(run.datasets) == SIX
    for x, y, _ in run.loaded.values():
        assert y.tolist() == list(range(number))
        assert np.array_equal(x.numpy(), run.samples)
        assert x.numpy().dtype == run.samples.dtype


@pytest.mark.parametrize(("number", "workers"), [(400, 0), (2, 4), (85, 3)])
def test_every_format_gives_every_sample_once__also_for(
    snippet, number, workers
):
    test_every_format_gives_every_sample_once(snippet, number, workers)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(3),
        np.random.default_rng(0).normal(size=(45, 2, 5)),
        np.random.default_rng(0).normal(size=(41, 2)).astype("float32"),
        np.arange(50).reshape(5, 10) % 3 == 0,
    ],
    ids=["numbers", "float64", "float32", "bool"],
)
def test_every_format_gives_every_sample_once__also_of(
    snippet, values, tmp_path
):
    np.save(tmp_path / "mine.npy", values)
    edited = given(snippet, ARRAY=str(tmp_path / "mine.npy"))

    run = edited.after("setup")
    assert np.array_equal(run.samples, values)
    assert run.samples.dtype == values.dtype
    test_every_format_gives_every_sample_once(edited, len(values), 0)


@edits(
    ("(worker.id, worker.num_workers) if worker else (0, 1)", "(0, 1)"),
    ("    index_path,\n    {", "    None,\n    {"),
)
def test_every_format_gives_every_sample_once__but_not_shared_out(
    snippet, old, new, fails
):
    fails(test_every_format_gives_every_sample_once, snippet.edit(old, new))


@edits(
    ("return self.file[index]", "return self.file[0]"),
    ("get(str(index).encode())", "get(str(index % 9).encode())"),
    ('sharded.decode().to_tuple("x.npy"', 'sharded.decode().to_tuple("y.cls"'),
    ('{"x": contents,', '{"x": contents[::-1],'),
    ('"x": (content, "byte")', '"x": (contents[0], "byte")'),
    ('"y": list(range(NUMBER))', '"y": [0] * NUMBER'),
)
def test_every_format_gives_every_sample_once__but_not(
    snippet, old, new, fails
):
    fails(
        test_every_format_gives_every_sample_once,
        snippet.edit(old, new),
        50,
        0,
    )


ROOM = (*READ[:-1], "room")


def room_of(snippet):
    """Return the room of each format, and the program; nothing is read."""
    run = snippet.only(*ROOM).after("room")
    assert set(run.room) == SIX
    return run.room, run


def test_gzip_and_parquet_take_the_least_room(snippet):
    room, run = room_of(snippet)

    assert run.samples.shape == (400, 28, 28)
    for name, share in room.items():
        if name in ("HDF5, gzip", "Parquet"):
            assert 0 < share < 1 / 4
        else:
            assert share >= 1


@edits(
    ("noise", DISCS, "np.random.default_rng(i).integers(256, size=(28, 28))"),
    ("no gzip", ', compression="gzip"', ""),
    ("plain Parquet", "row_group_size=40", 'compression="none"'),
    ("tar.gz", '"shard-%d.tar"', '"shard-%d.tar.gz"'),
)
def test_gzip_and_parquet_take_the_least_room__but_not(
    snippet, fails, old, new
):
    edited = snippet.edit(old, new)
    if new.endswith('.gz"'):
        edited = edited.edit("shard-*.tar", "shard-*.tar.gz")
    fails(test_gzip_and_parquet_take_the_least_room, edited)


def test_tar_takes_the_most_room(snippet):
    # The folder is there until the program ends, which is this process.
    room, run = room_of(snippet)

    most = room.pop("WebDataset")
    assert most > max(room.values())
    members = 0
    for path in run.tars:
        with tarfile.open(path) as tar:
            for member in tar:
                assert member.offset % 512 == 0
                assert member.offset_data % 512 == 0
                assert member.offset_data - member.offset >= 512
                members += 1
    assert members == 2 * len(run.samples)


def test_tar_takes_the_most_room__but_not_compressed(snippet, fails):
    edited = snippet.edit('"shard-%d.tar"', '"shard-%d.tar.gz"')
    edited = edited.edit('glob("shard-*.tar")', 'glob("shard-*.tar.gz")')
    fails(test_tar_takes_the_most_room, edited)


def test_the_least_room_or_not_here(snippet):
    answer = snippet.only("answer").edit("for kind, words in", "for _, _ in")
    run = answer.edit("smallest(room).items()", "()").after("answer")
    names = ("HDF5", "HDF5, gzip", "LMDB", "Parquet", "TFRecord", "WebDataset")

    def said(*room):
        return run.smallest(dict(zip(names, room, strict=True)))

    nothing = "not here: no format saves room"
    assert said(2, 1, 3, 1, 2, 1.5) == {
        "by index": nothing,
        "as a stream": nothing,
    }
    assert said(1.1, 0.5, 0.6, 2, 0.9, 0.3) == {
        "by index": "HDF5, gzip takes the least room",
        "as a stream": "WebDataset takes the least room",
    }
    assert said(0.99, 2, 2, 0.99, 2, 2)["by index"][:4] == "HDF5"
    assert said(0.4, 0.5, 0.3, 0.2, 0.9, 0.99)["by index"][:4] == "LMDB"
    assert said(0.4, 0.5, 0.6, 0.2, 0.1, 0.99)["as a stream"][:3] == "TFR"
    assert said(0.4, 0.5, 0.6, 9, 9, 9) == {
        "by index": "HDF5 takes the least room",
        "as a stream": nothing,
    }
    kinds = {"by index": [*names[:3]], "as a stream": [*names[3:]]}
    assert kinds == run.KINDS


@edits(
    ("most", "min(names, key=room.get)", "max(names, key=room.get)"),
    ("never", "if room[best] >= 1:", "if False:"),
    ("as many", "if room[best] >= 1:", "if room[best] > 1:"),
    ("always", "if room[best] >= 1:", "if True:"),
    ("of all", "min(names, key=room.get)", "min(room, key=room.get)"),
)
def test_the_least_room_or_not_here__but_not(snippet, fails, old, new):
    fails(test_the_least_room_or_not_here, snippet.edit(old, new))


def test_a_clear_winner_or_not_here(snippet):
    time = snippet.only("time").edit("for name in datasets", "for name in ()")
    run = time.edit("datasets.items()", "()").after("time")
    nothing = "not here: no format is clearly the fastest"

    cases = {
        ((3.0, 4.0), (1.0, 2.9), (9.0, 5.0)): "b is the fastest",
        ((3.0, 4.0), (1.0, 3.0), (9.0, 5.0)): nothing,
        ((0.5, 4.0), (1.0, 2.0), (9.0, 5.0)): nothing,
        ((3.0, 4.0), (6.0, 3.5), (1.0, 2.0)): "c is the fastest",
        ((2.0,), (2.0,), (5.0,)): nothing,
    }
    for found, words in cases.items():
        times = dict(zip("abc", found, strict=True))
        assert run.fastest(times) == words


@edits(
    ("the best of one", "max(times[name]))", "-max(times[name]))"),
    ("always one", "if max(times[best]) < min(others):", "if True:"),
    ("never one", "if max(times[best]) < min(others):", "if False:"),
    ("one of them", "< min(others)", "< max(others)"),
    ("or equal", "< min(others)", "<= min(others)"),
    ("by its best", "if max(times[best])", "if min(times[best])"),
)
def test_a_clear_winner_or_not_here__but_not(snippet, fails, old, new):
    fails(test_a_clear_winner_or_not_here, snippet.edit(old, new))
