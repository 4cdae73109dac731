"""An epoch with no worker, one, two and four, for three kinds of samples

64 samples in batches of 8. A sample costs nothing, or sorts 30,000 numbers, or
waits for two thousandths of a second, as for a disk.
One repetition is one epoch with workers that stay alive.
"""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    """Numbers that take some work, or none."""

    def __init__(self, work):
        self.work = work

    def __len__(self):
        return 64

    def __getitem__(self, index):
        self.work()
        return index


def cases(device):
    """Return what is timed, by name; the first of a kind is the base."""
    torch.set_num_threads(1)  # each worker has one, too
    kinds = {
        "free": lambda: None,
        "computing": lambda: torch.arange(30_000).flip(0).sort(),
        "waiting": lambda: time.sleep(0.002),
    }
    words = {0: "no worker", 1: "1 worker", 2: "2 workers", 4: "4 workers"}

    def epoch(kind, workers):
        options = {}
        if workers:
            options = {
                "persistent_workers": True,
                "multiprocessing_context": "fork",
            }
        loader = DataLoader(
            Samples(kinds[kind]), batch_size=8, num_workers=workers, **options
        )
        return lambda: list(loader)

    return {
        f"{kind} samples: {words[workers]}": epoch(kind, workers)
        for kind in kinds
        for workers in words
    }
