"""
Train in mixed precision
========================

Which types autocast uses, forward and backward, and what a scaler does.
"""

# %% model
import warnings

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
inputs, targets = torch.randn(8, 4), torch.randint(3, (8,))
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))

# %% forward
with torch.autocast("cpu", dtype=torch.bfloat16):
    hidden = model[0](inputs)
    outputs = model(inputs)
    loss = F.cross_entropy(outputs, targets)
    probabilities = outputs.softmax(dim=1)
    sums = outputs + outputs

rows = {
    "a parameter": model[0].weight,
    "what Linear gives": hidden,
    "what softmax gives": probabilities,
    "the loss": loss,
    "a sum of two outputs": sums,
}
rows = {name: {"dtype": str(each.dtype)} for name, each in rows.items()}

# %% forward-table
import pandas as pd

pd.DataFrame.from_dict(rows, orient="index")

# %% backward
seen = []


class Watch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        seen.append(gradient.dtype)
        return gradient


# %% watch
with torch.autocast("cpu", dtype=torch.bfloat16):
    hidden = Watch.apply(model[0](inputs))
    loss = F.cross_entropy(model[2](model[1](hidden)), targets)
loss.backward()

print("between the layers:", seen[0])
print("of a parameter:", model[0].weight.grad.dtype)

# %% precision
kept = {}
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    weight = torch.tensor(1.0, dtype=dtype)
    for _ in range(100):
        weight = weight + 0.001  # a hundred small updates
    kept[dtype] = weight.item()

print(kept)

# %% underflow
small = torch.tensor(1e-8)
lost = small.to(torch.float16).item()
scaled = (small * 65536).to(torch.float16).item() / 65536
in_bfloat16 = small.to(torch.bfloat16).item()

print(lost, f"{scaled:.1e}", f"{in_bfloat16:.1e}")

# %% scaler
weight = torch.tensor([1.0], requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)


def step(factor):
    optimizer.zero_grad()
    scaler.scale((factor * weight).sum()).backward()
    gradient = weight.grad.item()
    scaler.step(optimizer)
    scaler.update()
    return gradient, round(weight.item(), 4), scaler.get_scale()


# %% life
life = [step(1.0), step(float("inf")), step(1.0), step(1.0)]

for gradient, value, scale in life:
    print(f"gradient {gradient}, weight then {value}, scale then {scale}")


# %% clip
def clipped_step(unscale):
    weight = torch.tensor([1.0], requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    scaler.scale((0.5 * weight).sum()).backward()
    if unscale:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_([weight], max_norm=1.0)
    scaler.step(optimizer)
    return 1 - weight.item()


print(clipped_step(unscale=True), f"{clipped_step(unscale=False):.1e}")

# %% each-call
scales = []
for _ in range(3):
    scaler = torch.amp.GradScaler("cpu")  # anew at every step
    scaler.scale((float("inf") * weight).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
    optimizer.zero_grad()

print(scales)

# %% old-names
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.cuda.amp.GradScaler(enabled=False)
    torch.cuda.amp.autocast(enabled=False)

for warning in caught:
    if warning.category is FutureWarning:
        print(str(warning.message).partition(". ")[0])

# %% on-cuda
if torch.cuda.is_available():
    layer = nn.Linear(64, 64).to("cuda")
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        on_cuda = layer(torch.randn(8, 64, device="cuda"))
        softmax_on_cuda = on_cuda.softmax(dim=1)
        loss_on_cuda = on_cuda.square().mean()
    scaler.scale(loss_on_cuda).backward()
    print(on_cuda.dtype, softmax_on_cuda.dtype, layer.weight.grad.dtype)
