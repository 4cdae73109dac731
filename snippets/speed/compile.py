"""
Compile a model
===============

What torch.compile makes of a model, and where its results differ.
"""

# %% imports
import torch
from torch import nn


# %% do-this
class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(4, 64), nn.Linear(64, 1)
        self.drop = nn.Dropout()

    def forward(self, x):
        return self.out(self.drop(torch.relu(self.hidden(x))))


model = Forecast()
model.compile()

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


# %% first-call
forecast = counted(Forecast())
print("graphs before a call:", len(graphs))
for _ in range(3):
    forecast(torch.rand(32, 4))
print("after three:", len(graphs))

# %% operations
for node in graphs[0].graph.nodes:
    if node.op == "call_function":
        print(node.target.__name__)

# %% modes
forecast = counted(Forecast())
for training in (True, False, True, False):
    forecast.train(training)
    forecast(batch)
    print("training:", training, "graphs:", len(graphs))
with torch.no_grad():
    forecast(batch)
print("without gradients:", len(graphs))


# %% gelu
def gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.79788 * (x + 0.044715 * x**3)))


counted(gelu)(batch)
passes = []  # of each operation: the tensors that it reads, and its result
for node in graphs[0].graph.nodes:
    if node.op == "call_function":
        passes.append((node.target.__name__, len(node.all_input_nodes) + 1))

print(passes)
print("operations:", len(passes), "passes:", sum(n for _, n in passes))

# %% passes-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(6.5, 2), layout="constrained")
for row, bars in enumerate(([("one kernel", 2)], passes)):
    start = 0
    for place, (name, width) in enumerate(bars):
        color = "#D55E00" if row == 0 else "#0072B2"
        look = {"color": color, "alpha": 0.5 if place % 2 else 1}
        ax.barh(row, width, left=start, **look)
        if row:
            ax.text(start + width / 2, 1.5, name, ha="center")
        start += width
ax.set_yticks(range(2), ["compiled", "as written"])
ax.set(title="Passes over memory of a GELU", xlabel="passes")
ax.set(ylim=(-0.5, 1.8), xticks=range(0, 20, 2))
plt.show()

# %% kernels
import torch._inductor.metrics


def kernels(function, *inputs):  # how many Inductor writes
    torch.compiler.reset()
    torch._inductor.metrics.reset()
    with torch.no_grad():
        torch.compile(function)(*inputs)
    return torch._inductor.metrics.generated_kernel_count


# %% fused
square = torch.rand(256, 256)
written = {
    "gelu": kernels(gelu, square),
    "a product": kernels(torch.mm, square, square),
    "gelu, product, gelu": kernels(lambda x: gelu(gelu(x) @ x), square),
}
print(written)

# %% compile-modes
import torch._inductor

mode_options = torch._inductor.list_mode_options()
for mode in ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
    print(mode, mode_options[mode])


# %% cache
import os
import tempfile
from unittest.mock import patch

from torch._dynamo.utils import counters


def looked_up(function, *inputs):
    torch.compiler.reset()  # what this process has compiled
    counters.clear()
    torch.compile(function)(*inputs)
    return dict(counters["inductor"])


numbers = torch.rand(256, 256)
with (
    tempfile.TemporaryDirectory() as folder,
    patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder),
):
    first_time = looked_up(gelu, numbers)
    second_time = looked_up(gelu, numbers)
    other_size = looked_up(gelu, numbers[:200])

print("first:", first_time)
print("second:", second_time)
print("other size:", other_size)


# %% last-digits
def standardized(x):
    return (x - x.mean(dim=0)) / x.std(dim=0)


torch.manual_seed(0)
x = torch.randn(256, 256)
as_written, compiled = standardized(x), torch.compile(standardized)(x)

torch.testing.assert_close(compiled, as_written)
print(f"different: {(compiled != as_written).float().mean():.0%}")
print(f"at most by {(compiled - as_written).abs().max():.1e}")

# %% bfloat16
short = x.bfloat16()
exact = gelu(short.double())
errors = {
    "as written": (gelu(short) - exact).abs().mean().item(),
    "compiled": (torch.compile(gelu)(short) - exact).abs().mean().item(),
}
print({name: f"{error:.5f}" for name, error in errors.items()})


# %% dropout
def dropped(function):
    torch.manual_seed(0)
    return function(torch.ones(10))


drop = nn.Dropout(0.5)
drawn = dropped(drop)
drawn_compiled = dropped(torch.compile(drop))
print("as written:", drawn.int().tolist())
print("compiled:  ", drawn_compiled.int().tolist())

# %% fallback
torch.compiler.reset()
with torch._inductor.config.patch(fallback_random=True):
    drawn_alike = dropped(torch.compile(drop))
print("compiled:  ", drawn_alike.int().tolist())


# %% nothing
# Wrong on purpose: do not copy.
torch.compiler.reset()
graphs.clear()
layers = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))
layers.compile(backend=keep_graph)
layers(batch)
print("graphs:", len(graphs))

# %% something
wrapped = counted(layers)
wrapped(batch)
print("graphs:", len(graphs))

# %% no-compiler
torch.compiler.reset()
with torch._inductor.config.patch({"cpp.cxx": (None, "no-such-compiler")}):
    lacking = torch.compile(gelu)
    try:
        lacking(batch)
    except RuntimeError as error:
        not_found = str(error)

print(not_found.partition("\n")[0])

# %% how-many
print(kernels(lambda x: torch.relu(x @ x + 1) * 2, square))
