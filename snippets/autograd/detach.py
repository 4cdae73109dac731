"""
Detach
======

What ``detach`` cuts, what then stays as it is, and where a cut belongs.
"""

# %% keep
import torch
from torch import nn, optim
from torch.nn import functional as F

torch.manual_seed(0)
flats = torch.rand(64, 2)  # size, and distance from the centre
prices = 4 * flats[:, :1] * (1 - flats[:, 1:])
encoder, head = nn.Sequential(nn.Linear(2, 6), nn.Tanh()), nn.Linear(6, 1)

loss = F.mse_loss(head(encoder(flats)), prices)
kept = loss.detach()
print(loss, kept, sep="\n")


# %% freeze
def freeze(layer):
    layer.requires_grad_(False)  # it gets no new gradients,
    layer.zero_grad()  # keeps no old ones,
    layer.eval()  # and a BatchNorm in it holds still


freeze(encoder)
F.mse_loss(head(encoder(flats)), prices).backward()
print("encoder:", encoder[0].bias.grad, "head:", head.bias.grad)

# %% cut
encoder.requires_grad_(True).train()  # learns again
head.zero_grad()

hidden = encoder(flats)
cut = hidden.detach()
whole_loss = F.mse_loss(head(hidden), prices)
cut_loss = F.mse_loss(head(cut), prices)
print("hidden:", hidden[0, :3])
print("cut:", cut[0, :3])


# %% walk
def walk(root):
    places, waiting = {}, [(root, (0, 0), (0, 0))]
    while waiting:
        node, place, origin = waiting.pop()
        met = node in places  # paths may join again
        x, y = places.setdefault(node, place)
        yield node, (x, y), origin
        if met:
            continue
        first = -1 if len(node.next_functions) == 3 else 0
        for number, (earlier, _) in enumerate(node.next_functions, first):
            if earlier is not None:
                waiting.append((earlier, (x + number, y - 1), (x, y)))


# %% name
def name_of(node):
    for layer, module in {"encoder": encoder[0], "head": head}.items():
        for kind, parameter in module.named_parameters():
            if getattr(node, "variable", None) is parameter:
                return f"{layer} {kind}"
    return node.name()


# %% two-graphs
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
fig.suptitle("The graph of the loss, without the cut and with it")
for ax, result in zip(axes, (whole_loss, cut_loss), strict=True):
    for node, place, origin in walk(result.grad_fn):
        color = "#D55E00" if hasattr(node, "variable") else "#0072B2"
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": color}
        ax.plot(*zip(origin, place, strict=True), "black", linewidth=1)
        ax.text(*place, name_of(node), bbox=box, ha="center", va="center")
    ax.set(xlim=(-1.7, 1.7), ylim=(-5.4, 0.4))
    ax.axis("off")
plt.show()

# %% gradients
cut_loss.backward()
print("encoder:", encoder[0].weight.grad, encoder[0].bias.grad)
print("head:", head.weight.grad, head.bias.grad)

# %% target
this_year, next_year = torch.rand(2, 64, 2)
guess = head(encoder(this_year))
goal = 0.2 + 0.9 * head(encoder(next_year))

for target in (goal, goal.detach()):
    loss = F.mse_loss(guess, target)
    [slope] = torch.autograd.grad(loss, head.bias, retain_graph=True)
    print("head's bias:", slope)

# %% chunks
months = torch.rand(8, 1)
reader, teller = nn.RNN(1, 4), nn.Linear(4, 1)


def train_in_chunks(between):
    state = torch.zeros(1, 4)
    for chunk in months.split(4):
        output, state = reader(chunk[:-1], state)
        F.mse_loss(teller(output[-1]), chunk[-1]).backward()
        state = between(state)


# %% carried
# Wrong on purpose: do not copy.
try:
    train_in_chunks(between=lambda state: state)
except RuntimeError as error:
    print(error)

# %% detached
reader.zero_grad()
train_in_chunks(between=lambda state: state.detach())
print(reader.bias_hh_l0.grad)

# %% straight-through
price = torch.tensor([1.2, 2.7], requires_grad=True)
rounded = price.round()
through = price + (price.round() - price).detach()

for way, result in {"round": rounded, "straight-through": through}.items():
    [slope] = torch.autograd.grad(result.sum(), price)
    print(f"{way}: {result.tolist()}, gradient {slope.tolist()}")

# %% discriminator
generator, judge = nn.Linear(3, 2), nn.Linear(2, 1)
invented = generator(torch.randn(64, 3))
scores = judge(torch.cat([flats, invented.detach()]))
real = torch.cat([torch.ones(64, 1), torch.zeros(64, 1)])
F.binary_cross_entropy_with_logits(scores, real).backward()

print("generator:", generator.bias.grad)
print("judge:", judge.bias.grad)


# %% cut-in-the-middle
# Wrong on purpose: do not copy.
class CutModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, 6), nn.Tanh())
        self.head = nn.Linear(6, 1)

    def forward(self, flats):
        return self.head(self.encoder(flats).detach())


# %% whole-model
class WholeModel(CutModel):
    def forward(self, flats):
        return self.head(self.encoder(flats))


# %% train
def train(model_class, seed):
    torch.manual_seed(seed)
    model = model_class()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    for _ in range(80):
        optimizer.zero_grad()
        loss = F.mse_loss(model(flats), prices)
        loss.backward()
        optimizer.step()
    return loss.item()


# %% compare
import pandas as pd

ends = {
    f"seed {seed}": {
        "with the cut": round(train(CutModel, seed), 4),
        "without": round(train(WholeModel, seed), 4),
    }
    for seed in range(5)
}
pd.DataFrame.from_dict(ends, orient="index")

# %% find
model = CutModel()
F.mse_loss(model(flats), prices).backward()

print([name for name, p in model.named_parameters() if p.grad is None])

# %% nothing-left
# Wrong on purpose: do not copy.
guess = head(encoder(flats)).detach()
try:
    F.mse_loss(guess, prices).backward()
except RuntimeError as error:
    print(error)


# %% trial
def moved(make, clear):
    first, second = nn.Linear(2, 6), nn.Linear(6, 1)
    optimizer = make([*first.parameters(), *second.parameters()])
    F.mse_loss(second(first(flats)), prices).backward()
    optimizer.step()
    clear(optimizer)
    before = [each.clone() for each in first.parameters()]
    F.mse_loss(second(first(flats).detach()), prices).backward()
    optimizer.step()
    pairs = zip(before, first.named_parameters(), strict=True)
    names = [name for old, (name, new) in pairs if not old.equal(new)]
    return " and ".join(names) or "stays"


# %% optimizers
steady = "SGD Rprop RMSprop Adagrad Adadelta Adafactor"
restless = "Adam AdamW Adamax NAdam RAdam ASGD"
makers = {each: getattr(optim, each) for each in steady.split()}
makers["SGD, momentum"] = lambda p: optim.SGD(p, momentum=0.9)
makers["SGD, weight decay"] = lambda p: optim.SGD(p, weight_decay=0.1)
makers |= {each: getattr(optim, each) for each in restless.split()}

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

# %% leave-out
optimizer = optim.AdamW(head.parameters())
print("before:", encoder[0].bias.detach())

F.mse_loss(head(encoder(flats)), prices).backward()
optimizer.step()
print("after:", encoder[0].bias.detach())

# %% batch-norm
norm = nn.BatchNorm1d(2).requires_grad_(False)
norm(flats)
print("after a pass:", norm.running_mean)

norm.eval()
norm(flats)
print("after eval() and another:", norm.running_mean)

# %% share
loss = F.mse_loss(head(encoder(flats)), prices)
total, copy, number = loss.detach(), loss.detach().clone(), loss.item()
total += 100
print(loss, copy, number, sep="\n")

# %% overwrite
# Wrong on purpose: do not copy.
rate = torch.tensor([0.0, 1.0], requires_grad=True)
growth = rate.exp()
growth.detach().zero_()

try:
    growth.sum().backward()
except RuntimeError as error:
    print(error)

# %% to-numpy
guess = head(encoder(flats))[0]
try:
    guess.numpy()
except RuntimeError as error:
    print(error)

array = guess.detach().numpy()
array[0] = 99
print(guess)

# %% not-an-error
output, labels = torch.randn(3, 16, requires_grad=True), torch.rand(1, 16)
differences = output - labels
[slope] = torch.autograd.grad(differences.sum(), output)
print(differences.shape, slope.unique())
