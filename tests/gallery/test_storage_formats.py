"""The claims of gallery/storage_formats.py."""

import pytest

for library in ("h5py", "lmdb", "pyarrow", "tfrecord", "webdataset"):
    pytest.importorskip(library, reason=f"{library} is not installed")

# webdataset leaves it to the collector to close its files.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.usefixtures("collected"),
]


def test_every_format_gives_every_image_once(snippet):
    right = snippet.after("read").right

    assert len(right) == 6
    assert all(right.values())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(worker.id, worker.num_workers) if worker else (0, 1)", "(0, 1)"),
        ('        str(folder / "samples.index"),\n', "        None,\n"),
        ("return self.file[index]", "return self.file[0]"),
    ],
)
def test_every_format_gives_every_image_once__but_not(
    snippet, old, new, fails
):
    fails(test_every_format_gives_every_image_once, snippet.edit(old, new))


def test_gzip_and_parquet_take_the_least_room(snippet):
    room = snippet.after("room").room

    for name, share in room.items():
        if name in ("HDF5, gzip", "Parquet"):
            assert share < 1 / 4
        else:
            assert share >= 1


def test_gzip_and_parquet_take_the_least_room__but_not_of_noise(
    snippet, fails
):
    edited = snippet.edit(
        "images[i] = np.where(distance < radius**2, 255 - i % 100, 0)",
        "images[i] = np.random.default_rng(i).integers(256, size=(28, 28))",
    )
    fails(test_gzip_and_parquet_take_the_least_room, edited)


def test_tar_takes_the_most_room(snippet):
    room = dict(snippet.after("room").room)

    assert room.pop("WebDataset") > max(room.values())


def test_tar_takes_the_most_room__but_not_compressed(snippet, fails):
    edited = snippet.edit('"shard-%d.tar"', '"shard-%d.tar.gz"')
    edited = edited.edit('glob("shard-*.tar")', 'glob("shard-*.tar.gz")')
    edited = edited.edit('f"shard-{i}.tar"', 'f"shard-{i}.tar.gz"')
    fails(test_tar_takes_the_most_room, edited)
