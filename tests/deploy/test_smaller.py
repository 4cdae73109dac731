"""The claims of docs/deploy/smaller.md."""

import copy
import io
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after
from tests.helpers.programs import resumed
from tests.helpers.small_models import (
    close,
    file_size,
    is_quantized,
    needs_torchao,
)

FITTED = ("digits", "train", "halve")
MEASURED = (*FITTED, "torchao", "quantize", "measure")
COMPARED = (*MEASURED, "compare")
PIECES = ("digits", "torchao", "measure")


def untrained(snippet, *cells):
    """Run these cells with models that have not been trained."""
    if "in range(2)" in str(snippet.cell("digits").source):
        snippet = snippet.edit("in range(2)", "in range(0)")
    return after(snippet, *cells)


def narrow(snippet, width):
    """Give the model few units, and leave it untrained."""
    return (
        snippet.edit("in range(2)", "in range(0)")
        .edit("nn.Linear(64, 512)", f"nn.Linear(64, {width})")
        .edit("nn.Linear(512, 512)", f"nn.Linear({width}, {width})")
        .edit("nn.Linear(512, 10)", f"nn.Linear({width}, 10)")
    )


# Do this


@needs_torchao
def test_bfloat16_halves_the_file(snippet):
    run = untrained(snippet, *COMPARED)

    whole, half = file_size(run.model), file_size(run.half)
    assert run.sizes["float32"] == whole
    assert run.sizes["bfloat16"] == half
    assert half / whole == pytest.approx(0.5, abs=0.01)
    scores = untrained(snippet, *FITTED).scores
    assert scores.shape == (300, 10)
    assert scores.dtype == torch.float32
    assert {p.dtype for p in run.half.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in run.model.parameters()} == {torch.float32}
    assert not run.half.training


LAYERS = {
    "a convolution": lambda: nn.Conv2d(64, 64, 3),
    "an LSTM": lambda: nn.LSTM(128, 128),
    "an embedding": lambda: nn.Embedding(1000, 64),
    "BatchNorm": lambda: nn.BatchNorm2d(100_000),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"]
)
def test_bfloat16_halves_the_file__also_with(make, dtype):
    layer = make()
    whole = file_size(layer)
    assert file_size(layer.to(dtype)) / whole == pytest.approx(0.5, abs=0.02)


@edits((".bfloat16().eval()", ".double().eval()"))
def test_bfloat16_halves_the_file__but_not_with(snippet, old, new, fails):
    """`float64` takes eight bytes a number."""
    edited = snippet.edit(old, new).edit(
        "valid].bfloat16()", "valid].double()"
    )
    fails(test_bfloat16_halves_the_file, edited)


def test_bfloat16_halves_the_file__ends_in_a_tiny_model(snippet, fails):
    """A file also holds names, shapes and other notes, a kilobyte or more."""
    fails(test_bfloat16_halves_the_file, narrow(snippet, 4))


@needs_torchao
def test_int8_quarters_the_file(snippet):
    with no_error():
        run = untrained(snippet, *COMPARED)

    for name, model in (
        ("int8 weights", run.int8),
        ("int8 weights and inputs", run.dynamic),
    ):
        assert run.sizes[name] == file_size(model)
        assert 0.25 < run.sizes[name] / run.sizes["float32"] < 0.27
        for place in (0, 2, 4):
            assert model[place].weight.qdata.dtype == torch.int8
        assert not model.training
    assert run.scores.shape == (300, 10)
    whole = file_size(run.make_model())
    assert run.sizes["float32"] == pytest.approx(whole, abs=100)


@pytest.mark.parametrize("width", [256, 2048], ids="layers of {}".format)
def test_int8_quarters_the_file__also_with(snippet, width):
    run = after(snippet, *PIECES)
    layer = nn.Sequential(nn.Linear(width, width))
    whole = file_size(layer)
    run.quantize_(layer, run.Int8WeightOnlyConfig())
    assert 0.25 < file_size(layer) / whole < 0.29


@edits(
    ("quantize_(int8, Int8WeightOnlyConfig())", "int8.half()"),
    ("quantize_(dynamic, Int8DynamicActivationInt8WeightConfig())", "pass"),
)
def test_int8_quarters_the_file__but_not_with(snippet, old, new, fails):
    """Here the weights take more than one byte each."""
    edited = snippet.edit(old, new)
    edited = edited.edit("= int8(images[valid])", "= scores")
    with no_error():
        fails(test_int8_quarters_the_file, edited)


def test_int8_quarters_the_file__ends_in_a_narrow_layer(snippet, fails):
    """In a layer with few inputs, the steps of the rows and the biases weigh
    more than the weights.
    """
    fails(test_int8_quarters_the_file, narrow(snippet, 8))


def test_int8_quarters_the_file__ends_with_a_second_call(snippet, fails):
    """Quantizing the same model twice raises a `NotImplementedError`:
    "Int8Tensor dispatch: attempting to run unimplemented operator".
    """
    call = "quantize_(int8, Int8WeightOnlyConfig())"
    fails(test_int8_quarters_the_file, snippet.edit(call, f"{call}; {call}"))


@needs_torchao
def test_the_answers_hardly_change(snippet):
    run = resumed(snippet, *COMPARED)

    generator = torch.Generator().manual_seed(0)
    assert torch.equal(run.order, torch.randperm(1797, generator=generator))
    seen = set(map(tuple, run.images[run.train].tolist()))
    unseen = set(map(tuple, run.images[run.valid].tolist()))
    assert len(unseen) == 300
    assert seen & unseen == set()
    assert [*run.right] == [*run.models]
    assert {type(each) for each in run.right.values()} == {float}
    labels = run.labels[run.valid]
    for name, model in run.models.items():
        x = run.images[run.valid]
        if name == "bfloat16":
            x = x.bfloat16()
        found = (model(x).argmax(dim=1) == labels).sum().item() / 300
        assert run.right[name] == pytest.approx(found)
        assert run.right[name] > 0.9
        assert abs(run.right[name] - run.right["float32"]) <= 0.02


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_the_answers_hardly_change__also_from(snippet, seed):
    seeded = "torch.manual_seed(0)\nmodel"
    edited = snippet.edit(seeded, seeded.replace("0", str(seed)))
    test_the_answers_hardly_change(edited)

    torch.manual_seed(seed)
    order = snippet.only("digits").after("digits").order
    assert torch.equal(order, resumed(edited, *COMPARED).order)


@edits(
    ("no training", "in range(2)", "in range(0)"),
    ("digits that it has seen", "part=valid", "part=train"),
    (
        "other weights",
        "half = copy.deepcopy(model)",
        "half = make_model()",
    ),
)
def test_the_answers_hardly_change__but_not_with(snippet, old, new, fails):
    """The models know nothing, or are asked about something else."""
    fails(test_the_answers_hardly_change, snippet.edit(old, new))


# How it works


FILES = ("digits", "train", "measure")
CHECKPOINT = (*FILES, "checkpoint")


def test_four_bytes_a_parameter(snippet, layer=None):
    if layer is not None:
        count = sum(p.numel() for p in layer.parameters())
        assert 0 < file_size(layer) - 4 * count < 4 * count / 50
        return

    run = untrained(snippet, *FILES)

    count = sum(p.numel() for p in run.model.parameters())
    assert count == 301_066
    assert 4 * count == 1_204_264
    size = run.file_size(run.model.state_dict())
    assert 0 < size - 4 * count < 4 * count / 100


@pytest.mark.parametrize(
    "name", ["a convolution", "an LSTM", "an embedding"], ids=str
)
def test_four_bytes_a_parameter__also_of(snippet, name):
    test_four_bytes_a_parameter(snippet, LAYERS[name]())


@edits(
    (
        "saved twice",
        "torch.save(saved, file)",
        "torch.save([saved, copy.deepcopy(saved)], file)",
    ),
)
def test_four_bytes_a_parameter__but_not(snippet, old, new, fails):
    """Two copies of the weights take twice the bytes."""
    fails(test_four_bytes_a_parameter, snippet.edit(old, new))


def test_four_bytes_a_parameter__ends_in_float64(snippet, fails):
    """A `float64` parameter takes eight bytes."""
    fails(test_four_bytes_a_parameter, snippet, nn.Linear(99, 99).double())


def test_four_bytes_a_parameter__ends_in_batchnorm(snippet, fails):
    """BatchNorm also saves the mean and the variance of each feature, which
    are no parameters.
    """
    fails(test_four_bytes_a_parameter, snippet, LAYERS["BatchNorm"]())


def test_four_bytes_a_parameter__ends_in_a_tiny_model(snippet, fails):
    """Each file also holds names, shapes and other notes, a kilobyte or
    more.
    """
    fails(test_four_bytes_a_parameter, narrow(snippet, 4))


def test_adam_triples_the_checkpoint(snippet, optimizer=None):
    if optimizer is not None:
        model = nn.Linear(500, 500)
        optimizer = optimizer(model.parameters())
        model(torch.rand(2, 500)).sum().backward()
        optimizer.step()
        file = io.BytesIO()
        torch.save([model.state_dict(), optimizer.state_dict()], file)
        assert file.tell() / file_size(model) == pytest.approx(3, abs=0.05)
        return

    run = after(snippet.edit("in range(2)", "in range(1)"), *CHECKPOINT)

    assert isinstance(run.optimizer, torch.optim.Adam)
    assert isinstance(run.state["model"], dict)
    assert isinstance(run.state["optimizer"], dict)
    found = run.checkpoint_size / file_size(run.model)
    assert found == pytest.approx(3, abs=0.05)


def test_adam_triples_the_checkpoint__also_of_adamw(snippet):
    test_adam_triples_the_checkpoint(snippet, torch.optim.AdamW)


@edits(
    ("torch.optim.Adam(", "torch.optim.SGD("),
    ("without a step", "            optimizer.step()\n", ""),
)
def test_adam_triples_the_checkpoint__but_not(snippet, old, new, fails):
    """Plain SGD keeps nothing, and Adam nothing before its first step."""
    fails(test_adam_triples_the_checkpoint, snippet.edit(old, new))


def test_adam_triples_the_checkpoint__ends_with_sgd(snippet, fails):
    """With momentum, SGD keeps one number for each weight: two times."""

    def optimizer(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    fails(test_adam_triples_the_checkpoint, snippet, optimizer)


def test_adam_triples_the_checkpoint__ends_with_amsgrad(snippet, fails):
    """With `amsgrad=True`, it keeps a third number for each weight."""

    def optimizer(parameters):
        return torch.optim.Adam(parameters, amsgrad=True)

    fails(test_adam_triples_the_checkpoint, snippet, optimizer)


def pieces(snippet, *cells):
    """Run these cells without those that train and compare."""
    return after(snippet, "digits", "torchao", *cells)


@needs_torchao
def test_the_step_comes_from_the_largest(snippet):
    run = pieces(snippet, "by-hand")

    assert run.row.tolist() == pytest.approx([0.50, 0.033, -0.017, 2.55])
    assert run.weight.scale.item() == pytest.approx(2.55 / 127.5)
    assert run.weight.scale.item() == pytest.approx(0.02)
    assert run.weight.qdata.tolist() == [[25, 2, -1, 127]]
    read = run.weight.dequantize()[0].tolist()
    assert read == pytest.approx([0.5, 0.04, -0.02, 2.54])


@pytest.mark.parametrize("largest", [-3.0, 0.01, 1000.0], ids="{}".format)
def test_the_step_comes_from_the_largest__also_with_a_weight_of(
    snippet, largest
):
    run = pieces(snippet, "by-hand")
    torch.manual_seed(0)
    row = torch.rand(50) * largest / 2
    row[7] = largest
    weight = run.quantize_row(row)
    assert weight.scale.item() == pytest.approx(abs(largest) / 127.5)
    layer = nn.Linear(30, 20)
    run.quantize_(layer, run.Int8DynamicActivationInt8WeightConfig())
    steps = layer.weight.scale[:, 0]
    read = layer.weight.dequantize().abs().amax(dim=1)
    close(read / steps, torch.full((20,), 127.5), 0.51)


@edits(
    ("-0.017, 2.55", "-0.017, 5.1"),
    ("other weights", "row[None]", "row[None].round()"),
)
def test_the_step_comes_from_the_largest__but_not(snippet, old, new, fails):
    """Another largest weight makes another step."""
    fails(test_the_step_comes_from_the_largest, snippet.edit(old, new))


def test_the_step_comes_from_the_largest__ends_with_tiny_weights(
    snippet, fails
):
    """A step is never below 1.2e-7, so a row of weights below half of that
    becomes 0.
    """
    edited = snippet.edit("-0.017, 2.55]", "-0.017, 0.02]").edit(
        "row[None]", "1e-6 * row[None]"
    )
    weight = pieces(edited, "by-hand").weight
    assert weight.scale.item() == pytest.approx(2**-23)
    fails(test_the_step_comes_from_the_largest, edited)


def errors(weight, row):
    """Return how many steps each weight is off by."""
    return (weight.dequantize() - row).abs() / weight.scale


@needs_torchao
def test_off_by_half_a_step(snippet):
    run = pieces(snippet, "by-hand")

    found = errors(run.weight, run.row)
    assert found.max() <= 0.5001
    assert found[0, 3].item() == pytest.approx(0.5, abs=1e-3)
    assert 0.5 * run.weight.scale.item() == pytest.approx(0.01)


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_off_by_half_a_step__also_from(snippet, seed):
    run = pieces(snippet, "by-hand")
    torch.manual_seed(seed)
    for spread in (0.01, 1.0, 100.0):
        row = torch.randn(200) * spread
        row[0] = -4 * spread
        assert errors(run.quantize_row(row), row).max() <= 0.501
    assert errors(run.quantize_row(torch.zeros(5)), torch.zeros(5)).max() == 0


@edits(
    ("row[None]", "row[None] - 0.02"),
    ("row[None]", "row[None] * 1.02"),
)
def test_off_by_half_a_step__but_not(snippet, old, new, fails):
    """The weights read back are those of another row."""
    fails(test_off_by_half_a_step, snippet.edit(old, new))


def test_off_by_half_a_step__ends_in_bfloat16(snippet, fails):
    """The weights of a `bfloat16` model are rounded once more when they are
    read back.
    """
    edited = snippet.edit("2.55])", "2.55], dtype=torch.bfloat16)")
    run = pieces(edited, "by-hand")
    torch.manual_seed(0)
    row = torch.randn(200).bfloat16()
    assert errors(run.quantize_row(row), row).max() > 0.55
    fails(test_off_by_half_a_step, edited)


def test_off_by_half_a_step__ends_with_nan(snippet, fails):
    """A single nan or inf makes its whole row nan."""
    edited = snippet.edit("0.50, 0.033", "float('nan'), 0.033")
    run = pieces(edited, "by-hand")
    assert run.weight.dequantize().isnan().all()
    fails(test_off_by_half_a_step, edited)


def rounded_rows(x):
    """Round each row to a whole number of steps, as int8 does."""
    steps = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-7) / 127.5
    return (x / steps).round().clamp(-128, 127) * steps


@needs_torchao
def test_inputs_are_rounded_too(snippet, x=None):
    run = untrained(snippet, *COMPARED)

    x = run.images[run.valid] if x is None else x
    for weights, both in zip(run.int8, run.dynamic, strict=True):
        if isinstance(weights, nn.Linear):
            assert torch.equal(weights.weight.qdata, both.weight.qdata)
            assert torch.equal(weights.weight.scale, both.weight.scale)
    plain = run.int8[0].weight.dequantize()
    bias = run.model[0].bias
    close(run.int8[0](x), F.linear(x, plain, bias), 1e-4)
    rounded = F.linear(rounded_rows(x), plain, bias)
    apart = (run.dynamic[0](x) - run.int8[0](x)).abs().mean()
    assert apart > 1e-4
    assert (run.dynamic[0](x) - rounded).abs().mean() < apart / 5


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_inputs_are_rounded_too__also_with_random_inputs_from(snippet, seed):
    torch.manual_seed(seed)
    test_inputs_are_rounded_too(snippet, torch.randn(40, 64) * 3)


@edits(
    (
        "quantize_(dynamic, Int8DynamicActivationInt8WeightConfig())",
        "quantize_(dynamic, Int8WeightOnlyConfig())",
    ),
    (
        "quantize_(int8, Int8WeightOnlyConfig())",
        "quantize_(int8, Int8DynamicActivationInt8WeightConfig())",
    ),
)
def test_inputs_are_rounded_too__but_not(snippet, old, new, fails):
    """With one configuration for both models, both treat inputs alike."""
    fails(test_inputs_are_rounded_too, snippet.edit(old, new))


def test_inputs_are_rounded_too__ends_with_few_values(snippet, fails):
    """Inputs that are a whole number of steps already stay as they are."""
    fails(test_inputs_are_rounded_too, snippet, torch.zeros(5, 64))


PARTS = ("linear", "convolution", "embedding", "lstm", "attention")


@needs_torchao
def test_only_linear_layers_change(snippet):
    run = pieces(snippet, "left-alone")

    assert tuple(run.layers) == PARTS
    assert len(run.kinds) == 7
    torch.manual_seed(0)
    assert [
        name for name, kind in run.kinds.items() if kind == "Int8Tensor"
    ] == ["linear.weight"]
    for name, parameter in run.layers.named_parameters():
        assert is_quantized(parameter) == (name == "linear.weight")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for config in (
            run.Int8WeightOnlyConfig(),
            run.Int8DynamicActivationInt8WeightConfig(),
        ):
            others = nn.Sequential(
                nn.Conv1d(4, 4, 1),
                nn.GRU(4, 4),
                nn.Bilinear(4, 4, 2),
                nn.ConvTranspose2d(4, 4, 2),
                nn.LayerNorm(4),
                nn.EmbeddingBag(4, 4),
            )
            before = file_size(others)
            run.quantize_(others, config)
            assert file_size(others) == before
            assert not any(map(is_quantized, others.parameters()))


def test_only_linear_layers_change__also_in_a_transformer(snippet):
    run = pieces(snippet, "left-alone")
    layer = nn.TransformerEncoderLayer(64, 4, batch_first=True)
    run.quantize_(layer, run.Int8WeightOnlyConfig())
    changed = [n for n, p in layer.named_parameters() if is_quantized(p)]
    assert changed == ["linear1.weight", "linear2.weight"]


def test_only_linear_layers_change__also_in_small_layers(snippet):
    run = pieces(snippet, "left-alone")
    layer = nn.Sequential(nn.Linear(1, 1))
    run.quantize_(layer, run.Int8WeightOnlyConfig())
    assert is_quantized(layer[0].weight)


@edits(
    (
        "quantize_(layers, Int8WeightOnlyConfig())",
        "quantize_(layers, Int8WeightOnlyConfig(), lambda *_: False)",
    ),
    (
        "Int8WeightOnlyConfig())\n\nkinds",
        "Int8WeightOnlyConfig(), lambda _, n: n == 'embedding')\n\nkinds",
    ),
)
def test_only_linear_layers_change__but_not_with(snippet, old, new, fails):
    """A `filter_fn` chooses other layers."""
    fails(test_only_linear_layers_change, snippet.edit(old, new))


COUNTED = (*COMPARED, "left-alone", "counted")


@needs_torchao
def test_the_dtype_still_says_float32(snippet):
    run = untrained(snippet, *COUNTED)

    for place in (0, 2, 4):
        weight = run.int8[place].weight
        assert is_quantized(weight)
        assert weight.dtype == torch.float32
        assert weight.element_size() == 4
    assert run.counted == 1_204_264
    assert run.counted > 3.5 * run.sizes["int8 weights"]


def test_the_dtype_still_says_float32__also_with_rounded_inputs(snippet):
    run = untrained(snippet, *COMPARED)
    weight = run.dynamic[0].weight
    assert (weight.dtype, weight.element_size()) == (torch.float32, 4)
    assert weight.nbytes == 4 * weight.numel()


@edits(
    ("in int8.parameters()", "in int8.half().parameters()"),
    ("quantize_(int8, Int8WeightOnlyConfig())", "pass"),
)
def test_the_dtype_still_says_float32__but_not(snippet, old, new, fails):
    """In `float16`, it reports two bytes; not quantized, it is not int8."""
    fails(test_the_dtype_still_says_float32, snippet.edit(old, new))


def test_the_dtype_still_says_float32__ends_in_bfloat16(snippet, fails):
    """A `bfloat16` model that is quantized still reports `bfloat16`, and two
    bytes an element.
    """
    edited = snippet.edit(
        "int8 = copy.deepcopy(model).eval()",
        "int8 = copy.deepcopy(half)",
    ).edit("= int8(images[valid])", "= int8(images[valid].bfloat16())")
    run = untrained(edited, *COUNTED)
    weight = run.int8[0].weight
    assert (weight.dtype, weight.element_size()) == (torch.bfloat16, 2)
    fails(test_the_dtype_still_says_float32, edited)


LOADED = (*COMPARED, "load")
ERRORS = (*LOADED, "load-errors")


@needs_torchao
def test_loading_needs_assign(snippet):
    with no_error():
        run = untrained(snippet, *ERRORS)

    assert run.same is True
    assert not run.loaded.training
    for loaded, saved in zip(run.loaded, run.int8, strict=True):
        if isinstance(saved, nn.Linear):
            assert torch.equal(loaded.weight.qdata, saved.weight.qdata)
            assert torch.equal(loaded.bias, saved.bias)
    x = torch.rand(7, 64)
    assert torch.equal(run.loaded(x), run.int8(x))
    assert file_size(run.loaded) == pytest.approx(file_size(run.int8), abs=999)
    assert "Error(s) in loading state_dict" in run.without_assign
    assert "0.weight" in run.without_assign


def test_loading_needs_assign__also_with(snippet, tmp_path):
    run = untrained(snippet, *COMPARED)
    x = torch.rand(7, 64)
    for model in (run.dynamic, run.int8):
        torch.save(model.state_dict(), tmp_path / "model.pt")
        state = torch.load(tmp_path / "model.pt")
        with torch.device("meta"):
            loaded = run.make_model()
        loaded.load_state_dict(state, assign=True)
        assert torch.equal(loaded(x), model(x))


@edits(("torch.load(file), assign=True", "torch.load(file)"))
def test_loading_needs_assign__but_not_without_assign(
    snippet, old, new, fails
):
    """A plain parameter cannot hold an int8 weight."""
    fails(test_loading_needs_assign, snippet.edit(old, new))


@edits(
    (
        "other weights",
        "assign=True)\n",
        "assign=True)\nloaded[0] = nn.Linear(64, 512)\n",
    )
)
def test_loading_needs_assign__but_not_with(snippet, old, new, fails):
    """A new layer has weights of its own."""
    fails(test_loading_needs_assign, snippet.edit(old, new))


@edits(
    (
        "load_state_dict(int8.state_dict())",
        "load_state_dict(model.state_dict())\n    without_assign = ''",
    )
)
def test_loading_needs_assign__but_not_for(snippet, old, new, fails):
    """The weights of the float model fit."""
    fails(test_loading_needs_assign, snippet.edit(old, new))


def test_loading_needs_assign__ends_with_the_whole_model(snippet, fails):
    """Without `state_dict()`, `torch.save` raises an error:
    "'functools.partial' object has no attribute '__name__'".
    """
    edited = snippet.edit("save(int8.state_dict(), file)", "save(int8, file)")
    fails(test_loading_needs_assign, edited)


def test_loading_needs_assign__ends_in_a_quantized_model(snippet, fails):
    """A model that is quantized in the same way takes the weights without
    `assign=True`.
    """
    edited = snippet.edit(
        "make_model().load_state_dict(int8", "twin.load_state_dict(int8"
    ).edit(
        "import pickle\n",
        "import pickle\n\ntwin, without_assign = copy.deepcopy(int8), ''\n",
    )
    fails(test_loading_needs_assign, edited)


@needs_torchao
def test_loading_needs_torchao(snippet):
    run = untrained(snippet, *ERRORS)

    said = "Unsupported global: GLOBAL torchao.quantization.Int8Tensor"
    assert said in run.without_torchao
    run.file.seek(0)
    assert set(torch.load(run.file)) == set(run.int8.state_dict())


def test_loading_needs_torchao__also_in_another_process(snippet, tmp_path):
    run = untrained(snippet, *COMPARED)
    path = tmp_path / "model.pt"
    torch.save(run.int8.state_dict(), path)
    program = f"""
import pickle
import torch
try:
    torch.load({str(path)!r})
except pickle.UnpicklingError as error:
    print(error)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Unsupported global: GLOBAL torchao" in done.stdout


@edits(
    ("torch.serialization.clear_safe_globals()", "without_torchao = ''"),
)
def test_loading_needs_torchao__but_not(snippet, old, new, fails):
    """Where torchao has been imported, the file can be read."""
    fails(test_loading_needs_torchao, snippet.edit(old, new))


# What goes wrong


SPOILED = (*MEASURED, "outlier", "levels", "keep-layer")


@needs_torchao
def test_one_large_weight_coarsens_its_row(snippet):
    run = resumed(snippet, *SPOILED)

    assert run.images[:, 0].max() == 0
    assert (run.spoiled[0].weight[:, 0] == 40).all()
    assert not (run.model[0].weight == 40).any()
    assert not run.spoiled.training
    steps = run.int8[0].weight.scale
    assert 0.0005 < steps.min() < steps.max() < 0.002
    whole = run.right_answers(run.model)
    assert run.right_answers(run.spoiled) == pytest.approx(whole)
    assert run.right_answers(run.spoiled_int8) < whole - 0.2
    close(
        run.spoiled_int8[0].weight.scale,
        torch.full((512, 1), 40 / 127.5),
        1e-4,
    )
    for row in range(512):
        assert len(run.after[row].unique()) <= 3
        assert len(run.before[row].unique()) >= 30
    assert run.levels == [
        len(run.before[0].unique()),
        len(run.after[0].unique()),
    ]


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_one_large_weight_coarsens_its_row__also_from(snippet, seed):
    run = pieces(snippet, "by-hand")
    torch.manual_seed(seed)
    row = torch.rand(100) / 5 - 0.1
    assert len(run.quantize_row(row).dequantize().unique()) > 50
    row[3] = 40
    assert len(run.quantize_row(row).dequantize().unique()) <= 4


def test_one_large_weight_coarsens_its_row__also_after_another_training(
    snippet,
):
    seeded = "torch.manual_seed(0)\nmodel"
    edited = snippet.edit(seeded, seeded.replace("0", "1"))
    test_one_large_weight_coarsens_its_row(edited)


def test_one_large_weight_coarsens_its_row__also_leaves_others_alone(snippet):
    run = pieces(snippet, "by-hand")
    layer = nn.Linear(64, 4)
    spoiled = copy.deepcopy(layer)
    with torch.no_grad():
        spoiled.weight[2, 5] = 40
    for each in (layer, spoiled):
        run.quantize_(each, run.Int8WeightOnlyConfig())
    same = (layer.weight.qdata == spoiled.weight.qdata).all(dim=1)
    assert same.tolist() == [True, True, False, True]


@needs_torchao
def test_an_int8_convolution_raises(snippet, kind=nn.Conv2d):
    run = after(snippet, *PIECES)
    layer, inputs = kind(1, 8, 3), torch.rand(2, 1, 8, 8)
    with no_error():
        layer(inputs)
        run.quantize_(
            layer,
            run.Int8WeightOnlyConfig(),
            lambda module, name: isinstance(module, kind),
        )
    assert is_quantized(layer.weight)
    with pytest.raises(NotImplementedError):
        layer(inputs)


class Wide(nn.Linear):
    """A linear layer of eight numbers."""

    def __init__(self, inputs, outputs, kernel):
        super().__init__(8, outputs)


@needs_torchao
def test_an_int8_convolution_raises__but_not_a_linear_layer(snippet, fails):
    """A linear layer has what its call needs."""
    fails(test_an_int8_convolution_raises, snippet, Wide)


@needs_torchao
def test_a_filter_replaces_the_test(snippet):
    run = untrained(snippet, *SPOILED)

    assert str(run.error_text).startswith(
        "applying int8 weight only quant requires module to have"
    )
    asked = []
    model, config = run.make_model(), run.Int8WeightOnlyConfig()
    run.quantize_(model, config, lambda *each: asked.append(each))
    assert [name for _, name in asked] == ["", "0", "1", "2", "3", "4"]
    assert [each for each, _ in asked] == [model, *model]
    assert not any(map(is_quantized, model.parameters()))
    run.quantize_(
        model,
        config,
        lambda module, name: isinstance(module, nn.Linear) and name != "0",
    )
    quantized = [n for n, p in model.named_parameters() if is_quantized(p)]
    assert quantized == ["2.weight", "4.weight"]


@pytest.mark.parametrize(
    "config", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"]
)
def test_a_filter_replaces_the_test__also_with(snippet, config):
    run = pieces(snippet, "by-hand")
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    with pytest.raises(AssertionError, match="requires module to have"):
        run.quantize_(model, getattr(run, config)(), lambda _, n: n != "0")


@edits(
    (
        "the test for linear layers",
        'name != "0",  # wrong: all the rest, not linear\n    )',
        'isinstance(module, nn.Linear),\n    )\n    error_text = ""',
    ),
    (
        "names of linear layers alone",
        'name != "0",  # wrong: all the rest, not linear\n    )',
        'name in ("2", "4"),\n    )\n    error_text = ""',
    ),
)
def test_a_filter_replaces_the_test__but_not_with(snippet, old, new, fails):
    """Only linear layers are named."""
    fails(test_a_filter_replaces_the_test, snippet.edit(old, new))


@needs_torchao
def test_a_kept_layer_rescues_the_answers(snippet):
    run = resumed(snippet, *SPOILED)

    assert [
        name for name, p in run.rescued.named_parameters() if is_quantized(p)
    ] == ["2.weight", "4.weight"]
    assert torch.equal(run.rescued[0].weight, run.spoiled[0].weight)
    plain = run.right_answers(run.spoiled)
    assert plain > 0.9
    assert run.right_answers(run.spoiled_int8) < plain - 0.2
    assert run.right_answers(run.rescued) == pytest.approx(plain, abs=0.01)
    third = file_size(run.rescued) / file_size(run.spoiled)
    assert 0.32 < third < 0.35


def test_a_kept_layer_rescues_the_answers__also_after_another_training(
    snippet,
):
    seeded = "torch.manual_seed(0)\nmodel"
    edited = snippet.edit(seeded, seeded.replace("0", "1"))
    test_a_kept_layer_rescues_the_answers(edited)


@edits(
    (
        "another layer",
        'nn.Linear) and name != "0"',
        'nn.Linear) and name != "2"',
    )
)
def test_a_kept_layer_rescues_the_answers__but_not_with(
    snippet, old, new, fails
):
    """The layer with the large weights becomes int8."""
    fails(test_a_kept_layer_rescues_the_answers, snippet.edit(old, new))


@edits(
    ("[:, 0] = 40.0", "[:, 0] = 0.1"),
    (
        "float32 in the spoiled layer",
        "spoiled_int8, Int8WeightOnlyConfig())",
        "spoiled_int8, Int8WeightOnlyConfig(), lambda m, n: n == '4')",
    ),
)
def test_one_large_weight_coarsens_its_row__but_not(snippet, old, new, fails):
    """No weight is large, or the layer is left out."""
    edited = snippet.edit(old, new)
    if "lambda" in new:
        edited = edited.edit(
            "each[0].weight.dequantize()",
            "getattr(each[0].weight, 'dequantize', each[0].weight.detach)()",
        )
    fails(test_one_large_weight_coarsens_its_row, edited)


@needs_torchao
def test_int8_weights_do_not_learn(snippet):
    run = after(snippet, *PIECES, "train-after")

    fresh = copy.deepcopy(run.late)
    torch.manual_seed(0)
    untouched = run.make_model()
    assert not torch.equal(run.late[0].bias, untouched[0].bias)
    run.quantize_(untouched, run.Int8WeightOnlyConfig())
    for place in (0, 2, 4):
        weight, before = run.late[place].weight, untouched[place].weight
        assert weight.grad is None
        assert torch.equal(weight.qdata, before.qdata)
        assert torch.equal(weight.scale, before.scale)
    loss = F.cross_entropy(fresh(run.images[:20]), run.labels[:20])
    loss.backward()
    for place in (0, 2, 4):
        layer = fresh[place]
        assert is_quantized(layer.weight)
        assert layer.weight.grad is None
        assert layer.bias.grad is not None
        assert layer.weight.requires_grad is False
    assert run.right_answers(run.late) < 0.7


@pytest.mark.parametrize(
    "config", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"]
)
def test_int8_weights_do_not_learn__also_with(snippet, config):
    run = pieces(snippet, "by-hand")
    layer = nn.Linear(8, 3, bias=False)
    run.quantize_(layer, getattr(run, config)())
    layer.weight.requires_grad_(True)
    loss = layer(torch.rand(2, 8)).sum()
    with pytest.raises(RuntimeError, match="does not require grad"):
        loss.backward()


def test_int8_weights_do_not_learn__also_stop_the_gradient(snippet):
    """Where inputs are rounded, layers before get no gradient either."""
    run = pieces(snippet, "by-hand")
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
    run.quantize_(model[1:], run.Int8DynamicActivationInt8WeightConfig())
    model(torch.rand(2, 8)).sum().backward()
    assert model[0].weight.grad is None
    assert model[1].bias.grad is not None


@edits(
    (
        "train first",
        "quantize_(late, Int8WeightOnlyConfig())\n",
        "fit(late)\nquantize_(late, Int8WeightOnlyConfig())\n",
    ),
    ("a float model", "quantize_(late, Int8WeightOnlyConfig())\n", ""),
)
def test_int8_weights_do_not_learn__but_not(snippet, old, new, fails):
    """Trained before, or not quantized, the model knows the digits."""
    fails(test_int8_weights_do_not_learn, snippet.edit(old, new))


def test_one_large_weight_coarsens_its_row__ends_at_a_smaller_one(
    snippet, fails
):
    """Beside a weight of 10, most others still keep their sign, and the right
    answers hardly change.
    """
    edited = snippet.edit("[:, 0] = 40.0", "[:, 0] = 10.0")
    run = resumed(edited, *SPOILED)
    fewer = run.right_answers(run.spoiled) - run.right_answers(
        run.spoiled_int8
    )
    assert fewer < 0.05
    fails(test_one_large_weight_coarsens_its_row, edited)


def test_one_large_weight_coarsens_its_row__ends_beside_others(snippet, fails):
    """Others keep more values if they are large as well, from 0.5 on."""
    edited = snippet.edit(
        "    spoiled[0].weight[:, 0] = 40.0",
        "    spoiled[0].weight[:] *= 8\n    spoiled[0].weight[:, 0] = 40.0",
    )
    run = resumed(edited, *SPOILED)
    assert run.spoiled[0].weight[0, 1:].abs().max() > 0.5
    assert run.levels[1] > 3
    fails(test_one_large_weight_coarsens_its_row, edited)


@needs_torchao
def test_a_tied_weight_is_stored_twice(snippet):
    run = pieces(snippet, "measure", "tied")

    before, now = run.tied_sizes
    assert before == pytest.approx(4 * 64_000, rel=0.02)
    assert now == pytest.approx(5 * 64_000 + 5 * 1000, rel=0.02)
    assert now == file_size(run.tied)
    embedding, head = run.tied
    same = nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 1000, False))
    same[1].weight = same[0].weight
    assert before == file_size(same)
    assert not is_quantized(embedding.weight)
    assert is_quantized(head.weight)


@pytest.mark.parametrize("width", [256], ids="a width of {}".format)
def test_a_tied_weight_is_stored_twice__also_with(snippet, width):
    run = pieces(snippet, "measure", "tied")
    tied = nn.Sequential(nn.Embedding(500, width), nn.Linear(width, 500))
    tied[1].weight = tied[0].weight
    before = file_size(tied)
    run.quantize_(tied, run.Int8WeightOnlyConfig())
    assert file_size(tied) > 1.15 * before


@edits(("tied[1].weight = tied[0].weight\n", ""))
def test_a_tied_weight_is_stored_twice__but_not(snippet, old, new, fails):
    """Two matrices that are not tied are stored twice from the start."""
    fails(test_a_tied_weight_is_stored_twice, snippet.edit(old, new))


def test_a_tied_weight_is_stored_twice__ends_in_two_linear_layers(
    snippet, fails
):
    """Two linear layers that share a matrix both store it in int8."""
    edited = snippet.edit(
        "nn.Embedding(1000, 64)", "nn.Linear(64, 1000, bias=False)"
    )
    fails(test_a_tied_weight_is_stored_twice, edited)


RETIED = ("measure", "tied", "retie")


@needs_torchao
def test_tied_again_it_is_stored_once(snippet):
    run = pieces(snippet, *RETIED)

    embedding, head = run.tied
    assert embedding.weight is head.weight
    assert is_quantized(head.weight)
    assert head.weight.dtype == torch.float32
    assert 0.25 < file_size(run.tied) / run.tied_sizes[0] < 0.29
    words = torch.arange(1000)
    matrix = head.weight.dequantize()
    close(embedding(words), matrix, 1e-6)
    close(run.tied(words), matrix @ matrix.T, 1e-3)


@pytest.mark.parametrize(
    "config", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"]
)
def test_tied_again_it_is_stored_once__also_with(snippet, config):
    run = pieces(snippet, *RETIED)
    tied = nn.Sequential(nn.Embedding(500, 256), nn.Linear(256, 500))
    tied[1].weight = tied[0].weight
    whole, expected = file_size(tied), tied(torch.arange(9))
    run.quantize_(tied, getattr(run, config)())
    tied[0].weight = tied[1].weight
    assert 0.25 < file_size(tied) / whole < 0.29
    close(tied(torch.arange(9)), expected, expected.abs().max().item() / 50)


@edits(
    (
        "the other way",
        "tied[0].weight = tied[1].w",
        "tied[1].weight = tied[0].w",
    ),
    ("untied", "tied[0].weight = tied[1].weight\n\nprint", "\nprint"),
)
def test_tied_again_it_is_stored_once__but_not(snippet, old, new, fails):
    """Both use the `float32` matrix, or each its own."""
    where = "# %% retie\n"
    fails(
        test_tied_again_it_is_stored_once,
        snippet.edit(where + old, where + new),
    )


SALARIES = ("digits", "salaries")


def test_float16_variance_overflows(snippet):
    run = after(snippet, *SALARIES)

    largest = torch.finfo(torch.float16).max
    ages = run.people[:, 0]
    assert 20 <= ages.min() < ages.max() <= 60
    assert run.people[:, 1].max() < largest < run.norm.running_var[1]
    assert run.norm.running_var[0] < largest
    assert (run.in_half[:, 1] == 0).all()
    plain = run.norm(run.people)
    close(run.in_half[:, 0].float(), plain[:, 0], 0.02)
    close(run.in_bfloat16.float(), plain, 0.05)
    converted = copy.deepcopy(run.norm).bfloat16()
    assert torch.equal(run.in_bfloat16, converted(run.people.bfloat16()))
    assert plain[:, 1].std() > 0.8
    copied = copy.deepcopy(run.norm).half()
    assert copied.running_var.isinf().tolist() == [False, True]


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm2d, nn.BatchNorm3d],
    ids=["BatchNorm2d", "BatchNorm3d"],
)
def test_float16_variance_overflows__also_in(layer):
    norm = layer(1, momentum=1.0)
    shape = (4, 1, 3, 3, 3)[: 3 + (layer is nn.BatchNorm3d) + 1]
    x = torch.rand(shape) * 50_000
    norm(x)
    norm.eval().half()
    assert (norm(x.half()) == 0).all()


def test_float16_variance_overflows__also_after_training():
    """A trained BatchNorm adds its bias, so all salaries come out as that."""
    norm = nn.BatchNorm1d(1, momentum=1.0)
    nn.init.constant_(norm.bias, 0.5)
    x = torch.rand(64, 1) * 60_000
    norm(x)
    norm.eval().half()
    assert (norm(x.half()) == 0.5).all()


@edits(
    ("* 60_000", "* 600"),
    (".half()(people.half())", ".bfloat16()(people.bfloat16())"),
)
def test_float16_variance_overflows__but_not(snippet, old, new, fails):
    """With salaries in hundreds, or in `bfloat16`, the variance fits."""
    fails(test_float16_variance_overflows, snippet.edit(old, new))


def test_the_answers_hardly_change__also_for_the_smallest(snippet):
    cells = ("outlier", "smallest", "smallest-checked")
    run = after(snippet, *COMPARED, *cells)
    assert run.choice == "float32"
    assert run.smallest(run.models) == "int8 weights"
