"""Copying batches to the device, one after the other

Sixteen batches of 8 MB, or of 8 kB, move to the device, and each is multiplied
there with a matrix of 1,024 by 1,024. One repetition does all sixteen, and
waits for the last.
"""

import torch

NEEDS = "cuda"  # on the CPU, all ways below do the same


def cases(device):
    """Return what is timed, by name; the first of a size is the base."""
    weight = torch.ones(1024, 1024, device=device)

    def ways(rows):
        ordinary = [torch.ones(rows, 1024) for _ in range(16)]
        pinned = [batch.pin_memory() for batch in ordinary]

        def run(batches, pin=False, **options):
            for batch in batches:
                source = batch.pin_memory() if pin else batch
                source.to(device, **options) @ weight
            torch.cuda.synchronize()

        free = {"non_blocking": True}
        return {
            "to(device)": lambda: run(ordinary),
            "to(device, non_blocking=True)": lambda: run(ordinary, **free),
            "pinned, to(device)": lambda: run(pinned),
            "pinned, non_blocking=True": lambda: run(pinned, **free),
            "pin_memory() in the loop": lambda: run(
                ordinary, pin=True, **free
            ),
        }

    return {
        f"{size}: {name}": case
        for size, rows in (("8 MB", 2048), ("8 kB", 2))
        for name, case in ways(rows).items()
    }
