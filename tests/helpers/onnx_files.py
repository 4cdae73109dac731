"""What runs an ONNX file, or a model that was converted in memory."""

import pytest
import torch


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
