"""
Build a model
=============

What a module sees of itself, and what stays invisible to it.
"""

# %% define
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, inputs):
        return self.linear((inputs - self.mean) * self.scale)


torch.manual_seed(0)
model = Model()

print(model(torch.ones(2, 3)).shape)

# %% registered
print([name for name, _ in model.named_parameters()])
print([name for name, _ in model.named_buffers()])
print(sum(each.numel() for each in model.parameters()))

# %% state
print(list(model.state_dict()))


# %% invisible
class Hidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(3, 3), nn.Linear(3, 1)]
        self.offset = torch.zeros(3)


hidden = Hidden()

print(list(hidden.parameters()), list(hidden.state_dict()))


# %% visible
class Visible(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 1)])
        self.register_buffer("offset", torch.zeros(3))


visible = Visible()

print(list(visible.state_dict()))

# %% follow
hidden.double()
visible.double()

print(hidden.layers[0].weight.dtype, hidden.offset.dtype)
print(visible.layers[0].weight.dtype, visible.offset.dtype)


# %% no-super
class Hasty(nn.Module):
    def __init__(self):
        self.linear = nn.Linear(3, 1)


try:
    Hasty()
except AttributeError as error:
    print(error)

# %% call
calls = []
model.register_forward_hook(lambda *_: calls.append("hook"))

model(torch.ones(1, 3))
model.forward(torch.ones(1, 3))

print(calls)

# %% learn
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
before = {name: each.clone() for name, each in model.state_dict().items()}
model(torch.ones(2, 3)).square().mean().backward()
optimizer.step()

moved = {
    name: not torch.equal(each, before[name])
    for name, each in model.state_dict().items()
}
print(moved)

# %% load
other = Model()
result = other.load_state_dict(model.state_dict())

print(result)
print(torch.equal(other.scale, model.scale))

# %% load-wrong
state = model.state_dict()
del state["mean"]
state["extra"] = torch.zeros(1)

try:
    Model().load_state_dict(state)
except RuntimeError as error:
    print(error)

# %% alias
snapshot = model.state_dict()
copied = {name: each.clone() for name, each in snapshot.items()}
with torch.no_grad():
    model.scale.fill_(5)

print(snapshot["scale"], copied["scale"])


# %% shared
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = self.first


tied = Tied()

print(len(list(tied.parameters())), len(tied.state_dict()))
