"""The claims of docs/tensors/shapes.md."""

import warnings
from itertools import product
from math import prod

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.layouts import LAYOUTS, numbered, read, several, unlike


def error_of(call):
    """Return what a call complains of: nothing, if it runs."""
    try:
        call()
    except (RuntimeError, TypeError) as error:
        return unnamed(str(error))
    return ""


def unnamed(said):
    """Return a complaint without the name of what torch 2.15 has called."""
    return f"{said}".removeprefix("add").removeprefix("mm: ")


# Do this


def test_permute_takes_indices_along(snippet):
    run = snippet.after("do-this")

    assert run.moved.shape == (1797, 3, 8, 8)
    for color, row in product(range(3), range(8)):
        found = run.moved[:, color, row]
        assert found.tolist() == run.photos[:, row, :, color].tolist()


@LAYOUTS
def test_permute_takes_indices_along__also_if_the_tensor_is(layout):
    for shape in ((2, 4, 5, 3), (2, 1, 3, 3), (0, 2, 2, 3)):
        x = layout(*shape)
        moved = x.permute(0, 3, 1, 2)
        for n, i, j, c in product(*map(range, shape)):
            assert moved[n, c, i, j] == x[n, i, j, c]


def test_permute_takes_indices_along__also_by_hand(snippet):
    run = snippet.after("by-hand")

    assert run.permuted.shape == (3, 2)
    for i, j in product(range(2), range(3)):
        assert run.permuted[j, i] == run.x[i, j]


def test_permute_takes_indices_along__also_in_the_exercise(snippet):
    run = snippet.after("sheet-checked")
    assert run.sheet.shape == (8, 80)
    for n, i, j in product(range(10), range(8), range(8)):
        assert run.sheet[i, 8 * n + j] == run.images[n, i, j]
    assert not hasattr(run, "right_digits")

    answer = "images[:10].permute(1, 0, 2).reshape(8, 80)"
    for wrong in (
        "images[:10].reshape(8, 80)",
        "images[:10].permute(2, 0, 1).reshape(8, 80)",
    ):
        edited = snippet.edit(answer, wrong).after("sheet-checked")
        assert edited.right_digits < 10
    nine = "torch.cat([*images[:9], images[3]], dim=1)"
    assert snippet.edit(answer, nine).after("sheet-checked").right_digits == 9


@edits(
    ("photos.permute(0, 3, 1, 2)", "photos.reshape(1797, 3, 8, 8)"),
    ("photos.permute(0, 3, 1, 2)", "photos.permute(0, 3, 2, 1)"),
    ("photos.permute(0, 3, 1, 2)", "photos.transpose(1, 3)"),
)
def test_permute_takes_indices_along__but_not_with_another_call(
    snippet, old, new, fails
):
    """The shape is the same, but the pixels stand in other places."""
    fails(test_permute_takes_indices_along, snippet.edit(old, new))


def test_flatten_keeps_the_samples(snippet):
    with no_error():
        run = snippet.after("do-this")

    assert run.rows.shape == (1797, 64)
    assert run.rows.tolist() == [read(image) for image in run.images]


@LAYOUTS
def test_flatten_keeps_the_samples__also_if_the_tensor_is(layout):
    for shape in ((2, 3), (0, 3), (3, 1, 2), (2, 3, 4, 5)):
        x = layout(*shape)
        assert x.flatten(1).shape == (len(x), prod(shape[1:]))
        for sample, row in zip(x, x.flatten(1), strict=True):
            assert read(row) == read(sample)


@edits(
    ("images.flatten(1)", "images.flatten()"),
    ("images.flatten(1)", "images.flatten(0, 1)"),
    ("images.flatten(1)", "images.flip(2).flatten(1)"),
    ("images.flatten(1)", "images.mT.flatten(1)"),
)
def test_flatten_keeps_the_samples__but_not_otherwise(
    snippet, old, new, fails
):
    """Without the 1, `flatten` joins the images as well."""
    fails(test_flatten_keeps_the_samples, snippet.edit(old, new))


def test_flatten_keeps_the_samples__ends_for_a_vector(snippet, fails):
    """A tensor with a single axis has no axis 1, so `flatten(1)` raises an
    error.
    """
    edited = snippet.edit("images.flatten(1)", "images[:, 0, 0].flatten(1)")
    fails(test_flatten_keeps_the_samples, edited)


# How it works


def test_regrouping_keeps_the_order(snippet):
    run = snippet.after("regroup")

    assert run.reshaped.shape == (3, 2)
    assert read(run.reshaped) == read(run.x)
    assert run.halves.shape == (1797, 2, 32)
    assert run.again.shape == (1797, 8, 8)
    assert run.one_row.shape == (1797 * 64,)
    for each in (run.halves, run.again, run.one_row, run.rows):
        assert read(each) == read(run.images)


def test_regrouping_keeps_the_order__also_if_the_tensor_lies_otherwise():
    for x in unlike():
        before = read(x)
        for shape in ((-1,), (x.shape[0], -1), (-1, x.shape[2]), (1, -1, 1)):
            assert read(x.reshape(shape)) == before
            if not error_of(lambda x=x, shape=shape: x.view(shape)):
                assert read(x.view(shape)) == before
        for start, end in ((0, 1), (1, 2), (0, 2)):
            assert read(x.flatten(start, end)) == before
        for dim in range(3):
            assert read(x.unflatten(dim, (-1, 1))) == before


@edits(
    ("reshaped = x.reshape", "reshaped = x.mT.reshape"),
    ("images.reshape(1797, 2, -1)", "images.mT.reshape(1797, 2, -1)"),
    ("rows.unflatten(1, (8, 8))", "rows.unflatten(1, (8, 8)).mT"),
    ("images.view(-1)", "images.permute(1, 0, 2).reshape(-1)"),
    ("images.flatten(1)", "images.mT.flatten(1)"),
)
def test_regrouping_keeps_the_order__but_not_behind_a_transpose(
    snippet, old, new, fails
):
    """A transpose on the way changes the order in which numbers are read."""
    fails(test_regrouping_keeps_the_order, snippet.edit(old, new))


def test_regrouping_keeps_the_order__ends_if_view_gets_a_dtype(snippet, fails):
    """`view(torch.int32)` reads the same bytes as other numbers."""
    edited = snippet.edit(
        "images.view(-1)", "images.view(torch.int32).view(-1)"
    )
    fails(test_regrouping_keeps_the_order, edited)


def test_two_names_for_one_order(snippet):
    run = snippet.after("reorder")

    assert run.to_the_end.shape == (1797, 8, 8, 1)
    assert run.also_to_the_end.equal(run.to_the_end)
    assert run.also_mirrored.equal(run.mirrored)
    for i, j in product(range(8), range(8)):
        assert run.mirrored[:, j, i].equal(run.images[:, i, j])


@LAYOUTS
def test_two_names_for_one_order__also_if_the_tensor_is(layout):
    for shape in ((2, 3), (1, 4), (2, 3, 4), (2, 3, 4, 5), (1, 3, 4, 6)):
        x = layout(*shape)
        assert x.mT.equal(x.transpose(-2, -1))
        for i, j in product(*map(range, shape[-2:])):
            assert x.mT[..., j, i].equal(x[..., i, j])
        if len(shape) == 4:
            assert x.movedim(1, -1).equal(x.permute(0, 2, 3, 1))


@edits(
    ("batch.movedim(1, -1)", "batch.movedim(-1, 1)"),
    ("batch.permute(0, 2, 3, 1)", "batch.permute(0, 3, 2, 1)"),
    ("images.mT", "images.permute(2, 1, 0)"),
    ("images.transpose(-2, -1)", "images.transpose(0, 1)"),
)
def test_two_names_for_one_order__but_not_another_order(
    snippet, old, new, fails
):
    """Other axes trade places, so the two results differ."""
    fails(test_two_names_for_one_order, snippet.edit(old, new))


def test_minus_one_is_what_is_left(snippet):
    with no_error():
        run = snippet.after("regroup")

    assert run.halves.shape == (1797, 2, 8 * 8 // 2)
    assert run.one_row.shape == (1797 * 8 * 8,)


@pytest.mark.parametrize("call", ["reshape", "view"])
@pytest.mark.parametrize("count", [12, 30], ids="{} numbers".format)
def test_minus_one_is_what_is_left__also_with(count, call):
    change = getattr(torch.arange(count), call)
    for size in (1, 2, 3, 6):
        left = count // size
        assert change(-1, size).shape == (left, size)
        assert change(size, -1).shape == (size, left)
        assert change(1, -1, size).shape == (1, left, size)


@edits(
    ("images.reshape(1797, 2, -1)", "images.reshape(1797, -1, 2)"),
    ("images.reshape(1797, 2, -1)", "images.reshape(1797, 4, -1)"),
    ("images.view(-1)", "images.view(1797, -1)"),
)
def test_minus_one_is_what_is_left__but_not_with_other_sizes(
    snippet, old, new, fails
):
    """With other sizes beside the -1, it stands for another number."""
    fails(test_minus_one_is_what_is_left, snippet.edit(old, new))


def test_minus_one_is_what_is_left__ends_where_any_size_would_fit(
    snippet, fails
):
    """For a tensor without numbers, -1 could be any number, so PyTorch raises
    an error.
    """
    edited = snippet.edit("images.view(-1)", "images[:0].view(-1, 0)")
    fails(test_minus_one_is_what_is_left, edited)


def test_unsqueeze_and_squeeze(snippet):
    run = snippet.after("size-one")

    assert run.batch.shape == (1797, 1, 8, 8)
    assert run.batch[:, 0].equal(run.images)
    assert run.as_batch.shape == (1, 8, 8)
    assert run.as_batch[0].equal(run.images[3])
    assert run.back.shape == (8, 8)
    assert run.back.equal(run.images[3])


@LAYOUTS
def test_unsqueeze_and_squeeze__also_if_the_tensor_is(layout):
    for shape in ((), (3,), (1, 2), (2, 3, 4), (0, 3)):
        x = layout(*shape)
        assert x[None].equal(x.unsqueeze(0))
        for dim in range(len(shape) + 1):
            larger = x.unsqueeze(dim)
            assert larger.shape == (*shape[:dim], 1, *shape[dim:])
            assert larger.select(dim, 0).equal(x)
            assert larger.squeeze(dim).equal(x)


@edits(
    ("three.unsqueeze(0)", "three.unsqueeze(-1)"),
    ("images.unsqueeze(1)", "images.unsqueeze(0)"),
    ("as_batch.squeeze(0)", "as_batch.squeeze(1)"),
    ("as_batch.squeeze(0)", "as_batch.flatten()"),
)
def test_unsqueeze_and_squeeze__but_not_at_another_place(
    snippet, old, new, fails
):
    """With another `dim`, you add or remove the axis of size 1 elsewhere."""
    fails(test_unsqueeze_and_squeeze, snippet.edit(old, new))


def test_unsqueeze_and_squeeze__ends_for_an_axis_of_another_size(
    snippet, fails
):
    """`squeeze(0)` of three images raises no error and removes no axis."""
    edited = snippet.edit("as_batch.squeeze(0)", "images[:3].squeeze(0)")
    fails(test_unsqueeze_and_squeeze, edited)


# What goes wrong


def test_the_right_shape_is_not_enough(snippet):
    with no_error():
        run = snippet.after("scrambled")

    photo = run.photos[0].tolist()
    for row, column in product(range(8), range(8)):
        assert run.right[:, row, column].tolist() == photo[row][column]
        assert run.scrambled[:, row, column].tolist() != photo[row][column]
    assert run.scrambled.shape == run.right.shape == (3, 8, 8)
    assert run.kept.shape == (8, 8)
    assert run.kept.sum() == 0


def test_the_right_shape_is_not_enough__also_in_blue_on_white(snippet):
    """The colors of the photos are those that their comments promise."""
    run = snippet.after("scrambled")

    assert (run.photos[run.images == 0] == 1).all()
    blue = torch.tensor([0, 0.45, 0.7])
    found = run.photos[run.images == 16]
    assert len(found) > 0
    torch.testing.assert_close(found, blue.expand_as(found))


SCRAMBLED = "scrambled = photo.reshape(3, 8, 8)"


def test_the_right_shape_is_not_enough__but_not_with_movedim(snippet, fails):
    """`movedim(2, 0)` moves the colors and leaves each pixel in its place."""
    edited = snippet.edit(SCRAMBLED, "scrambled = photo.movedim(2, 0)")
    fails(test_the_right_shape_is_not_enough, edited)


@edits(
    (SCRAMBLED, "scrambled = photo.mT.reshape(3, 8, 8)"),
    (SCRAMBLED, "scrambled = photo.mT.view(3, 8, 8)"),
    ("photo = photos[0]", "photo = photos[3]"),
    ("kept = (scrambled == right)", "kept = (scrambled != right)"),
)
def test_the_right_shape_is_not_enough__but_not_otherwise(
    snippet, old, new, fails
):
    """If you transpose first, or take another photo, a few pixels are
    right.
    """
    fails(test_the_right_shape_is_not_enough, snippet.edit(old, new))


def test_the_right_shape_is_not_enough__ends_for_a_white_photo(snippet, fails):
    """A white photo is white in any order."""
    edited = snippet.edit("photo = photos[0]", "photo = torch.ones(8, 8, 3)")
    fails(test_the_right_shape_is_not_enough, edited)


def test_reshaping_back_hides_it(snippet):
    run = snippet.after("scrambled")

    assert not run.scrambled.equal(run.right)
    assert run.scrambled.reshape(8, 8, 3).equal(run.photo)


@LAYOUTS
def test_reshaping_back_hides_it__also_if_the_tensor_is(layout):
    for shape in ((2, 5, 3), (4, 4, 4), (1, 2, 3)):
        x = layout(*shape)
        scrambled = x.reshape(shape[2], *shape[:2])
        assert scrambled.reshape(shape).equal(x)


@edits(
    (SCRAMBLED, "scrambled = photo.permute(2, 0, 1)"),
    (SCRAMBLED, f"{SCRAMBLED}.mT.reshape(3, 8, 8)"),
)
def test_reshaping_back_hides_it__but_not_behind_permute(
    snippet, old, new, fails
):
    """A `reshape` doesn't undo what `permute` has moved."""
    fails(test_reshaping_back_hides_it, snippet.edit(old, new))


def multiplied(*sizes):
    """Return how PyTorch refuses to multiply two matrices."""
    a, b, c, d = sizes
    return f"mat1 and mat2 shapes cannot be multiplied ({a}x{b} and {c}x{d})"


def test_mat1_is_the_input(snippet):
    run = snippet.after("not-flattened")

    assert run.model[0](run.five).shape == (5, 4, 6, 6)
    assert unnamed(run.said) == multiplied(5 * 4 * 6, 6, 144, 10)


@pytest.mark.parametrize("bias", [True, False], ids="bias={}".format)
@pytest.mark.parametrize(
    "shape",
    [(4,), (5, 4), (2, 3, 4), (2, 3, 5, 4), (0, 4), (2, 3, 1, 5, 4)],
    ids="an input of shape {}".format,
)
def test_mat1_is_the_input__also_with(shape, bias):
    for dtype in (torch.float32, torch.float64):
        layer = nn.Linear(6, 2, bias=bias, dtype=dtype)
        for x in several(*shape, dtype=dtype):
            said = error_of(lambda x=x, layer=layer: layer(x))
            assert said == multiplied(prod(shape[:-1]), 4, 6, 2)
        assert layer(torch.ones(*shape[:-1], 6, dtype=dtype)) is not None


@edits(
    ("3), nn.Linear(144, 10)", "3), nn.Linear(6, 10)"),
    ("model(five))\n\nprint", "model[0](five) @ model[1].weight)\n\nprint"),
)
def test_mat1_is_the_input__but_not_otherwise(snippet, old, new, fails):
    """A layer that takes 6 numbers fits the last axis."""
    fails(test_mat1_is_the_input, snippet.edit(old, new))


def test_mat1_is_the_input__ends_for_another_dtype(snippet, fails):
    """A layer of another dtype complains of the dtype first."""
    edited = snippet.edit(
        "3), nn.Linear(144, 10)", "3), nn.Linear(144, 10).double()"
    )
    fails(test_mat1_is_the_input, edited)


def test_flatten_comes_before_linear(snippet):
    run = snippet.after("flattened")

    assert run.model[-1].in_features == 4 * 6 * 6
    for n in (0, 1, 2, 5, 33):
        with no_error():
            assert run.model[:2](run.batch[:n]).shape == (n, 144)
            assert run.model(run.batch[:n]).shape == (n, 10)


@edits(
    ("nn.Flatten(), ", ""),
    ("nn.Flatten()", "nn.Flatten(0)"),
    ("nn.Flatten()", "nn.Flatten(2)"),
    ("nn.Flatten(), nn.Linear(144, 10)", "nn.Flatten(), nn.Linear(143, 10)"),
)
def test_flatten_comes_before_linear__but_not_otherwise(
    snippet, old, new, fails
):
    """Without `Flatten()`, or with another number, the model raises an
    error.
    """
    edited = snippet.edit(old, new).edit("print(model(five).shape)", "")
    fails(test_flatten_comes_before_linear, edited)


def test_one_picture_needs_a_batch(snippet):
    run = snippet.after("one-image")

    assert run.single.shape == (1, 8, 8)
    assert unnamed(run.unbatched) == multiplied(4, 36, 144, 10)
    assert run.model[:2](run.single).shape == (4, 36)
    for image in several(1, 8, 8):
        said = error_of(lambda image=image: run.model(image))
        assert said == unnamed(run.unbatched)
        with no_error():
            assert run.model(image.unsqueeze(0)).shape == (1, 10)


@edits(
    ("lambda: model(single)", "lambda: model(batch)"),
    ("lambda: model(single)", "lambda: model(single.unsqueeze(0))"),
    ("nn.Flatten()", "nn.Flatten(-3)"),
)
def test_one_picture_needs_a_batch__but_not_otherwise(
    snippet, old, new, fails
):
    """A batch raises no error."""
    fails(test_one_picture_needs_a_batch, snippet.edit(old, new))


def lost(layer, shape):
    """Return how a convolution refuses an input for its channels."""
    sizes = [*shape] if len(shape) == 4 else [1, *shape]
    return (
        f"Given groups=1, weight of size {[*layer.weight.shape]}, expected "
        f"input{sizes} to have {layer.in_channels} channels, "
        f"but got {shape[-3]} channels instead"
    )


def test_channels_stand_third_from_the_end(snippet):
    run = snippet.after("channels-elsewhere")

    assert run.missed == lost(run.conv, (5, 8, 8, 3))
    with no_error():
        run.conv(run.moved[:5])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1, 2, 3], ids="in_channels={}".format)
def test_channels_stand_third_from_the_end__also_with(size, dtype):
    shapes = (1, 4, 6, 3), (2, 3, 2, 4), (0, 4, 6, 3), (4, 6, 3), (2, 3, 3)
    for bias, shape in product((True, False), shapes):
        layer = nn.Conv2d(size, 5, 2, bias=bias, dtype=dtype)
        for x in several(*shape, dtype=dtype):
            said = error_of(lambda x=x, layer=layer: layer(x))
            assert said == ("" if shape[-3] == size else lost(layer, shape))


@edits(
    ("conv(photos[:5])", "conv(moved[:5])"),
    ("conv = nn.Conv2d(3, 8, 3)\n", "conv = nn.Conv2d(8, 8, 3)\n"),
    ("conv = nn.Conv2d(3, 8, 3)\n", "conv = nn.Conv2d(4, 8, 3)\n"),
)
def test_channels_stand_third_from_the_end__but_not_otherwise(
    snippet, old, new, fails
):
    """With the colors on axis 1, `Conv2d` finds its three channels."""
    fails(test_channels_stand_third_from_the_end, snippet.edit(old, new))


@edits(
    ("another dtype", "conv(photos[:5])", "conv(photos[:5].double())"),
    ("five axes", "conv(photos[:5])", "conv(photos[None, :5])"),
    (
        "groups",
        "conv = nn.Conv2d(3, 8, 3)\n",
        "conv = nn.Conv2d(3, 9, 3, groups=3)\n",
    ),
    (
        "circular padding",
        "conv = nn.Conv2d(3, 8, 3)\n",
        "conv = nn.Conv2d(3, 8, 3, padding=1, padding_mode='circular')\n",
    ),
)
def test_channels_stand_third_from_the_end__ends_with(
    snippet, old, new, fails
):
    """With another dtype, five axes, `groups` or padding, the error text
    differs.
    """
    fails(test_channels_stand_third_from_the_end, snippet.edit(old, new))


EXPECTED_AXES = "Expected 3D (unbatched) or 4D (batched) input to conv2d"


def test_two_axes_are_too_few(snippet):
    run = snippet.after("channels-elsewhere")

    assert run.images[0].shape == (8, 8)
    assert run.too_few == f"{EXPECTED_AXES}, but got input of size: [8, 8]"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("padding", [0, 1, "same"], ids="padding={}".format)
def test_two_axes_are_too_few__also_with(padding, dtype):
    for size in (1, 3):
        layer = nn.Conv2d(size, 2, 3, padding=padding, dtype=dtype)
        for shape in ((8, 8), (3, 7), (1, 64), (0, 5)):
            for x in several(*shape, dtype=dtype):
                said = error_of(lambda x=x, layer=layer: layer(x))
                assert said.startswith(EXPECTED_AXES)


@edits(
    ("conv(images[0])", "conv(images[:3])"),
    ("conv(images[0])", "conv(images[0].expand(3, 8, 8))"),
    ("conv(images[0])", "conv(images[0].expand(1, 3, 8, 8))"),
    ("conv(images[0])", "conv(images[0][None])"),
)
def test_two_axes_are_too_few__but_not_with_an_axis_in_front(
    snippet, old, new, fails
):
    """Three images have three axes: `Conv2d` takes them for one in color."""
    fails(test_two_axes_are_too_few, snippet.edit(old, new))


def test_two_axes_are_too_few__ends_with_another_dtype(snippet, fails):
    """An image of another dtype than the weights raises that error first."""
    edited = snippet.edit("conv(images[0])", "conv(images[0].double())")
    fails(test_two_axes_are_too_few, edited)


def test_two_axes_are_too_few__ends_with_circular_padding(snippet, fails):
    """Padding other than with zeros raises its own error first."""
    old = "conv = nn.Conv2d(3, 8, 3)\n"
    new = old.replace("3)", "3, padding=1, padding_mode='circular')")
    fails(test_two_axes_are_too_few, snippet.edit(old, new))


def rgb_of(name, images, n, color, row, column):
    """Return the number that a color of a pixel should have."""
    places = {
        "gray (N, 1, H, W)": (n, 0, row, column),
        "gray (N, H, W)": (n, row, column),
        "RGBA (N, 4, H, W)": (n, color, row, column),
        "RGB (N, H, W, 3)": (n, row, column, color),
    }
    return images[places[name]].item()


@pytest.mark.parametrize("n", [0, 1, 3], ids="{} images".format)
@pytest.mark.parametrize(
    ("name", "tail"),
    [
        ("gray (N, 1, H, W)", (1, 4, 5)),
        ("gray (N, H, W)", (4, 5)),
        ("RGBA (N, 4, H, W)", (4, 4, 5)),
        ("RGB (N, H, W, 3)", (4, 5, 3)),
    ],
    ids=["gray with a channel", "gray without one", "RGBA", "channels last"],
)
def test_four_ways_to_three_channels(snippet, name, tail, n):
    run = snippet.after("three-channels")

    conv = nn.Conv2d(3, 2, 3)
    for dtype in (torch.float32, torch.float64, torch.uint8):
        clear = numbered(n, *tail, dtype=dtype)
        clear[:, -1] = 0  # an alpha of 0, where there is one
        for images in (*several(n, *tail, dtype=dtype), clear):
            before = images.clone()
            with no_error():
                found = run.to_rgb[name](images)
            assert found.shape == (n, 3, 4, 5)
            assert found.dtype == dtype
            assert torch.equal(images, before)
            for at in product(range(n), range(3), range(4), range(5)):
                assert found[at].item() == rgb_of(name, images, *at)
            assert conv(found.float()).shape == (n, 2, 2, 3)


@pytest.mark.parametrize(
    ("name", "tail", "old", "new"),
    [
        (
            "gray (N, 1, H, W)",
            (1, 4, 5),
            "images.expand(-1, 3, -1, -1)",
            "images",
        ),
        ("gray (N, H, W)", (4, 5), "images[:, None]", "images.mT[:, None]"),
        ("RGBA (N, 4, H, W)", (4, 4, 5), "images[:, :3]", "images[:, 1:]"),
        (
            "RGB (N, H, W, 3)",
            (4, 5, 3),
            "images.permute(0, 3, 1, 2)",
            "images.permute(0, 3, 2, 1)",
        ),
    ],
    ids=["one channel", "transposed", "without red", "rows for columns"],
)
def test_four_ways_to_three_channels__but_not_otherwise(
    snippet, name, tail, old, new, fails
):
    """Without `expand`, a gray batch still has one channel."""
    edited = snippet.edit(old, new)
    fails(test_four_ways_to_three_channels, edited, name, tail, 3)


def test_four_ways_to_three_channels__ends_for_a_single_image(snippet, fails):
    """A single image has no batch axis: add one with `unsqueeze(0)`."""
    first = "RGB (N, H, W, 3)"
    fails(test_four_ways_to_three_channels, snippet, first, (4, 3), 5)


def invalid(count, *sizes):
    """Return how PyTorch refuses some sizes for a number of elements."""
    return f"shape '{[*sizes]}' is invalid for input of size {count}"


COUNTS = [numbered(2, 3).mT, numbered(7), torch.ones(()), numbered(0, 3)]


def test_sizes_must_multiply_up(snippet):
    run = snippet.after("wrong-count")

    assert run.misfits[0] == invalid(1797 * 8 * 8, 1797, 63)


@pytest.mark.parametrize("call", ["reshape", "view"])
@pytest.mark.parametrize(
    "x", COUNTS, ids=["6 numbers", "7 numbers", "one number", "no number"]
)
def test_sizes_must_multiply_up__also_with(x, call):
    change = getattr(x, call)
    count = x.numel()
    assert (error_of(lambda: change(())) == "") == (count == 1)
    for a, b in product(range(4), range(8)):
        said = error_of(lambda a=a, b=b: change(a, b))
        assert (said == invalid(count, a, b)) == (a * b != count)


@edits(
    ("images.reshape(1797, 63)", "images.reshape(1797, 64)"),
    ("images.reshape(1797, 63)", "images[:, 1:, 1:].reshape(1797, 49)"),
)
def test_sizes_must_multiply_up__but_not_if_they_do(snippet, old, new, fails):
    """If the sizes multiply to the number of elements, as 1,797 times 64 does,
    there is no error.
    """
    fails(test_sizes_must_multiply_up, snippet.edit(old, new))


def test_sizes_must_multiply_up__ends_with_a_negative_size(snippet, fails):
    """A size below -1 raises `invalid shape dimension` instead."""
    edited = snippet.edit("reshape(1797, 63)", "reshape(1797, -63)")
    fails(test_sizes_must_multiply_up, edited)


def test_a_minus_one_must_come_out_even(snippet):
    run = snippet.after("wrong-count")

    assert run.images.numel() % 63 != 0
    assert run.misfits[1] == invalid(1797 * 8 * 8, -1, 63)


@pytest.mark.parametrize("call", ["reshape", "view"])
@pytest.mark.parametrize(
    "x", COUNTS, ids=["6 numbers", "7 numbers", "one number", "no number"]
)
def test_a_minus_one_must_come_out_even__also_with(x, call):
    change = getattr(x, call)
    count = x.numel()
    for b in range(8):
        said = error_of(lambda b=b: change(-1, b))
        divides = (b and count % b == 0) or b == count == 0
        assert (said == invalid(count, -1, b)) == (not divides)
    for a, b in product(range(1, 4), range(1, 7)):
        said = error_of(lambda a=a, b=b: change(a, -1, b))
        assert (said == invalid(count, a, -1, b)) == (count % (a * b) != 0)


def test_a_minus_one_must_come_out_even__also_where_each_size_divides():
    said = error_of(lambda: torch.arange(12).reshape(-1, 2, 4))

    assert said == invalid(12, -1, 2, 4)


@edits(("reshape(-1, 63)", "reshape(-1, 64)"))
def test_a_minus_one_must_come_out_even__but_not_if_it_does(
    snippet, old, new, fails
):
    """64 divides the number of elements, so there is no error."""
    fails(test_a_minus_one_must_come_out_even, snippet.edit(old, new))


def test_a_minus_one_must_come_out_even__ends_with_two(snippet, fails):
    """With two of them, the error is `only one dimension can be inferred`."""
    edited = snippet.edit("reshape(-1, 63)", "reshape(-1, -1)")
    fails(test_a_minus_one_must_come_out_even, edited)


def test_a_wrong_size_splits_samples(snippet):
    with no_error():
        run = snippet.after("wrong-rows")

    assert len(run.images) == 1797
    assert run.split.shape == (2 * 1797, 32)
    assert run.split[0].tolist() == read(run.images[0, :4])
    assert run.split[1].tolist() == read(run.images[0, 4:])


@edits(
    ("reshape(-1, 32)", "reshape(len(images), -1)"),
    ("reshape(-1, 32)", "reshape(-1, 64)"),
    ("reshape(-1, 32)", "reshape(-1, 16)"),
)
def test_a_wrong_size_splits_samples__but_not_with_other_sizes(
    snippet, old, new, fails
):
    """With the number of images first, each image stays one row."""
    fails(test_a_wrong_size_splits_samples, snippet.edit(old, new))


def test_squeeze_takes_the_batch_too(snippet):
    run = snippet.after("squeezed")

    assert run.scores.shape == (1, 1)
    assert run.squeezed.shape == ()
    assert run.looped == "iteration over a 0-d tensor"


@LAYOUTS
def test_squeeze_takes_the_batch_too__also_if_the_tensor_is(layout):
    for n in (2, 3, 7):
        assert layout(n, 1).squeeze().shape == (n,)
    for shape in ((1,), (1, 1), (1, 1, 1)):
        assert layout(*shape).squeeze().shape == ()
        with pytest.raises(TypeError, match="iteration over a 0-d"):
            list(layout(*shape).squeeze())
    assert layout(1, 2, 1, 3, 1).squeeze().shape == (2, 3)


def test_squeeze_takes_the_batch_too__but_not_with_an_axis(snippet, fails):
    """`squeeze(1)` removes axis 1 and leaves the batch."""
    edited = snippet.edit("= scores.squeeze()", "= scores.squeeze(1)")
    fails(test_squeeze_takes_the_batch_too, edited)


@edits(
    ("rows.split(4)[-1]", "rows.split(5)[-1]"),
    ("list(squeezed)", "list(squeezed.unsqueeze(0))"),
)
def test_squeeze_takes_the_batch_too__but_not_of_two_nor_if_put_back(
    snippet, old, new, fails
):
    """In batches of 5, the last one holds two images, so it stays a batch."""
    fails(test_squeeze_takes_the_batch_too, snippet.edit(old, new))


def test_squeeze_one_dimension(snippet):
    run = snippet.after("squeezed-with-an-axis")

    assert [each.shape for each in run.one_each] == [(1,), (3,)]
    assert run.one_each[1].tolist() == 3 * run.scores[0].tolist()


@LAYOUTS
def test_squeeze_one_dimension__also_if_the_tensor_is(layout):
    for n in (0, 1, 2, 7):
        x = layout(n, 1)
        assert x.squeeze(1).shape == (n,)
        assert read(x.squeeze(1)) == read(x)


@edits(
    ("(n, 1).squeeze(1)", "(n, 1).squeeze()"),
    ("(n, 1).squeeze(1)", "(n, 1).squeeze((0, 1))"),
    ("(n, 1).squeeze(1)", "(n, 1).mT"),
)
def test_squeeze_one_dimension__but_not_otherwise(snippet, old, new, fails):
    """Without the 1, a batch of one loses its batch axis again."""
    fails(test_squeeze_one_dimension, snippet.edit(old, new))


def test_squeeze_one_dimension__ends_with_two_scores_each(snippet, fails):
    """`squeeze(1)` leaves (n, 2) as it is, without an error."""
    edited = snippet.edit("scores.repeat(n, 1)", "scores.repeat(n, 2)")
    fails(test_squeeze_one_dimension, edited)


# Where it ends


def test_t_is_for_matrices(snippet, always=True):
    run = snippet.after("t-warns")

    assert run.reversed_axes[0].equal(run.x.transpose(0, 1))
    assert run.reversed_axes[1].equal(run.right.permute(2, 1, 0))
    said = [str(each.message) for each in run.caught]
    assert len(said) == 1
    assert "is deprecated" in said[0]
    with warnings.catch_warnings(record=True, action="always") as none:
        for x in (*several(2, 3), *several(1, 4), numbered(0, 2)):
            assert x.T.equal(x.transpose(0, 1))
    assert not none
    torch.set_warn_always(always)
    for shape in ((), (3,), (2, 3, 4), (2, 3, 4, 5)):
        for x in several(*shape):
            with pytest.warns(UserWarning, match="is deprecated"):
                assert x.T.equal(x.permute(tuple(reversed(range(x.dim())))))


@edits(
    ("right.T]", "right.permute(2, 1, 0)]"),
    ("right.T]", "right.mT]"),
    ("right.T]", "right.flip(0).T]"),
    ("x.T,", "x,"),
    ("x.T,", "x.reshape(3, 2),"),
    ("x.T,", "x.unsqueeze(0).T[..., 0],"),
)
def test_t_is_for_matrices__but_not_otherwise(snippet, old, new, fails):
    """`permute` reverses the axes too, without a warning."""
    printed = 'print(str(caught[0].message).partition(" (Triggered")[0])'
    edited = snippet.edit(old, new).edit(printed, "")
    fails(test_t_is_for_matrices, edited)


def test_t_is_for_matrices__ends_after_the_first_warning(snippet, fails):
    """By default, PyTorch gives this warning no more than once per process."""
    fails(test_t_is_for_matrices, snippet, False)
