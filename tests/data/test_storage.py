"""The claims of docs/data/storage.md."""

import faulthandler
import json
import pickle
import subprocess
import sys
import tarfile

import pytest

from extensions.files.failures import no_error

for library in ("h5py", "lmdb", "pyarrow", "tfrecord", "webdataset"):
    pytest.importorskip(library, reason=f"{library} is not installed")

# webdataset and tfrecord leave it to the collector to close their files.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.usefixtures("collected"),
]

FORMATS = ["HDF5", "LMDB", "Parquet", "TFRecord", "WebDataset"]
GOOD = {"samples": 100, "each label once": True, "equal inputs": True}


@pytest.fixture(autouse=True)
def _crash_in_silence():
    """Do not fill the log with the crash that the page shows."""
    faulthandler.disable()
    yield
    faulthandler.enable(sys.__stderr__)


def test_each_format_gives_each_sample_once(snippet):
    run = snippet.after("check-all")

    assert run.rows == dict.fromkeys(FORMATS, GOOD)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "inputs[i].tobytes() + labels[i].tobytes()",
            "inputs[0].tobytes() + labels[i].tobytes()",
        ),
        (
            "in shared_out(range(file.num_row_groups))",
            "in range(file.num_row_groups)",
        ),
        (
            "path, index, fields, transform=decode",
            "path, None, fields, transform=decode",
        ),
        ('"x.npy": inputs[i], "y.cls": i}', '"x.npy": inputs[i], "y.cls": 7}'),
        ('self.file["y"][index]', 'self.file["y"][index // 2]'),
    ],
)
def test_each_format_gives_each_sample_once__but_not(snippet, old, new, fails):
    fails(test_each_format_gives_each_sample_once, snippet.edit(old, new))


def spawned(snippet, folder):
    """Run the formats as a program whose workers are spawned."""
    edited = snippet.edit(
        'multiprocessing_context="fork"', 'multiprocessing_context="spawn"'
    ).edit(
        "def check(dataset):\n",
        "def check(dataset):\n"
        '    if __name__ != "__main__":  # a worker, which reads this file\n'
        "        return None\n",
    )
    program, _, _ = edited.text.partition("# %% sizes")
    program += edited.cell("check-all").source
    path = folder / "program.py"
    path.write_text(
        f"{program}\nimport json\n\n"
        'if __name__ == "__main__":\n    print(json.dumps(rows))\n'
    )
    done = subprocess.run(
        [sys.executable, path], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_spawned_workers_read_them_too(snippet, tmp_path):
    assert spawned(snippet, tmp_path) == dict.fromkeys(FORMATS, GOOD)


def test_spawned_workers_read_them_too__but_not_if_opened_before(
    snippet, tmp_path, fails
):
    edited = snippet.edit(
        "        self.file = None\n", "        self.file = self.open()\n"
    )
    fails(test_spawned_workers_read_them_too, edited, tmp_path)


def test_hdf5_compresses_if_told(snippet):
    run = snippet.after("kilobytes")

    assert run.kilobytes["HDF5"]["kB"] >= 1000
    assert run.kilobytes["HDF5, gzip"]["kB"] < 20
    with run.h5py.File(run.folder / "plain.h5") as file:
        assert file["x"].compression is None


def test_hdf5_compresses_if_told__but_not_otherwise(snippet, fails):
    edited = snippet.edit('data=zeros, compression="gzip"', "data=zeros")
    fails(test_hdf5_compresses_if_told, edited)


def test_parquet_compresses_by_itself(snippet):
    run = snippet.after("kilobytes")

    assert run.kilobytes["Parquet"]["kB"] < 20
    file = run.pyarrow.parquet.ParquetFile(run.folder / "zeros.parquet")
    assert file.metadata.row_group(0).column(0).compression == "SNAPPY"
    file.close()


def test_parquet_compresses_by_itself__but_not_if_told(snippet, fails):
    edited = snippet.edit(
        '{"x": zeros}), folder / "zeros.parquet"',
        '{"x": zeros}), folder / "zeros.parquet", compression="none"',
    )
    fails(test_parquet_compresses_by_itself, edited)


def test_three_formats_store_bytes_as_they_are(snippet):
    run = snippet.after("kilobytes")

    for name, file in run.files.items():
        content = (run.folder / file).read_bytes()
        if name in ("LMDB", "TFRecord", "WebDataset"):
            assert run.zeros.tobytes() in content
            assert run.kilobytes[name]["kB"] >= 1000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            'put(b"x", zeros.tobytes())',
            'put(b"x", gzip.compress(zeros.tobytes()))',
        ),
        (
            '(zeros.tobytes(), "byte")',
            '(gzip.compress(zeros.tobytes()), "byte")',
        ),
        ('"WebDataset": "zeros.tar"', '"WebDataset": "zeros.tar.gz"'),
    ],
)
def test_three_formats_store_bytes_as_they_are__but_not_if_packed(
    snippet, old, new, fails
):
    edited = snippet.edit(old, new).edit(
        "import pickle\n", "import gzip\nimport pickle\n"
    )
    fails(test_three_formats_store_bytes_as_they_are, edited)


def test_a_gz_shard_is_compressed(snippet):
    run = snippet.after("kilobytes")

    assert run.kilobytes["WebDataset, gzip"]["kB"] < 20
    shard = str(run.folder / run.files["WebDataset, gzip"])
    [sample] = run.webdataset.WebDataset(shard, shardshuffle=False).decode()
    assert (sample["x.npy"] == run.zeros).all()


def test_a_gz_shard_is_compressed__but_not_by_another_name(snippet, fails):
    edited = snippet.edit(
        'for name in ("zeros.tar", "zeros.tar.gz")',
        'for name in ("zeros.tar", "zeros.gz.tar")',
    )
    edited = edited.edit('gzip": "zeros.tar.gz"', 'gzip": "zeros.gz.tar"')
    fails(test_a_gz_shard_is_compressed, edited)


def counted(snippet, capsys):
    snippet.after("streams")
    lines = capsys.readouterr().out.splitlines()[-4:]
    return dict(line.split(" ", maxsplit=1) for line in lines)


def test_half_a_tfrecord_gives_half(snippet, capsys):
    assert counted(snippet, capsys)["TFRecord"] == "50 no error"


def test_half_a_tfrecord_gives_half__but_all_of_it_gives_all(
    snippet, capsys, fails
):
    edited = snippet.edit("content[: len(content) // 2]", "content")
    fails(test_half_a_tfrecord_gives_half, edited, capsys)


def test_half_a_tar_gives_its_samples(snippet, capsys):
    said = counted(snippet, capsys)["WebDataset"]
    run = snippet.after("streams")

    shard = run.folder / "shard-0.tar"
    middle = shard.stat().st_size // 2
    with tarfile.open(shard) as tar:
        ends = [m.offset_data + m.size for m in tar if "y.cls" in m.name]
    whole = sum(end <= middle for end in ends)
    assert 0 < whole < len(ends) == 25
    assert said == f"{whole} ReadError"


def test_half_a_tar_gives_its_samples__but_a_whole_one_raises_nothing(
    snippet, capsys, fails
):
    edited = snippet.edit("content[: len(content) // 2]", "content")
    fails(test_half_a_tar_gives_its_samples, edited, capsys)


def test_hdf5_and_parquet_need_the_whole_file(snippet, capsys):
    said = counted(snippet, capsys)

    assert said["HDF5"] == "0 OSError"
    assert said["Parquet"] == "0 ArrowInvalid"


def test_hdf5_and_parquet_need_the_whole_file__but_read_it_then(
    snippet, capsys, fails
):
    edited = snippet.edit("content[: len(content) // 2]", "content")
    fails(test_hdf5_and_parquet_need_the_whole_file, edited, capsys)


def test_parquet_fills_a_new_column(snippet):
    with no_error():
        run = snippet.after("evolve")

    assert run.old.column_names == ["x", "y", "weight"]
    assert run.old["weight"].null_count == 100
    assert run.old["y"].to_pylist() == run.labels.tolist()


def test_parquet_fills_a_new_column__but_not_unnamed(snippet, fails):
    edited = snippet.edit(
        '"samples.parquet", schema=newer', '"samples.parquet"'
    )
    fails(test_parquet_fills_a_new_column, edited)


def test_hdf5_takes_another_array(snippet):
    with no_error():
        run = snippet.after("add-an-array")

    with run.h5py.File(run.folder / "samples.h5") as file:
        assert set(file) == {"x", "y", "weight"}
    assert run.check(run.FromHDF5(run.folder / "samples.h5")) == GOOD


def test_hdf5_takes_another_array__but_not_under_a_name_in_use(snippet, fails):
    edited = snippet.edit('create_dataset("weight"', 'create_dataset("y"')
    fails(test_hdf5_takes_another_array, edited)


def test_a_missing_field_raises(snippet, capsys):
    snippet.after("missing-fields")

    tfrecord, webdataset = capsys.readouterr().out.splitlines()[-2:]
    assert tfrecord.startswith("\"Key weight doesn't exist")
    assert webdataset.startswith("didn't find ['weight.npy'] in")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('path, None, {"weight": "float"}', 'path, None, {"y": "int"}'),
        ('to_tuple("weight.npy")', 'to_tuple("x.npy")'),
    ],
)
def test_a_missing_field_raises__but_not_one_that_is_there(
    snippet, capsys, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_a_missing_field_raises, edited, capsys)


def test_lmdb_gives_none(snippet):
    assert snippet.after("missing-key").missing is None


def test_lmdb_gives_none__but_not_for_a_key_it_has(snippet, fails):
    edited = snippet.edit('get(b"weight")', 'get(b"7")')
    fails(test_lmdb_gives_none, edited)


def picklable(handle):
    try:
        pickle.dumps(handle)
    except (TypeError, AttributeError):
        return False
    return True


def test_open_files_cannot_be_pickled(snippet):
    run = snippet.after("close")

    for name in ("HDF5", "LMDB", "Parquet"):
        assert not picklable(run.handles[name])


@pytest.mark.parametrize(
    "old",
    [
        '.h5").open(),',
        'folder / "lmdb").open(),',
        'pyarrow.parquet.ParquetFile(folder / "samples.parquet"),',
    ],
)
def test_open_files_cannot_be_pickled__but_their_paths_can(
    snippet, old, fails
):
    new = old.replace(").open(),", ").path,").replace(
        "pyarrow.parquet.ParquetFile", "str"
    )
    fails(
        test_open_files_cannot_be_pickled,
        snippet.edit(old, new).edit("    handles[name].close()", "    pass"),
    )


def test_tfrecord_needs_a_transform(snippet):
    run = snippet.after("close")

    assert not picklable(run.handles["TFRecord"])
    assert picklable(
        run.TFRecordDataset(run.path, run.index, run.fields, transform=len)
    )


def test_tfrecord_needs_a_transform__but_not_if_it_has_one(snippet, fails):
    edited = snippet.edit(
        '"TFRecord": TFRecordDataset(path, index, fields)',
        '"TFRecord": TFRecordDataset(path, index, fields, transform=len)',
    )
    fails(test_tfrecord_needs_a_transform, edited)


def test_lmdb_opens_once(snippet, capsys):
    snippet.after("opened-twice")

    assert capsys.readouterr().out.endswith(
        "is already open in this process.\n"
    )


def test_lmdb_opens_once__but_two_at_a_time(snippet, capsys, fails):
    edited = snippet.edit(
        'lmdb.open(str(folder / "lmdb"), readonly=True, lock=False):\n',
        'lmdb.open(str(folder / "zeros"), readonly=True, lock=False):\n',
    )
    fails(test_lmdb_opens_once, edited, capsys)


def test_lmdb_opens_once__but_again_once_closed(snippet, capsys, fails):
    edited = snippet.edit(
        'with lmdb.open(str(folder / "lmdb"), readonly=True, lock=False):\n',
        'lmdb.open(str(folder / "lmdb"), readonly=True, lock=False).close()\n'
        "if True:\n",
    )
    fails(test_lmdb_opens_once, edited, capsys)


def test_lmdb_is_small_by_default(snippet, capsys):
    run = snippet.after("map-full")

    assert "MDB_MAP_FULL" in capsys.readouterr().out.splitlines()[-1]
    with run.lmdb.open(str(run.folder / "empty")) as environment:
        assert environment.info()["map_size"] == 10 * 2**20


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            'lmdb.open(str(folder / "small"))',
            'lmdb.open(str(folder / "small"), map_size=2**25)',
        ),
        ("bytes(11_000_000)", "bytes(9_000_000)"),
    ],
)
def test_lmdb_is_small_by_default__but_not_if_told(
    snippet, capsys, old, new, fails
):
    fails(test_lmdb_is_small_by_default, snippet.edit(old, new), capsys)


def test_writing_into_the_map_crashes(snippet):
    assert snippet.after("crash").process.exitcode == -11  # SIGSEGV


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stored.begin(buffers=True)", "stored.begin()"),
        ("        x += 1\n", "        x + 1\n"),
    ],
)
def test_writing_into_the_map_crashes__but_not_in_a_copy(
    snippet, old, new, fails
):
    fails(test_writing_into_the_map_crashes, snippet.edit(old, new))


def test_no_index_doubles_the_samples(snippet, capsys):
    run = snippet.after("without-index")

    assert capsys.readouterr().out.endswith("200\n")
    assert run.rows["TFRecord"] == GOOD


def test_no_index_doubles_the_samples__but_an_index_does_not(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "path, None, fields, transform", "path, index, fields, transform"
    )
    fails(test_no_index_doubles_the_samples, edited, capsys)


def test_tfrecord_starts_anywhere(snippet):
    run = snippet.after("starts")

    # The chance that twenty starts are the same record is 100 to the -19.
    assert len(run.starts) > 1


def test_tfrecord_starts_anywhere__but_not_without_an_index(snippet, fails):
    edited = snippet.edit(
        "iter(TFRecordDataset(path, index, fields))",
        "iter(TFRecordDataset(path, None, fields))",
    )
    fails(test_tfrecord_starts_anywhere, edited)


def test_hdf5_wants_increasing_rows(snippet, capsys):
    run = snippet.after("hdf5-order")

    assert (
        "must be in increasing order"
        in capsys.readouterr().out.splitlines()[-1]
    )
    with run.h5py.File(run.folder / "samples.h5") as file:
        assert file["x"][[1, 3]].shape == (2, 8)


def test_hdf5_wants_increasing_rows__but_takes_them_so(snippet, capsys, fails):
    fails(
        test_hdf5_wants_increasing_rows,
        snippet.edit("[[3, 1]]", "[[1, 3]]"),
        capsys,
    )


def test_a_worker_needs_a_shard(snippet):
    failure = snippet.after("one-shard").failure

    assert isinstance(failure, str)
    assert "ValueError: No samples found in dataset" in failure
    assert "perhaps you have fewer shards than workers" in failure


def test_a_worker_needs_a_shard__but_two_have_two(snippet, fails):
    edited = snippet.edit("(shards[:1]", "(shards[:2]").edit(
        "failure.splitlines()[-2]", "failure"
    )
    fails(test_a_worker_needs_a_shard, edited)


def test_a_worker_needs_a_shard__but_not_unchecked(snippet, fails):
    edited = snippet.edit(
        "shards[:1], shardshuffle=False",
        "shards[:1], shardshuffle=False, empty_check=False",
    ).edit("failure.splitlines()[-2]", "failure")
    fails(test_a_worker_needs_a_shard, edited)


FULL = "MDB_READERS_FULL"


def test_lmdb_fails_in_the_second_epoch(snippet):
    first, second, _ = snippet.after("compare-locks").with_locks

    assert first == 100
    assert FULL in str(second)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "with_locks = three_epochs()",
            "with_locks = three_epochs(lock=False)",
        ),
        (
            "    with lmdb.open(str(early.path), **options) as early.file:",
            "    if early.file is None:  # opened in the worker",
        ),
    ],
)
def test_lmdb_fails_in_the_second_epoch__but_not(snippet, old, new, fails):
    edited = snippet.edit(f"\n{old}", f"\n{new}")
    fails(test_lmdb_fails_in_the_second_epoch, edited)


def test_more_readers_only_delay_it(snippet):
    run = snippet.after("compare-locks")

    first, second, third = run.more_readers
    assert first == second == 100
    assert FULL in str(third)
    with run.lmdb.open(str(run.folder / "fresh")) as environment:
        assert environment.info()["max_readers"] == 126


@pytest.mark.parametrize("readers", [150, 350])
def test_more_readers_only_delay_it__a_place_for_each_sample(
    snippet, readers, fails
):
    edited = snippet.edit("max_readers=250", f"max_readers={readers}")
    fails(test_more_readers_only_delay_it, edited)


def test_lmdb_without_locks_reads_on(snippet):
    assert snippet.after("compare-locks").without_locks == [100, 100, 100]


def test_lmdb_without_locks_reads_on__but_not_with_them(snippet, fails):
    edited = snippet.edit(
        "three_epochs(lock=False)", "three_epochs(lock=True)"
    )
    fails(test_lmdb_without_locks_reads_on, edited)
