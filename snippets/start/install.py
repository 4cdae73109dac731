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
