"""
TF32: set_float32_matmul_precision
==================================

What torch.set_float32_matmul_precision changes, and how many digits it costs.
"""

# %% switch
import torch

print("before:", torch.get_float32_matmul_precision())
torch.set_float32_matmul_precision("high")
print("now:", torch.get_float32_matmul_precision())

# %% every-digit
torch.set_float32_matmul_precision("highest")
points = torch.rand(100, 2)
distances = torch.cdist(points, points)
torch.set_float32_matmul_precision("high")


# %% rounded
def rounded(x, bits):
    fraction, exponent = torch.frexp(x)
    steps = (fraction * 2 ** (bits + 1)).round()
    return torch.ldexp(steps, exponent - bits - 1)


for bits in (23, 10, 7):
    print(bits, "bits:", rounded(torch.tensor([273.15, 0.1]), bits).tolist())


# %% errors
def relative_error(bits, summands):
    a, b = torch.randn(64, summands), torch.randn(summands, 64)
    right = a.double() @ b.double()
    error = rounded(a, bits) @ rounded(b, bits) - right
    return (error.square().sum() / right.square().sum()).sqrt().item()


torch.manual_seed(0)
torch.set_float32_matmul_precision("highest")  # this computes in float32
summands = [4, 16, 64, 256, 1024, 4096]
errors = {
    bits: [relative_error(bits, number) for number in summands]
    for bits in (7, 10, 23)
}

# %% errors-drawn
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
names = {7: "7 bits: bfloat16", 10: "10 bits: TF32", 23: "23 bits: float32"}
for (bits, name), color in zip(
    names.items(), ("#D55E00", "#E69F00", "#0072B2"), strict=True
):
    axis.plot(summands, errors[bits], "o-", color=color, label=name)
axis.set(xscale="log", yscale="log")
axis.set_title("How far off a product of two matrices is")
axis.set_xlabel("summands of each number")
axis.set_ylabel("relative error")
axis.legend()
plt.show()

# %% stations
torch.manual_seed(0)
places = torch.tensor([300.0, 400.0]) + 20 * torch.rand(30, 2)  # in km


def squared(places, bits):
    lengths = places.square().sum(1)
    near = rounded(places, bits)
    return lengths[:, None] + lengths - 2 * near @ near.T


# %% far
# Wrong on purpose: do not copy.
for bits in (23, 10, 7):
    some = squared(places, bits)[0, :4].tolist()
    print(bits, "bits:", [round(value, 1) for value in some])

# %% near
around = places - places.mean(0)
for bits in (23, 10, 7):
    some = squared(around, bits)[0, :4].tolist()
    print(bits, "bits:", [round(value, 1) for value in some])

# %% another-word
# Wrong on purpose: do not copy.
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.set_float32_matmul_precision("tf32")

print("UserWarning:", str(caught[0].message).partition(" (Trig")[0])
print(torch.get_float32_matmul_precision())

# %% mixed
# Wrong on purpose: do not copy.
torch.set_float32_matmul_precision("highest")  # sets both names
torch.backends.cuda.matmul.fp32_precision = "tf32"  # sets only the new one
try:
    print(torch.backends.cuda.matmul.allow_tf32)
except RuntimeError as error:
    refused = str(error)
    print("RuntimeError:", refused)

# %% one-way
torch.set_float32_matmul_precision("high")

print(torch.backends.cuda.matmul.allow_tf32)
print(torch.backends.cuda.matmul.fp32_precision)

# %% general
# Wrong on purpose: do not copy.
torch.set_float32_matmul_precision("high")
torch.backends.fp32_precision = "ieee"  # which means all digits
general = torch.backends.fp32_precision
products = torch.backends.cuda.matmul.fp32_precision
torch.backends.fp32_precision = "none"  # as it was

print("general:", general, "products:", products)

# %% everywhere
torch.set_float32_matmul_precision("highest")
torch.backends.cudnn.allow_tf32 = False
all_off = (
    torch.backends.cuda.matmul.allow_tf32,
    torch.backends.cudnn.allow_tf32,
)
torch.backends.cudnn.allow_tf32 = True

print("products, convolutions:", all_off)

# %% on-cuda
if torch.cuda.is_available():
    kelvin = 273.15 + torch.rand(512, 512, device="cuda")
    one = torch.eye(512, device="cuda")
    torch.set_float32_matmul_precision("highest")
    exact = kelvin @ one
    torch.set_float32_matmul_precision("high")
    fewer = kelvin @ one
    torch.set_float32_matmul_precision("highest")
    print(kelvin[0, 0].item(), exact[0, 0].item(), fewer[0, 0].item())

# %% apart
here, there = rounded(torch.tensor([3000.7, 2999.5]), 10)
print(here.item(), there.item(), (here - there).item())

# %% all-digits
from contextlib import contextmanager


@contextmanager
def all_digits():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# %% all-digits-checked
from contextlib import suppress

torch.set_float32_matmul_precision("medium")
with all_digits():
    inside = torch.get_float32_matmul_precision()
ended = torch.get_float32_matmul_precision()
with suppress(ValueError), all_digits():
    raise ValueError
failed = torch.get_float32_matmul_precision()
if inside != "highest":
    print(f"Inside the block, the setting is {inside}.")
elif ended != "medium":
    print(f"It was medium before the block, and is {ended} after it.")
elif failed != "medium":
    print(f"After an error in the block, the setting is {failed}.")
else:
    print(
        "Right: highest inside, and medium again after it and after an error."
    )
