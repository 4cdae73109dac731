"""The claims of gallery/train_a_classifier.py."""

import math
import os
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from extensions.files.failures import edits, no_error
from extensions.files.problem import Problem
from tests.gallery.conftest import as_script, constants, told

for library in ("PIL", "tqdm"):
    pytest.importorskip(library, reason=f"{library} is not installed")

RANGES = "range(1500), range(10_000, 10_300), range(20_000, 20_300)"
LESS = "range(300), range(10_000, 10_050), range(20_000, 20_010)"
FEW = "range(60), range(10_000, 10_020), range(20_000, 20_020)"


@cache
def finished(snippet):
    """Return the variables of a program that has run to its end."""
    return snippet.after("use")


def given(snippet, **constants):
    """Return the program with other settings."""
    for name, value in constants.items():
        lines = snippet.text.splitlines()
        line = next(each for each in lines if each.startswith(f"{name} = "))
        snippet = snippet.edit(f"\n{line}\n", f"\n{name} = {value!r}\n")
    return snippet


def few(snippet, **constants):
    """Return the program with few digits, and other settings."""
    return given(
        snippet.edit(RANGES, FEW),
        **({"SIZE": 8, "BATCH_SIZE": 25} | constants),
    )


def refusal(program, cell):
    """Return the line with which a program stops before a cell is through."""
    with pytest.raises(SystemExit) as caught:
        program.after(cell)
    line = caught.value.code
    assert isinstance(line, str)  # which Python prints, with exit status 1
    assert "\n" not in line
    return line


@contextmanager
def no_stop():
    """Fail the test if a program raises, or stops with a line."""
    with no_error():
        try:
            yield
        except SystemExit as stop:
            message = f"stopped: {stop}"
        else:
            return
    pytest.fail(message)


def same(one, other):
    """Return whether two nests of tensors, numbers and texts are equal."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same(one[key], other[key]) for key in one
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


# -- Settings ----------------------------------------------------------------

ARGUMENTS = {
    "DATA": (["--data", "photos"], "photos"),
    "SIZE": (["--size", "64"], 64),
    "COLOR": (["--color"], True),
    "EPOCHS": (["--epochs", "3"], 3),
    "BATCH_SIZE": (["--batch-size", "7"], 7),
    "RATE": (["--rate", "0.25"], 0.25),
    "CHECKPOINT": (["--checkpoint", "digits.pt"], "digits.pt"),
    "RESUME": (["--resume"], True),
    "SEED": (["--seed", "5"], 5),
}


def test_each_argument_sets_its_constant(snippet):
    script, expected = as_script(snippet), constants(snippet, ARGUMENTS)
    assert told(script, [], ARGUMENTS) == expected
    for name, (words, value) in ARGUMENTS.items():
        changed = expected | {name: value}
        assert told(script, words, ARGUMENTS) == changed
        assert told(snippet, words, ARGUMENTS) == expected


@edits(
    ("EPOCHS, BATCH_SIZE = options", "BATCH_SIZE, EPOCHS = options"),
    ('"--rate", type=float', '"--rate", type=str'),
    ('if "__file__" in globals():', "if True:"),
    ("CHECKPOINT, RESUME = options", "CHECKPOINT, _ = options"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_a_checkpoint_is_not_overwritten(snippet, tmp_path):
    path = tmp_path / "digits.pt"
    path.write_bytes(b"a week of work")

    program = few(snippet, EPOCHS=1, CHECKPOINT=str(path))
    assert "digits.pt exists" in refusal(program, "use")

    assert [each.name for each in tmp_path.iterdir()] == ["digits.pt"]
    assert path.read_bytes() == b"a week of work"


@edits(
    (
        "if CHECKPOINT and not RESUME and Path(CHECKPOINT).exists():",
        "if CHECKPOINT and not RESUME and not Path(CHECKPOINT).unlink():",
    ),
    ('f"{CHECKPOINT} exists:', 'f"it exists:'),
)
def test_a_checkpoint_is_not_overwritten__but_not_with(
    snippet, tmp_path, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_a_checkpoint_is_not_overwritten, edited, tmp_path)


SENSELESS = [
    {"EPOCHS": 0},
    {"EPOCHS": -3},
    {"BATCH_SIZE": 0},
    {"RATE": 0.0},
    {"RATE": -1.0},
    {"SIZE": 3},
    {"RESUME": True},
]


def test_a_senseless_setting_is_refused(snippet):
    for settings in SENSELESS:
        assert refusal(given(snippet, **settings), "setup")

    least = few(snippet, SIZE=4, EPOCHS=1, BATCH_SIZE=1, RATE=1e-9)
    with no_stop():
        least.edit("range(60)", "range(9)").after("report")


@edits(
    ("EPOCHS < 1 or", "EPOCHS < 0 or"),
    ("BATCH_SIZE < 1", "BATCH_SIZE < 0"),
    ("RATE <= 0", "RATE < 0"),
    ("SIZE < 4:", "SIZE < 3:"),
    ("if RESUME and not CHECKPOINT:", "if RESUME and SIZE < 4:"),
)
def test_a_senseless_setting_is_refused__but_not_with(
    snippet, old, new, fails
):
    fails(test_a_senseless_setting_is_refused, snippet.edit(old, new))


# -- A reader's folder -------------------------------------------------------


def files(folder, **classes):
    """Make empty files with the endings of images."""
    endings = [".jpg", ".PNG", ".jpeg", ".webp", ".tif", ".tiff", ".bmp"]
    endings.append(".gif")
    for name, count in classes.items():
        for number in range(count):
            deeper = "deeper" if number == 2 else ""
            path = folder / name / deeper / f"{number}{endings[number % 8]}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return folder


def test_each_image_is_in_one_part(snippet, tmp_path, a=10, b=41, c=3):
    files(tmp_path, ant=a, bee=b, cat=c)
    expected = sorted(tmp_path.rglob("*.*"))
    (tmp_path / "ant" / ".copies").mkdir()
    for name in ("notes.txt", ".7.jpg", ".copies/7.jpg"):
        (tmp_path / "ant" / name).touch()
    (tmp_path / ".git").mkdir()

    with no_stop():
        classes, parts = snippet.after("opened").find(tmp_path)

    assert classes == ["ant", "bee", "cat"]
    assert sorted(path for part in parts for path, _ in part) == expected
    for label, count in enumerate((a, b, c)):
        held = max(1, math.floor(count * 15 / 100))
        found = [[path for path, k in part if k == label] for part in parts]
        sizes = [len(paths) for paths in found]
        assert sizes == [count - 2 * held, held, held]
        names = {
            path.relative_to(tmp_path).parts[0]
            for paths in found
            for path in paths
        }
        assert names == {classes[label]}


@pytest.mark.parametrize("counts", [(3, 6, 7), (13, 14, 19), (20, 26, 100)])
def test_each_image_is_in_one_part__also_of(snippet, tmp_path, counts):
    test_each_image_is_in_one_part(snippet, tmp_path, *counts)


@edits(
    ("1 + place // held]", "2]"),
    (
        "torch.randperm(len(own), generator=generator).tolist()",
        "[0] * len(own)",
    ),
    ("len(own) * 15 // 100", "len(own) * 20 // 100"),
    ("max(1, len(own)", "max(2, len(own)"),
    (".suffix.lower() in", ".suffix in"),
    ("in ENDINGS and not hidden", "in ENDINGS"),
    ('any(name.startswith(".") for name in names)', "names[-1][0] == '.'"),
    ('.rglob("*")', '.glob("*")'),
    ("found.append((path, label))", "found.append((path, 0))"),
)
def test_each_image_is_in_one_part__but_not_with(
    snippet, tmp_path, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_each_image_is_in_one_part, edited, tmp_path)


def test_the_seed_decides_the_split(snippet, tmp_path):
    files(tmp_path, ant=20, bee=20)

    find = snippet.after("opened").find

    def parts(seed):
        find.__globals__["SEED"] = seed
        found = find(tmp_path)[1]
        return [sorted(path for path, _ in part) for part in found]

    splits = [parts(seed) for seed in range(11)]
    assert splits == [parts(seed) for seed in range(11)]
    assert all(splits[0] != other for other in splits[1:])


@edits(
    ("torch.Generator().manual_seed(SEED)\n    parts", "None\n    parts"),
    (
        "torch.Generator().manual_seed(SEED)\n    parts",
        "torch.Generator()\n    parts",
    ),
)
def test_the_seed_decides_the_split__but_not_with(
    snippet, tmp_path, old, new, fails
):
    snippet = snippet.edit("torch.manual_seed(SEED)\nd", "torch.seed()\nd")
    edited = snippet.edit(old, new)
    fails(test_the_seed_decides_the_split, edited, tmp_path)


def test_a_split_of_yours_is_kept(snippet, tmp_path, with_test=True):
    names = ["train", "val"] + ["test"] * with_test
    for number, name in enumerate(names):
        files(tmp_path / name, ant=1 + number, bee=5)

    classes, parts = snippet.after("opened").find(tmp_path)

    names = ["train", "val", "test" if with_test else "val"]
    assert classes == ["ant", "bee"]
    for part, name in zip(parts, names, strict=True):
        paths = sorted((tmp_path / name).rglob("*.*"))
        labels = [
            "ab".index(path.relative_to(tmp_path).parts[1][0])
            for path in paths
        ]
        assert sorted(part) == list(zip(paths, labels, strict=True))


def test_a_split_of_yours_is_kept__also_without_test(snippet, tmp_path):
    test_a_split_of_yours_is_kept(snippet, tmp_path, with_test=False)


@edits(
    ('{"train", "val"} <= set(names)', '{"learn", "val"} <= set(names)'),
    ('last = "test" if', 'last = "train" if'),
    (
        'for part in ("train", "val", last)\n',
        'for part in ("train", last, last)\n',
    ),
)
def test_a_split_of_yours_is_kept__but_not_with(
    snippet, tmp_path, old, new, fails
):
    fails(test_a_split_of_yours_is_kept, snippet.edit(old, new), tmp_path)


def test_a_split_of_yours_is_kept__but_not_if_train_is_the_test(
    snippet, tmp_path, fails
):
    edited = snippet.edit('in names else "val"', 'in names else "train"')
    fails(test_a_split_of_yours_is_kept, edited, tmp_path, False)


def test_what_is_missing_is_named(snippet, tmp_path):
    find = snippet.after("opened").find

    def refused(name, **classes):
        folder = tmp_path / name
        for each, count in classes.items():
            (folder / each).mkdir(parents=True)
            files(folder, **{each: count})
        with pytest.raises(SystemExit) as caught:
            find(folder)
        return caught.value.code

    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for name in ("nowhere", "file", "empty"):
        assert str(tmp_path / name) in refused(name)
    assert str(tmp_path / "one") in refused("one", ant=9)
    for count in (0, 2):
        assert "'bee'" in refused(f"few{count}", ant=9, bee=count)
    for part in ("train", "val", "test"):
        folder = tmp_path / f"no bee in {part}"
        for each in ("train", "val", "test"):
            files(folder / each, ant=1, bee=int(each != part))
            (folder / each / "bee").mkdir(exist_ok=True)
        assert str(Path(part, "bee")) in refused(folder.name)
    files(tmp_path / "other" / "train", ant=1, bee=1)
    files(tmp_path / "other" / "val", ant=1, cat=1)
    assert str(tmp_path / "other" / "val") in refused("other")
    for part in ("train", "val"):
        said = refused(f"only {part}", **{part: 9, "test": 9})
        assert str(tmp_path / f"only {part}") in said


@edits(
    ("if len(names) < 2:", "if len(names) < 1:"),
    ("if len(own) < 3:", "if len(own) < 2:"),
    ("{name!r} has {len(own)} images", "a class has too few images"),
    ('f"{folder} needs a subfolder', 'f"it needs a subfolder'),
    ('f"{folder} is no folder"', 'f"this is no folder"'),
    ('["test", "train"], ["test", "val"]', '["test", "train"],'),
    ('["test", "train"], ["test", "val"]', '["test", "val"],'),
    ("if label not in {each[1] for each in samples}", "if not samples"),
    ("{Path(folder, part, name)} has no", "a class has no"),
)
def test_what_is_missing_is_named__but_not_with(
    snippet, tmp_path, old, new, fails
):
    fails(test_what_is_missing_is_named, snippet.edit(old, new), tmp_path)


def pictures(folder, count=40):
    """Save dark and light images in several formats, sizes and modes."""
    from PIL import Image

    kinds = [
        ("png", "L"), ("png", "RGB"), ("png", "RGBA"), ("png", "P"),
        ("png", "1"), ("png", "LA"), ("jpg", "L"), ("jpg", "RGB"),
        ("jpg", "CMYK"), ("gif", "P"), ("bmp", "RGB"), ("tif", "RGB"),
    ]  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for name, low in (("dark", 0), ("light", 176)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            ending, mode = kinds[number % len(kinds)]
            width, height = 8 + number, 8 + 3 * number // 2
            pixels = torch.randint(
                low, low + 80, (width * height * 3,), generator=generator
            )
            image = Image.frombytes(
                "RGB", (width, height), bytes(pixels.tolist())
            )
            image.convert(mode).save(folder / name / f"{number}.{ending}")
    return folder


def bad(path, kind):
    """Write a file that is no image for this program."""
    from PIL import Image

    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("not an image")
    elif kind == "cut off":
        Image.effect_noise((90, 90), 60).save(path)
        path.write_bytes(path.read_bytes()[:900])
    else:
        Image.new(kind, (9, 9)).save(path)


def test_each_image_becomes_a_square(
    snippet, tmp_path, size=20, color=False, ending="png"
):
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    path = tmp_path / f"lying.{ending}"
    Image.new("RGB", (60, 30), "white").save(path, exif=exif)

    run = given(snippet, SIZE=size, COLOR=color).after("opened")
    pixels = run.opened(path)

    expected = torch.zeros(3 if color else 1, size, size, dtype=torch.uint8)
    expected[:, :, size // 4 : size - size // 4] = 255
    assert torch.equal(pixels, expected)

    clear = Image.new("RGBA", (60, 60), (0, 0, 0, 0))
    clear.paste((0, 0, 0, 255), (0, 0, 60, 30))
    seen = []
    for image in (clear, clear.convert("LA"), clear.quantize(4)):
        image.save(tmp_path / "clear.png", exif=exif)
        seen.append(run.opened(tmp_path / "clear.png"))
    assert all(each[..., size // 2 + 3 :].max() == 0 for each in seen)
    assert all(each[..., : size // 2 - 3].min() == 255 for each in seen)


@pytest.mark.parametrize("size", [12, 64])
@pytest.mark.parametrize("ending", ["jpg", "webp"])
def test_each_image_becomes_a_square__also_as(snippet, tmp_path, size, ending):
    test_each_image_becomes_a_square(snippet, tmp_path, size, True, ending)


@edits(
    ("ImageOps.exif_transpose(image)", "image"),
    ("if image.has_transparency_data:", "if image.mode in ('RGBA', 'P'):"),
    ("if image.has_transparency_data:", "if image.mode in ('LA', 'P'):"),
    ('image.size, "white")', 'image.size, "black")'),
    ("ImageOps.pad(image, (SIZE, SIZE))", "image.resize((SIZE, SIZE))"),
    ("ImageOps.pad(image, (SIZE, SIZE))", "ImageOps.fit(image, (SIZE, SIZE))"),
    (".permute(2, 0, 1)", ".permute(2, 1, 0)"),
    ("(image, (SIZE, SIZE))", "(image, (SIZE, SIZE), color='white')"),
)
def test_each_image_becomes_a_square__but_not_with(
    snippet, tmp_path, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_each_image_becomes_a_square, edited, tmp_path)


def test_a_bad_file_is_named(snippet, tmp_path, kind="cut off", ending="png"):
    pictures(tmp_path, 4)
    bad(tmp_path / "dark" / f"wrong.{ending}", kind)

    program = given(snippet, DATA=str(tmp_path))
    assert str(Path("dark", f"wrong.{ending}")) in refusal(program, "data")


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("cut off", "jpg"),
        ("cut off", "gif"),
        ("cut off", "bmp"),
        ("empty", "png"),
        ("text", "jpg"),
        ("I;16", "png"),
        ("I", "tif"),
        ("F", "tif"),
    ],
)
def test_a_bad_file_is_named__also_if(snippet, tmp_path, kind, ending):
    test_a_bad_file_is_named(snippet, tmp_path, kind, ending)


@edits(
    ('f"cannot read {path}: {error}"', 'f"cannot read a file: {error}"'),
    (
        'raise SystemExit(f"cannot read {path}: {error}") from None',
        "return torch.zeros(1, 20, 20)",
    ),
)
def test_a_bad_file_is_named__but_not_with(snippet, tmp_path, old, new, fails):
    fails(test_a_bad_file_is_named, snippet.edit(old, new), tmp_path)


def test_a_bad_file_is_named__but_not_if_16_bits_pass(
    snippet, tmp_path, fails
):
    edited = snippet.edit("if image.mode[0] in", "if image.mode in")
    fails(test_a_bad_file_is_named, edited, tmp_path, "I;16", "png")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of dark and light images, which no test changes."""
    return pictures(tmp_path_factory.mktemp("photos"))


@cache
def concluded(snippet):
    """Return the variables of a program that has said what it concludes."""
    return snippet.after("conclusion")


def test_a_folder_trains(snippet, photos, color=False, seed=0):
    program = given(snippet, DATA=str(photos), EPOCHS=4, COLOR=color)
    with no_stop():
        run = concluded(given(program, SEED=seed))

    assert run.test.tensors[0].shape == (12, 3 if color else 1, 20, 20)
    named = [path.parent.name == "light" for path, _ in run.parts[2]]
    assert (run.answers == torch.tensor(named)).double().mean() > 0.9
    said = run.conclusion(run.answers, run.truth)
    assert said.endswith("has learned to tell the classes apart.")


@pytest.mark.parametrize(("color", "seed"), [(True, 1), (False, 2)])
def test_a_folder_trains__also_with(snippet, photos, color, seed):
    test_a_folder_trains(snippet, photos, color, seed)


@edits(
    ('image.convert("RGB" if COLOR else "L")', "image"),
    ("ImageOps.pad(image, (SIZE, SIZE))", "image"),
    ("        optimizer.step()\n", ""),
    ("has learned to tell", "may have learned to tell"),
)
def test_a_folder_trains__but_not_with(snippet, photos, old, new, fails):
    fails(test_a_folder_trains, snippet.edit(old, new), photos)


def test_slow_averages_come_too_late(snippet, photos, color=False, seed=0):
    quick = given(snippet, DATA=str(photos), EPOCHS=4, COLOR=color, SEED=seed)
    slow = quick
    for channels in (8, 16):
        new = f"BatchNorm2d({channels}, momentum=0.1)"
        slow = slow.edit(f"BatchNorm2d({channels}, momentum=0.5)", new)

    losses = [concluded(each).history[-1][1] for each in (quick, slow)]

    assert losses[1] > 3 * losses[0]


@pytest.mark.parametrize(("color", "seed"), [(True, 1), (False, 2)])
def test_slow_averages_come_too_late__also_with(snippet, photos, color, seed):
    test_slow_averages_come_too_late(snippet, photos, color, seed)


def test_slow_averages_come_too_late__but_not_at_once(snippet, photos, fails):
    edited = given(snippet, RATE=1e-9)
    fails(test_slow_averages_come_too_late, edited, photos)


# -- Training ----------------------------------------------------------------


def test_each_image_counts_the_same(snippet, size=7):
    run = few(snippet, BATCH_SIZE=size).after("evaluate")
    seen = []

    def noted(logits, labels):
        loss = cross_entropy(logits, labels)
        seen.append((loss.item(), len(labels)))
        return loss

    cross_entropy = F.cross_entropy
    with patch.object(F, "cross_entropy", noted):
        loss = run.train_epoch(1)
    assert loss == pytest.approx(sum(a * n for a, n in seen) / 60, rel=1e-6)

    before = {k: v.clone() for k, v in run.model.state_dict().items()}
    loss, logits, truth = run.evaluate(run.validation_loader)
    assert same(before, dict(run.model.state_dict()))
    assert torch.equal(truth, run.validation.tensors[1])
    run.model.eval()
    expected = run.model(run.validation.tensors[0].to(run.device)).cpu()
    assert torch.allclose(logits, expected, atol=1e-5)
    expected = F.cross_entropy(expected, truth).item()
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("size", [1, 19, 20, 500])
def test_each_image_counts_the_same__also_in_batches_of(snippet, size):
    test_each_image_counts_the_same(snippet, size)


@edits(
    ("total += loss.item() * len(labels)", "total += loss.item() * 7"),
    ("labels).item() * len(labels)", "labels).item() * 7"),
    ('images."""\n    model.eval()', 'images."""\n    model.train()'),
)
def test_each_image_counts_the_same__but_not_with(snippet, old, new, fails):
    fails(test_each_image_counts_the_same, snippet.edit(old, new))


def cut_short(program, calls):
    """Run a program that is interrupted when it computes a loss."""
    left = [calls]

    def stop(*given):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return cross_entropy(*given)

    cross_entropy = F.cross_entropy
    with patch.object(F, "cross_entropy", stop):
        assert "--resume" in refusal(program, "train")


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """Return what holds the files at the end of uninterrupted programs."""

    @cache
    def of(program):
        path = str(tmp_path_factory.mktemp("whole") / "digits.pt")
        given(program, CHECKPOINT=path).after("train")
        return [torch.load(path + ending) for ending in ("", ".best")]

    return of


def test_resuming_changes_nothing(snippet, tmp_path, ends, calls=5):
    part = str(tmp_path / "part.pt")
    # Each epoch has three batches to train on, and one to validate.
    program = few(snippet, EPOCHS=2, RATE=0.1, SEED=1)
    whole, best = ends(program)

    program = given(program, CHECKPOINT=part, RESUME=True)
    cut_short(program, calls)
    with no_stop():
        program.after("train")

    assert len(whole["history"]) == 2
    assert same(torch.load(part), whole)
    assert same(torch.load(f"{part}.best"), best)


@pytest.mark.parametrize("calls", [0, 3, 4, 7])
def test_resuming_changes_nothing__also_if_stopped_at(
    snippet, tmp_path, ends, calls
):
    test_resuming_changes_nothing(snippet, tmp_path, ends, calls)


def test_resuming_changes_nothing__also_between_two_files(
    snippet, tmp_path, ends
):
    part = tmp_path / "part.pt"
    program = few(snippet, EPOCHS=1)
    whole, best = ends(program)
    program = given(program, CHECKPOINT=str(part), RESUME=True)
    replace = Path.replace

    def stop_after_one(*given):
        replace(*given)
        raise KeyboardInterrupt

    with patch.object(Path, "replace", stop_after_one):
        refusal(program, "train")
    program.after("train")

    assert same(torch.load(part), whole)
    assert same(torch.load(f"{part}.best"), best)


def test_resuming_changes_nothing__also_in_a_new_process(
    snippet, tmp_path, ends
):
    part = str(tmp_path / "part.pt")
    program = few(snippet, EPOCHS=2, RATE=0.1, SEED=1)
    cut_short(given(program, CHECKPOINT=part), 5)

    script = tmp_path / "train.py"
    cells = few(snippet).cells().values()
    shown = [each.source for each in cells if not each.is_display]
    script.write_text("\n".join(shown))
    words = "--size 8 --batch-size 25 --epochs 2 --rate 0.1 --seed 1"
    words += f" --checkpoint {part} --resume"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, *words.split()],
        env=environment,
        cwd=tmp_path,
        check=True,
        text=True,
        capture_output=True,
    )

    assert "goes on after epoch 1 of 2" in done.stdout
    assert done.stderr == ""
    found = [torch.load(part + ending) for ending in ("", ".best")]
    assert same(found, ends(program))


@edits(
    ('    order.set_state(saved["order"])\n', ""),
    ('    torch.set_rng_state(saved["random"])\n', ""),
    ('{"model": model, "optimizer"', '{"optimizer"'),
    (', "optimizer": optimizer,', ","),
    (', "scheduler": scheduler}', "}"),
    ('return history, saved["best"]', 'return [], saved["best"]'),
    ('return history, saved["best"]', "return history, None"),
    ("range(len(history) + 1,", "range(2 * len(history) + 1,"),
)
def test_resuming_changes_nothing__but_not_with(
    snippet, tmp_path, ends, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_resuming_changes_nothing, edited, tmp_path, ends)


NAN = math.nan


def test_the_best_epoch_is_kept(snippet, tmp_path, losses=(3.0, 1.0, 2.0)):
    path = str(tmp_path / "digits.pt")
    told = ", ".join(f"float('{loss}')" for loss in losses)
    noted = (
        f"        loss = ({told},)[epoch - 1]\n"
        "        seen.append(copy.deepcopy(model.state_dict()))\n"
    )
    program = few(snippet, EPOCHS=len(losses), CHECKPOINT=path, BATCH_SIZE=60)
    program = program.edit("best = [], None\n", "best = [], None\nseen = []\n")
    line = "        accuracy = ("

    run = program.edit(line, noted + line).after("conclusion")

    known = [loss for loss in losses if not math.isnan(loss)]
    expected = run.seen[losses.index(min(known))]
    kept, epoch = torch.load(f"{path}.best"), losses.index(min(known)) + 1
    assert same(dict(kept["model"]), dict(expected))
    assert (kept["epoch"], kept["settings"]) == (epoch, run.settings())
    is_last = epoch == len(losses)
    assert ("more epochs may help" in run.best_epoch()) == is_last
    assert same(dict(run.model.state_dict()), dict(expected))


@pytest.mark.parametrize(
    "losses",
    [
        (1.0, 2.0),
        (2.0, 1.0),
        (1.0, 1.0),
        (NAN, 2.0, 3.0),
        (2.0, NAN, 1.0),
        (math.inf, 1.0),
    ],
)
def test_the_best_epoch_is_kept__also_of(snippet, tmp_path, losses):
    test_the_best_epoch_is_kept(snippet, tmp_path, losses)


@edits(
    ("or loss < lowest", "or loss > lowest"),
    (
        "copy.deepcopy(model.state_dict())\n            best",
        "model.state_dict()\n            best",
    ),
    ('model.load_state_dict(best["model"])\n', ""),
    ("write(best, f", "write({'model': model.state_dict()}, f"),
)
def test_the_best_epoch_is_kept__but_not_with(
    snippet, tmp_path, old, new, fails
):
    fails(test_the_best_epoch_is_kept, snippet.edit(old, new), tmp_path)


@edits((" or math.isnan(lowest)", ""))
def test_the_best_epoch_is_kept__but_not_after_nan_with(
    snippet, tmp_path, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_the_best_epoch_is_kept, edited, tmp_path, (NAN, 2.0, 1.0))


class Interrupt:
    """Interrupts the program that pickles it."""

    def __reduce__(self):
        raise KeyboardInterrupt


def test_the_checkpoint_is_replaced_whole(snippet, tmp_path):
    path = tmp_path / "digits.pt"
    run = few(snippet, CHECKPOINT=str(path)).after("save")
    run.save([(2.0, 2.0)], {"epoch": 1})
    assert path.exists()
    old = path.read_bytes()

    with pytest.raises(KeyboardInterrupt):
        run.save([(2.0, 2.0), Interrupt()], {"epoch": 1})
    assert path.exists()
    assert path.read_bytes() == old

    run.save([(2.0, 2.0), (1.0, 1.0)], {"epoch": 2})
    assert len(torch.load(path)["history"]) == 2
    assert torch.load(f"{path}.best") == {"epoch": 2}


@edits(
    ('partial = Path(f"{path}.partial")', "partial = Path(path)"),
    ("    partial.replace(path)\n", ""),
    (
        "    torch.save(content, partial)",
        "    Path(path).unlink(missing_ok=True)\n"
        "    torch.save(content, partial)",
    ),
)
def test_the_checkpoint_is_replaced_whole__but_not_with(
    snippet, tmp_path, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_the_checkpoint_is_replaced_whole, edited, tmp_path)


def test_nothing_is_left_behind(snippet, tmp_path):
    left = ""
    try:
        few(snippet, EPOCHS=1).after("use")
    except Problem as problem:
        left = str(problem)
    assert left == ""

    path = tmp_path / "new folder" / "deeper" / "digits.pt"
    few(snippet, EPOCHS=2, CHECKPOINT=str(path)).after("use")
    found = {each.name for each in tmp_path.rglob("*") if each.is_file()}
    assert found == {"digits.pt", "digits.pt.best"}


@edits(
    ("    history.append((train_loss, loss))", "    Path('log').touch()"),
    ("    partial.replace(path)", "    Path(path).touch()"),
)
def test_nothing_is_left_behind__but_not_with(
    snippet, tmp_path, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_nothing_is_left_behind, edited, tmp_path)


OTHERS = {
    "size": ("SIZE", 16),
    "color": ("COLOR", True),
    "epochs": ("EPOCHS", 9),
    "batch size": ("BATCH_SIZE", 49),
    "rate": ("RATE", 0.02),
    "seed": ("SEED", 1),
}


def test_another_training_is_refused(snippet, tmp_path):
    path = tmp_path / "digits.pt"
    program = few(snippet, CHECKPOINT=str(path), RESUME=True)
    run = program.after("resume")
    run.save([], {"settings": run.settings()})
    with no_stop():
        assert run.resume()[0] == []

    def said(**others):
        before = {name: vars(run)[name] for name in others}
        run.resume.__globals__.update(others)
        with pytest.raises(SystemExit) as caught:
            run.resume()
        run.resume.__globals__.update(before)
        return caught.value.code

    for words, (name, value) in OTHERS.items():
        expected = f"with {words} {vars(run)[name]}, not {value}"
        assert said(**{name: value}).endswith(expected)
    less = TensorDataset(torch.zeros(59))
    assert said(training=less).endswith("training images 60, not 59")
    assert "classes ['0', '1'" in said(classes=["cat", "dog"])
    for other in (b"", b"text", (tmp_path / "digits.pt.best").read_bytes()):
        path.write_bytes(other)
        assert str(path) in said()


@edits(
    ("SIZE, COLOR, EPOCHS, BATCH_SIZE,", "8, COLOR, EPOCHS, BATCH_SIZE,"),
    ("SIZE, COLOR, EPOCHS, BATCH_SIZE,", "SIZE, False, EPOCHS, BATCH_SIZE,"),
    ("SIZE, COLOR, EPOCHS, BATCH_SIZE,", "SIZE, COLOR, 5, BATCH_SIZE,"),
    ("SIZE, COLOR, EPOCHS, BATCH_SIZE,", "SIZE, COLOR, EPOCHS, 50,"),
    ("BATCH_SIZE, RATE, SEED\n", "BATCH_SIZE, 0.01, SEED\n"),
    ("BATCH_SIZE, RATE, SEED\n", "BATCH_SIZE, RATE, 0\n"),
    ('{"classes": classes, "training', '{"classes": 0, "training'),
    ('"training images": len(training)', '"training images": 0'),
    ('was = f"{name} {before', 'was = f"{before'),
    ('f"{CHECKPOINT} is no checkpoint', 'f"this is no checkpoint'),
)
def test_another_training_is_refused__but_not_with(
    snippet, tmp_path, old, new, fails
):
    fails(test_another_training_is_refused, snippet.edit(old, new), tmp_path)


# -- The report --------------------------------------------------------------


def test_the_classifier_reads_nine_of_ten(snippet):
    run = finished(snippet)
    images, truth = run.test.tensors

    known = {image.numpy().tobytes() for image in run.training.tensors[0]}
    assert not known & {image.numpy().tobytes() for image in images}
    assert truth.tolist() == [*range(10)] * 30
    run.model.eval()
    answers = run.model(images.to(run.device)).argmax(dim=1).cpu()
    assert (answers == truth).double().mean() > 0.95


@edits(
    (RANGES, "range(100), range(10_000, 10_010), range(20_000, 20_300)"),
    (RANGES, "range(90), range(200, 290), range(50)"),
)
def test_the_classifier_reads_nine_of_ten__but_not_with(
    snippet, old, new, fails
):
    fails(test_the_classifier_reads_nine_of_ten, snippet.edit(old, new))


def test_the_loss_falls_on_both(snippet):
    history = finished(snippet).history

    assert len(history) == 5
    assert history[-1][0] < history[0][0]
    assert history[-1][1] < history[0][1]


def test_the_loss_falls_on_both__also_with_300_images(snippet):
    test_the_loss_falls_on_both(snippet.edit(RANGES, LESS))


@edits(
    ("lr=RATE)", "lr=RATE, maximize=True)"),
    (
        "training, validation, test = (loaded(part) for part in parts)",
        "training, validation, test = (loaded(part) for part in parts)\n"
        "validation.tensors[1].add_(1).remainder_(10)",
    ),
)
def test_the_loss_falls_on_both__but_not_with(snippet, old, new, fails):
    edited = snippet.edit(RANGES, LESS).edit(old, new)
    fails(test_the_loss_falls_on_both, edited)


def test_the_conclusion_may_be_bad(snippet, counts=(30, 50, 20)):
    run = few(snippet, EPOCHS=1, BATCH_SIZE=60).after("conclusion")
    labels = torch.tensor([0] * 4 + [1] * 9 + [2] * 8)
    run.conclusion.__globals__["training"] = TensorDataset(labels, labels)
    truth = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    guessed, count = counts[1], sum(counts)
    spread = math.sqrt(count * guessed / count * (1 - guessed / count))

    endings = set()
    for hits in range(count + 1):
        answers = truth.clone()
        answers[hits:] += 1
        said = run.conclusion(answers, truth)
        if hits <= guessed:
            ending = "has not learned: it is no better than that."
        elif hits <= guessed + 2 * spread:
            ending = "is hardly better: that may be chance."
        else:
            ending = "has learned to tell the classes apart."
        endings.add(ending)
        assert said.startswith(f"{hits} of {count} test images are right;")
        assert f"always '1' gets {guessed} right. The network {ending}" in said
    assert len(endings) == 3


@pytest.mark.parametrize(
    "counts", [(0, 3, 0, 27), (6, 6, 6), (490, 10), (5, 20, 0, 5)]
)
def test_the_conclusion_may_be_bad__also_of(snippet, counts):
    test_the_conclusion_may_be_bad(snippet, counts)


def test_the_conclusion_may_be_bad__also_in_a_run(snippet):
    run = few(snippet, EPOCHS=1, RATE=1e-9).after("conclusion")

    said = run.conclusion(run.answers, run.truth)
    assert "is no better than that" in said or "may be chance" in said


@edits(
    ("if hits <= guessed:", "if hits < guessed:"),
    ("if hits <= guessed + 2 * spread:", "if hits <= guessed + spread:"),
    (".bincount().argmax()", ".bincount().argmin()"),
    ("guessed * (1 - guessed / count)", "guessed"),
)
def test_the_conclusion_may_be_bad__but_not_with(snippet, old, new, fails):
    fails(test_the_conclusion_may_be_bad, snippet.edit(old, new))


def test_the_worst_mistakes_come_first(snippet):
    run = few(snippet, EPOCHS=1).after("mistakes")
    run.model.eval()
    images, truth = run.test.tensors
    logits = run.model(images.to(run.device)).cpu().detach()
    answers = logits.argmax(dim=1)
    losses = F.cross_entropy(logits, truth, reduction="none").tolist()

    rows = [
        (loss, (20_000 + i, str(name), str(answer)))
        for i, (loss, name, answer) in enumerate(
            zip(losses, truth.tolist(), answers.tolist(), strict=True)
        )
        if name != answer
    ]
    assert len(rows) > 8
    rows.sort(reverse=True)
    assert run.mistakes == [row for _, row in rows]


@edits(
    ("argsort(descending=True)", "argsort()"),
    (" if not right[i]]", "]"),
    ("classes[truth[i]], classes[answers[i]])", "classes[truth[i]], i)"),
    ("(parts[2][i][0], classes", "(parts[1][i][0], classes"),
    ("parts[2][i][0], classes[truth[i]]", "parts[2][i][0], classes[i % 3]"),
)
def test_the_worst_mistakes_come_first__but_not_with(snippet, old, new, fails):
    fails(test_the_worst_mistakes_come_first, snippet.edit(old, new))


def test_one_image_is_read_alike(snippet):
    run = finished(snippet)

    alone = [run.answer_to(pixels) for pixels, _ in run.test]
    assert alone == [run.classes[answer] for answer in run.answers]


def test_one_image_is_read_alike__but_not_in_training_mode(snippet, fails):
    edited = snippet.edit(
        'one image."""\n    model.eval()', 'it."""\n    model.train()'
    )
    fails(test_one_image_is_read_alike, few(edited, EPOCHS=2))
