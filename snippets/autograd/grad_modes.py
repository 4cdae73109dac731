"""
Use no_grad and inference_mode
==============================

Where the two modes begin and end, and what they leave behind.
"""

# %% apartments
import torch
from torch import nn

torch.manual_seed(0)
apartments = torch.rand(64, 2)  # size, and distance from the center
model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))

# %% do-this
model.eval()
with torch.no_grad():  # around a block
    prices = model(apartments)


@torch.no_grad()  # or above a function
def predict(apartments):
    return model(apartments)


print(prices[0], predict(apartments)[0])

# %% by-hand
weight = torch.tensor(2.0, requires_grad=True)
recorded = weight * 3
with torch.no_grad():
    unrecorded = weight * 3
with torch.inference_mode():
    inferred = weight * 3

for result in (recorded, unrecorded, inferred):
    print(result, result.is_inference())

# %% backward
with torch.no_grad():
    recorded.backward()

print(weight.grad)

# %% leaves
with torch.no_grad():
    offset = nn.Parameter(torch.zeros(1))
    factor = torch.ones(1, requires_grad=True)
    total = offset + factor

print(offset, factor, total, sep="\n")

# %% nested
with torch.no_grad():
    paused = weight * 3
    with torch.enable_grad():
        again = weight * 3
with torch.inference_mode():
    with torch.enable_grad():
        forgotten, enabled = weight * 3, torch.is_grad_enabled()
    with torch.inference_mode(False):
        normal = weight * 3

print("no_grad:", paused, "enable_grad inside:", again)
print("inference_mode, enable_grad inside:", forgotten, enabled)
print("inference_mode(False) inside:", normal)


# %% error-of
def error_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)


# %% train-on-it
# Wrong on purpose: do not copy.
training_error = error_of(lambda: weight * inferred)
print(training_error)

# %% clone
weight.grad = None
copy = inferred.clone()
(weight * copy).backward()

print(weight.grad)


# %% built-inside
# Wrong on purpose: do not copy.
def build():
    return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))


with torch.inference_mode():
    built_inside = build()

building_error = error_of(lambda: built_inside(apartments))
print(building_error)


# %% cache
# Wrong on purpose: do not copy.
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.weights = None, nn.Parameter(torch.ones(2))

    def forward(self, apartments):
        if self.scale is None:
            self.scale = 1 / apartments.std(0)  # kept for later passes
        return (apartments * self.weights * self.scale).sum(1)


# %% validated-first
# Wrong on purpose: do not copy.
scaled = Scaled()
with torch.inference_mode():
    scaled(apartments)

cached_error = error_of(lambda: scaled(apartments))
print(cached_error)


# %% in-place
# Wrong on purpose: do not copy.
with torch.inference_mode():
    total_loss = weight * 3

try:
    total_loss /= 2
except RuntimeError as error:
    print(error)

print(total_loss)

# %% divided
with torch.inference_mode():
    total_loss = weight * 3

print(total_loss / 2)

# %% ask
# Wrong on purpose: do not copy.
asking_error = error_of(lambda: inferred.requires_grad_())
print(asking_error)


# %% leaking
# Wrong on purpose: do not copy.
head = torch.tensor(3.0, requires_grad=True)


def features():
    with torch.no_grad():
        for size in (1.0, 2.0):
            yield weight * size


for feature in features():
    loss = (head * feature - 10).square()
    print(loss)


# %% tight
@torch.no_grad()
def tight_features():
    for size in (1.0, 2.0):
        yield weight * size


for feature in tight_features():
    loss = (head * feature - 10).square()
    print(loss)


# %% async-def
# Wrong on purpose: do not copy.
@torch.no_grad()
async def triple():
    return weight * 3


coroutine = triple()
try:
    coroutine.send(None)  # as an event loop does
except StopIteration as finished:
    tripled = finished.value
print(tripled)

# %% threads
from concurrent.futures import ThreadPoolExecutor

with torch.no_grad(), ThreadPoolExecutor() as pool:
    here = weight * 3
    there = pool.submit(lambda: weight * 3).result()

print(here, there)

# %% view
weights = torch.tensor([2.0, 3.0], requires_grad=True)
with torch.no_grad():
    view = weights[0]

(view * 5).backward()
print(view, weights.grad)

# %% half-recorded
weight = torch.tensor(2.0, requires_grad=True)
with torch.no_grad():
    hidden = weight * 3
(weight * hidden).backward()
print(weight.grad)
