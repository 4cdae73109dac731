"""A training step in float32 and in mixed precision, of three models

A perceptron of four layers of 1,024 units and a batch of 128 rows. A
transformer of two layers of 256 units with 4 heads, for 2 texts of 128 words.
A convolutional net of three layers of 64 channels, for 2 images of 32 by 32.
On CUDA, where these are done before they are launched: 8,192 units and 8,192
rows; 1,024 units with 16 heads, for 32 texts of 512 words; 256 channels, for
256 images of 64 by 64.
One repetition is a forward pass, a backward pass and a step of SGD.
"""

import torch
from torch import nn


def perceptron(is_large):
    """Return layers of one width, and their inputs."""
    units, rows = (8192, 8192) if is_large else (1024, 128)
    layers = []
    for _ in range(4):
        layers += [nn.Linear(units, units), nn.ReLU()]
    return nn.Sequential(*layers), torch.randn(rows, units)


def transformer(is_large):
    """Return two layers of attention, without dropout, and their texts."""
    units, heads, texts, words = (
        (1024, 16, 32, 512) if is_large else (256, 4, 2, 128)
    )
    layer = nn.TransformerEncoderLayer(
        units, heads, 4 * units, dropout=0.0, batch_first=True
    )
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return model, torch.randn(texts, words, units)


def convolutions(is_large):
    """Return three convolutions, and their images."""
    channels, images, size = (256, 256, 64) if is_large else (64, 2, 32)
    layers = [nn.Conv2d(3, channels, 3, padding=1), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers), torch.randn(images, 3, size, size)


def cases(device):
    """Return what is timed, by name; the first of a model is the base."""
    kinds = {
        "float32": torch.float32,
        "bfloat16": torch.bfloat16,
        "float16 with a scaler": torch.float16,
    }

    def step_of(make, dtype):
        model, inputs = make(device == "cuda")
        model, inputs = model.to(device), inputs.to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
        mixed = dtype != torch.float32

        def step():
            optimizer.zero_grad()
            with torch.autocast(device, dtype, mixed):
                loss = model(inputs).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

        return step

    return {
        f"{make.__name__}: {name}": step_of(make, dtype)
        for make in (perceptron, transformer, convolutions)
        for name, dtype in kinds.items()
    }
