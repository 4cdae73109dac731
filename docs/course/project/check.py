"""Check the milestones of the project, in the folder of your project.py.

``python check.py 3`` checks the third milestone; ``python check.py`` checks
all in order, up to the first that is still open. This needs torch and Pillow,
makes its own pictures in a temporary folder, and leaves nothing behind.
"""

import importlib.util
import math
import random
import re
import subprocess
import sys
import tempfile
import textwrap
import traceback
from itertools import pairwise
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch import nn

PROJECT = Path("project.py").resolve()
SHAPES = ["ring", "square", "triangle"]


class StillOpenError(Exception):
    """What a milestone still lacks, as a sentence."""


def need(is_so, sentence):
    """Leave the milestone open, with a sentence, unless something is so."""
    if not is_so:
        raise StillOpenError(sentence)


# -- Your program -------------------------------------------------------------


def told(error):
    """Return an error in one line, with its place in project.py."""
    message = textwrap.shorten(str(error), 250)
    said = f"{type(error).__name__}: {message}".removesuffix(": ")
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if Path(each.filename) == PROJECT]
    if own:
        said += f"\n    line {own[-1].lineno} of project.py: {own[-1].line}"
    return said


def your_program():
    """Return the module that project.py is."""
    if "project" in sys.modules:
        return sys.modules["project"]
    need(
        PROJECT.exists(),
        f"There is no project.py in {PROJECT.parent}. Write one there, or"
        " start check.py from the folder that holds it.",
    )
    spec = importlib.util.spec_from_file_location("project", PROJECT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["project"] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise StillOpenError(
            f"Python cannot read line {error.lineno} of"
            f" {Path(error.filename or PROJECT).name}: {error.msg}."
        ) from None
    except SystemExit:
        raise StillOpenError(
            "project.py ends Python as soon as it is imported. Put the command"
            ' line below `if __name__ == "__main__":`.'
        ) from None
    except Exception as error:
        raise StillOpenError(
            f"project.py cannot be imported. {told(error)}\n    Only imports,"
            " functions and classes belong above"
            ' `if __name__ == "__main__":`.'
        ) from None
    return module


def call(name, *arguments, doing=""):
    """Return what a function of yours gives."""
    function = getattr(your_program(), name, None)
    need(function is not None, f"project.py has no function `{name}` yet.")
    need(callable(function), f"`{name}` is {kind_of(function)}, no function.")
    return run(f"`{name}`", function, *arguments, doing=doing)


def run(name, function, *arguments, doing=""):
    """Return what a call gives, or tell of the error that it raises."""
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        where = f"{name} stopped{doing}."
        raise StillOpenError(f"{where} {told(error)}") from None


def kind_of(value):
    """Return what a value is, in words."""
    if value is None:
        return "None (is there a `return`?)"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {value.dtype}"
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    if isinstance(value, list | tuple | dict | set):
        return f"a {type(value).__name__} of length {len(value)}"
    if isinstance(value, str | int | float | Path):
        return f"{str(value)!r}, of type {type(value).__name__}"
    return f"an object of type {type(value).__name__}"


def two_of(name, value, what):
    """Return the two things that a function of yours gave."""
    need(
        isinstance(value, list | tuple) and len(value) == 2,
        f"`{name}` should return two things, {what}, but it returned"
        f" {kind_of(value)}.",
    )
    return value


def scores_of(model, images):
    """Return the scores that a model of yours gives to some pictures."""
    need(
        isinstance(model, nn.Module),
        f"Expected a model, an nn.Module, but got {kind_of(model)}.",
    )
    model.eval()
    with torch.no_grad():
        doing = f" with pictures of shape {tuple(images.shape)}"
        scores = run("The model", model, images, doing=doing)
    need(
        isinstance(scores, torch.Tensor),
        f"The model should give a tensor, but it gave {kind_of(scores)}.",
    )
    return scores


# -- Pictures -----------------------------------------------------------------


def draw(shape, numbers):
    """Return a picture of a shape of random place and color."""
    size, radius = 40, numbers.randint(14, 18)
    x, y = (numbers.randint(radius, size - radius) for _ in range(2))
    paper = tuple(numbers.randint(180, 255) for _ in range(3))
    ink = tuple(numbers.randint(0, 90) for _ in range(3))
    image = Image.new("RGB", (size, size), paper)
    pen = ImageDraw.Draw(image)
    if shape == "ring":
        box = (x - radius, y - radius, x + radius, y + radius)
        pen.ellipse(box, outline=ink, width=5)
    else:
        sides = {"triangle": 3, "square": 4}[shape]
        pen.regular_polygon((x, y, radius), sides, fill=ink)
    return image


def draw_folder(folder, count, seed):
    """Draw so many of each shape; return their paths and class numbers."""
    numbers, found = random.Random(seed), []
    for label, shape in enumerate(SHAPES):
        Path(folder, shape).mkdir(parents=True)
        for number in range(count):
            path = Path(folder, shape, f"{number}.png")
            draw(shape, numbers).save(path)
            found.append((path, label))
    return found


# -- The milestones -----------------------------------------------------------


def check_find_pictures(folder):
    """Check the first milestone."""
    folder = Path(folder, "pictures")
    classes = ["cat", "eel", "ant", "dog", "bee"]
    for name in classes:
        Path(folder, name).mkdir(parents=True)
        for ending in (".png", ".jpeg", ".JPG"):
            Image.new("RGB", (8, 8)).save(folder / name / f"1{ending}")
    (folder / "dog" / "notes.txt").write_text("not a picture")
    (folder / "notes.txt").write_text("not a class")

    result = call("find_pictures", str(folder))
    pictures, names = two_of(
        "find_pictures", result, "the list of pictures and the names"
    )
    expected = sorted(classes)
    need(
        isinstance(names, list | tuple)
        and all(isinstance(each, str) for each in names),
        "The pictures should come first, and then the names, a list such as"
        f" {expected}. But the names are {kind_of(names)}.",
    )
    names = list(names)
    got = f"expected {expected}, but got {names}"
    need("notes.txt" not in names, f"A file is no class: {got}.")
    need(
        names == expected or sorted(names) != expected,
        f"The names are not sorted: {got}.",
    )
    need(names == expected, f"The names are not those of the folders: {got}.")
    need(
        isinstance(pictures, list | tuple),
        f"The pictures should be a list, but they are {kind_of(pictures)}.",
    )
    for each in pictures:
        need(
            isinstance(each, list | tuple) and len(each) == 2,
            "Each picture should be a pair (path, class number), but one is"
            f" {kind_of(each)}.",
        )
        path, label = each
        need(
            isinstance(path, str | Path),
            "The path should come first in each pair, but there is"
            f" {kind_of(path)}.",
        )
        need(
            Path(path).is_file(),
            f"There is no file {str(path)!r}. Give the whole path, such as"
            " 'pictures/cat/1.png'.",
        )
        parts = Path(path).parts[-2:]
        need(
            Path(path).suffix != ".txt",
            f"{'/'.join(parts)} is no picture: leave it out.",
        )
        right = expected.index(parts[0])
        need(
            isinstance(label, int) and label == right,
            f"{'/'.join(parts)} is of class {right}, but its class number is"
            f" {kind_of(label)}.",
        )
    paths = [Path(path) for path, _ in pictures]
    for path in sorted(folder.glob("*/1.*")):
        need(
            path in paths,
            f"{'/'.join(path.parts[-2:])} is missing from the pictures. (JPEG"
            " files end in .jpg, .jpeg or, from many cameras, .JPG.)",
        )
    need(len(paths) == len({*paths}), "A picture is there more than once.")
    need(
        paths == sorted(paths),
        "The pictures are not sorted by their paths: wrap what lists them in"
        " `sorted(...)`.",
    )


def check_read_picture(folder):
    """Check the second milestone."""
    path = Path(folder, "halves.png")
    image = Image.new("RGB", (80, 40), "red")
    image.paste("blue", (40, 0, 80, 40))
    image.save(path)
    pixels = call("read_picture", path)
    _need_pixels(pixels, "a picture of 80 by 40 pixels")
    left, right = pixels[:, 16, 4].tolist(), pixels[:, 16, 27].tolist()
    top, bottom = pixels[:, 4, 16].tolist(), pixels[:, 27, 16].tolist()
    if max(map(abs, _difference(left, [1, 0, 0]))) > 0.1:
        need(
            max(map(abs, _difference(top, bottom))) < 0.1,
            "The picture lies on its side, because height and width are"
            " swapped. `permute(2, 0, 1)` keeps them in order.",
        )
        need(
            max(map(abs, _difference(left, [0, 0, 1]))) > 0.1,
            "The picture is mirrored, or red and blue are swapped.",
        )
    for side, found, expected in (
        ("left", left, [1, 0, 0]),
        ("right", right, [0, 0, 1]),
    ):
        need(
            max(map(abs, _difference(found, expected))) < 0.1,
            f"On the {side}, the three channels of the picture are {expected},"
            f" but `read_picture` gave {[round(each, 2) for each in found]}.",
        )

    path = Path(folder, "dark.png")
    Image.new("RGB", (40, 20), (51, 51, 51)).save(path)
    pixels = call("read_picture", path)
    need(
        (pixels - 0.2).abs().max() < 0.01,
        "A dark picture, with 51 everywhere, should be 0.2 everywhere, but it"
        f" goes up to {pixels.max().item():.2f}. Divide by 255, always.",
    )

    kinds = {
        "a gray picture": ("L", "gray.png"),
        "a black and white picture": ("1", "two.png"),
        "a picture with a palette": ("P", "palette.gif"),
        "a picture with transparency": ("RGBA", "transparent.png"),
        "a gray picture with transparency": ("LA", "both.png"),
        "a picture in the colors of printers": ("CMYK", "printed.jpg"),
    }
    for what, (mode, name) in kinds.items():
        path = Path(folder, name)
        white = Image.new("RGBA", (50, 70), "white").convert("RGB")
        white.convert(mode).save(path)
        pixels = call("read_picture", path, doing=f" at {what}, mode {mode}")
        _need_pixels(pixels, f"{what}, mode {mode}")
        need(
            pixels.min() > 0.9,
            f"A white picture should be 1 everywhere, but {what} goes down to"
            f" {pixels.min().item():.2f}.",
        )


def _difference(first, second):
    """Return by how much numbers differ."""
    return [a - b for a, b in zip(first, second, strict=True)]


def _need_pixels(pixels, what):
    """Check the tensor of one picture."""
    came = f"of {what}, `read_picture` returned {kind_of(pixels)}"
    wanted = "a float32 tensor of shape (3, 32, 32)"
    need(isinstance(pixels, torch.Tensor), f"Expected {wanted}, but {came}.")
    shape = tuple(pixels.shape)
    need(
        shape != (32, 32, 3),
        f"The colors come last: {came}. `permute(2, 0, 1)` puts them first.",
    )
    need(
        pixels.dim() < 4,
        f"Expected {wanted}, but {came}. One picture has no axis of pictures.",
    )
    need(
        shape in {(3, 32, 32), (1, 32, 32), (32, 32), (4, 32, 32)},
        f"Expected {wanted}, but {came}. Pillow's `resize` sets the size.",
    )
    need(
        shape == (3, 32, 32),
        f"Expected {wanted}, but {came}. Pillow's `convert` gives every"
        " picture three colors.",
    )
    need(
        pixels.dtype == torch.float32,
        f"The shape is right, but the numbers are {pixels.dtype}: expected"
        " torch.float32.",
    )
    low, high = pixels.min().item(), pixels.max().item()
    need(
        high < 1.5,
        f"The numbers go up to {high:.0f}. Divide by 255 for 0 to 1.",
    )
    need(
        high > 0.1 and low > -0.1,
        f"The numbers are from {low:.3f} to {high:.3f}: expected 0 to 1.",
    )


def check_split(folder):
    """Check the third milestone."""
    pictures = [(f"pictures/{number}.png", 0) for number in range(60)]
    pictures += [(f"pictures/{number}.png", 1) for number in range(60, 100)]
    given = list(pictures)
    result = call("split", given)
    need(
        given == pictures,
        "`split` changed the list that it was given: shuffle a copy of it.",
    )
    parts = _parts(result)
    train, valid = parts
    counts = f"{len(train)} and {len(valid)} of 100 pictures"
    for each in train + valid:
        need(each in pictures, f"`split` was not given the picture {each}.")
    both = sorted({*train} & {*valid})
    need(
        not both,
        f"{len(both)} pictures are in both parts, such as {both[:1]}.",
    )
    need(
        len(train) + len(valid) == len({*train, *valid}) == 100,
        f"Each picture should be in one part, but the parts have {counts}.",
    )
    need(
        len(train) > len(valid),
        f"The parts have {counts}: the first, for training, should be larger.",
    )
    need(
        10 <= len(valid) <= 40,
        f"The parts have {counts}: expected about 80 and 20.",
    )
    places = sorted(pictures.index(each) for each in valid)
    steps = {b - a for a, b in pairwise(places)}
    need(
        len(steps) > 1,
        f"The second part has the pictures {places[0]}, {places[1]},"
        f" {places[2]} and so on. Choose them at random.",
    )
    need(
        _parts(call("split", pictures)) == parts,
        "A second call gave other parts. Give the random generator a seed,"
        " inside of `split`.",
    )


def _parts(result):
    """Return the two parts as lists."""
    what = "the pictures for training and those for validation"
    parts = two_of("split", result, what)
    for part in parts:
        need(
            hasattr(part, "__len__") and hasattr(part, "__getitem__"),
            f"Each part should be a list, but one is {kind_of(part)}.",
        )
    for pair in [pair for part in parts for pair in part]:
        need(
            isinstance(pair, list | tuple) and len(pair) == 2,
            "Each part should hold pairs (path, class number), as `split` got"
            f" them, but one holds {kind_of(pair)}.",
        )
    return [[tuple(pair) for pair in part] for part in parts]


def check_make_model(folder):
    """Check the fourth milestone."""
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator())
    for count in (2, 50):
        model = call("make_model", count, doing=f" with {count} classes")
        need(
            isinstance(model, nn.Module),
            "`make_model` should return a model, an nn.Module, but it"
            f" returned {kind_of(model)}.",
        )
        need(
            any(each.requires_grad for each in model.parameters()),
            "The model has no parameters to train.",
        )
        scores = scores_of(model, images)
        need(
            tuple(scores.shape) == (4, count),
            f"For 4 pictures and {count} classes, the scores should have shape"
            f" (4, {count}), but the model gave {kind_of(scores)}.",
        )
    need(
        scores.min() < 0,
        "No score is below 0. Leave softmax out of the model, because"
        " cross_entropy contains it, and sigmoid and relu after the last"
        " layer.",
    )
    need(
        not torch.equal(scores[0], scores[1]),
        "The model gives two different pictures the same scores.",
    )


def check_train(folder):
    """Check the fifth milestone."""
    pictures = draw_folder(Path(folder, "pictures"), count=50, seed=0)
    valid = pictures[35:65]  # no triangles: they do not do to train on
    pictures = [each for each in pictures if each not in valid]
    random.Random(0).shuffle(pictures)
    torch.manual_seed(0)
    model = call("train", pictures, valid, list(SHAPES))
    need(
        isinstance(model, nn.Module),
        f"`train` should return the model, but it returned {kind_of(model)}.",
    )
    new = draw_folder(Path(folder, "new"), count=20, seed=1)
    images = torch.stack([call("read_picture", path) for path, _ in new])
    scores = scores_of(model, images)
    need(
        tuple(scores.shape) == (60, 3),
        "For 60 pictures of 3 classes, the scores should have shape (60, 3),"
        f" but the model gave {kind_of(scores)}.",
    )
    labels = torch.tensor([label for _, label in new])
    right = (scores.argmax(dim=1) == labels).sum().item()
    hint = (
        "train on the first list, go through it more often, or try another"
        " learning rate"
    )
    if right <= 30:
        hint = (
            "by chance it would be 20, so look whether the optimizer makes"
            " its steps and whether each picture meets its own class number"
        )
    need(
        right > 54,
        f"The model names {right} of 60 new shapes right, and 55 are needed:"
        f" {hint}.",
    )
    print(f"  {right} of 60 new shapes are named right")


def check_save_and_load(folder):
    """Check the sixth milestone."""
    names = ["dog", "ant", "cat", "bee"]
    path = Path(folder, "model.pt")
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator())
    model = call("make_model", 4)
    expected = scores_of(model, images)
    call("save", model, list(names), str(path))
    need(path.exists(), "`save` wrote no file at the path that it got.")
    other = call("make_model", 4)
    call("save", other, [*"wxyz"], str(Path(folder, "other.pt")))
    try:
        torch.load(path, map_location="cpu", weights_only=True)
    except Exception:
        raise StillOpenError(
            "torch.load does not open the file by default. Save"
            " `model.state_dict()`, not the whole model, and the names as a"
            " list."
        ) from None
    with torch.no_grad():
        for each in model.parameters():
            each.zero_()  # what was saved must not depend on it any more
    result = call("load", str(path))
    loaded, found = two_of("load", result, "the model and the names")
    need(
        isinstance(loaded, nn.Module),
        "`load` should return the model first, but there is"
        f" {kind_of(loaded)}.",
    )
    need(
        isinstance(found, list | tuple) and list(found) == names,
        f"The names should be {names}, in this order, but `load` gave"
        f" {found!r}. Do they come from the file at the path?",
    )
    need(
        not loaded.training,
        "The loaded model is in training mode: call `model.eval()` in `load`.",
    )
    scores = scores_of(loaded, images)
    need(
        scores.shape == expected.shape,
        f"The saved model has 4 classes, but the loaded one gave"
        f" {kind_of(scores)}.",
    )
    need(
        torch.allclose(scores, expected, atol=1e-5),
        "The loaded model gives other scores than the saved one. Does `load`"
        " call `load_state_dict`?",
    )


class _ByColor(nn.Module):
    """A model that scores red, green and blue."""

    def forward(self, images):
        """Return twice the mean of each color."""
        shape = tuple(images.shape)
        if shape != (1, 3, 32, 32):
            message = f"expected a batch of shape (1, 3, 32, 32), got {shape}"
            raise ValueError(message)
        return 2 * images.mean(dim=(2, 3))


def check_predict(folder):
    """Check the seventh milestone."""
    names = ["red", "lime", "blue"]
    right = math.exp(2) / (math.exp(2) + 2)
    for name in names:
        path = Path(folder, f"{name}.png")
        Image.new("RGB", (40, 20), name).save(path)
        result = call("predict", _ByColor().eval(), list(names), str(path))
        found, probability = two_of(
            "predict", result, "the name and the probability"
        )
        need(
            isinstance(found, str),
            f"The name should be text, but it is {kind_of(found)}.",
        )
        need(
            isinstance(probability, float),
            "The probability should be a float, but it is"
            f" {kind_of(probability)}. `.item()` makes one of a tensor.",
        )
        scored = (
            f"With scores 2 for {name!r} and 0 for the two others, expected"
            f" {name!r} and {right:.2f}, but got {found!r} and"
            f" {probability:.2f}."
        )
        need(
            found == name and abs(probability - right) < 0.01,
            f"{scored} A probability comes from `scores.softmax(dim=1)`.",
        )

    draw_folder(Path(folder, "drawn"), count=30, seed=0)
    Path(folder, "drawn", "plain").mkdir()  # a fourth class
    for number in range(10):
        path = Path(folder, "drawn", "plain", f"{number}.png")
        Image.new("RGB", (40, 40), "red").save(path)
    model, picture = "mine.pt", "drawn/ring/0.png"
    _command(folder, "train", "drawn", model)
    need(
        Path(folder, model).exists(),
        f"`python project.py train drawn {model}` wrote no {model}. Does"
        ' project.py end with `if __name__ == "__main__":`, and take the path'
        " from `sys.argv`?",
    )
    lines = _command(folder, "predict", model, picture).split("\n")
    command = f"`python project.py predict {model} {picture}`"
    result = call("load", str(Path(folder, model)))
    name, _ = call("predict", *result, str(Path(folder, picture)))
    need(
        name in lines[-1],
        f"{command} should print {name!r}, which is what `predict` returns,"
        f" but its last line is {lines[-1]!r}.",
    )
    need(
        re.search(r"\d", lines[-1]),
        f"{command} should print the probability beside the name, but its"
        f" last line is {lines[-1]!r}.",
    )


def _command(folder, *arguments):
    """Return what the command line of your program prints."""
    command = [sys.executable, "-B", str(PROJECT), *arguments]
    said = f"`python project.py {' '.join(arguments)}`"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    error = done.stderr.strip().split("\n")[-1]
    need(done.returncode == 0, f"{said} stopped. {error}")
    return done.stdout.strip()


MILESTONES = [
    check_find_pictures,
    check_read_picture,
    check_split,
    check_make_model,
    check_train,
    check_save_and_load,
    check_predict,
]


def is_done(number):
    """Check one milestone, and print what came out."""
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            MILESTONES[number - 1](folder)
    except StillOpenError as still:
        print(f"Milestone {number}: not yet. {still}")
        return False
    except Exception as error:
        print(
            f"Milestone {number}: not yet. What your program gave could not"
            f" be checked. {told(error)}"
        )
        return False
    print(f"Milestone {number}: done")
    return True


def main(arguments):
    """Check the milestone of the argument, or all in order."""
    known = [str(number + 1) for number in range(len(MILESTONES))]
    if len(arguments) > 1 or any(each not in known for each in arguments):
        raise SystemExit(f"Name one milestone, 1 to {len(MILESTONES)}.")
    sys.dont_write_bytecode = True
    if not all(is_done(int(each)) for each in arguments or known):
        raise SystemExit(1)
    if not arguments:
        print("All milestones are done. Now try pictures of your own.")


if __name__ == "__main__":
    main(sys.argv[1:])
