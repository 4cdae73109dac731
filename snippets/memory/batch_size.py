"""
Find the batch size
===================

The largest batch that works, in few tries, with nothing skipped.
"""

# %% stand-in
import weakref

import torch
from torch.utils.data import DataLoader

LIMIT = 37  # samples that the stand-in for a device can hold
data = torch.arange(100.0)


def train_step(batch):
    if len(batch) > LIMIT:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return len(batch)


# %% the-error
print(issubclass(torch.OutOfMemoryError, RuntimeError))

try:
    torch.empty(2**50)  # on the CPU
except RuntimeError as error:
    print(isinstance(error, torch.OutOfMemoryError))

# %% well-known
batch_size = 40
trained = []
loader = DataLoader(data, batch_size=batch_size)
for batch in loader:
    try:
        trained.append(train_step(batch))
    except RuntimeError:
        batch_size -= 1
        loader = DataLoader(data, batch_size=batch_size)

print(trained, batch_size)

# %% swallowed
batch_size = 3
tries = 0
try:
    for batch in data.split(10):
        try:
            tries += 1
            batch @ torch.ones(7)  # a bug: the sizes never match
        except RuntimeError:
            batch_size -= 1
            DataLoader(data, batch_size=batch_size)
except ValueError as error:
    print(tries, error)


# %% fits
def fits(try_batch, size):
    try:
        try_batch(size)
    except torch.OutOfMemoryError:
        return False
    return True


# %% search
def largest_batch(try_batch, most):
    tried = []

    def works(size):
        tried.append(size)
        return fits(try_batch, size)

    low, high = 0, most + 1  # low works, high does not
    size = 1
    while low < size < high and works(size):
        low, size = size, size * 2
    high = min(high, size)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low, tried


# %% result
best, tried = largest_batch(lambda size: train_step(data[:size]), most=100)

print(best, tried)


# %% recover
def recovers(inside):
    def fail():
        large = torch.zeros(1000)
        watch.append(weakref.ref(large))
        raise torch.OutOfMemoryError

    watch, failed = [], False
    try:
        fail()
    except torch.OutOfMemoryError:
        failed = True
        if inside:
            return watch[0]() is None
    return failed and watch[0]() is None


# %% compare-recoveries
print(recovers(inside=True), recovers(inside=False))


# %% epoch
def train_epoch(batch_size):
    rows, seen = data, []
    while len(rows):
        failed = False
        try:
            train_step(rows[:batch_size])
        except torch.OutOfMemoryError:
            failed = True
        if failed:  # the tensors of the failed step are gone here
            if batch_size == 1:
                raise RuntimeError("a single sample does not fit")
            batch_size //= 2
        else:
            seen += rows[:batch_size].tolist()
            rows = rows[batch_size:]
    return seen, batch_size


# %% nothing-skipped
seen, final_size = train_epoch(80)

print(len(seen), seen == data.tolist(), final_size)

# %% on-cuda
if torch.cuda.is_available():
    torch.cuda.empty_cache()  # what is not in use counts as free
    free, _ = torch.cuda.mem_get_info()
    gigabyte = 2**30
    fitting = free // gigabyte - 2
    real, _ = largest_batch(
        lambda size: torch.empty(
            size * gigabyte, dtype=torch.uint8, device="cuda"
        ),
        most=int(2 * fitting),
    )
    torch.cuda.empty_cache()
    print(real >= fitting, real < 2 * fitting)
