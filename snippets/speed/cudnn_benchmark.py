"""
Let cuDNN choose
================

What torch.backends.cudnn.benchmark applies to, and how to set it.
"""

# %% default
import torch
from torch import nn

print(torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic)

# %% misspelt
torch.backends.cudnn.benchmrk = True

print(torch.backends.cudnn.benchmark)

try:
    torch.backends.cudn.benchmark = True
except AttributeError as error:
    print(error)

# %% for-a-while
with torch.backends.cudnn.flags(enabled=True, benchmark=True):
    inside = torch.backends.cudnn.benchmark
outside = torch.backends.cudnn.benchmark

with torch.backends.cudnn.flags(benchmark=True):
    enabled_unless_told = torch.backends.cudnn.enabled

print(inside, outside, enabled_unless_told)

# %% on-the-cpu
torch.manual_seed(0)
layer = nn.Conv2d(3, 8, kernel_size=3)
images = torch.randn(4, 3, 16, 16)
plain = layer(images)
with torch.backends.cudnn.flags(enabled=True, benchmark=True):
    chosen = layer(images)

print(torch.equal(plain, chosen))

# %% deterministic
with torch.backends.cudnn.flags(
    enabled=True, benchmark=True, deterministic=True
):
    both = (
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
    )

print(both)

# %% sizes-of-an-epoch
lengths = [31, 47, 31, 52, 47, 60, 33, 31]
padded = [-(-length // 16) * 16 for length in lengths]

print(len(set(lengths)), len(set(padded)))


# %% kernels
def kernels_called(size):
    layer = nn.Conv2d(16, 32, 3, device="cuda")
    image = torch.randn(8, 16, size, size, device="cuda")
    torch.cuda.synchronize()
    with torch.profiler.profile() as profiler:
        layer(image)
        torch.cuda.synchronize()
    return sum(
        event.count
        for event in profiler.key_averages()
        if event.device_type == torch.autograd.DeviceType.CUDA
    )


# %% search-per-shape
if torch.cuda.is_available():
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        kernels_called(40)  # loads what is needed
        new_shape = kernels_called(48)
        same_shape = kernels_called(48)
    print(new_shape > same_shape)
