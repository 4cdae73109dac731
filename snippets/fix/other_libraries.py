"""
Another library fails
=====================

Scores that are no numbers, which end in an error when a token is drawn.
"""

# %% sample
import torch

scores = torch.tensor([1.0, 2.0, torch.nan])
shares = scores.softmax(dim=0)

try:
    torch.multinomial(shares, num_samples=1)
except RuntimeError as error:
    print(error, end="\n\n")

print(shares.tolist())

# %% overflow
row = torch.full((64,), 40.0)
products = {
    dtype: (row.to(dtype) @ row.to(dtype)).item()
    for dtype in (torch.float16, torch.bfloat16)
}

print(products)
