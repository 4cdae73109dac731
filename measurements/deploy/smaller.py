"""A linear layer of 1,024 by 1,024 in float32, bfloat16 and int8

The forward pass of one layer, eight times in a row, without gradients, on a
batch of 1 row and of 256 rows, with 1 thread. The int8 layers are those of
torchao: the first keeps its weights as int8, the second also rounds its
inputs to int8. None of them is compiled.
"""

import copy
import logging

import torch
from torch import nn


def cases(device):
    """Return what is timed, by name; the first of each size is the base."""
    logging.disable(logging.WARNING)  # what torchao says of GPUs
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        quantize_,
    )

    logging.disable(logging.NOTSET)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = nn.Linear(1024, 1024).to(device)
    weights, both = copy.deepcopy(layer), copy.deepcopy(layer)
    quantize_(weights, Int8WeightOnlyConfig())
    quantize_(both, Int8DynamicActivationInt8WeightConfig())
    layers = {
        "float32": layer,
        "bfloat16": copy.deepcopy(layer).bfloat16(),
        "int8 weights": weights,
        "int8 weights and inputs": both,
    }

    def case(layer, rows):
        dtype = layer.bias.dtype
        batch = torch.randn(rows, 1024, device=device, dtype=dtype)

        def run():
            with torch.no_grad():
                for _ in range(8):
                    layer(batch)

        return run

    return {
        f"batch of {rows}: {name}": case(each, rows)
        for rows in (1, 256)
        for name, each in layers.items()
    }
