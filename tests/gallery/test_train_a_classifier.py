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

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.recipes import as_script, constants, given, told

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
    "EPOCHS": (["--epochs", "3"], 3),
    "BATCH_SIZE": (["--batch-size", "7"], 7),
    "RATE": (["--rate", "0.25"], 0.25),
    "CHECKPOINT": (["--checkpoint", "digits.pt"], "digits.pt"),
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
    ("DATA, SIZE, EPOCHS = options", "DATA, EPOCHS, SIZE = options"),
    ('"--rate", type=float', '"--rate", type=str'),
    ('if "__file__" in globals():', "if True:"),
    ("CHECKPOINT, SEED = options", "_, SEED = options"),
    ("default=SEED", "default=1"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


SENSELESS = [
    {"EPOCHS": 0},
    {"EPOCHS": -3},
    {"BATCH_SIZE": 0},
    {"RATE": 0.0},
    {"RATE": -1.0},
    {"SIZE": 3},
    {"CHECKPOINT": "no/such/folder.pt"},
    {"CHECKPOINT": f"{__file__}/digits.pt"},
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
    ("not Path(CHECKPOINT).parent.is_dir()", "SIZE < 4"),
)
def test_a_senseless_setting_is_refused__but_not_with(
    snippet, old, new, fails
):
    fails(test_a_senseless_setting_is_refused, snippet.edit(old, new))


CPU = torch.device("cpu")
META = torch.device("meta")  # stands for an accelerator


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
        glob = Path.glob
        with patch.object(Path, "glob", lambda *of: [*glob(*of)][::-1]):
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
    ("own[:held], own[held :", "own[:held], own[:held], own[held :"),
    ("own[:held], own[held :", "own[:held], own[held - 1 :"),
    ("own[2 * held :]", "own[held:]"),
    ("len(own) * 15 // 100", "len(own) * 20 // 100"),
    ("max(1, len(own)", "max(2, len(own)"),
    (".suffix.lower() in", ".suffix in"),
    (" if path.suffix.lower() in ENDINGS]", "]"),
    ('root.glob("[!.]*")', 'root.glob("*")'),
    ('root.glob("[!.]*")', 'root.rglob("[!.]*")'),
    ('glob("[!.]*/")', 'glob("*/")'),
    ("part.extend((path, label)", "part.extend((path, 0)"),
    ("random.Random(SEED).shuffle", "random.Random().shuffle"),
    ('sorted(root.glob("[!.]*"))', 'list(root.glob("[!.]*"))'),
)
def test_each_image_is_in_one_part__but_not_with(
    snippet, tmp_path, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_each_image_is_in_one_part, edited, tmp_path)


def test_what_is_missing_is_named(snippet, tmp_path):
    def refused(name, **classes):
        folder = files(tmp_path / name, **classes)
        with pytest.raises(SystemExit) as caught:
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
    for part in ("train", "val", "valid", "validation", "Test"):
        other = "test" if part == "train" else "train"
        said = refused(f"split {part}", **{part: 9, other: 9, "cat": 9})
        assert str(tmp_path / f"split {part}") in said

    with no_stop():
        finder(snippet)(files(tmp_path / "traffic", train=3, bus=3))


@edits(
    ("len(classes) < 2", "len(classes) < 1"),
    ("if len(own) < 3:", "if len(own) < 2:"),
    ('f"{root} has {len(own)}', 'f"it has {len(own)}'),
    ('f"{folder} needs folders', 'f"it needs folders'),
    ("for name in classes}) > 1", "for name in classes}) > 2"),
    ("for name in classes}) > 1", "for name in classes}) > 0"),
    ("{name.lower() for name in classes}", "set(classes)"),
    ('"valid", "validation"', '"validation"'),
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


@edits(
    ("ImageOps.exif_transpose(image)", "image"),
    ('image.size, "white")', 'image.size, "black")'),
    ("Image.alpha_composite(white, image)", "image"),
    ("ImageOps.pad(image, (SIZE, SIZE))", "image.resize((SIZE, SIZE))"),
    ("ImageOps.pad(image, (SIZE, SIZE))", "ImageOps.fit(image, (SIZE, SIZE))"),
    (".permute(2, 0, 1)", ".permute(2, 1, 0)"),
    (".permute(2, 0, 1)", ".permute(2, 0, 1).flip(0)"),
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
        "return torch.zeros(3, 20, 20)",
    ),
)
def test_a_bad_file_is_named__but_not_with(snippet, tmp_path, old, new, fails):
    fails(test_a_bad_file_is_named, snippet.edit(old, new), tmp_path)


def test_a_bad_file_is_named__but_not_if_16_bits_pass(
    snippet, tmp_path, fails
):
    edited = snippet.edit("if image.mode[0] in", "if image.mode in")
    fails(test_a_bad_file_is_named, edited, tmp_path, "I;16", "png")


def test_a_folder_trains(snippet, tmp_path, seed=0):
    pictures(tmp_path)
    with no_stop():
        program = given(snippet, DATA=str(tmp_path), EPOCHS=4, SEED=seed)
        run = program.after("conclusion")

    assert run.test.tensors[0].shape == (12, 3, 20, 20)
    named = [path.parent.name == "light" for path, _ in run.parts[2]]
    assert (run.answers == torch.tensor(named)).double().mean() > 0.9
    assert run.conclusion == "has learned"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_folder_trains__also_with(snippet, tmp_path, seed):
    test_a_folder_trains(snippet, tmp_path, seed)


@edits(
    (', image).convert("RGB")', ", image)"),
    ("ImageOps.pad(image, (SIZE, SIZE))", "image"),
    ("        optimizer.step()\n", ""),
    ('"has learned" if', '"may have learned" if'),
)
def test_a_folder_trains__but_not_with(snippet, tmp_path, old, new, fails):
    fails(test_a_folder_trains, snippet.edit(old, new), tmp_path)


# -- Training ----------------------------------------------------------------


def test_each_image_counts_the_same(snippet, size=7):
    run = few(snippet, BATCH_SIZE=size).after("evaluate")
    seen, orders = [], []

    def noted(logits, labels):
        loss = cross_entropy(logits, labels)
        seen.append((loss.item(), labels.tolist()))
        return loss

    cross_entropy = F.cross_entropy
    for epoch in (1, 2):
        seen.clear()
        with patch.object(F, "cross_entropy", noted):
            loss = run.train_epoch(epoch)
        total = sum(each * len(labels) for each, labels in seen)
        assert loss == pytest.approx(total / 60, rel=1e-6)
        orders.append([label for _, labels in seen for label in labels])
        assert sorted(orders[-1]) == sorted([*range(10)] * 6)
    assert orders[0] != orders[1]

    before = {k: v.clone() for k, v in run.model.state_dict().items()}
    loss, logits = run.evaluate(run.validation)
    assert not logits.requires_grad
    assert same(before, dict(run.model.state_dict()))
    run.model.eval()
    images, truth = run.validation.tensors
    expected = run.model(images.to(run.device) / 255).cpu()
    assert torch.allclose(logits, expected, atol=1e-5)
    expected = F.cross_entropy(expected, truth).item()
    assert type(loss) is float
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("size", [1, 19, 20, 500])
def test_each_image_counts_the_same__also_in_batches_of(snippet, size):
    test_each_image_counts_the_same(snippet, size)


@edits(
    ("BATCH_SIZE, shuffle=True", "BATCH_SIZE"),
    ("BATCH_SIZE, shuffle=True", "BATCH_SIZE, True, drop_last=True"),
    ("total += loss.item() * len(labels)", "total += loss.item() * 7"),
    ("(logits, dataset.tensors[1])", "(logits[:7], dataset.tensors[1][:7])"),
    ('of each."""\n    model.eval()', 'of each."""\n    model.train()'),
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


@pytest.mark.parametrize("calls", [0, 3, 4, 7])
def test_resuming_changes_nothing__also_if_stopped_at(
    snippet, tmp_path, end, calls
):
    test_resuming_changes_nothing(snippet, tmp_path, end, calls)


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

    script = tmp_path / "train.py"
    cells = few(snippet).cells().values()
    shown = [each.source for each in cells if not each.is_display]
    script.write_text("\n".join(shown))
    words = "--size 8 --batch-size 25 --epochs 2 --rate 0.1 --seed 1"
    threads = str(torch.get_num_threads())
    done = subprocess.run(
        [sys.executable, script, *words.split(), "--checkpoint", part],
        env=os.environ | {"OMP_NUM_THREADS": threads},
        cwd=tmp_path,
        check=True,
        text=True,
        capture_output=True,
    )

    assert "goes on after epoch 1" in done.stdout
    assert done.stderr == ""
    assert same(torch.load(part), end(snippet))


@edits(
    ('    torch.set_rng_state(saved["random"])\n', ""),
    ('    model.load_state_dict(saved["model"])\n', ""),
    ('    optimizer.load_state_dict(saved["optimizer"])\n', ""),
    ('history, best = saved["history"], saved["best"]', "history = []"),
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
        (2.0, 1.0),
        (1.0, 1.0),
        (NAN, 2.0, 3.0),
        (2.0, NAN, 1.0),
        (math.inf, 1.0),
        (NAN, NAN),
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
    fails(test_the_best_epoch_is_kept, snippet.edit(old, new), tmp_path)


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

    run.history[:] = [(2.0, 2.0)]
    run.save()
    assert torch.load(path)["history"] == [(2.0, 2.0)]
    assert list(tmp_path.iterdir()) == [path]


@edits(
    ('partial = Path(f"{CHECKPOINT}.partial")', "partial = Path(CHECKPOINT)"),
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
    ("has other {', '.join(other)}", "has others"),
    ('f"{CHECKPOINT} is no checkpoint', 'f"this is no checkpoint'),
    (
        '        raise SystemExit(f"{CHECKPOINT} is no',
        '        save()\n        raise SystemExit(f"{CHECKPOINT} is no',
    ),
)
def test_another_training_is_refused__but_not_with(
    snippet, tmp_path, old, new, fails
):
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
    fails(test_the_worst_mistakes_come_first, snippet.edit(old, new))
