"""The claims of docs/deploy/to_onnx.md."""

import copy
import warnings
from io import StringIO

import numpy as np
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since, true_since
from extensions.programs.snippet import after
from tests.helpers.onnx_files import (
    answer,
    answers,
    close,
    exported,
    of_proto,
    read_translations_once,
    to_onnx,
    untrained,
)
from tests.helpers.programs import resumed

# Some of what the exporters load uses what Python or torch has deprecated.
pytestmark = [
    api_since("2.8", "torch.export without strict mode by default"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:Exporting a model while it is in"),
]

READER = ("digits", "net", "fit", "reader")
EXPORTED = (*READER, "program")
CHECKED = (*EXPORTED, "onnx", "check")
# What needs the file, in one run.
FILE = (*CHECKED, "inputs", "apart", "newer", "providers")


@pytest.fixture(autouse=True)
def translations(monkeypatch):
    """Convert faster."""
    read_translations_once(monkeypatch)


def with_onnx(snippet, *cells):
    """Run cells that convert a model, where that can be done."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    return resumed(snippet, *cells)


def said_by(convert):
    """Return what an error of the conversion says, with its cause."""
    pytest.importorskip("onnxscript")
    with pytest.raises(Exception, match="Failed to convert") as caught:
        convert()
    return str(caught.value)


# Do this


def test_the_files_answer_like_the_model(snippet):
    run = with_onnx(snippet, *CHECKED)

    assert list(run.answers) == [1, 2, 397]
    for size, found in run.answers.items():
        wanted = run.wanted[:size]
        assert found.shape == (size, 10)
        assert np.abs(found - wanted).max() < 1e-4
        assert (found.argmax(axis=1) == wanted.argmax(axis=1)).all()
    with torch.no_grad():
        close(run.model(run.held_out), torch.from_numpy(run.wanted))
        for batch in run.held_out.split(40):
            wanted = run.model(batch)
            assert (answer(run.session, batch) - wanted).abs().max() < 1e-4


def test_the_files_answer_like_the_model__but_not_of_another_training(
    snippet, fails
):
    """The file keeps the weights that the model had."""
    edited = untrained(snippet).edit(
        "with torch.no_grad():\n    wanted",
        "model = Reader(fit(1)).eval()\nwith torch.no_grad():\n    wanted",
    )
    fails(test_the_files_answer_like_the_model, edited)


def test_the_files_answer_like_the_model__but_not_of_darker_pixels(
    snippet, fails
):
    """The file gets other pixels than the model."""
    edited = untrained(snippet).edit(
        "held_out[:size].numpy()", "held_out[:size].numpy() / 16"
    )
    fails(test_the_files_answer_like_the_model, edited)


# How it works

DICT = (*CHECKED, "dict")
LIKE_TRAINED = pytest.mark.filterwarnings("ignore::UserWarning")


class Adds(nn.Module):
    """A model that adds up all tensors of its one input."""

    def forward(self, batch):
        """Find the tensors, however deep they are."""
        return sum(torch.utils._pytree.tree_leaves(batch))


def test_a_last_dict_is_keywords(snippet, model=None):
    run = with_onnx(untrained(snippet), *DICT)
    said = "missing a required argument: 'batch'"
    assert said in getattr(run, "of_dict", "")
    if model:
        with pytest.raises(Exception, match=said):
            torch.onnx.export(model, (run.batch,), dynamo=True, verbose=False)


class AddsDict(nn.Module):
    """A model with a dict behind another input."""

    def forward(self, x, batch):
        """Add the numbers of the dict."""
        return x + batch["ids"]


def test_a_last_dict_is_keywords__also_behind_another_input():
    ids = torch.tensor([[5, 7, 0], [3, 1, 4]])
    for options in ({"dynamo": True}, {"dynamo": False}):
        pytest.importorskip("onnxscript")
        with pytest.raises(Exception, match=r"missing .*argument: 'batch'"):
            torch.onnx.export(
                AddsDict(), (ids, {"ids": ids}), StringIO(), **options
            )


def test_a_last_dict_is_keywords__but_not_before_an_empty_dict(snippet, fails):
    """With `(batch, {})`, the last dict is the empty one."""
    edited = snippet.edit(
        "tokens, (batch,), dynamo=True", "tokens, (batch, {}), dynamo=True"
    )
    fails(test_a_last_dict_is_keywords, edited)


class AddsByName(nn.Module):
    """A model whose arguments are called like the keys of the dict."""

    def forward(self, ids, mask):
        """Add the two."""
        return ids + mask


def test_a_last_dict_is_keywords__ends_with_arguments_of_these_names(
    snippet, fails
):
    """A `forward(self, ids, mask)` takes the dict as its two arguments."""
    fails(test_a_last_dict_is_keywords, snippet, AddsByName())


def test_a_dict_becomes_inputs(snippet):
    run = with_onnx(untrained(snippet), *DICT)
    assert run.inputs == ["batch_ids", "batch_mask"]
    longer = torch.tensor([[5, 7, 0], [3, 1, 4], [9, 0, 0], [2, 2, 2]])
    batch = {"ids": longer, "mask": (longer > 0).long()}
    feed = {f"batch_{key}": each.numpy() for key, each in batch.items()}
    (found,) = run.with_ids.run(None, feed)
    with torch.no_grad():
        close(torch.from_numpy(found), run.tokens(batch))


def test_a_dict_becomes_inputs__also_with_a_dict_and_a_tuple_in_it():
    pytest.importorskip("onnxscript")
    b, ids, first, second = torch.ones(4, 2)
    batch = {"b": b, "a": {"ids": ids}, "pair": (first, second)}
    program = torch.export.export(Adds(), (batch,))
    converted = torch.onnx.export(program, dynamo=True, verbose=False)
    proto = converted.model_proto.graph.input
    names = ["batch_b", "batch_a_ids", "batch_pair_0", "batch_pair_1"]
    assert [each.name for each in proto] == names


def test_a_dict_becomes_inputs__but_not_with_names_of_your_own(snippet, fails):
    """With `input_names`, the inputs are called what you say."""
    edited = snippet.edit(
        "torch.onnx.export(of_tokens,",
        'torch.onnx.export(of_tokens, input_names=["ids", "mask"],',
    ).edit(
        '{"batch_ids": ids.numpy(), "batch_mask": batch["mask"].numpy()}',
        '{"ids": ids.numpy(), "mask": batch["mask"].numpy()}',
    )
    fails(test_a_dict_becomes_inputs, edited)


LSTM = (*CHECKED, "lstm")


def test_the_older_exporter_opens_the_length(snippet, layer=None):
    if layer:
        snippet = snippet.edit("nn.LSTM(3, 8, batch_first=True)", layer)
    with no_error():
        run = with_onnx(untrained(snippet), *LSTM)
    torch.manual_seed(0)
    for shape in ((2, 5, 3), (1, 1, 3), (2, 9, 3), (7, 50, 3)):
        names = torch.randn(shape)
        with no_error():
            found = answer(run.reads_names, names)
        with torch.no_grad():
            close(found, run.lstm(names))


LAYERS = {
    "nn.GRU": "nn.GRU(3, 8, batch_first=True)",
    "nn.RNN": "nn.RNN(3, 8, batch_first=True)",
    "two layers": "nn.LSTM(3, 8, 2, batch_first=True)",
    "both directions": "nn.LSTM(3, 4, batch_first=True, bidirectional=True)",
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_older_exporter_opens_the_length__also(snippet, name):
    test_the_older_exporter_opens_the_length(snippet, LAYERS[name])


@edits(
    ("an axis of the batch", '0: "batch", ', ""),
    ("an axis of the length", ', 1: "length"', ""),
)
def test_the_older_exporter_opens_the_length__but_not_without(
    snippet, old, new, fails
):
    """An axis that `dynamic_axes` leaves out has the size of the example."""
    edited = snippet.edit(old, new)
    if "length" in old:
        edited = edited.edit("longer = torch.rand(7, 9, 3)", FIVE)
    else:
        edited = edited.edit("longer = torch.rand(7, 9, 3)", TWO)
    fails(test_the_older_exporter_opens_the_length, edited)


def test_the_older_exporter_opens_the_length__ends_with_proj_size(
    snippet, fails
):
    """An LSTM with `proj_size` does not convert."""
    layer = "nn.LSTM(3, 16, batch_first=True, proj_size=8)"
    fails(test_the_older_exporter_opens_the_length, snippet, layer)


FIVE = "longer = torch.rand(7, 5, 3)"
TWO = "longer = torch.rand(2, 9, 3)"


@true_since("2.12", "exporting a recurrent layer raised another error")
@LIKE_TRAINED
def test_the_newer_exporter_fixes_the_length(snippet, layer=nn.RNN):
    run = with_onnx(untrained(snippet), *LSTM)
    model = run.Names(layer(3, 8, batch_first=True)).eval()
    dim = torch.export.Dim
    axes = ({0: dim("batch"), 1: dim("length")},)
    with warnings.catch_warnings(action="ignore"), no_error():
        converted = torch.onnx.export(
            model,
            (run.names,),
            dynamic_shapes=axes,
            dynamo=True,
            verbose=False,
        )
    names = torch.rand(7, 5, 3)
    with torch.no_grad():
        close(of_proto(converted, names), model(names))
    with pytest.raises(Exception, match="Got invalid dimensions"):
        of_proto(converted, torch.rand(7, 9, 3))


class Steps(nn.Linear):
    """A linear layer for each letter, with the outputs of an RNN."""

    def __init__(self, inputs, outputs, batch_first):
        super().__init__(inputs, outputs)

    def forward(self, names):
        """Return what an RNN would return first, and no hidden state."""
        return super().forward(names), None


@true_since("2.12", "exporting a recurrent layer raised another error")
@LIKE_TRAINED
def test_the_newer_exporter_fixes_the_length__but_not_of_a_linear_layer(
    snippet, fails
):
    """A layer that is one operation for all steps leaves the length open."""
    fails(test_the_newer_exporter_fixes_the_length, snippet, Steps)


HALF = (*CHECKED, "half")


def weights(converted):
    """Count the bytes of the weights in a file."""
    stored = converted.model_proto.graph.initializer
    return sum(len(each.raw_data) for each in stored)


def test_float16_files_run_on_the_cpu(snippet):
    run = with_onnx(snippet, *HALF)
    kinds = [each.type for each in run.half_session.get_inputs()]
    assert kinds == ["tensor(float16)"]
    assert run.half_session.get_providers()[-1] == "CPUExecutionProvider"
    assert run.in_float16.shape == (397, 10)
    assert run.in_float16.argmax(1).tolist() == run.wanted.argmax(1).tolist()
    assert np.abs(run.in_float16 - run.wanted).max() < 0.01
    ratio = weights(run.onnx_program) / weights(run.half_onnx)
    assert ratio == pytest.approx(2, abs=0.1)
    with pytest.raises(Exception, match="Unexpected input data type"):
        answer(run.half_session, run.held_out)


OF_LAYERS = {
    "nn.Linear": (lambda: nn.Linear(8, 4), (2, 8)),
    "nn.Conv2d": (lambda: nn.Conv2d(1, 4, 3), (2, 1, 8, 8)),
    "nn.LayerNorm": (lambda: nn.LayerNorm(8), (2, 8)),
    "a transformer layer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (2, 5, 8),
    ),
}


def in_dtype(name, dtype):
    """Convert a layer in a dtype, and return it with an input."""
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    make, shape = OF_LAYERS[name]
    layer, x = make().to(dtype).eval(), torch.randn(shape).to(dtype)
    program = torch.export.export(layer, (x,))
    return layer, x, torch.onnx.export(program, dynamo=True, verbose=False)


def test_float16_files_run_on_the_cpu__also_of_a_transformer_layer():
    layer, x, converted = in_dtype("a transformer layer", torch.float16)
    found = of_proto(converted, x)
    assert found.dtype == torch.float16
    with torch.no_grad():
        expected = layer.float()(x.float())
    assert (found.float() - expected).abs().max() < 0.01


def test_float16_files_run_on_the_cpu__but_not_float32(snippet, fails):
    """Without `half()`, the weights take as much space as before."""
    edited = (
        snippet.edit("copy.deepcopy(model).half()", "copy.deepcopy(model)")
        .edit("(pixels[:2].half(),)", "(pixels[:2],)")
        .edit("held_out.numpy().astype(np.float16)", "held_out.numpy()")
    )
    fails(test_float16_files_run_on_the_cpu, edited)


def test_float16_files_run_on_the_cpu__but_not_of_darker_pixels(
    snippet, fails
):
    """The file gets other pixels than the model, and gives other answers."""
    edited = untrained(snippet).edit(
        "held_out.numpy().astype(np.float16)",
        "(held_out / 16).numpy().astype(np.float16)",
    )
    fails(test_float16_files_run_on_the_cpu, edited)


def test_float16_files_run_on_the_cpu__ends_with_large_numbers(snippet, fails):
    """Above 65,504, a `float16` is infinite, and the answers are nan."""
    edited = untrained(snippet).edit(
        "of_half = torch", "half.net.conv1.weight.data *= 1e4\nof_half = torch"
    )
    fails(test_float16_files_run_on_the_cpu, edited)


UNLOADED = (
    r"Could not find an implementation"
    r"|Type 'tensor\(bfloat16\)' of input parameter .* is invalid"
)


def test_bfloat16_files_do_not_load(
    names=("nn.Linear", "nn.Conv2d"), dtype=torch.bfloat16
):
    runtime = pytest.importorskip("onnxruntime")
    for name in names:
        _, _, converted = in_dtype(name, dtype)
        file = converted.model_proto.SerializeToString()
        with pytest.raises(Exception, match=UNLOADED):
            runtime.InferenceSession(file, providers=["CPUExecutionProvider"])


def test_bfloat16_files_do_not_load__but_not_float16(fails):
    """In `float16`, both load."""
    names = ("nn.Linear", "nn.Conv2d")
    fails(test_bfloat16_files_do_not_load, names, torch.float16)


def test_bfloat16_files_do_not_load__ends_with_a_layer_norm(fails):
    """`nn.LayerNorm` in `bfloat16` loads."""
    fails(test_bfloat16_files_do_not_load, ("nn.LayerNorm",))


# What goes wrong


def test_onnx_runtime_drops_at_the_ends(snippet):
    run = with_onnx(untrained(snippet), *CHECKED, "train-mode")
    changed = run.first != run.second
    assert 0.1 < changed.mean() < 0.9
    with torch.no_grad():
        wanted = run.features.eval()(run.held_out).numpy()
    dropped = run.first == 0
    close(torch.from_numpy(run.first), torch.tensor(2 * wanted * ~dropped))


class Ends(nn.Module):
    """Drop at the start for one output, and at the end for another."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.dropout = nn.Dropout()

    def forward(self, x):
        """Return what was dropped at the start, and at the end."""
        return self.linear(self.dropout(x)), self.dropout(self.linear(x))


def test_onnx_runtime_drops_at_the_ends__also_at_the_start(snippet):
    run = resumed(snippet, "digits")
    model, batch = Ends().train(), torch.randn(50, 3)
    session = to_onnx(run, exported(model, batch), "ends")
    twice = answers(session, batch), answers(session, batch)
    for first, second in zip(*twice, strict=True):
        assert not torch.allclose(first, second, atol=0.01)


def test_onnx_runtime_drops_at_the_ends__but_not_in_eval_mode(snippet, fails):
    """In `eval()` mode, the file has no dropout."""
    edited = snippet.edit("Features(net).train()", "Features(net).eval()")
    fails(test_onnx_runtime_drops_at_the_ends, edited)


def test_onnx_runtime_skips_dropout(snippet, options=None):
    run = after(untrained(snippet), *READER)  # with a folder of its own
    model = run.Reader(run.net).eval()
    training = copy.deepcopy(model).train()
    session = to_onnx(run, exported(training, run.pixels[:2]), "training")
    if options:
        runtime = pytest.importorskip("onnxruntime")
        path = run.folder / "training.onnx"
        session = runtime.InferenceSession(path, options(runtime))
    found = answer(session, run.held_out)
    assert (found - model(run.held_out)).abs().max() < 1e-4


def test_onnx_runtime_skips_dropout__also_of_batch_norm(snippet):
    run = resumed(snippet, "digits")
    torch.manual_seed(0)
    model = nn.BatchNorm1d(3).train()
    batch = 5 + torch.randn(8, 3)
    model(batch)
    session = to_onnx(run, exported(model, batch), "normed")
    found = answer(session, batch)
    assert (found - model.eval()(batch)).abs().max() < 1e-4


def test_onnx_runtime_skips_dropout__but_not_noise(snippet, fails):
    """Noise of your own, drawn in training mode, is not skipped."""
    edited = snippet.edit(
        "self.dropout(x.flatten(1))",
        "x.flatten(1) * (torch.rand(128) if self.training else 1)",
    )
    fails(test_onnx_runtime_skips_dropout, edited)


def test_onnx_runtime_skips_dropout__ends_with_dropout2d(snippet, fails):
    """`nn.Dropout2d` and `F.dropout2d` still drop, wherever they stand."""
    pooled = "F.max_pool2d(self.conv1(x).relu(), 2)"
    dropped = f"F.dropout2d({pooled}, training=self.training)"
    edited = snippet.edit(pooled, dropped)
    fails(test_onnx_runtime_skips_dropout, edited)


def test_onnx_runtime_skips_dropout__ends_without_optimization(snippet, fails):
    """With `ORT_DISABLE_ALL`, nothing is taken out."""

    def options(runtime):
        chosen = runtime.SessionOptions()
        level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        chosen.graph_optimization_level = level
        return chosen

    fails(test_onnx_runtime_skips_dropout, snippet, options)


SAID = {
    "float64": "Unexpected input data type",
    "another size": "Got invalid dimensions for input",
    "no channels": "",
    "another name": "",
    "a tensor": "",
}


def test_onnx_runtime_refuses_float64(snippet, feed=None):
    run = with_onnx(untrained(snippet), *FILE)
    for name, text in SAID.items():
        assert text in run.said[name]
    if feed:
        with pytest.raises(Exception, match=r"input"):
            run.session.run(None, feed(run))


def test_onnx_runtime_refuses_float64__also_of_integers(snippet):
    def feed(run):
        return {"pixels": run.held_out.numpy().astype(np.int64)}

    test_onnx_runtime_refuses_float64(snippet, feed)


def test_onnx_runtime_refuses_float64__but_not_of_float32(snippet, fails):
    """This is what the file was exported for."""

    def feed(run):
        return {"pixels": run.digits.images[:5, None].astype(np.float32)}

    fails(test_onnx_runtime_refuses_float64, snippet, feed)


def test_onnx_runtime_refuses_float64__ends_with_lists(snippet, fails):
    """Nested lists of Python's floats are taken as `float32`."""

    def feed(run):
        return {"pixels": run.digits.images[:5, None].tolist()}

    fails(test_onnx_runtime_refuses_float64, snippet, feed)


def test_weights_stand_in_a_second_file(snippet, external_data=None):
    run = with_onnx(untrained(snippet), *FILE)
    assert "apart.onnx.data" in getattr(run, "missing", "")
    options = {} if external_data is None else {"external_data": external_data}
    path = run.folder / "default.onnx"
    torch.onnx.export(
        run.program, f=path, dynamo=True, verbose=False, **options
    )
    runtime = pytest.importorskip("onnxruntime")
    assert runtime.InferenceSession(path)
    data = run.folder / "default.onnx.data"
    data.unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"default\.onnx\.data"):
        runtime.InferenceSession(path)


def test_weights_stand_in_a_second_file__but_not_with_external_data_false(
    snippet, fails
):
    """The weights are in the one file then."""
    fails(test_weights_stand_in_a_second_file, snippet, False)


MEDIAN = (*EXPORTED, "median")


def test_median_does_not_convert(snippet):
    run = with_onnx(untrained(snippet), *MEDIAN)
    said = getattr(run, "unconverted", "")
    assert "Failed to convert the exported program to an ONNX model" in said
    assert "No ONNX function found" in said
    assert "aten.median" in said
    assert list(run.converted) == [run.AboveMiddle]
    torch.manual_seed(0)
    for size in (1, 2, 7):
        batch = torch.randn(size, 3)
        found = of_proto(run.converted[run.AboveMiddle], batch)
        close(found, run.AboveMedian()(batch))
    for width in (1, 2, 4, 9):
        batch = torch.randn(6, width)
        close(run.AboveMiddle()(batch), run.AboveMedian()(batch))


class Applies(nn.Module):
    """A model that applies one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        """Apply the function."""
        return self.function(x)


OTHERS = {
    "kthvalue": lambda x: x.kthvalue(2).values,
    "searchsorted": lambda x: torch.searchsorted(x[0].contiguous(), x),
    "torch.linalg.inv": torch.linalg.inv,
    "nn.AdaptiveMaxPool2d": nn.AdaptiveMaxPool2d(2),
}


@pytest.mark.parametrize("name", OTHERS)
def test_median_does_not_convert__also(name):
    shape = (1, 5, 5) if name.startswith("nn.") else (5, 5)
    model = Applies(OTHERS[name])
    program = torch.export.export(model, (torch.rand(shape),))
    said = said_by(
        lambda: torch.onnx.export(program, dynamo=True, verbose=False)
    )
    assert "No ONNX function found" in said


def test_median_does_not_convert__but_not_mean(snippet, fails):
    """`mean` has a translation."""
    old = "x.median(dim=1, keepdim=True).values"
    edited = snippet.edit(old, "x.mean(dim=1, keepdim=True)")
    fails(test_median_does_not_convert, edited)


def test_median_does_not_convert__ends_with_nan(snippet, fails):
    """`median` of a row with a nan is nan, but sorting puts the nan last."""
    edited = snippet.edit(
        "middle = (x.shape[1] - 1) // 2",
        "x = x / (x != x.max())\n        middle = (x.shape[1] - 1) // 2",
    )
    fails(test_median_does_not_convert, edited)


def test_the_older_exporter_knows_no_fft(snippet, function=torch.fft.rfft):
    pytest.importorskip("onnxscript")
    run = resumed(snippet, "digits")
    model = Applies(lambda x: function(x).abs()).eval()
    example = torch.tensor([[1.0, 5.0, 2.0, 0.0], [7.0, 3.0, 9.0, 1.0]])
    said = r"Exporting the operator 'aten::\w+' to ONNX .* is not supported"
    with pytest.raises(RuntimeError, match=said):
        torch.onnx.export(
            model, (example,), run.folder / "older.onnx", dynamo=False
        )
    program = torch.export.export(model, (example,))
    newer = torch.onnx.export(program, dynamo=True, verbose=False)
    close(of_proto(newer, -2 * example), model(-2 * example))


def test_the_older_exporter_knows_no_fft__also_fft2(snippet):
    test_the_older_exporter_knows_no_fft(snippet, torch.fft.fft2)


def test_the_older_exporter_knows_no_fft__but_it_knows_cumsum(snippet, fails):
    """A sum along the rows has a translation in both."""

    def summed(x):
        return x.cumsum(dim=1)

    fails(test_the_older_exporter_knows_no_fft, snippet, summed)


GROUPS = ("digits", "groups")


def test_onnx_scatter_mean_is_wrong(snippet):
    run = with_onnx(snippet, *GROUPS)
    x, group = run.grouped
    assert run.GroupMeans()(x, group).tolist() == [2, 15]
    close(run.of_groups.module()(x, group), torch.tensor([2.0, 15.0]))
    for numbers in (x, -x, x.flip(0)):
        means = run.GroupMeans()(numbers, group)
        found = of_proto(run.groups_onnx, numbers, group)
        assert (found - means).abs().min() > 0.5


def test_onnx_scatter_mean_is_wrong__also_with_the_start(snippet):
    edited = snippet.edit("include_self=False", "include_self=True")
    run = with_onnx(edited, *GROUPS)
    found = of_proto(run.groups_onnx, *run.grouped)
    assert (found - run.GroupMeans()(*run.grouped)).abs().min() > 0.5


def test_onnx_scatter_mean_is_wrong__but_not_a_sum(snippet, fails):
    """A sum, divided by the counts, converts as it is."""
    edited = snippet.edit(
        'return means.scatter_reduce(0, group, x, "mean", include_self=False)',
        "sums = means.scatter_add(0, group, x)\n"
        "        ones = torch.ones_like(x)\n"
        "        return sums / torch.zeros(2).scatter_add(0, group, ones)",
    )
    fails(test_onnx_scatter_mean_is_wrong, edited)


OPSET = (*EXPORTED, "opset")


def test_an_old_opset_is_not_kept(snippet):
    run = with_onnx(untrained(snippet), *OPSET)
    assert run.opset == 18
    assert of_proto(run.older, run.held_out).shape == (397, 10)


def test_an_old_opset_is_not_kept__also_opset_99(snippet):
    edited = snippet.edit("opset_version=13", "opset_version=99")
    test_an_old_opset_is_not_kept(edited)


def test_an_old_opset_is_not_kept__but_not_opset_19(snippet, fails):
    """From 18 on, the file has the opset that you ask for."""
    edited = snippet.edit("opset_version=13", "opset_version=19")
    fails(test_an_old_opset_is_not_kept, edited)


def test_an_old_opset_is_not_kept__ends_with_one_convolution(snippet, fails):
    """A convolution alone is converted down to opset 13."""
    edited = snippet.edit(
        "older = torch.onnx.export(\n        program,",
        "older = torch.onnx.export(\n        torch.export.export("
        "nn.Conv2d(1, 2, 3), (pixels[:2],)),",
    )
    fails(test_an_old_opset_is_not_kept, edited)


def test_a_later_format_is_refused(snippet):
    run = with_onnx(untrained(snippet), *FILE)
    said = getattr(run, "too_new", "")
    assert "Unsupported model IR version: 99, max supported IR" in said
    runtime = pytest.importorskip("onnxruntime")
    later = run.onnx_program.model_proto
    later.opset_import[0].version = 99
    said = r"Current official support for domain ai\.onnx is till opset \d+"
    with pytest.raises(Exception, match=said):
        runtime.InferenceSession(later.SerializeToString())


def test_a_later_format_is_refused__but_not_an_earlier(snippet, fails):
    """A runtime reads the formats that came before it."""
    edited = snippet.edit("newer.ir_version = 99", "newer.ir_version = 8")
    fails(test_a_later_format_is_refused, edited)


@pytest.mark.filterwarnings("ignore:Exporting to ONNX opset")
def test_a_later_format_is_refused__also_by_the_older_exporter(snippet):
    run = with_onnx(untrained(snippet), *READER)
    with pytest.raises(RuntimeError, match="Unsupported onnx_opset_version"):
        torch.onnx.export(
            run.Reader(run.net).eval(),
            (run.pixels[:2],),
            run.folder / "by-the-older.onnx",
            dynamo=False,
            opset_version=99,
        )


def test_without_cuda_the_cpu_answers(snippet):
    runtime = pytest.importorskip("onnxruntime")
    if "CUDAExecutionProvider" in runtime.get_available_providers():
        pytest.skip("has a package for the GPU")
    # A folder of its own: a program that is trained writes the same file.
    apart = untrained(snippet).edit("mkdtemp()", 'mkdtemp("apart")')
    run = with_onnx(apart, *FILE)
    assert run.on_gpu.get_providers() == ["CPUExecutionProvider"]
    said = "'CUDAExecutionProvider' is not in available provider names"
    assert [said in str(each.message) for each in run.caught] == [True]
    found = answer(run.on_gpu, run.held_out)
    close(found, torch.from_numpy(run.wanted))


def test_without_cuda_the_cpu_answers__also_if_named_alone(snippet):
    edited = snippet.edit(', "CPUExecutionProvider"]', "]")
    test_without_cuda_the_cpu_answers(edited)


def test_without_cuda_the_cpu_answers__but_not_unasked(snippet, fails):
    """Without `providers`, no warning comes."""
    edited = snippet.edit(
        'providers=["CUDAExecutionProvider", "CPUExecutionProvider"],', ""
    )
    fails(test_without_cuda_the_cpu_answers, edited)
