"""The claims of docs/models/predict.md."""

import io
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import true_since
from extensions.programs import snippet as programs
from tests.helpers.forks import THREADS_MAY_BE_LEFT, ForkedPython
from tests.helpers.programs import after, resumed
from tests.helpers.worlds import DTYPES, MODELS, each

pytestmark = THREADS_MAY_BE_LEFT

# All that a prediction needs: without these cells, a model is random.
PREDICT = ("data", "make-model", "save", "predict")
TRAINED = ("data", "make-model", "train", "save", "predict")


def without_training(snippet, *cells):
    """Run the prediction, and then these cells, with random weights."""
    return after(snippet, *PREDICT, *cells)


# Do this


def answers_alike(run):
    """Whether both models answer alike, digit by digit."""
    for digit in run.images[run.test[:20]]:
        with torch.inference_mode():
            saved, loaded = (
                run.model.eval()(digit[None]),
                run.loaded(digit[None]),
            )
        assert torch.equal(saved.softmax(dim=1), loaded.softmax(dim=1))


def test_a_loaded_model_answers_alike(snippet, build=None):
    if build is not None:
        model, loaded, file = build(), build(), io.BytesIO()
        dtype = next((each.dtype for each in model.parameters()), None)
        inputs = torch.rand(4, 3, dtype=dtype)
        model(inputs)  # moves the statistics of BatchNorm
        torch.save(model.state_dict(), file)
        file.seek(0)
        loaded.load_state_dict(torch.load(file))
        assert torch.equal(loaded.eval()(inputs), model.eval()(inputs))
        return

    run = without_training(snippet)
    answers_alike(run)
    with torch.inference_mode():
        expected = run.model(run.image[None])[0].softmax(dim=0)
    assert torch.equal(run.probabilities, expected)
    assert run.names[run.best] == run.names[expected.argmax()]


def test_a_loaded_model_answers_alike__also_after_training(snippet):
    answers_alike(resumed(snippet, *TRAINED))


@each(
    "build",
    MODELS,
    "with BatchNorm",
    "with dropout",
    "tied",
    "frozen in part",
    "float64",
    "bfloat16",
)
def test_a_loaded_model_answers_alike__also_for_a_model(snippet, build):
    test_a_loaded_model_answers_alike(snippet, build)


def test_a_loaded_model_answers_alike__also_in_another_program(
    snippet, tmp_path
):
    run = without_training(snippet)
    torch.save(run.saved, tmp_path / "digits.pt")
    torch.save(run.image, tmp_path / "image.pt")
    lines = [
        "import torch",
        "from torch import nn",
        snippet.cell("make-model").source.partition("torch.manual_seed")[0],
        "path, image = 'digits.pt', torch.load('image.pt')",
        snippet.cell("predict").source,
        "print(probabilities.tolist())",
    ]
    (tmp_path / "predict.py").write_text("\n".join(lines), encoding="utf-8")
    done = run_forked([sys.executable, "predict.py"], cwd=tmp_path)

    *_, last = done.stdout.splitlines()
    torch.testing.assert_close(
        torch.tensor([float(each) for each in last[1:-1].split(", ")]),
        run.probabilities,
    )


def test_a_loaded_model_answers_alike__also_on_the_device_at_hand(snippet):
    run = without_training(snippet, "on-a-device")

    places = {each.device.type for each in run.moved.parameters()}
    assert places == {run.device.type}
    close = {"atol": 1e-2, "rtol": 0}  # an accelerator may round otherwise
    torch.testing.assert_close(run.moved_scores, run.scores, **close)


@edits(
    ('loaded.load_state_dict(saved["weights"])\n', ""),
    ("loaded.eval()\n", ""),
)
def test_a_loaded_model_answers_alike__but_not_without(
    snippet, old, new, fails
):
    """Random weights or dropout give other probabilities."""
    fails(test_a_loaded_model_answers_alike, snippet.edit(old, new))


class WithHiddenBuffer(nn.Module):
    """A model that keeps a number outside of its state."""

    def __init__(self):
        super().__init__()
        number = torch.rand(1)
        self.register_buffer("number", number, persistent=False)

    def forward(self, inputs):
        """Return the inputs, moved."""
        return inputs + self.number


def test_a_loaded_model_answers_alike__ends_with_a_hidden_buffer(
    snippet, fails
):
    """A buffer with `persistent=False` is not in the file."""
    fails(test_a_loaded_model_answers_alike, snippet, WithHiddenBuffer)


def test_unsqueeze_makes_a_batch_of_one(snippet):
    run = without_training(snippet, "shapes")

    assert run.image.shape == (1, 8, 8)
    assert run.image.unsqueeze(0).shape == (1, 1, 8, 8)
    assert run.scores.shape == (1, 10)
    assert run.probabilities.shape == (10,)


@edits(
    ("(image.unsqueeze(0))  # a batch of one", "(images[:2])"),
    (
        "probabilities = scores.softmax(dim=1)[0]",
        "probabilities = scores.softmax(dim=1)[:, 0]",
    ),
)
def test_unsqueeze_makes_a_batch_of_one__but_not(snippet, old, new, fails):
    """With two digits, there are two rows of scores."""
    fails(test_unsqueeze_makes_a_batch_of_one, snippet.edit(old, new))


def shares(scores):
    """Return the softmax, and check what the claim says of it."""
    found = scores.softmax(dim=-1)
    assert (found >= 0).all()
    one = torch.ones(found.shape[:-1], dtype=found.dtype)
    torch.testing.assert_close(found.sum(dim=-1), one)
    assert torch.equal(found.argmax(dim=-1), scores.argmax(dim=-1))
    return found


def test_softmax_makes_shares(snippet):
    run = after(snippet, "data", "by-hand")
    found = run.three_scores.softmax(dim=0)
    assert run.three_scores.tolist() == [2, 0, 0]
    shared = torch.tensor([math.e**2, 1, 1]) / (math.e**2 + 2)
    torch.testing.assert_close(found, shared)

    run = without_training(snippet)
    torch.testing.assert_close(run.probabilities, shares(run.scores)[0])
    assert run.probability == run.probabilities.max()
    assert run.best == run.scores[0].argmax()


def test_softmax_makes_shares__also_of_a_blank_picture(snippet):
    run = without_training(snippet, "blank")
    assert run.blank.shape == (10,)
    assert run.blank.sum().item() == pytest.approx(1)


@each("dtype", DTYPES)
def test_softmax_makes_shares__also_in(dtype):
    torch.manual_seed(0)
    for size in (1, 2, 10):
        scores = torch.randn(5, size).to(dtype)
        found = scores.softmax(dim=-1)
        best = scores.argmax(dim=-1, keepdim=True)
        assert torch.equal(found.gather(1, best)[:, 0], found.amax(dim=-1))
        one = torch.ones(5)
        torch.testing.assert_close(
            found.float().sum(dim=-1), one, atol=0.02, rtol=0
        )


@edits(
    (
        "probabilities = scores.softmax(dim=1)[0]",
        "probabilities = scores.sigmoid()[0]",
    ),
    (
        "probabilities = scores.softmax(dim=1)[0]",
        "probabilities = scores.softmax(dim=0)[0]",
    ),
    ("probabilities = scores.softmax(dim=1)[0]", "probabilities = scores[0]"),
    (
        "probabilities = scores.softmax(dim=1)[0]",
        "probabilities = scores.neg().softmax(dim=1)[0]",
    ),
)
def test_softmax_makes_shares__but_not(snippet, old, new, fails):
    """`sigmoid` looks at each class alone, so the sum is not 1."""
    fails(test_softmax_makes_shares, snippet.edit(old, new))


@pytest.mark.parametrize("score", [torch.inf, torch.nan], ids=["inf", "nan"])
def test_softmax_makes_shares__ends_with_a_score_of(snippet, score, fails):
    """If a score is `inf` or `nan`, all probabilities are `nan`."""
    edited = snippet.edit(
        "probabilities = scores.softmax(dim=1)[0]",
        f"scores = scores.clone()\nscores[0, 0] = float('{score}')\n"
        "probabilities = scores.softmax(dim=1)[0]",
    )
    fails(test_softmax_makes_shares, edited)


def test_topk_gives_the_best_first(snippet):
    with no_error():
        run = without_training(snippet, "top-k")

    ranked = sorted(enumerate(run.probabilities.tolist()), key=lambda x: -x[1])
    assert run.top.indices.tolist() == [place for place, _ in ranked[:3]]
    assert run.top.values.tolist() == [value for _, value in ranked[:3]]


@edits(
    ("topk(3)", "topk(2)"),
    ("topk(3)", "topk(3, largest=False)"),
    ("probabilities.topk(3)", "probabilities[:3].sort(descending=True)"),
)
def test_topk_gives_the_best_first__but_not(snippet, old, new, fails):
    """With 2, there are only two."""
    fails(test_topk_gives_the_best_first, snippet.edit(old, new))


def test_topk_gives_the_best_first__ends_beyond_the_classes(snippet, fails):
    """For more than there are classes, it raises `selected index k out of
    range`.
    """
    edited = snippet.edit("topk(3)", "topk(11)")
    fails(test_topk_gives_the_best_first, edited)


# A picture from a file


SCAN = ("data", "make-model", "checkpoint", "prepare", "read", "scan")


def test_a_scan_gets_the_same_answer(snippet):
    with no_error():
        run = after(snippet, *SCAN, "from-a-file")
    saved = torch.load(run.path)

    for place in run.test[:20]:
        digit = run.images[place]
        run.scan(digit, run.folder / "scan.png")
        pixels = run.prepare(run.folder / "scan.png", saved)
        torch.testing.assert_close(pixels, digit, atol=0.003, rtol=0)

    with torch.inference_mode():
        scores = run.model.eval()(run.image[None])
    probability, best = scores.softmax(dim=1)[0].max(dim=0)
    name, shown = run.answer
    assert name == run.names[best]
    assert shown == pytest.approx(probability.item(), abs=0.01)


@pytest.mark.parametrize(("kind", "near"), [("png", 0.003), ("jpg", 0.02)])
def test_a_scan_gets_the_same_answer__also_if_the_phone_was_turned(
    snippet, kind, near
):
    run = after(snippet, *SCAN)
    saved, place = torch.load(run.path), run.folder / f"turned.{kind}"
    digit = run.images[run.test[0]]
    run.scan(digit, run.folder / "scan.png")
    exif = run.Image.Exif()
    exif[0x0112] = 6  # as seen, the picture lies on its left side
    with run.Image.open(run.folder / "scan.png") as file:
        lying = file.transpose(run.Image.Transpose.ROTATE_90)
    lying.save(place, exif=exif, quality=95)
    pixels = run.prepare(place, saved)
    torch.testing.assert_close(pixels, digit, atol=near, rtol=0)


def test_a_scan_gets_the_same_answer__also_with_other_numbers(snippet):
    run = after(snippet, *SCAN)
    saved = {**torch.load(run.path), "black": 3.0, "white": -1.0}
    digit = run.images[run.test[0]]
    run.scan(digit, run.folder / "scan.png")
    pixels = run.prepare(run.folder / "scan.png", saved)
    torch.testing.assert_close(pixels, 4 * digit - 1, atol=0.012, rtol=0)


def test_a_scan_gets_the_same_answer__also_after_training(snippet):
    run = resumed(snippet, *TRAINED, *SCAN[2:], "from-a-file")
    with torch.inference_mode():
        scores = run.loaded(run.images[run.test[:40]])
    probabilities = scores.softmax(dim=1).max(dim=1)

    for place, probability, best in zip(
        run.test, *probabilities, strict=False
    ):
        run.scan(run.images[place], run.folder / "other.png")
        name, shown = run.read(run.folder / "other.png", run.path)
        assert shown == pytest.approx(probability.item(), abs=0.05)
        if probability > 0.6:  # else two names are close
            assert name == run.names[best]


@edits(
    ('"white": 0.0', '"white": 1.0'),
    ('"black": 1.0', '"black": 16.0'),
    ('"size": (8, 8)', '"size": (16, 16)'),
    ("torch.tensor(np.array(small)) / 255", "torch.tensor(np.array(small))"),
    ("torch.tensor(np.array(small))", "torch.tensor(np.array(small)).mT"),
    ('.convert("L")', ""),
    ("    model.eval()\n", ""),
    ('model.load_state_dict(saved["weights"])\n    model.eval()', "pass"),
    ('saved["names"][best], prob', 'sorted(saved["names"])[best], prob'),
)
def test_a_scan_gets_the_same_answer__but_not(snippet, old, new, fails):
    """Each of these edits changes the pixels, the model or the name."""
    fails(test_a_scan_gets_the_same_answer, snippet.edit(old, new))


def test_a_scan_gets_the_same_answer__ends_with_a_transparent_background(
    snippet, fails
):
    """Black ink on transparent paper comes out black all over."""
    edited = snippet.edit(
        'paper = Image.fromarray(255 - ink).convert("RGB")',
        "black, ink = Image.new('L', (8, 8)), Image.fromarray(ink)\n"
        "    paper = Image.merge('LA', [black, ink])",
    )
    fails(test_a_scan_gets_the_same_answer, edited)


def test_a_scan_gets_the_same_answer__ends_in_16_bits(snippet, fails):
    """In a gray picture of 16 bits, whose numbers end at 65,535: `convert`
    makes nearly all of it white.
    """
    edited = snippet.edit(
        'paper = Image.fromarray(255 - ink).convert("RGB")',
        "paper = Image.fromarray((255 - ink).astype(np.uint16) * 257)",
    )
    fails(test_a_scan_gets_the_same_answer, edited)


def test_a_scan_gets_the_same_answer__ends_with_a_margin(snippet, fails):
    """With a margin of white paper, the digit is smaller than in training:
    crop the scan first.
    """
    edited = snippet.edit(
        "paper.resize((80, 80), Image.Resampling.NEAREST).save(file)",
        "sheet = Image.new('RGB', (80, 80), 'white')\n"
        "    large = paper.resize((40, 40), Image.Resampling.NEAREST)\n"
        "    sheet.paste(large, (20, 20))\n"
        "    sheet.save(file)",
    )
    fails(test_a_scan_gets_the_same_answer, edited)


# What goes wrong: the preprocessing


JUDGED = (*TRAINED, "ways", "judge")


def from_seed(snippet, seed):
    """Return the results of a model that was trained from another seed."""
    edited = snippet.edit("torch.manual_seed(0)", f"torch.manual_seed({seed})")
    return resumed(edited, *JUDGED)


def test_wrong_preprocessing_is_silent(snippet, seed=0):
    with no_error():
        run = from_seed(snippet, seed)

    for way in ("inverted", "transposed"):
        right, _ = run.judged[way]
        assert right < 0.2
    right, _ = run.judged["as in training"]
    assert right > 0.9


@pytest.mark.parametrize("seed", [1])
def test_wrong_preprocessing_is_silent__also_from(snippet, seed):
    test_wrong_preprocessing_is_silent(snippet, seed)


@edits(("1 - x", "x"), ("x.mT", "x"))
def test_wrong_preprocessing_is_silent__but_not_as_in_training(
    snippet, old, new, fails
):
    """Prepared as in training, most answers are right."""
    fails(test_wrong_preprocessing_is_silent, snippet.edit(old, new))


def test_wrong_answers_look_sure(snippet, seed=0):
    run = from_seed(snippet, seed)

    _, shown = run.judged["transposed"]
    assert shown > 0.8


@pytest.mark.parametrize("seed", [1])
def test_wrong_answers_look_sure__also_from(snippet, seed):
    test_wrong_answers_look_sure(snippet, seed)


@edits(("x.mT", "x"), ("x.mT", "x.mT / 16"))
def test_wrong_answers_look_sure__but_not(snippet, old, new, fails):
    """The few wrong answers to pictures as in training are less sure."""
    fails(test_wrong_answers_look_sure, snippet.edit(old, new))


def test_large_numbers_look_sure(snippet, seed=0):
    run = from_seed(snippet, seed)

    right, shown = run.judged["not scaled: 0 to 16"]
    assert right > 0.5
    assert shown > 0.9
    _, usual = run.judged["as in training"]
    assert usual < 0.85


@pytest.mark.parametrize("seed", [1])
def test_large_numbers_look_sure__also_from(snippet, seed):
    test_large_numbers_look_sure(snippet, seed)


@edits(("x * 16", "x"), ("x * 16", "-x * 16"))
def test_large_numbers_look_sure__but_not(snippet, old, new, fails):
    """Scaled to 0 to 1, wrong answers show a lower probability."""
    fails(test_large_numbers_look_sure, snippet.edit(old, new))


def test_another_size_goes_through(snippet, seed=0):
    with no_error():
        run = from_seed(snippet, seed)

    right, _ = run.judged["twice as large"]
    usual, _ = run.judged["as in training"]
    assert right < usual - 0.04


@pytest.mark.parametrize("seed", [1])
def test_another_size_goes_through__also_from(snippet, seed):
    test_another_size_goes_through(snippet, seed)


@edits(("scale_factor=2", "scale_factor=1"))
def test_another_size_goes_through__but_not_in_its_own(
    snippet, old, new, fails
):
    """In the size of the training, it is the same picture."""
    fails(test_another_size_goes_through, snippet.edit(old, new))


def test_another_size_goes_through__but_not_without_adaptive_pooling(
    snippet, fails
):
    """`MaxPool2d` makes more features of a larger picture, and `Linear`
    raises.
    """
    edited = snippet.edit("nn.AdaptiveMaxPool2d(3)", "nn.MaxPool2d(2)")
    fails(test_another_size_goes_through, edited)


def test_other_channels_and_types_raise(snippet):
    run = without_training(snippet, "error-of", "raises")

    assert "to have 1 channels, but got 3 channels" in str(run.colored)
    assert "unsigned char" in str(run.bytes_given)


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.bool], ids=str
)
def test_other_channels_and_types_raise__also_for(snippet, dtype):
    run = without_training(snippet, "error-of", "raises")

    pixels = (run.image * 16).to(dtype)[None]
    assert "and bias type (float)" in run.error_of(run.loaded, pixels)


@edits(
    ("image.expand(3, 8, 8)", "image.expand(1, 8, 8)"),
    ("(image * 16).byte()", "(image * 16)"),
)
def test_other_channels_and_types_raise__but_not(snippet, old, new, fails):
    """One channel goes through, and so do floats, whatever their size."""
    fails(test_other_channels_and_types_raise, snippet.edit(old, new))


# What goes wrong: the names


def test_sorted_names_are_wrong(snippet):
    run = after(snippet, "data", "sorted-names")

    pairs = zip(run.names, run.by_alphabet, strict=True)
    assert [right for right, name in pairs if right == name] == ["six"]
    assert sorted(run.by_alphabet) == sorted(run.names)


@edits(("sorted(names)", "list(names)"))
def test_sorted_names_are_wrong__but_not_in_their_order(
    snippet, old, new, fails
):
    """In the order of the class numbers, each name is right."""
    fails(test_sorted_names_are_wrong, snippet.edit(old, new))


# What goes wrong: eval and softmax


def test_a_new_model_is_in_training_mode(snippet):
    run = without_training(snippet, "forgotten-eval")

    assert not any(each.training for each in run.model.modules())
    assert all(each.training for each in run.again.modules())


@edits(
    ("again = make_model()", "again = make_model().eval()"),
    (
        "again.load_state_dict(model.eval().state_dict())",
        "again.load_state_dict(model.eval().state_dict())\nagain.eval()",
    ),
)
def test_a_new_model_is_in_training_mode__but_not_after_eval(
    snippet, old, new, fails
):
    """After `eval()`, it is in evaluation mode."""
    fails(test_a_new_model_is_in_training_mode, snippet.edit(old, new))


def test_a_new_model_is_in_training_mode__ends_with_a_whole_model(
    snippet, fails
):
    """A file with a whole model holds its mode as well."""
    old = "again.load_state_dict(model.eval().state_dict())"
    new = "torch.save(model.eval(), path)\n"
    new += "again = torch.load(path, weights_only=False)"
    fails(test_a_new_model_is_in_training_mode, snippet.edit(old, new))


def test_dropout_changes_the_answer(snippet):
    run = resumed(snippet, *TRAINED, "forgotten-eval")

    first, second = (each.argmax(dim=1) for each in run.tries)
    assert (first != second).sum() >= 3
    assert not torch.equal(*run.tries)


def test_dropout_changes_the_answer__but_not_after_eval(snippet, fails):
    """After `again.eval()`, both tries are the same."""
    old = "again.load_state_dict(model.eval().state_dict())"
    edited = snippet.edit(old, f"{old}\nagain.eval()")
    fails(test_dropout_changes_the_answer, edited)


def test_dropout_changes_the_answer__ends_without_dropout(snippet, fails):
    """A model without layers that listen to the mode answers the same."""
    edited = snippet.edit("nn.Dropout()", "nn.Identity()")
    fails(test_dropout_changes_the_answer, edited)


def test_softmax_over_a_batch_of_one_gives_ones(snippet):
    run = without_training(snippet, "one-by-accident")

    assert run.over_batch.tolist() == [[1.0] * 10]


@edits(
    ("scores.softmax(dim=0)\nprint", "scores.softmax(dim=1)\nprint"),
    ("scores.softmax(dim=0)\nprint", "scores.softmax(dim=-1)\nprint"),
)
def test_softmax_over_a_batch_of_one_gives_ones__but_not_over_the_classes(
    snippet, old, new, fails
):
    """Over the classes, the ten numbers add up to 1."""
    fails(test_softmax_over_a_batch_of_one_gives_ones, snippet.edit(old, new))


# What goes wrong: the batch axis


def test_flatten_takes_channels_for_samples(snippet):
    run = without_training(snippet, "error-of", "no-batch")

    text = "mat1 and mat2 shapes cannot be multiplied (16x9 and 144x10)"
    said = str(run.no_batch).removeprefix("addmm: ")  # as torch 2.15 says
    assert said == text


@edits(
    ("error_of(loaded, image)", "error_of(loaded, image[None])"),
    ("nn.Flatten(),\n", "nn.Flatten(start_dim=-3),\n"),
)
def test_flatten_takes_channels_for_samples__but_not(snippet, old, new, fails):
    """With the batch axis, all layers take the picture."""
    fails(test_flatten_takes_channels_for_samples, snippet.edit(old, new))


def test_color_channels_become_samples(snippet):
    with no_error():
        run = after(snippet, "data", "silent-batch")

    assert run.color.shape == (3, 8, 8)
    assert run.flat(run.color).shape == (3, 10)
    one_by_one = [run.flat(channel[None])[0] for channel in run.color]
    torch.testing.assert_close(run.flat(run.color), torch.stack(one_by_one))


@edits(
    ("nn.Flatten(), nn.L", "nn.Flatten(start_dim=-3), nn.L"),
    ("torch.rand(3, 8, 8)", "torch.rand(1, 3, 8, 8)"),
)
def test_color_channels_become_samples__but_not(snippet, old, new, fails):
    """If the channels are flattened too, `Linear` finds 192 numbers, and
    raises.
    """
    fails(test_color_channels_become_samples, snippet.edit(old, new))


def test_linear_takes_a_single_vector(snippet):
    with no_error():
        run = after(snippet, "data", "silent-batch")

    linear = run.flat[1]
    assert run.vector.shape == (64,)
    assert linear(run.vector).shape == (10,)
    torch.testing.assert_close(linear(run.vector), linear(run.vector[None])[0])


@edits(
    ("torch.rand(64)", "torch.rand(1, 64)"),
    ("torch.rand(64)", "torch.rand(8)"),
    ("nn.Linear(64, 10))\n", "nn.BatchNorm1d(64))\n"),
)
def test_linear_takes_a_single_vector__but_not(snippet, old, new, fails):
    """A batch of one gives a batch of one."""
    fails(test_linear_takes_a_single_vector, snippet.edit(old, new))


# What goes wrong: a whole model


PROGRAMS = ("data", "programs", "predict-program", "run", "elsewhere")


THIRD = "{network}\nload(weights_only=False)\n"


def elsewhere(snippet):
    """Save in one program, open in another, and return what that says."""
    run = programs.after(snippet, *PROGRAMS)
    assert run.trained_lines == []
    return run


def run_forked(command, *, cwd, **_):
    """Do what subprocess.run does with a command of Python."""
    with ForkedPython(command, cwd=cwd) as forked:
        said, _ = forked.communicate(timeout=60)
    return SimpleNamespace(stdout=said, stderr="")


@pytest.fixture
def forks(monkeypatch):
    """Fork, for edited programs: a new Python imports torch again."""
    monkeypatch.setattr(subprocess, "run", run_forked)


@true_since("2.6", "by default, torch.load took every object")
def test_a_whole_model_needs_its_class(snippet):
    by_default, in_full = elsewhere(snippet).refused

    assert by_default == "UnpicklingError: Weights only load failed"
    assert in_full == (
        "AttributeError: Can't get attribute 'Net'"
        " on <module '__main__' from 'predict.py'>"
    )


@edits(
    ('"net.pt", **options)', '"net.pt", weights_only=False)'),
    ("{imports}\ndef load", "{imports}{network}\ndef load"),
    ("torch.save(Net(), ", "torch.save(Net().state_dict(), "),
)
def test_a_whole_model_needs_its_class__but_not(
    snippet, old, new, forks, fails
):
    """With `weights_only=False` in both calls, the first error is the second
    one as well; with the class, or a `state_dict`, it is gone.
    """
    fails(test_a_whole_model_needs_its_class, snippet.edit(old, new))


def test_a_whole_model_needs_its_class__ends_with_layers_of_torch(
    snippet, forks, fails
):
    """A layer of `torch.nn` opens with `weights_only=False`, because every
    program has its class.
    """
    edited = snippet.edit("torch.save(Net(), ", "torch.save(nn.ReLU(), ")
    fails(test_a_whole_model_needs_its_class, edited)


def test_the_class_opens_the_file(snippet):
    opened = elsewhere(snippet).opened

    assert opened.startswith("<class '")
    assert opened.endswith("Net'>")


def test_the_class_opens_the_file__also_if_imported(snippet, forks):
    module = "open('net.py', 'w').write('{imports}{network}')"
    module = module.replace("'{", "'''{").replace("}')", "}''')")
    new = f"\n{module}\nfrom net import Net\nload(weights_only=False)\n"
    test_the_class_opens_the_file(snippet.edit(THIRD, new))


def test_the_class_opens_the_file__ends_if_it_was_imported(
    snippet, forks, fails
):
    """If the class was in a module when the model was saved, the file names
    that module: the other program has to find `net.py`.
    """
    old = 'train_py = f"""{imports}{network}\n'
    new = 'train_py = f"""{imports}{network}\nNet.__module__ = "net"\n'
    new += 'import sys; sys.modules["net"] = sys.modules["__main__"]\n'
    edited = snippet.edit(old, new)
    assert "No module named 'net'" in elsewhere(edited).opened
    fails(test_the_class_opens_the_file, edited)


@edits(
    (THIRD, "\nload(weights_only=False)\n"),
    (THIRD, "{network}\nload()\n"),
    (THIRD, "{network}\nOther = Net\ndel Net\nload(weights_only=False)\n"),
)
def test_the_class_opens_the_file__but_not(snippet, old, new, forks, fails):
    """Without the class, under another name, or by default, it stays shut."""
    fails(test_the_class_opens_the_file, snippet.edit(old, new))


# Where it ends


def test_another_activation_loads(snippet, activation=nn.Tanh):
    run = without_training(snippet)
    other = run.make_model()
    other[1] = activation()

    with no_error():
        other.load_state_dict(run.saved["weights"])
    assert not torch.allclose(other.eval()(run.image[None]), run.scores)


@each("activation", {"GELU": nn.GELU, "nothing": nn.Identity})
def test_another_activation_loads__also_with(snippet, activation):
    test_another_activation_loads(snippet, activation)


def test_another_activation_loads__but_not_with_the_same(snippet, fails):
    """With `ReLU` again, the scores are the same."""
    fails(test_another_activation_loads, snippet, nn.ReLU)


def test_another_activation_loads__ends_with_weights_of_its_own(
    snippet, fails
):
    """`PReLU` has a weight, which the file lacks, so loading raises."""
    fails(test_another_activation_loads, snippet, nn.PReLU)
