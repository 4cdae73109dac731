"""What exports a model, and runs it as an ONNX file or from memory."""

from contextlib import suppress
from functools import cache
from importlib import import_module

import pytest
import torch

OPEN = ({0: torch.export.Dim("batch")},)


def untrained(snippet):
    """Leave out the training where any weights will do."""
    return snippet.edit("for _ in range(4):", "for _ in range(0):")


def exported(model, example, sizes=OPEN, **options):
    """Export a model with an open batch size, ready to be called."""
    return torch.export.export(
        model, (example,), dynamic_shapes=sizes, **options
    )


def close(found, expected):
    """Compare up to rounding."""
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@cache
def _registry():
    """Return what holds the exporter's translations, and a reader of them."""
    module = "torch.onnx._internal.exporter._registration"
    registry = import_module(module).ONNXRegistry
    return registry, staticmethod(cache(registry.from_torchlib))


@cache
def _operations():
    """Return what lists the operations of torch that others make up."""
    return cache(
        import_module("torch._export.utils")._collect_all_valid_cia_ops
    )


@cache
def _decompositions(path, name):
    """Return what makes the exporter's table of decompositions."""
    table = cache(getattr(import_module(path), name))
    return lambda operations: dict(table(frozenset(operations)))


def read_translations_once(monkeypatch):
    """Let the exporter read what it knows once, not in each conversion.

    That takes most of the time of converting a small model. A torch that
    keeps it elsewhere converts as always.
    """
    pytest.importorskip("onnxscript")
    with suppress(ImportError, AttributeError):
        registry, reader = _registry()
        monkeypatch.setattr(registry, "from_torchlib", reader)
    with suppress(ImportError, AttributeError):
        for module in ("_export.utils", "export.exported_program"):
            path = f"torch.{module}._collect_all_valid_cia_ops"
            monkeypatch.setattr(path, _operations())
        path = "torch.onnx._internal.exporter._decomp"
        name = "create_onnx_friendly_decomposition_table"
        monkeypatch.setattr(f"{path}.{name}", _decompositions(path, name))


def to_onnx(run, program, name, **options):
    """Convert a program once, and return what runs the file."""
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    path = run.folder / f"{name}.onnx"
    options = {"external_data": False, "verbose": False, **options}
    if not path.exists():
        torch.onnx.export(program, f=path, dynamo=True, **options)
    return runtime.InferenceSession(path)


def of_proto(onnx_program, *inputs):
    """Run what was converted in memory, and return its first output."""
    runtime = pytest.importorskip("onnxruntime")
    file = onnx_program.model_proto.SerializeToString()
    session = runtime.InferenceSession(file)
    names = (each.name for each in session.get_inputs())
    arrays = (each.numpy() for each in inputs)
    found = session.run(None, dict(zip(names, arrays, strict=True)))
    return torch.from_numpy(found[0])


def answers(session, batch):
    """Return the outputs for a batch."""
    (name,) = (each.name for each in session.get_inputs())
    return map(torch.from_numpy, session.run(None, {name: batch.numpy()}))


def answer(session, batch):
    """Return the first output for a batch."""
    return next(answers(session, batch))
