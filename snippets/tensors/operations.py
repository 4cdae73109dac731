"""
Operations
==========

What can be computed with tensors, each operation run on the same numbers.
"""

# %% numbers
import torch

x = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
y = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
v = torch.tensor([1.0, 10.0])


# %% run
def shown(result):
    if isinstance(result, torch.Tensor):
        if result.is_floating_point():
            result = result.double().round(decimals=2)
        return str(result.tolist())
    return ", ".join(shown(part) for part in result)


def run(operations):
    return {
        code: {"does": does, "gives": shown(eval(code))}
        for code, does in operations.items()
    }


# %% between
between = {
    "x + y": "adds, number by number",
    "x - y": "subtracts, number by number",
    "x * y": "multiplies, number by number",
    "x / y": "divides, number by number",
    "x @ y": "multiplies two matrices",
    "x.pow(2)": "raises each number to a power",
    "x.T": "swaps rows and columns",
}
between_rows = run(between)

# %% between-table
import pandas as pd

pd.DataFrame.from_dict(between_rows, orient="index")

# %% each
each = {
    "x.abs()": "drops the sign of each number",
    "x.exp()": "e to the power of each number",
    "x.log()": "natural logarithm of each number",
    "x.sqrt()": "square root of each number",
    "x.sin()": "sine of each number, in radians",
    "x.cos()": "cosine of each number",
    "x.tan()": "tangent of each number",
}
each_rows = run(each)

# %% each-table
import pandas as pd

pd.DataFrame.from_dict(each_rows, orient="index")

# %% summary
summary = {
    "x.sum()": "adds up all numbers",
    "x.mean()": "the mean",
    "x.std()": "the standard deviation, over n - 1",
    "x.min()": "the smallest number",
    "x.max()": "the largest number",
    "x.argmax()": "position of the largest, counted row by row",
    "x.argsort()": "positions that sort each row",
    "x.unique()": "the different numbers, sorted",
    "torch.norm(x)": "root of the sum of all squares",
    "torch.trace(x)": "sum of the diagonal",
}
summary_rows = run(summary)

# %% summary-table
import pandas as pd

pd.DataFrame.from_dict(summary_rows, orient="index")

# %% build
build = {
    "torch.cat([x, y], dim=0)": "puts y below x",
    "torch.stack([x, y], dim=0)": "puts x and y on a new axis",
    "torch.split(x, 1, dim=0)": "cuts into parts of 1 row each",
    "torch.chunk(x, 2, dim=0)": "cuts into at most 2 parts",
    "torch.where(x > 0, x, y)": "takes from x where true, else from y",
    "torch.masked_select(x, x > 0)": "picks where true, in one flat tensor",
    "torch.nonzero(x > 0)": "positions of what is true",
    "torch.sort(x, dim=0)": "sorts each column, and tells from where",
    "torch.topk(x, k=1, dim=0)": "the k largest of each column, and where",
    "torch.diag(x)": "the diagonal of a matrix",
    "torch.triu(x)": "zero below the diagonal",
    "torch.tril(x)": "zero above the diagonal",
}
build_rows = run(build)

# %% build-table
import pandas as pd

pd.DataFrame.from_dict(build_rows, orient="index")

# %% products
products = {
    "torch.mm(x, y)": "two matrices",
    "torch.mv(x, v)": "a matrix and a vector",
    "torch.dot(v, v)": "two vectors",
    "torch.matmul(x, y)": "any of these, and batches; the same as @",
    "torch.einsum('ij, jk -> ik', x, y)": "sums over the letter that vanishes",
    "torch.bmm(x[None], y[None])": "two batches of matrices",
    "torch.baddbmm(x[None], x[None], y[None])": "adds a batch to a product",
}
product_rows = run(products)

# %% product-table
import pandas as pd

pd.DataFrame.from_dict(product_rows, orient="index")

# %% deviation
print(x.std())
print(x.std(correction=0))

# %% no-exponent
try:
    x.pow()
except TypeError as error:
    print(str(error).partition(" - ")[0])

# %% beyond
print(torch.tensor([-1.0, 0.0]).log())
print(torch.tensor([1.0, 0.0]) / 0)

# %% transpose
import warnings

batch = torch.zeros(2, 3, 4)

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    reversed_axes = batch.T

print(reversed_axes.shape, batch.mT.shape)
print([str(each.message).partition(" and")[0] for each in caught])

# %% parts
five = torch.arange(5)

print([len(part) for part in five.split(2)])
print([len(part) for part in five.chunk(2)])
print([len(part) for part in five.chunk(4)])

# %% norms
print(torch.norm(x))
print(torch.linalg.vector_norm(x))
print(torch.linalg.matrix_norm(x, ord=2))

# %% diagonal
made = torch.diag(v)

print(made)

# %% shapes
for code in ("torch.mv(x, y)", "torch.dot(x, y)", "torch.bmm(x, y)"):
    try:
        eval(code)
    except RuntimeError as error:
        print(f"{code}: {error}")

# %% batches
one, three = torch.ones(1, 2, 2), torch.ones(3, 2, 2)

try:
    torch.bmm(one, three)
except RuntimeError as error:
    print(error)

print(torch.matmul(one, three).shape)

# %% too-many
try:
    torch.topk(x, k=3, dim=0)
except RuntimeError as error:
    print(error)
