"""
Freeze a layer
==============

Keep a layer as it is while the others learn, and find out why one moves.
"""

# %% apartments
import torch
from torch import nn, optim
from torch.nn import functional as F

torch.manual_seed(0)
apartments = torch.rand(64, 2)  # size, and distance from the center
prices = 4 * apartments[:, :1] * (1 - apartments[:, 1:])
encoder = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.Tanh())
head = nn.Linear(6, 1)
model = nn.Sequential(encoder, head)


# %% freeze
def freeze(layer):
    layer.requires_grad_(False)  # it gets no new gradients,
    layer.zero_grad()  # keeps no old ones,
    layer.eval()  # and its BatchNorm stops updating


freeze(encoder)

# %% gradients
F.mse_loss(model(apartments), prices).backward()
print("encoder:", encoder[0].bias.grad)
print("head:", head.bias.grad)

# %% train-again
model.train()
model(apartments)
print("after train():", encoder[1].running_mean[:3])

freeze(encoder)
model(apartments)
print("frozen again:", encoder[1].running_mean[:3])

# %% leave-out
encoder.requires_grad_(True)  # it gets gradients again
optimizer = optim.AdamW(head.parameters())
print("before:", encoder[0].bias.detach())

F.mse_loss(model(apartments), prices).backward()
optimizer.step()
print("after:", encoder[0].bias.detach())

# %% batch-norm
norm = nn.BatchNorm1d(2).requires_grad_(False)
norm(apartments)
print("after a pass:", norm.running_mean)

norm.eval()
norm(apartments)
print("after eval() and another:", norm.running_mean)


# %% trial
def moved(make, clear):
    encoder, head = nn.Linear(2, 6), nn.Linear(6, 1)
    optimizer = make([*encoder.parameters(), *head.parameters()])
    F.mse_loss(head(encoder(apartments)), prices).backward()
    optimizer.step()
    clear(optimizer)
    before = [each.clone() for each in encoder.parameters()]
    F.mse_loss(head(encoder(apartments).detach()), prices).backward()
    optimizer.step()
    pairs = zip(before, encoder.named_parameters(), strict=True)
    names = [name for old, (name, new) in pairs if not old.equal(new)]
    return " and ".join(names) or "stays"


# %% optimizers
no_memory = "SGD Rprop RMSprop Adagrad Adadelta Adafactor"
others = "Adam AdamW Adamax NAdam RAdam ASGD"
makers = {each: getattr(optim, each) for each in no_memory.split()}
makers["SGD, momentum"] = lambda p: optim.SGD(p, momentum=0.9)
makers["SGD, weight decay"] = lambda p: optim.SGD(p, weight_decay=0.1)
makers |= {each: getattr(optim, each) for each in others.split()}

# %% ways
ways = {
    "None": lambda optimizer: optimizer.zero_grad(),
    "zeros": lambda optimizer: optimizer.zero_grad(set_to_none=False),
    "old gradient": lambda optimizer: None,
}

# %% table
import pandas as pd

rows = {
    name: {way: moved(make, clear) for way, clear in ways.items()}
    for name, make in makers.items()
}
pd.DataFrame.from_dict(rows, orient="index")

# %% freeze-lstm
lstm = nn.LSTM(2, 6, num_layers=2, dropout=0.5)
freeze(lstm)
evaluated, _ = lstm(apartments)

lstm.train()  # cuDNN needs it for backward(),
lstm.dropout = 0.0  # but no numbers should be dropped
inputs = apartments.clone().requires_grad_()
trained, _ = lstm(inputs)
trained.sum().backward()
print("same outputs:", torch.equal(trained, evaluated))
print("gradient at the first input:", inputs.grad[0])

# %% norm-in-training
layer = nn.BatchNorm1d(2)
layer.requires_grad_(False)
layer(apartments)
print("weight:", layer.weight.data, "running mean:", layer.running_mean)
