"""
Free GPU memory: del, gc.collect(), empty_cache()
=================================================

Let go of tensors, and what Python frees, in sixteen lines.
"""

# %% digits
import gc
import weakref

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 16
digits = TensorDataset(pixels, torch.tensor(data.target))
loader = DataLoader(digits, batch_size=100)


def build():
    layers = nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
    model = nn.Sequential(*layers)
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def state(memory):
    return "free" if memory() is None else "held"


model, optimizer = build()


# %% step
def train_step(model, optimizer, images, labels):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()  # a number, not a tensor


losses = [train_step(model, optimizer, *batch) for batch in loader]
print(f"loss {losses[0]:.3f} in the first step, {losses[-1]:.3f} in the last")

# %% free
del model, optimizer  # every name of what is to go
gc.collect()  # objects that refer to each other
torch.cuda.empty_cache()  # for other programs

# %% by-hand
holds = {"names": []}  # each object that is there, and what it refers to


def hold(holder, thing):
    holds.setdefault(thing, [])
    holds[holder].append(thing)  # 1


def drop(holder, thing):
    holds[holder].remove(thing)  # 2
    if not any(thing in held for held in holds.values()):  # 3
        for each in [*holds[thing]]:
            drop(thing, each)  # 4
        del holds[thing]


def collect():
    found = ["names"]
    for each in found:
        found += [thing for thing in holds[each] if thing not in found]  # 5
    for lost in holds.keys() - found:
        del holds[lost]


# %% walk
hold("names", "images")
hold("images", "memory")
hold("names", "row")  # row = images[0]
hold("row", "memory")
print(holds)

drop("names", "images")  # del images
print("after del images:", holds)
drop("names", "row")  # del row
print("after del row:   ", holds)

# %% ways
import functools
from types import SimpleNamespace

weight = torch.ones(64, requires_grad=True)


def hooked(images):
    layer = nn.Linear(64, 10)
    layer.register_forward_hook(lambda *_: images)
    return layer


def cached(images):
    mean = functools.cache(torch.mean)
    mean(images)
    return mean


def caught(images):
    try:
        raise ValueError("no labels")
    except ValueError as error:
        return error


def cycle(images):
    model, trainer = SimpleNamespace(images=images), SimpleNamespace()
    model.trainer, trainer.model = trainer, model
    return model


ways = {
    "a number": (lambda images: images.mean().item(), "number"),
    "a list": (lambda images: [images], "list images"),
    "a row": (lambda images: images[0], "row memory"),
    "an array": (lambda images: images.numpy(), "array memory"),
    "a loss": (lambda images: (images @ weight).sum(), "loss node images"),
    "a closure": (lambda images: lambda: images, "function images"),
    "a hook": (hooked, "layer hooks function images"),
    "a cache": (cached, "cache images"),
    "an error": (caught, "error traceback call images"),
    "a cycle": (cycle, "model trainer model images"),
}

# %% compare
from itertools import pairwise


def in_python(keep):
    gc.collect()
    images = torch.rand(100, 64)
    memory = weakref.ref(images.untyped_storage())  # sees, and doesn't hold
    kept = keep(images)
    del images
    states = [state(memory)]
    del kept
    states.append(state(memory))
    gc.collect()
    return [*states, state(memory)]


def in_our_lines(path):
    holds.clear()
    holds["names"] = []
    kept, *_ = things = path.split()
    chain = ["names", "images", "memory"], ["names", *things]
    for holder, thing in [*pairwise(chain[0]), *pairwise(chain[1])]:
        hold(holder, thing)
    drop("names", "images")
    states = ["held" if "memory" in holds else "free"]
    drop("names", kept)
    states.append("held" if "memory" in holds else "free")
    collect()
    return [*states, "held" if "memory" in holds else "free"]


print("           del images  del kept    gc.collect()")
for name, (keep, path) in ways.items():
    print(f"{name:10}", end="")
    for pair in zip(in_python(keep), in_our_lines(path), strict=True):
        print("", *pair, end="  ")
    print()


# %% live
import contextlib


def live_tensors():
    found = {}
    for each in gc.get_objects():
        if type(each) in (torch.Tensor, nn.Parameter):
            with contextlib.suppress(RuntimeError):  # a sparse one has none
                memory, shape = each.untyped_storage(), tuple(each.shape)
                place = each.device.type, memory.data_ptr()
                row = found.setdefault(place, [memory.nbytes(), place[0]])
                row.append(shape)
    return sorted(found.values(), reverse=True)


images = pixels.repeat(20, 1)
history, first = [images], images[0]
for row in live_tensors()[:1]:
    print(*row)

# %% holders
for holder in gc.get_referrers(images):
    keys = []
    if isinstance(holder, dict):
        keys = [key for key, value in holder.items() if value is images]
    print(type(holder).__name__, *keys)

# %% mask
images.requires_grad_()
dropped = F.dropout(images)
listed = [row for row in live_tensors() if (35940, 64) in row]
print(listed)
print(dropped.grad_fn._saved_other.nbytes, "bytes of a mask")

# %% after-the-loop
# Wrong on purpose: do not copy.
model, optimizer = build()
for images, labels in loader:
    optimizer.zero_grad()
    scores = model(images)
    loss = F.cross_entropy(scores, labels)
    loss.backward()
    optimizer.step()

print(images.shape, labels.shape, scores.shape, loss.grad_fn.name())


# %% count
def build_again():
    new = build()
    weight = new[0][0].weight
    built.append(weakref.ref(weight.untyped_storage()))
    counts.append(sum(each() is not None for each in built))
    return new


# %% two-at-once
# Wrong on purpose: do not copy.
built, counts = [], []
for _ in range(3):  # a cell that you run three times
    model, optimizer = build_again()
print("models at once:", *counts)

# %% one-at-a-time
built, counts = [], []
for _ in range(3):
    model = optimizer = None
    model, optimizer = build_again()
print("models at once:", *counts)


# %% failing
def load():
    global memory
    images = torch.rand(100, 64)
    memory = weakref.ref(images.untyped_storage())
    raise ValueError("no labels")


# %% traceback
try:
    load()
except ValueError:
    print("in the handler:", in_handler := state(memory))
print("after it:", after_handler := state(memory))

# %% session
import code

session = code.InteractiveInterpreter({"load": load})
session.write = lambda text: print(text.splitlines()[-1])
session.runsource("load()")
gc.collect()
print("after gc.collect():", collected := state(memory))
session.runsource("1 / 0")
print("after another error:", replaced := state(memory))

# %% shown
shown = torch.zeros(2, 2)
memory = weakref.ref(shown.untyped_storage())
session.locals["shown"] = shown
del shown
session.runsource("shown")  # a cell that ends with its name
session.runsource("del shown")
print("after del:", still_shown := state(memory))
session.runsource("'something else'")
print("after another output:", shown_over := state(memory))

# %% circle
trained = cycle(torch.rand(100, 64))
memory = weakref.ref(trained.images.untyped_storage())
del trained
print("after del:", deleted := state(memory))
gc.collect()
print("after gc.collect():", collected := state(memory))

# %% create-graph
import warnings


def mean_square(model):
    return model(pixels).square().mean()


def backward(model):
    mean_square(model).backward(create_graph=True)


def backward_and_reset(model):
    mean_square(model).backward(create_graph=True)
    model.zero_grad()


def grad(model):
    weights = [*model.parameters()]
    torch.autograd.grad(mean_square(model), weights, create_graph=True)


def after_training(train):
    model = nn.Linear(64, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of this leak
        train(model)
    memory = weakref.ref(model.weight.untyped_storage())
    del model
    gc.collect()
    return state(memory)


for train in (backward, backward_and_reset, grad):
    print(f"{train.__name__:18} weights {after_training(train)}")

# %% on-cuda
if torch.cuda.is_available():
    busy = torch.ones(8192, 8192, device="cuda")
    busy @ busy  # sets up what a product needs
    large = torch.ones(2**28, device="cuda")
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(20):
        busy @ busy  # the device is at work
    del large
    freed_at_once = before - torch.cuda.memory_allocated()
    still_busy = not torch.cuda.current_stream().query()
    print(freed_at_once, "bytes, device at work:", still_busy)


# %% gauges
def gauges():
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


# %% synchronize
if torch.cuda.is_available():
    before_synchronize = gauges()
    torch.cuda.synchronize()
    after_synchronize = gauges()
    torch.cuda.empty_cache()
    after_emptying = gauges()
    print(before_synchronize, after_synchronize, after_emptying)

# %% order
if torch.cuda.is_available():
    gc.disable()
    cycle(torch.ones(2**28, device="cuda"))
    torch.cuda.empty_cache()
    emptied_first = gauges()
    gc.collect()
    collected_then = gauges()
    torch.cuda.empty_cache()
    emptied_last = gauges()
    gc.enable()
    print(emptied_first, collected_then, emptied_last)

# %% let-go
images = torch.rand(100, 64)
memory = weakref.ref(images.untyped_storage())
loss = (images @ weight).sum()
del images
before_backward = state(memory)
loss.backward()
after_backward = state(memory)
print(before_backward, after_backward)


# %% keeps
def keeps(function):
    images = torch.rand(100, 64)
    memory = weakref.ref(images.untyped_storage())
    result = function(images)
    del images
    gc.collect()
    kept = memory() is not None
    del result
    return kept


# %% keeps-checked
right = {
    "a list": (lambda images: [images], True),
    "a detached row": (lambda images: images[0].detach(), True),
    "a copied row": (lambda images: images[0].clone(), False),
    "a mean": (lambda images: images.mean(), False),
}
wrong = [name for name, (make, kept) in right.items() if keeps(make) != kept]
if wrong:
    print("Not yet right for", ", ".join(wrong))
else:
    print("Right: a row keeps all hundred images, a copied row doesn't.")
