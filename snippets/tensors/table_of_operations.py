"""
Table of operations
===================

What each call gives, which product takes which shapes, and where nan begins.
"""

# %% operands
import torch

x = torch.tensor([[-5.0, 16.0], [3.0, 19.0], [14.0, 13.0]])
y = torch.tensor([[-4.0, 16.0], [5.0, 18.0], [12.0, 13.0]])
m = torch.tensor([[0.25, 0.75], [0.5, 0.5]])


# %% shown
def shown(result):
    if isinstance(result, torch.Tensor):
        result = result.tolist()
    if isinstance(result, list | tuple):
        return f"[{', '.join(shown(each) for each in result)}]"
    return f"{result:.4g}" if isinstance(result, float) else str(result)


def table(calls):
    return {c: {"what": w, "gives": shown(eval(c))} for c, w in calls.items()}


# %% number-by-number
number_by_number = {
    "x * y": "the product of each pair of numbers",
    "x % 4": "the remainder of a division by 4, 0 or more",
    "x.pow(2)": "the square of each number",
    "x.abs()": "each number without its sign",
    "x.sign()": "-1 below 0, 0 at 0 and 1 above 0",
    "(x / 4).round()": "a quarter of each number, rounded, halves to even",
    "x.clamp(0, 15)": "each number, but 0 if lower and 15 if higher",
    "x.relu()": "each number, but 0 if lower",
    "m.sigmoid()": "1 / (1 + e to the power of minus each number)",
    "m.exp()": "e to the power of each number",
    "m.log()": "the natural logarithm of each number",
    "m.sqrt()": "the square root of each number",
    "torch.minimum(x, y)": "the lower number of each pair",
    "torch.maximum(x, y)": "the higher number of each pair",
}

# %% number-by-number-table
import pandas as pd

pd.set_option("display.max_colwidth", None)
pd.DataFrame.from_dict(table(number_by_number), orient="index")

# %% comparisons
comparisons = {
    "x > 10": "whether each number is above 10",
    "x == y": "whether the numbers of each pair are equal",
    "torch.equal(x, y)": "whether shape and numbers are equal",
    "(x > 10) & (y > 10)": "whether both numbers of each pair are above 10",
    "(x > 10).any()": "whether any number is above 10",
    "(x > 10).all(dim=1)": "whether all numbers of each row are above 10",
    "(x > 10).sum()": "how many numbers are above 10",
    "torch.where(x > 10, x, 0)": "numbers above 10, else 0",
}

# %% comparisons-table
import pandas as pd

pd.DataFrame.from_dict(table(comparisons), orient="index")

# %% reductions
reductions = {
    "x.sum()": "the sum of all numbers",
    "x.prod(dim=1)": "the product of each row",
    "x.mean()": "the mean of all numbers",
    "x.std()": "the standard deviation, over the count less one",
    "x.var()": "the variance, over the count less one",
    "x.amin()": "the lowest number",
    "x.amax(dim=1)": "the highest number of each row",
    "x.max(dim=1)": "the highest number of each row, and where it is",
    "x.argmax(dim=1)": "where the highest number of each row is",
    "x.median()": "the middle number, the lower one of two",
    "x.quantile(0.5)": "the middle number, halfway between two",
    "x.logsumexp(dim=1)": "the log of the sum of e to each number of a row",
    "torch.linalg.vector_norm(x)": "the root of the sum of all squares",
}

# %% reductions-table
import pandas as pd

pd.DataFrame.from_dict(table(reductions), orient="index")

# %% joins
joins = {
    "torch.cat([x, y])": "the rows of both, one after the other",
    "torch.stack([x, y])": "both, on a new first axis",
    "x.split(2)": "parts of two rows, the last may be shorter",
    "x.unbind()": "the rows, one by one",
}

# %% joins-table
import pandas as pd

pd.DataFrame.from_dict(table(joins), orient="index")

# %% orders
orders = {
    "x.sort()": "each row ascending, and from where",
    "x.sort(dim=0)": "each column ascending, and from where",
    "x.argsort(dim=0)": "from where to take each column ascending",
    "x.topk(2, dim=0)": "the two highest of each column, and from where",
    "x.unique()": "the different numbers, in ascending order",
    "x.flip(0)": "the rows in reverse order",
    "x.cumsum(dim=0)": "each column, added up so far",
    "x.softmax(dim=1)": "e to each number, over the sum of these per row",
}

# %% orders-table
import pandas as pd

pd.DataFrame.from_dict(table(orders), orient="index")

# %% matrices
matrices = {
    "x @ m": "the product of two matrices",
    "x @ m[0]": "the product of a matrix and a vector",
    "torch.einsum('ij,jk->ik', x, m)": "products added up over j",
    "torch.outer(m[0], m[1])": "each number of a vector times each of another",
    "m.triu()": "the matrix with zeros below the diagonal",
    "m.tril()": "the matrix with zeros above the diagonal",
    "m.diag()": "the diagonal of a matrix",
    "m[0].diag()": "a matrix of zeros with the vector on its diagonal",
    "m.trace()": "the sum of the diagonal",
}

# %% matrices-table
import pandas as pd

pd.DataFrame.from_dict(table(matrices), orient="index")


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

# %% axis
by_torch = x.mean(dim=0)
by_numpy = x.numpy().mean(axis=0)

print(by_torch, by_numpy)

# %% several
of_all = x.amax(dim=(0, 1))
try:
    x.max(dim=(0, 1))
except TypeError as error:
    one_only = str(error)

print(of_all, "max raises:", one_only.splitlines()[0])

# %% spread
spreads = (x.std(dim=0), x.std(dim=0, correction=0))
middles = (x.median(), x.quantile(0.5))

print(*spreads)
print(*middles)

# %% cut
days = torch.arange(10)
by_size = days.split(4)
at_most = days.chunk(6)
exactly = days.tensor_split(6)

for parts in (by_size, at_most, exactly):
    print(len(parts), "parts:", [len(part) for part in parts])

# %% compare
back = x * 1.8 / 1.8
near = torch.isclose(back, x)
all_near, equal = torch.allclose(back, x), torch.equal(back, x)

print(back == x, equal)
print(near, all_near)

# %% in-place
clipped = x.clone()
returned = clipped.clamp_(min=0)

print(clipped)


# %% refusal
def refusal(code):
    try:
        eval(code)
    except (RuntimeError, TypeError) as error:
        return str(error)


# %% wrong-shapes
# Wrong on purpose: do not copy.
misfits = [
    "x - x.mean(dim=1)",
    "x @ y",
    "torch.nn.Linear(4, 2)(x)",
    "torch.bmm(x, m)",
    "torch.bmm(torch.ones(1, 3, 2), torch.ones(5, 2, 4))",
    "torch.cat([x, torch.ones(3, 3)])",
    "torch.stack([x, x.T])",
]
for code in misfits:
    print(code, "->", refusal(code), end="\n\n")

# %% wrong-types
# Wrong on purpose: do not copy.
counts = torch.tensor([3, 4])
refused = ["counts.div_(2)", "counts.add_(0.5)"]
for code in refused:
    print(code, "->", refusal(code), end="\n\n")

# %% where
# Wrong on purpose: do not copy.
numbers = torch.tensor([-4.0, 0.0, 0.25, 9.0], requires_grad=True)
roots = torch.where(numbers > 0, numbers.sqrt(), 0)
roots.sum().backward()

print(roots.detach(), numbers.grad)

# %% where-first
numbers = torch.tensor([-4.0, 0.0, 0.25, 9.0], requires_grad=True)
inside = torch.where(numbers > 0, numbers, 1)
safe = torch.where(numbers > 0, inside.sqrt(), 0)
safe.sum().backward()

print(safe.detach(), numbers.grad)

# %% beyond
logs = torch.tensor([-1.0, 0.0]).log()
ratios = torch.tensor([1.0, 0.0]) / 0
gap = torch.tensor([12.0, torch.nan, 15.0])
means = (gap.mean(), gap.nanmean())
itself = gap == gap

print(logs, ratios)
print(*means, itself)
