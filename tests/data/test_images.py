"""The claims of docs/data/images.md."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import no_error
from extensions.programs.snippet import after

pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"
)

TILES = ("read", "photo", "tiles", "normalize")


def pixel(image, row, column):
    """Return the color of a pixel of a Pillow picture, as a list."""
    return list(image.convert("RGB").getpixel((column, row)))


def test_a_file_becomes_a_tensor(snippet):
    with no_error():
        run = snippet.only("read", "photo").after("photo")
    with run.Image.open(run.flower) as file:
        picture = file.convert("RGB")

    for image in (run.image, run.batch[0]):
        assert image.shape == (3, 427, 640)
        assert image.dtype == torch.float32
        assert 0 <= image.amin() < 0.1 < 0.9 < image.amax() <= 1
        for row, column in [(0, 0), (0, 639), (426, 0), (200, 320)]:
            found = (255 * image[:, row, column]).round().tolist()
            assert found == pixel(picture, row, column)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_a_file_becomes_a_tensor__also_in_mode(snippet, mode, tmp_path):
    run = after(snippet, "read")
    numbers = np.arange(60, dtype=np.uint8).reshape(4, 5, 3) * 4
    picture = run.Image.fromarray(numbers).convert(mode)
    picture.save(tmp_path / "picture.png")

    image = run.read(tmp_path / "picture.png")

    assert image.shape == (3, 4, 5)
    assert image.dtype == torch.float32
    for row, column in product(range(4), range(5)):
        found = (255 * image[:, row, column]).round().tolist()
        assert found == pixel(picture, row, column)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".permute(2, 0, 1)\n", "\n"),
        (".permute(2, 0, 1)\n", ".permute(2, 1, 0)\n"),
        ("channels_first / 255 ", "channels_first "),
        ("channels_first / 255 ", "channels_first.double() / 255 "),
        ('upright.convert("RGB"))  #', 'upright.convert("L"))[..., None]  #'),
        ("channels_first / 255 ", "channels_first.flip(0) / 255 "),
    ],
    ids=["channels last", "transposed", "bytes", "float64", "gray", "BGR"],
)
def test_a_file_becomes_a_tensor__but_not(snippet, old, new, fails):
    """Without `permute`, the channels stay last."""
    fails(test_a_file_becomes_a_tensor, snippet.edit(old, new))


def test_a_file_becomes_a_tensor__ends_with_16_bits(
    snippet, tmp_path, monkeypatch, fails
):
    """A PNG with 16 bits a pixel comes out white, since `convert("RGB")`
    cuts at 255.
    """
    run = after(snippet, "read")
    numbers = np.full((427, 640), 30_000, np.uint16)
    run.Image.fromarray(numbers).save(tmp_path / "deep.png")
    assert run.read(tmp_path / "deep.png").unique().tolist() == [1]
    with run.Image.open(tmp_path / "deep.png") as file:
        gray = torch.from_numpy(np.array(file)) / 65535
    assert gray.shape == (427, 640)
    assert torch.allclose(gray, torch.tensor(30_000 / 65535))

    deep = f"image = read({str(tmp_path / 'deep.png')!r})\n"
    fails(
        test_a_file_becomes_a_tensor,
        snippet.edit("image = read(flower)\n", deep),
    )


def test_pillow_says_width_first(snippet):
    run = snippet.only("read", "photo", "pixel").after("pixel")

    assert run.size == (640, 427)
    assert run.pixels.shape == (427, 640, 3)
    for width, height in [(1, 5), (7, 2)]:
        picture = run.Image.new("RGB", (width, height))
        assert picture.size == (width, height)
        assert np.array(picture).shape == (height, width, 3)


@pytest.mark.parametrize(
    "new",
    ["file.size[::-1], np.array(file)", "file.size, np.array(file).mT"],
    ids=["reversed", "transposed"],
)
def test_pillow_says_width_first__but_not(snippet, new, fails):
    """With one of the two reversed, they agree or swap."""
    new = new.replace("np.array(file).mT", "np.array(file).swapaxes(0, 1)")
    edited = snippet.edit("file.size, np.array(file)\n", f"{new}\n")
    fails(test_pillow_says_width_first, edited)


def test_pillow_says_width_first__ends_for_a_gray_file(snippet, fails):
    """A gray picture gives an array of the shape (height, width)."""
    edited = snippet.edit(
        "np.array(file)\n\nprint", 'np.array(file.convert("L"))\n\nprint'
    )
    fails(test_pillow_says_width_first, edited)


PHOTO = ("read", "photo", "digit")
SHAPES = [(3, 9, 9), (1, 9, 9), (3, 427, 640)]


def test_imshow_wants_channels_last(snippet, shapes=tuple(SHAPES)):
    run = snippet.only(*PHOTO, "not-shown").after("not-shown")

    assert run.message == "Invalid shape (3, 427, 640) for image data"
    for shape in shapes:
        with pytest.raises(TypeError, match="Invalid shape"):
            run.axes.imshow(torch.zeros(shape))
        with no_error():
            run.axes.imshow(torch.zeros(shape).permute(1, 2, 0))


@pytest.mark.parametrize("new", ["image.permute(1, 2, 0)", "image[0]"])
def test_imshow_wants_channels_last__but_not(snippet, new, fails):
    """With the channels last, or one channel alone, nothing is raised."""
    edited = snippet.edit("axes.imshow(image)\n", f"axes.imshow({new})\n")
    fails(test_imshow_wants_channels_last, edited)


def test_imshow_wants_channels_last__ends_if_three_columns_wide(
    snippet, fails
):
    """A picture with 3 or 4 columns is drawn all the same, wrongly: its
    columns are taken for channels.
    """
    fails(test_imshow_wants_channels_last, snippet, ((3, 9, 3),))


def stretched(snippet):
    """Return what was drawn of a digit and of one half as bright."""
    cells = [*PHOTO, "not-shown", "stretched"]
    return snippet.only(*cells).after("stretched")


def colors(drawn):
    """Return the colors in which a picture is drawn."""
    return drawn.to_rgba(drawn.get_array())[..., :3]


def test_imshow_stretches_gray(snippet):
    run = stretched(snippet)

    assert run.digit.dtype == torch.float32
    assert run.digit.amax() == 15 / 16
    for drawn, numbers in [(run.bright, run.digit), (run.dim, run.digit / 2)]:
        shown = colors(drawn)
        assert drawn.get_array().max() == numbers.max()
        assert shown[numbers == numbers.amin()].max() == 0
        assert shown[numbers == numbers.amax()].min() == 1


@pytest.mark.parametrize(
    "limits", ["vmin=0, vmax=1", "vmin=-1"], ids=["both limits", "one limit"]
)
def test_imshow_stretches_gray__but_not_with(snippet, limits, fails):
    """With `vmin` and `vmax`, each number keeps its gray."""
    edited = snippet.edit(
        'imshow(digit / 2, cmap="gray")',
        f'imshow(digit / 2, cmap="gray", {limits})',
    )
    fails(test_imshow_stretches_gray, edited)


def test_imshow_stretches_gray__ends_for_color(snippet, fails):
    """Color is never stretched: 1 is as bright as it gets."""
    half = "digit[..., None].expand(8, 8, 3) / 2"
    edited = snippet.edit("imshow(digit / 2,", f"imshow({half},")
    fails(test_imshow_stretches_gray, edited)


def test_imshow_stretches_gray__ends_for_a_single_gray(snippet, fails):
    """A picture of one number is drawn black, even if it is all white."""
    edited = snippet.edit("imshow(digit / 2,", "imshow(torch.ones(8, 8),")
    fails(test_imshow_stretches_gray, edited)


def test_gray_needs_a_color_map(snippet):
    run = stretched(snippet)

    assert run.colored.cmap.name == "viridis"
    shown = colors(run.colored)
    assert (shown.max(-1) - shown.min(-1) > 0.1).any()
    for drawn in (run.bright, run.dim):
        shown = colors(drawn)
        assert (shown.max(-1) == shown.min(-1)).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("imshow(digit)\n", 'imshow(digit, cmap="gray")\n'),
        ('imshow(digit / 2, cmap="gray")', "imshow(digit / 2)"),
    ],
    ids=["gray in gray", "both without"],
)
def test_gray_needs_a_color_map__but_not(snippet, old, new, fails):
    """With `cmap="gray"`, the picture is gray."""
    fails(test_gray_needs_a_color_map, snippet.edit(old, new))


def test_gray_needs_a_color_map__ends_with_three_channels(snippet, fails):
    """Three equal channels are drawn in gray without any color map."""
    equal = "imshow(digit[..., None].expand(8, 8, 3))\n"
    fails(test_gray_needs_a_color_map, snippet.edit("imshow(digit)\n", equal))


LOGO = ("read", "logo")


def test_alpha_is_dropped(snippet, size=(64, 64)):
    run = snippet.only(*LOGO).after("logo")

    before, found = np.array(run.logo), np.array(run.dropped)
    assert found.shape == (64, 64, 3)
    assert set(before[..., 3].flat) >= {0, 128}
    assert (before[..., :3] == found).all()
    assert run.logo.getpixel((0, 0)) == (0, 0, 0, 0)
    assert run.dropped.getpixel((0, 0)) == (0, 0, 0)
    clear = run.Image.new("RGBA", (64, 64), (255, 255, 255, 0))
    found = clear.resize(size).convert("RGB")
    assert found.getpixel((0, 0)) == (255, 255, 255)


def test_alpha_is_dropped__ends_after_another_size(snippet, fails):
    """If you call `resize` or `thumbnail` first: they turn fully transparent
    pixels black, so convert before.
    """
    fails(test_alpha_is_dropped, snippet, (32, 32))


@pytest.mark.parametrize("alpha", [0, 1, 254, 255])
def test_alpha_is_dropped__also_with_an(snippet, alpha):
    run = after(snippet, *LOGO)
    numbers = np.random.default_rng(0).integers(0, 256, (5, 6, 4), np.uint8)
    numbers[..., 3] = alpha

    picture = run.Image.fromarray(numbers).convert("RGB")
    assert (np.array(picture) == numbers[..., :3]).all()


def test_alpha_is_dropped__also_in_a_palette(snippet, tmp_path):
    run = after(snippet, *LOGO)
    picture = run.Image.new("P", (4, 3))
    picture.putpalette([200, 100, 50] * 256)
    picture.save(tmp_path / "picture.png", transparency=0)

    with run.Image.open(tmp_path / "picture.png") as file:
        assert file.convert("RGBA").getpixel((0, 0)) == (200, 100, 50, 0)
        assert file.convert("RGB").getpixel((0, 0)) == (200, 100, 50)


def test_alpha_is_dropped__but_not_on_white(snippet, fails):
    """Pasted on white, the corner is white, and the disk pink."""
    on_white = 'Image.alpha_composite(white, logo).convert("RGB")'
    edited = snippet.edit('logo.convert("RGB")', on_white)
    fails(test_alpha_is_dropped, edited)


def test_white_shows_through(snippet):
    run = snippet.only(*LOGO).after("logo")

    before = np.array(run.logo).astype(float)
    alpha = before[..., 3:] / 255
    expected = alpha * before[..., :3] + (1 - alpha) * 255
    assert run.applied.mode == "RGB"
    assert np.abs(np.array(run.applied) - expected).max() <= 1
    assert run.applied.getpixel((0, 0)) == (255, 255, 255)
    assert run.applied.getpixel((32, 32)) == (255, 127, 127)
    assert run.colors == [(255, 0, 0, 128), (255, 0, 0), (255, 127, 127)]


def test_white_shows_through__also_for_other_pixels(snippet):
    run = after(snippet, *LOGO)
    numbers = np.random.default_rng(0).integers(0, 256, (9, 8, 4), np.uint8)
    picture = run.Image.fromarray(numbers)
    white = run.Image.new("RGBA", picture.size, "white")

    found = np.array(run.Image.alpha_composite(white, picture))[..., :3]
    alpha = numbers[..., 3:] / 255
    expected = alpha * numbers[..., :3] + (1 - alpha) * 255
    assert np.abs(found - expected).max() <= 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"RGBA", logo.size, "white"', '"RGBA", logo.size, "black"'),
        ('"RGBA", logo.size, "white"', '"RGBA", logo.size'),
        ("alpha_composite(white, logo)", "alpha_composite(logo, white)"),
    ],
    ids=["on black", "on nothing", "white on top"],
)
def test_white_shows_through__but_not(snippet, old, new, fails):
    """On another background, that one shows through."""
    fails(test_white_shows_through, snippet.edit(old, new))


def channels(images):
    """Return the mean and the deviation of each channel."""
    return images.mean((0, 2, 3)), images.std((0, 2, 3))


def test_normalized_channels(snippet):
    run = snippet.only(*TILES).after("normalize")

    seeded = torch.Generator().manual_seed(0)
    order = torch.randperm(120, generator=seeded)
    assert torch.equal(torch.cat([run.train, run.valid]), order)
    train, valid = run.tiles[run.train], run.tiles[run.valid]
    means, stds = channels(run.normalize(train))
    assert means.abs().amax() < 1e-4
    assert (stds - 1).abs().amax() < 1e-4
    for part, found in [(train, run.normalize(train)), (valid, None)]:
        found = run.normalize(part) if found is None else found
        back = found * run.std.view(3, 1, 1) + run.mean.view(3, 1, 1)
        assert torch.allclose(back, part, atol=1e-5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tiles[train].mean(dim=(0, 2, 3))", "tiles[valid].mean((0, 2, 3))"),
        ("tiles[train].std(dim=(0, 2, 3))", "tiles[valid].std((0, 2, 3))"),
        ("tiles[train].mean(dim=(0, 2, 3))", "tiles.mean((0, 2, 3))"),
        ("tiles[train].mean(dim=(0, 2, 3))", "tiles[train].mean().expand(3)"),
        ("tiles[train].std(dim=(0, 2, 3))", "tiles[train].std().expand(3)"),
        (") / std[:, None, None]", ") / std[:, None, None].square()"),
        ("(images - mean[:, None, None])", "(images + mean[:, None, None])"),
    ],
    ids=[
        "the mean of validation",
        "the deviation of validation",
        "the mean of all",
        "one mean for three channels",
        "one deviation for three channels",
        "the variance",
        "an added mean",
    ],
)
def test_normalized_channels__but_not_with(snippet, old, new, fails):
    """Numbers of other pixels leave the mean off 0 or the deviation off 1."""
    fails(test_normalized_channels, snippet.edit(old, new))


def test_normalized_channels__ends_if_a_channel_is_constant(snippet, fails):
    """A channel with one number in all pixels has deviation 0, and becomes
    `nan`.
    """
    edited = snippet.edit("\nprint(tiles.shape)", "\ntiles[:, 0] = 0.0")
    fails(test_normalized_channels, edited)


def test_normalized_channels__also_with_numbers_of_imagenet(snippet):
    run = snippet.only("read", "photo", "imagenet").after("imagenet")

    for channel, (mean, std) in enumerate(
        [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)]
    ):
        expected = (run.image[channel] - mean) / std
        assert torch.allclose(run.prepared[channel], expected, atol=1e-5)


def test_normalized_channels__also_undone(snippet):
    program = snippet.only(*TILES, "shown", "shown-checked")
    run = program.after("shown-checked")

    assert run.shown.shape == (64, 64, 3)
    assert torch.allclose(run.shown[5, 7], run.tiles[0, :, 5, 7], atol=1e-5)
    assert run.is_back
    black = program.edit(
        "labels = torch.ar", "tiles[0] = 0\nlabels = torch.ar"
    )
    rounded = black.edit(
        "shown = shown.permute(1, 2, 0)",
        "shown = shown.permute(1, 2, 0) + 5e-6",
    )
    assert rounded.after("shown-checked").is_back
    answer = "inputs * std[:, None, None] + mean[:, None, None]"
    for wrong in ("inputs", answer.replace("mean[", "std["), "inputs[:1]"):
        edited = program.edit(answer, wrong)
        assert not edited.after("shown-checked").is_back


def test_the_mean_of_deviations_is_too_small(snippet):
    run = snippet.only(*TILES, "by-hand", "too-small").after("too-small")

    assert run.two.std((1, 2, 3)).tolist() == [0, 0]
    assert run.two.std(correction=0) == 0.5
    assert run.mean_of_stds.shape == (3,)
    share = run.mean_of_stds / run.std
    assert ((share > 0.25) & (share < 0.4)).all()


@pytest.mark.parametrize("seed", range(2))
def test_the_mean_of_deviations_is_too_small__also_with(seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(20, 3, 6, 6, generator=generator)
    images = images * torch.rand(20, 3, 1, 1, generator=generator)

    every = images.std((0, 2, 3), correction=0)
    assert (images.std((2, 3), correction=0).mean(0) < every).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".std(dim=(2, 3)).mean(dim=0)", ".std(dim=(0, 2, 3))"),
        (
            "black, white_tile = torch.zeros(1, 4, 4)",
            "black, white_tile = 1 - torch.zeros(1, 4, 4)",
        ),
    ],
    ids=["over all pixels", "two white tiles"],
)
def test_the_mean_of_deviations_is_too_small__but_not(
    snippet, old, new, fails
):
    """The deviation of all pixels together counts how the tiles differ."""
    fails(test_the_mean_of_deviations_is_too_small, snippet.edit(old, new))


def test_the_mean_of_deviations_is_too_small__ends_if_tiles_are_alike(
    snippet, fails
):
    """If all pictures have the same mean and deviation, the two numbers
    agree.
    """
    alike = "\ntiles = tiles[:1].expand(120, 3, 64, 64)"
    edited = snippet.edit("\nprint(tiles.shape)", alike)
    fails(test_the_mean_of_deviations_is_too_small, edited)


SUMS = (*TILES, "sums")


def test_sums_give_the_same(snippet):
    run = snippet.only(*SUMS).after("sums")

    assert run.count == 80 * 64 * 64
    assert run.mean_of_sums.dtype == run.std_of_sums.dtype == torch.float64
    assert torch.allclose(run.mean_of_sums.float(), run.mean, atol=1e-5)
    assert torch.allclose(run.std_of_sums.float(), run.std, atol=1e-5)


@pytest.mark.parametrize("size", [1, 7, 80], ids="batches of {}".format)
def test_sums_give_the_same__also_with(snippet, size):
    test_sums_give_the_same(snippet.edit(".split(32)", f".split({size})"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("part[:, 0].numel()", "part.numel()"),
        ("part.sum(dim=(0, 2, 3))", "part.mean(dim=(0, 2, 3))"),
        ("part.square().sum(dim", "part.sum().square().sum(dim"),
        (" - mean_of_sums.square()", ""),
        ("in tiles[train].split(32)", "in tiles.split(32)"),
    ],
    ids=["numbers", "means", "squared sums", "mean squares", "all tiles"],
)
def test_sums_give_the_same__but_not_of(snippet, old, new, fails):
    """Count pixels, not numbers: each pixel has three."""
    new = new.replace("part.sum().square().sum(dim", "part.sqrt().sum(dim")
    fails(test_sums_give_the_same, snippet.edit(old, new))


RESIZED = (*TILES, "resize")


def test_resizing_skips_pixels(snippet, size=8):
    run = snippet.only(*RESIZED, "pixels-read").after("pixels-read")

    size = {"size": (size, size)} if size != 8 else {}
    found = [
        run.pixels_read(**{"size": (8, 8)} | size),
        run.pixels_read(**run.options | size),
        run.pixels_read(**run.options | size, antialias=True),
    ]
    assert found == [64, 256, 4096]
    assert {type(number) for number in found} == {int}


@pytest.mark.parametrize(
    "new",
    [
        '"size": (8, 8), "mode": "bicubic"',
        '"size": (16, 16), "mode": "bilinear"',
    ],
    ids=["bicubic", "16 by 16"],
)
def test_resizing_skips_pixels__but_not_with(snippet, new, fails):
    """Another mode or size reads another number of pixels."""
    edited = snippet.edit('"size": (8, 8), "mode": "bilinear"', new)
    fails(test_resizing_skips_pixels, edited)


def test_resizing_skips_pixels__ends_when_enlarged(snippet, fails):
    """At the same size or larger, every pixel is read."""
    fails(test_resizing_skips_pixels, snippet, 128)


def test_resizing_skips_pixels__ends_at_half_the_size(snippet, fails):
    """Down to half the size, `mode="bilinear"` reads every pixel."""
    run = after(snippet, *RESIZED, "pixels-read")
    assert run.pixels_read(size=(32, 32), mode="bilinear") == 4096
    fails(test_resizing_skips_pixels, snippet, 32)


def test_resizing_skips_pixels__ends_with_area(snippet, fails):
    """`mode="area"` averages every pixel, without `antialias`."""
    edited = snippet.edit(
        "F.interpolate(tile, **options)",
        'F.interpolate(tile, options["size"], mode="area")',
    )
    fails(test_resizing_skips_pixels, edited)


def resized_by_pillow(run, images, size):
    """Return pictures, from 0 to 1, as Pillow resizes them."""
    found = []
    for pixels in (images * 255).round().byte().permute(0, 2, 3, 1).numpy():
        bilinear = run.Image.Resampling.BILINEAR
        picture = run.Image.fromarray(pixels).resize(size, bilinear)
        found.append(torch.from_numpy(np.array(picture)).permute(2, 0, 1))
    return torch.stack(found) / 255


def test_antialias_agrees_with_pillow(snippet):
    run = snippet.only(*RESIZED).after("resize")

    expected = resized_by_pillow(run, run.tiles, (8, 8))
    assert run.small.shape == (120, 3, 8, 8)
    assert (run.small - expected).abs().amax() * 255 < 1.01


@pytest.mark.parametrize(
    ("size", "smaller"),
    [((64, 64), (9, 20)), ((5, 7), (5, 3)), ((40, 41), (39, 12))],
    ids=["to 9 by 20", "to 5 by 3", "to 39 by 12"],
)
def test_antialias_agrees_with_pillow__also(snippet, size, smaller):
    run = after(snippet, *RESIZED)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(256, (9, 3, *size), generator=generator) / 255

    expected = resized_by_pillow(run, noise, smaller[::-1])
    found = run.F.interpolate(noise, smaller, mode="bilinear", antialias=True)
    assert (found - expected).abs().amax() * 255 < 1.01


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("options, antialias=True)\n\nprint", "options)\n\nprint"),
        ('"mode": "bilinear"', '"mode": "bicubic"'),
    ],
    ids=["without", "bicubic"],
)
def test_antialias_agrees_with_pillow__but_not(snippet, old, new, fails):
    """Without `antialias=True`, Pillow's result is another."""
    fails(test_antialias_agrees_with_pillow, snippet.edit(old, new))


LAYERS = (*TILES, "layers", "out-size")
GRID = [
    {"kernel": kernel, "stride": stride, "padding": padding, "dilation": gap}
    for kernel, stride, padding, gap in product(
        (1, 2, 3, 5), (1, 2, 3), (0, 1, 2), (1, 2)
    )
]


def size_of(layer, height, width):
    """Return the height and width that a layer gives, or none if it raises."""
    try:
        return tuple(layer(torch.zeros(1, 1, height, width)).shape[2:])
    except RuntimeError:
        return None


def settings(each):
    """Return settings under the names that a layer takes."""
    return {"kernel_size": each["kernel"], **each} | {"kernel": None}


def layers():
    """Yield many layers, and how each was set."""
    for each in GRID:
        kernel = each["kernel"]
        rest = {name: each[name] for name in each if name != "kernel"}
        yield nn.Conv2d(1, 1, kernel, **rest), each
        for ceil_mode in (False, True):
            if 2 * each["padding"] <= kernel:  # else the layer raises
                made = nn.MaxPool2d(kernel, **rest, ceil_mode=ceil_mode)
                yield made, {**each, "ceil_mode": ceil_mode}


def test_the_formula_gives_the_size(snippet, made=layers, more=()):
    run = snippet.only(*LAYERS).after("out-size")

    assert run.hidden.shape == (120, 16, 31, 31)
    assert run.out_size(64, 5, 2, 1) == 31
    assert run.pool(run.hidden).shape[2:] == (15, 15)
    assert run.pool_up(run.hidden).shape[2:] == (16, 16)
    for layer, each in (*made(), *more):
        for height, width in [(1, 2), (5, 8), (9, 31)]:
            with torch.no_grad():
                found = size_of(layer, height, width)
            sizes = tuple(run.out_size(n, **each) for n in (height, width))
            expected = sizes if min(sizes) > 0 else None
            assert (each, found) == (each, expected)


def test_the_formula_gives_the_size__also_for_average_pooling(snippet):
    def made():
        for ceil_mode in (False, True):
            each = {"kernel": 3, "stride": 2, "padding": 1}
            layer = nn.AvgPool2d(3, 2, 1, ceil_mode=ceil_mode)
            yield layer, {**each, "ceil_mode": ceil_mode}

    test_the_formula_gives_the_size(snippet, made)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n + 2 * padding - dil", "n + padding - dil"),
        ("dilation * (kernel - 1) - 1", "kernel"),
        ("room // stride\n", "-(-room // stride)\n"),
        ("    return steps + 1", "    return steps"),
        ("(steps + 1) * stride < n + padding", "True"),
        ("if ceil_mode and room % stride:", "if False:"),
        ("nn.MaxPool2d(2, ceil_mode=True)", "nn.MaxPool2d(2)"),
        ("kernel_size=5, stride=2, padding=1", "kernel_size=5, stride=2"),
    ],
    ids=[
        "one padding",
        "no dilation",
        "rounded up",
        "one less",
        "windows in the padding",
        "without ceil_mode",
        "another pool",
        "another convolution",
    ],
)
def test_the_formula_gives_the_size__but_not(snippet, old, new, fails):
    """Padding counts on both sides, and a window needs all its rows."""
    fails(test_the_formula_gives_the_size, snippet.edit(old, new))


def test_the_formula_gives_the_size__ends_when_transposed(snippet, fails):
    """`ConvTranspose2d` goes the other way: it makes pictures larger."""
    layer = nn.ConvTranspose2d(1, 1, 3, stride=2)
    more = [(layer, {"kernel": 3, "stride": 2})]
    fails(test_the_formula_gives_the_size, snippet, tuple, more)


def test_the_formula_gives_the_size__ends_with_much_padding(snippet, fails):
    """`MaxPool2d` raises an error if `padding` is more than half the
    kernel.
    """
    settings = {"kernel": 2, "stride": 2, "padding": 2}
    more = [(nn.MaxPool2d(2, 2, padding=2), settings)]
    fails(test_the_formula_gives_the_size, snippet, tuple, more)


def test_pooling_drops_the_last_row(snippet, more=()):
    run = snippet.only(*LAYERS).after("layers")

    own = run.hidden, torch.rand(1, 2, 5, 7), torch.rand(1, 1, 2, 9)
    for hidden in (*own, *more):
        height, width = (n // 2 for n in hidden.shape[2:])
        with no_error():
            found = run.pool(hidden)
        assert found.shape[2:] == (height, width)
        changed = hidden.clone()
        changed[..., 2 * height :, :] = changed[..., 2 * width :] = 1e6
        assert torch.equal(run.pool(changed), found)


@pytest.mark.parametrize(
    "new",
    ["(2, ceil_mode=True)", "(2, padding=1)", "(2, stride=1)", "(3)"],
    ids=["ceil_mode", "padding", "stride 1", "a window of 3"],
)
def test_pooling_drops_the_last_row__but_not_with(snippet, new, fails):
    """`ceil_mode=True` keeps the last row and column."""
    edited = snippet.edit(
        "pool = nn.MaxPool2d(2)", f"pool = nn.MaxPool2d{new}"
    )
    fails(test_pooling_drops_the_last_row, edited)


def test_pooling_drops_the_last_row__ends_at_a_single_row(snippet, fails):
    """Nothing would be left of a picture with one row, so it raises an
    error.
    """
    fails(test_pooling_drops_the_last_row, snippet, [torch.rand(1, 1, 1, 8)])


FEATURES = (*TILES, "layers", "features")


def test_a_run_tells_in_features(snippet, size=64):
    with no_error():
        run = snippet.only(*FEATURES).after("features")

    assert run.in_features == 16 * 15 * 15 == 3600
    with no_error():
        scores = run.model(torch.zeros(5, 3, size, size))
    assert scores.shape == (5, 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.zeros(1, 3, 64, 64)", "torch.zeros(1, 3, 32, 32)"),
        ("shape[1]\nmodel", "shape[0]\nmodel"),
        ("pool, nn.Flatten())\n", "pool)\n"),
    ],
    ids=["other tiles", "the batch", "not flattened"],
)
def test_a_run_tells_in_features__but_not(snippet, old, new, fails):
    """Zeros of another size tell another number."""
    fails(test_a_run_tells_in_features, snippet.edit(old, new))


def test_a_run_tells_in_features__ends_at_another_size(snippet, fails):
    """For pictures of another size, the linear layer raises an error."""
    fails(test_a_run_tells_in_features, snippet, 128)


ANY_SIZE = (*TILES, "layers", "any-size")


def test_adaptive_pooling_takes_any_size(
    snippet, sizes=((64, 64), (427, 640), (3, 9), (100, 7))
):
    with no_error():
        run = snippet.only(*ANY_SIZE).after("any-size")

    for size in sizes:
        with no_error():
            scores = run.for_any_size(torch.zeros(2, 3, *size))
        assert scores.shape == (2, 2)


@pytest.mark.parametrize(
    "new",
    ["nn.AvgPool2d(31)", "nn.AdaptiveAvgPool2d(2)"],
    ids=["a fixed window", "four numbers"],
)
def test_adaptive_pooling_takes_any_size__but_not(snippet, new, fails):
    """A fixed window fits one size alone."""
    edited = snippet.edit("nn.AdaptiveAvgPool2d(1)", new)
    fails(test_adaptive_pooling_takes_any_size, edited)


def test_adaptive_pooling_takes_any_size__ends_below_the_kernel(
    snippet, fails
):
    """A picture smaller than the kernel of the convolution raises an error."""
    fails(test_adaptive_pooling_takes_any_size, snippet, ((2, 2),))


SCRAMBLED = ("read", "photo", "pixel", "scrambled")


def test_reshape_scrambles(snippet):
    with no_error():
        run = snippet.only(*SCRAMBLED).after("scrambled")

    assert run.scrambled.shape == run.image.shape
    assert run.scrambled.dtype == run.image.dtype
    again = (run.scrambled == run.image).float().mean().item()
    assert type(run.share) is float
    assert run.share == again < 0.05
    viewed = torch.from_numpy(run.pixels).view(run.image.shape) / 255
    assert torch.equal(viewed, run.scrambled)
    order = [
        each.flatten().sort().values for each in (run.scrambled, run.image)
    ]
    assert torch.equal(*order)


@pytest.mark.parametrize(
    "new",
    ["permute(2, 0, 1)", "flatten(0, 1).T.reshape(3, height, width)"],
    ids=["permute", "transposed first"],
)
def test_reshape_scrambles__but_not(snippet, new, fails):
    """`permute` takes each number along with its pixel."""
    edited = snippet.edit("reshape(3, height, width)", new)
    fails(test_reshape_scrambles, edited)


def test_reshape_scrambles__also_the_temple(snippet):
    edited = snippet.edit("image = read(flower)", "image = read(temple)")
    edited = edited.edit(
        "with Image.open(flower) as file:\n    size",
        "with Image.open(temple) as file:\n    size",
    )
    test_reshape_scrambles(edited)


def test_reshape_scrambles__ends_for_one_color(snippet, fails):
    """A picture of a single gray looks the same in any order."""
    edited = snippet.edit(
        "image = read(flower)\n", "image = torch.full((3, 427, 640), 0.2)\n"
    ).edit("height, width, _ =", "pixels[:] = 51\nheight, width, _ =")
    fails(test_reshape_scrambles, edited)


TURNED = ("read", "photo", "pixel", "turned")


def test_exif_transpose_turns_upright(snippet, turn=lambda x: np.rot90(x, -1)):
    with no_error():
        run = snippet.only(*TURNED).after("turned")

    assert np.array_equal(run.opened, run.pixels)
    assert run.upright.shape == (640, 427, 3)
    assert np.array_equal(run.upright, turn(run.pixels))
    assert torch.equal(run.read(run.phone), run.image.rot90(-1, (1, 2)))


def test_exif_transpose_turns_upright__also_as_jpeg(snippet):
    run = after(snippet, *TURNED)
    phone = run.BytesIO()
    picture = run.Image.fromarray(run.pixels)
    picture.save(phone, "JPEG", exif=run.exif, quality=95)
    found = run.read(phone)
    assert found.shape == (3, 640, 427)
    assert (found - run.image.rot90(-1, (1, 2))).abs().mean() < 0.02


@pytest.mark.parametrize(
    ("orientation", "turn"),
    [
        (2, np.fliplr),
        (3, lambda pixels: np.rot90(pixels, 2)),
        (4, np.flipud),
        (5, lambda pixels: pixels.swapaxes(0, 1)),
        (7, lambda pixels: np.rot90(pixels, 2).swapaxes(0, 1)),
        (8, np.rot90),
    ],
    ids=[
        "mirrored",
        "upside down",
        "upside down and mirrored",
        "on its left side and mirrored",
        "on its right side and mirrored",
        "on its right side",
    ],
)
def test_exif_transpose_turns_upright__also(snippet, orientation, turn):
    run = after(snippet, *TURNED)
    exif, phone = run.Image.Exif(), run.BytesIO()
    exif[0x0112] = orientation
    pixels = run.pixels[:40, :60]
    run.Image.fromarray(pixels).save(phone, "PNG", exif=exif)

    with run.Image.open(phone) as file:
        assert np.array_equal(np.array(file), pixels)
        upright = np.array(run.ImageOps.exif_transpose(file))
    assert np.array_equal(upright, turn(pixels))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.array(ImageOps.exif_transpose(file))", "np.array(file)"),
        ("exif[0x0112] = 6 ", "exif[0x0112] = 8 "),
        (
            "opened, upright = np.array(file),",
            "opened, upright = np.array(ImageOps.exif_transpose(file)),",
        ),
    ],
    ids=["without it", "another note", "opened with it"],
)
def test_exif_transpose_turns_upright__but_not(snippet, old, new, fails):
    """Without `exif_transpose`, the photo lies as the sensor saw it."""
    fails(test_exif_transpose_turns_upright, snippet.edit(old, new))


def test_exif_transpose_turns_upright__ends_without_a_note(snippet, fails):
    """If a program has saved the photo without its EXIF data, nothing tells
    which side is up.
    """
    edited = snippet.edit('"PNG", exif=exif', '"PNG"')
    fails(test_exif_transpose_turns_upright, edited)


def test_exif_transpose_turns_upright__ends_for_a_tiff(snippet, fails):
    """Pillow turns a TIFF by itself, when it reads the pixels."""
    edited = snippet.edit('"PNG", exif=exif', '"TIFF", exif=exif')
    fails(test_exif_transpose_turns_upright, edited)


def test_bytes_wrap_around(snippet):
    run = snippet.only("read", "wrapped").after("wrapped")

    assert run.brighter.tolist() == [110, 200, 44]
    assert run.darker.tolist() == [246, 80, 180]
    assert run.brighter.dtype == run.darker.dtype == torch.uint8
    raw = torch.arange(256, dtype=torch.uint8)
    for number in (1, 100, 255):
        assert torch.equal(raw + number, ((raw.int() + number) % 256).byte())
        assert torch.equal(raw - number, ((raw.int() - number) % 256).byte())
        assert torch.equal(raw * number, ((raw.int() * number) % 256).byte())
        assert torch.equal(raw - raw.flip(0), (2 * raw.int() - 255).byte())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[10, 100, 200], dtype=torch.uint8", "[10, 100, 200]"),
        ("brighter = raw + 100\n", "brighter = raw + 100.0\n"),
        (
            "brighter = raw + 100\n",
            "brighter = (raw.int() + 100).clamp(0, 255)\n",
        ),
    ],
    ids=["int64", "a float", "clamped"],
)
def test_bytes_wrap_around__but_not(snippet, old, new, fails):
    """Wider numbers have room for 300 and for -10."""
    fails(test_bytes_wrap_around, snippet.edit(old, new))


def test_bytes_wrap_around__ends_in_a_division(snippet, fails):
    """`raw / 2` gives `float32`, which does not wrap."""
    edited = snippet.edit("raw + 100\n", "(raw / 0.5)\n")
    fails(test_bytes_wrap_around, edited)


def test_bytes_wrap_around__ends_beside_another_dtype(snippet, fails):
    """Added to a tensor of `int64`, the sum is `int64`, and has room."""
    edited = snippet.edit("raw + 100\n", "raw + torch.tensor([100])\n")
    fails(test_bytes_wrap_around, edited)


def test_bytes_wrap_around__also_in_the_exercise(snippet):
    run = snippet.only("read", "quiz").after("quiz")

    assert (run.tile + 10).tolist() == [10, 110, 4]


FED = (*RESIZED, "layers", "fit", "wrong-range")


def accuracies(run, seed=0):
    """Return the accuracy of a model for each way to feed it."""
    model = run.fit(run.normalize(run.small[run.train]), seed)
    return {
        name: run.accuracy(model, inputs).item()
        for name, inputs in run.fed.items()
    }


def test_the_wrong_range_is_silent(snippet, seed=0):
    with no_error():
        run = snippet.only(*FED).after("wrong-range")
        found = accuracies(run, seed)

    fed = run.fed
    again = run.fit(run.normalize(run.small[run.train]))
    for inputs in fed.values():
        assert torch.allclose(run.trained(inputs), again(inputs), rtol=1e-3)
    assert torch.equal(fed["0 to 1"], run.small[run.valid])
    assert torch.equal(fed["0 to 255"], fed["0 to 1"] * 255)
    assert found["normalized"] > 0.8
    assert found["0 to 1"] < 0.65
    assert found["0 to 255"] < 0.65


@pytest.mark.parametrize("seed", [1])
def test_the_wrong_range_is_silent__also_from(snippet, seed):
    test_the_wrong_range_is_silent(snippet, seed)


def test_the_wrong_range_is_silent__also_with_two_threads(snippet):
    before = torch.get_num_threads()
    torch.set_num_threads(3 - min(before, 2))
    try:
        test_the_wrong_range_is_silent(snippet)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"0 to 1": unseen,', '"0 to 1": normalize(unseen),'),
        ('"0 to 255": unseen * 255', '"0 to 255": normalize(unseen)'),
    ],
    ids=["of 0 to 1", "of 0 to 255"],
)
def test_the_wrong_range_is_silent__but_not_normalized(
    snippet, old, new, fails
):
    """Pixels that are normalized as in training are recognized."""
    fails(test_the_wrong_range_is_silent, snippet.edit(old, new))


def test_the_wrong_range_is_silent__but_not_untrained(snippet, fails):
    """A model that has not learned has no accuracy to lose."""
    edited = snippet.edit("in range(60)", "in range(0)")
    fails(test_the_wrong_range_is_silent, edited)


def test_twice_is_off(snippet):
    run = snippet.only(*FED, "look").after("look")

    red = 255 * run.small[run.valid, 0]
    stated = [red.mean(), red.std(), red.amin(), red.amax()]
    assert torch.allclose(torch.stack(run.numbers), torch.stack(stated))
    train = run.tiles[run.train]
    means, stds = channels(run.normalize(run.normalize(train)))
    assert torch.allclose(means, -run.mean / run.std, atol=1e-3)
    assert torch.allclose(stds, 1 / run.std, atol=1e-3)
    means, stds = channels(run.fed["normalized twice"])
    assert (means < -0.5).all()
    assert (stds > 2).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("normalize(normalize(unseen))", "normalize(unseen)"),
        (
            "    return (images - mean[:, None, None]) / std[:, None, None]",
            "    return images - mean[:, None, None]",
        ),
    ],
    ids=["once", "without a division"],
)
def test_twice_is_off__but_not(snippet, old, new, fails):
    """Normalized once, the mean is near 0 and the deviation near 1."""
    fails(test_twice_is_off, snippet.edit(old, new))
