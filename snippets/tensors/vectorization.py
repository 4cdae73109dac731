"""
Vectorization
=============

The same answers from a loop and from a few calls, and what each of them costs.
"""

# %% rain
import torch

readings = torch.tensor(  # mm of rain: a station per row, a day per column
    [[0.0, 4, 9, 0, 2, 1], [3, 0, 1, 7, 0, 0], [5, 8, -1, 0, 0, 6]]
)
region = torch.tensor([0, 1, 0])  # of each station

# %% do-this
rain = torch.where(readings < 0, 0.0, readings)  # an if
capped = rain.clone()
capped[capped > 6] = 6  # an if that overwrites
total = rain.sum(dim=1)  # an inner loop
so_far = rain.cumsum(dim=1)  # a running total
three_days = rain.unfold(1, 3, 1).sum(dim=2)  # a moving window
by_region = torch.zeros(2).index_add(0, region, total)  # a sum per group
stations = region.bincount(minlength=2)  # a count per group
gaps = total[:, None] - total[None, :]  # two loops, for all pairs

print(rain, capped, total, so_far, sep="\n")
print(three_days, by_region, stations, gaps, sep="\n")


# %% loop
# Wrong on purpose: do not copy.
def wettest(rain):
    best = torch.full([len(rain)], -torch.inf)
    for s in range(len(rain)):
        for amount in rain[s]:
            if amount > best[s]:
                best[s] = amount
    return best


print(wettest(rain))

# %% call
most = rain.amax(dim=1)
print(most)

# %% watch
from torch.utils._python_dispatch import TorchDispatchMode


class Watch(TorchDispatchMode):
    def __enter__(self):
        self.calls, self.bytes = [], []
        return super().__enter__()

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        result = call(*args, **(kwargs or {}))
        self.calls.append(call.__name__)
        self.bytes.append(getattr(result, "nbytes", 0))
        return result


# %% watch-use
def watched(way, *tables):
    with Watch() as watch:
        way(*tables)
    return watch


ways = {
    "a loop over numbers": wettest,
    "a loop over stations": lambda rain: torch.stack([r.amax() for r in rain]),
    "amax(dim=1)": lambda rain: rain.amax(dim=1),
}
for name, way in ways.items():
    print(f"{len(watched(way, rain).calls):3} calls  {name}")

# %% calls-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
stations, inks = range(1, 41), ["#D55E00", "black", "#0072B2"]
for (name, way), ink in zip(ways.items(), inks, strict=True):
    calls = [len(watched(way, torch.ones(s, 30)).calls) for s in stations]
    ax.semilogy(stations, calls, color=ink)
    ax.annotate(name, (30, calls[29]), (0, -13), textcoords="offset points")
ax.set(title="Calls of torch for the wettest of 30 days", ylim=(0.3, 1e4))
ax.set(xlabel="stations", ylabel="calls")
plt.show()

# %% einsum
half = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3)  # of the six days
per_half = torch.einsum("sd,dh->sh", rain, half)  # product
years, halves = torch.stack([rain, 2 * rain]), torch.stack([half, half])
per_year = torch.einsum("ysd,ydh->ysh", years, halves)  # batch product
alike = torch.einsum("sd,td->st", rain, rain)  # all pairs of rows

print(per_half, per_year, alike, sep="\n")


# %% vmap
def share(days):  # of the wettest day, written for one station
    return days.max() / days.sum()


shares = torch.vmap(share)(rain)
print(shares)

# %% if-of-many
# Wrong on purpose: do not copy.
try:
    if readings < 0:
        print("a faulty reading")
except RuntimeError as error:
    print(error)

# %% lost
# Wrong on purpose: do not copy.
lost = torch.zeros(2)
lost[region] += total

print("should be:", by_region)
print("is:       ", lost)

# %% wrong-axis
# Wrong on purpose: do not copy.
shifted = rain.roll(1, dims=1)  # the day before
wrong = torch.cosine_similarity(rain, shifted, dim=0)

print("should be:", torch.cosine_similarity(rain, shifted, dim=1))
print("is:       ", wrong)

# %% missing
broken = rain.clone()
broken[0, 1] = torch.nan
known = broken.masked_fill(broken.isnan(), -torch.inf)

print(wettest(broken), broken.amax(dim=1), known.amax(dim=1))

# %% both-sides
# Wrong on purpose: do not copy.
amount = torch.tensor([0.0, 4.0], requires_grad=True)
logs = torch.where(amount > 0, amount.log(), 0.0)
logs.sum().backward()

print(logs, amount.grad)

# %% both-sides-safe
amount.grad = None
safe = torch.where(amount > 0, amount, 1.0)
logs = torch.where(amount > 0, safe.log(), 0.0)
logs.sum().backward()

print(logs, amount.grad)


# %% all-pairs
def distances(a, b):
    return (a[:, None] - b[None, :]).square().sum(dim=2).sqrt()


def in_chunks(a, b):
    return torch.cat([distances(rows, b) for rows in a.split(20)])


torch.manual_seed(0)
month = 10 * torch.rand(200, 30)  # 200 stations, 30 days
pairs = {"all at once": distances, "in chunks": in_chunks}
pairs["cdist"] = torch.cdist

# %% all-pairs-bytes
largest = {}
for name, way in pairs.items():
    largest[name] = max(watched(way, month, month).bytes)
    print(f"{largest[name]:9,} bytes  {name}")

# %% too-many-pairs
# Wrong on purpose: do not copy.
many = torch.zeros(1, 30).expand(100_000_000, 30)
try:
    distances(many, many)
except RuntimeError as error:
    print(error)

# %% from-itself
few, more, exact = month[:25], month[:26], "donot_use_mm_for_euclid_dist"
from_few = torch.cdist(few, few).diagonal()
from_more = torch.cdist(more, more).diagonal()
from_exact = torch.cdist(more, more, compute_mode=exact).diagonal()

print(from_few.max(), from_more.max(), from_exact.max())

# %% rounding
running = torch.tensor(0.0)
for amount in month.flatten():
    running += amount
at_once = month.sum()

print("one by one:", running.item(), "sum():", at_once.item())
print("float64:", month.double().sum().item())

# %% digits
counts = torch.tensor([[16777217, 0], [3, 2]])
looped, called = wettest(counts), counts.amax(dim=1)

print(looped.long(), called)


# %% soil
def soil(rain):  # half drains away each day, and 10 mm is the most it holds
    level, levels = torch.zeros(len(rain)), []
    for day in rain.unbind(dim=1):
        level = (0.5 * level + day).clamp(max=10)
        levels.append(level)
    return torch.stack(levels, dim=1)


print(soil(rain))
