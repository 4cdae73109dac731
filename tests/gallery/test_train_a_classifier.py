"""The claims of gallery/train_a_classifier.py."""

import math
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.forks import ForkedPython
from tests.helpers.recipes import as_script, constants, given, same, told

for library in ("PIL", "tqdm"):
    pytest.importorskip(library, reason=f"{library} is not installed")

RANGES = "range(1500), range(10_000, 10_300), range(20_000, 20_300)"
FEW = "range(60), range(10_000, 10_020), range(20_000, 20_020)"


def few(snippet, **constants):
    """Return the program with few digits, and other settings."""
    settings = {"SIZE": 8, "BATCH_SIZE": 25} | constants
    return given(snippet.edit(RANGES, FEW), **settings)


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


@pytest.fixture(autouse=True)
def _ctrl_c_as_before():
    """Let Ctrl-C do to the tests what it did before a script was tested."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


# -- Settings ----------------------------------------------------------------

ARGUMENTS = {
    "DATA": (["--data", "photos"], "photos"),
    "SIZE": (["--size", "64"], 64),
    "EPOCHS": (["--epochs", "300"], 300),
    "BATCH_SIZE": (["--batch-size", "7"], 7),
    "RATE": (["--rate", "0.25"], 0.25),
    "CHECKPOINT": (["--checkpoint", "digits.pt"], "digits.pt"),
    "SEED": (["--seed", "5"], 5),
    "PREDICT": (["--predict", "a.png", "b.jpg"], ["a.png", "b.jpg"]),
}


def test_each_argument_sets_its_constant(snippet):
    script, expected = as_script(snippet), constants(snippet, ARGUMENTS)
    assert told(script, [], ARGUMENTS) == expected
    for name, (words, value) in ARGUMENTS.items():
        changed = expected | {name: value}
        assert told(script, words, ARGUMENTS) == changed
        assert told(snippet, words, ARGUMENTS) == expected


@edits(
    ("DATA, SIZE, EPOCHS = options", "DATA, EPOCHS, SIZE = options"),
    ('"--rate", type=float', '"--rate", type=str'),
    ('if "__file__" in globals():', "if True:"),
    ("CHECKPOINT, SEED = options", "_, SEED = options"),
    ("default=SEED", "default=1"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With `EPOCHS, SIZE` swapped, each gets the other's value; the other
    edits lose or change values, or read arguments in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


SENSELESS = [
    {"EPOCHS": 0},
    {"EPOCHS": -3},
    {"BATCH_SIZE": 0},
    {"BATCH_SIZE": -1},
    {"RATE": 0.0},
    {"RATE": -1.0},
    {"SIZE": 3},
    {"PREDICT": ["new.jpg"]},
]


def test_a_senseless_setting_is_refused(snippet):
    for settings in SENSELESS:
        assert refusal(given(snippet, **settings), "setup")
    no_number = snippet.edit(
        "\nSEED = 0\n", "\nSEED = 0\nRATE = float('nan')\n"
    )
    assert refusal(no_number, "setup")

    least = few(snippet, SIZE=4, EPOCHS=1, BATCH_SIZE=1, RATE=1e-9)
    with no_stop():
        least.edit("range(60)", "range(9)").after("report")


@edits(
    ("EPOCHS < 1 or", "EPOCHS < 0 or"),
    ("BATCH_SIZE < 1", "BATCH_SIZE < 0"),
    ("not RATE > 0", "not RATE >= 0"),
    ("not RATE > 0", "RATE <= 0"),
    ("SIZE < 4:", "SIZE < 3:"),
    ("SIZE < 4:", "SIZE < 5:"),
    ("if PREDICT and not CHECKPOINT:", "if PREDICT and CHECKPOINT:"),
)
def test_a_senseless_setting_is_refused__but_not_with(
    snippet, old, new, fails
):
    """With `EPOCHS < 0`, 0 epochs are accepted; the other edits move another
    bound.
    """
    fails(test_a_senseless_setting_is_refused, snippet.edit(old, new))


def test_a_checkpoint_that_cannot_be_written_is_refused(snippet, tmp_path):
    (tmp_path / "folder.pt").mkdir()
    for path in (
        "no/such/folder.pt",
        f"{__file__}/digits.pt",
        str(tmp_path / "folder.pt"),
        str(tmp_path / ("long" * 99)),
    ):
        said = refusal(given(snippet, CHECKPOINT=path), "setup")
        assert said.startswith(f"cannot write {path}: ")

    old = tmp_path / "old.pt"
    old.write_bytes(b"as before")
    for path in (old, tmp_path / "new.pt"):
        with no_stop():
            given(snippet, CHECKPOINT=str(path)).after("setup")
    assert {path.name for path in tmp_path.iterdir()} == {
        "folder.pt",
        "old.pt",
    }
    assert old.read_bytes() == b"as before"


@edits(
    (
        '{error}") from None\n\ntorch.manual',
        '{error}"[-9:])\n\ntorch.manual',
    ),
    ("if Path(CHECKPOINT).is_dir():", "if False:"),
    ("        partial.unlink()\n", ""),
    ('f"cannot write {CHECKPOINT}: {error}"', '"cannot write"'),
    (
        'partial = Path(f"{CHECKPOINT}.partial")\n    try',
        "partial = Path(CHECKPOINT)\n    try",
    ),
)
def test_a_checkpoint_that_cannot_be_written_is_refused__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Cut by `[-9:]`, the line names no file; the other edits name none
    either, accept a folder, or leave or delete files.
    """
    edited = snippet.edit(old, new)
    fails(
        test_a_checkpoint_that_cannot_be_written_is_refused, edited, tmp_path
    )


def script_of(snippet, tmp_path):
    """Write the program, without its pictures, as a script."""
    script = tmp_path / "train.py"
    cells = few(snippet).cells().values()
    shown = [each.source for each in cells if not each.is_display]
    script.write_text("\n".join(shown))
    return script


@pytest.mark.skipif(sys.platform == "win32", reason="ends the process there")
def test_ctrl_c_ends_the_script_with_a_line(snippet):
    kill = "import os\n    os.kill(os.getpid(), signal.SIGINT)\n"
    edited = snippet.edit(
        "    total, loader = 0.0,", f"    {kill}    total, loader = 0.0,"
    )
    stop = None
    with patch("sys.argv", ["train.py"]):
        try:
            as_script(few(edited)).after("train")
        except (SystemExit, KeyboardInterrupt) as caught:
            stop = caught
    assert type(stop) is SystemExit
    assert type(stop.code) is str  # printed by Python, with exit status 1
    assert stop.code.startswith("stopped: ")
    assert "\n" not in stop.code


@pytest.mark.skipif(sys.platform == "win32", reason="ends the process there")
def test_ctrl_c_ends_the_script_with_a_line__but_not_without_a_handler(
    snippet, fails
):
    """Without the handler, Ctrl-C ends the script with a traceback."""
    edited = snippet.edit("    signal.signal(signal.SIGINT, stop)\n", "")
    fails(test_ctrl_c_ends_the_script_with_a_line, edited)


CPU = torch.device("cpu")
META = torch.device("meta")  # stands for an accelerator


@pytest.mark.simulates("an accelerator")
def test_an_accelerator_is_used_if_there_is_one(snippet, there=True):
    accelerator, cross_entropy = torch.accelerator, F.cross_entropy
    computed = []  # the device of all that goes into the network and a loss

    def noted(*tensors):
        computed.extend(each.device for each in tensors)
        return cross_entropy(*tensors)

    with (
        patch.object(accelerator, "is_available", lambda: there),
        patch.object(accelerator, "current_accelerator", lambda: META),
    ):
        run = few(snippet).after("evaluate")
    run.model.register_forward_pre_hook(
        lambda _, inputs: computed.append(inputs[0].device)
    )
    with (
        patch.object(F, "cross_entropy", noted),
        patch.object(torch.Tensor, "item", lambda _: 1.0),
        patch.object(torch.Tensor, "cpu", lambda x: torch.zeros(len(x), 10)),
        no_error(),
    ):
        run.train_epoch(1)
        trained = [*computed]
        computed.clear()
        run.evaluate(run.validation)

    device = META if there else CPU
    assert {each.device for each in run.model.parameters()} == {device}
    assert trained == 3 * [device, device, device]
    assert computed == [device, CPU, CPU]


def test_an_accelerator_is_used_if_there_is_one__also_without_one(snippet):
    test_an_accelerator_is_used_if_there_is_one(snippet, there=False)


@edits(
    ("current_accelerator() if available", "current_accelerator() if 0"),
    (").to(device)\noptimizer", ")\noptimizer"),
    (
        "        logits = model(images.to(device)",
        "        logits = model(images",
    ),
    ("logits, labels.to(device))", "logits, labels)"),
    ("[model(images.to(device) / 255) for", "[model(images / 255) for"),
)
def test_an_accelerator_is_used_if_there_is_one__but_not_with(
    snippet, fails, old, new
):
    """With `if 0`, everything stays on the CPU; the other edits leave the
    network or part of a batch there.
    """
    edited = snippet.edit(old, new)
    fails(test_an_accelerator_is_used_if_there_is_one, edited)


# -- A reader's folder -------------------------------------------------------


def files(folder, **classes):
    """Make empty files with the endings of images."""
    endings = [".jpg", ".PNG", ".jpeg", ".webp", ".tif", ".tiff", ".bmp"]
    endings.append(".gif")
    for name, count in classes.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (folder / name / f"{number}{endings[number % 8]}").touch()
    return folder


@cache
def finder(snippet):
    """Return the function that finds a reader's images."""
    return snippet.only("settings", "setup", "folder").after("folder").found


def test_each_image_is_in_one_part(snippet, tmp_path, a=10, b=41, c=3):
    files(tmp_path, ant=a, bee=b, Cat=c)
    expected = sorted(tmp_path.rglob("*.*"))
    for name in (".git", "ant/.ipynb_checkpoints", "ant/deeper"):
        (tmp_path / name).mkdir()
    for name in (
        "7.jpg", ".git/7.jpg", "ant/notes.txt", "ant/.7.jpg", "ant/.jpg",
        "ant/.ipynb_checkpoints/7.jpg", "ant/deeper/7.jpg",
    ):  # fmt: skip
        (tmp_path / name).touch()

    with no_stop():
        classes, parts = finder(snippet)(tmp_path)
        glob, rglob = Path.glob, Path.rglob
        with (
            patch.object(Path, "glob", lambda *of: [*glob(*of)][::-1]),
            patch.object(Path, "rglob", lambda *of: [*rglob(*of)][::-1]),
        ):
            again = finder(snippet)(tmp_path)

    assert again == (classes, parts)
    assert classes == ["Cat", "ant", "bee"]
    assert sorted(path for part in parts for path, _ in part) == expected
    for label, count in enumerate((c, a, b)):
        split = [[path for path, k in part if k == label] for part in parts]
        held = max(1, math.floor(count * 15 / 100))
        assert [len(paths) for paths in split] == [
            count - 2 * held, held, held
        ]  # fmt: skip
        names = {path.parent.name for paths in split for path in paths}
        assert names == {classes[label]}


@pytest.mark.parametrize("counts", [(3, 6, 7), (13, 14, 19), (20, 26, 100)])
def test_each_image_is_in_one_part__also_of(snippet, tmp_path, counts):
    test_each_image_is_in_one_part(snippet, tmp_path, *counts)


def test_each_image_is_in_one_part__also_at_random(snippet, tmp_path):
    files(tmp_path, ant=20, bee=20)
    run = snippet.only("settings", "setup", "folder").after("folder")
    splits = []
    for seed in range(11):
        run.found.__globals__["SEED"] = seed
        splits.append([set(part) for part in run.found(tmp_path)[1]])
    assert all(splits[0] != other for other in splits[1:])


@edits(
    ("own if root else own[held:]", "own"),
    ("own if root else own[held:]", "own if root else own[held - 1 :]"),
    ("own if root else own[held:]", "own if part == 2 else own[held:]"),
    ("len(own) * 15 // 100", "len(own) * 20 // 100"),
    ("max(1, len(own)", "max(2, len(own)"),
    (".suffix.lower() in", ".suffix in"),
    (" and path.suffix.lower() in ENDINGS", ""),
    ('name[0] == "." for name in names', 'name == "." for name in names'),
    ("len(names) == 1 and path", "path"),
    ('glob("[!.]*/")', 'glob("*/")'),
    ("parts[0].extend((path, label)", "parts[0].extend((path, 0)"),
    ("random.Random(SEED).shuffle", "random.Random().shuffle"),
    ('sorted(folder.rglob("*"))', 'list(folder.rglob("*"))'),
)
def test_each_image_is_in_one_part__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without `own[held:]`, images for validation are used again; the other
    edits choose, split or label files otherwise.
    """
    edited = snippet.edit(old, new)
    fails(test_each_image_is_in_one_part, edited, tmp_path)


def parts_in(run_found, folder):
    """Return the paths of each part, below a folder."""
    classes, parts = run_found(folder)
    assert classes == ["ant", "bee"]
    for part in parts:
        for path, label in part:
            assert path.parent.name == classes[label]
    inside = [[path.relative_to(folder) for path, _ in part] for part in parts]
    return [sorted(map(Path.as_posix, part)) for part in inside]


def test_a_given_split_is_kept(snippet, tmp_path, val="val", held=(41, 6, 20)):
    own, few_, many = held
    found = finder(snippet)
    counts = {"train/ant": own, "train/bee": own}
    counts |= {f"{val}/ant": few_, f"{val}/bee": few_}

    with no_stop():
        folder = files(tmp_path / "two", **counts)
        train, validation, test = parts_in(found, folder)
        third = {"test/ant": many, "test/bee": few_}
        folder = files(tmp_path / "three", **counts | third)
        all_three = parts_in(found, folder)

    taken = 2 * max(1, own * 15 // 100)
    assert {name.partition("/")[0] for name in validation} == {val}
    assert len(validation) == 2 * few_
    assert len(test) == taken
    assert {name.partition("/")[0] for name in train + test} == {"train"}
    assert len({*train, *test}) == len(train + test) == 2 * own
    for part, name in zip(all_three, ("train", val, "test"), strict=True):
        assert {each.partition("/")[0] for each in part} == {name}
    assert [*map(len, all_three)] == [2 * own, 2 * few_, many + few_]


@pytest.mark.parametrize("val", ["Val", "valid", "validation"])
def test_a_given_split_is_kept__also_in(snippet, tmp_path, val):
    test_a_given_split_is_kept(snippet, tmp_path, val, (2, 1, 1))


def test_a_given_split_is_kept__also_with_little_to_train_on(
    snippet, tmp_path
):
    test_a_given_split_is_kept(snippet, tmp_path, "val", (3, 30, 40))


def test_a_given_split_is_kept__also_without_a_validation_set(
    snippet, tmp_path
):
    counts = {"train/ant": 20, "train/bee": 20, "test/ant": 1, "test/bee": 1}
    train, validation, test = parts_in(
        finder(snippet), files(tmp_path, **counts)
    )
    assert {name.partition("/")[0] for name in test} == {"test"}
    assert {each.partition("/")[0] for each in train + validation} == {"train"}
    assert (len(train), len(validation), len(test)) == (34, 6, 2)


@edits(
    ("images_in(root / name) if root else own[:held]", "own[:held]"),
    ("own if root else own[held:]", "own[held:]"),
    ("own if root else own[held:]", "own"),
    ("len(named) < 2:", "len(named) < 3:"),
    ('"val": 1', '"val": 2'),
)
def test_a_given_split_is_kept__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """With `own[:held]` alone, the images for validation come from `train/`;
    the other edits take others, or misread the names.
    """
    fails(test_a_given_split_is_kept, snippet.edit(old, new), tmp_path)


def test_what_is_left_out_is_counted(snippet, tmp_path, capsys):
    files(tmp_path, ant=5, bee=5)
    finder(snippet)(tmp_path)
    assert capsys.readouterr().out == ""

    (tmp_path / "ant" / ".hidden").mkdir()
    for ending in ("jfif", "AVIF", "jpe"):
        (tmp_path / "ant" / f"more.{ending}").touch()
    (tmp_path / "bee" / "deeper" / "more").mkdir(parents=True)
    for name in (
        "ant/notes.txt", "ant/data.npy", "ant/.hidden/8.jpg", "ant/.8.jpg",
        "bee/deeper/8.jpg", "bee/deeper/more/9.jpg", "bee/ray",
        "bee/deeper/.DS_Store",
    ):  # fmt: skip
        (tmp_path / name).touch()
    _, parts = finder(snippet)(tmp_path)
    assert sum(map(len, parts)) == 13
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    ant, bee = lines
    assert ant.startswith("left out: 2 files such as ")
    assert bee.startswith("left out: 3 files such as ")
    assert str(Path("ant", "data.npy")) in ant
    assert str(Path("bee", "deeper")) in bee


@edits(
    ("    if others:\n", "    if len(others) > 2:\n"),
    ('print(f"left out: {len(others)} files', 'print(f"left out: 3 files'),
    ("len(names) == 1 and path", "path"),
    ('ENDINGS = {".avif", ', "ENDINGS = {"),
    ('".gif", ".jfif"', '".gif"'),
    ("sorted(folder.rglob", "sorted(folder.glob"),
    ('any(name[0] == "." for name in names)', 'names[-1][0] == "."'),
)
def test_what_is_left_out_is_counted__but_not_with(
    snippet, tmp_path, capsys, old, new, fails
):
    """With `> 2`, two files are left out without a word; the other edits
    miscount, or leave out other files.
    """
    edited = snippet.edit(old, new)
    fails(test_what_is_left_out_is_counted, edited, tmp_path, capsys)


def test_what_is_missing_is_named(snippet, tmp_path):
    def refused(name, **classes):
        folder = files(tmp_path / name, **classes)
        with no_error(), pytest.raises(SystemExit) as caught:
            finder(snippet)(folder)
        return caught.value.code

    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for name in ("nowhere", "file", "empty"):
        assert str(tmp_path / name) in refused(name)
    assert str(tmp_path / "one") in refused("one", ant=9)
    for count in (0, 2):
        said = refused(f"few{count}", ant=9, bee=count)
        assert str(Path(f"few{count}", "bee")) in said
    for part in ("val", "valid", "validation", "Test"):
        for other in ({"train": 9, "cat": 9}, {"train": 9, "ant": 9, "b": 9}):
            name = f"split {part} {len(other)}"
            said = refused(name, **{part: 9} | other)
            assert str(tmp_path / name) in said
    said = refused("without train", val=9, test=9)
    assert str(tmp_path / "without train") in said
    counts = {f"{p}/{n}": 9 for p in ("train", "val", "valid") for n in "ab"}
    said = refused("twice", **counts)
    assert said.startswith(str(tmp_path / "twice needs"))
    counts = {f"{p}/{n}": 9 for p in ("train", "val", "ants") for n in "ab"}
    said = refused("beside", **counts)
    assert said.startswith(str(tmp_path / "beside needs"))
    for name, wrong in {
        "more": {"val/ant": 1, "val/bee": 1, "val/cat": 1},
        "fewer": {"val/ant": 1},
        "others": {"val/ant": 1, "val/cow": 1},
        "none": {"val/ant": 1, "val/bee": 0},
    }.items():
        said = refused(name, **{"train/ant": 9, "train/bee": 9} | wrong)
        assert str(tmp_path / name / "val") in said
    said = refused("two", **{"train/ant": 9, "train/bee": 1, **VAL})
    assert str(tmp_path / "two" / "train" / "bee") in said

    with no_stop():
        finder(snippet)(files(tmp_path / "traffic", train=3, bus=3))


VAL = {"val/ant": 1, "val/bee": 1}


@edits(
    ("len(names) < 2", "len(names) < 1"),
    ("least=1 + roots.count(None)", "least=roots.count(None)"),
    ("len(images) < least", "len(images) < least - 1"),
    ('f"{folder} has {len(images)}', 'f"it has {len(images)}'),
    ('f"{root} needs folders', 'f"it needs folders'),
    ('f"{folder} needs train', 'f"it needs train'),
    ("len(named) < 2:", "len(named) < 1:"),
    ("if 0 not in split or not", "if not"),
    ("len(split) == len(named) == len(names)", "len(split) == len(named)"),
    ("len(split) == len(named) == len(names)", "len(named) == len(names)"),
    ("names != classes or", ""),
    ("name.lower() in PARTS]", "name in PARTS]"),
    ('"valid": 1, "validation": 1, "test": 2', '"validation": 1, "test": 2'),
)
def test_what_is_missing_is_named__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """With `< 1`, a single class is accepted; the other edits overlook other
    faults, or do not name the folder.
    """
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


DRAW = ("settings", "setup", "pixels", "digits")


def test_each_digit_is_drawn_from_its_number(snippet, numbers=range(40)):
    run = snippet.only(*DRAW).after("digits")
    first = [run.drawn(number) for number in numbers]
    torch.manual_seed(7)
    again = [run.drawn(number) for number in reversed(numbers)]

    assert same(first, again[::-1])
    assert len({each.numpy().tobytes() for each in first}) == len(numbers)
    for each in first:
        assert (each.shape, each.dtype) == ((3, 20, 20), torch.uint8)
        assert 20 < each.double().std() < 90
        assert each.max() > 240


def test_each_digit_is_drawn_from_its_number__also_its_last_digit(snippet):
    from PIL import ImageDraw

    run, seen = snippet.only(*DRAW).after("digits"), []
    text = ImageDraw.ImageDraw.text

    def noted(image, place, digit, *others):
        seen.append(digit)
        return text(image, place, digit, *others)

    far = [run.drawn(number) for number in (8, 1008, 10_008, 20_008)]
    assert len({each.numpy().tobytes() for each in far}) == len(far)
    with patch.object(ImageDraw.ImageDraw, "text", noted):
        for number in (0, 7, 19, 20_008):
            run.drawn(number)
    assert seen == ["0", "7", "9", "8"]


def test_each_digit_is_drawn_from_its_number__also_in_a_new_process(snippet):
    program = snippet.only(*DRAW)
    code = (
        "print([drawn(number).double().std().item() for number in range(9)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{program.text}\n{code}"],
        check=True,
        text=True,
        capture_output=True,
    )
    drawn = program.after("digits").drawn
    own = [drawn(number).double().std().item() for number in range(9)]
    assert done.stdout == f"{own}\n"


@edits(
    ("torch.randint(6, (3,), generator=generator)", "torch.randint(6, (3,))"),
    (
        "torch.randn(3, SIZE, SIZE, generator=generator)",
        "torch.randn(3, SIZE, SIZE)",
    ),
    (".manual_seed(number)", ".manual_seed(0)"),
    ("255, FONTS", "0, FONTS"),
)
def test_each_digit_is_drawn_from_its_number__but_not_with(
    snippet, fails, old, new
):
    """Without `generator`, a digit is drawn differently each time; the other
    edits draw all alike, or in black on black.
    """
    edited = snippet.edit(old, new)
    fails(test_each_digit_is_drawn_from_its_number, edited, range(10, 90, 10))


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


def test_each_image_becomes_a_square(snippet, tmp_path, size=20, ending="png"):
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    path = tmp_path / f"lying.{ending}"
    Image.new("RGB", (60, 30), (255, 0, 128)).save(path, exif=exif)

    cells = snippet.only("settings", "options", "setup", "pixels", "opened")
    run = given(cells, SIZE=size).after("opened")
    pixels = run.opened(path).float()

    expected = torch.zeros(3, size, size)
    expected[0, :, size // 4 : size - size // 4] = 255
    expected[2, :, size // 4 : size - size // 4] = 128
    assert torch.allclose(pixels, expected, atol=9)


# What turns an upright image into one with this number in its EXIF data.
TURNS = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE", 6: "ROTATE_90", 7: "TRANSVERSE", 8: "ROTATE_270",
}  # fmt: skip


@pytest.mark.parametrize("number", [1, *TURNS], ids="orientation {}".format)
def test_each_image_becomes_a_square__also_with(snippet, tmp_path, number):
    from PIL import Image

    upright = Image.new("RGB", (20, 20))
    upright.paste((255, 0, 0), (0, 0, 10, 10))
    upright.paste((0, 255, 0), (10, 0, 20, 10))
    exif = Image.Exif()
    exif[0x0112] = number
    turn = TURNS.get(number)
    turned = upright.transpose(Image.Transpose[turn]) if turn else upright
    upright.save(tmp_path / "upright.png")
    turned.save(tmp_path / "turned.png", exif=exif)

    cells = snippet.only("settings", "options", "setup", "pixels", "opened")
    opened = cells.after("opened").opened
    assert torch.equal(
        opened(tmp_path / "turned.png"), opened(tmp_path / "upright.png")
    )


def test_each_image_becomes_a_square__also_if_it_is_long(snippet, tmp_path):
    from PIL import Image

    cells = snippet.only("settings", "options", "setup", "pixels", "opened")
    long = Image.new("L", (200, 4000))
    long.paste(255, (0, 2000, 200, 4000))
    long.save(tmp_path / "long.png")
    column = cells.after("opened").opened(tmp_path / "long.png")[0].amax(1)
    assert column[:9].max() < 9
    assert column[11:].min() > 246


def test_the_square_is_padded_with_black(snippet, tmp_path, size=20):
    from PIL import Image

    cells = snippet.only("settings", "options", "setup", "pixels", "opened")
    run = given(cells, SIZE=size).after("opened")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (60, 30), "white").save(tmp_path / "wide.png")
    wide = run.opened(tmp_path / "wide.png")
    quarter = size // 4
    assert wide[:, : quarter - 1].max() == wide[:, 1 - quarter :].max() == 0
    assert wide[:, quarter + 1 : -1 - quarter].min() == 255

    clear = Image.new("RGBA", (60, 60), (0, 0, 0, 0))
    clear.paste((0, 0, 0, 255), (0, 0, 60, 30))
    seen = []
    for image in (clear, clear.convert("LA"), clear.quantize(4)):
        image.save(tmp_path / "clear.png", exif=exif)
        seen.append(run.opened(tmp_path / "clear.png"))
    assert all(each[..., size // 2 + 3 :].max() == 0 for each in seen)
    assert all(each[..., : size // 2 - 3].min() == 255 for each in seen)


@pytest.mark.parametrize("size", [12, 64])
@pytest.mark.parametrize("ending", ["tif", "webp"])
def test_each_image_becomes_a_square__also_as(snippet, tmp_path, size, ending):
    test_each_image_becomes_a_square(snippet, tmp_path, size, ending)


@pytest.mark.parametrize("size", [12, 64])
def test_the_square_is_padded_with_black__also_of(snippet, tmp_path, size):
    test_the_square_is_padded_with_black(snippet, tmp_path, size)


@edits(
    ("ImageOps.exif_transpose(image)", "image"),
    ("ImageOps.pad(image, (size, size))", "image.resize((size, size))"),
    ("ImageOps.pad(image, (size, size))", "ImageOps.fit(image, (size, size))"),
    (".permute(2, 0, 1)", ".permute(2, 1, 0)"),
    (".permute(2, 0, 1)", ".permute(2, 0, 1).flip(0)"),
)
def test_each_image_becomes_a_square__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without `exif_transpose()`, an image that lies on its side stays so; the
    other edits stretch, crop, turn or recolor it.
    """
    edited = snippet.edit(old, new)
    fails(test_each_image_becomes_a_square, edited, tmp_path)


@edits(
    ('image.size, "white")', 'image.size, "black")'),
    ("Image.alpha_composite(white, image)", "image"),
    ("(image, (size, size))", "(image, (size, size), color='white')"),
)
def test_the_square_is_padded_with_black__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """On black, or without `alpha_composite()`, what is transparent becomes
    black; the third edit pads with white.
    """
    edited = snippet.edit(old, new)
    fails(test_the_square_is_padded_with_black, edited, tmp_path)


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
        ("I;16B", "tif"),
        ("I", "tif"),
        ("F", "tif"),
    ],
    ids=[
        "a JPEG cut off",
        "a GIF cut off",
        "a BMP cut off",
        "an empty PNG",
        "a text named jpg",
        "a PNG of 16 bits",
        "a big endian TIFF of 16 bits",
        "a TIFF of 32 bits",
        "a TIFF of floats",
    ],
)
def test_a_bad_file_is_named__also_if_the_file_is(
    snippet, tmp_path, kind, ending
):
    test_a_bad_file_is_named(snippet, tmp_path, kind, ending)


@edits(
    ('f"cannot read {path}: {error}"', 'f"cannot read a file: {error}"'),
    (
        'raise SystemExit(f"cannot read {path}: {error}") from None',
        "return torch.zeros(3, 20, 20)",
    ),
)
def test_a_bad_file_is_named__but_not_with(snippet, tmp_path, old, new, fails):
    """Without `{path}`, the line does not name the file; in the second edit, a
    bad file becomes a black image.
    """
    fails(test_a_bad_file_is_named, snippet.edit(old, new), tmp_path)


def test_a_bad_file_is_named__but_not_if_16_bits_pass(
    snippet, tmp_path, fails
):
    """Without `[0]`, a PNG of 16 bits is accepted."""
    edited = snippet.edit("if image.mode[0] in", "if image.mode in")
    fails(test_a_bad_file_is_named, edited, tmp_path, "I;16", "png")


def test_a_folder_trains(snippet, tmp_path, seed=0):
    pictures(tmp_path)
    with no_stop():
        program = given(snippet, DATA=str(tmp_path), EPOCHS=4, SEED=seed)
        run = program.after("conclusion")

    assert run.test.tensors[0].shape == (12, 3, 20, 20)
    named = [path.parent.name == "light" for path, _ in run.parts[2]]
    brightness = run.test.tensors[0].double().mean(dim=(1, 2, 3))
    assert (brightness > 90).tolist() == named
    assert (run.answers == torch.tensor(named)).double().mean() > 0.9
    assert run.conclusion == "has learned"


def test_a_folder_trains__also_with_seed_1(snippet, tmp_path):
    test_a_folder_trains(snippet, tmp_path, 1)


@edits(
    (', image).convert("RGB")', ", image)"),
    ("ImageOps.pad(image, (size, size))", "image"),
    ("        optimizer.step()\n", ""),
    ('"has learned" if', '"may have learned" if'),
)
def test_a_folder_trains__but_not_with(snippet, tmp_path, old, new, fails):
    """Without `convert("RGB")`, no image can be read; the other edits do not
    scale, do not learn, or do not say so.
    """
    fails(test_a_folder_trains, snippet.edit(old, new), tmp_path)


# -- Training ----------------------------------------------------------------


def test_each_image_counts_the_same(snippet, size=7):
    run = few(snippet, BATCH_SIZE=size).after("evaluate")
    seen, orders, read = [], [], []

    def noted(logits, labels):
        loss = cross_entropy(logits, labels)
        seen.append((loss.tolist(), labels.tolist()))
        return loss

    def noted_item(tensor):
        read.append(tensor.requires_grad)
        return item(tensor)

    cross_entropy, item = F.cross_entropy, torch.Tensor.item
    for epoch in (1, 2):
        seen.clear()
        read.clear()
        with (
            patch.object(F, "cross_entropy", noted),
            patch.object(torch.Tensor, "item", noted_item),
        ):
            loss = run.train_epoch(epoch)
        assert read
        assert not any(read)  # a sum with a graph would keep each batch's
        total = sum(each * len(labels) for each, labels in seen)
        assert loss == pytest.approx(total / 60, rel=1e-6)
        orders.append([label for _, labels in seen for label in labels])
        assert sorted(orders[-1]) == sorted([*range(10)] * 6)
    assert orders[0] != orders[1]

    loss, logits = run.evaluate(run.validation)
    assert not logits.requires_grad
    run.model.eval()
    images, truth = run.validation.tensors
    expected = run.model(images.to(run.device) / 255).cpu()
    assert torch.allclose(logits, expected, atol=1e-5)
    expected = F.cross_entropy(expected, truth).item()
    assert type(loss) is float
    assert loss == pytest.approx(expected, rel=1e-5)


def test_evaluating_changes_nothing(snippet):
    run = few(snippet).after("evaluate")
    for _ in range(2):
        before = {k: v.clone() for k, v in run.model.state_dict().items()}
        run.evaluate(run.validation)
        assert same(before, dict(run.model.state_dict()))
        run.train_epoch(1)
        after = dict(run.model.state_dict())
        assert not any(same(before[name], after[name]) for name in before)


@edits(
    ('of each."""\n    model.eval()', 'of each."""\n    model.train()'),
    (
        "    logits = torch.cat(b",
        "    optimizer.step()\n    logits = torch.cat(b",
    ),
)
def test_evaluating_changes_nothing__but_not_with(snippet, old, new, fails):
    """In training mode, evaluating changes the running statistics; the second
    edit takes a step.
    """
    fails(test_evaluating_changes_nothing, snippet.edit(old, new))


@pytest.mark.parametrize("size", [1, 500])
def test_each_image_counts_the_same__also_in_batches_of(snippet, size):
    test_each_image_counts_the_same(snippet, size)


@edits(
    ("BATCH_SIZE, shuffle=True", "BATCH_SIZE"),
    ("BATCH_SIZE, shuffle=True", "BATCH_SIZE, True, drop_last=True"),
    ("total += loss.detach() * len(labels)", "total += loss.detach() * 7"),
    ("total += loss.detach() *", "total += loss *"),
    ("(logits, dataset.tensors[1])", "(logits[:7], dataset.tensors[1][:7])"),
    ('of each."""\n    model.eval()', 'of each."""\n    model.train()'),
)
def test_each_image_counts_the_same__but_not_with(snippet, old, new, fails):
    """Without `shuffle=True`, every epoch has the same order; the other edits
    change a mean, or keep a graph.
    """
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
    stopped = pytest.raises(KeyboardInterrupt)
    with patch.object(F, "cross_entropy", stop), stopped:
        program.after("train")


@pytest.fixture(scope="module")
def end(tmp_path_factory):
    """Return what holds the checkpoint of an uninterrupted program."""

    @cache
    def of(program):
        path = str(tmp_path_factory.mktemp("whole") / "digits.pt")
        settings = {"EPOCHS": 2, "RATE": 0.1, "SEED": 1, "CHECKPOINT": path}
        few(program, **settings).after("train")
        return torch.load(path)

    return of


def test_resuming_changes_nothing(snippet, tmp_path, end, calls=5):
    part = str(tmp_path / "part.pt")
    # The first epoch is the best; each has three batches, and one validation.
    snippet = snippet.edit(
        "evaluate(validation)[0]", "evaluate(validation)[0] + 9 * epoch"
    )
    program = few(snippet, EPOCHS=2, RATE=0.1, SEED=1, CHECKPOINT=part)

    cut_short(program, calls)
    if calls >= 4:  # an epoch was over
        assert Path(part).exists()
        assert len(torch.load(part)["history"]) == 1
    with no_stop():
        program.after("train")

    whole = end(snippet)
    assert len(whole["history"]) == 2
    assert same(torch.load(part), whole)


@pytest.mark.parametrize("calls", [0, 3, 7], ids="{} losses".format)
def test_resuming_changes_nothing__also_if_stopped_after(
    snippet, tmp_path, end, calls
):
    test_resuming_changes_nothing(snippet, tmp_path, end, calls)


def test_resuming_changes_nothing__also_after_a_worse_epoch(snippet, tmp_path):
    snippet = snippet.edit(
        "evaluate(validation)[0]", "evaluate(validation)[0] + 9 * epoch"
    )
    for name, stops in (("part.pt", (2, 3)), ("whole.pt", (3,))):
        for epochs in stops:
            settings = {"EPOCHS": epochs, "CHECKPOINT": str(tmp_path / name)}
            with no_stop():
                few(snippet, **settings).after("train")

    part, whole = (torch.load(tmp_path / f"{n}.pt") for n in ("part", "whole"))
    assert part["best"]["epoch"] == 1
    assert len(part["history"]) == 3
    assert same(part, whole)


def test_resuming_changes_nothing__also_after_the_end(snippet, tmp_path, end):
    part = str(tmp_path / "part.pt")
    for epochs in (1, 2, 2, 1):
        settings = {"EPOCHS": epochs, "RATE": 0.1, "SEED": 1}
        with no_stop():
            few(snippet, CHECKPOINT=part, **settings).after("conclusion")

    assert same(torch.load(part), end(snippet))
    other = few(snippet, EPOCHS=2, RATE=0.1, SEED=2).after("train")
    assert not same(other.history, end(snippet)["history"])


def test_resuming_changes_nothing__also_in_a_new_process(
    snippet, tmp_path, end
):
    part = str(tmp_path / "part.pt")
    program = few(snippet, EPOCHS=2, RATE=0.1, SEED=1, CHECKPOINT=part)
    cut_short(program, 5)

    script = script_of(snippet, tmp_path)
    words = "--size 8 --batch-size 25 --epochs 2 --rate 0.1 --seed 1"
    words = [*words.split(), "--checkpoint", part]
    command = [sys.executable, str(script), *words]
    with ForkedPython(command, cwd=tmp_path) as forked:
        said, _ = forked.communicate(timeout=120)

    assert forked.returncode == 0
    assert "goes on after epoch 1" in said
    assert same(torch.load(part), end(snippet))


@edits(
    ('    torch.set_rng_state(saved["random"])\n', ""),
    ('    model.load_state_dict(saved["model"])\n', ""),
    ('    optimizer.load_state_dict(saved["optimizer"])\n', ""),
    (
        'history, best = saved["history"], saved["best"]',
        'best = saved["best"]',
    ),
    ('best = saved["history"], saved["best"]', '_ = saved["history"], 0'),
    ("    if CHECKPOINT:\n", "    if CHECKPOINT and epoch == EPOCHS:\n"),
    ("range(len(history) + 1,", "range(2 * len(history) + 1,"),
)
def test_resuming_changes_nothing__but_not_with(
    snippet, tmp_path, end, old, new, fails
):
    """Without the random state, the resumed run goes on differently; the other
    edits lose another part, save too rarely, or skip epochs.
    """
    edited = snippet.edit(old, new)
    fails(test_resuming_changes_nothing, edited, tmp_path, end)


NAN = math.nan


def test_the_best_epoch_is_kept(snippet, tmp_path, losses=(3.0, 1.0, 2.0)):
    path = str(tmp_path / "digits.pt")
    told = ", ".join(f"float('{loss}')" for loss in losses)
    noted = (
        f"    loss = ({told},)[epoch - 1]\n"
        "    seen.append(copy.deepcopy(model.state_dict()))\n"
    )
    program = few(snippet, EPOCHS=len(losses), CHECKPOINT=path, BATCH_SIZE=60)
    loop = "for epoch in range(len(history)"
    program = program.edit(
        loop, f"seen = [copy.deepcopy(model.state_dict())]\n{loop}"
    )
    line = "    history.append("

    run = program.edit(line, noted + line).after("report")

    assert str([loss for _, loss in run.history]) == str(list(losses))
    lower = [loss for loss in losses if loss < math.inf]
    epoch = losses.index(min(lower)) + 1 if lower else 0
    kept, expected = torch.load(path)["best"], dict(run.seen[epoch])
    assert kept["epoch"] == epoch
    assert same(dict(kept["model"]), expected)
    assert same(dict(run.model.state_dict()), expected)


@pytest.mark.parametrize(
    "losses",
    [
        (1.0, 2.0),
        (1.0, 1.0),
        (NAN, 2.0, 3.0),
        (NAN, NAN),
    ],
    ids=[
        "a worse epoch at the end",
        "an equal one",
        "nan at first",
        "nothing but nan",
    ],
)
def test_the_best_epoch_is_kept__also_of(snippet, tmp_path, losses):
    test_the_best_epoch_is_kept(snippet, tmp_path, losses)


@edits(
    ('if loss < best["loss"]:', 'if loss > best["loss"]:'),
    ('if loss < best["loss"]:', "if True:"),
    ("        weights = copy.deepcopy(model.state_dict())\n", ""),
    (
        "        weights = copy.deepcopy(model.state_dict())\n",
        "        weights = model.state_dict()\n",
    ),
    ('model.load_state_dict(best["model"])\n', ""),
    (
        '"best": best, "history"',
        '"best": best | {"model": model.state_dict()}, "history"',
    ),
)
def test_the_best_epoch_is_kept__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """With `>`, no epoch is ever the best, and the first weights stay; the
    other edits keep those of another epoch.
    """
    fails(test_the_best_epoch_is_kept, snippet.edit(old, new), tmp_path)


def test_a_new_image_is_predicted_from_the_checkpoint_alone(
    snippet, tmp_path, seed=0, size=12
):
    pictures(tmp_path / "data")
    path = str(tmp_path / "shades.pt")
    settings = {"EPOCHS": 3, "SEED": seed, "SIZE": size, "CHECKPOINT": path}
    trained = given(snippet, DATA=str(tmp_path / "data"), **settings)
    with no_stop():
        run = trained.after("report")
    (tmp_path / "data").rename(tmp_path / "gone")

    saved = torch.load(path)
    for weights in saved["model"].values():  # of the last epoch
        weights.zero_()
    torch.save(saved, path)

    images = [tmp_path / "gone" / f"{n}/7.jpg" for n in ("dark", "light")]
    images.append(tmp_path / "gone" / "light" / "2.png")
    images = [*map(str, images)]
    told = {}
    with patch("builtins.print", lambda line: told.update([line.split(": ")])):
        new = given(snippet, CHECKPOINT=path, PREDICT=images, SEED=seed + 1)
        with pytest.raises(SystemExit) as caught:
            new.after("predict")
    assert caught.value.code == 0
    for image in images:
        logits = run.model.cpu().eval()(run.opened(image)[None] / 255)
        chance = logits.softmax(dim=1).max().item()
        name = run.classes[logits.argmax()]
        assert told[image] == f"{name} ({chance:.0%})"
    assert [line.split()[0] for line in told.values()] == [
        "dark",
        "light",
        "light",
    ]
    nothing = str(tmp_path / "gone" / "dark" / "7.jpg")
    for other in (nothing, str(tmp_path / "nothing.pt")):
        wrong = given(snippet, CHECKPOINT=other, PREDICT=images)
        assert refusal(wrong, "predict") == f"{other} is no checkpoint"


def test_a_new_image_is_predicted_from_the_checkpoint_alone__also_of_20_pixels(
    snippet, tmp_path
):
    test_a_new_image_is_predicted_from_the_checkpoint_alone(
        snippet, tmp_path, 1, 20
    )


@edits(
    ('load_state_dict(saved["best"]["model"])\n    model.eval', "eval"),
    ('["best"]["model"])\n    model.eval()', '["best"]["model"])'),
    ("opened(path, size)", "0 * opened(path, size)"),
    ("return names[label]", "return names[label - 1]"),
    (
        "(opened(path, size).unsqueeze(0) / 255)",
        "(opened(path, size)[None] / 1)",
    ),
    ('"seed": SEED, "classes": classes', '"seed": SEED'),
    ("    raise SystemExit(0)\n", ""),
)
def test_a_new_image_is_predicted_from_the_checkpoint_alone__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without the weights, an untrained network answers; the other edits
    change its mode, its input, or what is said or saved.
    """
    edited = snippet.edit(old, new)
    fails(
        test_a_new_image_is_predicted_from_the_checkpoint_alone,
        edited,
        tmp_path,
    )


class Interrupt:
    """Interrupts the program that pickles it."""

    def __reduce__(self):
        raise KeyboardInterrupt


def test_the_checkpoint_is_replaced_whole(snippet, tmp_path):
    path = tmp_path / "digits.pt"
    run = few(snippet, CHECKPOINT=str(path)).after("resume")
    run.save()
    assert path.exists()
    old = path.read_bytes()

    run.history.append(Interrupt())
    with pytest.raises(KeyboardInterrupt):
        run.save()
    assert path.exists()
    assert path.read_bytes() == old

    run.history[:] = [(1.0, 1.0)]
    stopped = {"side_effect": KeyboardInterrupt}
    with (
        patch.object(Path, "replace", **stopped),
        patch.object(Path, "rename", **stopped),
        pytest.raises(KeyboardInterrupt),
    ):
        run.save()
    assert path.exists()
    assert path.read_bytes() == old

    run.history[:] = [(2.0, 2.0)]
    run.save()
    assert torch.load(path)["history"] == [(2.0, 2.0)]
    assert list(tmp_path.iterdir()) == [path]


@edits(
    (
        'partial = Path(f"{CHECKPOINT}.partial")\n    torch',
        "partial = Path(CHECKPOINT)\n    torch",
    ),
    ("    partial.replace(CHECKPOINT)\n", ""),
    (
        "    torch.save(content, partial)",
        "    Path(CHECKPOINT).unlink(missing_ok=True)\n"
        "    torch.save(content, partial)",
    ),
)
def test_the_checkpoint_is_replaced_whole__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Written straight to its place, an interrupted checkpoint ruins the old
    one; the other edits never replace it, or delete it first.
    """
    edited = snippet.edit(old, new)
    fails(test_the_checkpoint_is_replaced_whole, edited, tmp_path)


def test_another_training_is_refused(snippet, tmp_path):
    path = tmp_path / "digits.pt"
    same_one = few(snippet, CHECKPOINT=str(path))
    same_one.after("resume").save()
    kept = path.read_bytes()
    with no_stop():
        same_one.after("resume")

    for words, (name, value) in {
        "size": ("SIZE", 9),
        "batch size": ("BATCH_SIZE", 49),
        "rate": ("RATE", 0.02),
        "seed": ("SEED", 1),
    }.items():
        settings = {"CHECKPOINT": str(path), name: value}
        said = refusal(few(snippet, **settings), "resume")
        assert said.endswith(f"digits.pt has other {words}")
    ants = same_one.edit("[str(digit) for", "[f'ant {digit}' for")
    assert refusal(ants, "resume").endswith("other classes")
    others = same_one.edit("[[(number, number % 10)", "[[(number + 1, 0)")
    assert refusal(others, "resume").endswith("other images")
    assert path.read_bytes() == kept

    for other in (
        b"",
        b"a week of work",
        {"settings": {"size": 8}},
        torch.zeros(2),
    ):
        if isinstance(other, bytes):
            path.write_bytes(other)
        else:
            torch.save(other, path)
        kept = path.read_bytes()
        assert str(path) in refusal(same_one, "resume")
        assert path.read_bytes() == kept


@edits(
    ('{"size": SIZE, "batch', '{"size": 8, "batch'),
    ('"batch size": BATCH_SIZE, "rate"', '"batch size": 50, "rate"'),
    ('"rate": RATE}', '"rate": 0.01}'),
    ('{"seed": SEED, "classes"', '{"seed": 0, "classes"'),
    ('"classes": classes}', '"classes": 0}'),
    ("Path(str(s)).name for part in parts", "0 for part in parts"),
    (
        '        raise SystemExit(f"{CHECKPOINT} is no checkpoint to',
        '        save()\n        raise SystemExit(f"{CHECKPOINT} is no',
    ),
)
def test_another_training_is_refused__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """With a fixed size, another size goes unnoticed; the other edits overlook
    another setting, or overwrite the file.
    """
    fails(test_another_training_is_refused, snippet.edit(old, new), tmp_path)


# -- The report --------------------------------------------------------------


def test_the_classifier_reads_nine_of_ten(snippet, capsys):
    run = snippet.after("report")
    images, truth = run.test.tensors
    told = capsys.readouterr().out.splitlines()

    known = {image.numpy().tobytes() for image in run.training.tensors[0]}
    assert not known & {image.numpy().tobytes() for image in images}
    assert truth.tolist() == [*range(10)] * 30
    run.model.eval()
    answers = run.model(images.to(run.device) / 255).argmax(dim=1).cpu()
    assert (answers == truth).double().mean() > 0.95
    assert torch.equal(run.right, answers == truth)
    for digit in range(10):
        hits = (answers[digit::10] == digit).sum()
        assert f"{digit}: {hits} of 30 right" in told


@edits(
    (RANGES, "range(100), range(10_000, 10_010), range(20_000, 20_300)"),
    (RANGES, "range(90), range(200, 290), range(50)"),
)
def test_the_classifier_reads_nine_of_ten__but_not_with(
    snippet, old, new, fails, capsys
):
    """100 images are too few to learn from; in the second edit, images of the
    training are also in the test.
    """
    edited = snippet.edit(old, new)
    fails(test_the_classifier_reads_nine_of_ten, edited, capsys)


PREPARED = """# %% conclusion
import torch
from torch.utils.data import TensorDataset
labels = torch.tensor([0] * 4 + [1] * 9 + [2] * 8)
training, classes = TensorDataset(labels, labels), "abcd"
truth = torch.arange({0}).repeat_interleave(torch.tensor({1}))
right = torch.arange(len(truth)) < hits
"""


def test_the_conclusion_may_be_bad(snippet, counts=(30, 50, 20)):
    only = snippet.only("conclusion")
    setup = PREPARED.format(len(counts), list(counts))
    only = only.edit("# %% conclusion\n", setup)
    guessed, count = counts[1], sum(counts)
    spread = math.sqrt(count * guessed / count * (1 - guessed / count))

    endings = set()
    for hits in range(0, count + 1, max(1, count // 60)):
        said = only.edit("< hits", f"< {hits}").after("conclusion").conclusion
        learned = hits > guessed + 2 * spread
        assert said.startswith("has learned" if learned else "has not learned")
        endings.add(said)
    assert len(endings) == 2


@pytest.mark.parametrize(
    "counts", [(0, 3, 0, 27), (6, 6, 6), (490, 10), (5, 20, 0, 5)]
)
def test_the_conclusion_may_be_bad__also_of(snippet, counts):
    test_the_conclusion_may_be_bad(snippet, counts)


def test_the_conclusion_may_be_bad__also_in_a_run(snippet):
    run = few(snippet, EPOCHS=1, RATE=1e-9).after("conclusion")
    assert run.conclusion.startswith("has not learned")


@edits(
    ("hits > guessed + 2 * spread", "hits > guessed"),
    ("hits > guessed + 2 * spread", "hits > guessed + spread"),
    ("hits > guessed + 2 * spread", "hits > guessed + 3 * spread"),
    (".bincount().argmax()", ".bincount().argmin()"),
    ("guessed * (1 - guessed / count)", "guessed"),
    ("has not learned: it", "has learned, but it"),
)
def test_the_conclusion_may_be_bad__but_not_with(snippet, old, new, fails):
    """Without the margin, a little luck is enough; the other edits take
    another margin, another class or other words.
    """
    fails(test_the_conclusion_may_be_bad, snippet.edit(old, new))


def test_the_worst_mistakes_come_first(snippet):
    run = few(snippet, EPOCHS=1).after("mistakes")
    run.model.eval()
    images, truth = run.test.tensors
    logits = run.model(images.to(run.device) / 255).cpu().detach()
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
    """Without `descending=True`, the lowest loss comes first; the other edits
    list right answers, or the wrong names or images.
    """
    fails(test_the_worst_mistakes_come_first, snippet.edit(old, new))
