"""
What fills the memory in one step
=================================

See parameters, gradients, the optimizer's state and activations come and go
in the first two steps of a training, and find what to make smaller.

The rule: **parameters, gradients and state follow the model, activations the
batch**. What is largest at the peak tells you what to change.

Download the script and start it with ``--help`` for all that it can do::

    python memory_anatomy.py
    python memory_anatomy.py --batch 32 --width 512
    python memory_anatomy.py --optimizer SGD

It needs ``torch``, ``matplotlib``.
"""

# %% settings
#
# Settings
# --------
#
# In the notebook, change these lines. As a script, give arguments instead.

BATCH = 512  # samples in a batch
WIDTH = 256  # inputs and outputs of each layer
LAYERS = 4
OPTIMIZER = "AdamW"  # or SGD, Adagrad

# %% options
#
# .. _each-argument-sets-its-constant:
#
# In a script, each argument sets the constant of its name.
#
# .. _a-number-out-of-bounds-is-refused:
#
# A number below 1, or another optimizer, ends the script, with a line that
# says what is possible.

import argparse

if "__file__" in globals():  # a script, and no notebook
    parser = argparse.ArgumentParser(
        description="Draw what two training steps hold in memory.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--batch", type=int, default=BATCH, help="samples in a batch")
    add("--width", type=int, default=WIDTH, help="numbers in a layer")
    add("--layers", type=int, default=LAYERS, help="layers of the model")
    names = ["SGD", "Adagrad", "AdamW"]
    add("--optimizer", choices=names, default=OPTIMIZER, help="its kind")
    options = parser.parse_args()
    if min(options.batch, options.width, options.layers) < 1:
        parser.error("--batch, --width and --layers are at least 1")
    BATCH, WIDTH, LAYERS = options.batch, options.width, options.layers
    OPTIMIZER = options.optimizer

# %% predict
#
# A forecast
# ----------
#
# Predict the bytes of each kind, with four bytes for each ``float32``. Count
# as activations the batch and the result of each ``ReLU``, and as state so
# many times the parameters, and so many counters for each weight and each
# bias. :doc:`How much memory does Adam need? </memory/optimizer_state>` has
# more kinds.

KEEPS = {"SGD": (0, 0), "Adagrad": (1, 1), "AdamW": (2, 1)}

numbers = LAYERS * (WIDTH * WIDTH + WIDTH)
times, counters = KEEPS[OPTIMIZER]
predicted = {
    "parameters": 4 * numbers,
    "gradients": 4 * numbers,
    "state": 4 * (times * numbers + counters * 2 * LAYERS),
    "activations": 4 * BATCH * WIDTH * (1 + LAYERS),
}

print(predicted)

# %% mark
#
# Two steps, recorded
# -------------------
#
# Let the profiler record each allocation and each release, and leave marks in
# the record that say what a tensor is for: this address is a parameter, that
# one a gradient.

import json
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile, record_function

torch.manual_seed(0)


def mark(what, tensor=None):
    """Leave a mark: the end of a stage, or what a tensor is for."""
    address = tensor.untyped_storage().data_ptr() if what in predicted else 0
    with record_function(f"mark:{what}:{address}"):
        pass


def note_activation(tensor):
    mark("activations", tensor)
    return tensor


def note_gradient(parameter):
    mark("gradients", parameter.grad)


# %% train
#
# The training itself. Its step is a function, so that the batch and the loss
# are freed when it ends.


def step(model, optimizer, number):
    inputs = torch.randn(BATCH, WIDTH)
    with saved_tensors_hooks(note_activation, lambda tensor: tensor):
        loss = model(inputs).square().mean()
    mark(f"forward {number}")
    loss.backward()
    mark(f"backward {number}")
    optimizer.step()
    for state in optimizer.state.values():
        for value in state.values():
            mark("state", value)
    mark(f"step {number}")
    optimizer.zero_grad()


def training():
    layers = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    model = nn.Sequential(*layers)
    for parameter in model.parameters():
        mark("parameters", parameter)
        parameter.register_post_accumulate_grad_hook(note_gradient)
    optimizer = getattr(torch.optim, OPTIMIZER)(model.parameters())
    mark("model made")
    for number in (1, 2):
        step(model, optimizer, number)
        mark(f"zero_grad {number}")


# %% record


def record(call):
    """Run a function, and return the notes of the profiler in their order."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        p.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return sorted(events, key=lambda event: event.get("ts", 0))


events = record(training)

# %% sort
#
# Give each block of memory the kind that its mark says, then add up.
#
# .. _gradients-of-activations-are-other:
#
# What has no mark is *other*, such as the gradients of activations, which
# ``backward`` passes from layer to layer.


def blocks_of(events):
    """Yield each block that comes (1) or goes (-1), and each mark (0)."""
    alive = {}
    for event in events:
        name, args = event.get("name", ""), event.get("args", {})
        if name == "[memory]" and args["Bytes"] > 0:
            alive[args["Addr"]] = {"kind": "other", "size": args["Bytes"]}
            yield 1, alive[args["Addr"]]
        elif name == "[memory]" and args["Addr"] in alive:
            yield -1, alive.pop(args["Addr"])
        elif name.startswith("mark:"):
            _, what, address = name.split(":")
            block = alive.get(int(address), {"kind": None})
            if block["kind"] == "other":
                block["kind"] = what
            elif what not in predicted:
                yield 0, what


held = dict.fromkeys([*predicted, "other"], 0)
curve, stages, ends = [], {}, {}
for sign, what in list(blocks_of(events)):
    if sign:
        held[what["kind"]] += sign * what["size"]
        curve.append(dict(held))
    else:
        stages[what], ends[what] = dict(held), len(curve) - 1

for stage, now in stages.items():
    print(f"{stage:11}", {kind: size // 1024 for kind, size in now.items()})

# %% compare
#
# .. _each-kind-is-as-predicted:
#
# At its largest, each of the four kinds takes exactly the predicted bytes.
#
# .. _activations-follow-the-batch:
#
# With a larger batch, the activations grow; the parameters, the gradients and
# the state do not.
#
# .. _the-state-stays-after-the-step:
#
# After a step and its ``zero_grad``, only the parameters and the state are
# left.

largest = {kind: max(now[kind] for now in curve) for kind in held}
print({kind: (largest[kind], predicted[kind]) for kind in predicted})

# %% conclude
#
# What to make smaller
# --------------------
#
# .. _the-largest-never-meet:
#
# The four kinds are never at their largest at once: while ``backward`` makes
# the gradients, it frees the activations.
#
# .. _backward-makes-the-peak:
#
# Here the peak comes in the second ``backward``. It is higher than all four
# together, because of what is *other*.
#
# .. _the-remedy-follows-the-peak:
#
# Activations are the largest kind at the peak; with a batch of 32, the state
# of AdamW is.

REMEDIES = {
    "parameters": "make the model smaller",
    "gradients": "train fewer parameters",
    "state": "use an optimizer with less state",
    "activations": "use a smaller batch, or activation checkpointing",
    "other": "use a smaller batch",
}

together = [sum(now.values()) for now in curve]
place = together.index(max(together))
peak = curve[place]
stage = next(name for name, end in ends.items() if place <= end)
most = max(peak, key=peak.get)
if stage.startswith("step"):  # of the optimizer
    REMEDIES["other"] = "pass fused=True to the optimizer"
meet = any(
    all(now[kind] == largest[kind] for kind in predicted) for now in curve
)

print(f"The peak is {max(together) / 1e6:.2f} MB, in {stage!r}.")
print(f"Most of it is {most}, {peak[most] / 1e6:.2f} MB: {REMEDIES[most]}.")
print(f"What is other is {peak['other'] / 1e6:.2f} MB of it.")
four = (
    f"All four at their largest at once, {sum(predicted.values()) / 1e6:.2f}"
)
print(f"{four} MB:", "so it is." if meet else "not here.")

# %% picture
#
# See what is held after each stage and at the peak. The last bar has each kind
# at its largest.

import matplotlib.pyplot as plt

COLORS = "#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7"

bars = {**stages, "the peak": peak, "predicted": {"other": 0, **predicted}}
figure, axis = plt.subplots(figsize=(7, 4.5))
left = [0.0] * len(bars)
for kind, color in zip(held, COLORS, strict=True):
    sizes = [now[kind] / 1e6 for now in bars.values()]
    axis.barh(list(bars), sizes, left=left, color=color, label=kind)
    left = [start + size for start, size in zip(left, sizes, strict=True)]
axis.invert_yaxis()
axis.set_xlabel("megabytes")
axis.set_title("What is held after each stage, and at the peak")
axis.legend()
figure.tight_layout()
plt.show()

# %% curve
#
# And this is each allocation and each release, one after the other.

import matplotlib.pyplot as plt

COLORS = "#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7"

figure, axis = plt.subplots(figsize=(7, 4))
heights = [[now[kind] / 1e6 for now in curve] for kind in held]
places = range(len(curve))
axis.stackplot(places, heights, colors=COLORS, labels=list(held))
start = 0
for name, end in ends.items():
    axis.axvline(end, color="black", linewidth=0.5, linestyle="--")
    if end - start > 10:  # wide enough for its name
        where = {"ha": "center", "va": "bottom", "rotation": 90}
        axis.text((start + end) / 2, 0.1, name, **where)
    start = end
axis.set_xlabel("allocations and releases, in their order")
axis.set_ylabel("megabytes")
axis.set_title("Two training steps, byte by byte")
axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
figure.tight_layout()
plt.show()
