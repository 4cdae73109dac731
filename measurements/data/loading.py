"""One epoch with no worker, one, two and four

256 samples in batches of 32. A cheap sample is read from memory; a costly one
also sorts 50,000 numbers.
One repetition is one epoch with workers that stay alive.
"""

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    """Rows of numbers, with some work or none for each."""

    def __init__(self, work):
        self.rows = torch.rand(256, 64)
        self.work = work

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        if self.work:
            torch.arange(50_000).flip(0).sort()
        return self.rows[index]


def cases(device):
    """Return what is timed, by name; the first of a kind is the base."""

    def epoch(work, workers):
        options = {}
        if workers:
            options = {
                "persistent_workers": True,
                "multiprocessing_context": "fork",
            }
        loader = DataLoader(
            Samples(work), batch_size=32, num_workers=workers, **options
        )
        return lambda: [batch.to(device) for batch in loader]

    torch.set_num_threads(1)  # a worker has one as well
    words = {0: "no worker", 1: "1 worker", 2: "2 workers", 4: "4 workers"}
    return {
        f"{kind} samples: {words[workers]}": epoch(work, workers)
        for kind, work in (("costly", True), ("cheap", False))
        for workers in words
    }
