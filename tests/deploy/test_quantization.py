"""The claims of docs/deploy/quantization.md."""

import copy
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import true_since
from extensions.programs.snippet import after
from tests.helpers.small_models import (
    close,
    file_size,
    is_quantized,
    needs_torchao,
)

# Torch 2.15 says so, once, of the quantized tensors of the old call.
pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")


def untrained(snippet, *cells):
    """Run these cells with models that have not been trained."""
    if "in range(4)" in str(snippet.cell("digits").source):
        snippet = snippet.edit("in range(4)", "in range(0)")
    return after(snippet, *cells)


def of_torchao(name):
    """Return what the program has no need of, once torchao is imported."""
    return getattr(import_module("torchao.quantization"), name)


def narrow(snippet, width):
    """Give the model few units, and leave it untrained."""
    return (
        snippet.edit("in range(4)", "in range(0)")
        .edit("nn.Linear(64, 128)", f"nn.Linear(64, {width})")
        .edit("nn.Linear(128, 128)", f"nn.Linear({width}, {width})")
        .edit("nn.Linear(128, 10)", f"nn.Linear({width}, 10)")
    )


PIECES = ("digits", "train", "torchao", "measure")
INT4 = (*PIECES, "int4")
# As a torch for CPUs says it, and one for GPUs without a GPU.
NO_CUDA = "not compiled with CUDA|no NVIDIA driver"


@needs_torchao
def test_int4_needs_mslk(snippet):
    if find_spec("mslk"):
        pytest.skip("mslk is installed")
    run = untrained(snippet, *INT4)
    assert getattr(run, "without_mslk", "") == "Requires mslk >= 1.0.0"
    packed = run.Int4WeightOnlyConfig(int4_packing_format="tile_packed_to_4d")
    with pytest.raises(AssertionError, match="Only bfloat16 is supported"):
        run.quantize_(copy.deepcopy(run.model), packed)
    if not torch.cuda.is_available():
        errors = (AssertionError, RuntimeError)
        with pytest.raises(errors, match=NO_CUDA):
            run.quantize_(copy.deepcopy(run.model).bfloat16(), packed)


@needs_torchao
def test_int4_needs_mslk__also_in_bfloat16(snippet):
    edited = snippet.edit(
        "quantize_(copy.deepcopy(model), Int4",
        "quantize_(copy.deepcopy(model).bfloat16(), Int4",
    )
    test_int4_needs_mslk(edited)


@needs_torchao
def test_int4_needs_mslk__but_not_8_bits(snippet, fails):
    """Int8 weights need no other package."""
    edited = snippet.edit("model), Int4Weight", "model), Int8Weight")
    fails(test_int4_needs_mslk, edited)


@needs_torchao
def test_int4_needs_mslk__ends_in_a_narrow_layer(snippet, fails):
    """Layers whose inputs can't be grouped by 128 are skipped, silently."""
    fails(test_int4_needs_mslk, narrow(snippet, 64))


BYTES = (*PIECES, "whole-bytes")
ROUNDED = (
    "quantize_(rounded, IntxWeightOnlyConfig(weight_dtype=dtype))\n    sizes"
)


@needs_torchao
def test_intx_stores_whole_bytes(snippet):
    run = untrained(snippet, *BYTES)
    whole, of_int8, of_int4 = run.sizes
    assert [whole, of_int4] == [file_size(run.model), file_size(run.rounded)]
    int8 = copy.deepcopy(run.model)
    run.quantize_(int8, run.Int8WeightOnlyConfig())
    assert 0.95 < of_int4 / file_size(int8) < 1.05
    assert of_int4 == of_int8
    for place in (0, 2, 4):
        weight = run.rounded[place].weight
        assert weight.qdata.dtype == torch.int8
        assert weight.qdata.shape == run.model[place].weight.shape
        for row in weight.dequantize()[:20]:
            assert len(row.unique()) <= 16


@needs_torchao
def test_intx_stores_whole_bytes__also_in_wide_layers(snippet):
    run = untrained(snippet, *BYTES)
    layers = nn.Sequential(nn.Linear(64, 512), nn.Linear(512, 512))
    int8 = copy.deepcopy(layers)
    run.quantize_(int8, run.Int8WeightOnlyConfig())
    run.quantize_(layers, run.IntxWeightOnlyConfig(weight_dtype=torch.int4))
    assert 0.99 < file_size(layers) / file_size(int8) < 1.01


@needs_torchao
def test_intx_stores_whole_bytes__also_with_2_bits(snippet):
    edited = snippet.edit(
        "(torch.int8, torch.int4):", "(torch.int8, torch.int2):"
    )
    test_intx_stores_whole_bytes(edited)


@needs_torchao
def test_intx_stores_whole_bytes__but_not_in_8_bits(snippet, fails):
    """With 8 bits, a row has up to 256 values."""
    edited = snippet.edit(
        "(torch.int8, torch.int4):", "(torch.int4, torch.int8):"
    )
    fails(test_intx_stores_whole_bytes, edited)


@needs_torchao
def test_intx_stores_whole_bytes__but_not_unchanged(snippet, fails):
    """A weight that is not quantized takes four bytes."""
    edited = snippet.edit(ROUNDED, "sizes")
    with no_error():
        fails(test_intx_stores_whole_bytes, edited)


@needs_torchao
def test_intx_stores_whole_bytes__ends_with_groups(snippet, fails):
    """With `granularity=PerGroup(32)`, each group has its own 16 values."""
    edited = snippet.edit(
        "    IntxWeightOnlyConfig,\n",
        "    IntxWeightOnlyConfig,\n    PerGroup,\n",
    ).edit(
        ROUNDED, ROUNDED.replace("=dtype", "=dtype, granularity=PerGroup(32)")
    )
    with no_error():
        run = untrained(edited, *BYTES)
    row = run.rounded[2].weight.dequantize()[0]
    assert len(row.unique()) > 16
    assert all(len(each.unique()) <= 16 for each in row.split(32))
    fails(test_intx_stores_whole_bytes, edited)


@needs_torchao
def test_four_bits_have_sixteen_steps(snippet):
    with no_error():
        run = after(snippet, *PIECES[:1], "torchao", "by-hand")

    assert run.row.tolist() == pytest.approx([0.50, 0.033, -0.017, 2.55])
    assert run.weight.scale.item() == pytest.approx(2.55 / 7.5)
    assert run.weight.scale.item() == pytest.approx(0.34)
    assert run.weight.qdata.tolist() == [[1, 0, 0, 7]]
    read = run.weight.dequantize()[0].tolist()
    assert read == pytest.approx([0.34, 0, 0, 2.38])


@pytest.mark.parametrize("largest", [-3.0, 0.01, 1000.0], ids="{}".format)
def test_four_bits_have_sixteen_steps__also_with_a_weight_of(snippet, largest):
    run = after(snippet, *PIECES[:1], "torchao", "by-hand")
    torch.manual_seed(0)
    layer = nn.Linear(50, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.rand(2, 50) * largest / 2)
        layer.weight[1, 7] = largest
    run.quantize_(layer, run.IntxWeightOnlyConfig(weight_dtype=torch.int4))
    step = layer.weight.scale.flatten()[1].item()
    assert step == pytest.approx(abs(largest) / 7.5)
    assert layer.weight.qdata.min() >= -8
    assert layer.weight.qdata.max() <= 7


@edits(
    ("-0.017, 2.55", "-0.017, 5.1"),
    (
        "8 bits",
        "weight_dtype=torch.int4))\n\nweight",
        "weight_dtype=torch.int8))\n\nweight",
    ),
)
def test_four_bits_have_sixteen_steps__but_not(snippet, old, new, fails):
    """Another largest weight, or other bits, make another step."""
    fails(test_four_bits_have_sixteen_steps, snippet.edit(old, new))


AFTERWARDS = (*PIECES, "few-bits", "aware", "afterwards")


@needs_torchao
def test_rounded_training_beats_rounding_afterwards(snippet):
    run = after(snippet, *AFTERWARDS)

    def right_of(model):
        answers = model(run.images[run.valid]).argmax(dim=1)
        return (answers == run.labels[run.valid]).sum().item()

    assert run.right["float32"] == right_of(run.model)
    assert run.right["trained with 2 bits"] == right_of(run.aware)
    assert run.right["then rounded to 2 bits"] == right_of(run.afterwards)
    for model in (run.aware, run.afterwards):
        for layer in model[::2]:
            assert len(layer.weight.dequantize()[0].unique()) <= 4
    assert right_of(run.aware) > 270
    assert right_of(run.aware) > right_of(run.afterwards)
    assert run.right["trained on"] > run.right["then rounded to 2 bits"]


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_rounded_training_beats_rounding_afterwards__also_from(snippet, seed):
    edited = snippet.edit(
        "manual_seed(0)\nmodel", f"manual_seed({seed})\nmodel"
    )
    test_rounded_training_beats_rounding_afterwards(edited)


@edits(
    ("no training", "fit(aware)  #", "pass  #"),
    (
        "4 bits",
        "quantize_(afterwards, base)",
        "quantize_(afterwards, base, lambda *_: False)",
    ),
)
def test_rounded_training_beats_rounding_afterwards__but_not_with(
    snippet, old, new, fails
):
    """Nothing was learned with rounded weights, or nothing was rounded."""
    fails(
        test_rounded_training_beats_rounding_afterwards, snippet.edit(old, new)
    )


def test_rounded_training_beats_rounding_afterwards__ends_with_8_bits(
    snippet, fails
):
    """With 8 bits, rounding afterwards costs hardly any right answer."""
    edited = snippet.edit(
        "dtype=torch.int2)\naware", "dtype=torch.int8)\naware"
    )
    fails(test_rounded_training_beats_rounding_afterwards, edited)


DYNAMIC = ("digits", "train", "quantize-dynamic")


@true_since("2.8", "it said nothing of being deprecated")
def test_quantize_dynamic_is_deprecated(snippet):
    run = untrained(snippet, *DYNAMIC)

    assert [each[:35] for each in run.said] == [
        "torch.ao.quantization is deprecated"
    ]
    x = torch.rand(5, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(run.old(x), run.model(x), 0.05)
    assert [*run.old.parameters()] == []
    assert file_size(run.old) < 0.3 * file_size(run.model)


@edits(
    (
        "torch.ao.quantization.quantize_dynamic(model, {nn.Linear})",
        "copy.deepcopy(model)",
    )
)
def test_quantize_dynamic_is_deprecated__but_not(snippet, old, new, fails):
    """Nothing warns of a copy."""
    fails(test_quantize_dynamic_is_deprecated, snippet.edit(old, new))


LSTM = (*PIECES, "quantize-dynamic", "quantize-lstm")


@needs_torchao
def test_only_the_old_call_shrinks_an_lstm(snippet):
    run = untrained(snippet, *LSTM)

    whole, new, old = run.lstm_sizes
    assert [whole, new, old] == [
        file_size(each) for each in (run.recurrent, run.new_lstm, run.old_lstm)
    ]
    assert new == whole
    assert 0.2 < old / whole < 0.3
    assert not any(map(is_quantized, run.new_lstm.parameters()))
    assert whole > 4 * sum(p.numel() for p in nn.LSTM(64, 128).parameters())
    x = torch.rand(5, 3, 64)
    close(run.old_lstm[0](x)[0], run.recurrent[0](x)[0], 0.03)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.LSTM(64, 128, num_layers=2),
        lambda: nn.LSTM(64, 128, bidirectional=True),
        lambda: nn.GRU(64, 128),
    ],
    ids=["two layers", "both directions", "GRU"],
)
def test_only_the_old_call_shrinks_an_lstm__also_with(snippet, layer):
    run = untrained(snippet, *LSTM)
    layer = nn.ModuleList([layer()])
    whole = file_size(layer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = torch.ao.quantization.quantize_dynamic(layer, {type(layer[0])})
    assert 0.2 < file_size(old) / whole < 0.3
    config = of_torchao("Int8DynamicActivationInt8WeightConfig")()
    run.quantize_(layer, config)
    assert file_size(layer) == whole


def test_only_the_old_call_shrinks_an_lstm__also_beside_linear_layers(snippet):
    edited = snippet.edit(
        "[nn.LSTM(64, 128)]", "[nn.LSTM(64, 128), nn.Linear(128, 128)]"
    )
    run = untrained(edited, *LSTM)
    lstm, linear = run.new_lstm
    assert is_quantized(linear.weight)
    assert not any(map(is_quantized, lstm.parameters()))
    assert not any(map(is_quantized, run.recurrent.parameters()))


@edits(
    (
        "linear layers alone",
        "(recurrent, {nn.LSTM})",
        "(recurrent, {nn.Tanh})",
    ),
    ("bfloat16", "copy.deepcopy(recurrent)", "recurrent.bfloat16()"),
)
def test_only_the_old_call_shrinks_an_lstm__but_not(snippet, old, new, fails):
    """The old call is told to leave LSTMs alone, or they become 16-bit."""
    fails(test_only_the_old_call_shrinks_an_lstm, snippet.edit(old, new))


def test_only_the_old_call_shrinks_an_lstm__ends_in_a_narrow_one(
    snippet, fails
):
    """In an LSTM of few units, the names and shapes weigh more."""
    edited = snippet.edit("nn.LSTM(64, 128)", "nn.LSTM(4, 4)")
    fails(test_only_the_old_call_shrinks_an_lstm, edited)


AWARE = ("digits", "train", "torchao", "measure", "aware")


def briefly(snippet):
    """Train for one epoch in place of four."""
    return snippet.edit("in range(4)", "in range(1)")


def is_rounded(model):
    """Return of each linear layer whether its weights are integers."""
    return [is_quantized(each.weight) for each in model[::2]]


@needs_torchao
def test_conversion_keeps_the_scores(snippet):
    with no_error():
        run = after(briefly(snippet), *AWARE)
    assert is_rounded(run.aware) == [True] * 3
    close(run.aware(run.images[run.valid]), run.trained_scores, 1e-4)
    assert run.kept_scores is True
    for layer in run.aware[::2]:
        assert len(layer.weight.dequantize()[0].unique()) <= 16
    scores = run.model(run.images[run.valid])
    assert not torch.allclose(scores, run.trained_scores, atol=0.1)
    after_training = copy.deepcopy(run.model)
    run.quantize_(after_training, run.base)
    rounded = after_training(run.images[run.valid])
    assert (rounded - scores).abs().max() > 0.01


@pytest.mark.parametrize("bits", [3, 4], ids="{} bits".format)
def test_conversion_keeps_the_scores__also_with(snippet, bits):
    base = "base = IntxWeightOnlyConfig(weight_dtype=torch.int"
    edited = snippet.edit(f"{base}2)", f"{base}{bits})")
    test_conversion_keeps_the_scores(edited)


@edits(
    (
        "without preparing",
        '"prepare"))\nfit(aware)',
        '"prepare"), lambda *_: False)\nfit(aware)',
    ),
    (
        "another number of bits",
        'quantize_(aware, QATConfig(base, step="convert"))',
        "base = IntxWeightOnlyConfig(weight_dtype=torch.int4)\n"
        'quantize_(aware, QATConfig(base, step="convert"))',
    ),
    (
        "training afterwards",
        "trained_scores = aware(",
        "trained_scores = model(",
    ),
)
def test_conversion_keeps_the_scores__but_not(snippet, old, new, fails):
    """The training saw other weights than those that are stored."""
    fails(test_conversion_keeps_the_scores, snippet.edit(old, new))


@needs_torchao
def test_qat_keeps_float32_weights(snippet, steps=("prepare",)):
    run = untrained(snippet, *AWARE)
    model, plain, x = run.make_model(), run.make_model(), run.images[:9]
    plain.load_state_dict(model.state_dict())
    for step in steps:
        run.quantize_(model, run.QATConfig(run.base, step=step))
    for layer, old in zip(model[::2], plain[::2], strict=True):
        assert type(layer.weight) is nn.Parameter
        assert layer.weight.dtype == torch.float32
        assert torch.equal(layer.weight, old.weight)
    expected = copy.deepcopy(plain)
    run.quantize_(expected, run.base)
    close(model(x), expected(x), 1e-4)
    assert (model(x) - plain(x)).abs().max() > 1e-3


@pytest.mark.parametrize("bits", [3, 4], ids="{} bits".format)
def test_qat_keeps_float32_weights__also_with(snippet, bits):
    base = "base = IntxWeightOnlyConfig(weight_dtype=torch.int"
    edited = snippet.edit(f"{base}2)", f"{base}{bits})")
    test_qat_keeps_float32_weights(edited)


@pytest.mark.parametrize(
    "steps",
    [(), ("prepare", "convert")],
    ids=["not prepared", "converted"],
)
def test_qat_keeps_float32_weights__but_not(snippet, steps, fails):
    """Before, nothing is rounded; converted, the weights are integers."""
    fails(test_qat_keeps_float32_weights, snippet, steps)


@needs_torchao
def test_qat_needs_another_base(snippet, config="Int8WeightOnlyConfig"):
    run = after(briefly(snippet), *AWARE, "wrong-base")
    text = getattr(run, "refused_base", "no error")
    assert text.startswith("Unexpected base config: Int8WeightOnlyConfig")
    refused = run.QATConfig(of_torchao(config)(), step="prepare")
    with pytest.raises(ValueError, match="Unexpected base config"):
        run.quantize_(run.make_model(), refused)
    base = run.IntxWeightOnlyConfig(weight_dtype=torch.int8)
    model, x = run.make_model(), run.images[run.valid]
    with no_error():
        run.quantize_(model, run.QATConfig(base, step="prepare"))
        prepared = model(x)
        run.quantize_(model, run.QATConfig(base, step="convert"))
    assert is_rounded(model) == [True] * 3
    close(model(x), prepared, 1e-4)


def test_qat_needs_another_base__also_with_int8_inputs(snippet):
    config = "Int8DynamicActivationInt8WeightConfig"
    test_qat_needs_another_base(snippet, config)


def test_qat_needs_another_base__but_not_with_intx(snippet, fails):
    """`IntxWeightOnlyConfig` raises no error."""
    old = "QATConfig(Int8WeightOnlyConfig(), "
    edited = snippet.edit(old, "QATConfig(IntxWeightOnlyConfig(), ")
    fails(test_qat_needs_another_base, edited)


@needs_torchao
def test_convert_needs_prepare(snippet, prepared=False):
    run = after(briefly(snippet), *AWARE)
    model = copy.deepcopy(run.model)
    with no_error():
        if prepared:
            run.quantize_(model, run.QATConfig(run.base, step="prepare"))
        run.quantize_(model, run.QATConfig(run.base, step="convert"))
    assert is_rounded(model) == [False] * 3
    for name, weight in run.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], weight)
    assert is_rounded(run.aware) == [True] * 3


def test_convert_needs_prepare__but_not_prepared(snippet, fails):
    """After the first call, the second rounds the weights."""
    fails(test_convert_needs_prepare, snippet, True)


STATIC = ("digits", "torchao", "measure", "static")


# Some of what the exporter loads when it is first asked uses torch.jit.
OF_JIT = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


@OF_JIT
@needs_torchao
def test_static_int8_keeps_both(snippet):
    with no_error():
        run = after(snippet, *STATIC)
    used = {
        node.target for node in run.static.graph.nodes if node.op == "get_attr"
    }
    weights = {k: v for k, v in run.static_state.items() if v.dim() == 4}
    shapes = [(64, 1, 3, 3), (64, 64, 3, 3)]
    for dtype, in_use in ((torch.int8, True), (torch.float32, False)):
        found = {k: v for k, v in weights.items() if v.dtype == dtype}
        assert [tuple(each.shape) for each in found.values()] == shapes
        assert [name in used for name in found] == [in_use] * 2
    before, later = run.static_sizes
    assert 1.2 < later / before < 1.4
    expected = run.convolutions(run.some)
    off = (run.static(run.some) - expected).abs().max()
    assert 0 < off < 0.1 * expected.abs().max()


@OF_JIT
@edits(
    (
        "not converted",
        "static = quantize_pt2e.convert_pt2e(static)",
        "pass",
    ),
    ("nothing to quantize", "quantizer.set_global(", "str("),
)
def test_static_int8_keeps_both__but_not(snippet, old, new, fails):
    """Then the weights are `float32` alone."""
    fails(test_static_int8_keeps_both, snippet.edit(old, new))
