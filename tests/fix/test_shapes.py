"""The claims of docs/fix/shapes.md."""

import contextlib
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since
from extensions.programs.snippet import printed


def run_of(snippet, cell):
    """Run a cell of the page, behind the one with the imports."""
    with no_error():
        return snippet.only("gray-batch", cell).after(cell)


def error_of(call, *inputs):
    """Return the text of an error about shapes; empty if there is none."""
    try:
        call(*inputs)
    except (RuntimeError, ValueError, IndexError) as error:
        return str(error)
    return ""


@contextlib.contextmanager
def always_warning():
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    warnings.simplefilter("always")
    try:
        yield
    finally:
        torch.set_warn_always(before)


def test_channels_are_third_from_the_end(snippet):
    run = run_of(snippet, "gray-batch")

    said = error_of(run.conv, run.images)
    assert said.endswith("to have 1 channels, but got 100 channels instead")
    assert run.features.shape == (100, 8, 26, 26)
    torch.testing.assert_close(run.features[7], run.conv(run.images[7:8]))


WAYS = {
    "colors last": (3, (5, 28, 30, 3), 28, lambda x: x.permute(0, 3, 1, 2)),
    "gray, for colors": (
        3,
        (5, 1, 28, 30),
        1,
        lambda x: x.expand(-1, 3, -1, -1),
    ),
    "gray (N, H, W), for colors": (
        3,
        (5, 28, 30),
        5,
        lambda x: x[:, None].expand(-1, 3, -1, -1),
    ),
    "colors, for gray": (
        1,
        (5, 3, 28, 30),
        3,
        lambda x: x.mean(1, keepdim=True),
    ),
    "with alpha": (3, (5, 4, 28, 30), 4, lambda x: x[:, :3]),
}


@pytest.mark.parametrize(
    ("taken", "shape", "found", "mend"), WAYS.values(), ids=WAYS
)
def test_channels_are_third_from_the_end__also(taken, shape, found, mend):
    conv, images = nn.Conv2d(taken, 8, 3), torch.rand(shape)

    said = error_of(conv, images)
    assert f"{taken} channels, but got {found} channels" in said
    assert conv(mend(images)).shape == (5, 8, 26, 28)


@edits(
    ("another axis", "images[:, None]", "images[:, :, None]"),
    ("one image", "torch.rand(100, 28, 28)", "torch.rand(1, 28, 28)"),
)
def test_channels_are_third_from_the_end__but_not(snippet, old, new, fails):
    """One gray image passes for a channel; and an axis further behind is not
    that of the channels.
    """
    fails(test_channels_are_third_from_the_end, snippet.edit(old, new))


def test_channels_are_third_from_the_end__ends_with_as_many(snippet, fails):
    """If there happen to be as many images as channels, they pass for one
    image, without an error.
    """
    edited = snippet.edit("nn.Conv2d(1, 8, 3)", "nn.Conv2d(100, 8, 3)")
    edited = edited.edit("conv(images[:, None])", "conv(images)")
    fails(test_channels_are_third_from_the_end, edited)


def test_conv2d_takes_three_or_four_axes(snippet):
    run = run_of(snippet, "flat-images")

    said = error_of(run.conv, run.rows)
    assert said.startswith("Expected 3D (unbatched) or 4D (batched) input")
    assert run.features.shape == (32, 8, 26, 26)
    assert error_of(run.conv, torch.rand(1, 28, 28)) == ""


CONVOLUTIONS = {
    "Conv1d": (nn.Conv1d(1, 1, 1), (2, 3)),
    "Conv2d": (nn.Conv2d(1, 1, 1), (3, 4)),
    "Conv3d": (nn.Conv3d(1, 1, 1), (4, 5)),
    "ConvTranspose2d": (nn.ConvTranspose2d(1, 1, 1), (3, 4)),
}


@pytest.mark.parametrize(
    ("layer", "taken"), CONVOLUTIONS.values(), ids=CONVOLUTIONS
)
def test_conv2d_takes_three_or_four_axes__also_its_kin(layer, taken):
    axes = range(1, 7)
    said = {n: error_of(layer, torch.rand((1,) * n)) for n in axes}

    assert tuple(n for n in axes if not said[n]) == taken
    assert all("unbatched" in text for text in said.values() if text)


@edits(
    ("as images", "torch.rand(32, 784)", "torch.rand(32, 1, 28, 28)"),
    ("a single image", "torch.rand(32, 784)", "torch.rand(1, 28, 28)"),
    ("no reshape", "rows.reshape(-1, 1, 28, 28)", "rows"),
)
def test_conv2d_takes_three_or_four_axes__but_not(snippet, old, new, fails):
    """Images with their axes raise nothing; without `reshape`, the last line
    raises the error again.
    """
    fails(test_conv2d_takes_three_or_four_axes, snippet.edit(old, new))


def test_conv2d_takes_three_or_four_axes__ends_with_channels(snippet, fails):
    """Three axes (N, H, W) are read as (C, H, W): without an axis of channels,
    the error is about their number.
    """
    edited = snippet.edit("torch.rand(32, 784)", "torch.rand(32, 28, 28)")
    fails(test_conv2d_takes_three_or_four_axes, edited)


def test_convolutions_shrink_the_image(snippet, size=5, step=1, gap=1):
    run = run_of(snippet, "too-small")

    said = error_of(run.shrinking, run.image)
    assert "(1 x 1). Kernel size: (3 x 3). Kernel size can't be" in said
    assert run.kept.shape == run.image.shape
    image = torch.rand(1, 1, size, size)
    small = nn.Conv2d(1, 1, 3, stride=step, dilation=gap)(image)
    assert small.shape == (1, 1, size - 2, size - 2)


@pytest.mark.parametrize("size", [3, 4, 28, 224])
def test_convolutions_shrink_the_image__also_of_size(snippet, size):
    test_convolutions_shrink_the_image(snippet, size)


@edits(
    ("a larger image", "torch.rand(1, 1, 5, 5)", "torch.rand(1, 1, 7, 7)"),
    ("a kernel of 1", "(1, 1, 3) for", "(1, 1, 1) for"),
    ("no padding", 'padding="same"', "padding=0"),
)
def test_convolutions_shrink_the_image__but_not(snippet, old, new, fails):
    """A larger image is large enough, and a kernel of 1 takes nothing off;
    without the padding, the last line raises the error again.
    """
    fails(test_convolutions_shrink_the_image, snippet.edit(old, new))


def test_convolutions_shrink_the_image__ends_with_strides(snippet, fails):
    """With `stride=2`, a convolution also halves the size, and refuses
    `padding="same"`: write `padding=1`.
    """
    fails(test_convolutions_shrink_the_image, snippet, 28, 2)


def test_convolutions_shrink_the_image__ends_with_dilation(snippet, fails):
    """With `dilation=2`, it takes four rows and four columns off."""
    fails(test_convolutions_shrink_the_image, snippet, 28, 1, 2)


@api_since("2.9", "torch.optim.Muon")
def test_muon_takes_matrices(snippet):
    snippet.only("gray-batch", "vectors").after("vectors")
    said = printed[-1]["vectors"]
    assert said.startswith("Muon only supports 2D parameters")
    layers = [nn.BatchNorm2d(3), nn.Conv1d(2, 3, 3), nn.Conv2d(2, 3, 3)]
    for layer in layers:
        for parameter in layer.parameters():
            with pytest.raises(ValueError, match="Muon only supports 2D"):
                torch.optim.Muon([parameter])
    with no_error():
        torch.optim.Muon([nn.Parameter(torch.ones(2, 3))])


@api_since("2.9", "torch.optim.Muon")
def test_muon_takes_matrices__also_both_optimizers(snippet):
    """Together, the two optimizers move each parameter once."""
    run = run_of(snippet, "vectors")
    before = [p.clone() for p in run.model.parameters()]
    run.model(torch.rand(5, 784)).pow(2).sum().backward()
    for optimizer in (run.muon, run.adamw):
        optimizer.step()
    pairs = zip(run.model.parameters(), before, strict=True)
    assert [p.equal(was) for p, was in pairs] == [False] * 4
    given = [*run.muon.param_groups, *run.adamw.param_groups]
    ids = [id(p) for group in given for p in group["params"]]
    assert sorted(ids) == sorted(id(p) for p in run.model.parameters())


@api_since("2.9", "torch.optim.Muon")
def test_muon_takes_matrices__but_not_without_biases(snippet, fails):
    """Without biases, all parameters of this model are matrices, so Muon takes
    them.
    """
    edited = snippet.edit("nn.Linear(784, 64)", "nn.Linear(784, 64, False)")
    edited = edited.edit("nn.Linear(64, 10))", "nn.Linear(64, 10, False))")
    edited = edited.edit("rest = [model[0].bias, ", "rest = [")
    fails(test_muon_takes_matrices, edited)


def test_positions_run_out(snippet, length=513):
    run = run_of(snippet, "too-long")

    assert run.placed.shape == (4, 512, 8)
    said = error_of(run.add_positions, torch.rand(1, length, 8))
    assert said == (
        f"The size of tensor a ({length}) must match the size of tensor b"
        " (512) at non-singleton dimension 1"
    )


@pytest.mark.parametrize("length", [600, 1024, 4096])
def test_positions_run_out__also_for_tokens(snippet, length):
    test_positions_run_out(snippet, length)


@pytest.mark.parametrize("length", [1, 77, 511])
def test_positions_run_out__also_not_with_fewer(snippet, length):
    run = run_of(snippet, "too-long")
    shorter = torch.rand(4, length, 8)

    assert run.add_positions(shorter).shape == shorter.shape


@edits(
    ("more positions", "torch.zeros(1, 512, 8)", "torch.zeros(1, 1024, 8)"),
    ("cut too late", "tokens[:, :512])", "tokens[:, :513])"),
)
def test_positions_run_out__but_not(snippet, old, new, fails):
    """With 1,024 positions, 600 tokens fit; cut at 513, they do not."""
    fails(test_positions_run_out, snippet.edit(old, new))


def test_positions_run_out__ends_with_an_embedding(snippet, fails):
    """If the positions come from an `nn.Embedding`, the error says `index out
    of range in self`.
    """
    old = "positions[:, : tokens.shape[1]]"
    new = "F.embedding(torch.arange(tokens.shape[1]), positions[0])"
    edited = snippet.edit(old, new).edit("(4, 600, 8)", "(4, 512, 8)")
    fails(test_positions_run_out, edited)


def write(kept, scores):
    """Write into all of it, as the page does."""
    kept[:] = scores


def test_only_ones_stretch(snippet, put=write):
    run = run_of(snippet, "last-batch")

    said = error_of(put, run.found, run.scores)
    assert said.startswith("The expanded size of the tensor (32) must match")
    assert run.found[:17].equal(run.scores)
    assert run.found[17:].equal(torch.zeros(15, 10))
    said = error_of(run.scores.expand, 32, 10)
    assert said.startswith("The expanded size of the tensor (32) must match")
    assert run.scores[:1].expand(32, 10).shape == (32, 10)
    put(run.found, run.scores[:1])
    assert run.found[31].equal(run.scores[0])


def test_only_ones_stretch__also_behind_a_norm():
    x = torch.rand(8, 3)

    said = error_of(lambda: x / x.norm(dim=1).expand_as(x))
    assert said.startswith("The expanded size of the tensor (3) must match")
    scaled = x / x.norm(dim=1, keepdim=True).expand_as(x)
    torch.testing.assert_close(scaled, F.normalize(x))


def test_only_ones_stretch__also_for_a_longer_sequence():
    kept, longer = torch.zeros(4, 10), torch.rand(12)

    said = error_of(write, kept[0], longer)
    assert said.startswith("The expanded size of the tensor (10) must match")
    write(kept[0], longer[:10])
    assert kept[0].equal(longer[:10])


def test_only_ones_stretch__also_for_positions():
    positions = torch.arange(512)[None]

    said = error_of(lambda: positions[:, :600].expand(4, 600))
    assert said.startswith("The expanded size of the tensor (600) must match")
    assert positions[:, :300].expand(4, 300).shape == (4, 300)


@edits(
    ("a full batch", "torch.rand(17, 10)", "torch.rand(32, 10)"),
    ("one row", "torch.rand(17, 10)", "torch.rand(1, 10)"),
    ("into the end", "found[: len(scores)]", "found[-len(scores) :]"),
)
def test_only_ones_stretch__but_not(snippet, old, new, fails):
    """A full batch fits, and a single row is stretched over all; whoever
    writes to the end leaves the beginning empty.
    """
    fails(test_only_ones_stretch, snippet.edit(old, new))


def test_only_ones_stretch__ends_with_copy(snippet, fails):
    """With `copy_`, the error says `The size of tensor a` instead."""
    fails(test_only_ones_stretch, snippet, torch.Tensor.copy_)


def test_pooling_rounds_down(snippet):
    run = run_of(snippet, "skip-connection")

    back = F.interpolate(run.pooled, scale_factor=4)
    assert back.shape[-2:] == (48, 48)
    said = error_of(torch.cat, [run.skip, back], 1)
    assert said.startswith("Sizes of tensors must match except in dimension 1")
    assert run.upsampled.shape == run.skip.shape
    assert run.joined.shape == (1, 16, 50, 50)


DOWN = {
    "max_pool2d": lambda x: F.max_pool2d(x, 4),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 4),
    "a convolution": nn.Conv2d(8, 8, 4, stride=4),
}
UP = {
    "interpolate": lambda x: F.interpolate(x, scale_factor=4),
    "Upsample": nn.Upsample(scale_factor=4, mode="bilinear"),
    "ConvTranspose2d": nn.ConvTranspose2d(8, 8, 4, stride=4),
}


@pytest.mark.parametrize("up", UP.values(), ids=UP)
@pytest.mark.parametrize("down", DOWN.values(), ids=DOWN)
@pytest.mark.parametrize("size", [49, 50, 51, 101])
def test_pooling_rounds_down__also_with(size, down, up):
    x = torch.rand(1, 8, size, size)

    small = down(x)
    assert up(small).shape[-1] == size // 4 * 4 < size
    fitted = F.interpolate(up(small), size=x.shape[-2:])
    assert error_of(torch.cat, [x, fitted], 1) == ""


@edits(
    (
        "a multiple of 4",
        "torch.rand(1, 8, 50, 50)",
        "torch.rand(1, 8, 52, 52)",
    ),
    ("no other size", "size=skip.shape[-2:]", "size=(48, 48)"),
)
def test_pooling_rounds_down__but_not(snippet, old, new, fails):
    """A multiple of 4 comes back whole; 48 is the size that did not fit."""
    fails(test_pooling_rounds_down, snippet.edit(old, new))


def test_pooling_rounds_down__ends_with_ceil_mode(snippet, fails):
    """With `ceil_mode=True`, it rounds up: 52."""
    old = "F.max_pool2d(skip, 4)"
    edited = snippet.edit(old, "F.max_pool2d(skip, 4, ceil_mode=True)")
    fails(test_pooling_rounds_down, edited)


JOINS = {
    "torch.stack": (torch.stack, "stack expects a non-empty TensorList"),
    "torch.cat": (torch.cat, "expected a non-empty list of Tensors"),
}


def test_an_empty_list_raises(snippet, beside=None):
    run = run_of(snippet, "nothing-found")

    assert run.chosen == []
    for join, text in JOINS.values():
        assert text in error_of(join, run.chosen)
        with no_error():
            empty = torch.empty(0, 4)
            joined = join([empty, empty if beside is None else beside])
        assert joined.shape[-1] == 4
    assert run.kept_boxes.shape == (0, 4)


@pytest.mark.parametrize("join", [torch.vstack, torch.hstack, torch.dstack])
def test_an_empty_list_raises__also_in(join):
    assert "expects a non-empty TensorList" in error_of(join, [])


def test_an_empty_list_raises__ends_beside_a_full_one(snippet, fails):
    """`torch.stack` takes an empty tensor only beside others of its shape."""
    fails(test_an_empty_list_raises, snippet, torch.rand(3, 4))


@edits(
    ("a lower bound", "if score > 0.9", "if score > 0.4"),
    ("another shape", "torch.empty(0, 4)", "torch.empty(0)"),
)
def test_an_empty_list_raises__but_not(snippet, old, new, fails):
    """With a lower bound, a box is found; an empty tensor of another shape
    does not look like boxes.
    """
    fails(test_an_empty_list_raises, snippet.edit(old, new))


def test_view_makes_more_rows(snippet):
    run = run_of(snippet, "more-rows")

    assert run.rows.shape == (16, 256)
    assert error_of(F.cross_entropy, run.rows, run.labels) == (
        "Expected input batch_size (16) to match target batch_size (4)."
    )
    assert run.samples.shape == (4, 1024)
    for sample, image in zip(run.samples, run.maps, strict=True):
        assert sample.equal(image.flatten())


@pytest.mark.parametrize("size", [2, 4, 12, 32])
def test_view_makes_more_rows__also_of_images_of(size):
    maps = torch.rand(4, 16, size, size)

    assert maps.view(-1, 64).shape[0] == size**2
    assert maps.flatten(1).shape == (4, 16 * size**2)


@edits(
    ("256 numbers each", "torch.rand(4, 16, 8, 8)", "torch.rand(4, 16, 4, 4)"),
    ("flatten all", "maps.flatten(1)", "maps.flatten()"),
)
def test_view_makes_more_rows__but_not(snippet, old, new, fails):
    """If an image has 256 numbers, `view` makes one row of each; `flatten()`
    without the 1 makes a single one of all.
    """
    fails(test_view_makes_more_rows, snippet.edit(old, new))


def test_view_makes_more_rows__ends_if_it_does_not_divide(snippet, fails):
    """If the numbers do not divide by 256, `view` itself raises `is invalid
    for input of size`.
    """
    edited = snippet.edit("torch.rand(4, 16, 8, 8)", "torch.rand(4, 16, 9, 9)")
    fails(test_view_makes_more_rows, edited)


def test_labels_have_one_axis(snippet, loss=F.cross_entropy):
    with no_error():
        cells = "gray-batch", "more-rows", "column"
        run = snippet.only(*cells).after("column")

    said = error_of(loss, run.scores, run.column)
    assert (
        said == "0D or 1D target tensor expected, multi-target not supported"
    )
    assert run.column.squeeze(1).tolist() == run.labels.tolist()
    assert run.loss.tolist() == loss(run.scores, run.labels).tolist()


def test_labels_have_one_axis__also_in_nll_loss(snippet):
    labels, scores = torch.tensor([1, 0, 3]), torch.rand(3, 4)

    said = error_of(F.nll_loss, scores, labels[:, None])
    assert "multi-target not supported" in said
    assert error_of(F.nll_loss, scores, labels) == ""


def test_labels_have_one_axis__also_of_one_hot_rows():
    labels, scores = torch.tensor([1, 0, 3]), torch.rand(3, 4)
    one_hot = F.one_hot(labels, 4)

    said = error_of(F.cross_entropy, scores, one_hot)
    assert said.startswith(
        "Expected floating point type for target with class"
    )
    assert one_hot.argmax(1).tolist() == labels.tolist()


@edits(
    ("no column", "column = labels[:, None]", "column = labels"),
    ("another axis", "column.squeeze(1)", "column.squeeze(0)"),
)
def test_labels_have_one_axis__but_not(snippet, old, new, fails):
    """Labels without the second axis raise nothing, and `squeeze(0)` leaves it
    there.
    """
    edited = snippet.edit(old, new)
    if new == "column = labels":
        edited = edited.edit("column.squeeze(1)", "column")
    fails(test_labels_have_one_axis, edited)


def test_labels_have_one_axis__ends_with_class_probabilities(snippet, fails):
    """Labels of floats, in the shape of the scores, are the probabilities of
    the classes.
    """
    old = "column = labels[:, None]"
    edited = snippet.edit(old, "column = F.one_hot(labels, 10).float()")
    edited = edited.edit("column.squeeze(1)", "column.argmax(1)")
    fails(test_labels_have_one_axis, edited)


SPATIAL = (
    "only batches of spatial targets supported (3D tensors) but got targets of"
    " dimension: 4"
)


def masks_of(snippet):
    """Run the cells about masks."""
    cells = "gray-batch", "mask-channel", "mask-colors"
    with no_error():
        return snippet.only(*cells).after("mask-colors")


def pixels(samples, classes, height, width):
    """Return random scores for each pixel, and masks without a channel."""
    torch.manual_seed(0)
    scores = torch.randn(samples, classes, height, width)
    return scores, torch.randint(classes, (samples, height, width))


def by_pixel(scores, labels):
    """Return the loss of pixels in a row."""
    flat = scores.permute(0, 2, 3, 1).flatten(0, 2)
    return F.cross_entropy(flat, labels.flatten())


def test_a_mask_has_no_channel(snippet, classes=3):
    run = masks_of(snippet)
    assert error_of(F.cross_entropy, run.pixel_scores, run.masks) == SPATIAL
    wanted = by_pixel(run.pixel_scores, run.masks)
    torch.testing.assert_close(run.loss, wanted)

    for shape in ((2, classes, 8, 8), (1, classes, 4, 6), (3, classes, 1, 1)):
        scores, labels = pixels(*shape)
        for dtype in (torch.int64, torch.uint8, torch.float32):
            mask = labels[:, None].to(dtype)
            assert error_of(F.cross_entropy, scores, mask) == SPATIAL
        loss = F.cross_entropy(scores, labels[:, None].squeeze(1))
        torch.testing.assert_close(loss, by_pixel(scores, labels))


@pytest.mark.parametrize("classes", [2, 21], ids="{} classes".format)
def test_a_mask_has_no_channel__also_of(snippet, classes):
    test_a_mask_has_no_channel(snippet, classes)


def test_a_mask_has_no_channel__ends_with_one_class(snippet, fails):
    """With a single class, the mask has the shape of the scores: integers get
    another error, and floats none.
    """
    fails(test_a_mask_has_no_channel, snippet, 1)


@edits(
    ("no channel", "(3, (2, 1, 8, 8))", "(3, (2, 8, 8))"),
    ("another order", "masks.squeeze(1))\n\n#", "masks.squeeze(1).mT)\n\n#"),
)
def test_a_mask_has_no_channel__but_not(snippet, old, new, fails):
    """A mask (N, H, W) raises nothing, and a transposed one has another
    loss.
    """
    fails(test_a_mask_has_no_channel, snippet.edit(old, new))


def test_colors_become_numbers(snippet):
    run = masks_of(snippet)
    assert run.numbers.dtype == torch.int64
    assert run.numbers.tolist() == run.masks.squeeze(1).tolist()

    row = {tuple(color): k for k, color in enumerate(run.palette.tolist())}
    pixels = run.colored.flatten(0, 2).tolist()
    numbers = [row[tuple(color)] for color in pixels]
    assert run.numbers.flatten().tolist() == numbers


@edits(
    ("all(dim=-1)", "any(dim=-1)"),
    ("argmax(dim=-1)", "argmin(dim=-1)"),
    ("palette[masks.squeeze(1)]", "palette.flip(0)[masks.squeeze(1)]"),
)
def test_colors_become_numbers__but_not_so(snippet, old, new, fails):
    """All three numbers of a color have to agree, the row that agrees has the
    largest value, and another order of colors gives other numbers.
    """
    fails(test_colors_become_numbers, snippet.edit(old, new))


def test_colors_pass_for_probabilities(
    snippet, classes=3, dtype=torch.float32
):
    run = masks_of(snippet)

    rgb = run.colored.movedim(-1, 1).to(dtype)
    assert rgb.shape == (2, 3, 8, 8)
    scores = torch.randn(2, classes, 8, 8)
    with no_error():
        loss = F.cross_entropy(scores, rgb)
    by_hand = -(rgb * scores.log_softmax(dim=1)).sum(dim=1).mean()
    torch.testing.assert_close(loss, by_hand)
    right = F.cross_entropy(scores, run.numbers).item()
    assert loss.item() != pytest.approx(right, rel=0.1)


def test_colors_pass_for_probabilities__but_not_with_more_classes(
    snippet, fails
):
    """With four classes, the shapes differ, and it raises an error."""
    fails(test_colors_pass_for_probabilities, snippet, 4)


def test_colors_pass_for_probabilities__but_not_as_integers(snippet, fails):
    """As integers, the colors raise `Expected floating point type`."""
    fails(test_colors_pass_for_probabilities, snippet, 3, torch.uint8)


def test_positions_count_from_zero(snippet, pick=lambda x, at: x[at]):
    run = run_of(snippet, "counted-from-1")

    said = error_of(lambda: run.table[:, run.chosen_columns])
    assert said == "index 3 is out of bounds for dimension 0 with size 3"
    assert run.picked.tolist() == run.table.tolist()
    places = {n: torch.tensor([[n]]) for n in range(-9, 9)}
    taken = [
        n for n, at in places.items() if not error_of(pick, run.table, at)
    ]
    assert taken == [*range(-5, 5)]


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_positions_count_from_zero__also_for_an_axis_of(size):
    x = torch.rand(size)

    for n in (-size, -1, 0, size - 1):
        assert error_of(lambda n=n: x[n]) == ""
        assert error_of(lambda n=n: x[[n]]) == ""
    for n in (-size - 1, size):
        said = f"index {n} is out of bounds for dimension 0 with size {size}"
        assert error_of(lambda n=n: x[n]) == said
        assert error_of(lambda n=n: x[[n]]) == said


@edits(
    ("from 0", "torch.tensor([1, 2, 3])", "torch.tensor([0, 1, 2])"),
    ("not subtracted", "chosen_columns - 1", "chosen_columns % 3"),
    ("a longer table", "torch.rand(5, 3)", "torch.rand(6, 3)"),
)
def test_positions_count_from_zero__but_not(snippet, old, new, fails):
    """Counted from 0, the columns exist; counted around, they are others; and
    a longer table has one position more.
    """
    fails(test_positions_count_from_zero, snippet.edit(old, new))


def test_positions_count_from_zero__ends_with_slices(snippet, fails):
    """A slice is cut off at the end, without an error."""
    edited = snippet.edit("torch.tensor([1, 2, 3])", "slice(1, 4)")
    edited = edited.edit("chosen_columns - 1", "slice(0, 3)")
    fails(test_positions_count_from_zero, edited)


PICKS = {
    "gather": lambda x, at: x.gather(0, at),
    "scatter": lambda x, at: x.scatter(0, at, 1.0),
    "index_select": lambda x, at: x.index_select(0, at[0]),
}


@pytest.mark.parametrize("pick", PICKS.values(), ids=PICKS)
def test_positions_count_from_zero__ends_in(snippet, pick, fails):
    """`gather`, `scatter` and `index_select` take no negative positions."""
    fails(test_positions_count_from_zero, snippet, pick)


def test_gather_takes_fewer_rows(snippet):
    run = run_of(snippet, "other-batch")

    first = run.scores[torch.arange(8), run.actions[:8, 0]]
    assert run.fewer[:, 0].tolist() == first.tolist()
    assert "Size does not match" in error_of(run.scores.gather, 1, run.actions)


@pytest.mark.parametrize("rows", [0, 1, 31], ids="{} rows".format)
def test_gather_takes_fewer_rows__also_for(rows):
    scores, index = torch.rand(32, 5), torch.randint(5, (rows, 1))

    first = scores[torch.arange(rows), index[:, 0]]
    assert scores.gather(1, index)[:, 0].tolist() == first.tolist()


def test_gather_takes_fewer_rows__also_in_three_axes():
    scores, index = torch.rand(8, 6, 5), torch.randint(5, (3, 2, 1))

    first = scores[:3, :2].gather(2, index)
    assert scores.gather(2, index).tolist() == first.tolist()


@edits(
    ("more rows", "actions[:8]", "actions[:40]"),
    (
        "other rows",
        "scores.gather(1, actions[:8])",
        "scores[8:].gather(1, actions[:8])",
    ),
)
def test_gather_takes_fewer_rows__but_not(snippet, old, new, fails):
    """More rows raise an error, and another part has other numbers."""
    fails(test_gather_takes_fewer_rows, snippet.edit(old, new))


def test_gather_takes_fewer_rows__ends_with_take_along_dim(snippet, fails):
    """`take_along_dim` raises an error for fewer rows, unless it is one."""
    old = "scores.gather(1, actions[:8])"
    edited = snippet.edit(old, "scores.take_along_dim(actions[:8], 1)")
    fails(test_gather_takes_fewer_rows, edited)


def test_a_row_for_each_true(snippet, put=torch.Tensor.__setitem__):
    run = run_of(snippet, "image-tokens")

    three = torch.arange(10) < 3
    said = error_of(put, run.embedded, three, run.patches)
    assert said == (
        "shape mismatch: value tensor of shape [5, 8] cannot be broadcast to"
        " indexing result of shape [3, 8]"
    )
    assert run.is_image.sum().item() == len(run.patches)
    assert run.embedded[:5].tolist() == run.patches.tolist()
    assert run.embedded[5:].tolist() == torch.zeros(5, 8).tolist()


@pytest.mark.parametrize("places", [0, 2, 4, 6])
def test_a_row_for_each_true__also_for_places(places):
    mask, patches = torch.arange(10) < places, torch.rand(5, 8)

    said = error_of(torch.zeros(10, 8).__setitem__, mask, patches)
    assert f"indexing result of shape [{places}, 8]" in said


def test_a_row_for_each_true__also_where_axes_move_to_the_front():
    x, values = torch.zeros(4, 5, 6), torch.rand(5, 2)
    key = torch.tensor([0, 1]), slice(None), torch.tensor([2, 3])

    said = error_of(x.__setitem__, key, values)
    assert (
        "[5, 2] cannot be broadcast to indexing result of shape [2, 5]" in said
    )
    assert error_of(x.__setitem__, key, values.T) == ""


@edits(
    ("too few places", "< len(patches)", "< 4"),
    ("at the end", "< len(patches)", ">= len(patches)"),
)
def test_a_row_for_each_true__but_not(snippet, old, new, fails):
    """Four places are too few; and five others get the patches at the end."""
    fails(test_a_row_for_each_true, snippet.edit(old, new))


def test_a_row_for_each_true__ends_with_a_single_row(snippet, fails):
    """A single row is repeated for all places."""
    edited = snippet.edit("torch.rand(5, 8)", "torch.rand(1, 8)")
    fails(test_a_row_for_each_true, edited)


def fill(embedded, mask, patches):
    """Write as newer models for images and texts do."""
    return embedded.masked_scatter(mask[:, None], patches)


def test_a_row_for_each_true__ends_with_masked_scatter(snippet, fails):
    """`masked_scatter` takes more rows than it needs, without an error."""
    fails(test_a_row_for_each_true, snippet, fill)


def test_ij_is_as_before(snippet):
    with warnings.catch_warnings(record=True) as later, always_warning():
        run = run_of(snippet, "meshgrid")

    assert [str(each.message) for each in later] == []
    assert len(run.caught) == 1
    assert "will be required to pass the indexing" in str(
        run.caught[0].message
    )
    assert len(run.named) == len(run.unnamed) == 2
    for named, unnamed in zip(run.named, run.unnamed, strict=True):
        assert named.tolist() == unnamed.tolist()


@pytest.mark.parametrize("sizes", [(4,), (2, 3), (3, 3), (2, 3, 4)], ids=str)
@pytest.mark.filterwarnings("ignore:torch.meshgrid")
def test_ij_is_as_before__also_for_sizes(sizes):
    axes = [torch.arange(size) for size in sizes]

    unnamed = torch.meshgrid(*axes)
    for one, other in zip(
        torch.meshgrid(*axes, indexing="ij"), unnamed, strict=True
    ):
        assert one.tolist() == other.tolist()


def test_ij_is_as_before__but_not_xy(snippet, fails):
    """`indexing="xy"` swaps the first two axes, as NumPy does by default."""
    fails(test_ij_is_as_before, snippet.edit('"ij"', '"xy"'))


def test_ij_is_as_before__but_not_unnamed(snippet, fails):
    """Without `indexing`, the second call warns as well."""
    fails(test_ij_is_as_before, snippet.edit(', indexing="ij"', ""))
