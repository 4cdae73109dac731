"""The claims of docs/data/datasets.md."""

import functools
import os
import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, random_split

from extensions.evidence.counterexamples import edits, no_error
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

BASE = ("do-this", "dataset", "transforms", "files", "sample")


@pytest.fixture(scope="module", autouse=True)
def with_torch():
    """Let no process import torch again, and end the one that forks."""
    with spawns.with_torch():
        yield
    forkserver._forkserver._stop()


@functools.cache
def after(snippet, *names, base=BASE):
    """Run some cells of a snippet, and those that most need, once."""
    return again(snippet, *names, base=base)


def again(snippet, *names, base=BASE):
    """Run some cells of a snippet, and those that most need."""
    needed = {*base, *names}
    last = [name for name in snippet.cells() if name in needed][-1]
    return snippet.only(*needed).after(last)


def reads(dataset, index=0, times=12):
    """Return how many different pictures some reads of one sample give."""
    return len({dataset[index][0].numpy().tobytes() for _ in range(times)})


# Do this


def test_any_picture_becomes_rgb(
    snippet, tmp_path, mode="RGB", size=(40, 36), kind="png"
):
    kind = "jpg" if mode == "CMYK" else kind
    run = after(snippet, base=("do-this",))
    image = Image.new("RGB", size, (255, 0, 0))
    image.paste((0, 255, 0), (0, 0, size[0], size[1] // 2))
    image.paste((0, 0, 255), (0, 0, size[0] // 2, size[1] // 2))
    path = tmp_path / f"picture.{kind}"
    if mode == "I;16":
        gray = np.array(image.convert("L")).astype(np.uint16)
        image = Image.fromarray(gray * 257)  # from 0 to 65,535
    else:
        image = image.convert(mode)
    image.save(path)
    with no_error():
        picture = run.read(path)

    assert picture.shape == (3, 32, 32)
    assert picture.dtype == torch.uint8
    if min(size) > 1:
        top, bottom = picture[:, 2, 2].tolist(), picture[:, 29, 29].tolist()
        assert top != bottom
        if mode in ("RGB", "P", "RGBA") and kind == "png":
            assert (top, bottom) == ([0, 0, 255], [255, 0, 0])
        assert picture[:, 29, 2].tolist() == bottom
        assert picture[:, 2, 29].tolist() not in (top, bottom)


@pytest.mark.parametrize(
    ("mode", "size"),
    [
        ("L", (40, 36)),
        ("P", (3, 500)),
        ("RGBA", (1, 1)),
        ("LA", (64, 8)),
        ("CMYK", (900, 700)),
    ],
    ids=[
        "a gray picture",
        "a picture with a palette",
        "a transparent picture",
        "a gray picture with alpha",
        "a picture in CMYK",
    ],
)
def test_any_picture_becomes_rgb__also_for(snippet, tmp_path, mode, size):
    test_any_picture_becomes_rgb(snippet, tmp_path, mode, size)


def test_any_picture_becomes_rgb__ends_with_16_bits_a_channel(
    snippet, tmp_path, fails
):
    """With 16 bits a channel: `convert` cuts values off at 255, so a picture
    may come out white.
    """
    fails(test_any_picture_becomes_rgb, snippet, tmp_path, "I;16")


def test_photos_come_upright(snippet, tmp_path, mode="RGB", kind="png"):
    run = after(snippet, base=("do-this",))
    image = Image.new("RGB", (48, 40), "red")
    image.paste("blue", (0, 0, 24, 10))
    image.paste("white", (40, 30, 48, 40))
    upright = run.read(saved(image, tmp_path / "upright.png")).float()
    turns = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # how it was turned
    for orientation, turn in turns.items():
        turned = image.transpose(Image.Transpose(turn)).convert(mode)
        exif = Image.Exif()
        exif[274] = orientation  # the tag of EXIF
        path = saved(turned, tmp_path / f"{orientation}.{kind}", exif=exif)
        # Only resized otherwise, as height and width are exchanged.
        assert (run.read(path) - upright).abs().mean() < 8, orientation


def saved(image, path, **options):
    """Save a picture, and return its path."""
    image.save(path, **options)
    return path


def test_photos_come_upright__also_with_alpha(snippet, tmp_path):
    test_photos_come_upright(snippet, tmp_path, "RGBA")


def test_photos_come_upright__also_from_jpeg(snippet, tmp_path):
    test_photos_come_upright(snippet, tmp_path, kind="jpg")


@edits(
    ("without it", "ImageOps.exif_transpose(file)", "file"),
    (
        "if mirrored ones are left out",
        "ImageOps.exif_transpose(file)",
        "file if file.getexif().get(274) in (2, 4, 5, 7)"
        " else ImageOps.exif_transpose(file)",
    ),
)
def test_photos_come_upright__but_not(snippet, tmp_path, old, new, fails):
    """Without `exif_transpose`, a photo lies as the sensor saw it; mirrored
    ones count as well.
    """
    fails(test_photos_come_upright, snippet.edit(old, new), tmp_path)


def test_any_picture_becomes_rgb__also_from_jpeg(snippet, tmp_path):
    test_any_picture_becomes_rgb(snippet, tmp_path, kind="jpg")


@edits(
    ("four channels", '.convert("RGB").resize', '.convert("RGBA").resize'),
    ("its own size", '.convert("RGB").resize((32, 32))', '.convert("RGB")'),
    ("floating point", "from_numpy(pixels)", "from_numpy(pixels / 255)"),
    (
        "channels last",
        ".permute(2, 0, 1)  # channels first",
        "",
    ),
    ("turned", ".permute(2, 0, 1)  # ch", ".permute(2, 1, 0)  # ch"),
    ("mirrored", ".permute(2, 0, 1)  # ch", ".permute(2, 0, 1).flip(2)  # ch"),
)
def test_any_picture_becomes_rgb__but_not(snippet, tmp_path, old, new, fails):
    """`convert("RGBA")` gives four channels; the other edits change the size,
    the dtype, the axes or the picture.
    """
    edited = snippet.edit(old, new)
    fails(test_any_picture_becomes_rgb, edited, tmp_path)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA"])
def test_any_picture_becomes_rgb__but_not_unconverted(
    snippet, tmp_path, mode, fails
):
    """Without `convert("RGB")`, each picture keeps its own channels."""
    edited = snippet.edit('image.convert("RGB").resize', "image.resize")
    fails(test_any_picture_becomes_rgb, edited, tmp_path, mode)


def test_a_sample_is_ready_for_a_model(snippet):
    run = after(snippet, "sample")

    assert len(run.training) == len(run.paths) == 8
    for path, mode in zip(
        run.paths, ["RGB", "L", "RGBA", "P"] * 2, strict=True
    ):
        with Image.open(path) as file:
            assert file.mode == mode
    for index, path in enumerate(run.paths):
        image, label = run.training[index]
        assert image.shape == (3, 24, 24)
        assert image.dtype == torch.float32
        assert image.min() >= 0
        pixels = run.read(path) / 255
        assert image.max() <= pixels.max()
        crops = pixels.unfold(1, 24, 1).unfold(2, 24, 1).unflatten(0, (3, 1))
        mirrored = crops.flip(-1)
        found = torch.cat([crops, mirrored], 1).movedim(0, 3).flatten(0, 2)
        assert any(torch.equal(each, image) for each in found)
        assert (label.shape, label.dtype) == ((), torch.int64)
        assert label == ("night" in path.name)
    torch.nn.Conv2d(3, 1, 3)(image)
    classes = [7, 0, 1000, 3] * 5
    more = run.Pictures((run.paths * 3)[:20], classes, run.center)
    assert [label.item() for _, label in more] == classes


@edits(
    ("up to 255", "left : left + 24] / 255", "left : left + 24] / 1"),
    ("uint8", "left : left + 24] / 255", "left : left + 24]"),
    ("larger", "image = image[:, top : top + 24,", "image = image[:, top:,"),
    (
        "a floating-point label",
        "torch.tensor(labels)\n\n    def",
        "torch.tensor(labels) / 1\n\n    def",
    ),
    ("the label of another", "self.labels[index]", "self.labels[index - 1]"),
    ("the other label", 'int("night" in', 'int("day" in'),
)
def test_a_sample_is_ready_for_a_model__but_not(snippet, old, new, fails):
    """Without `/ 255`, the numbers go up to 255; the other edits give bytes,
    another size or a wrong label.
    """
    fails(test_a_sample_is_ready_for_a_model, snippet.edit(old, new))


# How it works


class Opened:
    """Notes which files Pillow opens."""

    def __enter__(self):
        self.paths, real = [], Image.open

        def opening(path, *args, **options):
            self.paths.append(path)
            return real(path, *args, **options)

        self.patch = patch.object(Image, "open", opening)
        self.patch.start()
        return self.paths

    def __exit__(self, *error):
        self.patch.stop()


def test_each_sample_opens_its_file(snippet):
    run = after(snippet, "dataset")
    with Opened() as opened:
        pictures = run.Pictures(run.paths, run.labels, run.center)
        assert opened == []
        pictures[3]
        assert opened == [run.paths[3]]
        for _ in range(2):
            opened.clear()
            list(DataLoader(pictures, batch_size=3))
            assert opened == run.paths


@edits(
    (
        "all when made",
        "self.paths, self.transform = paths, transform",
        "self.paths, self.transform = paths, transform\n"
        "        [read(path) for path in paths]",
    ),
    (
        "once for all",
        "def read(path):",
        "import functools\n\n\n@functools.cache\ndef read(path):",
    ),
    ("another", "read(self.paths[index])", "read(self.paths[index - 1])"),
)
def test_each_sample_opens_its_file__but_not(snippet, old, new, fails):
    """Read in `__init__`, all files are opened at once; a cache opens each
    only once; and `index - 1` is another file.
    """
    fails(test_each_sample_opens_its_file, snippet.edit(old, new))


def test_the_transform_runs_at_each_read(snippet, shuffle=False):
    run, calls = after(snippet, "dataset"), []

    def transform(image):
        calls.append(image)
        return image

    pictures = run.Pictures(run.paths, run.labels, transform)
    assert calls == []
    for epoch in range(1, 4):
        list(DataLoader(pictures, batch_size=3, shuffle=shuffle))
        assert len(calls) == epoch * 8
    if not shuffle:
        for image, path in zip(calls, run.paths * 3, strict=True):
            assert image.equal(run.read(path))


def test_the_transform_runs_at_each_read__also_shuffled(snippet):
    test_the_transform_runs_at_each_read(snippet, shuffle=True)


GETITEM = "    def __getitem__(self, index):\n        image = read("


@edits(
    (
        "twice",
        "self.transform(image), self.l",
        "self.transform(self.transform(image)), self.l",
    ),
    (
        "in the first epoch only",
        GETITEM,
        f"    @__import__('functools').cache\n{GETITEM}",
    ),
    (
        "when made",
        "self.paths, self.transform = paths, transform",
        "self.paths, self.transform = paths, lambda image: image\n"
        "        [transform(read(path)) for path in paths]",
    ),
)
def test_the_transform_runs_at_each_read__but_not(snippet, old, new, fails):
    """Called twice, cached, or called in `__init__`, it does not run once for
    each read.
    """
    fails(test_the_transform_runs_at_each_read, snippet.edit(old, new))


def test_augment_draws_a_crop_and_a_flip(snippet):
    run = after(snippet, "transforms")
    image = torch.arange(3 * 32 * 32.0).reshape(3, 32, 32)
    crops = [
        image[:, top : top + 24, left : left + 24] / 255
        for top in range(9)
        for left in range(9)
    ]
    crops += [each.flip(-1) for each in crops]

    torch.manual_seed(0)
    draws = 162 * 12
    found = Counter(run.augment(image).numpy().tobytes() for _ in range(draws))
    assert {*found} == {each.numpy().tobytes() for each in crops}
    assert sum((each - 12) ** 2 / 12 for each in found.values()) < 250
    for drawn in (0.0, 0.499, 0.5, 0.999):  # half of them turn it around
        with patch.object(torch, "rand", return_value=torch.tensor(drawn)):
            row = run.augment(image)[0, 0]
        assert (row[0] > row[1]).item() == (drawn < 0.5)


@edits(
    ("64 crops", "torch.randint(9, (2,))", "torch.randint(8, (2,))"),
    ("the diagonal", "randint(9, (2,))", "randint(9, (1,)).expand(2)"),
    ("mostly as it was", "torch.rand(()) < 0.5", "torch.rand(()) < 0.3"),
    ("always a mirror image", "torch.rand(()) < 0.5", "torch.rand(()) < 1"),
    ("upside down", "flip(-1)", "flip(-2)"),
    (
        "more to the left",
        "torch.randint(9, (2,))",
        "(torch.rand(2) ** 2 * 9).int()",
    ),
)
def test_augment_draws_a_crop_and_a_flip__but_not(snippet, old, new, fails):
    """`randint(8)` never draws the last position; the other edits prefer some
    crops, or flip otherwise.
    """
    fails(test_augment_draws_a_crop_and_a_flip, snippet.edit(old, new))


def test_augment_draws_a_crop_and_a_flip__also_in_the_picture(snippet):
    run = after(snippet, "epochs")
    whole = run.read(run.paths[0]) / 255
    crops = whole.unfold(1, 24, 1).unfold(2, 24, 1).flatten(1, 2).unbind(1)

    assert len(crops) == 81
    assert len(run.drawn) == 3
    for image, label in run.drawn:
        flipped = image.flip(-1)
        assert any(each.equal(image) or each.equal(flipped) for each in crops)
        assert label == 0


def test_center_draws_nothing(snippet):
    run = after(snippet, "transforms")
    images = [torch.full((3, 32, 32), each).byte() for each in (0, 255)]
    images.append(torch.randint(256, (3, 32, 32), dtype=torch.uint8))
    for image in images:
        state = torch.get_rng_state()
        middle = image[:, 4:-4, 4:-4] / 255
        for _ in range(4):
            assert run.center(image).equal(middle)
        assert torch.get_rng_state().equal(state)


@edits(
    ("at the top", "image[:, 4:28, 4:28]", "image[:, 0:24, 4:28]"),
    ("at the left", "image[:, 4:28, 4:28]", "image[:, 4:28, 0:24]"),
    (
        "by chance",
        "return image[:, 4:28, 4:28] / 255",
        "return augment(image)",
    ),
)
def test_center_draws_nothing__but_not(snippet, old, new, fails):
    """`0:24` begins at the edge instead of in the middle, and `augment` draws
    at random.
    """
    fails(test_center_draws_nothing, snippet.edit(old, new))


class Drawn(Dataset):
    """A dataset whose sample is drawn anew at each read."""

    def __init__(self, draw):
        self.draw = draw

    def __getitem__(self, index):
        return self.draw(), 0


def test_two_datasets_have_two_transforms(snippet):
    run = after(snippet, "difference", "split")
    parts = run.train, run.validation
    indices = [each for part in parts for each in part.indices]

    assert [len(part) for part in parts] == [6, 2]
    assert sorted(indices) == [*range(8)]
    assert all(part.dataset.paths == run.paths for part in parts)
    assert max(run.difference(run.train) for _ in range(9)) > 0
    assert run.difference(run.validation) == 0
    rising = iter([torch.zeros(2), torch.tensor([1.0, 2.0])])
    found = run.difference(Drawn(lambda: next(rising)))
    assert (type(found), found) == (float, 2)
    for part, changes in zip(parts, (True, False), strict=True):
        for index in range(len(part)):
            assert (reads(part, index) > 1) == changes
            assert part[index][1] == run.labels[part.indices[index]]


@edits(
    ("with one in both", "center), order[:2]", "center), order[:3]"),
    ("with one left out", "augment), order[2:]", "augment), order[3:]"),
    ("with augment in both", "center), order[:2]", "augment), order[:2]"),
    ("with center in both", "augment), order[2:]", "center), order[2:]"),
)
def test_two_datasets_have_two_transforms__but_not(snippet, old, new, fails):
    """`order[:3]` puts a picture into both parts, `order[3:]` loses one; the
    others give both parts one transform.
    """
    fails(test_two_datasets_have_two_transforms, snippet.edit(old, new))


def test_two_datasets_have_two_transforms__but_not_with_one_transform(
    snippet, fails
):
    """`train.dataset` brings its `augment` along, so the validation pictures
    change, too.
    """
    edited = snippet.edit(
        "validation = Subset(Pictures(paths, labels, center), order[:2])",
        "validation = Subset(train.dataset, order[:2])",
    )
    fails(test_two_datasets_have_two_transforms, edited)


def test_a_seed_repeats_the_split(snippet):
    orders, parts = [], []
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        torch.rand(seed)
        orders.append(again(snippet, "difference", "split").order)
        generator = torch.Generator().manual_seed(5)
        split = random_split(range(100), [0.8, 0.2], generator)
        parts.append([each.indices for each in split])

    seed = torch.Generator().manual_seed(0)
    assert orders == [torch.randperm(8, generator=seed).tolist()] * 3
    assert parts[0] == parts[1] == parts[2]


def test_a_seed_repeats_the_split__ends_if_the_generator_has_drawn(
    snippet, fails
):
    """If the generator has drawn before, as for another split: it goes on from
    there, and splits otherwise.
    """
    old = "seed = torch.Generator().manual_seed(0)\n"
    new = old + "torch.randperm(len(paths), generator=seed)\n"
    fails(test_a_seed_repeats_the_split, snippet.edit(old, new))


@edits(
    (
        "without the generator",
        "generator=seed).tolist",
        "generator=None).tolist",
    ),
    (
        "without the seed",
        "Generator().manual_seed(0)",
        "Generator().manual_seed(torch.initial_seed())",
    ),
)
def test_a_seed_repeats_the_split__but_not(snippet, old, new, fails):
    """Without the generator, or without a fixed seed, each run splits in
    another way.
    """
    fails(test_a_seed_repeats_the_split, snippet.edit(old, new))


def half(image):
    return image / 2


def negative(image):
    return -image


def test_a_wrapper_transforms_one_part(snippet):
    run = after(snippet, "difference", "split", "wrapper")
    pictures = run.Pictures(run.paths, run.labels, run.center)
    parts = random_split(pictures, [0.75, 0.25])
    before = [sample for part in parts for sample in part]

    for part, transform in zip(parts, (half, negative), strict=True):
        wrapped = run.Transformed(part, transform)
        assert len(wrapped) == len(part)
        for index in range(len(part)):
            (image, label), (plain, same) = wrapped[index], part[index]
            assert image.equal(transform(plain))
            assert label == same
    samples = [
        (torch.ones(2) * n, each) for n, each in enumerate([None, 7] * 9)
    ]
    wrapped = run.Transformed(samples, half)
    for index, (image, label) in enumerate(samples):
        assert wrapped[index][0].equal(image / 2)
        assert wrapped[index][1] is label
    later = [sample for part in parts for sample in part]
    for (image, label), (same, number) in zip(before, later, strict=True):
        assert image.equal(same)
        assert label == number


@edits(
    (
        "of the picture",
        "return self.transform(image), label",
        "return image, label",
    ),
    (
        "with its label",
        "return self.transform(image), label",
        "return self.transform(image), 2",
    ),
    ("each", "return len(self.dataset)", "return 1"),
    (
        "of the same index",
        "label = self.dataset[index]",
        "label = self.dataset[0]",
    ),
    (
        "as it was",
        "self.dataset, self.transform = dataset, transform",
        "self.dataset, self.transform = dataset, transform\n"
        "        dataset.dataset.transform = augment",
    ),
)
def test_a_wrapper_transforms_one_part__but_not(snippet, old, new, fails):
    """Here the picture is not transformed; the other edits break the label,
    the length, the index or the dataset.
    """
    fails(test_a_wrapper_transforms_one_part, snippet.edit(old, new))


def test_in_memory_opens_nothing(snippet):
    run = after(snippet, "difference", "split", "wrapper", "in-memory")
    with Opened() as opened:
        for _ in range(2):
            given = list(DataLoader(run.in_memory, batch_size=3))
        assert sum(len(labels) for _, labels in given) == 8
        assert (
            torch.cat([labels for _, labels in given]).tolist() == run.labels
        )
        for index in range(8):
            assert reads(run.in_memory, index) > 1
    assert opened == []
    for path, image in zip(run.paths, run.held, strict=True):
        assert image.equal(run.read(path))
    still = run.Transformed(run.stacked, run.center)
    for index, image in enumerate(run.held):
        assert still[index][0].equal(run.center(image))


@edits(
    (
        "on demand",
        "in_memory = Transformed(stacked, augment)",
        "in_memory = training",
    ),
    (
        "transformed once",
        "in_memory = Transformed(stacked, augment)",
        "in_memory = Transformed(stacked, center)",
    ),
    (
        "labelled",
        "for path in paths]), torch.tensor(labels)",
        "for path in paths]), torch.tensor(labels[::-1])",
    ),
)
def test_in_memory_opens_nothing__but_not(snippet, old, new, fails):
    """`training` opens its files, `center` gives the same crop every time, and
    reversed labels are wrong.
    """
    fails(test_in_memory_opens_nothing, snippet.edit(old, new))


def test_bytes_take_a_quarter(snippet):
    run = after(snippet, "difference", "split", "wrapper", "in-memory")

    assert run.held.shape == (8, 3, 32, 32)
    assert run.held.nbytes * 4 == run.held.float().nbytes
    assert run.held.nbytes == run.held.numel()
    assert run.sample.dtype == torch.float32


def test_bytes_take_a_quarter__but_not_divided(snippet, fails):
    """Divided by 255, the stored pictures are `float32` already."""
    edited = snippet.edit(
        "stack([read(path) for", "stack([read(path) / 255 for"
    )
    fails(test_bytes_take_a_quarter, edited)


# What goes wrong


def double(image):
    return image.mul_(2)


def negate(image):
    return image.bitwise_not_()


def test_in_place_changes_what_is_kept(snippet, transform=double):
    run = after(snippet, "difference", "split", "wrapper", "in-memory")
    before = run.held.clone()
    run.in_memory.transform = transform
    for image, (given, _) in zip(before, run.in_memory, strict=True):
        assert given.equal(transform(image.clone()))
    changed = run.held.clone()
    run.held.copy_(before)
    run.in_memory.transform = run.augment

    assert not changed.equal(before)
    assert changed.equal(transform(before))


def test_in_place_changes_what_is_kept__also_for_a_negative(snippet):
    test_in_place_changes_what_is_kept(snippet, negate)


def test_in_place_changes_what_is_kept__but_not_of_a_copy(snippet, fails):
    """The transform works on a clone, and the stored picture stays as it
    was.
    """
    edited = snippet.edit(
        "return self.transform(image), label",
        "return self.transform(image.clone()), label",
    )
    fails(test_in_place_changes_what_is_kept, edited)


def test_parts_share_one_transform(snippet):
    run = again(snippet, "difference", "split", "shared-transform")
    train, validation = run.some, run.others

    assert (len(train), len(validation)) == (6, 2)
    assert run.before > 0
    assert run.after == run.difference(validation) == 0
    for transform, changes in ((run.augment, True), (run.center, False)):
        for part in (train, validation):
            part.dataset.transform = transform
            for each in (train, validation):
                for index in range(len(each)):
                    assert (reads(each, index) > 1) == changes


@pytest.mark.parametrize("lengths", [[5, 3], [0.5, 0.5]])
def test_parts_share_one_transform__also_for(snippet, lengths):
    run = after(snippet, "difference", "split", "shared-transform")
    pictures = run.Pictures(run.paths, run.labels, run.augment)
    for seed in (1, 2):
        torch.manual_seed(seed)
        parts = random_split(pictures, lengths)
        parts[1].dataset.transform = run.center
        assert all(reads(part) == 1 for part in parts)
        parts[0].dataset.transform = run.augment
        assert all(reads(part) > 1 for part in parts)


@edits(
    (
        "of two datasets",
        "= random_split(Pictures(paths, labels, augment), [6, 2])",
        "= train, Subset(training, order[:2])",
    ),
    (
        "of a copy",
        "others.dataset.transform = center",
        "others.dataset = Pictures(paths, labels, center)",
    ),
)
def test_parts_share_one_transform__but_not(snippet, old, new, fails):
    """Two datasets have two transforms, and a new dataset for one part leaves
    the other alone.
    """
    fails(test_parts_share_one_transform, snippet.edit(old, new))


def test_a_pillow_picture_is_refused(snippet, mode="RGB", size=(40, 36)):
    run = after(snippet, "picture", "refusal", "not-a-tensor")
    kinds = [TypeError, RuntimeError, TypeError, TypeError]
    assert [type(each) for each in run.refused[:4]] == kinds
    texts = "(got Image)", "dtype of Image", "(got Image)", "PIL.Image.Image"
    for error, text in zip(run.refused[:4], texts, strict=True):
        assert text in str(error)

    image = Image.new(mode, size)
    for call, kind in zip(
        (
            torch.Tensor,
            torch.tensor,
            torch.from_numpy,
            lambda image: next(iter(DataLoader([image]))),
        ),
        kinds,
        strict=True,
    ):
        with pytest.raises(kind):
            call(image)
    assert np.array(image).shape[:2] == size[::-1]


@pytest.mark.parametrize("mode", ["L", "RGBA", "P"])
def test_a_pillow_picture_is_refused__also_for(snippet, mode):
    test_a_pillow_picture_is_refused(snippet, mode, (1, 1))


@edits(
    *(
        (f"{call} of the array", f"{call}(image)", f"{call}(np.array(image))")
        for call in ("torch.Tensor", "torch.tensor", "torch.from_numpy")
    ),
    ("a loader of the array", "DataLoader([image])", "DataLoader([pixels])"),
)
def test_a_pillow_picture_is_refused__but_not(snippet, old, new, fails):
    """As an array or a tensor, the picture is taken."""
    if "from_numpy" in old:
        old, new = f"lambda: {old}", f"lambda: {new}"
    fails(test_a_pillow_picture_is_refused, snippet.edit(old, new))


def test_pixels_come_with_channels_last(snippet):
    run = after(snippet, "picture")
    width, height = run.image.size

    assert (width, height) == (41, 36)
    assert run.pixels.shape == (height, width, 3)
    assert run.pixels.dtype == torch.uint8
    for size in ((1, 1), (5, 300)):
        pixels = np.array(Image.new("RGB", size))
        assert pixels.shape == (*size[::-1], 3)
        assert pixels.dtype == np.uint8


@edits(
    ("scaled", "np.array(image))\nprint", "np.array(image) / 255)\nprint"),
    ("turned", "np.array(image))\nprint", "np.array(image).T.copy())\nprint"),
    (
        "gray",
        'image = Image.open(paths[1]).convert("RGB")',
        "image = Image.open(paths[1])",
    ),
)
def test_pixels_come_with_channels_last__but_not(snippet, old, new, fails):
    """Divided, they are `float64`; transposed, the channels come first; and a
    gray picture has no axis for them.
    """
    fails(test_pixels_come_with_channels_last, snippet.edit(old, new))


def test_conv2d_refuses_both(snippet, heights=(1, 4, 36)):
    run = after(snippet, "picture", "refusal", "not-a-tensor")
    last, bytes_ = run.refused[4:]

    assert isinstance(last, RuntimeError)
    assert "to have 3 channels, but got 36" in str(last)
    assert isinstance(bytes_, RuntimeError)
    assert "should be the same" in str(bytes_)
    given = []
    hook = run.convolution.register_forward_pre_hook(
        lambda _, args: given.extend(args)
    )
    for attempt in run.attempts[4:]:
        run.refusal(attempt)
    hook.remove()
    kinds = [(each.shape, each.dtype) for each in given]
    assert kinds == [
        ((36, 41, 3), torch.float32),
        ((3, 36, 41), torch.uint8),
    ]
    picture = run.pixels.permute(2, 0, 1) / 255
    for layer in (torch.nn.Conv2d(3, 8, 1), torch.nn.Conv2d(3, 2, 5, 2)):
        with no_error():
            layer(picture)
        for wrong in (run.pixels / 255, (picture * 255).byte(), run.pixels):
            with pytest.raises(RuntimeError):
                layer(wrong)
    for height in heights:
        pixels = np.array(Image.new("RGB", (20, height)))
        for bytes_ in (pixels, pixels.transpose(2, 0, 1)):
            with pytest.raises(RuntimeError):
                run.convolution(torch.from_numpy(bytes_))
        with pytest.raises(RuntimeError):
            run.convolution(torch.from_numpy(pixels) / 255)


def test_conv2d_refuses_both__ends_for_a_picture_three_pixels_high(
    snippet, fails
):
    """For a picture three pixels high: its height passes for the three
    channels.
    """
    fails(test_conv2d_refuses_both, snippet, (3,))


@edits(
    (
        "turned",
        "convolution(pixels / 255)",
        "convolution(pixels.permute(2, 0, 1) / 255)",
    ),
    (
        "divided",
        "convolution(pixels.permute(2, 0, 1))",
        "convolution(pixels.permute(2, 0, 1) / 255)",
    ),
)
def test_conv2d_refuses_both__but_not(snippet, old, new, fails):
    """With its channels first and divided by 255, the picture is what `Conv2d`
    takes.
    """
    fails(test_conv2d_refuses_both, snippet.edit(old, new))


def test_mixed_sizes_raise(snippet):
    run = after(snippet, "refusal", "mixed-sizes")

    assert isinstance(run.mixed, RuntimeError)
    assert "stack expects each tensor to be equal size" in str(run.mixed)
    assert "[36, 40, 3] at entry 0 and [36, 41, 3] at" in str(run.mixed)
    for shape in ((3, 9, 8), (3, 8, 9), (3, 9, 9)):
        for zeros in (torch.zeros, np.zeros):
            pictures = [zeros((3, 8, 8)), zeros(shape)]
            with pytest.raises(RuntimeError, match="to be equal size"):
                list(DataLoader(pictures, batch_size=2))


def test_mixed_sizes_raise__but_not_resized(snippet, fails):
    """Resized to 32 by 32, all pictures have one size."""
    edited = snippet.edit(
        'np.array(Image.open(path).convert("RGB"))',
        'np.array(Image.open(path).convert("RGB").resize((32, 32)))',
    )
    fails(test_mixed_sizes_raise, edited)


def test_a_length_is_needed(snippet):
    run = after(snippet, "refusal", "no-length")
    dataset = run.NoLength()

    assert isinstance(run.made, TypeError)
    with pytest.raises(TypeError, match="has no len"):
        DataLoader(dataset, shuffle=True)
    for size in (1, 2):
        loader = DataLoader(dataset, batch_size=size)
        with pytest.raises(TypeError, match="has no len"):
            next(iter(loader))
    with pytest.raises(TypeError, match="has no len"):
        random_split(dataset, [0.5, 0.5])
    with no_error():
        assert len(list(DataLoader(dataset, sampler=[0, 4]))) == 2


def test_a_length_is_needed__but_not_with_a_length(snippet, fails):
    """With a `__len__`, the loader knows how many samples there are to
    shuffle.
    """
    edited = snippet.edit(
        "class NoLength(Dataset):\n",
        "class NoLength(Dataset):\n"
        "    def __len__(self):\n        return 2\n\n",
    )
    fails(test_a_length_is_needed, edited)


class Stopped(Exception):
    """All is pickled, and nothing is to start."""


def handed_over(dataset, start):
    """Return how many open files would be handed to a worker."""
    counts = []

    def stop(*args):
        counts.append(max(len(each) for each in args if type(each) is list))
        raise Stopped

    def stop_spawn(path, args, files):
        counts.append(len(files))
        raise Stopped

    where = {
        "spawn": ("multiprocessing.util.spawnv_passfds", stop_spawn),
        "forkserver": (
            "multiprocessing.forkserver.connect_to_new_process",
            stop,
        ),
    }[start]
    loader = DataLoader(dataset, num_workers=1, multiprocessing_context=start)
    with patch(*where), pytest.raises(Stopped):
        iter(loader)
    return counts[0]


def open_files(count):
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(Path(os.devnull).open())


def of_their_own(count):
    return [torch.zeros(3, 4) for _ in range(count)]


def of_one(count):
    return [torch.zeros(3, 4)] * count


@linux
def test_a_list_of_tensors_opens_files(
    snippet, start="spawn", make=of_their_own
):
    run = again(snippet, "few-files")
    if start == "spawn":
        run = again(snippet, "few-files", "list-of-tensors")
        assert str(run.found).startswith("unable to open shared memory object")
        assert run.found.endswith("Too many open files (24)")
    with no_error():
        run.with_few_files(partial(open_files, 40))
    with pytest.raises(OSError, match="Too many open files"):
        run.with_few_files(partial(open_files, 41))
    none = handed_over([1, 2], start)

    assert handed_over(make(30), start) == none + 30
    assert handed_over(torch.stack(make(30)), start) == none + 1


@linux
def test_a_list_of_tensors_opens_files__also_by_forkserver(snippet):
    assert torch.multiprocessing.get_sharing_strategy() == "file_descriptor"
    test_a_list_of_tensors_opens_files(snippet, "forkserver")


@linux
def test_a_list_of_tensors_opens_files__but_not_by_fork(snippet, fails):
    """With `fork`, a worker inherits the memory, so no tensor is sent through
    a file.
    """
    edited = snippet.edit('_context": "spawn"}', '_context": "fork"}')
    fails(test_a_list_of_tensors_opens_files, edited)


@linux
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_a_list_of_tensors_opens_files__ends_if_all_share_one_memory(
    snippet, start, fails
):
    """If all tensors of the list share one memory: one open file is enough."""
    fails(test_a_list_of_tensors_opens_files, snippet, start, of_one)


@linux
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_a_list_of_tensors_opens_files__ends_if_shared_by_file_system(
    snippet, start, fails
):
    """With the sharing strategy `file_system`: no tensor needs an open
    file.
    """
    torch.multiprocessing.set_sharing_strategy("file_system")
    begun = RuntimeError("all is pickled, and the worker can start")
    try:
        with patch("multiprocessing.util.spawnv_passfds", side_effect=begun):
            fails(test_a_list_of_tensors_opens_files, snippet, start)
    finally:
        torch.multiprocessing.set_sharing_strategy("file_descriptor")


@linux
def test_forkserver_passes_few_files(count=300):
    """No counter-example can edit the page, which has no cell of this."""
    loader = DataLoader(
        of_their_own(count),
        batch_size=count,
        num_workers=1,
        multiprocessing_context="forkserver",
    )
    with pytest.raises(ValueError, match="too many fds"):
        list(loader)


def test_forkserver_passes_few_files__ends_with_200_tensors(fails):
    """With 200 tensors: they are few enough to be passed on."""
    fails(test_forkserver_passes_few_files, 200)


MB = 1_000_000


@linux
def test_a_list_is_copied_into_each_worker(snippet, make=None, dtype=None):
    run = after(snippet, "own-bytes", "labels", "growth", "grown")
    labels, grown = run.numbers, {**run.grown}
    if make:
        array = np.random.default_rng(0).permutation(MB).astype(dtype)
        labels = {"list": make(array), "array": array}
        grown = {name: run.growth(each) for name, each in labels.items()}

    assert grown.pop("list") > 20 * MB
    assert {*grown} == ({"array"} if make else {"array", "tensor"})
    for name, size in grown.items():
        # The system may add to a measurement, more in a large process, and
        # takes nothing from it; a copy of the array would be 8 MB.
        again = size if size < 4 * MB else run.growth(labels[name])
        assert min(size, again) < 4 * MB
    assert type(run.numbers["tensor"]) is torch.Tensor


def in_another_order(array):
    """Return integers that do not lie in memory in their order."""
    integers = [*range(MB)]
    return tuple(integers[each] for each in array.astype(int).tolist())


def test_a_list_is_copied_into_each_worker__also_for_bytes_in_another_order(
    snippet,
):
    test_a_list_is_copied_into_each_worker(snippet, in_another_order, bytes)


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
