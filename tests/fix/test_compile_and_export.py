"""The claims of docs/fix/compile_and_export.md."""

import linecache
from unittest.mock import patch

import pytest
import torch

from extensions.evidence.counterexamples import edits

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

ARGUMENTS = "stages", "arguments"
RETURNED = "stages", "constant-output"
ANNOTATED = "stages", "annotated"
QUANTIZED = "stages", "quantized"
REFUSED = "Compiled functions can't take variable number of arguments"


def after(snippet, *cells):
    """Run cells whose source `torch.jit.script` reads as it was edited."""
    path = str(snippet.path)
    lines = snippet.text.splitlines(keepends=True)
    source = {path: (len(snippet.text), None, lines, path)}
    with patch.dict(linecache.cache, source):
        return snippet.only(*cells).after(cells[-1])


def test_the_last_line_is_the_cause(snippet):
    failed, eager = snippet.after("stages").ended
    assert failed.splitlines() == [
        "backend='broken' raised:",
        "RuntimeError: a compiler that is not there",
    ]
    assert eager == "no error"


def test_the_last_line_is_the_cause__also_with_a_function(snippet):
    edited = snippet.edit("nn.Linear(2, 2)", "lambda given: given.sin()")
    test_the_last_line_is_the_cause(edited)


def test_the_last_line_is_the_cause__but_not_of_the_model(snippet, fails):
    """If the model itself raises, `"eager"` raises as well."""
    edited = snippet.edit("nn.Linear(2, 2), torch", "nn.Linear(3, 2), torch")
    fails(test_the_last_line_is_the_cause, edited)


def test_the_last_line_is_the_cause__ends_if_suppressed(snippet, fails):
    """With `torch._dynamo.config.suppress_errors`, nothing is raised."""
    new = "with torch._dynamo.config.patch(suppress_errors=True):\n    "
    old = "        torch.compile(model, backend=backend)(inputs)"
    edited = snippet.edit(old, f"        {new}{old}")
    fails(test_the_last_line_is_the_cause, edited)


def test_export_takes_keywords(snippet, scaled=3.0):
    program = after(snippet, *ARGUMENTS)
    assert program.refused.startswith(REFUSED)
    assert program.scaled.tolist() == [[scaled] * 2]


@pytest.mark.parametrize("arguments", ["*others, by=2.0", "by=2.0, **others"])
def test_export_takes_keywords__also_as(snippet, arguments):
    test_export_takes_keywords(snippet.edit("*, by=2.0", arguments))


def test_export_takes_keywords__but_not_script(snippet, fails):
    """Annotated, and without the `*`, `torch.jit.script` takes it as well."""
    old = "self, inputs, *, by=2.0"
    edited = snippet.edit(old, "self, inputs, by: float = 2.0")
    fails(test_export_takes_keywords, edited)


def test_export_takes_keywords__ends_without_a_default(snippet, fails):
    """`torch.jit.script` takes `*, by` if `by` has no default."""
    edited = snippet.edit("*, by=2.0", "*, by")
    fails(test_export_takes_keywords, edited)


def test_export_takes_keywords__but_not_another_number(snippet, fails):
    """The number of the example is kept: a program for 2 does not take 3."""
    edited = snippet.edit('{"by": 3.0}', '{"by": 2.0}')
    edited = edited.edit("(inputs, by=3.0)", "(inputs, by=2.0)")
    fails(test_export_takes_keywords, edited)


def test_a_trace_refuses_a_plain_tensor(snippet):
    plain, buffer = snippet.only(*RETURNED).after("constant-output").refusals
    assert "did not have observable data dependence" in plain
    assert buffer == ""


def test_a_trace_refuses_a_plain_tensor__also_with_a_parameter(snippet):
    old = 'self.register_buffer("anchors", anchors)'
    edited = snippet.edit(old, "self.anchors = nn.Parameter(anchors)")
    test_a_trace_refuses_a_plain_tensor(edited)


@pytest.mark.parametrize("count", [1, 100], ids="{} numbers".format)
def test_a_trace_refuses_a_plain_tensor__also_of(snippet, count):
    edited = snippet.edit(
        "anchors = torch.ones(2)", f"anchors = torch.ones({count})"
    )
    test_a_trace_refuses_a_plain_tensor(edited)


def test_a_trace_refuses_a_plain_tensor__but_not_as_a_buffer(snippet, fails):
    """If both are buffers, both are taken."""
    edited = snippet.edit("in (False, True):", "in (True, True):")
    fails(test_a_trace_refuses_a_plain_tensor, edited)


def test_a_trace_refuses_a_plain_tensor__but_not_plain_twice(snippet, fails):
    """If both are plain, none is taken."""
    edited = snippet.edit("in (False, True):", "in (False, False):")
    fails(test_a_trace_refuses_a_plain_tensor, edited)


def test_a_trace_refuses_a_plain_tensor__ends_with_a_copy(snippet, fails):
    """`self.anchors.clone()` is an operation, so the trace takes it."""
    edited = snippet.edit(
        "inputs, self.anchors", "inputs, self.anchors.clone()"
    )
    fails(test_a_trace_refuses_a_plain_tensor, edited)


def test_script_takes_a_tensor(snippet, kind="int"):
    refused, result = after(snippet, *ANNOTATED).results
    assert "Expected a value of type 'Tensor (inferred)'" in str(refused)
    assert f"for argument 'times' but instead found type '{kind}'" in str(
        refused
    )
    assert result.tolist() == [[3, 3]]


def test_script_takes_a_tensor__also_for_a_float(snippet):
    edited = snippet.edit("times: int", "times: float")
    test_script_takes_a_tensor(
        edited.edit("(inputs, 3)", "(inputs, 3.0)"), "float"
    )


def test_script_takes_a_tensor__but_not_if_both_are_annotated(snippet, fails):
    """Annotated as `int`, the first takes the 3 as well."""
    edited = snippet.edit("inputs, times)", "inputs, times: int)")
    fails(test_script_takes_a_tensor, edited)


def test_script_takes_a_tensor__ends_with_a_default(snippet, fails):
    """With a default, the text is another: `Expected a default value of type
    Tensor (inferred)`.
    """
    edited = snippet.edit("inputs, times)", "inputs, times=1)")
    fails(test_script_takes_a_tensor, edited)


def needs_an_engine():
    """Skip a test where torch has no kernels for quantized tensors."""
    if torch.backends.quantized.engine == "none":
        pytest.skip("no kernels for quantized tensors")


def test_both_ends_and_each_sum(snippet):
    needs_an_engine()
    plus, bare, right = snippet.only(*QUANTIZED).after("quantized").made
    assert str(plus).endswith("arguments from the 'QuantizedCPU' backend")
    assert str(bare).endswith("arguments from the 'CPU' backend")
    assert not isinstance(right, str)


def test_both_ends_and_each_sum__also_to_multiply(snippet):
    edited = snippet.edit("self.skip.add(", "self.skip.mul(")
    edited = edited.edit("self.conv(images) +", "self.conv(images) *")
    test_both_ends_and_each_sum(edited)


@edits(
    (
        "added by its method",
        "self.dequant(self.conv(images) + images)",
        "self.dequant(self.skip.add(self.conv(images), images))",
    ),
    (
        "with its stub",
        "return self.dequant(self.conv(images))",
        "return self.dequant(self.conv(self.quant(images)))",
    ),
    (
        "no stub at all",
        "        images = self.quant(images)\n"
        "        return self.dequant(self.skip",
        "        return self.dequant(self.skip",
    ),
)
def test_both_ends_and_each_sum__but_not(snippet, old, new, fails):
    """Mended, neither raises an error; without its stub, the third does."""
    needs_an_engine()
    fails(test_both_ends_and_each_sum, snippet.edit(old, new))


def test_both_ends_and_each_sum__ends_with_a_graph(snippet, fails):
    """`prepare_fx` and `convert_fx` quantize a `+` as well."""
    needs_an_engine()
    edited = snippet.edit(
        "    prepared = quantization.prepare(model)",
        "    from torch.ao.quantization import quantize_fx\n\n"
        "    mapping = quantization.get_default_qconfig_mapping(engine)\n"
        "    prepared = quantize_fx.prepare_fx(model, mapping, images)",
    )
    edited = edited.edit(
        "quantization.convert(prepared)", "quantize_fx.convert_fx(prepared)"
    )
    fails(test_both_ends_and_each_sum, edited)
