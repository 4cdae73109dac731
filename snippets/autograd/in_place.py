"""
Change a tensor in place
========================

What an in-place change overwrites, and how to fix the error that follows.
"""

# %% weights
import torch
from torch import nn

x, y = torch.tensor(1.0), torch.tensor(10.0)
encoder_weight = torch.tensor(3.0, requires_grad=True)
head_weight = torch.tensor(2.0, requires_grad=True)

# %% do-this
hidden = encoder_weight * x  # 3
prediction = head_weight * hidden  # 2 * 3 = 6
hidden = hidden + 1  # instead of hidden += 1
loss = (prediction - y) ** 2 + hidden  # 16 + 4
loss.backward()

with torch.no_grad():
    head_weight -= 0.01 * head_weight.grad

print("hidden:", hidden.item(), "gradient:", head_weight.grad.item())
print(head_weight)

# %% overwritten
# Wrong on purpose: do not copy.
head_weight = torch.tensor(2.0, requires_grad=True)
hidden = encoder_weight * x
prediction = head_weight * hidden  # saves hidden, at version 0
hidden += 1
print("hidden:", hidden.item(), "version:", hidden._version)

loss = (prediction - y) ** 2
try:
    loss.backward()
except RuntimeError as error:
    print(error)


# %% two-ways
def saved_and_hidden(add_one):
    hidden = encoder_weight * x
    prediction = head_weight * hidden
    saved = prediction.grad_fn._saved_other  # what the product has saved
    return saved, add_one(hidden)


ways = {
    "hidden = hidden + 1": saved_and_hidden(lambda hidden: hidden + 1),
    "hidden += 1": saved_and_hidden(lambda hidden: hidden.add_(1)),
}

# %% memory
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(5.6, 2.4), layout="constrained")
for ax, (way, (saved, hidden)) in zip(axes, ways.items(), strict=True):
    shared = saved.data_ptr() == hidden.data_ptr()
    color = "#D55E00" if shared else "#0072B2"
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": color}
    look = {"ha": "center", "va": "center", "size": 10}
    for name, tensor, row in (("saved", saved, 1), ("hidden", hidden, 0)):
        ax.plot([0.2, 0.7], [row, 0.5 if shared else row], "black")
        ax.text(0, row, name, **look)
        held = f"{tensor.item():g}\nversion {tensor._version}"
        ax.text(1, 0.5 if shared else row, held, bbox=box, **look)
    ax.set(title=way, xlim=(-0.3, 1.4), ylim=(-0.5, 1.5))
    ax.axis("off")
plt.show()

# %% before-saving
hidden = encoder_weight * x
hidden += 1  # before the head uses it
prediction = head_weight * hidden  # 2 * 4 = 8
loss = (prediction - y) ** 2
[gradient] = torch.autograd.grad(loss, head_weight)
print(gradient)

# %% view
hidden = encoder_weight * torch.tensor([1.0, 2.0])  # 3 and 6
first = hidden[:1]
first += 1

print(hidden)
print("versions:", first._version, hidden._version)


# %% error-of
def error_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)


# %% exp
# Wrong on purpose: do not copy.
rate = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
growth = rate.exp()
growth += 1
growth *= 2
said = error_of(growth.sum().backward)
print(said)

# %% linear-weight
# Wrong on purpose: do not copy.
layer, inputs = nn.Linear(4, 1), torch.ones(2, 4, requires_grad=True)
print("version of a new weight:", layer.weight._version)
output = layer(inputs)
with torch.no_grad():
    layer.weight += 1
said = error_of(output.sum().backward)
print(said)

# %% find-the-line
import warnings

with (
    warnings.catch_warnings(record=True, action="always") as caught,
    torch.autograd.detect_anomaly(),
):
    hidden = encoder_weight * x
    prediction = head_weight * hidden
    hidden += 1
    error_of(prediction.backward)

print(str(caught[-1].message).splitlines()[-2].strip())

# %% fixes
hidden = encoder_weight * torch.tensor([1.0, 2.0])  # 3 and 6
prediction = head_weight * hidden  # saves hidden

plus_one = hidden + 1
only_small = hidden.masked_fill(hidden > 5, 0)
capped = torch.where(hidden > 5, 5, hidden)
changed = hidden.clone()
changed[0] = 7

[gradient] = torch.autograd.grad(prediction.sum(), head_weight)
print(plus_one.tolist(), only_small.tolist(), capped.tolist())
print(changed.tolist(), "gradient:", gradient.item())


# %% two-losses
def train_on_two_losses(step_between, fused=False):
    encoder_weight = torch.tensor(3.0, requires_grad=True)
    head_weight = torch.tensor(2.0, requires_grad=True)
    weights = [encoder_weight, head_weight]
    optimizer = torch.optim.SGD(weights, lr=1.0, fused=fused)
    prediction = head_weight * (encoder_weight * x)  # 2 * 3 = 6
    prediction.backward(retain_graph=True)  # the first loss
    if step_between:
        optimizer.step()
    optimizer.zero_grad()
    (prediction**2).backward()  # the second loss
    return encoder_weight.grad


# %% step-between
# Wrong on purpose: do not copy.
said = error_of(lambda: train_on_two_losses(step_between=True))
print(said)


# %% steps
# Wrong on purpose: do not copy.
def written(factor, years):
    balances = torch.ones(years)
    for year in range(1, years):
        balances[year] = factor * balances[year - 1]
    return balances.sum()


factor = torch.tensor(2.0, requires_grad=True)
total = written(factor, 4)  # 1 + 2 + 4 + 8
print(error_of(total.backward))


# %% steps-in-a-list
def collected(factor, years):
    balances = [torch.tensor(1.0)]
    for year in range(1, years):
        balances.append(factor * balances[year - 1])
    return torch.stack(balances).sum()


collected(factor, 4).backward()
print(factor.grad)

# %% leaves
# Wrong on purpose: do not copy.
weights = torch.tensor([2.0, 3.0], requires_grad=True)
attempts = {
    "a weight": lambda: weights.add_(1),
    "a slice of a weight": lambda: weights[:1].zero_(),
}
for attempt in attempts.values():
    print(error_of(attempt))

# %% data
# Wrong on purpose: do not copy.
hidden = encoder_weight * x
prediction = head_weight * hidden
hidden.data += 1
((prediction - y) ** 2).backward()
print(head_weight.grad)

# %% step-fused
# Wrong on purpose: do not copy.
right = train_on_two_losses(step_between=False)
wrong = train_on_two_losses(step_between=True, fused=True)
print("should be:", right.item(), "is:", wrong.item())

# %% twice-overwritten
weight = torch.tensor(3.0, requires_grad=True)
hidden = weight * 2
hidden += 1
(hidden**2).backward()
print(weight.grad)

# %% shares
scores = torch.tensor([1.0, 2.0, 5.0], requires_grad=True)
powers = scores.exp()
shares = powers / powers.sum()

# %% shares-checked
said = error_of(lambda: shares[0].backward(retain_graph=True))
if said:
    verdict = f"not yet: {said}"
elif not torch.allclose(shares, scores.softmax(0)):
    verdict = f"not yet: the shares are {shares.tolist()}"
else:
    verdict = "right: the shares add up to 1, and backward() runs"
print(verdict)
