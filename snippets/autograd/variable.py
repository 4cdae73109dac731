"""
Old code with Variable
======================

What ``Variable``, ``volatile`` and ``loss.data[0]`` do in today's PyTorch.
"""

# %% do-this
import torch

celsius = torch.tensor([10.0, 20.0, 30.0])
scale = torch.tensor(2.0, requires_grad=True)

loss = (scale * celsius).sum()
loss.backward()

value = loss.item()
print("loss:", value, "gradient:", scale.grad.item())

# %% wrap
from torch.autograd import Variable

wrapped = Variable(celsius)
wrapped[0] = 15.0
rescaled = Variable(scale)

print(type(wrapped), celsius)
print(scale.requires_grad, rescaled.requires_grad)

# %% cut
# Wrong on purpose: do not copy.
scale.grad = None
plain = Variable(scale * celsius)
asked = Variable(scale * celsius, requires_grad=True)
asked.sum().backward()

print("graphs:", plain.grad_fn, asked.grad_fn)
print("gradient:", scale.grad)

# %% volatile
# Wrong on purpose: do not copy.
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    batch = Variable(celsius, volatile=True)

outputs = scale * batch
print(caught[-1].message if caught else "no warning")
print("requires gradients:", outputs.requires_grad)

# %% data-0
# Wrong on purpose: do not copy.
try:
    loss.data[0]
except IndexError as error:
    print(error)
