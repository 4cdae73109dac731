"""The claims of docs/course/predict.md."""

from functools import partial

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import Snippet, after
from tests.helpers.programs import raised_in, resumed
from tests.helpers.worlds import each

LOAD = ("so-far", "folder", "save", "load")
FILE = (*LOAD, "draw", "prepare", "predict")
TRAINED = (*FILE, "guess", "ways")


def after_epochs(count, snippet, first, *others):
    """Run these cells; the first, which trains the model, only once."""
    text = snippet.text.replace("range(10)", f"range({count})")
    return resumed(Snippet(snippet.path, text), first, others)


# A model that is nearly as good, and cheaper; and one that says less for sure.
after_four_epochs = partial(after_epochs, 4)
after_one_epoch = partial(after_epochs, 1)


def with_seed(snippet, seed):
    """Return the program with other random numbers for the model."""
    return snippet.edit("torch.manual_seed(0)", f"torch.manual_seed({seed})")


def shown(model, image):
    """Return the class that a model names, and its probability."""
    model.eval()
    with torch.no_grad():
        scores = model(image[None])
    probability, best = scores.softmax(dim=1)[0].max(dim=0)
    return best, probability.item()


def drawn(run, image, size=80, mode="L"):
    """Return a digit as black ink on white paper."""
    ink = (image[0] * 255).round().byte().numpy()
    paper = run.Image.fromarray(255 - ink)
    nearest = run.Image.Resampling.NEAREST
    return paper.resize((size, size), nearest).convert(mode)


# Do this


def test_the_file_gets_the_name_of_the_digit(snippet, cells=FILE):
    run = after_one_epoch(snippet, *cells)

    assert run.gray.size == (80, 80)
    best, probability = shown(run.model, run.digit)
    assert run.name == run.words.split()[best]
    assert run.probability == pytest.approx(probability, abs=0.01)
    for place in run.test[:20]:
        path = run.folder / "other.png"
        drawn(run, run.images[place]).save(path)
        name, probability = run.predict(path)
        path.unlink()
        best, expected = shown(run.model, run.images[place])
        assert probability == pytest.approx(expected, abs=0.02)
        assert name == run.words.split()[best]


@pytest.mark.parametrize("seed", [1])
def test_the_file_gets_the_name_of_the_digit__also_from_seed(snippet, seed):
    edited = with_seed(snippet, seed)
    test_the_file_gets_the_name_of_the_digit(edited)


def test_the_file_gets_the_name_of_the_digit__also_after_ten_epochs(snippet):
    run = after(snippet, *TRAINED)

    best, probability = shown(run.model, run.digit)
    assert best == run.labels[run.test[21]] == 6
    assert run.name == "six"
    _, found = run.predict(run.folder / "gray.png")
    assert found == pytest.approx(probability, abs=0.01)


def test_the_file_gets_the_name_of_the_digit__also_on_the_device_at_hand(
    snippet,
):
    run = after_one_epoch(snippet, *FILE)

    device = torch.device("cpu")
    if torch.accelerator.is_available():
        device = torch.accelerator.current_accelerator()
    moved = run.Net().to(device)
    moved.load_state_dict(run.saved["weights"])
    picture = run.prepare(run.folder / "gray.png").to(device)
    best, probability = shown(moved, picture[0])
    assert run.names[best] == run.name
    assert probability == pytest.approx(run.probability, abs=0.01)


def test_the_file_gets_the_name_of_the_digit__also_with_the_next_two(snippet):
    run = after_one_epoch(snippet, *FILE, "top-three", "top-three-checked")

    ranked = run.loaded(run.prepare(run.folder / "gray.png"))[0]
    best = ranked.argsort(descending=True)[:3]
    assert run.found == run.expected == [run.names[each] for each in best]


@edits(
    ('loaded.load_state_dict(saved["weights"])\n', ""),
    ("pixels = 1 - light", "pixels = light"),
    (
        "torch.tensor(np.array(small)) / 255",
        "torch.tensor(np.array(small)).float()",
    ),
    (
        "torch.tensor(np.array(small)) / 255",
        "torch.tensor(np.array(small)).mT / 255",
    ),
    ('saved["names"][best]', 'sorted(saved["names"])[best]'),
    (
        "softmax(dim=1)[0].max(dim=0)\n    return",
        "sigmoid()[0].max(dim=0)\n    return",
    ),
)
def test_the_file_gets_the_name_of_the_digit__but_not(
    snippet, old, new, fails
):
    """Each of these edits changes the weights, the pixels or the name."""
    fails(test_the_file_gets_the_name_of_the_digit, snippet.edit(old, new))


DROPOUT = (
    "return self.linear(x.flatten(1))",
    "return self.linear(F.dropout(x.flatten(1), 0.5, self.training))",
)


def test_the_file_gets_the_name_of_the_digit__also_with_dropout(snippet):
    test_the_file_gets_the_name_of_the_digit(snippet.edit(*DROPOUT))


def test_the_file_gets_the_name_of_the_digit__but_not_without_eval(
    snippet, fails
):
    """If the model has dropout, `eval()` is needed as well."""
    edited = snippet.edit(*DROPOUT).edit("loaded.eval()\n", "")
    fails(test_the_file_gets_the_name_of_the_digit, edited)


# What is in the file


def test_six_tensors_hold_all_parameters(snippet):
    run = after_one_epoch(snippet, *LOAD)

    weights = run.saved["weights"]
    parameters = dict(run.model.named_parameters())
    assert list(weights) == list(parameters)
    assert [each.partition(".")[0] for each in weights] == [
        *("conv1", "conv1", "conv2", "conv2", "linear", "linear")
    ]
    for name, parameter in parameters.items():
        assert torch.equal(weights[name], parameter)
    assert sum(each.numel() for each in weights.values()) == 6090
    assert len(weights) == 6


@edits(
    (
        "self.linear = nn.Linear(128, 10)",
        "self.linear = nn.Linear(128, 10, bias=False)",
    ),
    (
        "torch.save({",
        "weights = {k.upper(): v for k, v in weights.items()}\ntorch.save({",
    ),
    (
        "torch.save({",
        "weights = {k: v * 0 for k, v in weights.items()}\ntorch.save({",
    ),
)
def test_six_tensors_hold_all_parameters__but_not(snippet, old, new, fails):
    """Without a bias there are five tensors; other names or numbers are not
    those of the model.
    """
    edited = snippet.edit(old, new).edit(
        'loaded.load_state_dict(saved["weights"])\n', ""
    )
    fails(test_six_tensors_hold_all_parameters, edited)


def test_six_tensors_hold_all_parameters__ends_with_batch_norm(snippet, fails):
    """BatchNorm adds running numbers, which are no parameters."""
    old = "self.linear = nn.Linear(128, 10)"
    edited = snippet.edit(old, f"{old}\n        self.norm = nn.BatchNorm2d(1)")
    fails(test_six_tensors_hold_all_parameters, edited)


# From a picture to a tensor


def test_prepare_brings_each_pixel_back(snippet, ending="png"):
    run = after(snippet.edit("range(10)", "range(0)"), *FILE, "by-hand")

    assert run.digits.images[run.test[21], 0, 3] == 10
    assert run.digit[0, 0, 3] == 0.625
    assert run.gray.getpixel((35, 5)) == 96
    assert run.pixels[0, 0, 3].item() == pytest.approx(1 - 96 / 255)
    torch.testing.assert_close(run.pixels, run.digit, atol=0.002, rtol=0)
    for image in run.images[:40]:
        path = run.folder / f"other.{ending}"
        drawn(run, image).save(path)
        found = run.prepare(path)
        path.unlink()
        assert found.shape == (1, 1, 8, 8)
        torch.testing.assert_close(found[0], image, atol=0.002, rtol=0)


@edits(
    (
        "torch.tensor(np.array(small)) / 255",
        "torch.tensor(np.array(small)).float()",
    ),
    ("/ 255  # black", "/ 256  # black"),
    (
        "torch.tensor(np.array(small)) / 255",
        "torch.tensor(np.array(small)).mT / 255",
    ),
    ("pixels = 1 - light", "pixels = light"),
    ("Resampling.BOX", "Resampling.BICUBIC"),
)
def test_prepare_brings_each_pixel_back__but_not(snippet, old, new, fails):
    """Each of these edits gives other pixels."""
    fails(test_prepare_brings_each_pixel_back, snippet.edit(old, new))


def test_prepare_brings_each_pixel_back__ends_in_a_jpeg(snippet, fails):
    """A JPEG changes pixels as it shrinks the file: in a picture of 8 by 8, by
    more than 0.1.
    """
    fails(test_prepare_brings_each_pixel_back, snippet, "jpg")


# Files of other kinds


KINDS = {
    "RGB": lambda run, image: drawn(run, image, mode="RGB"),
    "RGBA": lambda run, image: drawn(run, image, mode="RGBA"),
    "a palette": lambda run, image: drawn(run, image, mode="P"),
    "8 x 8": lambda run, image: drawn(run, image, 8),
    "28 x 28": lambda run, image: drawn(run, image, 28),
    "100 x 100": lambda run, image: drawn(run, image, 100),
    "640 x 640": lambda run, image: drawn(run, image, 640),
}


def keeps_the_name(run, draw, extension="png"):
    """Check that files of one kind give sure digits their names."""
    path = run.folder / f"other.{extension}"
    tried = 0
    for place in run.test[:25]:
        best, probability = shown(run.model, run.images[place])
        if probability < 0.8:  # another name is close
            continue
        draw(run, run.images[place]).save(path)
        found = run.predict(path)
        path.unlink()
        assert found[0] == run.names[best]
        tried += 1
    assert tried >= 10


def test_other_files_keep_the_name(snippet):
    with no_error():
        run = after_four_epochs(snippet, *FILE, "other-files")

    for name, mode in {"gray": "L", "color": "RGB"}.items():
        with run.Image.open(run.folder / f"{name}.png") as picture:
            assert picture.mode == mode
    with run.Image.open(run.folder / "large.png") as picture:
        assert picture.size == (200, 200)
    expected, probability = run.predict(run.folder / "gray.png")
    assert expected == run.names[shown(run.model, run.digit)[0]]
    for name in ("color", "large"):
        found = run.predict(run.folder / f"{name}.png")
        assert found[0] == expected
        assert found[1] == pytest.approx(probability, abs=0.1)
    with no_error():
        keeps_the_name(run, KINDS["RGBA"])


@each("draw", KINDS)
def test_other_files_keep_the_name__also_as(snippet, draw):
    run = after_four_epochs(snippet, *FILE)
    keeps_the_name(run, draw)


@pytest.mark.parametrize("extension", ["jpg", "bmp", "gif", "tiff"])
def test_other_files_keep_the_name__also_in_a(snippet, extension):
    run = after_four_epochs(snippet, *FILE)
    keeps_the_name(run, drawn, extension)


@edits(
    ('picture.convert("L")', "picture.copy()"),
    ("gray.resize((8, 8), Image.Resampling.BOX)", "gray"),
    ("Image.Resampling.BOX)", "Image.Resampling.BOX, (0, 0, 40, 40))"),
)
def test_other_files_keep_the_name__but_not(snippet, old, new, fails):
    """Three channels in place of one, the whole size in place of 8 by 8, or
    one corner: each goes wrong for some file.
    """
    fails(test_other_files_keep_the_name, snippet.edit(old, new))


LARGE = 'gray.resize((200, 200)).save(folder / "large.png")'


def test_other_files_keep_the_name__ends_with_white_ink(snippet, fails):
    """White ink on black paper goes in inverted: invert the file first."""
    white = (
        "light = gray.resize((200, 200))\n"
        "white = Image.eval(light, lambda light: 255 - light)\n"
        'white.save(folder / "large.png")'
    )
    fails(test_other_files_keep_the_name, snippet.edit(LARGE, white))


def test_other_files_keep_the_name__ends_on_a_transparent_background(
    snippet, fails
):
    """Transparent pixels may be black underneath, and so is the ink."""
    black = (
        'black = Image.new("RGB", (200, 200), "black")\n'
        "light = gray.resize((200, 200))\n"
        "black.putalpha(Image.eval(light, lambda light: 255 - light))\n"
        'black.save(folder / "large.png")'
    )
    fails(test_other_files_keep_the_name, snippet.edit(LARGE, black))


def test_other_files_keep_the_name__ends_for_a_photo_on_its_side(
    snippet, fails
):
    """A photo that its EXIF data say to turn goes in as it lies: `prepare`
    does not read them.
    """
    lying = (
        "exif = Image.Exif()\n"
        "exif[0x0112] = 6  # a quarter turn\n"
        "side = gray.resize((200, 200)).transpose(Image.Transpose.ROTATE_90)\n"
        'side.save(folder / "large.png", exif=exif)'
    )
    fails(test_other_files_keep_the_name, snippet.edit(LARGE, lying))


def test_other_files_keep_the_name__ends_with_16_bits_a_pixel(snippet, fails):
    """A gray PNG with 16 bits a pixel is cut off at 255: gray turns white."""
    deep = (
        "light = np.array(gray.resize((200, 200))).astype(np.uint16)\n"
        'Image.fromarray(light * 257).save(folder / "large.png")'
    )
    fails(test_other_files_keep_the_name, snippet.edit(LARGE, deep))


# What goes wrong


def test_wrong_pixels_are_silent(snippet, after=after):
    with no_error():
        run = after(snippet, *TRAINED)

    assert run.judged["as in training"][0] > 0.9
    for way in ("inverted", "transposed"):
        right, _ = run.judged[way]
        assert right < 0.25


def test_wrong_pixels_are_silent__also_for_our_six(snippet):
    run = after(snippet, *TRAINED)

    assert run.names[run.best] != "six"
    assert run.probability == pytest.approx(shown(run.model, 1 - run.digit)[1])


@pytest.mark.parametrize("seed", [0, 1])
def test_wrong_pixels_are_silent__also_after_four_epochs_from(snippet, seed):
    test_wrong_pixels_are_silent(with_seed(snippet, seed), after_four_epochs)


@edits(("1 - x", "x"), ("x.mT", "x"))
def test_wrong_pixels_are_silent__but_not(snippet, old, new, fails):
    """Prepared as in training, most names are right."""
    edited = snippet.edit(old, new)
    fails(test_wrong_pixels_are_silent, edited, after_four_epochs)


def test_wrong_names_look_sure(snippet, after=after):
    run = after(snippet, *TRAINED)

    right, sure = run.judged["transposed"]
    with torch.no_grad():
        scores = run.loaded(run.images[run.test].mT)
    probability, best = scores.softmax(dim=1).max(dim=1)
    wrong = best != run.labels[run.test]
    assert right == pytest.approx(1 - wrong.double().mean().item())
    assert sure == pytest.approx(probability[wrong].mean().item())
    assert sure > 0.8


@pytest.mark.parametrize("seed", [0, 1])
def test_wrong_names_look_sure__also_after_four_epochs_from(snippet, seed):
    test_wrong_names_look_sure(with_seed(snippet, seed), after_four_epochs)


@edits(("range(10)", "range(1)"), ("x.mT", "x.mT / 16"))
def test_wrong_names_look_sure__but_not(snippet, old, new, fails):
    """After one epoch, or with fainter ink, the model is less sure."""
    edited = snippet.edit(old, new)
    fails(test_wrong_names_look_sure, edited, after_four_epochs)


def refusal(snippet):
    """Return the error of the cell `changed`, as text."""
    untrained = snippet.edit("range(10)", "range(0)")
    error = raised_in(untrained.only(*LOAD, "changed"), "changed")
    return str(error or "")


def test_other_layers_raise(snippet):
    said = refusal(snippet)

    first = said[said.index("size mismatch") :] if "size" in said else ""
    assert first.startswith("size mismatch for linear.weight")
    assert 0 < first.find("[10, 128]") < first.find("[26, 128]")
    assert "Missing" not in said


def test_other_layers_raise__also_for_a_convolution(snippet):
    old = "letters.linear = nn.Linear(128, 26)"
    new = "letters.conv1 = nn.Conv2d(3, 16, 3, padding=1)"

    said = refusal(snippet.edit(old, new))
    assert "size mismatch for conv1.weight" in said
    assert said.index("[16, 1, 3, 3]") < said.index("[16, 3, 3, 3]")


def test_other_layers_raise__but_not_with_ten_classes(snippet, fails):
    """With ten classes, as in the file, `letters` loads."""
    edited = snippet.edit("nn.Linear(128, 26)", "nn.Linear(128, 10)")
    fails(test_other_layers_raise, edited)


def test_other_layers_raise__but_not_from_a_file_of_letters(snippet, fails):
    """A file that was saved with 26 classes loads."""
    old = "self.linear = nn.Linear(128, 10)"
    edited = snippet.edit(old, old.replace("10", "26"))
    fails(test_other_layers_raise, edited)


def test_other_layers_raise__ends_at_other_names(snippet, fails):
    """A layer whose name the file doesn't have is called `Missing key(s)`."""
    old = "letters.linear = nn.Linear(128, 26)"
    edited = snippet.edit(old, "letters.hidden = nn.Linear(128, 26)")
    fails(test_other_layers_raise, edited)
