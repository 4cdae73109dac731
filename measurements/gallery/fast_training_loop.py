"""An epoch of the plain loop and of the fast one

2,000 samples of 16 numbers, batches of 64, a perceptron with two layers of 256
units, and Adam. The fast loop cuts each batch into four parts, in mixed
precision: float16 on CUDA, bfloat16 elsewhere.
One repetition is one epoch. On CUDA, such small layers take longer to launch
than to compute.
"""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def cases(device):
    """Return what is timed, by name; the first is the base."""
    has_cuda = device == "cuda"
    half = torch.float16 if has_cuda else torch.bfloat16
    inputs = torch.randn(2000, 16)
    data = TensorDataset(inputs, inputs[:, :1])

    def training():
        model = nn.Sequential(
            nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()
        )
        model.append(nn.Linear(256, 1)).to(device)
        return model, torch.optim.Adam(model.parameters(), lr=0.002)

    def plain(model, optimizer):
        for x, y in DataLoader(data, batch_size=64, shuffle=True):
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()

    def fast(model, optimizer, scaler):
        loader = DataLoader(
            data, batch_size=64, shuffle=True, pin_memory=has_cuda
        )
        for x, y in loader:
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            optimizer.zero_grad()
            for part, goal in zip(x.chunk(4), y.chunk(4), strict=True):
                with torch.autocast(device, dtype=half):
                    loss = F.mse_loss(model(part), goal)
                scaler.scale(loss * len(part) / len(x)).backward()
            scaler.step(optimizer)
            scaler.update()

    first, second = training(), training()
    scaler = torch.amp.GradScaler(device, enabled=has_cuda)
    return {
        "plain": lambda: plain(*first),
        "fast": lambda: fast(*second, scaler),
    }
