"""Copying batches to the device, one after the other

Eight batches of 4 MB each move to the device and are multiplied there with a
matrix of 1,024 by 1,024.
One repetition does all eight, and waits for the last.
"""

import torch


def cases(device):
    """Return what is timed, by name; the first is what all are held to."""
    weight = torch.ones(1024, 1024, device=device)
    ordinary = [torch.ones(1024, 1024) for _ in range(8)]
    pinned = ordinary
    if device == "cuda":
        pinned = [batch.pin_memory() for batch in ordinary]

    def run(batches, pin=False, **options):
        for batch in batches:
            if pin and device == "cuda":
                batch = batch.pin_memory()
            batch.to(device, **options) @ weight
        if device == "cuda":
            torch.cuda.synchronize()

    return {
        "to(device)": lambda: run(ordinary),
        "to(device, non_blocking=True)": lambda: run(
            ordinary, non_blocking=True
        ),
        "pinned before, non_blocking=True": lambda: run(
            pinned, non_blocking=True
        ),
        "pin_memory() in the loop, non_blocking=True": lambda: run(
            ordinary, pin=True, non_blocking=True
        ),
    }
