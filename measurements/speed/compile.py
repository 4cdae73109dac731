"""What runs once it is compiled, beside what runs as it was written

Twelve elementwise operations, one after the other, on 4 million numbers. A
transformer of two layers of 256 units with 4 heads, for 2 texts of 128 words.
A perceptron of eight layers of 64 units, for 32 rows.
On CUDA, where these are done before they are launched: 64 million numbers;
1,024 units with 16 heads, for 32 texts of 512 words; 8,192 rows.
One repetition is a forward pass, for the two models also a backward pass and
a step of SGD. What compiles, by Inductor, is not counted.
"""

import torch
from torch import nn


class Elementwise(nn.Module):
    """Twelve operations that look at each number by itself."""

    def forward(self, x):
        """Return as many numbers."""
        for _ in range(4):
            x = (x * 1.01 + 0.1).relu()
        return x


class Layers(nn.Module):
    """The layers of a model, in a class that is not torch.nn's own."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        """Return what the layers give."""
        return self.layers(x)


def elementwise(is_large):
    """Return what has no weights, and its numbers."""
    return Elementwise(), torch.randn((64 if is_large else 4) * 2**20)


def transformer(is_large):
    """Return two layers of attention, without dropout, and their texts."""
    units, heads, texts, words = (
        (1024, 16, 32, 512) if is_large else (256, 4, 2, 128)
    )
    layer = nn.TransformerEncoderLayer(
        units, heads, 4 * units, dropout=0.0, batch_first=True
    )
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return Layers(model), torch.randn(texts, words, units)


def perceptron(is_large):
    """Return small layers, and their rows."""
    layers = []
    for _ in range(8):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    rows = 8192 if is_large else 32
    return Layers(nn.Sequential(*layers)), torch.randn(rows, 64)


def cases(device):
    """Return what is timed, by name; the first of a kind is the base."""

    def case(make, is_compiled):
        model, inputs = make(device == "cuda")
        model, inputs = model.to(device), inputs.to(device)
        weights = [*model.parameters()]
        optimizer = torch.optim.SGD(weights, lr=1e-4) if weights else None
        if is_compiled:
            model.compile()

        def run():
            outputs = model(inputs)
            if optimizer:
                optimizer.zero_grad()
                outputs.square().mean().backward()
                optimizer.step()

        return run

    return {
        f"{make.__name__}: {name}": case(make, is_compiled)
        for make in (elementwise, transformer, perceptron)
        for name, is_compiled in (("as written", False), ("compiled", True))
    }
