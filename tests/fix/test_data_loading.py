"""The claims of docs/fix/data_loading.md."""

import io
import traceback

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset

from extensions.evidence.counterexamples import edits, no_error

FORK = {"num_workers": 1, "multiprocessing_context": "fork"}


def error_of(call, *inputs):
    """Return the error that a call raises, or what it returns."""
    try:
        return call(*inputs)
    except Exception as error:
        traceback.clear_frames(error.__traceback__)  # so that workers end
        return error


def test_next_goes_on(snippet):
    with no_error():
        found = snippet.after("next")

    assert found.first.tolist() == [1.0]
    assert found.second.tolist() == [2.0]
    said = str(error_of(lambda: found.batches.next()))
    assert said.endswith("object has no attribute 'next'")


def test_next_goes_on__also_with_a_worker(snippet):
    test_next_goes_on(snippet.edit("3.0])\n", f"3.0], **{FORK})\n"))


def test_next_goes_on__but_not_if_it_starts_over(snippet, fails):
    """`next(iter(loader))` starts over, and gives the first batch again."""
    old = "next(batches), next(batches)"
    edited = snippet.edit(old, "next(iter(loader)), next(iter(loader))")
    fails(test_next_goes_on, edited)


def test_next_goes_on__ends_after_the_last_batch(snippet, fails):
    """After the last batch, it raises `StopIteration`."""
    fails(test_next_goes_on, snippet.edit("[1.0, 2.0, 3.0]", "[1.0]"))


NO_SAMPLES = "num_samples should be a positive integer value"


def test_nothing_to_shuffle(snippet, dataset=None):
    files = snippet.after("empty").files if dataset is None else dataset

    said = str(error_of(lambda: DataLoader(files, shuffle=True)))
    assert said.startswith(NO_SAMPLES)
    assert list(DataLoader(files)) == []


EMPTY = {
    "an empty subset": Subset([1.0, 2.0], []),
    "a tensor of no rows": TensorDataset(torch.empty(0, 3)),
    "an empty dict": {},
}


@pytest.mark.parametrize("dataset", EMPTY.values(), ids=EMPTY)
def test_nothing_to_shuffle__also_for(snippet, dataset):
    test_nothing_to_shuffle(snippet, dataset)


def test_nothing_to_shuffle__but_not_with_a_file(snippet, fails):
    """With a single file, both loaders work."""
    fails(test_nothing_to_shuffle, snippet, ["one.jpg"])


def test_places_are_not_labels(snippet, loads=list):
    found = snippet.after("by-place")
    large = found.table[found.table["size"] > 3]

    error = error_of(loads, found.large)
    assert type(error) is KeyError
    assert loads(found.ByPlace(large)) == large["size"].tolist()


def loads_with(options):
    """Return a function that loads a dataset sample by sample."""
    return lambda rows: [each.item() for each in DataLoader(rows, **options)]


WORKERS = {"a loader": {}, "a worker": FORK}


@pytest.mark.parametrize("options", WORKERS.values(), ids=WORKERS)
def test_places_are_not_labels__also_in(snippet, options):
    test_places_are_not_labels(snippet, loads_with(options))


NAMED = "2.0, 6.0]}, index=[4, 5, 6, 7])"


@edits(
    ("shuffled rows", "2.0, 6.0]})", "2.0, 6.0]}).sample(frac=1)"),
    ("other labels", "2.0, 6.0]})", NAMED),
)
def test_places_are_not_labels__also_with(snippet, old, new):
    test_places_are_not_labels(snippet.edit(old, new), loads_with({}))


def test_places_are_not_labels__but_not_in_a_whole_table(snippet, fails):
    """In a table that nobody has filtered, labels and places agree."""
    edited = snippet.edit("[1.0, 5.0, 2.0, 6.0]", "[4.0, 5.0, 7.0, 6.0]")
    fails(test_places_are_not_labels, edited, loads_with({}))


def test_places_are_not_labels__ends_with_new_labels(snippet, fails):
    """`reset_index(drop=True)` makes the labels the places again."""
    old = '[table["size"] > 3])  #'
    edited = snippet.edit(old, f"{old[:-4]}.reset_index(drop=True))  #")
    fails(test_places_are_not_labels, edited, loads_with({}))


def test_places_are_not_labels__ends_with_a_slice(snippet, fails):
    """A slice, such as `column[0:2]`, goes by place."""
    fails(
        test_places_are_not_labels,
        snippet,
        lambda rows: rows.column[0:2].tolist(),
    )


def test_pillow_wants_bytes(snippet, colors=None):
    found = snippet.after("fromarray")
    colors = found.colors if colors is None else colors

    error = error_of(found.Image.fromarray, colors)
    assert str(error).startswith("Cannot handle this data type")
    pixels = (255 * found.colors).round().astype(np.uint8)
    assert np.array_equal(found.picture, pixels)


REFUSED = {
    "float64": np.zeros((6, 8, 3)),
    "int64": np.zeros((6, 8, 3), dtype=np.int64),
    "three channels first": np.zeros((3, 6, 8), dtype=np.uint8),
    "one channel first": np.zeros((1, 6, 8), dtype=np.uint8),
    "an axis for one channel": np.zeros((6, 8, 1), dtype=np.uint8),
    "a batch": np.zeros((2, 6, 8, 3), dtype=np.uint8),
}


@pytest.mark.parametrize("colors", REFUSED.values(), ids=REFUSED)
def test_pillow_wants_bytes__also_refuses(snippet, colors):
    test_pillow_wants_bytes(snippet, colors)


def test_pillow_wants_bytes__but_not_from_bytes(snippet, fails):
    """Colors in `uint8`, with their channels last, are a picture."""
    fails(test_pillow_wants_bytes, snippet, np.zeros((6, 8, 3), np.uint8))


def test_pillow_wants_bytes__ends_without_colors(snippet, fails):
    """A gray picture without an axis for its channel may be of floats."""
    fails(test_pillow_wants_bytes, snippet, np.zeros((6, 8), np.float32))


def test_pillow_wants_bytes__ends_with_a_fourth_channel(snippet, fails):
    """A fourth channel of bytes is taken for the opacity."""
    fails(test_pillow_wants_bytes, snippet, np.zeros((6, 8, 4), np.uint8))


def test_load_finds_what_is_broken(snippet, says="image file is truncated"):
    with no_error():
        found = snippet.after("found").found

    assert list(found) == ["cut.jpg", "page.jpg"]
    assert found["cut.jpg"].startswith(says)
    assert found["page.jpg"].startswith("cannot identify image file")


@edits(
    ("a tenth is missing", "len(whole) // 2", "len(whole) * 9 // 10"),
    ("a PNG", '"JPEG"', '"PNG"'),
    ("a progressive JPEG", '"JPEG"', '"JPEG", progressive=True'),
    ("a pointer of Git LFS", 'b"<!DOCTYPE html>', 'b"version https://git-lfs'),
    ("an empty file", 'b"<!DOCTYPE html><title>404 Not Found</title>"', 'b""'),
)
def test_load_finds_what_is_broken__also_if(snippet, old, new):
    test_load_finds_what_is_broken(snippet.edit(old, new))


ZEROS = (
    "whole[: len(whole) // 2],",
    "whole[: len(whole) // 2].ljust(len(whole), bytes(1)),",
)


def test_load_finds_what_is_broken__also_a_png_of_zeros(snippet):
    edited = snippet.edit('"JPEG"', '"PNG"').edit(*ZEROS)
    edited = edited.edit("size=(64, 64, 3)", "size=(256, 256, 3)")
    test_load_finds_what_is_broken(edited, says="broken PNG file")


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "WEBP"])
def test_load_finds_what_is_broken__ends_with_zeros(snippet, kind, fails):
    """Some formats load with zeros in place of their end."""
    edited = snippet.edit('"JPEG"', f'"{kind}"').edit(*ZEROS)
    fails(test_load_finds_what_is_broken, edited)


def test_load_finds_what_is_broken__but_verify_does_not(snippet, fails):
    """`verify()` finds nothing wrong with a JPEG that was cut off."""
    edited = snippet.edit("picture.load()", "picture.verify()")
    fails(test_load_finds_what_is_broken, edited)


def test_load_finds_what_is_broken__but_open_does_not(snippet, fails):
    """`Image.open` alone reads only the beginning of the file."""
    edited = snippet.edit("picture.load()", "picture.size")
    fails(test_load_finds_what_is_broken, edited)


def test_load_finds_what_is_broken__ends_with_a_png(snippet, fails):
    """A PNG that lacks only its last few bytes has all of its pixels."""
    edited = snippet.edit('"JPEG"', '"PNG"').edit("len(whole) // 2", "-4")
    fails(test_load_finds_what_is_broken, edited)


def test_load_finds_what_is_broken__ends_if_told_to_fill(snippet, fails):
    """With `LOAD_TRUNCATED_IMAGES = True`, Pillow opens the cut file."""
    old = "import contextlib\n"
    told = "from PIL import ImageFile\n\nImageFile.LOAD_TRUNCATED_IMAGES = "
    program = snippet.edit(old, f"{told}True\n{old}")
    after = "    found = broken(contents)\n"
    program = program.edit(
        after, f"{after}ImageFile.LOAD_TRUNCATED_IMAGES = 0\n"
    )
    fails(test_load_finds_what_is_broken, program)


def test_what_is_missing_is_gray(snippet):
    found = snippet.after("filled")

    rows = found.pixels.reshape(64, -1)
    whole = np.asarray(found.Image.open(io.BytesIO(found.whole)))
    assert np.unique(rows[-8:]).tolist() == [128]
    assert np.array_equal(rows[:8], whole.reshape(64, -1)[:8])


def test_what_is_missing_is_gray__but_not_in_a_whole_file(snippet, fails):
    """A whole file has all of its pixels."""
    edited = snippet.edit("whole[: len(whole) // 2]", "whole")
    fails(test_what_is_missing_is_gray, edited)


def test_what_is_missing_is_gray__ends_with_a_png(snippet, fails):
    """What is missing of a PNG is black."""
    fails(test_what_is_missing_is_gray, snippet.edit('"JPEG"', '"PNG"'))


def test_what_is_missing_is_gray__ends_with_a_progressive_one(snippet, fails):
    """What is missing of a progressive JPEG is sharpness, everywhere."""
    edited = snippet.edit('"JPEG"', '"JPEG", progressive=True')
    fails(test_what_is_missing_is_gray, edited)
