"""
Choose sizes
============

Pad a size to a multiple, and keep the result what it was.
"""

# %% every-number
import torch
from torch import nn
from torch.nn import functional as F

sizes = [1, 7, 8, 50257]

print([size % 2**0 == 0 for size in sizes])


# %% pad-to
def pad_to(size, multiple):
    return -(-size // multiple) * multiple


print([pad_to(size, 8) for size in sizes], pad_to(50257, 64))

# %% cost
vocabulary, width = 50257, 768
for multiple in (8, 64, 128):
    more = pad_to(vocabulary, multiple) - vocabulary
    print(multiple, "rows:", more, "bytes:", 4 * more * width)

# %% padded-head
torch.manual_seed(0)
head = nn.Linear(16, 10)  # ten classes
padded = nn.Linear(16, pad_to(10, 8))
with torch.no_grad():
    padded.weight[:10], padded.bias[:10] = head.weight, head.bias

inputs, targets = torch.randn(5, 16), torch.randint(10, (5,))

# %% wrong-loss
right_loss = F.cross_entropy(head(inputs), targets)
wrong_loss = F.cross_entropy(padded(inputs), targets)

print(torch.isclose(right_loss, wrong_loss).item())

# %% cut-off
cut_loss = F.cross_entropy(padded(inputs)[:, :10], targets)
right_loss.backward()
cut_loss.backward()
same_gradient = torch.allclose(padded.weight.grad[:10], head.weight.grad)
rest = padded.weight.grad[10:].abs().max().item()

print(torch.isclose(right_loss, cut_loss).item(), same_gradient, rest)

# %% masked
logits = padded(inputs)
logits[:, 10:] = float("-inf")
masked_loss = F.cross_entropy(logits, targets)

print(torch.isclose(right_loss, masked_loss).item())

# %% precision
print(torch.get_float32_matmul_precision())
print(torch.backends.cudnn.allow_tf32)
