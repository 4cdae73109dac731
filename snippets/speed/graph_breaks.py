"""
Find recompiles and graph breaks
================================

Which calls of a compiled model compile again, and what splits its graph.
"""

# %% imports
import torch
from torch import nn


# %% model
class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(4, 64), nn.Linear(64, 1)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


# %% do-this
model = Forecast()
checked = torch.compile(model, backend="eager", fullgraph=True)
checked(torch.rand(32, 4))  # a graph break is an error here
with torch.compiler.set_stance("fail_on_recompile"):
    for _ in range(3):
        checked(torch.rand(32, 4))  # and a recompile is one here

# %% keep-graph
graphs = []


def keep_graph(graph, inputs):
    graphs.append(graph)
    return graph.forward  # as it is, no faster


# %% counted
def counted(function, **options):
    torch.compiler.reset()  # forget what was compiled before
    graphs.clear()
    return torch.compile(function, backend=keep_graph, **options)


batch = torch.rand(32, 4)

# %% again
forecast = counted(Forecast())
forecast(batch)
with torch.compiler.set_stance("fail_on_recompile"):
    try:
        forecast(torch.rand(5, 4))
    except RuntimeError as error:
        stopped = str(error)

print(stopped.partition(". ")[0])

# %% guards
doubled = counted(lambda x: 2 * x)
inputs = {
    "first": torch.rand(32, 4),
    "another": torch.rand(32, 4),
    "transposed": torch.rand(4, 32).T,
    "a slice": torch.rand(32, 8)[:, :4],
    "contiguous()": torch.rand(4, 32).T.contiguous(),
    "float64": torch.rand(32, 4).double(),
    "requires gradients": torch.rand(32, 4).requires_grad_(),
}
graphs_after = {}
for name, x in inputs.items():
    doubled(x)
    graphs_after[name] = len(graphs)
    print(f"{name}: {len(graphs)} graphs")


# %% graphs-so-far
def graphs_so_far(sizes, **options):
    forecast = counted(Forecast(), **options)
    numbers = []
    for size in sizes:
        forecast(torch.rand(size, 4))
        numbers.append(len(graphs))
    return numbers


# %% sizes
sizes = [32, 32, 20, 32, 7, 9, 1, 32]
by_option = {
    "dynamic=False": graphs_so_far(sizes, dynamic=False),
    "as it is": graphs_so_far(sizes),
    "dynamic=True": graphs_so_far(sizes, dynamic=True),
}

# %% sizes-drawn
import matplotlib.pyplot as plt

_, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
marks = zip(by_option.items(), ("s:", "o-", "^--"), strict=True)
for (option, numbers), mark in marks:
    axis.plot(range(len(sizes)), numbers, mark, label=option)
axis.set_xticks(range(len(sizes)), sizes)
axis.set(title="Each call with another batch", xlabel="samples in the batch")
axis.set(ylabel="graphs so far", ylim=(0, None))
axis.legend()
plt.show()


# %% counting
# Wrong on purpose: do not copy.
class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 1), 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x)


tried = counted(Counting())
for _ in range(8):
    tried(batch)
    print(len(graphs), end=" ")


# %% counting-in-a-tensor
class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += 1
        return self.layer(x)


tried = counted(Buffered())
for _ in range(8):
    tried(batch)
print("graphs:", len(graphs), "calls:", tried.calls.item())


# %% asks
# Wrong on purpose: do not copy.
def shares(x):
    total = x.sum()
    if total > 0:  # Python needs the value
        x = x / total
    return x + 1


in_parts = counted(shares)
in_parts(batch)
print("graphs:", len(graphs))

# %% whole
try:
    counted(shares, fullgraph=True)(batch)
except RuntimeError as error:
    refused = error

print(type(refused).__name__)


# %% chosen
def chosen_shares(x):
    total = x.sum()
    return torch.where(total > 0, x / total, x) + 1


in_one = counted(chosen_shares, fullgraph=True)
print(torch.equal(in_one(batch), shares(batch)), "graphs:", len(graphs))


# %% heard
import logging

heard = []  # what is logged of such a break, instead of showing it
logger = logging.getLogger("torch._dynamo.variables.tensor")
logger.addFilter(lambda record: heard.extend(record.msg.splitlines()[:2]))


# %% item
# Wrong on purpose: do not copy.
def divided(x):
    total = x.sum().item()  # a number of Python
    return x / total


with_item = counted(divided)
with_item(batch)
print("graphs:", len(graphs))
print(*heard, sep="\n")


# %% item-kept
def divided_by_tensor(x):
    return x / x.sum()


without_item = counted(divided_by_tensor)
print(torch.equal(without_item(batch), divided(batch)))
print("graphs:", len(graphs))

# %% traced
# Wrong on purpose: do not copy.
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    traced = torch.jit.trace(shares, batch)  # the sum of batch is above 0

said = [str(each.message) for each in caught if "Python" in str(each.message)]
print(said[0])

# %% traced-wrong
# Wrong on purpose: do not copy.
print("the function:", shares(-batch)[0])
print("its trace:   ", traced(-batch)[0])

# %% traced-right
with warnings.catch_warnings(action="ignore"):  # torch.jit is deprecated
    traced_chosen = torch.jit.trace(chosen_shares, batch)

print("its trace:   ", traced_chosen(-batch)[0])

# %% two-sizes
print(graphs_so_far([64, 64, 48, 30, 64]))
