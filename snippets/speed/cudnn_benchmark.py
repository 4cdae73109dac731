"""
torch.backends.cudnn.benchmark: let cuDNN choose
================================================

What torch.backends.cudnn.benchmark applies to, and how to set it.
"""

# %% imports
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

# %% switch
print("before:", torch.backends.cudnn.benchmark)
torch.backends.cudnn.benchmark = True
print("now:", torch.backends.cudnn.benchmark)

# %% last-batch
for drop_last in (False, True):
    loader = DataLoader(range(100), batch_size=32, drop_last=drop_last)
    print(drop_last, [len(batch) for batch in loader])


# %% recordings
def pad_to(recording, multiple):
    return F.pad(recording, (0, -recording.shape[-1] % multiple))


torch.manual_seed(0)
lengths = torch.randint(8_000, 56_001, (200,)).tolist()  # at 16,000 a second
recordings = [torch.randn(length) for length in lengths]
padded = [len(pad_to(recording, 8_000)) for recording in recordings]

# %% sizes
searches = {
    name: [len(set(sizes[: i + 1])) for i in range(len(sizes))]
    for name, sizes in (("as they are", lengths), ("padded", padded))
}

for name, counts in searches.items():
    print(f"{name}: {counts[-1]} sizes in 200 batches")

# %% sizes-drawn
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for (name, counts), color in zip(
    searches.items(), ("#D55E00", "#0072B2"), strict=True
):
    axis.plot(range(1, 201), counts, color=color, label=name)
axis.set_title("Each new size is a search")
axis.set_xlabel("batches so far")
axis.set_ylabel("sizes met so far")
axis.legend()
plt.show()


# %% kernels
if torch.cuda.is_available():

    def kernels_called(layer, size):
        image = torch.randn(8, 16, size, size, device="cuda")
        torch.cuda.synchronize()
        with torch.profiler.profile() as profiler:
            layer(image)
            torch.cuda.synchronize()
        events = profiler.key_averages()
        on_cuda = torch.autograd.DeviceType.CUDA
        return sum(e.count for e in events if e.device_type == on_cuda)


# %% search-per-shape
if torch.cuda.is_available():
    layer = nn.Conv2d(16, 32, 3, device="cuda")
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        kernels_called(layer, 40)  # loads what is needed
        print("a new size:", new_size := kernels_called(layer, 48), "kernels")
        print("once more:", same_size := kernels_called(layer, 48), "kernels")

# %% misspelt
# Wrong on purpose: do not copy.
torch.backends.cudnn.benchmark = False
torch.backends.cudnn.benchmrk = True
still = torch.backends.cudnn.benchmark
print(still)

try:
    torch.backends.cudn.benchmark = True
except AttributeError as error:
    said = str(error)
    print("AttributeError:", said)

del torch.backends.cudnn.benchmrk


# %% switches
def switches():
    cudnn = torch.backends.cudnn
    return {
        name: getattr(cudnn, name)
        for name in ("enabled", "benchmark", "deterministic", "allow_tf32")
    }


# %% flags-wrong
# Wrong on purpose: do not copy.
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.allow_tf32 = False
with torch.backends.cudnn.flags(benchmark=True):
    unnamed = switches()

print(unnamed)

# %% flags-right
with torch.backends.cudnn.flags(
    enabled=True, benchmark=True, deterministic=True, allow_tf32=False
):
    named = switches()
after = switches()

print(named)
print(after)

# %% new-name
# Wrong on purpose: do not copy.
torch.backends.cudnn.allow_tf32 = True  # the default
torch.backends.cudnn.conv.fp32_precision = "ieee"  # no TF32
try:
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        pass
except RuntimeError as error:
    refused = str(error)
    print("RuntimeError:", refused)
torch.backends.cudnn.allow_tf32 = True

# %% deterministic
torch.backends.cudnn.deterministic = False
torch.backends.cudnn.benchmark = True
one = switches()
torch.backends.cudnn.deterministic = True
both = switches()
torch.backends.cudnn.benchmark = False
other = switches()

print(one, both, other, sep="\n")

# %% on-the-cpu
layer = nn.Conv2d(3, 8, kernel_size=3)
images = torch.randn(4, 3, 16, 16)
off = layer(images)
with torch.backends.cudnn.flags(enabled=True, benchmark=True):
    on = layer(images)

print((on - off).abs().max().item())
