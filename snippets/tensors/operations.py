"""
Operations
==========

Reduce, compare, multiply, join and split the temperatures of three days.
"""

# %% do-this
import torch

temps = torch.tensor([[-5.0, 16.0], [3.0, 19.0], [14.0, 13.0]])
of_cities = temps.mean(dim=0)  # over the days
of_days = temps.mean(dim=1)  # over the cities
in_the_day = temps - temps.mean(dim=1, keepdim=True)

print(of_cities)
print(of_days)
print(in_the_day)

# %% axes
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for row, days in enumerate(temps.tolist()):
    for column, number in enumerate(days):
        axes.text(column - 0.1, row - 0.1, f"{number:g}", ha="right")
colors = "#0072B2", "#D55E00"
down, along = ({"arrowstyle": "<-", "color": color} for color in colors)
for i, mean in enumerate(of_cities):
    axes.annotate(f"{mean:g}", (i, -0.6), (i, 3), arrowprops=down, ha="center")
for i, mean in enumerate(of_days):
    axes.annotate(
        f"{mean:g}", (-0.6, i), (2, i), arrowprops=along, va="center"
    )
axes.set(xlim=(-0.7, 2.2), ylim=(3.3, -0.7), xticks=(), yticks=())
axes.set_title("mean(dim=0) goes down the days, mean(dim=1) along the cities")
plt.show()

# %% largest
warmest = temps.max(dim=0)
position = temps.argmax()  # of all numbers, counted row by row

print(warmest.values, warmest.indices)
print(position, torch.unravel_index(position, temps.shape))

# %% spread
spreads = (temps.std(dim=0), temps.std(dim=0, correction=0))
middles = (temps.median(), temps.quantile(0.5))

print(*spreads)
print(*middles)

# %% compare
warm = temps > 3
some, every, count = warm.any(dim=1), warm.all(dim=1), warm.sum(dim=1)

back = temps * 1.8 / 1.8
near = torch.isclose(back, temps)
all_near, equal = torch.allclose(back, temps), torch.equal(back, temps)

print(some, every, count)
print(back == temps, equal)
print(near, all_near)


# %% shape-of
def shape_of(product, left, right):
    try:
        return str(tuple(product(torch.ones(left), torch.ones(right)).shape))
    except RuntimeError:
        return "raises"


# %% products
products = [torch.matmul, torch.mm, torch.mv, torch.dot, torch.bmm]
accepted = {}
pairs = [[(3, 2), (2, 4)], [(3, 2), (2,)], [(2,), (2,)]]
pairs += [[(5, 3, 2), (5, 2, 4)], [(1, 3, 2), (5, 2, 4)], [(5, 3, 2), (2, 4)]]
for left, right in pairs:
    shapes = {each.__name__: shape_of(each, left, right) for each in products}
    accepted[f"{left} and {right}"] = shapes

# %% products-table
import pandas as pd

pd.DataFrame.from_dict(accepted, orient="index")

# %% join
forecast = torch.tensor([[-4.0, 16.0], [5.0, 18.0], [12.0, 13.0]])
longer = torch.cat([temps, forecast])
both = torch.stack([temps, forecast])

print(longer.shape, both.shape)

# %% cut
days = torch.arange(10)
by_size = days.split(4)
at_most = days.chunk(6)
exactly = days.tensor_split(6)

for parts in (by_size, at_most, exactly):
    print(len(parts), "parts:", [len(part) for part in parts])

# %% in-place
warmed = temps.clone()
returned = warmed.clamp_(min=0)

print(warmed)

# %% shares
shares = torch.tensor([[0.25, 0.75], [0.5, 0.5]])

# %% number-by-number
does = {
    "temps * forecast": "the product of each pair of numbers",
    "temps.pow(2)": "the square of each number",
    "temps.abs()": "each number without its sign",
    "shares.exp()": "e to the power of each number",
    "shares.log()": "the natural logarithm of each number",
    "shares.sqrt()": "the square root of each number",
    "temps.clamp(0, 15)": "each number, but 0 if lower and 15 if higher",
    "torch.minimum(temps, forecast)": "the lower number of each pair",
    "torch.maximum(temps, forecast)": "the higher number of each pair",
}

# %% compare-and-join
does |= {
    "temps > 10": "whether each number is above 10",
    "temps == forecast": "whether the numbers of each pair are equal",
    "torch.equal(temps, forecast)": "whether shape and numbers are equal",
    "(temps > 10).any()": "whether any number is above 10",
    "(temps > 10).all(dim=1)": "whether all numbers of each row are above 10",
    "torch.where(temps > 10, temps, 0)": "numbers above 10, else 0",
    "torch.cat([temps, forecast])": "the rows of both, one after the other",
    "torch.stack([temps, forecast])": "both, on a new first axis",
    "temps.split(2)": "parts of two rows, the last maybe shorter",
}

# %% of-many
does |= {
    "temps.sum()": "the sum of all numbers",
    "temps.mean()": "the mean of all numbers",
    "temps.std()": "the standard deviation, over the count less one",
    "temps.amin()": "the lowest number",
    "temps.amax(dim=1)": "the highest number of each row",
    "temps.argmax(dim=1)": "where the highest number of each row stands",
    "temps.median()": "the middle number, the lower one of two",
    "temps.cumsum(dim=0)": "each column, added up so far",
    "torch.linalg.vector_norm(temps)": "the root of the sum of all squares",
}

# %% order-and-matrices
does |= {
    "temps.unique()": "the different numbers, in ascending order",
    "temps.sort(dim=0)": "each column ascending, and from where",
    "temps.argsort(dim=0)": "from where to take each column ascending",
    "temps.topk(2, dim=0)": "the two highest of each column, and from where",
    "temps @ shares": "the product of two matrices",
    "torch.einsum('ij,jk->ik', temps, shares)": "products added up over j",
    "shares.triu()": "the matrix with zeros below the diagonal",
    "shares.diag()": "the diagonal of the matrix",
}


# %% shown
def shown(result):
    if isinstance(result, torch.Tensor):
        result = result.tolist()
    if isinstance(result, list | tuple):
        return f"[{', '.join(shown(each) for each in result)}]"
    return f"{result:.4g}" if isinstance(result, float) else str(result)


rows = {c: {"what": w, "gives": shown(eval(c))} for c, w in does.items()}

# %% table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")


# %% refusal
def refusal(code):
    try:
        eval(code)
    except (RuntimeError, TypeError) as error:
        return str(error)


# %% wrong-shapes
# Wrong on purpose: do not copy.
misfits = [
    "temps - of_days",
    "temps @ forecast",
    "torch.nn.Linear(4, 2)(temps)",
    "torch.bmm(temps, shares)",
    "torch.bmm(torch.ones(1, 3, 2), torch.ones(5, 2, 4))",
    "torch.cat([temps, torch.ones(3, 3)])",
    "torch.stack([temps, temps.T])",
]
for code in misfits:
    print(code, "->", refusal(code), end="\n\n")

# %% wrong-dim
# Wrong on purpose: do not copy.
scores = torch.tensor([0.1, 2.0, 0.3])  # three classes, one sample
try:
    scores.argmax(dim=1)
except IndexError as error:
    out_of_range = str(error)
    print(out_of_range)

# %% silent-shapes
# Wrong on purpose: do not copy.
square = temps[:2]
right = square - square.mean(dim=1, keepdim=True)
wrong = square - square.mean(dim=1)

print("should be:", right)
print("is:       ", wrong)

# %% wrong-types
# Wrong on purpose: do not copy.
counts = torch.tensor([3, 4])
refused = [
    "counts.mean()",
    "counts.std()",
    "counts.div_(2)",
    "counts.add_(0.5)",
    "'warm' if warm else 'cold'",
]
for code in refused:
    print(code, "->", refusal(code), end="\n\n")

# %% where
# Wrong on purpose: do not copy.
degrees = torch.tensor([-4.0, 0.0, 0.25, 9.0], requires_grad=True)
roots = torch.where(degrees > 0, degrees.sqrt(), 0)
roots.sum().backward()

print(roots.detach(), degrees.grad)

# %% where-first
learned = torch.tensor([-4.0, 0.0, 0.25, 9.0], requires_grad=True)
inside = torch.where(learned > 0, learned, 1)
safe = torch.where(learned > 0, inside.sqrt(), 0)
safe.sum().backward()

print(safe.detach(), learned.grad)

# %% beyond
logs = torch.tensor([-1.0, 0.0]).log()
ratios = torch.tensor([1.0, 0.0]) / 0
gap = torch.tensor([12.0, torch.nan, 15.0])
means = (gap.mean(), gap.nanmean())
itself = gap == gap

print(logs, ratios)
print(*means, itself)
