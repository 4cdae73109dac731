"""
Let tensors go
==============

What outlives a loop, and how a function ends it.
"""

# %% model
import gc
import weakref

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
batches = [torch.randn(16, 4) for _ in range(3)]
model = nn.Linear(4, 1)

# %% after-the-loop
for batch in batches:
    output = model(batch)
    loss = output.square().mean()

print(batch.shape, output.shape, loss.grad_fn.name())


# %% in-a-function
def handle(batch):
    output = model(batch)
    loss = output.square().mean()
    watched.append(weakref.ref(output))
    return loss.item()


watched = []
for batch in batches:
    handle(batch)

alive = [watch() is not None for watch in watched]

print(alive)


# %% two-at-once
def most_alive(delete_first):
    living, most = weakref.WeakSet(), 0
    for batch in batches:
        fresh = Activation(model(batch))
        living.add(fresh)
        most = max(most, len(living))
        output = fresh
        del fresh
        if delete_first:
            del output
    return most


class Activation:
    def __init__(self, tensor):
        self.tensor = tensor


print(most_alive(delete_first=False), most_alive(delete_first=True))


# %% cycle
class Holder:
    def __init__(self):
        self.output = model(batches[0])
        self.me = self  # a circle of references


gc.disable()  # the collector would come in its own time
watch = weakref.ref(Holder().output)
before_collecting = watch() is not None
gc.collect()
after_collecting = watch() is not None
gc.enable()

print(before_collecting, after_collecting)


# %% traceback
def fail():
    large = torch.zeros(1000)
    global seen
    seen = weakref.ref(large)
    raise RuntimeError("no more memory")


try:
    fail()
except RuntimeError:
    inside_the_handler = seen() is not None
after_the_handler = seen() is not None

print(inside_the_handler, after_the_handler)


# %% stale-name
def train(pairs, step, epochs=30):
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(epochs):
        for x, y in pairs:
            loss = step(weight, optimizer, x, y)
    return loss


def with_reset(weight, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(weight * x, y)
    loss.backward()
    optimizer.step()
    return loss.item()


def without_reset(weight, optimizer, x, y):
    loss = F.mse_loss(weight * x, y)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% compare-resets
pairs = [(torch.tensor([1.0]), torch.tensor([3.0]))]
reset, not_reset = train(pairs, with_reset), train(pairs, without_reset)

print(reset < 1e-4, not_reset > 1)

# %% misspelt
source = """
for input, target in pairs:
    x, y = input.to("cpu"), output.to("cpu")
"""
names = {"pairs": pairs}

try:
    exec(source, names)
except NameError as error:
    print(error)

# %% on-cuda
if torch.cuda.is_available():
    busy = torch.ones(8192, 8192, device="cuda")
    busy @ busy  # sets up what a product needs
    large = torch.ones(2**28, device="cuda")
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    for _ in range(20):
        busy @ busy  # the device is at work
    del large
    freed_at_once = held - torch.cuda.memory_allocated()
    still_busy = not torch.cuda.current_stream().query()
    print(freed_at_once >= 2**30, still_busy)

# %% synchronize
if torch.cuda.is_available():
    gauges = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.synchronize()
    after_synchronize = (
        torch.cuda.memory_allocated(),
        torch.cuda.memory_reserved(),
    )
    torch.cuda.empty_cache()
    after_emptying = torch.cuda.memory_reserved()
    print(gauges == after_synchronize, after_emptying < gauges[1])
