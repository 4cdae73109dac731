"""
Export a model: torch.export
============================

Write a model to a file that runs without its class, and check the file.
"""

# %% digits
import atexit
import copy
import logging
import shutil
import tempfile
import warnings
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
# Leave out what torchao says about parts for GPUs.
for name in ("torch.utils._pytree", "torchao"):
    logging.getLogger(name).setLevel(logging.CRITICAL)

digits = load_digits()
pixels = torch.tensor(digits.images, dtype=torch.float32)[:, None]  # 0 to 16
labels = torch.tensor(digits.target)
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid = order[:1400], order[1400:]
held_out = pixels[valid]
mean, std = pixels[train].mean(), pixels[train].std()


# %% net
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.dropout = nn.Dropout()
        self.linear = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)
        return self.linear(self.dropout(x.flatten(1)))


# %% fit
def fit(seed=0):
    torch.manual_seed(seed)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(4):
        for batch in train[torch.randperm(len(train))].split(64):
            scores = net((pixels[batch] - mean) / std)
            loss = F.cross_entropy(scores, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net


net = fit()


# %% reader
class Reader(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, pixels):  # from 0 to 16, as they come
        scores = self.net((pixels - self.mean) / self.std)
        return scores.softmax(dim=1)


# %% export
model = Reader(net).eval()
sizes = ({0: torch.export.Dim("batch")},)  # of axis 0 of the input
program = torch.export.export(model, (pixels[:2],), dynamic_shapes=sizes)
torch.export.save(program, folder / "digits.pt2")


# %% check
loaded = torch.export.load(folder / "digits.pt2").module()
with torch.no_grad():
    wanted = model(held_out)
    for size in (1, 2, len(held_out)):
        found = loaded(held_out[:size])
        far = (found - wanted[:size]).abs().max()
        same = (found.argmax(1) == wanted[:size].argmax(1)).sum()
        print(f"{same} of {size} digits agree, {far:.0e} apart")


# %% operations
steps = [
    str(node.target)
    for node in program.graph.nodes
    if node.op == "call_function"
]
print(*steps, sep="\n")


# %% counter
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + self.calls


counter = Counter()
counted = torch.export.export(counter, (torch.zeros(2),)).module()
print([counted(torch.zeros(2)).tolist() for _ in range(3)])
print([counter(torch.zeros(2)).tolist() for _ in range(3)])


# %% fixed
without_sizes = torch.export.export(model, (pixels[:32],)).module()
try:
    without_sizes(pixels[:20])
except (AssertionError, RuntimeError) as error:
    print(error)


# %% one
try:
    torch.export.export(model, (pixels[:1],), dynamic_shapes=sizes)
except Exception as error:
    from_one = str(error)
    print(from_one.split("\nSuggested")[0])


# %% auto
auto = ({0: torch.export.Dim.AUTO},)
for example in (pixels[:2], pixels[:1]):
    exported = torch.export.export(model, (example,), dynamic_shapes=auto)
    ranges = exported.range_constraints.values()
    print(f"from {len(example)}:", [str(each) for each in ranges])


# %% len
class TimesLen(nn.Module):
    def forward(self, x):
        return x * len(x)


try:
    torch.export.export(TimesLen(), (torch.ones(2),), dynamic_shapes=sizes)
except Exception as error:
    of_len = str(error)
    print(of_len.split("\nSuggested")[0])


# %% lstm
lstm = nn.LSTM(3, 8, batch_first=True)
names = (torch.zeros(2, 5, 3),)  # two names of five letters
open_length = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length")},)
try:
    with warnings.catch_warnings(action="ignore"):
        torch.export.export(lstm, names, dynamic_shapes=open_length)
except Exception as error:
    of_lstm = str(error)
    print(of_lstm.split("\nSuggested")[0])


# %% several
class MeanOfTokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 8)

    def forward(self, ids, mask):
        mask = mask[:, :, None]  # 0 for padding
        return (self.embedding(ids) * mask).sum(dim=1) / mask.sum(dim=1)


tokens = MeanOfTokens()
ids = torch.tensor([[5, 7, 0], [3, 1, 4]])
text = ids, (ids > 0).long()
rows = {0: torch.export.Dim("batch")}
try:
    torch.export.export(tokens, text, dynamic_shapes=(rows,))
except Exception as error:
    of_one = str(error)
    print(of_one.splitlines()[0])

both = {"ids": rows, "mask": rows}
of_text = torch.export.export(tokens, text, dynamic_shapes=both)
by_name = torch.export.export(
    tokens, text[:1], {"mask": text[1]}, dynamic_shapes=both
)


# %% if
class WithIf(Reader):
    def forward(self, pixels):
        if pixels.mean() > 8:  # mostly ink: white on black
            pixels = 16 - pixels
        return super().forward(pixels)


try:
    with redirect_stderr(StringIO()):  # torch prints the graph as well
        torch.export.export(WithIf(net).eval(), (pixels[:2],))
except Exception as error:
    refused = str(error)
    print(refused.splitlines()[0])


# %% where
class WithWhere(Reader):
    def forward(self, pixels):
        dark = pixels.mean(dim=(1, 2, 3), keepdim=True) > 8
        return super().forward(torch.where(dark, 16 - pixels, pixels))


chosen = WithWhere(net).eval()
chooses = torch.export.export(chosen, (pixels[:2],), dynamic_shapes=sizes)
mixed = torch.cat([pixels[:3], 16 - pixels[:3]])
with torch.no_grad():
    print(chooses.module()(mixed).argmax(dim=1))


# %% cond
class WithCond(Reader):
    def forward(self, pixels):
        pixels = torch.cond(
            pixels.mean() > 8,
            lambda x: 16 - x,
            lambda x: x.clone(),  # not x itself
            (pixels,),
        )
        return super().forward(pixels)


branched = WithCond(net).eval()
branches = torch.export.export(branched, (pixels[:2],), dynamic_shapes=sizes)
with torch.no_grad():
    for batch in (pixels[:3], 16 - pixels[:3]):
        print(branches.module()(batch).argmax(dim=1))


# %% item
class Scaled(nn.Module):
    def forward(self, x):
        return x / x.max().item()


examples = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])
with warnings.catch_warnings(action="ignore"):
    traced = torch.jit.trace(Scaled(), examples[0])
kept = torch.export.export(Scaled(), (examples[0],)).module()
print("model:       ", Scaled()(examples[1]))
print("torch.export:", kept(examples[1]))
print("jit.trace:   ", traced(examples[1]))


# %% int8
from torchao.quantization import Int8WeightOnlyConfig, quantize_

small = copy.deepcopy(model)
quantize_(small, Int8WeightOnlyConfig())
of_small = torch.export.export(small, (pixels[:2],), dynamic_shapes=sizes)
torch.export.save(of_small, folder / "small.pt2")


# %% train-mode
# Wrong on purpose: do not copy.
model.train()
drops = torch.export.export(model, (pixels[:2],), dynamic_shapes=sizes)
model.eval()

torch.manual_seed(0)
with torch.no_grad():
    first, second = drops.module()(held_out), drops.module()(held_out)
changed = (first.argmax(dim=1) != second.argmax(dim=1)).sum().item()
print(f"{changed} of {len(held_out)} digits change from call to call")
try:
    drops.module().eval()
except NotImplementedError as error:
    print(error)


# %% bare
# Wrong on purpose: do not copy.
bare = torch.export.export(net, (pixels[:2],), dynamic_shapes=sizes).module()
with torch.no_grad():
    raw = bare(held_out).softmax(dim=1)


# %% sure
for name, found in {"with": wanted, "without": raw}.items():
    right = (found.argmax(dim=1) == labels[valid]).double().mean()
    print(f"{name}: {right:.0%} right, {found.amax(1).mean():.0%} sure")


# %% sure-drawn
import matplotlib.pyplot as plt

_, axes = plt.subplots(figsize=(5, 4.2), layout="constrained")
rows = torch.arange(len(valid))
of_model = wanted[rows, labels[valid]]
for each, color, name in (
    (raw, "#D55E00", "without the normalization"),
    (loaded(held_out).detach(), "#0072B2", "digits.pt2"),
):
    axes.scatter(of_model, each[rows, labels[valid]], 12, color, label=name)
axes.set_xlabel("probability of the right digit: the model")
axes.set_ylabel("the file")
axes.legend(loc=(0.03, 0.68))
axes.set_title("One file agrees with the model, one does not")
plt.show()


# %% twice
# Wrong on purpose: do not copy.
once = torch.eye(10)[:1]  # sure of a 0
twice = once.softmax(dim=1)
print(twice)


# %% weights
with torch.no_grad():
    net.linear.bias[3] += 10  # say 3 more often
threes = {
    "model": model(held_out),
    "program": program.module()(held_out),
    "file": torch.export.load(folder / "digits.pt2").module()(held_out),
}
for name, found in threes.items():
    print(name, (found.argmax(dim=1) == 3).sum().item(), "threes")


# %% quiz
class TimesSize(nn.Module):
    def forward(self, x):
        return x * x.shape[0]


times = torch.export.export(
    TimesSize(), (torch.ones(2),), dynamic_shapes=sizes
).module()
print(times(torch.ones(3)))
