"""
A loss that learns nothing
==========================

What a loss does with predictions of shape (N, 1) and targets of shape (N,).
"""

# %% load
import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.nn import functional as F

inputs, targets = load_diabetes(return_X_y=True)
inputs = torch.tensor(inputs, dtype=torch.float32)  # 442 x 10
inputs = inputs / inputs.std(dim=0)
targets = torch.tensor(targets, dtype=torch.float32)  # 442

# %% do-this
torch.manual_seed(0)
model = nn.Linear(10, 1)
predictions = model(inputs)  # (442, 1)

paired = targets.reshape(predictions.shape)  # (442,) -> (442, 1)
loss = F.mse_loss(predictions, paired)

print(predictions.shape, targets.shape, paired.shape)

# %% three
# Wrong on purpose: do not copy.
guesses = torch.tensor([[2.0], [3.0], [5.0]])
answers = torch.tensor([2.0, 3.0, 5.0])
differences = guesses - answers
swapped = guesses - answers.flip(0)

print(differences)
print("loss:", differences.square().mean())
print("loss, answers reversed:", swapped.square().mean())

# %% pairs-drawn
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(4.6, 2.8), layout="constrained")
for panel, wanted in zip(axes, (answers, answers[:, None]), strict=True):
    gaps = guesses - wanted
    for i, j in gaps.isfinite().nonzero().tolist():
        right = gaps.shape[1] == 1 or i == j
        color = "#0072B2" if right else "#D55E00"
        box = plt.Rectangle(
            (j, i), 0.9, 0.9, fill=False, edgecolor=color, lw=2
        )
        panel.add_patch(box)
        middle = {"ha": "center", "va": "center", "size": 12}
        panel.text(j + 0.45, i + 0.45, f"{gaps[i, j]:g}", **middle)
    panel.set_yticks([0.45, 1.45, 2.45], ["guess 2", "guess 3", "guess 5"])
    panel.set(xlim=(-0.1, 3), ylim=(3, -0.1), xticks=[])
    panel.set_title(f"answers {tuple(wanted.shape)}", loc="left")
    panel.set_frame_on(False)
    panel.tick_params(length=0)
fig.suptitle("Each guess minus its own answer (blue) or another's")
plt.show()

# %% pull
guesses.requires_grad_()
flat_loss = (guesses - answers).square().mean()
mean_loss = (guesses - answers.mean()).square().mean()
[pull] = torch.autograd.grad(flat_loss, guesses)
[pull_to_mean] = torch.autograd.grad(mean_loss, guesses)

print(pull.flatten(), pull_to_mean.flatten(), sep="\n")


# %% train
def train(targets):
    torch.manual_seed(0)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(100):
        loss = (model(inputs) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), model(inputs).detach()


# %% train-both
right_loss, right_guesses = train(targets[:, None])
flat_loss, flat_guesses = train(targets)

print(f"targets (442, 1): loss {right_loss:.0f}")
print(f"targets (442,):   loss {flat_loss:.0f}")
print(f"variance of the targets: {targets.var(correction=0):.0f}")

# %% fits-drawn
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(5.4, 3), layout="constrained")
fits = {"targets (442, 1)": right_guesses, "targets (442,)": flat_guesses}
for panel, (title, guessed) in zip(axes, fits.items(), strict=True):
    panel.scatter(targets, guessed, s=6, color="#0072B2", alpha=0.6)
    panel.set(title=title, xlabel="target", ylim=(0, 350))
axes[0].set_ylabel("prediction")
fig.suptitle("Predictions after training")
plt.show()

# %% accuracy
# Wrong on purpose: do not copy.
labels = torch.arange(10).repeat(20)  # 200 labels, 10 classes
scores = F.one_hot(labels, 10).float()  # of a model that is always right
predicted = scores.argmax(dim=1, keepdim=True)  # (200, 1)
accuracy = (predicted == labels).float().mean()

print(f"should be 100%, is: {accuracy:.0%}")

# %% losses
names = ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]
names += ["binary_cross_entropy", "binary_cross_entropy_with_logits"]
names += ["soft_margin_loss", "cross_entropy", "nll_loss", "poisson_nll_loss"]
losses = {name: getattr(F, name) for name in names} | {
    "kl_div": lambda g, t: F.kl_div(g.log(), t, reduction="batchmean"),
    "gaussian_nll_loss": lambda g, t: F.gaussian_nll_loss(g, t, g * 0 + 1),
    "((g - t) ** 2).mean()": lambda g, t: ((g - t) ** 2).mean(),
}


# %% outcome
import warnings


def outcome(loss, guesses, targets):
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            value = f"{loss(guesses, targets):.3f}"
        except (RuntimeError, ValueError) as error:
            return "raises", "", f"{type(error).__name__}: {error}"
    texts = [f"{each.category.__name__}: {each.message}" for each in caught]
    return "warns" if texts else "is silent", value, "".join(texts)


# %% outcomes
share = torch.tensor([0.2, 0.3, 0.5])  # guesses and targets alike
outcomes, texts = {}, {}
for name, loss in losses.items():
    what, value, text = outcome(loss, share[:, None], share)
    right = outcome(loss, share[:, None], share[:, None])[1] if value else ""
    outcomes[name] = {"outcome": what, "loss": value, "should be": right}
    texts.setdefault(text, []).append(name)

# %% outcomes-table
import pandas as pd

pd.DataFrame.from_dict(outcomes, orient="index")

# %% texts
for text, raised_by in texts.items():
    if text:
        print(", ".join(raised_by) + ":", text, sep="\n", end="\n\n")

# %% error-from-warning
with warnings.catch_warnings():
    warnings.filterwarnings("error", message="Using a target size")
    try:
        F.mse_loss(predictions, targets)
    except UserWarning as error:
        print(error)

# %% small
guess, answer = torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 3.0])
print((guess - answer).abs().mean())


# %% strict-loss
def strict_mse(predictions, targets):
    if predictions.shape != targets.shape:
        raise ValueError(f"{predictions.shape} against {targets.shape}")
    return F.mse_loss(predictions, targets)


# %% strict-loss-checked
column, flat = torch.ones(3, 1), torch.zeros(3)
complaints = []
for left, right in ((column, flat), (flat, column)):
    try:
        strict_mse(left, right)
        complaints.append(f"no error for {left.shape} and {right.shape}")
    except ValueError as error:
        print("Right, this raises an error:", error)
if strict_mse(column, flat[:, None]) != 1:
    complaints.append("equal shapes should give the usual loss")
print("Not yet: " + ", ".join(complaints) if complaints else "All right")
