"""
Broadcasting
============

How tensors of different shapes meet, and where that ruins a loss in silence.
"""

# %% do-this
import torch

euros = torch.tensor([2.0, 3.0, 5.0])  # the prices of three products
rates = torch.tensor([1.0, 1.5, 0.5, 8.0])  # of four currencies
prices = euros[:, None] * rates

print(euros[:, None].shape, rates.shape, prices.shape)
print(prices)

# %% draw
import matplotlib.pyplot as plt
import numpy as np

shown = {"euros[:, None]": euros[:, None], "rates": rates, "prices": prices}
fig, axes = plt.subplots(1, 3, figsize=(8, 2.2))
for ax, (name, numbers) in zip(axes, shown.items(), strict=True):
    rows, columns = torch.atleast_2d(numbers).shape
    for (y, x), number in np.ndenumerate(numbers.expand(3, 4)):
        own = {"ec": "#0072B2"} if y < rows and x < columns else {"ls": ":"}
        ax.add_patch(plt.Rectangle((x, y), 0.9, 0.9, fill=False, **own))
        ax.text(x + 0.45, y + 0.45, f"{number:g}", ha="center", va="center")
    ax.set(title=f"{name} {tuple(numbers.shape)}", xlim=(-0.1, 4))
    ax.set(ylim=(3, -0.1), frame_on=False, xticks=[], yticks=[])
fig.suptitle("Each tensor, stretched to (3, 4): dotted boxes repeat", y=1.1)
plt.show()


# %% on-paper
def on_paper(**tensors):
    shapes = {name: tuple(each.shape) for name, each in tensors.items()}
    length = max(map(len, shapes.values()))
    for name, shape in shapes.items():
        shapes[name] = ("",) * (length - len(shape)) + shape
    result = []
    for sizes in zip(*shapes.values(), strict=True):
        wanted = set(sizes) - {"", 1} or {1}
        result.append(wanted.pop() if len(wanted) == 1 else "error")
    for name, sizes in {**shapes, "result": tuple(result)}.items():
        print(f"{name:8}", *(f"{size:>6}" for size in sizes))
    return tuple(result)


# %% on-paper-twice
discount = torch.tensor([0.5, 1.0, 0.25])  # one for each product

fits = on_paper(column=euros[:, None], rates=rates)
print()
misfits = on_paper(discount=discount, prices=prices)

# %% ask
print(torch.broadcast_shapes((3, 1), (4,)))
print(torch.broadcast_shapes((7, 1, 1), (3, 1), (4,)))

# %% no-copy
column = euros[:, None]
stretched = column.expand(3, 4)
copied = column.repeat(1, 4)

for each in (column, stretched, copied):
    size = each.untyped_storage().nbytes()
    print(f"{tuple(each.shape)} strides {each.stride()}: {size} bytes")

# %% whole
left, right = torch.ones(1000, 1), torch.ones(1, 1000)
whole = left + right

for each in (left, right, whole):
    size = each.untyped_storage().nbytes()
    print(f"{tuple(each.shape)}: {size:,} bytes")

# %% gradient
learned = torch.tensor([1.0, 1.5, 0.5, 8.0], requires_grad=True)
(euros[:, None] * learned).sum().backward()

print(learned.grad)

# %% misfit
# Wrong on purpose: do not copy.
try:
    discount * prices
except RuntimeError as error:
    print(error)

# %% cures
reduced = discount[:, None] * prices
shares = prices / prices.sum(dim=1, keepdim=True)

print(reduced)

# %% channels
pictures = torch.ones(8, 3, 4, 6)
means = torch.tensor([0.5, 0.25, 0.125])  # one for each channel
centred = pictures - means[:, None, None]

print(centred[0, :, 0, 0])

# %% square
# Wrong on purpose: do not copy.
three = prices[:, :3]
mixed_up = discount * three

print(mixed_up)
print("should be:")
print(discount[:, None] * three)

# %% in-place
# Wrong on purpose: do not copy.
column = euros[:, None]
try:
    column *= rates
except RuntimeError as error:
    print(error)

# %% write
# Wrong on purpose: do not copy.
own = torch.tensor([2.0, 3.0, 5.0])
stretched = own[:, None].expand(3, 4)
try:
    stretched += 1
except RuntimeError as error:
    print(error)
stretched[0, 0] = 9

print(stretched)

# %% silent
# Wrong on purpose: do not copy.
guesses = torch.tensor([[2.0], [3.0], [5.0]])
targets = torch.tensor([2.0, 3.0, 5.0])
gaps = guesses - targets
turned = guesses - targets.flip(0)

print(gaps)
print("loss:", gaps.square().mean().item())
print("loss, targets reversed:", turned.square().mean().item())

# %% reshaped
gaps_in_pairs = guesses - targets.reshape(guesses.shape)

print("loss:", gaps_in_pairs.square().mean().item())

# %% losses
from torch.nn import functional as F

names = ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]
names += ["binary_cross_entropy", "binary_cross_entropy_with_logits"]
names += ["soft_margin_loss", "cross_entropy", "nll_loss", "poisson_nll_loss"]
losses = {name: getattr(F, name) for name in names} | {
    "kl_div": lambda g, t: F.kl_div(g.log(), t, reduction="batchmean"),
    "gaussian_nll_loss": lambda g, t: F.gaussian_nll_loss(g, t, g * 0 + 1),
    "((g - t) ** 2).mean()": lambda g, t: ((g - t) ** 2).mean(),
}


# %% answer
import warnings


def answer(loss, guesses, targets):
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            value = f"{loss(guesses, targets):.3f}"
        except (RuntimeError, ValueError) as error:
            return "raises", "", f"{type(error).__name__}: {error}"
    texts = [f"{each.category.__name__}: {each.message}" for each in caught]
    return "warns" if texts else "is silent", value, "".join(texts)


# %% answers
right = torch.tensor([0.2, 0.3, 0.5])
answers, texts = {}, {}
for name, loss in losses.items():
    says, value, text = answer(loss, right[:, None], right)
    wanted = answer(loss, right[:, None], right[:, None])[1] if value else ""
    answers[name] = {"it": says, "loss": value, "should be": wanted}
    texts.setdefault(text, []).append(name)

# %% answers-table
import pandas as pd

pd.DataFrame.from_dict(answers, orient="index")

# %% texts
for text, said_by in texts.items():
    if text:
        print(", ".join(said_by) + ":", text, sep="\n", end="\n\n")

# %% error-from-warning
with warnings.catch_warnings():
    warnings.filterwarnings("error", message="Using a target size")
    try:
        F.mse_loss(guesses, targets)
    except UserWarning as error:
        print(error)

# %% one-class
# Wrong on purpose: do not copy.
labels = torch.tensor([0, 0, 0])
asked = [guesses, -guesses]
free = [abs(F.cross_entropy(outputs, labels)) for outputs in asked]

print(free)


# %% fit
def fit(kilos, targets):
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4, momentum=0.5)
    for _ in range(30):
        optimizer.zero_grad()
        (model(kilos) - targets).square().mean().backward()
        optimizer.step()
    return model


# %% fit-both
torch.manual_seed(0)
kilos = 2 * torch.rand(64, 1)
costs = 4 * kilos[:, 0] + 1
models = {
    "(64, 1)": fit(kilos, costs.reshape(64, 1)),
    "(64,)": fit(kilos, costs),
}
for shape, model in models.items():
    per_kilo, fee = model.weight.item(), model.bias.item()
    print(f"targets {shape:8} {per_kilo:.2f} per kilo, fee {fee:.2f}")
print(f"the mean of the targets: {costs.mean():.2f}")

# %% products
# Wrong on purpose: do not copy.
attempts = {
    "@": lambda: torch.ones(3, 1) @ torch.ones(3, 4),
    "bmm": lambda: torch.bmm(torch.ones(2, 3, 4), torch.ones(1, 4, 5)),
    "cat": lambda: torch.cat([torch.ones(3, 1), torch.ones(1, 4)]),
    "stack": lambda: torch.stack([torch.ones(3, 1), torch.ones(3, 4)]),
}
said = {}
for name, attempt in attempts.items():
    try:
        attempt()
    except RuntimeError as error:
        said[name] = str(error)
        print(f"{name}: {error}")

# %% edges
one_number = prices * torch.tensor(2.0)
nothing = euros[:, None] * torch.zeros(3, 0)

print(one_number.shape, nothing.shape)
