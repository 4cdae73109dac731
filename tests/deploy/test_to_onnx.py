"""The claims of docs/deploy/to_onnx.md."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from extensions.evidence.versions import api_since
from extensions.programs.cached_run import after
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
    return after(snippet, *cells)


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
    run = after(snippet, "digits")
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
    run = with_onnx(untrained(snippet), *EXPORTED)
    training = copy.deepcopy(run.model).train()
    session = to_onnx(run, exported(training, run.pixels[:2]), "training")
    if options:
        runtime = pytest.importorskip("onnxruntime")
        path = run.folder / "training.onnx"
        session = runtime.InferenceSession(path, options(runtime))
    found = answer(session, run.held_out)
    assert (found - run.model(run.held_out)).abs().max() < 1e-4


def test_onnx_runtime_skips_dropout__also_of_batch_norm(snippet):
    run = after(snippet, "digits")
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
    run = after(snippet, "digits")
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


@pytest.mark.parametrize("opset", [11, 99], ids="opset {}".format)
def test_an_old_opset_is_not_kept__also(snippet, opset):
    edited = snippet.edit("opset_version=13", f"opset_version={opset}")
    test_an_old_opset_is_not_kept(edited)


@pytest.mark.parametrize("opset", [19, 21], ids="opset {}".format)
def test_an_old_opset_is_not_kept__but_not(snippet, opset, fails):
    """From 18 on, the file has the opset that you ask for."""
    edited = snippet.edit("opset_version=13", f"opset_version={opset}")
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
    run = with_onnx(untrained(snippet), *FILE)
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
