"""The claims of docs/data/datasets.md."""

import functools
import sys
import warnings
from itertools import pairwise
from multiprocessing import forkserver
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    Subset,
    TensorDataset,
    default_collate,
    random_split,
)

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import printed
from tests.helpers import spawns

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

# From Python 3.12 on; a thread may be left from the tests of another module.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:This process .* is multi-threaded:DeprecationWarning"
    ),
    pytest.mark.usefixtures("uncollected", "seeded"),
]

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells what a process holds"
)

BASE = ("files", "do-this", "split")


@pytest.fixture(scope="module", autouse=True)
def with_torch():
    """Let no process import torch again, and end the one that forks."""
    with spawns.with_torch():
        yield
    forkserver._forkserver._stop()


@functools.cache
def after(snippet, *names):
    """Run the first cells of a snippet, and some others, once."""
    return again(snippet, *names)


def again(snippet, *names):
    """Run the first cells of a snippet, and some others."""
    return snippet.only(*BASE, *names).after((*BASE, *names)[-1])


def said(snippet, *names):
    """Return what the last of some cells prints, line by line."""
    again(snippet, *names)
    return printed[-1][names[-1]].splitlines()


def saved(image, folder, kind="png", **options):
    """Save a picture among those of class 7, and return its path."""
    path = folder / "7" / f"picture.{kind}"
    path.parent.mkdir(exist_ok=True)
    image.save(path, **options)
    return path


ALPHA = 99  # of 255


def quarters(mode="RGB", size=(40, 36)):
    """Return a picture: blue and green at the top, red at the bottom; with
    transparency, it is translucent.
    """
    image = Image.new("RGB", size, (255, 0, 0))
    image.paste((0, 255, 0), (0, 0, size[0], size[1] // 2))
    image.paste((0, 0, 255), (0, 0, size[0] // 2, size[1] // 2))
    if mode == "I;16":
        gray = np.array(image.convert("L")).astype(np.uint16)
        return Image.fromarray(gray * 257)  # from 0 to 65,535
    image = image.convert(mode)
    if "A" in mode:
        image.putalpha(ALPHA)
    return image


# Do this


def test_a_sample_is_ready_for_a_model(
    snippet, tmp_path, mode="RGB", size=(40, 36), kind="png"
):
    run = again(snippet)
    assert len(run.paths) == 100
    for path in run.paths:
        image, label = run.Digits([path], nn.Identity())[0]
        number = int(path.stem)
        assert label == run.digits.target[number]
        pixels = torch.tensor(run.digits.images[number] / 16)
        assert (image - pixels).abs().max() < 1 / 255

    path = saved(quarters(mode, size), tmp_path, kind)
    with no_error():
        image, label = run.Digits([path], nn.Identity())[0]
    assert (type(label), label) == (int, 7)
    assert image.dtype == torch.float32
    gray = mode in ("L", "LA", "I;16")
    expected = quarters("L" if gray else "RGB", size)
    expected = torch.from_numpy(np.array(expected)) / 255
    if gray:
        expected = expected.expand(3, -1, -1)
    else:
        expected = expected.permute(2, 0, 1)
    assert image.shape == expected.shape == (3, *size[::-1])
    differences = (image - expected).abs()
    if kind == "jpg":  # similar, but for the edges
        assert differences.mean() < 0.02
    else:
        assert differences.max() <= 1e-6
    nn.Conv2d(3, 1, 1)(image)


@pytest.mark.parametrize(
    ("mode", "size"),
    [("L", (40, 36)), ("P", (3, 500)), ("RGBA", (1, 1)), ("LA", (64, 8))],
    ids=["gray", "a palette", "one translucent pixel", "translucent gray"],
)
def test_a_sample_is_ready_for_a_model__also_for(
    snippet, tmp_path, mode, size
):
    test_a_sample_is_ready_for_a_model(snippet, tmp_path, mode, size)


@pytest.mark.parametrize("mode", ["RGB", "CMYK"])
def test_a_sample_is_ready_for_a_model__also_from_jpeg(
    snippet, tmp_path, mode
):
    options = (mode, (64, 64), "jpg")
    test_a_sample_is_ready_for_a_model(snippet, tmp_path, *options)


def test_a_sample_is_ready_for_a_model__also_upright(snippet, tmp_path):
    run, upright = after(snippet), quarters()
    expected = torch.from_numpy(np.array(upright)).permute(2, 0, 1) / 255
    turns = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # how it was turned
    for orientation, turn in turns.items():
        turned = upright.transpose(Image.Transpose(turn))
        exif = Image.Exif()
        exif[274] = orientation  # the tag of EXIF
        path = saved(turned, tmp_path, exif=exif)
        image, _ = run.Digits([path], nn.Identity())[0]
        assert image.equal(expected), orientation


OLD_LABEL = "int(self.paths[index].parent.name)"


def test_a_sample_is_ready_for_a_model__also_with_names(snippet):
    classes = "classes = sorted({path.parent.name for path in paths})"
    named = (
        snippet.edit("str(label) /", "'jihgfedcba'[label] /")
        .edit(OLD_LABEL, "classes.index(self.paths[index].parent.name)")
        .edit("train_set = Dig", f"{classes}\ntrain_set = Dig")
    )
    run = again(named)
    numbers = [int(path.stem) for path in run.val_set.paths]
    labels = [label for _, label in run.val_set]
    assert labels == [*(9 - run.digits.target[numbers])]


def test_a_sample_is_ready_for_a_model__also_resized(snippet, tmp_path):
    resized = snippet.edit(
        '.convert("RGB"))', '.convert("RGB").resize((224, 224)))'
    )
    small = saved(quarters("RGBA", (9, 7)), tmp_path)
    large = saved(quarters("L", (300, 500)), tmp_path, "jpg")
    dataset = again(resized).Digits([small, large], nn.Identity())
    [(images, labels)] = DataLoader(dataset, batch_size=2)
    assert images.shape == (2, 3, 224, 224)
    assert labels.tolist() == [7, 7]


ON_WHITE = (
    'Image.alpha_composite(Image.new("RGBA", file.size, "white"), '
    'file.convert("RGBA"))'
)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "RGB"])
def test_a_sample_is_ready_for_a_model__also_on_white(snippet, tmp_path, mode):
    edited = snippet.edit("transpose(file)", f"transpose({ON_WHITE})")
    path, part = saved(quarters(mode), tmp_path), ALPHA / 255
    plain, white = (
        again(program).Digits([path], nn.Identity())[0][0]
        for program in (snippet, edited)
    )
    expected = part * plain + 1 - part if "A" in mode else plain
    assert (white - expected).abs().max() < 2 / 255


SIXTEEN = "torch.from_numpy(np.array(file) / 65535).float().expand(3, -1, -1)"


def test_a_sample_is_ready_for_a_model__also_of_16_bits_by_hand(
    snippet, tmp_path
):
    path = saved(quarters("I;16"), tmp_path)
    edited = snippet.edit(
        "            pixels = np.array",
        f"            image = {SIXTEEN}\n            pixels = np.array",
    ).edit("image = torch.from_numpy(pixels).permute(2, 0, 1) / 255", "")

    image, _ = again(edited).Digits([path], nn.Identity())[0]
    expected = torch.from_numpy(np.array(quarters("L"))) / 255
    assert image.shape == (3, 36, 40)
    assert image.dtype == torch.float32
    torch.testing.assert_close(image, expected.expand(3, -1, -1))


def test_a_sample_is_ready_for_a_model__ends_with_16_bits(
    snippet, tmp_path, fails
):
    """A gray file of 16 bits comes out white, since `convert` cuts values off
    at 255.
    """
    fails(test_a_sample_is_ready_for_a_model, snippet, tmp_path, "I;16")


@edits(
    ("in gray", '.convert("RGB"))', '.convert("L"))[..., None]'),
    ("up to 255", "permute(2, 0, 1) / 255", "permute(2, 0, 1) / 1"),
    ("in float64", "permute(2, 0, 1)", "permute(2, 0, 1).double()"),
    ("transposed", "permute(2, 0, 1)", "permute(2, 1, 0)"),
    ("with a neighbor's label", OLD_LABEL, f"{OLD_LABEL} + 1"),
)
def test_a_sample_is_ready_for_a_model__but_not(
    snippet, tmp_path, old, new, fails
):
    """Converted to gray, a picture has one channel; the other edits
    change the range, the dtype, the axes or the label.
    """
    edited = snippet.edit(old, new)
    fails(test_a_sample_is_ready_for_a_model, edited, tmp_path)


def test_two_datasets_have_two_transforms(snippet, stratify=False):
    run = again(snippet)
    train_set, val_set = run.train_set, run.val_set
    if stratify:
        split = pytest.importorskip("sklearn.model_selection").train_test_split
        labels = [int(path.parent.name) for path in run.paths]
        parts = split(run.paths, test_size=0.2, stratify=labels)
        train_set = run.Digits(parts[0], run.shifted)
        val_set = run.Digits(parts[1], nn.Identity())
        shares = np.bincount([label for _, label in val_set]) / 20
        assert abs(shares - np.bincount(labels) / 100).max() <= 0.05
        rare = [0] * 95 + [1] * 5
        assert 1 in split(rare, test_size=0.2, stratify=rare)[1]

    assert (len(train_set), len(val_set)) == (80, 20)
    assert sorted([*train_set.paths, *val_set.paths]) == run.paths
    for dataset, changes in ((train_set, True), (val_set, False)):
        for index, path in enumerate(dataset.paths):
            plain = run.Digits([path], nn.Identity())[0][0]
            shifts = [plain.roll(by, 2).tolist() for by in (-1, 0, 1)]
            seen = [dataset[index][0].tolist() for _ in range(15)]
            found = [each in seen for each in shifts]
            assert all(each in shifts for each in seen)
            if changes:
                assert sum(found) > 1
            else:
                assert found == [False, True, False]


def test_two_datasets_have_two_transforms__also_stratified(snippet):
    test_two_datasets_have_two_transforms(snippet, stratify=True)


@edits(
    (
        "with one file in both",
        "random_split(paths, [0.8, 0.2], seed)",
        "paths[:80], paths[79:99]",
    ),
    (
        "with shifts in both",
        "val_set = Digits(val_paths, nn.Identity())",
        "val_set = Digits(val_paths, shifted)",
    ),
    (
        "with shifts in neither",
        "(train_paths, shifted)",
        "(train_paths, nn.Identity())",
    ),
)
def test_two_datasets_have_two_transforms__but_not(snippet, old, new, fails):
    """`paths[79]` is in both parts; the others give both parts one
    transform.
    """
    fails(test_two_datasets_have_two_transforms, snippet.edit(old, new))


# How it works


def outcome(call, *inputs):
    """Return what a call gives, or its error."""
    try:
        return call(*inputs)
    except Exception as error:
        return type(error), str(error)


def parted(function, dataset, lengths, own, read):
    """Return what a split leads to: samples, warnings, the next numbers."""
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(7) if own else None
    inputs = (dataset, lengths, generator) if own else (dataset, lengths)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        parts = outcome(function, *inputs)
        if isinstance(parts, list):
            parts = [
                (len(part), part.indices, [outcome(read, part), *part])
                for part in parts
            ]
    texts = [str(each.message) for each in warned]
    state = generator.get_state().tolist() if own else None
    return parts, texts, torch.rand(1).item(), state


def last_and_beyond(part):
    """Read the last sample of a part, and one that is not there."""
    with pytest.raises(IndexError):
        part[len(part)]
    return part[-1]


SPLITS = [
    (1, [1]),
    (2, [1, 1]),
    (10, [0.7, 0.15, 0.15]),
    (11, [0.8, 0.2]),
    (99, [0.1] * 10),
    (100, [33, 33, 34]),
    (1797, (1500, 297)),
    (1000, [1 / 3, 1 / 3, 1 / 3]),
]


def test_these_lines_are_random_split(
    snippet, splits=SPLITS, make=range, read=last_and_beyond
):
    run = after(snippet, "by-hand")
    for count, lengths in splits:
        for own in (True, False):
            dataset = make(count)
            ours, real = (
                parted(function, dataset, lengths, own, read)
                for function in (run.split, random_split)
            )
            assert str(ours) == str(real)


def numbers(count):
    """Return a dataset of tensors."""
    return TensorDataset(torch.arange(count), torch.randn(count))


def half_of(count):
    """Return a part of twice as many numbers, itself a dataset."""
    seed = torch.Generator().manual_seed(1)
    return random_split(range(2 * count), [0.5, 0.5], seed)[0]


@pytest.mark.parametrize("make", [lambda n: [*"abcdefghij"][:n], half_of])
def test_these_lines_are_random_split__also_of(snippet, make):
    splits = [(10, [0.7, 0.15, 0.15]), (10, [3, 7])]
    test_these_lines_are_random_split(snippet, splits, make)


def test_these_lines_are_random_split__also_for_many_fractions(snippet):
    generator, splits = np.random.default_rng(0), []
    for _ in range(150):
        lengths = generator.dirichlet(np.ones(generator.integers(1, 6)))
        count = int(generator.integers(0, 300))
        fractions = [float(each) for each in lengths]
        are_filled = all(int(count * each) for each in fractions)
        if are_filled and sum(fractions) <= 1:
            splits.append((count, fractions))
    assert len(splits) > 50
    test_these_lines_are_random_split(
        snippet, splits, range, lambda part: [part[i] for i in (0, -1)]
    )


def test_these_lines_are_random_split__also_with_slices(snippet):
    test_these_lines_are_random_split(
        snippet, SPLITS, numbers, lambda part: part[0:2]
    )


def epoch(part):
    """Return the batches of a shuffled epoch."""
    torch.manual_seed(2)
    return list(DataLoader(part, batch_size=3, shuffle=True))


def test_these_lines_are_random_split__also_in_a_loader(snippet):
    test_these_lines_are_random_split(snippet, SPLITS, numbers, epoch)


def test_these_lines_are_random_split__also_as_compared(snippet):
    lines = said(snippet, "by-hand", "compare")
    assert len(lines) == 9
    assert all(line.endswith("same") for line in lines)
    assert "11 files, [0.45, 0.35, 0.2]: [5, 4, 2]" in lines[4]


def test_these_lines_are_random_split__also_in_the_examples(snippet):
    lines = said(snippet, "walk")
    assert [line.count("'") // 2 for line in lines] == [8, 1, 1]
    assert lines[1] == "[6] ['g']"
    assert said(snippet, "thirds") == ["[4, 2, 1]"]


def test_these_lines_are_random_split__ends_with_an_empty_part(snippet, fails):
    """The real one warns of a part without samples."""
    fails(test_these_lines_are_random_split, snippet, [(3, [0.9, 0.1])])


def nothing(part):
    """Read no sample."""


@pytest.mark.parametrize(
    "lengths",
    [[80, 21], [0.4, 0.5], [0.33, 0.56, 0.11], [1.5, -0.5]],
    ids=str,
)
def test_these_lines_are_random_split__ends_for_impossible_lengths(
    snippet, lengths, fails
):
    """The real one raises a `ValueError` for negative fractions, and for
    lengths that don't add up, even if fractions exceed 1 only by rounding;
    ours raises different errors.
    """
    splits = [(100, lengths)]
    options = (splits, range, nothing)
    fails(test_these_lines_are_random_split, snippet, *options)


def test_these_lines_are_random_split__ends_for_a_list_of_indices(
    snippet, fails
):
    """`part[[0, 1]]` hands both indices on; ours takes one index or a
    slice.
    """
    options = ([(9, [0.5, 0.5])], torch.arange, lambda part: part[[0, 1]])
    fails(test_these_lines_are_random_split, snippet, *options)


class AtOnce(Dataset):
    """A dataset that can give many samples at once, and says so."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index

    def __getitems__(self, indices):
        return [-index for index in indices]


def test_these_lines_are_random_split__ends_for_getitems(snippet, fails):
    """The real one hands the indices of a batch to the `__getitems__` of its
    dataset.
    """
    options = ([(9, [0.5, 0.5])], AtOnce, epoch)
    fails(test_these_lines_are_random_split, snippet, *options)


@edits(
    ("1", "dataset, indices  # 1", "dataset, sorted(indices)  # 1"),
    ("2", "self.dataset[self.indices[index]]", "self.dataset[index]"),
    ("3", "[int(len(dataset) * each)", "[round(len(dataset) * each)"),
    ("4", "n + (place < rest)", "n + rest * (place == 0)"),
    (
        "5",
        "randperm(len(dataset), generator=generator)",
        "arange(len(dataset))",
    ),
    ("5 without the generator", "dataset), generator=generator", "dataset)"),
)
def test_these_lines_are_random_split__but_not_with_another_line(
    snippet, old, new, fails
):
    """Other lines give other parts, samples or random numbers: with `rest *
    (place == 0)`, the first part gets all that is left.
    """
    fails(test_these_lines_are_random_split, snippet.edit(old, new))


def test_each_sample_opens_its_file(snippet, shuffle=False, part=False):
    run, calls, opened, real = again(snippet), [], [], Image.open

    def transform(image):
        calls.append(image)
        return image

    def opening(path):
        opened.append(path)
        return real(path)

    with patch.object(Image, "open", opening):
        files = random_split(run.paths, [0.8, 0.2])[1]
        dataset = run.Digits(files, transform)
        if part:
            dataset = random_split(dataset, [0.5, 0.5])[0]
            files = [files[index] for index in dataset.indices]
        files = [*files]
        assert (opened, calls) == ([], [])
        dataset[3]
        assert (opened, len(calls)) == ([files[3]], 1)
        for _ in range(3):
            opened.clear()
            calls.clear()
            list(DataLoader(dataset, batch_size=3, shuffle=shuffle))
            if shuffle:
                assert opened != files
            assert (sorted(opened) if shuffle else opened) == (
                sorted(files) if shuffle else files
            )
            assert len(calls) == len(files)


def test_each_sample_opens_its_file__also_shuffled(snippet):
    test_each_sample_opens_its_file(snippet, shuffle=True)


def test_each_sample_opens_its_file__also_in_a_part(snippet):
    test_each_sample_opens_its_file(snippet, part=True)


GETITEM = "    def __getitem__(self, index):\n        with Image"
INIT = "self.paths, self.transform = paths, transform"


@edits(
    (
        "opened when made",
        INIT,
        f"{INIT}\n        [Image.open(path).close() for path in paths]",
    ),
    (
        "cached",
        GETITEM,
        f"    @__import__('functools').cache\n{GETITEM}",
    ),
    (
        "transformed twice",
        "return self.transform(image)",
        "return self.transform(self.transform(image))",
    ),
)
def test_each_sample_opens_its_file__but_not(snippet, old, new, fails):
    """Opened in `__init__`, all files are read at once; with a cache, each is
    read only once; and a transform may be called twice.
    """
    fails(test_each_sample_opens_its_file, snippet.edit(old, new))


def test_a_seed_repeats_the_split(snippet):
    splits = []
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        torch.rand(seed)
        run = again(snippet)
        parts = (run.train_paths, run.val_paths)
        splits.append([[path.name for path in part] for part in parts])
        generator = torch.Generator().manual_seed(5)
        parts = random_split(range(100), [0.8, 0.2], generator)
        splits[-1] += [part.indices for part in parts]

    assert all(one == other for one, other in pairwise(splits))


SEED = "seed = torch.Generator().manual_seed(0)\n"
SORTED = 'sorted(Path(folder).glob("*/*.png"))\n'


def test_a_seed_repeats_the_split__ends_if_the_generator_has_drawn(
    snippet, fails
):
    """A generator that has drawn before, as for another split, goes on from
    there.
    """
    new = f"{SEED}torch.rand(torch.initial_seed(), generator=seed)\n"
    fails(test_a_seed_repeats_the_split, snippet.edit(SEED, new))


def test_a_seed_repeats_the_split__ends_with_one_more_file(snippet, fails):
    """With one more file, the split is a different one."""
    new = f"{SORTED[:-1]}[torch.initial_seed() % 2 :]\n"
    fails(test_a_seed_repeats_the_split, snippet.edit(SORTED, new))


@edits(
    ("without the generator", "[0.8, 0.2], seed)\nt", "[0.8, 0.2])\nt"),
    (
        "without a seed of its own",
        SEED,
        "seed = torch.Generator().manual_seed(torch.initial_seed())\n",
    ),
    (
        "in another order",
        SORTED,
        f"{SORTED[:-1]}\npaths = [paths[i] for i in torch.randperm(100)]\n",
    ),
)
def test_a_seed_repeats_the_split__but_not(snippet, old, new, fails):
    """PyTorch's own generator goes on from what was drawn before, and the
    order of the paths counts as well.
    """
    fails(test_a_seed_repeats_the_split, snippet.edit(old, new))


# What goes wrong


def test_parts_share_one_transform(snippet):
    lines = said(snippet, "shared-transform")
    assert lines == [
        "as split: 3 3",
        "val_part.transform: 3 3",
        "dataset.transform: 1 1",
    ]
    run = after(snippet, "shared-transform")
    parts = run.train_part, run.val_part
    assert [len(part) for part in parts] == [80, 20]
    order = [index for part in parts for index in part.indices]
    assert order != [*range(100)], order
    for part in parts:
        for transform, count in ((run.shifted, 3), (nn.Identity(), 1)):
            part.dataset.transform = transform
            assert [run.different(each) for each in parts] == [count] * 2


@pytest.mark.parametrize("lengths", [[50, 30, 20], [0.5, 0.5]], ids=str)
def test_parts_share_one_transform__also_for(snippet, lengths):
    run = after(snippet, "shared-transform")
    parts = random_split(run.Digits(run.paths, run.shifted), lengths)
    assert [run.different(part) for part in parts] == [3] * len(parts)
    parts[-1].dataset.transform = nn.Identity()
    assert [run.different(part) for part in parts] == [1] * len(parts)


def test_parts_share_one_transform__also_cured(snippet):
    cells = ("shared-transform", "own-dataset")
    assert said(snippet, *cells) == ["training: 3 validation: 1"]
    run = after(snippet, *cells)
    for part, count in ((run.train_part, 3), (run.val_part, 1)):
        for index, place in enumerate(part.indices[:9]):
            one = Subset(part, [index])
            assert run.different(one) == count
            plain, label = run.Digits(run.paths, nn.Identity())[place]
            assert one[0][1] == label
            assert count == 3 or one[0][0].equal(plain)


OF_DATASET = "val_part.dataset.transform = nn.Identity()"


def test_parts_share_one_transform__but_not_of_two_datasets(snippet, fails):
    """A second dataset for the validation part leaves that of the training
    part as it was.
    """
    new = "val_part.dataset = Digits(paths, nn.Identity())"
    fails(test_parts_share_one_transform, snippet.edit(OF_DATASET, new))


@edits(
    (
        "of a copy",
        OF_DATASET,
        f"{OF_DATASET[:8]}.dataset = "
        "__import__('copy').copy(val_part.dataset)\n" + OF_DATASET,
    ),
    ("of the part", OF_DATASET, "val_part.transform = nn.Identity()"),
)
def test_parts_share_one_transform__but_not(snippet, old, new, fails):
    """A copy of the dataset has a transform of its own, and that of the part
    is read by nobody.
    """
    fails(test_parts_share_one_transform, snippet.edit(old, new))


class Rich(Dataset):
    """A dataset with the attributes that others have."""

    def __init__(self):
        self.targets = self.classes = self.data = self.transform = [4, 2]

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.targets[index]


def test_a_part_has_no_other_attributes(snippet):
    cells = ("shared-transform", "own-dataset", "no-attribute")
    lines = said(snippet, *cells)
    assert lines == [
        "'Subset' object has no attribute 'paths'",
        "20 paths",
    ]
    run = after(snippet, *cells)
    for index, path in enumerate(run.files):
        expected = run.Digits([path], nn.Identity())[0][0]
        assert run.val_part[index][0].equal(expected)
    for part in random_split(Rich(), [1, 1]):
        for name in ("targets", "classes", "data", "transform"):
            assert hasattr(part.dataset, name)
            with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
                getattr(part, name)
        assert [part.dataset.targets[i] for i in part.indices] == [*part]


def test_a_part_has_no_other_attributes__also_nested(snippet):
    part = random_split(random_split(Rich(), [1, 1])[0], [1])[0]
    with pytest.raises(AttributeError, match="no attribute 'targets'"):
        part.dataset.targets  # noqa: B018
    assert part.dataset.dataset.targets == [4, 2]


@edits(
    ("of its dataset", "    val_part.paths", "    val_part.dataset.paths"),
    (
        "in another order",
        "for index in val_part.indices]",
        "for index in range(20)]",
    ),
)
def test_a_part_has_no_other_attributes__but_not(snippet, old, new, fails):
    """The dataset has them; and without `indices`, these are the first files
    of all.
    """
    fails(test_a_part_has_no_other_attributes, snippet.edit(old, new))


def share_that_leaks(count, seed):
    """Return for how many validation samples the copy is in training."""
    seed = torch.Generator().manual_seed(seed)
    train, val = random_split(range(2 * count), [0.8, 0.2], seed)
    seen = {index % count for index in train.indices}
    return np.mean([index % count in seen for index in val.indices])


def test_copies_end_up_in_both_parts(snippet):
    run = again(snippet, "copies")
    found = [
        [run.paths[index % 100] for index in part.indices]
        for part in (run.leaky_train, run.leaky_val)
    ]
    assert sorted(found[0] + found[1]) == sorted(2 * run.paths)
    for index in (3, 99, 100, 142):
        plain = run.Digits(run.paths, nn.Identity())[index % 100]
        shifts = [plain[0].roll(by, 2) for by in (-1, 0, 1)]
        assert any(run.copied[index][0].equal(each) for each in shifts)
        assert run.copied[index][1] == plain[1]
    leaks = [path in found[0] for path in found[1]]
    assert len(run.leaks) == sum(leaks)
    assert 0.7 < np.mean(leaks) < 0.9


@pytest.mark.parametrize("count", [100, 2000])
def test_copies_end_up_in_both_parts__also_on_average(count):
    shares = [share_that_leaks(count, seed) for seed in range(40)]
    assert 0.78 < np.mean(shares) < 0.825


def test_copies_end_up_in_both_parts__also_cured(snippet):
    lines = said(snippet, "copies", "copies-later")
    assert lines == ["160 for training; set() in both"]


FIFTH = "random_split(copied, [0.8, 0.2], seed.manual_seed(0))"


def test_copies_end_up_in_both_parts__ends_with_another_fraction(
    snippet, fails
):
    """If half of the samples are for validation, half of these have their
    copy in the training part.
    """
    edited = snippet.edit(FIFTH, FIFTH.replace("0.8, 0.2", "0.5, 0.5"))
    fails(test_copies_end_up_in_both_parts, edited)


def test_copies_end_up_in_both_parts__but_not_if_files_are_split(
    snippet, fails
):
    """If the files are split first, both copies are in one part."""
    new = (
        "[torch.utils.data.Subset(copied, [i + j for i in part"
        " for j in (0, 100)]) for part in (range(80), range(80, 100))]"
    )
    fails(test_copies_end_up_in_both_parts, snippet.edit(FIFTH, new))


class Changed(Dataset):
    """A dataset that transforms what is stored."""

    def __init__(self, stored, change):
        self.stored, self.change = stored, change

    def __len__(self):
        return len(self.stored)

    def __getitem__(self, index):
        return self.change(self.stored[index][0])


FORK = {"num_workers": 1, "multiprocessing_context": "fork"}


def double(image):
    return image.mul_(2)


def test_in_place_changes_what_is_kept(snippet, change=double, options=None):
    lines = said(snippet, "in-place")
    ends = [line.split("tensor")[1] for line in lines]
    assert ends == ["(1.)", "(2.)", "(4.)", "(8.)"]

    stored = [after(snippet).val_set[index] for index in range(5)]
    stored = [(image.clone(), label) for image, label in stored]
    loader = DataLoader(Changed(stored, change), 5, **(options or {}))
    before = torch.stack([image for image, _ in stored])
    for _ in range(2):
        expected = torch.stack([change(image) for image in before.clone()])
        [given] = loader
        assert given.equal(expected)
        before = torch.stack([kept for kept, _ in stored])
        assert before.equal(expected)


@pytest.mark.parametrize("name", ["add_", "sub_"])
def test_in_place_changes_what_is_kept__also_with(snippet, name):
    def change(image):
        return getattr(image, name)(0.5)

    test_in_place_changes_what_is_kept(snippet, change)


def test_in_place_changes_what_is_kept__also_in_a_forkserver(snippet):
    options = {**FORK, "multiprocessing_context": "forkserver"}
    test_in_place_changes_what_is_kept(snippet, double, options)


def test_in_place_changes_what_is_kept__ends_with_forked_workers(
    snippet, fails
):
    """A forked worker changes its own copy, and the main process keeps what
    it has.
    """
    fails(test_in_place_changes_what_is_kept, snippet, double, FORK)


def test_in_place_changes_what_is_kept__also_in_a_worker_that_stays():
    dataset = Changed([[torch.ones(1)]], double)
    loader = DataLoader(dataset, persistent_workers=True, **FORK)
    assert [batch.item() for _ in range(3) for batch in loader] == [2, 4, 8]
    assert dataset.stored == [[torch.ones(1)]]


@edits(
    ("of a new tensor", "image.mul_(2)", "image * 2"),
    ("of a clone", "image.mul_(2)", "image.clone().mul_(2)"),
)
def test_in_place_changes_what_is_kept__but_not(snippet, old, new, fails):
    """A new tensor leaves the stored one as it was."""
    edited = snippet.edit(f"[{old} for", f"[{new} for")
    fails(test_in_place_changes_what_is_kept, edited)


EXERCISE = ("in-memory", "in-memory-checked")


def test_in_place_changes_what_is_kept__also_in_the_exercise(snippet):
    [line] = said(snippet, *EXERCISE)
    assert line.startswith("Right: each file is read once")
    run_once = "self.transform(self.images[index].clone())"
    stacked = "torch.stack([image for image, label in samples])"
    for old, new, words in (
        (".clone()), self", "), self", "not twice as"),
        ("in range(len(dataset))]", "in [0, *range(20)]]", "21 reads of 20"),
        (run_once, "2 * self.images[index]", "does not run once"),
        (stacked, stacked[12:-1], "not in one tensor"),
        ("[label for image, label in s", "[-label for image, label in s", ""),
    ):
        [line] = said(snippet.edit(old, new), *EXERCISE)
        assert (words or "labels") in line
    run = after(snippet, *EXERCISE)
    memory = run.InMemory(run.val_set, nn.Identity())
    assert memory.images.shape == (20, 3, 8, 8)
    batch = default_collate([memory[index] for index in range(len(memory))])
    expected = default_collate([*run.val_set])
    assert all(x.equal(y) for x, y in zip(batch, expected, strict=True))


def test_a_length_is_needed(snippet):
    lines = said(snippet, "no-length")
    assert lines == ["object of type 'NoLength' has no len()"]
    run = after(snippet, "no-length")
    dataset = run.NoLength()

    with pytest.raises(TypeError, match="has no len"):
        DataLoader(dataset, shuffle=True)
    for size in (1, 2):
        loader = DataLoader(dataset, batch_size=size)
        with pytest.raises(TypeError, match="has no len"):
            next(iter(loader))
    with pytest.raises(TypeError, match="has no len"):
        random_split(dataset, [0.5, 0.5])
    loader = DataLoader(dataset, sampler=[0, 4], collate_fn=list)
    with no_error():
        assert [*loader] == [[run.paths[0]], [run.paths[4]]]


def test_a_length_is_needed__but_not_with_a_length(snippet, fails):
    """With a `__len__`, the loader knows how many samples there are to
    shuffle.
    """
    edited = snippet.edit(
        "class NoLength(Dataset):\n",
        "class NoLength(Dataset):\n"
        "    def __len__(self):\n        return 10\n\n",
    )
    fails(test_a_length_is_needed, edited)


MB = 1_000_000


@linux
def test_a_list_is_copied_into_each_worker(snippet):
    run = after(snippet, "own-memory", "grown")
    grown = {**run.grown}

    assert grown.pop("list") > 20 * MB
    assert {*grown} == {"array", "tensor"}
    for name, size in grown.items():
        # The system may add to a measurement, more in a large process, and
        # takes nothing from it; a copy of the array would be 8 MB.
        again = size if size < 4 * MB else run.growth(run.million[name])
        assert min(size, again) < 4 * MB
    assert type(run.million["tensor"]) is torch.Tensor


@linux
def test_a_list_is_copied_into_each_worker__also_in_another_order(snippet):
    growth = after(snippet, "own-memory").growth
    part = random_split(range(2 * MB), [0.5, 0.5])[0]
    assert growth(part) > 20 * MB
    assert growth(sorted(part.indices)) > 20 * MB
    part.indices = np.array(part.indices)
    for array in (part, part.indices.astype(bytes)):
        assert min(growth(array), growth(array)) < 4 * MB


@linux
def test_a_list_is_copied_into_each_worker__ends_with_small_integers(
    snippet, fails
):
    """A list of small integers, such as class numbers: Python has each of
    them only once.
    """
    edited = snippet.edit("array.tolist()", "(array % 10).tolist()")
    fails(test_a_list_is_copied_into_each_worker, edited)


@linux
def test_a_list_is_copied_into_each_worker__but_not_an_array(snippet, fails):
    """Reading an array changes nothing in the memory where its numbers are, so
    almost nothing is copied.
    """
    edited = snippet.edit('"list": array.tolist()', '"list": array')
    fails(test_a_list_is_copied_into_each_worker, edited)


@linux
@edits(
    (
        "an array of objects",
        '"array": array}',
        '"array": array.astype(object)}',
    ),
    ("a tensor in a list", "torch.from_numpy(array)", "array.tolist()"),
)
def test_a_list_is_copied_into_each_worker__but_not(snippet, old, new, fails):
    """It is Python objects that are copied: those of an array as well, and
    those of a list in place of a tensor.
    """
    fails(test_a_list_is_copied_into_each_worker, snippet.edit(old, new))


class Held(Dataset):
    """A dataset that says how much of it belongs to the process alone."""

    def __init__(self):
        self.array = np.arange(MB)
        self.list = self.array.tolist()
        self.tensor = torch.arange(MB)

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return {
            "list": own([id(each) for each in self.list[::10_000]]),
            "array": own([self.array.ctypes.data + 4 * MB]),
            "tensor": own([self.tensor.data_ptr() + 4 * MB]),
        }


def own(addresses):
    """Return the bytes of its own that a process has around addresses."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            low, high = (int(each, 16) for each in first.split("-"))
            inside = any(low <= each < high for each in addresses)
        elif inside and first.startswith("Private_"):
            found += 1024 * int(rest[0])
    return found


@linux
def test_other_starts_share_tensors_only(start="forkserver", workers=2):
    """No counter-example can edit the page, which has no cell of this."""
    loader = DataLoader(
        Held(), None, num_workers=workers, multiprocessing_context=start
    )
    for sizes in loader:
        assert sizes["list"] > 25 * MB
        assert sizes["array"] > 7.5 * MB
        assert sizes["tensor"] < 1 * MB


def test_other_starts_share_tensors_only__also_spawn():
    test_other_starts_share_tensors_only("spawn", 1)


def test_other_starts_share_tensors_only__ends_with_fork(fails):
    """With `fork`: workers share the memory of the list and of the array as
    well.
    """
    fails(test_other_starts_share_tensors_only, "fork")
