"""A training step in float32 and in mixed precision

A perceptron of four layers of 1,024 units and a batch of 128 rows; on CUDA,
where that is done before it is launched, 8,192 units and 8,192 rows.
One repetition is a forward pass, a backward pass and a step of SGD.
"""

import torch
from torch import nn


def cases(device):
    """Return what is timed, by name; the first is what all are held to."""
    units, rows = (8192, 8192) if device == "cuda" else (1024, 128)
    layers = []
    for _ in range(4):
        layers += [nn.Linear(units, units), nn.ReLU()]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler(device)
    inputs = torch.randn(rows, units, device=device)

    def step(dtype):
        optimizer.zero_grad()
        mixed = dtype != torch.float32
        with torch.autocast(device, dtype=dtype, enabled=mixed):
            loss = model(inputs).square().mean()
        if dtype == torch.float16:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()

    return {
        "float32": lambda: step(torch.float32),
        "bfloat16": lambda: step(torch.bfloat16),
        "float16 with a scaler": lambda: step(torch.float16),
    }
