"""
Prune a model: cut out whole channels
=====================================

A network without most of its channels, with a BatchNorm and Flatten behind.
"""

# %% digits
import io

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid, _ = order.split([1200, 300, 297])


def fit(model, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    model.train()
    for _ in range(epochs):
        for batch in train[torch.randperm(1200)].split(64):
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# %% net
class Net(nn.Module):
    def __init__(self, first=32, second=64):
        super().__init__()
        self.conv1 = nn.Conv2d(1, first, 3, padding=1)
        self.norm = nn.BatchNorm2d(first)
        self.conv2 = nn.Conv2d(first, second, 3, padding=1)
        self.linear = nn.Linear(second * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(self.norm(self.conv1(x)).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)  # 2 by 2 pixels
        return self.linear(x.flatten(1))


torch.manual_seed(0)
model = Net()
fit(model, epochs=4)


# %% cut-channels
def cut_channels(model, kept):
    state = model.state_dict()
    for name in ("conv1.weight", "conv1.bias"):
        state[name] = state[name][kept]
    for name in ("weight", "bias", "running_mean", "running_var"):
        state[f"norm.{name}"] = state[f"norm.{name}"][kept]
    state["conv2.weight"] = state["conv2.weight"][:, kept]  # its inputs
    small = Net(first=len(kept))
    small.load_state_dict(state)
    return small


def strongest(model, count):
    return model.conv1.weight.abs().sum(dim=(1, 2, 3)).topk(count).indices


kept = strongest(model, 8)  # of 32
small = cut_channels(model, kept)

# %% measure
from torch.utils.flop_counter import FlopCounterMode


def file_size(model):
    file = io.BytesIO()  # in place of a file
    torch.save(model.state_dict(), file)
    return file.tell()


def right_answers(model):
    model.eval()
    with torch.no_grad():
        answers = model(images[valid]).argmax(dim=1)
    return (answers == labels[valid]).sum().item()


def multiplications(model):
    with FlopCounterMode(display=False) as counter:
        model.eval()(images[:1])
    return counter.get_total_flops() // 2  # the others are additions


# %% compare
right = {"whole": right_answers(model), "cut": right_answers(small)}
fit(small, epochs=2)
right["trained on"] = right_answers(small)
sizes = [file_size(each) for each in (model, small)]
counts = [multiplications(each) for each in (model, small)]

print("right, of 300 digits:", right)
print("bytes of the file:", sizes)
print("multiplications for an image:", counts)

# %% shapes
for name, tensor in model.state_dict().items():
    cut = small.state_dict()[name]
    if tensor.shape != cut.shape:
        print(f"{name:18}{tuple(tensor.shape)} -> {tuple(cut.shape)}")

# %% how-many
amounts = (24, 16, 8, 4)
curves = {"cut": [], "and trained for one epoch": []}
for amount in amounts:
    each = cut_channels(model, strongest(model, amount))
    curves["cut"].append(right_answers(each))
    fit(each, epochs=1)
    curves["and trained for one epoch"].append(right_answers(each))

# %% how-many-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for (label, curve), style, color in zip(
    curves.items(), ("o--", "s-"), ("#D55E00", "#0072B2"), strict=True
):
    percent = [each / 3 for each in curve]  # of 300 digits
    ax.plot(amounts, percent, style, color=color, label=label)
ax.axhline(right["whole"] / 3, color="gray", linestyle=":", label="whole")
ax.set(title="Right answers with fewer of 32 channels")
ax.set(xlabel="channels kept", ylabel="right answers, %", ylim=(0, 103))
ax.set_xticks(amounts)
ax.legend(frameon=False)
plt.show()

# %% from-the-start
fresh = Net(first=8)
fit(fresh, epochs=6)
right["small from the start"] = right_answers(fresh)
print(right)

# %% zero-channels
weak = model.conv2.weight.abs().sum(dim=(1, 2, 3)).argsort()[:32]  # of 64
zeroed = Net()
zeroed.load_state_dict(model.state_dict())
with torch.no_grad():
    zeroed.conv2.weight[weak] = 0
    zeroed.conv2.bias[weak] = 0

alive = (zeroed.conv2.weight != 0).flatten(1).any(dim=1)
columns = alive.repeat_interleave(2 * 2)  # pixels of each channel
state = zeroed.state_dict()
state["conv2.weight"] = state["conv2.weight"][alive]
state["conv2.bias"] = state["conv2.bias"][alive]
state["linear.weight"] = state["linear.weight"][:, columns]

without = Net(second=32)
without.load_state_dict(state)

scores, expected = (each.eval()(images[valid]) for each in (without, zeroed))
zero_sizes = [file_size(each) for each in (zeroed, without)]
alike = torch.allclose(scores, expected, atol=1e-4)
print("the same scores, up to rounding:", alike)
print("bytes, with the zeros and without:", zero_sizes)
print("right, before and after:", right["whole"], right_answers(without))

# %% wrong-channels
# Wrong on purpose: do not copy.
state = cut_channels(model, kept).state_dict()
state["conv2.weight"] = model.conv2.weight[:, :8]  # not those kept
mixed = Net(first=8)
mixed.load_state_dict(state)

wrong = right_answers(mixed)
print("right, with the inputs of other channels:", wrong)

# %% forgotten
state = cut_channels(model, kept).state_dict()
state["norm.running_var"] = model.norm.running_var  # still 32
try:
    Net(first=8).load_state_dict(state)
except RuntimeError as error:
    forgotten = str(error)
    print(forgotten)

# %% norm
norm = nn.BatchNorm1d(1, eps=0).eval()
with torch.no_grad():
    norm.running_mean[0], norm.bias[0] = -2, 1  # as a training leaves them
    print(norm(torch.zeros(1, 1)))

# %% prune
import copy

from torch.nn.utils import prune

pruned = copy.deepcopy(model)
layers = pruned.conv1, pruned.conv2, pruned.linear
pruned_sizes = {"whole": file_size(pruned)}
for layer in layers:
    prune.l1_unstructured(layer, "weight", amount=0.9)
pruned_sizes["with masks"] = file_size(pruned)
for layer in layers:
    prune.remove(layer, "weight")
pruned_sizes["masks removed"] = file_size(pruned)

print(pruned_sizes)
print(f"zeros: {(pruned.conv2.weight == 0).float().mean():.0%}")

# %% sparse
import warnings

sparse_bytes = {}
for zeros in (50, 60, 70, 80, 90):
    matrix = torch.ones(1000, 1000)
    matrix.flatten()[: zeros * 10_000] = 0  # of a million
    coo = matrix.to_sparse()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CSR is in beta state
        csr = matrix.to_sparse_csr()
    of_csr = csr.crow_indices(), csr.col_indices(), csr.values()
    of_coo = coo.indices(), coo.values()
    sparse_bytes[zeros] = [
        sum(part.nbytes for part in parts) for parts in (of_csr, of_coo)
    ]
    print(f"{zeros} % zeros: CSR, COO", sparse_bytes[zeros])
print("dense:", matrix.nbytes)

# %% sparse-product
places = torch.tensor([[0, 1, 1], [2, 0, 0]])  # the rows, then the columns
values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
sparse = torch.sparse_coo_tensor(
    places,
    values,
    size=(2, 3),
    check_invariants=True,
)
x = torch.tensor([[1.0], [10.0], [100.0]], requires_grad=True)

product = sparse @ x
product.sum().backward()
print(sparse.to_dense().tolist())
print(product.tolist())
print("gradients:", values.grad.tolist(), x.grad.tolist())

# %% outside
outside = torch.tensor([[0], [7]])  # of two rows and three columns
try:
    torch.sparse_coo_tensor(
        outside, torch.ones(1), size=(2, 3), check_invariants=True
    )
except RuntimeError as error:
    refused = str(error)
    print(refused)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns once that nothing is checked
    unchecked = torch.sparse_coo_tensor(outside, torch.ones(1), size=(2, 3))
print("unchecked:", unchecked._indices().tolist())

# %% diagonal
matrix = torch.eye(1000)
coo = matrix.to_sparse()
print(coo.indices().nbytes + coo.values().nbytes)
