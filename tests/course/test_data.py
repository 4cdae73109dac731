"""The claims of docs/course/data.md."""

import pytest
import torch

from extensions.evidence.counterexamples import edits
from tests.helpers.programs import after, raised_in

# Do this


def test_each_picture_has_a_label(snippet):
    run = after(snippet, "load")

    assert run.images.shape == (1797, 1, 8, 8)
    assert run.labels.shape == (1797,)
    assert run.images.dtype == torch.float32
    assert run.labels.dtype == torch.int64
    assert run.labels.unique().tolist() == list(range(10))
    assert run.labels.tolist() == run.digits.target.tolist()
    assert (16 * run.images[:, 0]).tolist() == run.digits.images.tolist()
    # A zero has the emptiest middle, and a seven begins at the top.
    averages = [run.images[run.labels == n].mean((0, 1)) for n in range(10)]
    middles = [average[3:5, 3:5].sum() for average in averages]
    assert middles.index(min(middles)) == 0
    assert averages[7][0].sum() > 2 * averages[7][:, [0, 7]].sum()
    # The average picture of a label is like the other pictures with it.
    seen, other = run.images[::2, 0], run.images[1::2, 0]
    averages = [seen[run.labels[::2] == digit].mean(0) for digit in range(10)]
    far = (other[:, None] - torch.stack(averages)).flatten(2).norm(dim=2)
    right = far.argmin(dim=1) == run.labels[1::2]
    assert right.double().mean() > 0.85


@edits(
    (
        "with labels in another order",
        "(digits.target)",
        "(digits.target).flip(0)",
    ),
    ("with nine digits", "load_digits()", "load_digits(n_class=9)"),
    ("without the last label", "(digits.target)", "(digits.target[:-1])"),
    (
        "with each label one too high",
        "torch.tensor(digits.target)",
        "(torch.tensor(digits.target) + 1) % 10",
    ),
    (
        "with rows as columns",
        "[:, None] / 16",
        "[:, None].transpose(2, 3) / 16",
    ),
    (
        "with rows of 64 pixels",
        "images = torch.tensor(digits.images,",
        "images = torch.tensor(digits.data,",
    ),
)
def test_each_picture_has_a_label__but_not(snippet, old, new, fails):
    """The labels have to come in the order of the pictures, which have to be
    upright.
    """
    fails(test_each_picture_has_a_label, snippet.edit(old, new))


# A picture is a block of numbers


def test_sixteen_is_the_darkest(snippet):
    images = after(snippet, "load").digits.images

    found, counts = torch.tensor(images).unique(return_counts=True)
    assert found.tolist() == list(range(17))
    assert counts.argmax() == 0  # most of a page is paper
    corners = images[:, [0, 0, 7, 7], [0, 7, 0, 7]]
    assert (corners == 0).mean() > 0.8


@edits(
    ("digits = load_digits()", "digits = load_digits()\ndigits.images /= 16"),
    (
        "digits = load_digits()",
        "digits = load_digits()\ndigits.images = 16 - digits.images",
    ),
)
def test_sixteen_is_the_darkest__but_not(snippet, old, new, fails):
    """Divided by 16, pixels have fractions; inverted, the paper is 16."""
    fails(test_sixteen_is_the_darkest, snippet.edit(old, new))


# Scale the pixels, and add the channel axis


def test_pixels_become_zero_to_one(snippet):
    run = after(snippet, "load", "scale")

    for found in (run.images, run.scaled):
        assert (found.min(), found.max()) == (0, 1)
    assert run.pixels[0, 0, 2] == 5
    assert run.scaled[0, 0, 2] == 0.3125
    assert run.pixels.dtype == torch.float32
    assert torch.equal(run.images[:, 0], run.scaled)


@edits(
    ("pixels / 16", "pixels / 255"),
    ("pixels / 16", "pixels - 16"),
    ("[:, None] / 16", "[:, None] / 8"),
    ("[:, None] / 16", "[:, None]"),
)
def test_pixels_become_zero_to_one__but_not(snippet, old, new, fails):
    """The darkest ink is 16, so only 16 makes it 1."""
    fails(test_pixels_become_zero_to_one, snippet.edit(old, new))


def test_none_adds_an_axis(snippet, numbers=None):
    run = after(snippet, "load", "scale", "channel")
    if numbers is None:
        numbers, found = run.scaled, run.with_channel
    else:
        found = numbers[:, None]

    first, *others = numbers.shape
    assert found.shape == (first, 1, *others)
    assert found.flatten().tolist() == numbers.flatten().tolist()
    assert run.images.shape == (1797, 1, 8, 8)


@pytest.mark.parametrize(
    "shape",
    [(3,), (2, 3), (4, 3, 8, 8), (0, 8, 8)],
    ids=["one axis", "two axes", "four axes", "no pictures"],
)
def test_none_adds_an_axis__also_with(snippet, shape):
    test_none_adds_an_axis(snippet, torch.rand(shape))


@edits(
    ("scaled[:, None]", "scaled[None]"),
    ("scaled[:, None]", "scaled[..., None]"),
    ("scaled[:, None]", "scaled[:, 0]"),
    ("scaled[:, None]", "scaled[:, None].flip(0)"),
    ("dtype=torch.float32)[:, None]", "dtype=torch.float32)[None]"),
)
def test_none_adds_an_axis__but_not(snippet, old, new, fails):
    """The place of `None` is the place of the new axis."""
    fails(test_none_adds_an_axis, snippet.edit(old, new))


# Pick a picture, a row or a pixel


def test_each_number_takes_an_axis(snippet):
    run = after(snippet, "load", "pick")

    picks = [run.picture, run.gray, run.row, run.pixel]
    assert [each.ndim for each in picks] == [3, 2, 1, 0]
    assert torch.equal(run.picture[0], run.gray)
    assert torch.equal(run.gray[0], run.row)
    assert torch.equal(run.row[3], run.pixel)
    assert run.pixel.item() == 13 / 16
    assert run.images[0].tolist() == run.picture.tolist()


@pytest.mark.parametrize("place", [1, -1], ids=["second", "last"])
def test_each_number_takes_an_axis__also_the(snippet, place):
    images = after(snippet, "load", "pick").images
    for axes in range(1, 5):
        found = images[(place, 0, place, place)[:axes]]
        assert found.shape == images.shape[axes:]


@edits(
    ("picture = images[0]", "picture = images[0:1]"),
    ("gray = images[0, 0]", "gray = images[0, :]"),
    ("row = images[0, 0, 0]", "row = images[0, 0, [0]]"),
    ("pixel = images[0, 0, 0, 3]", "pixel = images[0, 0, 3]"),
    ("pixel = images[0, 0, 0, 3]", "pixel = images[0, 0, 0, 4]"),
)
def test_each_number_takes_an_axis__but_not(snippet, old, new, fails):
    """A slice, a colon and a list keep the axis."""
    fails(test_each_number_takes_an_axis, snippet.edit(old, new))


# Compute with all pictures at once

MEAN = ("load", "pick", "mean")


def test_a_mean_per_picture(snippet):
    run = after(snippet, *MEAN)

    assert run.ink.shape == (1797,)
    expected = [image.sum() / 64 for image in run.images]
    torch.testing.assert_close(run.ink, torch.stack(expected))
    assert run.row.mean() == 0.21875


def test_a_mean_per_picture__also_to_find_the_most_ink(snippet):
    run = after(snippet, "load", "most-ink", "most-ink-checked")

    for images in (run.images, run.images[:10], run.images[500:600]):
        sums = [image.sum().item() for image in images]
        found = run.most_ink(images)
        assert isinstance(found, int)
        assert found == sums.index(max(sums))
    assert run.found == (818, 8)
    assert run.labels[818] == 1


@edits(
    ("dim=(1, 2, 3)", "dim=0"),
    ("dim=(1, 2, 3)", "dim=(0, 2, 3)"),
    ("dim=(1, 2, 3)", "dim=1"),
)
def test_a_mean_per_picture__but_not_with(snippet, old, new, fails):
    """With another `dim`, other axes disappear."""
    edited = snippet.edit(
        f"ink = images.mean({old})", f"ink = images.mean({new})"
    )
    fails(test_a_mean_per_picture, edited)


def test_an_average_picture(snippet):
    run = after(snippet, *MEAN)

    assert run.average.shape == (1, 8, 8)
    expected = sum(run.images.double()) / 1797
    torch.testing.assert_close(run.average.double(), expected)


@edits(
    ("images.mean(dim=0)", "images.mean(dim=1)"),
    ("images.mean(dim=0)", "images.mean()"),
    ("images.mean(dim=0)", "images.amax(dim=0)"),
)
def test_an_average_picture__but_not(snippet, old, new, fails):
    """Axis 0 counts the pictures."""
    fails(test_an_average_picture, snippet.edit(old, new))


def test_a_mask_picks_the_threes(snippet, digit=3):
    run = after(snippet, "load", "threes")
    threes = run.threes if digit == 3 else run.images[run.labels == digit]

    pairs = zip(run.images, run.digits.target, strict=True)
    expected = [image for image, label in pairs if label == digit]
    assert threes.shape == (len(expected), 1, 8, 8)
    assert torch.equal(threes, torch.stack(expected))


@pytest.mark.parametrize("digit", [0, 9], ids="digit {}".format)
def test_a_mask_picks_the_threes__also_for(snippet, digit):
    test_a_mask_picks_the_threes(snippet, digit)


@edits(
    ("threes = images[labels == 3]", "threes = images[labels != 3]"),
    ("threes = images[labels == 3]", "threes = images[(labels == 3).long()]"),
    ("threes = images[labels == 3]", "threes = images[3]"),
)
def test_a_mask_picks_the_threes__but_not(snippet, old, new, fails):
    """As integers, `False` and `True` pick the pictures 0 and 1."""
    fails(test_a_mask_picks_the_threes, snippet.edit(old, new))


# What goes wrong


def test_pictures_pass_for_channels(snippet):
    run = after(snippet, "load", "no-channel")

    assert run.layer.in_channels == 1
    assert torch.equal(run.pictures.flatten(), run.images.flatten())
    with pytest.raises(RuntimeError, match="got 1797 channels"):
        run.layer(run.pictures)
    assert "1797 channels" in str(raised_in(snippet, "no-channel"))


@pytest.mark.parametrize("count", [2, 32], ids="{} pictures".format)
def test_pictures_pass_for_channels__also_with(snippet, count):
    run = after(snippet, "load", "no-channel")

    with pytest.raises(RuntimeError, match=f"got {count} channels"):
        run.layer(run.pictures[:count])


def test_pictures_pass_for_channels__but_not_with_the_axis(snippet, fails):
    """With an axis for the channels, the layer takes all pictures."""
    old = "pictures = torch.tensor(digits.images, dtype=torch.float32)"
    fails(
        test_pictures_pass_for_channels, snippet.edit(old, f"{old}[:, None]")
    )


def test_pictures_pass_for_channels__ends_with_one_picture(snippet, fails):
    """A single picture without the axis passes, as a picture of one
    channel.
    """
    edited = snippet.edit("torch.float32) / 16", "torch.float32)[:1] / 16")
    fails(test_pictures_pass_for_channels, edited)
