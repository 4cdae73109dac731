"""
Measure memory
==============

A ledger of what a training step holds, predicted and counted to the byte.
"""

# %% imports
import gc

import torch
from torch import nn

# %% silent-zero
if not torch.cuda.is_available():
    kept = torch.zeros(1_000_000)
    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())

# %% summary
if not torch.cuda.is_available():
    try:
        torch.cuda.memory_summary()
    except Exception as error:
        print(type(error).__name__, error)


# %% storages
def bytes_of(tensors):
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


table = torch.zeros(1000, 1000)
row = table[0]
wide = torch.zeros(1, 1).expand(1000, 1000)

print(bytes_of([table]), bytes_of([row]), bytes_of([table, row]))
print(wide.nbytes, bytes_of([wide]))

# %% model
batch, inside, hidden, outside = 32, 100, 200, 10

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(inside, hidden), nn.ReLU(), nn.Linear(hidden, outside)
)
optimizer = torch.optim.Adam(model.parameters())
inputs = torch.randn(batch, inside)

# %% predict
numbers = inside * hidden + hidden + hidden * outside + outside
predicted = {
    "parameters": 4 * numbers,
    "gradients": 4 * numbers,
    "optimizer state": 2 * 4 * numbers + 4 * 4,  # and a counter each
    "activations": 4 * batch * (inside + hidden + outside),
}

# %% activations
own = {each.data_ptr() for each in model.parameters()}
saved = []


def note(tensor):
    if tensor.data_ptr() not in own:  # the weights are counted already
        saved.append(tensor)
    return tensor


with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
    loss = model(inputs).square().mean()

# %% count
loss.backward()
optimizer.step()

state = [value for each in optimizer.state.values() for value in each.values()]
counted = {
    "parameters": bytes_of(model.parameters()),
    "gradients": bytes_of([each.grad for each in model.parameters()]),
    "optimizer state": bytes_of(state),
    "activations": bytes_of(saved),
}

# %% ledger
import pandas as pd

pd.DataFrame({"predicted": predicted, "counted": counted})


# %% live
def live_bytes():
    kinds = (torch.Tensor, nn.Parameter)
    return bytes_of(
        each
        for each in gc.get_objects()
        if type(each) in kinds
        and each.device.type == "cpu"
        and each.layout == torch.strided  # a sparse one has other storages
    )


# %% misses-the-peak
large = torch.ones(1_000_000)
before = live_bytes()
doubled = large * 2
between = live_bytes()
total = doubled.sum()
del doubled
after = live_bytes()

print("difference:", after - before, "in between:", between - before)

# %% cuda-blocks
if torch.cuda.is_available():
    start = torch.cuda.memory_allocated()
    one_number = torch.ones(1, device="cuda")
    after_one = torch.cuda.memory_allocated() - start
    just_more = torch.ones(129, device="cuda")  # 516 bytes
    after_both = torch.cuda.memory_allocated() - start
    print(after_one, after_both)


# %% rounded
def rounded(tensors):
    return sum(-(-tensor.nbytes // 512) * 512 for tensor in tensors)


# %% cuda-ledger
if torch.cuda.is_available():
    warm = nn.Linear(100, 200, device="cuda")  # stays, as what it set up
    warm(torch.ones(32, 100, device="cuda")).sum().backward()
    base = torch.cuda.memory_allocated()
    there = nn.Sequential(nn.Linear(100, 200), nn.Linear(200, 10)).cuda()
    adam = torch.optim.Adam(there.parameters(), foreach=False)
    there(torch.ones(32, 100, device="cuda")).sum().backward()
    adam.step()
    held = [*there.parameters(), *(each.grad for each in there.parameters())]
    held += [s[key] for s in adam.state.values() for key in s if key != "step"]
    cuda_counted = torch.cuda.memory_allocated() - base
    print(rounded(held), cuda_counted)

# %% cuda-peak
if torch.cuda.is_available():
    torch.cuda.reset_peak_memory_stats()
    low = torch.cuda.memory_allocated()
    temporary = torch.ones(2**20, device="cuda")
    del temporary
    difference = torch.cuda.memory_allocated() - low
    peak = torch.cuda.max_memory_allocated() - low
    free, total_there = torch.cuda.mem_get_info()
    driver = total_there - free
    reserved = torch.cuda.memory_reserved()
    print(difference, peak, driver >= reserved >= low)
