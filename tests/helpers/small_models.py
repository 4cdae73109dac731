"""How small a model is, and whether it is quantized."""

import io

import torch

from extensions.evidence.versions import api_since

needs_torchao = api_since("2.10", "the scaling types that torchao imports")


def file_size(module):
    """Return the bytes of a file with the state of a module."""
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return file.tell()


def close(found, expected, tolerance):
    """Compare up to a tolerance."""
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


def is_quantized(parameter):
    """Return whether a parameter is stored as int8."""
    return hasattr(parameter, "qdata")
