"""
Let tensors go
==============

Who still holds a tensor, and how to make them let go.
"""

# %% imports
import code
import contextlib
import functools
import gc
import sys
import types
import weakref

import torch
from torch import nn
from torch.nn import functional as F

# %% device
if torch.accelerator.is_available():
    device = torch.accelerator.current_accelerator()
else:
    device = torch.device("cpu")


# %% step
def step(model, optimizer, readings, goals):
    readings, goals = readings.to(device), goals.to(device)
    optimizer.zero_grad()
    loss = F.mse_loss(model(readings), goals)
    loss.backward()
    optimizer.step()
    return loss.item()  # a number, not a tensor


# %% forget
def forget():
    names = "last_exc", "last_type", "last_value", "last_traceback"
    *_, error, trace = (vars(sys).pop(each, None) for each in names)
    if error is not None:  # the last uncaught one
        error.__cause__ = error.__context__ = None
    if isinstance(error, AttributeError):
        error.obj = None  # such as a tensor without this attribute
    if trace is not None:
        trace.tb_next = None  # the functions that it went through


# %% free
def free():
    forget()
    gc.collect()
    if torch.accelerator.is_available():
        torch.get_device_module().empty_cache()


# %% days
torch.manual_seed(0)
days = [(torch.randn(64, 24), torch.randn(64, 1)) for _ in range(3)]
model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 1))
optimizer = torch.optim.AdamW(model.to(device).parameters(), lr=0.01)

# %% do-this
losses = [step(model, optimizer, *day) for day in days]
print(losses)

table = torch.zeros(1000, 1000)  # something large
del table  # first each of its names,
free()  # then this


# %% functions
def hooked(table):
    layer = nn.Linear(1, 1)
    layer.register_forward_hook(lambda *_: table)
    return layer


def cached(table):
    mean = functools.cache(torch.mean)
    mean(table)
    return mean


# %% error-and-cycle
def caught(table):
    try:
        raise ValueError("no such station")
    except ValueError as error:
        return error


def cycle(table):
    box = [table]
    box.append(box)  # it leads back to itself


# %% keepers
weight = torch.ones(1000, requires_grad=True)

keepers = {
    "nothing else": lambda table: None,
    "a list": lambda table: [table],
    "a row of it": lambda table: table[0],
    "a graph": lambda table: table @ weight,
    "a closure": lambda table: lambda: table,
    "a default": lambda table: lambda readings=table: readings,
}
keepers |= {"a hook": hooked, "a cache": cached}
keepers |= {"a caught error": caught, "a cycle": cycle}

# %% watch
gc.disable()  # else the collector may come in between
watched, kept = {}, {}
for name, keep in keepers.items():
    table = torch.zeros(1000, 1000)
    watched[name] = weakref.ref(table)  # sees it without holding it
    kept[name] = keep(table)
    del table


# %% stages
def held():
    return [name for name, watch in watched.items() if watch() is not None]


stages = {"del table": held()}
gc.collect()
stages["gc.collect()"] = held()
kept.clear()  # the lists, rows, graphs … themselves go
stages["the holder goes"] = held()
gc.enable()

# %% drawn
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 4))
for x, names in enumerate(stages.values()):
    for y, name in enumerate(keepers):
        if name in names:
            axis.barh(y, 0.9, left=x - 0.45, color="#0072B2")
        text, color = ("held", "w") if name in names else ("free", "k")
        axis.text(x, y, text, ha="center", va="center", color=color)
axis.set_xticks(range(3), [f"after {stage}" for stage in stages])
axis.set_yticks(range(len(keepers)), keepers)
axis.set(xlim=(-0.5, 2.5), ylim=(len(keepers) - 0.5, -0.5))
axis.set_title("Which tables are still held")
plt.show()


# %% live-tensors
def live_tensors():
    kinds = torch.Tensor, nn.Parameter
    seen = [each for each in gc.get_objects() if type(each) in kinds]
    own = [each for each in seen if each.is_leaf or each.retains_grad]
    seen += [each.grad for each in own]  # which C++ alone may hold
    found = {}
    for each in {id(each): each for each in seen}.values():
        if each is None or each.is_meta:
            continue
        with contextlib.suppress(RuntimeError):  # such as of a sparse one
            storage, shape = each.untyped_storage(), tuple(each.shape)
            key = each.device, storage.data_ptr()
            new = [storage.nbytes(), each.device.type]
            found.setdefault(key, new).append(shape)
    return sorted((row for row in found.values() if row[0]), reverse=True)


# %% ask-live
station = torch.zeros(1000, 1000)
first = station[0]
history = [station]

for row in live_tensors()[:3]:
    print(*row)


# %% role
def role(holder, thing):
    kind = type(holder)  # the holder itself may answer anything
    if kind is types.FrameType:
        return f"the names of {holder.f_code.co_name}()"
    if issubclass(kind, dict):
        keys = [key for key, value in dict.items(holder) if value is thing]
        keys += ["a key" for key in dict.keys(holder) if key is thing]
        return f"{dict.get(holder, '__name__', 'a dict')}: {keys}"
    if kind is types.FunctionType:
        return f"function {holder.__qualname__}"
    return kind.__name__


# %% holders
def holders(thing):
    found = []  # a comprehension would hold the thing itself
    for holder in gc.get_referrers(thing):
        found.append(role(holder, thing))
    return found


# %% ask-holders
def forecast(readings=station):
    return readings.mean()


print(holders(station))
print(holders(forecast.__defaults__))

# %% mask
readings = torch.ones(1000, 500, requires_grad=True)
dropped = F.dropout(readings)

listed = [row for row in live_tensors() if (1000, 500) in row]
print(listed)
print(dropped.grad_fn._saved_other.nbytes, "bytes of a mask")

# %% after-the-loop
# Wrong on purpose: do not copy.
for readings, goals in days:
    output = model(readings.to(device))
    loss = F.mse_loss(output, goals.to(device))

print(readings.shape, output.shape, loss.grad_fn.name())

# %% in-a-function
outputs = []
hook = model.register_forward_hook(
    lambda *given: outputs.append(weakref.ref(given[-1]))
)
losses = [step(model, optimizer, *day) for day in days]
hook.remove()

print(losses, [watch() for watch in outputs])


# %% count-living
def predict(readings):
    output = model(readings.to(device))
    outputs.append(weakref.ref(output))
    counts.append(sum(watch() is not None for watch in outputs))
    return output


# %% two-at-once
# Wrong on purpose: do not copy.
outputs, counts = [], []
for readings, _ in days:
    output = predict(readings)

print("alive at once:", counts)

# %% one-at-a-time
outputs, counts = [], []
for readings, _ in days:
    output = predict(readings)
    del output

print("alive at once:", counts)


# %% failing
def load():
    readings = torch.zeros(1000, 1000)
    outputs.append(weakref.ref(readings))
    raise ValueError("no such station")


def shape():
    return getattr(outputs[-1](), "shape", None)


# %% traceback
try:
    load()
except ValueError:
    print("in the handler:", in_handler := shape())
print("after it:", after_handler := shape())

# %% session
session = code.InteractiveInterpreter({"torch": torch, "seen": outputs})
session.write = print
source = """
import weakref
def load():
    readings = torch.zeros(1000, 1000)
    seen.append(weakref.ref(readings))
    raise ValueError("no such station")
load()
"""
session.runsource(source, symbol="exec")

# %% after-the-error
gc.collect()
print("after gc.collect():", collected := shape())
free()
print("after free():", freed := shape())

# %% shown
session.runcode("table = torch.zeros(2, 2); seen.append(weakref.ref(table))")
session.runsource("table")  # a cell that ends with its name
session.runcode("del table")
print("after del:", still_shown := shape())
session.runsource("'something else'")
print("after another output:", shown_over := shape())

# %% create-graph
import warnings


def square_error(model):
    return model(torch.ones(1, 1000)).square().mean()


def backward(model):
    square_error(model).backward(create_graph=True)


def backward_and_reset(model):
    square_error(model).backward(create_graph=True)
    model.zero_grad()


def grad(model):
    weights = [*model.parameters()]
    torch.autograd.grad(square_error(model), weights, create_graph=True)


def outlives(train):
    model = torch.nn.Linear(1000, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of this leak
        train(model)
    weight = weakref.ref(model.weight)
    del model
    gc.collect()
    return weight() is not None


for train in (backward, backward_and_reset, grad):
    print(f"{train.__name__:18} leaves the model: {outlives(train)}")

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


# %% fit
def fit(with_reset):
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(30):
        if with_reset:
            optimizer.zero_grad()
        loss = F.mse_loss(weight, torch.tensor([3.0]))
        loss.backward()
        optimizer.step()
    return loss.item()


print(fit(with_reset=True), fit(with_reset=False))

# %% misspelt
# Wrong on purpose: do not copy.
loop = """
for input, target in pairs:
    x, y = input.to("cpu"), output.to("cpu")
"""

try:
    exec(loop, {"pairs": days})
except NameError as error:
    print(error)
