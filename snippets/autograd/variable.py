"""
Variable
========

What old code with ``Variable`` and ``volatile`` does in today's PyTorch.
"""

# %% wrap
import torch
from torch.autograd import Variable

data = torch.tensor([1.0, 2.0, 3.0])
wrapped = Variable(data)

print(type(wrapped))
print(wrapped.requires_grad)

# %% share
wrapped[0] = 10.0

print(data)

# %% cut
weight = torch.tensor(2.0, requires_grad=True)
prediction = weight * data
rewrapped = Variable(prediction)

print(prediction.requires_grad, rewrapped.requires_grad)

# %% today
leaf = torch.tensor([1.0, 2.0], requires_grad=True)

(leaf**2).sum().backward()

print(leaf.grad)

# %% volatile
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    batch = Variable(data, volatile=True)

output = weight * batch

print(caught[0].message)
print(output.requires_grad)

# %% no-grad
with torch.no_grad():
    output = weight * data

print(output.requires_grad)

# %% inference-mode
with torch.inference_mode():
    stricter = weight * data

try:
    (weight * stricter).sum().backward()
except RuntimeError as error:
    print(str(error).partition(". ")[0])

# %% first-item
loss = (weight * data).sum()

try:
    loss.data[0]
except IndexError as error:
    print(error)

print(loss.item())

# %% loop
torch.manual_seed(0)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.linspace(-1, 1, 20).unsqueeze(1)
targets = 3 * inputs + 1

for _ in range(100):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()

# %% learned
print(f"weight {model.weight.item():.2f}, bias {model.bias.item():.2f}")
print(inputs.requires_grad, inputs.grad)
