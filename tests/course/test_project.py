"""The claims of docs/course/project.md."""

import random

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

SOLUTION = (
    "so-far",
    "find-pictures",
    "read-picture",
    "split",
    "make-model",
    "train",
    "save-and-load",
    "predict",
    "command-line",
)
CLASSES = ["eel", "cat", "hen", "ant", "dog", "fox", "bee", "gnu"]


def trained(snippet):
    """Run all that trains, and what comes after, once for several tests."""
    cells = ("draw", "run", "judge", "hexagon")
    checked = ("predict-all", "predict-all-checked")
    return after(snippet, *SOLUTION, *cells, *checked)


def made(run, folder, classes, names=("1.png",)):
    """Fill a folder for each class with files, and return the folder."""
    for each in classes:
        (folder / each).mkdir()
        for name in names:
            (folder / each / name).write_bytes(b"")
    return folder


# 1. Find the pictures


def test_classes_are_sorted(snippet, tmp_path, classes=CLASSES):
    run = after(snippet, "find-pictures")
    folder = made(run, tmp_path, classes, ["2.png", "10.JPG", "1.jpeg"])
    alphabetical = sorted(classes, key=str.lower)

    pictures, names = run.find_pictures(folder)

    assert names == alphabetical
    found = [path.parent.name for path, _ in pictures]
    assert found == [name for name in alphabetical for _ in range(3)]
    assert [names[label] for _, label in pictures] == found
    in_folders = {}
    for path, _ in pictures:
        in_folders.setdefault(path.parent.name, []).append(path.name)
    assert [*in_folders.values()] == [["1.jpeg", "10.JPG", "2.png"]] * 8


def test_classes_are_sorted__also_of_a_folder_given_as_text(snippet, tmp_path):
    run = after(snippet, "find-pictures")
    made(run, tmp_path, CLASSES)

    pictures, names = run.find_pictures(str(tmp_path))

    assert (pictures, names) == run.find_pictures(tmp_path)
    assert names == sorted(CLASSES)
    assert [label for _, label in pictures] == [*range(8)]


def test_classes_are_sorted__but_not_in_reverse(snippet, tmp_path, fails):
    """The names are a set, which has no order of its own."""
    old = "names = sorted({path.parent.name for path in paths})"
    new = "names = sorted({path.parent.name for path in paths})[::-1]"
    edited = snippet.edit(old, new)
    fails(test_classes_are_sorted, edited, tmp_path)


def test_classes_are_sorted__ends_with_capital_letters(
    snippet, tmp_path, fails
):
    """Python sorts `Zebra` before `ant`, because capitals come first."""
    classes = ["Zebra", "cat", "hen", "ant", "dog", "fox", "bee", "gnu"]
    fails(test_classes_are_sorted, snippet, tmp_path, classes)


def test_other_files_are_left_out(
    snippet, tmp_path, names=("notes.txt", ".DS_Store", "1.png.part", "png")
):
    run = after(snippet, "find-pictures")
    made(run, tmp_path, ["cup", "plate"], ["1.png", *names])
    (tmp_path / "empty").mkdir()
    (tmp_path / "2.png").write_bytes(b"")

    pictures, found = run.find_pictures(tmp_path)

    assert [path.name for path, _ in pictures] == ["1.png", "1.png"]
    assert found == ["cup", "plate"]


def test_other_files_are_left_out__but_not_by_this_list(
    snippet, tmp_path, fails
):
    """A text file counts as a picture if its ending is in the list."""
    edited = snippet.edit('".webp"]', '".webp", ".txt"]')
    fails(test_other_files_are_left_out, edited, tmp_path)


def test_other_files_are_left_out__ends_with_a_false_ending(
    snippet, tmp_path, fails
):
    """A note that is called `notes.png` is taken for a picture."""
    fails(test_other_files_are_left_out, snippet, tmp_path, ["notes.png"])


def test_other_files_are_left_out__ends_with_the_files_of_a_mac(
    snippet, tmp_path, fails
):
    """What a Mac notes about `1.png` on other disks and in ZIP files is called
    `._1.png`, and is taken for a picture.
    """
    fails(test_other_files_are_left_out, snippet, tmp_path, ["._1.png"])


# 2. Read a picture


def test_any_picture_fits(
    snippet, tmp_path, mode="RGB", size=(90, 40), ending="png", depth=None
):
    run = after(snippet, "so-far", "read-picture")
    path = tmp_path / f"picture.{ending}"
    image = run.Image.new("RGB", size, "black")
    image.paste("white", (size[0] // 2, 0, *size))
    image = image.convert(mode)
    if depth:
        image = image.point(lambda gray: gray + 300).convert(depth)
    image.save(path)

    with no_error():
        pixels = run.read_picture(path)

    assert (pixels.shape, pixels.dtype) == ((3, 32, 32), torch.float32)
    if size[0] > 8:
        assert pixels[:, :, :12].max() < 0.1
        assert pixels[:, :, 20:].min() > 0.9
    assert 0 <= pixels.min() <= pixels.max() <= 1


@pytest.mark.parametrize(
    ("mode", "ending"),
    [
        pytest.param("L", "png", id="gray"),
        pytest.param("1", "png", id="black and white"),
        pytest.param("P", "gif", id="a palette"),
        pytest.param("RGBA", "png", id="transparency"),
        pytest.param("LA", "png", id="gray with transparency"),
        pytest.param("RGB", "jpg", id="JPEG"),
        pytest.param("CMYK", "jpg", id="the colors of printers"),
        pytest.param("RGB", "bmp", id="BMP"),
        pytest.param("RGB", "webp", id="WebP"),
    ],
)
def test_any_picture_fits__also_with(snippet, tmp_path, mode, ending):
    test_any_picture_fits(snippet, tmp_path, mode, ending=ending)


@pytest.mark.parametrize(
    "size",
    [(1, 1), (32, 32), (2000, 30), (33, 900)],
    ids="{0[0]} x {0[1]}".format,
)
def test_any_picture_fits__also_of_size(snippet, tmp_path, size):
    test_any_picture_fits(snippet, tmp_path, size=size)


@edits(
    ('convert("RGB").resize((32, 32))', 'convert("RGB")'),
    ("permute(2, 0, 1)", "permute(2, 1, 0)"),
    ("(2, 0, 1) / 255", "(2, 0, 1)"),
)
def test_any_picture_fits__but_not(snippet, tmp_path, old, new, fails):
    """The shape, the order of the axes or the numbers are others."""
    fails(test_any_picture_fits, snippet.edit(old, new), tmp_path)


def test_any_picture_fits__but_not_in_gray(snippet, tmp_path, fails):
    """A gray picture that nobody converts has no axis of colors."""
    old = 'small = image.convert("RGB").resize'
    edited = snippet.edit(old, "small = image.resize")
    fails(test_any_picture_fits, edited, tmp_path, "L")


def test_any_picture_fits__ends_at_sixteen_bits(snippet, tmp_path, fails):
    """Of 16 bits for each pixel, all above 255 becomes white."""
    deep = "I;16"
    fails(test_any_picture_fits, snippet, tmp_path, "I", (90, 40), "png", deep)


def test_any_picture_fits__ends_where_pillow_refuses_its_size(
    snippet, tmp_path, fails, monkeypatch
):
    """Pillow opens up to 178,956,970 pixels: here, up to 2,000."""
    image = after(snippet, "find-pictures", "read-picture").Image
    assert image.MAX_IMAGE_PIXELS * 2 == 178_956_970
    monkeypatch.setattr(image, "MAX_IMAGE_PIXELS", 1000)
    fails(test_any_picture_fits, snippet, tmp_path, "RGB", (90, 40))


# 3. Split them


def pictures_of(count):
    """Return so many pairs of a path and a class number."""
    return [(f"{number}.png", number % 3) for number in range(count)]


def test_each_picture_is_in_one_part(snippet, count=100):
    run = after(snippet, "so-far", "split")
    pictures = pictures_of(count)

    train, valid = run.split(pictures)

    assert sorted(train + valid) == sorted(pictures)
    assert len(valid) == count // 5
    assert pictures == pictures_of(count)
    if count >= 30:  # and not the first ones alone
        assert {label for _, label in valid} == {0, 1, 2}
        assert valid != pictures[: count // 5]


@pytest.mark.parametrize("count", [0, 1, 5, 7, 30, 999])
def test_each_picture_is_in_one_part__also_of(snippet, count):
    test_each_picture_is_in_one_part(snippet, count)


@edits(
    (
        "in both parts",
        "shuffled[count:], shuffled[:count]",
        "shuffled, shuffled[:count]",
    ),
    (
        "in none",
        "shuffled[count:], shuffled[:count]",
        "shuffled[count + 1 :], shuffled[:count]",
    ),
)
def test_each_picture_is_in_one_part__but_not(snippet, old, new, fails):
    """The slices overlap, or leave a gap."""
    fails(test_each_picture_is_in_one_part, snippet.edit(old, new))


def test_the_split_stays(snippet, more=()):
    run = after(snippet, "so-far", "split")
    pictures = pictures_of(100)
    torch.manual_seed(1)
    first = run.split(pictures)
    torch.manual_seed(2)
    random.seed(3)
    second = run.split([*pictures, *more])

    held = [{*valid} for _, valid in (first, second)]
    assert [*held[0] - held[1]] == []
    assert second == first


@pytest.mark.parametrize("count", [6, 30, 999], ids="{} pictures".format)
def test_the_split_stays__also_of(snippet, count):
    run = after(snippet, "so-far", "split")
    torch.manual_seed(1)
    parts = run.split(pictures_of(count))
    assert run.split(pictures_of(count)) == parts


def test_the_split_stays__but_not_without_a_seed(snippet, fails):
    """`torch.randperm` without the generator goes on in the global numbers."""
    old = "torch.randperm(len(pictures), generator=generator)"
    fails(
        test_the_split_stays,
        snippet.edit(old, "torch.randperm(len(pictures))"),
    )


def test_the_split_stays__ends_with_one_more_picture(snippet, fails):
    """Add a picture to the folder, and the parts are drawn anew."""
    fails(test_the_split_stays, snippet, [("new.png", 0)])


# 4. Make a model


def test_the_linear_layer_takes_2048(snippet, count=3, size=32):
    run = after(snippet, "so-far", "make-model")
    model = run.make_model(count)
    taken = []
    model.linear.register_forward_pre_hook(
        lambda _, inputs: taken.append(tuple(inputs[0].shape))
    )

    with no_error():
        scores = model(torch.rand(5, 3, size, size))

    assert taken == [(5, 32 * 8 * 8)]
    assert (model.conv2.out_channels, model.linear.in_features) == (32, 2048)
    assert scores.shape == (5, count)


@pytest.mark.parametrize("count", [1, 2, 10], ids="{} classes".format)
def test_the_linear_layer_takes_2048__also_with(snippet, count):
    test_the_linear_layer_takes_2048(snippet, count)


def test_the_linear_layer_takes_2048__but_not_with_one_pooling(snippet, fails):
    """With one pooling, 16 x 16 are left, and 8,192 numbers arrive."""
    old = "x = F.max_pool2d(self.conv2(x).relu(), 2)"
    edited = snippet.edit(old, "x = self.conv2(x).relu()")
    fails(test_the_linear_layer_takes_2048, edited)


def test_the_linear_layer_takes_2048__ends_at_another_size(snippet, fails):
    """Pictures of 64 x 64 leave 16 x 16, which the layer refuses."""
    fails(test_the_linear_layer_takes_2048, snippet, 3, 64)


# 6. Save and load


def test_the_loaded_model_answers_alike(
    snippet, tmp_path, names=("cup", "ant", "plate")
):
    run = after(snippet, "so-far", "make-model", "save-and-load")
    torch.manual_seed(0)
    model, images = run.make_model(len(names)), torch.rand(4, 3, 32, 32)
    expected = model(images)
    run.save(model, [*names], tmp_path / "model.pt")
    with torch.no_grad():
        model.linear.weight.zero_()  # after it was saved

    loaded, found = run.load(tmp_path / "model.pt")

    assert found == [*names]
    assert not loaded.training
    assert torch.equal(loaded(images), expected)


@pytest.mark.parametrize("count", [2, 7], ids="{} classes".format)
def test_the_loaded_model_answers_alike__also_with(snippet, tmp_path, count):
    names = [f"class {number}" for number in range(count, 0, -1)]
    test_the_loaded_model_answers_alike(snippet, tmp_path, names)


@edits(
    ('    model.load_state_dict(saved["weights"])\n', ""),
    ('"names": names}', '"names": sorted(names)}'),
)
def test_the_loaded_model_answers_alike__but_not(
    snippet, tmp_path, old, new, fails
):
    """The weights are random, or the names are in another order."""
    edited = snippet.edit(old, new)
    fails(test_the_loaded_model_answers_alike, edited, tmp_path)


# What you have built


def test_new_shapes_get_their_names(snippet):
    run = trained(snippet)

    named = [name for name, _ in run.answers]
    assert len(named) == len(run.truth) == 150
    assert run.names == ["ring", "square", "triangle"]
    right = [a == b for a, b in zip(named, run.truth, strict=True)]
    assert sum(right) / len(right) > 0.9
    assert sum(right) == run.right
    assert {type(shown) for _, shown in run.answers} == {float}
    assert all(1 / 3 <= shown <= 1 for _, shown in run.answers)
    images, labels = run.read_all(run.new_pictures)
    loss, counted = run.evaluate(run.model.train(), images, labels)
    assert (type(loss), type(counted)) == (float, float)
    assert counted == pytest.approx(sum(right) / len(right), abs=0.01)
    assert not run.model.training
    for shape in run.names:  # not a blank picture
        colors = run.draw(shape, random.Random(0)).getcolors()
        assert len(colors) == 2, shape
        assert min(count for count, _ in colors) > 100


def test_new_shapes_get_their_names__also_of_other_drawings(snippet):
    test_new_shapes_get_their_names(
        snippet.edit("count=60, seed=0", "count=60, seed=2").edit(
            "count=50, seed=1", "count=50, seed=12"
        )
    )


def test_new_shapes_get_their_names__also_from_the_command_line(
    snippet, capsys
):
    run = trained(snippet)
    capsys.readouterr()  # what it printed in training
    places = range(0, 150, 10)
    for place in places:
        path, _ = run.new_pictures[place]
        run.main(["predict", run.folder / "model.pt", path])
    found = capsys.readouterr().out.splitlines()

    answers = [run.answers[place] for place in places]
    assert found == [f"{name} {shown:.0%}" for name, shown in answers]

    run.main(["draw"])
    assert "project.py train" in capsys.readouterr().out


@edits(
    ("without training", "range(15)", "range(0)"),
    (
        "with the names reversed",
        'saved["names"]\n\n',
        'saved["names"][::-1]\n\n',
    ),
)
def test_new_shapes_get_their_names__but_not(snippet, old, new, fails):
    """Random weights guess, and wrong names are wrong."""
    fails(test_new_shapes_get_their_names, snippet.edit(old, new))


# What goes wrong


def test_without_convert_shapes_differ(snippet):
    cells = ("so-far", "read-picture", "draw", "no-convert")
    shapes = after(snippet, "find-pictures", *cells).shapes
    assert shapes["RGB"] == (32, 32, 3)
    assert shapes["L"] == (32, 32)
    assert shapes["RGBA"] == (32, 32, 4)


def test_without_convert_shapes_differ__but_not_with_convert(snippet, fails):
    """With `convert("RGB")`, every picture has three colors."""
    old = "image = Image.open(path).resize((32, 32))\n    shapes"
    new = (
        'image = Image.open(path).convert("RGB").resize((32, 32))\n    shapes'
    )
    fails(test_without_convert_shapes_differ, snippet.edit(old, new))


def test_without_convert_shapes_differ__ends_with_a_palette(snippet, fails):
    """A transparent picture with a palette, such as a GIF, has no axis of
    colors.
    """
    old = "Image.new(mode, (40, 30)).save(path)"
    new = 'Image.new("P" if mode == "RGBA" else mode, (40, 30)).save(path)'
    fails(test_without_convert_shapes_differ, snippet.edit(old, new))


def test_a_missing_folder_gives_nothing(snippet, tmp_path):
    run = after(snippet, *SOLUTION)
    with no_error():
        pictures, names = run.find_pictures(tmp_path / "misspelled")
    assert (pictures, names) == ([], [])
    with pytest.raises(RuntimeError, match="expects a non-empty TensorList"):
        run.train(*run.split(pictures), names)


def test_a_missing_folder_gives_nothing__also_an_empty_one(snippet, tmp_path):
    run = after(snippet, "find-pictures")
    (tmp_path / "cup").mkdir()
    assert run.find_pictures(tmp_path) == ([], [])


def test_a_missing_folder_gives_nothing__but_not_to_iterdir(
    snippet, fails, tmp_path
):
    """`iterdir` raises an error where the folder is missing."""
    old = 'in sorted(Path(folder).glob("*/*"))'
    new = "in sorted(Path(folder).iterdir())"
    edited = snippet.edit(old, new)
    fails(test_a_missing_folder_gives_nothing, edited, tmp_path)


# Where it ends


def test_a_hexagon_gets_a_name(snippet, tmp_path, count=20):
    run = trained(snippet)
    assert run.name in ["ring", "square", "triangle"]
    names = []
    for seed in range(count):
        run.draw("hexagon", random.Random(seed)).save(tmp_path / "new.png")
        name, shown = run.predict(run.model, run.names, tmp_path / "new.png")
        names.append(name)
        assert shown >= 1 / 3
    assert {*names} <= {"ring", "square", "triangle"}
    assert len(names) == count


def test_a_hexagon_gets_a_name__also_a_blank_picture(snippet, tmp_path):
    run = trained(snippet)
    for color in ("white", "black", "red"):
        run.Image.new("RGB", (40, 40), color).save(tmp_path / "blank.png")
        path = tmp_path / "blank.png"
        name, shown = run.predict(run.model, run.names, path)
        assert name in ["ring", "square", "triangle"]
        assert shown >= 1 / 3


def test_a_hexagon_gets_a_name__but_not_if_unsure_has_one(
    snippet, tmp_path, fails
):
    """A program that says "unsure" below a limit gives no such name."""
    old = "return names[best], probability.item()"
    new = 'return "unsure", probability.item()'
    fails(test_a_hexagon_gets_a_name, snippet.edit(old, new), tmp_path)


# Try it


def test_new_shapes_get_their_names__also_in_a_dict(snippet):
    run = trained(snippet)
    expected = {
        path.name: name
        for (path, _), (name, _) in zip(
            run.new_pictures, run.answers, strict=True
        )
        if path.parent.name == "ring"
    }
    assert run.named == expected
    assert len(run.named) == 50
