"""The claims of docs/deploy/export.md."""

import atexit
import math
import random
import re
import subprocess
import sys
import warnings
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since, true_since
from extensions.programs.snippet import after
from tests.helpers.compiled import unobserved
from tests.helpers.onnx_files import (
    answer,
    close,
    exported,
    read_translations_once,
    to_onnx,
    untrained,
)

# Some of what the exporters load uses what Python or torch has deprecated.
pytestmark = [
    api_since("2.8", "torch.export without strict mode by default"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:Exporting a model while it is in"),
]


@pytest.fixture(autouse=True, scope="module")
def _unobserved():
    with unobserved():
        yield


READER = ("digits", "net", "fit", "reader")
EXPORTED = (*READER, "export")
CHECKED = (*EXPORTED, "check")


def unexported(snippet):
    """Leave out the file where nobody looks at it."""
    return snippet.edit(
        "program = torch.export.export(model, (pixels[:2],),"
        " dynamic_shapes=sizes)\n"
        'torch.export.save(program, folder / "digits.pt2")\n',
        "",
    )


def trimmed(snippet):
    """Leave out the file, and the training where any weights will do."""
    return unexported(untrained(snippet))


# Do this


def test_the_file_answers_like_the_model(snippet):
    run = after(snippet, *CHECKED)

    with torch.no_grad():
        close(run.model(run.held_out), run.wanted)
        assert run.same == 397
        assert run.far < 1e-4
        for size in (1, 2, 3, 40, 397):
            batch, wanted = run.held_out[-size:], run.wanted[-size:]
            found = run.loaded(batch)
            assert found.shape == (size, 10)
            assert (found - wanted).abs().max() < 1e-4
            assert found.argmax(dim=1).equal(wanted.argmax(dim=1))


def test_the_file_answers_like_the_model__but_not_in_training_mode(
    snippet, fails
):
    """Exported and compared in training mode, the model drops at random."""
    edited = untrained(snippet).edit("Reader(net).eval()", "Reader(net)")
    fails(test_the_file_answers_like_the_model, edited)


def test_the_file_answers_like_the_model__but_not_of_another_training(
    snippet, fails
):
    """The file keeps the weights that the model had."""
    old = 'torch.export.save(program, folder / "digits.pt2")'
    edited = untrained(snippet).edit(
        old, f"{old}\nmodel = Reader(fit(1)).eval()"
    )
    fails(test_the_file_answers_like_the_model, edited)


# How it works

ELSEWHERE = """
import sys, torch, traceback
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torchao":
            raise ModuleNotFoundError("no torchao")
sys.meta_path.insert(0, Missing())
for path in sys.stdin:
    try:
        program = torch.export.load(path.strip()).module()
        said = str(tuple(program(torch.zeros(3, 1, 8, 8)).shape))
    except Exception:
        said = repr(traceback.format_exc())
    print(said, flush=True)
"""


@cache
def elsewhere():
    """Start a process without our classes and operators, and torchao."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-W", "ignore", "-c", ELSEWHERE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    atexit.register(process.communicate)  # closes its input, and so ends it
    return process


@cache
def loaded_elsewhere(path):
    """Return the shape of what a file answers there, or the error."""
    with no_error():
        torch.export.load(path)
    print(path, file=elsewhere().stdin, flush=True)
    return elsewhere().stdout.readline().strip()


def test_a_file_needs_no_class(snippet):
    run = after(untrained(snippet), *EXPORTED)
    assert loaded_elsewhere(run.folder / "digits.pt2") == "(3, 10)"


def test_a_file_needs_no_class__but_not_from_torch_save(snippet, fails):
    """`torch.save(model)` writes the weights and the name of the class."""
    old = 'torch.export.save(program, folder / "digits.pt2")'
    new = 'torch.save(model.state_dict(), folder / "digits.pt2")'
    fails(test_a_file_needs_no_class, snippet.edit(old, new))


INVERT = """\
@torch.library.custom_op("digits::invert", mutates_args=())
def invert(x: torch.Tensor) -> torch.Tensor:
    return 16 - x


invert.register_fake(torch.empty_like)


class Reader"""


def test_a_file_needs_no_class__ends_with_a_custom_operator(snippet, fails):
    """An operator from `torch.library` has to be registered there, too."""
    edited = snippet.edit("class Reader", INVERT).edit(
        "self.net((pixels", "self.net((invert(pixels)"
    )
    fails(test_a_file_needs_no_class, edited)


class Baked(nn.Module):
    """A model with a number that Python computes."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        """Add the number."""
        return x + self.number()


def stays(program, model):
    """Check that a program repeats what its model does not."""
    found = [program(torch.zeros(2)).tolist() for _ in range(3)]
    assert found == found[:1] * 3
    changing = [model(torch.zeros(2)).tolist() for _ in range(3)]
    assert changing[0] != changing[1] != changing[2]


def test_python_numbers_are_constants(snippet):
    run = after(snippet, "digits", "counter")
    stays(run.counted, run.counter)
    assert run.counted(torch.zeros(2)).tolist() == [1, 1]
    before = run.counter.calls
    run.counted(torch.zeros(2))
    assert run.counter.calls == before


@pytest.mark.parametrize(
    "number",
    [random.random, lambda: np.random.default_rng().random()],
    ids=["random.random()", "NumPy's random numbers"],
)
def test_python_numbers_are_constants__also(number):
    model = Baked(number)
    stays(exported(model, torch.zeros(2), None).module(), model)


def test_python_numbers_are_constants__also_an_attribute():
    model = Baked(lambda: model.temperature)
    model.temperature = 2.0
    program = exported(model, torch.zeros(2), None).module()
    model.temperature = 3.0
    assert program(torch.zeros(2)).tolist() == [2, 2]
    assert model(torch.zeros(2)).tolist() == [3, 3]


def test_python_numbers_are_constants__ends_for_a_buffer(snippet, fails):
    """For a count in a buffer: it is a tensor, and the program goes on
    counting.
    """
    old = "        self.calls = 0\n"
    new = '        self.register_buffer("calls", torch.zeros(()))\n'
    fails(test_python_numbers_are_constants, snippet.edit(old, new))


def test_python_numbers_are_constants__but_not_random_tensors(snippet, fails):
    """`torch.rand` is a tensor operation, so each call draws anew."""
    edited = snippet.edit("return x + self.calls", "return x + torch.rand(())")
    fails(test_python_numbers_are_constants, edited)


FIXED = (*EXPORTED, "fixed")


def test_sizes_are_fixed(snippet, size=20):
    run = after(trimmed(snippet), *FIXED)
    assert run.without_sizes(run.pixels[:32]).shape == (32, 10)
    with pytest.raises((AssertionError, RuntimeError), match="32"):
        run.without_sizes(run.pixels[:size])
    with pytest.raises((AssertionError, RuntimeError)):
        run.without_sizes(torch.zeros(32, 1, 9, 9))


@pytest.mark.parametrize("size", [1, 31, 33], ids="{} pictures".format)
def test_sizes_are_fixed__also_for(snippet, size):
    test_sizes_are_fixed(snippet, size)


def test_sizes_are_fixed__but_not_with_a_dim(snippet, fails):
    """A `Dim` opens the batch size."""
    edited = snippet.edit(
        "(pixels[:32],)).module()",
        "(pixels[:32],), dynamic_shapes=sizes).module()",
    )
    fails(test_sizes_are_fixed, edited)


ONE = (*EXPORTED, "one")


def test_one_example_raises(snippet):
    run = after(trimmed(snippet), *ONE)
    said = getattr(run, "from_one", "")
    assert re.search(r"(?i)violated", said)
    assert re.search(r"(constant|speciali).*\b1\b", said)
    dynamic = ({0: torch.export.Dim.DYNAMIC},)
    with pytest.raises(Exception, match=r"speciali|constant"):
        exported(run.model, run.pixels[:1], dynamic)


def test_one_example_raises__but_not_two(snippet, fails):
    """With two pictures, no error comes."""
    edited = snippet.edit("model, (pixels[:1],)", "model, (pixels[:2],)")
    fails(test_one_example_raises, edited)


AUTO = (*EXPORTED, "auto")


def test_auto_is_fixed_silently(snippet):
    with warnings.catch_warnings(action="error", category=UserWarning):
        run = after(trimmed(snippet), *AUTO)
    assert len(run.example) == 1
    assert len(run.exported.range_constraints) == 0
    program = run.exported.module()
    assert program(run.pixels[:1]).shape == (1, 10)
    with pytest.raises((AssertionError, RuntimeError)):
        program(run.pixels[:2])

    from_two = exported(run.model, run.pixels[:2], run.auto)
    for size in (1, 50):
        assert from_two.module()(run.pixels[:size]).shape == (size, 10)


def test_auto_is_fixed_silently__but_not_from_two(snippet, fails):
    """From two pictures, the size stays open."""
    edited = snippet.edit("(pixels[:2], pixels[:1])", "(pixels[:2],)")
    fails(test_auto_is_fixed_silently, edited)


class Uses(nn.Module):
    """A model that needs a number of Python."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        """Divide by the largest number."""
        return x / self.function(x.max())


LEN = (*EXPORTED, "len")


class Times(nn.Module):
    """A model that multiplies by what it reads from its input."""

    def __init__(self, read):
        super().__init__()
        self.read = read

    def forward(self, x):
        """Multiply."""
        return x * self.read(x)


def rows_of(x):
    return x.shape[0]


def test_len_fixes_the_size(snippet, read=rows_of):
    run = after(trimmed(snippet), *LEN)
    said = getattr(run, "of_len", "")
    assert re.search(r"(speciali|constant).*2", said)
    auto = ({0: torch.export.Dim.AUTO},)
    program = exported(run.TimesLen(), torch.ones(2), auto).module()
    assert program(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises((AssertionError, RuntimeError)):
        program(torch.ones(3))
    size = ({0: torch.export.Dim("size")},)
    with no_error():
        left_open = exported(Times(read), torch.ones(2), size).module()
    for rows in (1, 2, 3):
        assert (
            left_open(torch.ones(rows)).tolist()
            == [read(torch.ones(rows))] * rows
        )


@pytest.mark.parametrize(
    "read",
    [
        lambda x: math.sqrt(x.shape[0]),
        lambda x: sum(1 for _ in range(x.shape[0])),
    ],
    ids=["math.sqrt", "range"],
)
def test_len_fixes_the_size__ends_if_python_needs_it_as(snippet, read, fails):
    """If `math.sqrt` or `range` takes `x.shape[0]`: the size is fixed, too."""
    fails(test_len_fixes_the_size, snippet, read)


def test_len_fixes_the_size__also_in_the_exercise(snippet):
    run = after(trimmed(snippet), *EXPORTED, "quiz")
    for size in (1, 2, 3, 7):
        assert run.times(torch.ones(size)).tolist() == [size] * size


@pytest.mark.parametrize(
    "edited",
    ["x * int(x.shape[0])", "torch.stack([2 * row for row in x])"],
    ids=["int(x.shape[0])", "a loop over x"],
)
def test_len_fixes_the_size__also(snippet, edited):
    test_len_fixes_the_size(snippet.edit("x * len(x)", edited))


@pytest.mark.parametrize("name", ["shape[0]", "size(0)"], ids="x.{}".format)
def test_len_fixes_the_size__but_not(snippet, name, fails):
    """The size stays open, and no error comes."""
    edited = snippet.edit("x * len(x)", f"x * x.{name}")
    fails(test_len_fixes_the_size, edited)


LSTM = ("digits", "lstm")


@true_since("2.12", "exporting a recurrent layer raised another error")
@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_recurrent_layers_fix_the_length(snippet, layer=None):
    run = after(snippet, *LSTM)
    said = getattr(run, "of_lstm", "")
    assert "You marked length as dynamic" in said
    assert "specialized it to be a constant (5)" in said
    if layer:
        text = r"marked length as dynamic .* constant \(5\)"
        with pytest.raises(Exception, match=text):
            exported(layer, *run.names, run.open_length)
    layer = layer or run.lstm
    program = exported(layer, *run.names).module()
    batch = torch.randn(7, 5, 3)
    close(program(batch), layer(batch))


@true_since("2.12", "exporting a recurrent layer raised another error")
@pytest.mark.filterwarnings("ignore:The tensor attributes")
@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_recurrent_layers_fix_the_length__also(snippet, kind):
    test_recurrent_layers_fix_the_length(snippet, kind(3, 4, batch_first=True))


@true_since("2.12", "exporting a recurrent layer raised another error")
@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_recurrent_layers_fix_the_length__but_not_a_convolution(
    snippet, fails
):
    """A layer that is one operation for all steps leaves the length open."""
    edited = snippet.edit(
        "lstm = nn.LSTM(3, 8, batch_first=True)",
        "lstm = nn.Sequential(nn.Flatten(2), nn.Linear(3, 8))",
    )
    fails(test_recurrent_layers_fix_the_length, edited)


SEVERAL = ("digits", "several")


def test_each_input_needs_its_entry(snippet):
    run = after(snippet, *SEVERAL)
    said = getattr(run, "of_one", "")
    assert "structure of `inputs` and `dynamic_shapes`" in said
    model = run.MeanOfTokens()
    for other in (None, {}):
        with pytest.raises(Exception, match=r"(?i)violated"):
            torch.export.export(
                model, run.text, dynamic_shapes=(run.rows, other)
            )
    in_order = torch.export.export(
        model, run.text, dynamic_shapes=(run.rows, run.rows)
    )
    ids = torch.tensor([[5, 7, 0], [3, 1, 4], [9, 0, 0], [2, 2, 2]])
    mask = (ids > 0).long()
    close(in_order.module()(ids, mask), model(ids, mask))
    found = run.of_text.module()(ids, mask)
    close(found[0], run.tokens.embedding(ids[0, :2]).mean(dim=0))
    assert found.shape == (4, 8)


def test_each_input_needs_its_entry__also_by_name(snippet):
    run = after(snippet, *SEVERAL)
    for names in (("ids",), ("input_ids", "mask")):
        sizes = dict.fromkeys(names, run.rows)
        with pytest.raises(Exception, match="must be the arg names"):
            torch.export.export(
                run.MeanOfTokens(), run.text, dynamic_shapes=sizes
            )


def test_each_input_needs_its_entry__but_not_with_two(snippet, fails):
    """With one entry for each input, no error comes."""
    edited = snippet.edit(
        "dynamic_shapes=(rows,))", "dynamic_shapes=(rows, rows))"
    )
    fails(test_each_input_needs_its_entry, edited)


def test_keywords_stay_keywords(snippet):
    run = after(snippet, *SEVERAL)
    program = run.by_name.module()
    for size in (1, 2, 5):
        ids = torch.arange(3 * size).reshape(size, 3)
        mask = torch.ones_like(ids)
        expected = run.of_text.module()(ids, mask)
        with no_error():
            found = program(ids, mask=mask)
        close(found, expected)
        with pytest.raises(ValueError, match="kwarg keyword mismatch"):
            program(ids, mask)


def test_keywords_stay_keywords__also_all(snippet):
    old = 'text[:1], {"mask": text[1]}'
    edited = snippet.edit(old, '(), {"ids": text[0], "mask": text[1]}')
    run = after(edited, *SEVERAL)
    ids = torch.arange(12).reshape(4, 3)
    both = {"ids": ids, "mask": torch.ones_like(ids)}
    found = run.by_name.module()(**both)
    close(found, run.of_text.module()(*both.values()))


def test_keywords_stay_keywords__but_not_if_given_in_order(snippet, fails):
    """Exported with both in order, the program takes both in order."""
    edited = snippet.edit('text[:1], {"mask": text[1]}', "text, {}")
    fails(test_keywords_stay_keywords, edited)


class OfDict(nn.Module):
    """A model whose one input is a dict."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        """Hand over the tensors of the dict."""
        return self.model(batch["ids"], batch["mask"])


def test_keywords_stay_keywords__also_in_a_dict(snippet):
    run = after(snippet, *SEVERAL)
    model = OfDict(run.MeanOfTokens())
    batch = dict(zip(run.both, run.text, strict=True))
    program = exported(model, batch, {"batch": run.both}).module()
    longer = {name: each.repeat(3, 1) for name, each in batch.items()}
    close(program(longer), model(longer))


IF = (*EXPORTED, "if")
SPECIALIZED = "Could not extract specialized integer from data-dependent"
GUARD = "Could not guard on data-dependent expression"


def one_if_large(x):
    return 1.0 if x > 1 else 2.0


def one_if_alike(x):
    return 1.0 if len(x.unique()) == 1 else 2.0


NEEDS = (int, float, one_if_large, one_if_alike)


def test_an_if_on_values_raises(snippet, functions=NEEDS, strict=False):
    run = after(trimmed(snippet), *IF)
    assert GUARD in getattr(run, "refused", "")
    light = run.pixels[:3]
    for batch in (light, 16 - light):
        close(run.WithIf(run.net).eval()(batch), run.model(light))
    for function in functions:
        for example in (torch.ones(2), torch.tensor([1, 2])):
            match = f"{GUARD}|{SPECIALIZED}"
            with pytest.raises(RuntimeError, match=match):
                exported(Uses(function), example, strict=strict)


def test_an_if_on_values_raises__also_on_an_item():
    def at_least_one(x):
        number = x.item()
        return number if number > 1 else 1.0

    with pytest.raises(RuntimeError, match=GUARD):
        exported(Uses(at_least_one), torch.ones(2))


def test_an_if_on_values_raises__also_of_math_sqrt():
    def by_python(x):
        return math.sqrt(x.item())

    with pytest.raises(RuntimeError, match=GUARD):
        exported(Uses(by_python), torch.ones(2))
    by_torch = exported(Uses(torch.sqrt), torch.ones(2)).module()
    assert by_torch(torch.tensor([8.0, 16.0])).tolist() == [2, 4]


def test_an_if_on_values_raises__but_not_on_a_shape(snippet, fails):
    """A shape is known during the export."""
    edited = snippet.edit("pixels.mean() > 8:", "len(pixels) > 8:")
    fails(test_an_if_on_values_raises, edited)


def test_an_if_on_values_raises__ends_with_item(snippet, fails):
    """`x.item()` stays in the program, as long as Python need not know it."""
    fails(test_an_if_on_values_raises, snippet, [torch.Tensor.item])


@pytest.mark.parametrize(
    "function",
    [int, float, one_if_large],
    ids=["int()", "float()", "if"],
)
def test_an_if_on_values_raises__ends_in_strict_mode(snippet, function, fails):
    """With `strict=True`, `torch.export` takes `int()` and `float()`, and an
    `if` raises `Data-dependent branching`.
    """
    fails(test_an_if_on_values_raises, snippet, [function], True)


@pytest.mark.parametrize("compare", [torch.equal, torch.allclose])
def test_an_if_on_values_raises__ends_with(snippet, compare, fails):
    """`if torch.equal(a, b)` raises `aten.equal.default`, and `allclose`
    likewise.
    """
    same = lambda x: 1.0 if compare(x, 2 * x) else 2.0  # noqa: E731
    fails(test_an_if_on_values_raises, snippet, [same])


WHERE = (*EXPORTED, "where")


def test_where_chooses_for_each_picture(snippet):
    run = after(trimmed(snippet), *WHERE)
    program = run.chooses.module()
    light = run.model(run.pixels[:3])
    found = program(run.mixed)
    close(found, torch.cat([light, light]))
    close(found, run.chosen(run.mixed))
    for one in run.mixed.split(1):
        close(program(one), run.chosen(one))


def test_where_chooses_for_each_picture__but_not_by_one_mean(snippet, fails):
    """One mean decides for the whole batch."""
    old = "pixels.mean(dim=(1, 2, 3), keepdim=True) > 8"
    edited = snippet.edit(old, "pixels.mean() > 8")
    fails(test_where_chooses_for_each_picture, edited)


COND = (*EXPORTED, "cond")


def test_cond_keeps_both_sides(snippet):
    run = after(trimmed(snippet), *COND)
    program = run.branches.module()
    light = run.model(run.pixels[:3])
    for batch in (run.pixels[:3], 16 - run.pixels[:3]):
        close(program(batch), light)
        close(run.branched(batch), light)
    targets = [str(node.target) for node in run.branches.graph.nodes]
    assert sum("cond" in each for each in targets) == 1


@edits(("lambda x: 16 - x,", "lambda x: x.clone(),"))
def test_cond_keeps_both_sides__but_not(snippet, old, new, fails):
    """Both sides are the same then."""
    fails(test_cond_keeps_both_sides, snippet.edit(old, new))


def test_trace_keeps_the_number(snippet):
    run = after(snippet, "digits", "item")
    first, second = run.examples
    model = run.Scaled()
    assert model(second).tolist() == [0.25, 1.0]
    assert run.kept(second).tolist() == [0.25, 1.0]
    assert run.traced(second).tolist() == [0.5, 2.0]
    for x in (first, 3 * first, torch.tensor([5.0, 8.0])):
        assert run.kept(x).equal(model(x))
        assert run.traced(x).equal(x / 2)


@pytest.mark.parametrize("function", [int, float], ids=["int()", "float()"])
def test_trace_keeps_the_number__also_of(function):
    example = torch.tensor([1.0, 2.0])
    with warnings.catch_warnings(action="ignore"):
        traced = torch.jit.trace(Uses(function), example)
    assert traced(2 * example).equal(example)
    assert Uses(function)(2 * example).equal(example / 2)


def test_trace_keeps_the_number__but_not_of_a_tensor(snippet, fails):
    """Without `item()`, the number stays a tensor, and the trace is right."""
    edited = snippet.edit("x.max().item()", "x.max()")
    fails(test_trace_keeps_the_number, edited)


INT8 = (*EXPORTED, "int8")


@pytest.fixture
def translations(monkeypatch):
    """Convert faster."""
    read_translations_once(monkeypatch)


@api_since("2.10", "the kinds of scales that torchao imports")
@pytest.mark.usefixtures("translations")
def test_an_int8_model_exports(snippet):
    pytest.importorskip("torchao")
    run = after(trimmed(snippet), *INT8)
    path = run.folder / "small.pt2"
    wanted = run.small(run.held_out)
    assert not wanted.equal(run.model(run.held_out))
    close(run.of_small.module()(run.held_out), wanted)
    close(torch.export.load(path).module()(run.held_out), wanted)
    assert "no torchao" in loaded_elsewhere(path)
    with no_error():
        session = to_onnx(run, run.of_small, "small")
    assert (answer(session, run.held_out) - wanted).abs().max() < 1e-4


@api_since("2.10", "the kinds of scales that torchao imports")
@pytest.mark.usefixtures("translations")
def test_an_int8_model_exports__but_not_float32(snippet, fails):
    """A model that was not quantized needs no torchao."""
    old = "quantize_(small, Int8WeightOnlyConfig())"
    edited = snippet.edit(old, "small.net.linear.weight.data.mul_(1.01)")
    fails(test_an_int8_model_exports, edited)


@api_since("2.10", "the kinds of scales that torchao imports")
@pytest.mark.usefixtures("translations")
def test_an_int8_model_exports__ends_with_int8_inputs(snippet, fails):
    """`Int8DynamicActivationInt8WeightConfig` does not convert to ONNX."""
    edited = snippet.edit(
        "import Int8WeightOnlyConfig, quantize_",
        "import Int8DynamicActivationInt8WeightConfig, quantize_",
    ).edit(
        "quantize_(small, Int8WeightOnlyConfig())",
        "quantize_(small, Int8DynamicActivationInt8WeightConfig())",
    )
    fails(test_an_int8_model_exports, edited)


# What goes wrong

TRAINING = (*EXPORTED, "train-mode", "bare")  # one run for two claims


def test_training_mode_stays(snippet):
    run = after(unexported(snippet), *TRAINING)
    program = run.drops.module()
    torch.manual_seed(1)
    first, second = program(run.held_out), program(run.held_out)
    assert not torch.allclose(first, second, atol=0.01)
    assert 5 < run.changed < 200
    assert not run.model.training
    torch.export.save(run.drops, run.folder / "drops.pt2")
    loaded = torch.export.load(run.folder / "drops.pt2").module()
    first, second = loaded(run.held_out), loaded(run.held_out)
    assert not torch.allclose(first, second, atol=0.01)


def test_training_mode_stays__also_of_batch_norm():
    torch.manual_seed(0)
    model = nn.BatchNorm1d(3)
    batch = 5 + torch.randn(8, 3)
    program = exported(model.train(), batch).module()
    means = program(batch).mean(dim=0)
    assert means.abs().max() < 1e-4
    assert model.eval()(batch).mean() > 1


def test_training_mode_stays__but_not_after_eval(snippet, fails):
    """In `eval()` mode, nothing is dropped."""
    edited = untrained(snippet).edit(
        "model.train()\ndrops", "model.eval()\ndrops"
    )
    fails(test_training_mode_stays, edited)


def test_an_export_has_no_eval(snippet, program=None):
    run = after(untrained(snippet), *EXPORTED)
    program = program or run.program.module()
    for mode in (program.eval, program.train):
        with pytest.raises(NotImplementedError, match="not supported"):
            mode()


def test_an_export_has_no_eval__also_from_a_file(snippet):
    run = after(untrained(snippet), *EXPORTED)
    loaded = torch.export.load(run.folder / "digits.pt2").module()
    test_an_export_has_no_eval(snippet, loaded)


def test_an_export_has_no_eval__but_not_the_model(snippet, fails):
    """The model itself changes its mode."""
    model = after(untrained(snippet), *READER).Reader(nn.Identity())
    fails(test_an_export_has_no_eval, snippet, model)


def test_a_missing_normalization_is_silent(snippet):
    run = after(unexported(snippet), *TRAINING)
    labels = run.labels[run.valid]
    wanted = run.model(run.held_out)
    close(run.raw.sum(dim=1), torch.ones(397))
    normalized = (run.held_out - run.mean) / run.std
    close(wanted, run.net(normalized).softmax(dim=1))
    right = (wanted.argmax(dim=1) == labels).double().mean()
    raw_right = (run.raw.argmax(dim=1) == labels).double().mean()
    assert right > 0.9
    assert raw_right < right - 0.05
    assert run.raw.amax(dim=1).mean() > wanted.amax(dim=1).mean() - 0.05


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_a_missing_normalization_is_silent__also_from(snippet, seed):
    run = after(snippet, *READER)
    net = run.fit(seed).eval()
    pixels, labels = run.pixels[run.valid], run.labels[run.valid]
    with torch.no_grad():
        normalized = net((pixels - run.mean) / run.std).softmax(dim=1)
        raw = net(pixels).softmax(dim=1)
    right, raw_right = (
        (each.argmax(dim=1) == labels).double().mean()
        for each in (normalized, raw)
    )
    assert raw_right < right - 0.05
    assert raw.amax(dim=1).mean() > normalized.amax(dim=1).mean() - 0.05


def test_a_missing_normalization_is_silent__but_not_with_it(snippet, fails):
    """Whoever normalizes before calling the file gets the right answers."""
    edited = snippet.edit("bare(held_out)", "bare((held_out - mean) / std)")
    fails(test_a_missing_normalization_is_silent, edited)


def test_softmax_twice_is_unsure(snippet):
    run = after(snippet, "digits", "twice")
    most = math.e / (math.e + 9)
    assert round(most, 3) == 0.232
    assert run.once.sum() == 1
    assert run.twice[0, 0].item() == pytest.approx(most)
    torch.manual_seed(0)
    for scale in (1, 10, 100):
        scores = scale * torch.randn(1000, 10)
        again = scores.softmax(dim=1).softmax(dim=1)
        assert again.max() < 0.23201
        assert again.sum(dim=1).allclose(torch.ones(1000))


def test_softmax_twice_is_unsure__but_not_of_logarithms(snippet, fails):
    """The softmax of log-probabilities gives the probabilities back."""
    edited = snippet.edit("once.softmax(dim=1)", "once.log().softmax(dim=1)")
    fails(test_softmax_twice_is_unsure, edited)


WEIGHTS = (*EXPORTED, "weights")


def as_saved(snippet):
    """Return what the model answered before its weights changed."""
    run = after(untrained(snippet), *EXPORTED)
    return run.model(run.held_out)


def test_the_file_keeps_its_weights(snippet):
    run = after(untrained(snippet), *WEIGHTS)
    saved = as_saved(snippet)
    assert not torch.allclose(run.threes["model"], saved, atol=0.01)
    close(run.threes["file"], saved)


def test_the_file_keeps_its_weights__but_not_saved_again(snippet, fails):
    """Saved again, it has the new weights."""
    edited = snippet.edit(
        "+= 10  # say 3 more often",
        '+= 10\ntorch.export.save(program, folder / "digits.pt2")',
    )
    fails(test_the_file_keeps_its_weights, edited)


def test_the_program_shares_its_weights(snippet):
    run = after(untrained(snippet), *WEIGHTS)
    assert not torch.allclose(
        run.threes["model"], as_saved(snippet), atol=0.01
    )
    close(run.threes["program"], run.threes["model"])


def test_the_program_shares_its_weights__also_after_load_state_dict():
    torch.manual_seed(0)
    model, other = nn.Linear(3, 3), nn.Linear(3, 3)
    program = exported(model, torch.ones(2, 3))
    model.load_state_dict(other.state_dict())
    batch = torch.randn(5, 3)
    close(program.module()(batch), other(batch))


def test_the_program_shares_its_weights__ends_with_assign(snippet, fails):
    """`load_state_dict(state, assign=True)` gives the model new tensors."""
    edited = snippet.edit(
        "net.linear.bias[3] += 10  # say 3 more often",
        "state = {name: -each for name, each in net.state_dict().items()}\n"
        "    net.load_state_dict(state, assign=True)",
    )
    fails(test_the_program_shares_its_weights, edited)


def test_the_program_shares_its_weights__also_after_a_training_step():
    model, batch = nn.Linear(3, 3), torch.randn(5, 3)
    program = exported(model, batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    before = model(batch).detach()
    before.sub(model(batch)).add(1).pow(2).mean().backward()
    optimizer.step()
    assert not torch.allclose(model(batch), before, atol=0.01)
    close(program.module()(batch), model(batch))


def test_the_program_shares_its_weights__but_not_a_new_layer(snippet, fails):
    """A layer that you put in its place is not the one exported."""
    edited = snippet.edit(
        "net.linear.bias[3] += 10  # say 3 more often",
        "net.linear = nn.Linear(128, 10)",
    )
    fails(test_the_program_shares_its_weights, edited)
