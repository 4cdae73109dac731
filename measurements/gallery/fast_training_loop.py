"""An epoch of the plain loop, with each tip alone, and with all

2,000 samples of 16 numbers, batches of 64, a perceptron with two layers of 256
units, and AdamW. Mixed precision takes bfloat16; parts are four for each
batch; transfer, which is there on CUDA only, does not wait for copies from
pinned memory. One repetition is one epoch. On CUDA, such small layers take
longer to launch than to compute.
"""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def cases(device):
    """Return what is timed, by name; the first is the base."""
    inputs = torch.randn(2000, 16)
    data = TensorDataset(inputs, inputs[:, :1])

    def epoch(pinned=False, mixed=False, parts=1):
        model = nn.Sequential(
            nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()
        )
        model.append(nn.Linear(256, 1)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
        loader = DataLoader(
            data, batch_size=64, shuffle=True, pin_memory=pinned
        )

        def train():
            for x, y in loader:
                x = x.to(device, non_blocking=pinned)
                y = y.to(device, non_blocking=pinned)
                optimizer.zero_grad()
                pairs = zip(x.chunk(parts), y.chunk(parts), strict=True)
                for part, goal in pairs:
                    with torch.autocast(device, torch.bfloat16, mixed):
                        loss = F.mse_loss(model(part), goal)
                    (loss * len(part) / len(x)).backward()
                optimizer.step()

        return train

    tips = {"mixed precision": {"mixed": True}, "parts": {"parts": 4}}
    if device == "cuda":
        tips = {"transfer": {"pinned": True}, **tips}
    every = {}
    for tip in tips.values():
        every |= tip
    return {
        "plain": epoch(),
        **{name: epoch(**tip) for name, tip in tips.items()},
        "all tips": epoch(**every),
    }
