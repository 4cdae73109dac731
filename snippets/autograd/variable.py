"""
Old code with Variable
======================

What ``Variable``, ``volatile`` and ``loss.data[0]`` do in today's PyTorch.
"""

# %% do-this
import torch

rooms = torch.tensor([1.0, 2.0, 3.0])
weight = torch.tensor(2.0, requires_grad=True)

loss = (weight * rooms).sum()
loss.backward()
value = loss.item()
print("loss:", value, "gradient:", weight.grad)

with torch.no_grad():
    prices = weight * rooms
print(prices)

# %% wrap
from torch.autograd import Variable

wrapped = Variable(rooms)
wrapped[0] = 5.0
rewrapped = Variable(weight)

print(type(wrapped), rooms)
print(weight.requires_grad, rewrapped.requires_grad)

# %% data-0
# Wrong on purpose: do not copy.
try:
    loss.data[0]
except IndexError as error:
    print(error)

# %% cut
# Wrong on purpose: do not copy.
weight.grad = None
prices = Variable(weight * rooms, requires_grad=True)
prices.sum().backward()

print(prices.grad_fn, weight.grad)

# %% volatile
# Wrong on purpose: do not copy.
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    batch = Variable(rooms, volatile=True)

prices = weight * batch
print(caught[-1].message if caught else "no warning")
print(prices)

# %% isinstance
is_variable = isinstance(rooms, Variable)
print(is_variable)

# %% written
rooms = torch.tensor([1.0, 2.0, 3.0])
batch = Variable(rooms)
batch += 1
print(rooms)
