"""The claims of gallery/storage_formats.py."""

import os
import tarfile
from unittest.mock import patch

import numpy as np
import pytest
from torch.utils.data import DataLoader, IterableDataset

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after
from tests.helpers.recipes import as_script, constants, given, told

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
    "MOST": (["--most", "12"], 12),
}
SIX = {"HDF5", "HDF5, gzip", "LMDB", "Parquet", "TFRecord", "WebDataset"}
READ = ("settings", "options", "setup", "samples", "write", "write-streams")
READ += ("by-index", "as-stream", "read")
DISCS = "image[distance < random.integers(3, 9)] = random.integers(100, 256)"


def few(snippet, number=80):
    """Return the program with fewer discs, so that it takes less time."""
    return snippet.edit("samples = discs()", f"samples = discs()[:{number}]")


def test_each_argument_sets_its_constant(snippet):
    script, expected = as_script(snippet), constants(snippet, ARGUMENTS)
    assert told(script, [], ARGUMENTS) == expected
    for name, (words, value) in ARGUMENTS.items():
        changed = expected | {name: value}
        assert told(script, words, ARGUMENTS) == changed
        assert told(snippet, words, ARGUMENTS) == expected


@edits(
    ("ARRAY, MOST, WORKERS = options", "ARRAY, WORKERS, MOST = options"),
    ("default=WORKERS", "default=1"),
    ('"--workers", type=int', '"--workers", type=str'),
    ('if "__file__" in globals():', "if True:"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With `WORKERS, MOST` swapped, each gets the other's value; the other
    edits change a default or a type, or parse in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def few_discs(snippet):
    """Return the cells to the samples, where discs are only made in vain."""
    start = snippet.only("settings", "options", "setup", "samples")
    return start.edit("np.zeros((400", "np.zeros((2")


def refusal(snippet, cell, **constants):
    """Return with which line the program ends at such settings, or None."""
    try:
        with no_error():
            given(snippet, **constants).after(cell)
    except SystemExit as stop:
        return stop.code
    return None


def test_a_senseless_setting_is_refused(snippet):
    line = "workers: from 0, and only 0 where nothing can fork"
    methods = "multiprocessing.get_all_start_methods"

    with patch(methods, return_value=["spawn", "fork"]):
        for workers in (-1, -7):
            assert refusal(snippet, "options", WORKERS=workers) == line
        for workers in (0, 1, 9):
            assert refusal(snippet, "options", WORKERS=workers) is None
        for most in (1, 0, -5):
            said = refusal(snippet, "options", MOST=most)
            assert said == "samples: at least 2"
        assert refusal(snippet, "options", MOST=2) is None
    with patch(methods, return_value=["spawn"]):
        for workers in (-1, 1, 2):
            assert refusal(snippet, "options", WORKERS=workers) == line
        assert refusal(snippet, "options", WORKERS=0) is None


@edits(
    ("below 0", "if WORKERS < 0 or (", "if ("),
    ("one sample", "if MOST < 2", "if MOST < 1"),
    ("no workers", "if WORKERS < 0 or", "if WORKERS < 1 or"),
    ("of no fork", " or (WORKERS and not can_fork)", ""),
    ("never", "(WORKERS and not can_fork)", "not can_fork"),
)
def test_a_senseless_setting_is_refused__but_not(snippet, fails, old, new):
    """Without `WORKERS < 0`, a negative number of workers is accepted; the
    other edits move another bound.
    """
    fails(test_a_senseless_setting_is_refused, snippet.edit(old, new))


def test_the_files_go_when_the_program_ends(snippet, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    program = few(snippet, 2).only(*READ[:-3])
    with (
        patch("tempfile.tempdir", str(temporary)),
        patch("atexit.register") as at_end,
    ):
        run = program.after("write-streams")

    assert run.folder.parent == temporary
    assert len(list(run.folder.iterdir())) >= len(SIX)
    for call in at_end.call_args_list:
        call.args[0](*call.args[1:], **call.kwargs)
    assert not run.folder.exists()


@edits(
    ("never", "atexit.register(shutil.rmtree, folder)", "None"),
    ("another folder", "Path(tempfile.mkdtemp())", "elsewhere()"),
)
def test_the_files_go_when_the_program_ends__but_not(
    snippet, fails, old, new, tmp_path
):
    """Without `atexit.register()`, the files stay; in the second edit, they
    are not in the temporary folder.
    """
    edited = snippet.edit(old, new)
    if new == "elsewhere()":
        lines = "import tempfile\nelsewhere = lambda: Path("
        lines += f"tempfile.mkdtemp(dir={str(tmp_path)!r}))\n"
        edited = edited.edit("\nfolder = ", f"\n{lines}folder = ")
    fails(test_the_files_go_when_the_program_ends, edited, tmp_path)


def senseless(folder):
    """Write files that are no samples, and return their paths."""
    arrays = {
        "objects": np.array([1, "a", None], dtype=object),
        "words": np.array(["a", "bb", "c"]),
        "dates": np.array(["2020-01-01"] * 5, dtype="M8[D]"),
        "swapped": np.arange(10).astype(np.arange(1).dtype.newbyteorder()),
        "fields": np.zeros(5, dtype=[("a", "i4"), ("b", "f4")]),
        "one": np.ones((1, 3)),
        "none": np.ones((0, 3)),
        "number": np.array(3.0),
        "narrow": np.ones((5, 0)),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(folder / "few.npz", a=np.ones(3), b=np.ones(3))
    (folder / "empty.npy").write_bytes(b"")
    (folder / "text.npy").write_text("1, 2\n3, 4\n")
    (folder / "zip.npy").write_bytes(b"PK\x03\x04 and no more")
    whole = (folder / "one.npy").read_bytes()
    (folder / "cut.npy").write_bytes(whole[:-4])
    return [*folder.iterdir(), folder, folder / "missing.npy"]


def test_at_most_1000_samples_are_taken(snippet, tmp_path):
    start = few_discs(snippet)
    path = str(tmp_path / "mine.npy")
    for shape in ((2,), (999, 3), (1000, 2), (1001, 2), (5000,)):
        values = np.arange(np.prod(shape)).reshape(shape)
        np.save(path, values)
        run = given(start, ARRAY=path).after("samples")
        assert run.NUMBER == len(run.samples) == min(1000, shape[0])
        assert np.array_equal(run.samples, values[:1000])
        assert type(run.samples) is np.ndarray
        few_ = given(start, ARRAY=path, MOST=2).after("samples")
        assert np.array_equal(few_.samples, values[:2])


@edits(
    ("all", "[:MOST]", "[:]"),
    ("the last", "[:MOST]", "[-MOST:]"),
    ("one more", "[:MOST]", "[: MOST + 1]"),
    ("always 1000", "[:MOST]", "[:1000]"),
)
def test_at_most_1000_samples_are_taken__but_not(
    snippet, fails, old, new, tmp_path
):
    """With `[:]`, all samples are taken; the other edits take the last ones,
    one more, or always 1,000.
    """
    edited = snippet.edit(old, new)
    fails(test_at_most_1000_samples_are_taken, edited, tmp_path)


def test_a_senseless_array_is_refused(snippet, tmp_path):
    start = few_discs(snippet)
    for path in senseless(tmp_path):
        said = refusal(start, "samples", ARRAY=str(path)) or "nothing"
        assert said.partition(": ")[0] == f"cannot use {path}"
        assert "\n" not in said
    np.save(tmp_path / "two.npy", np.ones(2))
    two = str(tmp_path / "two.npy")
    assert refusal(start, "samples", ARRAY=two) is None


@edits(
    ("of any type", "    torch.from_numpy(samples)", "    samples.shape"),
    ("one sample", "NUMBER < 2", "NUMBER < 1"),
    ("no numbers", " or samples.size == 0", ""),
    ("all that is wrong", "except Exception", "except OSError"),
    ("in one line", "{ARRAY}: {error}", "{ARRAY}:\\n{error}"),
    ("two samples", "NUMBER < 2", "NUMBER < 3"),
)
def test_a_senseless_array_is_refused__but_not(
    snippet, fails, old, new, tmp_path
):
    """Without `torch.from_numpy()`, an array of records is accepted; the other
    edits accept or refuse other arrays, or use two lines.
    """
    edited = snippet.edit(old, new)
    fails(test_a_senseless_array_is_refused, edited, tmp_path)


def test_the_samples_are_discs(snippet):
    cells = ("settings", "options", "setup", "samples")
    images = snippet.only(*cells).after("samples").samples

    assert (images.shape, images.dtype) == ((400, 28, 28), np.uint8)
    assert len({image.tobytes() for image in images}) > 390
    for image in images:
        black, gray = np.unique(image)
        assert black == 0
        inside = np.argwhere(image == gray)
        outside = np.argwhere(image == black)
        center = inside.mean(0)  # all of it lies within the picture
        away = np.linalg.norm(inside - center, axis=1).max()
        assert away < np.linalg.norm(outside - center, axis=1).min()
        assert 2 < away < 9
        assert gray >= 100


@edits(
    ("squares", "linalg.norm(pixels - center, axis=0)", "maximum(*pixels)"),
    ("rings", "distance < random", "abs(distance - 9) < random"),
    ("on gray", "np.zeros((400", "np.ones((400"),
    ("cut off", "integers(8, 20, ", "integers(0, 20, "),
    ("of many grays", DISCS, "image[distance < 6] = pixels[0][distance < 6]"),
)
def test_the_samples_are_discs__but_not(snippet, fails, old, new):
    """With `maximum()`, they are no discs; the other edits make rings, cut
    discs off, or change their grays.
    """
    fails(test_the_samples_are_discs, snippet.edit(old, new))


def test_a_chunk_has_at_most_40_samples(snippet):
    start = snippet.only("settings", "options", "setup", "samples", "write")
    mebi = 2**20
    cases = {
        (400, 784): 40,
        (7, 3): 7,
        (41, mebi // 40): 40,
        (41, mebi // 40 + 1): 39,
        (9, mebi // 4): 4,
        (3, mebi): 1,
        (2, mebi + 1): 1,
    }
    for shape, expected in cases.items():
        edited = start.edit("= discs()", f"= np.zeros({shape}, 'u1')")
        run = edited.after("write")
        for name in ("samples.h5", "gzip.h5"):
            with run.h5py.File(run.folder / name) as file:
                assert file["x"].chunks == (expected, shape[1])


def test_a_chunk_has_at_most_40_samples__also_of_float32(snippet):
    start = snippet.only("settings", "options", "setup", "samples", "write")
    edited = start.edit("= discs()", "= np.zeros((9, 2**16), np.float32)")
    run = edited.after("write")
    with run.h5py.File(run.folder / "samples.h5") as file:
        assert file["x"].chunks == (4, 2**16)


@edits(
    ("of any size", "min(40, NUMBER, most)", "min(40, NUMBER)"),
    ("of any number", "min(40, NUMBER, most)", "min(NUMBER, most)"),
    ("in numbers", "samples[0].nbytes", "samples.itemsize"),
    ("one less", "2**20 //", "(2**20 - 1) //"),
)
def test_a_chunk_has_at_most_40_samples__but_not(snippet, fails, old, new):
    """Without `most`, a chunk takes more than 1 MiB; the other edits drop the
    40, or miscount the bytes.
    """
    fails(test_a_chunk_has_at_most_40_samples, snippet.edit(old, new))


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
            told = list(DataLoader(telling(kind)(name), 20, **options))
            assert not opened.called
            for index in (0, 5, 5):
                dataset[index]
            assert opened.call_count == 1
        readers = {each for pids, _ in told for each in pids.tolist()}
        assert len(readers) == 2
        assert os.getpid() not in readers
        assert {each for _, times in told for each in times.tolist()} == {1}


def telling(kind):
    """Return a dataset that gives who reads, and how often it has opened."""

    class Telling(kind):
        def __init__(self, name):
            self.opened = 0
            super().__init__(name)

        def open(self):
            self.opened += 1
            return super().open()

        def __getitem__(self, index):
            super().__getitem__(index)
            return os.getpid(), self.opened

    return Telling


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
    """With `self.open()`, the file is open before any worker starts; in the
    second edit, each sample opens it again.
    """
    fails(test_each_worker_opens_its_own_file, snippet.edit(old, new))


class Readers(IterableDataset):
    """The streams of some datasets, each with the process that reads it."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        for name, dataset in self.datasets.items():
            if isinstance(dataset, IterableDataset):
                yield from ((name, os.getpid()) for _ in dataset)


def test_every_format_gives_every_sample_once(
    snippet, capsys, names=SIX, number=90, workers=2
):
    edited = few(given(snippet, WORKERS=workers), number)
    if names != SIX:
        every = "for name, dataset in datasets.items()"
        edited = edited.edit(f"{every}}}", f"{every} if name in {names}}}")
    with no_error():
        run = edited.after("read")

    assert set(run.datasets) == SIX
    lines = [f"{name:10} all samples\n" for name in run.loaded]
    assert run.loaded.keys() == names
    assert capsys.readouterr().out == "".join(lines)
    if number > 40 * workers > 0:
        options = {"num_workers": workers, "multiprocessing_context": "fork"}
        readers = DataLoader(Readers(run.datasets), None, **options)
        found = {*map(tuple, readers)}
        for stream in ("Parquet", "TFRecord", "WebDataset"):
            pids = {pid for name, pid in found if name == stream}
            assert len(pids - {os.getpid()}) == workers
    for x, y, _ in run.loaded.values():
        assert y.tolist() == list(range(number))
        assert np.array_equal(x.numpy(), run.samples)
        assert x.numpy().dtype == run.samples.dtype


@pytest.mark.parametrize(
    ("number", "workers"),
    [(2, 3), (125, 1)],
    ids=["2 samples and 3 workers", "125 and 1"],
)
def test_every_format_gives_every_sample_once__also_for(
    snippet, number, workers, capsys
):
    sizes = {"number": number, "workers": workers}
    test_every_format_gives_every_sample_once(snippet, capsys, **sizes)


def test_every_format_gives_every_sample_once__also_from_twelve_shards(
    snippet,
):
    twelve = few(given(snippet, WORKERS=12), 24)
    run = twelve.only(*READ[:-1]).after("as-stream")
    shards = [str(path) for path in run.folder.glob("*.tar*")]
    assert len(shards) >= 12
    assert sorted(run.tars) == sorted(shards)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(3),
        np.random.default_rng(0).normal(size=(45, 2, 5)),
        np.arange(50).reshape(5, 10) % 3 == 0,
        np.asfortranarray(np.arange(50).reshape(5, 10)),
        np.zeros((2, 6_000_000), np.uint8),
    ],
    ids=[
        "numbers",
        "float64",
        "bool",
        "columns",
        "12 MB",
    ],
)
def test_every_format_gives_every_sample_once__also_of(
    snippet, values, tmp_path, capsys
):
    np.save(tmp_path / "mine.npy", values)
    path = str(tmp_path / "mine.npy")
    edited = given(snippet, ARRAY=path)

    run = edited.after("samples")
    assert np.array_equal(run.samples, values)
    assert run.samples.dtype == values.dtype
    sizes = {"number": len(values), "workers": 0}
    test_every_format_gives_every_sample_once(edited, capsys, **sizes)


SHARED = {
    "Parquet": (
        "(worker.id, worker.num_workers) if worker else (0, 1)",
        "(0, 1)",
    ),
    "TFRecord": ("    index_path,\n    {", "    None,\n    {"),
    "WebDataset": ("maxcount=each, ", ""),
}


@pytest.mark.parametrize("name", SHARED)
def test_every_format_gives_every_sample_once__but_not_shared_out(
    snippet, name, fails, capsys
):
    """With `(0, 1)`, each worker reads all of Parquet; the other edits leave
    no index or no parts to share out.
    """
    edited = snippet.edit(*SHARED[name])
    fails(test_every_format_gives_every_sample_once, edited, capsys, {name})


def test_every_format_gives_every_sample_once__but_not_in_ten_mib(
    snippet, tmp_path, fails, capsys
):
    """With a `map_size` of 10 MiB, LMDB cannot hold samples of 12 MB."""
    np.save(tmp_path / "mine.npy", np.zeros((2, 6_000_000), np.uint8))
    edited = given(snippet, ARRAY=str(tmp_path / "mine.npy"))
    edited = edited.edit("map_size=room_for_all", "map_size=10 * 2**20")
    inputs = edited, capsys, SIX, 2, 0
    fails(test_every_format_gives_every_sample_once, *inputs)


@edits(
    ("return self.file[index]", "return self.file[0]"),
    ("get(str(index).encode())", "get(str(index % 9).encode())"),
    ('sharded.decode().to_tuple("x.npy"', 'sharded.decode().to_tuple("y.cls"'),
    ('{"x": contents,', '{"x": contents[::-1],'),
    ('"x": (content, "byte")', '"x": (contents[0], "byte")'),
    ('"y": list(range(NUMBER))', '"y": [0] * NUMBER'),
)
def test_every_format_gives_every_sample_once__but_not(
    snippet, old, new, fails, capsys
):
    """With `self.file[0]`, each sample is the first one; the other edits also
    mix up samples or numbers.
    """
    edited = snippet.edit(old, new)
    inputs = edited, capsys, SIX, 50, 0
    fails(test_every_format_gives_every_sample_once, *inputs)


ROOM = (*READ[:-1], "room")


def room_of(snippet):
    """Return the room of each format, and the program; nothing is read."""
    run = after(snippet, *ROOM)
    assert set(run.room) == SIX
    paths = {
        "HDF5": ["samples.h5"],
        "HDF5, gzip": ["gzip.h5"],
        "LMDB": ["lmdb/data.mdb"],
        "Parquet": ["samples.parquet"],
        "TFRecord": ["samples.tfrecord", "samples.index"],
        "WebDataset": [path.name for path in run.folder.glob("*.tar*")],
    }
    for name, files in paths.items():
        size = sum((run.folder / file).stat().st_size for file in files)
        assert run.room[name] == size / run.samples.nbytes
    with run.h5py.File(run.folder / "gzip.h5") as file:
        assert file["x"].compression == "gzip"
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
    ("noise", DISCS, "image[:] = random.integers(256, size=(28, 28))"),
    ("no gzip", ', compression="gzip"', ""),
    ("plain Parquet", "row_group_size=40", 'compression="none"'),
    ("tar.gz", '"shard-%d.tar"', '"shard-%d.tar.gz"'),
)
def test_gzip_and_parquet_take_the_least_room__but_not(
    snippet, fails, old, new
):
    """Noise gets no smaller; the other edits do not compress HDF5 or Parquet,
    or compress the tar as well.
    """
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
    """As `tar.gz`, it takes less than a tenth of the samples' bytes."""
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
        "by index": "HDF5, gzip takes the least space",
        "as a stream": "WebDataset takes the least space",
    }
    assert said(0.99, 2, 2, 0.99, 2, 2)["by index"][:4] == "HDF5"
    assert said(0.4, 0.5, 0.3, 0.2, 0.9, 0.99)["by index"][:4] == "LMDB"
    assert said(0.4, 0.5, 0.6, 0.2, 0.1, 0.99)["as a stream"][:3] == "TFR"
    assert said(0.4, 0.5, 0.6, 9, 9, 9) == {
        "by index": "HDF5 takes the least space",
        "as a stream": nothing,
    }
    kinds = {"by index": [*names[:3]], "as a stream": [*names[3:]]}
    assert kinds == run.KINDS
    room_of(snippet.edit("= discs()", "= discs()[:80] / 2.0"))


@edits(
    ("most", "min(names, key=room.get)", "max(names, key=room.get)"),
    ("never", "if room[best] >= 1:", "if False:"),
    ("as many", "if room[best] >= 1:", "if room[best] > 1:"),
    ("always", "if room[best] >= 1:", "if True:"),
    ("of all", "min(names, key=room.get)", "min(room, key=room.get)"),
    ("by numbers", "size / samples.nbytes", "size / samples.size"),
    ("without the index", ', "samples.index"]', "]"),
    ("of one shard", '"WebDataset": tars,', '"WebDataset": tars[:1],'),
)
def test_the_least_room_or_not_here__but_not(snippet, fails, old, new):
    """With `max()`, it names the format that takes the most; the other edits
    move the limit, or measure other files.
    """
    fails(test_the_least_room_or_not_here, snippet.edit(old, new))


def test_an_epoch_is_timed_with_its_workers(snippet, workers=2):
    edited = few(given(snippet, WORKERS=workers), 50).only(*READ)
    edited = edited.edit(
        "for name, dataset in datasets.items()}", "for _ in ()}"
    )
    edited = edited.edit("{name: epoch(dataset) for", "{0: 0 for")
    run = edited.after("read")
    seen = []

    class Loader(DataLoader):
        def __iter__(self):
            seen.append("start")
            return map(self.noted, super().__iter__())

        def noted(self, batch):
            seen.append(batch[1].tolist())
            return batch

    def clock():
        seen.append("clock")
        return 10.0 * len(seen)

    run.epoch.__globals__["DataLoader"] = Loader
    with patch("time.perf_counter", clock):
        seconds = run.epoch(run.datasets["HDF5"])[2]
    in_order = [list(range(40)), list(range(40, 50))]
    assert seen == ["clock", "start", *in_order, "clock"]
    assert seconds == 40


def test_an_epoch_is_timed_with_its_workers__also_without_workers(snippet):
    test_an_epoch_is_timed_with_its_workers(snippet, 0)


LOADED = "    x, y = (torch.cat(part) for part in zip(*loader, strict=True))\n"
BEGIN = "    begin = time.perf_counter()\n"


@edits(
    ("after it", BEGIN + LOADED, LOADED + BEGIN),
    ("before it", LOADED + "    seconds", "    seconds"),
    ("shuffled", "batch_size=40, **options", "40, shuffle=True, **options"),
)
def test_an_epoch_is_timed_with_its_workers__but_not(snippet, fails, old, new):
    """If the clock starts after the loading, or stops before it, the loading
    is not timed; the third edit shuffles.
    """
    edited = snippet.edit(old, new)
    if new == "    seconds":
        after = "time.perf_counter() - begin\n"
        edited = edited.edit(after, after + LOADED)
    fails(test_an_epoch_is_timed_with_its_workers, edited)


TIMED = """
datasets, seen = {"a": 1, "b": 2}, []


def epoch(dataset):
    seen.append(dataset)
    return None, None, 10 * dataset + len(seen)


times = {"""


def test_a_clear_winner_or_not_here(snippet):
    run = snippet.only("time").edit("\ntimes = {", TIMED).after("time")
    assert run.times == {"a": [11, 13, 15], "b": [22, 24, 26]}
    nothing = "not here: no format is clearly the fastest"

    cases = {
        ((3.0, 4.0), (1.0, 2.9), (9.0, 5.0)): "b is the fastest",
        ((3.0, 4.0), (1.0, 3.0), (9.0, 5.0)): nothing,
        ((0.5, 4.0), (1.0, 2.0), (9.0, 5.0)): nothing,
        ((3.0, 4.0), (6.0, 3.5), (1.0, 2.0)): "c is the fastest",
        ((2.0,), (2.0,), (5.0,)): nothing,
        ((3.0, 4.0, 5.0), (1.0, 2.0, 3.5), (9.0, 9.0, 9.0)): nothing,
        ((3.0, 4.0, 5.0), (1.0, 2.0, 2.9), (9.0, 9.0, 9.0)): (
            "b is the fastest"
        ),
    }
    for found, words in cases.items():
        times = dict(zip("abc", found, strict=True))
        assert run.fastest(times) == words


@edits(
    ("the slowest", "min(times, key=", "max(times, key="),
    ("always one", "if max(times[best]) < min(others):", "if True:"),
    ("never one", "if max(times[best]) < min(others):", "if False:"),
    ("one of them", "< min(others)", "< max(others)"),
    ("or equal", "< min(others)", "<= min(others)"),
    ("by its best", "if max(times[best])", "if min(times[best])"),
    ("of two epochs", "for _ in range(3):", "for _ in range(2):"),
    ("of one format", "append(epoch(dataset)[2])", "append(epoch(1)[2])"),
)
def test_a_clear_winner_or_not_here__but_not(snippet, fails, old, new):
    """With `max()`, it looks at the slowest format; the other edits move the
    limit, or compare other epochs or formats.
    """
    fails(test_a_clear_winner_or_not_here, snippet.edit(old, new))
