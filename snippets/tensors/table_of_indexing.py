"""
Table of indexing
=================

What each index gives, which method does the same, and what errors mean.
"""

# %% x
import torch

# The number at row r and column c is 10 * r + c.
x = torch.tensor([[0.0, 1, 2], [10, 11, 12], [20, 21, 22], [30, 31, 32]])
i, j = torch.tensor([0, 3]), torch.tensor([1, 2])
rows, columns = torch.arange(4), torch.tensor([0, 2, 1, 2])
mask, row_mask = x > 20, x[:, 0] > 10

# %% indices
integers_and_slices = ["x[1]", "x[-1]", "x[:, -1]", "x[1:3]", "x[::2]"]
dots_and_none = ["x[..., 0]", "x[:2, None]"]
lists_and_tensors = ["x[[3, 0]]", "x[:, [2, 0]]", "x[i, j]"]
lists_and_tensors += ["x[i[:, None], j]", "x[rows, columns]"]
masks = ["x[mask]", "x[row_mask]", "x[row_mask, 1:]"]


def view_or_copy(part):
    same = part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    return "view" if same else "copy"


# %% indices-shown
import pandas as pd

shown = {}
for way in integers_and_slices + dots_and_none + lists_and_tensors + masks:
    part = eval(way)
    shown[way] = {"gives": str(part.int().tolist())}
    shown[way] |= {"shape": tuple(part.shape), "is a": view_or_copy(part)}
pd.DataFrame.from_dict(shown, orient="index")

# %% picking
picking = {
    "x.select(0, 1)": "x[1]",
    "x.narrow(0, 1, 2)": "x[1:3]",
    "x.unsqueeze(1)": "x[:, None]",
    "x.index_select(0, i)": "x[i]",
    "x.gather(1, columns[:, None]).squeeze(1)": "x[rows, columns]",
    "x.take_along_dim(columns[:, None], 1).squeeze(1)": "x[rows, columns]",
    "x.take(columns)": "x.flatten()[columns]",
    "x.masked_select(mask)": "x[mask]",
    "x[mask.nonzero(as_tuple=True)]": "x[mask]",
    "x.flip(0)": "x[[3, 2, 1, 0]]",
}

# %% picking-shown
import pandas as pd

shown = {}
for method, brackets in picking.items():
    kind = view_or_copy(eval(method))
    shown[method] = {"the same as": brackets, "is a": kind}
pd.DataFrame.from_dict(shown, orient="index")

# %% numbers
two_rows = torch.tensor([[60.0, 61, 62], [90, 91, 92]])
two, five = two_rows[0, :2], torch.arange(50.0, 55)

# %% writing
writing = {
    "x.index_fill_(0, i, 7)": "x[i] = 7",
    "x.index_copy_(0, i, two_rows)": "x[i] = two_rows",
    "x.index_add_(0, i, two_rows)": "x[i] += two_rows",
    "x.index_put_((i, j), two)": "x[i, j] = two",
    "x.masked_fill_(mask, 7)": "x[mask] = 7",
    "x.masked_scatter_(mask, five)": "x[mask] = five",
    "x.scatter_(1, columns[:, None], 7)": "x[rows, columns] = 7",
}

# %% writing-shown
import pandas as pd

shown = {}
for method, assignment in writing.items():
    changed = eval(method, {**globals(), "x": x.clone()})
    numbers = str(changed[changed != x].int().tolist())
    shown[method] = {"the same as": assignment, "new numbers": numbers}
pd.DataFrame.from_dict(shown, orient="index")

# %% along-each-axis
wanted = torch.tensor([[2, 0], [1, 1]])
along_columns = x.gather(1, wanted)
along_rows = x.gather(0, wanted)

print(along_columns, along_rows, sep="\n")

# %% vectors
hidden = torch.arange(24.0).reshape(4, 3, 2)  # sequence, word, feature
last_words = hidden[rows, columns]

print(last_words)

# %% fill
refilled = x.clone()
refilled[mask] = five

print(refilled)


# %% outcomes
def outcomes(attempts):
    for name, attempt in attempts.items():
        yield name
        try:
            yield attempt()
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            yield f"    {type(error).__name__}: {error}"


# %% beyond
# Wrong on purpose: do not copy.
from torch.nn import functional

beyond = {
    "x[5]": lambda: x[5],
    "x[:, [0, 5]]": lambda: x[:, [0, 5]],
    "embedding": lambda: functional.embedding(columns + 4, x),
    "cross_entropy": lambda: functional.cross_entropy(x, columns + 1),
}
print(*outcomes(beyond), sep="\n")

# %% wraps
# Wrong on purpose: do not copy.
late = columns[:, None] + 1  # classes counted from 1
unknown = torch.tensor([0, -1, 1, -1])  # -1 for no label
wraps = {
    "x[rows, unknown]": lambda: x[rows, unknown],
    "gather": lambda: x.gather(1, late),
    "take_along_dim": lambda: x.take_along_dim(late, dim=1),
}
print(*outcomes(wraps), sep="\n")

# %% unfit
# Wrong on purpose: do not copy.
unfit = {
    "x[:, :, 0]": lambda: x[:, :, 0],
    "x[mask[:3]]": lambda: x[mask[:3]],
    "x[rows, columns[:3]]": lambda: x[rows, columns[:3]],
    "x.gather(1, columns)": lambda: x.gather(1, columns),
}
print(*outcomes(unfit), sep="\n")

# %% values
# Wrong on purpose: do not copy.
from operator import setitem

values = {
    "x[mask] = two": lambda: setitem(x, mask, two),
    "x[mask] = [1, 2, 3, 4, 5]": lambda: setitem(x, mask, [1, 2, 3, 4, 5]),
    "x[mask] = torch.arange(5)": lambda: setitem(x, mask, torch.arange(5)),
}
print(*outcomes(values), sep="\n")

# %% types
# Wrong on purpose: do not copy.
types = {
    "x[1.0]": lambda: x[1.0],
    "x[columns.float()]": lambda: x[columns.float()],
    "gather": lambda: x.gather(1, columns.float()[:, None]),
    "x[[0.9, 1.9]]": lambda: x[[0.9, 1.9]],
    "x[not mask]": lambda: x[not mask],
}
print(*outcomes(types), sep="\n")

# %% apart
both = torch.stack([x, -x])  # of two models
in_torch = both[0, :, [1, 2]]
in_numpy = both.numpy()[0, :, [1, 2]]

print(in_torch.shape, in_numpy.shape)
