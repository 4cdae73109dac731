"""
Install PyTorch
===============

Compute something on the device that PyTorch finds.
"""

# %% check
import torch

device = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
)
numbers = torch.tensor([1.0, 2.0, 3.0], device=device)

print("torch", torch.__version__, "on", device)
print("1 + 4 + 9 =", (numbers**2).sum().item())

# %% gpu
print("built for CUDA", torch.version.cuda)
print("with kernels for", torch.cuda.get_arch_list())
if torch.cuda.is_available():
    print("found", torch.cuda.get_device_name())
    print("of compute capability", torch.cuda.get_device_capability())

# %% builds
from torch.cuda import PYTORCH_RELEASES_CODE_CC as kernels
from torch.cuda import _code_compatible_with_device as runs_on

gpus = {"Tesla K80": 37, "GTX 980": 52, "GTX 1080": 61, "V100": 70}
gpus |= {"T4, RTX 2080": 75, "A100": 80, "RTX 3090": 86, "RTX 4090": 89}
gpus |= {"H100": 90, "B200": 100, "RTX 5090": 120}

builds = {}
print("a GPU, its capability, and the builds with kernels for it")
for gpu, capability in gpus.items():
    builds[gpu] = [
        cuda
        for cuda, codes in kernels.items()
        if any(runs_on(capability, sm) for sm in codes["x86_64"])
    ]
    print(f"{gpu:13} {capability / 10:4}  {', '.join(builds[gpu]) or 'none'}")

# %% too-old
import warnings
from unittest.mock import patch

as_if = {
    "device_count": lambda: 1,
    "get_device_name": lambda _: "NVIDIA GeForce GTX 1080",
    "get_device_capability": lambda _: (6, 1),
    "get_arch_list": lambda: [
        f"sm_{sm}" for sm in sorted(kernels["13.0"]["x86_64"])
    ],
}

# %% warned
with (
    patch.multiple(torch.cuda, **as_if),
    patch.object(torch.version, "cuda", "13.0"),
    warnings.catch_warnings(record=True) as caught,
):
    warnings.simplefilter("always")
    torch.cuda._check_cubins()
    torch.cuda._check_capability()

print(*[each.message for each in caught], sep="\n")
