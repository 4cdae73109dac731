"""
Find where nan comes from
=========================

Checks that name the first input, layer or gradient that is not finite.
"""

# %% winds
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
winds = 3 * torch.randn(64, 2)  # to the east and to the north, of 64 days
chill = winds.square().sum(dim=1, keepdim=True) ** 0.25


# %% model
class Speed(nn.Module):
    def forward(self, wind):
        squares = wind.square()
        return squares.sum(dim=1, keepdim=True).sqrt()


def new_model():
    torch.manual_seed(1)
    model = nn.Sequential()
    model.turn = nn.Linear(2, 2, bias=False)
    model.speed = Speed()
    model.body, model.relu = nn.Linear(1, 8), nn.ReLU()
    model.head = nn.Linear(8, 1)
    return model


# %% check
def check(tensors):
    """Raise an error at the first tensor that is not finite."""
    for name, values in tensors.items():
        if values is not None and not values.isfinite().all():
            nans, infs = values.isnan().sum(), values.isinf().sum()
            message = f"{name}: {nans} nan, {infs} inf of {values.numel()}"
            raise FloatingPointError(message)


# %% flat
def flat(values):
    """Return the floating point tensors in tuples, lists and dicts."""
    if torch.is_tensor(values):
        has_range = values.is_floating_point() and values.numel()
        return [values] if has_range else []
    if isinstance(values, dict):
        values = list(values.values())
    if not isinstance(values, tuple | list):
        return []
    return [each for value in values for each in flat(value)]


# %% watch
def watch(model):
    """Let the first layer whose output is not finite raise an error."""

    def look(layer, inputs, output):
        if not all(each.isfinite().all() for each in flat(output)):
            seen = [f"{x.min():.3g} to {x.max():.3g}" for x in flat(inputs)]
            where = names.get(layer, layer)  # a copy has no name
            message = f"{where}: output not finite, inputs {seen}"
            raise FloatingPointError(message)

    names = {layer: name or "model" for name, layer in model.named_modules()}
    return [layer.register_forward_hook(look) for layer in names]


# %% careful-step
def careful_step(model, optimizer, inputs, targets):
    check({"inputs": inputs, "targets": targets})
    loss = F.mse_loss(model(inputs), targets)
    check({"loss": loss})
    optimizer.zero_grad()
    loss.backward()
    parameters = reversed(list(model.named_parameters()))
    check({f"gradient of {name}": p.grad for name, p in parameters})
    optimizer.step()
    return loss.item()


# %% faults
missing, filled, calm = winds.clone(), winds.clone(), winds.clone()
missing[3, 0] = torch.nan  # an empty field
filled[3, 0] = 9.97e36  # stands for "no value" in some files
calm[3] = 0.0  # a day without wind

# %% do-this
for given in (winds, missing, filled, calm):
    model = new_model()
    hooks = watch(model)  # while you search
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    try:
        print(careful_step(model, optimizer, given, chill))
    except FloatingPointError as error:
        print(error)

# %% remove
for hook in hooks:
    hook.remove()

# %% anomaly
import warnings

model = new_model()
with warnings.catch_warnings(record=True) as caught:  # to print it below
    warnings.simplefilter("always")
    with torch.autograd.detect_anomaly():
        try:
            F.mse_loss(model(calm), chill).backward()
        except RuntimeError as error:
            print(error)

# %% trace
said = [str(each.message) for each in caught]
trace = next(each for each in said if each.startswith("Error detected"))
place = trace.partition("\n (Triggered")[0].rpartition(", in ")[2]

print(trace.partition(".")[0], "...", f"in {place}", sep="\n")


# %% fixed
class Length(nn.Module):
    def forward(self, wind):
        return wind.norm(dim=1, keepdim=True)


model = new_model()
model.speed = Length()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

print(careful_step(model, optimizer, calm, chill))


# %% spread
def spread(given, steps):
    """Return which share of each tensor is nan and inf in the last step."""
    model, held = new_model(), {"inputs": given}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        values = given
        for name, layer in model.named_children():
            values = held[f"output of {name}"] = layer(values)
        loss = held["loss"] = F.mse_loss(values, chill)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name, p in reversed(list(model.named_parameters())):
        held[f"gradient of {name}"] = p.grad
    held.update(model.named_parameters())
    return {
        name: (
            x.isnan().float().mean().item(),
            x.isinf().float().mean().item(),
        )
        for name, x in held.items()
    }


# %% spreads
spreads = {
    "an empty field": spread(missing, steps=1),
    "9.97e36 for no value": spread(filled, steps=1),
    "no wind": spread(calm, steps=1),
    "no wind, second step": spread(calm, steps=2),
}

# %% spreads-drawn
import matplotlib.pyplot as plt

figure, panels = plt.subplots(
    1, 4, sharey=True, figsize=(7.5, 4.6), layout="constrained"
)
for axes, (name, shares) in zip(panels, spreads.items(), strict=True):
    nans, infs = zip(*shares.values(), strict=True)
    for kind, color, found in (
        ("nan", "#0072B2", nans),
        ("inf", "#E69F00", infs),
    ):
        rows = [row for row, share in enumerate(found) if share]
        widths = [found[row] for row in rows]
        axes.barh(rows, widths, color=color, edgecolor=color, lw=3, label=kind)
    axes.set_title(name, fontsize="small")
    axes.set(xlim=(-0.03, 1.05), xticks=(0, 1), xlabel="share")
panels[0].set_yticks(range(len(shares)), shares)
panels[0].invert_yaxis()
labels = panels[1].get_legend_handles_labels()
figure.legend(*labels, loc="outside lower center", ncols=2)
figure.suptitle("What one bad day of 64 has made nan or inf")
plt.show()

# %% born
inf, nan = torch.tensor([torch.inf, torch.nan])
born = ["inf - inf", "inf / inf", "0 * inf"]
kept = ["nan + 1", "nan - 1", "nan * 0", "nan / 2"]
compared = ["nan < 1", "nan > 1", "nan <= 1", "nan >= 1", "nan == nan"]
questions = [*born, *kept, *compared]
answers = [eval(each).item() for each in questions]

for question, answer in zip(questions, answers, strict=True):
    print(question, answer, sep=": ")

# %% csv
import numpy as np

table = ["3.1,-2.0", "4.5,", "0.2,1.4"]  # of the second day, a field is empty
days = torch.from_numpy(np.genfromtxt(table, delimiter=","))
whole = days[days.isfinite().all(dim=1)]

print(days.tolist(), whole.tolist(), sep="\n")

# %% batchnorm
norm = nn.BatchNorm1d(2)
norm(missing)
norm(winds)  # a later batch, in which nothing is wrong

print(norm.running_mean.tolist(), norm.running_var.tolist())

# %% lines
lines = [  # each pair: how it gives nan or inf, and how it does not
    ([0, 0], "x.square().sum().sqrt()", "x.norm()"),
    ([20], "-(1 - x.sigmoid()).log()", "-F.logsigmoid(-x)"),
    ([100, 0], "x.exp().sum().log()", "x.logsumexp(0)"),
    ([7, 7], "(x - x.mean()) / x.std()", "(x - x.mean()) / (x.std() + 1e-6)"),
    ([0], "(1 / x) * (x > 0)", "(1 / x.where(x > 0, 1)) * (x > 0)"),
    ([-1], "x.sqrt().nan_to_num()", "x.clamp(min=1e-6).sqrt()"),
]


def tried(line, at, dtype=torch.float32):
    x = torch.tensor(at, dtype=dtype, requires_grad=True)
    value = eval(line)
    value.sum().backward()
    return value, x.grad


# %% lines-tabulated
import pandas as pd

rows = {
    line: [at, *(each.tolist() for each in tried(line, at))]
    for at, *both in lines
    for line in both
}

columns = ["x", "value", "gradient"]
pd.DataFrame.from_dict(rows, orient="index", columns=columns)


# %% rates
def losses(rate, seed=0):
    torch.manual_seed(seed)
    model, found = nn.Linear(2, 1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(18):
        loss = F.mse_loss(model(winds), chill)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


# %% too-large
print(*[f"{loss:.2g}" for loss in losses(30.0)])
print(*[f"{loss:.2g}" for loss in losses(0.01)])

# %% masked
torch.manual_seed(0)
texts = torch.randn(2, 3, 4)
mask = torch.tensor([[False] * 3, [True] * 3])  # all of the second text
layer = nn.MultiheadAttention(4, num_heads=2, batch_first=True)


def attend(**options):
    layer.zero_grad()
    given = {"key_padding_mask": mask, **options}
    outputs, _ = layer(texts, texts, texts, **given)
    outputs[0].sum().backward()  # the loss leaves the second text out
    slopes = layer.in_proj_weight.grad
    return outputs[1].detach(), slopes.isnan().sum().item()


# %% need-weights
# Wrong on purpose: do not copy.
print("default:", *attend(), sep="\n")

# %% without-weights
print("need_weights=False:", *attend(need_weights=False), sep="\n")

shares = F.scaled_dot_product_attention(texts, texts, texts, ~mask[:, None])
print("alone:", shares[1], sep="\n")


# %% fast-path
def evaluated(fast):
    torch.backends.mha.set_fastpath_enabled(fast)
    given = {"key_padding_mask": mask, "need_weights": False}
    with torch.no_grad():
        outputs, _ = layer.eval()(texts, texts, texts, **given)
    torch.backends.mha.set_fastpath_enabled(True)
    return outputs[1]


print("in evaluation:", evaluated(fast=True), sep="\n")
print("without the fast path:", evaluated(fast=False), sep="\n")

# %% half
# Wrong on purpose: do not copy.
half = torch.tensor([255.0, 256.0], dtype=torch.float16)
lowered = half - 1e9

print(half.square().tolist(), lowered.tolist())
try:
    half.masked_fill(torch.tensor([True, False]), -1e9)
except RuntimeError as error:
    print(error)


# %% adam
def stepped(dtype, gradient, **options):
    weight = torch.ones(1, dtype=dtype)
    weight.grad = torch.full_like(weight, gradient)
    torch.optim.AdamW([weight], **options).step()
    return weight.item()


print(stepped(torch.float16, 0.0), stepped(torch.float16, 1e-5))
print(stepped(torch.float32, 0.0), stepped(torch.float32, 1e-5))


# %% clipped
def clipped(gradients, **options):
    weights = [torch.ones(1) for _ in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = torch.tensor([gradient])
    nn.utils.clip_grad_norm_(weights, max_norm=1.0, **options)
    return [weight.grad.item() for weight in weights]


# %% clip
for gradients in ([3.0, 4.0], [3.0, torch.inf], [3.0, torch.nan]):
    print(gradients, "->", clipped(gradients))

# %% clip-strict
try:
    clipped([3.0, torch.inf], error_if_nonfinite=True)
except RuntimeError as error:
    print(error)
