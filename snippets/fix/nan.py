"""
The loss is nan: find where it comes from
=========================================

A check before each step, and how functions turn a 0 into nan.
"""

# %% digits
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

data = load_digits()
pixels = torch.tensor(data.data[:50], dtype=torch.float32)  # 0 to 16
images, labels = pixels / 16, torch.tensor(data.target[:50])


class Unit(nn.Module):
    def forward(self, x):  # scale each row to length 1
        return x / x.norm(dim=1, keepdim=True)


def new_model():
    torch.manual_seed(0)
    encoder = nn.Linear(64, 32, bias=False)
    return nn.Sequential(encoder, nn.ReLU(), Unit(), nn.Linear(32, 10))


model = new_model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

# %% check
scores = model(images)
loss = F.cross_entropy(scores, labels)
optimizer.zero_grad()
loss.backward()
seen = {"inputs": images, "outputs": scores, "loss": loss}
seen |= {f"gradient of {n}": p.grad for n, p in model.named_parameters()}
for name, x in seen.items():  # before the step ruins the weights
    if x is not None and not x.isfinite().all():
        raise FloatingPointError(f"first of all, look at: {name}")
optimizer.step()


# %% distance
def distance(first, second):
    squares = (first - second).square()
    return squares.sum(dim=1).sqrt()


def mean_distance(scores, labels=None):
    return distance(scores[::2], scores[1::2]).mean()  # of neighbors


# %% faults
def changed(place, value):
    copy = images.clone()
    copy[place] = value
    return copy


def first_bad(images, labels, loss_of=F.cross_entropy):
    """Return the name that the lines above would raise, or None."""
    model = new_model()
    scores = model(images)
    loss = loss_of(scores, labels)
    loss.backward()
    seen = {"inputs": images, "outputs": scores, "loss": loss}
    seen |= {f"gradient of {n}": p.grad for n, p in model.named_parameters()}
    bad = (name for name, x in seen.items() if not x.isfinite().all())
    return next(bad, None)


missing = changed((3, 20), torch.nan)
blank = changed(3, 0.0)
twice = changed(1, images[0])
none = torch.full_like(labels, -100)

print("good data:            ", first_bad(images, labels))
print("a missing pixel:      ", first_bad(missing, labels))
print("a blank image:        ", first_bad(blank, labels))
print("all labels ignored:   ", first_bad(images, none))
print("the same image twice: ", first_bad(twice, labels, mean_distance))

# %% look
names = {layer: name or "model" for name, layer in model.named_modules()}


def look(layer, inputs, output):
    if torch.is_tensor(output):
        print(f"{names.get(layer)}: at most {output.abs().max():.3g}")


handle = nn.modules.module.register_module_forward_hook(look)
model(blank)
handle.remove()

# %% by-hand
rules = {  # the gradient that y = function(x) hands back
    torch.square: lambda x, y, grad: grad * (2 * x),  # 1
    torch.sqrt: lambda x, y, grad: grad / (2 * y),  # 2
    torch.exp: lambda x, y, grad: grad * y,  # 3
    torch.log: lambda x, y, grad: grad / x,  # 4
    torch.sigmoid: lambda x, y, grad: grad * (1 - y) * y,  # 5
}


def chain(functions, x):
    values, grads = [x], [torch.ones_like(x)]
    for function in functions:  # forward, from x on
        values.append(function(values[-1]))  # 6
    for i in reversed(range(len(functions))):  # backward, to x
        rule = rules[functions[i]]
        grads.insert(0, rule(values[i], values[i + 1], grads[0]))  # 7
    return values, grads


# %% chains
for functions, at in [
    ([torch.square, torch.sqrt], 3.0),
    ([torch.square, torch.sqrt], 0.0),
    ([torch.exp, torch.log], 100.0),
]:
    values, grads = chain(functions, torch.tensor(at))
    x = y = torch.tensor(at, requires_grad=True)
    for function in functions:
        y = function(y)
    y.backward()
    print(" then ".join(each.__name__ for each in functions), "at", at)
    print("   values:    ", *[f"{each.item():.3g}" for each in values])
    print("   gradients: ", *[f"{each.item():.3g}" for each in grads])
    print(f"   of PyTorch: value {y.item():.3g}, gradient {x.grad.item():.3g}")

# %% born
inf, nan, zero = torch.tensor([torch.inf, torch.nan, 0.0])
born = [zero * inf, zero / zero, inf - inf, inf / inf]
kept = [nan + 1, nan - nan, nan * 0, nan / inf]
compared = [nan < 1000, nan >= 1000, nan == nan]

for results in (born, kept, compared):
    print(*[each.item() for each in results])


# %% spread
def two_steps(batch, loss_of):
    """Return the loss, and the share of nan weights after it, twice."""
    model, seen = new_model(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(2):
        loss = loss_of(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        weights = nn.utils.parameters_to_vector(model.parameters())
        seen.append((loss.item(), weights.isnan().float().mean().item()))
    return seen


for fault, batch, loss_of in [
    ("a missing pixel", missing, F.cross_entropy),
    ("the same image twice", twice, mean_distance),
]:
    print(fault)
    for step, (loss, share) in enumerate(two_steps(batch, loss_of), start=1):
        print(f"  step {step}: loss {loss:.3f}, {share:.0%} of weights nan")

# %% anomaly
import warnings

with warnings.catch_warnings(record=True) as caught:  # to print it below
    warnings.simplefilter("always")
    with torch.autograd.detect_anomaly():
        try:
            mean_distance(new_model()(twice)).backward()
        except RuntimeError as error:
            print(error)

# %% trace
said = [str(each.message) for each in caught]
trace = next(each for each in said if each.startswith("Error detected"))
place = trace.partition("\n (Triggered")[0].rpartition(", in ")[2]

print(trace.partition(".")[0], "...", f"in {place}", sep="\n")


# %% norm
def mean_norm(scores, labels=None):
    return (scores[::2] - scores[1::2]).norm(dim=1).mean()


print(first_bad(twice, labels, mean_norm))

# %% inputs
whole = missing.isfinite().all(dim=1)
whole_images, whole_labels = missing[whole], labels[whole]
print(f"{len(whole_images)} of {len(missing)} images are whole")

mean, std = images.mean(dim=0), images.std(dim=0)
for divisor in (std, std + 1e-6):
    scaled = (images - mean) / divisor
    print(f"{scaled.isnan().any(dim=0).sum()} of 64 pixels are nan")

# %% batchnorm
batchnorm = nn.BatchNorm1d(64)
batchnorm(missing)
batchnorm(images)  # a later batch, in which nothing is wrong

print(batchnorm.running_mean[18:22])

# %% reset
batchnorm.reset_running_stats()
batchnorm(images)
print(batchnorm.running_mean[18:22])

# %% lines
lines = [  # each pair: how it gives nan, and how it does not
    ([0, 0], "x.square().sum().sqrt()", "x.norm()"),
    ([0, 0], "x / x.norm()", "F.normalize(x, dim=0)"),
    ([-120], "-x.sigmoid().log()", "-F.logsigmoid(x)"),
    ([100, 0], "x.exp().sum().log()", "x.logsumexp(dim=0)"),
    ([200, 0], "x.softmax(dim=0).log()", "x.log_softmax(dim=0)"),
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
def losses(inputs, rate):
    torch.manual_seed(0)
    model, found = nn.Linear(64, 1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(20):
        loss = F.mse_loss(model(inputs)[:, 0], labels.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


print(*[f"{loss:.2g}" for loss in losses(pixels, rate=0.1)])
print(*[f"{loss:.2g}" for loss in losses(pixels, rate=0.0001)])
print(*[f"{loss:.2g}" for loss in losses(pixels / 16, rate=0.01)])

# %% masked
torch.manual_seed(0)
texts = torch.randn(2, 3, 4)  # two texts of three words
mask = torch.tensor([[False] * 3, [True] * 3])  # all of the second text
layer = nn.MultiheadAttention(4, num_heads=2, batch_first=True)

outputs, _ = layer(texts, texts, texts, key_padding_mask=mask)
outputs[0].sum().backward()  # the loss leaves the second text out
alone = F.scaled_dot_product_attention(texts, texts, texts, ~mask[:, None])

print("layer:   ", outputs[1, 0].detach())
print("gradient:", layer.in_proj_weight.grad[0])
print("function:", alone[1, 0])

# %% left-out
rest = ~mask.all(dim=1)
layer.zero_grad()
some = texts[rest]
outputs, _ = layer(some, some, some, key_padding_mask=mask[rest])
outputs.sum().backward()

print(outputs.isfinite().all(), layer.in_proj_weight.grad.isfinite().all())

# %% half
# Wrong on purpose: do not copy.
half = torch.tensor([255.0, 256.0, 1e-8], dtype=torch.float16)
print(half, half.square(), sep="\n")
try:
    half.masked_fill(half > 255, -1e9)
except RuntimeError as error:
    print(error)
print(half.masked_fill(half > 255, torch.finfo(half.dtype).min))


# %% adam
def stepped(dtype, gradient, **options):
    weight = torch.ones(1, dtype=dtype)
    weight.grad = torch.full_like(weight, gradient)
    torch.optim.AdamW([weight], **options).step()
    return weight.item()


for dtype in (torch.float16, torch.float32):
    ends = [stepped(dtype, gradient) for gradient in (0.0, 1e-5)]
    print(dtype, *[f"{end:.4f}" for end in ends])
print(f"with eps=1e-4: {stepped(torch.float16, 0.0, eps=1e-4):.4f}")


# %% clip
def clipped(gradients, **options):
    weights = [torch.ones(1) for _ in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = torch.tensor([gradient])
    nn.utils.clip_grad_norm_(weights, max_norm=1.0, **options)
    return [round(weight.grad.item(), 4) for weight in weights]


for gradients in ([3.0, 4.0], [3.0, torch.inf], [3.0, torch.nan]):
    print(gradients, "->", clipped(gradients))
try:
    clipped([3.0, torch.inf], error_if_nonfinite=True)
except RuntimeError as error:
    print(error)

# %% sigmoid-log
values, grads = chain([torch.sigmoid, torch.log], torch.tensor(-120.0))
print("value", values[-1].item(), "gradient", grads[0].item())


# %% divide
def divide(a, b):
    return torch.where(b == 0, 0.0, a / torch.where(b == 0, 1.0, b))


# %% divide-checked
a = torch.tensor([1.0, 6.0, 0.0], requires_grad=True)
b = torch.tensor([0.0, 2.0, 0.0], requires_grad=True)
quotients = divide(a, b)
quotients.sum().backward()
if quotients.tolist() != [0.0, 3.0, 0.0]:
    print("The quotients should be 0, 3 and 0; they are", quotients.tolist())
elif not (a.grad.isfinite().all() and b.grad.isfinite().all()):
    print("The values are right. Now look at the gradients:", a.grad, b.grad)
else:
    print("Right: finite values and finite gradients, also where b is 0.")
