"""The claims of docs/data/storage.md."""

import importlib
import io
import itertools
import os
import pickle
import sys
import tarfile
import traceback
import tracemalloc
import zlib
from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after
from tests.helpers import spawns

h5py = pytest.importorskip("h5py")
lmdb = pytest.importorskip("lmdb")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
tfrecords = pytest.importorskip("tfrecord.torch.dataset")
webdataset = pytest.importorskip("webdataset")

pytestmark = [
    # webdataset and tfrecord leave it to the collector to close their files.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    # From Python 3.12 on: pyarrow has threads of its own.
    pytest.mark.filterwarnings(
        "ignore:This process .* is multi-threaded:DeprecationWarning"
    ),
    pytest.mark.usefixtures("collected"),
]

START = ("digits", "write", "do-this")
MODEL = ("digits", "by-hand")
FILES = (*MODEL, "formats")
GZIP = '    file.create_dataset("images", data=digits, compression="gzip")'
GROWS = '    file.create_dataset("images", data=digits, maxshape=(None, 8, 8))'
STORING = ("HDF5", "LMDB", "TFRecord", "WebDataset")
FORK = {"num_workers": 2, "multiprocessing_context": "fork"}


def batches_of(dataset, size=600, **options):
    """Read with two forked workers, and let them go if one fails."""
    try:
        return [*DataLoader(dataset, batch_size=size, **FORK | options)]
    except Exception as error:
        traceback.clear_frames(error.__traceback__)
        pytest.fail(f"{type(error).__name__}: {error}")


# Do this


def orders_of(loader, rows):
    """Return the order of two epochs whose samples are those of some rows."""
    orders = []
    for _ in range(2):
        with no_error():
            batches = [*loader]
        images, answers = (
            torch.cat(each) for each in zip(*batches, strict=True)
        )
        for image, answer in zip(images, answers, strict=True):
            assert np.array_equal(image, rows[answer])
        orders.append(answers.tolist())
        assert sorted(orders[-1]) == [*range(len(rows))] != orders[-1]
    return orders


def test_each_epoch_is_shuffled(snippet, rows=None, size=None, workers=2):
    run = after(snippet, *START, "loop")
    path, rows = run.path, run.digits if rows is None else rows
    if rows is not run.digits:
        path = run.folder / "rows.npy"
        np.save(path, rows)
    options = FORK if workers else {}
    numbered = run.Digits(path, np.arange(len(rows)))
    loader = DataLoader(numbered, size or 600, shuffle=True, **options)
    first, second = orders_of(loader, rows)

    assert first != second
    assert len(run.loader) == 3
    batches = [*zip(*run.loader, strict=True)]
    pairs = zip(*(torch.cat(each) for each in batches), strict=True)
    found = sorted((i.tolist(), a.item()) for i, a in pairs)
    expected = zip(run.digits.tolist(), run.labels.tolist(), strict=True)
    assert found == sorted(expected)
    seen = [answers.tolist() for answers in (*batches[1], run.answers)]
    assert seen[-2] != seen[-1]


@pytest.mark.parametrize("kind", ["f4", "i8", "?", "c8"])
@pytest.mark.parametrize("shape", [(50, 3, 4), (50,)], ids=str)
def test_each_epoch_is_shuffled__also_for_rows(snippet, kind, shape):
    rows = 9 * np.random.default_rng(0).normal(size=shape)
    test_each_epoch_is_shuffled(snippet, rows.astype(kind), 20)


@pytest.mark.parametrize(("size", "workers"), [(1, 0), (1797, 0), (100, 2)])
def test_each_epoch_is_shuffled__also_in_batches(snippet, size, workers):
    test_each_epoch_is_shuffled(snippet, None, size, workers)


def test_each_epoch_is_shuffled__ends_in_big_endian(snippet, fails):
    """Numbers that were stored big-endian: `torch.tensor` takes none."""
    rows = np.ones((50, 2), ">f4")
    fails(test_each_epoch_is_shuffled, snippet, rows, 20)


@edits(
    ("without shuffle", "batch_size=600, shuffle=True", "batch_size=600"),
    ("with rows twice", "images[index]), self", "images[index // 2]), self"),
    ("with the next label", "self.labels[index]", "self.labels[index - 1]"),
)
def test_each_epoch_is_shuffled__but_not(snippet, old, new, fails):
    """Without `shuffle`, the digits come in order; the other edits change the
    images or the labels.
    """
    fails(test_each_epoch_is_shuffled, snippet.edit(old, new))


def test_a_file_may_be_larger_than_memory(snippet, least=2**37):
    run = after(snippet, *START, "huge")
    peaks = []
    for index in (-1, run.count - 1, run.count // 2, 0):
        tracemalloc.start()
        with no_error():
            image, _ = run.Digits(run.huge, range(run.count))[index]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        row = run.digits[57] if index in (-1, run.count - 1) else 0 * image
        assert np.array_equal(image, row)

    assert max(peaks) < 2**20
    assert np.array_equal(run.last, run.digits[57])
    assert run.after - run.before < 2**17
    assert run.huge.stat().st_size >= least
    assert run.huge.stat().st_blocks * 512 < 2**20


@edits(
    ("read as a whole", '(self.path, mmap_mode="r")', "(self.path)"),
    ("copied first", "images[index]), ", "1 * images)[index], "),
)
def test_a_file_may_be_larger_than_memory__but_not(snippet, old, new, fails):
    """Without `mmap_mode`, or if the whole map becomes a tensor, every sample
    is in memory; here the file has 256 MiB.
    """
    edited = snippet.edit("2**31", "2**22").edit(old, new)
    fails(test_a_file_may_be_larger_than_memory, edited, 2**28)


# How it works

SAMPLES = [b"eight", b"", b"\0\0", bytes(range(256)), b"n" * 99_999, b"eight"]


def test_these_lines_give_what_was_written(snippet, samples=None, order=None):
    with no_error():
        run = after(snippet, *MODEL, "packed")
    assert [len(each) for each in run.shorter[:3]] == [61, 62, 63]
    for digit, short in zip(run.digits, run.shorter, strict=True):
        assert short.ljust(64, b"\0") == digit.tobytes()
    assert [*run.packed] == run.shorter

    samples = SAMPLES if samples is None else samples
    path = run.folder / "samples.bin"
    with no_error():
        places = run.pack(path, samples)
        packed = run.Packed(path, places)
        order = range(len(samples)) if order is None else order
        found = [packed[index] for index in order]
    assert found == [bytes(samples[index]) for index in order]
    assert path.read_bytes() == b"".join(samples)
    assert len(packed) == len(samples)
    for index in (len(samples), -len(samples) - 1):
        with pytest.raises(IndexError):
            packed[index]


@pytest.mark.parametrize(
    "order",
    [[5, 4, 3, 2, 1, 0], [3, 3, 0, 3], [-1, -6, -2], [np.int64(4)]],
    ids=["backward", "repeated", "from the end", "NumPy's numbers"],
)
def test_these_lines_give_what_was_written__also_in_order(snippet, order):
    test_these_lines_give_what_was_written(snippet, None, order)


@pytest.mark.parametrize("samples", [[], [b"one"], [b"", b"", b"x"]])
def test_these_lines_give_what_was_written__also_for_few(snippet, samples):
    test_these_lines_give_what_was_written(snippet, samples)


def test_these_lines_give_what_was_written__also_at_random(snippet):
    generator = np.random.default_rng(3)
    samples = [generator.bytes(n) for n in generator.integers(0, 9_000, 200)]
    samples += [generator.bytes(1), generator.bytes(4_096)]
    order = generator.permutation(len(samples)).tolist()
    test_these_lines_give_what_was_written(snippet, samples, order)


def test_these_lines_give_what_was_written__also_with_forked_workers(snippet):
    run = after(snippet, *MODEL)
    path = run.folder / "samples.bin"
    packed = run.Packed(path, run.pack(path, SAMPLES))
    for _ in range(2):
        batches = batches_of(packed, 2, collate_fn=list, shuffle=True)
        assert sorted(itertools.chain(*batches)) == sorted(SAMPLES)


def test_these_lines_give_what_was_written__ends_for_empty_files(
    snippet, fails
):
    """If every sample is empty, so is the file, and NumPy maps no empty
    file.
    """
    fails(test_these_lines_give_what_was_written, snippet, [b"", b""])


def test_these_lines_give_what_was_written__ends_for_text(snippet, fails):
    """Text: `write` takes bytes, so encode it first."""
    fails(test_these_lines_give_what_was_written, snippet, ["eight", "nine"])


def test_these_lines_give_what_was_written__ends_with_an_old_index(
    snippet, fails
):
    """After the file was written again, an old index leads to other bytes."""
    old = "return [(file.tell(), file.write(each)) for each in samples]  # 1"
    new = (
        "places = [(file.tell(), file.write(each)) for each in samples]\n"
        "        file.seek(0)\n"
        "        file.writelines(reversed(samples))\n"
        "        return places"
    )
    fails(test_these_lines_give_what_was_written, snippet.edit(old, new))


@edits(
    (
        "if line 1 is one behind",
        "(file.tell(), file.write(each)) for",
        "(file.tell() + 1, file.write(each)) for",
    ),
    ("if line 2 turns them", "path, places  # 2", "path, places[::-1]"),
    ("if line 3 looks twice", "places[index]  # 3", "places[index // 2]"),
    ("if line 4 maps words", 'np.uint8, "r")  # 4', 'np.uint16, "r")'),
    ("if line 5 ends early", "start + length]", "length]"),
)
def test_these_lines_give_what_was_written__but_not(snippet, old, new, fails):
    """Each edit changes one numbered line: where a sample begins, which place
    belongs to which index, what is counted, or where it ends.
    """
    fails(test_these_lines_give_what_was_written, snippet.edit(old, new))


def test_these_lines_read_hdf5_and_tar(snippet):
    with no_error():
        run = after(snippet, *FILES, "elsewhere")
    assert [len(run.in_hdf5), len(run.in_tar)] == [1797, 300]
    for name, places in run.found.items():
        for index, image in enumerate(run.Packed(run.folder / name, places)):
            assert image == run.digits[index].tobytes()


@pytest.mark.parametrize("kind", ["f4", ">i2", "?"])
def test_these_lines_read_hdf5_and_tar__also_for(snippet, kind, tmp_path):
    run = after(snippet, *MODEL)
    rows = (run.digits[:50] / 3).astype(kind)
    size = rows[0].nbytes
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["first"], file["rows"] = np.arange(1000), rows
        start = file["rows"].id.get_offset()
    with tarfile.open(tmp_path / "rows.tar", "w") as tar:
        for index, row in enumerate(rows):
            member = tarfile.TarInfo(f"{'long' * 40}/{index}")
            member.size = size
            tar.addfile(member, io.BytesIO(row.tobytes()))
    with tarfile.open(tmp_path / "rows.tar") as tar:
        in_tar = [(each.offset_data, each.size) for each in tar]

    in_hdf5 = [(start + size * index, size) for index in range(50)]
    for name, places in {"rows.h5": in_hdf5, "rows.tar": in_tar}.items():
        found = [*run.Packed(tmp_path / name, places)]
        assert found == [row.tobytes() for row in rows]


@edits(
    ("at the header of tar", "each.offset_data", "each.offset"),
    ("without the last byte", "64 * index, 64)", "64 * index, 63)"),
    ("in compressed HDF5", '    file["images"] = digits', GZIP),
)
def test_these_lines_read_hdf5_and_tar__but_not(snippet, old, new, fails):
    """A place has to be that of the data, and of all of it; and compressed
    arrays have no single offset.
    """
    fails(test_these_lines_read_hdf5_and_tar, snippet.edit(old, new))


def test_three_formats_store_bytes_as_they_are(snippet, names=STORING):
    run = after(snippet, *FILES, "choose")
    for name in names:
        paths = run.folder.glob(run.files[name])
        content = b"".join(path.read_bytes() for path in paths)
        assert all(each.tobytes() in content for each in run.digits[::7])
        assert run.rows[name]["as they were"]
    assert not run.rows["HDF5, gzip"]["as they were"]
    assert run.rows["HDF5, gzip"]["bytes for each digit"] < 64
    groups = parquet.read_metadata(run.folder / "digits.parquet")
    for j in range(groups.num_columns):
        assert groups.row_group(0).column(j).compression == "SNAPPY"


def test_three_formats_store_bytes_as_they_are__ends_for_parquet(
    snippet, fails
):
    """Parquet: it encodes each column, and compresses it by default."""
    fails(test_three_formats_store_bytes_as_they_are, snippet, ["Parquet"])


@edits(
    ("in LMDB", "(), image.tobytes())", "(), pack(image))"),
    ("in TFRecord", '(image.tobytes(), "byte")', '(pack(image), "byte")'),
    ("in a shard", 'bin": image.tobytes()', 'bin": pack(image)'),
    ("in HDF5 if you ask", '    file["images"] = digits', GZIP),
    ("in HDF5 that can grow", '    file["images"] = digits', GROWS),
)
def test_three_formats_store_bytes_as_they_are__but_not_if_packed(
    snippet, old, new, fails
):
    """If you compress a value before you write it, or ask HDF5 to, its bytes
    are others; and an array that can grow has chunks that cut it.
    """
    edited = snippet.edit(old, new).edit(
        "import h5py\n", "from zlib import compress as pack\nimport h5py\n"
    )
    fails(test_three_formats_store_bytes_as_they_are, edited)


def test_streams_cannot_shuffle(snippet):
    run = after(snippet, *START, *FILES[1:], "loop", "shards")
    streams = [
        run.stream,
        webdataset.WebDataset(run.shards, shardshuffle=6),
        tfrecords.TFRecordDataset(run.records, None),
    ]
    for stream in streams:
        with pytest.raises(ValueError, match="shuffle"):
            DataLoader(stream, shuffle=True)


def test_streams_cannot_shuffle__also_if_workers_share_the_shards(snippet):
    run = after(snippet, *START, *FILES[1:], "loop", "shards")
    for answers in run.epochs:
        assert sorted(answers) == sorted(run.labels.tolist())
    assert run.epochs[0] != run.epochs[1]
    plain = snippet.edit("shardshuffle=6).shuffle(500)", "shardshuffle=False)")
    run = after(plain, *START, *FILES[1:], "loop", "shards")
    assert run.epochs[0] == run.epochs[1] != run.labels.tolist()
    pairs = [*DataLoader(run.stream, batch_size=None, **FORK)]
    rows = [each.tobytes() for each in run.digits]
    pairs = map(tuple, pairs)
    assert sorted(pairs) == sorted(zip(rows, run.labels, strict=True))


def test_streams_cannot_shuffle__but_not_a_list(snippet, fails):
    """A list of the samples has an index, so a loader can shuffle it."""
    old = 'stream = stream.to_tuple("image.bin", "label.cls")'
    new = 'stream = [*stream.to_tuple("image.bin", "label.cls")]'
    fails(test_streams_cannot_shuffle, snippet.edit(old, new))


# What goes wrong


def test_open_files_cannot_be_pickled(snippet):
    run = after(snippet, *FILES, "open-handles")
    for handle in run.handles:
        with pytest.raises((TypeError, AttributeError)):
            pickle.dumps(handle)
    with h5py.File(run.folder / "digits.h5") as file:
        for handle in (file, file["images"]):
            with pytest.raises(TypeError, match="h5py objects cannot"):
                pickle.dumps(handle)


@edits(
    ("a path", "handles = [\n", "handles = [\n    folder,\n"),
    ("what was read", '"digits.h5"),\n', '"digits.h5")["images"][:],\n'),
    ("a transform", '}.index"),\n]', '}.index", transform=len),\n]'),
)
def test_open_files_cannot_be_pickled__but_not(snippet, old, new, fails):
    """A path in place of the open file can be pickled, and so can a
    `transform` that is a function at the top level.
    """
    fails(test_open_files_cannot_be_pickled, snippet.edit(old, new))


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


FIRST = "if self.process != os.getpid():  # the first sample in this process"
LENGTH = 'self.length = len(file["images"])\n'
PATHS = {"FromHDF5": "digits.h5", "FromLMDB": "digits.lmdb"}


def reader(snippet, name):
    """Run the program up to the readers, and make one of them."""
    with no_error():
        run = after(snippet, *FILES, "from-hdf5", "from-lmdb")
        return run, getattr(run, name)(run.folder / PATHS[name])


def test_a_reader_opens_once(snippet, opened, name="FromHDF5"):
    _, dataset = reader(snippet, name)
    opened()
    with no_error():
        for index in (57, 3, 57, 1796, *range(100)):
            dataset[index]
    main = opened()
    batches_of(dataset)
    workers = opened()

    arrays = {"FromHDF5": 1, "FromLMDB": 0}[name]
    pid = str(os.getpid())
    assert main == +Counter({("open", pid): 1, ("array", pid): arrays})
    pids = {pid for _, pid in workers}
    assert len(pids) == 2
    for pid in pids:
        assert workers["open", pid] == 1
        assert workers["array", pid] == arrays


def test_a_reader_opens_once__also_lmdb(snippet, opened):
    test_a_reader_opens_once(snippet, opened, "FromLMDB")


@edits(
    ("if each sample opens", FIRST, "if True:"),
    ("if it opens when it is made", LENGTH, f"{LENGTH}        self[0]\n"),
    (
        "if each sample looks for its array",
        "torch.tensor(self.images[index])",
        'torch.tensor(self.images.file["images"][index])',
    ),
)
def test_a_reader_opens_once__but_not(snippet, opened, old, new, fails):
    """With `if True`, each sample opens the file anew; the array, too, is
    found again for each; and in `__init__` nobody has asked for a sample.
    """
    fails(test_a_reader_opens_once, snippet.edit(old, new), opened)


def test_a_used_reader_reaches_workers(
    snippet, opened, monkeypatch, name="FromHDF5"
):
    run, dataset = reader(snippet, name)
    first = dataset[0]
    opened()
    batches = [batches_of(dataset) for _ in range(2)]
    pids = {pid for word, pid in opened() if word == "open"}
    cls = type(dataset)
    monkeypatch.setattr(sys.modules["__main__"], name, cls, raising=False)
    with no_error():
        copied = pickle.dumps(dataset)
    if name == "FromLMDB":
        dataset.file.close()
    last = pickle.loads(copied)[-1]

    rows = run.digits if name == "FromHDF5" else run.digits.reshape(-1, 64)
    assert len(pids - {str(os.getpid())}) == 4
    for each in batches:
        assert np.array_equal(torch.cat(each), rows)
    assert np.array_equal(first, rows[0])
    assert np.array_equal(last, rows[-1])
    with pytest.raises(IndexError):
        dataset[1797]


def test_a_used_reader_reaches_workers__also_lmdb(
    snippet, opened, monkeypatch
):
    inputs = snippet, opened, monkeypatch, "FromLMDB"
    test_a_used_reader_reaches_workers(*inputs)


def test_a_used_reader_reaches_workers__also_spawned(
    snippet, tmp_path, monkeypatch
):
    cells = snippet.cells()
    names = ("digits", "write", "do-this", "by-hand", "from-hdf5")
    parts = ["import h5py", *(cells[name].source for name in names)]
    (tmp_path / "stored_digits.py").write_text("\n\n\n".join(parts))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("stored_digits")
    monkeypatch.setitem(sys.modules, "stored_digits", module)
    path = module.folder / "packed"
    rows = [each.tobytes() for each in module.digits]
    with h5py.File(module.folder / "digits.h5", "w") as file:
        file["images"] = module.digits
    for dataset, row in (
        (module.Digits(module.path, rows), lambda pair: pair[1]),
        (module.Packed(path, module.pack(path, rows)), bytes),
        (
            module.FromHDF5(module.folder / "digits.h5"),
            lambda image: image.numpy().tobytes(),
        ),
    ):
        dataset[0]  # used before
        options = {"num_workers": 1, "multiprocessing_context": "spawn"}
        options |= {"batch_size": None, "sampler": [57, 3, 1796]}
        with spawns.with_torch():
            found = [row(each) for each in DataLoader(dataset, **options)]
        assert found == [rows[57], rows[3], rows[1796]]


@edits(
    ("with its file open", '{"process": None, "images": None}', "{}"),
    ("if the worker keeps its copy", FIRST, "if self.images is None:"),
    ("without its length", '"process": None, "images"', '"length"'),
)
def test_a_used_reader_reaches_workers__but_not(
    snippet, opened, monkeypatch, old, new, fails
):
    """An open file cannot be pickled; and a forked worker has to open the
    file itself.
    """
    if new == "{}":
        old, new = f"vars(self) | {old}", "vars(self)"
    inputs = snippet.edit(old, new), opened, monkeypatch
    fails(test_a_used_reader_reaches_workers, *inputs)


def test_a_map_is_pickled_whole(snippet):
    run = after(snippet, *START, *FILES[1:], "open-handles", "map-pickled")
    assert isinstance(run.images, np.memmap)
    copied = pickle.loads(pickle.dumps(run.images))
    assert len(pickle.dumps(run.images)) > run.digits.nbytes
    run.path.unlink()
    with no_error():
        assert copied.tobytes() == run.digits.tobytes()


@pytest.mark.parametrize("kind", [np.float64, bool])
def test_a_map_is_pickled_whole__also_for(kind, tmp_path):
    rows = np.arange(9_000).reshape(30, 300).astype(kind)
    np.save(tmp_path / "rows.npy", rows)
    for mode in ("r", "c", "r+"):
        rows_mapped = np.load(tmp_path / "rows.npy", mmap_mode=mode)
        for mapped in (rows_mapped, rows_mapped[::2], rows_mapped.T):
            pickled = pickle.dumps(mapped)
            assert len(pickled) > mapped.nbytes
            assert b"rows.npy" not in pickled


def test_a_map_is_pickled_whole__also_though_forked_workers_share_it(
    tmp_path, monkeypatch
):
    np.save(tmp_path / "rows.npy", np.arange(50))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    monkeypatch.setattr(np.memmap, "__reduce_ex__", None)
    assert torch.cat(batches_of(mapped, 25)).tolist() == [*range(50)]
    with pytest.raises(TypeError):
        pickle.dumps(mapped)


@edits(
    ("if it is read", 'np.load(path, mmap_mode="r")', "np.load(path)"),
    ("a part", 'np.load(path, mmap_mode="r")', 'np.load(path, "r")[:9]'),
)
def test_a_map_is_pickled_whole__but_not(snippet, old, new, fails):
    """An array that was read is no map, and a slice of the map pickles its own
    numbers alone.
    """
    edited = snippet.edit(f"images = {old}\nprint", f"images = {new}\nprint")
    fails(test_a_map_is_pickled_whole, edited)


def test_a_forked_file_shares_its_position(snippet, mapped=False):
    with no_error():
        run = after(snippet, *MODEL, "position")
    image = run.image
    if mapped:
        places = [(64 * index, 64) for index in range(1797)]
        read = run.Packed(run.raw, places).__getitem__
        worker = run.fork.Process(target=read, args=(57,))
        worker.start()
        worker.join()
        image = np.frombuffer(read(57), np.uint8).reshape(8, 8)
    assert run.worker.exitcode == 0
    assert np.array_equal(image, run.digits[58])


def test_a_forked_file_shares_its_position__ends_for_maps(snippet, fails):
    """A map has no position: a worker that reads from it moves nothing."""
    fails(test_a_forked_file_shares_its_position, snippet, True)


@edits(
    ("without a worker", "worker.start()", "worker.run = None"),
    ("with pread", "file.read(64)", "os.pread(file.fileno(), 64, 3648)"),
)
def test_a_forked_file_shares_its_position__but_not(snippet, old, new, fails):
    """Nobody else reads, or the reader needs no position."""
    fails(test_a_forked_file_shares_its_position, snippet.edit(old, new))


def test_a_forked_file_shares_its_position__but_not_if_the_worker_opens(
    snippet, fails
):
    """The worker opens the file itself, so its position is its own."""
    edited = snippet.edit("file.read, args=(64,))", "raw.read_bytes)")
    fails(test_a_forked_file_shares_its_position, edited)


def test_a_raw_file_knows_no_dtype(snippet, kind=np.float32, to=np.float64):
    with no_error():
        run = after(snippet, "digits", "dtype")
    assert len(run.numbers) == 57_504
    assert run.numbers.dtype == np.float64
    raw = np.fromfile(run.folder / "inputs.bin", np.float32)
    assert np.array_equal(raw, run.digits.ravel())
    assert not np.array_equal(run.numbers[:100], raw[:100])

    numbers, path = run.digits.astype(kind), run.folder / "numbers"
    path.write_bytes(numbers.tobytes())
    with no_error():
        read = np.memmap(path, to, "r")
    assert len(read) == numbers.nbytes // np.dtype(to).itemsize
    assert not np.array_equal(read[:100], numbers.ravel()[:100])
    np.save(run.folder / "numbers.npy", numbers)
    mapped = np.load(run.folder / "numbers.npy", mmap_mode="r")
    assert (mapped.dtype, mapped.shape) == (numbers.dtype, numbers.shape)
    assert np.array_equal(mapped, numbers)


@pytest.mark.parametrize("kind", ["i8", "f8", "f2"])
@pytest.mark.parametrize("to", ["f4", "u1", "i2"])
def test_a_raw_file_knows_no_dtype__also_for(snippet, kind, to):
    test_a_raw_file_knows_no_dtype(snippet, kind, to)


def test_a_raw_file_knows_no_dtype__ends_for_a_sign(snippet, fails):
    """Small positive integers read alike with a sign and without."""
    fails(test_a_raw_file_knows_no_dtype, snippet, np.uint8, np.int8)


def test_a_raw_file_knows_no_dtype__ends_for_odd_sizes(snippet, fails):
    """If the size of the file is no multiple of the dtype's, an error."""
    fails(test_a_raw_file_knows_no_dtype, snippet, np.uint8, "V5")


@edits(
    ("if they were float64", "digits.astype(np.float32)", "1.0 * digits"),
    ("in the end as float32", ", np.float64)", ", np.float32)"),
)
def test_a_raw_file_knows_no_dtype__but_not(snippet, old, new, fails):
    """Read with the dtype that was written, the numbers are right."""
    fails(test_a_raw_file_knows_no_dtype, snippet.edit(old, new))


def counted(samples):
    """Return how many samples come before an error, and its class."""
    count = 0
    try:
        for _ in samples:
            count += 1
    except Exception as error:
        return count, type(error).__name__
    return count, None


def test_a_cut_tfrecord_gives_whole_records(snippet):
    with no_error():
        run = after(snippet, *FILES, "cut")
    assert [counted(each) for each in run.cut] == [(900, None), (150, None)]


SUM = "print([sum(1 for _ in each) for each in cut])"


@pytest.mark.parametrize("more", [513, 2570, 4090])
def test_a_cut_tfrecord_gives_whole_records__ends_in_a_sample(
    snippet, more, fails
):
    """A cut inside a sample: it raises an error, and the sample of a shard
    before it may be lost as well.
    """
    edited = snippet.edit("150 * 4096", f"150 * 4096 + {more}").edit(SUM, "")
    fails(test_a_cut_tfrecord_gives_whole_records, edited)


def test_a_cut_tfrecord_gives_whole_records__also_in_a_first_header(snippet):
    edited = snippet.edit("150 * 4096", "150 * 4096 + 511")
    test_a_cut_tfrecord_gives_whole_records(edited)


@edits(
    ("of a byte more", "starts[900]]", "starts[900] + 1]"),
    ("of a sample less", "150 * 4096", "149 * 4096"),
)
def test_a_cut_tfrecord_gives_whole_records__but_not(snippet, old, new, fails):
    """A cut inside a record raises an error; one sample less is one less."""
    fails(test_a_cut_tfrecord_gives_whole_records, snippet.edit(old, new))


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


def test_a_chunk_is_read_whole(snippet, digit=57):
    run = after(snippet, *FILES, "chunks")
    assert len(run.unpacked) == 64  # in the end, of one digit
    content = (run.folder / "gzip.h5").read_bytes()
    file = Noted(content)
    array = h5py.File(file)["images"]
    image = array[digit]
    assert np.array_equal(image, run.digits[digit])
    assert array.id.get_num_chunks() == 18
    for i in range(18):
        chunk = array.id.get_chunk_info(i)
        place = [(chunk.byte_offset, chunk.size)]
        with no_error():
            whole = run.Packed(run.folder / "gzip.h5", place)[0]
            unpacked = zlib.decompress(whole)
        hundred = run.digits[100 * i : 100 * i + 100].tobytes()
        assert unpacked == hundred.ljust(6_400, b"\0")
        part = file.read_bytes[chunk.byte_offset :][: chunk.size]
        assert part.all() == part.any() == (i == digit // 100)


@pytest.mark.parametrize("digit", [0, 100, 1796])
def test_a_chunk_is_read_whole__also_for(snippet, digit):
    test_a_chunk_is_read_whole(snippet, digit)


def test_a_chunk_is_read_whole__also_if_plain_rows_are_read_alone(
    snippet, tmp_path
):
    run = after(snippet, *MODEL)
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["images"] = run.digits
    noted = Noted((tmp_path / "plain.h5").read_bytes())
    array = h5py.File(noted)["images"]
    start = array.id.get_offset()
    array[57]
    assert noted.read_bytes[start:][: run.digits.nbytes].sum() == 64


@pytest.mark.parametrize(
    ("options", "again"),
    [({}, False), ({"rdcc_nbytes": 6_000}, True)],
    ids=str,
)
def test_a_chunk_is_read_whole__also_for_the_next_if_it_fits_no_cache(
    snippet, options, again
):
    run = after(snippet, *FILES)
    file = Noted((run.folder / "gzip.h5").read_bytes())
    with h5py.File(file, **options) as opened:
        sizes = opened.id.get_access_plist().get_cache()
        assert sizes[2] == options.get("rdcc_nbytes", 2**23)
        array = opened["images"]
        array[56]
        file.read_bytes[:] = False
        assert np.array_equal(array[57], run.digits[57])
        chunk = array.id.get_chunk_info(0)
    part = file.read_bytes[chunk.byte_offset :][: chunk.size]
    assert part.all() == part.any() == again


@edits(
    ("of fifty digits", '"chunks": (100, 8, 8)', '"chunks": (50, 8, 8)'),
    ("uncompressed", "data=digits, **gzip", "data=digits, chunks=(100, 8, 8)"),
    ("of one digit", "for size in (100, 1)", "for size in (1, 100)"),
)
def test_a_chunk_is_read_whole__but_not(snippet, old, new, fails):
    """Chunks of another size hold other digits, and without compression there
    is nothing to unpack.
    """
    fails(test_a_chunk_is_read_whole, snippet.edit(old, new))
