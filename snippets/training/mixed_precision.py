"""
Train in 16 bits
================

A whole step for any device, the range of 16 bits, and what goes wrong in it.
"""

# %% radar
import warnings

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
radar = torch.randn(4, 2, 64, 64)  # four days, two maps of 64 x 64 places
rain = 0.001 * F.conv2d(radar, torch.randn(1, 2, 3, 3), padding=1)  # metres


def new_model(seed=0):
    torch.manual_seed(seed)
    return nn.Conv2d(2, 1, 3, padding=1)


# %% best-dtype
def best_dtype(device):
    on_cuda = device.type == "cuda"
    if on_cuda and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    return torch.get_autocast_dtype(device.type)


# %% accumulate
def accumulate(model, parts, loss_of, scaler, dtype):
    device = next(model.parameters()).device
    mixed = dtype is not torch.float32
    total, batch_loss = sum(len(targets) for _, targets in parts), 0.0
    for inputs, targets in parts:
        inputs, targets = inputs.to(device), targets.to(device)
        with torch.autocast(device.type, dtype=dtype, enabled=mixed):
            loss = loss_of(model(inputs), targets)
        share = loss * len(targets) / total
        scaler.scale(share).backward()
        batch_loss += share.detach()
    return batch_loss


# %% train-step
def train_step(model, parts, loss_of, optimizer, scaler, dtype, max_norm=1.0):
    model.train()
    optimizer.zero_grad()
    loss = accumulate(model, list(parts), loss_of, scaler, dtype)
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scale = scaler.get_scale()
    scaler.update()
    stepped = scaler.get_scale() >= scale > 0
    return loss, stepped


# %% once
if torch.accelerator.is_available():
    device = torch.accelerator.current_accelerator()
else:
    device = torch.device("cpu")
dtype = best_dtype(device)
model = new_model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 20)
enabled = dtype is torch.float16
scaler = torch.amp.GradScaler(device.type, enabled=enabled)

# %% loop
parts = [(radar[:3], rain[:3]), (radar[3:], rain[3:])]  # three days, and one
for step in range(20):
    loss, stepped = train_step(
        model, parts, F.mse_loss, optimizer, scaler, dtype
    )
    if stepped:
        schedule.step()
    if step in (0, 19):
        print(dtype, f"loss {loss.item():.1e}")


# %% forecast
def forecast(model, inputs, dtype):
    device = next(model.parameters()).device
    mixed = dtype is not torch.float32
    model.eval()
    autocast = torch.autocast(device.type, dtype=dtype, enabled=mixed)
    with torch.no_grad(), autocast:
        return model(inputs.to(device)).float()


# %% train
def train(dtype, scaled=False, steps=20, targets=rain, bias=None, seed=0):
    model = new_model(seed)
    if bias is not None:
        nn.init.constant_(model.bias, bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    given = model, [(radar, targets)], F.mse_loss, optimizer, scaler, dtype
    losses = [train_step(*given)[0].item() for _ in range(steps)]
    return losses, model, scaler


# %% slopes
def output_slopes(model, dtype, factor=1.0):
    with torch.autocast("cpu", dtype=dtype, enabled=dtype.itemsize == 2):
        outputs = model(radar)
        loss = F.mse_loss(outputs, rain)
    return torch.autograd.grad(factor * loss, outputs)[0]


_, late, _ = train(torch.float32, steps=12)

# %% ranges
types = (torch.float32, torch.bfloat16, torch.float16)
ranges = {}
for each in types:
    info = torch.finfo(each)
    least = info.smallest_normal * info.eps
    ranges[each] = least, info.smallest_normal, info.max, 1 + info.eps

# %% ranges-drawn
import matplotlib.pyplot as plt

figure, (wide, near) = plt.subplots(
    2, 1, figsize=(7.5, 4.6), height_ratios=(3, 2), layout="constrained"
)
names = [str(each).removeprefix("torch.") for each in types]
for row, (least, normal, most, following) in enumerate(ranges.values()):
    wide.plot([least, normal], [row, row], "k", linewidth=1)
    wide.plot([normal, most], [row, row], "k", linewidth=6)
    step = max(following - 1, 0.00002)  # closer marks look the same
    marks = [1 + i * step for i in range(round(0.02 / step) + 1)]
    near.plot(marks, [row] * len(marks), "k|", markersize=12)
near.set(xlim=(0.9995, 1.0205), title="The numbers from 1 to 1.02")
slopes = output_slopes(late, torch.float32).abs().flatten()
for factor, color in ((1, "#D55E00"), (65536, "#0072B2")):
    low, high = (factor * slopes.quantile(q).item() for q in (0.05, 0.95))
    label = "gradients" if factor == 1 else "gradients, times 65,536"
    wide.axvspan(low, high, color=color, alpha=0.5, label=label)
wide.set(xscale="log", title="Where the line is thin, digits are lost")
for axes in (wide, near):
    axes.set(yticks=range(3), yticklabels=names, ylim=(2.6, -0.6))
wide.set_xticks([1e-45, 1e-38, 1e-24, 1e-8, 1, 65504, 1e24, 1e38])
wide.set_xticklabels(
    ["1e-45", "1e-38", "1e-24", "1e-8", "1", "65,504", "1e24", "1e38"]
)
wide.minorticks_off()
labels = wide.get_legend_handles_labels()
figure.legend(*labels, loc="outside lower center", ncols=2)
figure.suptitle("From the smallest to the largest number of three types")
plt.show()

# %% zeros
zeros = {}
for name, each, factor in (
    ("float32", torch.float32, 1),
    ("bfloat16", torch.bfloat16, 1),
    ("float16", torch.float16, 1),
    ("float16, times 65,536", torch.float16, 65536),
):
    found = output_slopes(late, each, factor)
    zeros[name] = (found == 0).float().mean().item()

# %% zeros-shown
import pandas as pd

rows = {
    name: {"gradients that are 0": f"{100 * share:.1f} %"}
    for name, share in zeros.items()
}

pd.DataFrame.from_dict(rows, orient="index")

# %% four-ways
ways = {
    "float32": train(torch.float32)[0],
    "bfloat16": train(torch.bfloat16)[0],
    "float16": train(torch.float16)[0],
    "float16 with a scaler": train(torch.float16, scaled=True)[0],
}

# %% four-ways-drawn
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
looks = (("k", "-"), ("#009E73", "-"), ("#D55E00", "-"), ("#0072B2", "--"))
for (name, losses), (color, line) in zip(ways.items(), looks, strict=True):
    axes.semilogy(losses, line, color=color, label=name)
axes.set(xlabel="step", ylabel="loss", title="The loss of four trainings")
axes.set_xticks(range(0, 20, 5))
axes.legend()
plt.show()


# %% operations
operations = {
    "linear": lambda x, h: F.linear(x, x),
    "matmul": lambda x, h: x @ x,
    "conv2d": lambda x, h: F.conv2d(x[None, None], x[None, None]),
    "relu": lambda x, h: h.relu(),
    "exp": lambda x, h: h.exp(),
    "sum": lambda x, h: h.sum(),
    "softmax": lambda x, h: h.softmax(dim=1),
    "layer_norm": lambda x, h: F.layer_norm(h, (4,)),
    "mse_loss": lambda x, h: F.mse_loss(h, h),
    "cross_entropy": lambda x, h: F.cross_entropy(h, h),
}


# %% results
def results(dtype, device="cpu"):
    x = torch.rand(4, 4, device=device)
    with torch.autocast(device, dtype=dtype):
        return {
            name: operation(x, x.to(dtype)).dtype
            for name, operation in operations.items()
        }


# %% results-shown
import pandas as pd

wide = "linear", "matmul", "conv2d"
rows = {
    name: {
        "of": "float32" if name in wide else "bfloat16",
        "gives": str(found).removeprefix("torch."),
    }
    for name, found in results(torch.bfloat16).items()
}

pd.DataFrame.from_dict(rows, orient="index")


# %% live
def live(slopes, **options):
    weight = torch.tensor(1.0, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", **options)
    for slope in slopes:
        optimizer.zero_grad()
        scaler.scale(slope * weight).backward()
        scaled = weight.grad.item()
        scaler.step(optimizer)
        scaler.update()
        yield scaled, weight.item(), scaler.get_scale()


# %% life
life = list(live([1.0, 1e36, 1.0, 1.0], growth_interval=2))

# %% life-shown
import pandas as pd

columns = ["scaled gradient", "weight after", "scale after"]
rows = {f"step {i + 1}": list(row) for i, row in enumerate(life)}

pd.DataFrame.from_dict(rows, orient="index", columns=columns)

# %% whole-loop
# Wrong on purpose: do not copy.
model = new_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
stale = []
with torch.autocast("cpu", dtype=torch.bfloat16):
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.mse_loss(model(radar), rain)
        loss.backward()
        optimizer.step()
        stale.append(loss.item())

# %% whole-loop-printed
fresh, *_ = train(torch.bfloat16, steps=4)

print("around the loop:   ", [f"{loss:.4f}" for loss in stale])
print("around the forward:", [f"{loss:.4f}" for loss in fresh])


# %% moved
def moved(model, steps=20, lr=0.0001):
    before = [p.clone() for p in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.mse_loss(model(radar), rain)
        loss.backward()
        optimizer.step()
    pairs = zip(model.parameters(), before, strict=True)
    return torch.cat([(p != old).flatten() for p, old in pairs])


# %% half-weights
# Wrong on purpose: do not copy.
stuck = moved(new_model().to(torch.bfloat16))
free = moved(new_model())

print("bfloat16 weights that moved:", stuck.sum().item(), "of", len(stuck))
print("float32 weights that moved: ", free.sum().item(), "of", len(free))

# %% overflow
# Wrong on purpose: do not copy.
pressure = 101_300 + 100_000 * rain  # pascals
around = {"targets": pressure, "bias": 101_300.0}
losses, _, scaler = train(torch.float16, True, **around)

print("pascals:", losses[-1], f"with a scale of {scaler.get_scale():.1e}")

# %% other-units
near = (pressure - 101_300) / 100  # hectopascals from the mean
losses, _, scaler = train(torch.float16, True, targets=near)

print(f"hectopascals: {losses[-1]:.1e}, scale {scaler.get_scale():.0f}")


# %% clipped-move
def clipped_move(unscale, max_norm=0.1, seed=0, lr=0.3):
    model = new_model(seed)
    before = nn.utils.parameters_to_vector(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(F.mse_loss(model(radar), rain)).backward()
    if unscale:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    after = nn.utils.parameters_to_vector(model.parameters())
    return (after - before).norm().item()


# %% clipped
print(f"clipped after unscale_: a step of {clipped_move(True):.2g}")
print(f"clipped without it:     a step of {clipped_move(False):.2g}")


# %% text-of
def text_of(call):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


# %% refused
model = new_model().half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(model(radar.half()).float().mean()).backward()
texts = [
    text_of(lambda: scaler.step(optimizer)),
    text_of(lambda: nn.Linear(64, 1)(radar.half())),
    text_of(lambda: new_model()(radar.half())),
]

print(*texts, sep="\n")

# %% skipped
model = new_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)  # too large
given = model, [(radar, rain)], F.mse_loss, optimizer, scaler, torch.float16
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    loss, stepped = train_step(*given)
    schedule.step()  # without asking whether the weights moved

warned = [str(each.message).partition(". ")[0] for each in caught]

print("stepped:", stepped, *warned)

# %% resumed
saved = torch.amp.GradScaler("cpu", enabled=False).state_dict()
scaler = torch.amp.GradScaler("cpu")
empty = text_of(lambda: scaler.load_state_dict(saved))

print(empty)

# %% old-names
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.cuda.amp.GradScaler()
    torch.cuda.amp.autocast()
old = [str(each.message) for each in caught if each.category is FutureWarning]

print(*old, sep="\n")
